//! Performance tools: sub-commands that run parts of a node in process and count what they spend.
//!
//! From the ground up: `given` (own options of a tool), `tool` (what all tools share: a node of
//! their own in this process); `statistics`, `latencies`, `delays`, `quiet` (what is measured and
//! waited for); `load` (operations that are repeated) with `report`; `cql` and `offline`
//! (statements to a node, parts of a node alone); the tools, which do not know each other. Each has
//! `main`, from words to an exit code, and `command`, its command line.
//!
//! Nothing here listens but `cql_raw` and `alternator`, on a port for themselves.

pub mod alternator;
pub mod append;
pub mod cache_eviction;
pub mod commitlog;
pub mod compaction_efficiency;
mod cql;
pub mod cql_raw;
mod delays;
pub mod fast_forward;
mod given;
mod latencies;
mod load;
pub mod memory_footprint;
mod offline;
mod quiet;
mod report;
pub mod row_cache_update;
pub mod simple_query;
pub mod sstable;
mod statistics;
mod tool;

/// As in the binary: tests look at what is allocated.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// What JSON results say of the program.
fn versions() -> serde_json::Value {
    serde_json::json!({ "scylla-server": {
        "version": env!("CARGO_PKG_VERSION"),
        "date": "",
        "commit_id": node::version::BUILD_ID,
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
