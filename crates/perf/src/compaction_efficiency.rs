//! `perf-compaction-efficiency`: what a compaction strategy costs in writes, in space and in
//! SSTables that a read looks at.
//!
//! A storage of one shard without a node: real memtables, real flushes after random numbers of
//! operations, and the compactions that the strategy asks for, on the disk. After each flush the
//! run waits until nothing is left to merge, so what is measured is the strategy and not how fast
//! the machine is. Nothing is logged: no deletion is kept for what a log would bring back.
//!
//! In reading order: [`options`], [`workload`] (what is written; pure), this, [`figures`] (what
//! comes of it; pure).
//!
//! Invariants
//!  - *one-unit*: live bytes are the partitions that live, each with what it takes in one SSTable
//!    of nothing else; disk bytes are all SSTables, both with their indexes.
//!  - *no-backlog*: figures of reads are taken when the strategy has nothing more to do; those of
//!    space then and right after the flush.

mod figures;
mod options;
mod workload;

use self::options::Extent;
use self::options::Options;
use super::tool::{self, Bench};
use clap::Command;
use figures::Counted;
use model::{DecoratedKey, TableSchema};
use mutation::{Cell, FrozenMutation, Marker, MutationBuilder, RowBuilder, Tombstone};
use runtime::time::{Instant, sleep, wall_micros};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use stdx::Bytes;
use storage::{Log, Storage};
use workload::{Operation, Workload};

/// Partitions by which the size of one is found.
const UNIT_PARTITIONS: u64 = 10_000;
/// Reads that are looked at each time.
const READS: usize = 100;
/// Operations between two turns for others.
const STRETCH: u64 = 64;
/// Between two looks at compactions, and how long they may take.
const LOOK: Duration = Duration::from_millis(1);
const SETTLE_MAX: Duration = Duration::from_secs(600);
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

async fn measure(options: &Options, bench: &Bench) -> Result<(), String> {
    let _lock = node::lock(&bench.folder()).await?;
    let mut config = node::config(&bench.values, bench.shards)?.boot.storage;
    config.row_cache_bytes_max = 0;
    let storage = Storage::open(config).await.map_err(|error| error.to_string())?;
    let counted = measure_in(options, &storage).await;
    storage.stop().await.map_err(|error| error.to_string())?;
    let counted = counted?;
    match options.json {
        true => println!("{}", counted.json(options)),
        false => println!("{}", counted.text(options)),
    }
    Ok(())
}

async fn measure_in(options: &Options, storage: &Rc<Storage>) -> Result<Counted, String> {
    let tables = [options.table("unit", 1)?, options.table("cf", 2)?];
    for schema in &tables {
        let map = model::TabletMap::static_map(1);
        let added = storage.add_table(schema.clone(), map, Log::Data).await;
        added.map_err(|error| error.to_string())?;
        storage.set_auto_compaction(schema.id, false);
    }
    storage.replay(Log::Data).await.map_err(|error| error.to_string())?;
    let [unit, schema] = &tables;
    let partition_bytes = partition_bytes(options, storage, unit).await?;
    let mut run = Run::new(options, storage, schema, partition_bytes);
    run.go_on(options.warmup).await?;
    run.counted = Counted::default();
    run.go_on(options.measured).await?;
    run.conclude();
    for schema in &tables {
        let dropped = storage.drop_table(schema.id, None).await;
        dropped.map_err(|error| error.to_string())?;
    }
    Ok(run.counted)
}

/// What a partition takes in an SSTable of nothing but live ones (*one-unit*).
async fn partition_bytes(
    options: &Options,
    storage: &Rc<Storage>,
    schema: &Rc<TableSchema>,
) -> Result<f64, String> {
    let count = options.partitions.min(UNIT_PARTITIONS);
    let mut run = Run::new(options, storage, schema, 0.0);
    for number in 0..count {
        run.apply(Operation::Write(number), now())?;
        if number % STRETCH == 0 {
            runtime::task::yield_if_needed().await;
        }
    }
    storage.flush(schema.id).await.map_err(|error| error.to_string())?;
    Ok(run.disk_bytes() as f64 / count as f64)
}

/// Seconds since 1970.
fn now() -> i64 {
    wall_micros().div_euclid(1_000_000)
}

/// A table that is written to.
struct Run<'o> {
    options: &'o Options,
    storage: &'o Rc<Storage>,
    schema: &'o Rc<TableSchema>,
    partition_bytes: f64,
    workload: Workload,
    value: Vec<u8>,
    /// Of the last operation, in microseconds.
    timestamp: i64,
    /// Operations until the next flush.
    until_flush: u64,
    counted: Counted,
}

