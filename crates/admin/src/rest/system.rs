//! `/system`: the log, caches.

use super::Answered;
use crate::call::{Answer, Call};
use hyper::Method;
use storage::Storage;

pub(super) async fn answer(call: &Call, path: &[&str]) -> Answered {
    match (&call.method, path) {
        (&Method::POST, ["log"]) => Some(log(call)),
        (&Method::POST, ["drop_sstable_caches"]) => Some(drop_caches().await),
        _ => None,
    }
}

/// Forgets what of SSTables is in memory: rows on every shard.
async fn drop_caches() -> Result<Answer, Answer> {
    runtime::on_all_shards(|| async { runtime::local::get::<Storage>().drop_row_cache() }).await;
    Ok(Answer::done())
}

/// Writes a line into the log, so that whoever reads it knows what went on outside.
fn log(call: &Call) -> Result<Answer, Answer> {
    let text = call.parameter("message").unwrap_or("");
    match call.parameter("level").unwrap_or("info") {
        "error" => tracing::error!(target: "api", "/system/log: {text}"),
        "warn" => tracing::warn!(target: "api", "/system/log: {text}"),
        "info" => tracing::info!(target: "api", "/system/log: {text}"),
        "debug" => tracing::debug!(target: "api", "/system/log: {text}"),
        "trace" => tracing::trace!(target: "api", "/system/log: {text}"),
        other => return Err(Answer::refused(400, format!("Unknown logging level {other}"))),
    }
    Ok(Answer::done())
}
