//! Batches as they travel: bodies compressed as the link agreed on, headers and short bodies copied
//! together, long ones as they are.
//!
//! Invariants
//!  - *agreed-algorithms*, *zstd-within-quota*: see `algorithms`.

use crate::algorithms::{Algorithms, Compression, ZstdRules};
use crate::compress::{self, BYTES_MIN};
use crate::frame::Header;
use crate::outbox::{Batch, COPIED_BYTES_MAX, Frame};
use crate::payload::Payload;
use crate::services::Services;
use runtime::net::Part;
use runtime::sync::Permit;
use runtime::time::Instant;
use std::mem::take;

/// Longer bodies are compressed by a helper thread.
const COMPRESSED_HERE_MAX: usize = 64 << 10;

/// A batch as it travels, and the memory that it holds until it has left.
pub(crate) async fn pack(batch: Batch, packer: &Packer<'_>) -> (Vec<Part>, Vec<Permit>) {
    let (mut parts, mut memory) = (Vec::new(), Vec::with_capacity(2 * batch.frames.len()));
    let mut copied = Vec::with_capacity(batch.frames.iter().map(Frame::copied_bytes).sum());
    for mut frame in batch.frames {
        memory.extend(std::mem::take(&mut frame.memory).into_iter().flatten());
        match packer.choose(frame.payload.len()) {
            Some(compression) => {
                let (header, body) = packer.pack(compression, frame.header, frame.payload).await;
                header.put(&mut copied);
                put_body(Part::Owned(body), &mut copied, &mut parts);
            }
            None => put_plain(frame, &mut copied, &mut parts),
        }
    }
    if !copied.is_empty() {
        parts.push(Part::Owned(copied));
    }
    (parts, memory)
}

/// What compresses the bodies of a connection.
pub(crate) struct Packer<'c> {
    /// What the link agreed on.
    pub(crate) link: Algorithms,
    pub(crate) services: &'c Services,
}

impl Packer<'_> {
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

fn put_plain(frame: Frame, copied: &mut Vec<u8>, parts: &mut Vec<Part>) {
    let bytes = frame.payload.len() as u32;
    let body_crc = frame.payload.crc();
    let header = Header { body_bytes: bytes, raw_bytes: bytes, body_crc, ..frame.header };
    debug_assert!(!header.is_compressed(), "worth-it: {header:?} is as it was");
    header.put(copied);
    let (head, body) = frame.payload.into_parts();
    put_body(Part::Owned(head), copied, parts);
    body.into_iter().for_each(|body| put_body(body, copied, parts));
}

fn put_body(body: Part, copied: &mut Vec<u8>, parts: &mut Vec<Part>) {
    if body.len() <= COPIED_BYTES_MAX {
        copied.extend_from_slice(&body);
        return;
    }
    if !copied.is_empty() {
        parts.push(Part::Owned(take(copied)));
    }
    debug_assert!(copied.is_empty(), "all-in-order: copied bytes come before");
    parts.push(body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Pair;
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
            pack(Batch { frames }, &Packer { link, services: &services }).await.0
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
        assert_eq!(lens, [32 + 5 + 32 + 2, COPIED_BYTES_MAX + 1, 32 + 5]);
        assert_eq!(parts[1].as_ptr(), place);
    }

    #[test]
    fn a_header_says_how_its_body_is_compressed() {
        let how = |link, bytes| {
            let parts = packed(link, vec![message(1, vec![7; bytes].into())]);
            Header::decode(&parts[0]).expect("a header").compression
        };
        assert_eq!(how(Algorithms::ALL, BYTES_MIN), Some(Compression::Zstd));
        assert_eq!(how(Algorithms::ALL, BYTES_MIN - 1), None);
        assert_eq!(how(Compression::Lz4.into(), 100_000), Some(Compression::Lz4));
        assert_eq!(how(Algorithms::NONE, 100_000), None);
    }
}
