//! `/storage_service/vnode_tablet_migrations`: keyspaces of the ring that are given tablets
//! (docs/cluster.md, "From the ring to tablets").

use super::api::{Answered, Api, Kind};
use super::tables::keyspace;
use super::{Door, NodeMode};
use crate::call::{Answer, Call};
use cluster::{KeyspaceEntry, StorageMode, TableEntry};
use hyper::Method;
use serde_json::{Value, json};
use std::rc::Rc;

pub(super) fn operations(api: &mut Api) {
    let path = "/storage_service/vnode_tablet_migrations/keyspaces/{keyspace}";
    api.post(path, "Begins to give a keyspace tablets", start);
    let summary = "How far a keyspace is that is given tablets";
    api.get(path, summary, status).takes(
        "include",
        Kind::OneOf(&["tablet_status"]),
        "What is told besides: how far its tables are on their way to a power of two of tablets",
    );
    let path = "/storage_service/vnode_tablet_migrations/keyspaces/{keyspace}/finalization";
    api.post(path, "Ends it: the keyspace has tablets, or none after all", finalize);
    let path = "/storage_service/vnode_tablet_migrations/node/storage_mode";
    let summary = "How this node is to store such keyspaces from its next start on";
    api.add(Method::PUT, path, summary, mark).needs(
        "intended_mode",
        Kind::OneOf(&["tablets", "vnodes"]),
        "By what",
    );
}

fn refused(why: String) -> Answer {
    Answer::refused(400, why)
}

async fn start(door: &Rc<Door>, call: &Call) -> Answered {
    let name = call.segment("keyspace").to_owned();
    keyspace(door, &name)?;
    door.cluster.start_conversion(name).await.map_err(refused)?;
    Ok(Answer::done())
}

async fn finalize(door: &Rc<Door>, call: &Call) -> Answered {
    let name = call.segment("keyspace").to_owned();
    keyspace(door, &name)?;
    door.moves.finalize_conversion(name).await.map_err(refused)?;
    Ok(Answer::done())
}

async fn mark(door: &Rc<Door>, call: &Call) -> Answered {
    let name = call.parameter("intended_mode").unwrap_or_default();
    let unknown = || refused(format!("intended_mode: {name} is neither tablets nor vnodes"));
    let mode = StorageMode::from_name(name).ok_or_else(unknown)?;
    door.cluster.intend_storage(mode).await.map_err(refused)?;
    Ok(Answer::done())
}

async fn status(door: &Rc<Door>, call: &Call) -> Answered {
    let name = call.segment("keyspace");
    keyspace(door, name)?;
    let modes = door.moves.node_modes(name.to_owned()).await;
    let modes = modes.map_err(|why| Answer::refused(500, why))?;
    let entry = keyspace(door, name)?;
    let status = match entry.keyspace.initial_tablets {
        Some(_) => "tablets",
        None if !modes.is_empty() => "migrating_to_tablets",
        None => "vnodes",
    };
    let mut told = json!({
        "keyspace": name,
        "status": status,
        "nodes": modes.iter().map(node).collect::<Vec<_>>(),
    });
    if status == "tablets" && call.given("include").is_some() {
        told["tablets"] = json!({ "pow2_convergence": convergence(&entry) });
    }
    Ok(Answer::json(told))
}

fn node(it: &NodeMode) -> Value {
    json!({
        "host_id": it.host_id.to_string(),
        "current_mode": it.current.map_or("unknown", StorageMode::name),
        "intended_mode": it.intended.name(),
    })
}

/// How far tables are on their way to a power of two of tablets.
fn convergence(entry: &KeyspaceEntry) -> Value {
    let with_tablets = |table: &&Rc<TableEntry>| !table.replicas.is_empty();
    let tables: Vec<&Rc<TableEntry>> = entry.tables.values().filter(with_tablets).collect();
    let converging = tables.iter().filter(|table| table.replicas.target() != 0).count();
    let table = |table: &&Rc<TableEntry>| {
        json!({
            "table": table.schema.name,
            "converging": table.replicas.target() != 0,
            "current_tablet_count": table.replicas.count(),
            "target_pow2_tablet_count": table.replicas.target(),
        })
    };
    json!({
        "status": if converging == 0 { "complete" } else { "in_progress" },
        "tables_total": tables.len(),
        "tables_converging": converging,
        "tables": tables.iter().map(table).collect::<Vec<_>>(),
    })
}
