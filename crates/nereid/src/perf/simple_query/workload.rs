//! The operations of `perf-simple-query` on one shard: its keys, its prepared statement, its
//! workers.

use super::options::{Operation, Options};
use cluster::Cluster;
use model::Token;
use query::{CqlError, Parameters, Prepared, Processor, Session, Value, Values};
use runtime::counters::Counters;
use runtime::task::Scope;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const KEYSPACE: &str = "ks";
const VALUE_BYTES: usize = 34;
/// The time of one operation of so many is taken: often enough, and too seldom to be felt.
const TIMED_EVERY: u64 = 16;

/// When a sample ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Time(Duration),
    Operations(u64),
}

/// What was done during a sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worked {
    pub(crate) operations: u64,
    pub(crate) errors: u64,
    pub(crate) allocations: u64,
    pub(crate) tasks: u64,
    /// `None` where the processor's counters cannot be read.
    pub(crate) instructions: Option<u64>,
    pub(crate) cycles: Option<u64>,
    /// Of some operations, in microseconds.
    pub(crate) latencies: Vec<u32>,
}

impl Worked {
    /// Adds another shard's.
    pub(crate) fn add(&mut self, other: &Worked) {
        let both = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        let first = self.operations == 0 && self.instructions.is_none();
        self.instructions = match first {
            true => other.instructions,
            false => both(self.instructions, other.instructions),
        };
        self.cycles = if first { other.cycles } else { both(self.cycles, other.cycles) };
        self.operations += other.operations;
        self.errors += other.errors;
        self.allocations += other.allocations;
        self.tasks += other.tasks;
        self.latencies.extend(&other.latencies);
    }
}

/// A shard's part of the test. Lives in `runtime::local`.
pub(crate) struct Workload {
    processor: Rc<Processor>,
    session: Session,
    statement: Rc<Prepared>,
    /// Numbers of the keys whose partitions this shard owns.
    keys: Vec<u64>,
    next: Cell<usize>,
    concurrency: u64,
    single_key: bool,
    stop_on_error: bool,
    consistency: replication::Consistency,
    counters: Counters,
    latencies: RefCell<Vec<u32>>,
}

/// Makes the table, fills it, and gives every shard its workload.
pub(crate) async fn prepare(options: &Options) -> Result<(), String> {
    let processor = runtime::local::get::<Processor>();
    let session = Session::internal();
    for text in schema(options) {
        execute(&processor, &session, &text).await?;
    }
    populate(options, &processor, &session).await?;
    let statement = statement(options);
    let (shards, partitions) = (runtime::shard_count() as u32, options.partitions);
    let (concurrency, single_key) = (options.concurrency, options.single_key);
    let (stop_on_error, consistency) = (options.stop_on_error, options.consistency);
    let any_key = options.tablets.is_some() || !options.shard_aware;
    let made = runtime::on_all_shards(move || {
        let statement = statement.clone();
        async move {
            let processor = runtime::local::get::<Processor>();
            let session = Session::internal();
            let prepared = processor.prepare(&session, &statement, None).await;
            let statement = prepared.map_err(|error| error.to_string())?;
            let shard = runtime::shard_id();
            let mine = |number: &u64| any_key || owner(*number, shards) == shard;
            let mut keys: Vec<u64> = (0..partitions).filter(mine).collect();
            if keys.is_empty() {
                keys.push(0);
            }
            runtime::local::set(Rc::new(Workload {
                processor,
                session,
                statement,
                keys,
                next: Cell::new(0),
                concurrency,
                single_key,
                stop_on_error,
                consistency,
                counters: Counters::open(),
                latencies: RefCell::default(),
            }));
            Ok::<(), String>(())
        }
    })
    .await;
    made.into_iter().collect()
}

fn owner(number: u64, shards: u32) -> u16 {
    Token::of(&number.to_be_bytes()).slot_of(shards) as u16
}

