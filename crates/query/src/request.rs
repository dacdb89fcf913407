//! One execution of a statement: its values and parameters, its time, and where it runs.

use crate::error::CqlError;
use crate::ids::Ids;
use crate::parameters::{Parameters, Value};
use crate::processor::Config;
use crate::term::{Env, Evaluated, Term};
use model::value;
use mutation::page::Partitions;
use replication::{Coordinator, ReadOptions, WriteKind, WriteOptions};
use std::cell::Cell;
use std::time::Duration;

/// A buffer that executions take for as long as they do not wait.
#[derive(Default)]
pub(crate) struct Scratch(Cell<Vec<u8>>);

impl Scratch {
    /// Larger ones are not kept.
    const BYTES_MAX: usize = 64 << 10;

    /// The buffer; what is in it is of no interest.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.take()
    }

    pub(crate) fn give_back(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= Scratch::BYTES_MAX {
            self.0.set(buffer);
        }
    }
}

/// What the execution of a plan needs beside the plan.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) values: &'a [Value<'a>],
    pub(crate) parameters: &'a Parameters<'a>,
    /// Microseconds since the epoch.
    pub(crate) now_micros: i64,
    pub(crate) config: &'a Config,
    pub(crate) ids: &'a Ids,
    pub(crate) scratch: &'a Scratch,
    pub(crate) coordinator: &'a Coordinator,
    /// `USING TIMEOUT`
    pub(crate) timeout: Option<Duration>,
}

impl<'a> Request<'a> {
    /// For terms outside of rows.
    pub(crate) fn env(&self) -> Env<'a> {
        Env::new(self.values, self.now_micros, self.ids)
    }

    /// Seconds since the epoch.
    pub(crate) fn now_secs(&self) -> i64 {
        match self.parameters.now_secs {
            Some(secs) => secs as i64,
            None => self.now_micros.div_euclid(1_000_000),
        }
    }

    /// For reads.
    pub(crate) fn read_options(&self, partitions: &Partitions) -> ReadOptions {
        let timeout = match partitions {
            Partitions::Key(_) => self.config.read_timeout,
            Partitions::Range { .. } => self.config.range_read_timeout,
        };
        let timeout = self.timeout.unwrap_or(timeout);
        ReadOptions { consistency: self.parameters.consistency, timeout }
    }

    /// For writes.
    pub(crate) fn write_options(&self, kind: WriteKind) -> WriteOptions {
        let timeout = match kind {
            WriteKind::Counter => self.config.counter_write_timeout,
            WriteKind::Cas => self.config.cas_timeout,
            _ => self.config.write_timeout,
        };
        let timeout = self.timeout.unwrap_or(timeout);
        WriteOptions { consistency: self.parameters.consistency, timeout, kind }
    }
}

/// An `int` or `bigint` that a clause takes; `None` where it is not given, null or unset.
pub(crate) fn integer(term: &Option<Term>, env: &Env<'_>) -> Result<Option<i64>, CqlError> {
    let Some(term) = term else { return Ok(None) };
    let Evaluated::Value(bytes) = term.evaluate(env)? else { return Ok(None) };
    Ok(match bytes.len() {
        4 => value::decode_i32(&bytes).map(i64::from),
        _ => value::decode_i64(&bytes),
    })
}

/// The span of `USING TIMEOUT`; `None` where it is not given, null or unset.
pub(crate) fn timeout(term: Option<&Term>, env: &Env<'_>) -> Result<Option<Duration>, CqlError> {
    let Some(term) = term else { return Ok(None) };
    let Evaluated::Value(bytes) = term.evaluate(env)? else { return Ok(None) };
    let span = value::decode_duration(&bytes);
    let span = span.ok_or_else(|| CqlError::invalid("Timeout value is not a duration"))?;
    if span.months != 0 || span.days != 0 {
        return Err(CqlError::invalid("Timeout values cannot be expressed in days/months"));
    }
    if span.nanos % 1_000_000 != 0 {
        return Err(CqlError::invalid(
            "Timeout values cannot have granularity finer than milliseconds",
        ));
    }
    let nanos = u64::try_from(span.nanos);
    let nanos = nanos.map_err(|_| CqlError::invalid("Timeout values must be non-negative"))?;
    Ok(Some(Duration::from_nanos(nanos)))
}
