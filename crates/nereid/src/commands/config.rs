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

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use options::terminal;
use options::{Line, Listed, Note, Values, read_text};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the tool.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let matches = match options::read(command(), words) {
        Ok(Line::Given(matches)) => matches,
        Ok(Line::Help(text)) => return terminal::show(&text),
        Err(refused) => return terminal::refuse(&refused.to_string()),
    };
    match matches.subcommand() {
        Some(("check", given)) => {
            read(given).map_or_else(|text| terminal::refuse(&text), |read| check::main(&read))
        }
        Some(("show", given)) => {
            let form = show::Form { json: given.get_flag("json"), all: !given.get_flag("changed") };
            read(given).map_or_else(|text| terminal::refuse(&text), |read| show::main(read, form))
        }
        _ => terminal::show(&reference::page()),
    }
}

/// The tool's command line.
pub(super) fn command() -> Command {
    let flag = |name: &'static str, about: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(about)
    };
    let of_node = |name: &'static str, about: &'static str| {
        let file = Arg::new("FILE").value_hint(ValueHint::FilePath);
        Command::new(name)
            .about(about)
            .disable_help_flag(true)
            .arg(options::help_flag())
            .arg(file.help("Options file; by default the one that a node would read"))
            .after_help(options::OTHERS)
            .args(options::arguments(Listed::BesideOwn, &[]))
    };
    Command::new("nereid config")
        .no_binary_name(true)
        .about("Checks and shows the options of a node, without a node")
        .after_help(
            "Exit codes: 0 nothing is wrong; 1 a node would not start; 2 the command line is \
             invalid.",
        )
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(of_node("check", "Report errors and warnings in FILE and OPTIONS"))
        .subcommand(
            of_node("show", "Print each option with its value and where it was set")
                .arg(flag("changed", "Only options that were set"))
                .arg(flag("json", "Print JSON: a list of {name, type, source, value}")),
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

/// Reads a file, where one is named or there is one, and options of the command line. The error is
/// about the command line.
fn read(matches: &ArgMatches) -> Result<Read, String> {
    let mut values = options::values_of(matches).map_err(|refused| refused.to_string())?;
    let named = matches.get_one::<String>("FILE").map(PathBuf::from);
    let file = named.or_else(|| options::options_file(&values));
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
