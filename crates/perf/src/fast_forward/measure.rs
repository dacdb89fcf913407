//! What one read cost, and what repetitions of it come to.
//!
//! The node that a read runs in does more: it writes its log, flushes, divides its memory. What
//! other tasks ask for while a read waits is no cost of the read.
//!
//! Invariants
//!  - *own-alone*: allocations and requests are those that were asked for while the future of the
//!    read was polled. A read starts no task, so these are all of its own.

use super::caches::{self, CacheCounts};
use crate::statistics::median;
use runtime::counters::Counters;
use runtime::time::{Instant, sleep};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

/// What a shard has spent so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    at: Instant,
    asked: Asked,
    index: CacheCounts,
    pages: CacheCounts,
    rows: CacheCounts,
    data: sstable::ReadCounts,
    polls: u64,
    busy_ns: u64,
    instructions: Option<u64>,
}

/// What was asked for by a future, while it was polled (*own-alone*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) aio: u64,
    pub(crate) bytes: u64,
    pub(crate) allocations: u64,
}

impl Asked {
    /// By all of the shard, so far.
    fn of_shard() -> Asked {
        let io = runtime::io::total_stats();
        Asked {
            aio: io.reads + io.writes,
            bytes: io.read_bytes + io.write_bytes,
            allocations: memory::counts().allocations,
        }
    }

    fn since(self, before: Asked) -> Asked {
        Asked {
            aio: self.aio - before.aio,
            bytes: self.bytes - before.bytes,
            allocations: self.allocations - before.allocations,
        }
    }

    fn add(&mut self, more: Asked) {
        self.aio += more.aio;
        self.bytes += more.bytes;
        self.allocations += more.allocations;
    }
}

/// Runs a future; gives what it asked for as well.
pub(crate) async fn counted<F: Future>(future: F) -> (F::Output, Asked) {
    let mut future = pin!(future);
    let mut asked = Asked::default();
    let output = poll_fn(|context| {
        let before = Asked::of_shard();
        let polled = future.as_mut().poll(context);
        asked.add(Asked::of_shard().since(before));
        polled
    });
    let output = output.await;
    (output, asked)
}

/// What the code under test says of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Yield {
    pub(crate) fragments: u64,
}

/// One read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    pub(crate) fragments: u64,
    pub(crate) aio: u64,
    pub(crate) bytes: u64,
    pub(crate) blocked: u64,
    /// What other tasks asked for meanwhile.
    pub(crate) others: Asked,
    /// Bytes of data that were read and not used.
    pub(crate) dropped: u64,
    /// Bytes of data that were asked for.
    pub(crate) range: u64,
    /// Pages of partition indexes.
    pub(crate) index: CacheCounts,
    /// Pages of index files.
    pub(crate) pages: CacheCounts,
    /// Partitions in the row cache.
    pub(crate) rows: CacheCounts,
    pub(crate) allocations: u64,
    pub(crate) tasks: u64,
    /// `None` where the processor's counters cannot be read.
    pub(crate) instructions: Option<u64>,
    /// Busy time by all time, in percent.
    pub(crate) cpu: f64,
    /// Requests at the disk at once, at most.
    pub(crate) depth: u64,
    /// What was wrong with it.
    pub(crate) error: Option<String>,
}

/// Reads counters. Waits for a moment first: groups are charged when their turn ends.
pub(crate) async fn spent(counters: &Counters) -> Spent {
    sleep(Duration::from_micros(1)).await;
    let groups = runtime::group::all_stats();
    let (index, pages) = caches::index_counts();
    let _ = runtime::io::take_peak_in_flight();
    Spent {
        index,
        pages,
        rows: caches::row_counts(),
        data: caches::data_counts(),
        polls: groups.iter().map(|(_, stats)| stats.polls).sum(),
        busy_ns: groups.iter().map(|(_, stats)| stats.cpu_ns).sum(),
        instructions: counters.read().instructions,
        asked: Asked::of_shard(),
        at: Instant::now(),
    }
}

/// What was spent since `before`, for that. `own`: what of it the read asked for; `None`: all is
/// counted.
pub(crate) async fn since(
    before: Spent,
    counters: &Counters,
    read: Yield,
    own: Option<Asked>,
) -> Sample {
    let seconds = before.at.elapsed().as_secs_f64();
    let all = Asked::of_shard().since(before.asked);
    let own = own.unwrap_or(all);
    let instructions = counters.read().instructions;
    let depth = runtime::io::take_peak_in_flight();
    let after = spent(counters).await;
    let busy = (after.busy_ns - before.busy_ns) as f64 / 1e9;
    Sample {
        seconds,
        fragments: read.fragments,
        aio: own.aio,
        bytes: own.bytes,
        others: all.since(own),
        blocked: after.data.data_waits - before.data.data_waits,
        dropped: after.data.discarded_bytes - before.data.discarded_bytes,
        range: after.data.data_bytes - before.data.data_bytes,
        index: after.index.since(before.index),
        pages: after.pages.since(before.pages),
        rows: after.rows.since(before.rows),
        allocations: own.allocations,
        tasks: (after.polls - before.polls).saturating_sub(1),
        instructions: instructions.zip(before.instructions).map(|(now, then)| now - then),
        cpu: (100.0 * busy / seconds.max(1e-9)).min(100.0),
        depth,
        error: None,
    }
}

