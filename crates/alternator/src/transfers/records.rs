//! Where imports are known: among what nodes keep ([`crate::kept`]).
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
    kept::put(node, (Kind::Import, &record.id), record.attributes(), Before::Absent).await
}

/// Writes down how an import is that is under way; false: it is none any more, and stays as it is.
pub(super) async fn note(node: &Node, record: &Record) -> Result<bool, Error> {
    let before = Before::Was(Status::InProgress.name());
    kept::put(node, (Kind::Import, &record.id), record.attributes(), before).await
}

/// Forgets an import that has the status.
pub(super) async fn forget(node: &Node, id: &str, was: Status) -> Result<bool, Error> {
    kept::forget(node, (Kind::Import, id), Some(was.name())).await
}

/// The record of an id.
pub(super) async fn find(node: &Node, id: &str) -> Result<Option<Record>, Error> {
    let Some(item) = kept::find(node, (Kind::Import, id)).await? else { return Ok(None) };
    Record::of(id, &item).map(Some).ok_or_else(|| damaged(id))
}

/// Those that are admitted behind an id, in order of ids, so many at most; and whether there are
/// more.
pub(super) async fn list(
    node: &Node,
    after: Option<&str>,
    most: usize,
    admits: impl Fn(&Record) -> bool,
) -> Result<(Vec<Record>, bool), Error> {
    kept::list(node, (Kind::Import, after), most, |id, item| {
        let record = Record::of(id, item);
        if record.is_none() {
            tracing::warn!(target: "imports", "{}", damaged(id).message);
        }
        record.filter(|record| admits(record))
    })
    .await
}

fn damaged(id: &str) -> Error {
    Error::internal(format!("what is known of the import {id} is damaged"))
}
