//! Where imports and exports are known: among what nodes keep ([`crate::kept`]).
//!
//! Invariants
//!  - *known-first*: an import is written down before its table is made, so that no table waits for
//!    one that nobody knows of.

use super::record::{Record, Status};
use crate::error::Error;
pub(super) use crate::kept::make_table;
use crate::kept::{self, Before, Kind};
use crate::node::Node;

/// Writes a new record down; false: there is one of its id.
pub(super) async fn begin(node: &Node, record: &Record) -> Result<bool, Error> {
    kept::put(node, (record.kind, &record.id), record.attributes(), Before::Absent).await
}

/// Writes down how one is that is under way; false: it is none any more, and stays as it is.
pub(super) async fn note(node: &Node, record: &Record) -> Result<bool, Error> {
    let before = Before::Was(Status::InProgress.name());
    kept::put(node, (record.kind, &record.id), record.attributes(), before).await
}

/// Forgets one that has the status still.
pub(super) async fn forget(node: &Node, record: &Record) -> Result<bool, Error> {
    kept::forget(node, (record.kind, &record.id), Some(record.status.name())).await
}

/// The record of an id.
pub(super) async fn find(node: &Node, place: (Kind, &str)) -> Result<Option<Record>, Error> {
    let Some(item) = kept::find(node, place).await? else { return Ok(None) };
    Record::of(place, &item).map(Some).ok_or_else(|| damaged(place))
}

/// Those that are admitted behind an id, in order of ids, so many at most; and whether there are
/// more.
pub(super) async fn list(
    node: &Node,
    (kind, after): (Kind, Option<&str>),
    most: usize,
    admits: impl Fn(&Record) -> bool,
) -> Result<(Vec<Record>, bool), Error> {
    kept::list(node, (kind, after), most, |id, item| {
        let record = Record::of((kind, id), item);
        if record.is_none() {
            tracing::warn!(target: "transfers", "{}", damaged((kind, id)).message);
        }
        record.filter(|record| admits(record))
    })
    .await
}

fn damaged((kind, id): (Kind, &str)) -> Error {
    Error::internal(format!("what is known of the {} {id} is damaged", kind.name()))
}
