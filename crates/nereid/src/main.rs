//! Nereid: one binary. Without arguments it serves CQL on 127.0.0.1:9042 from `./nereid-data`.
//!
//! In reading order: [`options`] (what the operator wants), [`server`] (a node as a process),
//! [`node`] (the parts of a node, in their order), [`perf`] and [`tools`] (other sub-commands),
//! [`logging`], [`version`].
//!
//! No decision about data is made here.

mod audit;
mod certificates;
mod console;
mod descriptors;
mod encryption;
mod ephemeral;
mod host;
mod large_data;
mod limits;
mod logging;
mod maintenance;
mod metrics;
mod node;
mod notify;
mod options;
mod patience;
mod perf;
mod ports;
mod relabel;
mod reread;
mod seeds;
mod server;
mod tables;
mod tools;
mod version;

use options::{Invocation, Note, Source, Values};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// Ends the process at a panic, once it is reported. A panic is a mistake of ours: a node that goes
/// on with part of itself would keep clients waiting and hold its data folder, while a new start
/// finds all that was acknowledged.
fn end_at_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

fn main() -> ExitCode {
    end_at_panic();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (tool, rest) = match words.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (first.as_str(), rest),
        _ => ("server", &words[..]),
    };
    tools::run(tool, rest).unwrap_or_else(|| {
        eprintln!("unknown tool {tool}; the tools are:\n{}", tools::list());
        ExitCode::from(2)
    })
}

fn serve(words: &[String]) -> ExitCode {
    let mut values = match options::parse_line(words) {
        Ok(Invocation::Serve(values)) => *values,
        Ok(Invocation::Print(text)) => {
            println!("{}", text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(refused) => {
            eprintln!("{refused}");
            return ExitCode::from(2);
        }
    };
    let warnings = match read_options_file(&mut values) {
        Ok(warnings) => warnings,
        Err(faults) => {
            faults.iter().for_each(|text| eprintln!("{text}"));
            return ExitCode::from(2);
        }
    };
    server::main(&values, &warnings)
}

/// Reads the options file, where there is one: the one named, or the usual places. Returns
/// warnings, or all that is wrong.
fn read_options_file(values: &mut Values) -> Result<Vec<String>, Vec<String>> {
    let Some(path) = options_file(values) else { return Ok(Vec::new()) };
    let text =
        options::read_text(&path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let of_file = |notes: Vec<Note>| notes.iter().map(|note| note.of_file(&path)).collect();
    values.read_file(&text).map(of_file).map_err(of_file)
}

/// The options file: the one named, or the first there is of the usual places.
fn options_file(values: &Values) -> Option<PathBuf> {
    match values.source("options_file") {
        Source::Default => usual_options_file(),
        _ => Some(PathBuf::from(values.text("options_file"))),
    }
}

fn usual_options_file() -> Option<PathBuf> {
    let below = |variable: &str, tail: &str| {
        std::env::var_os(variable).map(|folder| Path::new(&folder).join(tail))
    };
    let places = [
        below("SCYLLA_CONF", "scylla.yaml"),
        below("SCYLLA_HOME", "conf/scylla.yaml"),
        Some(PathBuf::from("conf/scylla.yaml")),
    ];
    places.into_iter().flatten().find(|path| path.is_file())
}
