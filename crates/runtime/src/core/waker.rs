//! Wakers that are one word, and what wakes a shard from another thread.
//!
//! Invariants
//!  - *word-wakers*: a waker's data is the word (seat 16, generation 24, slot 24), never a
//!    pointer. So cloning and dropping it do nothing, any thread may hold it for ever, and one
//!    whose task has ended wakes no task, or one spuriously.
//!  - *flag-then-look*: a shard that goes to sleep raises `sleeping`, fences, and looks at its
//!    queues once more; who feeds a queue fences and then reads `sleeping`. One of the two sees
//!    the other.
#![allow(unsafe_code, reason = "wakers that are words")]

use super::Shard;
use crate::driver::Completions;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering, fence};
use std::task::{RawWaker, RawWakerVTable, Waker};

#[allow(clippy::disallowed_types)] // Foreign threads meet shards here, off the hot path.
type Mutex<T> = std::sync::Mutex<T>;

const _: () = assert!(usize::BITS == 64, "a waker's word needs 64 bits");

/// A task of a shard, as a word without the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Slots and generations have this many bits.
pub(crate) const ID_BITS: u32 = 24;
const ID_MASK: u64 = (1 << ID_BITS) - 1;

impl TaskId {
    pub(crate) fn next_generation(generation: u32) -> u32 {
        generation.wrapping_add(1) & ID_MASK as u32
    }

    fn word(self, seat: u16) -> u64 {
        let Self { index, generation } = self;
        (seat as u64) << 48 | (generation as u64) << ID_BITS | index as u64
    }

    fn from_word(word: u64) -> TaskId {
        let index = (word & ID_MASK) as u32;
        TaskId { index, generation: ((word >> ID_BITS) & ID_MASK) as u32 }
    }
}

/// The waker of a task.
pub(crate) fn waker(seat: u16, task: TaskId) -> Waker {
    let data = task.word(seat) as usize as *const ();
    // SAFETY: the functions of the table take the data as a word (*word-wakers*) and keep the
    // contract of `RawWaker` for any word, from any thread.
    unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
}

static TABLE: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &TABLE), wake, wake, |_| {});

fn wake(data: *const ()) {
    let word = data as usize as u64;
    let seat = (word >> 48) as u16;
    let task = TaskId::from_word(word);
    let here = super::try_with(|shard| {
        let ours = shard.remote.seat == seat;
        if ours {
            shard.wake(task);
        }
        ours
    });
    if here != Some(true) {
        let remote = seats().get(seat as usize).cloned().flatten();
        if let Some(remote) = remote {
            remote.wake_from_outside(task);
        }
    }
}

/// All shards of this process, by seat. A seat is taken again after its shard has ended.
static SEATS: Mutex<Vec<Option<Arc<Remote>>>> = Mutex::new(Vec::new());

fn seats() -> std::sync::MutexGuard<'static, Vec<Option<Arc<Remote>>>> {
    SEATS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What other threads may touch of a shard.
#[derive(Debug)]
pub(crate) struct Remote {
    seat: u16,
    wakes: Mutex<Vec<TaskId>>,
    completions: Mutex<Completions>,
    /// Something is in `wakes` or `completions`.
    foreign: AtomicBool,
    sleeping: AtomicBool,
    eventfd: Option<OwnedFd>,
    /// Twice the number of polls so far, plus one within a poll: for the stall detector.
    pub(crate) polls: AtomicU64,
    /// How many stalls were found, and where the last one was.
    stalls: Mutex<(u64, String)>,
    /// The kernel's id of the shard's thread.
    pub(crate) thread: AtomicI32,
}

impl Remote {
    /// Takes a seat. Simulated shards never sleep and need no eventfd.
    pub(crate) fn register(eventfd: Option<OwnedFd>) -> Arc<Remote> {
        let mut seats = seats();
        let seat = seats.iter().position(Option::is_none).unwrap_or(seats.len());
        assert!(seat <= u16::MAX as usize, "more than 65536 shards in a process");
        let remote = Arc::new(Remote {
            seat: seat as u16,
            wakes: Mutex::default(),
            completions: Mutex::default(),
            foreign: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            eventfd,
            polls: AtomicU64::new(0),
            stalls: Mutex::default(),
            thread: AtomicI32::new(0),
        });
        if seat == seats.len() {
            seats.push(None);
        }
        seats[seat] = Some(remote.clone());
        remote
    }

    /// Gives the seat back.
    pub(crate) fn unregister(&self) {
        seats()[self.seat as usize] = None;
    }

    /// The descriptor that becomes readable when the sleeping shard is woken.
    pub(crate) fn eventfd(&self) -> Option<RawFd> {
        self.eventfd.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Notes a stall, and its place where that was looked up.
    pub(crate) fn stalled(&self, trace: Option<String>) {
        let mut stalls = self.stalls.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        stalls.0 += 1;
        if let Some(trace) = trace {
            stalls.1 = trace;
        }
    }

    /// The number of stalls, and the place of the last one.
    pub(crate) fn stalls(&self) -> (u64, String) {
        self.stalls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn wake_from_outside(&self, task: TaskId) {
        self.wakes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(task);
        self.foreign.store(true, Ordering::Release);
        self.notify();
    }

    /// Notifies the shard, from a helper thread, that an operation has ended.
    pub(crate) fn complete(&self, operation: u64, result: i32) {
        let mut completions = self.completions.lock().unwrap_or_else(|p| p.into_inner());
        completions.push((operation, result));
        drop(completions);
        self.foreign.store(true, Ordering::Release);
        self.notify();
    }

    /// Wakes the shard's thread if it sleeps: after a queue of it was fed (*flag-then-look*).
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// Makes the eventfd readable.
    pub(crate) fn ring(&self) {
        if let Some(eventfd) = &self.eventfd {
            // An overflowing counter is readable as well, so nothing can go wrong here.
            let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Says that the shard is about to sleep; it looks at its queues after that.
    pub(crate) fn begin_sleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the shard is awake.
    pub(crate) fn end_sleep(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Whether other threads left something.
    pub(crate) fn has_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire)
    }

    /// What other threads left.
    pub(crate) fn take_foreign(&self) -> Option<(Vec<TaskId>, Completions)> {
        if !self.foreign.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut wakes = self.wakes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut completions = self.completions.lock().unwrap_or_else(|p| p.into_inner());
        Some((std::mem::take(&mut *wakes), std::mem::take(&mut *completions)))
    }
}

impl Shard {
    /// The waker of one of this shard's tasks.
    pub(crate) fn waker(&self, task: TaskId) -> Waker {
        waker(self.remote.seat, task)
    }
}
