//! The algorithms by which bodies are made shorter, and which of them a body is for. Pure.
//!
//! A link has a set of them: what the dialer wishes and the acceptor takes. Which one a body is
//! compressed by is its sender's choice, for each body anew, and its header says it.
//!
//! Invariants
//!  - *agreed-algorithms*: a body travels compressed by an algorithm of its link's set, or plain.
//!  - *zstd-within-quota*: Zstandard is begun only while it has taken less than its part of the
//!    processor in this period, and in the long run; so it takes more by one body at most.

use runtime::time::Instant;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How a body with much to say is made shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compression {
    Lz4,
    Zstd,
}

impl Compression {
    /// All of them, in the order of their bits.
    pub const ALL: [Compression; 2] = [Compression::Lz4, Compression::Zstd];

    /// As options and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Compression::Lz4 => 0,
            Compression::Zstd => 1,
        }
    }

    fn bit(self) -> u8 {
        1 << self.index()
    }
}

/// A set of algorithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Algorithms(u8);

impl Algorithms {
    pub const NONE: Algorithms = Algorithms(0);
    pub const ALL: Algorithms = Algorithms(0b11);

    /// Those of both sets.
    pub fn and(self, other: Algorithms) -> Algorithms {
        Algorithms(self.0 & other.0)
    }

    pub fn has(self, one: Compression) -> bool {
        self.0 & one.bit() != 0
    }

    pub fn is_empty(self) -> bool {
        self == Algorithms::NONE
    }

    /// Whether all of these are among the others.
    pub fn is_within(self, others: Algorithms) -> bool {
        self.and(others) == self
    }

    /// As metrics call it.
    pub fn name(self) -> &'static str {
        match (self.has(Compression::Lz4), self.has(Compression::Zstd)) {
            (false, false) => "none",
            (true, false) => Compression::Lz4.name(),
            (false, true) => Compression::Zstd.name(),
            (true, true) => "lz4,zstd",
        }
    }

    /// As it travels: a bit for each.
    pub(crate) fn code(self) -> u8 {
        debug_assert!(self.is_within(Algorithms::ALL), "agreed-algorithms: {self:?}");
        self.0
    }

    pub(crate) fn from_code(code: u8) -> Option<Algorithms> {
        let known = Algorithms(code).is_within(Algorithms::ALL);
        known.then_some(Algorithms(code))
    }
}

impl From<Compression> for Algorithms {
    fn from(one: Compression) -> Algorithms {
        Algorithms(one.bit())
    }
}

impl FromIterator<Compression> for Algorithms {
    fn from_iter<T: IntoIterator<Item = Compression>>(all: T) -> Algorithms {
        Algorithms(all.into_iter().fold(0, |bits, one| bits | one.bit()))
    }
}

/// What Zstandard may be used for, where a link has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ZstdRules {
    /// The lengths of bodies that are for it.
    pub bytes: RangeInclusive<u32>,
    /// Which part of the processor it may take of each period, from 0 to 1; 1: there is no bound.
    pub fraction: f64,
    pub period: Duration,
    /// The same over [`LONG_TERM`].
    pub long_fraction: f64,
}

/// Over how long the long run is counted.
pub const LONG_TERM: Duration = Duration::from_secs(10);

impl Default for ZstdRules {
    /// It is used wherever it can be.
    fn default() -> ZstdRules {
        let period = Duration::from_millis(20);
        ZstdRules { bytes: 0..=u32::MAX, fraction: 1.0, period, long_fraction: 1.0 }
    }
}

/// What was spent of a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    began: Instant,
    spent_nanos: u64,
}

impl Default for Window {
    fn default() -> Window {
        Window { began: Instant::ZERO, spent_nanos: 0 }
    }
}

impl Window {
    /// Whether less than the fraction was spent. What was spent beyond it in the windows before is
    /// a debt of the next.
    fn has_room(&mut self, now: Instant, length: Duration, fraction: f64) -> bool {
        debug_assert!(!length.is_zero(), "zstd-within-quota: a period of nothing");
        debug_assert!(0.0 <= fraction, "zstd-within-quota: {fraction} of a period");
        debug_assert!(self.began <= now, "zstd-within-quota: a period of the future");
        if 1.0 <= fraction {
            return true;
        }
        let length_nanos = (length.as_nanos() as u64).max(1);
        let quota = (length_nanos as f64 * fraction) as u64;
        let windows = (now - self.began).as_nanos() as u64 / length_nanos;
        if 0 < windows {
            self.spent_nanos = self.spent_nanos.saturating_sub(quota.saturating_mul(windows));
            self.began = now;
        }
        self.spent_nanos < quota
    }
}

