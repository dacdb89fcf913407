//! Where backups are known: among what nodes keep ([`crate::kept`]). Beside them is how far
//! restores are, for whoever drives one next.
//!
//! Invariants
//!  - *known-first*: a backup is written down before any node takes a part of it, and forgotten
//!    when no node has one. So a part that nobody knows of is nowhere.

use super::record::{Record, Status};
use crate::error::Error;
pub(super) use crate::kept::make_table;
use crate::kept::{self, Kind};
use crate::node::Node;
use crate::value::Value;
use model::{TableId, Uuid};

/// Of a table that is being restored: the parts that are in it, each as a node and a number; those
/// of a history as no node.
const DONE: &str = "done";

/// What has to be so before a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// There is none of its id.
    Absent,
    Was(Status),
}

/// Writes a record down, if what is there is as it should be; whether it is.
pub(super) async fn write(node: &Node, record: &Record, before: Before) -> Result<bool, Error> {
    let before = match before {
        Before::Absent => kept::Before::Absent,
        Before::Was(status) => kept::Before::Was(status.name()),
    };
    kept::put(node, (record.kind, &record.id), record.attributes(), before).await
}

/// Forgets a record that has the status; whether it had.
pub(super) async fn forget(node: &Node, record: &Record, was: Status) -> Result<bool, Error> {
    kept::forget(node, (record.kind, &record.id), Some(was.name())).await
}

/// The record of an id.
pub(super) async fn find(node: &Node, of: (Kind, &str)) -> Result<Option<Record>, Error> {
    look(node, of).await?.transpose()
}

/// The record of an id, or that what is kept there is none any more.
pub(super) async fn look(
    node: &Node,
    (kind, id): (Kind, &str),
) -> Result<Option<Result<Record, Error>>, Error> {
    let found = kept::find(node, (kind, id)).await?;
    Ok(found.map(|item| Record::of((kind, id), &item).ok_or_else(|| damaged(id))))
}

/// Those of a kind that are admitted behind an id, in order of ids, so many at most; and whether
/// there are more.
pub(super) async fn list(
    node: &Node,
    (kind, after): (Kind, Option<&str>),
    most: usize,
    admits: impl Fn(&Record) -> bool,
) -> Result<(Vec<Record>, bool), Error> {
    kept::list(node, (kind, after), most, |id, item| {
        let record = Record::of((kind, id), item);
        if record.is_none() {
            tracing::warn!(target: "backups", "{}", damaged(id).message);
        }
        record.filter(|record| admits(record))
    })
    .await
}

/// Writes down that what a node had in one part is in a table that is being restored.
pub(super) async fn note_done(
    node: &Node,
    table: TableId,
    (host, part): (Uuid, u8),
) -> Result<(), Error> {
    let place = (Kind::Restore, &*table.to_string());
    kept::add(node, place, (DONE, format!("{host} {part}"))).await
}

/// What was written down of a table; what is damaged was not.
pub(super) async fn done(node: &Node, id: TableId) -> Result<Vec<(Uuid, u8)>, Error> {
    let item = kept::find(node, (Kind::Restore, &id.to_string())).await?.unwrap_or_default();
    let Some(Value::SS(all)) = item.get(DONE) else { return Ok(Vec::new()) };
    let one = |text: &String| {
        let (host, part) = text.split_once(' ')?;
        Some((Uuid::parse_str(host).ok()?, part.parse().ok()?))
    };
    Ok(all.iter().filter_map(one).collect())
}

/// Forgets what was written down of a table.
pub(super) async fn forget_done(node: &Node, id: TableId) -> Result<(), Error> {
    kept::forget(node, (Kind::Restore, &id.to_string()), None).await.map(drop)
}

fn damaged(id: &str) -> Error {
    Error::internal(format!("what is known of the backup {id} is damaged"))
}
