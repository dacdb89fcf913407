//! Nereid: one binary. Without arguments it serves CQL on 127.0.0.1:9042 from `./nereid-data`.
//!
//! From the ground up: `command_line` (that of the server), `commands` (the table of sub-commands,
//! and those that are about all of them), this (which of both it is).
//!
//! No decision is made here: what runs is in the crates below.

mod command_line;
mod commands;

use command_line::Invocation;
use options::terminal;
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
        Some((command, rest)) if !command.starts_with('-') => commands::run(command, rest),
        _ => serve(&words),
    }
}

fn serve(words: &[String]) -> ExitCode {
    let mut values = match command_line::parse(words, &commands::listing()) {
        Ok(Invocation::Serve(values)) => *values,
        Ok(Invocation::Print(text)) => return terminal::show(&text),
        Err(refused) => return terminal::refuse(&refused.to_string()),
    };
    let warnings = match options::read_options_file(&mut values) {
        Ok(warnings) => warnings,
        Err(faults) => {
            faults.iter().for_each(|text| eprintln!("{text}"));
            return ExitCode::from(2);
        }
    };
    server::main(&values, &warnings)
}
