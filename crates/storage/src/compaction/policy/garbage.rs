//! Files worth rewriting for the deletions in them alone.
//!
//! `tombstone_threshold` says which part of a file is to be droppable, and
//! `tombstone_compaction_interval` how old the file is at least: what a rewrite could not drop is
//! not tried again and again. Deletions stay while older data lies beneath them elsewhere, so the
//! part of a file's tokens that such files cover does not count, unless
//! `unchecked_tombstone_compaction` says not to look.

use super::given::Given;
use super::{File, Job, Why, overlap};

/// When a file is rewritten for its deletions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Garbage {
    /// Whether it ever is.
    pub(super) wanted: bool,
    pub(super) threshold: f64,
    pub(super) interval_secs: i64,
    pub(super) unchecked: bool,
}

impl Garbage {
    pub(super) fn of(given: &Given<'_>) -> Garbage {
        let names = [
            "tombstone_threshold",
            "tombstone_compaction_interval",
            "unchecked_tombstone_compaction",
        ];
        Garbage {
            wanted: names.iter().any(|name| given.text(name).is_some()),
            threshold: given.or("tombstone_threshold", 0.0, 0.2),
            interval_secs: given.or("tombstone_compaction_interval", 1, 86_400),
            unchecked: given.flag("unchecked_tombstone_compaction").unwrap_or(false),
        }
    }

    /// The part of a file that a rewrite of it alone would drop, about.
    pub(super) fn part(&self, files: &[File], index: usize) -> f64 {
        let file = &files[index];
        if self.unchecked || file.droppable == 0.0 {
            return file.droppable;
        }
        let older = files.iter().enumerate().filter(|(at, other)| {
            *at != index && overlap(file, other) && other.timestamps.0 <= file.timestamps.1
        });
        let part = file.droppable * (1.0 - covered(file, older.map(|(_, other)| other)));
        debug_assert!(0.0 <= part && part <= file.droppable, "{part} of {}", file.droppable);
        part
    }

    /// Whether a file is worth it.
    pub(super) fn is_due(&self, files: &[File], index: usize) -> bool {
        let file = &files[index];
        self.wanted
            && self.interval_secs <= file.age
            && 0.0 < file.droppable
            && self.threshold <= self.part(files, index)
    }

    /// A job for the one of these that is worth it most, the oldest data first.
    pub(super) fn job(
        &self,
        files: &[File],
        candidates: impl Iterator<Item = usize>,
    ) -> Option<Job> {
        let due = candidates.filter(|index| self.is_due(files, *index));
        let oldest = due.min_by_key(|index| (files[*index].timestamps.0, *index))?;
        Some(Job { level: files[oldest].level, ..Job::new(vec![oldest], Why::Garbage) })
    }
}

/// The part of a file's tokens that others lie over.
fn covered<'f>(file: &File, others: impl Iterator<Item = &'f File>) -> f64 {
    let (first, last) = (file.tokens.0.0 as i128, file.tokens.1.0 as i128);
    let within = |other: &File| {
        ((other.tokens.0.0 as i128).max(first), (other.tokens.1.0 as i128).min(last) + 1)
    };
    let mut ranges: Vec<(i128, i128)> = others.map(within).collect();
    ranges.sort_unstable();
    let (mut sum, mut reached) = (0, first);
    for (from, to) in ranges {
        sum += (to - from.max(reached)).max(0);
        reached = reached.max(to);
    }
    debug_assert!(0 <= sum && sum <= last - first + 1, "{sum} of the tokens are covered");
    sum as f64 / (last - first + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::testing::{file, options};
    use super::*;

    fn due(pairs: &[(&str, &str)], files: &[File]) -> Vec<usize> {
        let garbage = options(pairs).garbage;
        (0..files.len()).filter(|index| garbage.is_due(files, *index)).collect()
    }

    const DAY: i64 = 86_400;

    #[test]
    fn old_files_with_enough_to_drop_are_due() {
        let check = |pairs: &[(&str, &str)], droppable: f64, age: i64, expected: bool| {
            let one = File { droppable, age, ..file(10) };
            let found = due(pairs, &[one]);
            assert_eq!(found.len(), expected as usize, "{pairs:?} {droppable} {age}");
        };
        check(&[], 0.2, DAY, true);
        check(&[], 0.19, DAY, false);
        check(&[], 0.9, DAY - 1, false);
        check(&[("tombstone_compaction_interval", "60")], 0.9, 60, true);
        check(&[("tombstone_threshold", "0.5")], 0.4, DAY, false);
        check(&[("tombstone_threshold", "0.5")], 0.5, DAY, true);
        check(&[("tombstone_threshold", "0")], 0.0, DAY, false);
        let windows = ("class", "TimeWindowCompactionStrategy");
        check(&[windows], 0.9, DAY, false);
        check(&[windows, ("unchecked_tombstone_compaction", "false")], 0.9, DAY, true);
    }

    #[test]
    fn older_data_beneath_keeps_deletions_from_being_dropped() {
        let check = |pairs: &[(&str, &str)], others: &[File], expected: &[usize]| {
            let one = File { droppable: 0.4, age: DAY, timestamps: (50, 60), ..file(10) };
            let one = File { tokens: (model::Token(0), model::Token(99)), ..one };
            let files = [&[one][..], others].concat();
            assert_eq!(due(pairs, &files), expected, "{others:?}");
        };
        let other = |first, last, oldest| File {
            tokens: (model::Token(first), model::Token(last)),
            timestamps: (oldest, 100),
            ..file(10)
        };
        check(&[], &[other(0, 99, 61)], &[0]);
        check(&[], &[other(0, 99, 60)], &[]);
        check(&[("unchecked_tombstone_compaction", "true")], &[other(0, 99, 60)], &[0]);
        check(&[], &[other(0, 49, 1)], &[0]);
        check(&[], &[other(0, 50, 1)], &[]);
        check(&[], &[other(-9, 20, 1), other(10, 40, 1), other(30, 50, 1)], &[]);
        check(&[], &[other(100, 500, 1)], &[0]);
    }
}
