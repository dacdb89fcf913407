//! Latencies and outcomes of the reads and writes that this shard coordinated: of all tables
//! together, by the scheduling group of who asked; and of each table.
//!
//! Lives on: every shard. Coordinators record; metrics and the REST API read.
//!
//! Invariants
//!  - *made-when-used*: a table that is neither read nor written has no histogram; one that is
//!    used has five at most, of some 4 KiB each, and one that keeps an index six. So have groups.
//!  - *outlives-changes*: the versions of a table's schema share what was recorded of it.
//!  - *only-grows*: a count, and the number of spans in a histogram, never becomes less.
//!  - *begun-then-ended*: what is in flight was begun, and is counted where it began until it
//!    ends.
//!  - *counted-anew*: a group that takes a retired one's number begins with nothing; what was
//!    recorded of that one stays in the sums of all groups.
//!
//! Recording allocates once for each kind of work on a table, and nothing from then on.

use runtime::group::{self, Group};
use runtime::time::Mark;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
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
    /// The partition was asked too often: the shard that was asked has said so.
    RateLimited,
    /// The same, and its owners elsewhere have.
    LimitedThere,
    /// Anything else.
    Other,
}

impl Failure {
    /// All of them, in the order of their definition.
    pub const ALL: [Failure; 5] = [
        Failure::Timeout,
        Failure::Unavailable,
        Failure::RateLimited,
        Failure::LimitedThere,
        Failure::Other,
    ];
}

const _: () = {
    let mut place = 0;
    while place < Work::ALL.len() {
        assert!(Work::ALL[place] as usize == place, "counted by its place");
        place += 1;
    }
    let mut place = 0;
    while place < Failure::ALL.len() {
        assert!(Failure::ALL[place] as usize == place, "counted by its place");
        place += 1;
    }
};

/// A number that grows.
#[derive(Debug, Default)]
pub struct Count(Cell<u64>);

impl Count {
    /// Adds some.
    #[inline]
    pub fn add(&self, some: u64) {
        let sum = self.0.get().wrapping_add(some);
        debug_assert!(some <= sum, "only-grows: {some} more");
        self.0.set(sum);
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
            debug_assert!(0.0 < seconds, "rates over {seconds} seconds");
            rates.look(now.count(), seconds);
            timed.rates.set(rates);
            let mut looked = timed.looked.borrow_mut();
            let (before, count) = (looked.0.count(), now.count());
            assert!(before <= count, "only-grows: {count} after {before}");
            let recent = now.since(&looked.0);
            debug_assert!(recent.count() == count - before, "only-grows: since the last look");
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
        let counts = (self.spans.count(), other.spans.count());
        self.spans.merge(&other.spans);
        let both = self.spans.count();
        debug_assert!(both == counts.0 + counts.1, "only-grows: {counts:?} are {both}");
        self.rates.merge(&other.rates);
        self.recent.merge(&other.recent);
    }
}

/// What was recorded of a table on this shard.
#[derive(Debug, Default)]
pub struct TableTraffic {
    works: [Timing; Work::ALL.len()],
    /// Of the view that keeps an index: pages that were answered by it.
    by_index: Timing,
}

impl TableTraffic {
    /// Records a page of a result that the index which this table keeps has led to.
    pub fn record_by_index(&self, began: Mark) {
        self.by_index.record(began.elapsed_nanos());
        debug_assert!(self.by_index.0.get().is_some(), "made-when-used: an index that was asked");
    }

    /// `None`: there was none.
    pub fn taken_by_index(&self) -> Option<Taken> {
        self.by_index.taken()
    }

    /// Records work of which this table is a part beside another one.
    pub fn record(&self, work: Work, began: Mark) {
        let nanos = began.elapsed_nanos();
        self.works[work as usize].record(nanos);
    }

    /// `None`: it was never done.
    pub fn taken(&self, work: Work) -> Option<Taken> {
        self.works[work as usize].taken()
    }

    /// Brings its rates up to date.
    pub(crate) fn look(&self, seconds: f64) {
        let all = self.works.iter().chain([&self.by_index]);
        all.for_each(|timing| timing.look(seconds));
    }
}

/// Conditional writes.
#[derive(Debug, Default)]
pub struct CasCounts {
    /// Their conditions did not hold.
    pub condition_not_met: Count,
    /// Writes of rounds that another had left unfinished, completed by conditional writes.
    pub unfinished_commits: Count,
    /// The same by serial reads.
    pub unfinished_by_reads: Count,
    /// Times that a round began again, because another one had begun.
    pub contention: Count,
    /// How often conditional writes began again, of those that did, and serial reads.
    pub contended_writes: Contended,
    pub contended_reads: Contended,
    /// Conditional writes that ended in a timeout since nobody knew what became of them.
    pub uncertain: Count,
    /// Conditional writes and serial reads that took part in the round of another one.
    pub shared: Count,
    /// Rows of ended rounds that were removed.
    pub pruned: Count,
    /// Such rows that stay until the next start.
    pub dropped_prunes: Count,
}

