//! Validating, scrubbing and distributing: what is whole has no breach and comes back; what is out
//! of order is found, and comes back in order.

use crate::support;
use crate::support::{DIR, drain_all, everything, in_simulation, read_all, write};
use model::{ColumnId, TableSchema, Type, Uuid};
use mutation::{Cell, ClusteringPosition, Direction, Fragment, Marker, RowBuilder, Tombstone};
use reader::{ReadError, Slice, Source, merge};
use runtime::io::{IoClass, OpenOptions, fs};
use sstable::compress::output::{CRC_CHUNK_BYTES, crc_file};
use sstable::scrub::{Mode, Target, distribute, scrub, validate};
use sstable::store::list;
use sstable::{Component, Compression, Descriptor, Table, WriterOptions};
use std::path::Path;
use std::rc::Rc;
use stdx::Bytes;
use stdx::checksum::crc32;

const OUT: &str = "/data/ks/out";

/// Follows a scrub of which the test knows what is wrong.
fn silent(_: &ReadError) {}

fn schema() -> TableSchema {
    TableSchema::builder("ks", "t", Uuid::from_u128(9))
        .partition_key("p", Type::Int)
        .clustering("c", Type::Int)
        .regular("v", Type::Int)
        .build()
        .unwrap()
}

fn options() -> WriterOptions {
    let mut options = WriterOptions::of_schema(&schema(), "memtable").unwrap();
    options.compression = Compression::None;
    options
}

fn key(value: i32) -> model::DecoratedKey {
    model::DecoratedKey::new(Bytes::copy_from(&value.to_be_bytes()))
}

fn prefix(value: i32) -> Bytes {
    let mut out = Vec::new();
    model::key::push_clustering(&value.to_be_bytes(), &mut out);
    Bytes::copy_from(&out)
}

fn row(value: i32) -> Fragment {
    let mut row = RowBuilder::new(Vec::new());
    row.marker(Marker::Live { timestamp: 100 });
    row.cell(ColumnId(2), Cell::live(100, &value.to_be_bytes()));
    Fragment::Row { key: prefix(value), row: Bytes::copy_from(&row.finish()) }
}

fn change(value: i32, timestamp: i64) -> Fragment {
    let position = ClusteringPosition::before(prefix(value));
    let tombstone = match timestamp {
        0 => Tombstone::NONE,
        timestamp => Tombstone::new(timestamp, 1),
    };
    Fragment::RangeTombstoneChange { position, tombstone }
}

/// Partitions in ring order, each with these elements.
fn partitions(keys: &[i32], elements: &[Fragment]) -> Vec<Fragment> {
    let mut keys: Vec<_> = keys.iter().map(|value| key(*value)).collect();
    keys.sort();
    let mut out = Vec::new();
    for key in keys {
        out.push(Fragment::PartitionStart { key, tombstone: Tombstone::NONE });
        out.extend_from_slice(elements);
        out.push(Fragment::PartitionEnd);
    }
    out
}

async fn data_of(table: &Table) -> Vec<u8> {
    fs::read_file(table.descriptor().path(Path::new(DIR), Component::Data)).await.unwrap()
}

/// Puts other content in the place of a file.
async fn replace(table: &Table, component: Component, content: &[u8]) {
    let path = table.descriptor().path(Path::new(DIR), component);
    fs::remove_file(&path).await.unwrap();
    let file = runtime::io::File::open(&path, OpenOptions::create_new()).await.unwrap();
    let mut buf = runtime::io::AlignedBuf::with_capacity(content.len());
    buf.extend_from_slice(content);
    file.write_tail(IoClass::Flush, 0, buf).await.unwrap();
    file.close().await.unwrap();
}

