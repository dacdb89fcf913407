//! A shard's tables: commitlog, memtables, flush, compaction, and reads over memtables and
//! SSTables.
//!
//! One [`Storage`] per shard. It knows no other node, no replica set and no consistency level; it
//! speaks to the other shards of its node during replay alone.
//!
//! In reading order: [`Config`], [`Storage`]; [`commitlog`]; [`memtable`]; `shard` (writing),
//! `dirty`, `space`, [`mod@memory`], `hints`, `ahead`, `table`, `large_data`, `cache`, `view`,
//! `open`, `flush`, `mirror`, `read`, `whole`, `holders`, `replay`, `truncate`, `snapshot`,
//! `backup`, `upload`, `import`, `compaction`, `locks`, `hot`.
//!
//! Invariants
//!  - *logged-first*: a write enters a memtable only after its entry entered the log's buffer, in
//!    the same step; so the memtable's log positions cover all it holds.
//!  - *acked-is-synced*: in batch mode a write is answered after a sync that covers its entry.
//!  - *sealed-is-final*: a sealed memtable never changes; what it becomes as an SSTable is all it
//!    held.
//!  - *released-after-durable*: a log segment is let go only when the SSTable of every memtable
//!    with an entry in it is sealed, or its table was truncated or dropped durably.

mod ahead;
mod backup;
mod bulk;
mod cache;
pub mod commitlog;
mod compaction;
mod config;
mod dirty;
mod error;
mod facts;
mod flush;
mod hints;
mod holders;
mod hot;
mod import;
mod large_data;
mod locks;
pub mod memory;
pub mod memtable;
mod mirror;
mod open;
mod read;
mod replay;
mod shard;
mod shard_reads;
mod share;
mod snapshot;
mod space;
mod storage;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod truncate;
mod truncation;
mod upload;
mod view;
mod whole;

pub use ahead::AHEAD_MAX;
pub use bulk::{LoneCache, LoneEntries, LoneLog, Rewrite};
pub use cache::{CacheLookups, RowCacheStats};
pub use compaction::{
    CompactedSstable, CompactionKind, CompactionStats, FinishedCompaction, Invalid, Outdated, Pace,
    PaceStats, RunningCompaction, Upkeep, UpkeepDone,
};
pub use config::{Config, Log, SyncMode};
pub use dirty::DirtyStats;
pub use error::{StartError, StorageError, WriteError};
pub use facts::{SstableFacts, TableFacts, merge_histograms};
pub use holders::Holder;
pub use hot::{
    CAPACITY_MAX as HOT_CAPACITY_MAX, Hot, HotCounts, HotOrder, HotPartition, SAMPLING_MAX,
    hot_partitions,
};
pub use import::{Import, Source};
pub use large_data::{Exceeded, LargeWrites, Measure, SizeLimits};
pub use locks::PartitionGuard;
pub use read::{Begun, SourceOptions};
pub use reader::STOPPED;
pub use snapshot::{
    Keyspaces, Memtables, Snapshot, SnapshotError, SnapshotFilter, SnapshotOrder, SnapshotTag,
};
pub use space::{CRITICAL_LEVEL, DiskState};
pub use sstable::Generation;
pub use sstable::scrub::Mode as ScrubMode;
pub use sstable::{LargeLimits, Version as SstableVersion, WriterDefaults};
pub use storage::{ReplayStats, Storage, TableStats};
pub use upload::{Checks, Loaded, LoadedSsTable};
