//! Streams: what changes of a table's items are, in order, to who reads them.
//!
//! A stream is the table's log of changes (`cdc`), seen for the time for which the stream was there
//! ([`history`]). The log has images of before and after each change, whatever the stream shows.
//! Its partitions are the shards ([`shards`]), the times of changes their sequence numbers
//! ([`sequence`]), its rows records ([`record`]). Then: `specify` (streams are opened and closed),
//! `describe` (which there are), `read` (iterators and records).
//!
//! Invariants
//!  - *none-skipped*: a reader sees what was written up to `alternator_streams_time_window_s` ago,
//!    and later changes at a later call. So no record is missed whose write took no longer than
//!    that, and whose node's clock was not behind by as much.
//!  - *in-order*: the records of a shard come in order of their sequence numbers, and so do those
//!    of an item over a shard and its children.
//!  - *of-one-stream*: a record is of the stream that was open when its change was written.
//!  - *a-day*: records are shown for a day, also where the log keeps them for longer, of a table
//!    that can be recovered to points in time.

mod describe;
mod history;
mod read;
mod record;
mod sequence;
mod shards;
mod specify;

pub(crate) use describe::{describe, list, write_latest};
pub(crate) use read::{iterator, records};
pub(crate) use sequence::Sequence;
pub(crate) use specify::{
    Specification, asked, change, change_logged, log_of, recovery_of, remove_log, set_log,
};

use crate::error::{Error, Kind};
use crate::node::Node;
use crate::table::Table;
use crate::{table_facts, tags};
use history::Stream;

/// The part of the name of a stream after that of its table.
const STREAM: &str = "/stream/";

/// By which name a stream is known outside of its cluster.
fn arn(node: &Node, table: &Table, stream: &Stream) -> String {
    format!("{}{STREAM}{}", table_facts::arn(node, table), stream.label())
}

/// The table and the label that a name of a stream says.
fn parts(given: &str) -> Result<(&str, &str), Error> {
    let rest = given.strip_prefix("arn:").and_then(|rest| rest.split_once(":table/"));
    let parts = rest.and_then(|(_, rest)| rest.rsplit_once(STREAM));
    parts.ok_or_else(|| {
        let shown: String = given.chars().take(300).collect();
        Error::validation(format!(
            "StreamArn: '{shown}' is no name of a stream: it must be as ListStreams has it"
        ))
    })
}

/// The table of a stream that the name of one says, or an iterator of it.
pub(crate) fn table_of(given: &str) -> Option<&str> {
    parts(given).ok().map(|(table, _)| table)
}

fn unknown_stream(given: &str) -> Error {
    let text = format!("Requested resource not found: Stream: {given} not found");
    Error::new(Kind::ResourceNotFound, text)
}

/// The stream of a name.
fn find(node: &Node, given: &str) -> Result<(Table, Stream), Error> {
    let (name, label) = parts(given)?;
    let gone = |error: Error| match error.kind {
        Kind::ResourceNotFound => unknown_stream(given),
        _ => error,
    };
    let table = node.table(name).map_err(gone)?;
    let streams = history::of(&tags::of(&table.entry.schema));
    let stream = streams.into_iter().find(|stream| stream.label() == label);
    Ok((table, stream.ok_or_else(|| unknown_stream(given))?))
}

fn now_millis() -> i64 {
    runtime::time::wall_micros().div_euclid(1000)
}
