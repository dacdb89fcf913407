//! The caches that reads meet: what they did, and dropping what they hold.

use sstable::cache::PageStats;
use storage::Storage;

/// What a cache did. `blocks`: look-ups that waited; of the row cache, partitions that went in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheCounts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) blocks: u64,
}

impl CacheCounts {
    /// What it did after `before`.
    pub(crate) fn since(self, before: CacheCounts) -> CacheCounts {
        CacheCounts {
            hits: self.hits - before.hits,
            misses: self.misses - before.misses,
            blocks: self.blocks - before.blocks,
        }
    }
}

/// What the cache of partition index pages did on this shard, and that of pages of index files.
pub(crate) fn index_counts() -> (CacheCounts, CacheCounts) {
    let stats = runtime::local::get::<Storage>().index_cache().stats();
    (counts(&stats.partitions), counts(&stats.files))
}

fn counts(stats: &PageStats) -> CacheCounts {
    CacheCounts { hits: stats.hits, misses: stats.misses, blocks: stats.blocks }
}

/// What the row cache did on this shard, of partitions.
pub(crate) fn row_counts() -> CacheCounts {
    let stats = runtime::local::get::<Storage>().row_cache_stats();
    let (hits, misses) = (stats.partition_hits, stats.partition_misses);
    CacheCounts { hits, misses, blocks: stats.partition_insertions }
}

/// What readers of data did on this shard.
pub(crate) fn data_counts() -> sstable::ReadCounts {
    sstable::ReadStats::of_shard().counts()
}

/// Forgets what was cached.
pub(crate) async fn drop_all() {
    let storage = runtime::local::get::<Storage>();
    storage.drop_row_cache();
    storage.index_cache().clear().await;
}
