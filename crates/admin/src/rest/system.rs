//! `/system`: the log, caches.

use super::Door;
use super::api::{Answered, Api, Kind};
use crate::call::{Answer, Call};
use serde_json::json;
use std::rc::Rc;
use storage::{SstableVersion, Storage};

const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];

pub(super) fn operations(api: &mut Api) {
    api.post("/system/log", "Writes a line into the log", log)
        .needs("message", Kind::Text, "The line")
        .takes("level", Kind::OneOf(LEVELS), "Its level; info if not said");
    api.post("/system/drop_sstable_caches", "Forgets the rows that are cached", drop_caches);
    api.tells("/system/logger", "The loggers", |door| json!(door.loggers.names()));
    api.post("/system/logger", "Sets the level of all", async |door: &Rc<Door>, call: &Call| {
        set_level(door, call, None)
    })
    .needs("level", Kind::OneOf(LEVELS), "The level");
    api.get(
        "/system/logger/{name}",
        "The level of a logger",
        async |door: &Rc<Door>, call: &Call| {
            known(door, call.segment("name")).map(|level| Answer::json(json!(level)))
        },
    );
    api.post("/system/logger/{name}", "Sets it", async |door: &Rc<Door>, call: &Call| {
        known(door, call.segment("name"))?;
        set_level(door, call, Some(call.segment("name")))
    })
    .needs("level", Kind::OneOf(LEVELS), "The level");
    api.tells("/storage_service/logging_level", "The loggers and their levels", |door| {
        let names = door.loggers.names().iter();
        names.map(|name| json!({ "key": name, "value": door.loggers.level(name) })).collect()
    });
    api.tells("/system/uptime_ms", "Milliseconds since the start of the node", |door| {
        json!(door.cluster.node().uptime().as_millis() as u64)
    });
    api.tells("/system/highest_supported_sstable_version", "The newest format", |_| {
        json!(SstableVersion::WRITTEN.map(SstableVersion::name).into_iter().max())
    });
    api.tells("/system/chosen_sstable_version", "The format that is written", |_| {
        let shown = cluster::Settings::of_shard().shown();
        let option = shown.into_iter().find(|option| option.name == "sstable_format");
        json!(option.map_or_else(String::new, |option| option.value.trim_matches('"').to_owned()))
    });
    let path = "/system/shard_to_numa_node_mapping";
    api.tells(path, "The node of memory of each shard; all are taken for one", |_| {
        json!(vec![0; usize::from(runtime::shard_count())])
    });
    let why = "this build has no profile to be written";
    api.cannot(hyper::Method::POST, "/system/dump_llvm_profile", "Writes a profile", why);
}

/// The level of a logger that there is.
fn known(door: &Door, name: &str) -> Result<&'static str, Answer> {
    let unknown = || Answer::refused(400, format!("Unknown logger name {name}"));
    door.loggers.level(name).ok_or_else(unknown)
}

fn set_level(door: &Door, call: &Call, name: Option<&str>) -> Answered {
    let level = call.parameter("level").unwrap_or_default();
    door.loggers.set(name, level).map_err(|why| Answer::refused(400, why))?;
    tracing::info!(target: "api", "log level of {} is {level}", name.unwrap_or("all loggers"));
    Ok(Answer::done())
}

/// Forgets what of SSTables is in memory: rows on every shard.
async fn drop_caches(_: &Rc<Door>, _: &Call) -> Answered {
    runtime::on_all_shards(|| async { runtime::local::get::<Storage>().drop_row_cache() }).await;
    Ok(Answer::done())
}

/// Writes a line into the log, so that whoever reads it knows what went on outside.
async fn log(_: &Rc<Door>, call: &Call) -> Answered {
    let text = call.parameter("message").unwrap_or("");
    match call.given("level").unwrap_or("info").to_ascii_lowercase().as_str() {
        "error" => tracing::error!(target: "api", "/system/log: {text}"),
        "warn" => tracing::warn!(target: "api", "/system/log: {text}"),
        "debug" => tracing::debug!(target: "api", "/system/log: {text}"),
        "trace" => tracing::trace!(target: "api", "/system/log: {text}"),
        _ => tracing::info!(target: "api", "/system/log: {text}"),
    }
    Ok(Answer::done())
}
