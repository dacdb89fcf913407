//! `/column_family`: which tables there are.

use super::{Answered, Door};
use crate::call::{Answer, Call};
use hyper::Method;
use serde_json::{Value, json};

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
