//! The sub-commands of the binary.

mod compactions;
mod config;
mod generate;
mod local_key;
mod probe;
mod setup;
pub(crate) mod sstable;
mod types;

use crate::options::{self, Listed};
use crate::perf;
use clap::Command;
use std::io::Write;
use std::process::ExitCode;

/// A sub-command: its name, what it is for, what runs it with the words after its name, and its
/// command line.
type Tool = (&'static str, &'static str, fn(&[String]) -> ExitCode, fn() -> Command);

/// All of them; the server is the default.
const TOOLS: &[Tool] = &[
    ("server", "start a node (the default)", crate::serve, || options::command(Listed::InEffect)),
    (
        "compactions",
        "watch the compactions of a running node",
        compactions::main,
        compactions::command,
    ),
    ("config", "check and show options, without a node", config::main, config::command),
    (
        "local-file-key-generator",
        "generate encryption keys in a file, for nodes that encrypt",
        local_key::main,
        local_key::command,
    ),
    (
        "memory-footprint",
        "measure what rows take in memory and in SSTables",
        perf::main::<perf::memory_footprint::Options>,
        perf::command::<perf::memory_footprint::Options>,
    ),
    (
        "load",
        "load rows from files into a table of a running node",
        transfer::load,
        transfer::load_command,
    ),
    (
        "nodetool",
        "inspect and operate a running node",
        |words| nodetool::main(&program(), words),
        nodetool::command,
    ),
    (
        "perf-append",
        "measure appending to a collection as it grows",
        perf::main::<perf::append::Options>,
        perf::command::<perf::append::Options>,
    ),
    (
        "perf-cache-eviction",
        "measure reads and writes while the row cache evicts",
        perf::main::<perf::cache_eviction::Options>,
        perf::command::<perf::cache_eviction::Options>,
    ),
    (
        "perf-commitlog",
        "measure appending to the commitlog",
        perf::main::<perf::commitlog::Options>,
        perf::command::<perf::commitlog::Options>,
    ),
    (
        "perf-compaction-efficiency",
        "measure write, space and read amplification of compaction strategies",
        perf::main::<perf::compaction_efficiency::Options>,
        perf::command::<perf::compaction_efficiency::Options>,
    ),
    (
        "perf-cql-raw",
        "measure a node over TCP, in a closed or an open loop",
        perf::main::<perf::cql_raw::Options>,
        perf::command::<perf::cql_raw::Options>,
    ),
    (
        "perf-fast-forward",
        "measure readers that skip, slice and forward",
        perf::main::<perf::fast_forward::Options>,
        perf::command::<perf::fast_forward::Options>,
    ),
    (
        "perf-row-cache-update",
        "measure merging memtables into the row cache",
        perf::main::<perf::row_cache_update::Options>,
        perf::command::<perf::row_cache_update::Options>,
    ),
    (
        "perf-simple-query",
        "measure reads and writes of single rows, in process",
        perf::main::<perf::simple_query::Options>,
        perf::command::<perf::simple_query::Options>,
    ),
    (
        "perf-sstable",
        "measure writing, reading and compacting SSTables",
        perf::main::<perf::sstable::Options>,
        perf::command::<perf::sstable::Options>,
    ),
    ("probe", "check whether a running node accepts clients", probe::main, probe::command),
    ("setup", "check this host and print how to fix what is wrong", setup::main, setup::command),
    (
        "sstable",
        "inspect, check, write and rewrite SSTables, without a node",
        sstable::main,
        sstable::command,
    ),
    (
        "types",
        "serialize, print, compare and validate values; tokens and shards of keys",
        types::main,
        types::command,
    ),
    (
        "unload",
        "write the rows of a table of a running node to a file",
        transfer::unload,
        transfer::unload_command,
    ),
];

/// What is no tool of its own: for the list.
const WORDS: [(&str, &str); 2] =
    [("help", "print help: nereid help TOOL"), ("version", "print the version")];

/// The name that the program was called by: an operator's scripts may know it by another.
pub(crate) fn program() -> String {
    let called = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = called.as_deref().and_then(|path| path.file_name());
    name.map_or_else(|| "nereid".to_string(), |name| name.to_string_lossy().into_owned())
}

