//! What a log does in the background: writes chunks, syncs, keeps segments.

use super::files::{self, Space};
use super::layout::{BLOCK, Terminate, termination};
use super::position::SegmentId;
use super::writer::{CHUNK_BYTES_WRITTEN, CHUNK_WAIT, Commitlog, Job, State};
use crate::config::SyncMode;
use runtime::io::{AlignedBuf, File, IoClass, IoError, fs};
use runtime::task::{Scope, race};
use runtime::time::{Instant, sleep, sleep_until};
use std::rc::Rc;
use std::time::Duration;

/// Pause after a segment could not be made.
const RETRY: Duration = Duration::from_millis(500);
/// Buffers kept for later chunks, and the size of those worth keeping.
const SPARE_MAX: usize = 3;
const SPARE_BYTES_MAX: usize = 2 << 20;

/// Starts the tasks of a log.
pub(crate) fn start(log: &Rc<Commitlog>, scope: &Scope) {
    let group = runtime::group::COMMITLOG;
    let writer = log.clone();
    scope.spawn_in(group, async move { writer.write_chunks().await });
    let keeper = log.clone();
    scope.spawn_in(group, async move { keeper.keep_segments().await });
    if let SyncMode::Periodic { period } = log.config.sync {
        let syncer = log.clone();
        scope.spawn_in(group, async move { syncer.sync_each(period * 3 / 4).await });
    }
}

impl Commitlog {
    async fn write_chunks(&self) {
        loop {
            let job = self.next_job().await;
            self.write(job).await;
        }
    }

    async fn next_job(&self) -> Job {
        loop {
            let wait_until = {
                let mut state = self.state.borrow_mut();
                if let Some(job) = self.pop_job(&mut state) {
                    return job;
                }
                let filled = state.active.as_ref().map_or(0, |active| active.chunk.len());
                let empty = state.active.as_ref().is_none_or(|active| active.chunk.is_empty());
                let mut due = state.filling_since + CHUNK_WAIT;
                if state.filling <= state.urgent {
                    let until = state.gathering.until();
                    due = until.map_or(Instant::now(), |until| due.min(until));
                }
                let now = self.config.sync == SyncMode::Batch
                    || CHUNK_BYTES_WRITTEN <= filled
                    || due <= Instant::now();
                if !empty && now {
                    self.seal_chunk(&mut state);
                    self.room.notify_all();
                    continue;
                }
                (!empty).then_some(due)
            };
            match wait_until {
                Some(due) => {
                    race(self.work.notified(), sleep_until(due)).await;
                }
                None => self.work.notified().await,
            }
        }
    }

    fn pop_job(&self, state: &mut State) -> Option<Job> {
        let job = state.jobs.pop_front()?;
        assert!(state.writing.is_none(), "chunks-in-order: {:?} is being written", state.writing);
        state.writing = Some(job.id);
        Some(job)
    }

    async fn write(&self, job: Job) {
        let Job { chunk, id, file, offset, mut buf, terminate } = job;
        let bytes = buf.len() as u64;
        assert!(
            offset + bytes + BLOCK as u64 <= self.config.segment_bytes as u64,
            "fits-segment: {bytes} bytes at {offset}"
        );
        let urgent = chunk <= self.state.borrow().urgent;
        let sync = self.config.sync == SyncMode::Batch || terminate == Terminate::Yes || urgent;
        let began = Instant::now();
        let done = loop {
            let again = self.config.insists.then(|| buf.clone());
            match (write_chunk(&file, offset, buf, sync).await, again) {
                (Err(error), Some(copy)) if !self.state.borrow().stopping => {
                    self.chunk_delayed(&mut self.state.borrow_mut(), chunk, id, error);
                    self.progress.notify_all();
                    self.room.notify_all();
                    sleep(RETRY).await;
                    buf = copy;
                }
                (done, _) => break done,
            }
        };
        let written = done.is_ok();
        {
            let mut state = self.state.borrow_mut();
            match done {
                Ok(buf) => {
                    state.stats.cycles += 1;
                    state.stats.written_bytes += bytes;
                    if state.spare.len() < SPARE_MAX && buf.capacity() <= SPARE_BYTES_MAX {
                        state.spare.push(buf);
                    }
                    self.chunk_written(&mut state, chunk, file.clone(), sync);
                    if urgent {
                        state.gathering.synced_in(began.elapsed());
                    }
                    if state.has_recovered() {
                        tracing::info!("commitlog segment {} could be written", id.0);
                    }
                }
                Err(error) => self.chunk_failed(&mut state, chunk, id, error),
            }
        }
        self.progress.notify_all();
        if written && terminate == Terminate::Yes {
            let end = file.write_at(IoClass::Commitlog, offset + bytes, termination(id)).await;
            if let Err(error) = end {
                tracing::warn!("commitlog: a segment stays without its end: {error}");
            }
        }
        let mut state = self.state.borrow_mut();
        assert!(state.writing == Some(id), "chunks-in-order: {:?} is written", state.writing);
        state.writing = None;
        self.release(&mut state, id);
        drop(state);
        self.progress.notify_all();
        self.room.notify_all();
    }

