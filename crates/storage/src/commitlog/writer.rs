//! The log of one shard: appending, group commit, rotation, release.
//!
//! Decisions are made here, in plain calls on [`Commitlog`]'s state; [`super::tasks`] performs
//! them on the disk.
//!
//! Invariants
//!  - *chunks-in-order*: chunks are written one after the other, so a chunk that is synced has all
//!    before it synced.
//!  - *files-end-synced*: the last chunk of a segment is synced before the next segment is
//!    written, so what is unsynced lies in one file.
//!  - *fits-segment*: what is appended lies within its segment, and leaves a block for its end.
//!  - *positions-grow*: what is appended later lies at a later place of the log.
//!  - *one-syncs*: of those who wait for a sync one makes it.
//!  - *gathers-briefly*: a chunk that somebody waits for is written as soon as as many wait for it
//!    as waited for the one before, or after a part of the time that the last sync took: who is
//!    answered together asks again at about the same time, and would wait for two syncs.
//!  - *made-or-gone*: each segment that was made is ready, active or closed, or was released.
//!  - *synced-is-written*: a chunk is filled, sealed, written, synced, in that order.
//!  - *released-after-durable*: see the crate; a segment with a write pending is not released.

use super::LogStats;
use super::layout::{BLOCK, ChunkBuffer, ENTRY_HEADER, MULTI_HEADER, Terminate};
use super::position::{HeldEntries, ReplayPosition, SegmentId};
use crate::config::{Planted, SyncMode};
use crate::error::WriteError;
use model::TableId;
use runtime::io::{AlignedBuf, File, IoError};
use runtime::sync::{Notify, Semaphore};
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use stdx::{HashMap, HashSet};

/// A chunk of this size is written at once in periodic mode.
pub(crate) const CHUNK_BYTES_WRITTEN: usize = 128 << 10;
/// How long a smaller chunk waits for more in periodic mode.
pub(crate) const CHUNK_WAIT: Duration = Duration::from_millis(5);
/// Appends wait while the chunk being filled holds this much.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// A chunk that somebody waits for gathers others for the time of a sync divided by this.
const GATHERED_PART: u32 = 4;
/// And no longer than this.
const GATHERED_MAX: Duration = Duration::from_millis(2);
/// Failed chunks that are remembered for those who wait for them.
const FAILURES_MAX: usize = 1024;
/// A chunk is written before appends have to wait for it, and takes what is logged whole.
const _: () = assert!(CHUNK_BYTES_WRITTEN < CHUNK_BYTES_MAX && WHOLE_BYTES_MAX < CHUNK_BYTES_MAX);
/// Items up to this size are logged whole, if half a segment takes them; others in pieces.
pub(super) const WHOLE_BYTES_MAX: usize = 128 << 10;
/// The smallest segment.
pub(crate) const SEGMENT_BYTES_MIN: usize = 16 * BLOCK;

/// How a log is kept.
#[derive(Clone, Debug)]
pub(crate) struct LogConfig {
    pub(crate) dir: PathBuf,
    pub(crate) shard: u16,
    pub(crate) sync: SyncMode,
    pub(crate) segment_bytes: usize,
    pub(crate) bytes_max: u64,
    /// The largest item.
    pub(crate) entry_bytes_max: usize,
    /// Whether a segment is made without its space where the disk has none: what is logged is
    /// little, and must not wait.
    pub(crate) sparse_allowed: bool,
    /// Whether a chunk that cannot be written is tried again until it can, and nothing is taken
    /// meanwhile: so that what is flushed was logged (*logged-before-flushed*). Of a log in batch
    /// mode.
    pub(crate) insists: bool,
    pub(crate) planted: Option<Planted>,
    /// Bytes above which the oldest segments are to go; `None`: half of what it may have.
    pub(crate) flush_bytes: Option<u64>,
    /// For how long entries may be in it.
    pub(crate) lifetime: Option<Duration>,
}

/// Entries per table that are only in the log and in memtables.
pub(crate) type Dirty = HashMap<TableId, u64>;

/// The log of one shard.
pub(crate) struct Commitlog {
    pub(crate) config: LogConfig,
    /// Of all segments, in bytes: what was configured, or less where the disk has little room.
    limit: Cell<u64>,
    /// Whether a log without a segment may make one all the same.
    may_begin: Cell<bool>,
    pub(crate) state: RefCell<State>,
    /// Tells the writer of chunks.
    pub(crate) work: Notify,
    /// Tells those who wait for a sync.
    pub(crate) progress: Notify,
    /// Tells those who wait for room.
    pub(crate) room: Notify,
    /// Held by who logs an item in pieces.
    pub(super) cutting: Semaphore,
    /// Tells the keeper of segments.
    pub(crate) keep: Notify,
    /// Tells the flusher to look at [`Commitlog::take_flush_wanted`].
    pub(crate) pressure: Rc<Notify>,
}

