//! Traces: what was done for one request, for the client that asked for it, or because the node's
//! rules ([`cluster::TraceRules`]) say so: a share of all requests, and those that took long. Those
//! of the DynamoDB API are traced by the same rules.
//!
//! Invariants
//!  - *few-events*: a trace has at most [`EVENTS_MAX`] events; what is more is dropped.
//!
//! A request without a trace costs a test of an `Option`.

use crate::response::{Response, ResponseKind};
use cluster::SlowQueries;
use functions::Uuids;
use model::{TableSchema, Uuid};
use plan::Statement;
use runtime::task::Scope;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Events of a trace at most.
const EVENTS_MAX: usize = 64;
/// At most about so many tables of a request are recorded.
const TABLES_MAX: usize = 64;
/// Bytes of a statement's text that are kept.
pub(crate) const TEXT_BYTES_MAX: usize = 16 << 10;

/// Why a request is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its client wants it.
    Asked,
    /// It was drawn.
    Drawn,
    /// It may turn out to be slow, then this holds. Otherwise nothing is kept.
    MayBeSlow(SlowQueries),
    /// It is timed for the statistics of statements; nothing is kept of it alone.
    Counted,
}

impl Cause {
    /// Whether it is kept however long the request takes.
    pub(crate) fn keeps(self) -> bool {
        !matches!(self, Cause::MayBeSlow(_) | Cause::Counted)
    }
}

/// The trace of one request while it is executed.
#[derive(Debug)]
pub struct Trace {
    pub(crate) id: Uuid,
    pub(crate) cause: Cause,
    /// The tables that it is about, with their keyspaces.
    pub(crate) tables: RefCell<BTreeSet<String>>,
    pub(crate) started: Instant,
    pub(crate) started_micros: i64,
    pub(crate) client: Option<IpAddr>,
    pub(crate) user: Option<String>,
    pub(crate) events: RefCell<Vec<Event>>,
    /// Rows that were answered.
    pub(crate) rows: Cell<u64>,
}

/// Something that has begun.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: Uuid,
    pub(crate) activity: String,
    pub(crate) elapsed_micros: i32,
}

/// The command of a request that prepares a statement.
pub const PREPARE: &str = "PREPARE";

/// What a trace says of its request.
#[derive(Clone, Copy, Debug)]
pub struct Traced<'a> {
    /// `QUERY`, `EXECUTE`, `BATCH` or [`PREPARE`].
    pub command: &'static str,
    /// `Execute CQL3 query`
    pub request: &'a str,
    /// The statement; empty for batches.
    pub text: &'a str,
    /// Bytes of the request's body.
    pub request_bytes: usize,
}

/// The traces of a shard that are being written.
pub(crate) struct Writes {
    pub(crate) scope: Scope,
}

impl Writes {
    pub(crate) fn new() -> Writes {
        Writes { scope: Scope::new() }
    }
}

impl Trace {
    pub(crate) fn begin(
        (client, user): (Option<IpAddr>, Option<String>),
        uuids: &Uuids,
        cause: Cause,
    ) -> Trace {
        let started_micros = runtime::time::wall_micros();
        Trace {
            id: uuids.timeuuid(started_micros),
            cause,
            tables: RefCell::default(),
            started: Instant::now(),
            started_micros,
            client,
            user,
            events: RefCell::new(Vec::new()),
            rows: Cell::new(0),
        }
    }

    /// The session.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The session, if the client asked for the trace.
    pub fn told_id(&self) -> Option<Uuid> {
        (self.cause == Cause::Asked).then_some(self.id)
    }

    /// What was answered.
    pub fn answered(&self, response: &Response) {
        if let ResponseKind::Rows(rows) = &response.kind {
            self.rows.set(u64::from(rows.row_count));
        }
    }

    /// A statement of the request.
    pub(crate) fn statement(&self, statement: &Statement) {
        if self.cause == Cause::Counted {
            return;
        }
        if self.tables.borrow().len() < TABLES_MAX {
            statement.each_table(&mut |table| self.table(table));
        }
    }

    /// A table that the request is about.
    pub fn table(&self, table: &TableSchema) {
        let mut tables = self.tables.borrow_mut();
        if tables.len() < TABLES_MAX {
            tables.insert(format!("{}.{}", table.keyspace, table.name));
        }
    }

    /// Something has begun.
    pub(crate) fn event(&self, uuids: &Uuids, activity: impl FnOnce() -> String) {
        if let Cause::Counted | Cause::MayBeSlow(SlowQueries { fast: true, .. }) = self.cause {
            return;
        }
        let mut events = self.events.borrow_mut();
        if events.len() < EVENTS_MAX {
            let elapsed_micros = self.elapsed_micros();
            let id = uuids.timeuuid(runtime::time::wall_micros());
            events.push(Event { id, activity: activity(), elapsed_micros });
        }
    }

    pub(crate) fn elapsed_micros(&self) -> i32 {
        i32::try_from((Instant::now() - self.started).as_micros()).unwrap_or(i32::MAX)
    }
}

impl<'a> Traced<'a> {
    /// The statement, as far as it is kept.
    pub(crate) fn text_kept(&self) -> &'a str {
        &self.text[..self.text.floor_char_boundary(TEXT_BYTES_MAX)]
    }
}
