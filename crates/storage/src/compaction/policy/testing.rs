//! Files for the tests of strategies, and what a merge makes of them.

use super::*;

/// What options say.
pub(super) fn options(pairs: &[(&str, &str)]) -> Options {
    let mut table = crate::testing::schema(1, "t").options;
    let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    table.compaction = pairs.collect();
    Options::of(&table)
}

/// One of so many MB, all over the ring.
pub(super) fn file(mb: u64) -> File {
    File {
        bytes: mb << 20,
        tokens: (Token(-1_000_000), Token(1_000_000)),
        level: 0,
        run: None,
        timestamps: (0, 0),
        age: 0,
        droppable: 0.0,
        expired: false,
        busy: false,
        merged: 0.0,
    }
}

/// Several.
pub(super) fn mb(sizes: &[u64]) -> Vec<File> {
    sizes.iter().map(|mb| file(*mb)).collect()
}

/// The fragments of a run.
pub(super) fn run(id: u128, sizes: &[u64]) -> Vec<File> {
    let fragment = |(at, mb): (usize, &u64)| File {
        run: Some(Uuid::from_u128(id)),
        tokens: (Token(at as i64 * 100), Token(at as i64 * 100 + 99)),
        ..file(*mb)
    };
    sizes.iter().enumerate().map(fragment).collect()
}

/// These files ask for these jobs.
#[track_caller]
pub(super) fn check(pairs: &[(&str, &str)], files: &[File], expected: &[Job]) {
    check_at(pairs, files, 0, expected);
}

#[track_caller]
pub(super) fn check_at(pairs: &[(&str, &str)], files: &[File], now: i64, expected: &[Job]) {
    assert_eq!(options(pairs).jobs(files, now), expected, "{pairs:?}");
}

/// Does a job: its files become one run, cut where they are as large as it says, of which
/// everything stays.
pub(super) fn apply(files: &mut Vec<File>, job: &Job, run: u128) {
    let inputs: Vec<File> = job.files.iter().map(|index| files[*index].clone()).collect();
    let mut index = 0;
    files.retain(|_| {
        index += 1;
        !job.files.contains(&(index - 1))
    });
    if job.why == Why::Expired {
        return;
    }
    let first = inputs.iter().map(|file| file.tokens.0.0).min().unwrap();
    let last = inputs.iter().map(|file| file.tokens.1.0).max().unwrap();
    let bytes: u64 = inputs.iter().map(|file| file.bytes).sum();
    let tokens = (last - first + 1) as u64;
    let pieces = bytes.div_ceil(job.bytes_max).clamp(1, tokens);
    let cut = |at: u64| first + (tokens * at / pieces) as i64;
    files.extend((0..pieces).map(|at| File {
        bytes: bytes * (at + 1) / pieces - bytes * at / pieces,
        tokens: (Token(cut(at)), Token(cut(at + 1) - 1)),
        level: job.level,
        run: Some(Uuid::from_u128(run)),
        timestamps: (
            inputs.iter().map(|file| file.timestamps.0).min().unwrap(),
            inputs.iter().map(|file| file.timestamps.1).max().unwrap(),
        ),
        ..file(0)
    }));
}
