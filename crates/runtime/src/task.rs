//! What a task sees of its shard: turns, long computations, and waiting for several futures at
//! once. The scopes that own tasks are the core's.

use crate::clock::Clock;
pub use crate::core::scope::{Cancelled, JoinHandle, Scope};
use crate::core::{simulated, with};
use crate::offload::offload_to;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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
pub fn race<A: Future, B: Future>(a: A, b: B) -> Race<A, B> {
    Race { both: Some(Both { a, b }) }
}

pin_project! {
    /// The future of [`race`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Race<A, B> {
        // Until one has ended.
        #[pin]
        both: Option<Both<A, B>>,
    }
}

pin_project! {
    #[derive(Debug)]
    struct Both<A, B> {
        #[pin]
        a: A,
        #[pin]
        b: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let both = this.both.as_mut().as_pin_mut().expect("a race is polled after its end");
        let both = both.project();
        let ended = match both.a.poll(cx) {
            Poll::Ready(output) => Either::Left(output),
            Poll::Pending => Either::Right(ready!(both.b.poll(cx))),
        };
        this.both.set(None);
        Poll::Ready(ended)
    }
}

/// Runs both to their ends, in this task.
pub fn join<A: Future, B: Future>(a: A, b: B) -> Join<A, B> {
    Join { a: Some(a), b: Some(b), left: None, right: None }
}

pin_project! {
    /// The future of [`join`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Join<A: Future, B: Future> {
        // Each until it has ended.
        #[pin]
        a: Option<A>,
        #[pin]
        b: Option<B>,
        left: Option<A::Output>,
        right: Option<B::Output>,
    }
}

impl<A: Future, B: Future> Future for Join<A, B> {
    type Output = (A::Output, B::Output);

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        debug_assert!(this.a.is_some() || this.b.is_some(), "both futures of a join have ended");
        poll_once(this.a.as_mut(), this.left, cx);
        poll_once(this.b.as_mut(), this.right, cx);
        match (this.left.take(), this.right.take()) {
            (Some(left), Some(right)) => Poll::Ready((left, right)),
            (left, right) => {
                (*this.left, *this.right) = (left, right);
                Poll::Pending
            }
        }
    }
}

/// Polls a future that has not ended; one that ends is dropped, and its output kept.
fn poll_once<F: Future>(
    mut future: Pin<&mut Option<F>>,
    output: &mut Option<F::Output>,
    cx: &mut Context<'_>,
) {
    if let Some(going_on) = future.as_mut().as_pin_mut()
        && let Poll::Ready(ended) = going_on.poll(cx)
    {
        *output = Some(ended);
        future.set(None);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::timeout;
    use std::cell::Cell;
    use std::future::{pending, poll_fn};
    use std::task::Waker;
    use std::time::Duration;

    /// A future that holds so many bytes while it waits, and tells of its end.
    async fn holds(ended: &Cell<u32>) -> u8 {
        struct Tells<'a>(&'a Cell<u32>);
        impl Drop for Tells<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let (_tells, bytes) = (Tells(ended), [7; 1000]);
        let mut seen = false;
        poll_fn(|_| match std::mem::replace(&mut seen, true) {
            false => Poll::Pending,
            true => Poll::Ready(()),
        })
        .await;
        bytes[999]
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn what_is_waited_for_together_has_room_once() {
        let ended = Cell::new(0);
        let one = size_of_val(&holds(&ended));
        let two = size_of_val(&race(holds(&ended), holds(&ended)));
        assert!(two <= 2 * one + 64, "{two} bytes for two futures of {one}");
        let two = size_of_val(&join(holds(&ended), holds(&ended)));
        assert!(two <= 2 * one + 64, "{two} bytes for two futures of {one}");
        let limited = size_of_val(&timeout(Duration::from_secs(1), holds(&ended)));
        assert!(limited <= one + 64, "{limited} bytes for a future of {one}");
    }

    #[test]
    fn futures_are_dropped_when_the_result_is_there() {
        let ended = Cell::new(0);
        let mut both = std::pin::pin!(race(holds(&ended), async {
            let _held = holds(&ended).await;
            pending::<()>().await;
        }));
        assert_eq!(poll(both.as_mut()), Poll::Pending);
        assert_eq!(poll(both.as_mut()), Poll::Ready(Either::Left(7)));
        // The second has been polled once only.
        assert_eq!(ended.get(), 2, "both are dropped while the race is there");

        ended.set(0);
        let mut both = std::pin::pin!(join(holds(&ended), async { 5 }));
        assert_eq!(poll(both.as_mut()), Poll::Pending);
        assert_eq!(poll(both.as_mut()), Poll::Ready((7, 5)));
        assert_eq!(ended.get(), 1);
    }
}
