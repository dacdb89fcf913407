//! How fast data may move beside clients: by what these wait for. Pure.
//!
//! What the slowest hundredth of their requests takes in a window is compared with what it took
//! before data moved. Where it takes longer, what moves gives way.
//!
//! Invariants
//!  - *clients-first*: while clients wait for longer than [`limit`] says, each window allows what
//!    moves less than the one before, down to [`RATE_MIN`].
//!  - *idle-is-free*: where no client asks for anything, nothing is bounded.
//!  - *goes-on*: what moves may always do so at [`RATE_MIN`].
//!  - *not-by-us*: what clients wait for at [`RATE_MIN`], for long, is not due to what moves; it is
//!    what is compared with from then on.

/// Reads and writes.
pub(super) const KINDS: usize = 2;
/// Bytes a second at least.
pub(super) const RATE_MIN: u64 = 8 << 20;
/// Bytes a second to begin with, where clients ask for something.
const RATE_FIRST: u64 = 32 << 20;
/// Nothing moves so many bytes a second: from here on there is no bound.
const RATE_MAX: u64 = 4 << 30;
/// So many requests tell what a hundredth of them takes.
const REQUESTS_MIN: u64 = 100;
/// So many windows in a row at the least rate are long (*not-by-us*).
const WINDOWS_MAX: u32 = 100;
/// What is not told apart, in nanoseconds.
const SLACK: u64 = 100_000;

/// What clients waited for, of one kind of request, in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Felt {
    pub(super) requests: u64,
    /// What 99 of a hundred did not exceed, in nanoseconds.
    pub(super) p99: u64,
}

impl Felt {
    /// Whether it says anything.
    pub(super) fn tells(&self) -> bool {
        REQUESTS_MIN <= self.requests
    }
}

