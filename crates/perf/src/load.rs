//! Workers that repeat an operation on every shard, and what the operations cost.
//!
//! A sample is a second, or a fixed number of operations per shard. Allocations, tasks,
//! instructions and cycles are those of the shards' own threads during the sample.

use super::given::{Given, number, optional, text, truth};
use super::latencies::Latencies;
use clap::Arg;
use runtime::counters::Counters;
use runtime::task::Scope;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// The time of one operation of so many is taken: often enough, and too seldom to be felt.
const TIMED_EVERY: u64 = 16;

/// How much is measured, and where the result goes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Samples.
    pub(crate) duration: u64,
    pub(crate) operations_per_shard: Option<u64>,
    /// Operations of each shard before the first sample.
    pub(crate) warm_up: u64,
    /// Workers per shard.
    pub(crate) concurrency: u64,
    pub(crate) stop_on_error: bool,
    pub(crate) json_result: Option<PathBuf>,
}

impl Plan {
    /// The options that say so, but for errors.
    pub(crate) fn args() -> [Arg; 5] {
        [
            number("duration", "5", "Samples of one second"),
            optional("operations-per-shard", "Take samples of so many operations instead"),
            number("warm-up", "0", "Operations of each shard before the first sample"),
            number("concurrency", "100", "Workers per shard"),
            text("json-result", "FILE", "Write the result to this file as well"),
        ]
    }

    /// That which says what becomes of errors, of most tools.
    pub(crate) fn stop_on_error() -> Arg {
        truth("stop-on-error", "1", "End at the first error")
    }

    /// What was given of them.
    pub(crate) fn take(given: &Given, stop_on_error: bool) -> Plan {
        Plan {
            duration: given.number("duration").max(1),
            operations_per_shard: given.optional("operations-per-shard").filter(|n| 0 < *n),
            warm_up: given.number("warm-up"),
            concurrency: given.number("concurrency").max(1),
            stop_on_error,
            json_result: given.path("json-result"),
        }
    }

    fn limit(&self) -> Limit {
        match self.operations_per_shard {
            Some(operations) => Limit::Operations(operations),
            None => Limit::Time(Duration::from_secs(1)),
        }
    }
}

/// When a sample ends.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Time(Duration),
    Operations(u64),
}

/// What is repeated. Lives in `runtime::local` of every shard.
pub(crate) trait Workload: 'static {
    type Error: Display;

    fn workers(&self) -> &Workers;

    async fn operate(&self) -> Result<(), Self::Error>;

    /// Operations that this counts as, at least one.
    fn operations(&self) -> u64 {
        1
    }

    /// Ascending counters of its own, told per operation under these names.
    fn counted(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The workers of a shard.
pub(crate) struct Workers {
    count: u64,
    stop_on_error: bool,
    counters: Counters,
    latencies: RefCell<Latencies>,
}

impl Workers {
    /// Counts this shard's thread from now on.
    pub(crate) fn new(plan: &Plan) -> Workers {
        Workers {
            count: plan.concurrency,
            stop_on_error: plan.stop_on_error,
            counters: Counters::open(),
            latencies: RefCell::default(),
        }
    }
}

/// What was done during a sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worked {
    pub(crate) operations: u64,
    pub(crate) errors: u64,
    pub(crate) allocations: u64,
    /// In the memory that caches manage themselves.
    pub(crate) managed_allocations: u64,
    pub(crate) tasks: u64,
    /// `None` where the processor's counters cannot be read.
    pub(crate) instructions: Option<u64>,
    pub(crate) cycles: Option<u64>,
    /// What the workload counts of its own.
    pub(crate) counted: Vec<(&'static str, u64)>,
    /// Of some operations, in microseconds.
    pub(crate) latencies: Latencies,
}

/// Objects that the row cache of this shard has made, if it has one.
fn managed_allocations() -> u64 {
    let storage = runtime::local::try_get::<storage::Storage>();
    storage.map_or(0, |storage| storage.row_cache_stats().allocations)
}

impl Worked {
    /// What a shard has spent since it began.
    fn so_far<W: Workload>(workload: &W) -> Worked {
        let counted = workload.workers().counters.read();
        let polls = runtime::group::all_stats().iter().map(|(_, stats)| stats.polls).sum();
        Worked {
            allocations: memory::counts().allocations,
            managed_allocations: managed_allocations(),
            tasks: polls,
            instructions: counted.instructions,
            cycles: counted.cycles,
            counted: workload.counted(),
            ..Worked::default()
        }
    }

    fn since(&self, before: &Worked) -> Worked {
        let less = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let pairs = self.counted.iter().zip(&before.counted);
        Worked {
            allocations: self.allocations - before.allocations,
            managed_allocations: self.managed_allocations - before.managed_allocations,
            tasks: self.tasks - before.tasks,
            instructions: less(self.instructions, before.instructions),
            cycles: less(self.cycles, before.cycles),
            counted: pairs.map(|((name, now), (_, then))| (*name, now - then)).collect(),
            ..Worked::default()
        }
    }

    /// Adds another shard's.
    fn add(&mut self, other: Worked) {
        let both = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        self.operations += other.operations;
        self.errors += other.errors;
        self.allocations += other.allocations;
        self.managed_allocations += other.managed_allocations;
        self.tasks += other.tasks;
        self.instructions = both(self.instructions, other.instructions);
        self.cycles = both(self.cycles, other.cycles);
        for ((_, sum), (_, count)) in self.counted.iter_mut().zip(&other.counted) {
            *sum += count;
        }
        self.latencies.add(&other.latencies);
    }
}

/// One measured second, or a fixed number of operations.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    pub(crate) worked: Worked,
}

