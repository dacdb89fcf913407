//! What reads of a large partition ask the disk for: requests and bytes, exactly.

use crate::support;
use crate::support::{everything, in_simulation};
use model::TableSchema;
use model::key::push_clustering;
use mutation::row::RowBuilder;
use mutation::{Cell, ClusteringPosition, ClusteringRange, Direction, Fragment, Marker, Tombstone};
use reader::{Budget, Slice, Source};
use runtime::io::IoClass;
use sstable::index::Lookup;
use sstable::mx::header::SerializationHeader;
use sstable::testing::schema_of_header;
use sstable::{
    Access, Bases, Compression, IndexCache, ReadCounts, ReadStats, Scope, Table, Version,
    WriterOptions,
};
use std::rc::Rc;
use stdx::{Bytes, Prng};

const ROWS: i32 = 30_000;

/// A table with a clustering column of type int and a blob.
fn schema() -> TableSchema {
    let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
    let header = SerializationHeader {
        bases: Bases::EPOCH,
        partition_key: class("Int32Type"),
        clustering: vec![class("Int32Type")],
        statics: Vec::new(),
        regulars: vec![("value".to_string(), class("BytesType"))],
    };
    schema_of_header(&header).unwrap()
}

fn prefix(value: i32) -> Bytes {
    let mut out = Vec::new();
    push_clustering(&value.to_be_bytes(), &mut out);
    out.into()
}

fn key(number: i32) -> Bytes {
    Bytes::copy_from(&number.to_be_bytes())
}

fn row(schema: &TableSchema, number: i32) -> Fragment {
    let timestamp = Bases::EPOCH.timestamp + 7;
    let mut builder = RowBuilder::new(Vec::new());
    builder.marker(Marker::Live { timestamp });
    let mut value = vec![number as u8; 100];
    Prng::from_seed(number as u64).fill(&mut value);
    builder.cell(schema.regulars()[0].id, Cell::live(timestamp, &value));
    Fragment::Row { key: prefix(number), row: builder.finish().into() }
}

/// One partition with the even numbers from 0 on.
fn partition(schema: &TableSchema, number: i32) -> Vec<Fragment> {
    let key = Lookup::new(key(number)).key;
    let mut out = vec![Fragment::PartitionStart { key, tombstone: Tombstone::NONE }];
    out.extend((0..ROWS).map(|row_number| row(schema, 2 * row_number)));
    out.push(Fragment::PartitionEnd);
    out
}

async fn table(version: Version, compression: Compression) -> (Rc<Table>, Vec<Fragment>) {
    let schema = schema();
    let fragments = partition(&schema, 1);
    let options = WriterOptions::of_schema(&schema, "memtable").unwrap();
    let options = WriterOptions { column_index_bytes: 1024, compression, version, ..options };
    (support::write(schema, &fragments, options).await.unwrap(), fragments)
}

/// What was done between two looks.
struct Did {
    fragments: Vec<Fragment>,
    counts: ReadCounts,
    requests: u64,
    bytes: u64,
}

fn since(before: &ReadCounts, after: ReadCounts) -> ReadCounts {
    ReadCounts {
        data_reads: after.data_reads - before.data_reads,
        data_bytes: after.data_bytes - before.data_bytes,
        discarded_bytes: after.discarded_bytes - before.discarded_bytes,
        block_misses: after.block_misses - before.block_misses,
        ..after
    }
}

/// Reads up to so many fragments.
async fn read(
    table: &Rc<Table>,
    cache: &Rc<IndexCache>,
    scope: Scope,
    slice: Slice,
    limit: usize,
) -> Did {
    let before = (ReadStats::of_shard().counts(), runtime::io::stats(IoClass::Query));
    let access = Access::new(IoClass::Query, cache);
    let mut fragments = Vec::new();
    {
        let mut source = table.read(scope, slice, access);
        while fragments.len() < limit {
            let count = fragments.len();
            let budget = Budget { fragments_max: 16, ..Budget::BATCH };
            source.fill(budget, &mut fragments).await.unwrap();
            if count == fragments.len() {
                break;
            }
        }
    }
    let after = runtime::io::stats(IoClass::Query);
    Did {
        fragments,
        counts: since(&before.0, ReadStats::of_shard().counts()),
        requests: after.reads - before.1.reads,
        bytes: after.read_bytes - before.1.read_bytes,
    }
}

