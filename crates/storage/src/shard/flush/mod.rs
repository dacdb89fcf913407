//! Memtables to SSTables.
//!
//! A few workers take sealed memtables from one queue. When a file cannot be written they try
//! again, later and later: a memtable leaves memory by being durable, truncated or dropped, never
//! by an error.
//!
//! Invariants
//!  - *nothing-lost*: what is sealed has all partitions of its memtable.
//!  - *logged-before-flushed*: an SSTable becomes durable after the log has all that is in it; so a
//!    crash leaves all of a group or nothing, though only some of its tables were flushed. What
//!    the data log has given up is flushed all the same; the schema log gives up nothing.
//!  - *released-after-durable*: see the crate. Order of a flush: the SSTable is sealed and synced;
//!    it is linked into `backups/`, where that is wanted; it is merged into the row cache; in one
//!    step it joins the set and the memtable leaves; then the log entries are discarded.

mod division;

use super::{Shard, backup};
use crate::commitlog::SegmentId;
use crate::compaction::windows_of;
use crate::error::StorageError;
use crate::memtable::dirty::{Dirty, flush_shares};
use crate::memtable::{Memtable, MemtableSource};
use crate::table::cache_update::{self, Merged};
use crate::table::dir::prepare_dir;
use crate::table::flush_queue::{FlushQueue, Pending};
use crate::table::{GATE_UNITS, Table, Tablet, TokenRanges, pass_gate};
use division::Division;
use mutation::Fragment;
use reader::{Budget, ReadError, Slice, Source};
use runtime::group;
use runtime::io::{IoClass, set_shares};
use runtime::task::race;
use runtime::time::{Instant, sleep, timeout};
use sstable::Descriptor;
use std::rc::Rc;
use std::time::Duration;

/// Memtables of a pool that are flushed at the same time: one writes its data, the others make
/// what they wrote durable and known, or pause after an error.
pub(crate) const WORKERS: usize = 8;
/// No worker waits for the gate of a table because of the others.
const _: () = assert!(WORKERS < GATE_UNITS);
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Time between two looks at what flushes need.
const CONTROL_PERIOD: Duration = Duration::from_millis(50);
/// Between two looks at tables that are flushed periodically.
const PERIOD_LOOK: Duration = Duration::from_secs(1);
/// Shares of a flush that somebody waits for, at least.
const AWAITED_SHARES: u32 = 200;
/// Who goes after the flushes that somebody waits for does not wait longer.
const FLUSHES_MAX: Duration = Duration::from_secs(1);
/// One batch from the memtable.
const BATCH: Budget = Budget { fragments_max: 128, bytes_max: 64 << 10 };

/// Writes that wait are told of at most this often.
const TELL_PERIOD: Duration = Duration::from_secs(1);

/// What was logged of writes that wait.
struct Told {
    blocked: u64,
    at: Instant,
}

/// What a worker made of a memtable.
enum Written {
    /// Nothing: it was truncated or dropped meanwhile.
    Obsolete,
    /// It says nothing.
    Nothing,
    /// One SSTable, or one for each window of time.
    Durable(Vec<Rc<sstable::Table>>),
}

impl Shard {
    /// Seals the active memtable of a tablet and queues it.
    pub(crate) fn seal(&self, table: &Rc<Table>, tablet: &Rc<Tablet>) -> Option<Rc<Memtable>> {
        let memtable = table.seal(tablet)?;
        let (table, tablet) = (table.clone(), tablet.clone());
        let queue = self.flush_queue(&table.dirty);
        queue.push(Pending { table, tablet, memtable: memtable.clone() });
        Some(memtable)
    }

