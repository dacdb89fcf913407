//! The computed tables of which this crate knows the rows: of the node, its tokens, its storage,
//! its options. One of them, `system.config`, is written too.

use crate::registry::Cluster;
use crate::settings::{By, Refused, Settings};
use crate::table_stats::{all_stats, totals};
use crate::virtual_tables::{VirtualRow, row};
use catalog::Replication;
use catalog::rows::Row;
use catalog::rows::partition::{self, Value};
use model::{TableSchema, Token};
use std::rc::Rc;
use storage::Storage;

/// Provides the tables that this crate knows the rows of.
pub(crate) fn provide_own(cluster: &Cluster) {
    cluster.provide("cluster_status", Rc::new(|| Box::pin(cluster_status())));
    cluster.provide("token_ring", Rc::new(|| Box::pin(token_ring())));
    cluster.provide("size_estimates", Rc::new(|| Box::pin(size_estimates())));
    cluster.provide("snapshots", Rc::new(|| Box::pin(snapshots())));
    cluster.provide("one_row", Rc::new(|| Box::pin(async { vec![vec![Some(Vec::new())]] })));
    cluster.provide("config", Rc::new(|| Box::pin(config())));
    cluster.provide_writer("config", Rc::new(|row| Box::pin(change_option(row))));
}

async fn config() -> Vec<VirtualRow> {
    let Some((_, schema)) = own("config") else { return Vec::new() };
    let rows = Settings::of_shard().shown().into_iter().map(|option| {
        let values = vec![
            ("name", option.name.into_bytes()),
            ("source", option.source.as_bytes().to_vec()),
            ("type", option.kind.as_bytes().to_vec()),
            ("value", option.value.into_bytes()),
        ];
        row(&schema, values)
    });
    rows.collect()
}

async fn change_option(mut row: Row) -> Result<(), String> {
    if row.contains_key("type") {
        return Err("option type is immutable".to_owned());
    }
    if row.contains_key("source") {
        return Err("option source is not updateable".to_owned());
    }
    let mut text = |name: &str| row.remove(name).and_then(|bytes| String::from_utf8(bytes).ok());
    let name = text("name").ok_or_else(|| "option name is required".to_owned())?;
    let value = text("value").ok_or_else(|| "option value is required".to_owned())?;
    let changed = Settings::change(name.clone(), value.clone(), By::Client).await;
    changed.map_err(|Refused(why)| why)?;
    if Settings::of_shard().is_obeyed(&name) {
        tracing::info!(target: "config", %name, %value, "option changed");
    } else {
        tracing::warn!(target: "config", %name, %value, "option changed, but it has no effect yet");
    }
    Ok(())
}

/// This shard's cluster and one of its virtual tables; `None` when the node has stopped.
fn own(name: &str) -> Option<(Rc<Cluster>, Rc<TableSchema>)> {
    let cluster = runtime::local::try_get::<Cluster>()?;
    let schema = cluster.schema().table("system", name)?.schema.clone();
    Some((cluster, schema))
}

fn bytes(value: Option<Value>) -> Vec<u8> {
    match value {
        Some(Value::Atomic(bytes)) => bytes,
        _ => Vec::new(),
    }
}

async fn cluster_status() -> Vec<VirtualRow> {
    let Some((cluster, schema)) = own("cluster_status") else { return Vec::new() };
    let node = cluster.node();
    let load = totals(&cluster).await.sstable_bytes;
    vec![row(
        &schema,
        vec![
            ("peer", bytes(partition::inet(node.broadcast_address))),
            ("dc", node.data_center.clone().into_bytes()),
            ("draining", vec![0]),
            ("excluded", vec![0]),
            ("host_id", node.host_id.as_bytes().to_vec()),
            ("load", load.to_string().into_bytes()),
            ("owns", 1f32.to_be_bytes().to_vec()),
            ("rack", node.rack.clone().into_bytes()),
            ("status", b"NORMAL".to_vec()),
            ("tokens", (node.tokens.len() as i32).to_be_bytes().to_vec()),
            ("up", vec![1]),
        ],
    )]
}

