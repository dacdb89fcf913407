//! `/hinted_handoff` and what of `/storage_proxy` is about hints: writes that are kept for nodes
//! which are away; and about logged batches that are kept for others.

use super::Door;
use super::api::{Answered, Api, Kind};
use super::peers::known;
use crate::call::{Answer, Call};
use base64::prelude::{BASE64_STANDARD as BASE64, Engine};
use cluster::Settings;
use cluster::settings::By;
use model::Uuid;
use serde_json::json;
use std::rc::Rc;
use std::time::Duration;

const ENABLED: &str = "hinted_handoff_enabled";
const WINDOW: &str = "max_hint_window_in_ms";
const THROTTLE: &str = "hinted_handoff_throttle_in_kb";
/// How long a request may wait for a sync point.
const WAIT_SECS_MAX: i64 = 24 * 3600;

pub(super) fn operations(api: &mut Api) {
    sync_points(api);
    sending(api);
    keeping(api);
    figures(api);
}

/// Nodes by commas; none: all.
fn targets(door: &Door, asked: Option<&str>) -> Result<Vec<Uuid>, Answer> {
    let named = asked.unwrap_or_default().split(',').map(str::trim).filter(|one| !one.is_empty());
    named.map(|one| known(door, one).map(|node| node.member.host_id)).collect()
}

fn sync_points(api: &mut Api) {
    let path = "/hinted_handoff/sync_point";
    let mark = async |door: &Rc<Door>, call: &Call| -> Answered {
        let targets = targets(door, call.parameter("target_hosts"))?;
        let point = door.handoff.mark(targets).await;
        Ok(Answer::json(json!(BASE64.encode(point))))
    };
    api.post(path, "Marks the hints that there are", mark).takes(
        "target_hosts",
        Kind::Text,
        "For which nodes, by commas",
    );
    let wait = async |door: &Rc<Door>, call: &Call| -> Answered {
        let refused = |why: String| Answer::refused(400, why);
        let text = call.parameter("id").unwrap_or_default();
        let point = BASE64.decode(text).map_err(|_| refused("not a sync point".to_owned()))?;
        let secs: i64 = call.number("timeout", Some(0))?;
        // A negative time waits until all was sent.
        let secs = if secs < 0 { WAIT_SECS_MAX } else { secs.min(WAIT_SECS_MAX) };
        let time = Duration::from_secs(secs.unsigned_abs());
        let reached = door.handoff.wait(point, time).await.map_err(refused)?;
        Ok(Answer::json(json!(if reached { "DONE" } else { "IN_PROGRESS" })))
    };
    api.get(path, "Whether they were sent", wait)
        .needs("id", Kind::Text, "What marking has answered")
        .takes("timeout", Kind::Integer, "Seconds");
}

fn sending(api: &mut Api) {
    let path = "/hinted_handoff/hints";
    let list = async |door: &Rc<Door>, _: &Call| -> Answered {
        let hosts = door.handoff.hosts().await;
        Ok(Answer::json(json!(hosts.iter().map(Uuid::to_string).collect::<Vec<_>>())))
    };
    api.get(path, "Nodes for which there are hints", list);
    let discard = async |door: &Rc<Door>, call: &Call| -> Answered {
        let of = targets(door, call.parameter("host"))?;
        door.handoff.discard(of.first().copied()).await;
        Ok(Answer::done())
    };
    api.delete(path, "Drops hints", discard).takes("host", Kind::Text, "For which node; all");
    let pause = async |door: &Rc<Door>, call: &Call| -> Answered {
        door.handoff.pause(call.flag("pause", true)?).await;
        Ok(Answer::done())
    };
    let path = "/hinted_handoff/pause";
    api.post(path, "Sends no hints, or sends them again", pause).needs(
        "pause",
        Kind::Flag,
        "Whether none are sent",
    );
    let throttle = async |_: &Rc<Door>, call: &Call| -> Answered {
        let kib: u64 = call.number("throttle", None)?;
        set(THROTTLE, kib.to_string()).await
    };
    let path = "/storage_proxy/batchlog/replay";
    let replay = async |door: &Rc<Door>, _: &Call| -> Answered {
        door.handoff.replay_batches().await;
        Ok(Answer::done())
    };
    api.post(path, "Replays logged batches that are not applied in time", replay);
    let path = "/hinted_handoff/throttle";
    api.post(path, "Sets how fast hints are sent", throttle).needs(
        "throttle",
        Kind::Integer,
        "KiB a second; 0: no limit",
    );
}

