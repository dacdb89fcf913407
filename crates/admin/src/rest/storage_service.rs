//! `/storage_service`: who the node is; flushing, compacting and loading tables;
//! incremental backups; what is traced.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::compaction::reshard;
use super::tables::{CF, all, flush, named, set_auto_compaction, set_tombstone_gc};
use super::work::Tables;
use crate::call::{Answer, Call};
use cluster::settings::{By, Settings};
use cluster::{KeyspaceEntry, Replication, Schema, SlowQueries, TraceRules};
use model::TableId;
use serde_json::{Value, json};
use std::rc::Rc;
use storage::{Checks, Import, Loaded, LoadedSsTable, Source, Storage};

const COMPACTION_THROUGHPUT: &str = "compaction_throughput_mb_per_sec";
const STREAM_THROUGHPUT: &str = "stream_io_throughput_mb_per_sec";

pub(super) fn operations(api: &mut Api) {
    told(api);
    api.post("/storage_service/flush", "Writes the memtables of all tables to SSTables", flush_all);
    api.post(
        "/storage_service/keyspace_flush/{keyspace}",
        "Writes memtables to SSTables",
        flush_some,
    )
    .takes("cf", Kind::Text, CF);
    let path = "/storage_service/auto_compaction/{keyspace}";
    api.post(
        path,
        "Enables automatic compaction of tables",
        async |door: &Rc<Door>, call: &Call| set_auto_compaction(named(door, call)?, true).await,
    )
    .takes("cf", Kind::Text, CF);
    api.delete(
        path,
        "Disables automatic compaction of tables",
        async |door: &Rc<Door>, call: &Call| set_auto_compaction(named(door, call)?, false).await,
    )
    .takes("cf", Kind::Text, CF);
    let path = "/storage_service/tombstone_gc/{keyspace}";
    api.post(
        path,
        "Enables the purge of tombstones by compaction",
        async |door: &Rc<Door>, call: &Call| set_tombstone_gc(named(door, call)?, true).await,
    )
    .takes("cf", Kind::Text, CF);
    api.delete(
        path,
        "Disables the purge of tombstones by compaction",
        async |door: &Rc<Door>, call: &Call| set_tombstone_gc(named(door, call)?, false).await,
    )
    .takes("cf", Kind::Text, CF);
    api.post("/storage_service/sstables/{keyspace}", "Loads the SSTables in upload/", load)
        .takes("cf", Kind::Text, "The table")
        .takes("load_and_stream", Kind::Flag, "One node has what is its own: no difference")
        .takes("primary_replica_only", Kind::Flag, "One node: no difference")
        .takes("scope", Kind::OneOf(&["all", "dc", "rack", "node"]), "One node: no difference")
        .takes("skip_cleanup", Kind::Flag, "Nothing is cleaned up: no difference")
        .takes("skip_reshape", Kind::Flag, "Nothing is reshaped: no difference");
    api.post("/storage_service/import/{keyspace}", "Loads the SSTables of a directory", import)
        .needs("cf", Kind::Text, "The table")
        .needs("directory", Kind::Text, "An absolute path on the node's machine")
        .takes("copy", Kind::Flag, "Whether the files are copied instead of moved; false")
        .takes(
            "verify",
            Kind::OneOf(&["open", "extended"]),
            "Whether each is read whole before; open, which checks its metadata, if not said",
        );
    live(api);
}