/// Writes that one replica of a data centre passes on to the others there.
#[derive(Debug, Default)]
pub struct RelayCounts {
    /// Relays that this shard has told, once for each data centre.
    pub told: Count,
    /// Those that broke, so that the replicas behind them were told directly.
    pub broken: Count,
    /// Replicas to which this shard has passed on what another node coordinates.
    pub forwarded: Count,
    /// Those that it did not reach.
    pub errors: Count,
}

/// How often requests did something, of those that did it at all.
#[derive(Debug, Default)]
pub struct Contended {
    /// Those that did it at most so often: once, twice, 4, 8 .. 128 times, or more often.
    counts: [Count; Contended::BOUNDS.len() + 1],
    times: Count,
}

impl Contended {
    /// The bounds of the counts.
    pub const BOUNDS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

    /// A request did it so often.
    pub fn add(&self, times: u64) {
        if times == 0 {
            return;
        }
        self.counts[Contended::BOUNDS.partition_point(|bound| *bound < times)].add(1);
        self.times.add(times);
    }

    /// How many requests are within each bound and beyond the one before; the last are beyond all.
    pub fn counts(&self) -> [u64; Contended::BOUNDS.len() + 1] {
        self.counts.each_ref().map(Count::get)
    }

    /// How often all of them did it.
    pub fn times(&self) -> u64 {
        self.times.get()
    }
}

/// What a shard has led in one scheduling group.
#[derive(Debug, Default)]
pub struct Led {
    timings: [Timing; Work::ALL.len()],
    failures: [[Count; Failure::ALL.len()]; Work::ALL.len()],
    in_flight: [Cell<u64>; Work::ALL.len()],
}

impl Led {
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
}

/// What was led in groups that are no more.
#[derive(Debug, Default)]
struct Former {
    spans: [Snapshot; Work::ALL.len()],
    failures: [[u64; Failure::ALL.len()]; Work::ALL.len()],
}

impl Former {
    fn add(&mut self, led: &Led) {
        for work in Work::ALL {
            let taken = led.taken(work).unwrap_or_default();
            self.spans[work as usize].merge(&taken.spans);
            for failure in Failure::ALL {
                self.failures[work as usize][failure as usize] += led.failures(work, failure);
            }
        }
    }
}

/// What a shard has led. Lives in `runtime::local`; see [`Traffic::of_shard`].
#[derive(Debug, Default)]
pub struct Traffic {
    /// By the number of the group.
    led: RefCell<Vec<Option<Rc<Led>>>>,
    former: RefCell<Former>,
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
    /// Reads and writes that other nodes coordinate, and this shard rejected: of partitions that
    /// were asked too often.
    pub rejected: [Count; 2],
    /// Writes by way of a replica of another data centre.
    pub relays: RelayCounts,
}

impl Traffic {
    /// That of this shard.
    pub fn of_shard() -> Rc<Traffic> {
        runtime::local::get_or_default()
    }

    /// Records work on a table, of the running task, that was done or timed out.
    #[inline]
    pub fn record(&self, table: &TableTraffic, work: Work, began: Mark) {
        let nanos = began.elapsed_nanos();
        table.works[work as usize].record(nanos);
        let group = group::current();
        if let Some(Some(led)) = self.led.borrow().get(group.number()) {
            return led.timings[work as usize].record(nanos);
        }
        self.led(group).timings[work as usize].record(nanos);
    }

    /// Counts failed work.
    pub fn fail(&self, work: Work, failure: Failure) {
        self.led(group::current()).failures[work as usize][failure as usize].add(1);
    }

    /// Work that waits for something is in flight until the answer is dropped.
    pub fn begin(&self, work: Work) -> InFlight {
        let led = self.led(group::current());
        let count = &led.in_flight[work as usize];
        count.set(count.get() + 1);
        InFlight { led, work }
    }

    /// What is led in a group.
    fn led(&self, group: Group) -> Rc<Led> {
        let number = group.number();
        let mut all = self.led.borrow_mut();
        if all.len() <= number {
            all.resize(number + 1, None);
        }
        all[number].get_or_insert_default().clone()
    }

    /// A group was created: nothing was led in it yet. (*counted-anew*)
    pub(crate) fn began(&self, group: Group) {
        let mut all = self.led.borrow_mut();
        if let Some(before) = all.get_mut(group.number()).and_then(Option::take) {
            self.former.borrow_mut().add(&before);
        }
    }