/// What clients may wait for beside data that move, of what they waited for before.
fn limit(calm: u64) -> u64 {
    calm.saturating_add(calm / 4).saturating_add(SLACK)
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Governor {
    /// Bytes a second.
    rate: u64,
    /// What each kind took before data moved; 0: not known.
    calm: [u64; KINDS],
    /// Windows in a row at the least rate in which clients waited for too long.
    windows: u32,
}

impl Governor {
    /// Data begin to move: what clients have waited for until then.
    pub(super) fn new(before: [Felt; KINDS]) -> Governor {
        let calm = before.map(|felt| if felt.tells() { felt.p99.max(1) } else { 0 });
        let rate = if calm == [0; KINDS] { RATE_MAX } else { RATE_FIRST };
        Governor { rate, calm, windows: 0 }
    }

    /// Data move again, soon after others.
    pub(super) fn again(&self, before: [Felt; KINDS]) -> Governor {
        let mut next = Governor::new(before);
        for (calm, known) in next.calm.iter_mut().zip(self.calm) {
            if known != 0 && (*calm == 0 || known < *calm) {
                *calm = known;
            }
        }
        let mut kinds = next.calm.iter().zip(self.calm);
        let is_strict = kinds.all(|(calm, known)| known == 0 || (0 < *calm && *calm <= known));
        debug_assert!(is_strict, "clients-first: {next:?} after {self:?}");
        next
    }

    /// Bytes a second that may move; `None`: as many as can.
    pub(super) fn rate(&self) -> Option<u64> {
        assert!(RATE_MIN <= self.rate, "goes-on: {} bytes a second", self.rate);
        (self.rate < RATE_MAX).then_some(self.rate)
    }

    /// A window has passed in which so many bytes a second moved.
    pub(super) fn look(&mut self, felt: [Felt; KINDS], moved: u64) {
        let (before, mut over, mut far) = (self.rate, false, false);
        for (felt, calm) in felt.iter().zip(&mut self.calm).filter(|(felt, _)| felt.tells()) {
            if *calm == 0 {
                *calm = felt.p99.max(1);
            }
            over |= limit(*calm) < felt.p99;
            far |= limit(*calm).saturating_mul(2) < felt.p99;
        }
        let asked = felt.iter().any(Felt::tells);
        self.rate = match (asked, over) {
            (false, _) => before.saturating_mul(2),
            (true, true) => before.min(moved) / 4 * if far { 2 } else { 3 },
            // What something else bounds says nothing of more.
            (true, false) if moved < before / 2 => before,
            (true, false) => before + before / 8,
        };
        self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
        debug_assert!(!over || self.rate < before || before == RATE_MIN, "clients-first: {self:?}");
        debug_assert!(asked || before <= self.rate, "idle-is-free: {self:?}");
        self.windows = if over && before == RATE_MIN { self.windows + 1 } else { 0 };
        if WINDOWS_MAX <= self.windows {
            self.windows = 0;
            for (felt, calm) in felt.iter().zip(&mut self.calm).filter(|(felt, _)| felt.tells()) {
                *calm = felt.p99.max(*calm);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn felt(requests: u64, p99: u64) -> [Felt; KINDS] {
        [Felt { requests, p99 }, Felt::default()]
    }

    #[test]
    fn where_nobody_asks_nothing_is_bounded() {
        let mut governor = Governor::new(felt(0, 0));
        assert_eq!(governor.rate(), None);
        governor.look(felt(99, 1_000_000_000), 500 * MIB);
        assert_eq!(governor.rate(), None);
        let mut governor = Governor::new(felt(1000, 1_000_000));
        assert_eq!(governor.rate(), Some(RATE_FIRST));
        (0..10).for_each(|_| governor.look(felt(0, 0), 0));
        assert_eq!(governor.rate(), None, "clients have gone");
    }

    #[test]
    fn who_comes_meanwhile_is_compared_with_what_it_felt_first() {
        let mut governor = Governor::new(felt(0, 0));
        governor.look(felt(1000, 2_000_000), 500 * MIB);
        assert_eq!(governor.rate(), None);
        governor.look(felt(1000, 4_000_000), 500 * MIB);
        assert_eq!(governor.rate(), Some(375 * MIB));
        governor.look(felt(1000, 40_000_000), 375 * MIB);
        assert_eq!(governor.rate(), Some(375 * MIB / 2));
    }

    #[test]
    fn what_others_slow_down_is_not_waited_for() {
        let mut governor = Governor::new(felt(1000, 1_000_000));
        let mut look = |windows, p99| {
            (0..windows).for_each(|_| governor.look(felt(1000, p99), RATE_MIN));
            governor.rate()
        };
        assert_eq!(look(WINDOWS_MAX / 2, 9_000_000), Some(RATE_MIN));
        let rate = look(WINDOWS_MAX, 9_000_000);
        assert!(rate.is_some_and(|rate| RATE_MIN < rate), "{rate:?}");
        assert_eq!(look(WINDOWS_MAX / 2, 90_000_000), Some(RATE_MIN));
    }

    #[test]
    fn what_was_felt_before_counts_again() {
        let mut governor = Governor::new(felt(1000, 1_000_000)).again(felt(1000, 50_000_000));
        governor.look(felt(1000, 2_000_000), RATE_FIRST);
        assert_eq!(governor.rate(), Some(RATE_FIRST / 4 * 3));
        let governor = Governor::new(felt(1000, 1_000_000)).again(felt(0, 0));
        assert_eq!((governor.rate(), governor.calm), (None, [1_000_000, 0]));
    }

    proptest! {
        /// Clients wait for longer the faster data move, from some rate on.
        #[test]
        fn what_moves_finds_the_rate_that_clients_do_not_feel(
            calm in 200_000u64..20_000_000,
            from in RATE_MIN / MIB..400,
            slope in 1u64..100,
            link in 50u64..2000,
        ) {
            let mut governor = Governor::new(felt(1000, calm));
            let mut last = Vec::new();
            for window in 0..400 {
                let moved = governor.rate().unwrap_or(u64::MAX).min(link * MIB);
                let beyond = (moved / MIB).saturating_sub(from);
                let p99 = calm + calm / 1000 * slope * beyond;
                governor.look(felt(1000, p99), moved);
                if 300 <= window {
                    last.push((p99, moved));
                }
            }
            let over = last.iter().filter(|(p99, _)| limit(calm) < *p99).count();
            let slowest = last.iter().all(|(_, moved)| *moved <= RATE_MIN * 9 / 8);
            prop_assert!(over <= 50 || slowest, "{over} of {last:?}");
            let fastest = last.iter().map(|(_, moved)| *moved).max();
            let least = (from.min(link) * MIB / 4 * 3).max(RATE_MIN);
            prop_assert!(Some(least) <= fastest, "{fastest:?} of {least}");
        }
    }
}
