use super::super::walk::tests::Memory;
use super::*;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use std::cell::Cell;

fn tombstone(timestamp: i64) -> Tombstone {
    match timestamp {
        0 => Tombstone::NONE,
        _ => Tombstone::new(timestamp, 1_700_000_000),
    }
}

#[test]
fn golden_header() {
    // The worked example: a trie whose root stands at 40, and its header at 44.
    let rows = RowsAt { root: 40, blocks: 4, tombstone: Tombstone::NONE };
    let header = RowsHeader { key: b"v1", position: 0, rows };
    let mut out = Vec::new();
    header.put(44, &mut out);
    assert_eq!(out, [0, 2, 0x76, 0x31, 0, 0x0f, 4, 0x80]);
    assert_eq!(RowsHeader::parse(&mut Cursor::new(&out), 44), Ok(header));
    for cut in 0..out.len() {
        assert!(RowsHeader::parse(&mut Cursor::new(&out[..cut]), 44).is_err());
    }
    // A root that is not before the header.
    assert!(RowsHeader::parse(&mut Cursor::new(&out), 40).is_ok());
    out[5] = 0;
    assert!(RowsHeader::parse(&mut Cursor::new(&out), 44).is_err());
}

#[test]
fn golden_payloads() {
    let check = |offset, open: i64, bits: u8, bytes: &[u8]| {
        let payload = payload_of(offset, tombstone(open));
        assert_eq!((payload.bits, payload.bytes()), (bits, bytes));
    };
    check(0, 0, 1, &[0]);
    check(127, 0, 1, &[127]);
    check(128, 0, 2, &[0, 128]);
    check(115_000_000, 0, 4, &[6, 0xda, 0xc2, 0xc0]);
    let open = [5, 0, 0, 0, 0, 0, 0, 0, 9, 0x65, 0x53, 0xf1, 0];
    check(5, 9, 9, &open);
}

#[test]
fn separators() {
    let check = |before: &[u8], after: &[u8], expected: Option<&[u8]>| {
        let mut out = Vec::new();
        let found = separate(before, after, &mut out);
        assert_eq!(found.then_some(&*out), expected);
        if found {
            assert!(before < &*out && &*out <= after);
        }
    };
    check(b"something", b"sorry", Some(b"son"));
    check(&[1, 0xfe, 3], &[1, 0xff], Some(&[1, 0xff]));
    check(&[1, 2], &[1, 2], None);
    check(&[1, 3], &[1, 2], None);
    let nudged = |last: &[u8], separator: &[u8]| {
        let mut out = separator.to_vec();
        nudge(last, &mut out);
        assert!(last < &*out && separator < &*out);
        out
    };
    assert_eq!(nudged(b"tease", b"son"), b"u");
    assert_eq!(nudged(b"song", b"son"), b"sonh");
    assert_eq!(nudged(&[5, 0xff, 0xff, 0x38], &[5]), [5, 0xff, 0xff, 0x39]);
    assert_eq!(nudged(&[5, 0x38], &[5, 0x38]), [5, 0x39]);
    // What is too long is not told apart.
    let long = |last: u8| [vec![0x40; SEPARATOR_BYTES_MAX], vec![last]].concat();
    check(&long(1), &long(9), None);
    check(&long(1)[1..], &long(9)[1..], Some(&long(2)[1..]));
    assert_eq!(nudged(&long(1), &long(1)), [BEHIND_ALL]);
}

/// Blocks of keys that ascend, and what is known of them.
struct Case {
    blocks: Vec<(Vec<Vec<u8>>, Skip)>,
    end: u64,
    search: RowsSearch<Memory>,
    header_at: u64,
}

