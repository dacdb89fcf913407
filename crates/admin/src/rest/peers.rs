//! `/gossiper`, `/failure_detector`, `/snitch`, `/messaging_service`, `/stream_manager`, `/raft`:
//! what is asked of a node about the others. Of those it knows where they are and whether they
//! answer; it counts no messages.

use super::Door;
use super::api::{Answered, Api, Kind};
use crate::call::{Answer, Call};
use cluster::{Heard, MemberState, Node, Nodes, membership};
use hyper::Method;
use model::Uuid;
use runtime::time::wall_micros;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

pub(super) fn operations(api: &mut Api) {
    gossiper(api);
    failure_detector(api);
    snitch(api);
    messaging(api);
    streams(api);
    raft(api);
}

/// The node of that address or host id; refuses those that are not there.
pub(super) fn known(door: &Door, asked: &str) -> Result<Node, Answer> {
    let nodes = Nodes::seen(&door.cluster);
    let unknown = || Answer::refused(400, format!("{asked} is no node of the cluster"));
    nodes.named(asked).cloned().ok_or_else(unknown)
}

/// The node that a parameter names; this one, if it names none.
fn named(door: &Door, call: &Call) -> Result<Node, Answer> {
    match call.given("host") {
        Some(host) => known(door, host),
        None => known(door, &door.cluster.node().host_id.to_string()),
    }
}

/// The addresses of the nodes that are up, or down.
fn addresses(door: &Door, are_up: bool) -> Vec<String> {
    let nodes = Nodes::seen(&door.cluster);
    let of_kind = nodes.all().iter().filter(|node| node.heard.is_up == are_up);
    of_kind.map(Node::address).collect()
}

fn gossiper(api: &mut Api) {
    api.tells("/gossiper/endpoint/live", "Nodes that are up", |door| json!(addresses(door, true)));
    let path = "/gossiper/endpoint/down";
    api.tells(path, "Nodes that are down", |door| json!(addresses(door, false)));
    let path = "/gossiper/downtime/{endpoint}";
    api.get(path, "Milliseconds since a node is down", async |door: &Rc<Door>, call: &Call| {
        let heard = known(door, call.segment("endpoint"))?.heard;
        let silent = heard.silent_since.map_or(0, |since| (wall_micros() - since).max(0));
        Ok(Answer::json(json!(silent / 1000)))
    });
    let path = "/gossiper/generation_number/{endpoint}";
    let text = "The generation of a node: seconds since 1970 at its start; of other nodes since \
                this one hears of it";
    api.get(path, text, generation);
    let path = "/gossiper/heart_beat_version/{endpoint}";
    let text = "For how many seconds a node has told others that it is up";
    api.get(path, text, heart_beat);
    const ALONE: &str = "there is no other node that could be forgotten";
    let path = "/gossiper/assassinate/{endpoint}";
    api.cannot(Method::POST, path, "Forgets a node", ALONE).takes(
        "unsafe",
        Kind::Flag,
        "Whether it is done though the node may be up",
    );
    let path = "/gossiper/force_remove_endpoint/{endpoint}";
    api.cannot(Method::POST, path, "Forgets a node that is down", ALONE);
}

async fn generation(door: &Rc<Door>, call: &Call) -> Answered {
    let node = known(door, call.segment("endpoint"))?;
    Ok(Answer::json(json!(generation_of(door, &node))))
}

/// Seconds since 1970 at the start of a node: of another one since it is heard of; 0: it is not.
fn generation_of(door: &Door, node: &Node) -> i64 {
    match node.is_here {
        true => door.cluster.node().generation.into(),
        false => node.heard.since.map_or(0, |since| since.div_euclid(1_000_000)),
    }
}

/// One a second since then, for as long as it is up.
fn beats(door: &Door, node: &Node) -> u64 {
    if node.is_here {
        return door.cluster.node().uptime().as_secs();
    }
    let Heard { since: Some(since), silent_since, .. } = node.heard else { return 0 };
    let until = silent_since.unwrap_or_else(wall_micros);
    u64::try_from((until - since) / 1_000_000).unwrap_or(0)
}

async fn heart_beat(door: &Rc<Door>, call: &Call) -> Answered {
    let node = known(door, call.segment("endpoint"))?;
    Ok(Answer::json(json!(beats(door, &node))))
}

/// What a node tells others of itself, in the order of their numbers.
fn states(door: &Door, node: &Node) -> Vec<(u32, String)> {
    let (member, tokens) = (&node.member, node.tokens());
    let schema = match node.is_here {
        true => Some(door.cluster.schema().version),
        false => node.heard.schema,
    };
    let status = match member.state {
        MemberState::Joining => "BOOT",
        MemberState::Leaving => "LEAVING",
        MemberState::Normal | MemberState::Left => "NORMAL",
    };
    let mut states = vec![(0, format!("{status},{}", tokens.first().map_or("", String::as_str)))];
    states.extend(schema.map(|version| (2, version.to_string())));
    states.extend([
        (3, member.data_center.clone()),
        (4, member.rack.clone()),
        (5, member.release_version.clone()),
        (8, node.client_address()),
        (12, member.host_id.to_string()),
        (13, tokens.join(";")),
    ]);
    states
}