    /// Picks what should be flushed for lack of log space or memory, and lets the caches follow
    /// the memtables. What somebody asked for goes first: memory picks when nothing else is to be
    /// written.
    pub(crate) async fn watch_pressure(&self) {
        loop {
            self.divide_memory();
            for log in self.logs() {
                for (id, newest) in log.take_flush_wanted() {
                    let table = self.tables.borrow().get(&id).cloned();
                    if let Some(table) = table
                        && !self.seal_up_to(&table, newest)
                    {
                        log.want_later(id, newest);
                    }
                }
            }
            for (dirty, queue) in self.dirty.iter().zip(&self.flush_queues) {
                if queue.is_idle()
                    && dirty.level().wants_flush(&dirty.limits())
                    && let Some((table, tablet)) = self.largest(dirty)
                {
                    self.seal(&table, &tablet);
                }
            }
            self.pressure.notified().await;
        }
    }

    /// Gives those who flush as much of the processor and the disk as memory and log need
    /// (*controller*).
    pub(crate) async fn control_flush(&self) {
        let (mut set, mut told) = (0, Told { blocked: 0, at: Instant::ZERO });
        loop {
            let memory = self.dirty.iter().map(|dirty| dirty.level().thousandths(&dirty.base()));
            let log = self.data_log.thousandths();
            let pressure = memory.fold(log, u64::max);
            assert!(pressure <= 1000, "controller: {pressure} thousandths");
            self.pressed.set(pressure);
            let awaited = 0 < self.flushes_awaited.get();
            let shares = match self.flush_shares.get() {
                0 => flush_shares(pressure).max(if awaited { AWAITED_SHARES } else { 1 }),
                fixed => fixed,
            };
            assert!(0 < shares, "flushes without shares");
            if shares != set {
                group::set_shares(group::FLUSH, shares);
                set_shares(IoClass::Flush, shares);
                set = shares;
            }
            self.divide_memory();
            self.tell_blocked(&mut told);
            if self.logs().any(|log| log.wants_flush()) {
                self.pressure.notify_one();
            }
            sleep(CONTROL_PERIOD).await;
        }
    }

    /// Logs that writes had to wait, and how memory and log are, at most once a second.
    fn tell_blocked(&self, told: &mut Told) {
        let stats = self.dirty[0].stats();
        let now = Instant::now();
        if stats.blocked_total == told.blocked || now < told.at + TELL_PERIOD {
            return;
        }
        let log = self.data_log.stats();
        tracing::debug!(
            target: "storage",
            "{} writes had to wait, {} ms in all so far, {} in vain; memtables {} MiB, {} of them \
             unspooled; commitlog {} MiB",
            stats.blocked_total - told.blocked,
            stats.blocked_micros / 1000,
            stats.timed_out_total,
            stats.real_bytes >> 20,
            stats.unspooled_bytes >> 20,
            log.disk_bytes >> 20,
        );
        *told = Told { blocked: stats.blocked_total, at: now };
    }

    /// Flushes tables whose `memtable_flush_period_in_ms` is over, and what has been in the log for
    /// too long, for ever.
    pub(crate) async fn flush_periodically(&self) {
        loop {
            sleep(PERIOD_LOOK).await;
            self.data_log.flush_old();
            let now = Instant::now();
            let tables: Vec<_> = self.tables.borrow().values().cloned().collect();
            for table in tables {
                let millis = table.schema.borrow().options.memtable_flush_period_in_ms;
                let period = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
                if !period.is_zero() && table.flushed_at.get() + period <= now {
                    table.flushed_at.set(now);
                    self.seal_all(&table);
                }
            }
        }
    }

    /// Seals all memtables of a table.
    pub(crate) fn seal_all(&self, table: &Rc<Table>) -> Vec<Rc<Memtable>> {
        table.tablets().iter().filter_map(|tablet| self.seal(table, tablet)).collect()
    }

