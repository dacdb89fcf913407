//! The bytes of requests and answers: how many, how compressed.
//!
//! Invariants
//!  - *bounded*: a body has [`BODY_BYTES_MAX`] bytes at most, packed and unpacked; those of a shard
//!    together, so many that none starves the node.

use crate::error::{Error, Kind};
use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::read::MultiGzDecoder;
use flate2::write::{GzEncoder, ZlibEncoder};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use runtime::sync::{Permit, Semaphore};
use runtime::task::yield_if_needed;
use runtime::time::timeout;
use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Of one body.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;
/// Of those that a shard reads at the same time, in units.
const SHARD_UNITS: usize = 64;
const UNIT_BYTES: usize = 1 << 20;
/// What a packed body may take, whatever it has itself.
const UNPACKED_UNITS: usize = BODY_BYTES_MAX / UNIT_BYTES;
const _: () = assert!(2 * UNPACKED_UNITS <= SHARD_UNITS, "bounded: the largest body finds room");
/// What is unpacked before others have their turn.
const STEP_BYTES: usize = 256 << 10;
/// Bodies that wait for their turn.
const WAITING_MAX: usize = 256;
/// A body has to be there after so long.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Room for the bodies of a shard. Stands in `runtime::local`.
struct Bodies(Semaphore);

impl Default for Bodies {
    fn default() -> Bodies {
        Bodies(Semaphore::new(SHARD_UNITS, WAITING_MAX))
    }
}

fn too_large() -> Error {
    Error::new(Kind::TooLarge, format!("the request has more than {BODY_BYTES_MAX} bytes"))
}

/// Room for so many units more, of what the bodies of the shard may have.
async fn acquired(units: usize) -> Result<Permit, Error> {
    debug_assert!(units <= SHARD_UNITS, "bounded: {units} units are never free");
    let bodies = runtime::local::get_or_default::<Bodies>();
    let busy = |_| Error::new(Kind::RequestLimitExceeded, "too many large requests");
    bodies.0.acquire(units).await.map_err(busy)
}

/// The room that a body needs before it is read: a small one none. One that is packed, and not
/// small, has that of what it may unpack to from the start, for who waits for more while he has
/// some may wait for ever.
fn units_before(bytes: usize, is_packed: bool) -> usize {
    match bytes.div_ceil(UNIT_BYTES) {
        0 | 1 => 0,
        units if is_packed => units + UNPACKED_UNITS,
        units => units,
    }
}

/// All of a body, with the room that it has taken. (*bounded*)
pub(crate) async fn collected(
    body: Incoming,
    is_packed: bool,
) -> Result<(Bytes, Option<Permit>), Error> {
    let told = body.size_hint().upper().unwrap_or(BODY_BYTES_MAX as u64);
    if BODY_BYTES_MAX as u64 <= told && body.size_hint().upper().is_some() {
        return Err(too_large());
    }
    let room = match units_before(told as usize, is_packed) {
        0 => None,
        units => Some(acquired(units).await?),
    };
    let collected = timeout(BODY_TIME_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok((body.to_bytes(), room)),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Error::serialization(format!("cannot read the request: {error}"))),
        Err(_) => {
            let text = format!("the body did not come within {BODY_TIME_MAX:?}");
            Err(Error::serialization(text))
        }
    }
}

/// What was packed as `encoding` says. A small body may unpack to a large one, which takes its room
/// when that is seen; `room` is what the packed one has. The shard serves others meanwhile.
/// (*bounded*)
pub(crate) async fn unpacked(
    body: &[u8],
    encoding: &str,
    room: &mut Option<Permit>,
) -> Result<Vec<u8>, Error> {
    let mut unpacking: Box<dyn Read + '_> = match encoding.trim().to_ascii_lowercase().as_str() {
        "gzip" if body.is_empty() => Box::new(Cut),
        "gzip" => Box::new(MultiGzDecoder::new(body)),
        "deflate" => Box::new(Inflating(ZlibDecoder::new(body))),
        other => return Err(Error::internal(format!("Unsupported Content-Encoding: {other}"))),
    };
    let damaged = |error| Error::internal(format!("the body is not {encoding}: {error}"));
    let mut out = Vec::new();
    loop {
        let before = out.len();
        let step = unpacking.by_ref().take(STEP_BYTES as u64).read_to_end(&mut out);
        step.map_err(damaged)?;
        if out.len() - before < STEP_BYTES {
            return if BODY_BYTES_MAX < out.len() { Err(too_large()) } else { Ok(out) };
        }
        if BODY_BYTES_MAX < out.len() {
            return Err(too_large());
        }
        if room.is_none() && UNIT_BYTES <= out.len() {
            *room = Some(acquired(UNPACKED_UNITS).await?);
        }
        yield_if_needed().await;
    }
}

/// A packed body that has ended before it began.
struct Cut;

impl Read for Cut {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(ErrorKind::UnexpectedEof.into())
    }
}

/// One packed part after the other.
struct Inflating<'b>(ZlibDecoder<&'b [u8]>);

impl Read for Inflating<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let count = self.0.read(into)?;
            let left: &[u8] = self.0.get_ref();
            if 0 < count || into.is_empty() || left.is_empty() {
                return Ok(count);
            }
            self.0 = ZlibDecoder::new(left);
        }
    }
}

/// How an answer is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Deflate,
}

