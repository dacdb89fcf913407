//! Tasks and the scopes that own them.
//!
//! Invariants
//!  - *owned-tasks*: every task belongs to a [`Scope`]; when the scope goes, its tasks go.
//!  - *inherited-group*: a task runs in the group of whoever spawned it, unless told otherwise.

use crate::group::Group;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Owns tasks. Dropping it cancels them: their futures are dropped where they stand.
#[derive(Debug)]
pub struct Scope {}

impl Scope {
    /// An empty scope on this shard.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Scope {
        Scope {}
    }

    /// Starts a task in the caller's group. Two allocations.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_in(crate::group::current(), future)
    }

    /// Starts a task in `group`.
    pub fn spawn_in<F>(&self, group: Group, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let _ = (group, future);
        todo!()
    }

    /// The number of tasks that have not ended.
    pub fn task_count(&self) -> usize {
        todo!()
    }

    /// Waits until every task has ended, those spawned meanwhile included.
    pub async fn join(&self) {
        todo!()
    }

    /// Drops every task, and waits for the one that is running this very call, if so.
    pub async fn cancel(&self) {
        todo!()
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
#[derive(Debug)]
pub struct JoinHandle<T> {
    marker: PhantomData<T>,
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Cancelled>;
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        todo!()
    }
}

/// Lets every other ready task of this group run once.
pub async fn yield_now() {
    todo!()
}

/// Yields when this task has used up its quota: for the bodies of long loops.
pub async fn yield_if_needed() {
    if need_preempt() {
        yield_now().await;
    }
}

/// Whether this task has used up its quota. In a simulation: now and then.
pub fn need_preempt() -> bool {
    todo!()
}

/// What ended first of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first future ended.
    Left(A),
    /// The second future ended.
    Right(B),
}

/// Runs both until one ends; the other is dropped. When both are ready, the first wins.
pub async fn race<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Either::Left(output)),
        Poll::Pending => b.as_mut().poll(cx).map(Either::Right),
    })
    .await
}

/// Runs both to their ends, in this task.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut left, mut right) = (None, None);
    std::future::poll_fn(|cx| {
        if left.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(cx)
        {
            left = Some(output);
        }
        if right.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(cx)
        {
            right = Some(output);
        }
        if left.is_some() && right.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    match (left, right) {
        (Some(left), Some(right)) => (left, right),
        _ => unreachable!("both ended"),
    }
}

/// Runs all futures to their ends, in this task; the outputs keep their order. For tens, not
/// thousands: each wake polls all that have not ended.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|f| Some(Box::pin(f))).collect();
    let mut outputs: Vec<_> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        let mut left = 0;
        for (slot, output) in running.iter_mut().zip(&mut outputs) {
            let Some(future) = slot else { continue };
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => {
                    *output = Some(value);
                    *slot = None;
                }
                Poll::Pending => left += 1,
            }
        }
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
