//! Change data capture: what a write adds to the log of its table, made where the write begins.
//!
//! Whoever coordinates a write of a table that has a log makes the rows of the log, once, before
//! anybody is told of the write: it knows the time, the stream, and the state before, where that is
//! wanted (crate `derived`, `log`). The rows are attached to the write, and go with it through
//! messages, hints, batchlogs and the proposals of conditional writes. Each replica writes both in
//! one group of the commitlog (`super::derived`). Where the write and its rows are of this shard,
//! and go to nobody else, nothing is attached: both enter as one group at once.
//!
//! Invariants
//!  - *made-once*: who passes a write on, replays it, repairs or moves it makes no rows of a log.
//!    So a write that comes twice brings the same rows twice, which are the same.
//!  - *both-or-neither*: a replica that has a write has its rows of the log, here or on their way.
//!  - *read-before*: what images need is read at the level of the write, or the nearest at which
//!    reads are, before anybody is told of the write: if that fails, nothing was done. A
//!    conditional write reads in its round. Writes of others may come in between otherwise.
//!  - *no-vain-read*: where no image is asked for nothing is read, and nothing is waited for.
//!  - *of-this-version*: a plan is of the schemas that the shard shows at the time of the write.

use super::{BatchEntry, Coordinator};
use crate::error::{ReadError, WriteError};
use crate::options::{Consistency, ReadOptions, WriteOptions};
use cluster::{Schema, TableEntry};
use derived::log::{Before, LogPlan, LogRows, LogWrite, Origin};
use model::{TableId, TableSchema, Token};
use mutation::page::{Page, ReadCommand};
use mutation::{FrozenMutation, FrozenView};
use runtime::Erased;
use runtime::task::join_all;
use runtime::time::{Instant, wall_micros};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stdx::{Damaged, HashMap};

/// Bytes that are read at once of the state before a write.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Bytes of the state before one write at most.
const BEFORE_BYTES_MAX: usize = 128 << 20;

const _: () = assert!(PAGE_BYTES_MAX < BEFORE_BYTES_MAX, "a page is within what may be read");

/// The plans of the tables that have logs.
#[derive(Default)]
pub(crate) struct Plans {
    known: RefCell<HashMap<TableId, Rc<Known>>>,
    /// For the rows of the next write.
    buffer: Cell<Vec<u8>>,
}

/// How a log follows its table, and the schemas of which that is known.
struct Known {
    base: Rc<TableSchema>,
    log: Rc<TableSchema>,
    plan: LogPlan,
}

/// A write, and the rows that it adds to the log of its table, if it does not carry them.
pub(crate) struct Logged {
    pub(crate) write: FrozenMutation,
    pub(crate) rows: LogRows,
}

/// A write with what it adds to its log, or what has to be read first.
pub(crate) enum Logging {
    Done(Logged),
    Waits(Box<Imaged>),
}

/// A write whose images need the state before it.
pub(crate) struct Imaged {
    table: Rc<TableEntry>,
    token: Token,
    known: Rc<Known>,
    command: ReadCommand,
    write: FrozenMutation,
    origin: Origin,
}

impl Coordinator {
    /// A write of a table that has a log, of the partition at `token`, with what it adds to it.
    pub(crate) async fn logged(
        &self,
        (table, token): (&TableEntry, Token),
        write: FrozenMutation,
        options: &WriteOptions,
        origin: Origin,
    ) -> Result<FrozenMutation, WriteError> {
        debug_assert!(table.log.is_some(), "no-vain-read: {} has no log", table.schema.name);
        match self.begin_logging((table.schema.id, token), write, origin)? {
            Logging::Done(logged) => Ok(logged.attached()),
            Logging::Waits(imaged) => self.read_images(imaged, options).await,
        }
    }

