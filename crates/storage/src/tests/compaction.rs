//! Merges: what they forget, what they keep.

use super::*;
use crate::CompactedSstable;
use model::Token;
use mutation::PurgeCounts;
use testkit::SimNode;

/// Opens table 1 alone, with these options of compaction, ready to be compacted.
async fn open_one(config: Config, pairs: &[(&str, &str)]) -> (Rc<Storage>, TableSchema) {
    let storage = Storage::open(config).await.unwrap();
    let mut schema = schema(1, "t1");
    let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    schema.options.compaction = pairs.collect();
    let map = TabletMap::static_map(runtime::shard_count());
    storage.add_table(Rc::new(schema.clone()), map, Log::Data).await.unwrap();
    storage.replay(Log::Data).await.unwrap();
    (storage, schema)
}

/// Deletes a row, so long ago that it may be forgotten.
fn delete(schema: &TableSchema, partition: u64, row: u32, timestamp: i64) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &key(partition));
    let mut blob = RowBuilder::new(Vec::new());
    blob.tombstone(mutation::Tombstone::new(timestamp, 500));
    builder.row(&clustering(&[row, 0]), &blob.finish());
    builder.freeze()
}

fn sstables(storage: &Storage, schema: &TableSchema) -> Vec<Rc<sstable::Table>> {
    storage.shard().table(schema.id).unwrap().sstables()
}

async fn compact(storage: &Storage, schema: &TableSchema) {
    storage.compact_all(schema.id, Default::default()).await.unwrap();
}

/// Flushes so that the log has nothing of it any more.
async fn flush_and_release(storage: &Storage, schema: &TableSchema) {
    storage.close_log_segments();
    storage.flush(schema.id).await.unwrap();
    runtime::time::sleep(Duration::from_secs(1)).await;
}

#[test]
fn old_deletions_and_what_they_delete_are_forgotten() {
    let mut node = SimNode::new(3, 1);
    node.run(async {
        let (storage, schema) = open_one(config(), &[("enabled", "false")]).await;
        runtime::time::sleep(Duration::from_secs(1)).await;
        storage.apply(write(&schema, 1, 1, 10, b"old")).await.unwrap();
        flush_and_release(&storage, &schema).await;
        storage.apply(delete(&schema, 1, 1, 11)).await.unwrap();
        flush_and_release(&storage, &schema).await;
        assert_eq!(sstables(&storage, &schema).len(), 2);
        // Data as old in memory, of the same partition, keeps the deletion.
        storage.apply(write(&schema, 1, 2, 11, b"as old")).await.unwrap();
        compact(&storage, &schema).await;
        assert_eq!(sstables(&storage, &schema).len(), 1);
        assert_eq!(rows(&storage, &schema, 1).await.len(), 1);
        // So does what the log would bring back, although it is flushed.
        storage.flush(schema.id).await.unwrap();
        compact(&storage, &schema).await;
        let tombstones = |storage: &Storage| -> u64 {
            let all = sstables(storage, &schema);
            all.iter().map(|one| one.stats().tombstones.count_until(i64::MAX)).sum()
        };
        assert_eq!(tombstones(&storage), 1);
        flush_and_release(&storage, &schema).await;
        compact(&storage, &schema).await;
        assert_eq!(tombstones(&storage), 0);
        assert_eq!(rows(&storage, &schema, 1).await.len(), 1);
        // A table of nothing but deletions has no SSTable.
        storage.apply(delete(&schema, 1, 2, 12)).await.unwrap();
        flush_and_release(&storage, &schema).await;
        compact(&storage, &schema).await;
        assert_eq!(sstables(&storage, &schema).len(), 0);
        storage.stop().await.unwrap();
    });
}

/// Of so many inputs came so many fragments.
fn merged(done: &crate::FinishedCompaction) -> &[(u32, u64)] {
    &done.merged
}

