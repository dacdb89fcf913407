//! Sealed memtables of a pool that are to be flushed.
//!
//! Invariants
//!  - *sealed-alone*: what is in the queue is sealed, is among those of its tablet, and is there
//!    once.

use super::{Table, Tablet};
use crate::memtable::Memtable;
use runtime::sync::{Notify, Semaphore};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A sealed memtable that waits for a worker.
pub(crate) struct Pending {
    pub(crate) table: Rc<Table>,
    pub(crate) tablet: Rc<Tablet>,
    pub(crate) memtable: Rc<Memtable>,
}

/// Those of one pool.
pub(crate) struct FlushQueue {
    /// In the order in which they are written.
    waiting: RefCell<VecDeque<Pending>>,
    /// Tells a worker.
    pub(crate) queued: Notify,
    /// Held by the flush that writes data: one at a time.
    pub(crate) writing: Semaphore,
}

impl Default for FlushQueue {
    fn default() -> FlushQueue {
        FlushQueue {
            waiting: RefCell::default(),
            queued: Notify::new(),
            writing: Semaphore::new(1, usize::MAX),
        }
    }
}

impl FlushQueue {
    /// Adds one, and tells a worker.
    pub(crate) fn push(&self, pending: Pending) {
        assert!(pending.tablet.is_sealed(&pending.memtable), "sealed-alone: it is not sealed");
        let is_new = |one: &Pending| !Rc::ptr_eq(&one.memtable, &pending.memtable);
        debug_assert!(self.waiting.borrow().iter().all(is_new), "sealed-alone: a memtable twice");
        self.waiting.borrow_mut().push_back(pending);
        self.queued.notify_one();
    }

    /// The next one.
    pub(crate) fn pop(&self) -> Option<Pending> {
        let next = self.waiting.borrow_mut().pop_front();
        debug_assert!(
            next.as_ref().is_none_or(|pending| pending.memtable.is_sealed()),
            "sealed-alone: it is written to"
        );
        next
    }

    /// A table that is dropped or truncated leaves memtables in the queue.
    pub(crate) fn remove(&self, memtable: &Memtable) {
        let mut waiting = self.waiting.borrow_mut();
        let before = waiting.len();
        waiting.retain(|pending| !std::ptr::eq(&*pending.memtable, memtable));
        assert!(before - waiting.len() <= 1, "sealed-alone: a memtable twice");
    }

    /// Whether none waits and none is written.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.borrow().is_empty() && self.writing.available() == 1
    }
}
