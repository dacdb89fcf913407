//! Size-tiered: of files of about one size, four or more become one.
//!
//! Few writes: each byte is written once per tier. Reads meet some files of each tier, and a merge
//! needs as much room as its inputs.

use super::garbage::Garbage;
use super::tiers::Tiers;
use super::{File, Job, Why};

/// A job for each full tier; where there is none, one for a file with much to drop, in the largest
/// tier that has one.
pub(super) fn jobs(tiers: &Tiers, garbage: &Garbage, files: &[File]) -> Vec<Job> {
    of(tiers, garbage, files, &|index| !files[index].busy)
}

/// The same, of the files that are `wanted`.
pub(super) fn of(
    options: &Tiers,
    garbage: &Garbage,
    files: &[File],
    wanted: &dyn Fn(usize) -> bool,
) -> Vec<Job> {
    let sizes: Vec<u64> = files.iter().map(|file| file.bytes).collect();
    let tiers = options.of_sizes(&sizes, wanted);
    let full = options.full(&tiers);
    if !full.is_empty() {
        return full.into_iter().map(|members| Job::new(members, Why::Tier)).collect();
    }
    let members = |tier: &super::tiers::Tier| tier.members.clone().into_iter();
    let job = tiers.iter().rev().find_map(|tier| garbage.job(files, members(tier)));
    job.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, file, mb};
    use super::*;

    const CLASS: (&str, &str) = ("class", "SizeTieredCompactionStrategy");

    #[test]
    fn files_of_one_size_become_one() {
        let tier = |files: &[usize]| Job::new(files.to_vec(), Why::Tier);
        check(&[CLASS], &mb(&[]), &[]);
        check(&[CLASS], &mb(&[1, 1, 1]), &[]);
        check(&[CLASS], &mb(&[1, 20, 3, 40]), &[tier(&[0, 1, 2, 3])]);
        check(&[CLASS], &mb(&[1, 1000, 1, 1, 1]), &[tier(&[0, 2, 3, 4])]);
        check(&[CLASS], &mb(&[1000, 1100, 900, 1]), &[]);
        check(&[CLASS], &mb(&[1000, 1100, 900, 1, 950]), &[tier(&[0, 1, 2, 4])]);
        check(&[CLASS], &mb(&[100, 300, 900, 2700, 8100]), &[]);
        check(&[CLASS], &mb(&[1; 40]), &[tier(&(0..32).collect::<Vec<_>>())]);
        let two = mb(&[900, 1, 900, 1, 900, 1, 900, 1, 900]);
        check(&[CLASS], &two, &[tier(&[0, 2, 4, 6, 8]), tier(&[1, 3, 5, 7])]);
        check(&[CLASS, ("min_threshold", "2")], &mb(&[1, 1]), &[tier(&[0, 1])]);
        check(&[CLASS, ("enabled", "false")], &mb(&[1; 9]), &[]);
    }

    #[test]
    fn what_is_busy_waits() {
        let mut files = mb(&[1; 5]);
        files[1].busy = true;
        check(&[CLASS], &files, &[Job::new(vec![0, 2, 3, 4], Why::Tier)]);
        files[2].busy = true;
        check(&[CLASS], &files, &[]);
    }

    #[test]
    fn while_a_table_is_filled_files_wait_for_many_of_their_size() {
        let options = super::super::testing::options(&[CLASS]).while_filled();
        let jobs = |count| options.jobs(&mb(&vec![1; count]), 0);
        assert_eq!(jobs(31), []);
        assert_eq!(jobs(33), [Job::new((0..32).collect(), Why::Tier)]);
        // Of many that come one after the other few stay, and each is merged once on its way up.
        let (mut files, mut written) = (Vec::new(), 0);
        for _ in 0..1000 {
            files.push(file(60));
            let jobs = options.jobs(&files, 0);
            for job in &jobs {
                written += job.files.len();
                super::super::testing::apply(&mut files, job, 0);
            }
            assert!(files.len() < 2 * 32, "{} files", files.len());
        }
        assert!(written <= 1000, "{written} of 1000 were merged");
    }

    #[test]
    fn deletions_are_dropped_when_nothing_else_is_to_do() {
        let old = |mb: u64, droppable: f64| File { droppable, age: 90_000, ..file(mb) };
        let garbage = |index| Job::new(vec![index], Why::Garbage);
        let one = ("unchecked_tombstone_compaction", "true");
        check(&[CLASS, one], &[old(9, 0.5), old(900, 0.3), old(90, 0.9)], &[garbage(1)]);
        check(&[CLASS, one], &[old(9, 0.5), old(900, 0.1), old(90, 0.9)], &[garbage(2)]);
        check(&[CLASS, one], &vec![old(9, 0.5); 4], &[Job::new(vec![0, 1, 2, 3], Why::Tier)]);
    }

    #[test]
    fn what_has_expired_goes_first() {
        let gone = File { expired: true, ..file(7) };
        let files = [mb(&[1; 4]), vec![gone]].concat();
        check(&[CLASS], &files, &[Job::new(vec![4], Why::Expired)]);
        check(&[CLASS, ("enabled", "false")], &files, &[]);
    }
}
