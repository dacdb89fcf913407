//! The way from shard to shard: a ring per pair, and the calls that travel through it.
//!
//! Invariants
//!  - *one-each*: the shard `from` alone pushes, the shard `to` alone pops.
//!  - *published*: a cell between `head` and `tail` holds a message; `tail` moves (release) after
//!    the message is there, `head` (release) after it was taken.
//!  - *bounded-ring*: between `head` and `tail` are at most [`CAPACITY`] messages.
//!  - *held-is-flushed*: whatever waits at the sender for room is sent on by the next flush, or
//!    `any_held` says that a later one has to.
//!  - *ended-once*: a call has its slot until it ends, once.
//!
//! A ring never blocks: what finds it full waits at the sender, replies without a bound (they
//! answer calls, which have one), calls as waiting tasks.
#![allow(unsafe_code, reason = "a ring whose two ends are on two threads")]

use super::Shard;
use crate::config::ShardId;
use crate::remote::TaskId;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

/// Messages that fit into a ring.
const CAPACITY: usize = 256;

const _: () = assert!(CAPACITY.is_power_of_two(), "bounded-ring: its places wrap by a mask");

/// A message from one shard to another.
pub(crate) enum Message {
    /// Do this.
    Call(Box<dyn FnOnce() + Send>),
    /// The result of your call is there.
    Reply(CallId),
}

#[repr(align(128))]
struct Padded<T>(T);

/// A bounded queue with one producer and one consumer.
pub(crate) struct Ring {
    head: Padded<AtomicUsize>,
    tail: Padded<AtomicUsize>,
    cells: Box<[UnsafeCell<MaybeUninit<Message>>]>,
}

// SAFETY: by *one-each* and *published* no cell is touched by two threads at once; messages are
// `Send`.
unsafe impl Send for Ring {}
// SAFETY: *one-each*, *published*, as above.
unsafe impl Sync for Ring {}

impl Ring {
    pub(crate) fn new() -> Ring {
        let cells = (0..CAPACITY).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        let zero = || Padded(AtomicUsize::new(0));
        Ring { head: zero(), tail: zero(), cells }
    }

    /// Appends a message, or gives it back when the ring is full. By the producer alone.
    pub(crate) fn push(&self, message: Message) -> Result<(), Message> {
        let tail = self.tail.0.load(Ordering::Relaxed);
        let head = self.head.0.load(Ordering::Acquire);
        debug_assert!(tail - head <= CAPACITY, "bounded-ring: {head}..{tail}");
        if tail - head == CAPACITY {
            return Err(message);
        }
        let cell = self.cells[tail % CAPACITY].get();
        // SAFETY: the cell is outside of `head..tail`, so it is ours (*one-each*, *published*).
        unsafe { (*cell).write(message) };
        self.tail.0.store(tail + 1, Ordering::Release);
        Ok(())
    }

    /// Takes the first message. By the consumer alone.
    pub(crate) fn pop(&self) -> Option<Message> {
        let head = self.head.0.load(Ordering::Relaxed);
        let tail = self.tail.0.load(Ordering::Acquire);
        debug_assert!(head <= tail, "published: {head} taken of {tail}");
        if head == tail {
            return None;
        }
        debug_assert!(tail - head <= CAPACITY, "bounded-ring: {head}..{tail}");
        let cell = self.cells[head % CAPACITY].get();
        // SAFETY: the cell is within `head..tail`, so it holds a message (*published*) and is ours
        // to take (*one-each*).
        let message = unsafe { (*cell).assume_init_read() };
        self.head.0.store(head + 1, Ordering::Release);
        Some(message)
    }

