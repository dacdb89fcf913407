//! Slices of partitions with a row index in Rows.db, of files of ours and of Cassandra 5: what is
//! found through the index is what a full read has there.

use crate::support;
use crate::support::generate::Generator;
use model::ClusteringOrder;
use model::key::clustering_components;
use model::{ColumnId, TableSchema, Type};
use mutation::{Cell, ClusteringPosition, ClusteringRange, Fragment, RowBuilder, Tombstone};
use reader::Slice;
use runtime::io::{IoClass, fs};
use sstable::index::RowIndex;
use sstable::statistics::Statistics;
use sstable::store::name::{Parsed, parse_file_name};
use sstable::testing::schema_of_header;
use sstable::{
    Access, Component, Compression, Descriptor, Generation, IndexCache, Lookup, Scope, Table,
    Version, Writer, WriterOptions,
};
use std::path::Path;
use std::rc::Rc;
use stdx::{Bytes, Prng};
use testkit::archives;

fn row_key(fragment: &Fragment) -> Option<&Bytes> {
    match fragment {
        Fragment::Row { key, .. } => Some(key),
        _ => None,
    }
}

fn rows(fragments: &[Fragment]) -> Vec<Fragment> {
    fragments.iter().filter(|fragment| row_key(fragment).is_some()).cloned().collect()
}

/// From before one key to behind another.
fn range(from: &Bytes, to: &Bytes) -> ClusteringRange {
    ClusteringRange {
        start: ClusteringPosition { prefix: from.clone(), weight: -1 },
        end: ClusteringPosition { prefix: to.clone(), weight: 1 },
    }
}

/// The first component of a key, as a prefix.
fn prefix(key: &Bytes) -> Bytes {
    let first = clustering_components(key).next().unwrap();
    let mut out = Vec::new();
    model::key::push_clustering(first, &mut out);
    out.into()
}

async fn check_slice(table: &Rc<Table>, lookup: &Lookup, all: &[Fragment], slice: Slice) {
    let order = table.mapping().schema.order.clone();
    let inside = |key: &Bytes| {
        slice.ranges.iter().any(|range| {
            let at = |position: &ClusteringPosition| {
                order.compare((&position.prefix, position.weight), (key, 0))
            };
            at(&range.start).is_lt() && at(&range.end).is_gt()
        })
    };
    let mut expected: Vec<Fragment> =
        all.iter().filter(|row| row_key(row).is_some_and(&inside)).cloned().collect();
    if slice.reversed {
        expected.reverse();
    }
    let source = table.read(Scope::Key(lookup.clone()), slice.clone(), support::access());
    let found = rows(&support::drain(source).await.unwrap());
    assert_eq!(found.len(), expected.len(), "{slice:?}");
    assert_eq!(found, expected, "{slice:?}");
}

/// Slices of every partition: of one row, of ranges, of several, of prefixes, both ways. Answers
/// how many partitions have a row index.
async fn check(table: &Rc<Table>, prng: &mut Prng) -> usize {
    let fragments = support::read_all(table).await.unwrap();
    support::check_keys(table, &fragments).await.unwrap();
    let mut indexed = 0;
    for partition in fragments.split_inclusive(|fragment| *fragment == Fragment::PartitionEnd) {
        let Some(Fragment::PartitionStart { key, .. }) = partition.first() else { panic!() };
        let lookup = Lookup::new(key.key.clone());
        let located = table.index().find(&lookup, &support::access()).await.unwrap().unwrap();
        indexed += matches!(located.rows, Some(RowIndex::Trie(_))) as usize;
        let all = rows(partition);
        let order: &ClusteringOrder = &table.mapping().schema.order;
        if all.is_empty() || order.columns.is_empty() {
            continue;
        }
        for reversed in [false, true] {
            for _ in 0..all.len().min(12) {
                let mut picks: Vec<usize> =
                    (0..6).map(|_| prng.below(all.len() as u64) as usize).collect();
                picks.sort_unstable();
                picks.dedup();
                let keys: Vec<&Bytes> = picks.iter().filter_map(|at| row_key(&all[*at])).collect();
                let (first, last) = (keys[0], keys[keys.len() - 1]);
                let each = keys.iter().map(|key| range(key, key)).collect();
                let full = ClusteringRange::full();
                for ranges in [
                    vec![range(first, first)],
                    vec![range(first, last)],
                    vec![range(&prefix(first), &prefix(first))],
                    vec![ClusteringRange { start: range(first, last).start, ..full.clone() }],
                    vec![ClusteringRange { end: range(first, last).end, ..full.clone() }],
                    each,
                    vec![full],
                ] {
                    let slice = Slice { ranges, reversed, with_static: false, ..Slice::full() };
                    check_slice(table, &lookup, &all, slice).await;
                }
            }
        }
    }
    indexed
}

