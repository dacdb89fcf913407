//! Batches as they travel: bodies compressed as the link agreed on, headers and short bodies copied
//! together into parcels, long ones as they are.
//!
//! Invariants
//!  - *agreed-algorithms*, *zstd-within-quota*: see `algorithms`.
//!  - *short-or-alone*: see [`crate::parcel`].

use crate::algorithms::{Algorithms, Compression, ZstdRules};
use crate::budget::Pair;
use crate::compress::{self, BYTES_MIN};
use crate::frame::{HEADER_BYTES, Header};
use crate::outbox::{COPIED_BYTES_MAX, Frame};
use crate::parcel::{self, HEAD_BYTES, PARCEL_BYTES_MAX};
use crate::payload::{Head, Payload};
use crate::services::Services;
use runtime::net::Part;
use runtime::sync::Permit;
use runtime::time::Instant;
use std::mem::take;

/// Longer bodies are compressed by a helper thread.
const COMPRESSED_HERE_MAX: usize = 64 << 10;

const _: () = assert!(
    HEADER_BYTES + 2 * COPIED_BYTES_MAX <= PARCEL_BYTES_MAX,
    "short-or-alone: what is copied fits"
);

/// What a batch holds until it has left: of one kind all together.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pair: Pair,
    others: Vec<Permit>,
}

impl Held {
    fn add(&mut self, pair: Pair) {
        debug_assert!(
            self.others.is_empty() || self.pair.iter().any(Option::is_some),
            "bounded-memory: permits of others are held alone"
        );
        for (held, more) in self.pair.iter_mut().zip(pair) {
            let Some(more) = more else { continue };
            match held {
                None => *held = Some(more),
                Some(held) => self.others.extend(held.join(more)),
            }
        }
    }
}

/// Frames on their way into parcels.
pub(crate) struct Parcels {
    held: Held,
    parts: Vec<Part>,
    /// What is copied, behind those.
    copied: Vec<u8>,
    /// Where in it the parcel begins that has room for more.
    open: Option<usize>,
}

impl Parcels {
    /// With room for so many bytes of frames.
    pub(crate) fn with_room(bytes: usize) -> Parcels {
        let copied = Vec::with_capacity(bytes + HEAD_BYTES * (1 + 2 * bytes / PARCEL_BYTES_MAX));
        Parcels { held: Held::default(), parts: Vec::new(), copied, open: None }
    }

    /// A frame as it is.
    fn put_plain(&mut self, frame: Frame) {
        self.held.add(frame.memory);
        let bytes = frame.payload.len() as u32;
        let header = Header { body_bytes: bytes, raw_bytes: bytes, ..frame.header };
        debug_assert!(!header.is_compressed(), "worth-it: {header:?} is as it was");
        let (head, body) = frame.payload.into_parts();
        self.put(&header, head, body);
    }

    /// A frame, whose body is in two parts.
    fn put(&mut self, header: &Header, first: Head, second: Option<Part>) {
        let second_bytes = second.as_ref().map_or(0, |part| part.len());
        if COPIED_BYTES_MAX < first.len().max(second_bytes) {
            return self.put_alone(header, Part::Owned(first.into_vec()), second);
        }
        let bytes = HEADER_BYTES + first.len() + second_bytes;
        let room = |start: &usize| self.copied.len() + bytes - start - HEAD_BYTES;
        if self.open.as_ref().is_none_or(|start| PARCEL_BYTES_MAX < room(start)) {
            self.seal();
            self.open = Some(self.copied.len());
            self.copied.extend_from_slice(&[0; HEAD_BYTES]);
        }
        self.copied.extend_from_slice(&header.encode());
        self.copied.extend_from_slice(&first);
        if let Some(second) = second {
            self.copied.extend_from_slice(&second);
        }
    }