    async fn sync_each(&self, period: Duration) {
        loop {
            sleep(period).await;
            self.sync().await;
        }
    }

    /// Syncs what was written.
    pub(crate) async fn sync(&self) {
        let (file, chunk) = {
            let mut state = self.state.borrow_mut();
            let idle = state.active.as_ref().is_none_or(|active| active.chunk.is_empty());
            if state.written <= state.synced && idle && state.jobs.is_empty() {
                state.synced_at = Instant::now();
                return;
            }
            assert!(state.synced <= state.written, "synced-is-written: {}", state.synced);
            (state.written_file.clone(), state.written)
        };
        let Some(file) = file else { return };
        let done = file.fdatasync(IoClass::Commitlog).await;
        {
            let mut state = self.state.borrow_mut();
            match done {
                Ok(()) => self.chunks_synced(&mut state, chunk),
                Err(error) => {
                    let id = files::id_of_path(file.path());
                    let id = id.or(state.active.as_ref().map(|active| active.id));
                    if let Some(id) = id {
                        self.chunk_failed(&mut state, chunk, id, error);
                    }
                }
            }
        }
        self.progress.notify_all();
    }

    async fn keep_segments(&self) {
        loop {
            let kept = self.keep_one().await;
            self.state.borrow_mut().keeping = false;
            self.progress.notify_all();
            match kept {
                Ok(Kept::Something) => {}
                Ok(Kept::Nothing) => self.keep.notified().await,
                Err(error) => {
                    tracing::error!("commitlog: no new segment: {error}");
                    self.state.borrow_mut().create_error = Some(error);
                    self.room.notify_all();
                    race(sleep(RETRY), self.keep.notified()).await;
                    sleep(RETRY / 10).await;
                }
            }
        }
    }

    /// Makes the segment that is wanted, or removes one that is not.
    async fn keep_one(&self) -> Result<Kept, IoError> {
        enum Step {
            Make { id: SegmentId, from: Option<SegmentId> },
            Remove(SegmentId),
        }
        let step = {
            let mut state = self.state.borrow_mut();
            state.keeping = true;
            let recycles = !state.removable.is_empty();
            if state.wanted && state.ready.is_none() && (recycles || self.may_make(&state)) {
                let id = self.new_id(&mut state);
                Step::Make { id, from: state.leave_last() }
            } else if state.wanted && state.ready.is_none() {
                self.ask_for_flushes(&mut state);
                return Ok(Kept::Nothing);
            } else if state.removable.is_empty() {
                return Ok(Kept::Nothing);
            } else if state.ready.is_none() && !state.stopping {
                let id = self.new_id(&mut state);
                Step::Make { id, from: state.leave_last() }
            } else {
                Step::Remove(state.leave_first())
            }
        };
        let dir = &self.config.dir;
        match step {
            Step::Remove(id) => {
                let in_use = self.state.borrow().closed.contains_key(&id);
                assert!(!in_use, "released-after-durable: {id:?} holds entries");
                files::remove(dir, id).await?;
                fs::sync_dir(dir).await?;
                self.state.borrow_mut().left(id);
            }
            Step::Make { id, from } => {
                let made = self.make(id, from).await;
                let mut state = self.state.borrow_mut();
                assert!(state.making == Some(id), "one segment is made at a time");
                state.making = None;
                let file = made?;
                if let Some(from) = from {
                    state.left(from);
                }
                assert!(state.ready.is_none(), "one segment is ready at a time");
                match state.stopping {
                    true => state.removable.push(id),
                    false => state.ready = Some((id, file)),
                }
                state.wanted = false;
                state.create_error = None;
                state.stats.allocations += 1;
                drop(state);
                self.room.notify_all();
            }
        }
        Ok(Kept::Something)
    }

