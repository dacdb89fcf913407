//! One shard's part of a load: chunks in, requests out, what became of each row.
//!
//! Invariants
//!  - *acknowledged*: a chunk has ended when each of its rows was acknowledged by the server or is
//!    among its bad ones.
//!  - *bounded*: at most so many requests, and [`IN_FLIGHT_BYTES_MAX`] of them, are in flight.
//!  - *once-counted*: an increment of a counter is sent again only where the server says that it
//!    has done nothing.

use crate::feed::Chunk;
use crate::plan::{Bad, Plan, Policy, Scratch};
use client::request::{self, Batch, opcode};
use client::{Failure, Pool};
use runtime::sync::{Permit, Semaphore};
use runtime::task::{Scope, yield_if_needed};
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// *bounded*, together.
const IN_FLIGHT_BYTES_MAX: usize = 4 << 20;
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Warnings of the server that are told of a chunk.
const WARNINGS_MAX: usize = 3;

/// A record that is no row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadRow {
    pub(crate) line: u64,
    /// From 1, in bytes; `None`: not known.
    pub(crate) column: Option<u64>,
    pub(crate) why: String,
    pub(crate) record: Vec<u8>,
}

/// What became of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) rows: u64,
    pub(crate) bad: Vec<BadRow>,
    pub(crate) warnings: Vec<String>,
}

/// How a load treats the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    /// Requests in flight.
    pub(crate) requests_max: usize,
    /// How long a request is sent again and again.
    pub(crate) retry_for: Duration,
    /// Rows a second.
    pub(crate) rate: Option<f64>,
    /// Whether nothing is sent.
    pub(crate) is_dry: bool,
}

/// Lives in `runtime::local` of each shard.
pub(crate) struct Worker {
    plan: Arc<Plan>,
    pools: Vec<Pool>,
    /// Which pool is next.
    turn: Cell<usize>,
    limits: Limits,
    requests: Semaphore,
    bytes: Semaphore,
    /// When the next row is due.
    due: Cell<Option<Instant>>,
    /// Rows that were acknowledged, for who watches.
    pub(crate) rows: Cell<u64>,
}

/// Where a record is in its chunk.
#[derive(Clone, Copy, Debug)]
struct Record {
    start: usize,
    end: usize,
    line: u64,
}

/// Rows that will be sent together.
struct Open {
    batch: Batch,
    records: Vec<Record>,
    /// Where the statement of each row begins in the batch.
    starts: Vec<usize>,
    /// As the server counts it.
    weight: usize,
    /// The partition of its rows, where that matters.
    key: Vec<u8>,
    shard: u32,
}

/// What is known of a chunk so far.
struct Tally {
    chunk: Chunk,
    report: RefCell<Report>,
    failed: RefCell<Option<String>>,
}

impl Worker {
    pub(crate) fn new(plan: Arc<Plan>, pools: Vec<Pool>, limits: Limits) -> Worker {
        Worker {
            plan,
            pools,
            turn: Cell::new(0),
            limits,
            requests: Semaphore::new(limits.requests_max, usize::MAX),
            bytes: Semaphore::new(IN_FLIGHT_BYTES_MAX, usize::MAX),
            due: Cell::new(None),
            rows: Cell::new(0),
        }
    }

    /// Loads a chunk (*acknowledged*). An error is one after which nothing can go on.
    pub(crate) async fn load(self: Rc<Self>, chunk: Chunk) -> Result<Report, String> {
        let report = RefCell::default();
        let tally = Rc::new(Tally { chunk, report, failed: RefCell::default() });
        let scope = Scope::new();
        let shards = if self.plan.policy.by_shard { self.plan.routing.shards() } else { 1 };
        let mut open: Vec<Option<Open>> = (0..shards).map(|_| None).collect();
        let mut scratch = Scratch::default();
        let (mut at, mut line) = (0, tally.chunk.start.lines + 1);
        while at < tally.chunk.bytes.len() && tally.failed.borrow().is_none() {
            let rest = &tally.chunk.bytes[at..];
            let Some(end) = self.plan.records.end(rest, true) else { break };
            let record = Record { start: at, end: at + end.bytes, line };
            at += end.bytes_with_end;
            line += u64::from(end.lines);
            let bytes = &tally.chunk.bytes[record.start..record.end];
            let bytes = self.plan.records.content(bytes);
            if bytes.is_empty() {
                continue; // An empty line.
            }
            let encoded = match end.is_open {
                true => Err(Bad { at: None, why: "a quoted field without its end".into() }),
                false => self.plan.encode(bytes, &mut scratch),
            };
            match encoded {
                Ok(shard) => self.add(&mut open, shard, record, &scratch, (&scope, &tally)).await,
                Err(bad) => tally.bad(record, bad),
            }
            yield_if_needed().await;
        }
        for batch in open.into_iter().flatten() {
            self.dispatch(batch, &scope, &tally).await;
        }
        scope.join().await;
        match tally.failed.take() {
            Some(why) => Err(why),
            None => Ok(tally.report.take()),
        }
    }