fn one() -> Scope {
    Scope::Key(Lookup::new(key(1)))
}

fn rows(did: &Did) -> Vec<Fragment> {
    let is_row = |fragment: &&Fragment| matches!(fragment, Fragment::Row { .. });
    did.fragments.iter().filter(is_row).cloned().collect()
}

fn of_rows(numbers: &[i32]) -> Slice {
    let ranges = numbers.iter().map(|number| ClusteringRange::of_prefix(prefix(*number)));
    Slice { ranges: ranges.collect(), with_static: false, ..Slice::full() }
}

async fn check_single_rows(version: Version, cold_max: u64) {
    let (table, all) = table(version, Compression::None).await;
    let cache = IndexCache::new(4 << 20);
    let mut prng = Prng::from_seed(5);
    for _ in 0..50 {
        cache.clear().await;
        let number = prng.below(ROWS as u64 - 20) as i32;
        let cold = read(&table, &cache, one(), of_rows(&[2 * number]), usize::MAX).await;
        assert_eq!(rows(&cold), [all[1 + number as usize].clone()]);
        assert!(cold.requests <= cold_max, "{} requests, cold", cold.requests);
        assert_eq!((cold.counts.data_reads, cold.counts.discarded_bytes), (1, 0));
        let warm = read(&table, &cache, one(), of_rows(&[2 * number + 2]), usize::MAX).await;
        assert_eq!(rows(&warm), [all[2 + number as usize].clone()]);
        assert_eq!(warm.counts.data_reads, 1);
        assert!(warm.counts.data_bytes <= 1300, "{} bytes", warm.counts.data_bytes);
        let index_pages = warm.requests - 1;
        assert!(index_pages <= 2 && index_pages == warm.counts.block_misses);
    }
}

#[test]
fn one_row_is_one_block() {
    in_simulation(1, check_single_rows(Version::Me, 8));
    in_simulation(2, check_single_rows(Version::Ms, 6));
}

#[test]
fn a_missing_row_between_blocks_is_answered_by_the_index() {
    in_simulation(3, async {
        let (table, _) = table(Version::Me, Compression::None).await;
        let cache = IndexCache::new(4 << 20);
        let (mut none, mut some) = (0, 0);
        for number in 5000..5100 {
            let slice = of_rows(&[2 * number + 1]);
            let did = read(&table, &cache, one(), slice, usize::MAX).await;
            assert_eq!(did.fragments.len(), 2, "start and end");
            assert!(did.counts.data_reads <= 1);
            none += (did.counts.data_reads == 0) as u32;
            some += did.counts.data_reads as u32;
        }
        assert!(8 <= none && 80 <= some, "{none} {some}");
    });
}

async fn check_many_rows(version: Version, compression: Compression) {
    let (table, all) = table(version, compression).await;
    let cache = IndexCache::new(4 << 20);
    let mut prng = Prng::from_seed(6);
    let mut numbers: Vec<i32> = (0..100).map(|_| prng.below(ROWS as u64) as i32).collect();
    numbers.sort();
    numbers.dedup();
    let expected: Vec<Fragment> =
        numbers.iter().map(|number| all[1 + *number as usize].clone()).collect();
    let wanted: Vec<i32> = numbers.iter().map(|number| 2 * number).collect();
    for _ in 0..2 {
        runtime::io::take_peak_in_flight();
        let did = read(&table, &cache, one(), of_rows(&wanted), usize::MAX).await;
        assert_eq!(rows(&did), expected);
        let depth = runtime::io::take_peak_in_flight();
        assert!((16..=33).contains(&depth), "{depth} requests at once");
        assert!(did.counts.data_reads <= numbers.len() as u64);
        assert_eq!(did.counts.discarded_bytes, 0);
    }
    let reversed = Slice { reversed: true, ..of_rows(&wanted) };
    runtime::io::take_peak_in_flight();
    let did = read(&table, &cache, one(), reversed, usize::MAX).await;
    let mut backward = rows(&did);
    backward.reverse();
    assert_eq!(backward, expected);
    let depth = runtime::io::take_peak_in_flight();
    assert!((16..=33).contains(&depth), "{depth} requests at once, backwards");
    assert!(did.counts.data_reads <= wanted.len() as u64);
    assert_eq!(did.counts.discarded_bytes, 0);
}

