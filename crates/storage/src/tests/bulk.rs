//! Data sets of tools: applied without a log, merged into one SSTable.

use super::*;
use crate::memtable::Memtable;
use crate::{LoneCache, LoneLog, Rewrite, WriteError};
use model::DecoratedKey;
use runtime::task::Scope;
use testkit::SimNode;

#[test]
fn what_is_applied_without_a_log_is_merged_into_one_sstable() {
    let mut node = SimNode::new(3, 1);
    node.run(async {
        let storage = open(config()).await;
        let schema = schema(1, "t1");
        for round in 0..3u32 {
            for partition in 0..40 {
                let new = write(&schema, partition, round, 1, b"value");
                storage.apply_unlogged(&new).unwrap();
            }
            storage.flush(schema.id).await.unwrap();
        }
        assert_eq!(storage.log_stats(Log::Data).unwrap().entry_bytes, 0);
        assert_eq!(storage.dirty_bytes(), 0);
        assert_eq!(storage.table_stats(schema.id).unwrap().sstables, 3);
        let how = Rewrite { column_index_bytes: Some(1024), ..Rewrite::default() };
        storage.compact_all(schema.id, how).await.unwrap();
        let stats = storage.table_stats(schema.id).unwrap();
        assert_eq!((stats.sstables, stats.partitions), (1, 40));
        assert_eq!(storage.sstable_versions(schema.id).len(), 1);
        for partition in 0..40 {
            assert_eq!(rows(&storage, &schema, partition).await.len(), 3);
        }
        // A table without SSTables has nothing to merge.
        storage.compact_all(Uuid::from_u128(2), how).await.unwrap();
        assert!(storage.compact_all(Uuid::from_u128(77), how).await.is_err());
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_log_alone_lives_on_what_is_released() {
    let mut node = SimNode::new(4, 1);
    node.run(async {
        let log = Rc::new(LoneLog::open(&config()).await.unwrap());
        let scope = Scope::new();
        let flusher = log.clone();
        scope.spawn(async move {
            loop {
                let entries = flusher.flush_wanted().await;
                runtime::time::sleep(Duration::from_millis(50)).await;
                flusher.release(&entries);
            }
        });
        // Far more than the limit of the log.
        let payload = vec![7; SEGMENT / 4];
        for _ in 0..400 {
            log.append(&payload).await.unwrap();
        }
        let stats = log.stats();
        assert!(400 * payload.len() as u64 <= stats.entry_bytes);
        assert!(0 < stats.released && stats.disk_bytes <= 2 * config().commitlog_bytes_max);
        let large = vec![0; log.entry_bytes_max() + 1];
        assert!(matches!(log.append(&large).await, Err(WriteError::TooLarge { .. })));
        scope.cancel().await;
        // Nobody releases any more: appends wait for so long, and are refused.
        let refused = loop {
            if let Err(refused) = log.append(&payload).await {
                break refused;
            }
        };
        assert!(matches!(refused, WriteError::Overloaded(_)), "{refused}");
        log.stop().await;
    });
}

#[test]
fn a_cache_alone_knows_what_was_merged() {
    let mut node = SimNode::new(5, 1);
    node.run(async {
        let schema = Rc::new(schema(1, "t1"));
        let memtable = |partitions: std::ops::Range<u64>, row| {
            let memtable = Memtable::new(Rc::new(schema.order.clone()));
            for partition in partitions {
                let one = write(&schema, partition, row, 1, b"value");
                let key = DecoratedKey::new(key(partition).into());
                memtable.apply(&schema, key, &one.view().unwrap());
            }
            Rc::new(memtable)
        };
        let cache = LoneCache::new(schema.clone(), 4 << 20);
        let rows = |number| cache.rows_of(&DecoratedKey::new(key(number).into()));
        cache.merge(&memtable(0..20, 0), |_| true).await.unwrap();
        cache.merge(&memtable(10..30, 1), |_| false).await.unwrap();
        let expected = |number| match number {
            0..10 => Some(1),
            10..20 => Some(2),
            _ => None,
        };
        (0..40).for_each(|number| assert_eq!(rows(number), expected(number), "{number}"));
        assert_eq!(cache.stats().partitions, 20);
        cache.clear().await;
        assert_eq!((cache.stats().partitions, rows(1)), (0, None));
    });
}