/// Keys that no key prefixes, as encoded positions are.
fn case(keys: Vec<Vec<u8>>, cuts: &[usize], exact_end: bool) -> Case {
    let mut builder = RowsBuilder::default();
    let mut bytes = Vec::new();
    let mut blocks: Vec<(Vec<Vec<u8>>, Skip)> = Vec::new();
    let (mut rest, mut offset) = (&keys[..], 20);
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (block, after) = rest.split_at(rest.len().min(1 + cut));
        let skip = Skip { offset, open: tombstone((*cut % 3) as i64) };
        builder.push(&block[0], block.last().unwrap(), skip);
        blocks.push((block.to_vec(), skip));
        builder.take(|taken| bytes.extend_from_slice(taken));
        offset += 100 * block.len() as u64;
        rest = after;
    }
    let header_at = builder.finish(offset, b"key", 7, tombstone(3)).unwrap();
    builder.take(|taken| bytes.extend_from_slice(taken));
    let header = RowsHeader::parse(&mut Cursor::new(&bytes[header_at as usize..]), header_at);
    let header = header.unwrap();
    assert_eq!((header.key, header.position), (&b"key"[..], 7));
    assert_eq!(header.rows.blocks, blocks.len() as u64);
    assert_eq!(header.rows.tombstone, tombstone(3));
    let rows = header.rows;
    let memory = Memory { bytes, loads: Cell::new(0) };
    Case { blocks, end: offset, search: RowsSearch::new(memory, rows, exact_end), header_at }
}

impl Case {
    fn run<T>(&mut self, mut take: impl FnMut(&mut RowsSearch<Memory>) -> Result<T, Stop>) -> T {
        for _ in 0..100 {
            match take(&mut self.search) {
                Ok(value) => return value,
                Err(Stop::Need(number)) => {
                    let walk = &mut self.search.walk;
                    let page = walk.pages().load(number);
                    walk.hold(number, page);
                }
                Err(Stop::Damaged(damaged)) => panic!("{damaged}"),
            }
        }
        panic!("no end");
    }

    /// Where the rows at or after a position start, and those before it end, at the least.
    fn bounds(&self, position: &[u8]) -> (u64, u64) {
        let all = self.blocks.iter().flat_map(|(keys, skip)| {
            keys.iter().enumerate().map(|(index, key)| (key, skip.offset + 100 * index as u64))
        });
        let (mut start, mut end) = (self.end, 0);
        for (key, offset) in all {
            if position <= &key[..] {
                start = start.min(offset);
            } else {
                end = offset + 100;
            }
        }
        (start, end)
    }

    fn check(&mut self, position: &[u8]) {
        let (start, end) = self.bounds(position);
        let skip = self.run(|search| search.advance(position));
        assert!(skip.offset <= start);
        match self.blocks.iter().find(|(_, own)| own.offset == skip.offset) {
            Some((keys, own)) => {
                assert_eq!(*own, skip);
                // Not a block too early: the next one starts behind the position.
                let next = skip.offset + 100 * keys.len() as u64;
                assert!(start <= next);
            }
            None => assert_eq!((skip.offset, skip.open), (self.end, Tombstone::NONE)),
        }
        // The end of the block is at hand then.
        if let Some(probed) = self.search.probe_end(position) {
            assert!(end <= probed && probed <= self.end);
            assert!(self.search.exact_end || probed < self.end);
            let starts = self.blocks.iter().filter(|(_, skip)| skip.offset < probed);
            let keys = starts.flat_map(|(keys, _)| keys).filter(|key| &***key < position).count();
            let block = self.blocks.iter().filter(|(_, skip)| skip.offset < probed);
            let all: usize = block.map(|(keys, _)| keys.len()).sum();
            let last = self.blocks.iter().rfind(|(_, skip)| skip.offset < probed);
            assert!(all - keys <= last.map_or(0, |(keys, _)| keys.len()));
        }
    }