/// A row per token range and keyspace; per table where tables have tablets.
async fn token_ring() -> Vec<VirtualRow> {
    let Some((cluster, schema)) = own("token_ring") else { return Vec::new() };
    let node = cluster.node();
    let mut rows = Vec::new();
    let mut push = |keyspace: &str, table: &str, start: Token, end: Token| {
        let values = vec![
            ("keyspace_name", keyspace.as_bytes().to_vec()),
            ("table_name", table.as_bytes().to_vec()),
            ("start_token", start.0.to_string().into_bytes()),
            ("endpoint", bytes(partition::inet(node.broadcast_address))),
            ("dc", node.data_center.clone().into_bytes()),
            ("end_token", end.0.to_string().into_bytes()),
            ("rack", node.rack.clone().into_bytes()),
        ];
        rows.push(row(&schema, values));
    };
    for (name, keyspace) in &cluster.schema().keyspaces {
        if *keyspace.replication == Replication::Local {
            continue;
        }
        if keyspace.keyspace.initial_tablets.is_none() {
            assert!(!node.tokens.is_empty(), "covering: a ring without tokens");
            debug_assert!(node.tokens.is_sorted(), "covering: tokens out of order");
            let before = node.tokens.iter().cycle().skip(node.tokens.len() - 1);
            for (start, end) in before.zip(&node.tokens) {
                push(name, "<ALL>", *start, *end);
            }
            continue;
        }
        for (table, entry) in &keyspace.tables {
            let mut covered = Token::MIN;
            for index in 0..entry.tablets.count() {
                let (start, end) = entry.tablets.range(index);
                debug_assert!(start == covered, "covering: a gap before {start:?}");
                covered = end;
                push(name, table, start, end);
            }
            debug_assert!(covered == Token::MAX, "covering: nothing after {covered:?}");
        }
    }
    rows
}

/// One range per user table: the whole ring.
async fn size_estimates() -> Vec<VirtualRow> {
    let Some((cluster, schema)) = own("size_estimates") else { return Vec::new() };
    let present = cluster.schema();
    let mut rows = Vec::new();
    for (id, stats) in all_stats(&cluster).await {
        let Some(entry) = present.table_by_id(id) else { continue };
        if crate::Schema::is_system(&entry.schema.keyspace) {
            continue;
        }
        let held = stats.sstable_bytes + stats.memtable_bytes;
        let mean = held.checked_div(stats.partitions).unwrap_or(0) as i64;
        let values = vec![
            ("keyspace_name", entry.schema.keyspace.clone().into_bytes()),
            ("table_name", entry.schema.name.clone().into_bytes()),
            ("range_start", Token::MIN.0.to_string().into_bytes()),
            ("range_end", Token::MAX.0.to_string().into_bytes()),
            ("mean_partition_size", mean.to_be_bytes().to_vec()),
            ("partitions_count", (stats.partitions as i64).to_be_bytes().to_vec()),
        ];
        rows.push(row(&schema, values));
    }
    rows
}

/// Errors are logged.
async fn snapshots() -> Vec<VirtualRow> {
    let Some((_, schema)) = own("snapshots") else { return Vec::new() };
    let Some(storage) = runtime::local::try_get::<Storage>() else { return Vec::new() };
    let found = storage.snapshots().await.unwrap_or_else(|error| {
        tracing::warn!(target: "snapshot", "cannot list snapshots: {error}");
        Vec::new()
    });
    let rows = found.into_iter().map(|one| {
        let values = vec![
            ("keyspace_name", one.keyspace.into_bytes()),
            ("table_name", one.table.into_bytes()),
            ("snapshot_name", one.tag.into_bytes()),
            ("live", (one.live_bytes as i64).to_be_bytes().to_vec()),
            ("total", (one.total_bytes as i64).to_be_bytes().to_vec()),
        ];
        row(&schema, values)
    });
    rows.collect()
}
