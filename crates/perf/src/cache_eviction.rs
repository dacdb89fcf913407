//! `perf-cache-eviction`: memtables that push others out of the row cache, with reads beside them.
//!
//! One cache without SSTables. A writer makes one partition after the other; each memtable is
//! merged into the cache, where what is coldest goes. A reader asks for partitions that were
//! written, lately more often than long ago, each time after one turn of whatever else runs, as a
//! request would. Each second a line tells what was done and how long it took.

mod options;

use self::options::Options;
use super::latencies::Latencies;
use super::offline;
use super::tool;
use clap::Command;
use model::{DecoratedKey, TableSchema};
use mutation::{Cell as Value, MutationBuilder, RowBuilder};
use runtime::task::{Scope, yield_now};
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use stdx::{Bytes, Prng};
use storage::memtable::Memtable;
use storage::{LoneCache, RowCacheStats};

/// The cache with its writer and its reader.
struct Pair {
    schema: Rc<TableSchema>,
    cache: LoneCache,
    value: Vec<u8>,
    memtable_rows: u64,
    /// Partitions that were merged.
    merged: Cell<u64>,
    seen: RefCell<Seen>,
    failed: RefCell<Option<String>>,
    /// Both end.
    stopped: Cell<bool>,
}

/// How long operations took, in nanoseconds, and what reads found.
#[derive(Clone, Debug, Default)]
struct Seen {
    writes: Latencies,
    reads: Latencies,
    hits: u64,
}

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

async fn measure(options: &Options) -> Result<(), String> {
    let schema = offline::table("CREATE TABLE ks.cf (pk bigint PRIMARY KEY, v blob)")?;
    let pair = Rc::new(Pair {
        cache: LoneCache::new(schema.clone(), options.cache_bytes),
        schema,
        value: vec![0x5a; options.value_bytes],
        memtable_rows: options.memtable_rows,
        merged: Cell::new(0),
        seen: RefCell::default(),
        failed: RefCell::default(),
        stopped: Cell::new(false),
    });
    let (scope, stalls) = (Scope::new(), runtime::stalls().0);
    let writer = pair.clone();
    scope.spawn(async move { writer.write_on().await });
    if options.reads {
        let reader = pair.clone();
        scope.spawn(async move { reader.read_on().await });
    }
    let (end, mut all) = (Instant::now() + options.span, Seen::default());
    let mut before = pair.cache.stats();
    while Instant::now() < end {
        let start = Instant::now();
        sleep(Duration::from_secs(1)).await;
        if let Some(error) = pair.failed.take() {
            return Err(error);
        }
        let (seen, stats) = (pair.seen.take(), pair.cache.stats());
        println!("{}", line(&seen, &stats, &before, start.elapsed().as_secs_f64()));
        all.writes.add(&seen.writes);
        all.reads.add(&seen.reads);
        before = stats;
    }
    pair.stopped.set(true);
    scope.join().await;
    pair.cache.close().await;
    println!("reads : {}", percentiles(&all.reads));
    println!("writes: {}", percentiles(&all.writes));
    println!("turns that the stall detector saw: {}", runtime::stalls().0 - stalls);
    Ok(())
}

impl Pair {
    async fn write_on(&self) {
        while !self.stopped.get() {
            let memtable = offline::memtable(&self.schema);
            for number in (0..self.memtable_rows).take_while(|_| !self.stopped.get()) {
                let mutation = self.mutation(self.merged.get() + number);
                let start = Instant::now();
                offline::apply(&memtable, &self.schema, &mutation);
                self.seen.borrow_mut().writes.note(nanos(start));
                runtime::task::yield_if_needed().await;
            }
            if let Err(error) = self.cache.merge(&memtable, |_| true).await {
                *self.failed.borrow_mut() = Some(error.to_string());
                return;
            }
            self.merged.set(self.merged.get() + self.memtable_rows);
            Memtable::take_apart(memtable).await;
        }
    }

    async fn read_on(&self) {
        let mut prng = Prng::from_seed(1);
        while !self.stopped.get() {
            // Squared, so that half of the reads go to the newest quarter.
            let draw = prng.below(1 << 20) as f64 / f64::from(1 << 20);
            let back = (draw * draw * self.merged.get() as f64) as u64;
            let number = self.merged.get().saturating_sub(1 + back);
            let start = Instant::now();
            yield_now().await;
            let key = DecoratedKey::new(Bytes::copy_from(&number.to_be_bytes()));
            let found = self.cache.rows_of(&key).is_some();
            let mut seen = self.seen.borrow_mut();
            seen.reads.note(nanos(start));
            seen.hits += u64::from(found);
        }
    }

    fn mutation(&self, number: u64) -> mutation::FrozenMutation {
        let mut row = RowBuilder::new(Vec::new());
        for column in self.schema.regulars() {
            row.cell(column.id, Value::live(1, &self.value));
        }
        let mut builder = MutationBuilder::new(&self.schema, &number.to_be_bytes());
        builder.row(&[], &row.finish());
        builder.freeze()
    }
}

fn nanos(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

fn line(seen: &Seen, now: &RowCacheStats, before: &RowCacheStats, seconds: f64) -> String {
    let rate = |count: u64| count as f64 / seconds;
    let mega = |bytes: u64| bytes >> 20;
    format!(
        "rd/s: {:.0}, wr/s: {:.0}, in/s: {:.0}, ev/s: {:.0}, hit/s: {:.0}, cache: {}/{} [MB], \
         read: {}, write: {}",
        rate(seen.reads.len()),
        rate(seen.writes.len()),
        rate(now.partition_insertions - before.partition_insertions),
        rate(now.partition_evictions - before.partition_evictions),
        rate(seen.hits),
        mega(now.bytes_used),
        mega(now.bytes_limit),
        percentiles(&seen.reads),
        percentiles(&seen.writes),
    )
}

fn percentiles(nanos: &Latencies) -> String {
    if nanos.len() == 0 {
        return "none".to_string();
    }
    let at = |share: f64| nanos.quantile(share) as f64 / 1e3;
    format!(
        "{{50%: {:.1}, 90%: {:.1}, 99%: {:.1}, 99.9%: {:.1}, max: {:.1} [us]}}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_rates_and_percentiles() {
        let stats = |partition_evictions| RowCacheStats {
            partition_evictions,
            bytes_used: 3 << 20,
            bytes_limit: 4 << 20,
            ..RowCacheStats::default()
        };
        let writes = (1..=1000).collect();
        let seen = Seen { writes, reads: Latencies::default(), hits: 8 };
        assert_eq!(
            line(&seen, &stats(30), &stats(10), 2.0),
            "rd/s: 0, wr/s: 500, in/s: 0, ev/s: 10, hit/s: 4, cache: 3/4 [MB], read: none, write: \
             {50%: 0.5, 90%: 0.9, 99%: 1.0, 99.9%: 1.0, max: 1.0 [us]}"
        );
    }
}