/// Ranges of all lengths, near and far, in one read: what comes is what the same ranges select.
#[test]
fn many_ranges_backwards_are_what_they_are_forwards() {
    for (seed, compression) in [(20, Compression::None), (21, Compression::LZ4)] {
        in_simulation(seed, async move {
            let (table, _) = table(Version::Ms, compression).await;
            let cache = IndexCache::new(4 << 20);
            let mut prng = Prng::from_seed(seed);
            for _ in 0..20 {
                let (mut ranges, mut at) = (Vec::new(), 0);
                while at < 2 * ROWS {
                    let longest = if prng.one_in(4) { 2000 } else { 8 };
                    let end = at + prng.below(longest) as i32;
                    ranges.push(ClusteringRange {
                        start: ClusteringPosition::before(prefix(at)),
                        end: ClusteringPosition::after(prefix(end)),
                    });
                    let farthest = if prng.one_in(2) { 10 } else { 3000 };
                    at = end + 1 + prng.below(farthest) as i32;
                }
                let slice = Slice { ranges, with_static: false, ..Slice::full() };
                let expected = rows(&read(&table, &cache, one(), slice.clone(), usize::MAX).await);
                let slice = Slice { reversed: true, ..slice };
                let limit = if prng.one_in(3) { prng.below(300) as usize } else { usize::MAX };
                let did = read(&table, &cache, one(), slice, limit).await;
                let mut expected = expected;
                expected.reverse();
                let found = rows(&did);
                assert!(found == expected[..found.len()]);
                if limit == usize::MAX {
                    assert_eq!((found.len(), did.counts.discarded_bytes), (expected.len(), 0));
                }
            }
        });
    }
}

#[test]
fn many_rows_are_read_at_once() {
    in_simulation(4, check_many_rows(Version::Me, Compression::None));
    in_simulation(5, check_many_rows(Version::Ms, Compression::None));
    in_simulation(6, check_many_rows(Version::Me, Compression::LZ4));
}

#[test]
fn the_last_rows_cost_as_much_as_the_first() {
    for version in [Version::Me, Version::Ms] {
        in_simulation(7, async move {
            let (table, all) = table(version, Compression::None).await;
            let cache = IndexCache::new(4 << 20);
            let slice = |reversed| Slice { reversed, with_static: false, ..Slice::full() };
            for _ in 0..2 {
                read(&table, &cache, one(), slice(true), 11).await;
            }
            let forward = read(&table, &cache, one(), slice(false), 11).await;
            let backward = read(&table, &cache, one(), slice(true), 11).await;
            assert_eq!(backward.fragments[1], all[ROWS as usize]);
            assert_eq!((forward.requests, backward.requests), (1, 1));
            assert!(backward.bytes <= forward.bytes, "{} {}", backward.bytes, forward.bytes);
        });
    }
}

