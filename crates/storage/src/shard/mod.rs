//! One shard's tables and logs at work: the state that its tasks share, and what they do with it.
//!
//! From the ground up: this (the state); `locks`, `hot_partitions`, `disk_space`, `guardrail` (what
//! is large), `prefetch`; `cached_page` (a page from the row cache), `before` (what a write meets),
//! `write`, `deriving`, `at_once` (writes that bring others with them); `view` (what a read sees),
//! `read`, `warm`, `holders`, `multishard` (reads over all shards); `start`; `backup`, `flush`,
//! `open` (tables), `replay`, `upload`, `import`, `snapshot`, `carry` (files from node to node),
//! `truncate`, `divide` (tablets that change), `compact`, `hand_over` (tablets that go to another
//! shard). Reads and writes that come for what is on another shard since a moment ago: `elsewhere`.

mod at_once;
mod backup;
pub(crate) mod before;
pub(crate) mod cached_page;
pub(crate) mod carry;
pub(crate) mod compact;
pub(crate) mod deriving;
pub(crate) mod disk_space;
mod divide;
pub(crate) mod elsewhere;
pub(crate) mod flush;
pub(crate) mod guardrail;
mod hand_over;
pub(crate) mod holders;
pub(crate) mod hot_partitions;
pub(crate) mod import;
pub(crate) mod locks;
pub(crate) mod multishard;
mod open;
pub(crate) mod prefetch;
pub(crate) mod read;
pub(crate) mod replay;
pub(crate) mod snapshot;
pub(crate) mod start;
mod truncate;
pub(crate) mod upload;
pub(crate) mod view;
pub(crate) mod warm;
pub(crate) mod write;

use crate::cache::RowCache;
use crate::commitlog::Commitlog;
use crate::compaction::Compactions;
use crate::config::{Config, Log};
use crate::large_data::{LargeWrites, SizeLimits};
use crate::memory::{Division, Taken};
use crate::memtable::dirty::Dirty;
use crate::table::Table;
use crate::table::flush_queue::FlushQueue;
use deriving::Deriving;
use disk_space::DiskSpace;
use hot_partitions::Sampler;
use locks::PartitionLocks;
use model::{TableId, TableSchema};
use multishard::ShardReads;
use read::Reads;
use runtime::sync::{Notify, Semaphore};
use sstable::IndexCache;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use stdx::{HashMap, buggify};

/// What the tasks and the door of a shard's storage share.
pub(crate) struct Shard {
    pub(crate) config: Config,
    pub(crate) tables: RefCell<HashMap<TableId, Rc<Table>>>,
    pub(crate) data_log: Rc<Commitlog>,
    /// On shard 0 alone.
    pub(crate) schema_log: Option<Rc<Commitlog>>,
    pub(crate) locks: PartitionLocks,
    /// Of those who derive (*own-locks*).
    pub(crate) deriving_locks: PartitionLocks,
    /// Who derives.
    pub(crate) deriving: RefCell<Option<Rc<dyn Deriving>>>,
    /// What reads take permits of.
    pub(crate) reads: Reads,
    pub(crate) shard_reads: ShardReads,
    /// Counts which partitions are read and written, while somebody asks.
    pub(crate) sampler: Rc<Sampler>,
    /// Of the indexes of all SSTables.
    pub(crate) index_cache: Rc<IndexCache>,
    pub(crate) division: Division,
    /// Of what SSTables hold; `None`: the node has none.
    pub(crate) row_cache: Option<Rc<RowCache>>,
    /// Tells [`Shard::reclaim`].
    pub(crate) reclaim_wake: Notify,
    /// Memory of the memtables of clients, and of the system.
    pub(crate) dirty: [Rc<Dirty>; 2],
    /// Their sealed memtables.
    pub(crate) flush_queues: [FlushQueue; 2],
    /// Tells workers that pause after an error.
    pub(crate) retry_now: Notify,
    /// Tells the compaction task that there are more SSTables.
    pub(crate) compaction_wake: Notify,
    /// Tells [`Shard::see_to_removals`].
    pub(crate) let_go_wake: Notify,
    /// What is merged, and what was.
    pub(crate) compactions: Compactions,
    /// Tells [`Shard::watch_pressure`].
    pub(crate) pressure: Rc<Notify>,
    /// Tells those who wait for a flush.
    pub(crate) flushed: Notify,
    /// How many wait for one.
    pub(crate) flushes_awaited: Cell<usize>,
    /// Shares of flushes; 0: what is needed.
    pub(crate) flush_shares: Cell<u32>,
    /// How far memtables or log are towards their limits, in thousandths.
    pub(crate) pressed: Cell<u64>,
    /// What is known of the room on the disk.
    pub(crate) space: DiskSpace,
    /// The file that the last flush found no space for.
    pub(crate) full_disk: RefCell<Option<PathBuf>>,
    /// What replays left behind: one for each log.
    pub(crate) replays: [ReplayState; 2],
    pub(crate) stopping: Cell<bool>,
    /// A mistake, for tests: what was written last is not handed over (`shard::hand_over`).
    pub(crate) hasty_hand_overs: Cell<bool>,
    /// How SSTables are written where their table does not say.
    pub(crate) sstables: Cell<sstable::WriterDefaults>,
    /// Whether what comes into being is linked into `backups/`.
    pub(crate) incremental_backups: Cell<bool>,
    /// How long a read of one partition, and one of a range, may take.
    pub(crate) read_timeouts: Cell<(Duration, Duration)>,
    /// What may be how large, in tables that ask for it.
    pub(crate) size_limits: Cell<SizeLimits>,
    pub(crate) large_writes: Cell<LargeWrites>,
    /// On shard 0: who takes or clears snapshots has his turn.
    pub(crate) snapshot_turn: Semaphore,
    /// On shard 0: tells that there is a new snapshot.
    pub(crate) snapshot_taken: Notify,
}

