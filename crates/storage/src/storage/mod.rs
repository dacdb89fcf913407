//! The door of the crate: one shard's tables and logs behind one object.
//!
//! Invariants
//!  - *one-door*: a shard has one storage, from its start to its stop.
//!  - *within-limits*: a page has no more than its command asks for.
//!  - *parts-of-all*: what is told of a table is no more than what is told of all.

mod compactions;
mod division;
mod facts;
mod files;

pub use division::TabletLoad;
pub use facts::{SstableFacts, TableFacts, merge_histograms};

use crate::cache::{CacheLookups, RowCacheStats};
use crate::commitlog::{self, LogStats, ReplayPosition};
use crate::config::{Config, Log};
use crate::error::{StartError, StorageError, WriteError};
use crate::large_data::{Exceeded, LargeWrites, SizeLimits};
use crate::memtable::dirty::DirtyStats;
use crate::shard::before::Before;
use crate::shard::deriving::{Deriving, Promise};
use crate::shard::disk_space::{self, DiskState};
use crate::shard::elsewhere::Kept;
use crate::shard::holders::Holder;
use crate::shard::locks::PartitionGuard;
use crate::shard::read::{Begun, SourceOptions};
use crate::shard::replay::{self, ReplayStats};
use crate::shard::snapshot::SnapshotTag;
use crate::shard::write::Entered;
use crate::shard::{Shard, flush};
use model::{DecoratedKey, TableId, TableSchema, TabletMap, Token};
use mutation::page::{Page, ReadCommand};
use mutation::{FrozenMutation, RingBound};
use reader::multishard::{MultishardOptions, MultishardSource};
use reader::semaphore::{Permit, ReadSemaphore};
use reader::{PartitionScope, ReadError, Slice, Source};
use runtime::Erased;
use runtime::io::IoError;
use runtime::task::{JoinHandle, Scope, join_all};
use runtime::time::{Instant, timeout};
use runtime::{group, local, on_all_shards};
use smallvec::SmallVec;
use sstable::{FilterHits, IndexCache};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

/// One shard's storage.
pub struct Storage {
    shard: Rc<Shard>,
    scope: Scope,
    /// On shard 0: ends when the segments of earlier runs are removed.
    removals: RefCell<Vec<JoinHandle<()>>>,
    /// When damage was told to the log last.
    damage_told: Cell<Option<Instant>>,
}

/// Damage is told to the log at most this often: every read of a damaged table meets it.
const DAMAGE_PERIOD: Duration = Duration::from_secs(1);

/// How long a stop waits for the removal of replayed segments.
const REMOVAL_MAX: Duration = Duration::from_secs(2);

/// The state of a table on this shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Bytes of memtables, sealed ones included.
    pub memtable_bytes: u64,
    /// Partitions of memtables.
    pub memtable_partitions: u64,
    /// Memtables that were sealed, to be written, since the table was opened.
    pub memtables_sealed: u64,
    /// Partitions that reads looked for in the row cache, since the table was opened.
    pub cache_lookups: CacheLookups,
    /// SSTables.
    pub sstables: u64,
    /// Bytes of the data files of the SSTables.
    pub sstable_bytes: u64,
    /// Estimated partitions, duplicates counted.
    pub partitions: u64,
    /// Rows of SSTables, deleted ones and markers of deletions counted, and one for each partition
    /// of memtables, whose rows nobody counts.
    pub rows: u64,
    /// Merges that its options asked for when it was looked at last; see
    /// [`Storage::pending_compactions`] for now.
    pub pending_compactions: u64,
}

