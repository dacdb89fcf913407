//! `/gossiper`, `/failure_detector`, `/snitch`, `/messaging_service`, `/stream_manager`,
//! `/hinted_handoff`, `/raft`: what is asked of a node about the others. There are none: it knows
//! itself, has sent nothing, and is always in agreement.

use super::Door;
use super::api::{Answered, Api, Kind};
use crate::call::{Answer, Call};
use base64::prelude::{BASE64_STANDARD as BASE64, Engine};
use cluster::Cluster;
use hyper::Method;
use runtime::time::wall_micros;
use serde_json::{Value, json};
use std::rc::Rc;

pub(super) fn operations(api: &mut Api) {
    gossiper(api);
    failure_detector(api);
    snitch(api);
    messaging(api);
    streams(api);
    hints(api);
    raft(api);
}

fn address(cluster: &Cluster) -> String {
    cluster.node().broadcast_address.to_string()
}

/// Refuses nodes that are not there.
fn known(door: &Door, asked: &str) -> Result<(), Answer> {
    let node = door.cluster.node();
    match asked == address(&door.cluster) || asked == node.host_id.to_string() {
        true => Ok(()),
        false => Err(Answer::refused(400, format!("{asked} is no node of the cluster"))),
    }
}

fn gossiper(api: &mut Api) {
    api.tells("/gossiper/endpoint/live", "Nodes that are up", |door| {
        json!([address(&door.cluster)])
    });
    api.tells("/gossiper/endpoint/down", "Nodes that are down: none is", |_| json!([]));
    let path = "/gossiper/downtime/{endpoint}";
    api.get(path, "Milliseconds since a node is down", async |door: &Rc<Door>, call: &Call| {
        known(door, call.segment("endpoint"))?;
        Ok(Answer::json(json!(0)))
    });
    let path = "/gossiper/generation_number/{endpoint}";
    api.get(path, "The generation of a node: seconds since 1970 at its start", generation);
    let path = "/gossiper/heart_beat_version/{endpoint}";
    api.get(path, "How often a node has told others that it is up", heart_beat);
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
    known(door, call.segment("endpoint"))?;
    Ok(Answer::json(json!(door.cluster.node().generation)))
}

/// One a second since the start of the node, as others would be told.
fn beats(door: &Door) -> u64 {
    door.cluster.node().uptime().as_secs()
}

async fn heart_beat(door: &Rc<Door>, call: &Call) -> Answered {
    known(door, call.segment("endpoint"))?;
    Ok(Answer::json(json!(beats(door))))
}

/// What the node would tell others of itself, in the order of their numbers.
fn states(door: &Door) -> Vec<(u32, String)> {
    let node = door.cluster.node();
    let tokens: Vec<String> = node.tokens.iter().map(|token| token.0.to_string()).collect();
    vec![
        (0, format!("NORMAL,{}", tokens.first().map_or("", String::as_str))),
        (2, door.cluster.schema().version.to_string()),
        (3, node.data_center.clone()),
        (4, node.rack.clone()),
        (5, node.release_version.to_owned()),
        (8, node.rpc_address.to_string()),
        (12, node.host_id.to_string()),
        (13, tokens.join(";")),
    ]
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
    api.tells(
        "/failure_detector/simple_states",
        "Which nodes are up",
        |door| json!([{ "key": address(&door.cluster), "value": "UP" }]),
    );
    api.tells("/failure_detector/count/endpoint/up", "So many nodes are up", |_| json!(1));
    api.tells("/failure_detector/count/endpoint/down", "So many nodes are down", |_| json!(0));
    api.tells("/failure_detector/endpoint_phi_values", "How late other nodes are", |_| json!([]));
    api.tells("/failure_detector/phi", "How late a node may be; not in use", |_| json!("8"));
    let path = "/failure_detector/endpoints/states/{endpoint}";
    api.get(path, "What a node tells of itself", async |door: &Rc<Door>, call: &Call| {
        known(door, call.segment("endpoint"))?;
        let lines = states(door);
        let lines =
            lines.iter().map(|(number, value)| format!("  {}:{value}\n", state_name(*number)));
        Ok(Answer::json(json!(lines.collect::<String>())))
    });
    let why = "there is no other node that could be called down";
    let path = "/failure_detector/convict/{endpoint}";
    api.cannot(Method::POST, path, "Calls a node down", why);
}

fn endpoints(door: &Door) -> Value {
    let node = door.cluster.node();
    let states = states(door).into_iter().enumerate().map(|(version, (number, value))| {
        json!({ "application_state": number, "value": value, "version": version + 1 })
    });
    json!([{
        "addrs": address(&door.cluster),
        "is_alive": true,
        "update_time": wall_micros().div_euclid(1000),
        "generation": node.generation,
        "version": beats(door),
        "application_state": states.collect::<Vec<_>>(),
    }])
}