/// What changes while the node runs.
fn live(api: &mut Api) {
    let path = "/storage_service/trace_probability";
    api.tells(path, "The share of requests that is traced", |_| {
        share(TraceRules::of_shard().probability())
    });
    api.post(path, "Sets the share of requests that is traced", set_trace_probability).needs(
        "probability",
        Kind::Number,
        "From 0 to 1",
    );
    let path = "/storage_service/slow_query";
    api.tells(path, "Which requests are kept as slow", |_| {
        slow_query(TraceRules::of_shard().slow())
    });
    api.post(path, "Says which requests are kept as slow", set_slow_query)
        .takes("enable", Kind::Flag, "Whether slow requests are kept")
        .takes("ttl", Kind::Integer, "Seconds for which they are kept")
        .takes("threshold", Kind::Integer, "Microseconds from which on a request is slow")
        .takes("fast", Kind::Flag, "Whether their events are left out");
    let path = "/storage_service/incremental_backups";
    api.tells(path, "Whether flushed SSTables are linked into backups/", |_| {
        json!(runtime::local::get::<Storage>().incremental_backups())
    });
    api.post(
        path,
        "Says whether flushed SSTables are linked into backups/",
        set_incremental_backups,
    )
    .needs("value", Kind::Flag, "Whether they are");
    let path = "/storage_service/compaction_throughput";
    api.tells(path, "MiB a second that compaction may read and write", |_| {
        shown(COMPACTION_THROUGHPUT)
    });
    api.post(path, "Sets the throughput limit of compaction", async |_: &Rc<Door>, call: &Call| {
        set(call, COMPACTION_THROUGHPUT).await
    })
    .needs("value", Kind::Integer, "MiB a second; 0: no limit");
    let path = "/storage_service/stream_throughput";
    api.tells(path, "MiB a second that streams may move", |_| shown(STREAM_THROUGHPUT));
    api.post(path, "Sets the throughput limit of streams", async |_: &Rc<Door>, call: &Call| {
        set(call, STREAM_THROUGHPUT).await
    })
    .needs("value", Kind::Integer, "MiB a second; 0: no limit");
    let path = "/storage_service/native_transport";
    api.tells(path, "Whether the ports of CQL are open", |door| json!(door.transport.is_open()));
    api.post(path, "Opens the ports of CQL", async |door: &Rc<Door>, _: &Call| {
        moved(door.transport.open().await)
    });
    api.delete(
        path,
        "Closes the ports of CQL and ends the connections",
        async |door: &Rc<Door>, _: &Call| moved(door.transport.close().await),
    );
}

/// What is known at once.
fn told(api: &mut Api) {
    api.tells("/storage_service/hostid/local", "The id of the node", |door| {
        json!(door.cluster.node().host_id.to_string())
    });
    api.tells("/storage_service/release_version", "The release that drivers are told", |door| {
        json!(door.cluster.node().release_version)
    });
    api.tells("/storage_service/scylla_release_version", "The version of the program", |door| {
        json!(door.version)
    });
    api.tells("/storage_service/nereid_version", "The version of Nereid", |_| {
        json!(env!("CARGO_PKG_VERSION"))
    });
    api.tells("/storage_service/cluster_name", "The name of the cluster", |door| {
        json!(door.cluster.node().cluster_name)
    });
    api.tells("/storage_service/schema_version", "The version of the schema", |door| {
        json!(door.cluster.schema().version.to_string())
    });
    api.tells("/storage_service/partitioner_name", "What makes tokens of keys", |_| {
        json!(cluster::PARTITIONER)
    });
    api.get("/storage_service/keyspaces", "Names of keyspaces", keyspaces)
        .takes("type", Kind::OneOf(&["all", "user", "non_local_strategy"]), "Which")
        .takes(
            "replication",
            Kind::OneOf(&["all", "tablets", "vnodes"]),
            "With or without tablets",
        );
}

async fn keyspaces(door: &Rc<Door>, call: &Call) -> Answered {
    let schema = door.cluster.schema();
    let word = |name| call.given(name).unwrap_or("all").to_ascii_lowercase();
    let (kind, replication) = (word("type"), word("replication"));
    let wanted = |name: &str, entry: &KeyspaceEntry| {
        let of_kind = match kind.as_str() {
            "user" => !Schema::is_system(name),
            "non_local_strategy" => *entry.replication != Replication::Local,
            _ => true,
        };
        of_kind
            && match replication.as_str() {
                "tablets" => entry.keyspace.initial_tablets.is_some(),
                "vnodes" => entry.keyspace.initial_tablets.is_none(),
                _ => true,
            }
    };
    let names = schema.keyspaces.iter().filter(|(name, entry)| wanted(name, entry));
    Ok(Answer::json(names.map(|(name, _)| name.as_str()).collect()))
}

fn moved(done: Result<(), String>) -> Answered {
    done.map(|()| Answer::done()).map_err(|error| Answer::refused(500, error))
}

async fn flush_all(door: &Rc<Door>, _: &Call) -> Answered {
    flush(all(&door.cluster.schema())).await?;
    Ok(Answer::done())
}

async fn flush_some(door: &Rc<Door>, call: &Call) -> Answered {
    flush(named(door, call)?).await?;
    Ok(Answer::done())
}

/// A share as a number; none and all are 0 and 1, as those who compare texts expect.
fn share(share: f64) -> Value {
    if share.fract() == 0.0 { json!(share as u64) } else { json!(share) }
}