impl Packing {
    /// As the header says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Deflate => "deflate",
        }
    }

    /// The one that a client likes best of those that there are, by its `Accept-Encoding`: `*` is
    /// whatever it does not name.
    pub(crate) fn accepted(header: &str) -> Option<Packing> {
        let (mut weighed, mut others) = (Vec::new(), 0.0);
        for part in header.split(',') {
            let mut words = part.split(';').map(str::trim);
            let name = words.next().unwrap_or_default().to_ascii_lowercase();
            let weight = words.find_map(|word| word.strip_prefix("q=")?.trim().parse().ok());
            let weight: f64 = weight.unwrap_or(1.0);
            match name.as_str() {
                "gzip" => weighed.push((Packing::Gzip, weight)),
                "deflate" => weighed.push((Packing::Deflate, weight)),
                "*" => others = weight,
                _ => {}
            }
        }
        for packing in [Packing::Gzip, Packing::Deflate] {
            if !weighed.iter().any(|(named, _)| *named == packing) {
                weighed.push((packing, others));
            }
        }
        // Of those that weigh the same the first.
        let heavier = |best: (Packing, f64), one: (Packing, f64)| match best.1 < one.1 {
            true => one,
            false => best,
        };
        weighed.into_iter().reduce(heavier).filter(|(_, weight)| 0.0 < *weight).map(|(it, _)| it)
    }

    pub(crate) fn pack(self, body: &[u8], level: u32) -> std::io::Result<Vec<u8>> {
        let level = Compression::new(level);
        match self {
            Packing::Gzip => {
                let mut packer = GzEncoder::new(Vec::new(), level);
                packer.write_all(body)?;
                packer.finish()
            }
            Packing::Deflate => {
                let mut packer = ZlibEncoder::new(Vec::new(), level);
                packer.write_all(body)?;
                packer.finish()
            }
        }
    }
}

/// Bytes of an answer from which on it leaves in pieces.
const LARGE_BYTES: usize = 100 << 10;
const PIECE_BYTES: usize = 64 << 10;

/// An answer on its way out.
pub(crate) struct Outgoing {
    left: Bytes,
    /// Whether its length is told before.
    is_told: bool,
}

impl Outgoing {
    pub(crate) fn new(bytes: Vec<u8>) -> Outgoing {
        Outgoing { is_told: bytes.len() < LARGE_BYTES, left: Bytes::from(bytes) }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.left.len().min(PIECE_BYTES);
        let piece = self.left.split_to(bytes);
        Poll::Ready((!piece.is_empty()).then_some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_told { SizeHint::with_exact(self.left.len() as u64) } else { SizeHint::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_heaviest_packing_is_taken() {
        let check = |header: &str, expected: Option<Packing>| {
            assert_eq!(Packing::accepted(header), expected, "{header}");
        };
        check("", None);
        check("identity", None);
        check("gzip, deflate", Some(Packing::Gzip));
        check("gzip;q=0.5, deflate;q=0.8", Some(Packing::Deflate));
        check("gzip;q=0", None);
        check("br, *;q=0.1", Some(Packing::Gzip));
        check("*, deflate", Some(Packing::Deflate));
        check("*, gzip;q=0.5", Some(Packing::Deflate));
        check("deflate, gzip", Some(Packing::Deflate));
    }

    /// What a body unpacks to, and whether it took room for that.
    fn unpack(body: &[u8], encoding: &'static str) -> (Result<Vec<u8>, Error>, bool) {
        let body = body.to_vec();
        runtime::testing::block_on_with(runtime::Config::new(1), move || async move {
            let mut room = None;
            let unpacked = unpacked(&body, encoding, &mut room).await;
            (unpacked, room.is_some())
        })
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        for packing in [Packing::Gzip, Packing::Deflate] {
            let pack = |bytes: usize| packing.pack(&vec![0; bytes], 9).unwrap();
            let (refused, _) = unpack(&pack(BODY_BYTES_MAX + 1), packing.name());
            assert_eq!(refused.unwrap_err().kind, Kind::TooLarge);
            for (bytes, has_room) in [(1, false), (UNIT_BYTES - 1, false), (UNIT_BYTES, true)] {
                let (found, room) = unpack(&pack(bytes), packing.name());
                assert_eq!((found.unwrap().len(), room), (bytes, has_room));
            }
            let (found, room) = unpack(&pack(BODY_BYTES_MAX), packing.name());
            assert_eq!((found.unwrap().len(), room), (BODY_BYTES_MAX, true));
        }
        assert!(unpack(b"x", "br").0.is_err());
        assert!(unpack(b"", "gzip").0.is_err());
    }

    #[test]
    fn parts_follow_each_other() {
        for packing in [Packing::Gzip, Packing::Deflate] {
            let parts = [&b"one"[..], b"", b"two"].map(|part| packing.pack(part, 6).unwrap());
            assert_eq!(unpack(&parts.concat(), packing.name()).0.unwrap(), b"onetwo");
        }
    }

    #[test]
    fn who_waits_for_room_has_none() {
        assert_eq!(units_before(UNIT_BYTES, true), 0);
        assert_eq!(units_before(2 * UNIT_BYTES, false), 2);
        let largest = units_before(BODY_BYTES_MAX, true);
        assert!(UNPACKED_UNITS < largest && largest <= SHARD_UNITS);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn packed_bodies_go_both_ways(body: Vec<u8>, at: usize, byte: u8) {
            for packing in [Packing::Gzip, Packing::Deflate] {
                let mut packed = packing.pack(&body, 6).unwrap();
                prop_assert_eq!(&unpack(&packed, packing.name()).0.unwrap(), &body);
                let at = at % packed.len();
                packed[at] = byte;
                let _ = unpack(&packed, packing.name());
            }
        }
    }
}
