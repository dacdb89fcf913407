//! What a shard's storage is told at start.

use model::Uuid;
use sstable::WriterDefaults;
use std::path::PathBuf;
use std::time::Duration;

/// When a write is answered, relative to the sync of its log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// At once; the log is synced once per `period`, and writes wait when the last sync is older.
    Periodic {
        /// Time between syncs.
        period: Duration,
    },
    /// After the sync; the writes that wait at the same time share one.
    Batch,
}

/// Which log a table writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Log {
    /// The data log, one per shard, synced as configured.
    Data,
    /// The schema log, on shard 0 alone, always in batch mode.
    Schema,
}

/// The configuration of one shard's storage.
#[derive(Clone, Debug)]
pub struct Config {
    /// Holds `keyspace/table-uuid/`.
    pub data_dir: PathBuf,
    /// Segments of the data logs of all shards.
    pub commitlog_dir: PathBuf,
    /// Segments of the schema log.
    pub schema_commitlog_dir: PathBuf,
    /// Of the data log.
    pub sync: SyncMode,
    /// Size of a segment, in bytes; an entry takes at most half of it.
    pub segment_bytes: usize,
    /// Size of all segments of this shard's data log, in bytes. At half of it the tables of the
    /// oldest segments are flushed, unless the next says when; at all of it writes wait.
    pub commitlog_bytes_max: u64,
    /// Bytes of this shard's data log above which the tables of the oldest segments are flushed, as
    /// long as the disk has room.
    pub commitlog_flush_bytes: Option<u64>,
    /// After so long in the data log what was written is flushed; `None`: where little is written
    /// it stays there for as long as there is room.
    pub commitlog_lifetime: Option<Duration>,
    /// Memory of all memtables of this shard, in bytes. Half of it may be unspooled (in no
    /// SSTable, finished or not); flushes start at 60 % of that. At either limit writes wait.
    pub memtable_bytes_max: usize,
    /// Size of what is cached of the indexes of this shard's SSTables, in bytes.
    pub index_cache_bytes: usize,
    /// Size of the row cache, in bytes, at most; 0: there is none.
    pub row_cache_bytes_max: usize,
    /// Memory of this shard, in bytes: reads have their parts of it.
    pub memory_bytes: usize,
    /// Tells how much memory is behind the heap of this shard's thread, in bytes; `None`: nobody
    /// knows.
    pub heap_bytes: Option<fn() -> usize>,
    /// When a read of one partition has to end, counted from its begin.
    pub read_timeout: Duration,
    /// When a read of a range has to end, counted from its begin.
    pub range_read_timeout: Duration,
    /// How SSTables are written where their table does not say.
    pub sstables: WriterDefaults,
    /// Whether what flushes write, and what is taken over, is linked into `backups/` as well, to
    /// begin with ([`crate::Storage::set_incremental_backups`]).
    pub incremental_backups: bool,
    /// How long a write waits for memory or log space before it is refused.
    pub write_wait_max: Duration,
    /// Written into SSTables.
    pub host_id: Uuid,
    /// In simulation: about one in so many requests is refused its memory.
    pub refuse_one_in: Option<u32>,
    /// A mistake that tests want to see caught.
    pub(crate) planted: Option<Planted>,
}

/// Mistakes that the simulation's own tests plant, to see them caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests alone plant mistakes"))]
pub(crate) enum Planted {
    /// Writes are answered before their sync.
    AckBeforeSync,
    /// Merges do not ask what lies outside of them.
    ForgetsUnseen,
    /// Merges do not wait until a deletion is old enough.
    ForgetsEarly,
    /// Merges do not ask what the log would bring back.
    ForgetsReplays,
    /// Merges remove their inputs before their outputs are sealed.
    RemovesInputsFirst,
    /// Merges remove their inputs one after the other.
    RemovesInputsApart,
    /// Deletions are forgotten although what they cover is in an SSTable that was let go of.
    ForgetsSharers,
    /// Deletions are forgotten although SSTables of other nodes arrive.
    ForgetsArriving,
    /// An SSTable of several tablets is removed when the first of them has let go of it.
    RemovesShared,
    /// What is cleared stays in memtables.
    ClearsNoMemtable,
    /// What is cleared is not noted for a replay of the log.
    ClearsNoLog,
    /// What is cleared stays in the row cache.
    ClearsNoCache,
    /// SSTables are cleared whole that lie partly in a range.
    ClearsBeyond,
    /// SSTables of several tablets may come back after a clear.
    ClearsNoSharers,
    /// SSTables that are cleared are removed without a record that all of them go.
    ClearsApart,
    /// Tablets that are divided leave their memtables behind.
    DividesNoMemtables,
    /// Of what was let go of nothing is known after a division.
    DividesForgetful,
}

impl Config {
    /// What of the shard's memory the row cache may have: what memtables and the rest do not need.
    pub(crate) fn row_cache_bytes(&self) -> usize {
        let rest = self.memory_bytes.saturating_sub(self.memtable_bytes_max);
        rest.saturating_sub(self.memory_bytes / 5).min(self.row_cache_bytes_max)
    }

    /// Directories under `root`, and defaults.
    pub fn new(root: impl Into<PathBuf>, host_id: Uuid) -> Config {
        let root = root.into();
        Config {
            data_dir: root.join("data"),
            commitlog_dir: root.join("commitlog"),
            schema_commitlog_dir: root.join("commitlog").join("schema"),
            sync: SyncMode::Periodic { period: Duration::from_secs(10) },
            segment_bytes: 32 << 20,
            commitlog_bytes_max: 1 << 30,
            commitlog_flush_bytes: None,
            commitlog_lifetime: None,
            memtable_bytes_max: 256 << 20,
            index_cache_bytes: 32 << 20,
            row_cache_bytes_max: usize::MAX,
            sstables: WriterDefaults::default(),
            incremental_backups: false,
            memory_bytes: 1 << 30,
            heap_bytes: None,
            read_timeout: Duration::from_secs(5),
            range_read_timeout: Duration::from_secs(10),
            write_wait_max: Duration::from_secs(2),
            host_id,
            refuse_one_in: None,
            planted: None,
        }
    }
}
