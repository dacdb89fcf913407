//! `/system`: the log, caches.

use super::Door;
use super::api::{Answered, Api, Kind};
use crate::call::{Answer, Call};
use std::rc::Rc;
use storage::Storage;

const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];

pub(super) fn operations(api: &mut Api) {
    api.post("/system/log", "Writes a line into the log", log)
        .needs("message", Kind::Text, "The line")
        .takes("level", Kind::OneOf(LEVELS), "Its level; info if not said");
    api.post("/system/drop_sstable_caches", "Forgets the rows that are cached", drop_caches);
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
