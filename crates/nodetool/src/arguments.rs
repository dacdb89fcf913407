//! The arguments of commands: options and places, as commands declare them, and what was given.

use clap::ArgMatches;

/// An option.
#[derive(Clone, Copy)]
pub(crate) struct Opt {
    pub(crate) long: &'static str,
    /// Other ways to write it, with their dashes.
    pub(crate) also: &'static [&'static str],
    pub(crate) takes: Takes,
    pub(crate) about: &'static str,
}

/// What stands behind an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Text,
    /// It may be there more than once.
    Texts,
    Number,
    /// True or false.
    Truth,
}

/// An argument that has no name on the line.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) many: Many,
    pub(crate) about: &'static str,
}

/// How many words a place takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    One,
    Any,
}

impl Opt {
    pub(crate) const fn flag(
        long: &'static str,
        also: &'static [&'static str],
        about: &'static str,
    ) -> Opt {
        Opt { long, also, takes: Takes::Nothing, about }
    }

    pub(crate) const fn text(
        long: &'static str,
        also: &'static [&'static str],
        about: &'static str,
    ) -> Opt {
        Opt { long, also, takes: Takes::Text, about }
    }

    pub(crate) const fn texts(
        long: &'static str,
        also: &'static [&'static str],
        about: &'static str,
    ) -> Opt {
        Opt { long, also, takes: Takes::Texts, about }
    }

    pub(crate) const fn number(
        long: &'static str,
        also: &'static [&'static str],
        about: &'static str,
    ) -> Opt {
        Opt { long, also, takes: Takes::Number, about }
    }

    pub(crate) const fn truth(
        long: &'static str,
        also: &'static [&'static str],
        about: &'static str,
    ) -> Opt {
        Opt { long, also, takes: Takes::Truth, about }
    }
}

/// A place for one word.
pub(crate) const fn one(name: &'static str, about: &'static str) -> Place {
    Place { name, many: Many::One, about }
}

/// A place for all words that are left.
pub(crate) const fn any(name: &'static str, about: &'static str) -> Place {
    Place { name, many: Many::Any, about }
}

/// What every command takes.
pub(crate) const GLOBAL: &[Opt] = &[
    Opt::text("host", &["-h"], "The node's api_address [default: localhost]"),
    Opt::text("port", &["-p"], "The node's api_port [default: 10000]"),
    Opt::text("rest-api-port", &[], "The node's api_port; goes before --port"),
    Opt::text("username", &["-u"], "Ignored: the REST API knows no users"),
    Opt::text("password", &["-pw"], "Ignored: the REST API knows no users"),
    Opt::text("password-file", &["-pwf"], "Ignored: the REST API knows no users"),
    Opt::flag("print-port", &["-pp"], "Ignored"),
    Opt::text("logger-log-level", &[], "Ignored"),
    Opt::flag("help", &[], "Print this text"),
];

pub(crate) const KEYSPACE: Place = one("keyspace", "The keyspace; all, where none is given");
pub(crate) const TABLES: Place = any("table", "Tables of the keyspace; all, where none is given");

/// Options and arguments as they were given.
#[derive(Clone)]
pub(crate) struct Given(ArgMatches);

impl Given {
    /// What clap has understood.
    pub(crate) fn new(matches: ArgMatches) -> Given {
        Given(matches)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.get_flag(name)
    }

    /// The first of an option, or of a place.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get_many::<String>(name)?.next().map(String::as_str)
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        self.0.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect()
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.0.get_one::<i64>(name).copied()
    }
}