impl Sample {
    /// Fragments per second.
    pub(crate) fn rate(&self) -> f64 {
        self.fragments as f64 / self.seconds.max(1e-9)
    }
}

/// A value of a column, as it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Seconds(f64),
    Count(u64),
    Rate(f64),
    Mean(f64),
    Percent(f64),
    /// Nothing to tell.
    Absent,
}

/// The repetitions of a read, reduced.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    pub(crate) columns: Vec<(&'static str, Value)>,
    pub(crate) error: Option<String>,
}

/// Reduces repetitions of one read to the median one by rate of fragments. Panics on none.
pub(crate) fn reduce(samples: &[Sample]) -> Result {
    let by_rate = |sample: &&Sample| {
        let rate = sample.rate();
        // Reads that yield nothing are told apart by their time.
        if rate == 0.0 { -sample.seconds } else { rate }
    };
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    sorted.sort_by(|a, b| by_rate(a).total_cmp(&by_rate(b)));
    let middle = sorted[(sorted.len() - 1) / 2];
    let rates: Vec<f64> = samples.iter().map(Sample::rate).collect();
    let deviations: Vec<f64> = rates.iter().map(|rate| (rate - middle.rate()).abs()).collect();
    let aio: u64 = samples.iter().map(|sample| sample.aio).sum();
    let instructions = match middle.instructions {
        Some(count) => Value::Count(count / middle.fragments.max(1)),
        None => Value::Absent,
    };
    let columns = vec![
        ("time (s)", Value::Seconds(middle.seconds)),
        ("iterations", Value::Count(samples.len() as u64)),
        ("frags", Value::Count(middle.fragments)),
        ("frag/s", Value::Rate(middle.rate())),
        ("mad f/s", Value::Rate(median(&deviations).unwrap_or(0.0))),
        ("max f/s", Value::Rate(rates.iter().copied().fold(0.0, f64::max))),
        ("min f/s", Value::Rate(rates.iter().copied().fold(f64::MAX, f64::min))),
        ("avg aio", Value::Mean(aio as f64 / samples.len() as f64)),
        ("aio", Value::Count(middle.aio)),
        ("(KiB)", Value::Count(middle.bytes.div_ceil(1024))),
        ("blocked", Value::Count(middle.blocked)),
        ("dropped", Value::Count(middle.dropped)),
        ("idx hit", Value::Count(middle.index.hits)),
        ("idx miss", Value::Count(middle.index.misses)),
        ("idx blk", Value::Count(middle.index.blocks)),
        ("c hit", Value::Count(middle.rows.hits)),
        ("c miss", Value::Count(middle.rows.misses)),
        ("c blk", Value::Count(middle.rows.blocks)),
        ("allocs", Value::Count(middle.allocations)),
        ("tasks", Value::Count(middle.tasks)),
        ("insns/f", instructions),
        ("cpu", Value::Percent(middle.cpu)),
        ("range B", Value::Count(middle.range)),
        ("pg hit", Value::Count(middle.pages.hits)),
        ("pg miss", Value::Count(middle.pages.misses)),
        ("depth", Value::Count(samples.iter().map(|sample| sample.depth).max().unwrap_or(0))),
        ("o aio", Value::Count(middle.others.aio)),
        ("o allocs", Value::Count(middle.others.allocations)),
    ];
    let error = samples.iter().find_map(|sample| sample.error.clone());
    Result { columns, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_repetition_by_rate_is_told() {
        let sample = |seconds, aio| Sample { seconds, aio, fragments: 10, ..Sample::default() };
        let result = reduce(&[sample(4.0, 9), sample(1.0, 1), sample(2.0, 2)]);
        let get = |name| result.columns.iter().find(|(column, _)| *column == name).unwrap().1;
        assert_eq!(get("time (s)"), Value::Seconds(2.0));
        assert_eq!(get("aio"), Value::Count(2));
        assert_eq!(get("avg aio"), Value::Mean(4.0));
        assert_eq!(get("max f/s"), Value::Rate(10.0));
        assert_eq!(get("mad f/s"), Value::Rate(2.5));
        assert_eq!(get("insns/f"), Value::Absent);
        assert_eq!(result.error, None);
    }

    #[test]
    fn what_other_tasks_ask_for_is_no_cost_of_a_read() {
        runtime::sim::test(1, || async {
            let scope = runtime::task::Scope::new();
            let other = scope.spawn(async { drop(std::hint::black_box(vec![1; 100])) });
            let before = Asked::of_shard();
            let own = counted(async {
                let own = std::hint::black_box(Box::new(7));
                let _ = other.await;
                *own
            });
            let (seven, asked) = own.await;
            assert_eq!((seven, asked), (7, Asked { allocations: 1, ..Asked::default() }));
            let others = Asked::of_shard().since(before).since(asked);
            assert!(1 <= others.allocations, "{others:?}");
        });
    }

    #[test]
    fn reads_of_nothing_have_a_median_too() {
        let sample = |seconds| Sample { seconds, ..Sample::default() };
        let result = reduce(&[sample(3.0), sample(1.0), sample(2.0)]);
        assert_eq!(result.columns[0].1, Value::Seconds(2.0));
    }
}