/// Which share of all requests is traced.
async fn set_trace_probability(_: &Rc<Door>, call: &Call) -> Answered {
    let probability = call.number("probability", None)?;
    let set = TraceRules::set_probability(probability).await;
    set.map_err(|why| Answer::refused(400, why))?;
    Ok(Answer::done())
}

/// Which requests are slow, and what is kept of them; what is not said stays as it is.
async fn set_slow_query(_: &Rc<Door>, call: &Call) -> Answered {
    let now = TraceRules::of_shard().slow();
    TraceRules::set_slow(SlowQueries {
        enabled: call.flag("enable", now.enabled)?,
        fast: call.flag("fast", now.fast)?,
        ttl_secs: call.number("ttl", Some(now.ttl_secs))?,
        threshold_micros: call.number("threshold", Some(now.threshold_micros))?,
    })
    .await;
    Ok(Answer::done())
}

fn slow_query(slow: SlowQueries) -> Value {
    json!({
        "enable": slow.enabled,
        "ttl": slow.ttl_secs,
        "threshold": slow.threshold_micros,
        "fast": slow.fast,
    })
}

/// The value of an option that is a number.
fn shown(name: &str) -> Value {
    let shown = Settings::of_shard().shown();
    let option = shown.into_iter().find(|option| option.name == name);
    json!(option.and_then(|option| option.value.parse::<i64>().ok()).unwrap_or(0))
}

/// Sets an option to the parameter `value`.
async fn set(call: &Call, name: &'static str) -> Answered {
    let value: i64 = call.number("value", None)?;
    let changed = Settings::change(name.to_owned(), value.to_string(), By::Operator).await;
    changed.map_err(|why| Answer::refused(400, format!("value: {why}")))?;
    tracing::info!(target: "config", value, "{name} changed");
    Ok(Answer::done())
}

/// Whether SSTables of flushes get second names in `backups/`, on all shards, until the node stops.
async fn set_incremental_backups(_: &Rc<Door>, call: &Call) -> Answered {
    let value = call.flag("value", false)?;
    runtime::on_all_shards(move || async move {
        if let Some(storage) = runtime::local::try_get::<Storage>() {
            storage.set_incremental_backups(value);
        }
    })
    .await;
    tracing::info!(target: "config", value, "incremental_backups changed");
    Ok(Answer::done())
}

/// Takes over what lies in `upload/` of a table.
async fn load(door: &Rc<Door>, call: &Call) -> Answered {
    let [table] = named(door, call)?[..] else {
        return Err(Answer::refused(400, "cf: exactly one table is required"));
    };
    let storage = runtime::local::get::<Storage>();
    let loaded = storage.load_new(table, Checks::Open).await;
    let loaded = loaded.map_err(|error| Answer::refused(500, error.to_string()))?;
    took(door, table, &loaded)
}

/// Takes over the SSTables of a directory of this machine.
async fn import(door: &Rc<Door>, call: &Call) -> Answered {
    let [table] = named(door, call)?[..] else {
        return Err(Answer::refused(400, "cf: exactly one table is required"));
    };
    let checks = match call.given("verify").map(str::to_ascii_lowercase).as_deref() {
        Some("extended") => Checks::Verify,
        _ => Checks::Open,
    };
    let order = Import {
        directory: call.parameter("directory").unwrap_or_default().into(),
        checks,
        source: if call.flag("copy", false)? { Source::Copied } else { Source::Moved },
    };
    let loaded = runtime::local::get::<Storage>().import(table, order).await;
    took(door, table, &loaded.map_err(|why| Answer::refused(400, why))?)
}

/// What was taken over; a failure names what was not.
fn took(door: &Door, table: TableId, loaded: &Loaded) -> Answered {
    if let Some(entry) = door.cluster.schema().table_by_id(table) {
        // Nobody waits for it: every tablet reads its part of them already.
        reshard(&Tables::one(entry))?;
    }
    let count = loaded.loaded.len();
    if !loaded.refused.is_empty() {
        let texts = loaded.refused.iter().map(|(name, why)| format!("{name}: {why}"));
        let texts = texts.collect::<Vec<_>>().join("; ");
        let text = format!("SSTables loaded: {count}; not loaded: {texts}");
        return Err(Answer::refused(500, text));
    }
    let sum = |of: fn(&LoadedSsTable) -> u64| loaded.loaded.iter().map(of).sum::<u64>();
    let directory = loaded.directory.display().to_string();
    Ok(Answer::json(json!({
        "directory": directory,
        "sstables": count,
        "bytes": sum(|one| one.bytes),
        "partitions": sum(|one| one.partitions),
    })))
}
