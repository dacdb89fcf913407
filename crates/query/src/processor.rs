//! The processor of one shard: statements in, answers out.

use crate::error::CqlError;
use crate::parameters::{Parameters, Values};
use crate::prepared::Prepared;
use crate::response::Response;
use crate::session::Session;
use crate::syntax::ast;
use std::rc::Rc;
use std::time::Duration;

/// The processor's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// A read of one partition.
    pub read_timeout: Duration,
    /// A read of a token range.
    pub range_read_timeout: Duration,
    /// A write.
    pub write_timeout: Duration,
    /// An increment of counters.
    pub counter_write_timeout: Duration,
    /// A lightweight transaction.
    pub cas_timeout: Duration,
    /// A truncate.
    pub truncate_timeout: Duration,
    /// Bytes of prepared statements kept on this shard.
    pub prepared_bytes_max: usize,
    /// A batch over this gives a warning.
    pub batch_warn_bytes: usize,
    /// A batch over this is refused.
    pub batch_fail_bytes: usize,
}

impl Config {
    /// The settings of a node whose options say nothing else.
    pub const fn standard() -> Config {
        Config {
            read_timeout: Duration::from_millis(5_000),
            range_read_timeout: Duration::from_millis(10_000),
            write_timeout: Duration::from_millis(2_000),
            counter_write_timeout: Duration::from_millis(5_000),
            cas_timeout: Duration::from_millis(1_000),
            truncate_timeout: Duration::from_millis(60_000),
            prepared_bytes_max: 32 << 20,
            batch_warn_bytes: 128 << 10,
            batch_fail_bytes: 1 << 20,
        }
    }
}

/// A statement of a batch.
#[derive(Clone, Debug)]
pub enum BatchStatement<'a> {
    /// Its text.
    Text(&'a str),
    /// Prepared before.
    Prepared(Rc<Prepared>),
}

/// A statement of a batch with its values.
#[derive(Clone, Debug)]
pub struct BatchEntry<'a> {
    /// The statement.
    pub statement: BatchStatement<'a>,
    /// Its values.
    pub values: Values<'a>,
}

/// Understands and executes the statements of one shard. Lives in `runtime::local`.
#[derive(Debug)]
pub struct Processor {
    config: Config,
}

impl Processor {
    /// A processor; `cluster::Cluster` and `replication::Coordinator` must be in this shard's
    /// `runtime::local`.
    pub fn new(config: Config) -> Rc<Processor> {
        Rc::new(Processor { config })
    }

    /// Executes a statement's text.
    pub async fn query(
        &self,
        session: &Session,
        text: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let _ = (session, text, parameters, &self.config);
        todo!()
    }

    /// Prepares a statement on every shard. `keyspace` (version 5) goes before the session's.
    pub async fn prepare(
        &self,
        session: &Session,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Rc<Prepared>, CqlError> {
        let _ = (session, text, keyspace);
        todo!()
    }

    /// The statement that was prepared with this id; `None`: answer `CqlError::Unprepared`.
    pub fn prepared(&self, id: &[u8]) -> Option<Rc<Prepared>> {
        let _ = id;
        todo!()
    }

    /// Executes a prepared statement.
    pub async fn execute(
        &self,
        session: &Session,
        prepared: &Rc<Prepared>,
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let _ = (session, prepared, parameters);
        todo!()
    }

    /// Executes a batch of the protocol's BATCH message.
    pub async fn batch(
        &self,
        session: &Session,
        kind: ast::BatchKind,
        entries: &[BatchEntry<'_>],
        parameters: &Parameters<'_>,
    ) -> Result<Response, CqlError> {
        let _ = (session, kind, entries, parameters);
        todo!()
    }
}
