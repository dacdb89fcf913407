//! Which SSTables to merge: strategies as pure functions from files to jobs.
//!
//! From the ground up: this (what a strategy sees and says); [`given`] (names and values of
//! options); [`garbage`] (files worth rewriting for their deletions alone); [`tiers`] (files of
//! about one size); [`size_tiered`], [`incremental`], [`time_window`], [`leveled`]; [`options`]
//! (the strategy of a table); [`backlog`] (how much there is to do).
//!
//! A strategy has no memory: the same files ask for the same jobs, after a restart as before it.
//!
//! Invariants
//!  - *disjoint*: no two jobs of one answer share a file, and none has a file that is busy.
//!  - *progress*: applied again and again to files that nobody adds to, a strategy runs out of
//!    jobs.
//!  - *levels-apart*: of a level above 0, no two files share a token, once the jobs are done.
//!  - *one-window*: no job of time windows has files of two windows.
//!  - *wide-while-filled*: of a table that is being filled, which hardly anybody reads, a tier is
//!    merged when it has as many files, or runs, as one job takes, and not before. So each byte is
//!    written again once where it would be several times, and of one size there are always fewer
//!    than that. What has expired, deletions, levels and windows are seen to as ever.

#[cfg(test)]
mod amplification;
mod backlog;
mod garbage;
mod given;
mod incremental;
mod leveled;
mod options;
mod size_tiered;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tiers;
mod time_window;

use model::{Token, Uuid};
pub(crate) use options::{Options, Strategy};
pub(crate) use time_window::Windows;

/// An SSTable as a strategy sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct File {
    /// Of data, before compression.
    pub(crate) bytes: u64,
    /// The first and the last.
    pub(crate) tokens: (Token, Token),
    pub(crate) level: u32,
    /// Shared by files that share no token.
    pub(crate) run: Option<Uuid>,
    /// The oldest and the newest, in microseconds unless writers have another unit.
    pub(crate) timestamps: (i64, i64),
    /// Seconds since it was written.
    pub(crate) age: i64,
    /// Deletions that are old enough to be dropped, in parts of what there is.
    pub(crate) droppable: f64,
    /// Whether all of it can be dropped unread.
    pub(crate) expired: bool,
    /// Whether it is in a job already.
    pub(crate) busy: bool,
    /// The part of it that a job has merged already.
    pub(crate) merged: f64,
}

/// Files to be merged, and how their output is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Places in the list that the strategy was asked about, ascending.
    pub(crate) files: Vec<usize>,
    pub(crate) why: Why,
    /// Of the outputs.
    pub(crate) level: u32,
    /// From which size on an output is closed, at the next token, and another one begun.
    pub(crate) bytes_max: u64,
}

/// What makes a job worth its while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nothing of it is needed: no file is read.
    Expired,
    /// So many of about one size.
    Tier,
    /// What lies in one level shares tokens.
    Overlap,
    /// A level is over its size.
    Level,
    /// A window of time is over.
    Window,
    /// Deletions that can be dropped.
    Garbage,
    /// The same data lies in too many places.
    Space,
    /// Somebody asked for it.
    Major,
    /// Somebody asked for the present format.
    Upgrade,
    /// It lies in several tablets: each writes its own part of it.
    Reshard,
    /// It has partitions that are to go: it is written again without them.
    Cleanup,
}

impl Job {
    fn new(mut files: Vec<usize>, why: Why) -> Job {
        files.sort_unstable();
        debug_assert!(files.is_sorted_by(|a, b| a < b), "disjoint: a file twice in {files:?}");
        Job { files, why, level: 0, bytes_max: u64::MAX }
    }

    fn cut_at(self, bytes_max: u64) -> Job {
        assert!(0 < bytes_max, "outputs of no bytes");
        Job { bytes_max, ..self }
    }
}

/// Whether two files share a token.
fn overlap(a: &File, b: &File) -> bool {
    a.tokens.0 <= b.tokens.1 && b.tokens.0 <= a.tokens.1
}