/// The names of those numbers.
fn state_name(number: u32) -> &'static str {
    match number {
        0 => "STATUS",
        2 => "SCHEMA",
        3 => "DC",
        4 => "RACK",
        5 => "RELEASE_VERSION",
        8 => "RPC_ADDRESS",
        12 => "HOST_ID",
        _ => "TOKENS",
    }
}

fn failure_detector(api: &mut Api) {
    api.tells("/failure_detector/endpoints", "What nodes tell of themselves", endpoints);
    api.tells("/failure_detector/simple_states", "Which nodes are up", |door| {
        let word = |node: &Node| if node.heard.is_up { "UP" } else { "DOWN" };
        let nodes = Nodes::seen(&door.cluster);
        let shown = |node: &Node| json!({ "key": node.address(), "value": word(node) });
        nodes.all().iter().map(shown).collect()
    });
    let path = "/failure_detector/count/endpoint/up";
    api.tells(path, "So many nodes are up", |door| json!(addresses(door, true).len()));
    let path = "/failure_detector/count/endpoint/down";
    api.tells(path, "So many nodes are down", |door| json!(addresses(door, false).len()));
    api.tells("/failure_detector/endpoint_phi_values", "How late other nodes are", |_| json!([]));
    api.tells("/failure_detector/phi", "How late a node may be; not in use", |_| json!("8"));
    let path = "/failure_detector/endpoints/states/{endpoint}";
    api.get(path, "What a node tells of itself", async |door: &Rc<Door>, call: &Call| {
        let lines = states(door, &known(door, call.segment("endpoint"))?);
        let lines =
            lines.iter().map(|(number, value)| format!("  {}:{value}\n", state_name(*number)));
        Ok(Answer::json(json!(lines.collect::<String>())))
    });
    let path = "/failure_detector/convict/{endpoint}";
    let text = "Takes a node for down at once, until it answers";
    api.post(path, text, async |door: &Rc<Door>, call: &Call| {
        let host_id = known(door, call.segment("endpoint"))?.member.host_id;
        let convicted = membership::convict(host_id).await;
        convicted.map_err(|why| Answer::refused(500, why))?;
        Ok(Answer::done())
    });
}

fn endpoints(door: &Door) -> Value {
    let of_node = |node: &Node| {
        let states = states(door, node).into_iter().enumerate().map(|(version, (number, value))| {
            json!({ "application_state": number, "value": value, "version": version + 1 })
        });
        json!({
            "addrs": node.address(),
            "is_alive": node.heard.is_up,
            "update_time": wall_micros().div_euclid(1000),
            "generation": generation_of(door, node),
            "version": beats(door, node),
            "application_state": states.collect::<Vec<_>>(),
        })
    };
    Nodes::seen(&door.cluster).all().iter().map(of_node).collect()
}

fn snitch(api: &mut Api) {
    api.get(
        "/snitch/datacenter",
        "The data center of a node",
        async |door: &Rc<Door>, call: &Call| {
            Ok(Answer::json(json!(named(door, call)?.member.data_center)))
        },
    )
    .takes("host", Kind::Text, "The node; this one if not said");
    api.get("/snitch/rack", "The rack of a node", async |door: &Rc<Door>, call: &Call| {
        Ok(Answer::json(json!(named(door, call)?.member.rack)))
    })
    .takes("host", Kind::Text, "The node; this one if not said");
    api.tells("/snitch/name", "What says where nodes are", |_| {
        let shown = cluster::Settings::of_shard().shown();
        let option = shown.into_iter().find(|option| option.name == "endpoint_snitch");
        let name = option.map_or("SimpleSnitch".to_owned(), |option| option.value);
        let name = name.trim_matches('"');
        match name.contains('.') {
            true => json!(name),
            false => json!(format!("org.apache.cassandra.locator.{name}")),
        }
    });
}

fn messaging(api: &mut Api) {
    for (path, summary) in [
        ("/messaging_service/messages/pending", "Messages that wait to be sent, by node"),
        ("/messaging_service/messages/sent", "Messages that were sent, by node"),
        ("/messaging_service/messages/replied", "Messages that were answered, by node"),
        ("/messaging_service/messages/dropped", "Messages that were given up, by node"),
        ("/messaging_service/messages/respond_pending", "Answers that are waited for, by node"),
        ("/messaging_service/messages/respond_completed", "Answers that came, by node"),
        ("/messaging_service/messages/timeout", "Answers that came too late, by node"),
        ("/messaging_service/messages/exception", "Messages that failed, by node"),
        ("/messaging_service/messages/dropped_by_ver", "Messages that were given up, by kind"),
    ] {
        api.tells(path, summary, |_| json!([]));
    }
    let path = "/messaging_service/version";
    api.tells(path, "The version that nodes speak; there is no other", |_| json!(0));
}