pub(crate) struct State {
    pub(crate) active: Option<Active>,
    /// A segment without data, ready to be the next active one.
    pub(crate) ready: Option<(SegmentId, File)>,
    /// The one that the keeper is making.
    pub(crate) making: Option<SegmentId>,
    /// Whether the keeper should make one.
    pub(crate) wanted: bool,
    /// Whether the keeper is at work.
    pub(crate) keeping: bool,
    pub(crate) closed: BTreeMap<SegmentId, Dirty>,
    /// When the first entry of closed segments came; of some that are gone, too.
    began: BTreeMap<SegmentId, Instant>,
    pub(crate) jobs: VecDeque<Job>,
    /// The segment that the writer is writing to.
    pub(crate) writing: Option<SegmentId>,
    /// Segments to be recycled or removed.
    pub(crate) removable: Vec<SegmentId>,
    /// These are being removed or used again: a crash may bring them back.
    pub(crate) leaving: Vec<SegmentId>,
    pub(crate) next_base: u64,
    /// The number of the chunk being filled; chunks count from 1.
    pub(crate) filling: u64,
    pub(crate) filling_since: Instant,
    pub(crate) written: u64,
    pub(crate) synced: u64,
    /// Where the last written chunk lies (*files-end-synced*).
    pub(crate) written_file: Option<File>,
    pub(crate) synced_at: Instant,
    /// Chunks up to this one are synced as soon as can be, whatever the mode.
    pub(crate) urgent: u64,
    /// Whether one of those who wait for a sync makes it.
    pub(crate) syncing: bool,
    pub(crate) gathering: Gathering,
    failures: VecDeque<(RangeInclusive<u64>, IoError)>,
    /// Why a log that insists cannot write now.
    failing: Option<IoError>,
    pub(crate) create_error: Option<IoError>,
    /// Tables whose entries are in the way, and the newest segment that has such.
    flush_wanted: HashMap<TableId, SegmentId>,
    /// For each segment that a restart would replay, by table: the oldest timestamp of the data in
    /// it that memtables do not have any more.
    pub(crate) flushed: BTreeMap<SegmentId, HashMap<TableId, i64>>,
    pub(crate) spare: Vec<AlignedBuf>,
    pub(crate) stats: LogStats,
    pub(crate) stopping: bool,
}

/// Those who wait for the chunk being filled, whatever the mode (*gathers-briefly*).
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    count: u32,
    /// Since when.
    since: Option<Instant>,
    /// How many waited for the chunk before that somebody waited for.
    before: u32,
    /// How long the last sync took.
    took: Duration,
}

impl Gathering {
    /// One more waits.
    fn join(&mut self) {
        self.count += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Until when others may join; `None`: nobody waits, or as many as before.
    pub(crate) fn until(&self) -> Option<Instant> {
        let since = self.since.filter(|_| self.count < self.before)?;
        debug_assert!(0 < self.count, "gathers-briefly: nobody waits since {since:?}");
        Some(since + (self.took / GATHERED_PART).min(GATHERED_MAX))
    }

    /// The chunk is sealed.
    fn end(&mut self) {
        if self.since.take().is_some() {
            self.before = std::mem::take(&mut self.count);
        }
        debug_assert!(self.count == 0, "gathers-briefly: {} wait for another chunk", self.count);
    }

    /// A chunk that somebody waited for was written and synced.
    pub(crate) fn synced_in(&mut self, took: Duration) {
        self.took = took;
    }
}

/// The segment being filled.
pub(crate) struct Active {
    pub(crate) id: SegmentId,
    pub(crate) file: File,
    pub(crate) chunk: ChunkBuffer,
    dirty: Dirty,
    /// When its first entry came.
    began: Option<Instant>,
}

/// A sealed chunk to be written.
pub(crate) struct Job {
    pub(crate) chunk: u64,
    pub(crate) id: SegmentId,
    pub(crate) file: File,
    pub(crate) offset: u64,
    pub(crate) buf: AlignedBuf,
    pub(crate) terminate: Terminate,
}

/// Where an entry (the first of a group) went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) position: ReplayPosition,
    /// The chunks that [`Commitlog::committed`] waits for: from the first to the last.
    pub(crate) first_chunk: u64,
    pub(crate) chunk: u64,
}

impl Active {
    /// Where the next item goes.
    pub(super) fn position(&self) -> ReplayPosition {
        ReplayPosition { segment: self.id, offset: self.chunk.position() }
    }
    /// Counts an entry of a table.
    pub(super) fn count(&mut self, table: TableId) {
        self.began.get_or_insert_with(Instant::now);
        *self.dirty.entry(table).or_insert(0) += 1;
    }
}

