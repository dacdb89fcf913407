//! The matrix of damage: whatever happens to the bytes, entries come back whole or not at all,
//! and nothing comes back that this segment did not log.

use super::*;
use crate::commitlog::layout::{ChunkBuffer, Terminate, termination};
use proptest::prelude::*;
use runtime::io::AlignedBuf;

const ID: SegmentId = SegmentId(77);

/// The bytes of a segment: per chunk its groups of payloads.
fn segment(id: SegmentId, chunks: &[Vec<Vec<Vec<u8>>>], terminate: Terminate) -> Vec<u8> {
    let mut file = Vec::new();
    for groups in chunks {
        let mut chunk = ChunkBuffer::new(id, file.len() as u32, AlignedBuf::new());
        for group in groups {
            if 1 < group.len() {
                let data: usize = group.iter().map(|payload| payload.len() + ENTRY_HEADER).sum();
                chunk.put_multi((data + MULTI_HEADER) as u32);
            }
            group.iter().for_each(|payload| chunk.put_entry(payload));
        }
        file.extend_from_slice(&chunk.seal(id).0);
    }
    if terminate == Terminate::Yes {
        file.extend_from_slice(&termination(id));
    }
    file
}

fn one_per_chunk(payloads: &[Vec<u8>]) -> Vec<Vec<Vec<Vec<u8>>>> {
    payloads.iter().map(|payload| vec![vec![payload.clone()]]).collect()
}

fn read(id: SegmentId, bytes: &[u8]) -> (Vec<Vec<u8>>, SegmentReport) {
    let mut seen = Vec::new();
    let report = parse_segment(id, bytes, &mut |_, payload| seen.push(payload.to_vec()));
    assert_eq!(report.entries, seen.len() as u64);
    (seen, report)
}

fn payloads() -> Vec<Vec<u8>> {
    vec![vec![1; 10], (0..9000u32).map(|n| n as u8).collect(), vec![3; 4000]]
}

#[test]
fn the_layout_is_the_documented_one() {
    let bytes = segment(SegmentId(5), &[vec![vec![b"abc".to_vec()]]], Terminate::Yes);
    assert_eq!(bytes.len(), 2 * BLOCK);
    let mut expected = Vec::from(*b"NCLG\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\x10\0");
    expected.extend(file_header_crc(1, SegmentId(5), 4096).to_be_bytes());
    expected.extend(4096u32.to_be_bytes());
    expected.extend(chunk_crc(SegmentId(5), 24).to_be_bytes());
    expected.extend(*b"\0\0\0\x0b");
    expected.extend(crc32(b"\0\0\0\x0b").to_be_bytes());
    expected.extend(b"abc");
    expected.resize(BLOCK_DATA, 0);
    expected.extend(5u64.to_be_bytes());
    expected.extend(crc32(&expected).to_be_bytes());
    assert_eq!(bytes[..BLOCK], expected);
    assert!(bytes[BLOCK..BLOCK + BLOCK_DATA].iter().all(|byte| *byte == 0));
}

#[test]
fn positions_are_offsets_in_the_file() {
    let bytes = segment(ID, &[vec![payloads(), vec![vec![9]]]], Terminate::No);
    let mut positions = Vec::new();
    parse_segment(ID, &bytes, &mut |position, _| positions.push(position.offset as usize));
    assert_eq!(positions[0], FILE_HEADER + CHUNK_HEADER + MULTI_HEADER);
    for (position, first) in positions.iter().zip([1u8, 0, 3, 9]) {
        let size = &bytes[*position..*position + 4];
        let payload = *position + ENTRY_HEADER;
        assert!(u32::from_be_bytes(size.try_into().unwrap()) < 10_000);
        assert_eq!(bytes[payload], first);
    }
}

