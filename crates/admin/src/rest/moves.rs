//! `/storage_service/decommission` and the like: nodes that leave, those that are removed, and what
//! is seen of them and of those that come.
//!
//! What takes long is a task of the module `node_ops`, which goes on when nobody waits for it.
//!
//! Invariants
//!  - *all-or-none*: other dead nodes are declared lost only where the request is not refused for
//!    another reason.
//!  - *one-task*: who asks for what is under way waits for the task that there is.

use super::api::{Answered, Api, Kind};
use super::task_manager::refused;
use super::work::finished;
use super::{Door, Giver, Mode, Taken};
use crate::call::{Answer, Call};
use crate::tasks::{About, NODE_OPS, Running, Tasks};
use cluster::{Cluster, MemberState, Node, Nodes, Stage, TabletOrder, TopologyChange};
use hyper::Method;
use model::{Token, Uuid};
use runtime::task::race;
use runtime::time::sleep;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Between two looks at what nobody tells of.
const LOOK: Duration = Duration::from_millis(100);

/// Why what needs several nodes cannot be done.
const ALONE: &str = "this node is the only one of its cluster: no data can move to or from it";
const BY_KEYSPACE: &str =
    "a tablet has as many replicas as its keyspace wants: ALTER KEYSPACE changes that";
const FOR_LIFE: &str = "a node keeps its tokens for life, and cannot move in the ring";
const IN_ORDER: &str =
    "a node is not forgotten as long as it has data: remove it (nodetool removenode HOST_ID)";

pub(super) fn operations(api: &mut Api) {
    let path = "/storage_service/decommission";
    api.post(path, "Gives all data to other nodes and leaves", decommission).takes(
        "force",
        Kind::Flag,
        "Even where keyspaces want more replicas than nodes are left",
    );
    let path = "/storage_service/remove_node";
    api.post(path, "Removes a node that is gone: others take over what it had", remove)
        .needs("host_id", Kind::Text, "Its id")
        .takes("ignore_nodes", Kind::Text, "Other dead nodes, which are declared lost, too")
        .takes("force", Kind::Flag, "Even where keyspaces want more replicas than nodes are left");
    let path = "/storage_service/exclude_node";
    api.post(path, "Declares dead nodes lost: nothing waits for them any more", exclude).needs(
        "hosts",
        Kind::Text,
        "Their ids, with commas between",
    );
    api.tells("/storage_service/removal_status", "How far a removal is", |door| {
        json!(removal_status(&door.cluster))
    });
    let path = "/storage_service/force_remove_completion";
    let end = async |door: &Rc<Door>, _: &Call| match removed(&door.cluster).next() {
        None => Ok(Answer::done()),
        Some(node) => Err(Answer::refused(500, format!("the data of {node} would be lost"))),
    };
    api.post(path, "Ends a removal before its end, which cannot be", end);
    let path = "/storage_service/tablets/move";
    api.post(path, "Moves a replica of a tablet to another node or shard", move_tablet)
        .needs("ks", Kind::Text, "The keyspace")
        .needs("table", Kind::Text, "The table")
        .needs("token", Kind::Integer, "A token of the tablet")
        .needs("src_host", Kind::Text, "The id of the node that has it")
        .needs("src_shard", Kind::Integer, "Its shard there")
        .needs("dst_host", Kind::Text, "The id of the node that gets it")
        .needs("dst_shard", Kind::Integer, "Its shard there")
        .takes("force", Kind::Flag, "Also to another data centre, or to a rack that has a replica");
    let path = "/storage_service/quiesce_topology";
    api.post(path, "Waits until no node and no tablet moves", quiesce);
    api.tells("/storage_service/nodes/joining", "Nodes that join", |door| {
        of_state(door, MemberState::Joining)
    });
    api.tells("/storage_service/nodes/leaving", "Nodes that leave", |door| {
        of_state(door, MemberState::Leaving)
    });
    api.tells("/storage_service/nodes/moving", "Nodes that move: none can", |_| json!([]));
    let path = "/storage_service/nodes/excluded";
    api.tells(path, "Ids of nodes that were declared lost", |door| {
        let is_out = |node: &&Node| node.is_lost && node.member.state != MemberState::Leaving;
        let nodes = Nodes::seen(&door.cluster);
        nodes.all().iter().filter(is_out).map(|node| node.member.host_id.to_string()).collect()
    });
    let path = "/storage_service/moves";
    api.tells(path, "What this node takes from others now", moves);
    cannot(api);
}