    /// The same of one that is alone in its parcel.
    fn put_alone(&mut self, header: &Header, first: Part, second: Option<Part>) {
        self.seal();
        let header = header.encode();
        let mut head = parcel::Head::of(&header).and(&first);
        if let Some(second) = &second {
            head = head.and(second);
        }
        self.copied.extend_from_slice(&head.encode());
        self.copied.extend_from_slice(&header);
        for part in [Some(first), second].into_iter().flatten() {
            if part.len() <= COPIED_BYTES_MAX {
                self.copied.extend_from_slice(&part);
                continue;
            }
            self.push_copied();
            self.parts.push(part);
        }
    }

    /// No more frames for the parcel that has room.
    fn seal(&mut self) {
        let Some(start) = self.open.take() else { return };
        let head = parcel::Head::of(&self.copied[start + HEAD_BYTES..]);
        debug_assert!(!head.is_alone(), "short-or-alone: {head:?} has several frames");
        self.copied[start..start + HEAD_BYTES].copy_from_slice(&head.encode());
    }

    /// What was copied comes before what is not.
    fn push_copied(&mut self) {
        debug_assert!(self.open.is_none(), "flipped-is-noticed: a parcel without its checksum");
        if !self.copied.is_empty() {
            self.parts.push(Part::Owned(take(&mut self.copied)));
        }
    }

    /// The parcels as they travel, and what they hold until they have left.
    pub(crate) fn finish(mut self) -> (Vec<Part>, Held) {
        self.seal();
        self.push_copied();
        (self.parts, self.held)
    }
}

/// What compresses the bodies of a connection.
pub(crate) struct Packer<'c> {
    /// What the link agreed on.
    pub(crate) link: Algorithms,
    pub(crate) services: &'c Services,
}

