//! Incremental: tiers of runs. A run is a large SSTable cut into fragments that share no token, so
//! that an input can go, fragment by fragment, as soon as its tokens are merged.
//!
//! Writes as size-tiered does; a merge needs room for a few fragments, not for all its inputs.

use super::garbage::Garbage;
use super::given::Given;
use super::tiers::{Tier, Tiers};
use super::{File, Job, Why, overlap};
use model::Uuid;

/// Of the incremental strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Incremental {
    pub(super) tiers: Tiers,
    pub(super) fragment_bytes: u64,
    /// The largest runs are merged when all runs together are so many times the largest.
    space_goal: Option<f64>,
}

/// A younger run is not rewritten for its deletions, however many there are.
const GARBAGE_AGE_SECS: i64 = 3600;

impl Incremental {
    pub(super) fn of(given: &Given<'_>) -> Incremental {
        let goal = given.or("space_amplification_goal", 1.0, 0.0);
        Incremental {
            tiers: Tiers::of(given),
            fragment_bytes: given.mebibytes("sstable_size_in_mb", 1000),
            space_goal: Some(goal).filter(|goal| 1.0 < *goal),
        }
    }

    /// Full tiers are merged, and nothing for space (*wide-while-filled*).
    pub(super) fn widen(&mut self) {
        self.tiers.widen();
        self.space_goal = None;
    }
}

/// Files that share an identifier and no token.
pub(super) struct Run {
    pub(super) files: Vec<usize>,
    pub(super) bytes: u64,
    busy: bool,
}

/// The runs of files. Where files with one identifier share a token, each is a run of its own.
pub(super) fn runs_of(files: &[File]) -> Vec<Run> {
    let mut groups: Vec<(Option<Uuid>, Vec<usize>)> = Vec::new();
    for (index, file) in files.iter().enumerate() {
        match groups.iter_mut().find(|(id, _)| id.is_some() && *id == file.run) {
            Some((_, members)) => members.push(index),
            None => groups.push((file.run, vec![index])),
        }
    }
    let mut runs = Vec::new();
    for (_, mut members) in groups {
        members.sort_by_key(|index| files[*index].tokens);
        let apart = members.windows(2).all(|pair| !overlap(&files[pair[0]], &files[pair[1]]));
        let step = if apart { members.len() } else { 1 };
        runs.extend(members.chunks(step).map(|members| Run {
            files: members.to_vec(),
            bytes: members.iter().map(|index| files[*index].bytes).sum(),
            busy: members.iter().any(|index| files[*index].busy),
        }));
    }
    let count: usize = runs.iter().map(|run| run.files.len()).sum();
    debug_assert_eq!(count, files.len(), "a file of no run, or of two");
    runs
}

/// A job for each full tier; where there is none, one that drops deletions; where there is none,
/// one that saves space.
pub(super) fn jobs(options: &Incremental, garbage: &Garbage, files: &[File]) -> Vec<Job> {
    let runs = runs_of(files);
    debug_assert!(0 < options.fragment_bytes, "outputs of no bytes");
    let sizes: Vec<u64> = runs.iter().map(|run| run.bytes).collect();
    let tiers = options.tiers.of_sizes(&sizes, |index| !runs[index].busy);
    let job = |chosen: Vec<usize>, why| {
        let files = chosen.into_iter().flat_map(|index| runs[index].files.clone());
        Job::new(files.collect(), why).cut_at(options.fragment_bytes)
    };
    let full = options.tiers.full(&tiers);
    if !full.is_empty() {
        return full.into_iter().map(|chosen| job(chosen, Why::Tier)).collect();
    }
    if let Some(chosen) = garbage_of(garbage, files, &runs, &tiers) {
        return vec![job(chosen, Why::Garbage)];
    }
    if runs.iter().any(|run| run.busy) {
        return Vec::new();
    }
    let space = options.space_goal.and_then(|goal| too_much(&options.tiers, &tiers, &sizes, goal));
    space.map(|chosen| job(chosen, Why::Space)).into_iter().collect()
}