    /// Whether a push would fail. By the producer alone: it stays true that there is room.
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.tail.0.load(Ordering::Relaxed) - self.head.0.load(Ordering::Acquire);
        debug_assert!(waiting <= CAPACITY, "bounded-ring: {waiting} messages");
        waiting == CAPACITY
    }

    pub(crate) fn is_empty(&self) -> bool {
        let (head, tail) =
            (self.head.0.load(Ordering::Relaxed), self.tail.0.load(Ordering::Acquire));
        debug_assert!(head <= tail, "published: {head} taken of {tail}");
        head == tail
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (head, tail) = (&self.head.0, &self.tail.0);
        write!(f, "Ring({} waiting)", tail.load(Ordering::Relaxed) - head.load(Ordering::Relaxed))
    }
}

/// A call that waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId(TaskId);

/// The outgoing side of a shard's calls.
pub(crate) struct Calls {
    waiting: Vec<(u32, Option<Waker>)>,
    free: Vec<u32>,
    /// Per target: replies that found the ring full.
    replies: Vec<VecDeque<CallId>>,
    /// Per target: tasks whose calls found the ring full.
    blocked: Vec<Vec<Waker>>,
    any_held: bool,
}

impl Calls {
    pub(crate) fn new(shards: u16) -> Calls {
        assert!(0 < shards, "one-each: a node has a shard");
        Calls {
            waiting: Vec::new(),
            free: Vec::new(),
            replies: (0..shards).map(|_| VecDeque::new()).collect(),
            blocked: (0..shards).map(|_| Vec::new()).collect(),
            any_held: false,
        }
    }

    /// Notes that a task waits for a reply.
    pub(crate) fn begin(&mut self, cx: &Context<'_>) -> CallId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.waiting.push((0, None));
            (self.waiting.len() - 1) as u32
        });
        let (generation, waker) = &mut self.waiting[index as usize];
        debug_assert!(waker.is_none(), "ended-once: a free slot has a waker");
        *waker = Some(cx.waker().clone());
        CallId(TaskId { index, generation: *generation })
    }

    /// The task waits on, perhaps with another waker.
    pub(crate) fn refresh(&mut self, call: CallId, cx: &Context<'_>) {
        let (generation, waker) = &mut self.waiting[call.0.index as usize];
        debug_assert_eq!(*generation, call.0.generation, "ended-once: an ended call is awaited");
        *waker = Some(cx.waker().clone());
    }

    /// The task waits no more.
    pub(crate) fn end(&mut self, call: CallId) {
        debug_assert!(self.free.len() < self.waiting.len(), "ended-once: more ends than calls");
        let (generation, waker) = &mut self.waiting[call.0.index as usize];
        debug_assert_eq!(*generation, call.0.generation, "ended-once: a call ends again");
        *generation = TaskId::next_generation(*generation);
        *waker = None;
        self.free.push(call.0.index);
    }

    /// The waker of a call whose reply has come, if it is still awaited.
    fn take_waker(&mut self, call: CallId) -> Option<Waker> {
        let place = self.waiting.get_mut(call.0.index as usize);
        debug_assert!(place.is_some(), "ended-once: a reply to a call that never began");
        let (generation, waker) = place?;
        if *generation == call.0.generation { waker.take() } else { None }
    }
}

impl Shard {
    /// Whether a call to `to` may be sent now; if not, the task is woken to ask again.
    pub(crate) fn may_call(&self, to: ShardId, cx: &Context<'_>) -> bool {
        debug_assert_ne!(to, self.id, "one-each: a shard does not call itself");
        let free = !self.node.ring(self.id, to).is_full();
        if !free {
            let mut calls = self.calls.borrow_mut();
            calls.blocked[to as usize].push(cx.waker().clone());
            calls.any_held = true;
        }
        free
    }

    /// Sends a call for which there is room.
    pub(crate) fn send_call(&self, to: ShardId, call: Box<dyn FnOnce() + Send>) {
        let pushed = self.node.ring(self.id, to).push(Message::Call(call));
        assert!(pushed.is_ok(), "bounded-ring: a call was sent without room");
        self.node.remotes[to as usize].notify();
    }