/// Changes Data.db, which stays as long as it is, and opens the table again. Its checksums are
/// right, as a writer leaves them that has put something in the wrong place.
async fn with_data(table: Rc<Table>, data: Vec<u8>) -> Rc<Table> {
    assert_eq!(data_of(&table).await.len(), data.len());
    let checksums: Vec<u32> = data.chunks(CRC_CHUNK_BYTES).map(crc32).collect();
    replace(&table, Component::Crc, &crc_file(&checksums)).await;
    replace(&table, Component::Digest, crc32(&data).to_string().as_bytes()).await;
    replace(&table, Component::Data, &data).await;
    reopen(table.descriptor(), DIR).await
}

async fn reopen(descriptor: Descriptor, dir: &str) -> Rc<Table> {
    Table::open(Path::new(dir), descriptor, Rc::new(schema()), &support::cache()).await.unwrap()
}

async fn breaches(table: &Rc<Table>) -> Vec<String> {
    let mut out = Vec::new();
    let mut tell = |error: &ReadError| out.push(error.to_string());
    let count = validate(table, IoClass::Query, &mut tell).await.unwrap();
    assert_eq!(count, out.len() as u64);
    out
}

fn target() -> Target {
    Target::new(Path::new(OUT), Rc::new(schema()), options(), IoClass::Compaction)
}

/// All that the files in `OUT` hold together; each is whole by itself.
async fn outputs() -> (usize, Vec<Fragment>) {
    let listing = list(Path::new(OUT)).await.unwrap();
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for found in &listing.tables {
        let table = reopen(found.descriptor, OUT).await;
        assert_eq!(breaches(&table).await, Vec::<String>::new());
        sources.push(Box::new(table.read(everything(), Slice::full(), support::access())));
    }
    let mut merged = merge(Rc::new(schema()), Direction::Forward, sources);
    (listing.tables.len(), drain_all(&mut *merged).await.unwrap())
}

#[test]
fn what_is_whole_stays_as_it_is() {
    in_simulation(1, async {
        fs::create_dir_all(OUT).await.unwrap();
        let elements = [change(1, 5), row(2), change(3, 0), row(4), row(5)];
        let written = partitions(&[1, 2, 3], &elements);
        let table = write(schema(), &written, options()).await.unwrap();
        assert_eq!(breaches(&table).await, Vec::<String>::new());
        for mode in [Mode::Abort, Mode::Skip, Mode::Segregate] {
            let outcome =
                scrub(&table, mode, &target(), &mut |error: &ReadError| panic!("{error}")).await;
            let outcome = outcome.unwrap();
            assert_eq!((outcome.problems, outcome.written.len()), (0, 1));
            let again = reopen(outcome.written[0].descriptor, OUT).await;
            assert_eq!(read_all(&again).await.unwrap(), written);
        }
    });
}

/// Three partitions of four rows each, all of one length, with two stretches of the data exchanged.
async fn exchanged(swap: impl Fn(&mut Vec<u8>, usize)) -> (Vec<Fragment>, Rc<Table>) {
    fs::create_dir_all(OUT).await.unwrap();
    let written = partitions(&[1, 2, 3], &[row(1), row(2), row(3), row(4)]);
    let table = write(schema(), &written, options()).await.unwrap();
    let mut data = data_of(&table).await;
    let partition_bytes = data.len() / 3;
    assert_eq!(data.len() % 3, 0);
    swap(&mut data, partition_bytes);
    (written, with_data(table, data).await)
}

fn swap(data: &mut [u8], a: usize, b: usize, length: usize) {
    for offset in 0..length {
        data.swap(a + offset, b + offset);
    }
}

