//! The command line of the server: every option of the table, and a few that print something
//! instead of starting a node.

use clap::{Arg, ArgAction, Command};
use node::version;
use options::{GROUPS, Line, Listed, Refused, Values, arguments, help_flag, read, values_of};

/// What the words ask for.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Run a node with these options.
    Serve(Box<Values>),
    /// Print this and end well.
    Print(String),
}

/// The sub-commands, as texts list them.
#[derive(Debug)]
pub(crate) struct Listing {
    /// For `--help`.
    pub(crate) indented: String,
    /// For `--list-tools`.
    pub(crate) list: String,
}

/// An option that prints something instead of starting a node: name, description, text.
type Asking = (&'static str, &'static str, fn(&Listing) -> String);

const ASKING: &[Asking] = &[
    ("help-all", "Print help with every option, also those without effect", |listing| {
        command(Listed::All, listing).render_help().to_string()
    }),
    ("version", "Print the version", |_| version::version()),
    ("build-id", "Print the build identifier", |_| version::BUILD_ID.to_string()),
    ("build-mode", "Print the build mode: release or debug", |_| version::build_mode().to_string()),
    ("list-tools", "List the tools", |listing| listing.list.clone()),
    ("help-seastar", "List the options of the runtime", |_| runtime_help()),
    ("help-loggers", "List the loggers", |_| logging::loggers()),
];

/// Reads the words after the program's name.
pub(crate) fn parse(words: &[String], listing: &Listing) -> Result<Invocation, Refused> {
    let matches = match read(command(Listed::InEffect, listing), words)? {
        Line::Given(matches) => matches,
        Line::Help(text) => return Ok(Invocation::Print(text)),
    };
    let asked = ASKING.iter().find(|(name, ..)| matches.get_flag(name));
    match asked {
        Some((_, _, text)) => Ok(Invocation::Print(text(listing))),
        None => values_of(&matches).map(|values| Invocation::Serve(Box::new(values))),
    }
}

/// The command line of the server.
pub(crate) fn command(listed: Listed, listing: &Listing) -> Command {
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
            listing.indented
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

fn runtime_help() -> String {
    let of_runtime = GROUPS.first().map(|group| group.rows).unwrap_or_default();
    of_runtime.iter().map(|row| format!("  --{:32} {}\n", row.long(), row.help())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_node_or_a_text() {
        let listing = Listing { indented: "  a tool".to_owned(), list: "a - tool".to_owned() };
        let parse = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            parse(&words, &listing)
        };
        let Ok(Invocation::Serve(values)) = parse("--smp 2 -m 1G") else { panic!("not accepted") };
        assert_eq!((values.integer("smp"), values.text("memory")), (2, "1G"));
        let check = |line: &str, part: &str| match parse(line) {
            Ok(Invocation::Print(text)) => assert!(text.contains(part), "{text}"),
            other => panic!("{line}: {other:?}"),
        };
        check("--version", "nereid");
        check("--list-tools", "a - tool");
        check("--help", "  a tool");
        check("--help-all", "--num-tokens");
        assert_eq!(
            parse("--smpp 2").unwrap_err().to_string(),
            "unknown option --smpp; did you mean --smp?"
        );
    }
}
