//! `/storage_service`: who the node is; flushing, compacting and loading tables;
//! incremental backups; what is traced.

use super::tables::{all, named, on_each, set_auto_compaction};
use super::{Answered, Door, upkeep};
use crate::call::{Answer, Call};
use cluster::settings::{By, Settings};
use cluster::{Schema, SlowQueries, TraceRules};
use hyper::Method;
use model::TableId;
use serde_json::json;
use storage::{Checks, Rewrite, Storage};

const COMPACTION_THROUGHPUT: &str = "compaction_throughput_mb_per_sec";

pub(super) async fn answer(door: &Door, call: &Call, path: &[&str]) -> Answered {
    if let Some(done) = upkeep::answer(door, call, path).await {
        return Some(done);
    }
    if call.method == Method::GET {
        return told(door, call, path);
    }
    let tables = |keyspace| named(door, call, keyspace);
    let answer = match (&call.method, path) {
        (&Method::POST, ["flush"]) => flush(all(&door.cluster.schema())).await,
        (&Method::POST, ["keyspace_flush", keyspace]) => {
            async { flush(tables(keyspace)?).await }.await
        }
        (&Method::POST, ["compact"]) => compact(call, all(&door.cluster.schema())).await,
        (&Method::POST, ["keyspace_compaction", keyspace]) => {
            async { compact(call, tables(keyspace)?).await }.await
        }
        (&Method::POST, ["auto_compaction", keyspace]) => {
            async { set_auto_compaction(tables(keyspace)?, true).await }.await
        }
        (&Method::DELETE, ["auto_compaction", keyspace]) => {
            async { set_auto_compaction(tables(keyspace)?, false).await }.await
        }
        (&Method::POST, ["trace_probability"]) => set_trace_probability(call).await,
        (&Method::POST, ["slow_query"]) => set_slow_query(call).await,
        (&Method::POST, ["compaction_throughput"]) => set_compaction_throughput(call).await,
        (&Method::POST, ["incremental_backups"]) => set_incremental_backups(call).await,
        (&Method::POST, ["native_transport"]) => moved(door.transport.open().await),
        (&Method::DELETE, ["native_transport"]) => moved(door.transport.close().await),
        (&Method::POST, ["sstables", keyspace]) => async { load(tables(keyspace)?).await }.await,
        _ => return None,
    };
    Some(answer)
}

/// Requests that change nothing.
fn told(door: &Door, call: &Call, path: &[&str]) -> Answered {
    let node = door.cluster.node();
    let value = match path {
        ["hostid", "local"] => json!(node.host_id.to_string()),
        ["release_version"] => json!(node.release_version),
        ["scylla_release_version"] => json!(door.version),
        ["cluster_name"] => json!(node.cluster_name),
        ["schema_version"] => json!(door.cluster.schema().version.to_string()),
        ["partitioner_name"] => json!(cluster::PARTITIONER),
        // Nothing is listened on before the node is up.
        ["operation_mode"] => json!("NORMAL"),
        ["is_initialized"] => json!(true),
        ["is_starting"] => json!(false),
        ["trace_probability"] => json!(TraceRules::of_shard().probability()),
        ["slow_query"] => slow_query(TraceRules::of_shard().slow()),
        ["compaction_throughput"] => compaction_throughput(),
        ["incremental_backups"] => json!(runtime::local::get::<Storage>().incremental_backups()),
        ["native_transport"] => json!(door.transport.is_open()),
        ["keyspaces"] => return Some(keyspaces(door, call)),
        _ => return None,
    };
    Some(Ok(Answer::json(value)))
}

fn keyspaces(door: &Door, call: &Call) -> Result<Answer, Answer> {
    let schema = door.cluster.schema();
    let wanted: fn(&str) -> bool = match call.parameter("type").unwrap_or("all") {
        "all" => |_| true,
        "user" | "non_local_strategy" => |name| !Schema::is_system(name),
        other => return Err(Answer::refused(400, format!("unknown type of keyspaces: {other}"))),
    };
    let names = schema.keyspaces.keys().map(String::as_str);
    Ok(Answer::json(names.filter(|name| wanted(name)).collect()))
}

fn moved(done: Result<(), String>) -> Result<Answer, Answer> {
    done.map(|()| Answer::done()).map_err(|error| Answer::refused(500, error))
}

