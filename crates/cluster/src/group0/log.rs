//! The durable log of group 0: what this node has promised, in its own system tables.
//!
//! Lives on: shard 0, whose schema log the tables are in. Knows no peer and no command.
//!
//! A change is one entry of the schema log, so a crash leaves all of it or nothing, and it is
//! answered when that entry is on the disk. What it is as rows, and how deletions never cover what
//! comes after them: `rows`, whose invariants hold here too.
//!
//! Invariants
//!  - *one-entry*: all rows of a change are one entry of the schema log (*all-or-nothing*,
//!    *durable-on-return*).
//!  - *one-at-a-time*: a change is written when the one before is known to be there. After one that
//!    failed for good, or that nobody waited for, nothing is written before the log is loaded
//!    again.
//!  - *the-same-again*: what the disk did not take is written again until it does, with the same
//!    timestamps: whether it was there already makes no difference.
//!  - *loaded-is-durable*: what a load tells survives every crash.
//!  - *a-step-fits*: all that a step of the group may write fits one entry.
//!
//! The largest entry of the schema log is a segment of it. A change above that is not written, and
//! the group stops on this node: so commands are bounded, see [`command_bytes_max`].

use super::rows::{self, Known, RAFT, Tables};
use crate::at_last::{Attempt, at_last};
use crate::node_tables::read_partition;
use consensus::traits::{Change, Loaded};
use consensus::{Failed, Local, Log};
use model::Uuid;
use mutation::FrozenMutation;
use std::cell::RefCell;
use std::rc::Rc;
use storage::Storage;

/// How many times the largest command a change may have. A group's log takes commands up to three
/// times that size, and a follower may get as much again in one step; the rest is for what entries
/// have besides their bytes.
const CHANGE_COMMANDS: usize = 8;
/// The size of the log of a group, in its largest commands (`consensus::Options::new`).
const LOG_COMMANDS: usize = 3;
const _: () = assert!(2 * LOG_COMMANDS < CHANGE_COMMANDS, "a-step-fits");

/// The largest command of a group whose log is in segments of so many bytes.
pub const fn command_bytes_max(segment_bytes: usize) -> usize {
    segment_bytes / CHANGE_COMMANDS
}

/// A mistake that tests want to see caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests alone plant mistakes"))]
pub(crate) enum Planted {
    /// Timestamps are what the clock says.
    TrustsClock,
    /// A change is two entries: what it does to entries, and all else.
    WritesTwice,
}

/// The log of a group on this node.
pub struct GroupLog {
    storage: Rc<Storage>,
    group: Uuid,
    tables: Tables,
    /// `None`: it has to be loaded first (*one-at-a-time*).
    known: RefCell<Option<Known>>,
    planted: Option<Planted>,
}

impl GroupLog {
    /// Of the group of that id, on the storage of shard 0 whose schema log was replayed.
    pub fn new(storage: Rc<Storage>, group: Uuid) -> GroupLog {
        assert!(runtime::shard_id() == 0, "one-entry: the schema log is of shard 0");
        assert!(!group.is_nil(), "one-partition: a group without an id");
        GroupLog { storage, group, tables: Tables::new(), known: RefCell::new(None), planted: None }
    }

    #[cfg(test)]
    pub(super) fn with_mistake(self, planted: Option<Planted>) -> GroupLog {
        GroupLog { planted, ..self }
    }

    /// Memtables may have writes that nobody waited for, or that the log could not take: they are
    /// made durable as they are (*loaded-is-durable*).
    async fn read(&self) -> Result<Loaded, Failed> {
        self.known.borrow_mut().take();
        let flushed = self.storage.flush(self.tables.raft().id).await;
        flushed.map_err(|error| Failed(format!("cannot flush system.{RAFT}: {error}")))?;
        let found = read_partition(&self.storage, ("system", RAFT), self.group.as_bytes()).await;
        let found = found.map_err(|error| Failed(error.to_string()))?;
        let (loaded, known) = rows::read(&found).map_err(|damage| Failed(damage.to_string()))?;
        let before = self.known.replace(Some(known));
        assert!(before.is_none(), "one-at-a-time: a change was written during a load");
        Ok(loaded)
    }