fn schema(options: &Options) -> Vec<String> {
    let tablets = match options.tablets {
        Some(count) => format!(" AND tablets = {{'initial': {count}}}"),
        None => " AND tablets = {'enabled': false}".to_string(),
    };
    let columns = if options.counters {
        (0..5).map(|n| format!(", \"C{n}\" counter")).collect::<String>()
    } else {
        let map = if 0 < options.collection { ", \"CC\" map<blob, blob>" } else { "" };
        (0..5).map(|n| format!(", \"C{n}\" blob")).collect::<String>() + map
    };
    vec![
        format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': \
             'NetworkTopologyStrategy', 'replication_factor': 1}}{tablets}"
        ),
        format!(
            "CREATE TABLE {KEYSPACE}.cf (\"KEY\" blob PRIMARY KEY{columns}) WITH compaction = \
             {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}"
        ),
    ]
}

/// The bytes of column `n`: constant, so that every run stores the same.
fn value(n: usize) -> String {
    let byte = |i: usize| (i * 37 + n * 101 + 7) as u8;
    (0..VALUE_BYTES).map(|i| format!("{:02x}", byte(i))).collect()
}

fn write_statement(options: &Options) -> String {
    if options.counters {
        let sets: Vec<String> =
            (0..5).map(|n| format!("\"C{n}\" = \"C{n}\" + {}", n + 1)).collect();
        return format!("UPDATE {KEYSPACE}.cf SET {} WHERE \"KEY\" = ?", sets.join(", "));
    }
    let mut sets: Vec<String> = (0..5).map(|n| format!("\"C{n}\" = 0x{}", value(n))).collect();
    if 0 < options.collection {
        let entries: Vec<String> = (0..options.collection)
            .map(|n| format!("0x{n:016x}: 0x{}", value(n as usize)))
            .collect();
        sets.push(format!("\"CC\" = {{{}}}", entries.join(", ")));
    }
    let timeout = using_timeout(options);
    format!("UPDATE {KEYSPACE}.cf{timeout} SET {} WHERE \"KEY\" = ?", sets.join(", "))
}

fn using_timeout(options: &Options) -> String {
    match options.timeout.as_str() {
        "" => String::new(),
        timeout => format!(" USING TIMEOUT {timeout}"),
    }
}

/// The statement that is measured.
fn statement(options: &Options) -> String {
    let map = if 0 < options.collection && !options.counters { ", \"CC\"" } else { "" };
    let columns = format!("\"C0\", \"C1\", \"C2\", \"C3\", \"C4\"{map}");
    let timeout = using_timeout(options);
    let bypass = if options.bypass_cache { " BYPASS CACHE" } else { "" };
    match options.operation {
        Operation::Read => {
            format!("SELECT {columns} FROM {KEYSPACE}.cf WHERE \"KEY\" = ?{bypass}{timeout}")
        }
        Operation::Write | Operation::CounterUpdate => write_statement(options),
        Operation::Delete => {
            format!("DELETE {columns} FROM {KEYSPACE}.cf{timeout} WHERE \"KEY\" = ?")
        }
    }
}

async fn execute(processor: &Processor, session: &Session, text: &str) -> Result<(), String> {
    let parameters = Parameters::plain(replication::Consistency::One);
    let done = processor.query(session, text, &parameters).await;
    done.map(|_| ()).map_err(|error| format!("{text}: {error}"))
}

async fn populate(
    options: &Options,
    processor: &Processor,
    session: &Session,
) -> Result<(), String> {
    let text = write_statement(options);
    let prepared = processor.prepare(session, &text, None).await.map_err(|e| e.to_string())?;
    for number in 0..options.partitions {
        let key = number.to_be_bytes();
        let values = [Value::Bytes(&key)];
        let parameters = Parameters {
            values: Values::Positional(&values),
            ..Parameters::plain(replication::Consistency::One)
        };
        let done = processor.execute(session, &prepared, &parameters).await;
        done.map_err(|error| error.to_string())?;
        if options.memtable_partitions.is_some_and(|count| (number + 1) % count == 0) {
            flush().await?;
        }
    }
    if options.flush { flush().await } else { Ok(()) }
}

