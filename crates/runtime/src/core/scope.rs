//! The scopes that own tasks.
//!
//! Invariants
//!  - *owned-tasks*: every task belongs to a [`Scope`]; when the scope goes, its tasks go.
//!  - *inherited-group*: a task runs in the group of its spawner, unless spawned into another.
//!  - *told-once*: the end of a task is told to its handle exactly once.
//!  - *pinned-with-us*: a task's future is part of what is pinned, and never moved out of it.
#![allow(unsafe_code, reason = "one pin projection")]

use super::group::Group;
use super::tasks::Owner;
use super::{current_group, try_with, with};
use crate::remote::TaskId;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Owns tasks. Dropping it cancels them: their futures are dropped where they stand.
#[derive(Debug)]
pub struct Scope {
    tasks: Rc<ScopeTasks>,
}

/// The tasks of a scope that have not ended.
#[derive(Debug, Default)]
struct ScopeTasks {
    alive: RefCell<Slab<Option<TaskId>>>,
    joining: RefCell<Vec<Waker>>,
}

impl Owner for ScopeTasks {
    fn ended(&self, key: usize) {
        let mut alive = self.alive.borrow_mut();
        alive.remove(key);
        let empty = alive.is_empty();
        drop(alive);
        if empty {
            self.joining.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Scope {
    /// An empty scope on this shard.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Scope {
        Scope { tasks: Rc::default() }
    }

    /// Starts a task in the caller's group. Two allocations.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_in(current_group(), future)
    }

    /// Starts a task in `group`.
    pub fn spawn_in<F>(&self, group: Group, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let outcome = Rc::new(Outcome { value: Cell::new(None), waker: Cell::new(None) });
        let completer = Completer { outcome: outcome.clone(), done: false };
        self.start(group, Box::pin(Reporting { future, completer }));
        JoinHandle { outcome }
    }

    /// Starts a task by polling it at once, within the caller's poll and in the caller's group:
    /// what does not wait ends here and is never queued. One allocation. For tasks that are short
    /// until they wait; the caller looks at [`need_preempt`] between them.
    pub fn run<F>(&self, future: F)
    where
        F: Future<Output = ()> + 'static,
    {
        self.run_boxed(Box::pin(future));
    }

    /// The same of a future that is allocated already.
    pub fn run_boxed(&self, future: Pin<Box<dyn Future<Output = ()>>>) {
        let key = self.tasks.alive.borrow_mut().insert(None);
        let owner: Rc<dyn Owner> = self.tasks.clone();
        let shard = with(Rc::clone);
        let task = shard.spawn_polled(current_group(), (owner, key), future);
        if let Some(task) = task {
            let before = self.tasks.alive.borrow_mut()[key].replace(task);
            debug_assert_eq!(before, None, "owned-tasks: two tasks under one key");
        }
    }

    /// Starts a task whose result is not needed. One allocation.
    pub(crate) fn start(&self, group: Group, future: Pin<Box<dyn Future<Output = ()>>>) {
        let key = self.tasks.alive.borrow_mut().insert(None);
        let owner: Rc<dyn Owner> = self.tasks.clone();
        let task = with(|shard| {
            shard.sync_groups();
            shard.spawn(group, (owner, key), future)
        });
        let before = self.tasks.alive.borrow_mut()[key].replace(task);
        debug_assert_eq!(before, None, "owned-tasks: two tasks under one key");
    }

    /// The number of tasks that have not ended.
    pub fn task_count(&self) -> usize {
        self.tasks.alive.borrow().len()
    }

    /// Waits until every task has ended, those spawned meanwhile included.
    pub async fn join(&self) {
        std::future::poll_fn(|cx| {
            if self.task_count() == 0 {
                return Poll::Ready(());
            }
            let mut joining = self.tasks.joining.borrow_mut();
            if !joining.iter().any(|waker| waker.will_wake(cx.waker())) {
                joining.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Drops every task, and waits for those that are being polled right now. A task must not
    /// cancel the scope that owns itself.
    pub async fn cancel(&self) {
        self.tasks.cancel();
        self.join().await;
    }
}

impl ScopeTasks {
    fn cancel(&self) {
        // Dropping a future may end, or start, other tasks of the scope: a snapshot, then again.
        loop {
            let tasks: Vec<_> = self.alive.borrow().iter().filter_map(|(_, task)| *task).collect();
            let before = tasks.len();
            for task in tasks {
                try_with(|shard| shard.clone()).into_iter().for_each(|shard| shard.cancel(task));
            }
            let after = self.alive.borrow().len();
            if after == 0 || before <= after {
                return;
            }
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

/// What became of a task.
struct Outcome<T> {
    value: Cell<Option<Result<T, Cancelled>>>,
    waker: Cell<Option<Waker>>,
}

impl<T> Outcome<T> {
    fn set(&self, value: Result<T, Cancelled>) {
        let before = self.value.replace(Some(value));
        debug_assert!(before.is_none(), "told-once: the end of a task is told again");
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Reports the end of a task, or its cancellation when dropped before.
struct Completer<T> {
    outcome: Rc<Outcome<T>>,
    done: bool,
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if !self.done {
            self.outcome.set(Err(Cancelled));
        }
    }
}

/// A task's future, and where its end is reported.
struct Reporting<F: Future> {
    future: F,
    completer: Completer<F::Output>,
}

impl<F: Future> Future for Reporting<F> {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: *pinned-with-us*: `future` is pinned with us and never moved: this is the only
        // way to it, and there is no `Drop` of `Reporting`. `completer` is never pinned.
        let (future, completer) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &mut this.completer)
        };
        debug_assert!(!completer.done, "told-once: a task is polled after its end");
        let Poll::Ready(output) = future.poll(cx) else { return Poll::Pending };
        completer.done = true;
        completer.outcome.set(Ok(output));
        Poll::Ready(())
    }
}

/// A task was dropped before it ended, with its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("task cancelled with its scope")
    }
}
impl std::error::Error for Cancelled {}

/// The result of a task. Dropping it cancels nothing: the task belongs to its scope.
pub struct JoinHandle<T> {
    outcome: Rc<Outcome<T>>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinHandle")
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Cancelled>;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.outcome.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                let is_running = 1 < Rc::strong_count(&self.outcome);
                debug_assert!(is_running, "told-once: the end of a task is awaited again");
                self.outcome.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}