#[test]
fn what_has_ended_tells_what_it_read_wrote_and_forgot() {
    let mut node = SimNode::new(10, 1);
    node.run(async {
        let (storage, schema) = open_one(config(), &[("enabled", "false")]).await;
        runtime::time::sleep(Duration::from_secs(1)).await;
        let write = async |new| storage.apply(new).await.unwrap();
        for row in 1..=3 {
            write(super::write(&schema, 1, row, 10, b"old")).await;
        }
        flush_and_release(&storage, &schema).await;
        write(super::write(&schema, 1, 2, 12, b"new")).await;
        write(delete(&schema, 1, 3, 11)).await;
        write(super::write(&schema, 2, 1, 12, b"new")).await;
        flush_and_release(&storage, &schema).await;
        let inputs = sstables(&storage, &schema);
        compact(&storage, &schema).await;
        let [done] = &storage.take_finished_compactions()[..] else { panic!("one merge") };
        // Start, end and two rows of a partition are in both: a row of each is in one alone, with
        // the other partition, which has a start, a row and an end.
        assert_eq!(merged(done), [(1, 4), (2, 4)]);
        let expected = PurgeCounts { tried: 1, kept_for_memtables: 0, kept_for_sstables: 0 };
        assert_eq!(done.purges, expected);
        let named = |all: &[Rc<sstable::Table>]| -> Vec<_> {
            all.iter().map(|one| (one.descriptor().generation, one.disk_bytes())).collect()
        };
        let told = |all: &[CompactedSstable], origin: &str| -> Vec<_> {
            assert!(all.iter().all(|one| one.origin == origin), "{all:?}");
            all.iter().map(|one| (one.generation, one.disk_bytes)).collect()
        };
        assert_eq!(told(&done.inputs, "memtable"), named(&inputs));
        assert_eq!(told(&done.outputs, "compaction"), named(&sstables(&storage, &schema)));
        assert_eq!(done.job.bytes_in, done.inputs.iter().map(|one| one.disk_bytes).sum::<u64>());
        assert_eq!(done.bytes_out, done.outputs[0].disk_bytes);
        // Two that share nothing, with a deletion that a memtable keeps.
        write(delete(&schema, 3, 1, 13)).await;
        flush_and_release(&storage, &schema).await;
        write(super::write(&schema, 3, 1, 12, b"late")).await;
        compact(&storage, &schema).await;
        let [done] = &storage.take_finished_compactions()[..] else { panic!("one merge") };
        assert_eq!(merged(done), [(1, 10)]);
        let expected = PurgeCounts { tried: 1, kept_for_memtables: 1, kept_for_sstables: 0 };
        assert_eq!(done.purges, expected);
        storage.stop().await.unwrap();
    });
}

#[test]
fn merges_begin_after_flushes_that_somebody_waits_for_but_not_late() {
    let mut node = SimNode::new(12, 1);
    node.run(async {
        let tiers = [("class", "SizeTieredCompactionStrategy"), ("min_threshold", "2")];
        let (storage, schema) = open_one(config(), &tiers).await;
        let two = async |first| {
            for partition in first..first + 2 {
                storage.apply(write(&schema, partition, 1, 10, b"a")).await.unwrap();
                storage.flush(schema.id).await.unwrap();
            }
            runtime::time::sleep(Duration::from_millis(500)).await;
            sstables(&storage, &schema).len()
        };
        assert_eq!(two(1).await, 1);
        // As long as there is one flush that somebody waits for, a second at most.
        let awaited = &storage.shard().flushes_awaited;
        awaited.set(1);
        assert_eq!(two(3).await, 3);
        runtime::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(sstables(&storage, &schema).len(), 2);
        awaited.set(0);
        storage.shard().flushed.notify_all();
        runtime::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(sstables(&storage, &schema).len(), 1);
        storage.stop().await.unwrap();
    });
}