#[test]
fn partitions_out_of_order() {
    in_simulation(2, async {
        let (written, table) = exchanged(|data, length| swap(data, 0, length, length)).await;
        let found = breaches(&table).await;
        assert!(found.iter().any(|text| text.contains("partitions out of order")), "{found:?}");
        assert!(found.iter().any(|text| text.contains("partition mismatch")), "{found:?}");
        let aborted = scrub(&table, Mode::Abort, &target(), &mut silent).await.unwrap_err();
        assert!(aborted.to_string().contains("partitions out of order"), "{aborted}");
        assert_eq!(outputs().await.0, 0);
        let skipped = scrub(&table, Mode::Skip, &target(), &mut silent).await.unwrap();
        assert_eq!((skipped.problems, skipped.written[0].partitions), (1, 2));
        assert_eq!(outputs().await.1, written[6..]);
        scrub(&table, Mode::Segregate, &target(), &mut silent).await.unwrap();
        // One file of the skip, two of these.
        assert_eq!(outputs().await, (3, written));
    });
}

/// The length of a partition's head, and of a row.
const HEAD_BYTES: usize = 2 + 4 + 12;

#[test]
fn rows_out_of_order() {
    in_simulation(3, async {
        let (written, table) = exchanged(|data, length| {
            let row_bytes = (length - HEAD_BYTES - 1) / 4;
            assert_eq!((length - HEAD_BYTES - 1) % 4, 0);
            swap(data, HEAD_BYTES + row_bytes, HEAD_BYTES + 2 * row_bytes, row_bytes);
        })
        .await;
        let found = breaches(&table).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("rows or range tombstones out of order"), "{found:?}");
        let skipped = scrub(&table, Mode::Skip, &target(), &mut silent).await.unwrap();
        assert_eq!((skipped.problems, skipped.written[0].rows), (1, 11));
        let segregated = scrub(&table, Mode::Segregate, &target(), &mut silent).await.unwrap();
        let rows: Vec<u64> = segregated.written.iter().map(|sealed| sealed.rows).collect();
        assert_eq!(rows.iter().sum::<u64>(), 12);
        assert_eq!(outputs().await, (3, written));
    });
}

#[test]
fn what_cannot_be_read_is_left_out() {
    in_simulation(4, async {
        // The flags of the second row of the first partition say that it is shadowable of old.
        let (written, table) = exchanged(|data, length| {
            let row_bytes = (length - HEAD_BYTES - 1) / 4;
            data[HEAD_BYTES + row_bytes] = 0x80;
            data[HEAD_BYTES + row_bytes + 1] = 0x02;
        })
        .await;
        let found = breaches(&table).await;
        assert_eq!(found.len(), 1, "{found:?}");
        scrub(&table, Mode::Abort, &target(), &mut silent).await.unwrap_err();
        let skipped = scrub(&table, Mode::Skip, &target(), &mut silent).await.unwrap();
        assert_eq!((skipped.problems, skipped.written[0].rows), (1, 9));
        let mut expected = written[..2].to_vec();
        expected.extend_from_slice(&written[5..]);
        assert_eq!(outputs().await.1, expected);
    });
}

async fn all_checked(table: &Rc<Table>) -> Result<Vec<Fragment>, ReadError> {
    let source = table.read_checked(everything(), Slice::full(), support::access());
    support::drain(source).await
}

