//! Leveled: in each level above 0 no two files share a token, and each level is ten times the one
//! above it.
//!
//! Level 0 takes what is flushed. A level that is too large gives a file to the next one, where it
//! is merged with what it overlaps: of its files the one that takes least of the next level with
//! it, in parts of its own size. Reads of a partition meet one file per level; each byte is written
//! about ten times per level.

use super::garbage::Garbage;
use super::given::Given;
use super::tiers::Tiers;
use super::{File, Job, Why, overlap};

/// Of the leveled strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leveled {
    /// For level 0.
    pub(super) tiers: Tiers,
    pub(super) file_bytes: u64,
    pub(super) fanout: u64,
}

/// There is none after this.
const LEVEL_MAX: u32 = 8;
/// Level 0 is over its size with so many files' worth.
const LEVEL_0_FILES: u64 = 4;
/// With more files in level 0 than this, they are merged with each other before anything else.
const LEVEL_0_CROWD: usize = 32;
const _: () = assert!(LEVEL_0_FILES < LEVEL_0_CROWD as u64);
/// A level is over its size from this part of it on.
const FULL: f64 = 1.001;

impl Leveled {
    pub(super) fn of(given: &Given<'_>) -> Leveled {
        Leveled {
            tiers: Tiers::of(given),
            file_bytes: given.mebibytes("sstable_size_in_mb", 160),
            fanout: given.or("fanout_size", 2, 10),
        }
    }

    /// Bytes of a level at most.
    pub(super) fn bytes_max(&self, level: u32) -> u64 {
        match level {
            0 => self.file_bytes.saturating_mul(LEVEL_0_FILES),
            _ => self.file_bytes.saturating_mul(self.fanout.saturating_pow(level)),
        }
    }

    /// With no more than this a level is let alone.
    pub(super) fn bytes_kept(&self, level: u32) -> f64 {
        FULL * self.bytes_max(level) as f64
    }

    /// Whether these are worth a file of level 1.
    pub(super) fn fills_a_file(&self, files: &[File], level_0: &[usize]) -> bool {
        !level_0.is_empty() && self.file_bytes <= sum(files, level_0)
    }

    fn job_into(&self, files: Vec<usize>, level: u32, why: Why) -> Job {
        Job { level, ..Job::new(files, why).cut_at(self.file_bytes) }
    }
}

fn sum(files: &[File], members: &[usize]) -> u64 {
    members.iter().map(|index| files[*index].bytes).sum()
}

/// The files of each level, in token order.
pub(super) fn levels_of(files: &[File]) -> Vec<Vec<usize>> {
    let mut levels = vec![Vec::new(); LEVEL_MAX as usize + 1];
    for (index, file) in files.iter().enumerate() {
        levels[file.level.min(LEVEL_MAX) as usize].push(index);
    }
    levels.iter_mut().for_each(|level| level.sort_by_key(|index| files[*index].tokens));
    debug_assert_eq!(levels.iter().map(Vec::len).sum::<usize>(), files.len(), "a file of no level");
    levels
}

/// The one thing to do, if any: levels are not kept by two jobs at a time.
pub(super) fn jobs(options: &Leveled, garbage: &Garbage, files: &[File]) -> Vec<Job> {
    if files.iter().any(|file| file.busy) {
        return Vec::new();
    }
    let levels = levels_of(files);
    let job = (1..=LEVEL_MAX).find_map(|level| mended(options, files, &levels, level));
    let job = job.or_else(|| (1..LEVEL_MAX).rev().find_map(|l| pushed(options, files, &levels, l)));
    let job = job.or_else(|| from_level_0(options, files, &levels));
    let job = job.or_else(|| {
        garbage.job(files, 0..files.len()).map(|job| match job.level {
            0 => job,
            _ => job.cut_at(options.file_bytes),
        })
    });
    debug_assert!(
        job.as_ref().is_none_or(|job| job.level == 0 || is_apart(files, &levels, job)),
        "levels-apart: {job:?}"
    );
    job.into_iter().collect()
}

/// Whether what a job writes shares no token with what stays in its level: not even where its
/// outputs lie between those of its inputs.
fn is_apart(files: &[File], levels: &[Vec<usize>], job: &Job) -> bool {
    let tokens = || job.files.iter().map(|index| files[*index].tokens);
    let (first, last) = (tokens().map(|of| of.0).min(), tokens().map(|of| of.1).max());
    let stays = levels[job.level as usize].iter().filter(|index| !job.files.contains(index));
    stays.map(|index| files[*index].tokens).all(|of| last < Some(of.0) || Some(of.1) < first)
}