    /// Adds a row to those of its shard, and sends what is full.
    async fn add(
        self: &Rc<Self>,
        open: &mut [Option<Open>],
        shard: u32,
        record: Record,
        scratch: &Scratch,
        (scope, tally): (&Scope, &Rc<Tally>),
    ) {
        let Policy { by_shard, rows_max, bytes_max } = self.plan.policy;
        let place = if by_shard { shard as usize } else { 0 };
        let values = usize::from(self.plan.markers()) * Policy::VALUE_BYTES;
        let weight = Policy::ROW_BYTES + values + scratch.values.len();
        let is_full = open[place].as_ref().is_some_and(|batch| {
            let is_other = !by_shard && batch.key != scratch.key();
            is_other || bytes_max < batch.weight + weight || rows_max <= batch.batch.count()
        });
        if is_full && let Some(full) = open[place].take() {
            self.dispatch(full, scope, tally).await;
        }
        let batch = open[place].get_or_insert_with(|| Open {
            batch: Batch::new(self.plan.batch_kind(), Vec::new()),
            records: Vec::new(),
            starts: Vec::new(),
            weight: 0,
            key: if by_shard { Vec::new() } else { scratch.key().to_vec() },
            shard,
        });
        batch.starts.push(batch.batch.bytes());
        batch.records.push(record);
        batch.weight += weight;
        batch.batch.push(&self.plan.prepared.id, self.plan.markers(), &scratch.values);
    }

    /// Sends rows as soon as there is room (*bounded*), and goes on.
    async fn dispatch(self: &Rc<Self>, open: Open, scope: &Scope, tally: &Rc<Tally>) {
        if self.limits.is_dry {
            return tally.acknowledge(self, open.records.len());
        }
        self.pace(open.records.len()).await;
        let units = open.batch.bytes().min(IN_FLIGHT_BYTES_MAX);
        let permits = (self.requests.acquire(1).await.ok(), self.bytes.acquire(units).await.ok());
        let (worker, tally) = (self.clone(), tally.clone());
        scope.run(async move { worker.deliver(open, &tally, permits).await });
    }

    /// Waits until so many rows may be sent.
    async fn pace(&self, rows: usize) {
        let Some(rate) = self.limits.rate else { return };
        let now = Instant::now();
        let due = self.due.get().unwrap_or(now).max(now);
        self.due.set(Some(due + Duration::from_secs_f64(rows as f64 / rate)));
        runtime::time::sleep_until(due).await;
    }

    /// Sends rows until they are acknowledged, or known to be bad.
    async fn deliver(&self, open: Open, tally: &Tally, _permits: (Option<Permit>, Option<Permit>)) {
        let Open { batch, records, starts, shard, .. } = open;
        let end = batch.bytes();
        let whole = batch.finish(self.plan.consistency, self.plan.timestamp);
        let rows = Rows { body: &whole, starts: &starts, end };
        // What the server refuses for what is in it is sent by halves.
        let mut todo = Vec::new();
        todo.push(0..records.len());
        while let Some(range) = todo.pop() {
            match self.insist(&rows, range.clone(), shard).await {
                Ok(warnings) => {
                    tally.acknowledge(self, range.len());
                    tally.warn(warnings);
                }
                Err(failure) if failure.is_invalid() && 1 < range.len() => {
                    let middle = range.start + range.len() / 2;
                    todo.extend([middle..range.end, range.start..middle]);
                }
                Err(failure) if failure.is_invalid() => {
                    tally.bad(records[range.start], Bad { at: None, why: failure.to_string() });
                }
                Err(failure) => {
                    tally.failed.borrow_mut().get_or_insert(failure.to_string());
                    return;
                }
            }
        }
    }