    /// Seals the memtables that hold log entries of that segment or older ones. What was written
    /// since is not in the way of the log, so a flush that is slow is not followed by others at
    /// once. False: no memtable holds such entries, the sealed ones included; they are logged and
    /// not applied yet.
    fn seal_up_to(&self, table: &Rc<Table>, newest: SegmentId) -> bool {
        let mut is_found = false;
        for tablet in table.tablets().iter() {
            let active = tablet.active.borrow().clone();
            if active.holds_up_to(newest) {
                self.seal(table, tablet);
            }
            is_found |= tablet.sealed.borrow().iter().any(|one| one.holds_up_to(newest));
        }
        is_found
    }

    /// Seals the memtables that hold what was replayed.
    pub(crate) fn seal_replayed(&self) {
        let tables: Vec<_> = self.tables.borrow().values().cloned().collect();
        for table in &tables {
            let held = |tablet: &&Rc<Tablet>| tablet.active.borrow().is_replayed();
            for tablet in table.tablets().iter().filter(held) {
                self.seal(table, tablet);
            }
        }
    }

    /// Seals what a table holds and waits until all of it is durable.
    pub(crate) async fn flush_table(&self, table: &Rc<Table>) -> Result<(), StorageError> {
        self.seal_all(table);
        self.await_flushes(std::slice::from_ref(table)).await
    }

    /// Seals what all tables hold and waits until all of it is durable.
    pub(crate) async fn flush_all(&self) -> Result<(), StorageError> {
        let tables: Vec<_> = self.tables.borrow().values().cloned().collect();
        tables.iter().for_each(|table| drop(self.seal_all(table)));
        self.await_flushes(&tables).await
    }

    pub(crate) async fn await_flushes(&self, tables: &[Rc<Table>]) -> Result<(), StorageError> {
        let tablets = tables.iter().flat_map(|table| table.tablets().to_vec());
        self.await_memtables(tablets.flat_map(|tablet| tablet.sealed.borrow().clone()).collect())
            .await
    }

    /// In one step: seals the memtables that have something of these ranges, and answers all sealed
    /// ones that do.
    pub(crate) fn seal_within(&self, table: &Rc<Table>, ranges: &TokenRanges) -> Vec<Rc<Memtable>> {
        let mut waiting = Vec::new();
        for tablet in table.tablets().iter() {
            let own = ranges.within(tablet.range);
            let active = tablet.active.borrow().clone();
            if active.meets_any(own.iter()) {
                self.seal(table, tablet);
            }
            let sealed = tablet.sealed.borrow();
            waiting.extend(sealed.iter().filter(|one| one.meets_any(own.iter())).cloned());
            debug_assert!(
                !tablet.active.borrow().meets_any(own.iter()),
                "cut-off: tablet {} has some that is not sealed",
                tablet.index.get()
            );
        }
        waiting
    }

    /// Waits until these sealed memtables are durable.
    pub(crate) async fn await_memtables(
        &self,
        waiting: Vec<Rc<Memtable>>,
    ) -> Result<(), StorageError> {
        let _awaited = Awaited::one(self);
        assert!(0 < self.flushes_awaited.get(), "after-flushes: this one is not counted");
        assert!(waiting.iter().all(|one| one.is_sealed()), "sealed-alone: one is written to");
        waiting.iter().for_each(|memtable| memtable.retry());
        self.retry_now.notify_all();
        for memtable in waiting {
            loop {
                match memtable.flushed() {
                    Some(Ok(())) => break,
                    Some(Err(error)) => return Err(StorageError::Flush(error)),
                    None => self.flushed.notified().await,
                }
            }
        }
        Ok(())
    }

    /// Waits until nobody waits for a flush; not for long.
    pub(crate) async fn await_no_flushes(&self) {
        let ended = async {
            while 0 < self.flushes_awaited.get() {
                self.flushed.notified().await;
            }
        };
        let _ = timeout(FLUSHES_MAX, ended).await;
    }