/// An option, as it is shown.
fn shown(name: &str) -> String {
    let shown = Settings::of_shard().shown();
    let option = shown.into_iter().find(|one| one.name == name);
    option.map(|option| option.value.trim_matches('"').to_owned()).unwrap_or_default()
}

async fn set(option: &str, value: String) -> Answered {
    let set = Settings::change(option.to_owned(), value.clone(), By::Operator).await;
    set.map_err(|why| Answer::refused(400, format!("{option}: {why}")))?;
    tracing::info!(target: "config", value, "{option} changed");
    Ok(Answer::done())
}

/// The data centers for which hints are kept; none: for all, or for nobody.
fn centers() -> Vec<String> {
    let enabled = shown(ENABLED);
    match enabled.as_str() {
        "true" | "1" | "false" | "0" | "" => Vec::new(),
        names => names.split(',').map(|name| name.trim().to_owned()).collect(),
    }
}

fn keeping(api: &mut Api) {
    let path = "/storage_proxy/hinted_handoff_enabled";
    api.tells(path, "Whether hints are kept", |_| {
        json!(!matches!(shown(ENABLED).as_str(), "false" | "0"))
    });
    let enable = async |_: &Rc<Door>, call: &Call| -> Answered {
        let enable = call.flag("enable", true)?;
        set(ENABLED, enable.to_string()).await
    };
    api.post(path, "Keeps hints, or none", enable).needs("enable", Kind::Flag, "Whether");
    let path = "/storage_proxy/hinted_handoff_enabled_by_dc";
    api.tells(path, "Data centers for which they are kept, unless for all", |_| json!(centers()));
    let enable = async |_: &Rc<Door>, call: &Call| -> Answered {
        set(ENABLED, call.parameter("dcs").unwrap_or_default().to_owned()).await
    };
    api.post(path, "Keeps hints for these data centers", enable).needs(
        "dcs",
        Kind::Text,
        "By commas",
    );
    let path = "/storage_proxy/max_hint_window";
    api.tells(path, "Milliseconds for which they are kept", |_| {
        json!(shown(WINDOW).parse::<i64>().unwrap_or(0))
    });
    let window = async |_: &Rc<Door>, call: &Call| -> Answered {
        let ms: u64 = call.number("ms", None)?;
        set(WINDOW, ms.to_string()).await
    };
    api.post(path, "Sets it", window).needs("ms", Kind::Integer, "Milliseconds");
}

fn figures(api: &mut Api) {
    let written = async |door: &Rc<Door>, _: &Call| -> Answered {
        Ok(Answer::json(json!(door.handoff.written().await.0)))
    };
    api.get("/storage_proxy/total_hints", "Hints that were kept since the start", written);
    let waiting = async |door: &Rc<Door>, _: &Call| -> Answered {
        Ok(Answer::json(json!(door.handoff.written().await.1)))
    };
    api.get("/storage_proxy/hints_in_progress", "Bytes that wait to be written", waiting);
    let path = "/storage_proxy/max_hints_in_progress";
    api.tells(path, "Bytes of a shard that may wait to be written", |_| json!(10 << 20));
    let path = "/hinted_handoff/metrics/create_hint/{addr}";
    api.tells(path, "Not counted by node", |_| json!(0));
    let path = "/hinted_handoff/metrics/not_stored_hints/{addr}";
    api.tells(path, "Not counted by node", |_| json!(0));
}
