//! The sub-commands of the binary: one table; and those that are about what the binary is made of:
//! `config` (the options of a node), `generate` (completions and manual pages of all).

mod config;
mod generate;

use crate::command_line::{self, Listing};
use clap::Command;
use nodetool::{compactions, probe};
use options::Listed;
use options::terminal::{program, refuse, show};
use std::process::ExitCode;
use tools::{local_key, setup, sstable, types};

/// A sub-command: its name, what it is for, what runs it with the words after its name, and its
/// command line.
type Tool = (&'static str, &'static str, fn(&[String]) -> ExitCode, fn() -> Command);

/// All of them; the server is the default.
const TOOLS: &[Tool] = &[
    ("server", "start a node (the default)", crate::serve, || command(Listed::InEffect)),
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
        perf::memory_footprint::main,
        perf::memory_footprint::command,
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
        "perf-alternator",
        "measure the DynamoDB API over HTTP",
        perf::alternator::main,
        perf::alternator::command,
    ),
    (
        "perf-append",
        "measure appending to a collection as it grows",
        perf::append::main,
        perf::append::command,
    ),
    (
        "perf-cache-eviction",
        "measure reads and writes while the row cache evicts",
        perf::cache_eviction::main,
        perf::cache_eviction::command,
    ),
    (
        "perf-commitlog",
        "measure appending to the commitlog",
        perf::commitlog::main,
        perf::commitlog::command,
    ),
    (
        "perf-compaction-efficiency",
        "measure write, space and read amplification of compaction strategies",
        perf::compaction_efficiency::main,
        perf::compaction_efficiency::command,
    ),
    (
        "perf-cql-raw",
        "measure a node over TCP, in a closed or an open loop",
        perf::cql_raw::main,
        perf::cql_raw::command,
    ),
    (
        "perf-fast-forward",
        "measure readers that skip, slice and forward",
        perf::fast_forward::main,
        perf::fast_forward::command,
    ),
    (
        "perf-row-cache-update",
        "measure merging memtables into the row cache",
        perf::row_cache_update::main,
        perf::row_cache_update::command,
    ),
    (
        "perf-simple-query",
        "measure reads and writes of single rows, in process",
        perf::simple_query::main,
        perf::simple_query::command,
    ),
    (
        "perf-sstable",
        "measure writing, reading and compacting SSTables",
        perf::sstable::main,
        perf::sstable::command,
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

/// Runs the tool of that name.
pub(crate) fn run(name: &str, words: &[String]) -> ExitCode {
    match (name, find(name)) {
        ("help", _) => help(words),
        ("version", _) => {
            let (version, mode) = (node::version::version(), node::version::build_mode());
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
        None => (command(Listed::InEffect), &[][..]),
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

/// The command line of the server.
fn command(listed: Listed) -> Command {
    command_line::command(listed, &listing())
}

/// For the texts of the server.
pub(crate) fn listing() -> Listing {
    let list = TOOLS.iter().map(|(name, about, ..)| format!("{name:<26} - {about}"));
    Listing { indented: indented(), list: list.collect::<Vec<_>>().join("\n") }
}

fn indented() -> String {
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
