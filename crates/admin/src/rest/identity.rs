//! `/storage_service`: in which state the node is, and what is asked of clusters of several nodes.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::tables::{all, flush};
use crate::call::{Answer, Call};
use cluster::{Node, Nodes, table_stats};
use hyper::Method;
use serde_json::json;
use std::cell::Cell;
use std::rc::Rc;

/// In which state a node is that has started, with the numbers that metrics show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Normal = 3,
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
            () => Mode::Normal,
        }
    }

    /// As tools print it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Normal => "NORMAL",
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

/// Why what needs several nodes cannot be done.
const ALONE: &str = "this node is the only one of its cluster: no data can move to or from it";
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
    api.tells("/storage_service/is_initialized", "Whether the node has started", |_| json!(true));
    // Nothing is listened on before the node is up.
    api.tells("/storage_service/is_starting", "Whether the node starts", |_| json!(false));
    api.tells("/storage_service/join_ring", "Whether the node is in the ring", |_| json!(true));
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
    for (path, summary) in [
        ("/storage_service/nodes/joining", "Nodes that join: none does"),
        ("/storage_service/nodes/leaving", "Nodes that leave: none does"),
        ("/storage_service/nodes/moving", "Nodes that move: none does"),
        ("/storage_service/nodes/excluded", "Nodes that are left out: none is"),
    ] {
        api.tells(path, summary, |_| json!([]));
    }
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
        ("/storage_service/quiesce_topology", "Waits until no node changes: none does"),
        ("/storage_service/raft_topology/reload", "Reads the topology again: it is as it was"),
        ("/storage_service/relocal_schema", "Takes the schema of other nodes: there are none"),
        ("/storage_service/force_remove_completion", "Ends a removal: there is none"),
        ("/storage_service/cdc_streams_check_and_repair", "Mends streams of CDC: there are none"),
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
    api.tells("/storage_service/removal_status", "How far a removal is", |_| {
        json!("No token removals in process.")
    });
    let path = "/storage_service/view_build_statuses/{keyspace}/{name}";
    api.get(path, "How far views are built", async |door: &Rc<Door>, call: &Call| {
        super::tables::keyspace(door, call.segment("keyspace"))?;
        let text = format!("Can't find a view {}", call.segment("name"));
        Err(Answer::refused(400, text))
    });
}

/// What this version cannot do.
fn later(api: &mut Api) {
    const KINDS: &str = "tables are not moved between tablets and vnodes yet";
    let path = "/storage_service/vnode_tablet_migrations/keyspaces/{keyspace}";
    let summary = "Gives a keyspace tablets";
    api.cannot(Method::POST, path, summary, KINDS);
    api.cannot(Method::GET, path, "How far that is", KINDS);
    let path = "/storage_service/vnode_tablet_migrations/keyspaces/{keyspace}/finalization";
    api.cannot(Method::POST, path, "Ends it", KINDS);
    let path = "/storage_service/vnode_tablet_migrations/node/storage_mode";
    api.cannot(Method::PUT, path, "Has the node take part", KINDS).takes(
        "intended_mode",
        Kind::OneOf(&["tablets", "vnodes"]),
        "What it is to have",
    );
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

/// What one node cannot do.
fn refused(api: &mut Api) {
    for (path, summary) in [
        ("/storage_service/decommission", "Gives all data to other nodes and leaves"),
        ("/storage_service/move", "Moves to another place of the ring"),
        ("/storage_service/assassinate", "Forgets a node"),
    ] {
        api.cannot(Method::POST, path, summary, ALONE);
    }
    api.cannot(Method::POST, "/storage_service/remove_node", "Removes a node that is gone", ALONE)
        .needs("host_id", Kind::Text, "Its id")
        .takes("ignore_nodes", Kind::Text, "Other dead nodes");
    api.cannot(Method::POST, "/storage_service/exclude_node", "Leaves out nodes", ALONE).needs(
        "hosts",
        Kind::Text,
        "Their ids",
    );
    api.cannot(Method::POST, "/storage_service/rebuild", "Takes all data from others", ALONE)
        .takes("source_dc", Kind::Text, "Their data center")
        .takes("force", Kind::Flag, "Whether it is done with risks");
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
    for (path, summary) in [
        ("/storage_service/tablets/move", "Moves a tablet between shards or nodes"),
        ("/storage_service/tablets/add_replica", "Gives a tablet one more copy"),
        ("/storage_service/tablets/del_replica", "Takes a copy of a tablet"),
    ] {
        api.post(path, summary, async |door: &Rc<Door>, call: &Call| {
            let name = |name| call.parameter(name).unwrap_or_default();
            super::tables::table(door, name("ks"), name("table"))?;
            Err(Answer::refused(500, ALONE))
        })
        .needs("ks", Kind::Text, "The keyspace")
        .needs("table", Kind::Text, "The table")
        .takes("token", Kind::Integer, "A token of the tablet")
        .takes("src_host", Kind::Text, "The id of the node that has it")
        .takes("src_shard", Kind::Integer, "Its shard there")
        .takes("dst_host", Kind::Text, "The id of the node that gets it")
        .takes("dst_shard", Kind::Integer, "Its shard there")
        .takes("force", Kind::Flag, "Whether rules of placement are passed over");
    }
}
