//! A queue of waiting futures, first come first served.
//!
//! Invariants
//!  - *granted-prefix*: the waiters that were served and have not noticed yet are the front of
//!    the queue; ids grow along it.

use std::collections::VecDeque;
use std::task::{Context, Waker};

#[derive(Debug)]
struct Waiter {
    id: u64,
    units: usize,
    waker: Waker,
}

/// A place in a [`Waiters`] queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId(u64);

/// What became of a waiter that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It had been served these units and did not use them.
    Served(usize),
    /// It was still waiting.
    Waiting,
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queue: VecDeque<Waiter>,
    granted: usize,
    next_id: u64,
}

impl Waiters {
    /// Appends a waiter for `units`.
    pub(crate) fn push(&mut self, units: usize, cx: &Context<'_>) -> WaiterId {
        let id = self.next_id;
        self.next_id += 1;
        debug_assert!(
            self.queue.back().is_none_or(|last| last.id < id),
            "granted-prefix: waiter {id} is older than the last"
        );
        self.queue.push_back(Waiter { id, units, waker: cx.waker().clone() });
        WaiterId(id)
    }

    /// How many still wait.
    pub(crate) fn waiting(&self) -> usize {
        debug_assert!(self.granted <= self.queue.len(), "granted-prefix: {}", self.granted);
        self.queue.len() - self.granted
    }

    /// How many were served and have not noticed.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// What the first of those who wait wants.
    pub(crate) fn first_units(&self) -> Option<usize> {
        self.queue.get(self.granted).map(|waiter| waiter.units)
    }

    /// Serves the first of those who wait.
    pub(crate) fn grant(&mut self) -> Option<Waker> {
        let waiter = self.queue.get(self.granted)?;
        self.granted += 1;
        debug_assert!(self.granted <= self.queue.len(), "granted-prefix: {}", self.granted);
        Some(waiter.waker.clone())
    }

    /// Whether `id` was served; then it has left. Otherwise it goes on waiting with this waker.
    pub(crate) fn poll(&mut self, id: WaiterId, cx: &Context<'_>) -> bool {
        let at = self.position(id);
        if at < self.granted {
            self.queue.remove(at);
            self.granted -= 1;
            return true;
        }
        let waiter = &mut self.queue[at];
        if !waiter.waker.will_wake(cx.waker()) {
            waiter.waker = cx.waker().clone();
        }
        false
    }

    /// Takes `id` out, served or not.
    pub(crate) fn leave(&mut self, id: WaiterId) -> Left {
        let at = self.position(id);
        let left = self.queue.remove(at);
        debug_assert!(left.as_ref().is_some_and(|left| left.id == id.0), "granted-prefix: {id:?}");
        let units = left.map_or(0, |waiter| waiter.units);
        if at < self.granted {
            self.granted -= 1;
            return Left::Served(units);
        }
        Left::Waiting
    }

    fn position(&self, id: WaiterId) -> usize {
        let found = self.queue.binary_search_by_key(&id.0, |waiter| waiter.id);
        found.expect("a waiter leaves once")
    }
}