/// Flushes tables. The logs go on in new segments, so that those before can go once all that they
/// hold is flushed.
async fn flush(tables: Vec<TableId>) -> Result<Answer, Answer> {
    runtime::on_all_shards(|| async {
        if let Some(storage) = runtime::local::try_get::<Storage>() {
            storage.close_log_segments();
        }
    })
    .await;
    let flushed = |storage: std::rc::Rc<Storage>, table| async move {
        storage.flush(table).await.map_err(|error| error.to_string())
    };
    on_each(tables, flushed).await
}

/// Merges all SSTables of each table, after a flush if nothing else is said.
async fn compact(call: &Call, tables: Vec<TableId>) -> Result<Answer, Answer> {
    if call.flag("flush_memtables", true)? {
        flush(tables.clone()).await?;
    }
    let compacted = |storage: std::rc::Rc<Storage>, table| async move {
        let merged = storage.compact_all(table, Rewrite::default()).await;
        merged.map_err(|error| error.to_string())
    };
    on_each(tables, compacted).await
}

/// Which share of all requests is traced.
async fn set_trace_probability(call: &Call) -> Result<Answer, Answer> {
    let probability = number(call, "probability", None)?;
    let set = TraceRules::set_probability(probability).await;
    set.map_err(|why| Answer::refused(400, why))?;
    Ok(Answer::done())
}

/// Which requests are slow, and what is kept of them; what is not said stays as it is.
async fn set_slow_query(call: &Call) -> Result<Answer, Answer> {
    let now = TraceRules::of_shard().slow();
    TraceRules::set_slow(SlowQueries {
        enabled: call.flag("enable", now.enabled)?,
        fast: call.flag("fast", now.fast)?,
        ttl_secs: number(call, "ttl", Some(now.ttl_secs))?,
        threshold_micros: number(call, "threshold", Some(now.threshold_micros))?,
    })
    .await;
    Ok(Answer::done())
}

fn slow_query(slow: SlowQueries) -> serde_json::Value {
    json!({
        "enable": slow.enabled,
        "ttl": slow.ttl_secs,
        "threshold": slow.threshold_micros,
        "fast": slow.fast,
    })
}

/// MiB a second that merges of the node may read and write; 0: any number.
fn compaction_throughput() -> serde_json::Value {
    let shown = Settings::of_shard().shown();
    let option = shown.into_iter().find(|option| option.name == COMPACTION_THROUGHPUT);
    json!(option.and_then(|option| option.value.parse::<i64>().ok()).unwrap_or(0))
}

async fn set_compaction_throughput(call: &Call) -> Result<Answer, Answer> {
    let value: i64 = number(call, "value", None)?;
    let name = COMPACTION_THROUGHPUT.to_owned();
    let changed = Settings::change(name, value.to_string(), By::Operator).await;
    changed.map_err(|why| Answer::refused(400, format!("value: {why}")))?;
    tracing::info!(target: "config", value, "{COMPACTION_THROUGHPUT} changed");
    Ok(Answer::done())
}

/// Whether SSTables of flushes get second names in `backups/`, on all shards, until the node stops.
async fn set_incremental_backups(call: &Call) -> Result<Answer, Answer> {
    if call.parameter("value").is_none_or(str::is_empty) {
        return Err(Answer::refused(400, "value: true or false is wanted"));
    }
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

/// A parameter that is a number; one that must be given has no default.
pub(super) fn number<T: std::str::FromStr>(
    call: &Call,
    name: &str,
    default: Option<T>,
) -> Result<T, Answer> {
    let refused = |what: String| Answer::refused(400, format!("{name}: {what}"));
    match (call.parameter(name).filter(|text| !text.is_empty()), default) {
        (None, Some(default)) => Ok(default),
        (None, None) => Err(refused("a number is wanted".to_owned())),
        (Some(text), _) => text.parse().map_err(|_| refused(format!("not a number: {text}"))),
    }
}

/// Takes over what lies in `upload/` of a table.
async fn load(tables: Vec<TableId>) -> Result<Answer, Answer> {
    let [table] = tables[..] else {
        return Err(Answer::refused(400, "cf: one table is wanted"));
    };
    let storage = runtime::local::get::<Storage>();
    let loaded = storage.load_new(table, Checks::Open).await;
    let loaded = loaded.map_err(|error| Answer::refused(500, error.to_string()))?;
    if loaded.refused.is_empty() {
        return Ok(Answer::done());
    }
    let texts = loaded.refused.iter().map(|(name, why)| format!("{name}: {why}"));
    Err(Answer::refused(500, texts.collect::<Vec<_>>().join("; ")))
}