impl Packer<'_> {
    /// Puts a frame into its parcel. One that is to be compressed comes back, for
    /// [`Packer::put_packed`].
    #[inline]
    pub(crate) fn put(&self, frame: Frame, parcels: &mut Parcels) -> Option<(Compression, Frame)> {
        match self.choose(frame.payload.len()) {
            Some(compression) => Some((compression, frame)),
            None => {
                parcels.put_plain(frame);
                None
            }
        }
    }

    /// Compresses a frame, if that makes it shorter, and puts it into its parcel.
    pub(crate) async fn put_packed(
        &self,
        (compression, mut frame): (Compression, Frame),
        parcels: &mut Parcels,
    ) {
        parcels.held.add(take(&mut frame.memory));
        let (header, body) = self.pack(compression, frame.header, frame.payload).await;
        parcels.put(&header, body.into(), None);
    }

    /// How a body of so many bytes travels.
    fn choose(&self, bytes: usize) -> Option<Compression> {
        if self.link.is_empty() || bytes < BYTES_MIN {
            return None;
        }
        let services = self.services;
        let rules = match self.link.has(Compression::Zstd) {
            true => services.policy.zstd(),
            false => ZstdRules::default(),
        };
        let mut spending = services.spending.get();
        let chosen = spending.choose(self.link, bytes, &rules, Instant::now());
        services.spending.set(spending);
        chosen
    }

    async fn pack(
        &self,
        compression: Compression,
        header: Header,
        payload: Payload,
    ) -> (Header, Vec<u8>) {
        debug_assert!(self.link.has(compression), "agreed-algorithms: {compression:?}");
        let body = payload.into_bytes();
        let is_short = body.len() <= COMPRESSED_HERE_MAX;
        let pack = move || {
            let began = Instant::now();
            let (header, body) = compress::pack(compression, header, body);
            (header, body, began.elapsed().as_nanos() as u64)
        };
        let packed = if is_short { pack() } else { runtime::task::compute(pack).await };
        let (header, body, nanos) = packed;
        self.services.tally.packed(compression, &header, nanos);
        if compression == Compression::Zstd {
            let mut spending = self.services.spending.get();
            spending.spend(nanos);
            self.services.spending.set(spending);
        }
        (header, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::frame::Kind;
    use crate::names::HostId;
    use crate::policy::Plain;
    use crate::verbs::Verbs;
    use std::rc::Rc;

    fn message(id: u64, payload: Payload) -> Frame {
        let header = Header { verb: 1, ..Header::bare(Kind::Request, id, 0) };
        Frame::new(header, payload, Pair::default())
    }

    fn packed(link: Algorithms, frames: Vec<Frame>) -> Vec<Part> {
        runtime::sim::test(1, move || async move {
            let config = Config::new("one", HostId(1), 1);
            let services = Services::new(config, Verbs::default(), Rc::new(Plain));
            let (packer, mut parcels) =
                (Packer { link, services: &services }, Parcels::with_room(0));
            for frame in frames {
                if let Some(packed) = packer.put(frame, &mut parcels) {
                    packer.put_packed(packed, &mut parcels).await;
                }
            }
            parcels.finish().0
        })
    }

    #[test]
    fn large_bodies_are_not_copied() {
        let large = vec![3; COPIED_BYTES_MAX + 1];
        let place = large.as_ptr();
        let short = |id| message(id, vec![7; 5].into());
        let with_body = message(1, Payload::with_body(vec![1, 2], large));
        let parts = packed(Algorithms::NONE, vec![short(2), with_body, short(3)]);
        let lens: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        // The short ones are in parcels of their own, each with its head.
        let head = HEAD_BYTES + HEADER_BYTES;
        assert_eq!(lens, [head + 5 + head + 2, COPIED_BYTES_MAX + 1, head + 5]);
        assert_eq!(parts[1].as_ptr(), place);
    }

    #[test]
    fn parcels_are_cut_and_each_is_what_its_head_says() {
        // Each frame is a little over a third of a parcel.
        let bodies = [COPIED_BYTES_MAX, 0, COPIED_BYTES_MAX, 5, COPIED_BYTES_MAX, COPIED_BYTES_MAX];
        let frame =
            |(id, bytes): (usize, &usize)| message(1 + id as u64, vec![id as u8; *bytes].into());
        let parts = packed(Algorithms::NONE, bodies.iter().enumerate().map(frame).collect());
        let [part] = &parts[..] else { panic!("{} parts", parts.len()) };
        let (mut rest, mut ids) = (&part[..], Vec::new());
        while !rest.is_empty() {
            let head = parcel::Head::decode(rest).expect("a head");
            let (mut inside, behind) = rest[HEAD_BYTES..].split_at(head.bytes as usize);
            assert_eq!(head.check(inside), Ok(()));
            assert!(!head.is_alone());
            while !inside.is_empty() {
                let (header, end) = parcel::frame(inside).expect("a frame");
                let body = &inside[HEADER_BYTES..end];
                assert!(body.iter().all(|byte| u64::from(*byte) + 1 == header.id), "{header:?}");
                ids.push((header.id, body.len()));
                inside = &inside[end..];
            }
            ids.push((0, 0));
            rest = behind;
        }
        let of = |id: u64| (id, bodies[id as usize - 1]);
        let cut = (0, 0);
        assert_eq!(ids, [of(1), of(2), of(3), of(4), of(5), cut, of(6), cut]);
    }

    #[test]
    fn a_header_says_how_its_body_is_compressed() {
        let how = |link, bytes| {
            let parts = packed(link, vec![message(1, vec![7; bytes].into())]);
            Header::decode(&parts[0][HEAD_BYTES..]).expect("a header").compression
        };
        assert_eq!(how(Algorithms::ALL, BYTES_MIN), Some(Compression::Zstd));
        assert_eq!(how(Algorithms::ALL, BYTES_MIN - 1), None);
        assert_eq!(how(Compression::Lz4.into(), 100_000), Some(Compression::Lz4));
        assert_eq!(how(Algorithms::NONE, 100_000), None);
    }
}