/// What the replay of a log left behind on this shard.
#[derive(Default)]
pub(crate) struct ReplayState {
    /// Memtables that hold what was replayed.
    pub(crate) memtables: Cell<usize>,
    /// Whether it has ended: then all shards have opened the tables of this log, and files in
    /// their directories may come and go.
    pub(crate) done: Cell<bool>,
    /// Whether the segments of earlier runs are gone: nothing of them can come back.
    pub(crate) old_gone: Cell<bool>,
    /// The greatest base of the segments found at the start.
    pub(crate) old_base_max: Cell<u64>,
    /// On shard 0: tells that some shard has let go of its last such memtable.
    pub(crate) released: Notify,
}

impl Shard {
    pub(crate) fn logs(&self) -> impl Iterator<Item = &Rc<Commitlog>> {
        std::iter::once(&self.data_log).chain(&self.schema_log)
    }

    /// The directory of the log of that kind.
    pub(crate) fn log_dir(&self, log: Log) -> PathBuf {
        match log {
            Log::Data => self.config.commitlog_dir.clone(),
            Log::Schema => self.config.schema_commitlog_dir.clone(),
        }
    }

    /// The log of that kind. Panics for the schema log of a shard that has none: no table there
    /// is of it.
    pub(crate) fn log_of(&self, log: Log) -> &Rc<Commitlog> {
        match (log, &self.schema_log) {
            (Log::Data, _) => &self.data_log,
            (Log::Schema, Some(schema_log)) => schema_log,
            (Log::Schema, None) => panic!("a table of the schema log on a shard other than 0"),
        }
    }

    /// Forgets what the row cache holds.
    pub(crate) fn drop_row_cache(&self) {
        let tables = self.tables.borrow();
        let tablets = tables.values().flat_map(|table| table.tablets().to_vec());
        tablets.for_each(|tablet| tablet.forget_cached());
        self.reclaim_wake.notify_one();
    }

    /// Frees what the row cache holds over its limit, and what it has let go of.
    pub(crate) async fn reclaim(&self) {
        let Some(cache) = &self.row_cache else { return };
        loop {
            while cache.reclaim_step() {
                runtime::task::yield_if_needed().await;
            }
            self.reclaim_wake.notified().await;
        }
    }

    pub(crate) fn replay_state(&self, log: Log) -> &ReplayState {
        match log {
            Log::Data => &self.replays[0],
            Log::Schema => &self.replays[1],
        }
    }

    /// Whether a simulation refuses a request its memory here.
    pub(crate) fn refuses(&self) -> bool {
        self.config.refuse_one_in.is_some_and(|one_in| buggify!("memory is refused", one_in))
    }

    /// Gives the caches what others leave of the shard's memory now.
    pub(crate) fn divide_memory(&self) {
        let tables = self.tables.borrow();
        let cached = self.index_cache.stats();
        let taken = Taken {
            memtables: self.dirty.iter().map(|dirty| dirty.level().real).sum(),
            components: tables.values().map(|table| table.component_bytes()).sum(),
            index_cache: (cached.partitions.bytes + cached.files.bytes) as usize,
            heap: self.config.heap_bytes.map_or(0, |measure| measure()),
            rows_heap: self.row_cache.as_ref().map_or(0, |cache| cache.heap_bytes()),
        };
        let limits = self.division.caches(taken);
        self.index_cache.set_bytes_max(limits.index);
        if let Some(cache) = &self.row_cache {
            cache.set_limit(limits.rows.min(self.config.row_cache_bytes_max));
            if cache.is_to_reclaim() {
                self.reclaim_wake.notify_one();
            }
        }
    }

    /// The pool of the memtables of a table.
    pub(crate) fn dirty_of(&self, schema: &TableSchema, log: Log) -> &Rc<Dirty> {
        let [user, system] = &self.dirty;
        debug_assert!(!Rc::ptr_eq(user, system), "own-pools: one for both");
        match log == Log::Schema || read::is_of_system(schema) {
            true => &self.dirty[1],
            false => &self.dirty[0],
        }
    }

    /// The sealed memtables of a pool.
    pub(crate) fn flush_queue(&self, dirty: &Rc<Dirty>) -> &FlushQueue {
        let pool = self.dirty.iter().position(|pool| Rc::ptr_eq(pool, dirty));
        &self.flush_queues[pool.expect("own-pools: a pool of this shard")]
    }

    pub(crate) fn table(&self, id: TableId) -> Option<Rc<Table>> {
        let table = self.tables.borrow().get(&id).cloned();
        debug_assert!(table.as_ref().is_none_or(|table| table.id == id), "a table as another");
        table
    }
}
