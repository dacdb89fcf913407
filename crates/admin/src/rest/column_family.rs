//! `/column_family`: which tables there are.

use super::tables::{one, set_auto_compaction};
use super::{Answered, Door};
use crate::call::{Answer, Call};
use hyper::Method;
use serde_json::{Value, json};
use storage::Storage;

pub(super) async fn answer(door: &Door, call: &Call, path: &[&str]) -> Answered {
    match (&call.method, path) {
        (&Method::GET, []) => Some(Ok(listed(
            door,
            |keyspace, table| json!({ "ks": keyspace, "cf": table, "type": "ColumnFamilies" }),
        ))),
        (&Method::GET, ["name"]) => {
            Some(Ok(listed(door, |keyspace, table| json!(format!("{keyspace}:{table}")))))
        }
        (&Method::GET, ["name", "keyspace"]) => {
            let schema = door.cluster.schema();
            Some(Ok(Answer::json(schema.keyspaces.keys().map(String::as_str).collect())))
        }
        (_, ["autocompaction", name]) => auto_compaction(door, call, name).await,
        _ => None,
    }
}

/// Whether a table, `keyspace:table`, is compacted by itself.
async fn auto_compaction(door: &Door, call: &Call, name: &str) -> Answered {
    let table = match one(door, name) {
        Ok(table) => table,
        Err(answer) => return Some(Err(answer)),
    };
    match call.method {
        Method::GET => {
            let is_on = runtime::local::get::<Storage>().auto_compaction(table);
            Some(Ok(Answer::json(json!(is_on))))
        }
        Method::POST => Some(set_auto_compaction(vec![table], true).await),
        Method::DELETE => Some(set_auto_compaction(vec![table], false).await),
        _ => None,
    }
}

fn listed(door: &Door, show: impl Fn(&str, &str) -> Value) -> Answer {
    let schema = door.cluster.schema();
    let keyspaces = schema.keyspaces.iter();
    let all = keyspaces.flat_map(|(keyspace, entry)| {
        entry.tables.keys().map(|table| show(keyspace, table)).collect::<Vec<_>>()
    });
    Answer::json(all.collect())
}
