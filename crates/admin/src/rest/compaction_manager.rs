//! `/compaction_manager`: what is merged, and what is to be.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::tables::{all, sum_of};
use crate::call::{Answer, Call};
use cluster::CompactionRecord;
use runtime::time::wall_micros;
use serde_json::{Value, json};
use std::rc::Rc;
use storage::{CompactedSstable, CompactionStats, RunningCompaction, Storage};

pub(super) fn operations(api: &mut Api) {
    let path = "/compaction_manager/metrics/pending_tasks_by_table";
    api.get(path, "Pending compactions by table", async |door: &Rc<Door>, _: &Call| {
        Ok(Answer::json(by_table(door).await.into_iter().collect()))
    });
    let path = "/compaction_manager/metrics/pending_tasks";
    api.get(path, "Pending compactions", async |door: &Rc<Door>, _: &Call| {
        let tasks = by_table(door).await;
        let sum: u64 = tasks.iter().filter_map(|task| task["task"].as_u64()).sum();
        Ok(Answer::json(json!(sum)))
    });
    figure(api, "/compaction_manager/metrics/completed_tasks", "Finished compactions", |stats| {
        stats.finished
    });
    figure(
        api,
        "/compaction_manager/metrics/total_compactions_completed",
        "Finished compactions",
        |stats| stats.finished,
    );
    figure(
        api,
        "/compaction_manager/metrics/bytes_compacted",
        "Bytes of the inputs of compactions",
        |stats| stats.bytes_in,
    );
    figure(
        api,
        "/compaction_manager/metrics/held_for_space",
        "Compactions that wait for free disk space",
        |stats| stats.held as u64,
    );
    figure(api, "/compaction_manager/metrics/backlog", "Compaction backlog in bytes", |stats| {
        stats.pace.backlog as u64
    });
    let path = "/compaction_manager/metrics/shares";
    api.get(path, "The shares of compaction on each shard", async |_: &Rc<Door>, _: &Call| {
        Ok(Answer::json(json!(of_shards(|stats| u64::from(stats.pace.shares)).await)))
    });
    api.get(
        "/compaction_manager/compactions",
        "Compactions in flight",
        async |_: &Rc<Door>, _: &Call| Ok(Answer::json(running().await.into())),
    );
    let path = "/compaction_manager/compaction_history";
    api.get(path, "Finished compactions, the latest first", history).takes(
        "limit",
        Kind::Integer,
        "How many at most",
    );
}

/// One figure, the sum of all shards.
fn figure(
    api: &mut Api,
    path: &'static str,
    summary: &'static str,
    value: fn(&CompactionStats) -> u64,
) {
    api.get(path, summary, async move |_: &Rc<Door>, _: &Call| {
        Ok(Answer::json(json!(sum(value).await)))
    });
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
            // One measure for all that show it: bytes of the inputs on the disk.
            "unit": "bytes",
            "completed": job.bytes_done(),
            "total": job.bytes_in,
            "rows": job.rows_done,
            "bytes_in": job.bytes_in,
            "bytes_written": job.bytes_written,
            "started_at": job.started_micros.div_euclid(1000),
            "elapsed_ms": now.saturating_sub(job.started_micros).max(0) / 1000,
            "progress": job.done(),
            "remaining_ms": remaining,
        })
    };
    all.map(entry).collect()
}

/// The merges that have ended, of the last week, the latest first; `limit`: so many of them.
async fn history(door: &Rc<Door>, call: &Call) -> Answered {
    let limit = call.number("limit", Some(usize::MAX))?;
    let records = door.cluster.compaction_history().await;
    let records = records.map_err(|error| Answer::refused(500, error))?;
    let merged = |(inputs, fragments): &(u32, u64)| json!({ "key": inputs, "value": fragments });
    let sstable = |one: &CompactedSstable| {
        json!({
            "generation": one.generation.to_string(),
            "origin": one.origin,
            "size": one.disk_bytes,
        })
    };
    let entry = |record: CompactionRecord| {
        let purges = record.purges;
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
            "rows_merged": record.merged.iter().map(merged).collect::<Value>(),
            "sstables_in": record.inputs.iter().map(sstable).collect::<Value>(),
            "sstables_out": record.outputs.iter().map(sstable).collect::<Value>(),
            "total_tombstone_purge_attempt": purges.tried,
            "total_tombstone_purge_failure_due_to_overlapping_with_memtable":
                purges.kept_for_memtables,
            "total_tombstone_purge_failure_due_to_overlapping_with_uncompacting_sstable":
                purges.kept_for_sstables,
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