async fn flush() -> Result<(), String> {
    let schema = runtime::local::get::<Cluster>().schema();
    let table = schema.table(KEYSPACE, "cf").ok_or("the table is gone")?.schema.id;
    let flushed = runtime::on_all_shards(move || async move {
        let storage = runtime::local::get::<storage::Storage>();
        storage.flush(table).await.map_err(|error| error.to_string())
    });
    flushed.await.into_iter().collect()
}

impl Workload {
    /// Works until the limit.
    pub(crate) async fn run(self: Rc<Self>, limit: Limit) -> Result<Worked, String> {
        let left = Rc::new(Cell::new(match limit {
            Limit::Time(_) => u64::MAX,
            Limit::Operations(operations) => operations,
        }));
        let deadline = match limit {
            Limit::Time(span) => Some(Instant::now() + span),
            Limit::Operations(_) => None,
        };
        let done = Rc::new(Cell::new((0u64, 0u64)));
        let before = self.spent();
        let workers = Scope::new();
        let mut handles = Vec::new();
        for _ in 0..self.concurrency {
            let (workload, left, done) = (self.clone(), left.clone(), done.clone());
            handles.push(workers.spawn(async move { workload.work(deadline, &left, &done).await }));
        }
        for handle in handles {
            let outcome = handle.await.map_err(|error| error.to_string())?;
            outcome.map_err(|error| error.to_string())?;
        }
        let mut worked = self.spent().since(&before);
        (worked.operations, worked.errors) = done.get();
        worked.latencies = self.latencies.take();
        Ok(worked)
    }

    async fn work(
        &self,
        deadline: Option<Instant>,
        left: &Cell<u64>,
        done: &Cell<(u64, u64)>,
    ) -> Result<(), CqlError> {
        while 0 < left.get() {
            left.set(left.get() - 1);
            let started = left.get().is_multiple_of(TIMED_EVERY).then(Instant::now);
            let outcome = self.operate().await;
            if let Some(started) = started {
                let micros = started.elapsed().as_micros();
                self.latencies.borrow_mut().push(u32::try_from(micros).unwrap_or(u32::MAX));
            }
            let (operations, errors) = done.get();
            match outcome {
                Ok(()) => done.set((operations + 1, errors)),
                Err(error) if self.stop_on_error => return Err(error),
                Err(_) => done.set((operations, errors + 1)),
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                left.set(0);
            }
            // An operation that never waited must not keep the shard from its other work.
            runtime::task::yield_if_needed().await;
        }
        Ok(())
    }

    async fn operate(&self) -> Result<(), CqlError> {
        let index = self.next.get();
        self.next.set((index + 1) % self.keys.len());
        let number = if self.single_key { 0 } else { self.keys[index] };
        let key = number.to_be_bytes();
        let values = [Value::Bytes(&key)];
        let parameters = Parameters {
            values: Values::Positional(&values),
            skip_metadata: true,
            ..Parameters::plain(self.consistency)
        };
        self.processor.execute(&self.session, &self.statement, &parameters).await.map(|_| ())
    }

    /// What this shard has spent since it began.
    fn spent(&self) -> Worked {
        let counted = self.counters.read();
        let polls = runtime::group::all_stats().iter().map(|(_, stats)| stats.polls).sum();
        Worked {
            operations: 0,
            errors: 0,
            allocations: memory::counts().allocations,
            tasks: polls,
            instructions: counted.instructions,
            cycles: counted.cycles,
            latencies: Vec::new(),
        }
    }
}

impl Worked {
    fn since(&self, before: &Worked) -> Worked {
        let less = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Worked {
            operations: 0,
            errors: 0,
            allocations: self.allocations - before.allocations,
            tasks: self.tasks - before.tasks,
            instructions: less(self.instructions, before.instructions),
            cycles: less(self.cycles, before.cycles),
            latencies: Vec::new(),
        }
    }
}
