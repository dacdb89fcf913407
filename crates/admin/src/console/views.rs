//! What the page shows beside plots: the cluster, tables, tasks.

use crate::call::{Answer, Call};
use crate::tasks::{ABORTED, Progress, State, Task, Tasks};
use cluster::nodes::{Node, Nodes};
use cluster::traffic::Work;
use cluster::{Cluster, CompactionRecord, Schema, TableKind};
use model::{TableId, Uuid};
use runtime::local;
use runtime::time::wall_micros;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use storage::{RunningCompaction, Storage};

/// Tasks of operators that are shown.
const ASKED_MAX: usize = 50;
/// Merges that have ended that are shown.
const ENDED_MAX: usize = 30;

/// Who the node is.
pub(super) fn state(cluster: &Cluster, version: &str) -> Value {
    let node = cluster.node();
    let schema = cluster.schema();
    let count = |system| {
        let tables = schema.tables().filter(|table| table.kind == TableKind::Stored);
        tables.filter(|table| Schema::is_system(&table.schema.keyspace) == system).count()
    };
    json!({
        "cluster": node.cluster_name,
        "version": version,
        "release": node.release_version,
        "host_id": node.host_id.to_string(),
        "address": node.rpc_address.to_string(),
        "data_center": node.data_center,
        "rack": node.rack,
        "nodes": nodes(cluster),
        "shards": node.shards,
        "schema_version": schema.version.to_string(),
        "up_seconds": node.uptime().as_secs(),
        // What the operator has to know at once, or null.
        "notice": local::try_get::<Storage>().and_then(|node| node.disk_state().notice()),
        "user_tables": count(false),
        "system_tables": count(true),
    })
}

/// All nodes of the cluster, as this one knows them; null where a node has not said it yet.
fn nodes(cluster: &Cluster) -> Vec<Value> {
    let version = cluster.schema().version;
    let told = |node: &Node| {
        let member = &node.member;
        let (activity, schema) = match node.is_here {
            true => (cluster.activity(), Some(version)),
            false => (node.heard.activity, node.heard.schema),
        };
        let activity = activity.filter(|_| node.heard.is_up);
        json!({
            "here": node.is_here,
            "address": node.address(),
            // Nothing is listened on before this node is up.
            "state": node.letters(),
            "host_id": member.host_id.to_string(),
            "data_center": member.data_center,
            "rack": member.rack,
            "shards": member.shards,
            "tokens": member.tokens.len(),
            "load_bytes": activity.map(|it| it.load_bytes),
            "reads": activity.map(|it| it.reads),
            "writes": activity.map(|it| it.writes),
            "busy": activity.map(|it| f64::from(it.busy_permille) / 1e3),
            "agrees": schema.map(|schema| schema == version),
        })
    };
    Nodes::seen(cluster).all().iter().map(told).collect()
}

/// The same, with whether statements ask for a login.
pub(super) fn with_login(mut state: Value, asks_passwords: bool) -> Value {
    state["login"] = json!(asks_passwords);
    state
}

/// What a shard says of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TableCounts {
    sstables: u64,
    disk_bytes: u64,
    memtable_bytes: u64,
    partitions: u64,
    pending: u64,
    reads: u64,
    writes: u64,
    /// Sums, in nanoseconds.
    read_ns: u64,
    write_ns: u64,
}

impl TableCounts {
    pub(super) fn of_shard(storage: &Storage, cluster: &Cluster, table: TableId) -> TableCounts {
        let stats = storage.table_stats(table).unwrap_or_default();
        let schema = cluster.schema();
        let local = schema.table_by_id(table).map(|entry| entry.local.clone());
        let taken = |works: &[Work]| {
            let traffic = local.iter().map(|local| &local.traffic);
            let taken = traffic.flat_map(|it| works.iter().filter_map(|work| it.taken(*work)));
            taken.fold((0, 0), |(count, sum), taken| {
                (count + taken.spans.count(), sum + taken.spans.sum())
            })
        };
        let (reads, read_ns) = taken(&[Work::Read, Work::Scan, Work::CasRead]);
        let (writes, write_ns) = taken(&[Work::Write, Work::CasWrite]);
        TableCounts {
            sstables: stats.sstables,
            disk_bytes: stats.sstable_bytes,
            memtable_bytes: stats.memtable_bytes,
            partitions: stats.partitions,
            pending: storage.pending_compactions(table) as u64,
            reads,
            writes,
            read_ns,
            write_ns,
        }
    }

