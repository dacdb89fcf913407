//! `/storage_service`: in which state the node is, and what is asked of clusters of several nodes.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::tables::{all, flush};
use crate::call::{Answer, Call};
use cluster::{Cluster, MemberState, Node, Nodes, VirtualRow, table_stats};
use hyper::Method;
use model::Uuid;
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// In which state a node is that has started, with the numbers that metrics show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Joining = 2,
    Normal = 3,
    Leaving = 4,
    Decommissioned = 5,
    Draining = 6,
    Drained = 7,
    Maintenance = 9,
}

impl Mode {
    /// That of this node, on shard 0: the one truth of all that show it.
    pub fn of_node() -> Mode {
        let drained = runtime::local::get_or_default::<Drained>();
        match () {
            () if drained.ended.get() => Mode::Drained,
            () if drained.begun.get() => Mode::Draining,
            () if drained.is_shut.get() => Mode::Maintenance,
            () => Mode::of_member(),
        }
    }

    /// By what the topology says of this node.
    fn of_member() -> Mode {
        let cluster = runtime::local::try_get::<Cluster>();
        let state = cluster.and_then(|cluster| {
            let topology = cluster.topology();
            topology.member(cluster.node().host_id).map(|member| member.state)
        });
        match state {
            Some(MemberState::Joining) => Mode::Joining,
            Some(MemberState::Leaving) => Mode::Leaving,
            Some(MemberState::Left) => Mode::Decommissioned,
            Some(MemberState::Normal) | None => Mode::Normal,
        }
    }

    /// As tools print it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Joining => "JOINING",
            Mode::Normal => "NORMAL",
            Mode::Leaving => "LEAVING",
            Mode::Decommissioned => "DECOMMISSIONED",
            Mode::Draining => "DRAINING",
            Mode::Drained => "DRAINED",
            Mode::Maintenance => "MAINTENANCE",
        }
    }
}

/// Whether the node was drained, or is for its operator alone. Stands in `runtime::local` of
/// shard 0.
#[derive(Default)]
struct Drained {
    begun: Cell<bool>,
    ended: Cell<bool>,
    is_shut: Cell<bool>,
}

/// Notes from the start whether clients are kept out.
pub(super) fn note_start(door: &Door) {
    let drained = runtime::local::get_or_default::<Drained>();
    drained.is_shut.set(door.transport.is_shut());
}

const NO_GOSSIP: &str = "this node is the only one of its cluster: there is no gossip";
const NO_STORE: &str = "backups to object stores are not supported yet";

pub(super) fn operations(api: &mut Api) {
    api.tells("/storage_service/host_id", "The ids of all nodes", |door| {
        let shown = |node: &Node| {
            json!({ "key": node.address(), "value": node.member.host_id.to_string() })
        };
        Nodes::seen(&door.cluster).all().iter().map(shown).collect()
    });
    let path = "/storage_service/generation_number";
    api.tells(path, "The node's generation: seconds since 1970 at its start", |door| {
        json!(door.cluster.node().generation)
    });
    let path = "/storage_service/operation_mode";
    api.tells(path, "In which state the node is", |_| json!(Mode::of_node().name()));
    let has_joined = |_: &Door| json!(Mode::of_node() != Mode::Joining);
    api.tells("/storage_service/is_initialized", "Whether the node has started", has_joined);
    // Nothing is listened on before the node is up.
    api.tells("/storage_service/is_starting", "Whether the node starts", |_| json!(false));
    api.tells("/storage_service/join_ring", "Whether the node is in the ring", has_joined);
    api.tells(
        "/storage_service/rpc_server",
        "Whether the Thrift server runs: there is none",
        |_| json!(false),
    );
    api.get(
        "/storage_service/load",
        "Bytes of the node's SSTables",
        async |door: &Rc<Door>, _: &Call| Ok(Answer::json(json!(load(door).await))),
    );
    let path = "/storage_service/metrics/load";
    api.get(path, "Bytes of the node's SSTables", async |door: &Rc<Door>, _: &Call| {
        Ok(Answer::json(json!(load(door).await)))
    });
    api.tells("/storage_service/data_file/locations", "Where SSTables are", |_| {
        let shown = cluster::Settings::of_shard().shown();
        let option = shown.into_iter().find(|option| option.name == "data_file_directories");
        let folders = option.and_then(|option| serde_json::from_str(&option.value).ok());
        folders.unwrap_or_else(|| json!([]))
    });
    api.get("/storage_service/load_map", "Bytes of each node's SSTables", load_map);
    let path = "/storage_service/gossiping";
    api.tells(path, "Whether the node exchanges gossip with others", |door| {
        json!(door.cluster.node().gossips())
    });
    api.cannot(Method::POST, path, "Starts gossip", NO_GOSSIP);
    api.cannot(Method::DELETE, path, "Stops gossip", NO_GOSSIP);
    let path = "/storage_service/drain";
    api.tells(path, "How far a drain is", |_| json!(Mode::of_node().name()));
    api.post(path, "Closes the ports of CQL and flushes all memtables", drain);
    together(api);
    refused(api);
    later(api);
}

async fn load(door: &Door) -> u64 {
    table_stats::totals(&door.cluster).await.sstable_bytes
}