#[test]
fn a_cut_at_any_byte_leaves_the_entries_before_it() {
    let payloads = payloads();
    for terminate in [Terminate::No, Terminate::Yes] {
        let bytes = segment(ID, &one_per_chunk(&payloads), terminate);
        let ends = [BLOCK, 4 * BLOCK, 5 * BLOCK];
        for cut in 0..bytes.len() {
            let (seen, report) = read(ID, &bytes[..cut]);
            let whole = ends.iter().filter(|end| **end <= cut).count();
            // Inside its chunk an entry may be complete before the chunk's padding is.
            assert!(seen.len() == whole, "cut at {cut}: {} entries", seen.len());
            assert_eq!(seen, payloads[..seen.len()]);
            assert_eq!(report.corrupt_bytes, 0, "cut at {cut}");
            assert_ne!(report.state, SegmentState::Closed);
        }
        let (seen, report) = read(ID, &bytes);
        assert_eq!(seen, payloads);
        assert_eq!((report.corrupt_bytes, report.torn_bytes, report.damage), (0, 0, None));
        assert_eq!(report.state == SegmentState::Closed, terminate == Terminate::Yes);
    }
}

#[test]
fn a_flipped_bit_loses_its_chunk_at_most_and_is_counted() {
    let payloads = payloads();
    let bytes = segment(ID, &one_per_chunk(&payloads), Terminate::Yes);
    for bit in (0..bytes.len() * 8).step_by(11) {
        let (block, mut broken) = (bit / 8 / BLOCK, bytes.clone());
        broken[bit / 8] ^= 1 << (bit % 8);
        let (seen, report) = read(ID, &broken);
        if report.state == SegmentState::Broken {
            assert!(bit / 8 < 4, "bit {bit}");
            continue;
        }
        let lost = [0, 1, 1, 1, 2, 3][block];
        let expected: Vec<_> = (0..3).filter(|n| *n != lost).map(|n| &payloads[n]).collect();
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "bit {bit}");
        if lost < 3 {
            assert!(0 < report.corrupt_bytes && report.torn_bytes == 0, "bit {bit}: {report:?}");
        } else {
            assert!(0 < report.torn_bytes && report.corrupt_bytes == 0, "bit {bit}: {report:?}");
        }
        assert!(report.damage.is_some());
    }
}

#[test]
fn a_torn_tail_is_an_end_and_not_corruption() {
    let bytes = segment(ID, &one_per_chunk(&payloads()), Terminate::No);
    for sector in 0..5 * BLOCK / 512 {
        // The sectors from here on were never written.
        let mut torn = bytes.clone();
        torn[sector * 512..].fill(0);
        let (seen, report) = read(ID, &torn);
        assert!(seen.len() <= 2 && seen == payloads()[..seen.len()]);
        assert_eq!(report.corrupt_bytes, 0);
    }
}

#[test]
fn the_past_of_a_recycled_file_is_never_seen() {
    let old = segment(SegmentId(70), &one_per_chunk(&payloads()), Terminate::Yes);
    let new = segment(ID, &one_per_chunk(&[vec![8; 20]]), Terminate::No);
    // Recycling zeroes the first block; then one chunk is written over it.
    let mut file = old.clone();
    file[..BLOCK].fill(0);
    assert_eq!(read(ID, &file).0, Vec::<Vec<u8>>::new());
    assert_eq!(read(ID, &file).1.state, SegmentState::Unused);
    file[..new.len()].copy_from_slice(&new);
    let (seen, report) = read(ID, &file);
    assert_eq!(seen, [vec![8; 20]]);
    assert_eq!((report.corrupt_bytes, report.torn_bytes), (0, 0));
    assert_eq!(report.state, SegmentState::Open);
    // Two files that changed their names are refused.
    let (seen, report) = read(ID, &old);
    assert_eq!((seen.len(), report.state), (0, SegmentState::Broken));
}

#[test]
fn a_chunk_that_claims_more_than_the_file_misses_what_is_there() {
    let mut bytes = segment(ID, &one_per_chunk(&payloads()[..1]), Terminate::No);
    let next = (1000 * BLOCK as u32).to_be_bytes();
    bytes[FILE_HEADER..FILE_HEADER + 4].copy_from_slice(&next);
    let crc = crc32(&bytes[..BLOCK - 4]).to_be_bytes();
    bytes[BLOCK - 4..BLOCK].copy_from_slice(&crc);
    let (seen, report) = read(ID, &bytes);
    assert_eq!(seen, payloads()[..1]);
    assert_eq!((report.corrupt_bytes, report.torn_bytes), (0, BLOCK as u64));
}