fn snitch(api: &mut Api) {
    api.get(
        "/snitch/datacenter",
        "The data center of a node",
        async |door: &Rc<Door>, call: &Call| {
            call.given("host").map_or(Ok(()), |host| known(door, host))?;
            Ok(Answer::json(json!(door.cluster.node().data_center)))
        },
    )
    .takes("host", Kind::Text, "The node; this one if not said");
    api.get("/snitch/rack", "The rack of a node", async |door: &Rc<Door>, call: &Call| {
        call.given("host").map_or(Ok(()), |host| known(door, host))?;
        Ok(Answer::json(json!(door.cluster.node().rack)))
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

/// A place in the hints of a node without peers: its version, its id and a checksum.
const POINT_VERSION: u8 = 3;

fn sync_point(cluster: &Cluster) -> Vec<u8> {
    let mut bytes = vec![POINT_VERSION];
    bytes.extend_from_slice(cluster.node().host_id.as_bytes());
    let sum = crc(&bytes);
    bytes.extend_from_slice(&sum.to_be_bytes());
    bytes
}

fn crc(bytes: &[u8]) -> u32 {
    stdx::checksum::crc32(bytes)
}

fn check_sync_point(text: &str) -> Result<(), String> {
    let bytes = BASE64.decode(text).map_err(|_| "not a sync point".to_owned())?;
    let Some((told, sum)) = bytes.split_last_chunk::<4>() else {
        return Err("sync point is too short".to_owned());
    };
    if told.first() != Some(&POINT_VERSION) {
        return Err("sync point has an unknown version".to_owned());
    }
    if crc(told) != u32::from_be_bytes(*sum) {
        return Err("wrong checksum of the sync point".to_owned());
    }
    Ok(())
}

fn hints(api: &mut Api) {
    let path = "/hinted_handoff/sync_point";
    api.post(
        path,
        "Marks the hints that there are; there are none",
        async |door: &Rc<Door>, _: &Call| {
            Ok(Answer::json(json!(BASE64.encode(sync_point(&door.cluster)))))
        },
    )
    .takes("target_hosts", Kind::Text, "For which nodes");
    api.get(path, "Whether they were sent: they are", async |_: &Rc<Door>, call: &Call| {
        let text = call.parameter("id").unwrap_or_default();
        check_sync_point(text).map_err(|why| Answer::refused(400, why))?;
        Ok(Answer::json(json!("DONE")))
    })
    .needs("id", Kind::Text, "What marking has answered")
    .takes("timeout", Kind::Integer, "Seconds");
    let path = "/hinted_handoff/metrics/create_hint/{addr}";
    api.tells(path, "Hints that were made for a node", |_| json!(0));
    let path = "/hinted_handoff/metrics/not_stored_hints/{addr}";
    api.tells(path, "Hints for a node that could not be kept", |_| json!(0));
}

fn raft(api: &mut Api) {
    api.tells("/raft/leader_host", "The node that leads", |door| {
        json!(door.cluster.node().host_id.to_string())
    })
    .takes("group_id", Kind::Text, "Of which group");
    let path = "/raft/read_barrier";
    api.post(path, "Waits until the node knows all that was agreed on", async |_, _| {
        Ok(Answer::done())
    })
    .takes("group_id", Kind::Text, "In which group")
    .takes("timeout", Kind::Integer, "Seconds");
    const ALONE: &str = "schema and topology are kept without a log of changes: there is nothing \
                         to be cut, and nobody else who could lead";
    let path = "/raft/trigger_snapshot/{group_id}";
    api.cannot(Method::POST, path, "Cuts the log of changes", ALONE).takes(
        "timeout",
        Kind::Integer,
        "Seconds",
    );
    api.cannot(Method::POST, "/raft/trigger_stepdown", "Lets another node lead", ALONE).takes(
        "timeout",
        Kind::Integer,
        "Seconds",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_point_that_was_changed_is_refused() {
        let mut bytes = vec![POINT_VERSION; 17];
        let sum = crc(&bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        assert_eq!(check_sync_point(&BASE64.encode(&bytes)), Ok(()));
        for at in 1..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let why = check_sync_point(&BASE64.encode(&changed)).unwrap_err();
            assert!(why.contains("wrong checksum"), "{why}");
        }
        for (text, expected) in [("", "short"), ("AAAA", "short"), ("%", "not a sync point")] {
            let why = check_sync_point(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        bytes[0] = 9;
        assert!(check_sync_point(&BASE64.encode(&bytes)).unwrap_err().contains("version"));
    }
}
