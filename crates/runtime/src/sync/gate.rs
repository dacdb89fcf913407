//! A gate: work goes in until it closes, and closing waits for all of it to come out.
//!
//! Invariants
//!  - *counted-inside*: who goes in comes out once.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The gate is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateClosed;

impl fmt::Display for GateClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("gate closed")
    }
}
impl std::error::Error for GateClosed {}

#[derive(Debug, Default)]
struct State {
    inside: Cell<usize>,
    closed: Cell<bool>,
    closers: RefCell<Vec<Waker>>,
}

/// Counts who is inside; clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    state: Rc<State>,
}

impl Gate {
    /// An open gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Goes in; out again when the guard is dropped.
    pub fn enter(&self) -> Result<GateGuard, GateClosed> {
        if self.state.closed.get() {
            return Err(GateClosed);
        }
        self.state.inside.set(self.state.inside.get() + 1);
        Ok(GateGuard { state: self.state.clone() })
    }

    /// How many are inside.
    pub fn inside(&self) -> usize {
        self.state.inside.get()
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.state.closed.get()
    }

    /// Closes the gate and waits until all have left.
    pub async fn close(&self) {
        self.state.closed.set(true);
        std::future::poll_fn(|cx| {
            if self.state.inside.get() == 0 {
                return Poll::Ready(());
            }
            debug_assert!(self.state.closed.get(), "counted-inside: a gate opens again");
            let mut closers = self.state.closers.borrow_mut();
            if !closers.iter().any(|waker| waker.will_wake(cx.waker())) {
                closers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Proof of being inside.
#[derive(Debug)]
#[must_use = "dropping the guard leaves the gate"]
pub struct GateGuard {
    state: Rc<State>,
}

impl Drop for GateGuard {
    fn drop(&mut self) {
        let inside = self.state.inside.get();
        assert!(0 < inside, "counted-inside: more come out than went in");
        let inside = inside - 1;
        self.state.inside.set(inside);
        if inside == 0 {
            self.state.closers.take().into_iter().for_each(Waker::wake);
        }
    }
}