impl State {
    /// The segment of those that nobody needs that is used again.
    pub(super) fn leave_last(&mut self) -> Option<SegmentId> {
        let id = self.removable.pop()?;
        self.leaving.push(id);
        Some(id)
    }

    /// The one that is removed. There is one.
    pub(super) fn leave_first(&mut self) -> SegmentId {
        let id = self.removable.remove(0);
        self.leaving.push(id);
        id
    }

    /// It is gone, durably.
    pub(super) fn left(&mut self, id: SegmentId) {
        assert!(self.leaving.contains(&id), "made-or-gone: nobody let {id:?} go");
        self.leaving.retain(|one| *one != id);
        self.flushed.remove(&id);
    }

    /// Whether something could not be written.
    pub(crate) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Asks for a sync of `chunk`; whether who asks is to make it.
    fn takes_sync_turn(&mut self, chunk: u64) -> bool {
        let sync = chunk <= self.written && !self.syncing;
        self.syncing |= sync;
        self.urgent = self.urgent.max(chunk);
        sync
    }

    /// Whether a log that insists cannot write now; then it could.
    pub(crate) fn has_recovered(&mut self) -> bool {
        self.failing.take().is_some()
    }

    /// Why an item is not in the log, if it is not.
    fn failure_of(&self, appended: Appended) -> Option<&IoError> {
        let Appended { first_chunk, chunk, .. } = appended;
        debug_assert!(first_chunk <= chunk, "chunks-in-order: {first_chunk} to {chunk}");
        debug_assert!(chunk <= self.filling, "chunks-in-order: {chunk} is not begun");
        let meets =
            |chunks: &RangeInclusive<u64>| first_chunk <= *chunks.end() && *chunks.start() <= chunk;
        self.failures.iter().find(|(chunks, _)| meets(chunks)).map(|(_, error)| error)
    }
}

/// Who makes the sync that others wait for; another may when this one has, or is given up.
struct SyncTurn<'l>(&'l Commitlog);

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        let was_syncing = std::mem::take(&mut self.0.state.borrow_mut().syncing);
        assert!(was_syncing, "one-syncs: nobody had the turn");
        self.0.progress.notify_all();
    }
}

/// Why an append was not done.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Wait for [`Commitlog::room_for`] and try again.
    Full(&'static str),
    Final(WriteError),
}

impl Commitlog {
    /// A log that has no segment yet; new ones get bases from `next_base` on.
    pub(crate) fn new(config: LogConfig, next_base: u64, pressure: Rc<Notify>) -> Commitlog {
        assert!(
            SEGMENT_BYTES_MIN <= config.segment_bytes && config.segment_bytes.is_multiple_of(BLOCK),
            "fits-segment: segments of {} bytes",
            config.segment_bytes
        );
        assert!(config.segment_bytes / 2 <= config.entry_bytes_max, "fits-segment: small entries");
        let state = State {
            active: None,
            ready: None,
            making: None,
            wanted: false,
            keeping: false,
            closed: BTreeMap::new(),
            began: BTreeMap::new(),
            jobs: VecDeque::new(),
            writing: None,
            removable: Vec::new(),
            leaving: Vec::new(),
            next_base,
            filling: 1,
            filling_since: Instant::now(),
            written: 0,
            synced: 0,
            written_file: None,
            synced_at: Instant::now(),
            urgent: 0,
            syncing: false,
            gathering: Gathering::default(),
            failures: VecDeque::new(),
            failing: None,
            create_error: None,
            flush_wanted: HashMap::default(),
            flushed: BTreeMap::new(),
            spare: Vec::new(),
            stats: LogStats::default(),
            stopping: false,
        };
        Commitlog {
            limit: Cell::new(config.bytes_max),
            may_begin: Cell::new(true),
            config,
            state: RefCell::new(state),
            work: Notify::new(),
            progress: Notify::new(),
            room: Notify::new(),
            cutting: Semaphore::new(1, usize::MAX),
            keep: Notify::new(),
            pressure,
        }
    }

    /// The largest entry or group, headers included.
    pub(crate) fn entry_bytes_max(&self) -> usize {
        self.config.entry_bytes_max
    }

    /// Puts entries into the buffer, all in one segment; several form a group. Panics when they are
    /// so large that the log [cuts](Commitlog::cuts) them.
    pub(crate) fn append(&self, entries: &[(TableId, &[u8])]) -> Result<Appended, Refusal> {
        let bytes = group_bytes(entries);
        assert!(!self.cuts(bytes), "an item that has to be cut");
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let (position, chunk) = self.put_item(state, bytes, |active| {
            let position = active.position();
            if 1 < entries.len() {
                active.chunk.put_multi(bytes as u32);
            }
            for (table, payload) in entries {
                active.chunk.put_entry(payload);
                active.count(*table);
            }
            position
        })?;
        Ok(Appended { position, first_chunk: chunk, chunk })
    }

