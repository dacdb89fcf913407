//! Clocks and timers: virtual in a simulation.
//!
//! Invariants
//!  - *never-early*: a sleep ends at its deadline or after it.

use crate::clock::Clock;
use crate::core::wheel::TimerKey;
use crate::core::{now_ns, ticks, try_with, with};
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A point of the monotonic clock, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The start of the clock.
    pub const ZERO: Instant = Instant(0);

    /// Now.
    pub fn now() -> Instant {
        Instant(now_ns())
    }

    /// An instant from its nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since the start of the clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago this was; zero for the future.
    pub fn elapsed(self) -> Duration {
        Instant::now() - self
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}
impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}
impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, span: Duration) -> Instant {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_sub(nanos))
    }
}
impl Sub for Instant {
    type Output = Duration;
    /// The time from `earlier` to `self`; zero when `earlier` is later.
    fn sub(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The begin of a span that ends on the same shard, for a few instructions: where the processor has
/// a counter that tells time, no clock of the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Mark {
    /// Now.
    #[inline]
    pub fn now() -> Mark {
        Mark(ticks::mark())
    }

    /// Nanoseconds since then.
    #[inline]
    pub fn elapsed_nanos(self) -> u64 {
        ticks::since(self.0)
    }
}

/// Microseconds since 1970 by the wall clock, which may jump.
pub fn wall_micros() -> i64 {
    try_with(|shard| shard.clock.wall_micros()).unwrap_or_else(|| Clock::Real.wall_micros())
}

/// Waits for `span`. Wakes up to 0.07 ms late, never early.
pub fn sleep(span: Duration) -> Sleep {
    sleep_until(Instant::now() + span)
}

/// Waits until `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, timer: None }
}

/// The future of [`sleep`]: owns one slot of the shard's timer wheel while it waits.
#[derive(Debug)]
#[must_use = "a sleep does nothing unless awaited"]
pub struct Sleep {
    deadline: Instant,
    timer: Option<TimerKey>,
}

impl Sleep {
    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        with(|shard| {
            let mut wheel = shard.wheel.borrow_mut();
            if let Some(timer) = self.timer {
                if wheel.refresh(timer, cx.waker()) {
                    return Poll::Pending;
                }
                debug_assert!(self.deadline.0 <= shard.clock.now_ns(), "never-early");
                self.timer = None;
                return Poll::Ready(());
            }
            if self.deadline.0 <= shard.clock.now_ns() {
                return Poll::Ready(());
            }
            self.timer = Some(wheel.arm(self.deadline.0, cx.waker().clone()));
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            try_with(|shard| shard.wheel.borrow_mut().cancel(timer));
        }
    }
}

/// A wait that reached its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline elapsed")
    }
}
impl std::error::Error for Elapsed {}

/// Runs `future` for at most `span` from when it first waits; it is dropped when the time is over.
/// One that never waits costs no look at the clock.
pub fn timeout<F: Future>(span: Duration, future: F) -> Timeout<F> {
    Timeout { future: Some(future), span, limit: None }
}

pin_project! {
    /// The future of [`timeout`]: no larger than what it runs and its limit, for it is made in its
    /// place. An `async fn` has room for what it is given and for what it waits for.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Timeout<F> {
        // Until it has ended.
        #[pin]
        future: Option<F>,
        span: Duration,
        limit: Option<Sleep>,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let future = this.future.as_mut().as_pin_mut().expect("a timeout is polled after its end");
        let ended = match future.poll(cx) {
            Poll::Ready(output) => Ok(output),
            Poll::Pending => {
                let limit = this.limit.get_or_insert_with(|| sleep(*this.span));
                ready!(Pin::new(limit).poll(cx));
                Err(Elapsed)
            }
        };
        this.future.set(None);
        *this.limit = None;
        Poll::Ready(ended)
    }
}
