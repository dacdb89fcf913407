//! The command line of the server: every option of the table as `--name-with-dashes value`.

use super::kind::Kind;
use super::table::{GROUPS, OptionRow};
use super::{Refused, Source, Values, rows, unknown};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

/// What the words ask for.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Run a node with these options.
    Serve(Box<Values>),
    /// Print this and end well.
    Print(String),
}

/// Reads the words after the program's name.
pub(crate) fn parse_line(words: &[String]) -> Result<Invocation, Refused> {
    let matches = match command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return refused(&error),
    };
    for (name, text) in [
        ("version", crate::version::version()),
        ("build-id", crate::version::BUILD_ID.to_string()),
        ("build-mode", crate::version::build_mode().to_string()),
        ("list-tools", crate::tools::list()),
        ("help-seastar", runtime_help()),
        ("help-loggers", crate::logging::loggers()),
    ] {
        if matches.get_flag(name) {
            return Ok(Invocation::Print(text));
        }
    }
    let mut values = Values::default();
    for row in rows() {
        if matches.value_source(row.name) != Some(clap::parser::ValueSource::CommandLine) {
            continue;
        }
        let given = matches.get_many::<String>(row.name).unwrap_or_default();
        values.set(row.name, given.cloned().collect(), Source::CommandLine)?;
    }
    Ok(Invocation::Serve(Box::new(values)))
}

fn refused(error: &clap::Error) -> Result<Invocation, Refused> {
    match error.kind() {
        ErrorKind::DisplayHelp => Ok(Invocation::Print(error.to_string())),
        ErrorKind::UnknownArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(name)) => {
                let Refused(text) = unknown(name.trim_start_matches('-'));
                let bare = name.trim_start_matches('-');
                Err(Refused(text.replacen(bare, name, 1)))
            }
            _ => Err(Refused(error.to_string())),
        },
        _ => Err(Refused(error.to_string())),
    }
}

/// The command line of the server.
pub(crate) fn command() -> Command {
    let mut command = Command::new("nereid")
        .no_binary_name(true)
        .about("Runs a Nereid node: CQL on 127.0.0.1:9042, data in ./nereid-data.")
        .override_usage("nereid [OPTIONS]\n       nereid TOOL [OPTIONS]")
        .after_help("Each option may stand in the options file too, with underscores for dashes.")
        .disable_version_flag(true)
        .args_override_self(false);
    for (name, about) in [
        ("version", "Print the version and end"),
        ("build-id", "Print the identifier of the build and end"),
        ("build-mode", "Print release or debug and end"),
        ("list-tools", "List the tools and end"),
        ("help-seastar", "List the options of the runtime and end"),
        ("help-loggers", "List the loggers and end"),
    ] {
        command = command.arg(Arg::new(name).long(name).action(ArgAction::SetTrue).help(about));
    }
    for group in GROUPS {
        command = command.next_help_heading(group.name);
        command = command.args(group.rows.iter().map(argument));
    }
    command
}

fn argument(row: &OptionRow) -> Arg {
    let long = row.name.replace('_', "-");
    let mut argument = Arg::new(row.name).long(long).action(ArgAction::Append).help(row.help());
    if let Some(short) = row.short {
        argument = argument.short(short);
    }
    argument = match row.kind {
        Kind::Flag => argument.num_args(0..=1).default_missing_value("1"),
        // Negative numbers are values; so is whatever else an operator writes after the name.
        _ => argument.num_args(1).allow_hyphen_values(true),
    };
    argument.value_name(row.kind.word()).hide_short_help(row.is_idle)
}

fn runtime_help() -> String {
    let of_runtime = GROUPS.first().map(|group| group.rows).unwrap_or_default();
    of_runtime
        .iter()
        .map(|row| format!("  --{:32} {}\n", row.name.replace('_', "-"), row.help()))
        .collect()
}
