//! Performance tools: sub-commands that run parts of a node in process and count what they spend.
//!
//! In reading order: [`tool`] (what all of them share) with [`words`]; [`load`] (operations that
//! are repeated) with [`report`]; [`cql`], [`offline`], [`delays`], [`latencies`], [`statistics`];
//! the tools.

pub(crate) mod append;
pub(crate) mod cache_eviction;
pub(crate) mod commitlog;
pub(crate) mod compaction_efficiency;
mod cql;
pub(crate) mod cql_raw;
mod delays;
pub(crate) mod fast_forward;
mod latencies;
mod load;
pub(crate) mod memory_footprint;
mod offline;
mod quiet;
mod report;
pub(crate) mod row_cache_update;
pub(crate) mod simple_query;
pub(crate) mod sstable;
mod statistics;
mod tool;
mod words;

pub(crate) use tool::main;

/// What JSON results say of the program.
fn versions() -> serde_json::Value {
    serde_json::json!({ "scylla-server": {
        "version": env!("CARGO_PKG_VERSION"),
        "date": "",
        "commit_id": crate::version::BUILD_ID,
        "run_date_time": runtime::time::wall_micros() / 1_000_000,
    } })
}

/// The version of SSTables that `--sstable-format` names, if it is one that is written.
fn writable(words: &mut words::Words) -> Result<Option<::sstable::Version>, String> {
    let Some(format) = words.text("sstable-format")? else { return Ok(None) };
    let version = ::sstable::Version::of(&format).filter(|_| matches!(&*format, "me" | "ms"));
    version
        .map(Some)
        .ok_or(format!("--sstable-format: {format} cannot be written; me and ms may be"))
}
