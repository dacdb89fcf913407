//! `/compaction_manager`: what is to be merged.

use super::tables::{all, sum_of};
use super::{Answered, Door};
use crate::call::{Answer, Call};
use hyper::Method;
use serde_json::{Value, json};

pub(super) async fn answer(door: &Door, call: &Call, path: &[&str]) -> Answered {
    match (&call.method, path) {
        (&Method::GET, ["metrics", "pending_tasks_by_table"]) => {
            Some(Ok(Answer::json(by_table(door).await.into_iter().collect())))
        }
        (&Method::GET, ["metrics", "pending_tasks"]) => {
            let tasks = by_table(door).await;
            let sum: u64 = tasks.iter().filter_map(|task| task["task"].as_u64()).sum();
            Some(Ok(Answer::json(json!(sum))))
        }
        _ => None,
    }
}

/// Merges that the options of tables ask for, of those that have some.
async fn by_table(door: &Door) -> Vec<Value> {
    let schema = door.cluster.schema();
    let mut tasks = Vec::new();
    for table in all(&schema) {
        let count = sum_of(table, |storage, table| storage.pending_compactions(table) as u64).await;
        if let Some(entry) = schema.table_by_id(table)
            && 0 < count
        {
            let (keyspace, name) = (&entry.schema.keyspace, &entry.schema.name);
            tasks.push(json!({ "ks": keyspace, "cf": name, "task": count }));
        }
    }
    tasks
}
