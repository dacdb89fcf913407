//! Operations on their way through the driver, and the futures that wait for them.
//!
//! Invariants
//!  - *slab-owns*: what an operation points to lives in its slot of the slab, on the heap, from
//!    submission until its completion was taken in. Dropping the future does not touch it.
//!  - *completes-once*: an operation is queued, submitted, done: each at most once, in this order.
//!  - *orphans-close*: when the future of an operation that makes a descriptor was dropped, the
//!    descriptor is closed as it arrives.
#![allow(unsafe_code, reason = "descriptors and buffers that the kernel fills")]

use super::io_class::IoClass;
use super::io_queue::IoQueue;
use super::{Shard, try_with, with};
use crate::driver::op::{Fd, FdKind, Op, OpId};
use slab::Slab;
use std::future::Future;
use std::os::fd::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

impl Drop for Fd {
    fn drop(&mut self) {
        close(self.raw(), self.kind());
    }
}

/// Closes a descriptor that is no longer used.
pub(crate) fn close(raw: i32, kind: FdKind) {
    debug_assert!(0 <= raw, "fd-outlives-ops: {raw} is no descriptor");
    let on_shard = try_with(|shard| match kind {
        FdKind::Socket => {
            shard.driver.borrow_mut().forget_socket(raw);
            false
        }
        FdKind::File | FdKind::Simulated => {
            shard.submit_orphan(Op::Close { fd: raw });
            true
        }
    });
    if on_shard != Some(true) && kind != FdKind::Simulated {
        // SAFETY: *fd-outlives-ops*: we were the last to know this open descriptor.
        drop(unsafe { OwnedFd::from_raw_fd(raw) });
    }
}

/// The largest error number of a kernel.
const ERRNO_MAX: i32 = 4095;

enum State {
    /// In the I/O queue, not yet at the kernel.
    Queued(Option<Waker>),
    /// At the kernel.
    Submitted(Option<Waker>),
    /// The result waits for the future.
    Done(i32),
    /// At the kernel or in the queue; its future was dropped.
    Orphan { queued: bool },
}

struct Slot {
    id: OpId,
    op: Op,
    state: State,
    class: Option<IoClass>,
    since_ns: u64,
}

/// The operations of a shard.
pub(crate) struct Ops {
    slots: Slab<Slot>,
    generation: u32,
    pub(crate) queue: IoQueue,
}

impl Ops {
    pub(crate) fn new(disk_requests_max: usize) -> Ops {
        Ops { slots: Slab::new(), generation: 0, queue: IoQueue::new(disk_requests_max) }
    }

    /// The number of operations that have not been taken in.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The names of the operations that are at the kernel.
    pub(crate) fn in_flight(&self) -> Vec<OpId> {
        let slots = self.slots.iter().map(|(_, slot)| slot);
        let submitted =
            |s: &&Slot| matches!(s.state, State::Submitted(_) | State::Orphan { queued: false });
        slots.filter(submitted).map(|slot| slot.id).collect()
    }

    /// Whether an operation is at the kernel, or on its way there.
    fn is_submitted(&self, id: OpId) -> bool {
        let slot = self.slots.get(id.slot()).filter(|slot| slot.id == id);
        slot.is_some_and(|slot| {
            matches!(slot.state, State::Submitted(_) | State::Orphan { queued: false })
        })
    }

    /// An operation that is at the kernel.
    pub(crate) fn get_mut(&mut self, id: OpId) -> Option<&mut Op> {
        let slot = self.slots.get_mut(id.slot()).filter(|slot| slot.id == id)?;
        Some(&mut slot.op)
    }

    fn insert(&mut self, op: Op, state: State, class: Option<IoClass>, since_ns: u64) -> OpId {
        self.generation = self.generation.wrapping_add(1) & OpId::GENERATION_MAX;
        let entry = self.slots.vacant_entry();
        let id = OpId::new(entry.key(), self.generation);
        entry.insert(Slot { id, op, state, class, since_ns });
        id
    }
}