/// The first files of a level that share tokens, merged within it.
fn mended(options: &Leveled, files: &[File], levels: &[Vec<usize>], level: u32) -> Option<Job> {
    assert!(0 < level && level <= LEVEL_MAX, "levels-apart: level {level}");
    let first = overlapping(files, &levels[level as usize]).into_iter().next()?;
    Some(options.job_into(first, level, Why::Overlap))
}

/// The groups of files of a level that share tokens, in token order.
pub(super) fn overlapping(files: &[File], level: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut last = None;
    for index in level {
        let (first, end) = files[*index].tokens;
        match groups.last_mut().filter(|_| last.is_some_and(|last| first <= last)) {
            Some(group) => group.push(*index),
            None => groups.push(vec![*index]),
        }
        last = last.max(Some(end));
    }
    let count: usize = groups.iter().map(Vec::len).sum();
    debug_assert_eq!(count, level.len(), "a file of no group, or of two");
    groups.retain(|group| 1 < group.len());
    groups
}

/// A file of a level that is over its size, and what it overlaps in the next.
fn pushed(options: &Leveled, files: &[File], levels: &[Vec<usize>], level: u32) -> Option<Job> {
    assert!(0 < level && level < LEVEL_MAX, "levels-apart: from level {level}");
    let (own, next) = (&levels[level as usize], &levels[level as usize + 1]);
    if (sum(files, own) as f64) <= options.bytes_kept(level) {
        return None;
    }
    let level_0 = &levels[0];
    if LEVEL_0_CROWD < level_0.len()
        && let Some(job) = tiered(options, files, level_0)
    {
        return Some(job);
    }
    let below = |index: usize| -> Vec<usize> {
        next.iter().copied().filter(|other| overlap(&files[index], &files[*other])).collect()
    };
    let cost =
        |index: &usize| sum(files, &below(*index)) as f64 / files[*index].bytes.max(1) as f64;
    let chosen = own.iter().copied().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let mut chosen_files = below(chosen);
    chosen_files.push(chosen);
    Some(options.job_into(chosen_files, level + 1, Why::Level))
}

/// The oldest of level 0 into level 1, with all of it that lies between their tokens; merged among
/// themselves where they are not worth one file there.
fn from_level_0(options: &Leveled, files: &[File], levels: &[Vec<usize>]) -> Option<Job> {
    let mut oldest = levels[0].clone();
    if !options.fills_a_file(files, &oldest) {
        return tiered(options, files, &oldest);
    }
    oldest.sort_by_key(|index| (files[*index].timestamps.1, *index));
    oldest.truncate(options.tiers.max_threshold);
    debug_assert!(oldest.iter().all(|index| files[*index].level == 0), "levels-apart: not of 0");
    let first = oldest.iter().map(|index| files[*index].tokens.0).min()?;
    let last = oldest.iter().map(|index| files[*index].tokens.1).max()?;
    let between = |index: &&usize| {
        let tokens = files[**index].tokens;
        tokens.0 <= last && first <= tokens.1
    };
    oldest.extend(levels[1].iter().filter(between));
    Some(options.job_into(oldest, 1, Why::Level))
}

fn tiered(options: &Leveled, files: &[File], level_0: &[usize]) -> Option<Job> {
    let sizes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
    let tiers = options.tiers.of_sizes(&sizes, |index| level_0.contains(&index));
    let full = options.tiers.full(&tiers).into_iter().next()?;
    Some(Job::new(full, Why::Tier))
}

/// How many files are to change their level.
pub(super) fn pending(options: &Leveled, files: &[File]) -> usize {
    let levels = levels_of(files);
    let over = |(level, own): (usize, &Vec<usize>)| {
        let excess = sum(files, own).saturating_sub(options.bytes_max(level as u32));
        excess.div_ceil(options.file_bytes.max(1)) as usize
    };
    levels.iter().enumerate().map(over).sum()
}