    /// Has `put` put an item of so many bytes into the active segment: what it returns, and the
    /// chunk that the item is in.
    pub(super) fn put_item<T>(
        &self,
        state: &mut State,
        bytes: usize,
        put: impl FnOnce(&mut Active) -> T,
    ) -> Result<(T, u64), Refusal> {
        if state.stopping {
            return Err(Refusal::Final(WriteError::Stopped));
        }
        if let Some(why) = &state.failing {
            return Err(Refusal::Final(log_error(why)));
        }
        self.make_room(state, bytes)?;
        let Some(active) = &mut state.active else {
            unreachable!("make_room leaves an active segment");
        };
        let was_empty = active.chunk.is_empty();
        let before = (active.position(), active.chunk.data_bytes());
        let done = put(active);
        debug_assert!(before.0 < active.position(), "positions-grow: nothing after {}", before.0);
        debug_assert_eq!(active.chunk.data_bytes() - before.1, bytes, "fits-segment: other bytes");
        debug_assert!(
            active.chunk.end_with(0) + BLOCK <= self.config.segment_bytes,
            "fits-segment: {} is over its end",
            active.position()
        );
        let len = active.chunk.len();
        let full = CHUNK_BYTES_WRITTEN <= len && len - bytes < CHUNK_BYTES_WRITTEN;
        if was_empty {
            state.filling_since = Instant::now();
        }
        state.stats.entry_bytes += bytes as u64;
        if was_empty || full {
            self.work.notify_one();
        }
        Ok((done, state.filling))
    }

    /// Sees to it that `bytes` fit the active segment.
    fn make_room(&self, state: &mut State, bytes: usize) -> Result<(), Refusal> {
        if let Some(active) = &state.active {
            if CHUNK_BYTES_MAX <= active.chunk.len() {
                return Err(Refusal::Full("the commitlog's buffer"));
            }
            let end = active.chunk.end_with(bytes);
            if end + BLOCK <= self.config.segment_bytes {
                if !state.wanted && self.config.segment_bytes / 2 < end && state.ready.is_none() {
                    state.wanted = true;
                    self.keep.notify_one();
                }
                return Ok(());
            }
        }
        if state.ready.is_none() {
            if let Some(error) = &state.create_error {
                return Err(Refusal::Final(log_error(error)));
            }
            state.stats.blocked += 1;
            state.wanted = true;
            self.keep.notify_one();
            if state.active.is_some() && !self.may_make(state) {
                // None will be made: this one is used again when what it holds is flushed.
                self.rotate(state);
            }
            return Err(Refusal::Full("a commitlog segment"));
        }
        self.rotate(state);
        Ok(())
    }

    /// Whether one more segment may be made.
    pub(crate) fn may_make(&self, state: &State) -> bool {
        let made = 1 + state.closed.len() + state.active.is_some() as usize;
        let in_any_case = match (self.is_restricted(), self.may_begin.get()) {
            (false, _) => 2,
            (true, true) => 1,
            (true, false) => 0,
        };
        let bytes = made as u64 * self.config.segment_bytes as u64;
        bytes <= self.limit.get() || made <= in_any_case
    }

    /// Whether it is to be smaller than configured.
    pub(crate) fn is_restricted(&self) -> bool {
        self.limit.get() < self.config.bytes_max
    }

    /// Lets the log grow by so many bytes at most, where the disk has little room; `may_begin`: and
    /// by its first segment.
    pub(crate) fn restrict(&self, more: u64, may_begin: bool) {
        self.may_begin.set(may_begin);
        assert!(self.limit.get() <= self.config.bytes_max, "a limit above what is configured");
        let limit = self.stats().disk_bytes.saturating_add(more).min(self.config.bytes_max);
        let before = self.limit.replace(limit);
        if before < limit || may_begin {
            self.keep.notify_one();
        }
        if limit < before || self.is_restricted() {
            self.ask_for_flushes(&mut self.state.borrow_mut());
        }
    }

    /// Closes the active segment and makes the ready one active.
    fn rotate(&self, state: &mut State) {
        self.close_active(state);
        if let Some((id, file)) = state.ready.take() {
            let last = state.closed.last_key_value();
            assert!(last.is_none_or(|(last, _)| *last < id), "positions-grow: {id:?} is no later");
            let chunk = ChunkBuffer::new(id, 0, state.spare.pop().unwrap_or_default());
            state.active = Some(Active { id, file, chunk, dirty: Dirty::default(), began: None });
        }
        self.ask_for_flushes(state);
    }