    /// The same of a batch.
    pub(crate) fn logged_all<'a>(
        &'a self,
        entries: Vec<BatchEntry>,
        options: &'a WriteOptions,
    ) -> Erased<'a, Result<Vec<BatchEntry>, WriteError>> {
        Erased::new(move || async move {
            let each = entries.into_iter().map(async |BatchEntry { table, token, mutation }| {
                let mutation = match table.log {
                    None => mutation,
                    Some(_) => {
                        let place = (&*table, token);
                        self.logged(place, mutation, options, Origin::Client).await?
                    }
                };
                Ok(BatchEntry { table, token, mutation })
            });
            join_all(each).await.into_iter().collect()
        })
    }

    /// A write of a table that has a log, with what it adds to it, as far as nothing has to be
    /// read. One that has rows of a log has all of them.
    pub(crate) fn begin_logging(
        &self,
        (table, token): (TableId, Token),
        write: FrozenMutation,
        origin: Origin,
    ) -> Result<Logging, WriteError> {
        let schema = self.cluster.schema();
        // As it is now: it may have been altered since the statement was prepared.
        let Some(table) = schema.table_by_id(table) else {
            return Ok(Logging::Done(Logged::as_it_is(write)));
        };
        let Some(log) = table.log.and_then(|log| schema.table_by_id(log)) else {
            return Ok(Logging::Done(Logged::as_it_is(write)));
        };
        let known = self.logs.of(&schema, table, log).map_err(|why| {
            tracing::error!(target: "cdc", "{why}: nothing can be written to its base table");
            WriteError::Refused(why)
        })?;
        let view = FrozenView::trusted(&write.0).map_err(damaged)?;
        if view.has_attached() {
            return Ok(Logging::Done(Logged::as_it_is(write)));
        }
        debug_assert!(token == Token::of(view.key()), "made-once: the token of another key");
        let now = wall_micros();
        let is_read = known.plan.has_images();
        match is_read.then(|| known.plan.read(view, now_secs(now))).flatten() {
            None => {
                let before = &Before::nothing();
                let what = LogWrite { write: view, before, origin, now: now_secs(now) };
                let rows = self.log_rows((table, token), &known, &what, now)?;
                Ok(Logging::Done(Logged { write, rows }))
            }
            Some(command) => {
                let command = ReadCommand { bytes_max: PAGE_BYTES_MAX, ..command };
                let table = table.clone();
                Ok(Logging::Waits(Box::new(Imaged { table, token, known, command, write, origin })))
            }
        }
    }

    /// Reads what images of a write need, and adds them.
    pub(crate) fn read_images<'a>(
        &'a self,
        imaged: Box<Imaged>,
        options: &'a WriteOptions,
    ) -> Erased<'a, Result<FrozenMutation, WriteError>> {
        Erased::new(move || async move {
            let level = level_of_images(options.consistency);
            let until = Instant::now() + options.timeout;
            let (table, token) = (imaged.table.clone(), imaged.token);
            debug_assert!(!level.is_serial(), "read-before: images at {level:?}");
            let read = async |command: &ReadCommand| {
                let left = until - Instant::now();
                let options = ReadOptions::new(level, left);
                self.read(&table, token, command, &options).await
            };
            imaged.finish(self, read).await
        })
    }

    /// The rows of the log (*made-once*), at a time in microseconds.
    fn log_rows(
        &self,
        (table, token): (&TableEntry, Token),
        known: &Known,
        what: &LogWrite<'_>,
        now: i64,
    ) -> Result<LogRows, WriteError> {
        debug_assert!(
            what.write.table() == known.base.id,
            "of-this-version: a write of another table"
        );
        let streams = self.cluster.streams(table);
        let stream = |micros| streams.stream_of(token, micros, now).map(|it| it.0);
        let uuid = cluster::uuids::time_uuid_at;
        let mut buffer = self.logs.buffer.take();
        let rows = known.plan.log(what, stream, uuid, &mut buffer);
        self.logs.buffer.set(buffer);
        rows.map_err(|wrong| WriteError::Refused(wrong.to_string()))
    }

    /// Applies a write and its rows of the log on the shard that owns it.
    pub(crate) async fn apply_logged(
        &self,
        table: &TableEntry,
        (shard, token): (u16, Token),
        logged: Logged,
    ) -> Result<(), storage::WriteError> {
        let is_own = shard == self.shard;
        let tokens = is_own.then(|| self.enter_together(table, token, &logged.rows)).flatten();
        let Some(tokens) = tokens else {
            return Box::pin(self.apply(shard, logged.attached())).await;
        };
        let Logged { write, rows } = logged;
        debug_assert!(!rows.is_empty(), "both-or-neither: {} has no log", table.schema.name);
        self.storage.apply_with(write, tokens.into_iter().zip(rows).collect()).await
    }
}