#[test]
fn what_is_outside_of_a_merge_keeps_deletions() {
    let mut node = SimNode::new(4, 1);
    node.run(async {
        let windows = [("class", "TimeWindowCompactionStrategy"), ("enabled", "false")];
        let (storage, schema) = open_one(config(), &windows).await;
        runtime::time::sleep(Duration::from_secs(1)).await;
        let day = 86_400_000_000;
        // The data is of the first window, its deletion of the second.
        storage.apply(write(&schema, 1, 1, 10, b"old")).await.unwrap();
        flush_and_release(&storage, &schema).await;
        storage.apply(delete(&schema, 1, 1, day)).await.unwrap();
        storage.apply(write(&schema, 2, 1, day, b"other")).await.unwrap();
        flush_and_release(&storage, &schema).await;
        compact(&storage, &schema).await;
        assert_eq!(sstables(&storage, &schema).len(), 2);
        assert_eq!(rows(&storage, &schema, 1).await.len(), 0);
        storage.stop().await.unwrap();
    });
}

#[test]
fn what_cannot_be_opened_keeps_deletions() {
    let mut node = SimNode::new(9, 1);
    let off = [("enabled", "false")];
    node.run(async move {
        let (storage, schema) = open_one(config(), &off).await;
        storage.apply(write(&schema, 1, 1, 10, b"old")).await.unwrap();
        storage.flush(schema.id).await.unwrap();
        storage.stop().await.unwrap();
    });
    node.crash();
    let files = node.disk().files();
    let statistics = files.iter().find(|path| path.contains("-Statistics.db")).unwrap().clone();
    node.run(async move {
        let (storage, schema) = open_one(config(), &off).await;
        storage.apply(delete(&schema, 1, 1, 11)).await.unwrap();
        storage.flush(schema.id).await.unwrap();
        storage.stop().await.unwrap();
    });
    node.crash();
    node.disk().corrupt(&statistics, 0, 0xff);
    node.run(async move {
        let (storage, schema) = open_one(config(), &off).await;
        runtime::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(sstables(&storage, &schema).len(), 1);
        compact(&storage, &schema).await;
        storage.stop().await.unwrap();
    });
    node.crash();
    node.disk().corrupt(&statistics, 0, 0xff);
    node.run(async move {
        let (storage, schema) = open_one(config(), &off).await;
        assert_eq!(sstables(&storage, &schema).len(), 2);
        assert_eq!(rows(&storage, &schema, 1).await.len(), 0);
        storage.stop().await.unwrap();
    });
}

#[test]
fn what_has_expired_as_a_whole_is_dropped_unread() {
    let mut node = SimNode::new(5, 1);
    node.run(async {
        let (storage, schema) = open_one(config(), &[]).await;
        runtime::time::sleep(Duration::from_secs(1)).await;
        storage.apply(delete(&schema, 1, 1, 10)).await.unwrap();
        storage.apply(delete(&schema, 2, 1, 11)).await.unwrap();
        flush_and_release(&storage, &schema).await;
        storage.apply(write(&schema, 3, 1, 20, b"live")).await.unwrap();
        flush_and_release(&storage, &schema).await;
        runtime::time::sleep(Duration::from_secs(1)).await;
        let left = sstables(&storage, &schema);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].partition_count(), 1);
        let done = storage.take_finished_compactions();
        assert_eq!(done.len(), 1);
        assert_eq!((done[0].job.rows_done, done[0].bytes_out), (0, 0));
        storage.stop().await.unwrap();
    });
}

