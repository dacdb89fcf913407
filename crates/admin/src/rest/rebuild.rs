//! `/storage_service/rebuild`: a node whose data are gone, or that is the first of its data center,
//! gets all that it should have. It repairs each range that it is a replica of with the other
//! replicas, or with those of one data center.
//!
//! Invariants
//!  - *one-task*: who asks for it while it is under way waits for the task that there is.
//!  - *none-silently*: what no other node of the data center has is named in the log.

use super::api::{Answered, Api, Kind};
use super::repair::{Wanted, watch};
use super::task_manager::refused;
use super::work::finished;
use super::{Door, moves};
use crate::call::{Answer, Call};
use crate::tasks::{About, NODE_OPS, Running, Tasks};
use cluster::{Nodes, Replication, TableEntry, TableKind};
use model::Uuid;
use std::collections::BTreeSet;
use std::rc::Rc;

/// As lists of tasks have it.
const NAME: &str = "rebuild";

pub(super) fn operations(api: &mut Api) {
    let path = "/storage_service/rebuild";
    api.post(path, "Gets all that this node should have from other nodes", rebuild)
        .takes("source_dc", Kind::Text, "Their data center; all without it")
        .takes("force", Kind::Flag, "Without those that are down, though they may have more");
}

async fn rebuild(door: &Rc<Door>, call: &Call) -> Answered {
    moves::check_others(door)?;
    let source = call.given("source_dc");
    let id = match under_way() {
        Some(id) => id,
        None => begin(door, source, wanted(door, source, call.flag("force", false)?)?)?,
    };
    finished(id).await?;
    Ok(Answer::done())
}

/// The task that there is.
fn under_way() -> Option<Uuid> {
    let tasks = Tasks::of_shard();
    let registry = tasks.registry();
    let all = registry.of_module(NODE_OPS, false).unwrap_or_default();
    all.into_iter().find(|it| !it.state.is_final() && it.about.kind == NAME).map(|it| it.id)
}

/// What is repaired, and with whom.
fn wanted(door: &Door, source: Option<&str>, force: bool) -> Result<Wanted, Answer> {
    let nodes = Nodes::seen(&door.cluster);
    let me = door.cluster.node().host_id;
    let is_source = |center: &str| source.is_none_or(|source| source == center);
    let others: Vec<_> =
        nodes.others().filter(|node| is_source(&node.member.data_center)).collect();
    if others.is_empty() {
        let source = source.unwrap_or_default();
        let all: BTreeSet<&str> = nodes.all().iter().map(|it| &*it.member.data_center).collect();
        let why = format!("no other node is in data center '{source}'; there are {all:?}");
        return Err(Answer::refused(400, why));
    }
    let down = others.iter().filter(|node| !node.heard.is_up);
    let down: BTreeSet<Uuid> = down.map(|node| node.member.host_id).collect();
    if down.len() == others.len() {
        return Err(Answer::refused(500, "all nodes that it could get data from are down"));
    }
    let among = others.iter().map(|node| node.member.host_id).chain([me]).collect();
    Ok(Wanted {
        tables: tables(door, source),
        among: source.is_some().then_some(among),
        without: if force { down } else { BTreeSet::new() },
        ..Wanted::default()
    })
}

/// The tables that others have copies of, those in the data center (*none-silently*).
fn tables(door: &Door, source: Option<&str>) -> Vec<model::TableId> {
    let (mut found, mut missing) = (Vec::new(), BTreeSet::new());
    let is_shared = |table: &&Rc<TableEntry>| {
        table.kind == TableKind::Stored && *table.replication != Replication::Local
    };
    for table in door.cluster.schema().tables().filter(is_shared) {
        match (source, &*table.replication) {
            (Some(source), Replication::PerDataCenter(factors)) if factors.of(source).0 == 0 => {
                missing.insert(table.schema.keyspace.clone());
            }
            _ => found.push(table.schema.id),
        }
    }
    if let Some(source) = source.filter(|_| !missing.is_empty()) {
        tracing::warn!(
            target: "storage_service",
            "rebuild: data center {source} has no copy of the keyspaces {missing:?}: nothing of \
             them is fetched"
        );
    }
    found
}

fn begin(door: &Rc<Door>, source: Option<&str>, wanted: Wanted) -> Result<Uuid, Answer> {
    let job = door.repairs.job(wanted);
    let about = About {
        kind: NAME.to_owned(),
        scope: "node",
        entity: door.cluster.node().host_id.to_string(),
        abortable: true,
        of_user: true,
        units: "ranges",
        ..About::default()
    };
    let from = source.map_or_else(String::new, |source| format!(" from data center {source}"));
    let stopped = job.clone();
    let run = async move |task: Rc<Running>| {
        tracing::info!(target: "storage_service", "rebuild{from} begins");
        let ended = watch(&task, &job).await;
        let done = job.summary();
        match &ended {
            Ok(()) => tracing::info!(target: "storage_service", "rebuild{from} ended: {done}"),
            Err(why) => {
                tracing::warn!(target: "storage_service", "rebuild{from} failed: {why}; {done}")
            }
        }
        ended
    };
    let tasks = Tasks::of_shard();
    tasks.spawn(NODE_OPS, about, Some(Box::new(move || stopped.end())), run).map_err(refused)
}
