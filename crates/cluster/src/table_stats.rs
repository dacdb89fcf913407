//! What the storage of all shards says of tables.
//!
//! Invariants
//!  - *in-order*: a shard answers about the tables that it is asked for, in their order, or not at
//!    all.
//!  - *parts-of-all*: what memtables have is a part of what there is.

use crate::registry::Cluster;
use crate::schema::TableEntry;
use catalog::TableKind;
use model::TableId;
use runtime::Erased;
use std::rc::Rc;
use storage::{Storage, TableStats};

/// What the storage of all shards says of all tables together.
pub fn totals(cluster: &Cluster) -> Erased<'_, TableStats> {
    Erased::new(move || async move {
        let mut sum = TableStats::default();
        for (_, stats) in all_stats(cluster).await {
            add(&mut sum, &stats);
        }
        sum
    })
}

/// What the storage of all shards of this node says of these tables, in their order.
pub fn of(ids: Vec<TableId>) -> Erased<'static, Vec<TableStats>> {
    Erased::new(move || async move {
        let (count, mut sums) = (ids.len(), vec![TableStats::default(); ids.len()]);
        let ask = move || async move {
            let Some(storage) = runtime::local::try_get::<Storage>() else { return Vec::new() };
            let stats = ids.into_iter().map(|id| storage.table_stats(id).unwrap_or_default());
            stats.collect::<Vec<TableStats>>()
        };
        for of_shard in runtime::on_all_shards(ask).await {
            let fits = of_shard.is_empty() || of_shard.len() == count;
            assert!(fits, "in-order: {} answers about {count} tables", of_shard.len());
            sums.iter_mut().zip(&of_shard).for_each(|(sum, stats)| add(sum, stats));
        }
        sums
    })
}

fn add(sum: &mut TableStats, stats: &TableStats) {
    let TableStats { memtable_partitions, partitions, rows, .. } = stats;
    debug_assert!(memtable_partitions <= partitions, "parts-of-all: {stats:?}");
    debug_assert!(memtable_partitions <= rows, "parts-of-all: {stats:?}");
    sum.memtable_bytes += stats.memtable_bytes;
    sum.memtable_partitions += stats.memtable_partitions;
    sum.sstables += stats.sstables;
    sum.sstable_bytes += stats.sstable_bytes;
    sum.partitions += stats.partitions;
    sum.rows += stats.rows;
}

/// What the storage of all shards says of every table.
pub(crate) async fn all_stats(cluster: &Cluster) -> Vec<(TableId, TableStats)> {
    let schema = cluster.schema();
    let stored = |entry: &&Rc<TableEntry>| entry.kind == TableKind::Stored;
    let ids: Vec<TableId> = schema.tables().filter(stored).map(|entry| entry.schema.id).collect();
    let sums = of(ids.clone()).await;
    ids.into_iter().zip(sums).collect()
}
