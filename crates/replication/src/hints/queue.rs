//! The hints of a shard for one node: those that wait to be written, and the segments that wait to
//! be sent. One task writes, one sends ([`super::replay`]).
//!
//! Invariants
//!  - *told-when-durable*: whoever waits for a hint is told that it is kept when it is on the disk.
//!  - *behind-the-last*: a segment that is being sent gets no more hints; they go to a new one.

use super::Hints;
use super::decide::Throttle;
use super::file::{self, Segment, Writer};
use super::form::Hint;
use model::Uuid;
use runtime::io::IoError;
use runtime::sync::{Notify, OneshotReceiver, OneshotSender, oneshot};
use runtime::time::timeout;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// How long hints wait to be written together, unless somebody waits for one of them.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);
/// So many bytes are written without waiting for more.
const FLUSH_BYTES: usize = 1 << 20;

/// A hint that waits to be written.
struct Waiting {
    bytes: Vec<u8>,
    told: Option<OneshotSender<bool>>,
}

pub(super) struct Queue {
    pub(super) host: Uuid,
    pub(super) folder: PathBuf,
    waiting: RefCell<Vec<Waiting>>,
    waiting_bytes: Cell<usize>,
    /// Hints that wait are to be written now, and the segment ends with them.
    wants_end: Cell<bool>,
    /// Somebody waits for one of them.
    is_urgent: Cell<bool>,
    /// The segment that is written to.
    active: Cell<Option<u64>>,
    /// Those that wait to be sent, in their order.
    pub(super) sealed: RefCell<VecDeque<Segment>>,
    /// How fast they are sent.
    pub(super) throttle: RefCell<Throttle>,
    /// The latest number of a segment.
    last: Cell<u64>,
    /// Segments up to that number are not to be sent.
    discarded: Cell<u64>,
    /// Wakes the task that writes.
    wake: Notify,
    /// Tells those who wait for a segment to end, or to be sent, and the task that sends.
    pub(super) changed: Notify,
}