    /// Queues the last chunk of the active segment.
    pub(crate) fn close_active(&self, state: &mut State) {
        let Some(active) = state.active.take() else { return };
        let Active { id, file, chunk, dirty, began } = active;
        self.queue(state, id, file, chunk, Terminate::Yes);
        state.began.retain(|id, _| state.closed.contains_key(id));
        state.began.extend(began.map(|began| (id, began)));
        let before = state.closed.insert(id, dirty);
        assert!(before.is_none(), "released-after-durable: {id:?} is closed twice");
    }

    /// Queues the chunk being filled, if it holds anything.
    pub(crate) fn seal_chunk(&self, state: &mut State) {
        let Some(active) = &mut state.active else { return };
        if active.chunk.is_empty() {
            return;
        }
        let next = active.chunk.end_with(0) as u32;
        assert!(active.chunk.start() < next, "positions-grow: an empty chunk at {next}");
        let fresh = ChunkBuffer::new(active.id, next, state.spare.pop().unwrap_or_default());
        let chunk = std::mem::replace(&mut active.chunk, fresh);
        let (id, file) = (active.id, active.file.clone());
        self.queue(state, id, file, chunk, Terminate::No);
    }

    fn queue(
        &self,
        state: &mut State,
        id: SegmentId,
        file: File,
        chunk: ChunkBuffer,
        terminate: Terminate,
    ) {
        let offset = chunk.start() as u64;
        let (buf, slack) = chunk.seal(id);
        state.stats.slack_bytes += slack as u64;
        debug_assert!(slack < BLOCK, "fits-segment: a padding of {slack}");
        let last = state.jobs.back().map_or(state.written, |job| job.chunk);
        assert!(last < state.filling, "chunks-in-order: {last} before {}", state.filling);
        let number = state.filling;
        state.filling += 1;
        state.gathering.end();
        state.jobs.push_back(Job { chunk: number, id, file, offset, buf, terminate });
        self.work.notify_one();
    }

    /// Marks the tables of the oldest segments for flushing when the log holds too much.
    pub(crate) fn ask_for_flushes(&self, state: &mut State) {
        let segment = self.config.segment_bytes as u64;
        let held = state.closed.len() as u64 + 1;
        let excess = (held * segment).saturating_sub(self.flush_above());
        let oldest = excess.div_ceil(segment) as usize;
        let ids: Vec<_> = state.closed.keys().take(oldest).copied().collect();
        // Where the disk has little room a restart shall have little to replay: what it makes of
        // the log takes room, and the log gives none back before its end.
        let all = self.is_restricted().then(|| state.closed.keys().last().copied()).flatten();
        self.want_flushed(state, &ids, all);
    }

    /// Bytes above which the oldest segments are to go.
    fn flush_above(&self) -> u64 {
        let limit = self.limit.get();
        match self.config.flush_bytes {
            Some(bytes) if !self.is_restricted() => bytes.min(limit),
            _ => limit / 2,
        }
    }

    /// Asks for flushes of what is in segments whose first entry came before the time for which it
    /// may be in the log, and goes on in another one if that at hand is such.
    pub(crate) fn flush_old(&self) {
        let Some(lifetime) = self.config.lifetime else { return };
        let now = Instant::now();
        let is_old = |began: Instant| began + lifetime <= now;
        let active = self.state.borrow().active.as_ref().and_then(|active| active.began);
        if active.is_some_and(is_old) {
            self.close_segment();
        }
        let mut state = self.state.borrow_mut();
        let old = state.began.iter().filter(|(_, began)| is_old(**began));
        let ids: Vec<_> = old.map(|(id, _)| *id).collect();
        self.want_flushed(&mut state, &ids, None);
    }

    /// Asks for flushes of all that is in these closed segments; and of what the same tables have
    /// in segments up to `newest`, if there is one.
    fn want_flushed(&self, state: &mut State, ids: &[SegmentId], newest: Option<SegmentId>) {
        let mut is_news = false;
        for id in ids {
            let up_to = newest.map_or(*id, |newest| newest.max(*id));
            for table in state.closed.get(id).into_iter().flat_map(|dirty| dirty.keys()) {
                let before = state.flush_wanted.get(table).copied();
                if before < Some(up_to) {
                    state.flush_wanted.insert(*table, up_to);
                    is_news = true;
                }
            }
        }
        if is_news {
            state.stats.flush_requests += 1;
            self.pressure.notify_one();
        }
    }

    /// Tables that should be flushed so that log space comes free: what they have in the segments
    /// up to that one. What is being flushed already may be asked for again.
    pub(crate) fn take_flush_wanted(&self) -> Vec<(TableId, SegmentId)> {
        let mut wanted: Vec<_> = self.state.borrow_mut().flush_wanted.drain().collect();
        wanted.sort_unstable();
        wanted
    }

