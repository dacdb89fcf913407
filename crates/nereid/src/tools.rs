//! The sub-commands of the binary.

mod compactions;
mod config;
mod generate;
mod local_key;
mod probe;
mod setup;
pub(crate) mod sstable;
mod types;

use crate::perf;
use std::process::ExitCode;

/// A sub-command: its name, what it is for, and what runs it with the words after its name.
type Tool = (&'static str, &'static str, fn(&[String]) -> ExitCode);

/// All of them; the server is the default.
const TOOLS: &[Tool] = &[
    ("server", "run a node (the default)", crate::serve),
    ("compactions", "watch what a running node merges", compactions::main),
    ("config", "check and show options, without a node", config::main),
    (
        "local-file-key-generator",
        "make keys of encryption in a file, for nodes that encrypt",
        local_key::main,
    ),
    (
        "memory-footprint",
        "tell what rows take in memory and in SSTables",
        perf::main::<perf::memory_footprint::Options>,
    ),
    ("load", "load rows from files into a table of a running node", transfer::load),
    ("nodetool", "ask a running node, or tell it to do something, as operators do", |words| {
        nodetool::main(&program(), words)
    }),
    (
        "perf-append",
        "measure appending to a collection as it grows",
        perf::main::<perf::append::Options>,
    ),
    (
        "perf-cache-eviction",
        "measure reads and writes while the row cache evicts",
        perf::main::<perf::cache_eviction::Options>,
    ),
    (
        "perf-commitlog",
        "measure appending to the commitlog",
        perf::main::<perf::commitlog::Options>,
    ),
    (
        "perf-compaction-efficiency",
        "measure what compaction strategies write, keep and make reads look at",
        perf::main::<perf::compaction_efficiency::Options>,
    ),
    (
        "perf-cql-raw",
        "measure a node over TCP, in a closed or an open loop",
        perf::main::<perf::cql_raw::Options>,
    ),
    (
        "perf-fast-forward",
        "measure readers that skip, slice and forward",
        perf::main::<perf::fast_forward::Options>,
    ),
    (
        "perf-row-cache-update",
        "measure merging memtables into the row cache",
        perf::main::<perf::row_cache_update::Options>,
    ),
    (
        "perf-simple-query",
        "measure reads and writes of single rows, in process",
        perf::main::<perf::simple_query::Options>,
    ),
    ("probe", "ask a running node whether it lets clients in", probe::main),
    ("setup", "check this host: what is wrong with it, and what mends it", setup::main),
    ("sstable", "look into SSTables, check, write and rewrite them, without a node", sstable::main),
    ("types", "make, print, compare and check values; tokens and shards of keys", types::main),
    ("unload", "write the rows of a table of a running node to a file", transfer::unload),
    (
        "perf-sstable",
        "measure writing, reading and merging SSTables",
        perf::main::<perf::sstable::Options>,
    ),
];

/// The name that the program was called by: an operator's scripts may know it by another.
pub(crate) fn program() -> String {
    let called = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = called.as_deref().and_then(|path| path.file_name());
    name.map_or_else(|| "nereid".to_string(), |name| name.to_string_lossy().into_owned())
}

/// Runs the tool of that name, if there is one.
pub(crate) fn run(name: &str, words: &[String]) -> Option<ExitCode> {
    if name == "generate" {
        return Some(generate::main(words));
    }
    let (_, _, tool) = TOOLS.iter().find(|(known, ..)| *known == name)?;
    Some(tool(words))
}

/// The names of all, with what they are for.
fn listed() -> Vec<(&'static str, &'static str)> {
    TOOLS.iter().map(|(name, about, _)| (*name, *about)).collect()
}

/// For `--list-tools`.
pub(crate) fn list() -> String {
    let lines = TOOLS.iter().map(|(name, about, _)| format!("{name:<22} - {about}"));
    lines.collect::<Vec<_>>().join("\n")
}
