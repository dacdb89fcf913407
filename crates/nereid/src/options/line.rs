//! Options of the table on a command line: `--name-with-dashes value`, by clap. The server has all
//! of them; tools that start a node, or look at one's options, have them beside their own.

use super::kind::Kind;
use super::table::{GROUPS, OptionRow};
use super::{Refused, Source, Values, nearest, rows};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};

/// What the words ask for.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Run a node with these options.
    Serve(Box<Values>),
    /// Print this and end well.
    Print(String),
}

/// What a command line is, once clap has read it.
#[derive(Debug)]
pub(crate) enum Line {
    Given(ArgMatches),
    /// Print this and end well.
    Help(String),
}

/// Which options a help text lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Those that have an effect.
    InEffect,
    All,
    /// Those that matter to a tool beside its own; a note names the rest.
    BesideOwn,
}

/// Options of the node that tools list beside their own.
const BESIDE_OWN: [&str; 4] = ["smp", "memory", "workdir", "default_log_level"];

/// For the help of a tool that takes options of the node.
pub(crate) const OTHERS: &str =
    "Every other option of a node is accepted as well: `nereid --help` lists them.";

/// Reads the words after the program's name.
pub(crate) fn parse_line(words: &[String]) -> Result<Invocation, Refused> {
    let matches = match read(command(Listed::InEffect), words)? {
        Line::Given(matches) => matches,
        Line::Help(text) => return Ok(Invocation::Print(text)),
    };
    let asked = ASKING.iter().find(|(name, ..)| matches.get_flag(name));
    match asked {
        Some((_, _, text)) => Ok(Invocation::Print(text())),
        None => values_of(&matches).map(|values| Invocation::Serve(Box::new(values))),
    }
}

/// An option that prints something instead of starting a node: name, description, text.
type Asking = (&'static str, &'static str, fn() -> String);

const ASKING: &[Asking] = &[
    ("help-all", "Print help with every option, also those without effect", || {
        command(Listed::All).render_help().to_string()
    }),
    ("version", "Print the version", crate::version::version),
    ("build-id", "Print the build identifier", || crate::version::BUILD_ID.to_string()),
    ("build-mode", "Print the build mode: release or debug", || {
        crate::version::build_mode().to_string()
    }),
    ("list-tools", "List the tools", crate::tools::list),
    ("help-seastar", "List the options of the runtime", runtime_help),
    ("help-loggers", "List the loggers", crate::logging::loggers),
];

/// Reads words by a command. The error is for the person who typed them.
pub(crate) fn read(mut command: Command, words: &[String]) -> Result<Line, Refused> {
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
pub(crate) fn values_of(matches: &ArgMatches) -> Result<Values, Refused> {
    let mut values = Values::default();
    for row in rows() {
        // A command may have left the option out, for one of its own of that name.
        let Ok(Some(given)) = matches.try_get_many::<String>(row.name) else { continue };
        values.set(row.name, given.cloned().collect(), Source::CommandLine)?;
    }
    Ok(values)
}

/// The command line of the server.
pub(crate) fn command(listed: Listed) -> Command {
    let asking = ASKING
        .iter()
        .map(|(name, about, _)| Arg::new(name).long(name).action(ArgAction::SetTrue).help(about));
    let footer = match listed {
        Listed::All => "",
        _ => {
            "`nereid --help-all` lists the options without effect as well: they are accepted so \
             that configurations of ScyllaDB and Cassandra work unchanged."
        }
    };
    Command::new("nereid")
        .no_binary_name(true)
        .about("Nereid, a wide-column database: starts a node, or runs a tool.")
        .override_usage("nereid [OPTIONS]\n       nereid TOOL [OPTIONS]\n       nereid help TOOL")
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\nWithout options a node serves CQL on \
             127.0.0.1:9042 and keeps its data in ./nereid-data.\n\nTools:\n{}\n\n\
             {{all-args}}{{after-help}}",
            crate::tools::indented()
        ))
        .after_help(format!(
            "Each option may also be set in the options file, with underscores instead of \
             dashes.\n{footer}"
        ))
        .disable_version_flag(true)
        .disable_help_flag(true)
        .arg(help_flag())
        .args(asking)
        .args(arguments(listed, &[]))
}

/// `--help`, in its short form: one option, one line.
pub(crate) fn help_flag() -> Arg {
    Arg::new("help").long("help").short('h').action(ArgAction::HelpShort).help("Print help")
}

/// Every option of the table but those of the names in `except`, under the headings of their
/// groups.
pub(crate) fn arguments<'a>(
    listed: Listed,
    except: &'a [&'a str],
) -> impl Iterator<Item = Arg> + use<'a> {
    GROUPS.iter().flat_map(move |group| {
        let rows = group.rows.iter().filter(|row| !except.contains(&&*long(row)));
        rows.map(move |row| argument(row, listed).help_heading(group.name))
    })
}

fn long(row: &OptionRow) -> String {
    row.name.replace('_', "-")
}

fn argument(row: &OptionRow, listed: Listed) -> Arg {
    let mut argument = Arg::new(row.name).long(long(row)).action(ArgAction::Append);
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

fn runtime_help() -> String {
    let of_runtime = GROUPS.first().map(|group| group.rows).unwrap_or_default();
    of_runtime.iter().map(|row| format!("  --{:32} {}\n", long(row), row.help())).collect()
}
