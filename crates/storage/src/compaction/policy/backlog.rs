//! How far a tablet is behind what its strategy wants: bytes that merges will write until there is
//! nothing left to merge, about. Bytes that are merged several times count several times.
//!
//! Tiers: a byte of a file goes up a tier with each merge, and a tier is about four times the one
//! below it; so a file is rewritten as many times as the logarithm, to base 4, of what there is
//! in all over its own size. Levels: what a level has over its size goes into the next one, and
//! takes as much of that with it as the next one is larger. What a job has merged already counts
//! no more.
//!
//! Invariants
//!  - *behind-or-done*: there is a backlog as long as the strategy asks for merges for the sake of
//!    sizes, levels, windows or space, and none when it does not.

use super::incremental::{self, Incremental};
use super::leveled::{self, Leveled};
use super::tiers::Tiers;
use super::time_window::{self, TimeWindow};
use super::{File, Options, Strategy};

impl Options {
    /// Bytes that are to be written until these files ask for nothing any more.
    pub(crate) fn backlog(&self, files: &[File], now_micros: i64) -> f64 {
        if !self.enabled {
            return 0.0;
        }
        // What has expired is dropped unread.
        let files: Vec<File> = files.iter().filter(|file| !file.expired).cloned().collect();
        let backlog = match &self.strategy {
            Strategy::Null => 0.0,
            Strategy::SizeTiered(options) => tiered(options, &parts_of(&files)),
            Strategy::Incremental(options) => of_runs(options, &files),
            Strategy::TimeWindow(options) => of_windows(options, &files, now_micros),
            Strategy::Leveled(options) => of_levels(options, &files),
        };
        assert!(0.0 <= backlog && backlog.is_finite(), "behind-or-done: {backlog} bytes");
        backlog
    }
}

/// What is merged as one: its size, and what of it no job has merged yet.
#[derive(Clone, Copy, Debug)]
struct Part {
    bytes: u64,
    left: f64,
}

fn left_of(file: &File) -> f64 {
    file.bytes as f64 * (1.0 - file.merged.clamp(0.0, 1.0))
}

fn parts_of(files: &[File]) -> Vec<Part> {
    files.iter().map(|file| Part { bytes: file.bytes, left: left_of(file) }).collect()
}

/// Of full tiers.
fn tiered(options: &Tiers, parts: &[Part]) -> f64 {
    let sizes: Vec<u64> = parts.iter().map(|part| part.bytes).collect();
    let total = sizes.iter().sum::<u64>() as f64;
    let times = |part: &Part| (total / part.bytes.max(1) as f64).max(1.0).log(4.0);
    debug_assert!(parts.iter().all(|part| 0.0 <= part.left), "less than nothing is left");
    let full = options.full_tiers(&options.of_sizes(&sizes, |_| true));
    let members = full.into_iter().flatten().map(|index| parts[index]);
    members.map(|part| part.left * times(&part)).sum()
}

fn of_runs(options: &Incremental, files: &[File]) -> f64 {
    let runs = incremental::runs_of(files);
    let part = |run: &incremental::Run| Part {
        bytes: run.bytes,
        left: run.files.iter().map(|index| left_of(&files[*index])).sum(),
    };
    let parts: Vec<Part> = runs.iter().map(part).collect();
    let backlog = tiered(&options.tiers, &parts);
    if 0.0 < backlog {
        return backlog;
    }
    let spare = incremental::for_space(options, &runs);
    spare.into_iter().flatten().map(|index| parts[index].left).sum()
}

/// A window that becomes one file is written once; the others are tiered.
fn of_windows(options: &TimeWindow, files: &[File], now_micros: i64) -> f64 {
    let present = options.present(now_micros);
    let of_window = |(window, members): (i64, Vec<usize>)| -> f64 {
        let all: Vec<File> = members.iter().map(|index| files[*index].clone()).collect();
        let whole = match window < present {
            true => time_window::whole_window(options, files, members),
            false => None,
        };
        match whole {
            Some(job) => job.files.iter().map(|index| left_of(&files[*index])).sum(),
            None => tiered(&options.tiers, &parts_of(&all)),
        }
    };
    let windows = time_window::grouped(options, files, 0..files.len());
    windows.into_iter().map(of_window).sum()
}

/// From the top down: what a level has over its size makes the next one larger.
fn of_levels(options: &Leveled, files: &[File]) -> f64 {
    let levels = leveled::levels_of(files);
    let left = |members: &[usize]| members.iter().map(|at| left_of(&files[*at])).sum::<f64>();
    let mended = |level: &Vec<usize>| -> f64 {
        let groups = leveled::overlapping(files, level);
        groups.iter().map(|group| left(group)).sum()
    };
    let mut backlog: f64 = levels[1..].iter().map(mended).sum();
    let level_0: Vec<File> = levels[0].iter().map(|index| files[*index].clone()).collect();
    if !options.fills_a_file(files, &levels[0]) {
        backlog += tiered(&options.tiers, &parts_of(&level_0));
    }
    let mut carried = 0.0;
    for (level, pair) in levels.windows(2).enumerate() {
        let (own, next) = (carried + left(&pair[0]), left(&pair[1]));
        let kept = match level {
            0 if options.fills_a_file(files, &pair[0]) => 0.0,
            0 => f64::MAX,
            _ => options.bytes_kept(level as u32),
        };
        carried = 0.0;
        debug_assert!(0.0 <= own && 0.0 <= next, "a backlog of {own} and {next}");
        if kept < own {
            carried = own - if level == 0 { 0.0 } else { options.bytes_max(level as u32) as f64 };
            let along = (next / own).min(options.fanout as f64);
            backlog += carried * (1.0 + along);
        }
    }
    backlog
}