fn streams(api: &mut Api) {
    api.tells("/stream_manager/", "Streams that run: none does", |_| json!([]));
    for (path, summary) in [
        ("/stream_manager/metrics/outbound", "Streams that go out"),
        ("/stream_manager/metrics/incoming", "Bytes that came in"),
        ("/stream_manager/metrics/outgoing", "Bytes that went out"),
        ("/stream_manager/metrics/total_incoming_bytes", "Bytes that came in"),
        ("/stream_manager/metrics/total_outgoing_bytes", "Bytes that went out"),
    ] {
        api.tells(path, summary, |_| json!(0));
    }
}

fn raft(api: &mut Api) {
    let text = "The host id of the node that leads; that of nobody, 0, where none is known";
    api.get("/raft/leader_host", text, leader_host).takes("group_id", Kind::Text, GROUP);
    let path = "/raft/read_barrier";
    let text = "Waits until the node knows all that was agreed on before";
    let barrier = async |_: &Rc<Door>, call: &Call| {
        check_group(call.given("group_id")).await?;
        let within = call.given("timeout").map(|_| time(call)).transpose()?;
        done(membership::read_barrier(within).await)
    };
    api.post(path, text, barrier).takes("group_id", Kind::Text, GROUP).takes(
        "timeout",
        Kind::Integer,
        SECONDS,
    );
    let path = "/raft/trigger_snapshot/{group_id}";
    let cut = async |_: &Rc<Door>, call: &Call| {
        check_group(Some(call.segment("group_id"))).await?;
        done(membership::cut_log(time(call)?).await)
    };
    let text = "Cuts the log of changes up to what the node has applied";
    api.post(path, text, cut).takes("timeout", Kind::Integer, SECONDS);
    let step_down = async |_: &Rc<Door>, call: &Call| {
        check_group(call.given("group_id")).await?;
        done(membership::step_down(time(call)?).await)
    };
    let text = "Lets another node lead, if this one does";
    let stands = api.post("/raft/trigger_stepdown", text, step_down);
    stands.takes("group_id", Kind::Text, GROUP).takes("timeout", Kind::Integer, SECONDS);
    let text = "Tells who is left of the group of all nodes when its majority is lost, and forms \
                it anew of them if that is to be done";
    let recovers = api.post("/raft/recover_majority", text, recover_majority);
    recovers.takes("lost", Kind::Text, "Host ids of the lost nodes, with commas").takes(
        "execute",
        Kind::Flag,
        "Whether it is done; false: only told",
    );
}

async fn recover_majority(_: &Rc<Door>, call: &Call) -> Answered {
    let executes = call.flag("execute", false)?;
    let mut lost = BTreeSet::new();
    for name in call.names("lost") {
        let wrong = || Answer::refused(400, format!("lost: not a host id: {name}"));
        lost.insert(Uuid::parse_str(&name).map_err(|_| wrong())?);
    }
    let report = membership::recovery::recover(lost, executes).await;
    let report = report.map_err(|why| Answer::refused(500, why))?;
    let ids = |ids: &[Uuid]| ids.iter().map(Uuid::to_string).collect::<Vec<_>>();
    let survivor = |it: &membership::recovery::report::Survivor| {
        json!({
            "host_id": it.host_id.to_string(),
            "generation": it.generation,
            "term": it.term,
            "last_term": it.last_term,
            "last_index": it.last_index,
            "applied": it.applied,
            "leader": it.leader.map(|leader| leader.to_string()),
            "is_between": it.is_between,
        })
    };
    Ok(Answer::json(json!({
        "group": report.group.to_string(),
        "generation": report.generation,
        "survivors": report.survivors.iter().map(survivor).collect::<Vec<_>>(),
        "silent": ids(&report.silent),
        "lost": ids(&report.lost),
        "leader": report.leader.map(|leader| leader.to_string()),
        "needed": report.needed,
        "refused": report.refused,
        "done": report.done,
    })))
}

const GROUP: &str = "The id of the group; that of all nodes if not said";
const SECONDS: &str = "Seconds after which it fails; 60 if not said";
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long a request about the group may take.
fn time(call: &Call) -> Result<Duration, Answer> {
    let Some(text) = call.given("timeout") else { return Ok(TIMEOUT) };
    let seconds = text.parse::<u32>().ok().filter(|seconds| *seconds != 0);
    let wrong = || Answer::refused(400, format!("timeout: not a number of seconds: {text}"));
    seconds.map(|seconds| Duration::from_secs(seconds.into())).ok_or_else(wrong)
}

/// Refuses groups that are not there.
async fn check_group(asked: Option<&str>) -> Result<(), Answer> {
    let Some(asked) = asked else { return Ok(()) };
    let known = membership::view().await;
    match known.is_some_and(|group| group.id.to_string() == asked) {
        true => Ok(()),
        false => Err(Answer::refused(400, format!("there is no group {asked} on this node"))),
    }
}

fn done(outcome: Result<(), String>) -> Answered {
    outcome.map(|()| Answer::done()).map_err(|why| Answer::refused(500, why))
}

async fn leader_host(door: &Rc<Door>, call: &Call) -> Answered {
    check_group(call.given("group_id")).await?;
    let leader = match membership::view().await {
        Some(group) => group.leader.unwrap_or_default(),
        None => door.cluster.node().host_id,
    };
    Ok(Answer::json(json!(leader.to_string())))
}