    fn largest(&self, dirty: &Rc<Dirty>) -> Option<(Rc<Table>, Rc<Tablet>)> {
        let tables = self.tables.borrow();
        let mine = tables.values().filter(|table| Rc::ptr_eq(&table.dirty, dirty));
        let pairs = mine.flat_map(|table| {
            table.tablets().to_vec().into_iter().map(move |tablet| (table.clone(), tablet))
        });
        let full = pairs.filter(|(_, tablet)| !tablet.active.borrow().is_empty());
        full.max_by_key(|(table, tablet)| {
            (tablet.active.borrow().bytes(), table.id, tablet.index.get())
        })
    }

    /// The life of a worker.
    pub(crate) async fn flush_sealed(&self, queue: &FlushQueue) {
        loop {
            let Some(pending) = queue.pop() else {
                queue.queued.notified().await;
                continue;
            };
            // Another worker may find more.
            queue.queued.notify_one();
            self.flush_until_done(pending).await;
        }
    }

    async fn flush_until_done(&self, pending: Pending) {
        let mut pause = RETRY_MIN;
        loop {
            match self.flush_once(&pending).await {
                Ok(()) => return,
                // Its table was dropped while it was written (*leaves-once*): the next look finds
                // that, and lets go of it.
                Err(_) if matches!(pending.memtable.flushed(), Some(Ok(()))) => {}
                Err(error) => {
                    let name = pending.table.dir.display().to_string();
                    tracing::error!("flush of {name} failed, to be tried again: {error}");
                    if let ReadError::Io(io) = &error
                        && io.is_full_disk()
                    {
                        *self.full_disk.borrow_mut() = Some(io.path.clone());
                    }
                    pending.memtable.set_all_spooled(false);
                    // Who waits for memory is told why there is none.
                    pending.table.dirty.look_again();
                    pending.memtable.fail(error);
                    self.flushed.notify_all();
                    race(sleep(pause), self.retry_now.notified()).await;
                    pause = (pause * 2).min(RETRY_MAX);
                }
            }
        }
    }

    async fn flush_once(&self, pending: &Pending) -> Result<(), ReadError> {
        let Pending { table, tablet, memtable } = pending;
        let _gate = pass_gate(table, 1).await;
        let written = write(self, table, tablet, memtable).await;
        self.pressure.notify_one();
        debug_assert!(table.gate.available() < GATE_UNITS, "gate-units: nobody passed");
        let flushed = match written? {
            Written::Obsolete => {
                *self.full_disk.borrow_mut() = None;
                return Ok(());
            }
            Written::Nothing => None,
            Written::Durable(sstables) => {
                assert!(!sstables.is_empty(), "released-after-durable: no SSTable");
                self.note_flushed(sstables.iter().map(|one| one.disk_bytes()).sum());
                backup::link_flushed(self, table, &sstables).await;
                let merged = match &table.holders_of(memtable)[..] {
                    [only] => {
                        let merged = cache_update::merge(table, only, memtable).await?;
                        Some((only.clone(), merged))
                    }
                    _ => None,
                };
                Some((sstables, merged))
            }
        };
        if flushed.is_some() {
            self.compaction_wake.notify_one();
            self.reclaim_wake.notify_one();
        }
        // A table that was dropped meanwhile has let go of it already.
        if hand_over(table, memtable, flushed) {
            self.let_go(table, memtable);
        }
        *self.full_disk.borrow_mut() = None;
        Ok(())
    }

    /// A sealed memtable has left its tablet: memory and log entries come free.
    pub(crate) fn let_go(&self, table: &Table, memtable: &Memtable) {
        memtable.set_all_spooled(true);
        debug_assert!(
            !table.tablets().iter().any(|tablet| {
                tablet.sealed.borrow().iter().any(|one| std::ptr::eq(&**one, memtable))
            }),
            "released-after-durable: it is still to be flushed"
        );
        self.flush_queue(&table.dirty).remove(memtable);
        self.log_of(table.log).discard(table.id, &memtable.held(), memtable.oldest_live());
        if memtable.is_replayed() {
            self.replayed_released(table.log);
        }
        memtable.finish();
        self.flushed.notify_all();
        self.pressure.notify_one();
    }
}