#[cfg(test)]
mod tests {
    use super::super::testing::{file, mb, options, run};
    use super::*;
    use model::Token;

    const MB: f64 = (1 << 20) as f64;

    /// These files are behind by so many MB.
    #[track_caller]
    fn check(pairs: &[(&str, &str)], files: &[File], expected: f64) {
        let backlog = options(pairs).backlog(files, 0) / MB;
        assert!((backlog - expected).abs() < 0.001, "{backlog} of {pairs:?}, not {expected}");
    }

    fn merged(files: &[File], merged: f64) -> Vec<File> {
        files.iter().map(|file| File { merged, ..file.clone() }).collect()
    }

    #[test]
    fn tiers_are_behind_when_they_are_full() {
        for class in ["SizeTieredCompactionStrategy", "IncrementalCompactionStrategy"] {
            let class = ("class", class);
            check(&[class], &mb(&[]), 0.0);
            check(&[class], &mb(&[1000, 100, 100, 100]), 0.0);
            // Once each.
            check(&[class], &mb(&[100; 4]), 400.0);
            // Sixteen become four, which become one.
            check(&[class], &mb(&[100; 16]), 2.0 * 1600.0);
            // They will meet the large one as well.
            check(&[class], &mb(&[100, 100, 100, 100, 1200]), 400.0 * 2.0);
            check(&[class, ("enabled", "false")], &mb(&[100; 4]), 0.0);
        }
        check(&[("class", "NullCompactionStrategy")], &mb(&[100; 40]), 0.0);
    }

    #[test]
    fn what_is_merged_or_has_expired_counts_no_more() {
        let class = ("class", "SizeTieredCompactionStrategy");
        check(&[class], &merged(&mb(&[100; 4]), 0.25), 300.0);
        check(&[class], &merged(&mb(&[100; 4]), 1.0), 0.0);
        check(&[], &merged(&mb(&[100; 16]), 0.5), 1600.0);
        let gone = mb(&[100; 4]).into_iter().map(|file| File { expired: true, ..file });
        check(&[class], &gone.collect::<Vec<_>>(), 0.0);
    }

    #[test]
    fn runs_count_as_one() {
        let runs = [run(1, &[50; 2]), run(2, &[100]), run(3, &[25; 4]), run(4, &[100])];
        check(&[], &runs.concat(), 400.0);
        check(&[], &run(1, &[100; 8]), 0.0);
        let goal = ("space_amplification_goal", "1.5");
        check(&[goal], &mb(&[1000, 100, 400]), 0.0);
        check(&[goal], &mb(&[1000, 100, 500]), 1500.0);
    }

    #[test]
    fn windows_are_behind_one_by_one() {
        const DAY: i64 = 86_400_000_000;
        let class = [("class", "TimeWindowCompactionStrategy")];
        let of = |day: i64, sizes: &[u64]| -> Vec<File> {
            let files = mb(sizes).into_iter();
            files.map(|file| File { timestamps: (day * DAY, day * DAY), ..file }).collect()
        };
        let check = |files: &[Vec<File>], expected: f64| {
            let backlog = options(&class).backlog(&files.concat(), 2 * DAY) / MB;
            assert!((backlog - expected).abs() < 0.001, "{backlog}, not {expected}");
        };
        // The present one has tiers of its own.
        check(&[of(2, &[100; 3])], 0.0);
        check(&[of(2, &[100; 4])], 400.0);
        check(&[of(2, &[100; 4]), of(1, &[5000])], 400.0);
        // Of a past one all becomes one, if it is worth it.
        check(&[of(1, &[100, 50])], 150.0);
        check(&[of(1, &[100, 20])], 0.0);
        check(&[of(1, &[100, 50]), of(0, &[10, 10])], 170.0);
    }

    #[test]
    fn levels_are_behind_by_what_they_have_over_their_size() {
        const CLASS: (&str, &str) = ("class", "LeveledCompactionStrategy");
        const SIZE: (&str, &str) = ("sstable_size_in_mb", "10");
        let at = |level: u32, mb: u64, first: i64, last: i64| File {
            level,
            tokens: (Token(first), Token(last)),
            ..file(mb)
        };
        let check = |files: &[File], expected| check(&[CLASS, SIZE], files, expected);
        // Level 0: in tiers until it is worth a file, then all of it with what is in level 1.
        check(&mb(&[1, 1, 1]), 0.0);
        check(&mb(&[1, 1, 1, 1]), 4.0);
        check(&mb(&[5, 5]), 10.0);
        check(&[at(0, 10, 0, 9), at(1, 20, 0, 9)], 10.0 * 3.0);
        // Level 1 has room for 100.
        check(&[at(1, 100, 0, 9)], 0.0);
        check(&[at(1, 120, 0, 9)], 20.0);
        check(&[at(1, 120, 0, 9), at(2, 360, 0, 9)], 20.0 * 4.0);
        check(&[at(1, 150, 0, 9), at(2, 990, 0, 9)], 50.0 * 7.6 + 40.0);
        check(&[at(0, 20, 0, 9), at(1, 90, 0, 9)], 20.0 * 5.5 + 10.0);
        // What shares tokens in a level is written again within it.
        check(&[at(2, 5, 0, 9), at(2, 5, 20, 30), at(2, 5, 25, 40)], 10.0);
        let begun = [at(1, 120, 0, 9)].map(|one| File { merged: 0.1, ..one });
        check(&begun, 8.0);
    }
}
