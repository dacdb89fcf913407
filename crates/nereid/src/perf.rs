//! Performance tools: sub-commands that run a node in process and count what it spends.

pub(crate) mod fast_forward;
pub(crate) mod simple_query;
pub(crate) mod sstable;
pub(crate) mod statistics;
mod words;

use crate::logging::{self, Stream};
use crate::options::Values;
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a tool that was told its options ends.
pub(crate) fn conclude(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Log lines go to stderr, as the options say.
pub(crate) fn start_logging(values: &Values) -> Result<(), String> {
    let levels = values.list("logger_log_level");
    logging::start(values.text("default_log_level"), &levels, Stream::Stderr)
}

/// What JSON results say of the program.
pub(crate) fn versions() -> serde_json::Value {
    serde_json::json!({ "scylla-server": {
        "version": env!("CARGO_PKG_VERSION"),
        "date": "",
        "commit_id": crate::version::BUILD_ID,
        "run_date_time": runtime::time::wall_micros() / 1_000_000,
    } })
}

/// The version of SSTables that a format names, if it is one that is written.
pub(crate) fn writable(format: &str) -> Result<::sstable::Version, String> {
    let version = ::sstable::Version::of(format).filter(|_| matches!(format, "me" | "ms"));
    version.ok_or(format!("--sstable-format: {format} cannot be written; me and ms may be"))
}

/// Runs shards; `lead` runs on shard 0, and when it has ended all of them end. Its error text is
/// printed.
pub(crate) fn run_shards<F, Fut>(config: runtime::Config, lead: F) -> Result<(), String>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), String>> + 'static,
{
    let failed = Arc::new(AtomicBool::new(false));
    let outcome = failed.clone();
    runtime::run(config, move |shard| {
        let led = (shard == 0).then(&lead);
        let outcome = outcome.clone();
        async move {
            let Some(led) = led else { return crate::server::follow().await };
            if let Err(text) = led.await {
                eprintln!("{text}");
                outcome.store(true, Ordering::Relaxed);
            }
            crate::server::end_all().await;
        }
    })
    .map_err(|error| error.to_string())?;
    if failed.load(Ordering::Relaxed) { Err("the measurement failed".into()) } else { Ok(()) }
}