    async fn keep(&self, change: &Change) -> Result<(), Failed> {
        if self.planted == Some(Planted::WritesTwice) {
            let first = Change { hard: None, cut: None, ..change.clone() };
            self.keep_one(&first).await?;
            let second = Change { install: None, entries: Vec::new(), ..change.clone() };
            return self.keep_one(&second).await;
        }
        self.keep_one(change).await
    }

    async fn keep_one(&self, change: &Change) -> Result<(), Failed> {
        let Some(known) = self.known.borrow_mut().take() else {
            let what = "it is to be loaded first, also after a write that failed";
            return Err(Failed(format!("cannot write system.{RAFT}: {what}")));
        };
        let clock = runtime::time::wall_micros();
        let timestamp = match self.planted {
            Some(Planted::TrustsClock) => clock,
            _ => known.next_timestamp(clock),
        };
        let known = match self.planted {
            Some(Planted::TrustsClock) => Known { timestamp: i64::MIN, ..known },
            _ => known,
        };
        let of_change = || rows::of_change(&self.tables, self.group, &known, change, timestamp);
        let (rows, after) = of_change().map_err(Failed)?;
        self.write_rows(rows, || of_change().map_or_else(|_| Vec::new(), |(rows, _)| rows)).await?;
        let before = self.known.replace(Some(after));
        assert!(before.is_none(), "one-at-a-time: {before:?} was known during a change");
        Ok(())
    }

    /// Keeps a change and other rows as one entry. The log was loaded.
    pub(crate) async fn keep_with(
        &self,
        change: &Change,
        beside: impl Fn() -> Vec<FrozenMutation>,
    ) -> Result<(), Failed> {
        let Some(known) = self.known.borrow_mut().take() else {
            return Err(Failed(format!("cannot write system.{RAFT}: it is to be loaded first")));
        };
        let timestamp = known.next_timestamp(runtime::time::wall_micros());
        let all = || {
            let made = rows::of_change(&self.tables, self.group, &known, change, timestamp);
            made.map(|(mut rows, after)| {
                rows.extend(beside());
                (rows, after)
            })
        };
        let (rows, after) = all().map_err(Failed)?;
        self.write_rows(rows, || all().map_or_else(|_| Vec::new(), |(rows, _)| rows)).await?;
        let before = self.known.replace(Some(after));
        assert!(before.is_none(), "one-at-a-time: {before:?} was known during a change");
        Ok(())
    }

    /// Writes rows as one entry; the same rows, made `again`, where that did not work
    /// (*the-same-again*).
    async fn write_rows(
        &self,
        rows: Vec<FrozenMutation>,
        again: impl Fn() -> Vec<FrozenMutation>,
    ) -> Result<(), Failed> {
        assert!(!rows.is_empty(), "one-entry: a change of no rows");
        let count = rows.len();
        let mut first = Some(rows);
        let write = async || {
            let rows = first.take().unwrap_or_else(&again);
            debug_assert!(rows.len() == count, "the-same-again: {} rows of {count}", rows.len());
            self.storage.apply_all(rows).await.map_err(Attempt::from)
        };
        let what = format!("writing system.{RAFT}");
        let written = at_last(&what, || true, write).await;
        written.map_err(|why| Failed(format!("cannot write system.{RAFT}: {why}")))
    }
}

impl Log for GroupLog {
    fn load(&self) -> Local<'_, Result<Loaded, Failed>> {
        Box::pin(self.read())
    }

    fn write<'a>(&'a self, change: &'a Change) -> Local<'a, Result<(), Failed>> {
        Box::pin(self.keep(change))
    }
}
