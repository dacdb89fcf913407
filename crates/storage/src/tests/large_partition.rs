//! One partition far larger than memory: what writing, merging and reading it take does not grow
//! with it.

use super::*;
use crate::{Rewrite, SourceOptions};
use model::DecoratedKey;
use mutation::Fragment;
use reader::{Budget, PartitionScope, Slice};
use runtime::task::Scope;
use sstable::Version;
use stdx::Bytes;

const ROW_BYTES: usize = 1_000;
/// Fewer than are merged without being asked.
const FLUSHES: u32 = 3;

/// The most that each phase allocated above what there was at its start, in bytes: flushing,
/// merging, reading by pages, reading as a stream; and what the SSTable keeps in memory.
type Peaks = [i64; 5];

/// Follows the live bytes of the shard.
struct Watch {
    start: std::cell::Cell<i64>,
    most: Rc<std::cell::Cell<i64>>,
}

impl Watch {
    fn on(scope: &Scope) -> Watch {
        let most = Rc::new(std::cell::Cell::new(0));
        let seen = most.clone();
        scope.spawn(async move {
            loop {
                seen.set(seen.get().max(memory::live_bytes()));
                runtime::time::sleep(Duration::from_micros(100)).await;
            }
        });
        Watch { start: std::cell::Cell::new(0), most }
    }

    fn begin(&self) {
        self.start.set(memory::live_bytes());
        self.most.set(self.start.get());
    }

    fn end(&self) -> i64 {
        self.most.get() - self.start.get()
    }
}

async fn read_pages(storage: &Storage, schema: &TableSchema) -> u64 {
    let by_key = command(schema, Partitions::Key(key(1)));
    let mut command = ReadCommand { bytes_max: 64 << 10, ..by_key };
    let mut seen = 0;
    loop {
        let page = storage.read(&command).await.unwrap();
        seen += page.row_count;
        command.resume = page.resume;
        if command.resume.is_none() {
            return seen;
        }
    }
}

async fn read_stream(storage: &Storage, schema: &TableSchema) -> u64 {
    let scope = PartitionScope::Key(DecoratedKey::new(Bytes::from(key(1))));
    let options = SourceOptions::QUERY;
    let mut source = storage.open_source(schema.id, scope, Slice::full(), options).unwrap();
    let (mut batch, mut rows) = (Vec::new(), 0);
    loop {
        source.fill(Budget::BATCH, &mut batch).await.unwrap();
        if batch.is_empty() {
            return rows;
        }
        rows += batch.iter().filter(|one| matches!(one, Fragment::Row { .. })).count() as u64;
        batch.clear();
        runtime::task::yield_if_needed().await;
    }
}

async fn measure(root: std::path::PathBuf, version: Version, count: u32) -> Peaks {
    let mut config = Config {
        segment_bytes: 16 * SEGMENT,
        memtable_bytes_max: 1 << 30,
        index_cache_bytes: 64 << 10,
        memory_bytes: 8 << 20,
        ..Config::new(&root, Uuid::from_u128(7))
    };
    // Many blocks: their index is what could grow.
    config.sstables.version = version;
    config.sstables.column_index_bytes = 4 << 10;
    let storage = open(config).await;
    storage.replay(Log::Data).await.unwrap();
    let schema = schema(1, "t1");
    let scope = Scope::new();
    let watch = Watch::on(&scope);
    let mut flushing = 0;
    for flush in 0..FLUSHES {
        for row in (0..count).filter(|row| row % FLUSHES == flush) {
            storage.apply_unlogged(&write(&schema, 1, row, 1, &[row as u8; ROW_BYTES])).unwrap();
        }
        watch.begin();
        storage.flush(schema.id).await.unwrap();
        flushing = flushing.max(watch.end());
        while 0 < storage.dirty_bytes() {
            runtime::task::yield_now().await;
        }
    }
    watch.begin();
    storage.compact_all(schema.id, Rewrite::default()).await.unwrap();
    let merging = watch.end();
    watch.begin();
    assert_eq!(read_pages(&storage, &schema).await, count as u64);
    let by_pages = watch.end();
    watch.begin();
    assert_eq!(read_stream(&storage, &schema).await, count as u64);
    let as_stream = watch.end();
    let sstables = storage.shard().table(schema.id).unwrap().sstables();
    let resident = sstables.iter().map(|one| one.memory_bytes() as i64).sum();
    scope.cancel().await;
    storage.stop().await.unwrap();
    [flushing, merging, by_pages, as_stream, resident]
}

#[test]
fn what_a_large_partition_takes_does_not_grow_with_it() {
    for version in [Version::Me, Version::Ms] {
        let run = |count| testkit::real::run(1, move |root| measure(root, version, count));
        let (some, more) = (run(2_000), run(8_000));
        for (phase, (some, more)) in ["flush", "merge", "pages", "stream", "resident"]
            .into_iter()
            .zip(some.into_iter().zip(more))
        {
            assert!(
                more < some + some / 4 + (256 << 10),
                "{version:?}, {phase}: {some} bytes for 2 MB, {more} for 8 MB"
            );
        }
    }
}
