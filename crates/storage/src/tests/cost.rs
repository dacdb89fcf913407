//! How often reads of SSTables ask for memory, once what they hand on is there: a number that does
//! not depend on the machine. The disk is a real one, since a simulated one allocates.

use super::*;
use crate::shard::view::View;
use mutation::{ClusteringRange, Fragment};
use reader::{Budget, Slice};
use runtime::io::IoClass;
use sstable::{Access, Lookup, Version};
use std::future::{Future, poll_fn};
use std::pin::pin;
use stdx::Bytes;
use testkit::real;

/// A row of a large partition, next to one that was read; the key and the range that are asked for
/// are among them. 20 are wanted.
const NEXT_ROW_MAX: u64 = 11;
/// A partition of one row that the row cache does not have, from the command to the page. 20 are
/// wanted of all that a statement does.
const MISSED_PARTITION_MAX: u64 = 11;

const ROWS: u32 = 3000;
const PARTITIONS: u64 = 1000;
/// The partition that has all of them.
const LARGE: u64 = PARTITIONS;

/// The allocations of a future's own polls.
async fn allocations<F: Future>(future: F) -> (F::Output, u64) {
    let (mut future, mut count) = (pin!(future), 0);
    let output = poll_fn(|context| {
        let before = memory::counts().allocations;
        let polled = future.as_mut().poll(context);
        count += memory::counts().allocations - before;
        polled
    });
    (output.await, count)
}

/// What most reads need at most. The first ones make what later ones find; now and then one makes
/// the cache grow.
fn usual(counts: &mut [u64]) -> u64 {
    counts.sort_unstable();
    counts[counts.len() * 9 / 10]
}

/// Some rows of the large partition and each small one, in an SSTable.
async fn filled(root: &std::path::Path, version: Version) -> (Rc<Storage>, TableSchema) {
    let mut config = Config::new(root, Uuid::from_u128(7));
    config.sstables.version = version;
    config.sstables.column_index_bytes = 4 << 10;
    let storage = open(config).await;
    storage.replay(Log::Data).await.unwrap();
    let schema = schema(1, "t1");
    for row in 0..ROWS {
        storage.apply_unlogged(&write(&schema, LARGE, row, 1, &[row as u8; 200])).unwrap();
    }
    for partition in 0..PARTITIONS {
        storage.apply_unlogged(&write(&schema, partition, 1, 1, &[7; 100])).unwrap();
    }
    storage.flush(schema.id).await.unwrap();
    storage.drop_row_cache();
    (storage, schema)
}

/// A row of the large partition, past the row cache.
async fn row(storage: &Storage, schema: &TableSchema, row: u32, batch: &mut Vec<Fragment>) {
    batch.clear();
    let range = ClusteringRange::of_prefix(Bytes::from(clustering(&[row, 0])));
    let slice = Slice { ranges: vec![range], with_static: false, ..Slice::full() };
    let table = storage.shard().table(schema.id).unwrap();
    let tablet = &table.tablets()[0];
    let access = Access::new(IoClass::Query, storage.index_cache());
    let view = View::of(tablet, &table.schema(), access, None);
    let mut source = view.partition(&Lookup::new(Bytes::from(key(LARGE))), slice);
    loop {
        let filled = batch.len();
        match source.try_fill(Budget::BATCH, batch) {
            Some(done) => done.unwrap(),
            None => source.fill(Budget::BATCH, batch).await.unwrap(),
        }
        if batch.len() == filled {
            return;
        }
    }
}

async fn check(root: std::path::PathBuf, version: Version) {
    let (storage, schema) = filled(&root, version).await;
    let mut batch = Vec::new();
    let mut counts = Vec::new();
    for number in (0..40).map(|number| 50 * number) {
        row(&storage, &schema, number, &mut batch).await;
        let ((), count) = allocations(row(&storage, &schema, number + 1, &mut batch)).await;
        let rows = batch.iter().filter(|one| matches!(one, Fragment::Row { .. })).count();
        assert_eq!(rows, 1);
        counts.push(count);
    }
    assert!(usual(&mut counts) <= NEXT_ROW_MAX, "{version:?}: {counts:?}");
    let mut counts = Vec::new();
    for partition in 0..PARTITIONS {
        let command = command(&schema, Partitions::Key(key(partition)));
        let (page, count) = allocations(storage.read(&command)).await;
        assert_eq!(page.unwrap().row_count, 1);
        counts.push(count);
    }
    assert!(usual(&mut counts) <= MISSED_PARTITION_MAX, "{version:?}: {counts:?}");
    storage.stop().await.unwrap();
}

#[test]
fn reads_of_sstables_ask_for_memory_as_seldom_as_they_did() {
    for version in [Version::Me, Version::Ms] {
        real::run(1, move |root| check(root, version));
    }
}