/// What no node can do.
fn cannot(api: &mut Api) {
    let path = "/storage_service/move";
    api.cannot(Method::POST, path, "Moves to another place of the ring", FOR_LIFE);
    api.cannot(Method::POST, "/storage_service/assassinate", "Forgets a node", IN_ORDER);
    for (path, summary) in [
        ("/storage_service/tablets/add_replica", "Gives a tablet one more copy"),
        ("/storage_service/tablets/del_replica", "Takes a copy of a tablet"),
    ] {
        api.post(path, summary, async |door: &Rc<Door>, call: &Call| {
            let name = |name| call.parameter(name).unwrap_or_default();
            super::tables::table(door, name("ks"), name("table"))?;
            check_others(door)?;
            Err(Answer::refused(500, BY_KEYSPACE))
        })
        .needs("ks", Kind::Text, "The keyspace")
        .needs("table", Kind::Text, "The table")
        .takes("token", Kind::Integer, "A token of the tablet")
        .takes("dst_host", Kind::Text, "The id of a node")
        .takes("dst_shard", Kind::Integer, "Its shard")
        .takes("force", Kind::Flag, "Whether rules of placement are passed over");
    }
}

async fn move_tablet(door: &Rc<Door>, call: &Call) -> Answered {
    let name = |name: &str| call.parameter(name).unwrap_or_default();
    let entry = super::tables::table(door, name("ks"), name("table"))?;
    // From shard to shard of a node nobody else is needed.
    if name("src_host") != name("dst_host") {
        check_others(door)?;
    }
    let nodes = Nodes::seen(&door.cluster);
    let place = |host: &str, shard: &str| {
        let node = nodes.named(name(host));
        let node = node.ok_or_else(|| no_node(name(host)))?;
        let shard = name(shard).parse::<u16>();
        let shard = shard.map_err(|_| Answer::refused(400, "not the number of a shard"))?;
        Ok::<(Uuid, u16), Answer>((node.member.host_id, shard))
    };
    let token = name("token").parse::<i64>();
    let token =
        token.map_err(|_| Answer::refused(400, format!("not a token: {}", name("token"))))?;
    let order = TabletOrder {
        table: entry.schema.id,
        // The least number stands for none: what lies before all tokens is in the first tablet.
        token: Token(token.max(i64::MIN + 1)),
        from: place("src_host", "src_shard")?,
        to: place("dst_host", "dst_shard")?,
        force: call.flag("force", false)?,
    };
    check_up(&nodes, &BTreeSet::new(), "remove it first (nodetool removenode HOST_ID)")?;
    let moved = door.moves.move_tablet(order);
    let entity =
        format!("{}.{} {token} {} {}", name("ks"), name("table"), order.from.0, order.to.0);
    let id = begin(door, "move tablet", (order.to.0, entity), None, moved)?;
    finished(id).await?;
    Ok(Answer::done())
}

fn no_node(name: &str) -> Answer {
    Answer::refused(
        400,
        format!(
            "Node {name} is not found in the cluster: a node of that name does not belong to this \
             cluster"
        ),
    )
}

/// The addresses of nodes.
fn of_state(door: &Door, state: MemberState) -> Value {
    let nodes = Nodes::seen(&door.cluster);
    nodes.all().iter().filter(|node| node.member.state == state).map(Node::address).collect()
}

/// Where data can go to.
pub(super) fn check_others(door: &Door) -> Result<(), Answer> {
    match Nodes::seen(&door.cluster).others().next() {
        Some(_) => Ok(()),
        None => Err(Answer::refused(500, ALONE)),
    }
}

/// Refuses where a node is down that all would have to wait for.
/// In the words by which people look for it.
fn check_up(nodes: &Nodes, but: &BTreeSet<Uuid>, help: &str) -> Result<(), Answer> {
    let is_down =
        |node: &&Node| !node.heard.is_up && !node.is_lost && !but.contains(&node.member.host_id);
    let Some(node) = nodes.all().iter().find(is_down) else { return Ok(()) };
    let (host_id, address) = (node.member.host_id, node.address());
    Err(Answer::refused(
        500,
        format!(
            "node {host_id} is down and not ignored: data move only while all nodes are up. Start \
             it, at {address}, or {help}"
        ),
    ))
}

async fn decommission(door: &Rc<Door>, call: &Call) -> Answered {
    let force = call.flag("force", false)?;
    check_others(door)?;
    let help = "remove it first (nodetool removenode HOST_ID)";
    check_up(&Nodes::seen(&door.cluster), &BTreeSet::new(), help)?;
    let me = door.cluster.node().host_id;
    let cluster = door.cluster.clone();
    let stop = move || turn_back(cluster.clone(), me);
    let leave = door.moves.leave(force);
    let leave =
        Box::pin(async { leave.await.map_err(|why| format!("Decommission failed: {why}")) });
    let id = begin(door, "decommission", (me, me.to_string()), Some(Box::new(stop)), leave)?;
    finished(id).await?;
    tracing::info!(target: "storage_service", "DECOMMISSIONED");
    Ok(Answer::done())
}

