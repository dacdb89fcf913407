//! How fast a node takes data that move, where an operator bounds it.
//!
//! Invariants
//!  - *as-slow-as-told*: a node takes no more in any time than the option allows in it, and what it
//!    allows in a second.
//!
//! Lives on shard 0, which takes what moves.

use crate::hints::decide::Throttle;
use cluster::settings::{Live, Rule, Settings};
use runtime::time::{Instant, sleep};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const NAME: &str = "stream_io_throughput_mb_per_sec";
const MIB_MAX: i64 = 1 << 30;

/// The option of a shard. Stands in `runtime::local`.
pub struct Pace {
    mib_per_second: Live<i64>,
    throttle: RefCell<Throttle>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { mib_per_second: Live::fixed(0), throttle: RefCell::default() }
    }
}

impl Pace {
    /// Registers the option; 0: no bound.
    pub fn registered(settings: &Settings) -> Pace {
        let bound: Rule<i64> = |mib| match (0..=MIB_MAX).contains(mib) {
            true => Ok(()),
            false => Err("not a number of MiB a second, from 0 on".to_owned()),
        };
        Pace { mib_per_second: settings.register(NAME, 0, bound), throttle: RefCell::default() }
    }

    /// The option is obeyed on this shard from now on.
    pub fn provide() {
        let registered = Pace::registered(&Settings::of_shard());
        debug_assert!(0 <= registered.mib_per_second.get(), "as-slow-as-told: less than nothing");
        runtime::local::set(Rc::new(registered));
    }

    /// So much was taken: how long to wait before more is.
    fn take(&self, bytes: u64) -> Duration {
        let rate = self.mib_per_second.get().unsigned_abs() << 20;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let wait = self.throttle.borrow_mut().take(bytes, rate, Instant::now().as_nanos());
        debug_assert!(0 < rate || wait.is_zero(), "as-slow-as-told: {wait:?} without a bound");
        wait
    }
}

/// So much was taken; waits until more may be.
pub(super) async fn keep(bytes: u64) {
    debug_assert!(runtime::shard_id() == 0, "as-slow-as-told: another shard takes");
    let wait = runtime::local::get_or_default::<Pace>().take(bytes);
    if !wait.is_zero() {
        stdx::probe!("what moves waits for its pace");
        sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_second_of_it_waits() {
        for (mib, blocks, expected) in [(1, 12, 2), (1, 4, 0), (4, 24, 0), (4, 40, 1), (0, 99, 0)] {
            runtime::sim::test(1, move || async move {
                runtime::local::set(Rc::new(Pace {
                    mib_per_second: Live::fixed(mib),
                    throttle: RefCell::default(),
                }));
                let begun = Instant::now();
                for _ in 0..blocks {
                    keep(256 << 10).await;
                }
                let took = (Instant::now() - begun).as_millis() as u64;
                let most = 1000 * expected + 600;
                assert!((1000 * expected..=most).contains(&took), "{mib} {blocks}: {took} ms");
            });
        }
    }
}
