//! How many reads may wait for the disk at the same time, so that it is busy and not more: what it
//! does in a second times how long it takes when it is not busy (Little's law), twice over.
//!
//! A decision over figures: waits go in, a bound comes out. More reads than that make nothing
//! faster; they would hold memory in the disk's queue that costs nothing in ours.

use runtime::time::Instant;
use std::time::Duration;

/// Waits are looked at together for so long.
const WINDOW: Duration = Duration::from_millis(100);
/// A window with fewer tells nothing.
const WAITS_MIN: u32 = 32;
/// Never fewer at a time: deep enough for any disk.
const DEPTH_MIN: usize = 16;
/// Windows after which a bound that no longer holds is forgotten, about.
const MEMORY_WINDOWS: f64 = 100.0;
/// How much more than the product is allowed: room to notice that the disk can do more.
const HEADROOM: f64 = 2.0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    window_start: Option<Instant>,
    waits: u32,
    waited: Duration,
    /// The most that ended in a second, of the windows so far.
    per_second: f64,
    /// The least seconds that a wait took in a window, on average.
    latency: f64,
    bound: Option<usize>,
}

impl Disk {
    /// Reads that may wait at the same time; `None`: not known yet.
    pub(super) fn bound(&self) -> Option<usize> {
        self.bound
    }

    /// A wait ended.
    pub(super) fn waited(&mut self, span: Duration, now: Instant) {
        let start = *self.window_start.get_or_insert(now);
        debug_assert!(start <= now, "a wait that ended before the window began");
        self.waits += 1;
        self.waited += span;
        let window = now - start;
        if window < WINDOW {
            return;
        }
        if WAITS_MIN <= self.waits {
            self.learn(window);
        }
        (self.window_start, self.waits, self.waited) = (Some(now), 0, Duration::ZERO);
    }

    fn learn(&mut self, window: Duration) {
        let latency = self.waited.as_secs_f64() / self.waits as f64;
        let per_second = self.waits as f64 / window.as_secs_f64();
        let fades = 1.0 / MEMORY_WINDOWS;
        self.per_second = per_second.max(self.per_second * (1.0 - fades));
        self.latency = match self.latency {
            0.0 => latency,
            before => latency.min(before * (1.0 + fades)),
        };
        debug_assert!(
            0.0 < self.per_second && 0.0 <= self.latency,
            "a rate of {}",
            self.per_second
        );
        debug_assert!(self.latency <= latency || latency == 0.0, "not the least: {}", self.latency);
        let product = self.per_second * self.latency * HEADROOM;
        self.bound = Some((product.ceil() as usize).max(DEPTH_MIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that does `depth` at a time in 100 us each, asked by at most `reads_max` reads: the
    /// bound after some seconds.
    fn settled(depth: usize, reads_max: usize) -> usize {
        let mut disk = Disk::default();
        let mut now = Instant::ZERO;
        for window in 0..300 {
            // The load comes and goes, as loads do.
            let reads = if window % 10 == 0 { 4 } else { reads_max };
            let reads = reads.min(disk.bound().unwrap_or(usize::MAX));
            let latency =
                Duration::from_micros(100).mul_f64((reads as f64 / depth as f64).max(1.0));
            let per_window = (0.1 / 100e-6 * reads.min(depth) as f64) as u32;
            for _ in 0..per_window {
                now += WINDOW / per_window;
                disk.waited(latency, now);
            }
        }
        disk.bound().expect("it was learnt")
    }

    #[test]
    fn the_bound_follows_the_disk() {
        let check = |depth, expected: std::ops::RangeInclusive<usize>| {
            let bound = settled(depth, 100);
            assert!(expected.contains(&bound), "depth {depth}: {bound}");
        };
        check(1, 16..=16);
        check(8, 16..=20);
        check(32, 60..=100);
        check(64, 100..=200);
        // A load that never fills the disk is not told to be smaller.
        assert!(10 <= settled(64, 10));
    }

    #[test]
    fn few_waits_tell_nothing() {
        let mut disk = Disk::default();
        for n in 0..100 {
            let now = Instant::ZERO + Duration::from_millis(10 * n);
            disk.waited(Duration::from_millis(1), now);
        }
        assert_eq!(disk.bound(), None);
    }
}
