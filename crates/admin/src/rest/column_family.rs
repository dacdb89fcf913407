//! `/column_family`: which tables there are, and what is counted of each.

use super::tables::{one, set_auto_compaction, sum_of};
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
        (&Method::GET, ["metrics", metric, name]) => metric_of(door, metric, name).await,
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

/// Something that is counted of a table, `keyspace:table`.
async fn metric_of(door: &Door, metric: &str, name: &str) -> Answered {
    let table = match one(door, name) {
        Ok(table) => table,
        Err(answer) => return Some(Err(answer)),
    };
    let in_vain = |storage: &Storage, table| storage.filter_hits(table).in_vain;
    let all = |storage: &Storage, table| storage.filter_hits(table).all;
    let sstables =
        |storage: &Storage, table| storage.table_stats(table).map_or(0, |stats| stats.sstables);
    let bytes = |storage: &Storage, table| {
        storage.table_stats(table).map_or(0, |stats| stats.sstable_bytes)
    };
    let pending = |storage: &Storage, table| storage.pending_compactions(table) as u64;
    let value = match metric {
        "bloom_filter_false_positives" => json!(sum_of(table, in_vain).await),
        "bloom_filter_false_ratio" => {
            let (in_vain, all) = (sum_of(table, in_vain).await, sum_of(table, all).await);
            json!(in_vain as f64 / all.max(1) as f64)
        }
        "live_ss_table_count" => json!(sum_of(table, sstables).await),
        "live_disk_space_used" | "total_disk_space_used" => json!(sum_of(table, bytes).await),
        "snapshots_size" | "true_snapshots_size" => {
            let live = metric == "true_snapshots_size";
            match super::snapshots::size_of(table, live).await {
                Ok(bytes) => json!(bytes),
                Err(answer) => return Some(Err(answer)),
            }
        }
        "pending_compactions" => json!(sum_of(table, pending).await),
        _ => return None,
    };
    Some(Ok(Answer::json(value)))
}

fn listed(door: &Door, show: impl Fn(&str, &str) -> Value) -> Answer {
    let schema = door.cluster.schema();
    let keyspaces = schema.keyspaces.iter();
    let all = keyspaces.flat_map(|(keyspace, entry)| {
        entry.tables.keys().map(|table| show(keyspace, table)).collect::<Vec<_>>()
    });
    Answer::json(all.collect())
}