    /// No memtable has what was taken: unless that was let go of meanwhile, it is to be taken
    /// again.
    pub(crate) fn want_later(&self, table: TableId, newest: SegmentId) {
        let mut state = self.state.borrow_mut();
        let mut older = state.closed.range(..=newest);
        if older.any(|(_, dirty)| dirty.contains_key(&table)) {
            let wanted = state.flush_wanted.entry(table).or_insert(newest);
            *wanted = newest.max(*wanted);
        }
    }

    /// Whether some flush is wanted.
    pub(crate) fn wants_flush(&self) -> bool {
        !self.state.borrow().flush_wanted.is_empty()
    }

    /// Waits until an item is as durable as the mode promises at the time of an answer.
    pub(crate) async fn committed(&self, appended: Appended) -> Result<(), WriteError> {
        let chunk = appended.chunk;
        loop {
            {
                let state = self.state.borrow();
                if let Some(error) = state.failure_of(appended) {
                    return Err(log_error(error));
                }
                let enough = match self.config.sync {
                    SyncMode::Batch => chunk <= state.synced,
                    SyncMode::Periodic { period } => {
                        chunk <= state.synced || state.synced_at.elapsed() <= period
                    }
                };
                if enough || self.config.planted == Some(Planted::AckBeforeSync) {
                    return Ok(());
                }
            }
            self.progress.notified().await;
        }
    }

    /// Waits until an item is synced, whatever the mode; those who wait share the syncs.
    pub(crate) async fn synced(&self, appended: Appended) -> Result<(), WriteError> {
        let chunk = appended.chunk;
        if chunk == self.state.borrow().filling {
            self.state.borrow_mut().gathering.join();
        }
        loop {
            let sync = {
                let mut state = self.state.borrow_mut();
                if let Some(error) = state.failure_of(appended) {
                    return Err(log_error(error));
                }
                if chunk <= state.synced {
                    return Ok(());
                }
                state.takes_sync_turn(chunk)
            };
            self.sync_in_turn(sync).await;
        }
    }

    /// Syncs, or waits for another who does, or for the chunk to be written.
    async fn sync_in_turn(&self, sync: bool) {
        if sync {
            let _turn = SyncTurn(self);
            self.sync().await;
        } else {
            self.work.notify_one();
            self.progress.notified().await;
        }
    }

    /// Waits until a memtable may be flushed that holds no more than what was appended so far: the
    /// disk has all of that in the log, too, or it was given up (*logged-before-flushed*).
    pub(crate) async fn ready_to_flush(&self) -> Result<(), IoError> {
        let chunk = {
            let state = self.state.borrow();
            let empty = state.active.as_ref().is_none_or(|active| active.chunk.is_empty());
            state.filling - u64::from(empty)
        };
        loop {
            let sync = {
                let mut state = self.state.borrow_mut();
                if let Some(why) = &state.failing {
                    return Err(why.clone());
                }
                let given_up = || state.failures.iter().any(|(chunks, _)| chunks.contains(&chunk));
                if chunk <= state.synced || given_up() {
                    return Ok(());
                }
                state.takes_sync_turn(chunk)
            };
            self.sync_in_turn(sync).await;
        }
    }

    /// A log that insists could not write `chunk`: who waits for it, or for what follows, is told,
    /// and nothing is taken until it can.
    pub(crate) fn chunk_delayed(&self, state: &mut State, chunk: u64, id: SegmentId, why: IoError) {
        assert!(self.config.insists, "logged-before-flushed: this log gives up");
        assert!(state.synced < chunk, "synced-is-written: {chunk} is synced");
        if state.failing.is_none() {
            tracing::error!("commitlog segment {} is tried again until it works: {why}", id.0);
        }
        if state.active.as_ref().is_some_and(|active| !active.chunk.is_empty()) {
            self.seal_chunk(state);
        }
        remember(state, chunk..=state.filling - 1, why.clone());
        state.failing = Some(why);
    }

    /// Waits until an append that was refused as [`Refusal::Full`] may be tried again.
    pub(crate) async fn room_made(&self) {
        self.room.notified().await;
    }

    /// A chunk was written, and synced where `synced`.
    pub(crate) fn chunk_written(&self, state: &mut State, chunk: u64, file: File, synced: bool) {
        assert!(state.written < chunk, "chunks-in-order: {chunk} after {}", state.written);
        assert!(chunk < state.filling, "synced-is-written: {chunk} is not sealed");
        assert!(
            chunk == state.written + 1 || state.has_failed(),
            "chunks-in-order: none between {} and {chunk}",
            state.written
        );
        state.written = chunk;
        if synced {
            self.chunks_synced(state, chunk);
        }
        state.written_file = Some(file);
    }