#[test]
fn slices_of_random_tables() {
    support::in_simulation(1, async {
        let (mut prng, mut indexed) = (Prng::from_seed(7), 0);
        for seed in 0..36 {
            let mut generator = Generator::new(seed);
            let schema = generator.draw(&model::testing::table_schema());
            let fragments = generator.partitions(&schema, 40);
            let version = [Version::Ms, Version::Mt][(seed % 2) as usize];
            let column_index_bytes = [1, 100, 400][(seed % 3) as usize];
            let options = WriterOptions { version, column_index_bytes, ..support::options() };
            if let Some(table) = support::write(schema, &fragments, options).await {
                indexed += check(&table, &mut prng).await;
            }
        }
        assert!(20 < indexed, "{indexed} partitions have a row index");
    });
}

/// Reads and bytes of queries so far.
fn reads() -> (u64, u64) {
    let stats = runtime::io::stats(IoClass::Query);
    (stats.reads, stats.read_bytes)
}

/// A partition of so many rows, one block each, whose keys `key_of` makes.
async fn wide(ty: Type, count: i32, key_of: fn(i32) -> Bytes) -> (Rc<Table>, Lookup) {
    let schema = Rc::new(
        TableSchema::builder("ks", "wide", model::Uuid::nil())
            .partition_key("k", Type::Int)
            .clustering("c", ty)
            .regular("v", Type::Text)
            .build()
            .unwrap(),
    );
    let options = WriterOptions {
        version: Version::Ms,
        column_index_bytes: 1,
        column_index_scale_bytes: usize::MAX,
        ..WriterOptions::of_schema(&schema, "memtable").unwrap()
    };
    let options = WriterOptions { compression: Compression::None, ..options };
    let (dir, class) = (Path::new(support::DIR), IoClass::Flush);
    let generation = Generation::Number(1);
    let writer = Writer::create(dir, generation, schema.clone(), options, class).await;
    let mut writer = writer.unwrap();
    let lookup = Lookup::new(Bytes::copy_from(&1i32.to_be_bytes()));
    let tombstone = Tombstone::NONE;
    let key = lookup.key.clone();
    writer.write(&Fragment::PartitionStart { key, tombstone }).await.unwrap();
    for number in 0..count {
        let mut row = RowBuilder::new(Vec::new());
        row.cell(ColumnId(2), Cell::live(1_700_000_000_000_000, b"value"));
        let row = row.finish().into();
        writer.write(&Fragment::Row { key: key_of(number), row }).await.unwrap();
    }
    writer.write(&Fragment::PartitionEnd).await.unwrap();
    let sealed = writer.finish().await.unwrap().unwrap();
    let table = Table::open(dir, sealed.descriptor, schema, &support::cache()).await.unwrap();
    (table, lookup)
}

fn one_component(value: &[u8]) -> Bytes {
    let mut key = Vec::new();
    model::key::push_clustering(value, &mut key);
    key.into()
}

/// Rows of a partition of 105 000 blocks: cold, five reads of no more than a page; then, with what
/// that left in the cache, one or two for the next row.
async fn check_reads(ty: Type, key_of: fn(i32) -> Bytes) {
    const ROWS: i32 = 105_000;
    let (table, lookup) = wide(ty, ROWS, key_of).await;
    let mut prng = Prng::from_seed(4);
    let mut costs = [0u64; 9];
    for _ in 0..200 {
        let row = prng.below(ROWS as u64 - 1) as i32;
        let cache = IndexCache::new(1 << 20);
        let read = async |row: i32| {
            let before = reads();
            let ranges = vec![range(&key_of(row), &key_of(row))];
            let slice = Slice { ranges, with_static: false, ..Slice::full() };
            let access = Access::new(IoClass::Query, &cache);
            let source = table.read(Scope::Key(lookup.clone()), slice, access);
            assert_eq!(rows(&support::drain(source).await.unwrap()).len(), 1);
            let after = reads();
            (after.0 - before.0, after.1 - before.1)
        };
        let (cold, bytes) = read(row).await;
        assert!(bytes <= 6 * 4096, "row {row}: {cold} reads of {bytes} bytes");
        costs[cold as usize] += 1;
        let (warm, bytes) = read(row + 1).await;
        assert!(warm <= 2 && bytes <= 2 * 4096, "row {row}: {warm} reads of {bytes} bytes");
    }
    // The block behind is on another page now and then.
    assert!(costs[6..].iter().sum::<u64>() <= 10, "cold reads: {costs:?}");
}