/// A run with much to drop, of the largest tier that has one, and the closest in size of the
/// others that have older data beneath it: so that deletions meet what they delete.
fn garbage_of(
    garbage: &Garbage,
    files: &[File],
    runs: &[Run],
    tiers: &[Tier],
) -> Option<Vec<usize>> {
    let is_due = |run: &Run| {
        let bytes = run.bytes.max(1) as f64;
        let weighed = run.files.iter().map(|at| files[*at].droppable * files[*at].bytes as f64);
        let droppable = weighed.sum::<f64>() / bytes;
        let age = run.files.iter().map(|at| files[*at].age).min().unwrap_or(0);
        let much = (2.0 * garbage.threshold).clamp(0.5, 1.0);
        let stale = garbage.interval_secs <= age && garbage.threshold <= droppable;
        0.0 < droppable && (stale || (GARBAGE_AGE_SECS <= age && much <= droppable))
    };
    if !garbage.wanted {
        return None;
    }
    let mut members = tiers.iter().rev().flat_map(|tier| &tier.members);
    let chosen = *members.find(|index| is_due(&runs[**index]))?;
    let is_beneath = |other: &Run| {
        let meets = |at: &usize, mine: &usize| {
            overlap(&files[*at], &files[*mine])
                && files[*at].timestamps.0 <= files[*mine].timestamps.1
        };
        other.files.iter().any(|at| runs[chosen].files.iter().any(|mine| meets(at, mine)))
    };
    let others = tiers.iter().flat_map(|tier| &tier.members).copied();
    let beneath = others.filter(|other| *other != chosen && is_beneath(&runs[*other]));
    let closest = beneath.min_by_key(|other| runs[*other].bytes.abs_diff(runs[chosen].bytes));
    Some(std::iter::once(chosen).chain(closest).collect())
}

/// The runs that would be merged for space, were none of them busy.
pub(super) fn for_space(options: &Incremental, runs: &[Run]) -> Option<Vec<usize>> {
    let sizes: Vec<u64> = runs.iter().map(|run| run.bytes).collect();
    let tiers = options.tiers.of_sizes(&sizes, |_| true);
    too_much(&options.tiers, &tiers, &sizes, options.space_goal?)
}

