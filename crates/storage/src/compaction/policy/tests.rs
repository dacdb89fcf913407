//! What holds of every strategy, whatever the files.

use super::testing::{apply, file, options};
use super::{Strategy as Chosen, *};
use proptest::prelude::*;
use stdx::Prng;

const HOUR: i64 = 3_600_000_000;

/// Small files make small levels and fragments.
const STRATEGIES: &[&[(&str, &str)]] = &[
    &[("class", "SizeTieredCompactionStrategy")],
    &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "10")],
    &[("class", "TimeWindowCompactionStrategy"), ("compaction_window_unit", "HOURS")],
    &[("class", "IncrementalCompactionStrategy"), ("sstable_size_in_mb", "10")],
    &[("sstable_size_in_mb", "10"), ("space_amplification_goal", "1.3"), ("min_threshold", "2")],
    &[("class", "NullCompactionStrategy")],
];

fn random_files(seed: u64) -> Vec<File> {
    let mut prng = Prng::from_seed(seed);
    let scale = *prng.pick(&[3, 30, 300]).unwrap();
    let count = prng.below(60);
    let random = |_| {
        let first = prng.below(1000) as i64;
        let newest = prng.below(20) as i64 * HOUR / 4;
        File {
            tokens: (Token(first), Token(first + prng.below(1000) as i64)),
            level: prng.below(4) as u32 * prng.below(2) as u32,
            run: prng.one_in(2).then(|| Uuid::from_u128(prng.below(20) as u128)),
            timestamps: (newest - prng.below(HOUR as u64) as i64, newest),
            age: prng.below(200_000) as i64,
            droppable: if prng.one_in(3) { prng.below(100) as f64 / 100.0 } else { 0.0 },
            expired: prng.one_in(20),
            busy: prng.one_in(10),
            merged: 0.0,
            ..file(1 + prng.below(scale))
        }
    };
    (0..count).map(random).collect()
}

fn window(file: &File) -> i64 {
    file.timestamps.1.div_euclid(HOUR)
}

/// *disjoint*, *one-window*, and of levels: no output may share a token with what stays.
fn check_jobs(options: &Options, files: &[File], jobs: &[Job]) {
    let mut taken = vec![false; files.len()];
    for job in jobs {
        assert!(!job.files.is_empty() && job.files.is_sorted());
        for index in &job.files {
            assert!(!files[*index].busy && !taken[*index], "{job:?}");
            taken[*index] = true;
        }
        let first = &files[job.files[0]];
        let same_window = job.files.iter().all(|index| window(&files[*index]) == window(first));
        let windows = matches!(options.strategy, Chosen::TimeWindow(_));
        assert!(!windows || same_window || job.why == Why::Expired, "{job:?}");
    }
}

/// *behind-or-done*, of files none of which is busy.
fn check_backlog(options: &Options, files: &[File], jobs: &[Job]) {
    let backlog = options.backlog(files, 3 * HOUR);
    match jobs.first().map(|job| job.why) {
        // They say nothing of what is merged for space.
        Some(Why::Expired | Why::Garbage) => {}
        None => assert_eq!(backlog, 0.0, "{options:?} {files:?}"),
        Some(_) => assert!(0.0 < backlog, "{options:?} {files:?}"),
    }
}

fn check_levels(files: &[File]) {
    for (at, one) in files.iter().enumerate().filter(|(_, one)| 0 < one.level) {
        for other in files[at + 1..].iter().filter(|other| other.level == one.level) {
            assert!(!overlap(one, other), "{one:?} {other:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn jobs_share_no_file_and_run_out(seed: u64) {
        let all = STRATEGIES.iter().flat_map(|pairs| {
            let options = options(pairs);
            let filled = Some(options.clone().while_filled()).filter(|it| *it != options);
            std::iter::once((pairs, options)).chain(filled.map(|it| (pairs, it)))
        });
        for (pairs, options) in all {
            let mut files = random_files(seed);
            check_jobs(&options, &files, &options.jobs(&files, 3 * HOUR));
            files.iter_mut().for_each(|file| file.busy = false);
            let before: u64 = files.iter().filter(|file| !file.expired).map(|f| f.bytes).sum();
            let mut steps = 0;
            loop {
                let jobs = options.jobs(&files, 3 * HOUR);
                check_jobs(&options, &files, &jobs);
                prop_assert_eq!(jobs.is_empty(), options.pending(&files, 3 * HOUR) == 0);
                check_backlog(&options, &files, &jobs);
                let Some(job) = jobs.first() else { break };
                apply(&mut files, job, 1000 + steps);
                steps += 1;
                prop_assert!(steps < 2000, "{:?} goes on with {:?}", pairs, job);
            }
            if options.strategy != Chosen::Null {
                prop_assert_eq!(files.iter().map(|file| file.bytes).sum::<u64>(), before);
            }
            if matches!(options.strategy, Chosen::Leveled(_)) {
                check_levels(&files);
            }
        }
    }

    #[test]
    fn levels_stay_apart_while_files_come(seed: u64) {
        let options = options(STRATEGIES[1]);
        let mut prng = Prng::from_seed(seed);
        let mut files = Vec::new();
        for round in 0..60 {
            let first = prng.below(100_000) as i64;
            let tokens = (Token(first), Token(first + prng.below(100_000) as i64));
            files.push(File { tokens, timestamps: (round, round), ..file(1 + prng.below(20)) });
            for step in 0..prng.below(4) {
                let Some(job) = options.jobs(&files, 0).into_iter().next() else { break };
                apply(&mut files, &job, 1000 * round as u128 + step as u128);
                check_levels(&files);
            }
        }
    }

    #[test]
    fn a_merge_of_everything_leaves_nothing_to_do(seed: u64) {
        for pairs in STRATEGIES {
            let options = options(pairs);
            let mut files = random_files(seed);
            files.iter_mut().for_each(|file| {
                (file.busy, file.expired, file.droppable) = (false, false, 0.0);
            });
            // Later jobs' places change as the earlier ones are done: the last first.
            let jobs = options.major(&files);
            check_jobs(&options, &files, &jobs);
            prop_assert_eq!(jobs.iter().map(|job| job.files.len()).sum::<usize>(), files.len());
            if let [job] = &jobs[..] {
                apply(&mut files, job, 1);
                prop_assert_eq!(options.jobs(&files, i64::MAX / 2), vec![], "{:?}", pairs);
            }
        }
    }
}
