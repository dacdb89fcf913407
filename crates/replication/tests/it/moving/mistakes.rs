//! Mistakes that are planted, each of which is found within so many schedules.

use super::schedule::Schedule;
use replication::moves::Planted;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A mistake is found within so many schedules, which do not always begin with the first, in
/// words that name one of these invariants.
fn is_found(mistake: Planted, schedules: Range<u64>, words: &[&str]) {
    let run = |seed| Schedule::new(seed, Some(mistake)).run();
    is_found_by(run, mistake, schedules, words);
}

fn is_found_by(
    run: impl Fn(u64) -> Vec<String>,
    mistake: Planted,
    schedules: Range<u64>,
    words: &[&str],
) {
    for seed in schedules.clone() {
        let run = || run(seed);
        let wrong = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(wrong) => wrong.join("\n"),
            // An invariant that the code asserts.
            Err(panic) => match panic.downcast::<String>() {
                Ok(text) => *text,
                Err(panic) => match panic.downcast::<&str>() {
                    Ok(text) => (*text).to_owned(),
                    Err(panic) => std::panic::resume_unwind(panic),
                },
            },
        };
        if !wrong.is_empty() {
            assert!(words.iter().any(|word| wrong.contains(word)), "seed {seed}: {wrong}");
            println!("{mistake:?} is found by schedule {seed}: {wrong}");
            return;
        }
    }
    panic!("{mistake:?} is not found by schedules {schedules:?}");
}

/// What comes of data that are not where they are read.
const LOST: [&str; 4] =
    ["acknowledged-is-read", "deleted-stays", "truncated-stays", "nothing-left"];

#[test]
fn a_node_that_takes_nothing_is_found() {
    is_found(Planted::TakesNothing, 0..40, &LOST);
}

#[test]
fn stages_that_wait_for_nobody_are_found() {
    let words = [&LOST[..], &["acknowledged-at-level"]].concat();
    is_found(Planted::WaitsForNobody, 325..725, &words);
}

#[test]
fn what_is_written_after_its_session_is_found() {
    let run = |seed| Schedule::of_four(seed, Some(Planted::WritesLate)).run_late();
    is_found_by(run, Planted::WritesLate, 0..100, &["nothing-left"]);
}

#[test]
fn what_is_removed_early_is_found() {
    is_found(Planted::RemovesEarly, 0..40, &LOST);
}

#[test]
fn a_leader_that_skips_stages_is_found() {
    let words = [&LOST[..], &["acknowledged-at-level"]].concat();
    is_found(Planted::SkipsStages, 1070..1470, &words);
}

#[test]
fn a_node_that_serves_early_is_found() {
    is_found(Planted::ServesEarly, 0..20, &["arrived-first"]);
}

#[test]
fn levels_of_what_keyspaces_want_are_found() {
    let run = |seed| Schedule::of_copies(seed, Some(Planted::CountsWanted)).run();
    is_found_by(run, Planted::CountsWanted, 0..200, &LOST);
}

#[test]
fn writes_that_are_counted_on_one_side_are_found() {
    let run = |seed| Schedule::run_slow(seed, Some(Planted::CountsOneSide));
    is_found_by(run, Planted::CountsOneSide, 300..500, &LOST);
}

#[test]
fn what_is_not_handed_over_to_another_shard_is_found() {
    let run = |seed| Schedule::of_shards(seed, Some(Planted::HandsOverHastily)).run();
    is_found_by(run, Planted::HandsOverHastily, 0..100, &LOST);
}
