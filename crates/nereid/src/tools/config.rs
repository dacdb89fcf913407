//! `nereid config`: options as a node would have them, without a node.
//!
//! `check` says what is wrong with a file and a command line, `show` which value each option has
//! and where it came from, `reference` prints the page that documents every option.
//!
//! Invariants
//!  - *as-the-node*: files and words are read by what reads them for a node.
//!
//! Exit codes: 0 done, and nothing is wrong; 1 a node would not start; 2 the words make no sense.

mod check;
mod reference;
mod show;

use crate::options::{Invocation, Note, Values, parse_line, read_text};
use clap::{Arg, ArgAction, Command, ValueHint};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Options of a node, without a node

Usage: nereid config check [FILE] [OPTIONS]
       nereid config show [--changed] [--json] [FILE] [OPTIONS]
       nereid config reference

  check      say what is wrong with FILE and OPTIONS: each fault with its place, and warnings
  show       print each option with its value and where that came from
  reference  print the page that documents every option

FILE is an options file; without one it is the file that a node would read. OPTIONS are those of
`nereid`.

  --changed  only options that somebody has given
  --json     JSON: a list of {name, type, source, value}

Exit codes: 0 nothing is wrong; 1 a node would not start; 2 the command line makes no sense.
";

/// Runs the tool.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let (operation, rest) = match words.split_first() {
        Some((operation, rest)) => (operation.as_str(), rest),
        None => ("", words),
    };
    let asks_for_help = words.iter().any(|word| word == "--help" || word == "-h");
    match operation {
        _ if asks_for_help => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        "check" => check::main(rest),
        "show" => show::main(rest),
        "reference" => {
            print!("{}", reference::page());
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The tool's words, for completions and the manual.
pub(super) fn command() -> Command {
    let flag = |name: &'static str, about: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(about)
    };
    let file = || Arg::new("FILE").value_hint(ValueHint::FilePath).help("An options file");
    let show = Command::new("show").about("Print each option with its value and its source");
    Command::new("nereid config")
        .about("Check and show options, without a node")
        .after_help(USAGE)
        .subcommand(Command::new("check").about("Say what is wrong with options").arg(file()))
        .subcommand(
            show.arg(file()).arg(flag("changed", "What was given")).arg(flag("json", "JSON")),
        )
        .subcommand(Command::new("reference").about("Print the page that documents every option"))
}

/// Options as a node would have them.
struct Read {
    values: Values,
    /// The file they were read from, if there is one.
    file: Option<PathBuf>,
    warnings: Vec<Note>,
    faults: Vec<Note>,
}

/// Reads a file, where one is named or there is one, and words. The error is about the words.
fn read(words: &[String]) -> Result<Read, String> {
    let (named, rest) = match words.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (Some(PathBuf::from(first)), rest),
        _ => (None, words),
    };
    let mut values = match parse_line(rest) {
        Ok(Invocation::Serve(values)) => *values,
        Ok(Invocation::Print(_)) => return Err("these words ask for no node".to_owned()),
        Err(refused) => return Err(refused.to_string()),
    };
    let file = named.or_else(|| crate::options_file(&values));
    let (mut warnings, mut faults) = (Vec::new(), Vec::new());
    if let Some(path) = &file {
        match read_into(&mut values, path) {
            Ok(found) => warnings = found,
            Err(found) => faults = found,
        }
    }
    Ok(Read { values, file, warnings, faults })
}

fn read_into(values: &mut Values, path: &Path) -> Result<Vec<Note>, Vec<Note>> {
    match read_text(path) {
        Ok(text) => values.read_file(&text),
        Err(error) => Err(vec![Note { at: None, text: error.to_string() }]),
    }
}

impl Read {
    /// A note as a line, with the name of the file that it is about.
    fn line(&self, note: &Note) -> String {
        match &self.file {
            Some(path) => note.of_file(path),
            None => note.text.clone(),
        }
    }
}