/// What a memtable became, and the tablet whose cache it was merged into, if it was into one.
type Flushed = (Vec<Rc<sstable::Table>>, Option<(Rc<Tablet>, Merged)>);

/// What a memtable became, if something, joins the sets of the tablets that have it, and it leaves
/// them, in one step; whether any had it. They may be others than when it was sealed, or when it
/// was written (`shard::divide`).
fn hand_over(table: &Table, memtable: &Rc<Memtable>, flushed: Option<Flushed>) -> bool {
    let holders = table.holders_of(memtable);
    let (sstables, merged) = flushed.unwrap_or_default();
    match (&holders[..], merged) {
        ([only], Some((of, merged))) if Rc::ptr_eq(only, &of) => {
            return only.exchange(memtable, Some((sstables, merged)));
        }
        // Who drops a table removes what its tablets have.
        ([], _) => {
            for tablet in table.tablets().iter() {
                tablet.exchange_part(memtable, &sstables);
            }
        }
        (several, _) => {
            several.iter().for_each(|tablet| tablet.exchange_part(memtable, &sstables));
            let is_there = |one: &Rc<sstable::Table>| {
                several.iter().any(|tablet| tablet.has_sstable(one.descriptor()))
            };
            assert!(sstables.iter().all(is_there), "nothing-lost: an SSTable that nobody has");
        }
    }
    !holders.is_empty()
}

/// Counts one who waits for a flush.
struct Awaited<'s> {
    shard: &'s Shard,
}

impl Awaited<'_> {
    fn one(shard: &Shard) -> Awaited<'_> {
        shard.flushes_awaited.set(shard.flushes_awaited.get() + 1);
        Awaited { shard }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let awaited = self.shard.flushes_awaited.get();
        assert!(0 < awaited, "nobody waits for a flush");
        self.shard.flushes_awaited.set(awaited - 1);
        self.shard.flushed.notify_all();
    }
}

/// Writes a memtable and opens what was written.
async fn write(
    shard: &Shard,
    table: &Rc<Table>,
    tablet: &Tablet,
    memtable: &Rc<Memtable>,
) -> Result<Written, ReadError> {
    if table.holders_of(memtable).is_empty() {
        return Ok(Written::Obsolete);
    }
    prepare_dir(&shard.config.data_dir, table).await.map_err(ReadError::Io)?;
    assert!(table.dir_synced.get(), "released-after-durable: the directory may go");
    let data_write = shard.flush_queue(&table.dirty).writing.acquire(1).await;
    let mut parts = Parts { shard, table, tablet, memtable, writers: Vec::new() };
    if let Err(error) = parts.copy().await {
        // What is left is garbage that the next start removes.
        parts.abort().await;
        return Err(error);
    }
    drop(data_write);
    // Another memtable may be written while this one becomes durable.
    shard.pressure.notify_one();
    if let Err(error) = shard.log_of(table.log).ready_to_flush().await {
        parts.abort().await;
        return Err(ReadError::Io(error));
    }
    let sealed = parts.seal().await?;
    Ok(if sealed.is_empty() { Written::Nothing } else { Written::Durable(sealed) })
}

/// The SSTables that a memtable is written to: one, or one for each window of time. Its tablet is
/// the one that it was sealed in, which may be gone.
struct Parts<'f> {
    shard: &'f Shard,
    table: &'f Table,
    memtable: &'f Rc<Memtable>,
    tablet: &'f Tablet,
    writers: Vec<(Descriptor, sstable::Writer)>,
}

