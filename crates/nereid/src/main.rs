//! Nereid: one binary. Without arguments it serves CQL on 127.0.0.1:9042 from `./nereid-data`.
//!
//! In reading order: [`options`] (what the operator wants), [`server`] (a node as a process),
//! [`node`] (the parts of a node, in their order), [`perf`] and [`tools`] (other sub-commands),
//! [`logging`], [`persona`], [`version`].
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
mod log_ring;
mod logging;
mod maintenance;
mod metrics;
mod node;
mod notify;
mod options;
mod patience;
mod perf;
mod persona;
mod ports;
mod relabel;
mod reread;
mod seeds;
mod server;
mod tables;
mod tools;
mod version;

use options::{Invocation, Note, Source, Values};
use std::path::PathBuf;
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
    match words.split_first() {
        Some((tool, rest)) if !tool.starts_with('-') => tools::run(tool, rest),
        _ => serve(&words),
    }
}

fn serve(words: &[String]) -> ExitCode {
    let mut values = match options::parse_line(words) {
        Ok(Invocation::Serve(values)) => *values,
        Ok(Invocation::Print(text)) => return tools::show(&text),
        Err(refused) => return tools::refuse(&refused.to_string()),
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

/// The options file: the one named, or the first there is of the usual places. A throw-away node
/// looks at none of these: what lies there is about a node with data, which it must not touch.
fn options_file(values: &Values) -> Option<PathBuf> {
    match values.source("options_file") {
        Source::Default if values.flag("ephemeral") => None,
        Source::Default => options::usual_file(),
        _ => Some(PathBuf::from(values.text("options_file"))),
    }
}