    pub(super) fn add(&mut self, other: &TableCounts) {
        self.sstables += other.sstables;
        self.disk_bytes += other.disk_bytes;
        self.memtable_bytes += other.memtable_bytes;
        self.partitions += other.partitions;
        self.pending += other.pending;
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_ns += other.read_ns;
        self.write_ns += other.write_ns;
    }

    pub(super) fn view(&self, keyspace: &str, name: &str, comment: &str) -> Value {
        let mean_us = |sum: u64, count: u64| (0 < count).then(|| sum as f64 / count as f64 / 1e3);
        json!({
            "keyspace": keyspace,
            "name": name,
            "comment": comment,
            "sstables": self.sstables,
            "disk_bytes": self.disk_bytes,
            "memtable_bytes": self.memtable_bytes,
            "partitions": self.partitions,
            "pending": self.pending,
            "reads": self.reads,
            "writes": self.writes,
            "read_us": mean_us(self.read_ns, self.reads),
            "write_us": mean_us(self.write_ns, self.writes),
        })
    }
}

/// Tables with what is counted of them on all shards; those of the system where they are wanted.
pub(super) async fn tables(cluster: &Cluster, system: bool) -> Value {
    let schema = cluster.schema();
    let stored = schema.tables().filter(|table| table.kind == TableKind::Stored);
    let wanted = stored.filter(|table| system || !Schema::is_system(&table.schema.keyspace));
    let ids: Vec<TableId> = wanted.map(|table| table.schema.id).collect();
    let asked = runtime::on_all_shards(move || {
        let ids = ids.clone();
        async move {
            let mut told = Vec::with_capacity(ids.len());
            let (Some(storage), Some(cluster)) =
                (runtime::local::try_get::<Storage>(), runtime::local::try_get::<Cluster>())
            else {
                return told;
            };
            for table in ids {
                told.push((table, TableCounts::of_shard(&storage, &cluster, table)));
                runtime::task::yield_if_needed().await;
            }
            told
        }
    });
    let mut sums: BTreeMap<TableId, TableCounts> = BTreeMap::new();
    for (table, counts) in asked.await.into_iter().flatten() {
        sums.entry(table).or_default().add(&counts);
    }
    let mut views = Vec::new();
    for entry in schema.tables() {
        if let Some(counts) = sums.get(&entry.schema.id) {
            let (keyspace, name) = (&entry.schema.keyspace, &entry.schema.name);
            views.push((
                (keyspace, name),
                counts.view(keyspace, name, &entry.schema.options.comment),
            ));
        }
    }
    views.sort_by_key(|(name, _)| *name);
    let tables = Value::from_iter(views.into_iter().map(|it| it.1));
    json!({ "at": wall_micros() / 1000, "tables": tables })
}

/// What operators have asked for; merges that run, on which shard, and those that ended last.
pub(super) async fn tasks(cluster: &Cluster) -> Result<Value, Answer> {
    Tasks::of_shard().look_at_jobs().await;
    let asked = runtime::on_all_shards(|| async {
        let storage = runtime::local::try_get::<Storage>();
        storage.map_or_else(
            || (Vec::new(), 0, 0),
            |storage| {
                let stats = storage.compaction_stats();
                (storage.running_compactions(), stats.pace.pending as u64, stats.held as u64)
            },
        )
    });
    let (mut running, mut pending, mut held) = (Vec::new(), 0, 0);
    let now = wall_micros();
    for (shard, (jobs, waiting, without_room)) in asked.await.into_iter().enumerate() {
        running.extend(jobs.iter().map(|job| job_view(shard, job, now)));
        pending += waiting;
        held += without_room;
    }
    let ended = cluster.compaction_history().await.map_err(|error| Answer::refused(500, error))?;
    let ended = ended.iter().take(ENDED_MAX).map(ended_view);
    Ok(json!({
        "asked": asked_for(),
        "running": running,
        "pending": pending,
        "held": held,
        "ended": Value::from_iter(ended),
    }))
}