/// Warms up, then takes the samples of the plan and prints each.
pub(crate) async fn samples<W: Workload>(plan: &Plan) -> Result<Vec<Sample>, String> {
    if 0 < plan.warm_up {
        sample::<W>(Limit::Operations(plan.warm_up)).await?;
    }
    let mut samples = Vec::new();
    for _ in 0..plan.duration {
        let sample = sample::<W>(plan.limit()).await?;
        println!("{}", sample.line());
        samples.push(sample);
    }
    Ok(samples)
}

async fn sample<W: Workload>(limit: Limit) -> Result<Sample, String> {
    let started = Instant::now();
    let worked: Vec<Result<Worked, String>> = runtime::on_all_shards(move || async move {
        let workload = runtime::local::get::<W>();
        run(&workload, limit).await
    })
    .await;
    let seconds = started.elapsed().as_secs_f64();
    let worked: Vec<Worked> = worked.into_iter().collect::<Result<_, _>>()?;
    let total = worked.into_iter().reduce(|mut total, shard| {
        total.add(shard);
        total
    });
    Ok(Sample { seconds, worked: total.unwrap_or_default() })
}

/// What the workers of a shard share during a sample.
struct Progress {
    deadline: Option<Instant>,
    left: Cell<u64>,
    operations: Cell<u64>,
    errors: Cell<u64>,
}

/// All workers of this shard work until the limit.
async fn run<W: Workload>(workload: &Rc<W>, limit: Limit) -> Result<Worked, String> {
    let (deadline, left) = match limit {
        Limit::Time(span) => (Some(Instant::now() + span), u64::MAX),
        Limit::Operations(operations) => (None, operations),
    };
    let (left, operations, errors) = (Cell::new(left), Cell::new(0), Cell::new(0));
    let progress = Rc::new(Progress { deadline, left, operations, errors });
    let before = Worked::so_far(&**workload);
    let scope = Scope::new();
    let mut handles = Vec::new();
    for _ in 0..workload.workers().count {
        let (workload, progress) = (workload.clone(), progress.clone());
        handles.push(scope.spawn(async move { work(&*workload, &progress).await }));
    }
    for handle in handles {
        let outcome = handle.await.map_err(|error| error.to_string())?;
        outcome.map_err(|error| error.to_string())?;
    }
    let mut worked = Worked::so_far(&**workload).since(&before);
    (worked.operations, worked.errors) = (progress.operations.get(), progress.errors.get());
    worked.latencies = workload.workers().latencies.take();
    Ok(worked)
}

async fn work<W: Workload>(workload: &W, progress: &Progress) -> Result<(), W::Error> {
    let Progress { deadline, left, operations, errors } = progress;
    let (workers, count) = (workload.workers(), workload.operations());
    while 0 < left.get() {
        left.set(left.get().saturating_sub(count));
        let started = (left.get() / count).is_multiple_of(TIMED_EVERY).then(Instant::now);
        let outcome = workload.operate().await;
        if let Some(started) = started {
            workers.latencies.borrow_mut().note(started.elapsed().as_micros() as u64);
        }
        match outcome {
            Ok(()) => operations.set(operations.get() + count),
            Err(error) if workers.stop_on_error => return Err(error),
            Err(_) => errors.set(errors.get() + 1),
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            left.set(0);
        }
        // An operation that never waited must not keep the shard from its other work.
        runtime::task::yield_if_needed().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_add_up_unless_one_cannot_count() {
        let shard = |instructions| Worked {
            operations: 2,
            instructions,
            counted: vec![("bytes", 5)],
            ..Worked::default()
        };
        let check = |other: Option<u64>, expected: Option<u64>| {
            let mut total = shard(Some(7));
            total.add(shard(other));
            assert_eq!((total.operations, total.instructions), (4, expected));
            assert_eq!(total.counted, [("bytes", 10)]);
        };
        check(Some(3), Some(10));
        check(None, None);
    }

    #[test]
    fn a_span_is_what_came_after_its_begin() {
        let at = |count| Worked {
            allocations: count,
            cycles: Some(count),
            counted: vec![("writes", count)],
            ..Worked::default()
        };
        let span = at(9).since(&at(4));
        assert_eq!((span.allocations, span.cycles, span.instructions), (5, Some(5), None));
        assert_eq!(span.counted, [("writes", 5)]);
    }
}
