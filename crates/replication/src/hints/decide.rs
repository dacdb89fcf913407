//! What may be kept, what is still worth sending, and how fast. Pure.
//!
//! Invariants
//!  - *within-window*: for a node that has been down for longer than the window, and for data
//!    centers that have none, nothing is kept.
//!  - *bounded*: what waits to be written, and what is on the disk, stays within its bounds.
//!  - *not-too-old*: nothing is sent to a replica that may have forgotten what was deleted
//!    meanwhile: not when it is as old as the `gc_grace_seconds` of its table, not of a table that
//!    is no more, and not from before a truncation.
//!  - *as-slow-as-told*: over any time, what is sent is at most the rate times that time, and a
//!    second's worth.

use super::form;
use model::TableSchema;
use std::fmt;
use std::time::Duration;

/// For whom hints are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Enabled {
    No,
    #[default]
    Everywhere,
    /// For nodes of these data centers.
    In(Vec<String>),
}

impl Enabled {
    /// As the option has it: true, false, or data centers by commas.
    pub fn parse(text: &str) -> Result<Enabled, String> {
        match text.trim() {
            "true" | "1" => return Ok(Enabled::Everywhere),
            "false" | "0" => return Ok(Enabled::No),
            _ => {}
        }
        let names: Vec<String> =
            text.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect();
        let is_name = |name: &String| !name.is_empty() && !name.chars().any(char::is_control);
        match names.iter().all(is_name) {
            true => Ok(Enabled::In(names)),
            false => Err("neither true, false, nor data centers".to_owned()),
        }
    }
}

impl fmt::Display for Enabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Enabled::No => f.write_str("false"),
            Enabled::Everywhere => f.write_str("true"),
            Enabled::In(names) => f.write_str(&names.join(",")),
        }
    }
}

/// What bounds a shard's hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long a node may be down until nothing more is kept for it.
    pub window: Duration,
    /// Bytes that wait to be written.
    pub in_progress: usize,
    /// Bytes on the disk.
    pub on_disk: u64,
}

/// How it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Whether hints are kept for that node at all.
    pub is_enabled: bool,
    /// How long it has been down, if it is.
    pub down_for: Option<Duration>,
    pub in_progress: usize,
    pub on_disk: u64,
}

/// Why a hint is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    Disabled,
    /// The node has been down for too long.
    OutOfWindow,
    /// It is larger than any hint.
    TooLarge,
    /// Too much waits to be written.
    Crowded,
    /// The disk has enough of them.
    OverQuota,
    /// It would be too old at once.
    NotKept,
}

/// Whether a hint of a request of so many bytes may be written now.
pub fn may_keep(request: usize, bounds: &Bounds, now: &Now) -> Result<(), Denied> {
    let bytes = request + form::OVERHEAD;
    if !now.is_enabled {
        return Err(Denied::Disabled);
    }
    if now.down_for.is_some_and(|down| bounds.window < down) {
        return Err(Denied::OutOfWindow);
    }
    if form::REQUEST_BYTES_MAX < request {
        return Err(Denied::TooLarge);
    }
    // A large one has its turn when it is alone.
    if 0 < now.in_progress && bounds.in_progress < now.in_progress.saturating_add(bytes) {
        return Err(Denied::Crowded);
    }
    let waiting = now.in_progress.saturating_add(bytes) as u64;
    match now.on_disk.saturating_add(waiting) <= bounds.on_disk {
        true => Ok(()),
        false => Err(Denied::OverQuota),
    }
}

/// For how many seconds what was written to a table may come late: while nobody forgets what was
/// deleted there. Of a log of changes nothing is deleted, and its rows say when they expire, though
/// it has no grace.
pub fn grace_of(table: &TableSchema) -> i32 {
    debug_assert!(0 <= table.options.gc_grace_seconds, "not-too-old: {}", table.name);
    match table.log {
        Some(_) => i32::MAX,
        None => table.options.gc_grace_seconds,
    }
}

/// Whether a mutation may still be sent: of a table with so many seconds of grace, which was
/// truncated then or never; both times in microseconds by the same clock.
pub fn may_send(written_at: i64, now: i64, grace_seconds: i32, truncated_at: Option<i64>) -> bool {
    debug_assert!(0 <= grace_seconds, "not-too-old: {grace_seconds} seconds of grace");
    let grace = i64::from(grace_seconds).saturating_mul(1_000_000);
    let is_young = now.saturating_sub(written_at) < grace;
    let is_there = truncated_at.is_none_or(|truncated| truncated < written_at);
    is_young && is_there
}

