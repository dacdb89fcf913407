//! A shard as other threads see it: its seat among the shards of the process, what they leave for
//! it, and how they wake it.
//!
//! Lives on: every thread. Sees: names of tasks and operations, and no shard's inside.
//!
//! Invariants
//!  - *own-seat*: no two shards that live have the same seat.
//!  - *flag-then-look*: a shard that goes to sleep raises `sleeping`, fences, and looks at its
//!    queues once more; who feeds a queue fences and then reads `sleeping`. One of the two sees
//!    the other.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering, fence};

#[allow(clippy::disallowed_types)] // Foreign threads meet shards here, off the hot path.
type Mutex<T> = std::sync::Mutex<T>;

/// Completed operations and their results.
pub(crate) type Completions = Vec<(u64, i32)>;

/// A task of a shard: its slot, and the slot's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Slots and generations have this many bits.
pub(crate) const ID_BITS: u32 = 24;
const ID_MASK: u64 = (1 << ID_BITS) - 1;

const _: () = assert!(2 * ID_BITS + u16::BITS == u64::BITS, "a task and its seat fill a word");

impl TaskId {
    #[inline]
    pub(crate) fn next_generation(generation: u32) -> u32 {
        debug_assert!(u64::from(generation) <= ID_MASK, "word-wakers: generation {generation}");
        generation.wrapping_add(1) & ID_MASK as u32
    }

    /// It and its shard's seat, as one word.
    #[inline]
    pub(crate) fn word(self, seat: u16) -> u64 {
        let TaskId { index, generation } = self;
        debug_assert!(u64::from(index) <= ID_MASK, "word-wakers: slot {index}");
        debug_assert!(u64::from(generation) <= ID_MASK, "word-wakers: generation {generation}");
        (seat as u64) << (2 * ID_BITS) | (generation as u64) << ID_BITS | index as u64
    }

    /// The seat and the task of a word.
    #[inline]
    pub(crate) fn from_word(word: u64) -> (u16, TaskId) {
        let index = (word & ID_MASK) as u32;
        let generation = ((word >> ID_BITS) & ID_MASK) as u32;
        ((word >> (2 * ID_BITS)) as u16, TaskId { index, generation })
    }
}

/// All shards of this process, by seat. A seat is taken again after its shard has ended.
static SEATS: Mutex<Vec<Option<Arc<Remote>>>> = Mutex::new(Vec::new());

/// The shard that has a seat now.
pub(crate) fn seated(seat: u16) -> Option<Arc<Remote>> {
    seats().get(seat as usize).cloned().flatten()
}

fn seats() -> std::sync::MutexGuard<'static, Vec<Option<Arc<Remote>>>> {
    SEATS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What other threads may touch of a shard.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) seat: u16,
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
        assert!(seat <= u16::MAX as usize, "own-seat: more than 65536 shards in a process");
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
        let before = seats[seat].replace(remote.clone());
        assert!(before.is_none(), "own-seat: {seat} is taken");
        remote
    }

    /// Gives the seat back.
    pub(crate) fn unregister(&self) {
        let left = seats()[self.seat as usize].take();
        let is_ours = left.is_some_and(|left| std::ptr::eq(&*left, self));
        assert!(is_ours, "own-seat: {} is another's", self.seat);
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

    /// Leaves a task to be woken by its shard.
    pub(crate) fn wake_from_outside(&self, task: TaskId) {
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
        let sleeps = self.sleeping.load(Ordering::Relaxed);
        debug_assert!(!sleeps, "flag-then-look: a shard that sleeps goes to sleep");
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
