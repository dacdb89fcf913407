//! Time windows: files whose newest data is of one window are merged with each other alone, so that
//! data that expires together lies together, and whole files can be dropped.
//!
//! The present window is size-tiered. Of a past window all files become one, unless what would
//! join the largest is too little to rewrite that for: late data costs a rewrite of its window
//! only after it has grown by a quarter.

use super::garbage::Garbage;
use super::given::Given;
use super::tiers::Tiers;
use super::{File, Job, Why, idle, size_tiered};
use std::collections::BTreeMap;

/// Of the strategy of time windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeWindow {
    pub(super) tiers: Tiers,
    pub(super) windows: Windows,
    /// Units of timestamps in a millisecond.
    per_millisecond: i64,
    pub(super) expiry_check_secs: u64,
}

/// The windows of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Windows {
    /// In units of timestamps.
    window: i64,
}

impl Windows {
    /// The window that a timestamp lies in; they are numbered.
    pub(crate) fn of(self, timestamp: i64) -> i64 {
        debug_assert!(0 < self.window, "windows of {}", self.window);
        timestamp.div_euclid(self.window)
    }

    /// Windows of so many units of timestamps.
    #[cfg(test)]
    pub(crate) fn of_units(window: i64) -> Windows {
        Windows { window }
    }
}

/// Of the largest file of a past window, the part that the others make at least when they join it.
const WORTH_PART: u64 = 4;

impl TimeWindow {
    pub(super) fn of(given: &Given<'_>) -> TimeWindow {
        let secs = match given.text("compaction_window_unit") {
            Some("MINUTES") => 60,
            Some("HOURS") => 3600,
            _ => 86_400,
        };
        let per_millisecond = match given.text("timestamp_resolution") {
            Some("MILLISECONDS") => 1,
            _ => 1000,
        };
        let size = given.or("compaction_window_size", 1, 1i64);
        TimeWindow {
            tiers: Tiers::of(given),
            windows: Windows { window: size.saturating_mul(secs * 1000 * per_millisecond) },
            per_millisecond,
            expiry_check_secs: given.or("expired_sstable_check_frequency_seconds", 0, 600),
        }
    }

    fn window_of(&self, timestamp: i64) -> i64 {
        self.windows.of(timestamp)
    }

    /// The window of what is written now.
    pub(super) fn present(&self, now_micros: i64) -> i64 {
        self.window_of(now_micros / 1000 * self.per_millisecond)
    }
}

/// The files that are in no job, by their windows.
pub(super) fn by_window(options: &TimeWindow, files: &[File]) -> BTreeMap<i64, Vec<usize>> {
    grouped(options, files, idle(files))
}

/// Those of `members`, by their windows.
pub(super) fn grouped(
    options: &TimeWindow,
    files: &[File],
    members: impl Iterator<Item = usize>,
) -> BTreeMap<i64, Vec<usize>> {
    let mut windows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for index in members {
        let window = options.window_of(files[index].timestamps.1);
        windows.entry(window).or_default().push(index);
    }
    windows
}

/// Jobs for the windows, the newest first; where there is none, one for a file with much to drop.
pub(super) fn jobs(
    options: &TimeWindow,
    garbage: &Garbage,
    files: &[File],
    now_micros: i64,
) -> Vec<Job> {
    let present = options.present(now_micros);
    let mut jobs = Vec::new();
    for (window, members) in by_window(options, files).into_iter().rev() {
        if window < present
            && let Some(job) = whole_window(options, files, members.clone())
        {
            jobs.push(job);
            continue;
        }
        let never = Garbage { wanted: false, ..*garbage };
        jobs.extend(size_tiered::of(&options.tiers, &never, files, &|at| members.contains(&at)));
    }
    debug_assert!(
        jobs.iter().all(|job| grouped(options, files, job.files.iter().copied()).len() == 1),
        "one-window: {jobs:?}"
    );
    if jobs.is_empty() {
        jobs.extend(garbage.job(files, idle(files)));
    }
    jobs
}