/// The tasks that operators have begun, the latest first.
fn asked_for() -> Value {
    let tasks = Tasks::of_shard();
    let registry = tasks.registry();
    let of_modules = registry.modules().filter_map(|name| registry.of_module(name, false).ok());
    let mut all: Vec<&Task> = of_modules.flatten().collect();
    all.sort_by_key(|task| std::cmp::Reverse((task.created, task.sequence)));
    let now_millis = wall_micros() / 1000;
    let views = all.into_iter().take(ASKED_MAX);
    Value::from_iter(views.map(|task| task_view(task, registry.progress(task.id), now_millis)))
}

fn task_view(task: &Task, Progress { completed, total }: Progress, now_millis: i64) -> Value {
    let about = &task.about;
    let began = task.started.unwrap_or(task.created);
    let (state, why) = outcome(task);
    let is_over = task.state.is_final();
    // A task that ended otherwise is counted as if it had done all of it.
    let is_told = state == "done" || state == "damaged" || !is_over;
    let progress = (is_told && 0.0 < total).then(|| (completed / total).clamp(0.0, 1.0));
    json!({
        "id": task.id.to_string(),
        "kind": about.kind,
        "keyspace": about.keyspace,
        "table": about.table,
        "state": state,
        "why": why,
        "progress": progress,
        "elapsed_ms": task.ended.unwrap_or(now_millis).saturating_sub(began).max(0),
        "began_at": began,
        "stoppable": about.abortable && !is_over && !task.is_aborted,
    })
}

/// How a task is, in a word, and why: `created`, `running`, `stopping`, `done`, `damaged` (it has
/// found something wrong with the data), `stopped` (by an operator) or `failed`.
fn outcome(task: &Task) -> (&'static str, Option<&str>) {
    let is_stopped = |why: &str| why.contains(storage::STOPPED) || why == ABORTED;
    match (&task.state, &task.found) {
        (State::Failed(why), _) if task.is_aborted || is_stopped(why) => ("stopped", None),
        (State::Failed(why), _) => ("failed", Some(why)),
        (State::Done, Some(found)) => ("damaged", Some(found)),
        (State::Running, _) if task.is_aborted => ("stopping", None),
        (state, _) => (state.name(), None),
    }
}

fn job_view(shard: usize, job: &RunningCompaction, now_micros: i64) -> Value {
    json!({
        "id": job.id.to_string(),
        "shard": shard,
        "kind": job.kind,
        "table": format!("{}.{}", job.keyspace, job.name),
        "progress": job.done(),
        "bytes_in": job.bytes_in,
        "bytes_written": job.bytes_written,
        "elapsed_ms": now_micros.saturating_sub(job.started_micros).max(0) / 1000,
        "remaining_ms": job.remaining(now_micros).map(|left| left.as_millis() as u64),
    })
}

fn ended_view(record: &CompactionRecord) -> Value {
    json!({
        "shard": record.shard,
        "kind": record.kind,
        "table": format!("{}.{}", record.keyspace, record.table),
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
        "elapsed_ms": record.ended_at.saturating_sub(record.started_at),
        "ended_at": record.ended_at,
    })
}