#[test]
fn a_whole_partition_is_read_without_waste() {
    for compression in [Compression::None, Compression::LZ4] {
        in_simulation(8, async move {
            let (table, all) = table(Version::Me, compression).await;
            let cache = IndexCache::new(4 << 20);
            for scope in [one(), everything()] {
                let did = read(&table, &cache, scope, Slice::full(), usize::MAX).await;
                assert!(did.fragments == all);
                assert_eq!(did.counts.discarded_bytes, 0);
                assert!(did.counts.data_bytes <= table.data_bytes() + (64 << 10));
                assert!(did.counts.data_reads <= table.data_bytes() / (200 << 10) + 8);
            }
            let backward = Slice { reversed: true, ..Slice::full() };
            let did = read(&table, &cache, one(), backward, usize::MAX).await;
            assert_eq!(did.fragments.len(), all.len());
            assert_eq!(did.counts.discarded_bytes, 0);
        });
    }
}

#[test]
fn a_range_ends_where_the_index_says() {
    for version in [Version::Me, Version::Ms] {
        in_simulation(9, async move {
            let (table, all) = table(version, Compression::None).await;
            let cache = IndexCache::new(4 << 20);
            let mut prng = Prng::from_seed(9);
            for _ in 0..40 {
                let from = prng.below(ROWS as u64) as usize;
                let to = (from + prng.below(3000) as usize).min(ROWS as usize - 1);
                let start = ClusteringRange::of_prefix(prefix(2 * from as i32)).start;
                let end = ClusteringRange::of_prefix(prefix(2 * to as i32)).end;
                let ranges = vec![ClusteringRange { start, end }];
                let slice = Slice { ranges, with_static: false, ..Slice::full() };
                let did = read(&table, &cache, one(), slice.clone(), usize::MAX).await;
                assert!(rows(&did) == all[1 + from..2 + to]);
                let bytes = did.counts.data_bytes;
                assert!(bytes <= 140 * (to - from) as u64 + 4096, "{bytes} for {}", to - from);
                let few = read(&table, &cache, one(), slice, 10).await;
                assert!(few.counts.data_bytes <= 64 << 10, "{}", few.counts.data_bytes);
            }
        });
    }
}

#[test]
fn backwards_is_bounded_without_an_index_of_rows() {
    in_simulation(11, async {
        let schema = schema();
        let all = partition(&schema, 1);
        let options = WriterOptions::of_schema(&schema, "memtable").unwrap();
        let (version, compression) = (Version::Me, Compression::None);
        let options =
            WriterOptions { column_index_bytes: 1 << 30, compression, version, ..options };
        let table = support::write(schema, &all, options).await.unwrap();
        let access = Access::new(IoClass::Query, &IndexCache::new(4 << 20));
        let mut source = table.read(one(), Slice { reversed: true, ..Slice::full() }, access);
        let (mut seen, mut most) = (Vec::new(), 0);
        loop {
            let count = seen.len();
            source.fill(Budget::BATCH, &mut seen).await.unwrap();
            most = most.max(source.memory_bytes());
            if count == seen.len() {
                break;
            }
        }
        let end = all.len() - 1;
        let expected = all[..1].iter().chain(all[1..end].iter().rev()).chain(&all[end..]);
        assert!(seen.iter().eq(expected));
        assert!(most < 1 << 20, "{most} bytes");
    });
}

/// Reads `take` rows and leaves out `skip`, by forwarding.
async fn check_forwarding(table: &Rc<Table>, all: &[Fragment], take: i32, skip: i32) -> ReadCounts {
    let before = ReadStats::of_shard().counts();
    let access = Access::new(IoClass::Query, &IndexCache::new(4 << 20));
    let slice = Slice { forwarding: true, with_static: false, ..Slice::full() };
    let mut source = table.read(one(), slice, access);
    let mut out = Vec::new();
    source.fill(Budget::BATCH, &mut out).await.unwrap();
    assert_eq!(out.len(), 1, "the start of the partition");
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    let mut at = skip;
    while at < ROWS {
        let end = (at + take).min(ROWS);
        let start = ClusteringRange::of_prefix(prefix(2 * at)).start;
        let last = ClusteringRange::of_prefix(prefix(2 * end - 2)).end;
        source.forward_rows(ClusteringRange { start, end: last });
        loop {
            let count = seen.len();
            source.fill(Budget::BATCH, &mut seen).await.unwrap();
            if count == seen.len() {
                break;
            }
        }
        expected.extend_from_slice(&all[1 + at as usize..1 + end as usize]);
        at = end + skip;
    }
    assert!(seen == expected, "{take} of {}", take + skip);
    drop(source);
    since(&before, ReadStats::of_shard().counts())
}

