//! The sub-commands of the binary.

pub(crate) mod sstable;

/// Name and purpose of each tool; the server is the default.
const TOOLS: &[(&str, &str)] = &[
    ("server", "run a node (the default)"),
    ("perf-fast-forward", "measure readers that skip, slice and forward"),
    ("perf-simple-query", "measure reads and writes of single rows, in process"),
    ("sstable", "look into SSTables, check, write and rewrite them, without a node"),
    ("perf-sstable", "measure writing, reading and merging SSTables"),
];

/// For `--list-tools`.
pub(crate) fn list() -> String {
    let lines = TOOLS.iter().map(|(name, about)| format!("{name:<20} - {about}"));
    lines.collect::<Vec<_>>().join("\n")
}
