//! `nereid nodetool`: what operators ask of a node and tell it to do, over its REST API. It takes
//! the commands, options, exit codes and printed forms of the tool of that name.
//!
//! From the ground up: [`failure`] (how a command ends), [`answer`] (what the values of an answer
//! say), [`print`] and [`histogram`] (how answers are shown), [`arguments`] (options and places),
//! [`session`] (requests, and how they end), [`entry`] (a command: its name, its arguments, what
//! runs it), [`commands`] (the commands, by subject), [`line`] (the words of the command line).
//! Beside them two tools of their own that ask the same API: [`compactions`] and [`probe`].
//!
//! Invariants
//!  - *asks-only*: what a node does is decided by the node. A command is a handful of requests and
//!    the form of their answers.
//!  - *less-is-fine*: what an answer lacks is left out, or shown as zero: nodes of other versions
//!    tell more or less.
//!
//! Exit codes: 0 done; 1 the command line does not make sense, or a task has failed; 2 an answer
//! that is none; 3 the node could not do it; 4 the node refused a request, or cannot be reached.
//! `tasks wait --quiet` has its own: 123 failed, 124 timed out, 125 not known.

mod answer;
mod arguments;
mod commands;
pub mod compactions;
mod entry;
mod failure;
mod histogram;
mod line;
mod print;
pub mod probe;
mod session;

use arguments::Given;
use entry::Entry;
use failure::Failure;
use runtime::Config;
use session::Session;
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

/// Runs the words that follow `nodetool`. `program` is how the binary was called.
pub fn main(program: &str, words: &[String]) -> ExitCode {
    let ended = match line::read(program, words) {
        Ok(line::Asked::Text(text)) => show(&text),
        Ok(line::Asked::Run(entry, given)) => start(entry, given),
        Err(failure) => Err(failure),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let (code, text) = failure.told();
            if !text.is_empty() {
                eprintln!("{text}");
            }
            ExitCode::from(code)
        }
    }
}

/// The tool's words, for completions and manual pages.
pub fn command() -> clap::Command {
    line::whole()
}

fn show(text: &str) -> Result<(), Failure> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Failure::Unexpected(format!("cannot write the output: {error}")))
}

/// One shard of the runtime: no thread is pinned, and no memory set aside.
fn start(entry: &'static Entry, given: Given) -> Result<(), Failure> {
    let peers = session::addresses(&given)?;
    let mut config = Config::new(1);
    config.idle_poll = Duration::ZERO;
    config.stall_threshold = None; // Printing is what this shard is there for.
    let (ended, told) = mpsc::channel();
    let failed = |error: &dyn std::fmt::Display| Failure::Unexpected(error.to_string());
    let started = runtime::run(config, move |_| {
        let (mut session, ended) = (Session::new(given.clone(), peers.clone()), ended.clone());
        async move {
            let _ = ended.send((entry.run)(&mut session).await); // Who started this waits for it.
        }
    });
    started.map_err(|error| failed(&error))?;
    told.recv().map_err(|error| failed(&error))?
}
