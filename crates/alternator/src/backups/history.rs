//! What came since a base is written to the table that is made of it: the history of its table, up
//! to a point in time.
//!
//! The history is the log of the table's changes; its rows are writes again
//! ([`derived::log::Replay`]), with their own times, so that what the base has comes once more and
//! changes nothing. The ring of the log is read in as many parts as a snapshot is loaded in, each
//! from its start.
//!
//! Invariants
//!  - *all-ended*: the history is read when every write has ended that had begun by the point: what
//!    is acknowledged later has a later time.
//!  - *bounded*: a page of rows, and the writes of it, are in memory.

use super::record::Record;
use crate::error::Error;
use crate::node::Node;
use crate::recovery::Base;
use crate::streams::{Sequence, log_of};
use crate::table::Table;
use cluster::TableEntry;
use model::TableId;
use model::key::push_clustering;
use mutation::page::{Partitions, ReadCommand, RingBound, SendRange};
use replication::backups::{NotLoaded, PARTS, Replay, tokens};
use runtime::time::wall_micros;
use std::rc::Rc;

/// Bytes of a page, about.
const PAGE_BYTES: usize = 1 << 20;

/// Why it is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    Later(String),
    Never(String),
}

impl From<Error> for Missed {
    fn from(error: Error) -> Missed {
        Missed::Later(error.message)
    }
}

impl From<NotLoaded> for Missed {
    fn from(reason: NotLoaded) -> Missed {
        match reason {
            NotLoaded::Yet(why) => Missed::Later(why),
            NotLoaded::Ever(why) => Missed::Never(why),
        }
    }
}

/// The history between a base and a point, and where it goes.
pub(super) struct History {
    log: Table,
    into: Rc<TableEntry>,
    /// Milliseconds: from, and up to.
    times: (i64, i64),
}

impl History {
    /// When all that it has is there. (*all-ended*)
    pub(super) async fn of(
        node: &Node,
        base: &Record,
        (point, into): (i64, TableId),
    ) -> Result<History, Missed> {
        if wall_micros().div_euclid(1000) < point {
            return Err(Missed::Later("this node's clock is behind the point".to_owned()));
        }
        node.coordinator.all_ended().await.map_err(Missed::Later)?;
        let schema = node.schema();
        let gone = || Missed::Never(format!("the table {} was deleted, or its log", base.table));
        let source = schema.table_by_id(base.table_id).ok_or_else(gone)?;
        let log = log_of(&schema, source).ok_or_else(gone)?;
        let table = Table::of(&schema, source).ok_or_else(gone)?;
        let unknown = || Missed::Later(format!("there is no table {into}"));
        let into = schema.table_by_id(into).cloned().ok_or_else(unknown)?;
        // One that is being removed has been complete.
        let began = Base { begun: base.created, taken: base.taken.unwrap_or(base.created) };
        let from = began.history_from();
        Ok(History { log: Table { entry: log, ..table }, into, times: (from, point) })
    }

    /// What is read of a part of the ring.
    fn command(&self, part: u8, replay: &Replay) -> ReadCommand {
        let (first, last) = tokens(part, PARTS);
        let bound = |token, after| RingBound { token, key: None, after };
        let partitions = Partitions::Range { start: bound(first, false), end: bound(last, true) };
        let position = |millis: i64| {
            let mut prefix = Vec::new();
            let first = Sequence::at(millis.saturating_mul(1000));
            push_clustering(first.uuid().as_bytes(), &mut prefix);
            (prefix, -1)
        };
        let (from, point) = self.times;
        let now = wall_micros().div_euclid(1_000_000);
        ReadCommand {
            ranges: vec![SendRange { start: position(from), end: position(point) }],
            columns: replay.columns().to_vec(),
            static_count: 0,
            bytes_max: PAGE_BYTES,
            bypass_cache: true,
            tombstone_limit: u64::MAX,
            ..ReadCommand::all(self.log.entry.schema.id, partitions, now)
        }
    }

    /// Writes what a part of the ring of the log tells.
    pub(super) async fn write_part(&self, node: &Node, part: u8) -> Result<(), Missed> {
        let name = &self.log.entry.schema.name;
        let damaged = |what: String| Missed::Never(format!("the log {name} is damaged: {what}"));
        let replay = Replay::new(&self.log.entry.schema, &self.into.schema);
        let mut replay = replay.map_err(damaged)?;
        let mut command = self.command(part, &replay);
        loop {
            let page = node.read_patiently(&self.log, &command).await?;
            let writes = replay.writes(&page.bytes);
            let writes = writes.map_err(|what| damaged(what.to_string()))?;
            node.coordinator.write_backed_up(&self.into, writes).await?;
            runtime::injection::pause("alternator_history_step").await;
            match page.resume {
                Some(resume) => command.resume = Some(resume),
                None if replay.is_within_range() => {
                    return Err(damaged("a range has no end".to_owned()));
                }
                None => return Ok(()),
            }
        }
    }
}