/// A node that leaves stays after all, if it is not too late. What becomes of it tells the task.
fn turn_back(cluster: Rc<Cluster>, host: Uuid) {
    Tasks::of_shard().background(async move {
        let back = move |catalog: &cluster::schema::Catalog| {
            let back = TopologyChange::TurnBack(host);
            catalog.topology.check(&back).map(|()| vec![back])
        };
        if let Err(why) = cluster.change_topology(back).await {
            tracing::warn!(target: "storage_service", "node {host} does not turn back: {why}");
        }
    });
}

async fn remove(door: &Rc<Door>, call: &Call) -> Answered {
    let force = call.flag("force", false)?;
    let asked = call.parameter("host_id").unwrap_or_default();
    let host = Uuid::parse_str(asked);
    let host = host.map_err(|_| Answer::refused(400, format!("not a host id: {asked}")))?;
    let nodes = Nodes::seen(&door.cluster);
    let ignored = call.given("ignore_nodes").unwrap_or_default();
    let ignored = dead(&nodes, ignored, |host| format!("ignored node {host} is alive"))?;
    let known = nodes.all().iter().find(|node| node.member.host_id == host);
    if let Some(node) = known
        && !node.is_here
        && node.member.state == MemberState::Normal
    {
        check_down(node, |host| {
            let address = node.address();
            format!(
                "the node being removed is alive, maybe you should use decommission instead? It is \
                 {host} at {address}: nodetool -h {address} decommission"
            )
        })?;
        let help = "name it, too (nodetool removenode HOST_ID --ignore-dead-nodes ..)";
        check_up(&nodes, &ignored.iter().copied().chain([host]).collect(), help)?;
    }
    if known.is_some() && !ignored.is_empty() {
        declare_lost(&door.cluster, ignored.into_iter().filter(|it| *it != host).collect()).await?;
    }
    let removed = door.moves.remove(host, force);
    let removed =
        Box::pin(async { removed.await.map_err(|why| format!("Removenode failed: {why}")) });
    let id = begin(door, "remove node", (host, host.to_string()), None, removed)?;
    finished(id).await?;
    Ok(Answer::done())
}

/// `refusal` says what is wrong where it is up.
fn check_down(node: &Node, refusal: impl FnOnce(Uuid) -> String) -> Result<(), Answer> {
    match node.heard.is_up {
        false => Ok(()),
        true => Err(Answer::refused(500, refusal(node.member.host_id))),
    }
}

/// Nodes that are named with commas between, by host id or address; all of them are down.
/// `refusal` says what is wrong where one is up.
fn dead(
    nodes: &Nodes,
    names: &str,
    refusal: impl Fn(Uuid) -> String,
) -> Result<BTreeSet<Uuid>, Answer> {
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let found = names.map(|name| {
        let node = nodes.named(name).ok_or_else(|| no_node(name))?;
        check_down(node, &refusal).map(|()| node.member.host_id)
    });
    found.collect()
}

async fn exclude(door: &Rc<Door>, call: &Call) -> Answered {
    let names = call.parameter("hosts").unwrap_or_default();
    let refusal = |host| format!("Cannot mark host {host} as excluded because it's alive");
    let hosts = dead(&Nodes::seen(&door.cluster), names, refusal)?;
    if hosts.is_empty() {
        return Err(Answer::refused(400, "hosts: no node is named"));
    }
    declare_lost(&door.cluster, hosts).await?;
    Ok(Answer::done())
}

/// In one step; those that are lost already stay so.
async fn declare_lost(cluster: &Cluster, hosts: BTreeSet<Uuid>) -> Result<(), Answer> {
    let lost = move |catalog: &cluster::schema::Catalog| {
        let topology = &catalog.topology;
        let new = hosts.iter().filter(|host| !topology.is_lost(**host));
        let changes: Vec<_> = new.map(|host| TopologyChange::Lost(*host)).collect();
        changes.iter().try_for_each(|change| topology.check(change))?;
        Ok(changes)
    };
    let made = cluster.change_topology(lost).await;
    made.map_err(|error| Answer::refused(500, error.to_string()))
}

/// Those whose data others take over, for people.
fn removed(cluster: &Cluster) -> impl Iterator<Item = String> {
    let nodes = Nodes::seen(cluster);
    let leaves = |node: &&Node| node.is_lost && node.member.state == MemberState::Leaving;
    let told = |node: &Node| format!("node {} at {}", node.member.host_id, node.address());
    nodes.all().iter().filter(leaves).map(told).collect::<Vec<_>>().into_iter()
}

fn removal_status(cluster: &Cluster) -> String {
    let nodes: Vec<String> = removed(cluster).collect();
    if nodes.is_empty() {
        return "No token removals in process.".to_owned();
    }
    let stage = cluster.topology().stage().map_or("its tablets go to others", Stage::name);
    format!("Removing {}: {stage}", nodes.join(", "))
}

