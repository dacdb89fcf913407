//! What one other node has, as mutations: for who compares nodes, or takes over from one.
//!
//! Invariants
//!  - *checked-where-it-enters*: an answer is checked against the schema and what was asked for.

use super::host;
use super::peers::call;
use crate::stretch::Stretch;
use crate::wire::{RefusalKind, answer, command};
use messaging::{Payload, Target, ToShard, Verb};
use model::{TableSchema, Uuid};
use mutation::page::ReadCommand;
use std::time::Duration;

/// Asks a node by a verb that takes a command and answers with a stretch; `None`: it does not know
/// the table, or not any more.
pub(crate) async fn fetch_stretch(
    (from, verb): (Uuid, Verb),
    schema: &TableSchema,
    asked: &ReadCommand,
    time: Duration,
) -> Result<Option<Stretch>, String> {
    let target = Target::bulk(host(from), ToShard::At(0));
    assert!(schema.id == asked.table, "checked-where-it-enters: a command of another table");
    let payload = Payload::from(command::encode(asked));
    let failed =
        |why: String| format!("{}.{} from node {from}: {why}", schema.keyspace, schema.name);
    let answer = match call(target, verb, payload, time).await {
        Ok(answer) => answer,
        Err(refusal) if refusal.kind == RefusalKind::UnknownTable => return Ok(None),
        Err(refusal) => return Err(failed(refusal.text)),
    };
    let stretch = answer::decode_stretch(&answer).map_err(|damaged| failed(damaged.to_string()))?;
    stretch.check(schema, asked).map_err(|damaged| failed(damaged.to_string()))?;
    Ok(Some(stretch))
}
