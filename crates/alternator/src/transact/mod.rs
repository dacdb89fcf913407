//! `TransactWriteItems` and `TransactGetItems`.
//!
//! A write holds the partitions of all its items, each as what its items make of it, and then has
//! that committed ([`replication::transactions`]). A read reads all items by rounds, twice or more
//! often, until none of them has changed since: then they were so at one moment.
//!
//! Invariants
//!  - *all-or-none*: what an answer says to be cancelled is not done, in no part.
//!  - *no-item-twice*: a transaction that names an item twice is refused.
//!  - *once-a-token*: as in [`replication::transactions`].
//!
//! What is done in one partition is [`crate::part`].

mod get;
mod write;

pub(crate) use get::get;
pub(crate) use write::write;

use crate::error::{Error, Kind};
use crate::json::{Object, write_list};
use crate::node::{Node, changed};
use crate::part::Reason;
use crate::tables::keyspace;
use cluster::{Cluster, Schema, SchemaChange};
use model::Keyspace;
use replication::transactions::{KEYSPACE, OUTCOMES, outcomes_schema};

/// The table of the outcomes, if it is not there yet.
async fn make_outcomes(node: &Node) -> Result<(), Error> {
    if node.schema().table(KEYSPACE, OUTCOMES).is_some() {
        return Ok(());
    }
    let outcomes = Keyspace { name: KEYSPACE.to_owned(), ..keyspace(node, KEYSPACE)? };
    let id = Cluster::new_table_id();
    let change = move |schema: &Schema| {
        let mut changes = Vec::new();
        if schema.keyspace(KEYSPACE).is_none() {
            changes.push(SchemaChange::CreateKeyspace(outcomes.clone()));
        }
        if schema.table(KEYSPACE, OUTCOMES).is_none() {
            changes.push(SchemaChange::CreateTable(outcomes_schema(id)));
        }
        Ok::<_, Error>(changes)
    };
    changed(node.cluster.change_schema(change).await).map(drop)
}

/// That two transactions have met.
fn conflict() -> Error {
    let text = "Transaction is ongoing for the item";
    Error { kind: Kind::RequestLimitExceeded, ..Error::validation(text) }
}

/// That a request names an item twice.
fn twice() -> Error {
    Error::validation("Transaction request cannot include multiple operations on one item")
}

fn code(reason: &Reason) -> &'static str {
    match reason.as_ref().map(|error| error.kind) {
        None => "None",
        Some(Kind::ConditionalCheckFailed) => "ConditionalCheckFailed",
        Some(Kind::RequestLimitExceeded) => "TransactionConflict",
        Some(_) => "ValidationError",
    }
}

/// What is said of it.
pub(crate) fn cancelled_text<T: AsRef<str>>(codes: &[T]) -> String {
    let codes: Vec<&str> = codes.iter().map(AsRef::as_ref).collect();
    format!(
        "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
        codes.join(", ")
    )
}

/// A transaction of which nothing was done, with the reason of each part.
fn cancelled(reasons: &[Reason]) -> Error {
    let codes: Vec<&str> = reasons.iter().map(code).collect();
    let text = cancelled_text(&codes);
    let mut out = String::new();
    write_list(reasons, &mut out, |reason, out| {
        let mut object = Object::open(out);
        object.string("Code", code(reason));
        if let Some(Error { message, item, .. }) = reason {
            object.string("Message", message);
            item.iter().for_each(|item| {
                object.json("Item", item);
            });
        }
        object.close();
    });
    Error { reasons: Some(out), ..Error::new(Kind::TransactionCanceled, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_in_order() {
        let failed = Error { item: Some("{}".to_owned()), ..Error::validation("no") };
        let error = cancelled(&[None, Some(conflict()), Some(failed)]);
        assert!(error.message.ends_with("[None, TransactionConflict, ValidationError]"));
        let expected = [
            r#"{"Code":"None"}"#,
            r#"{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"}"#,
            r#"{"Code":"ValidationError","Message":"no","Item":{}}"#,
        ];
        assert_eq!(error.reasons, Some(format!("[{}]", expected.join(","))));
    }
}