/// A flipped bit of a value that nothing but a checksum tells.
#[test]
fn a_damaged_chunk_costs_the_partitions_in_it_alone() {
    in_simulation(6, async {
        fs::create_dir_all(OUT).await.unwrap();
        let (keys, rows): (Vec<i32>, Vec<_>) = ((0..400).collect(), (0..50).map(row).collect());
        let written = partitions(&keys, &rows);
        let table = write(schema(), &written, options()).await.unwrap();
        assert_eq!(all_checked(&table).await.unwrap(), written);
        let mut data = data_of(&table).await;
        let partition_bytes = data.len() / keys.len();
        let bad = 2 * CRC_CHUNK_BYTES..3 * CRC_CHUNK_BYTES;
        assert!(bad.end + partition_bytes < data.len());
        // The last byte of a row's value.
        let at = (bad.start / partition_bytes + 3) * partition_bytes - 2;
        data[at] ^= 1;
        replace(&table, Component::Data, &data).await;
        let table = reopen(table.descriptor(), DIR).await;
        let others = read_all(&table).await.unwrap();
        assert!(others.len() == written.len() && others != written);
        let error = all_checked(&table).await.unwrap_err();
        assert!(error.to_string().contains("CRC.db"), "{error}");
        assert!(table.is_damaged());
        let found = breaches(&table).await;
        assert!(found.iter().all(|text| text.contains("CRC.db")) && !found.is_empty(), "{found:?}");
        scrub(&table, Mode::Abort, &target(), &mut silent).await.unwrap_err();
        scrub(&table, Mode::Skip, &target(), &mut silent).await.unwrap();
        let (files, kept) = outputs().await;
        assert_eq!(files, 1);
        let number = |fragments: &[Fragment]| {
            fragments.iter().filter(|one| matches!(one, Fragment::PartitionEnd)).count()
        };
        let (before, after) = (bad.start / partition_bytes, data.len() - bad.end);
        let after = after / partition_bytes;
        // The partition before the damage is kept up to it.
        assert_eq!(number(&kept), before + 1 + after);
        let fragments = rows.len() + 2;
        assert_eq!(kept[..before * fragments], written[..before * fragments]);
        let tail = after * fragments;
        assert_eq!(kept[kept.len() - tail..], written[written.len() - tail..]);
        assert!(kept.iter().all(|fragment| written.contains(fragment)));
    });
}

#[test]
fn a_full_read_ends_with_the_digest() {
    for (seed, compression) in [(7, Compression::None), (8, Compression::LZ4)] {
        in_simulation(seed, async move {
            let rows: Vec<_> = (0..50).map(row).collect();
            let keys: Vec<i32> = (0..300).collect();
            let written = partitions(&keys, &rows);
            let options = WriterOptions { compression, ..options() };
            let table = write(schema(), &written, options).await.unwrap();
            assert_eq!(all_checked(&table).await.unwrap(), written);
            table.verify(IoClass::Query).await.unwrap();
            replace(&table, Component::Digest, b"12345").await;
            for error in [
                all_checked(&table).await.unwrap_err(),
                table.verify(IoClass::Query).await.unwrap_err(),
            ] {
                assert!(error.to_string().contains("digest of the file"), "{error}");
            }
            assert_eq!(breaches(&table).await.len(), 1);
            let path = table.descriptor().path(Path::new(DIR), Component::Digest);
            fs::remove_file(&path).await.unwrap();
            // What can be done without is done without, but not by who asks for a verdict.
            assert_eq!(all_checked(&table).await.unwrap(), written);
            table.verify(IoClass::Query).await.unwrap_err();
        });
    }
}

#[test]
fn partitions_go_where_they_are_told_to() {
    in_simulation(5, async {
        fs::create_dir_all(OUT).await.unwrap();
        let keys: Vec<i32> = (0..20).collect();
        let written = partitions(&keys, &[change(0, 5), row(1), change(2, 0)]);
        let table = write(schema(), &written, options()).await.unwrap();
        let mut source = table.read(everything(), Slice::full(), support::access());
        let even = |key: &model::DecoratedKey| key.key[3] % 2;
        let mut choose = |key: &model::DecoratedKey| match even(key) {
            _ if key.key[3] == 7 => None,
            0 => Some(0),
            _ => Some(2),
        };
        let out = distribute(&mut source, &target(), 3, &mut choose).await.unwrap();
        let counts: Vec<Option<u64>> =
            out.iter().map(|one| one.as_ref().map(|sealed| sealed.partitions)).collect();
        assert_eq!(counts, [Some(10), None, Some(9)]);
        let without: Vec<i32> = keys.into_iter().filter(|key| *key != 7).collect();
        let expected = partitions(&without, &[change(0, 5), row(1), change(2, 0)]);
        assert_eq!(outputs().await, (2, expected));
    });
}