#[test]
fn a_lost_chunk_in_the_middle_is_skipped_and_counted() {
    let bytes = segment(ID, &one_per_chunk(&payloads()), Terminate::No);
    let mut lost = bytes.clone();
    lost[BLOCK..4 * BLOCK].fill(0);
    let (seen, report) = read(ID, &lost);
    assert_eq!(seen, [payloads()[0].clone(), payloads()[2].clone()]);
    assert_eq!(report.corrupt_bytes, 3 * BLOCK as u64);
}

#[test]
fn other_files_are_refused_by_name_of_the_rule() {
    let check = |bytes: &[u8], what: &str| {
        let (_, report) = read(ID, bytes);
        assert_eq!(report.state, SegmentState::Broken);
        assert_eq!(report.damage.unwrap().what, what);
    };
    check(&[0x53; 9000], "bad magic in the file header");
    let reseal = |at: usize, value: u8| {
        let mut bytes = segment(ID, &one_per_chunk(&payloads()), Terminate::No);
        bytes[at] = value;
        let crc = crc32(&bytes[..BLOCK - 4]).to_be_bytes();
        bytes[BLOCK - 4..BLOCK].copy_from_slice(&crc);
        bytes
    };
    check(&reseal(20, 0), "bad checksum of the file header");
    assert_eq!(read(ID, &[0; 3 * BLOCK]).1.state, SegmentState::Unused);
    assert_eq!(read(ID, &[]).1.state, SegmentState::Unused);
}

/// Segments of one chunk each, with pieces of an item that start at these offsets.
fn in_pieces(item: &[u8], segments: &[(SegmentId, &[usize])]) -> Vec<Vec<u8>> {
    let starts: Vec<usize> = segments.iter().flat_map(|(_, starts)| starts.to_vec()).collect();
    let mut ends = starts[1..].iter().copied().chain([item.len()]);
    let mut first = None;
    let files = segments.iter().map(|(id, starts)| {
        let mut chunk = ChunkBuffer::new(*id, 0, AlignedBuf::new());
        for start in *starts {
            let here = ReplayPosition { segment: *id, offset: chunk.position() };
            let data = &item[*start..ends.next().unwrap()];
            let (offset, total) = (*start as u32, item.len() as u32);
            let head = FragmentHead { first: *first.get_or_insert(here), offset, total };
            chunk.put(&head.to_bytes((FRAGMENT_HEADER + data.len()) as u32));
            chunk.put(data);
            chunk.put_entry(b"between");
        }
        chunk.seal(*id).0.to_vec()
    });
    files.collect()
}

fn read_all(files: &[(SegmentId, Vec<u8>)]) -> (Vec<(ReplayPosition, Vec<u8>)>, u64) {
    let (mut seen, mut unfinished, mut lost) = (Vec::new(), Unfinished::default(), 0);
    for (id, bytes) in files {
        let mut parser = Parser::new(*id, bytes, &mut unfinished);
        while parser.step(&mut |position, payload| {
            if payload != b"between" {
                seen.push((position, payload.to_vec()));
            }
        }) {}
        lost += parser.report.corrupt_bytes + parser.report.torn_bytes;
    }
    assert!(unfinished.0.len() <= 1);
    (seen, lost)
}

#[test]
fn pieces_are_put_together_over_segments() {
    let payload: Vec<u8> = (0..20_000u32).map(|n| (n / 7) as u8).collect();
    let entry = [&entry_header(&payload)[..], &payload].concat();
    let total = MULTI_HEADER + entry.len() + ENTRY_HEADER + 3;
    let group = [&multi_header(total as u32)[..], &entry, &entry_header(b"abc"), b"abc"].concat();
    let ids = [77, 78, 80].map(SegmentId);
    let parts: [(SegmentId, &[usize]); 3] =
        [(ids[0], &[0, 5, 100]), (ids[1], &[9000]), (ids[2], &[12_000, 19_999])];
    for (item, expected) in
        [(&entry, vec![payload.clone()]), (&group, vec![payload.clone(), b"abc".to_vec()])]
    {
        let files: Vec<_> = ids.into_iter().zip(in_pieces(item, &parts)).collect();
        let (seen, lost) = read_all(&files);
        assert_eq!(seen.iter().map(|(_, payload)| payload.clone()).collect::<Vec<_>>(), expected);
        assert!(seen.iter().all(|(position, _)| position.segment == ids[2]));
        assert_eq!(lost, 0);
        // Without one of them nothing is there, and nothing is said to be lost.
        for missing in 0..3 {
            let some: Vec<_> = (0..3).filter(|n| *n != missing).map(|n| files[n].clone()).collect();
            assert_eq!(read_all(&some), (Vec::new(), 0), "without {missing}");
        }
        // Given up in the middle, and begun again.
        let again: Vec<_> = files[..2].iter().chain(&files).cloned().collect();
        assert_eq!(read_all(&again).0.len(), expected.len());
    }
}

