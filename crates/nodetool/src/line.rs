//! The words of the command line.
//!
//! Options may stand before the command and behind it; some have a single dash and several letters,
//! and those of a Java machine (`-Dname=value`) pass by: scripts have them.

use crate::arguments::{GLOBAL, Given, Many, Opt, Takes};
use crate::commands;
use crate::entry::Entry;
use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

/// What the words ask for.
pub(crate) enum Asked {
    Text(String),
    Run(&'static Entry, Given),
}

const API_PORT: &str = "-Dcom.scylladb.apiPort=";

/// Understands the words.
pub(crate) fn read(program: &str, words: &[String]) -> Result<Asked, Failure> {
    let usage = || {
        format!(
            "Usage: {program} nodetool OPERATION [OPTIONS] ...\n\
             Try `{program} nodetool --help` for more information."
        )
    };
    if words.is_empty() {
        return Err(Failure::Usage(usage()));
    }
    let (name, rest) = split(words);
    match name.first().map(String::as_str) {
        None if rest.iter().any(|word| word == "--help") => Ok(Asked::Text(overview(program))),
        None => Err(Failure::Usage(usage())),
        Some("help") => help(program, words),
        Some(_) => {
            let entry = find(&name).ok_or_else(|| unknown(&name))?;
            let line = command(program, entry);
            let matches = line.try_get_matches_from(plain(entry, rest)).map_err(refused)?;
            if matches.get_flag("help") {
                return Ok(Asked::Text(text_of(program, entry)));
            }
            Ok(Asked::Run(entry, Given::new(matches)))
        }
    }
}

fn find(name: &[String]) -> Option<&'static Entry> {
    let name = name.join(" ");
    commands::all().find(|entry| entry.name == name)
}

fn unknown(name: &[String]) -> Failure {
    let names: Vec<&str> = commands::all().map(|entry| entry.name).collect();
    let name = name.join(" ");
    let mut text = format!(
        "unrecognized operation argument: expected one of ({}), got {name}",
        names.join(", "),
    );
    if let Some(near) = nearest(&name) {
        text += &format!("\ndid you mean {near}?");
    }
    Failure::Line(text)
}

/// The operation that was probably meant.
fn nearest(name: &str) -> Option<&'static str> {
    let distance = |known: &'static str| (strsim::osa_distance(name, known), known);
    let (far, near) = commands::all().map(|entry| distance(entry.name)).min()?;
    (far <= name.len() / 3 + 1).then_some(near)
}

/// The words of the command's name, and the others. A name of two words is one whose first is the
/// first of several commands.
fn split(words: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut name, mut rest) = (Vec::new(), Vec::new());
    let (mut is_value, mut is_full) = (false, false);
    for (index, word) in words.iter().enumerate() {
        if word == "--" {
            rest.extend_from_slice(&words[index..]);
            break;
        }
        if is_full || is_value || word.starts_with('-') {
            is_value = !is_full && !is_value && takes_value(word);
            rest.push(word.clone());
            continue;
        }
        name.push(word.clone());
        let prefix = format!("{} ", name[0]);
        is_full = 1 < name.len() || !commands::all().any(|entry| entry.name.starts_with(&prefix));
    }
    (name, rest)
}

/// Whether the next word belongs to a global option that stands before the command.
fn takes_value(word: &str) -> bool {
    let named = |opt: &&Opt| word.strip_prefix("--") == Some(opt.long) || opt.also.contains(&word);
    GLOBAL.iter().find(named).is_some_and(|opt| opt.takes != Takes::Nothing)
}

/// The words as clap reads them: no long names behind a single dash, nothing of Java.
fn plain(entry: &Entry, words: Vec<String>) -> Vec<String> {
    let mut plain = vec![entry.name.to_string()];
    let mut words = words.into_iter();
    for word in words.by_ref() {
        if word == "--" {
            plain.push(word);
            break;
        }
        if let Some(port) = word.strip_prefix(API_PORT) {
            plain.push(format!("--rest-api-port={port}"));
        } else if word.starts_with("-D") {
            continue;
        } else {
            let (called, value) = word.split_once('=').unwrap_or((&word, ""));
            let options = GLOBAL.iter().chain(entry.options);
            let known = |opt: &&Opt| called.len() != 2 && opt.also.contains(&called);
            match options.into_iter().find(known) {
                Some(opt) if word.contains('=') => plain.push(format!("--{}={value}", opt.long)),
                Some(opt) => plain.push(format!("--{}", opt.long)),
                None => plain.push(word),
            }
        }
    }
    plain.extend(words);
    plain
}