    /// What was led in each group, by its name; not of those that are no more. That of statements
    /// is among them before the first one.
    pub fn by_group(&self) -> Vec<(String, Rc<Led>)> {
        self.led(group::STATEMENT);
        let all = self.led.borrow();
        let numbered = all.iter().enumerate();
        let of = |(number, led): (usize, &Option<Rc<Led>>)| {
            Some((group::name(Group::numbered(number)?)?, led.clone()?))
        };
        numbered.filter_map(of).collect()
    }

    /// How long work took, in whatever group; `None`: it was never done.
    pub fn taken(&self, work: Work) -> Option<Taken> {
        let spans = self.former.borrow().spans[work as usize].clone();
        let former = (spans != Snapshot::default()).then(|| Taken { spans, ..Taken::default() });
        let all = self.led.borrow();
        let present = all.iter().flatten().filter_map(|led| led.taken(work));
        former.into_iter().chain(present).reduce(|mut sum, taken| {
            sum.merge(&taken);
            sum
        })
    }

    /// How often work failed so.
    pub fn failures(&self, work: Work, failure: Failure) -> u64 {
        let former = self.former.borrow().failures[work as usize][failure as usize];
        let all = self.led.borrow();
        former + all.iter().flatten().map(|led| led.failures(work, failure)).sum::<u64>()
    }

    /// Brings the rates of everything that was recorded under no table up to date.
    pub(crate) fn look(&self, seconds: f64) {
        let all = self.led.borrow();
        let timings = all.iter().flatten().flat_map(|led| &led.timings);
        timings.for_each(|timing| timing.look(seconds));
    }
}

/// See [`Traffic::begin`].
#[derive(Debug)]
pub struct InFlight {
    led: Rc<Led>,
    work: Work,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let count = &self.led.in_flight[self.work as usize];
        let under_way = count.get();
        debug_assert!(0 < under_way, "begun-then-ended: what ends has not begun");
        count.set(under_way.wrapping_sub(1));
    }
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
    }

    #[test]
    fn failures_and_work_in_flight_are_counted_by_kind() {
        let traffic = Traffic::default();
        traffic.fail(Work::Scan, Failure::Unavailable);
        assert_eq!(traffic.failures(Work::Scan, Failure::Unavailable), 1);
        assert_eq!(traffic.failures(Work::Scan, Failure::Timeout), 0);
        assert_eq!(traffic.failures(Work::Read, Failure::Unavailable), 0);
        let two = (traffic.begin(Work::Read), traffic.begin(Work::Read));
        let led = traffic.led(group::current());
        assert_eq!((led.in_flight(Work::Read), led.in_flight(Work::Write)), (2, 0));
        drop(two);
        assert_eq!(led.in_flight(Work::Read), 0);
    }

    #[test]
    fn groups_are_counted_apart_and_together() {
        runtime::sim::test(1, || async {
            let (traffic, table) = (Rc::<Traffic>::default(), Rc::<TableTraffic>::default());
            let write = |group| {
                let (traffic, table) = (traffic.clone(), table.clone());
                group::with_group(group, async move {
                    traffic.record(&table, Work::Write, Mark::now());
                    traffic.fail(Work::Write, Failure::Timeout);
                })
            };
            let shown = || {
                let all = traffic.by_group().into_iter().map(|(name, led)| {
                    let count = led.taken(Work::Write).map_or(0, |taken| taken.spans.count());
                    (name, count, led.failures(Work::Write, Failure::Timeout))
                });
                all.map(|(name, done, failed)| format!("{name} {done} {failed}"))
                    .collect::<Vec<_>>()
            };
            let sums = || {
                let taken = traffic.taken(Work::Write).unwrap_or_default();
                (taken.spans.count(), traffic.failures(Work::Write, Failure::Timeout))
            };
            let first = group::create("sl:first", 1);
            traffic.began(first);
            for group in [group::STATEMENT, first, first] {
                write(group).await;
            }
            assert_eq!(shown(), ["sl:default 1 1", "sl:first 2 2"]);
            assert_eq!(sums(), (3, 3));
            // *counted-anew*
            group::retire(first);
            assert_eq!(shown(), ["sl:default 1 1"]);
            assert_eq!(sums(), (3, 3));
            let second = group::create("sl:second", 1);
            assert_eq!(first, second, "it takes the number");
            traffic.began(second);
            write(second).await;
            assert_eq!(shown(), ["sl:default 1 1", "sl:second 1 1"]);
            assert_eq!(sums(), (4, 4));
        });
    }

    #[test]
    fn who_began_again_is_counted_by_how_often() {
        let contended = Contended::default();
        for times in [0, 1, 1, 2, 3, 4, 128, 129, 1000] {
            contended.add(times);
        }
        assert_eq!(contended.counts(), [2, 1, 2, 0, 0, 0, 0, 1, 2]);
        assert_eq!(contended.times(), 1268);
    }
}