impl Options {
    /// All that is to be done now, the most urgent first; nothing where compaction is switched off.
    pub(crate) fn jobs(&self, files: &[File], now_micros: i64) -> Vec<Job> {
        let jobs = match self.enabled {
            true => self.jobs_of_strategy(files, now_micros),
            false => Vec::new(),
        };
        assert!(jobs.iter().all(|job| !job.files.is_empty()), "a job of nothing: {jobs:?}");
        let joins =
            |job: &&Job| matches!(job.why, Why::Tier | Why::Overlap | Why::Window | Why::Space);
        assert!(
            jobs.iter().filter(joins).all(|job| 1 < job.files.len()),
            "progress: one file becomes one: {jobs:?}"
        );
        let mut chosen: Vec<usize> = jobs.iter().flat_map(|job| job.files.clone()).collect();
        assert!(chosen.iter().all(|index| !files[*index].busy), "disjoint: a busy file");
        chosen.sort_unstable();
        assert!(chosen.is_sorted_by(|a, b| a < b), "disjoint: a file in two jobs: {jobs:?}");
        jobs
    }

    fn jobs_of_strategy(&self, files: &[File], now_micros: i64) -> Vec<Job> {
        let expired: Vec<_> = idle(files).filter(|index| files[*index].expired).collect();
        if !expired.is_empty() {
            return vec![Job::new(expired, Why::Expired)];
        }
        match &self.strategy {
            Strategy::Null => Vec::new(),
            Strategy::SizeTiered(tiers) => size_tiered::jobs(tiers, &self.garbage, files),
            Strategy::Incremental(options) => incremental::jobs(options, &self.garbage, files),
            Strategy::TimeWindow(options) => {
                time_window::jobs(options, &self.garbage, files, now_micros)
            }
            Strategy::Leveled(options) => leveled::jobs(options, &self.garbage, files),
        }
    }

    /// How many jobs there are to do, about, those left out that only their outputs make due.
    pub(crate) fn pending(&self, files: &[File], now_micros: i64) -> usize {
        let jobs = self.jobs(files, now_micros).len();
        match &self.strategy {
            Strategy::Leveled(options) if 0 < jobs => jobs.max(leveled::pending(options, files)),
            _ => jobs,
        }
    }

    /// From which size on outputs are cut that are of no particular merge.
    pub(crate) fn bytes_max(&self) -> u64 {
        match &self.strategy {
            Strategy::Null | Strategy::SizeTiered(_) | Strategy::TimeWindow(_) => u64::MAX,
            Strategy::Incremental(options) => options.fragment_bytes,
            Strategy::Leveled(options) => options.file_bytes,
        }
    }

    /// Merges of everything into as little as the strategy wants, even of a single file.
    pub(crate) fn major(&self, files: &[File]) -> Vec<Job> {
        let all: Vec<_> = idle(files).collect();
        if all.is_empty() {
            return Vec::new();
        }
        let whole = |all| Job::new(all, Why::Major);
        let jobs = match &self.strategy {
            Strategy::Null | Strategy::SizeTiered(_) => vec![whole(all)],
            Strategy::Incremental(options) => vec![whole(all).cut_at(options.fragment_bytes)],
            Strategy::Leveled(options) => {
                let level = leveled::ideal_level(options, files, &all);
                vec![Job { level, ..whole(all).cut_at(options.file_bytes) }]
            }
            Strategy::TimeWindow(options) => {
                time_window::by_window(options, files).into_values().map(whole).collect()
            }
        };
        let mut chosen: Vec<usize> = jobs.iter().flat_map(|job: &Job| job.files.clone()).collect();
        chosen.sort_unstable();
        assert!(chosen.into_iter().eq(idle(files)), "disjoint: not each idle file once: {jobs:?}");
        jobs
    }
}

/// Places of the files that are in no job.
fn idle(files: &[File]) -> impl Iterator<Item = usize> {
    (0..files.len()).filter(|index| !files[*index].busy)
}