/// All commands as one, for completions and manual pages.
pub(crate) fn whole() -> Command {
    let mut whole = Command::new("nodetool")
        .about("Inspects and operates a running node, over its REST API")
        .disable_help_subcommand(true)
        .disable_version_flag(true);
    for entry in commands::all() {
        let own = command("nereid", entry);
        whole = match entry.name.split_once(' ') {
            None => whole.subcommand(own.name(entry.name)),
            Some((group, name)) => {
                if whole.find_subcommand(group).is_none() {
                    let about = format!("Operations of {group}");
                    let group = Command::new(group).about(about).disable_help_subcommand(true);
                    whole = whole.subcommand(group);
                }
                whole.mut_subcommand(group, |group| group.subcommand(own.name(name)))
            }
        };
    }
    whole
}

fn command(program: &str, entry: &Entry) -> Command {
    let mut command = Command::new(format!("{program} nodetool {}", entry.name))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .about(entry.about);
    for opt in entry.options.iter().chain(GLOBAL) {
        command = command.arg(option(opt));
    }
    for place in entry.places {
        let arg = Arg::new(place.name).help(place.about);
        command = command.arg(match place.many {
            Many::One => arg,
            Many::Any => arg.num_args(0..),
        });
    }
    command
}

fn option(opt: &Opt) -> Arg {
    let mut about = opt.about.to_string();
    let mut arg = Arg::new(opt.long).long(opt.long);
    let mut others = Vec::new();
    for name in opt.also {
        match (name.len(), name.chars().nth(1)) {
            (2, Some(letter)) => arg = arg.short(letter),
            _ => others.push(*name),
        }
        if let Some(long) = name.strip_prefix("--") {
            arg = arg.alias(long);
        }
    }
    if !others.is_empty() {
        about = format!("{about} (also {})", others.join(", "));
    }
    let arg = arg.help(about);
    match opt.takes {
        Takes::Nothing => arg.action(ArgAction::SetTrue),
        Takes::Text => arg.allow_hyphen_values(true),
        Takes::Texts => arg.action(ArgAction::Append).allow_hyphen_values(true),
        Takes::Number => arg.allow_hyphen_values(true).value_parser(clap::value_parser!(i64)),
        Takes::Truth => arg.num_args(0..=1).default_missing_value("true"),
    }
}

/// What is wrong with the line, in the words that scripts look for.
fn refused(error: clap::Error) -> Failure {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let called = |text: &str| text.split([' ', '=', '[']).next().unwrap_or(text).to_string();
    let arg = text(ContextKind::InvalidArg);
    Failure::Line(match error.kind() {
        ErrorKind::UnknownArgument if arg.starts_with('-') => {
            format!("unrecognised option '{arg}'")
        }
        ErrorKind::UnknownArgument => {
            format!("too many arguments: '{arg}' cannot be specified more than once")
        }
        ErrorKind::ArgumentConflict => {
            format!("option '{}' cannot be specified more than once", called(arg))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let value = text(ContextKind::InvalidValue);
            format!("the argument ('{value}') for option '{}' is invalid", called(arg))
        }
        _ => error.to_string().trim_start_matches("error: ").trim_end().to_string(),
    })
}

fn help(program: &str, words: &[String]) -> Result<Asked, Failure> {
    let after = words.iter().skip_while(|word| *word != "help").skip(1);
    let name: Vec<String> = after.take_while(|word| !word.starts_with('-')).cloned().collect();
    if name.is_empty() {
        return Ok(Asked::Text(overview(program)));
    }
    match find(&name) {
        Some(entry) => Ok(Asked::Text(text_of(program, entry))),
        None => {
            let name = name.join(" ");
            let hint =
                nearest(&name).map_or(String::new(), |near| format!("; did you mean {near}?"));
            Err(Failure::Argument(format!("unknown command {name}{hint}")))
        }
    }
}

fn text_of(program: &str, entry: &Entry) -> String {
    command(program, entry).render_long_help().to_string()
}

fn overview(program: &str) -> String {
    let mut text = format!(
        "Usage: {program} nodetool OPERATION [OPTIONS] ...\n\n\
         Inspects and operates a running node, over its REST API.\n\nOperations:\n"
    );
    for entry in commands::all() {
        text += &format!("  {:<26} {}\n", entry.name, entry.about);
    }
    text += &format!("\nOptions of all: `{program} nodetool help OPERATION`.\n");
    text
}

#[cfg(test)]
mod tests;
