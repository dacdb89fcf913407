//! `perf-fast-forward`: what readers cost that skip, slice and forward in one large partition or
//! among many small ones.
//!
//! One run makes the data (`--populate`), others read it. Each case is repeated; the repetition in
//! the middle by rate is told, with I/O, cache, allocations, tasks, instructions and busy time.
//!
//! In reading order: [`options`], [`dataset`] (tables and rows), [`populate`]; [`groups`] and
//! [`ranges`] (what is read; pure), [`reading`], [`caches`]; [`measure`], [`report`].
//!
//! Invariants
//!  - *checked*: a case knows how many fragments it must yield; any other number is an error of
//!    the run.
//!  - *warmed*: of a case that is repeated the first time tells how often, and what was wrong with
//!    it; it is none of the repetitions that are told.

mod caches;
mod dataset;
mod groups;
mod measure;
mod options;
mod populate;
mod ranges;
mod reading;
mod report;

use self::options::Options;
use self::options::Repeat;
use super::tool::{self, Bench as Place};
use clap::Command;
use dataset::Dataset;
use groups::{Case, Group, Work};
use measure::Sample;
use reading::Bench;
use report::{Heading, Line, Report};
use runtime::time::Instant;
use std::process::ExitCode;

/// A case that repeats for a while does so this often at least.
const REPETITIONS_MIN: u64 = 3;

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

async fn measure(options: &Options, place: &Place) -> Result<(), String> {
    // The tool says when memtables are flushed.
    let large = |node: &mut node::Config| {
        let memtables = &mut node.boot.storage.memtable_bytes_max;
        *memtables = options.flush_bytes.saturating_mul(3).max(*memtables);
        if !options.enable_cache {
            node.boot.storage.row_cache_bytes_max = 0;
        }
    };
    let mut report = Report::new(&options.output);
    let work = async || match options.populate {
        true => populate::all(options, &mut report).await,
        false => test(options, &mut report).await,
    };
    place.with_node(large, work).await?;
    match report.failed {
        true => Err("a check failed: see the lines ^^^ ERROR".into()),
        false => Ok(()),
    }
}

/// Runs the groups that were asked for on the data that there is.
async fn test(options: &Options, report: &mut Report) -> Result<(), String> {
    let rows = populate::rows_of(&options.name).await?;
    for dataset in &options.datasets {
        let schema = populate::schema(dataset)?;
        let bench = Bench::new(dataset, schema, rows, false).await;
        for group in options.groups.iter().filter(|group| group.kind == dataset.kind) {
            if group.needs_cache && !options.enable_cache {
                println!("\nskipping: {} (it needs --enable-cache)", group.name);
                continue;
            }
            if !options.keep_across_groups {
                caches::drop_all().await;
            }
            run_group(options, report, &bench, group).await?;
        }
    }
    Ok(())
}

async fn run_group(
    options: &Options,
    report: &mut Report,
    bench: &Bench,
    group: &Group,
) -> Result<(), String> {
    let heading = Heading::of(group, bench.dataset);
    report.begin(&heading);
    for case in group.cases(bench.rows, options.enable_cache) {
        let wanted = |names: &Vec<String>| names.contains(&case.name());
        if options.cases.as_ref().is_some_and(|names| !wanted(names)) {
            continue;
        }
        let repetitions = repeat(options, bench, &case).await?;
        let reads = repetitions.first().map_or(0, Vec::len);
        for read in 0..reads {
            let samples: Vec<Sample> = repetitions.iter().map(|all| all[read].clone()).collect();
            let (values, file) = title(&case, read);
            let line = Line { values: &values, file: &file, samples: &samples };
            report.add(&heading, &line).await?;
        }
    }
    Ok(())
}

/// The parameters of one read of a case: as they are printed, and as its file is called.
fn title(case: &Case, read: usize) -> (Vec<String>, String) {
    match &case.work {
        Work::Ranges(ranges) => {
            let mark = if read == 0 { "" } else { "+" }.to_string();
            (vec![mark, ranges[read].to_string()], ranges[read].file_name())
        }
        Work::SkipsThenAll { .. } if 0 < read => {
            (vec!["1".to_string(), "0".to_string()], "1->0".to_string())
        }
        _ => (case.values.clone(), case.name()),
    }
}

/// Runs a case as often as the options say: for each time that is told, a sample per read.
async fn repeat(options: &Options, bench: &Bench, case: &Case) -> Result<Vec<Vec<Sample>>, String> {
    let once = async || {
        if !options.keep_across_cases {
            caches::drop_all().await;
        }
        let samples = bench.run(&case.work).await?;
        if options.verbose {
            for sample in &samples {
                eprintln!("{} {}: {sample:?}", bench.dataset.name, case.name());
            }
        }
        Ok::<_, String>(samples)
    };
    let start = Instant::now();
    let first = once().await?;
    let times = match options.repeat {
        Repeat::Once => 1,
        Repeat::Times(times) => times,
        Repeat::For(span) => {
            let seconds = start.elapsed().as_secs_f64().max(1e-6);
            1 + ((span.as_secs_f64() / seconds) as u64).max(REPETITIONS_MIN)
        }
    };
    let mut all = Vec::new();
    for _ in 1..times {
        all.push(once().await?);
    }
    Ok(without_first(first, all))
}

/// The repetitions that are told (*warmed*): those after the first time, if there are any.
fn without_first(first: Vec<Sample>, mut all: Vec<Vec<Sample>>) -> Vec<Vec<Sample>> {
    let Some(told) = all.first_mut() else { return vec![first] };
    for (sample, first) in told.iter_mut().zip(first) {
        sample.error = first.error.or(sample.error.take());
    }
    all
}

/// The data sets of a report that is not about a group.
fn heading_of<'a>(dataset: &'a Dataset, parameters: &'a [&'a str]) -> Heading<'a> {
    Heading { group: "population", message: "Populating:", dataset, needs_cache: false, parameters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_is_told_where_it_is_the_only_one_or_was_wrong() {
        let sample = |aio, error: Option<&str>| {
            vec![Sample { aio, error: error.map(str::to_string), ..Sample::default() }]
        };
        let check = |first, others, expected: &[(u64, Option<&str>)]| {
            let told = without_first(first, others);
            let told: Vec<_> =
                told.iter().map(|all| (all[0].aio, all[0].error.as_deref())).collect();
            assert_eq!(told, expected);
        };
        check(sample(5, None), vec![], &[(5, None)]);
        let warm = vec![sample(1, None), sample(2, Some("b"))];
        check(sample(5, None), warm.clone(), &[(1, None), (2, Some("b"))]);
        check(sample(5, Some("a")), warm, &[(1, Some("a")), (2, Some("b"))]);
    }
}
