//! Options of the table on a command line: `--name-with-dashes value`, by clap. The server has all
//! of them; tools that start a node, or look at one's options, have them beside their own.

use crate::kind::Kind;
use crate::refused::{Refused, nearest};
use crate::table::{GROUPS, OptionRow, rows};
use crate::values::{Source, Values};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};

/// What a command line is, once clap has read it.
#[derive(Debug)]
pub enum Line {
    Given(ArgMatches),
    /// Print this and end well.
    Help(String),
}

/// Which options a help text lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Those that have an effect.
    InEffect,
    All,
    /// Those that matter to a tool beside its own; a note names the rest.
    BesideOwn,
}

/// Options of the node that tools list beside their own.
const BESIDE_OWN: [&str; 4] = ["smp", "memory", "workdir", "default_log_level"];

/// For the help of a tool that takes options of the node.
pub const OTHERS: &str =
    "Every other option of a node is accepted as well: `nereid --help` lists them.";

/// Reads words by a command. The error is for the person who typed them.
pub fn read(mut command: Command, words: &[String]) -> Result<Line, Refused> {
    let matches = command.try_get_matches_from_mut(words);
    match matches {
        Ok(matches) => Ok(Line::Given(matches)),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(Line::Help(error.to_string())),
        Err(error) => Err(refused(&error, &command)),
    }
}

fn refused(error: &clap::Error, command: &Command) -> Refused {
    let invalid = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) => name.as_str(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::UnknownArgument if invalid.starts_with('-') => {
            let all = std::iter::once(command).chain(command.get_subcommands());
            let longs = all.flat_map(Command::get_arguments).filter_map(Arg::get_long);
            let typed = invalid.trim_start_matches('-').replace('_', "-");
            Refused(match nearest(&typed, longs) {
                Some(near) => format!("unknown option {invalid}; did you mean --{near}?"),
                None => format!("unknown option {invalid}; --help lists the options"),
            })
        }
        _ => Refused(error.to_string().trim_end().to_string()),
    }
}

/// The options of the table that were given.
pub fn values_of(matches: &ArgMatches) -> Result<Values, Refused> {
    let mut values = Values::default();
    for row in rows() {
        // A command may have left the option out, for one of its own of that name.
        let Ok(Some(given)) = matches.try_get_many::<String>(row.name) else { continue };
        values.set(row.name, given.cloned().collect(), Source::CommandLine)?;
    }
    Ok(values)
}

/// `--help`, in its short form: one option, one line.
pub fn help_flag() -> Arg {
    Arg::new("help").long("help").short('h').action(ArgAction::HelpShort).help("Print help")
}

/// Every option of the table but those of the names in `except`, under the headings of their
/// groups.
pub fn arguments<'a>(listed: Listed, except: &'a [&'a str]) -> impl Iterator<Item = Arg> + use<'a> {
    GROUPS.iter().flat_map(move |group| {
        let rows = group.rows.iter().filter(|row| !except.contains(&&*row.long()));
        rows.map(move |row| argument(row, listed).help_heading(group.name))
    })
}

fn argument(row: &OptionRow, listed: Listed) -> Arg {
    let mut argument = Arg::new(row.name).long(row.long()).action(ArgAction::Append);
    if let Some(short) = row.short {
        argument = argument.short(short);
    }
    argument = match row.kind {
        Kind::Flag => argument.num_args(0..=1).default_missing_value("1"),
        // Negative numbers are values; so is whatever else an operator writes after the name.
        _ => argument.num_args(1).allow_hyphen_values(true),
    };
    let is_hidden = match listed {
        Listed::All => false,
        Listed::InEffect => row.is_idle,
        Listed::BesideOwn => !BESIDE_OWN.contains(&row.name),
    };
    argument.help(row.help()).value_name(row.kind.word()).hide(is_hidden)
}
