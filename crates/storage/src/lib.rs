//! A shard's tables: commitlog, memtables, flush, compaction, and reads over memtables and
//! SSTables.
//!
//! One [`Storage`] per shard. It knows no other node, no replica set and no consistency level; it
//! speaks to the other shards of its node during replay alone.
//!
//! From the ground up:
//!  - [`error`](StorageError), [`config`](Config), `token_hints` (where the entry of a token is),
//!    [`mod@memory`] (a shard's memory divided);
//!  - [`commitlog`];
//!  - `large_data` (what is known to be large);
//!  - [`memtable`], and what all of them take;
//!  - `cache`, the row cache;
//!  - `table`: tablets, their sets of SSTables, the table's files;
//!  - `compaction`: what is to be merged, and what is known of merges;
//!  - `shard`: one shard's tables at work: writes, reads, flushes, replay, merges, snapshots;
//!  - `storage`: the door, [`Storage`], which owns the tasks;
//!  - `bulk`: parts of a shard for tools.
//!
//! Invariants
//!  - *logged-first*: a write enters a memtable only after its entry entered the log's buffer, in
//!    the same step; so the memtable's log positions cover all it holds.
//!  - *acked-is-synced*: in batch mode a write is answered after a sync that covers its entry.
//!  - *sealed-is-final*: a sealed memtable never changes; what it becomes as an SSTable is all it
//!    held.
//!  - *released-after-durable*: a log segment is let go only when the SSTable of every memtable
//!    with an entry in it is sealed, or its table was truncated or dropped durably.

mod bulk;
mod cache;
pub mod commitlog;
mod compaction;
mod config;
mod error;
mod large_data;
pub mod memory;
pub mod memtable;
mod shard;
mod storage;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod token_hints;

pub use bulk::{LoneCache, LoneEntries, LoneLog, Rewrite};
pub use cache::{CacheLookups, RowCacheStats, WarmPartition};
pub use compaction::pace::{Pace, PaceStats};
pub use compaction::report::{
    CompactedSstable, CompactionKind, CompactionStats, FinishedCompaction, RunningCompaction,
};
pub use config::{Config, Log, SyncMode};
pub use error::{StartError, StorageError, WriteError};
pub use large_data::{Exceeded, LargeWrites, Measure, SizeLimits};
pub use memtable::dirty::DirtyStats;
pub use reader::STOPPED;
pub use shard::before::Before;
pub use shard::carry::{Arrived, ArrivingFile, ArrivingSstable, Given, GivenFile, GivenSstable};
pub use shard::compact::{Cleared, Invalid, Outdated, Upkeep, UpkeepDone};
pub use shard::deriving::{Deriving, Follower, Following, Promise};
pub use shard::disk_space::{CRITICAL_LEVEL, DiskState};
pub use shard::holders::Holder;
pub use shard::hot_partitions::{
    CAPACITY_MAX as HOT_CAPACITY_MAX, Hot, HotCounts, HotOrder, HotPartition, SAMPLING_MAX,
    hot_partitions,
};
pub use shard::import::{Import, Source};
pub use shard::locks::PartitionGuard;
pub use shard::prefetch::AHEAD_MAX;
pub use shard::read::{Begun, SourceOptions};
pub use shard::replay::ReplayStats;
pub use shard::snapshot::{
    BACKUP_PREFIX, Keyspaces, Memtables, OpenSnapshot, Snapshot, SnapshotError, SnapshotFilter,
    SnapshotOrder, SnapshotPlace, SnapshotTag,
};
pub use shard::upload::{Checks, Loaded, LoadedSsTable};
pub use shard::warm::WarmPage;
pub use shard::write::Entered;
pub use sstable::Generation;
pub use sstable::scrub::Mode as ScrubMode;
pub use sstable::{LargeLimits, Version as SstableVersion, WriterDefaults};
pub use storage::{SstableFacts, Storage, TableFacts, TableStats, TabletLoad, merge_histograms};