    fn new_id(&self, state: &mut State) -> SegmentId {
        let id = SegmentId::new(self.config.shard, state.next_base);
        assert!(state.making.is_none(), "one segment is made at a time: {:?}", state.making);
        let last = state.active.as_ref().map(|active| active.id);
        let last = last.max(state.closed.keys().next_back().copied());
        assert!(last < Some(id), "ids-ascend: {id:?} after {last:?}");
        state.next_base += 1;
        state.making = Some(id);
        id
    }

    async fn make(&self, id: SegmentId, from: Option<SegmentId>) -> Result<File, IoError> {
        let dir = &self.config.dir;
        if let Some(old) = from {
            match files::recycle(dir, old, id).await {
                Ok(file) => return Ok(file),
                Err(error) => tracing::warn!("commitlog: a segment cannot be recycled: {error}"),
            }
            files::remove(dir, old).await?;
            files::remove(dir, id).await?;
        }
        match files::create(dir, id, self.config.segment_bytes, Space::Reserved).await {
            Err(error) if error.is_full_disk() && self.config.sparse_allowed => {
                tracing::warn!("commitlog: a segment is made without its space: {error}");
                files::create(dir, id, self.config.segment_bytes, Space::None).await
            }
            made => made,
        }
    }

    /// Writes and syncs all, closes the active segment and removes what nobody needs. The tasks
    /// must be running.
    pub(crate) async fn stop(&self) {
        {
            let mut state = self.state.borrow_mut();
            state.stopping = true;
            self.close_active(&mut state);
            let ids: Vec<_> = state.closed.keys().copied().collect();
            if let Some((id, _)) = state.ready.take() {
                state.removable.push(id);
            }
            state.wanted = false;
            for id in ids {
                self.release(&mut state, id);
            }
        }
        self.keep.notify_one();
        loop {
            {
                let state = self.state.borrow();
                if state.jobs.is_empty() && state.writing.is_none() && !state.keeping {
                    break;
                }
            }
            self.progress.notified().await;
        }
        let removable = {
            let mut state = self.state.borrow_mut();
            assert!(state.active.is_none(), "synced-is-written: the active segment at a stop");
            assert!(
                state.synced == state.written || state.has_failed(),
                "files-end-synced: {} of {} at a stop",
                state.synced,
                state.written
            );
            std::mem::take(&mut state.removable)
        };
        for id in removable {
            if let Err(error) = files::remove(&self.config.dir, id).await {
                tracing::warn!("commitlog: {error}");
            }
        }
        if let Err(error) = fs::sync_dir(&self.config.dir).await {
            tracing::warn!("commitlog: {error}");
        }
        let left = self.state.borrow().closed.len();
        if 0 < left {
            tracing::info!("commitlog: {left} segments are kept for the next start");
        }
    }
}

/// Writes a chunk (nothing, if it is empty); syncs the file where asked.
async fn write_chunk(
    file: &File,
    offset: u64,
    mut buf: AlignedBuf,
    sync: bool,
) -> Result<AlignedBuf, IoError> {
    if !buf.is_empty() {
        assert!(offset.is_multiple_of(BLOCK as u64), "a chunk begins at a block's start: {offset}");
        buf = file.write_at(IoClass::Commitlog, offset, buf).await?;
    }
    if sync {
        file.fdatasync(IoClass::Commitlog).await?;
    }
    Ok(buf)
}

enum Kept {
    Something,
    Nothing,
}
