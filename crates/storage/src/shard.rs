//! The state of a shard's storage, and writing to it.

use crate::cache::RowCache;
use crate::commitlog::{
    Appended, Commitlog, HeldEntries, LogConfig, Refusal, SEGMENT_BYTES_MIN, SegmentId, files,
    group_bytes,
};
use crate::compaction::Compactions;
use crate::config::{Config, Log, SyncMode};
use crate::dirty::{Dirty, Limits};
use crate::error::{StartError, WriteError};
use crate::hot::{Sampler, Touch};
use crate::large_data::{LargeWrites, SizeLimits};
use crate::locks::PartitionLocks;
use crate::memory::{Division, Taken};
use crate::memtable::Ahead;
use crate::read::Reads;
use crate::shard_reads::ShardReads;
use crate::space::DiskSpace;
use crate::table::{Table, Tablet};
use model::{DecoratedKey, TableId, TableSchema, Token};
use mutation::{FrozenMutation, FrozenView};
use runtime::io::{IoError, fs};
use runtime::sync::Notify;
use runtime::time::{Instant, timeout};
use sstable::IndexCache;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use stdx::{Bytes, Damaged, HashMap, bug, buggify};

/// The largest entry of a log of any size.
const ENTRY_BYTES_MAX: usize = 256 << 20;

/// What the tasks and the door of a shard's storage share.
pub(crate) struct Shard {
    pub(crate) config: Config,
    pub(crate) tables: RefCell<HashMap<TableId, Rc<Table>>>,
    pub(crate) data_log: Rc<Commitlog>,
    /// On shard 0 alone.
    pub(crate) schema_log: Option<Rc<Commitlog>>,
    pub(crate) locks: PartitionLocks,
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
    /// How SSTables are written where their table does not say.
    pub(crate) sstables: Cell<sstable::WriterDefaults>,
    /// Whether what comes into being is linked into `backups/`.
    pub(crate) incremental_backups: Cell<bool>,
    /// How long a read of one partition, and one of a range, may take.
    pub(crate) read_timeouts: Cell<(Duration, Duration)>,
    /// What may be how large, in tables that ask for it.
    pub(crate) size_limits: Cell<SizeLimits>,
    pub(crate) large_writes: Cell<LargeWrites>,
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

/// A mutation and where it goes.
pub(crate) struct Target<'m> {
    /// Whether it is logged.
    pub(crate) logged: bool,
    pub(crate) table: Rc<Table>,
    pub(crate) tablet: Rc<Tablet>,
    pub(crate) key: DecoratedKey,
    pub(crate) view: FrozenView<'m>,
    /// What is merged already.
    ahead: Cell<Ahead>,
}

impl Shard {
    pub(crate) async fn open(config: Config) -> Result<Shard, StartError> {
        check(&config)?;
        let first_shard = runtime::shard_id() == 0;
        make_dirs(&config).await?;
        let pressure = Rc::new(Notify::new());
        let data_log = open_log(&config, Log::Data, &pressure).await?;
        let schema_log = match first_shard {
            true => Some(open_log(&config, Log::Schema, &pressure).await?),
            false => None,
        };
        let index_cache = IndexCache::new(config.index_cache_bytes);
        let (limits, system) = {
            let bytes_max = config.memtable_bytes_max;
            (Limits::of(bytes_max), Limits::of_system(bytes_max))
        };
        let dirty = [limits, system].map(|limits| Rc::new(Dirty::new(limits, pressure.clone())));
        let row_cache_bytes = config.row_cache_bytes();
        let row_cache = (0 < row_cache_bytes)
            .then(|| RowCache::new(config.memory_bytes.max(row_cache_bytes), row_cache_bytes));
        Ok(Shard {
            sstables: Cell::new(config.sstables),
            incremental_backups: Cell::new(config.incremental_backups),
            read_timeouts: Cell::new((config.read_timeout, config.range_read_timeout)),
            size_limits: Cell::new(SizeLimits::of_soft(config.sstables.large)),
            large_writes: Cell::default(),
            reads: Reads::new(config.memory_bytes),
            shard_reads: ShardReads::default(),
            sampler: Rc::default(),
            division: Division::unchecked(config.memory_bytes, config.index_cache_bytes),
            config,
            index_cache,
            row_cache,
            reclaim_wake: Notify::new(),
            tables: RefCell::default(),
            data_log,
            schema_log,
            locks: PartitionLocks::default(),
            dirty,
            retry_now: Notify::new(),
            compaction_wake: Notify::new(),
            let_go_wake: Notify::new(),
            compactions: Compactions::default(),
            pressure,
            flushed: Notify::new(),
            flushes_awaited: Cell::new(0),
            flush_shares: Cell::new(0),
            pressed: Cell::new(0),
            space: DiskSpace::default(),
            full_disk: RefCell::new(None),
            replays: Default::default(),
            stopping: Cell::new(false),
        })
    }

