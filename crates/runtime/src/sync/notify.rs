//! Notifications: waking tasks that wait for a change.
//!
//! Invariants
//!  - *stored-or-waiting*: a notification is stored only while nobody waits.
//!  - *counted-arrivals*: of the parties of a barrier those that have arrived in a phase are fewer
//!    than all.

use super::waiters::{Left, WaiterId, Waiters};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A condition to wait for: woken tasks check it themselves.
#[derive(Debug, Default)]
pub struct Notify {
    waiters: RefCell<Waiters>,
    stored: Cell<bool>,
}

impl Notify {
    /// No notification, no waiter.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the first waiter; with none, the next one to come does not wait.
    pub fn notify_one(&self) {
        let waker = self.waiters.borrow_mut().grant();
        match waker {
            Some(waker) => waker.wake(),
            None => {
                self.check();
                self.stored.set(true);
            }
        }
    }

    /// *stored-or-waiting*.
    fn check(&self) {
        debug_assert!(
            !self.stored.get() || self.waiters.borrow().waiting() == 0,
            "stored-or-waiting: {} wait",
            self.waiters.borrow().waiting()
        );
    }

    /// Wakes all who wait now.
    pub fn notify_all(&self) {
        loop {
            let waker = self.waiters.borrow_mut().grant();
            match waker {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    /// Waits for a notification. Takes its place in the queue when first polled.
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, waiter: None, done: false }
    }
}

/// The future of [`Notify::notified`].
#[derive(Debug)]
#[must_use = "does nothing unless awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    waiter: Option<WaiterId>,
    done: bool,
}

impl Future for Notified<'_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        assert!(!self.done, "stored-or-waiting: polled after its end");
        let notify = self.notify;
        notify.check();
        let told = match self.waiter {
            None if notify.stored.take() => true,
            None => {
                self.waiter = Some(notify.waiters.borrow_mut().push(1, cx));
                false
            }
            Some(waiter) => notify.waiters.borrow_mut().poll(waiter, cx),
        };
        if told {
            self.waiter = None;
            self.done = true;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter else { return };
        let left = self.notify.waiters.borrow_mut().leave(waiter);
        if left != Left::Waiting {
            self.notify.notify_one();
            let is_passed_on = 0 < self.notify.waiters.borrow().granted();
            debug_assert!(is_passed_on || self.notify.stored.get(), "no-lost-unit: nobody has it");
        }
    }
}

/// A reusable barrier of `parties` tasks of one shard.
#[derive(Debug)]
pub struct Barrier {
    parties: usize,
    arrived: Cell<usize>,
    phase: Cell<u64>,
    wakers: RefCell<Vec<Waker>>,
}

impl Barrier {
    /// A barrier for `parties` tasks, at least 1.
    pub fn new(parties: usize) -> Barrier {
        assert!(0 < parties, "counted-arrivals: a barrier for nobody");
        let (arrived, phase) = (Cell::new(0), Cell::new(0));
        Barrier { parties, arrived, phase, wakers: RefCell::default() }
    }

    /// Waits until all parties have arrived; returns the number of the phase that ended.
    pub async fn wait(&self) -> u64 {
        let phase = self.phase.get();
        assert!(self.arrived.get() < self.parties, "counted-arrivals: {}", self.parties);
        self.arrived.set(self.arrived.get() + 1);
        if self.arrived.get() == self.parties {
            self.arrived.set(0);
            self.phase.set(phase + 1);
            self.wakers.take().into_iter().for_each(Waker::wake);
            return phase;
        }
        let _arrived = Arrived { barrier: self, phase };
        std::future::poll_fn(|cx| {
            if self.phase.get() != phase {
                return Poll::Ready(phase);
            }
            self.wakers.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// A task that is dropped before the others came has not arrived.
struct Arrived<'a> {
    barrier: &'a Barrier,
    phase: u64,
}

impl Drop for Arrived<'_> {
    fn drop(&mut self) {
        if self.barrier.phase.get() == self.phase {
            let arrived = self.barrier.arrived.get();
            assert!(0 < arrived, "counted-arrivals: more leave than have arrived");
            self.barrier.arrived.set(arrived - 1);
        }
    }
}
