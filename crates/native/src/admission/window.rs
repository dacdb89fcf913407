//! How many requests run at once on a shard that is asked for more than it can do.
//!
//! Requests wait for other nodes and for the disk, so many have to run. But where the processor is
//! what they wait for, more of them only wait longer, here and at the nodes that they ask, until
//! nobody needs their answers any more. Whether it is shows in how late a task of their group has
//! its turn: while others find as many running as may, that is measured, and the number follows.
//!
//! Invariants
//!  - *never-closed*: at least [`RUNNING_MIN`] may run, or what the limits say if that is less.
//!  - *only-when-full*: it is measured, and changes, only while as many run as may.

use super::Admission;
use runtime::time::{Instant, sleep_until};
use std::rc::Rc;
use std::time::Duration;

/// They keep a processor busy while each of them waits for a node nearby.
pub(super) const RUNNING_MIN: usize = 128;
/// Between two measurements.
const PERIOD: Duration = Duration::from_millis(10);
/// A turn that comes later than this makes the number smaller, four times as late much smaller,
const LATE: Duration = Duration::from_millis(2);
/// and one that comes no later than this larger.
const SOON: Duration = Duration::from_millis(1);

/// How many may run after a measurement, of at most `max`.
fn next(now: usize, max: usize, late_by: Duration) -> usize {
    let min = RUNNING_MIN.min(max);
    match late_by {
        late_by if 4 * LATE < late_by => (now / 2).max(min),
        late_by if LATE < late_by => (now - now / 8).max(min),
        late_by if late_by <= SOON => (now + now / 16 + 1).min(max),
        _ => now,
    }
}

/// Follows what a shard can do. Runs in the group of its requests.
pub(crate) async fn follow(admission: Rc<Admission>) {
    loop {
        while !admission.is_full() {
            admission.filled.notified().await;
        }
        let due = Instant::now() + PERIOD;
        sleep_until(due).await;
        admission.adapt(Instant::now() - due);
    }
}

impl Admission {
    /// How many may run now.
    pub(super) fn window(&self) -> usize {
        self.limits.running_max - self.load.get().narrowed
    }

    /// Whether as many run as may.
    fn is_full(&self) -> bool {
        self.window() <= self.load.get().running
    }

    /// A task that was due had its turn so late.
    fn adapt(&self, late_by: Duration) {
        // *only-when-full*
        if !self.is_full() {
            return;
        }
        let (before, max) = (self.window(), self.limits.running_max);
        let window = next(before, max, late_by);
        assert!(RUNNING_MIN.min(max) <= window, "never-closed: {window} of {max}");
        self.change(|load| load.narrowed = max - window);
        if before < window {
            self.pump();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Turn};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_narrows_while_turns_are_late_and_widens_again() {
        let after = |mut window, late_by, times| {
            (0..times).for_each(|_| window = next(window, 2048, late_by));
            window
        };
        assert_eq!(after(2048, 3 * MS, 1), 1792);
        assert_eq!(after(2048, 9 * MS, 1), 1024);
        assert_eq!(after(2048, 3 * MS, 30), RUNNING_MIN);
        assert_eq!(after(2048, 9 * MS, 4), RUNNING_MIN);
        assert_eq!(after(500, 3 * MS / 2, 30), 500);
        assert_eq!(after(RUNNING_MIN, MS, 1), 137);
        assert_eq!(after(RUNNING_MIN, Duration::ZERO, 60), 2048);
        // *never-closed*
        assert_eq!(next(12, 12, 100 * MS), 12);
        assert_eq!(next(129, 2048, 100 * MS), RUNNING_MIN);
    }

    #[test]
    fn a_narrow_window_admits_fewer_and_a_wider_one_who_waits() {
        runtime::sim::test(1, || async {
            let admission = Admission::new(Limits::of_shard(64 << 20));
            let start = || {
                let admitted = admission.try_admit(100, &mut Turn::default());
                admitted.map(|it| it.expect("no limit is reached"))
            };
            let mut running = Vec::new();
            while let Some(mut charge) = start() {
                charge.begin();
                charge.run(100, 0).await;
                running.push(charge);
            }
            assert_eq!(running.len(), 2048);
            while RUNNING_MIN < admission.window() {
                admission.adapt(10 * MS);
            }
            // *only-when-full*: those that run go on, and nobody is admitted in their place.
            running.truncate(RUNNING_MIN);
            assert!(start().is_none(), "it is full");
            running.truncate(RUNNING_MIN - 1);
            admission.adapt(10 * MS);
            assert_eq!(admission.window(), RUNNING_MIN);
            let mut last = start().expect("one more may run");
            last.begin();
            last.run(100, 0).await;
            admission.adapt(MS);
            assert_eq!(admission.window(), 137);
            assert!(start().is_some(), "the window is wider");
        });
    }
}