    /// Sends some rows again and again while it may help.
    async fn insist(
        &self,
        rows: &Rows<'_>,
        range: std::ops::Range<usize>,
        shard: u32,
    ) -> Result<Vec<String>, Failure> {
        let (opcode, body) = self.request(rows, range);
        let body = body.as_deref().unwrap_or(rows.body);
        let (mut backoff, mut first_failure) = (BACKOFF_MIN, None);
        loop {
            let turn = self.turn.replace(self.turn.get().wrapping_add(1));
            let pool = &self.pools[turn % self.pools.len()];
            let failure = match pool.send(shard, opcode, body, &self.plan.statement.text).await {
                Ok(answer) => return Ok(answer.warnings),
                Err(failure) => failure,
            };
            let may_repeat = !self.plan.statement.is_counter || failure.did_nothing();
            if failure.may_pass() && !may_repeat {
                let why = format!("counters may or may not have been incremented: {failure}");
                return Err(Failure::Lost(why));
            }
            let since = *first_failure.get_or_insert_with(Instant::now);
            if !failure.may_pass() || self.limits.retry_for < since.elapsed() {
                return Err(failure);
            }
            tracing::debug!("a request is sent again: {failure}");
            sleep(backoff).await;
            backoff = (2 * backoff).min(BACKOFF_MAX);
        }
    }

    /// The request for some rows of a batch; no body: the batch as it is.
    fn request(&self, rows: &Rows<'_>, range: std::ops::Range<usize>) -> (u8, Option<Vec<u8>>) {
        let plan = &self.plan;
        if range.len() == 1 && !plan.statement.is_counter {
            let values = rows.values(range.start, &plan.prepared.id);
            let values = (plan.markers(), values);
            let body =
                request::execute(&plan.prepared.id, values, plan.consistency, None, plan.timestamp);
            return (opcode::EXECUTE, Some(body));
        }
        if range.len() == rows.starts.len() {
            return (opcode::BATCH, None);
        }
        let mut batch = Batch::new(plan.batch_kind(), Vec::new());
        for index in range {
            let values = rows.values(index, &plan.prepared.id);
            batch.push(&plan.prepared.id, plan.markers(), values);
        }
        (opcode::BATCH, Some(batch.finish(plan.consistency, plan.timestamp)))
    }
}

/// The rows in a batch.
struct Rows<'a> {
    body: &'a [u8],
    starts: &'a [usize],
    end: usize,
}

impl Rows<'_> {
    /// The values of a row: what follows its kind, its id and its number of values.
    fn values(&self, index: usize, id: &[u8]) -> &[u8] {
        let end = self.starts.get(index + 1).copied().unwrap_or(self.end);
        &self.body[self.starts[index] + 1 + 2 + id.len() + 2..end]
    }
}

impl Tally {
    fn acknowledge(&self, worker: &Worker, rows: usize) {
        self.report.borrow_mut().rows += rows as u64;
        worker.rows.set(worker.rows.get() + rows as u64);
    }

    fn warn(&self, warnings: Vec<String>) {
        let mut report = self.report.borrow_mut();
        let room = WARNINGS_MAX.saturating_sub(report.warnings.len());
        report.warnings.extend(warnings.into_iter().take(room));
    }

    fn bad(&self, record: Record, bad: Bad) {
        let bytes = &self.chunk.bytes[record.start..record.end];
        let before = bad.at.map(|at| &bytes[..at.min(bytes.len())]);
        let breaks = before.map_or(0, |before| before.iter().filter(|b| **b == b'\n').count());
        let of_line = |before: &[u8]| before.iter().rev().take_while(|b| **b != b'\n').count();
        self.report.borrow_mut().bad.push(BadRow {
            line: record.line + breaks as u64,
            column: before.map(|before| of_line(before) as u64 + 1),
            why: bad.why,
            record: bytes.to_vec(),
        });
    }
}