async fn load_map(door: &Rc<Door>, _: &Call) -> Answered {
    let own = load(door).await;
    let of = |node: &Node| {
        let load = if node.is_here { Some(own) } else { node.heard.load_bytes() };
        load.map(|load| json!({ "key": node.address(), "value": load as f64 }))
    };
    Ok(Answer::json(Nodes::seen(&door.cluster).all().iter().filter_map(of).collect()))
}

/// Closes the ports and flushes; the node can be stopped at once then.
async fn drain(door: &Rc<Door>, _: &Call) -> Answered {
    let drained = runtime::local::get_or_default::<Drained>();
    drained.begun.set(true);
    let closed = door.transport.close().await;
    let flushed = match closed {
        Ok(()) => flush(all(&door.cluster.schema())).await,
        Err(text) => Err(Answer::refused(500, text)),
    };
    drained.begun.set(flushed.is_ok());
    drained.ended.set(flushed.is_ok());
    flushed?;
    tracing::info!(target: "storage_service", "DRAINED");
    Ok(Answer::done())
}

/// What one node has done as soon as it is asked for.
fn together(api: &mut Api) {
    for (path, summary) in [
        ("/storage_service/raft_topology/reload", "Reads the topology again: it is as it was"),
        ("/storage_service/relocal_schema", "Takes the schema of other nodes: there are none"),
        (
            "/storage_service/cdc_streams_check_and_repair",
            "Mends streams of CDC: the leader does so by itself",
        ),
    ] {
        api.post(path, summary, async |_, _| Ok(Answer::done()));
    }
    let path = "/storage_service/raft_topology/upgrade";
    api.post(path, "Upgrades the topology: it is the latest", async |_, _| Ok(Answer::done()));
    api.tells(path, "How far that is", |_| json!("done"));
    let path = "/storage_service/raft_topology/cmd_rpc_status";
    api.tells(
        path,
        "Commands of topology changes that run",
        |_| json!({ "current": "none", "index": 0, "active_dst": [] }),
    );
    let path = "/storage_service/view_build_statuses/{keyspace}/{name}";
    api.get(path, "How far views are built", async |door: &Rc<Door>, call: &Call| {
        super::tables::keyspace(door, call.segment("keyspace"))?;
        view_build_statuses(door, call.segment("keyspace"), call.segment("name")).await
    });
}

/// The rows of a computed table of `system`, by their columns' names.
pub(super) async fn rows_of(door: &Door, name: &str) -> Vec<BTreeMap<String, Vec<u8>>> {
    let schema = door.cluster.schema();
    let Some(table) = schema.table("system", name) else { return Vec::new() };
    let Some(rows) = door.cluster.virtual_rows(table.schema.id) else { return Vec::new() };
    let names = || table.schema.columns.iter().map(|column| column.name.clone());
    let named = |row: VirtualRow| names().zip(row).filter_map(|(name, it)| Some((name, it?)));
    rows().await.into_iter().map(|row| named(row).collect()).collect()
}

/// How far each node is with a view, by its address.
async fn view_build_statuses(door: &Door, keyspace: &str, name: &str) -> Answered {
    let schema = door.cluster.schema();
    let view = schema.table(keyspace, name).filter(|table| table.schema.view.is_some());
    if view.is_none() {
        return Err(Answer::refused(400, format!("Can't find a view {name}")));
    }
    let topology = door.cluster.topology();
    let mut told = Vec::new();
    for row in rows_of(door, "view_build_status_v2").await {
        let value = |name| row.get(name).map(Vec::as_slice).unwrap_or_default();
        let is_it =
            value("keyspace_name") == keyspace.as_bytes() && value("view_name") == name.as_bytes();
        let Some(host) = Uuid::from_slice(value("host_id")).ok().filter(|_| is_it) else {
            continue;
        };
        let member = topology.member(host);
        let address = member.map_or(host.to_string(), |member| member.address.ip().to_string());
        let status = String::from_utf8_lossy(value("status")).into_owned();
        told.push(json!({ "key": address, "value": status }));
    }
    Ok(Answer::json(told.into()))
}

/// What this version cannot do.
fn later(api: &mut Api) {
    let why = "no dictionary is trained yet: SSTables are compressed without one";
    let path = "/storage_service/retrain_dict";
    api.cannot(Method::POST, path, "Trains the dictionary of a table", why)
        .takes("keyspace", Kind::Text, "Its keyspace")
        .takes("cf", Kind::Text, "The table");
    let why = "compression is not tried out yet: the metric compression_ratio has that of now";
    let path = "/storage_service/estimate_compression_ratios";
    api.cannot(Method::GET, path, "How well other compression would do", why)
        .takes("keyspace", Kind::Text, "The keyspace")
        .takes("cf", Kind::Text, "The table");
}

/// What needs an object store.
fn refused(api: &mut Api) {
    for path in ["/storage_service/backup", "/storage_service/restore"] {
        api.cannot(Method::POST, path, "Moves SSTables to or from an object store", NO_STORE)
            .takes("endpoint", Kind::Text, "The store")
            .takes("bucket", Kind::Text, "The bucket")
            .takes("keyspace", Kind::Text, "The keyspace")
            .takes("table", Kind::Text, "The table")
            .takes("snapshot", Kind::Text, "The snapshot");
    }
    for path in ["/storage_service/tablets/backup", "/storage_service/tablets/restore"] {
        api.cannot(Method::POST, path, "Moves tables to or from an object store", NO_STORE);
    }
}
