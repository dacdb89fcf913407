//! Partitions of which the cache knows all and one memtable has something, and slices of larger
//! ones: answered without a permit, and as the way of all other reads answers.

use super::against_model::{read_all, start};
use super::*;
use crate::shard::read::One;
use mutation::testing;
use sstable::Lookup;
use stdx::{Bytes, Prng};
use testkit::{Draw, SimNode};

/// Whether a read of one partition needs no permit.
fn is_read_at_once(storage: &Storage, command: &ReadCommand, key: &[u8]) -> bool {
    let table = storage.shard().table(command.table).unwrap();
    let (lookup, schema) = (Lookup::new(Bytes::copy_from(key)), table.schema());
    let tablet = table.tablet_of(lookup.key.token).unwrap();
    let one = One { table: &table, tablet: &tablet, schema: &schema, lookup, command };
    one.read_at_once().is_some()
}

#[test]
fn what_lies_in_cache_and_memtable_is_read_at_once() {
    // Compactions expire by the wall clock, which the cache does not know of.
    SimNode::at_epoch(1, 1).run(compare());
}

async fn compare() {
    let (mut draw, mut at_once, mut merged) = (Draw::of(&mut Prng::from_seed(1)), 0, 0);
    let storage = start().await;
    let schema = testing::schema();
    for _ in 0..200 {
        for one in draw.one(reader::testing::mutations()) {
            storage.apply(one).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
        let written = draw.one(reader::testing::mutations());
        let keys = written.iter().map(|one| one.view().unwrap().key().to_vec());
        let keys: Vec<Vec<u8>> = keys.collect();
        for one in written {
            storage.apply(one).await.unwrap();
        }
        for key in keys {
            let mut command = draw.one(reader::testing::command());
            match is_read_at_once(&storage, &command, &key) {
                true => at_once += 1,
                false => merged += 1,
            }
            command.partitions = Partitions::Key(key);
            let seen = read_all(&storage, &command).await;
            let below = ReadCommand { bypass_cache: true, ..command.clone() };
            assert_eq!(seen, read_all(&storage, &below).await, "{command:?}");
        }
    }
    assert!(40 < at_once && 40 < merged, "{at_once} at once, {merged} merged");
    storage.stop().await.unwrap();
}

/// Rows of the partition that is sliced.
const ROWS: u32 = 700;

/// All of them, some shorter than others.
async fn write_rows(storage: &Storage, schema: &TableSchema, timestamp: i64) {
    let mut builder = MutationBuilder::new(schema, &key(1));
    for row in 0..ROWS {
        let value = format!("{timestamp} {row} {}", "v".repeat(row as usize % 60));
        let mut blob = RowBuilder::new(Vec::new());
        blob.marker(Marker::Live { timestamp });
        blob.cell(V, Cell::live(timestamp, value.as_bytes()));
        builder.row(&clustering(&[row, 0]), &blob.finish());
    }
    storage.apply(builder.freeze()).await.unwrap();
    storage.flush(schema.id).await.unwrap();
}

/// A slice of the partition, in either direction.
fn slice_command(schema: &TableSchema, prng: &mut Prng) -> ReadCommand {
    let mut place = |after| (clustering(&[prng.below(ROWS as u64) as u32]), after);
    let (first, second) = (place(-1), place(1));
    let (start, end) = if first.0 <= second.0 { (first, second) } else { (second, first) };
    ReadCommand {
        ranges: vec![SendRange { start, end }],
        reversed: prng.one_in(2),
        row_limit: 1 + prng.below(100),
        ..command(schema, Partitions::Key(key(1)))
    }
}

#[test]
fn a_slice_that_lies_in_some_runs_is_read_at_once() {
    runtime::sim::test(1, || async {
        let config = Config { row_cache_bytes_max: 8 << 20, ..config() };
        let storage = open(config).await;
        let schema = schema(1, "t1");
        let (mut prng, mut at_once, mut merged) = (Prng::from_seed(1), 0, 0);
        for timestamp in 1..4 {
            write_rows(&storage, &schema, timestamp).await;
            if timestamp == 2 {
                // Known piece by piece, with gaps.
                storage.drop_row_cache();
            }
            for round in 0..160 {
                if round == 120 {
                    // A part of the rows is not in the cache alone any more.
                    let write = write(&schema, 1, ROWS + timestamp as u32, timestamp, b"new");
                    storage.apply(write).await.unwrap();
                }
                let mut command = slice_command(&schema, &mut prng);
                let alone = is_read_at_once(&storage, &command, &key(1));
                assert!(!alone || round < 120, "what a memtable has is left out");
                *if alone { &mut at_once } else { &mut merged } += 1;
                let mut below = ReadCommand { bypass_cache: true, ..command.clone() };
                // Two pages.
                for _ in 0..2 {
                    let page = storage.read(&command).await.unwrap();
                    assert_eq!(page, storage.read(&below).await.unwrap(), "{command:?}");
                    let Some(resume) = page.resume else { break };
                    command.resume = Some(resume.clone());
                    below.resume = Some(resume);
                }
            }
            storage.flush(schema.id).await.unwrap();
        }
        assert!(150 < at_once && 125 < merged, "{at_once} at once, {merged} merged");
        storage.stop().await.unwrap();
    });
}