    /// Notifies a shard that the result of its call is there.
    pub(crate) fn send_reply(&self, to: ShardId, call: CallId) {
        let mut calls = self.calls.borrow_mut();
        let held = !calls.replies[to as usize].is_empty();
        debug_assert!(!held || calls.any_held, "held-is-flushed: replies that nobody flushes");
        debug_assert_ne!(to, self.id, "one-each: a shard does not answer itself");
        if held || self.node.ring(self.id, to).push(Message::Reply(call)).is_err() {
            calls.replies[to as usize].push_back(call);
            calls.any_held = true;
            return;
        }
        drop(calls);
        self.node.remotes[to as usize].notify();
    }

    /// Whether replies or calls wait for room in a ring.
    pub(crate) fn holds_messages(&self) -> bool {
        self.calls.borrow().any_held
    }

    /// Sends on what found a ring full.
    pub(crate) fn flush_mesh(&self) {
        if !self.holds_messages() {
            return;
        }
        let mut wakers = Vec::new();
        let mut calls = self.calls.borrow_mut();
        calls.any_held = false;
        for to in 0..self.node.shards() {
            let mut sent = false;
            while let Some(call) = calls.replies[to as usize].front().copied() {
                if self.node.ring(self.id, to).push(Message::Reply(call)).is_err() {
                    calls.any_held = true;
                    break;
                }
                sent = true;
                calls.replies[to as usize].pop_front();
            }
            wakers.append(&mut calls.blocked[to as usize]);
            if sent {
                self.node.remotes[to as usize].notify();
            }
        }
        debug_assert!(
            calls.any_held || calls.replies.iter().all(VecDeque::is_empty),
            "held-is-flushed: replies are left"
        );
        drop(calls);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether other shards left something for this one.
    pub(crate) fn has_messages(&self) -> bool {
        (0..self.node.shards()).any(|from| !self.node.ring(from, self.id).is_empty())
    }

    /// Takes in what other shards and threads left; whether there was anything.
    pub(crate) fn drain_mesh(&self) -> bool {
        let mut any = false;
        for from in 0..self.node.shards() {
            // At most one ring full per turn, so that no sender can block the shard here.
            for _ in 0..CAPACITY {
                let Some(message) = self.node.ring(from, self.id).pop() else { break };
                any = true;
                match message {
                    Message::Call(call) => call(),
                    Message::Reply(call) => {
                        let waker = self.calls.borrow_mut().take_waker(call);
                        waker.into_iter().for_each(Waker::wake);
                    }
                }
            }
        }
        if let Some((wakes, completions)) = self.remote.take_foreign() {
            any = true;
            wakes.into_iter().for_each(|task| self.wake(task));
            completions.into_iter().for_each(|(op, result)| self.complete(op, result));
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(index: u32) -> Message {
        Message::Reply(CallId(TaskId { index, generation: 0 }))
    }

    #[test]
    fn a_ring_keeps_order_between_two_threads() {
        const COUNT: u32 = 200_000;
        let ring = Ring::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..COUNT {
                    while ring.push(reply(n)).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
            for n in 0..COUNT {
                let message = loop {
                    match ring.pop() {
                        Some(message) => break message,
                        None => std::thread::yield_now(),
                    }
                };
                assert!(matches!(message, Message::Reply(CallId(task)) if task.index == n));
            }
        });
        assert!(ring.is_empty());
    }

    #[test]
    fn a_full_ring_gives_the_message_back_and_drops_what_is_left() {
        let alive = std::sync::Arc::new(());
        let ring = Ring::new();
        let call = || {
            let alive = alive.clone();
            Message::Call(Box::new(move || drop(alive)))
        };
        for _ in 0..CAPACITY {
            assert!(!ring.is_full() && ring.push(call()).is_ok());
        }
        assert!(ring.is_full() && ring.push(call()).is_err());
        assert!(ring.pop().is_some() && !ring.is_full());
        drop(ring);
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
    }
}