/// What Zstandard has taken of a shard's processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spending {
    now: Window,
    long: Window,
}

impl Spending {
    /// By what a body of so many bytes is compressed, over a link with these algorithms.
    pub(crate) fn choose(
        &mut self,
        link: Algorithms,
        bytes: usize,
        rules: &ZstdRules,
        now: Instant,
    ) -> Option<Compression> {
        let lz4 = link.has(Compression::Lz4).then_some(Compression::Lz4);
        let fits = u32::try_from(bytes).is_ok_and(|bytes| rules.bytes.contains(&bytes));
        let zstd = link.has(Compression::Zstd)
            && fits
            && self.now.has_room(now, rules.period, rules.fraction)
            && self.long.has_room(now, LONG_TERM, rules.long_fraction);
        let chosen = if zstd { Some(Compression::Zstd) } else { lz4 };
        debug_assert!(chosen.is_none_or(|one| link.has(one)), "agreed-algorithms: {chosen:?}");
        chosen
    }

    /// Zstandard took so long.
    pub(crate) fn spend(&mut self, nanos: u64) {
        for window in [&mut self.now, &mut self.long] {
            window.spent_nanos = window.spent_nanos.saturating_add(nanos);
            debug_assert!(nanos <= window.spent_nanos, "zstd-within-quota: {nanos} are forgotten");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_set_is_of_those_that_both_have() {
        let [lz4, zstd] = Compression::ALL.map(Algorithms::from);
        assert_eq!(Algorithms::ALL.and(zstd), zstd);
        assert_eq!(lz4.and(zstd), Algorithms::NONE);
        assert!(lz4.is_within(Algorithms::ALL) && !Algorithms::ALL.is_within(lz4));
        let names = [Algorithms::NONE, lz4, zstd, Algorithms::ALL].map(Algorithms::name);
        assert_eq!(names, ["none", "lz4", "zstd", "lz4,zstd"]);
        for code in 0..=u8::MAX {
            let expected = (code < 4).then_some(code);
            assert_eq!(Algorithms::from_code(code).map(Algorithms::code), expected);
        }
    }

    #[test]
    fn zstandard_is_for_bodies_of_a_length() {
        let rules = ZstdRules { bytes: 2000..=3000, ..ZstdRules::default() };
        let choose = |link, bytes| Spending::default().choose(link, bytes, &rules, Instant::ZERO);
        for (bytes, expected) in [(1999, Compression::Lz4), (2000, Compression::Zstd)] {
            assert_eq!(choose(Algorithms::ALL, bytes), Some(expected));
            assert_eq!(choose(Compression::Lz4.into(), bytes), Some(Compression::Lz4));
        }
        assert_eq!(choose(Algorithms::ALL, 3001), Some(Compression::Lz4));
        assert_eq!(choose(Compression::Zstd.into(), 3001), None);
        assert_eq!(choose(Algorithms::NONE, 2000), None);
    }

    #[test]
    fn without_a_part_of_the_processor_there_is_no_zstandard() {
        let rules = ZstdRules { fraction: 0.0, ..ZstdRules::default() };
        for at in [0, 1, 1 << 40] {
            let now = Instant::from_nanos(at);
            let chosen = Spending::default().choose(Algorithms::ALL, 5000, &rules, now);
            assert_eq!(chosen, Some(Compression::Lz4));
        }
    }

    proptest! {
        /// Bodies that take any time come at any time.
        #[test]
        fn zstandard_stays_within_its_quota(
            steps in proptest::collection::vec((0u64..5_000_000, 0u64..3_000_000), 1..400),
            percent in 1u32..60,
            long_percent in 1u32..100,
        ) {
            let (fraction, long) = (f64::from(percent) / 100.0, f64::from(long_percent) / 100.0);
            let rules = ZstdRules { fraction, long_fraction: long, ..ZstdRules::default() };
            let (mut spending, mut now, mut spent) = (Spending::default(), 0u64, 0u64);
            let mut longest = 0;
            for (pause, takes) in steps {
                now += pause;
                let at = Instant::from_nanos(now);
                let chosen = spending.choose(Algorithms::ALL, 5000, &rules, at);
                if chosen == Some(Compression::Zstd) {
                    spending.spend(takes);
                    (now, spent, longest) = (now + takes, spent + takes, longest.max(takes));
                }
                let period = rules.period.as_nanos() as u64;
                let quota = (now / period + 1) as f64 * period as f64 * fraction;
                prop_assert!(spent as f64 <= quota + longest as f64, "{} of {}", spent, quota);
            }
        }
    }
}