#[test]
fn what_cannot_be_a_piece_is_damage() {
    let item = [&entry_header(b"abcdef")[..], b"abcdef"].concat();
    let whole = |change: &dyn Fn(&mut FragmentHead, &mut u32)| {
        let mut chunk = ChunkBuffer::new(ID, 0, AlignedBuf::new());
        let first = ReplayPosition { segment: ID, offset: chunk.position() };
        let mut head = FragmentHead { first, offset: 0, total: item.len() as u32 };
        let mut size = (FRAGMENT_HEADER + item.len()) as u32;
        change(&mut head, &mut size);
        chunk.put(&head.to_bytes(size));
        chunk.put(&item);
        read(ID, &chunk.seal(ID).0)
    };
    let (seen, report) = whole(&|_, _| ());
    assert_eq!((seen, report.damage), (vec![b"abcdef".to_vec()], None));
    type Change = fn(&mut FragmentHead, &mut u32);
    let wrong: [Change; 6] = [
        |_, size| *size = 31,
        |_, size| *size = FRAGMENT_HEADER as u32,
        |_, size| *size = 1 << 20,
        |head, _| head.total = 13,
        |head, _| head.offset = 1,
        |head, _| head.first.offset += 1,
    ];
    for (number, change) in wrong.iter().enumerate() {
        let (seen, report) = whole(change);
        assert_eq!(seen, Vec::<Vec<u8>>::new(), "{number}");
        assert!(report.damage.is_some(), "{number}");
    }
}

fn few_cases() -> ProptestConfig {
    ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn what_is_put_is_read(
        chunks in prop::collection::vec(prop::collection::vec(prop::collection::vec(
            prop::collection::vec(any::<u8>(), 0..6000), 1..4), 0..5), 1..5),
        close: bool,
    ) {
        let terminate = if close { Terminate::Yes } else { Terminate::No };
        let (seen, report) = read(ID, &segment(ID, &chunks, terminate));
        let expected: Vec<_> = chunks.iter().flatten().flatten().cloned().collect();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!((report.corrupt_bytes, report.torn_bytes), (0, 0));
    }

    #[test]
    fn damaged_groups_are_whole_or_absent(
        chunks in prop::collection::vec(prop::collection::vec(1usize..4, 1..4), 1..4),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut: prop::sample::Index,
    ) {
        // Each payload names its group and the size of the group.
        let mut number = 0u8;
        let groups: Vec<Vec<Vec<Vec<u8>>>> = chunks.iter().map(|groups| groups.iter().map(|size| {
            number += 1;
            (0..*size).map(|at| [vec![number, *size as u8], vec![7; 1500 * at]].concat()).collect()
        }).collect()).collect();
        let mut bytes = segment(ID, &groups, Terminate::Yes);
        for (at, value) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let (seen, _) = read(ID, &bytes);
        let logged: Vec<_> = groups.iter().flatten().flatten().collect();
        for payload in &seen {
            prop_assert!(logged.contains(&payload));
            let same = seen.iter().filter(|other| other[0] == payload[0]).count();
            prop_assert_eq!(same, payload[1] as usize);
        }
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..3 * BLOCK)) {
        read(ID, &bytes);
        // With valid trailers the parser looks deeper.
        for block in bytes.chunks_exact_mut(BLOCK) {
            block[BLOCK_DATA..BLOCK - 4].copy_from_slice(&ID.0.to_be_bytes());
            block[..8].copy_from_slice(&[0, 0, 0x20, 0, 0, 0, 0, 0]);
            block[4..8].copy_from_slice(&chunk_crc(ID, 0).to_be_bytes());
            let crc = crc32(&block[..BLOCK - 4]).to_be_bytes();
            block[BLOCK - 4..].copy_from_slice(&crc);
        }
        read(ID, &bytes);
    }
}
