//! Failed logins of a shard, by address.
//!
//! Invariants
//!  - *slower-with-each*: each failed login of an address is answered later than the one before, so
//!    guessing a password over the network is slow; a successful login never waits.

use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::Duration;
use stdx::HashMap;

/// Addresses whose failures are remembered at most.
const ADDRESSES_MAX: usize = 4096;
/// After so long without a failure the delay of an address is reset.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// How long the answer to a first failure is held back, and to many.
const DELAY_MIN: Duration = Duration::from_millis(20);
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Failed logins of a shard, by address.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins {
    by_address: RefCell<HashMap<IpAddr, (u32, Instant)>>,
    count: Cell<u64>,
}

impl FailedLogins {
    /// Counts a failure; how long its answer is held back (*slower-with-each*).
    pub(crate) fn add(&self, address: IpAddr, now: Instant) -> Duration {
        self.count.set(self.count.get() + 1);
        let mut known = self.by_address.borrow_mut();
        if ADDRESSES_MAX <= known.len() && !known.contains_key(&address) {
            known.retain(|_, (_, last)| now - *last < FORGOTTEN_AFTER);
            if ADDRESSES_MAX <= known.len() {
                // Many guess at once: all of them are slow.
                return DELAY_MAX;
            }
        }
        let (count, last) = known.entry(address).or_insert((0, now));
        if FORGOTTEN_AFTER <= now - *last {
            *count = 0;
        }
        (*count, *last) = (*count + 1, now);
        let doublings = (*count - 1).min(16);
        DELAY_MIN.saturating_mul(1 << doublings).min(DELAY_MAX)
    }

    /// How many logins have failed.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_again_waits_longer() {
        runtime::testing::block_on_with(runtime::Config::new(1), || async {
            let (failures, start) = (FailedLogins::default(), Instant::now());
            let address = |last| IpAddr::from([10, 0, 0, last]);
            let delays = (0..10).map(|_| failures.add(address(1), start).as_millis());
            let delays: Vec<u128> = delays.collect();
            assert_eq!(delays, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000, 2000]);
            assert_eq!(failures.add(address(2), start), DELAY_MIN);
            let later = start + FORGOTTEN_AFTER;
            assert_eq!(failures.add(address(1), later), DELAY_MIN);
            assert_eq!(failures.count(), 12);
        });
    }

    #[test]
    fn addresses_are_bounded() {
        runtime::testing::block_on_with(runtime::Config::new(1), || async {
            let (failures, start) = (FailedLogins::default(), Instant::now());
            let address = |index: usize| IpAddr::from((index as u32).to_be_bytes());
            for index in 0..ADDRESSES_MAX {
                failures.add(address(index), start);
            }
            assert_eq!(failures.add(address(ADDRESSES_MAX), start), DELAY_MAX);
            assert_eq!(failures.by_address.borrow().len(), ADDRESSES_MAX);
            let later = start + FORGOTTEN_AFTER;
            assert_eq!(failures.add(address(ADDRESSES_MAX), later), DELAY_MIN);
            assert_eq!(failures.by_address.borrow().len(), 1);
        });
    }
}