/// The largest runs, where all are too many times the largest: the tiers from the largest down to
/// where a quarter at most is left of what may lie beside it. What is left is rewritten the less
/// often; what is taken at once saves the next rewrite of the largest.
///
/// All runs count, not two tiers: others of the largest tier have the same data once more, and the
/// small tiers add up. Where no run is large there is little to save.
fn too_much(options: &Tiers, tiers: &[Tier], sizes: &[u64], goal: f64) -> Option<Vec<usize>> {
    let members = tiers.iter().flat_map(|tier| &tier.members);
    let largest = members.map(|index| sizes[*index]).max()?;
    let mut left: u64 = tiers.iter().map(|tier| tier.bytes).sum();
    if options.is_small(largest) || (left as f64) <= goal * largest as f64 {
        return None;
    }
    debug_assert!(1.0 <= goal, "a goal of {goal}");
    let left_max = (goal - 1.0) * largest as f64 / 4.0;
    let mut chosen = Vec::new();
    for tier in tiers.iter().rev() {
        chosen.extend(&tier.members);
        left -= tier.bytes;
        if 1 < chosen.len() && left as f64 <= left_max {
            break;
        }
    }
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, file, mb, run};
    use super::*;

    fn tier(files: &[usize]) -> Job {
        Job::new(files.to_vec(), Why::Tier).cut_at(1000 << 20)
    }

    #[test]
    fn runs_of_one_size_become_one_run() {
        check(&[], &mb(&[1, 1, 1]), &[]);
        check(&[], &mb(&[1, 1, 1, 1]), &[tier(&[0, 1, 2, 3])]);
        check(&[], &mb(&[100, 130, 90, 110]), &[tier(&[0, 1, 2, 3])]);
        check(&[], &mb(&[100, 160, 100, 100]), &[]);
        let cut = ("sstable_size_in_mb", "10");
        check(&[cut], &mb(&[1; 4]), &[tier(&[0, 1, 2, 3]).cut_at(10 << 20)]);
    }

    #[test]
    fn fragments_of_a_run_are_one() {
        // Four runs of three fragments each, and one of another size.
        let runs = [run(1, &[100; 3]), run(2, &[90; 3]), run(3, &[110; 3]), run(4, &[300])];
        let files = [runs.concat(), run(5, &[100; 20])].concat();
        check(&[], &files, &[tier(&(0..10).collect::<Vec<_>>())]);
        check(&[], &run(1, &[100; 9]), &[]);
        // With one identifier, and over one another: each is a run.
        let files: Vec<_> = run(1, &[100; 4]);
        let files = files.into_iter().map(|one| File { tokens: file(1).tokens, ..one });
        check(&[], &files.collect::<Vec<_>>(), &[tier(&[0, 1, 2, 3])]);
    }

    #[test]
    fn a_run_with_a_busy_fragment_waits() {
        let mut files = [run(1, &[100; 2]), run(2, &[100; 2]), mb(&[200; 3])].concat();
        check(&[], &files, &[tier(&[0, 1, 2, 3, 4, 5, 6])]);
        files[1].busy = true;
        check(&[], &files, &[tier(&[2, 3, 4, 5, 6])]);
        files[2].busy = true;
        check(&[], &files, &[]);
    }

    #[test]
    fn the_largest_runs_are_merged_for_space() {
        let space = |goal: &str, sizes: &[u64], expected: &[usize]| {
            let job = Job::new(expected.to_vec(), Why::Space).cut_at(1000 << 20);
            let expected = if expected.is_empty() { vec![] } else { vec![job] };
            check(&[("space_amplification_goal", goal)], &mb(sizes), &expected);
        };
        check(&[], &mb(&[1000, 900, 100]), &[]);
        space("1.5", &[1000, 100, 400], &[]);
        space("1.5", &[1000, 100, 401], &[0, 2]);
        space("1.5", &[1000, 250, 260], &[0, 1, 2]);
        space("1.5", &[1000], &[]);
        // Others of the largest tier.
        space("1.5", &[1000, 900], &[0, 1]);
        space("2", &[1000, 900], &[]);
        space("1.25", &[1000, 900, 62], &[0, 1]);
        // Small tiers add up; a quarter of what may be is left.
        space("1.25", &[1000, 100, 100, 51], &[0, 1, 2]);
        space("1.25", &[1000, 130, 63, 58], &[0, 1, 2, 3]);
        // Where nothing is large there is one tier.
        space("1.25", &[49, 30, 30], &[]);
        let mut busy = mb(&[1000, 100, 500]);
        busy[1].busy = true;
        check(&[("space_amplification_goal", "1.5")], &busy, &[]);
    }

    #[test]
    fn while_a_table_is_filled_runs_wait_for_many_of_their_size() {
        let check = |pairs: &[(&str, &str)], files: &[File], expected: &[Job]| {
            let options = super::super::testing::options(pairs).while_filled();
            assert_eq!(options.jobs(files, 0), expected, "{pairs:?}");
            let backlog = options.backlog(files, 0);
            assert_eq!(0.0 < backlog, !expected.is_empty(), "behind-or-done: {backlog}");
        };
        let all = |count: usize| tier(&(0..count).collect::<Vec<_>>());
        check(&[], &mb(&[1; 31]), &[]);
        check(&[], &mb(&[1; 32]), &[all(32)]);
        check(&[], &mb(&[1; 40]), &[all(32)]);
        check(&[], &[mb(&[100; 31]), mb(&[9; 31]), mb(&[3000; 31])].concat(), &[]);
        check(&[("max_threshold", "6")], &mb(&[100; 6]), &[all(6)]);
        // What is merged for space is merged when the table is filled.
        let goal = ("space_amplification_goal", "1.5");
        check(&[goal], &mb(&[1000, 900]), &[]);
        let gone = File { expired: true, ..file(7) };
        let expired = Job::new(vec![1], Why::Expired);
        let options = super::super::testing::options(&[]).while_filled();
        assert_eq!(options.jobs(&[file(7), gone], 0), [expired]);
    }

    #[test]
    fn deletions_are_merged_with_what_lies_beneath_them() {
        let garbage =
            |files: &[usize]| vec![Job::new(files.to_vec(), Why::Garbage).cut_at(1000 << 20)];
        let one = |mb, droppable, age, oldest| File {
            droppable,
            age,
            timestamps: (oldest, oldest + 10),
            ..file(mb)
        };
        let beneath = [one(1000, 0.0, 9, 1), one(3000, 0.0, 9, 2)];
        let with = |top| [&[top][..], &beneath].concat();
        check(&[], &with(one(100, 0.2, 86_400, 50)), &garbage(&[0, 1]));
        check(&[], &with(one(100, 0.2, 86_399, 50)), &[]);
        check(&[], &with(one(100, 0.5, 3600, 50)), &garbage(&[0, 1]));
        check(&[], &with(one(100, 0.49, 3600, 50)), &[]);
        check(&[], &with(one(2500, 0.5, 3600, 50)), &garbage(&[0, 2]));
        check(&[], &with(one(100, 0.5, 3600, -50)), &garbage(&[0]));
    }
}