impl Shard {
    /// Starts an operation of a class, or outside of all classes.
    pub(crate) fn submit(&self, op: Op, class: Option<IoClass>) -> OpFuture {
        let now = self.clock.now_ns();
        let mut ops = self.ops.borrow_mut();
        let Some(class) = class else {
            let id = ops.insert(op, State::Submitted(None), None, now);
            self.start(&mut ops, id);
            return OpFuture { id: Some(id) };
        };
        debug_assert!(op.is_disk_request(), "a class is of disk requests: {op:?}");
        let kind = op.disk_kind();
        let bytes = op.disk_bytes();
        if ops.queue.admit(class, kind, bytes) {
            let id = ops.insert(op, State::Submitted(None), Some(class), now);
            self.start(&mut ops, id);
            OpFuture { id: Some(id) }
        } else {
            let id = ops.insert(op, State::Queued(None), Some(class), now);
            ops.queue.push(class, id, kind, bytes);
            OpFuture { id: Some(id) }
        }
    }

    /// Starts an operation whose result is not needed.
    pub(crate) fn submit_orphan(&self, op: Op) {
        debug_assert!(matches!(op, Op::Close { .. }), "orphans-close: {op:?} needs its result");
        let mut ops = self.ops.borrow_mut();
        let now = self.clock.now_ns();
        let id = ops.insert(op, State::Orphan { queued: false }, None, now);
        self.start(&mut ops, id);
    }

    fn start(&self, ops: &mut Ops, id: OpId) {
        if self.dead.get() {
            return;
        }
        debug_assert!(ops.is_submitted(id), "completes-once: {id:?} is not for the driver");
        let op = ops.get_mut(id).expect("an operation was just inserted");
        self.driver.borrow_mut().submit(id, op);
    }

    /// Starts what the I/O queue lets through.
    fn dispatch(&self, ops: &mut Ops, dropped: &mut Vec<Op>) {
        let now = self.clock.now_ns();
        while let Some((class, id)) = ops.queue.pop() {
            let slot = ops.slots.get_mut(id.slot()).expect("a queued operation has a slot");
            debug_assert_eq!(slot.id, id, "completes-once: the slot of what waits is its own");
            debug_assert_eq!(slot.class, Some(class), "counters-balance: {id:?} changed its class");
            debug_assert!(slot.since_ns <= now, "never-back: {} to {now}", slot.since_ns);
            let waited = now - slot.since_ns;
            slot.since_ns = now;
            match &mut slot.state {
                State::Queued(waker) => slot.state = State::Submitted(waker.take()),
                State::Orphan { .. } => {
                    let slot = ops.slots.remove(id.slot());
                    ops.queue.abandon(class, slot.op.disk_kind(), slot.op.disk_bytes());
                    dropped.push(slot.op);
                    continue;
                }
                _ => unreachable!("a queued operation is queued or orphaned"),
            }
            ops.queue.waited(class, waited);
            self.start(ops, id);
        }
    }

