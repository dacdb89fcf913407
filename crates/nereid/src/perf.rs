//! Performance tools: sub-commands that run parts of a node in process and count what they spend.
//!
//! In reading order: [`tool`] (what all of them share) with [`given`]; [`load`] (operations that
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
mod given;
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

pub(crate) use tool::{command, main};

/// What JSON results say of the program.
fn versions() -> serde_json::Value {
    serde_json::json!({ "scylla-server": {
        "version": env!("CARGO_PKG_VERSION"),
        "date": "",
        "commit_id": crate::version::BUILD_ID,
        "run_date_time": runtime::time::wall_micros() / 1_000_000,
    } })
}

/// `--sstable-format`: a version of SSTables that is written.
fn format() -> clap::Arg {
    let parser = clap::builder::PossibleValuesParser::new(["me", "ms"]);
    given::text("sstable-format", "VERSION", "Version of SSTables").value_parser(parser)
}

/// What was given of it.
fn writable(given: &given::Given) -> Option<::sstable::Version> {
    given.text("sstable-format").and_then(::sstable::Version::of)
}