async fn quiesce(door: &Rc<Door>, _: &Call) -> Answered {
    while !door.moves.is_still().await {
        sleep(LOOK).await;
    }
    Ok(Answer::done())
}

/// What this node takes from others, or null.
fn moves(door: &Door) -> Value {
    let Some(taken) = door.moves.taken() else { return Value::Null };
    let nodes = Nodes::seen(&door.cluster);
    let given = |(host, giver): &(Uuid, Giver)| {
        let node = nodes.all().iter().find(|node| node.member.host_id == *host);
        json!({
            "host_id": host.to_string(),
            "address": node.map(Node::address),
            "parts": giver.parts,
            "parts_done": giver.parts_done,
            "bytes": giver.bytes,
        })
    };
    let Taken { stage, of_tablets, all, text, from } = &taken;
    json!({
        "stage": stage,
        "what": if *of_tablets { "tablets" } else { "ring" },
        "parts": all.parts,
        "parts_done": all.parts_done,
        "bytes": all.bytes,
        "waits_for": text,
        "from": from.iter().map(given).collect::<Vec<_>>(),
    })
}

/// What an abort of it does.
type Stop = Box<dyn Fn()>;

/// The task of what a node does or is done to it; begun, if there is none (*one-task*).
fn begin(
    door: &Rc<Door>,
    kind: &'static str,
    (host, entity): (Uuid, String),
    stop: Option<Stop>,
    work: super::Handed<Result<(), String>>,
) -> Result<Uuid, Answer> {
    let tasks = Tasks::of_shard();
    let same = {
        let registry = tasks.registry();
        let all = registry.of_module(NODE_OPS, false).map_err(refused)?;
        let is_it = |about: &About| about.kind == kind && about.entity == entity;
        all.into_iter().find(|it| !it.state.is_final() && is_it(&it.about)).map(|it| it.id)
    };
    if let Some(id) = same {
        return Ok(id);
    }
    let about = About {
        kind: kind.to_owned(),
        scope: "node",
        entity,
        abortable: stop.is_some(),
        of_user: true,
        units: "steps",
        ..About::default()
    };
    let door = door.clone();
    let run = async move |running: Rc<Running>| match race(work, watch(&door, host, &running)).await
    {
        runtime::task::Either::Left(done) => done,
        runtime::task::Either::Right(never) => match never {},
    };
    tasks.spawn(NODE_OPS, about, stop, run).map_err(refused)
}

/// From the start a node that joins has a task for that.
pub(super) fn note_start(door: &Rc<Door>) {
    if Mode::of_node() != Mode::Joining {
        return;
    }
    let host = door.cluster.node().host_id;
    let cluster = door.cluster.clone();
    let joined = Box::pin(async move {
        loop {
            match cluster.topology().member(host).map(|member| member.state) {
                Some(MemberState::Joining) => sleep(LOOK).await,
                Some(MemberState::Left) => return Err("it was not let in after all".to_owned()),
                _ => return Ok(()),
            }
        }
    });
    if let Err(answer) = begin(door, "bootstrap", (host, host.to_string()), None, joined) {
        tracing::warn!(target: "storage_service", "no task for joining: {}", answer.status);
    }
}

/// Nothing is of this type.
enum Never {}

/// Tells how far a node is, for ever.
async fn watch(door: &Door, host: Uuid, running: &Running) -> Never {
    let most = tablets_of(&door.cluster, host);
    loop {
        let (done, all) = progress(door, host, most);
        running.note_progress(done, all);
        sleep(LOOK).await;
    }
}

/// The replicas of tablets that a node has.
fn tablets_of(cluster: &Cluster, host: Uuid) -> usize {
    let schema = cluster.schema();
    let of_table = |table: &Rc<cluster::TableEntry>| {
        let tablets = table.replicas.iter();
        tablets.filter(|of| of.iter().any(|(it, _)| *it == host)).count()
    };
    schema.tables().map(of_table).sum()
}

/// Steps that are done, and all: tablets that are given away, parts that are taken, and the stages.
fn progress(door: &Door, host: Uuid, most: usize) -> (f64, f64) {
    let topology = door.cluster.topology();
    let stages = topology.stage().map_or(0, |stage| stage as u32 + 1);
    let member = topology.member(host).map(|member| member.state);
    let (done, all) = match member {
        Some(MemberState::Leaving) => {
            (most.saturating_sub(tablets_of(&door.cluster, host)) as u32, most as u32)
        }
        Some(MemberState::Joining) => {
            let taken = door.moves.taken().filter(|taken| !taken.of_tablets);
            taken.map_or((0, 0), |taken| (taken.all.parts_done, taken.all.parts))
        }
        _ => (0, most as u32),
    };
    (f64::from(done + stages), f64::from(all + 4))
}