#[test]
fn forwarding_reads_on_or_jumps() {
    for version in [Version::Me, Version::Ms] {
        in_simulation(10, async move {
            let (table, all) = table(version, Compression::None).await;
            let near = check_forwarding(&table, &all, 1, 3).await;
            assert!(near.data_reads < 60, "{} reads", near.data_reads);
            check_forwarding(&table, &all, 64, 64).await;
            let far = check_forwarding(&table, &all, 4, 1000).await;
            assert!(far.data_reads <= 32 && far.data_bytes < 80 << 10, "{far:?}");
        });
    }
}

/// Asks for ranges of rows one after the other, near and far, empty and long, and reads each to its
/// end or into it: what comes is what lies there.
async fn check_forwarding_anywhere(
    mut source: Box<dyn Source>,
    all: &[Fragment],
    reversed: bool,
    prng: &mut Prng,
) {
    let mut out = Vec::new();
    source.fill(Budget::BATCH, &mut out).await.unwrap();
    assert_eq!(out.len(), 1, "the start of the partition");
    let any = |prng: &mut Prng| {
        let most = [3, 60, 3000][prng.below(3) as usize];
        prng.below(most) as i32
    };
    let mut at = 0;
    while at < ROWS {
        let from = at + any(prng);
        at = (from + any(prng)).min(ROWS);
        let (low, high) = match reversed {
            false => (from.min(at), at),
            true => (ROWS - at, ROWS - from.min(at)),
        };
        // Between two rows each.
        source.forward_rows(ClusteringRange {
            start: ClusteringPosition::before(prefix(2 * low - 1)),
            end: ClusteringPosition::after(prefix(2 * high - 1)),
        });
        let mut expected = all[1 + low as usize..1 + high as usize].to_vec();
        if reversed {
            expected.reverse();
        }
        let limit = if prng.one_in(3) { any(prng) as usize } else { usize::MAX };
        let mut seen = Vec::new();
        while seen.len() < limit {
            let count = seen.len();
            let fragments_max = 1 + prng.below(40) as usize;
            source.fill(Budget { fragments_max, ..Budget::BATCH }, &mut seen).await.unwrap();
            if count == seen.len() {
                assert_eq!(seen.len(), expected.len(), "rows {low} to {high}");
                break;
            }
        }
        assert!(seen == expected[..seen.len()], "rows {low} to {high}");
    }
}

/// Thousands of blocks, alone and merged, by one partition, by the index and in a scan.
#[test]
fn rows_are_forwarded_to_anywhere_among_thousands_of_blocks() {
    for (seed, version) in [(30, Version::Me), (31, Version::Ms)] {
        in_simulation(seed, async move {
            let (table, all) = table(version, Compression::None).await;
            assert!(2000 << 10 < table.data_bytes());
            let mut prng = Prng::from_seed(seed);
            for round in 0..24 {
                let reversed = round % 2 == 1;
                let slice =
                    Slice { forwarding: true, with_static: false, reversed, ..Slice::full() };
                let cache = IndexCache::new(4 << 20);
                let open = || -> Box<dyn Source> {
                    let access = Access::new(IoClass::Query, &cache);
                    let scope = if round % 3 == 0 { one() } else { everything() };
                    let source = table.read(scope, slice.clone(), access);
                    Box::new(if round % 3 == 1 { source.by_index() } else { source })
                };
                let direction = if reversed { Direction::Reversed } else { Direction::Forward };
                let source = match round % 4 {
                    0 | 1 => open(),
                    _ => reader::merge(Rc::new(schema()), direction, vec![open(), open()]),
                };
                check_forwarding_anywhere(source, &all, reversed, &mut prng).await;
            }
        });
    }
}