    /// Takes in the completion of an operation.
    pub(crate) fn complete(&self, id: u64, result: i32) {
        let id = OpId(id);
        debug_assert!(-ERRNO_MAX <= result, "completes-once: {result} is no answer of a kernel");
        let mut dropped = Vec::new();
        let mut ops = self.ops.borrow_mut();
        let Some(slot) = ops.slots.get_mut(id.slot()).filter(|slot| slot.id == id) else { return };
        let (class, since_ns, bytes) = (slot.class, slot.since_ns, slot.op.disk_bytes());
        let mut close_fd = None;
        let waker = match std::mem::replace(&mut slot.state, State::Done(result)) {
            State::Submitted(waker) => waker,
            State::Orphan { queued: false } => {
                let slot = ops.slots.remove(id.slot());
                if 0 <= result {
                    close_fd = slot.op.makes().map(|kind| (result, kind));
                }
                dropped.push(slot.op);
                None
            }
            _ => unreachable!("an operation completes once, after its submission"),
        };
        if let Some(class) = class {
            let now = self.clock.now_ns();
            debug_assert!(since_ns <= now, "never-back: {since_ns} to {now}");
            ops.queue.ended(class, bytes, now - since_ns);
            self.dispatch(&mut ops, &mut dropped);
        }
        drop(ops);
        drop(dropped);
        if let Some((raw, kind)) = close_fd {
            let simulated = self.driver.borrow().is_simulated();
            close(raw, if simulated { FdKind::Simulated } else { kind });
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll_op(&self, id: OpId, cx: &Context<'_>) -> Poll<(i32, Op)> {
        let mut ops = self.ops.borrow_mut();
        let slot = ops.slots.get_mut(id.slot()).expect("an awaited operation has a slot");
        assert!(slot.id == id, "slab-owns: an operation's slot was taken");
        match &mut slot.state {
            State::Done(result) => {
                let result = *result;
                let mut slot = ops.slots.remove(id.slot());
                expose(&mut slot.op, result);
                Poll::Ready((result, slot.op))
            }
            State::Queued(waker) | State::Submitted(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            State::Orphan { .. } => unreachable!("an awaited operation is no orphan"),
        }
    }

    /// The future was dropped.
    fn orphan(&self, id: OpId) {
        let mut ops = self.ops.borrow_mut();
        let Some(slot) = ops.slots.get_mut(id.slot()).filter(|slot| slot.id == id) else { return };
        match slot.state {
            State::Queued(_) => slot.state = State::Orphan { queued: true },
            State::Submitted(_) => {
                slot.state = State::Orphan { queued: false };
                if !self.dead.get() {
                    self.driver.borrow_mut().cancel(id, &mut slot.op);
                }
            }
            State::Done(result) => {
                let slot = ops.slots.remove(id.slot());
                drop(ops);
                let kind = slot.op.makes().filter(|_| 0 <= result);
                if let Some(kind) = kind {
                    let simulated = self.driver.borrow().is_simulated();
                    close(result, if simulated { FdKind::Simulated } else { kind });
                }
                drop(slot);
            }
            State::Orphan { .. } => {}
        }
    }
}

/// Makes what the kernel wrote part of an operation's buffer. A simulated disk or network has
/// filled it by itself.
fn expose(op: &mut Op, result: i32) {
    let Ok(written) = usize::try_from(result) else { return };
    match op {
        Op::Read { fd, buf, len, .. } if !fd.is_simulated() => {
            assert!(written <= *len, "slab-owns: the kernel wrote past what was asked for");
            // SAFETY: *slab-owns*: the kernel wrote `result` bytes after the old ones.
            unsafe { buf.set_len(buf.len() + written) };
        }
        Op::Receive { fd, buf } if !fd.is_simulated() => {
            let len = buf.len() + written;
            assert!(len <= buf.capacity(), "slab-owns: the kernel wrote past a buffer");
            // SAFETY: *slab-owns*: the kernel wrote `result` bytes after the old ones.
            unsafe { buf.set_len(len) };
        }
        _ => {}
    }
}

/// Waits for an operation; gives its result, and the operation back for its buffers.
#[derive(Debug)]
pub(crate) struct OpFuture {
    id: Option<OpId>,
}

impl Future for OpFuture {
    type Output = (i32, Op);
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(i32, Op)> {
        let id = self.id.expect("an operation is not polled after its end");
        let poll = with(|shard| shard.poll_op(id, cx));
        if poll.is_ready() {
            self.id = None;
        }
        poll
    }
}

impl Drop for OpFuture {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            try_with(|shard| shard.orphan(id));
        }
    }
}

/// Starts an operation on the current shard.
pub(crate) fn submit(op: Op, class: Option<IoClass>) -> OpFuture {
    with(|shard| shard.submit(op, class))
}