/// How fast hints are sent: a bucket that fills at the rate, up to a second's worth. What is larger
/// than that leaves a debt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    /// When the bucket is full again, in nanoseconds.
    full_at: u64,
}

impl Throttle {
    const SECOND: u64 = 1_000_000_000;

    /// Takes so many bytes, now: how long to wait before they are sent. A rate of 0 is no bound.
    pub fn take(&mut self, bytes: usize, bytes_per_second: u64, now: u64) -> Duration {
        if bytes_per_second == 0 {
            self.full_at = now;
            return Duration::ZERO;
        }
        let filling = u128::from(Throttle::SECOND) * bytes as u128 / u128::from(bytes_per_second);
        let begins = self.full_at.max(now);
        self.full_at = begins.saturating_add(u64::try_from(filling).unwrap_or(u64::MAX));
        debug_assert!(now <= self.full_at, "as-slow-as-told: full before now");
        let wait = self.full_at.saturating_sub(now.saturating_add(Throttle::SECOND));
        Duration::from_nanos(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_asked_for_is_understood() {
        assert_eq!(Enabled::parse("true"), Ok(Enabled::Everywhere));
        assert_eq!(Enabled::parse("false"), Ok(Enabled::No));
        let two = Enabled::In(vec!["dc1".to_owned(), "dc 2".to_owned()]);
        assert_eq!(Enabled::parse("dc1, dc 2"), Ok(two.clone()));
        assert_eq!(Enabled::parse(&two.to_string()), Ok(two));
        for text in ["", ",", "dc1,", "a\nb"] {
            assert!(Enabled::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_within_all_bounds(
            request in 0usize..3000,
            (window, in_progress_max, on_disk_max) in (0u64..5, 0usize..4000, 0u64..6000),
            is_enabled: bool,
            down in proptest::option::of(0u64..6),
            (in_progress, on_disk) in (0usize..4000, 0u64..6000),
        ) {
            let down_for = down.map(|secs| SECOND * secs as u32);
            let bounds = Bounds {
                window: SECOND * window as u32,
                in_progress: in_progress_max,
                on_disk: on_disk_max,
            };
            let now = Now { is_enabled, down_for, in_progress, on_disk };
            let bytes = request + form::OVERHEAD;
            let verdict = may_keep(request, &bounds, &now);
            let fits = in_progress == 0 || in_progress + bytes <= in_progress_max;
            let on_disk = on_disk + (in_progress + bytes) as u64 <= on_disk_max;
            let in_window = down.is_none_or(|down| down <= window);
            prop_assert_eq!(verdict.is_ok(), is_enabled && in_window && fits && on_disk);
        }

        #[test]
        fn the_rate_is_kept(
            takes in proptest::collection::vec((0usize..5000, 0u64..3_000_000_000), 1..40),
            rate in 1u64..5000,
        ) {
            let (mut throttle, mut now, mut sent) = (Throttle::default(), 0u64, 0u128);
            for (bytes, pause) in takes {
                let wait = throttle.take(bytes, rate, now);
                now += wait.as_nanos() as u64;
                sent += bytes as u128;
                // As much as came in since the start, and a bucket.
                let may = u128::from(rate) * (u128::from(now) + 1_000_000_000) / 1_000_000_000;
                prop_assert!(sent <= may + 40, "as-slow-as-told: {sent} of {may} bytes");
                now += pause;
            }
            prop_assert_eq!(throttle.take(1 << 30, 0, now), Duration::ZERO);
        }
    }

    #[test]
    fn what_is_too_old_is_not_sent() {
        let second = 1_000_000;
        assert!(may_send(0, 9 * second, 10, None));
        assert!(!may_send(0, 10 * second, 10, None));
        assert!(!may_send(0, 0, 0, None), "a table without grace");
        assert!(may_send(20 * second, 0, 10, None), "the clock went back");
        assert!(!may_send(5, 6, 10, Some(5)));
        assert!(may_send(6, 7, 10, Some(5)));
    }
}
