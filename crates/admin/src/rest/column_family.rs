//! `/column_family`: which tables there are, and what is counted of each.

use super::Door;
use super::api::Api;
use super::tables::{one, set_auto_compaction};
use crate::call::{Answer, Call};
use runtime::local;
use serde_json::{Value, json};
use std::rc::Rc;
use storage::Storage;

pub(super) fn operations(api: &mut Api) {
    api.tells("/column_family/", "All tables", |door| {
        let show = |keyspace: &str, table: &str| {
            json!({ "ks": keyspace, "cf": table, "type": "ColumnFamilies" })
        };
        listed(door, show)
    });
    api.tells("/column_family/name", "The names of all tables, keyspace:table", |door| {
        listed(door, |keyspace, table| json!(format!("{keyspace}:{table}")))
    });
    api.tells("/column_family/name/keyspace", "The names of all keyspaces", |door| {
        door.cluster.schema().keyspaces.keys().map(String::as_str).collect()
    });
    let path = "/column_family/autocompaction/{name}";
    api.get(
        path,
        "Whether automatic compaction of a table is enabled",
        async |door: &Rc<Door>, call: &Call| {
            let table = one(door, call)?.schema.id;
            Ok(Answer::json(json!(local::get::<Storage>().auto_compaction(table))))
        },
    );
    api.post(
        path,
        "Enables automatic compaction of a table",
        async |door: &Rc<Door>, call: &Call| {
            set_auto_compaction(vec![one(door, call)?.schema.id], true).await
        },
    );
    api.delete(
        path,
        "Disables automatic compaction of a table",
        async |door: &Rc<Door>, call: &Call| {
            set_auto_compaction(vec![one(door, call)?.schema.id], false).await
        },
    );
}

fn listed(door: &Door, show: impl Fn(&str, &str) -> Value) -> Value {
    let schema = door.cluster.schema();
    let keyspaces = schema.keyspaces.iter();
    let all = keyspaces.flat_map(|(keyspace, entry)| {
        entry.tables.keys().map(|table| show(keyspace, table)).collect::<Vec<_>>()
    });
    all.collect()
}
