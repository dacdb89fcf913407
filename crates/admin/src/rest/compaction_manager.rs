//! `/compaction_manager`: what is merged, and what is to be.

use super::tables::{all, sum_of};
use super::{Answered, Door, storage_service, upkeep};
use crate::call::{Answer, Call};
use cluster::CompactionRecord;
use hyper::Method;
use runtime::time::wall_micros;
use serde_json::{Value, json};
use storage::{CompactionStats, RunningCompaction, Storage};

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
        (&Method::GET, ["metrics", "completed_tasks" | "total_compactions_completed"]) => {
            Some(Ok(Answer::json(json!(sum(|stats| stats.finished).await))))
        }
        (&Method::GET, ["metrics", "bytes_compacted"]) => {
            Some(Ok(Answer::json(json!(sum(|stats| stats.bytes_in).await))))
        }
        (&Method::GET, ["metrics", "held_for_space"]) => {
            Some(Ok(Answer::json(json!(sum(|stats| stats.held as u64).await))))
        }
        (&Method::GET, ["metrics", "backlog"]) => {
            Some(Ok(Answer::json(json!(sum(|stats| stats.pace.backlog as u64).await))))
        }
        (&Method::GET, ["metrics", "shares"]) => {
            let shares = of_shards(|stats| u64::from(stats.pace.shares)).await;
            Some(Ok(Answer::json(json!(shares))))
        }
        (&Method::POST, ["stop_compaction"]) => Some(upkeep::stop(door, call, None).await),
        (&Method::POST, ["stop_keyspace_compaction", keyspace]) => {
            Some(upkeep::stop(door, call, Some(keyspace)).await)
        }
        (&Method::GET, ["compactions"]) => Some(Ok(Answer::json(running().await.into()))),
        (&Method::GET, ["compaction_history"]) => Some(history(door, call).await),
        _ => None,
    }
}

/// A figure of each shard.
async fn of_shards(figure: fn(&CompactionStats) -> u64) -> Vec<u64> {
    runtime::on_all_shards(move || async move {
        let storage = runtime::local::try_get::<Storage>();
        storage.map_or(0, |storage| figure(&storage.compaction_stats()))
    })
    .await
}

/// The sum of a figure of all shards.
async fn sum(figure: fn(&CompactionStats) -> u64) -> u64 {
    of_shards(figure).await.into_iter().sum()
}

/// The merges that are under way, on all shards.
async fn running() -> Vec<Value> {
    let asked = runtime::on_all_shards(|| async {
        let storage = runtime::local::try_get::<Storage>();
        storage.map(|storage| storage.running_compactions()).unwrap_or_default()
    });
    let all = asked.await.into_iter().flatten();
    let now = wall_micros();
    let entry = |job: RunningCompaction| {
        let remaining = job.remaining(now).map(|left| left.as_millis() as u64);
        json!({
            "id": job.id.to_string(),
            "ks": job.keyspace,
            "cf": job.name,
            "task_type": job.kind.to_ascii_uppercase(),
            "unit": "keys",
            "completed": job.partitions_done,
            "total": job.partitions,
            "rows": job.rows_done,
            "bytes_in": job.bytes_in,
            "bytes_written": job.bytes_written,
            "started_at": job.started_micros.div_euclid(1000),
            "elapsed_ms": now.saturating_sub(job.started_micros).max(0) / 1000,
            "progress": f64::from(job.done_millionths) / 1e6,
            "remaining_ms": remaining,
        })
    };
    all.map(entry).collect()
}

/// The merges that have ended, of the last week, the latest first; `limit`: so many of them.
async fn history(door: &Door, call: &Call) -> Result<Answer, Answer> {
    let limit = storage_service::number(call, "limit", Some(usize::MAX))?;
    let records = door.cluster.compaction_history().await;
    let records = records.map_err(|error| Answer::refused(500, error))?;
    let entry = |record: CompactionRecord| {
        json!({
            "id": record.id.to_string(),
            "shard_id": record.shard,
            "ks": record.keyspace,
            "cf": record.table,
            "compaction_type": record.kind,
            "started_at": record.started_at,
            "compacted_at": record.ended_at,
            "bytes_in": record.bytes_in,
            "bytes_out": record.bytes_out,
            "rows_merged": [],
        })
    };
    Ok(Answer::json(records.into_iter().take(limit).map(entry).collect()))
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
