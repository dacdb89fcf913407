//! Latencies and outcomes of the reads and writes that this shard coordinated: of all tables
//! together, and of each.
//!
//! Lives on: every shard. Coordinators record; metrics and the REST API read.
//!
//! Invariants
//!  - *made-when-used*: a table that is neither read nor written has no histogram; one that is
//!    used has five at most, of some 4 KiB each.
//!  - *outlives-changes*: the versions of a table's schema share what was recorded of it.
//!
//! Recording allocates once for each kind of work on a table, and nothing from then on.

use crate::registry::Cluster;
use runtime::time::{Instant, Mark};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Duration;
pub use stdx::histogram::{Rates, Snapshot};

/// What a coordinator does for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A read of one partition.
    Read,
    /// A write, an increment of a counter, or a batch.
    Write,
    /// A read of a token range.
    Scan,
    /// A read at a serial level.
    CasRead,
    /// A conditional write.
    CasWrite,
}

impl Work {
    /// All of them, in the order of their definition.
    pub const ALL: [Work; 5] = [Work::Read, Work::Write, Work::Scan, Work::CasRead, Work::CasWrite];
}

/// How work ended that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It took too long.
    Timeout,
    /// Too few copies are alive.
    Unavailable,
    /// The partition was asked too often.
    RateLimited,
    /// Anything else.
    Other,
}

impl Failure {
    /// All of them, in the order of their definition.
    pub const ALL: [Failure; 4] =
        [Failure::Timeout, Failure::Unavailable, Failure::RateLimited, Failure::Other];
}

/// How often the rates of everything are brought up to date.
const LOOK_PERIOD: Duration = Duration::from_secs(10);

/// A number that grows.
#[derive(Debug, Default)]
pub struct Count(Cell<u64>);

impl Count {
    /// Adds some.
    #[inline]
    pub fn add(&self, some: u64) {
        self.0.set(self.0.get() + some);
    }

    /// What it has come to.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// How long one kind of work took.
#[derive(Debug, Default)]
struct Timing(OnceCell<Box<Timed>>);

#[derive(Debug, Default)]
struct Timed {
    histogram: stdx::histogram::Histogram,
    rates: Cell<Rates>,
    /// As of the last look, and what had come since the look before.
    looked: RefCell<(Snapshot, Snapshot)>,
}

impl Timing {
    #[inline]
    fn record(&self, nanos: u64) {
        self.0.get_or_init(Box::default).histogram.record(nanos);
    }

    fn look(&self, seconds: f64) {
        if let Some(timed) = self.0.get() {
            let (mut rates, now) = (timed.rates.get(), timed.histogram.snapshot());
            rates.look(now.count(), seconds);
            timed.rates.set(rates);
            let mut looked = timed.looked.borrow_mut();
            let recent = now.since(&looked.0);
            *looked = (now, recent);
        }
    }

    fn taken(&self) -> Option<Taken> {
        let timed = self.0.get()?;
        let recent = timed.looked.borrow().1.clone();
        Some(Taken { spans: timed.histogram.snapshot(), rates: timed.rates.get(), recent })
    }
}

/// How long work took, in nanoseconds, and how often it was done; of one shard or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// All spans.
    pub spans: Snapshot,
    /// As of the last look, at most ten seconds ago.
    pub rates: Rates,
    /// The spans of the ten seconds before that.
    pub recent: Snapshot,
}

impl Taken {
    /// With that of another shard or table.
    pub fn merge(&mut self, other: &Taken) {
        self.spans.merge(&other.spans);
        self.rates.merge(&other.rates);
        self.recent.merge(&other.recent);
    }
}

/// What was recorded of a table on this shard. No part of what a table is: any two are equal.
#[derive(Debug, Default)]
pub struct TableTraffic([Timing; Work::ALL.len()]);

impl TableTraffic {
    /// Records work of which this table is a part beside another one.
    pub fn record(&self, work: Work, began: Mark) {
        let nanos = began.elapsed_nanos();
        self.0[work as usize].record(nanos);
    }

    /// `None`: it was never done.
    pub fn taken(&self, work: Work) -> Option<Taken> {
        self.0[work as usize].taken()
    }
}

impl PartialEq for TableTraffic {
    fn eq(&self, _: &TableTraffic) -> bool {
        true
    }
}

impl Eq for TableTraffic {}

/// Conditional writes.
#[derive(Debug, Default)]
pub struct CasCounts {
    /// Their conditions did not hold.
    pub condition_not_met: Count,
    /// Writes of rounds that another had left unfinished.
    pub unfinished_commits: Count,
    /// Rows of ended rounds that were removed.
    pub pruned: Count,
    /// Such rows that stay until the next start.
    pub dropped_prunes: Count,
}