/// Runs the tool of that name.
pub(crate) fn run(name: &str, words: &[String]) -> ExitCode {
    match (name, find(name)) {
        ("help", _) => help(words),
        ("version", _) => {
            let (version, mode) = (crate::version::version(), crate::version::build_mode());
            show(&format!("Nereid {version} ({mode})"))
        }
        ("generate", _) => generate::main(words),
        (_, Some((_, _, tool, _))) => tool(words),
        _ => refuse(&unknown(name)),
    }
}

fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|(known, ..)| *known == name)
}

/// The command line makes no sense: says why.
pub(crate) fn refuse(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::from(2)
}

/// Prints a text to who may have read enough of it before its end, such as `head`.
pub(crate) fn show(text: &str) -> ExitCode {
    let text = text.trim_end();
    match std::io::stdout().write_all(format!("{text}\n").as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("cannot write the output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn unknown(name: &str) -> String {
    let names = TOOLS.iter().map(|(name, ..)| *name).chain(WORDS.map(|(name, _)| name));
    match options::nearest(name, names) {
        Some(near) => format!("unknown tool {name}; did you mean {near}?"),
        None => format!("unknown tool {name}; the tools are:\n{}", indented()),
    }
}

/// The words after `help`: a tool, or an operation of one.
fn help(words: &[String]) -> ExitCode {
    match help_of(words) {
        Ok(text) => show(&text),
        Err(text) => refuse(&text),
    }
}

fn help_of(words: &[String]) -> Result<String, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (command, rest) = match words.split_first() {
        None => (options::command(Listed::InEffect), &[][..]),
        Some((name, rest)) => {
            let (.., command) = find(name).ok_or_else(|| unknown(name))?;
            (command(), rest)
        }
    };
    let mut at = &command;
    for word in rest {
        let below = || at.get_subcommands().map(Command::get_name);
        at = at.find_subcommand(word).ok_or_else(|| match options::nearest(word, below()) {
            Some(near) => format!("unknown operation {word}; did you mean {near}?"),
            None => format!("unknown operation {word}"),
        })?;
    }
    let mut shown = at.clone();
    let text = match shown.get_long_about() {
        Some(_) => shown.render_long_help(),
        None => shown.render_help(),
    };
    Ok(text.to_string())
}

/// The names of all, with what they are for.
fn listed() -> Vec<(&'static str, &'static str)> {
    TOOLS.iter().map(|(name, about, ..)| (*name, *about)).collect()
}

/// For `--list-tools`.
pub(crate) fn list() -> String {
    let lines = TOOLS.iter().map(|(name, about, ..)| format!("{name:<26} - {about}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// For `--help`.
pub(crate) fn indented() -> String {
    let lines = listed().into_iter().chain(WORDS);
    let lines = lines.map(|(name, about)| format!("  {name:<26} {about}"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &str) -> Result<String, String> {
        help_of(&words.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn every_tool_and_every_operation_has_help() {
        for (name, _, _, command) in TOOLS {
            let mut command = command();
            command.build();
            assert!(told(name).expect("help").contains("Usage: "), "{name}");
            for operation in command.get_subcommands().filter(|it| it.get_name() != "help") {
                let name = format!("{name} {}", operation.get_name());
                assert!(told(&name).expect("help").contains("Usage: "), "{name}");
            }
        }
        let text = told("").expect("help");
        assert!(text.contains("  sstable  ") && text.contains("--rpc-address"), "{text}");
        assert!(told("nodetool status").expect("help").contains("Usage: "));
    }

    #[test]
    fn what_was_probably_meant_is_told() {
        let check = |words: &str, expected: &str| {
            assert_eq!(told(words), Err(expected.to_owned()), "{words}");
        };
        check("sstabel", "unknown tool sstabel; did you mean sstable?");
        check("versoin", "unknown tool versoin; did you mean version?");
        check("sstable dumpdata", "unknown operation dumpdata; did you mean dump-data?");
        check("nodetool statsu", "unknown operation statsu; did you mean status?");
        let text = unknown("no-such-thing-at-all");
        assert!(text.contains("perf-simple-query"), "{text}");
    }
}
