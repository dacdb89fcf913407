//! What a command is.

use crate::session::{Failure, Session};
use std::pin::Pin;

/// How a command ends.
pub(crate) type Done = Result<(), Failure>;

/// A command that runs.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Done> + 'a>>;

/// A command.
pub(crate) struct Entry {
    /// One word, or two.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) options: &'static [Opt],
    pub(crate) places: &'static [Place],
    pub(crate) run: for<'a> fn(&'a mut Session) -> Running<'a>,
}

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