/// What a shard has led. Lives in `runtime::local`; see [`Traffic::of_shard`].
#[derive(Debug, Default)]
pub struct Traffic {
    timings: [Timing; Work::ALL.len()],
    failures: [[Count; Failure::ALL.len()]; Work::ALL.len()],
    /// Conditional writes that this shard, which owns the partitions, has led.
    pub cas: CasCounts,
    /// Reads and writes sent to other shards.
    pub cross_shard: Count,
    /// Mutations written, batches' one by one.
    pub mutations: Count,
    /// Batches that were written to the batchlog before they were applied.
    pub logged_batches: Count,
    /// Retries of batches that were applied in part.
    pub batch_retries: Count,
    in_flight: [Cell<u64>; Work::ALL.len()],
}

impl Traffic {
    /// That of this shard.
    pub fn of_shard() -> Rc<Traffic> {
        runtime::local::get_or_default()
    }

    /// Records work on a table that was done or timed out.
    #[inline]
    pub fn record(&self, table: &TableTraffic, work: Work, began: Mark) {
        let nanos = began.elapsed_nanos();
        self.timings[work as usize].record(nanos);
        table.0[work as usize].record(nanos);
    }

    /// Counts failed work.
    pub fn fail(&self, work: Work, failure: Failure) {
        self.failures[work as usize][failure as usize].add(1);
    }

    /// Work that waits for something is in flight until the answer is dropped.
    pub fn begin(&self, work: Work) -> InFlight<'_> {
        let count = &self.in_flight[work as usize];
        count.set(count.get() + 1);
        InFlight(count)
    }

    /// How long work took; `None`: it was never done.
    pub fn taken(&self, work: Work) -> Option<Taken> {
        self.timings[work as usize].taken()
    }

    /// How often work failed so.
    pub fn failures(&self, work: Work, failure: Failure) -> u64 {
        self.failures[work as usize][failure as usize].get()
    }

    /// Work that is in flight and waits.
    pub fn in_flight(&self, work: Work) -> u64 {
        self.in_flight[work as usize].get()
    }

    /// Brings rates up to date, for as long as this shard has a cluster.
    pub async fn keep_rates() {
        let mut last = Instant::now();
        loop {
            runtime::time::sleep(LOOK_PERIOD).await;
            let now = Instant::now();
            let seconds = (now - last).as_secs_f64();
            last = now;
            let Some(cluster) = runtime::local::try_get::<Cluster>() else { return };
            Traffic::of_shard().timings.iter().for_each(|timing| timing.look(seconds));
            let schema = cluster.schema();
            for table in schema.tables() {
                table.traffic.0.iter().for_each(|timing| timing.look(seconds));
                runtime::task::yield_if_needed().await;
            }
        }
    }
}

/// See [`Traffic::begin`].
#[derive(Debug)]
pub struct InFlight<'t>(&'t Cell<u64>);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// How long work took on all shards together: of one table, or of all.
pub async fn taken_on_node(work: Work, table: Option<model::TableId>) -> Taken {
    let of_shard = move || async move {
        match table {
            None => Traffic::of_shard().taken(work),
            Some(id) => {
                let cluster = runtime::local::try_get::<Cluster>()?;
                cluster.schema().table_by_id(id)?.traffic.taken(work)
            }
        }
    };
    let mut all = Taken::default();
    let shards = runtime::on_all_shards(of_shard).await;
    shards.into_iter().flatten().for_each(|taken| all.merge(&taken));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_what_was_recorded_of_it() {
        let (all, one, other) =
            (Traffic::default(), TableTraffic::default(), TableTraffic::default());
        let now = Mark::now();
        all.record(&one, Work::Read, now);
        all.record(&other, Work::Read, now);
        all.record(&other, Work::Write, now);
        let counts = |taken: Option<Taken>| taken.map(|taken| taken.spans.count());
        let check = |work, expected: [Option<u64>; 3]| {
            let found = [all.taken(work), one.taken(work), other.taken(work)].map(counts);
            assert_eq!(found, expected, "{work:?}");
        };
        check(Work::Read, [Some(2), Some(1), Some(1)]);
        check(Work::Write, [Some(1), None, Some(1)]);
        check(Work::Scan, [None, None, None]);
        assert_eq!(one, other);
    }

    #[test]
    fn failures_and_work_in_flight_are_counted_by_kind() {
        let traffic = Traffic::default();
        traffic.fail(Work::Scan, Failure::Unavailable);
        assert_eq!(traffic.failures(Work::Scan, Failure::Unavailable), 1);
        assert_eq!(traffic.failures(Work::Scan, Failure::Timeout), 0);
        assert_eq!(traffic.failures(Work::Read, Failure::Unavailable), 0);
        let two = (traffic.begin(Work::Read), traffic.begin(Work::Read));
        assert_eq!((traffic.in_flight(Work::Read), traffic.in_flight(Work::Write)), (2, 0));
        drop(two);
        assert_eq!(traffic.in_flight(Work::Read), 0);
    }
}