impl<'o> Run<'o> {
    fn new(
        options: &'o Options,
        storage: &'o Rc<Storage>,
        schema: &'o Rc<TableSchema>,
        partition_bytes: f64,
    ) -> Run<'o> {
        let Options { partitions, distribution, mix, time_to_live, .. } = *options;
        let mut workload = Workload::new(partitions, distribution, mix, time_to_live, 1);
        let (least, most) = options.flush_interval;
        let until_flush = workload.between(least, most);
        Run {
            options,
            storage,
            schema,
            partition_bytes,
            workload,
            value: vec![0; options.value_bytes],
            timestamp: 0,
            until_flush,
            counted: Counted::default(),
        }
    }

    /// Does operations, and flushes now and then.
    async fn go_on(&mut self, extent: Extent) -> Result<(), String> {
        let begun = Instant::now();
        let (mut done, mut told) = (0, begun);
        loop {
            let left = match extent {
                Extent::Operations(count) => count - done,
                Extent::For(span) if begun.elapsed() < span => STRETCH,
                Extent::For(_) => 0,
            };
            let count = left.min(STRETCH).min(self.until_flush);
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                let now = now();
                let operation = self.workload.next(now);
                self.apply(operation, now)?;
            }
            done += count;
            self.counted.operations += count;
            self.until_flush -= count;
            if self.until_flush == 0 {
                self.flush().await?;
                let (least, most) = self.options.flush_interval;
                self.until_flush = self.workload.between(least, most);
            }
            if PROGRESS <= told.elapsed() {
                told = Instant::now();
                eprintln!("{done} operations in {} s", begun.elapsed().as_secs());
            }
            runtime::task::yield_if_needed().await;
        }
    }

    fn apply(&mut self, operation: Operation, now: i64) -> Result<(), String> {
        self.timestamp = wall_micros().max(self.timestamp + 1);
        let mutation = self.mutation(operation, now);
        self.storage.apply_unlogged(&mutation).map_err(|error| error.to_string())
    }

    fn mutation(&mut self, operation: Operation, now: i64) -> FrozenMutation {
        let (timestamp, ttl) = (self.timestamp, self.options.time_to_live);
        let number = match operation {
            Operation::Write(number) => number,
            Operation::Delete(number) => {
                // Deletions are old enough once they are over a second old, and no second of this
                // run is to differ from the others.
                let mut builder = MutationBuilder::new(self.schema, &number.to_be_bytes());
                builder.delete_partition(Tombstone::new(timestamp, now - 1));
                return builder.freeze();
            }
        };
        self.workload.fill(&mut self.value);
        let mut row = RowBuilder::new(Vec::new());
        let expiry = now + ttl;
        match ttl {
            0 => row.marker(Marker::Live { timestamp }),
            _ => row.marker(Marker::Expiring { timestamp, expiry, ttl: ttl as i32 }),
        };
        for column in self.schema.regulars() {
            row.cell(
                column.id,
                match ttl {
                    0 => Cell::live(timestamp, &self.value),
                    _ => Cell::expiring(timestamp, &self.value, expiry, ttl as i32),
                },
            );
        }
        let mut builder = MutationBuilder::new(self.schema, &number.to_be_bytes());
        builder.row(&[], &row.finish());
        builder.freeze()
    }

    /// Flushes, lets the strategy merge what it wants, and looks at what there is (*no-backlog*).
    async fn flush(&mut self) -> Result<(), String> {
        let before = self.disk_bytes();
        self.storage.flush(self.schema.id).await.map_err(|error| error.to_string())?;
        let after = self.disk_bytes();
        self.counted.flushes += 1;
        self.counted.flushed_bytes += after - before;
        self.note_space();
        self.settle().await?;
        for ended in self.storage.take_finished_compactions() {
            if ended.job.table == self.schema.id {
                self.counted.compactions += 1;
                self.counted.compacted_bytes += ended.bytes_out;
            }
        }
        self.note_space();
        let every = self.options.read_frequency;
        if 0 < every && self.counted.flushes.is_multiple_of(every) {
            self.look_at_reads()?;
        }
        if self.options.verbose {
            let stats = self.storage.table_stats(self.schema.id).unwrap_or_default();
            eprintln!(
                "flush {}: {} bytes; then {} SSTables of {} bytes, {:.3} for each live one; {} \
                 bytes written by {} compactions so far",
                self.counted.flushes,
                after - before,
                stats.sstables,
                stats.sstable_bytes,
                self.counted.space.last().copied().unwrap_or(f64::NAN),
                self.counted.compacted_bytes,
                self.counted.compactions
            );
        }
        Ok(())
    }

    /// Waits until the strategy has nothing more to do.
    async fn settle(&self) -> Result<(), String> {
        let (id, begun) = (self.schema.id, Instant::now());
        let is_busy = || {
            let running = self.storage.running_compactions();
            0 < self.storage.pending_compactions(id) || running.iter().any(|job| job.table == id)
        };
        while is_busy() {
            if SETTLE_MAX <= begun.elapsed() {
                return Err("compactions do not come to an end".to_string());
            }
            // Wakes those who compact as well: a window of time may have ended meanwhile.
            self.storage.set_auto_compaction(id, true);
            sleep(LOOK).await;
        }
        self.storage.set_auto_compaction(id, false);
        Ok(())
    }

    fn look_at_reads(&mut self) -> Result<(), String> {
        let now = now();
        for _ in 0..READS {
            let Some(number) = self.workload.any_living(now) else { return Ok(()) };
            let key = DecoratedKey::new(Bytes::copy_from(&number.to_be_bytes()));
            let holders = self.storage.holders(self.schema.id, &key);
            let holders = holders.map_err(|error| error.to_string())?;
            let files = holders.iter().filter(|one| one.name().starts_with("sstable:"));
            self.counted.reads.push(files.count() as f64);
        }
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        self.storage.table_stats(self.schema.id).map_or(0, |stats| stats.sstable_bytes)
    }

    fn live_bytes(&self) -> u64 {
        (self.workload.live_count(now()) as f64 * self.partition_bytes) as u64
    }

    fn note_space(&mut self) {
        let (disk_bytes, live_bytes) = (self.disk_bytes(), self.live_bytes());
        self.counted.note_space(disk_bytes, live_bytes);
    }

    fn conclude(&mut self) {
        let stats = self.storage.table_stats(self.schema.id).unwrap_or_default();
        self.counted.sstables = stats.sstables;
        self.counted.live_partitions = self.workload.live_count(now());
        self.counted.live_bytes = self.live_bytes();
    }
}