#[test]
fn rows_of_a_large_partition_cost_few_reads() {
    support::in_simulation(3, async {
        check_reads(Type::Int, |row| one_component(&row.to_be_bytes())).await;
    });
}

#[test]
fn rows_with_long_common_prefixes_cost_few_reads() {
    support::in_simulation(4, async {
        let key_of = |row| one_component(format!("tenant-0042/user/profile/{row:09}").as_bytes());
        check_reads(Type::Text, key_of).await;
    });
}

async fn open(dir: &Path, descriptor: Descriptor) -> Rc<Table> {
    let bytes = fs::read_file(descriptor.path(dir, Component::Statistics)).await.unwrap();
    let statistics = Statistics::parse(&bytes, descriptor.version).unwrap();
    let schema = Rc::new(schema_of_header(&statistics.header).expect("known classes"));
    Table::open(dir, descriptor, schema, &support::cache()).await.unwrap()
}

/// The keys of a partition of `blocks`: `c` is a text in descending order, `d` a bigint. Rows that
/// were deleted later are not in the file, but their range tombstones are.
fn keys_of_blocks(partition: i64) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for number in 0..40 * (partition + 1) {
        let c = format!("c{}", number * 7 % 23);
        let d = (number - 20) * 10i64.pow((number % 9) as u32);
        let deleted = partition % 2 == 1 && "c12" < &*c && &*c <= "c3";
        if deleted || (c == "c5" && (-10..1000).contains(&d)) {
            continue;
        }
        let mut key = Vec::new();
        model::key::push_clustering(c.as_bytes(), &mut key);
        model::key::push_clustering(&d.to_be_bytes(), &mut key);
        keys.push(key);
    }
    keys
}

/// `blocks` has partitions 0 to 5 with the keys of [`keys_of_blocks`]; `kinds` has clustering
/// columns varint, decimal (descending), frozen list and inet (descending). Blocks are of 4 KiB.
#[test]
fn slices_of_files_of_cassandra() {
    support::in_simulation(2, async {
        for (path, bytes) in archives::files("cassandra/trie") {
            let path = Path::new(support::DIR).join(path);
            fs::create_dir_all(path.parent().unwrap()).await.unwrap();
            fs::write_file_atomic(&path, &bytes).await.unwrap();
        }
        let mut prng = Prng::from_seed(9);
        for (name, partitions, indexed) in [("blocks", 6, 6), ("kinds", 3, 3)] {
            let dir = Path::new(support::DIR).join(name);
            let mut tables = 0;
            for file in fs::list_dir(&dir).await.unwrap() {
                let Parsed::Known(descriptor, "Data.db") = parse_file_name(&file.name) else {
                    continue;
                };
                assert_eq!(descriptor.version, Version::Da);
                let table = open(&dir, descriptor).await;
                assert_eq!(table.partition_count(), partitions);
                assert_eq!(check(&table, &mut prng).await, indexed, "{name}");
                tables += 1;
                if name == "blocks" {
                    check_blocks(&table).await;
                }
            }
            assert_eq!(tables, 1, "{name}");
        }
    });
}

async fn check_blocks(table: &Rc<Table>) {
    for partition in 0..6i32 {
        let lookup = Lookup::new(Bytes::copy_from(&partition.to_be_bytes()));
        let source = table.read(Scope::Key(lookup), Slice::full(), support::access());
        let found = rows(&support::drain(source).await.unwrap());
        let mut found: Vec<Vec<u8>> =
            found.iter().filter_map(row_key).map(|key| key.to_vec()).collect();
        let mut expected = keys_of_blocks(partition.into());
        found.sort();
        expected.sort();
        expected.dedup();
        assert_eq!(found, expected, "partition {partition}");
    }
}