    pub(crate) fn logs(&self) -> impl Iterator<Item = &Rc<Commitlog>> {
        std::iter::once(&self.data_log).chain(&self.schema_log)
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
        let tablets = tables.values().flat_map(|table| &table.tablets);
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
    pub(crate) fn divide(&self) {
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
        match log == Log::Schema || crate::read::is_of_system(schema) {
            true => &self.dirty[1],
            false => &self.dirty[0],
        }
    }

    pub(crate) fn table(&self, id: TableId) -> Option<Rc<Table>> {
        self.tables.borrow().get(&id).cloned()
    }

    /// See [`crate::Storage::prefetch`].
    pub(crate) fn prefetch(&self, id: TableId, token: Token) {
        let tables = self.tables.borrow();
        if let Some(tablet) = tables.get(&id).and_then(|table| table.tablet_of(token)) {
            tablet.active.borrow().prefetch(token);
            if let Some(cache) = &tablet.cache {
                cache.prefetch(token);
            }
        }
    }

    pub(crate) fn target<'m>(
        &self,
        mutation: &'m FrozenMutation,
    ) -> Result<Target<'m>, WriteError> {
        // Made by a builder, or checked where it came in (*vouched-for*).
        let view = FrozenView::trusted(&mutation.0).map_err(WriteError::Damaged)?;
        let id = view.table();
        let table = self.table(id).ok_or(WriteError::UnknownTable(id))?;
        let key = DecoratedKey::new(Bytes::copy_from(view.key()));
        let tablet = table.tablet_of(key.token).cloned().ok_or(WriteError::UnknownTable(id))?;
        self.sampler.note(Touch::Write, id, key.token, &key.key);
        let (logged, ahead) = (table.logged.get(), Cell::default());
        Ok(Target { logged, table, tablet, key, view, ahead })
    }

    /// Logs and applies one mutation.
    pub(crate) async fn apply(&self, mutation: &FrozenMutation) -> Result<(), WriteError> {
        let target = self.target(mutation)?;
        if let Some(newer) = target.table.newer_than_drops(&target.view) {
            return Box::pin(self.apply(&newer)).await;
        }
        let entry = [(target.table.id, &mutation.0[..])];
        let entries = if target.logged { &entry[..] } else { &[] };
        match self.append(std::slice::from_ref(&target), entries).await? {
            Some(appended) => self.log_of(target.table.log).committed(appended).await,
            None => Ok(()),
        }
    }

    /// Logs and applies one mutation, and waits for the disk to have it.
    pub(crate) async fn apply_durably(&self, mutation: &FrozenMutation) -> Result<(), WriteError> {
        let target = self.target(mutation)?;
        if let Some(newer) = target.table.newer_than_drops(&target.view) {
            return Box::pin(self.apply_durably(&newer)).await;
        }
        let entry = [(target.table.id, &mutation.0[..])];
        let entries = if target.logged { &entry[..] } else { &[] };
        match self.append(std::slice::from_ref(&target), entries).await? {
            Some(appended) => self.log_of(target.table.log).synced(appended).await,
            None => Ok(()),
        }
    }

    /// Logs mutations as one group and applies them.
    pub(crate) async fn apply_all(&self, mutations: &[FrozenMutation]) -> Result<(), WriteError> {
        let targets: Result<Vec<_>, _> = mutations.iter().map(|one| self.target(one)).collect();
        let targets = targets?;
        let Some(first) = targets.first() else { return Ok(()) };
        if targets.iter().any(|target| target.table.newer_than_drops(&target.view).is_some()) {
            let newer = |(target, all): (&Target<'_>, &FrozenMutation)| {
                target.table.newer_than_drops(&target.view).unwrap_or_else(|| all.clone())
            };
            let newer: Vec<_> = targets.iter().zip(mutations).map(newer).collect();
            return Box::pin(self.apply_all(&newer)).await;
        }
        let log = first.table.log;
        if targets.iter().any(|target| target.table.log != log) {
            let refused = Damaged::new("mutations of one group in two logs", 0);
            return bug!(Err(WriteError::Damaged(refused)), "a group in two logs");
        }
        let bytes = mutations.iter().map(|mutation| &mutation.0[..]);
        let logged = targets.iter().zip(bytes).filter(|(target, _)| target.logged);
        let entries: Vec<_> = logged.map(|(target, bytes)| (target.table.id, bytes)).collect();
        match self.append(&targets, &entries).await? {
            Some(appended) => self.log_of(log).committed(appended).await,
            None => Ok(()),
        }
    }

    /// Appends, waiting for room where there is none, and applies in the same step
    /// (*logged-first*). Of a group, of which there is at least one, the first table's memory
    /// decides. Without entries nothing is logged; the write waits for memory all the same.
    async fn append(
        &self,
        targets: &[Target<'_>],
        entries: &[(TableId, &[u8])],
    ) -> Result<Option<Appended>, WriteError> {
        let table = &targets[0].table;
        let (log, dirty) = (self.log_of(table.log), &table.dirty);
        let apply = |held: &[SegmentId]| targets.iter().for_each(|target| target.enter(log, held));
        if self.refuses() {
            return Err(WriteError::Overloaded("memory that a simulation refuses"));
        }
        if entries.is_empty() {
            let deadline = Instant::now() + self.config.write_wait_max;
            Box::pin(self.wait_for_memory(targets, deadline)).await?;
            apply(&[]);
            return Ok(None);
        }
        if log.cuts(group_bytes(entries)) {
            let pieces = Box::pin(self.append_in_pieces(targets, entries, apply));
            return pieces.await.map(Some);
        }
        if dirty.is_open() {
            match log.append(entries) {
                Ok(appended) => {
                    apply(&[appended.position.segment]);
                    return Ok(Some(appended));
                }
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Full(_)) => {}
            }
        }
        // Boxed: a write that need not wait is not to pay for the room that waiting takes.
        Box::pin(self.append_in_turn(targets, entries, apply)).await.map(Some)
    }

    /// As [`Shard::append`], of what the log takes in pieces: one such write after the other. It
    /// waits for memory as all do; its pieces go between the entries of others.
    async fn append_in_pieces(
        &self,
        targets: &[Target<'_>],
        entries: &[(TableId, &[u8])],
        apply: impl Fn(&[SegmentId]),
    ) -> Result<Appended, WriteError> {
        let table = &targets[0].table;
        let log = self.log_of(table.log);
        let deadline = Instant::now() + self.config.write_wait_max;
        let cut = log.turn_to_cut(deadline).await?;
        self.wait_for_memory(targets, deadline).await?;
        for target in targets {
            target.prepare().await;
        }
        let pieces = log.append_in_pieces(entries, cut, deadline).await?;
        apply(pieces.segments());
        Ok(pieces.applied())
    }

    /// Waits until memory allows a write, behind all who wait already (*in-turn*).
    async fn wait_for_memory(
        &self,
        targets: &[Target<'_>],
        deadline: Instant,
    ) -> Result<(), WriteError> {
        let dirty = &targets[0].table.dirty;
        if dirty.is_open() {
            return Ok(());
        }
        self.check_room(targets)?;
        let _blocked = dirty.block();
        let turn = dirty.take_turn(deadline).await;
        while turn.is_some() && !dirty.has_room() {
            if let Some(path) = &*self.full_disk.borrow() {
                return Err(WriteError::FullDisk(path.clone()));
            }
            if timeout(deadline - Instant::now(), dirty.room_made()).await.is_err() {
                break;
            }
        }
        if turn.is_some() && dirty.has_room() {
            return Ok(());
        }
        dirty.count_timeout();
        Err(WriteError::Overloaded("memtables to be flushed"))
    }

    /// Refuses writes of clients where the disk has too little room for them.
    fn check_room(&self, targets: &[Target<'_>]) -> Result<(), WriteError> {
        if !self.space.is_short() || !Rc::ptr_eq(&targets[0].table.dirty, &self.dirty[0]) {
            return Ok(());
        }
        let views: Vec<_> = targets.iter().map(|target| &target.view).collect();
        self.space.admit(&views)
    }

    /// As [`Shard::append`], behind all who wait already (*in-turn*).
    async fn append_in_turn(
        &self,
        targets: &[Target<'_>],
        entries: &[(TableId, &[u8])],
        apply: impl Fn(&[SegmentId]),
    ) -> Result<Appended, WriteError> {
        let table = &targets[0].table;
        let (log, dirty) = (self.log_of(table.log), &table.dirty);
        let overloaded = |wait: Wait| {
            dirty.count_timeout();
            Err(WriteError::Overloaded(match wait {
                Wait::Memory => "memtables to be flushed",
                Wait::Log(what) => what,
            }))
        };
        let _blocked = dirty.block();
        let deadline = Instant::now() + self.config.write_wait_max;
        let Some(_turn) = dirty.take_turn(deadline).await else {
            return overloaded(Wait::Memory);
        };
        loop {
            self.check_room(targets)?;
            let waits_for = if !dirty.has_room() {
                if let Some(path) = &*self.full_disk.borrow() {
                    return Err(WriteError::FullDisk(path.clone()));
                }
                Wait::Memory
            } else {
                match log.append(entries) {
                    Ok(appended) => {
                        apply(&[appended.position.segment]);
                        return Ok(appended);
                    }
                    Err(Refusal::Final(error)) => return Err(error),
                    Err(Refusal::Full(what)) => Wait::Log(what),
                }
            };
            let left = deadline - Instant::now();
            let waited = match waits_for {
                Wait::Memory => timeout(left, dirty.room_made()).await,
                Wait::Log(_) => timeout(left, log.room_made()).await,
            };
            if waited.is_err() {
                self.check_room(targets)?;
                return overloaded(waits_for);
            }
        }
    }
}

impl Target<'_> {
    /// Does what entering takes long for, as far as it can be done before.
    async fn prepare(&self) {
        let memtable = self.tablet.active.borrow().clone();
        let (schema, watch) = (self.table.schema.borrow().clone(), self.table.watch.get());
        self.ahead.set(memtable.prepare(&schema, &self.key, &self.view, watch).await);
    }

    /// Puts the mutation, an entry of which these segments of the log hold, into its memtable.
    fn enter(&self, log: &Commitlog, held: &[SegmentId]) {
        let Target { table, tablet, key, view, logged, ahead } = self;
        let held = if *logged { held } else { &[] };
        if table.dropped.get() {
            // Dropped while the write waited: nobody would let go of the segments.
            let mut gone = HeldEntries::default();
            held.iter().for_each(|segment| gone.add(*segment, 1));
            return log.discard(table.id, &gone, i64::MAX);
        }
        let memtable = tablet.active.borrow().clone();
        let (schema, ahead) = (table.schema.borrow(), ahead.take());
        memtable.apply_watched(&schema, key.clone(), view, table.watch.get(), ahead);
        held.iter().for_each(|segment| memtable.hold(*segment));
    }
}

/// What an append waits for.
#[derive(Clone, Copy)]
enum Wait {
    Memory,
    Log(&'static str),
}

/// Refuses a configuration that cannot work.
fn check(config: &Config) -> Result<(), StartError> {
    let wrong = |what| Err(StartError::Config(what));
    if config.segment_bytes < SEGMENT_BYTES_MIN || !config.segment_bytes.is_multiple_of(4096) {
        return wrong("segment_bytes is at least 65536 and a multiple of 4096");
    }
    if (1 << 31) < config.segment_bytes {
        return wrong("segment_bytes is at most 2 GiB");
    }
    if config.memtable_bytes_max == 0 {
        return wrong("memtable_bytes_max is not 0");
    }
    if let SyncMode::Periodic { period } = config.sync
        && period.is_zero()
    {
        return wrong("the sync period is not 0");
    }
    Ok(())
}

/// Makes the directories; on shard 0, which every start includes, durably from the root on.
async fn make_dirs(config: &Config) -> Result<(), IoError> {
    let dirs = [&config.data_dir, &config.commitlog_dir, &config.schema_commitlog_dir];
    let (mut parents, mut above) = (BTreeSet::new(), BTreeSet::new());
    for dir in dirs {
        fs::create_dir_all(dir).await?;
        parents.extend(dir.parent());
        above.extend(dir.ancestors().skip(2));
    }
    if runtime::shard_id() != 0 {
        return Ok(());
    }
    let or_here = |dir: &Path| match dir.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => dir.to_path_buf(),
    };
    for dir in &parents {
        fs::sync_dir(or_here(dir)).await?;
    }
    for dir in above.difference(&parents) {
        // Far above there may be directories that are not ours to open, and not new.
        if let Err(error) = fs::sync_dir(or_here(dir)).await {
            tracing::debug!("{error}");
        }
    }
    Ok(())
}

/// The largest entry of a log: a quarter of it, so that it holds some however they are cut; half a
/// segment at least, and no more than a request of a client can be.
fn entry_bytes_max(segment_bytes: usize, bytes_max: u64) -> usize {
    let quarter = usize::try_from(bytes_max / 4).unwrap_or(usize::MAX);
    quarter.min(ENTRY_BYTES_MAX).max(segment_bytes / 2)
}

/// A log whose new segments come after all that are there (*ids-ascend*).
pub(crate) async fn open_log(
    config: &Config,
    log: Log,
    pressure: &Rc<Notify>,
) -> Result<Rc<Commitlog>, StartError> {
    let segment_bytes = config.segment_bytes;
    let (dir, sync, bytes_max) = match log {
        Log::Data => (&config.commitlog_dir, config.sync, config.commitlog_bytes_max),
        Log::Schema => (&config.schema_commitlog_dir, SyncMode::Batch, 4 * segment_bytes as u64),
    };
    let (shard, shards) = (runtime::shard_id(), runtime::shard_count());
    let mine = |id: SegmentId| id.shard() == shard || (shard == 0 && shards <= id.shard());
    files::clean_up(dir, mine).await?;
    let mut found = files::list(dir).await?;
    found.extend(files::marks(dir).await?);
    let above = found.iter().map(|id| id.base() + 1).max().unwrap_or(1);
    let now = (runtime::time::wall_micros() / 1000).max(1) as u64;
    let log_config = LogConfig {
        dir: dir.clone(),
        shard,
        sync,
        segment_bytes,
        bytes_max,
        entry_bytes_max: entry_bytes_max(segment_bytes, bytes_max),
        sparse_allowed: log == Log::Schema,
        planted: config.planted,
    };
    Ok(Rc::new(Commitlog::new(log_config, above.max(now), pressure.clone())))
}