    /// All chunks up to `chunk` are synced.
    pub(crate) fn chunks_synced(&self, state: &mut State, chunk: u64) {
        assert!(chunk <= state.written, "synced-is-written: {chunk} is not written");
        state.synced = state.synced.max(chunk);
        state.synced_at = Instant::now();
        state.stats.syncs += 1;
    }

    /// Segment `id` cannot be written: whoever waits for `chunk`, or for what goes to the same
    /// file, is told; what follows goes to another segment.
    pub(crate) fn chunk_failed(&self, state: &mut State, chunk: u64, id: SegmentId, why: IoError) {
        tracing::error!("commitlog segment {} is given up: {why}", id.0);
        if self.config.insists {
            // At a stop: nothing of what it could not write is flushed any more.
            state.failing = Some(why.clone());
        }
        remember(state, state.synced + 1..=chunk, why.clone());
        while let Some(at) = state.jobs.iter().position(|job| job.id == id) {
            if let Some(job) = state.jobs.remove(at) {
                remember(state, job.chunk..=job.chunk, why.clone());
            }
        }
        if let Some(active) = state.active.take_if(|active| active.id == id) {
            let number = state.filling;
            remember(state, number..=number, why);
            state.filling += 1;
            state.began.extend(active.began.map(|began| (id, began)));
            let before = state.closed.insert(id, active.dirty);
            assert!(before.is_none(), "released-after-durable: {id:?} is closed twice");
        }
        state.written = state.written.max(chunk);
        state.synced = state.synced.max(chunk);
        assert!(state.synced <= state.written, "synced-is-written: {} is not", state.synced);
        assert!(state.written < state.filling, "chunks-in-order: {} is filled", state.written);
        self.want_flushed(state, &[id], None);
    }

