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

/// All of a body, with the room that it has taken. (*bounded*)
pub(crate) async fn collected(body: Incoming) -> Result<(Bytes, Option<Permit>), Error> {
    let told = body.size_hint().upper().unwrap_or(BODY_BYTES_MAX as u64);
    if BODY_BYTES_MAX as u64 <= told && body.size_hint().upper().is_some() {
        return Err(too_large());
    }
    let room = match (told as usize).div_ceil(UNIT_BYTES) {
        0 | 1 => None,
        units => {
            let bodies = runtime::local::get_or_default::<Bodies>();
            let busy = |_| Error::new(Kind::RequestLimitExceeded, "too many large requests");
            Some(bodies.0.acquire(units.min(SHARD_UNITS)).await.map_err(busy)?)
        }
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

/// What was packed as `encoding` says.
pub(crate) fn unpacked(body: &[u8], encoding: &str) -> Result<Vec<u8>, Error> {
    let read = match encoding.trim().to_ascii_lowercase().as_str() {
        "gzip" => ungzipped(body),
        "deflate" => undeflated(body),
        other => return Err(Error::internal(format!("Unsupported Content-Encoding: {other}"))),
    };
    let damaged = |error| Error::internal(format!("the body is not {encoding}: {error}"));
    let out = read.map_err(damaged)?;
    if BODY_BYTES_MAX < out.len() { Err(too_large()) } else { Ok(out) }
}

/// One byte more than a body may have, so that it is seen.
const READ_BYTES_MAX: u64 = BODY_BYTES_MAX as u64 + 1;

fn ungzipped(body: &[u8]) -> std::io::Result<Vec<u8>> {
    if body.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut out = Vec::new();
    MultiGzDecoder::new(body).take(READ_BYTES_MAX).read_to_end(&mut out)?;
    Ok(out)
}

/// Of one packed part after the other.
fn undeflated(mut body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let left = READ_BYTES_MAX.saturating_sub(out.len() as u64);
        let mut part = ZlibDecoder::new(&mut body).take(left);
        part.read_to_end(&mut out)?;
        if body.is_empty() || READ_BYTES_MAX <= out.len() as u64 {
            return Ok(out);
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

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let bomb = Packing::Gzip.pack(&vec![0; BODY_BYTES_MAX + 1], 9).unwrap();
        assert_eq!(unpacked(&bomb, "gzip").unwrap_err().kind, Kind::TooLarge);
        assert!(unpacked(b"x", "br").is_err());
    }

    proptest! {
        #[test]
        fn packed_bodies_go_both_ways(body: Vec<u8>, at: usize, byte: u8) {
            for packing in [Packing::Gzip, Packing::Deflate] {
                let mut packed = packing.pack(&body, 6).unwrap();
                prop_assert_eq!(&unpacked(&packed, packing.name()).unwrap(), &body);
                let at = at % packed.len();
                packed[at] = byte;
                let _ = unpacked(&packed, packing.name());
            }
        }
    }
}
