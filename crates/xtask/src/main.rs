//! Chores of the workspace: `cargo run -p xtask -- tidy` prints what the tree breaks of its own
//! rules; `cargo test -p xtask` fails on it.
#![allow(clippy::disallowed_methods, reason = "a program of the developer's machine, not a shard")]

mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    match command.as_deref() {
        Some("tidy") => {
            let problems = tidy::all(&tidy::root());
            problems.iter().for_each(|problem| println!("{problem}"));
            println!("{} problems", problems.len());
            if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        _ => {
            println!("usage: cargo run -p xtask -- tidy");
            ExitCode::FAILURE
        }
    }
}