/// The lowest level that takes all of these.
pub(super) fn ideal_level(options: &Leveled, files: &[File], members: &[usize]) -> u32 {
    let bytes = sum(files, members);
    (1..LEVEL_MAX).find(|level| bytes <= options.bytes_max(*level)).unwrap_or(LEVEL_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, file, mb, options};
    use super::*;
    use model::Token;

    const CLASS: (&str, &str) = ("class", "LeveledCompactionStrategy");
    const SIZE: (&str, &str) = ("sstable_size_in_mb", "10");

    /// A file of a level, of so many MB, with these tokens.
    fn at(level: u32, mb: u64, first: i64, last: i64) -> File {
        File { level, tokens: (Token(first), Token(last)), ..file(mb) }
    }

    fn job(files: &[usize], level: u32, why: Why) -> Vec<Job> {
        vec![Job { level, ..Job::new(files.to_vec(), why).cut_at(10 << 20) }]
    }

    fn leveled(files: &[File], expected: &[Job]) {
        check(&[CLASS, SIZE], files, expected);
    }

    #[test]
    fn level_0_goes_to_level_1_when_it_is_worth_a_file() {
        leveled(&mb(&[1, 1, 1]), &[]);
        leveled(&mb(&[1, 1, 1, 1]), &[Job::new(vec![0, 1, 2, 3], Why::Tier)]);
        leveled(&mb(&[5, 5]), &job(&[0, 1], 1, Why::Level));
        leveled(&[at(0, 10, 5, 8)], &job(&[0], 1, Why::Level));
        // All of level 1 between the first and the last token comes with it.
        let files = [at(0, 9, 1, 2), at(0, 9, 8, 9), at(1, 9, 4, 5), at(1, 9, 9, 20)];
        let files = [&files[..], &[at(1, 9, 30, 40)]].concat();
        leveled(&files, &job(&[0, 1, 2, 3], 1, Why::Level));
        // The oldest 32 at a time.
        let many: Vec<_> = (0..40).map(|n| File { timestamps: (0, 100 - n), ..file(1) }).collect();
        leveled(&many, &job(&(8..40).collect::<Vec<_>>(), 1, Why::Level));
    }

    #[test]
    fn a_level_that_is_too_large_gives_what_takes_least_with_it() {
        let mut files: Vec<_> = (0..11).map(|n| at(1, 10, n * 10, n * 10 + 9)).collect();
        files.push(at(2, 10, 0, 4));
        files.push(at(2, 3, 20, 25));
        leveled(&files[..10], &[]);
        leveled(&files[..12], &job(&[1], 2, Why::Level));
        let below = (0..11).map(|n| at(2, if n == 2 { 3 } else { 10 }, n * 10, n * 10 + 4));
        let files = [&files[..11], &below.collect::<Vec<_>>()].concat();
        leveled(&files, &job(&[2, 13], 2, Why::Level));
        // A smaller level is not deep.
        let fanout = ("fanout_size", "20");
        check(&[CLASS, SIZE, fanout], &files, &[]);
    }

    #[test]
    fn a_crowded_level_0_is_thinned_out_first() {
        let mut files: Vec<_> = (0..11).map(|n| at(1, 10, n * 10, n * 10 + 9)).collect();
        files.extend(vec![file(1); 33]);
        leveled(&files, &[Job::new((11..43).collect(), Why::Tier)]);
        leveled(&files[..43], &job(&[0], 2, Why::Level));
    }

    #[test]
    fn what_shares_tokens_in_a_level_is_mended_first() {
        let files = [at(2, 5, 0, 9), at(2, 5, 20, 30), at(2, 5, 25, 40), at(2, 5, 40, 41)];
        leveled(&files, &job(&[1, 2, 3], 2, Why::Overlap));
        leveled(&files[..2], &[]);
        let inside = [at(1, 5, 0, 90), at(1, 5, 3, 4), at(1, 5, 80, 95), at(1, 5, 96, 97)];
        leveled(&inside, &job(&[0, 1, 2], 1, Why::Overlap));
    }

    #[test]
    fn one_job_at_a_time() {
        let mut files = mb(&[5, 5, 5]);
        files[0].busy = true;
        leveled(&files, &[]);
    }

    #[test]
    fn deletions_are_dropped_within_their_level() {
        let one = File { droppable: 0.5, age: 90_000, ..at(3, 9, 0, 9) };
        leveled(&[one], &job(&[0], 3, Why::Garbage));
    }

    #[test]
    fn all_of_it_goes_to_the_level_that_takes_it() {
        let check = |sizes: &[u64], level| {
            let jobs = options(&[CLASS, SIZE]).major(&mb(sizes));
            assert_eq!(jobs, job(&(0..sizes.len()).collect::<Vec<_>>(), level, Why::Major));
        };
        check(&[1], 1);
        check(&[50, 50], 1);
        check(&[50, 51], 2);
        check(&[1001], 3);
    }

    #[test]
    fn pending_counts_the_files_that_are_over() {
        let pending = |files: &[File]| options(&[CLASS, SIZE]).pending(files, 0);
        assert_eq!(pending(&mb(&[1, 1])), 0);
        assert_eq!(pending(&mb(&[5, 5])), 1);
        assert_eq!(pending(&mb(&[50, 50])), 6);
        assert_eq!(pending(&[at(1, 150, 0, 9), at(2, 9, 0, 9)]), 5);
    }
}
