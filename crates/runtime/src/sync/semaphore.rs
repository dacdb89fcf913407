//! Units to take and give back.
//!
//! Invariants
//!  - *served-at-once*: nobody waits whose units are free and whose turn it is.

use super::waiters::{Left, WaiterId, Waiters};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Why units could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// The semaphore was closed.
    Closed,
    /// As many wait already as may.
    QueueFull,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcquireError::Closed => "semaphore closed",
            AcquireError::QueueFull => "too many wait for this semaphore",
        })
    }
}
impl std::error::Error for AcquireError {}

#[derive(Debug)]
struct State {
    available: usize,
    waiters: Waiters,
    waiters_max: usize,
    closed: bool,
}

/// Counts units; clones share them. Requests are served in order: a large one is not starved by
/// small ones.
#[derive(Clone, Debug)]
pub struct Semaphore {
    state: Rc<RefCell<State>>,
}

impl Semaphore {
    /// `units` units, for which at most `waiters_max` may wait.
    pub fn new(units: usize, waiters_max: usize) -> Semaphore {
        let waiters = Waiters::default();
        let state = State { available: units, waiters, waiters_max, closed: false };
        Semaphore { state: Rc::new(RefCell::new(state)) }
    }

    /// Free units.
    pub fn available(&self) -> usize {
        self.state.borrow().available
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.state.borrow().waiters.waiting()
    }

    /// Takes `units` without waiting, if they are free and no task waits.
    pub fn try_acquire(&self, units: usize) -> Option<Permit> {
        let mut state = self.state.borrow_mut();
        if state.closed || state.available < units || 0 < state.waiters.waiting() {
            return None;
        }
        state.available -= units;
        Some(Permit { state: self.state.clone(), units })
    }

    /// Takes `units`, waiting for them in turn.
    pub fn acquire(&self, units: usize) -> Acquire<'_> {
        Acquire { semaphore: self, units, waiter: None }
    }

    /// Adds units.
    pub fn add(&self, units: usize) {
        release(&self.state, units);
    }

    /// Takes up to `units` free units away for good; returns how many that were.
    pub fn forget(&self, units: usize) -> usize {
        let mut state = self.state.borrow_mut();
        let taken = state.available.min(units);
        state.available -= taken;
        taken
    }

    /// Fails all waiters, and later ones.
    pub fn close(&self) {
        let mut wakers = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            state.closed = true;
            while let Some(waker) = state.waiters.grant() {
                wakers.push(waker);
            }
            debug_assert_eq!(state.waiters.waiting(), 0, "served-at-once: a closed one holds up");
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Gives `units` back and serves who can be served.
fn release(state: &RefCell<State>, units: usize) {
    let mut held = state.borrow_mut();
    debug_assert!(units <= usize::MAX - held.available, "served-at-once: too many units");
    held.available += units;
    drop(held);
    serve(state);
}

fn serve(state: &RefCell<State>) {
    loop {
        let waker = {
            let mut state = state.borrow_mut();
            match state.waiters.first_units() {
                Some(units) if !state.closed && units <= state.available => {
                    state.available -= units;
                    state.waiters.grant()
                }
                _ => None,
            }
        };
        match waker {
            Some(waker) => waker.wake(),
            None => return,
        }
    }
}

/// The future of [`Semaphore::acquire`].
#[derive(Debug)]
#[must_use = "an acquire does nothing unless awaited"]
pub struct Acquire<'a> {
    semaphore: &'a Semaphore,
    units: usize,
    waiter: Option<WaiterId>,
}

impl Future for Acquire<'_> {
    type Output = Result<Permit, AcquireError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(waiter) = self.waiter else {
            if let Some(permit) = self.semaphore.try_acquire(self.units) {
                return Poll::Ready(Ok(permit));
            }
            let mut state = self.semaphore.state.borrow_mut();
            if state.closed {
                return Poll::Ready(Err(AcquireError::Closed));
            }
            if state.waiters_max <= state.waiters.waiting() {
                return Poll::Ready(Err(AcquireError::QueueFull));
            }
            debug_assert!(
                state.waiters.first_units().is_none_or(|units| state.available < units),
                "served-at-once: {} units are free for who waits",
                state.available
            );
            let id = state.waiters.push(self.units, cx);
            drop(state);
            self.waiter = Some(id);
            return Poll::Pending;
        };
        let mut state = self.semaphore.state.borrow_mut();
        if !state.waiters.poll(waiter, cx) {
            return Poll::Pending;
        }
        // Waiters that were woken by `close` have no units.
        let closed = state.closed;
        drop(state);
        self.waiter = None;
        if closed {
            return Poll::Ready(Err(AcquireError::Closed));
        }
        Poll::Ready(Ok(Permit { state: self.semaphore.state.clone(), units: self.units }))
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter else { return };
        let mut state = self.semaphore.state.borrow_mut();
        let left = state.waiters.leave(waiter);
        let closed = state.closed;
        drop(state);
        debug_assert!(
            matches!(left, Left::Waiting) || left == Left::Served(self.units),
            "no-lost-unit: {left:?} of {}",
            self.units
        );
        match left {
            Left::Served(units) if !closed => release(&self.semaphore.state, units),
            // The one behind may be small enough for what is there.
            _ => serve(&self.semaphore.state),
        }
    }
}

/// Units that are given back when it is dropped.
#[derive(Debug)]
#[must_use = "units are given back when the permit is dropped"]
pub struct Permit {
    state: Rc<RefCell<State>>,
    units: usize,
}

impl Permit {
    /// How many units.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Gives all but `units` back. Panics when it holds fewer.
    pub fn shrink(&mut self, units: usize) {
        assert!(units <= self.units, "shrink to {units} of {}", self.units);
        let back = self.units - units;
        self.units = units;
        release(&self.state, back);
    }

    /// Takes `units` out into a permit of its own. Panics when it holds fewer.
    pub fn split(&mut self, units: usize) -> Permit {
        assert!(units <= self.units, "split {units} of {}", self.units);
        self.units -= units;
        Permit { state: self.state.clone(), units }
    }

    /// Puts the units of `other`, of the same semaphore, into this one.
    pub fn merge(&mut self, mut other: Permit) {
        assert!(Rc::ptr_eq(&self.state, &other.state), "permits of two semaphores");
        debug_assert!(self.units <= usize::MAX - other.units, "served-at-once: too many units");
        self.units += other.units;
        other.units = 0;
    }

    /// The same where both are of one semaphore; if they are not, `other` comes back.
    pub fn join(&mut self, other: Permit) -> Option<Permit> {
        if !Rc::ptr_eq(&self.state, &other.state) {
            return Some(other);
        }
        let both = self.units + other.units;
        self.merge(other);
        debug_assert_eq!(self.units, both, "served-at-once: units are lost");
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if 0 < self.units {
            release(&self.state, self.units);
        }
    }
}