impl Parts<'_> {
    /// Writes all of the memtable.
    async fn copy(&mut self) -> Result<(), ReadError> {
        let keys = cache_update::all_keys();
        let mut source = MemtableSource::new(self.memtable.clone(), keys, Slice::full());
        let mut division = windows_of(self.table).map(Division::new);
        let mut batch: Vec<Fragment> = Vec::new();
        let (mut divided, mut partitions) = (Vec::new(), 0);
        loop {
            batch.clear();
            source.fill(BATCH, &mut batch).await?;
            if batch.is_empty() {
                let count = self.memtable.partition_count();
                assert!(partitions == count, "nothing-lost: {partitions} of {count} partitions");
                return Ok(());
            }
            for fragment in &batch {
                match &mut division {
                    None => self.write(0, fragment).await?,
                    Some(division) => {
                        division.push(fragment, &mut divided);
                        for (part, fragment) in divided.drain(..) {
                            self.write(part, &fragment).await?;
                        }
                    }
                }
                partitions += usize::from(matches!(fragment, Fragment::PartitionEnd));
                self.memtable.spool(fragment);
            }
            runtime::task::yield_if_needed().await;
        }
    }

    async fn write(&mut self, part: usize, fragment: &Fragment) -> Result<(), ReadError> {
        assert!(part <= self.writers.len(), "few: part {part} of {}", self.writers.len());
        assert!(part < division::PARTS_MAX, "few: part {part}");
        if part == self.writers.len() {
            let writer = self.create().await?;
            self.writers.push(writer);
        }
        let (_, writer) = &mut self.writers[part];
        writer.write(fragment).await.map_err(ReadError::Io)
    }

    async fn create(&self) -> Result<(Descriptor, sstable::Writer), ReadError> {
        let schema = self.table.schema();
        let node = self.shard.sstables.get();
        let options = sstable::WriterOptions::of_table(&schema, "memtable", node);
        let mut options = options.map_err(|what| ReadError::Overloaded(what.to_string()))?;
        options.host_id = Some(self.shard.config.host_id);
        options.estimated_partitions = self.memtable.partition_count() as u64;
        options.share = self.tablet.share;
        let generation = sstable::Generation::generate();
        let descriptor = Descriptor { version: options.version, generation };
        assert!(!self.tablet.has_sstable(descriptor), "once-in-set: {descriptor:?} is there");
        let (dir, class) = (&self.table.dir, IoClass::Flush);
        let created = sstable::Writer::create(dir, generation, schema, options, class);
        Ok((descriptor, created.await.map_err(ReadError::Io)?))
    }

    /// Makes what was written durable and opens it.
    async fn seal(mut self) -> Result<Vec<Rc<sstable::Table>>, ReadError> {
        let mut sealed: Vec<Rc<sstable::Table>> = Vec::new();
        let mut writers = std::mem::take(&mut self.writers).into_iter();
        while let Some((descriptor, writer)) = writers.next() {
            match self.seal_one(writer).await {
                Ok(opened) => {
                    let is_own = opened.as_ref().is_none_or(|one| self.tablet.holds_all_of(one));
                    assert!(is_own, "own-alone: what was flushed is of others");
                    debug_assert!(
                        opened.iter().all(|one| one.stats().level == 0),
                        "levels-apart: what was flushed is of a level"
                    );
                    sealed.extend(opened);
                }
                Err(error) => {
                    // It may be there or not; and it is written again.
                    self.table.remove_sstable(descriptor).await;
                    for one in sealed {
                        self.table.remove_sstable(one.descriptor()).await;
                    }
                    self.writers = writers.collect();
                    self.abort().await;
                    return Err(error);
                }
            }
        }
        Ok(sealed)
    }

    async fn seal_one(
        &self,
        writer: sstable::Writer,
    ) -> Result<Option<Rc<sstable::Table>>, ReadError> {
        let sealed = writer.finish().await.map_err(ReadError::Io)?;
        let Some(sealed) = sealed else { return Ok(None) };
        let (dir, cache) = (&self.table.dir, &self.shard.index_cache);
        let opened = sstable::Table::open(dir, sealed.descriptor, self.table.schema(), cache);
        opened.await.map(Some)
    }

    async fn abort(self) {
        for (_, writer) in self.writers {
            let _ = writer.abort().await;
        }
    }
}
