//! Files of the commitlog: any bytes give a report; entries are delivered in order, and from
//! inside of the file. What an entry holds is parsed as a mutation, as replay does. Each input is
//! tried as it is and with the checksum of each block made right, so that what is behind it is
//! reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mutation::FrozenView;
use stdx::checksum::crc32;
use storage::commitlog::{SegmentId, id_in_header, parse_segment};

const BLOCK: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let id = id_in_header(bytes).unwrap_or(SegmentId(0));
    check(id, bytes);
    let mut sealed = bytes.to_vec();
    for block in sealed.chunks_exact_mut(BLOCK) {
        block[BLOCK - 12..BLOCK - 4].copy_from_slice(&id.0.to_be_bytes());
        let crc = crc32(&block[..BLOCK - 4]);
        block[BLOCK - 4..].copy_from_slice(&crc.to_be_bytes());
    }
    check(id, &sealed);
});

fn check(id: SegmentId, bytes: &[u8]) {
    let (mut last, mut count) = (None, 0);
    let report = parse_segment(id, bytes, &mut |position, entry| {
        // Entries of a group that was in pieces are all where its last piece is.
        assert!(last <= Some(position), "an entry out of order");
        assert!((position.offset as usize) < bytes.len());
        last = Some(position);
        count += 1;
        let _ = FrozenView::parse(entry);
    });
    assert_eq!(report.entries, count);
    assert!(report.corrupt_bytes + report.torn_bytes <= bytes.len() as u64 + BLOCK as u64);
}