impl Logged {
    /// One that adds nothing, or carries it already.
    fn as_it_is(write: FrozenMutation) -> Logged {
        Logged { write, rows: LogRows::new() }
    }

    /// The write, which carries what it adds.
    pub(crate) fn attached(self) -> FrozenMutation {
        self.write.attach(self.rows.into_vec())
    }
}

impl Imaged {
    /// Reads the state before, page by page (*read-before*).
    pub(crate) async fn finish(
        self,
        coordinator: &Coordinator,
        read: impl AsyncFn(&ReadCommand) -> Result<Page, ReadError>,
    ) -> Result<FrozenMutation, WriteError> {
        let Imaged { table, token, known, mut command, write, origin } = self;
        let (mut before, mut bytes) = (Before::nothing(), 0);
        loop {
            let page = read(&command).await.map_err(WriteError::Unread)?;
            bytes += page.bytes.len();
            if BEFORE_BYTES_MAX < bytes {
                let TableSchema { keyspace, name, .. } = &*table.schema;
                return Err(WriteError::Refused(format!(
                    "the rows of {keyspace}.{name} that are written to are more than {} MiB: too \
                     much for the preimages and postimages of one write",
                    BEFORE_BYTES_MAX >> 20
                )));
            }
            debug_assert!(command.table == known.base.id, "of-this-version: of another table");
            before.take(&known.plan, &command, &page.bytes).map_err(damaged)?;
            match page.resume {
                Some(resume) => command.resume = Some(resume),
                None => break,
            }
        }
        let (view, now) = (FrozenView::trusted(&write.0).map_err(damaged)?, wall_micros());
        let what = LogWrite { write: view, before: &before, origin, now: now_secs(now) };
        let rows = coordinator.log_rows((&table, token), &known, &what, now)?;
        Ok(Logged { write, rows }.attached())
    }
}

impl Plans {
    /// How a log follows its table; an error names both.
    fn of(
        &self,
        schema: &Schema,
        table: &TableEntry,
        log: &TableEntry,
    ) -> Result<Rc<Known>, String> {
        let id = table.schema.id;
        if let Some(known) = self.known.borrow().get(&id)
            && Rc::ptr_eq(&known.base, &table.schema)
            && Rc::ptr_eq(&known.log, &log.schema)
        {
            return Ok(known.clone());
        }
        debug_assert!(table.log == Some(log.schema.id), "of-this-version: another log");
        let plan = LogPlan::new(&table.schema, &log.schema)?;
        let (base, log) = (table.schema.clone(), log.schema.clone());
        let made = Rc::new(Known { base, log, plan });
        let mut known = self.known.borrow_mut();
        known.retain(|id, _| schema.table_by_id(*id).is_some_and(|it| it.log.is_some()));
        known.insert(id, made.clone());
        Ok(made)
    }
}

/// The level at which the state before a write is read.
fn level_of_images(level: Consistency) -> Consistency {
    match level {
        Consistency::Any => Consistency::One,
        Consistency::All | Consistency::Serial => Consistency::Quorum,
        Consistency::LocalSerial => Consistency::LocalQuorum,
        level => level,
    }
}

fn now_secs(micros: i64) -> i64 {
    micros.div_euclid(1_000_000)
}

fn damaged(damaged: Damaged) -> WriteError {
    WriteError::Refused(format!("what a write adds to the log of its table: {damaged}"))
}
