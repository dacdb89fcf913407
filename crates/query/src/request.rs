//! One execution of a statement: its values and parameters, its time, and where it runs.

use crate::error::CqlError;
use crate::options::Options;
use crate::parameters::Parameters;
use crate::timeouts::Timeouts;
use crate::timestamps::Timestamps;
use cluster::TableEntry;
use functions::{Calls, Uuids};
use model::Token;
use mutation::page::Partitions;
use plan::term::Env;
use plan::values::Value;
use replication::{Coordinator, Limit, Operation, ReadOptions, WriteKind, WriteOptions};
use std::cell::Cell;
use std::rc::Rc;
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

/// The warnings of one execution for the client.
///
/// Invariants
///  - *bounded*: at most [`Warnings::COUNT_MAX`] texts of at most [`Warnings::BYTES_MAX`] bytes;
///    the frame counts both in 16 bits.
#[derive(Default)]
pub(crate) struct Warnings(Cell<Vec<String>>);

impl Warnings {
    /// Further ones are left out.
    const COUNT_MAX: usize = 32;
    /// Longer ones are cut.
    const BYTES_MAX: usize = 8 << 10;

    fn add(&self, mut text: String) {
        let mut texts = self.0.take();
        if texts.len() < Warnings::COUNT_MAX && !texts.contains(&text) {
            if Warnings::BYTES_MAX < text.len() {
                text.truncate(text.floor_char_boundary(Warnings::BYTES_MAX));
            }
            texts.push(text);
        }
        self.0.set(texts);
    }

    /// The texts, in the order in which they came.
    pub(crate) fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// What the execution of a plan needs beside the plan.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) values: &'a [Value<'a>],
    pub(crate) parameters: &'a Parameters<'a>,
    /// Microseconds since the epoch.
    pub(crate) now_micros: i64,
    pub(crate) timeouts: &'a Timeouts,
    pub(crate) options: &'a Rc<Options>,
    pub(crate) uuids: &'a Uuids,
    pub(crate) timestamps: &'a Timestamps,
    pub(crate) scratch: &'a Scratch,
    pub(crate) coordinator: &'a Coordinator,
    /// `USING TIMEOUT`
    pub(crate) timeout: Option<Duration>,
    pub(crate) warnings: &'a Warnings,
    /// Where users' functions are called; see [`Request::step`].
    pub(crate) calls: Option<&'a Calls>,
}

impl<'a> Request<'a> {
    /// For terms outside of rows.
    pub(crate) fn env(&self) -> Env<'a> {
        let given_secs = self.parameters.now_secs;
        let env = Env::new(self.values, self.now_micros, self.uuids);
        Env { given_secs, calls: self.calls, ..env }
    }

    /// Evaluates something: others have the shard while functions of users run that take long. So
    /// `step` may run several times, and must leave no trace when it fails. It may not wait.
    pub(crate) async fn step<T, E: From<functions::Error>>(
        &self,
        mut step: impl FnMut(&Env<'a>) -> Result<T, E>,
    ) -> Result<T, CqlError>
    where
        CqlError: From<E>,
    {
        match self.calls {
            None => Ok(step(&self.env())?),
            // Boxed: statements without user-defined functions should not pay for its room.
            Some(calls) => Ok(Box::pin(calls.step(|| step(&self.env()))).await?),
        }
    }

    /// Adds a warning for the client; it arrives with the response, from version 4 on. The same
    /// text arrives once, many or very long ones do not arrive whole.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.add(text.into());
    }

    /// An event of the request's trace, if it has one.
    #[inline]
    pub(crate) fn note(&self, activity: impl FnOnce() -> String) {
        if let Some(trace) = self.parameters.trace {
            trace.event(self.uuids, activity);
        }
    }

    /// Seconds since the epoch by which values expire: the client's, where it has said them.
    pub(crate) fn now_secs(&self) -> i64 {
        self.env().now_secs()
    }

    /// Refuses a request to a partition that goes over its table's limit for them; else what
    /// replicas on other nodes are to be told.
    pub(crate) async fn admit_read(
        &self,
        table: &TableEntry,
        token: Token,
    ) -> Result<Option<Limit>, CqlError> {
        let patience = self.timeout.unwrap_or_else(|| self.timeouts.read_request_timeout.get().0);
        let asked = self.coordinator.admit_request(table, token, Operation::Read, patience);
        Ok(asked.await?)
    }

    /// The same for writes.
    pub(crate) async fn admit_write(
        &self,
        table: &TableEntry,
        token: Token,
    ) -> Result<Option<Limit>, CqlError> {
        let patience = self.timeout.unwrap_or_else(|| self.timeouts.write_request_timeout.get().0);
        let asked = self.coordinator.admit_request(table, token, Operation::Write, patience);
        Ok(asked.await?)
    }

    /// For reads of no more than a few rows.
    pub(crate) fn read_options(&self, partitions: &Partitions) -> ReadOptions<'static> {
        let timeout = match partitions {
            Partitions::Key(_) => &self.timeouts.read_request_timeout,
            Partitions::Range { .. } => &self.timeouts.range_request_timeout,
        };
        let timeout = self.timeout.unwrap_or_else(|| timeout.get().0);
        ReadOptions::new(self.parameters.consistency, timeout)
    }

    /// For writes.
    pub(crate) fn write_options(&self, kind: WriteKind) -> WriteOptions {
        let timeout = match kind {
            WriteKind::Counter => &self.timeouts.counter_write_request_timeout,
            WriteKind::Cas => &self.timeouts.cas_contention_timeout,
            _ => &self.timeouts.write_request_timeout,
        };
        let timeout = self.timeout.unwrap_or_else(|| timeout.get().0);
        let limit = None;
        WriteOptions { consistency: self.parameters.consistency, timeout, kind, limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bounded_and_tell_a_thing_once() {
        let warnings = Warnings::default();
        ["a", "b", "a"].iter().for_each(|text| warnings.add(text.to_string()));
        assert_eq!(warnings.take(), ["a", "b"]);
        (0..100).for_each(|n| warnings.add(format!("{n}")));
        assert_eq!(warnings.take().len(), Warnings::COUNT_MAX);
        // Two bytes a character, the bound in the middle of one.
        warnings.add(format!("x{}", "\u{e4}".repeat(Warnings::BYTES_MAX)));
        assert_eq!(warnings.take()[0].len(), Warnings::BYTES_MAX - 1);
    }
}
