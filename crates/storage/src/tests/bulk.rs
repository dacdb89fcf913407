//! Data sets of tools: applied without a log, merged into one SSTable.

use super::*;
use crate::Rewrite;
use runtime::sim::{NodeId, Options, World};

const NODE: NodeId = NodeId(0);

#[test]
fn what_is_applied_without_a_log_is_merged_into_one_sstable() {
    let mut world = World::new(Options::new(3));
    assert_eq!(world.add_node(1), NODE);
    world.block_on(NODE, 0, async {
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