/// Asks a task or a merge to end, by its `id`.
pub(super) async fn stop(call: &Call) -> Result<Answer, Answer> {
    let id = call.parameter("id").and_then(|text| text.parse::<Uuid>().ok());
    let id = id.ok_or_else(|| Answer::refused(400, "id: not one of a task"))?;
    let tasks = Tasks::of_shard();
    if tasks.registry().asked(id).is_ok_and(|task| !task.state.is_final()) {
        tasks.abort(id).map_err(|_| Answer::refused(400, "the task cannot be stopped"))?;
        tracing::info!(target: "api", "task {id} is stopped, as the console asked for");
        return Ok(Answer::done());
    }
    let asked = runtime::on_all_shards(move || async move {
        let storage = runtime::local::try_get::<Storage>();
        storage.is_some_and(|storage| storage.stop_compaction(id))
    });
    match asked.await.into_iter().any(|stopped| stopped) {
        true => {
            tracing::info!(target: "api", "compaction {id} is stopped, as the console asked for");
            Ok(Answer::done())
        }
        false => Err(Answer::refused(404, "the task has ended already")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::{About, Registry};

    #[test]
    fn counts_of_shards_add_up() {
        let shard = |reads, read_ns| TableCounts {
            sstables: 1,
            disk_bytes: 100,
            reads,
            read_ns,
            ..TableCounts::default()
        };
        let mut sum = TableCounts::default();
        sum.add(&shard(10, 5_000));
        sum.add(&shard(30, 35_000));
        let view = sum.view("ks", "t", "<b>");
        assert_eq!((&view["sstables"], &view["disk_bytes"]), (&json!(2), &json!(200)));
        assert_eq!((&view["reads"], &view["read_us"]), (&json!(40), &json!(1.0)));
        assert_eq!((&view["write_us"], &view["comment"]), (&Value::Null, &json!("<b>")));
    }

    #[test]
    fn a_task_of_an_operator_is_told() {
        let mut registry = Registry::new(&["compaction"], 0, 60_000);
        let about = About { kind: "major".to_owned(), abortable: true, ..About::default() };
        let id = Uuid::from_u128(7);
        registry.create(id, "compaction", None, about, 1_000).unwrap();
        registry.start(id, 2_000);
        registry.note_progress(id, 1.0, 4.0);
        let view = |registry: &Registry| {
            task_view(registry.get(id).unwrap(), registry.progress(id), 5_000)
        };
        let told = view(&registry);
        assert_eq!((&told["progress"], &told["elapsed_ms"]), (&json!(0.25), &json!(3000)));
        assert_eq!((&told["state"], &told["stoppable"]), (&json!("running"), &json!(true)));
        registry.abort(id).unwrap();
        assert_eq!(view(&registry)["stoppable"], json!(false));
        assert_eq!(view(&registry)["state"], json!("stopping"));
    }

    #[test]
    fn ends_have_a_word_of_their_own() {
        let overloaded = format!("shard 1: overloaded: {}", storage::STOPPED);
        let disk = "no space left on device".to_owned();
        let found = Some("1 damaged SSTables");
        for (aborts, found, end, state, why, progress) in [
            (false, None, Ok(()), "done", None, json!(1.0)),
            (false, found, Ok(()), "damaged", found, json!(1.0)),
            (false, None, Err(overloaded), "stopped", None, Value::Null),
            (true, None, Err("anything".to_owned()), "stopped", None, Value::Null),
            (false, None, Err(disk.clone()), "failed", Some(disk.as_str()), Value::Null),
        ] {
            let mut registry = Registry::new(&["compaction"], 0, 60_000);
            let about = About { abortable: true, of_user: true, ..About::default() };
            let id = Uuid::from_u128(7);
            registry.create(id, "compaction", None, about, 1_000).unwrap();
            registry.start(id, 2_000);
            if aborts {
                registry.abort(id).unwrap();
            }
            if let Some(found) = found {
                registry.note_found(id, found.to_owned());
            }
            registry.end(id, end, 3_000);
            let told = task_view(registry.get(id).unwrap(), registry.progress(id), 5_000);
            assert_eq!((&told["state"], &told["why"]), (&json!(state), &json!(why)), "{told}");
            assert_eq!((&told["progress"], &told["stoppable"]), (&progress, &json!(false)));
        }
    }

    #[test]
    fn a_merge_under_way_is_told() {
        let job = RunningCompaction {
            id: Uuid::from_u128(7),
            table: Uuid::from_u128(1),
            keyspace: "ks".to_owned(),
            name: "t".to_owned(),
            kind: "Major",
            started_micros: 1_000_000,
            bytes_in: 10,
            partitions: 4,
            partitions_done: 1,
            rows_done: 1,
            bytes_written: 5,
            done_millionths: 250_000,
        };
        let view = job_view(3, &job, 3_000_000);
        assert_eq!((&view["table"], &view["progress"]), (&json!("ks.t"), &json!(0.25)));
        assert_eq!((&view["elapsed_ms"], &view["remaining_ms"]), (&json!(2000), &json!(6000)));
        assert_eq!((&view["shard"], &view["kind"]), (&json!(3), &json!("Major")));
    }
}
