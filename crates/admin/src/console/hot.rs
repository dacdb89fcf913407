//! Hot partitions: which are read and written most, sampled while the page waits.

use crate::call::{Answer, Call};
use cluster::{Cluster, Schema, TableKind};
use model::key::partition_key_component;
use model::value::to_literal;
use serde_json::{Value, json};
use std::time::Duration;
use storage::{HotCounts, HotOrder, HotPartition, hot_partitions};

/// The longest time that the page may wait.
const SECONDS_MAX: u64 = 60;
const SECONDS_DEFAULT: u64 = 5;
/// Keys counted by each shard.
const CAPACITY: usize = 512;
/// Partitions shown.
const LISTED: usize = 20;
/// Characters of a key that are shown.
const KEY_CHARS_MAX: usize = 200;

/// Samples for `seconds`, of `table` (`keyspace.table`), or of all tables of users.
pub(super) async fn sampled(cluster: &Cluster, call: &Call) -> Result<Value, Answer> {
    let seconds = match call.parameter("seconds").filter(|text| !text.is_empty()) {
        None => SECONDS_DEFAULT,
        Some(text) => {
            let seconds = text.parse().ok().filter(|it| (1..=SECONDS_MAX).contains(it));
            seconds.ok_or_else(|| Answer::refused(400, "seconds: not 1 to 60"))?
        }
    };
    let tables = tables(&cluster.schema(), call.parameter("table").unwrap_or(""))?;
    let order = HotOrder {
        tables: Some(tables),
        duration: Duration::from_secs(seconds),
        capacity: CAPACITY,
        listed: LISTED,
    };
    let hot = hot_partitions(order).await.map_err(|why| Answer::refused(503, why))?;
    let schema = cluster.schema();
    Ok(json!({
        "seconds": seconds,
        "reads": side(&schema, &hot.reads),
        "writes": side(&schema, &hot.writes),
    }))
}

fn tables(schema: &Schema, name: &str) -> Result<Vec<model::TableId>, Answer> {
    if name.is_empty() {
        let stored = schema.tables().filter(|table| table.kind == TableKind::Stored);
        let of_users = stored.filter(|table| !Schema::is_system(&table.schema.keyspace));
        return Ok(of_users.map(|table| table.schema.id).collect());
    }
    let (keyspace, table) = name.split_once('.').unwrap_or((name, ""));
    let found = schema.table(keyspace, table);
    let unknown = || Answer::refused(400, format!("table: there is no {name}"));
    Ok(vec![found.ok_or_else(unknown)?.schema.id])
}

fn side(schema: &Schema, counts: &HotCounts) -> Value {
    let partition = |one: &HotPartition| {
        let table = schema.table_by_id(one.table)?;
        let (keyspace, name) = (&table.schema.keyspace, &table.schema.name);
        Some((format!("{keyspace}.{name}"), key_of(&table.schema, one)))
    };
    let top = counts.top.iter().filter_map(|one| {
        let (table, key) = partition(&one.key)?;
        Some(json!({
            "table": table,
            "key": key,
            "token": one.key.token.0.to_string(),
            "count": one.count,
            "error": one.error,
        }))
    });
    json!({ "total": counts.total, "partitions": counts.partitions, "top": Value::from_iter(top) })
}

/// A partition's key as CQL writes it, its components with colons between them.
fn key_of(table: &model::TableSchema, one: &HotPartition) -> String {
    let columns = table.partition_key();
    let component = |at: usize| partition_key_component(&one.key, columns.len(), at);
    let texts =
        (0..columns.len()).filter_map(|at| Some(to_literal(&columns[at].ty, component(at)?)));
    let text = texts.collect::<Vec<_>>().join(":");
    let cut: String = text.chars().take(KEY_CHARS_MAX).collect();
    match one.is_whole && cut.len() == text.len() {
        true => cut,
        false => format!("{cut}\u{2026}"),
    }
}