impl Storage {
    /// Creates missing directories and starts the shard's background tasks. Also puts itself
    /// into this shard's slot of [`runtime::local`], where replays find it.
    pub fn open(config: Config) -> Erased<'static, Result<Rc<Storage>, StartError>> {
        Erased::new(move || async move {
            let shard = Rc::new(Shard::open(config).await?);
            let scope = Scope::new();
            for log in shard.logs() {
                commitlog::start(log, &scope);
            }
            let watcher = shard.clone();
            scope.spawn(async move { watcher.watch_pressure().await });
            let controller = shard.clone();
            scope.spawn(async move { controller.control_flush().await });
            let clock = shard.clone();
            scope.spawn(async move { clock.flush_periodically().await });
            for (pool, dirty) in shard.dirty.iter().enumerate() {
                for _ in 0..flush::WORKERS {
                    let worker = shard.clone();
                    scope.spawn_in(group::FLUSH, async move {
                        worker.flush_sealed(&worker.flush_queues[pool]).await;
                    });
                }
                let dirty = dirty.clone();
                scope.spawn_in(group::FLUSH, async move { dirty.collect_garbage().await });
            }
            let pacer = shard.clone();
            scope.spawn(async move { pacer.control_compaction().await });
            let compactor = shard.clone();
            scope.spawn_in(group::COMPACTION, async move { compactor.compact().await });
            let remover = shard.clone();
            scope.spawn_in(group::COMPACTION, async move { remover.see_to_removals().await });
            let reclaimer = shard.clone();
            scope.spawn_in(group::BACKGROUND, async move { reclaimer.reclaim().await });
            for semaphore in shard.reads.all() {
                let semaphore = semaphore.clone();
                scope.spawn(async move { semaphore.run().await });
            }
            if runtime::shard_id() == 0 {
                scope.spawn(disk_space::watch(shard.clone()));
            }
            assert!(local::try_get::<Storage>().is_none(), "one-door: another storage is open");
            local::set(shard.clone());
            let storage = Rc::new(Storage {
                shard,
                scope,
                removals: RefCell::default(),
                damage_told: Cell::new(None),
            });
            local::set(storage.clone());
            Ok(storage)
        })
    }

    pub(crate) fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Makes a table known: creates its directory, opens its SSTables that intersect the tablets
    /// of this shard. An SSTable that cannot be opened is reported, and makes reads of this table
    /// fail with its name; its writes and all other tables go on.
    pub fn add_table(
        &self,
        schema: Rc<TableSchema>,
        tablets: TabletMap,
        log: Log,
    ) -> Erased<'_, Result<(), StorageError>> {
        Erased::new(move || async move { self.shard.add_table(schema, tablets, log).await })
    }

    /// Later writes and flushes use `schema`. An unknown table is ignored.
    pub fn alter_table(&self, schema: Rc<TableSchema>) {
        self.shard.alter_table(schema);
    }

    /// Whether the writes of a table are logged, as they are unless its keyspace has no durable
    /// writes: then a crash takes what was not flushed. An unknown table is ignored.
    pub fn set_durable_writes(&self, id: TableId, durable: bool) {
        if let Some(table) = self.shard.table(id) {
            table.logged.set(durable);
        }
    }

    /// Whether there is one copy of a table in the whole cluster: nothing is repaired then, and
    /// what goes by repairs goes by `gc_grace_seconds`. An unknown table is ignored.
    pub fn set_single(&self, id: TableId, is_single: bool) {
        if let Some(table) = self.shard.table(id) {
            debug_assert!(table.schema.borrow().id == id, "of another table");
            table.is_single.set(is_single);
        }
    }

    /// Whether the writes of a table bring others with them: from the next one on, all that
    /// [`Storage::derive_with`] has registered writes. An unknown table is ignored.
    pub fn set_deriving(&self, id: TableId, derives: bool) {
        if let Some(table) = self.shard.table(id) {
            table.derives.set(derives);
        }
    }

    /// Waits until all writes of a table that derives are derived from which are under way. Then
    /// what the table has, and what is written from now on, is all.
    pub async fn await_underived(&self, id: TableId) {
        self.shard.await_underived(id).await;
    }

    /// Who writes to the tables that derive; `None`: they are not written any more.
    pub fn derive_with(&self, deriving: Option<Rc<dyn Deriving>>) {
        self.shard.deriving.replace(deriving);
    }

    /// Forgets a table and removes its files on this shard. The caller has made the drop durable.
    /// With `snapshot`, the SSTables stay as a snapshot of that name, which
    /// [`Storage::complete_dropped`] completes when all shards have dropped the table. Snapshots
    /// that it has stay in any case.
    pub fn drop_table<'a>(
        &'a self,
        id: TableId,
        snapshot: Option<&'a SnapshotTag>,
    ) -> Erased<'a, Result<(), StorageError>> {
        Erased::new(move || async move {
            for semaphore in self.shard.reads.all() {
                semaphore.evict_where(|reading| reading.schema.id == id);
            }
            self.shard.drop_table(id, snapshot.map(SnapshotTag::as_str)).await
        })
    }

    /// Removes what the table holds on this shard, for good once this returns. Returns the place in
    /// the log before which its writes are gone; none where the table has nothing on this shard.
    pub fn truncate(
        &self,
        id: TableId,
        at_micros: i64,
    ) -> Erased<'_, Result<Option<ReplayPosition>, StorageError>> {
        Erased::new(move || async move { self.shard.truncate(id, at_micros).await })
    }

    /// Applies what earlier runs logged; called once per log, on shard 0, when its tables are
    /// known on all shards and before anything is written to them. The old segments are removed
    /// when what they hold is flushed. Compaction of these tables starts then, not before.
    pub fn replay(&self, log: Log) -> Erased<'_, Result<ReplayStats, StartError>> {
        Erased::new(move || async move {
            assert!(!self.shard.replay_state(log).done.get(), "a log is replayed once");
            let (stats, old) = replay::replay(&self.shard, log).await?;
            let shards = runtime::shard_count() as u64;
            let config = &self.shard.config;
            let old_bytes = old.ids.len() as u64 * config.segment_bytes as u64;
            if config.commitlog_bytes_max * shards / 4 < old_bytes || self.shard.space.is_low() {
                on_all_shards(|| async {
                    let shard = local::get::<Shard>();
                    shard.seal_replayed();
                })
                .await;
            }
            on_all_shards(move || async move {
                let shard = local::get::<Shard>();
                shard.replay_state(log).done.set(true);
                shard.space.replaying.set(false);
                shard.compaction_wake.notify_one();
            })
            .await;
            let removal = self.scope.spawn_in(group::FLUSH, old.remove_when_durable());
            self.removals.borrow_mut().push(removal);
            Ok(stats)
        })
    }

    /// Writes one mutation of a partition of this shard.
    pub async fn apply(&self, mutation: FrozenMutation) -> Result<(), WriteError> {
        self.shard.apply_wherever(mutation, Kept::AsConfigured).await
    }

    /// As [`Storage::apply`], of a mutation and others of this shard, with the tokens of their
    /// partitions, that are to be written with it, or not at all.
    pub async fn apply_with(
        &self,
        mutation: FrozenMutation,
        others: SmallVec<[(Token, FrozenMutation); 1]>,
    ) -> Result<(), WriteError> {
        self.shard.apply_with(mutation, others).await
    }

    /// As [`Storage::apply`], but returns when the write is on the disk, whatever the sync mode.
    pub async fn apply_durably(&self, mutation: FrozenMutation) -> Result<(), WriteError> {
        self.shard.apply_wherever(mutation, Kept::OnDisk).await
    }

    /// Returns when what was written to this shard's tables of users is on the disk, whatever the
    /// sync mode.
    pub fn sync_log(&self) -> Erased<'_, Result<(), IoError>> {
        Erased::new(move || async move { self.shard().log_of(Log::Data).ready_to_flush().await })
    }

    /// Writes mutations of partitions of this shard whose tables share a log: after a crash all
    /// are there, or none. Panics when they do not share one. Where some are of another shard since
    /// a moment ago, and not all of that one, nothing is written: [`WriteError::Moved`].
    pub async fn apply_all(&self, mutations: Vec<FrozenMutation>) -> Result<(), WriteError> {
        self.shard.apply_all_wherever(mutations).await.unwrap_or(Err(WriteError::Moved))
    }

    /// The same, which gives back what it does not write for that reason.
    pub async fn apply_group(
        &self,
        mutations: Vec<FrozenMutation>,
    ) -> Result<Result<(), WriteError>, Vec<FrozenMutation>> {
        self.shard.apply_all_wherever(mutations).await
    }

    /// For who derives: as [`Storage::apply_all`], but of mutations from which nothing follows any
    /// more. They are visible when it returns; [`Storage::keep`] waits until they are durable.
    pub async fn enter_all(&self, mutations: &[FrozenMutation]) -> Result<Entered, WriteError> {
        self.shard.enter_all(mutations).await
    }

    /// Waits until what has entered is as durable as was promised.
    pub async fn keep(&self, entered: Entered, promise: Promise) -> Result<(), WriteError> {
        self.shard.keep(entered, promise).await
    }

    /// Whether this shard has a table.
    pub fn has_table(&self, id: TableId) -> bool {
        self.shard.table(id).is_some()
    }

    /// A partition of that token is about to be read or written: the processor fetches what looking
    /// for it begins with, while its command or its mutation is made.
    #[inline]
    pub fn prefetch(&self, table: TableId, token: Token) {
        self.shard.prefetch(table, token);
    }

    /// The same for several partitions, [`crate::AHEAD_MAX`] at most, and to their ends: one after
    /// the other is about to be read or written. Those of other shards are passed over.
    pub fn prefetch_all(&self, table: TableId, tokens: &[Token]) {
        self.shard.prefetch_all(table, tokens);
    }

    /// Answers a page from memtables and SSTables of this shard.
    pub async fn read(&self, command: &ReadCommand) -> Result<Page, ReadError> {
        match self.read_at_once(command) {
            ControlFlow::Break(read) => read,
            ControlFlow::Continue(begun) => self.read_in_turn(command, begun).await,
        }
    }

    /// The same, where nothing has to be waited for: one memtable or the row cache has it all.
    /// Otherwise [`Storage::read_in_turn`] goes on with what this gives.
    pub fn read_at_once(
        &self,
        command: &ReadCommand,
    ) -> ControlFlow<Result<Page, ReadError>, Begun> {
        let read = self.shard.read_at_once(command);
        if let ControlFlow::Break(read) = &read {
            self.look_at(read, command);
        }
        read
    }

    /// Answers what [`Storage::read_at_once`] does not, or was not asked.
    pub async fn read_in_turn(
        &self,
        command: &ReadCommand,
        begun: Begun,
    ) -> Result<Page, ReadError> {
        let read = self.shard.read_in_turn(command, begun).await;
        self.look_at(&read, command);
        read
    }

    fn look_at(&self, read: &Result<Page, ReadError>, command: &ReadCommand) {
        debug_assert!(
            read.as_ref().is_ok_and(|page| page.row_count <= command.row_limit) || read.is_err(),
            "within-limits: rows of {read:?}"
        );
        debug_assert!(
            read.as_ref().is_ok_and(|page| page.partition_count <= command.partition_limit)
                || read.is_err(),
            "within-limits: partitions of {read:?}"
        );
        if let Err(error @ ReadError::Damaged { .. }) = read {
            self.tell_damage(error);
        }
    }

    /// A source of what this shard has of a table, memtables and SSTables, for those who read
    /// fragments and not pages. Forwarded to other partitions it sees what is there then. Takes no
    /// permit.
    pub fn open_source(
        &self,
        table: TableId,
        scope: PartitionScope,
        slice: Slice,
        options: SourceOptions,
    ) -> Result<Box<dyn Source>, ReadError> {
        self.shard.open_source(table, scope, slice, options)
    }

    /// A source of what all shards of this node have of a table between two bounds. Each visit
    /// takes a permit of the streaming semaphore of its shard, and none of another one.
    pub fn open_multishard(
        &self,
        table: TableId,
        bounds: (RingBound, RingBound),
        slice: Slice,
        options: SourceOptions,
        how: MultishardOptions,
    ) -> Result<MultishardSource, ReadError> {
        self.shard.open_multishard(table, bounds, slice, options, how)
    }

    /// Memory for reads that one visit of such a source takes of this shard at most, between two
    /// tokens, these included, for so many bytes; as it is now, and while no row is very large.
    pub fn visit_bytes(&self, table: TableId, tokens: (Token, Token), bytes_max: usize) -> usize {
        self.shard.visit_bytes(table, tokens, bytes_max)
    }

    /// The places of this shard that may hold something of a partition, by name.
    pub fn holders(&self, table: TableId, key: &DecoratedKey) -> Result<Vec<Holder>, ReadError> {
        self.shard.holders(table, key)
    }

    /// The right to read from sources of [`Storage::open_source`] and [`Holder::open`] until the
    /// range read timeout, as a read for an answer has it.
    pub async fn admit_read(&self, table: TableId) -> Result<(Permit, Rc<TableSchema>), ReadError> {
        self.shard.admit_read(table).await
    }

    fn tell_damage(&self, error: &ReadError) {
        let now = Instant::now();
        if self.damage_told.get().is_none_or(|told| DAMAGE_PERIOD <= now - told) {
            self.damage_told.set(Some(now));
            tracing::error!(target: "sstable", "a read met damage: {error}");
        }
    }

    /// Waits for the partition's lock. Serializes those who ask for it, nobody else.
    pub async fn lock_partition(&self, table: TableId, key: &[u8]) -> PartitionGuard {
        self.shard.locks.lock(table, key).await
    }

    /// The same for who derives: he waits for nobody but others who derive (*own-locks*).
    pub async fn lock_deriving(&self, table: TableId, key: &[u8]) -> PartitionGuard {
        self.shard.deriving_locks.lock(table, key).await
    }

    /// Calls `look` with a partition as it is now; `None`: it is not of this shard.
    pub fn with_before<R>(
        &self,
        table: TableId,
        key: &DecoratedKey,
        look: impl FnOnce(&Before<'_>) -> R,
    ) -> Option<R> {
        self.shard.with_before(table, key, look)
    }

    /// Writes the table's memtables to SSTables. An error is the first that a memtable met; it is
    /// tried again in the background.
    pub fn flush(&self, id: TableId) -> Erased<'_, Result<(), StorageError>> {
        Erased::new(move || async move {
            let table = self.shard.table(id).ok_or(StorageError::UnknownTable(id))?;
            self.shard.flush_table(&table).await
        })
    }

    /// How many keys the filters of a table's SSTables let through in vain, and in all.
    pub fn filter_hits(&self, id: TableId) -> FilterHits {
        let mut sum = FilterHits::default();
        for one in self.shard.table(id).iter().flat_map(|table| table.sstables()) {
            let hits = one.filter_hits();
            sum.in_vain += hits.in_vain;
            sum.all += hits.all;
        }
        debug_assert!(sum.in_vain <= sum.all, "parts-of-all: {sum:?}");
        sum
    }

    /// Flushes all tables.
    pub fn flush_all(&self) -> Erased<'_, Result<(), StorageError>> {
        Erased::new(move || async move { self.shard.flush_all().await })
    }

    /// Flushes, syncs and closes; later writes are refused. Empties the slot of
    /// [`runtime::local`].
    pub fn stop(&self) -> Erased<'_, Result<(), StorageError>> {
        Erased::new(move || async move {
            self.shard.stopping.set(true);
            self.shard.shard_reads.clear();
            let flushed = self.shard.flush_all().await;
            for log in self.shard.logs() {
                log.stop().await;
            }
            if flushed.is_ok() {
                let removals = self.removals.take();
                // Segments that stay are replayed at the next start, to no effect.
                let _ = timeout(REMOVAL_MAX, join_all(removals)).await;
            }
            self.scope.cancel().await;
            local::clear::<Storage>();
            local::clear::<Shard>();
            flushed
        })
    }

    /// The state of a table.
    pub fn table_stats(&self, id: TableId) -> Option<TableStats> {
        let table = self.shard.table(id)?;
        let memtables_sealed = table.sealed_count.get();
        let cache_lookups = table.lookups_gone.get();
        let mut stats = TableStats { memtables_sealed, cache_lookups, ..TableStats::default() };
        let mut memtables = table.sealed_memtables();
        for tablet in table.tablets().iter() {
            stats.pending_compactions += tablet.backlog.pending() as u64;
            let lookups = tablet.cache.as_ref().map(|cache| cache.lookups()).unwrap_or_default();
            stats.cache_lookups.hits += lookups.hits;
            stats.cache_lookups.misses += lookups.misses;
            memtables.push(tablet.active.borrow().clone());
        }
        for memtable in memtables.iter().filter(|memtable| !memtable.is_empty()) {
            stats.memtable_bytes += memtable.bytes() as u64;
            stats.memtable_partitions += memtable.partition_count() as u64;
        }
        debug_assert!(
            stats.memtable_bytes <= table.dirty.level().real as u64,
            "parts-of-all: {} bytes of memtables",
            stats.memtable_bytes
        );
        stats.partitions = stats.memtable_partitions;
        stats.rows = stats.memtable_partitions;
        for one in table.sstables() {
            stats.sstables += 1;
            stats.sstable_bytes += one.disk_bytes();
            stats.partitions += one.partition_count();
            stats.rows += one.stats().rows_count;
        }
        Some(stats)
    }

    /// Sets how long a read of one partition, and one of a range, may take that begins from now on.
    pub fn set_read_timeouts(&self, one: Duration, range: Duration) {
        self.shard.read_timeouts.set((one, range));
    }

    /// Changes how SSTables are written from now on where their table does not say.
    pub fn change_writer_defaults(&self, change: impl FnOnce(&mut sstable::WriterDefaults)) {
        let mut defaults = self.shard.sstables.get();
        change(&mut defaults);
        self.shard.sstables.set(defaults);
    }

    /// Gives flushes these shares of processor and disk, whatever memory and log need; 0: what they
    /// need.
    pub fn set_flush_shares(&self, shares: u32) {
        self.shard.flush_shares.set(shares);
    }

    /// Sets what may be how large. SSTables that are written from now on record what is larger than
    /// the lower limits.
    pub fn set_size_limits(&self, limits: SizeLimits) {
        self.shard.set_size_limits(limits);
    }

    /// Refuses a write to what is larger than an upper limit; says which lower ones it meets. Asked
    /// before the write by those who are to obey (`large_data`); of a table without
    /// `large_data_guardrails_enabled` it never refuses.
    pub fn check_sizes(&self, mutation: &FrozenMutation) -> Result<Exceeded, WriteError> {
        self.shard.check_sizes(mutation)
    }

    /// Memory of this shard, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.shard.config.memory_bytes
    }

    /// How many writes met limits of sizes.
    pub fn large_writes(&self) -> LargeWrites {
        self.shard.large_writes.get()
    }

    /// What this shard's SSTables of a table record as large.
    pub fn large_records(
        &self,
        id: TableId,
    ) -> Vec<(sstable::Descriptor, sstable::scylla::LargeRecord)> {
        let mut found = Vec::new();
        for one in self.shard.table(id).iter().flat_map(|table| table.sstables()) {
            let records = one.scylla().large_records.iter();
            found.extend(records.map(|record| (one.descriptor(), record.clone())));
        }
        found
    }

    /// The semaphores of this shard's reads, for metrics: of users, of the system, of streaming.
    pub fn semaphores(&self) -> [&Rc<ReadSemaphore>; 3] {
        self.shard.reads.all()
    }

    /// Bytes of all memtables.
    pub fn dirty_bytes(&self) -> usize {
        self.shard.dirty.iter().map(|dirty| dirty.level().real).sum()
    }

    /// How full the disk is, and whether writes are refused for it.
    pub fn disk_state(&self) -> DiskState {
        self.shard.space.state()
    }

    /// Sets the part of the disk, from 0 to 1, above which writes of clients are refused.
    pub fn set_critical_disk_level(&self, level: f64) {
        self.shard.space.set_level(level);
    }

    /// Memory of memtables, for metrics: of the tables of clients, of those of the system.
    pub fn dirty_stats(&self) -> [DirtyStats; 2] {
        [&self.shard.dirty[0], &self.shard.dirty[1]].map(|dirty| dirty.stats())
    }

    /// What is cached of the indexes of SSTables.
    pub fn index_cache(&self) -> &Rc<IndexCache> {
        &self.shard.index_cache
    }

    /// What the row cache holds and has done; zeros where there is none.
    pub fn row_cache_stats(&self) -> RowCacheStats {
        self.shard.row_cache.as_ref().map(|cache| cache.stats()).unwrap_or_default()
    }

    /// Forgets what the row cache holds.
    pub fn drop_row_cache(&self) {
        self.shard.drop_row_cache();
    }

    /// The state of a log; `None` for the schema log of a shard other than 0.
    pub fn log_stats(&self, log: Log) -> Option<LogStats> {
        match log {
            Log::Data => Some(self.shard.data_log.stats()),
            Log::Schema => self.shard.schema_log.as_ref().map(|log| log.stats()),
        }
    }
}