impl Queue {
    pub(super) fn new(host: Uuid, folder: PathBuf, segments: Vec<Segment>) -> Queue {
        let last = segments.last().map_or(0, |segment| segment.number);
        debug_assert!(segments.is_sorted_by(|a, b| a.number < b.number), "one-name: {segments:?}");
        Queue {
            host,
            folder,
            waiting: RefCell::default(),
            waiting_bytes: Cell::new(0),
            wants_end: Cell::new(false),
            is_urgent: Cell::new(false),
            active: Cell::new(None),
            sealed: RefCell::new(segments.into()),
            throttle: RefCell::default(),
            last: Cell::new(last),
            discarded: Cell::new(0),
            wake: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// Adds a hint; who asks for it is told whether it was written.
    pub(super) fn add(&self, hint: &Hint<'_>, is_asked: bool) -> Option<OneshotReceiver<bool>> {
        let bytes = hint.encode();
        self.waiting_bytes.set(self.waiting_bytes.get() + bytes.len());
        let (told, receiver) = match is_asked {
            false => (None, None),
            true => {
                let (told, receiver) = oneshot();
                (Some(told), Some(receiver))
            }
        };
        self.is_urgent.set(self.is_urgent.get() || is_asked);
        self.waiting.borrow_mut().push(Waiting { bytes, told });
        self.wake.notify_one();
        receiver
    }

    /// Whether nothing is kept for the node.
    pub(super) fn is_empty(&self) -> bool {
        self.sealed.borrow().is_empty() && self.is_all_sealed()
    }

    fn is_all_sealed(&self) -> bool {
        self.active.get().is_none() && self.waiting.borrow().is_empty()
    }

    /// Ends the segment that is written to, with what waits now.
    pub(super) async fn end_segment(&self) {
        while !self.is_all_sealed() {
            self.wants_end.set(true);
            self.wake.notify_one();
            self.changed.notified().await;
        }
    }

    /// The latest number of a segment.
    pub(super) fn last(&self) -> u64 {
        self.last.get()
    }

    /// Whether all segments up to that number are gone.
    pub(super) fn is_past(&self, number: u64) -> bool {
        let is_active = self.active.get().is_some_and(|active| active <= number);
        !is_active && self.sealed.borrow().front().is_none_or(|first| number < first.number)
    }

    /// Drops all segments that there are.
    pub(super) fn discard(&self) {
        debug_assert!(self.discarded.get() <= self.last.get(), "behind-the-last: not there yet");
        self.discarded.set(self.last.get());
        self.changed.notify_all();
    }

    /// Whether a segment is not to be sent.
    pub(super) fn is_discarded(&self, number: u64) -> bool {
        number <= self.discarded.get()
    }

    fn is_due(&self) -> bool {
        let is_much = FLUSH_BYTES <= self.waiting_bytes.get();
        is_much || self.wants_end.get() || self.is_urgent.get()
    }

    /// A segment was sent, or is not to be.
    pub(super) fn forget_first(&self) -> Option<Segment> {
        let first = self.sealed.borrow_mut().pop_front();
        debug_assert!(first.is_some(), "behind-the-last: a segment that is none is forgotten");
        self.changed.notify_all();
        first
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
        self.changed.notify_all();
    }
}

/// Writes a queue's hints, until the shard's hints stop.
pub(super) async fn write(hints: Rc<Hints>, queue: Rc<Queue>) {
    let mut writer = None;
    loop {
        let is_stopping = hints.is_stopping();
        let has_none = queue.waiting.borrow().is_empty();
        if has_none && !queue.wants_end.get() && !is_stopping {
            queue.wake.notified().await;
            continue;
        }
        if !is_stopping {
            let due = async {
                while !queue.is_due() && !hints.is_stopping() {
                    queue.wake.notified().await;
                }
            };
            let _ = timeout(FLUSH_PERIOD, due).await;
        }
        let wants_end = queue.wants_end.take() || hints.is_stopping();
        queue.is_urgent.set(false);
        let batch = queue.waiting.take();
        let written = write_batch(&hints, &queue, &mut writer, batch).await;
        let is_full =
            writer.as_ref().is_some_and(|one: &Writer| hints.config.segment_bytes <= one.bytes);
        if wants_end || is_full || !written {
            seal(&queue, writer.take());
        }
        queue.changed.notify_all();
        if hints.is_stopping() && queue.waiting.borrow().is_empty() {
            seal(&queue, writer.take());
            return;
        }
    }
}

fn seal(queue: &Queue, writer: Option<Writer>) {
    queue.active.set(None);
    let Some(Writer { number, bytes, .. }) = writer else { return };
    let mut sealed = queue.sealed.borrow_mut();
    let ascends = sealed.back().is_none_or(|last| last.number < number);
    assert!(ascends, "behind-the-last: segment {number} after {:?}", sealed.back());
    sealed.push_back(Segment { number, bytes });
}

/// Writes hints as one; whether they are on the disk.
async fn write_batch(
    hints: &Hints,
    queue: &Queue,
    writer: &mut Option<Writer>,
    batch: Vec<Waiting>,
) -> bool {
    if batch.is_empty() {
        return true;
    }
    let none = batch.iter().all(|hint| hint.bytes.is_empty());
    debug_assert!(!none, "told-when-durable: hints without bytes");
    let bytes: Vec<u8> = batch.iter().flat_map(|hint| hint.bytes.iter().copied()).collect();
    let written = append(queue, writer, &bytes).await;
    queue.waiting_bytes.set(queue.waiting_bytes.get() - bytes.len());
    hints.end_progress(bytes.len());
    let counters = &hints.counters;
    let count = batch.len() as u64;
    match &written {
        Ok(added) => {
            hints.on_disk.set(hints.on_disk.get() + added);
            counters.written.add(count);
        }
        Err(error) => {
            counters.errors.add(count);
            counters.dropped.add(count);
            let host = queue.host;
            tracing::warn!(target: "hints", %host, count, "hints cannot be written: {error}");
        }
    }
    let is_kept = written.is_ok();
    for told in batch.into_iter().filter_map(|hint| hint.told) {
        // Who does not wait any more is not told.
        let _ = told.send(is_kept);
    }
    is_kept
}

/// Appends to the segment, or to a new one; by how many bytes there are more on the disk.
async fn append(queue: &Queue, writer: &mut Option<Writer>, bytes: &[u8]) -> Result<u64, IoError> {
    let (segment, before) = match writer {
        Some(writer) => {
            let before = writer.bytes;
            (writer, before)
        }
        None => {
            let number = queue.last.get() + 1;
            queue.last.set(number);
            queue.active.set(Some(number));
            match Writer::create(&queue.folder, queue.host, number).await {
                Ok(made) => (writer.insert(made), 0),
                Err(error) => {
                    // Best effort: one without hints is removed once it is read.
                    let _ = file::remove(&queue.folder, number).await;
                    return Err(error);
                }
            }
        }
    };
    segment.append(bytes).await?;
    debug_assert!(before < segment.bytes, "told-when-durable: {} bytes", bytes.len());
    Ok(segment.bytes - before)
}