#[test]
fn runs_are_cut_between_tokens() {
    let mut node = SimNode::new(6, 1);
    node.run(async {
        let small = [("sstable_size_in_mb", "1"), ("enabled", "false")];
        let (storage, schema) = open_one(config(), &small).await;
        let value = vec![7; 3_000];
        for round in 0..3u32 {
            for partition in 0..500 {
                let new = write(&schema, partition, round, 1 + round as i64, &value);
                storage.apply(new).await.unwrap();
            }
            storage.flush(schema.id).await.unwrap();
            compact(&storage, &schema).await;
        }
        let mut all = sstables(&storage, &schema);
        all.sort_by_key(|one| one.first_key().token);
        assert!(4 <= all.len() && all.len() <= 5, "{}", all.len());
        let run = all[0].scylla().run_id;
        assert!(run.is_some() && all.iter().all(|one| one.scylla().run_id == run));
        let mut last = Token::MIN;
        for one in &all {
            assert!(last < one.first_key().token && one.data_bytes() < (1 << 20) + 20_000);
            last = one.last_key().token;
        }
        for partition in 0..500 {
            assert_eq!(rows(&storage, &schema, partition).await.len(), 3);
        }
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_large_merge_does_not_hold_up_a_small_one() {
    let mut node = SimNode::new(7, 1);
    node.run(async {
        let config = Config { memtable_bytes_max: 8 << 20, ..config() };
        let (storage, large) = open_one(config, &[]).await;
        let small = schema(2, "t2");
        let map = TabletMap::static_map(1);
        storage.add_table(Rc::new(small.clone()), map, Log::Data).await.unwrap();
        for schema in [&large, &small] {
            storage.set_auto_compaction(schema.id, false);
        }
        for round in 0..4 {
            for partition in 0..50 {
                let value = vec![partition as u8; 20_000];
                let new = write(&large, partition, round, 1, &value);
                storage.apply(new).await.unwrap();
            }
            storage.apply(write(&small, 1, round, 1, b"small")).await.unwrap();
            storage.flush_all().await.unwrap();
        }
        storage.set_auto_compaction(large.id, true);
        while storage.running_compactions().is_empty() {
            runtime::task::yield_now().await;
        }
        storage.set_auto_compaction(small.id, true);
        while 1 < sstables(&storage, &small).len() {
            runtime::time::sleep(Duration::from_micros(100)).await;
        }
        assert_eq!(storage.running_compactions()[0].name, "t1");
        while 1 < sstables(&storage, &large).len() {
            runtime::time::sleep(Duration::from_millis(1)).await;
        }
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_flush_is_divided_by_windows() {
    let mut node = SimNode::new(8, 1);
    node.run(async {
        let windows = [("class", "TimeWindowCompactionStrategy"), ("enabled", "false")];
        let (storage, schema) = open_one(config(), &windows).await;
        let day = 86_400_000_000;
        for (row, at) in [1, 2, day, 2 * day, 2 * day + 1].into_iter().enumerate() {
            storage.apply(write(&schema, 1, row as u32, at, b"value")).await.unwrap();
            storage.apply(delete(&schema, 2, row as u32, at)).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
        let mut found: Vec<_> =
            sstables(&storage, &schema).iter().map(|one| one.timestamps()).collect();
        found.sort_unstable();
        assert_eq!(found, [(1, 2), (day, day), (2 * day, 2 * day + 1)]);
        assert_eq!(rows(&storage, &schema, 1).await.len(), 5);
        assert_eq!(rows(&storage, &schema, 2).await.len(), 0);
        storage.stop().await.unwrap();
    });
}

#[test]
fn another_strategy_is_obeyed_at_once() {
    let mut node = SimNode::new(10, 1);
    node.run(async {
        let class = |name: &str| vec![("class".to_string(), name.to_string())];
        let null = [("class", "NullCompactionStrategy")];
        let (storage, mut schema) = open_one(config(), &null).await;
        for row in 0..4 {
            storage.apply(write(&schema, 1, row, 1, b"value")).await.unwrap();
            storage.flush(schema.id).await.unwrap();
        }
        runtime::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(sstables(&storage, &schema).len(), 4);
        schema.options.compaction = class("SizeTieredCompactionStrategy");
        storage.alter_table(Rc::new(schema.clone()));
        runtime::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(sstables(&storage, &schema).len(), 1);
        storage.stop().await.unwrap();
    });
}

#[test]
fn while_a_table_is_filled_its_merges_wait() {
    SimNode::new(4, 1).run(async {
        let (storage, schema) = open_one(config(), &[]).await;
        storage.set_filling(schema.id, true);
        for row in 0..12 {
            storage.apply(write(&schema, 1, row, 10, b"old")).await.unwrap();
            storage.flush(schema.id).await.unwrap();
            runtime::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(sstables(&storage, &schema).len(), row as usize + 1, "wide-while-filled");
            assert_eq!(storage.pending_compactions(schema.id), 0);
        }
        storage.set_filling(schema.id, false);
        runtime::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(sstables(&storage, &schema).len(), 1);
        assert_eq!(rows(&storage, &schema, 1).await.len(), 12);
        storage.stop().await.unwrap();
    });
}