/// The files of a past window, the smaller ones first, if there are enough to join the largest.
pub(super) fn whole_window(
    options: &TimeWindow,
    files: &[File],
    mut members: Vec<usize>,
) -> Option<Job> {
    members.sort_by_key(|index| (files[*index].bytes, *index));
    let (largest, others) = members.split_last()?;
    let others: u64 = others.iter().map(|index| files[*index].bytes).sum();
    if members.len() < 2 || others < files[*largest].bytes / WORTH_PART {
        return None;
    }
    debug_assert!(
        members.is_sorted_by_key(|index| files[*index].bytes),
        "the smaller ones of a window first"
    );
    members.truncate(options.tiers.max_threshold);
    Some(Job::new(members, Why::Window))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_at, file};
    use super::*;

    const CLASS: (&str, &str) = ("class", "TimeWindowCompactionStrategy");
    const HOUR: i64 = 3_600_000_000;

    /// Files of so many MB whose newest data is of these hours; it is hour 100 now.
    fn hourly(pairs: &[(&str, &str)], files: &[(u64, i64)], expected: &[(&[usize], Why)]) {
        let one = |(mb, hour): &(u64, i64)| File {
            timestamps: (hour * HOUR - 9 * HOUR, hour * HOUR + 5),
            ..file(*mb)
        };
        let files: Vec<_> = files.iter().map(one).collect();
        let hours = [CLASS, ("compaction_window_unit", "HOURS")];
        let pairs = [&hours[..], pairs].concat();
        let expected: Vec<_> =
            expected.iter().map(|(files, why)| Job::new(files.to_vec(), *why)).collect();
        check_at(&pairs, &files, 100 * HOUR + 7, &expected);
    }

    #[test]
    fn the_present_window_is_size_tiered() {
        hourly(&[], &[(1, 100), (1, 100), (1, 100)], &[]);
        hourly(&[], &[(1, 100); 4], &[(&[0, 1, 2, 3], Why::Tier)]);
        hourly(&[], &[(1, 101); 4], &[(&[0, 1, 2, 3], Why::Tier)]);
        hourly(&[], &[(1, 100), (1, 99), (1, 98), (1, 97)], &[]);
        hourly(&[("min_threshold", "2")], &[(1, 100); 2], &[(&[0, 1], Why::Tier)]);
    }

    #[test]
    fn a_past_window_becomes_one_file() {
        hourly(&[], &[(1, 99)], &[]);
        hourly(&[], &[(1, 99), (2, 99)], &[(&[0, 1], Why::Window)]);
        hourly(&[], &[(900, 99), (200, 99)], &[]);
        hourly(&[], &[(900, 99), (225, 99)], &[(&[0, 1], Why::Window)]);
        hourly(
            &[],
            &[(900, 99), (9, 99), (9, 99), (9, 99), (9, 99)],
            &[(&[1, 2, 3, 4], Why::Tier)],
        );
        hourly(
            &[],
            &[(5, 98), (5, 99), (5, 98), (5, 99), (5, 100)],
            &[(&[1, 3], Why::Window), (&[0, 2], Why::Window)],
        );
        let all: Vec<usize> = (0..32).collect();
        hourly(&[], &[(5, 50); 40], &[(&all, Why::Window)]);
    }

    #[test]
    fn windows_are_as_long_as_they_are_told_to_be() {
        let check = |pairs: &[(&str, &str)], timestamps: [i64; 2], same: bool| {
            let one = |newest| File { timestamps: (0, newest), ..file(5) };
            let pairs = [&[CLASS], pairs].concat();
            let jobs = super::super::testing::options(&pairs).jobs(&timestamps.map(one), i64::MAX);
            assert_eq!(jobs.len(), same as usize, "{pairs:?} {timestamps:?}");
        };
        let (minute, day) = (60_000_000, 86_400_000_000);
        check(&[], [0, day - 1], true);
        check(&[], [day - 1, day], false);
        check(&[], [-1, 0], false);
        let minutes = ("compaction_window_unit", "MINUTES");
        check(&[minutes], [0, minute], false);
        check(&[minutes, ("compaction_window_size", "2")], [0, 2 * minute - 1], true);
        let milliseconds = ("timestamp_resolution", "MILLISECONDS");
        check(&[milliseconds], [0, day / 1000 - 1], true);
        check(&[milliseconds], [0, day / 1000], false);
    }
}