    /// Backwards, from before `position` to `lower`.
    fn check_back(&mut self, lower: &[u8], position: &[u8]) {
        let ends = self.blocks.iter().skip(1).map(|(_, skip)| skip.offset).chain([self.end]);
        let blocks: Vec<Block> = self
            .blocks
            .iter()
            .zip(ends)
            .map(|((_, skip), end)| Block { start: skip.offset, end, open: skip.open })
            .collect();
        // Blocks that have something there; one more may be answered at both ends.
        let holds: Vec<usize> = (0..blocks.len())
            .filter(|at| {
                self.blocks[*at].0.iter().any(|key| lower <= &key[..] && &key[..] < position)
            })
            .collect();
        let mut found = Vec::new();
        let first = self.run(|search| search.last_before(position, lower));
        if first.start == first.end {
            assert_eq!((first.start, first.open), (self.end, Tombstone::NONE));
            assert!(holds.is_empty());
        } else {
            found.push(first);
            while let Some(block) = self.run(|search| search.previous(lower)) {
                found.push(block);
            }
        }
        found.reverse();
        let from = found
            .first()
            .map_or(0, |first| blocks.iter().position(|block| block == first).unwrap());
        assert_eq!(found, blocks[from..from + found.len()]);
        assert!(holds.iter().all(|at| (from..from + found.len()).contains(at)));
        assert!(found.len() <= holds.len() + 2);
    }
}

fn keys(bytes: impl Strategy<Value = u8> + Clone + 'static) -> impl Strategy<Value = Vec<Vec<u8>>> {
    btree_set(vec(bytes, 3), 2..200).prop_map(|keys| {
        keys.into_iter().map(|key| [&key[..], &[0x38]].concat()).collect::<Vec<_>>()
    })
}

proptest! {
    #[test]
    fn blocks_are_found(
        keys in prop_oneof![keys(0u8..4), keys(any::<u8>())],
        cuts in vec(0usize..5, 1..9),
        wanted in vec(vec(prop_oneof![any::<u8>(), 0u8..4], 1..5), 1..5),
        exact_end: bool,
    ) {
        prop_assume!(1 + cuts[0] < keys.len());
        let mut case = case(keys.clone(), &cuts, exact_end);
        prop_assert_eq!(case.run(|search| search.start()), 20);
        for position in wanted.iter().chain(keys.iter().step_by(7)) {
            case.check(position);
            for other in &wanted {
                let (lower, upper) = (position.min(other), position.max(other));
                case.check_back(lower, upper);
                case.check_back(&[], upper);
                case.check_back(lower, &[0xff; 9]);
            }
        }
        case.check(&[]);
        case.check(&[0xff; 9]);
        let end = case.end;
        prop_assert_eq!(case.search.end(), exact_end.then_some(end));
    }

    /// One bit changed: another answer or damage, never a panic, never no end.
    #[test]
    fn damage_is_survived(
        keys in keys(0u8..4),
        cuts in vec(0usize..5, 1..9),
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        prop_assume!(1 + cuts[0] < keys.len());
        let mut case = case(keys.clone(), &cuts, true);
        let (root, header_at) = (case.search.root, case.header_at as usize);
        let mut bytes = case.search.walk.pages().bytes.clone();
        bytes[at.index(header_at)] ^= 1 << bit;
        let memory = Memory { bytes, loads: Cell::new(0) };
        let rows = RowsAt { root, blocks: 2, tombstone: Tombstone::NONE };
        case.search = RowsSearch::new(memory, rows, true);
        for position in keys.iter().step_by(11) {
            let search = &mut case.search;
            let mut loaded = 0;
            let mut run = |take: &mut dyn FnMut(&mut RowsSearch<Memory>) -> Option<Stop>| {
                while let Some(Stop::Need(number)) = take(search) {
                    let page = search.walk.pages().load(number);
                    search.walk.hold(number, page);
                    loaded += 1;
                    assert!(loaded < 10_000);
                }
            };
            run(&mut |search| search.start().err());
            run(&mut |search| search.advance(position).err());
            run(&mut |search| search.last_before(position, &[]).err());
            for _ in 0..300 {
                run(&mut |search| search.previous(&[]).err());
            }
            search.probe_end(position);
        }
    }
}
