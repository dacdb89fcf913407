//! How fast merges go: their shares of processor and disk, and a limit of bytes a second.
//!
//! Invariants
//!  - *controller*: the shares of merges follow the backlog of all tables of the shard, beside its
//!    memory: little while there is little to do, all that statements have when merges fall far
//!    behind. So under writes of one pace the backlog comes to rest where merges keep up with
//!    them, and reads are not held up more than that takes. While a table is filled with what was
//!    there before it, which somebody waits for, merges that are not far behind give way to that.
//!  - *limited*: merges ask the disk for no more bytes a second than `Pace` says, reads and writes
//!    counted: both take of what a disk can do, and whether a merge reads more than it writes is
//!    for nobody to know. A quarter of a second's worth may go at once, and what one batch takes.

use runtime::io::{IoClass, stats};
use runtime::time::Instant;
use std::cell::Cell;
use std::time::Duration;

/// So much of what is allowed a second may be asked for at once.
const BURST: Duration = Duration::from_millis(250);
/// Shares where nobody says what the most is.
const SHARES_MAX: u32 = 1000;

/// What is left of the shares while a table is filled, and the backlog up to which that holds, in
/// parts of the memory.
const GIVES_WAY: u32 = 5;
const FAR_BEHIND: f64 = 15.0;

/// How fast merges may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Their shares, whatever there is to do; 0: what the backlog asks for.
    pub static_shares: u32,
    /// Their shares at most, where the backlog decides; 0: 1000.
    pub shares_max: u32,
    /// Bytes a second that the merges of this shard may read and write; 0: any number.
    pub bytes_per_second: u64,
}

/// How merges go, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PaceStats {
    /// Bytes that are to be written until the tables of the shard have nothing to merge.
    pub backlog: f64,
    /// The same, in parts of the memory of the shard.
    pub normalized: f64,
    /// Their shares of processor and disk.
    pub shares: u32,
    /// Merges that the options of tables ask for, those included that run.
    pub pending: usize,
}

/// Shares for a backlog of so many times the memory of the shard.
fn shares_for(normalized: f64) -> u32 {
    const POINTS: [(f64, f64); 3] = [(0.0, 50.0), (1.5, 100.0), (30.0, 1000.0)];
    let at = normalized.clamp(POINTS[0].0, POINTS[2].0);
    let upper = if at <= POINTS[1].0 { 1 } else { 2 };
    let ((x0, y0), (x1, y1)) = (POINTS[upper - 1], POINTS[upper]);
    debug_assert!(x0 <= at && at <= x1, "between two points: {at}");
    (y0 + (y1 - y0) * (at - x0) / (x1 - x0)) as u32
}

impl Pace {
    /// `fills`: whether a table is being filled.
    pub(crate) fn shares(&self, normalized: f64, fills: bool) -> u32 {
        debug_assert!(!normalized.is_nan(), "controller: a backlog of {normalized}");
        if self.static_shares != 0 {
            return self.static_shares;
        }
        let most = if self.shares_max == 0 { SHARES_MAX } else { self.shares_max };
        let shares = shares_for(normalized).min(most);
        if fills && normalized < FAR_BEHIND { shares / GIVES_WAY } else { shares }
    }
}

/// What the limit of bytes a second has let through (*limited*).
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bytes that were seen to be asked for.
    seen: u64,
    /// When what was asked for so far will be within the limit.
    paid_at: Instant,
}

impl Bucket {
    /// How long to wait, now that so many bytes were asked for in all.
    fn wait(&mut self, asked: u64, per_second: u64, now: Instant) -> Duration {
        debug_assert!(self.seen <= asked, "limited: {asked} bytes after {}", self.seen);
        let bytes = asked.saturating_sub(self.seen);
        self.seen = asked;
        // Of a time in which nothing was asked for, no more than a burst is made up for.
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(BURST.as_nanos() as u64));
        let nanos = bytes as u128 * 1_000_000_000 / per_second.max(1) as u128;
        let span = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.paid_at = self.paid_at.max(earliest) + span;
        self.paid_at - now
    }
}

/// Bytes that merges have asked the disk for, in all.
fn asked() -> u64 {
    let classes = [IoClass::Compaction, IoClass::Maintenance].map(stats);
    classes.iter().map(|of| of.read_bytes + of.write_bytes).sum()
}

/// The pace of a shard's merges.
pub(crate) struct Pacer {
    pub(crate) pace: Cell<Pace>,
    bucket: Cell<Bucket>,
    pub(crate) stats: Cell<PaceStats>,
}

impl Default for Pacer {
    fn default() -> Pacer {
        Pacer {
            pace: Cell::default(),
            bucket: Cell::new(Bucket { seen: 0, paid_at: Instant::ZERO }),
            stats: Cell::default(),
        }
    }
}

impl Pacer {
    /// How long a merge has to wait after a batch.
    pub(crate) fn pause(&self) -> Duration {
        let per_second = self.pace.get().bytes_per_second;
        if per_second == 0 {
            return Duration::ZERO;
        }
        let mut bucket = self.bucket.get();
        let pause = bucket.wait(asked(), per_second, Instant::now());
        self.bucket.set(bucket);
        pause
    }

    /// Another limit counts from now on: what was asked for before is paid for.
    pub(crate) fn set(&self, pace: Pace) {
        if self.pace.replace(pace).bytes_per_second != pace.bytes_per_second {
            self.bucket.set(Bucket { seen: asked(), paid_at: Instant::now() });
        }
    }

    pub(crate) fn stats(&self) -> PaceStats {
        self.stats.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rise_with_the_backlog() {
        for (normalized, shares) in
            [(0.0, 50), (0.75, 75), (1.5, 100), (15.75, 550), (30.0, 1000), (1e9, 1000)]
        {
            assert_eq!(Pace::default().shares(normalized, false), shares, "{normalized}");
        }
        let all = |pace: Pace, fills| [0.0, 14.9, 30.0].map(|backlog| pace.shares(backlog, fills));
        assert_eq!(all(Pace::default(), true), [10, 104, 1000], "those far behind go on");
        let limited = Pace { shares_max: 200, ..Pace::default() };
        assert_eq!(all(limited, false), [50, 200, 200]);
        assert_eq!(all(limited, true), [10, 40, 200]);
        let fixed = Pace { static_shares: 300, ..limited };
        assert_eq!(all(fixed, true), [300; 3], "an operator knows better");
    }

    #[test]
    fn what_is_asked_for_too_early_is_waited_for() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut bucket = Bucket { seen: 0, paid_at: Instant::ZERO };
        // Bytes asked for in all, allowed a second, at which millisecond; how long to wait.
        for (asked, per_second, now, wait) in [
            // A quarter of a second's worth is free after a rest.
            (250, 1000, 20_000, 0),
            (500, 1000, 20_000, 250),
            (500, 1000, 20_100, 150),
            (2500, 1000, 20_250, 2000),
            (2500, 1000, 22_250, 0),
            (2600, 1000, 22_300, 50),
            (2600, 1000, 90_000, 0),
            (2601, 1, 90_000, 750),
        ] {
            let waits = bucket.wait(asked, per_second, at(now));
            assert_eq!(waits, Duration::from_millis(wait), "{asked} at {now}");
        }
    }
}