    /// What `held` counts is durable elsewhere, or gone for good; `oldest` is the oldest timestamp
    /// of the data in it, `i64::MAX` where there is none.
    pub(crate) fn discard(&self, table: TableId, held: &HeldEntries, oldest: i64) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        for (id, count) in &held.counts {
            debug_assert!(0 < *count, "released-after-durable: nothing is held of {id:?}");
            let active = state.active.as_mut().filter(|active| active.id == *id);
            let dirty = match active {
                Some(active) => Some(&mut active.dirty),
                None => state.closed.get_mut(id),
            };
            debug_assert!(
                dirty.as_ref().is_some_and(|dirty| dirty.contains_key(&table)),
                "released-after-durable: {id:?} went before what it holds of {table}"
            );
            let Some(dirty) = dirty else { continue };
            if oldest != i64::MAX {
                let known = state.flushed.entry(*id).or_default().entry(table).or_insert(oldest);
                *known = oldest.min(*known);
            }
            if let Some(left) = dirty.get_mut(&table) {
                assert!(*count <= *left, "released-after-durable: more released than held");
                *left -= count;
                if *left == 0 {
                    dirty.remove(&table);
                }
            }
            self.release(state, *id);
        }
    }

    /// Lets segment `id` go if nothing needs it.
    pub(crate) fn release(&self, state: &mut State, id: SegmentId) {
        let pending = state.writing == Some(id) || state.jobs.iter().any(|job| job.id == id);
        let clean = state.closed.get(&id).is_some_and(|dirty| dirty.is_empty());
        debug_assert!(
            state.closed.get(&id).is_none_or(|dirty| dirty.values().all(|count| 0 < *count)),
            "released-after-durable: a table of no entry holds {id:?}"
        );
        if clean && !pending {
            let is_active = state.active.as_ref().is_some_and(|active| active.id == id);
            assert!(!is_active, "released-after-durable: {id:?} is written to");
            debug_assert!(!state.removable.contains(&id), "released-after-durable: {id:?} twice");
            state.closed.remove(&id);
            state.removable.push(id);
            state.stats.released += 1;
            self.keep.notify_one();
        }
    }

    /// The oldest timestamp of data of a table that a restart would replay although it was flushed;
    /// `i64::MAX` where there is none.
    pub(crate) fn oldest_flushed(&self, table: TableId) -> i64 {
        let state = self.state.borrow();
        let of_table = |of: &HashMap<TableId, i64>| of.get(&table).copied();
        state.flushed.values().filter_map(of_table).min().unwrap_or(i64::MAX)
    }

    /// Goes on in another segment, which the next write waits for if none is ready, so that the
    /// present one can go when what it holds is flushed.
    pub(crate) fn close_segment(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let id = state.active.as_ref().map(|active| active.id);
        let has_entries = state.active.as_ref().is_some_and(|active| !active.dirty.is_empty());
        let had_entries = id.is_some_and(|id| state.flushed.contains_key(&id));
        if !state.stopping && (has_entries || had_entries) {
            self.rotate(state);
            state.wanted = true;
            self.keep.notify_one();
        }
    }

    /// A restart is to replay nothing more of what was flushed of a table: asks for flushes of what
    /// else is in segments that have such, and goes on in another one if the present one has.
    pub(crate) fn let_go_of(&self, table: TableId) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let has = |flushed: &BTreeMap<SegmentId, HashMap<TableId, i64>>, id: SegmentId| {
            flushed.get(&id).is_some_and(|of| of.contains_key(&table))
        };
        if state.stopping {
            return;
        }
        if state.active.as_ref().is_some_and(|active| has(&state.flushed, active.id)) {
            self.rotate(state);
            state.wanted = true;
            self.keep.notify_one();
        }
        let ids: Vec<_> = state.closed.keys().copied().collect();
        let ids: Vec<_> = ids.into_iter().filter(|id| has(&state.flushed, *id)).collect();
        self.want_flushed(state, &ids, None);
    }

    /// Before this place lie all entries appended so far, after it all later ones.
    pub(crate) fn position(&self) -> ReplayPosition {
        let state = self.state.borrow();
        let closed = state.closed.last_key_value().map(|(id, _)| *id);
        if let Some(active) = &state.active {
            assert!(closed < Some(active.id), "positions-grow: {closed:?} is closed");
            return ReplayPosition { segment: active.id, offset: active.chunk.position() };
        }
        let next = SegmentId::new(self.config.shard, state.next_base);
        let ready = state.ready.as_ref().map(|(id, _)| *id);
        let segment = ready.or(state.making).unwrap_or(next);
        assert!(closed < Some(segment), "positions-grow: {closed:?} is closed");
        ReplayPosition { segment, offset: 0 }
    }

    /// The segments of this run.
    pub(crate) fn own_segments(&self) -> Vec<SegmentId> {
        let state = self.state.borrow();
        let mut ids: Vec<_> = state.closed.keys().copied().collect();
        ids.extend(state.active.iter().map(|active| active.id));
        ids.extend(state.ready.iter().map(|(id, _)| *id));
        ids.extend(state.making);
        ids.extend(&state.removable);
        let shard = self.config.shard;
        debug_assert!(ids.iter().all(|id| id.shard() == shard), "ids-ascend: another shard's");
        debug_assert!(
            ids.iter().collect::<HashSet<_>>().len() == ids.len(),
            "made-or-gone: one twice in {ids:?}"
        );
        ids
    }

    /// The oldest segment of this run that a restart may find.
    pub(crate) fn oldest_segment(&self) -> Option<SegmentId> {
        let leaving = self.state.borrow().leaving.clone();
        let oldest = self.own_segments().into_iter().chain(leaving).min();
        debug_assert!(
            oldest.is_none_or(|oldest| oldest <= self.position().segment),
            "positions-grow: {oldest:?} lies ahead"
        );
        oldest
    }

    /// How far the segments that hold something are towards the limit, in thousandths.
    pub(crate) fn thousandths(&self) -> u64 {
        let held = self.state.borrow().closed.len() as u64 * self.config.segment_bytes as u64;
        (held * 1000 / self.config.bytes_max.max(1)).min(1000)
    }

    pub(crate) fn stats(&self) -> LogStats {
        let state = self.state.borrow();
        let segments = state.closed.len() as u64 + state.active.is_some() as u64;
        let idle = state.removable.len() as u64 + state.ready.is_some() as u64;
        let disk_bytes = (segments + idle) * self.config.segment_bytes as u64;
        debug_assert!(
            state.stopping
                || state.stats.allocations
                    == state.stats.released + segments + state.ready.is_some() as u64,
            "made-or-gone: {segments} segments of {:?}",
            state.stats
        );
        LogStats { segments, disk_bytes, ..state.stats }
    }
}

fn remember(state: &mut State, chunks: RangeInclusive<u64>, why: IoError) {
    debug_assert!(*chunks.end() <= state.filling, "chunks-in-order: {chunks:?} is not begun");
    if FAILURES_MAX <= state.failures.len() {
        state.failures.pop_front();
    }
    state.failures.push_back((chunks, why));
}

/// Data bytes of entries with their headers, and of the group's if there are several.
pub(crate) fn group_bytes(entries: &[(TableId, &[u8])]) -> usize {
    let data: usize = entries.iter().map(|(_, payload)| payload.len() + ENTRY_HEADER).sum();
    if 1 < entries.len() { data + MULTI_HEADER } else { data }
}

fn log_error(error: &IoError) -> WriteError {
    match error.is_full_disk() {
        true => WriteError::FullDisk(error.path.clone()),
        false => WriteError::Log(error.clone()),
    }
}
