//! How often a shard looks for work while much of it comes.
//!
//! A shard that is done with what came sleeps until more does. Where a client keeps its own
//! processor busy and much is under way, the next request comes at once: then the shard is woken
//! for every one or two, and waking, reading and answering costs several times what executing
//! does. Under such a load it may rest for a while ([`crate::Config::rest`]) before it looks
//! again, and take what came meanwhile together, as network cards hold their interrupts back.
//!
//! Invariants
//!  - *worth-a-rest*: a shard rests only while [`RATE_MIN`] requests come in a second.
//!  - *costs-nobody*: it rests only as long as no fewer requests come with rests than without, but
//!    for one in [`LOSS_MAX`]; to know that, it does otherwise in one window of
//!    [`WINDOWS_PER_TRIAL`].
//!  - *never-when-busy*: only a shard that has nothing to do rests, and none that other shards or
//!    threads have turned to lately.

use crate::core::with;
use std::cell::Cell;
use std::time::Duration;

/// Requests in a second.
const RATE_MIN: u64 = 80_000;
/// What came is counted for so long.
const WINDOW: Duration = Duration::from_millis(2);
/// Of so many windows one is a trial of the other way.
const WINDOWS_PER_TRIAL: u32 = 32;
/// One request of so many may be missing for the sake of rests.
const LOSS_MAX: u64 = 20;

/// What came lately.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// How long a rest is; zero: there are none.
    rest: Duration,
    /// Of the present window.
    requests: Cell<u64>,
    /// Whether others turned to the shard in it.
    disturbed: Cell<bool>,
    since_ns: Cell<u64>,
    /// Whether it rests in the present window.
    rests: Cell<bool>,
    windows: Cell<u32>,
    /// Requests per second without rests and with them, lately; 0: not known.
    rates: Cell<[u64; 2]>,
}

impl Pace {
    /// With rests of that length.
    pub(crate) fn new(rest: Duration) -> Pace {
        Pace { rest, ..Pace::default() }
    }

    /// Another shard or thread has asked or answered something.
    pub(crate) fn disturb(&self) {
        self.disturbed.set(true);
    }

    /// How long the shard, which has nothing to do, rests at least.
    pub(crate) fn rest(&self, now_ns: u64) -> Option<Duration> {
        if self.rest.is_zero() {
            return None;
        }
        let passed_ns = now_ns.saturating_sub(self.since_ns.get());
        if WINDOW.as_nanos() as u64 <= passed_ns {
            self.judge(passed_ns);
            self.since_ns.set(now_ns);
        }
        self.rests.get().then_some(self.rest)
    }

    /// A window has ended.
    fn judge(&self, passed_ns: u64) {
        let rate = self.requests.take() * 1_000_000_000 / passed_ns;
        let rested = self.rests.replace(false);
        let mut rates = self.rates.take();
        if self.disturbed.take() || 2 * WINDOW.as_nanos() as u64 <= passed_ns {
            return; // The latter: it was busy all the time, or nothing came for long.
        }
        let mine = &mut rates[rested as usize];
        *mine = if *mine == 0 { rate } else { (3 * *mine + rate) / 4 };
        let is_fast = RATE_MIN <= rate;
        if is_fast || rested {
            self.rates.set(rates);
        }
        if !is_fast {
            return;
        }
        let [without, with] = rates;
        let good = with == 0 || without * (LOSS_MAX - 1) <= with * LOSS_MAX;
        self.windows.set(self.windows.get().wrapping_add(1));
        let is_trial = self.windows.get().is_multiple_of(WINDOWS_PER_TRIAL);
        self.rests.set(good != is_trial);
    }
}

/// Tells this shard that so many requests of clients came.
pub fn came(requests: u64) {
    with(|shard| shard.pace.requests.set(shard.pace.requests.get() + requests));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays so many windows with what comes in each of them: without rests, with them. In how
    /// many of them the shard rested.
    fn play(pace: &Pace, windows: u64, without: u64, with: u64) -> u64 {
        let mut rested = 0;
        for _ in 0..windows {
            pace.requests.set(if pace.rests.get() { with } else { without });
            let now_ns = pace.since_ns.get() + WINDOW.as_nanos() as u64;
            rested += pace.rest(now_ns).is_some() as u64;
        }
        rested
    }

    #[test]
    fn a_shard_rests_where_that_costs_nobody() {
        let check = |without, with, rested: std::ops::RangeInclusive<u64>| {
            let pace = Pace::new(Duration::from_micros(200));
            pace.rest(1 << 40);
            let seen = play(&pace, 320, without, with);
            assert!(rested.contains(&seen), "{without} and {with} a window: rested in {seen}");
        };
        // 80 000 in a second are 160 in a window.
        check(159, 159, 0..=0);
        check(160, 160, 305..=312);
        check(1_000, 990, 305..=312);
        // Clients that wait for single answers: rests would slow them down.
        check(400, 200, 8..=12);
        check(400, 100, 8..=12);
    }

    #[test]
    fn without_a_length_there_are_no_rests() {
        assert_eq!(play(&Pace::default(), 100, 1_000, 1_000), 0);
    }

    #[test]
    fn rests_end_with_the_load() {
        let pace = Pace::new(Duration::from_micros(200));
        pace.rest(1 << 40);
        assert!(0 < play(&pace, 10, 500, 500));
        assert_eq!(play(&pace, 10, 20, 20), 0);
        assert!(0 < play(&pace, 10, 500, 500));
        pace.disturb();
        assert_eq!(play(&pace, 1, 500, 500), 0);
        assert!(0 < play(&pace, 10, 500, 500));
        // A shard that comes to its end late is busy.
        pace.requests.set(5_000);
        assert_eq!(pace.rest(pace.since_ns.get() + 3 * WINDOW.as_nanos() as u64), None);
    }
}
