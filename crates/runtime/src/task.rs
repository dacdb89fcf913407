//! What a task sees of its shard: turns, long computations, and waiting for several futures at
//! once. The scopes that own tasks are the core's.

use crate::clock::Clock;
pub use crate::core::scope::{Cancelled, JoinHandle, Scope};
use crate::core::{simulated, with};
use crate::offload::offload_to;
use std::future::Future;
use std::task::Poll;

/// Lets every other ready task of this group run once.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs work that computes for long, and can give no turn to others, on a helper thread that is
/// the process's one for this; in a simulation here and now. Dropping the future abandons the
/// result, not the work.
pub async fn compute<T, F>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if simulated().is_some() {
        return work();
    }
    offload_to(|node| &node.workers, work).await
}

/// Yields when this task has used up its quota: for the bodies of long loops.
pub async fn yield_if_needed() {
    if need_preempt() {
        yield_now().await;
    }
}

/// Whether this task has used up its quota. In a simulation: now and then.
#[inline]
pub fn need_preempt() -> bool {
    with(|shard| match &shard.clock {
        Clock::Real => shard.preempt_at.get() <= shard.clock.now_ns(),
        Clock::Virtual { .. } => shard.prng.borrow_mut().one_in(16),
    })
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
    debug_assert!(outputs.iter().all(Option::is_some), "each future has its output");
    outputs.into_iter().flatten().collect()
}
