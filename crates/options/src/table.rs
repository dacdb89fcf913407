//! The table of options: name, kind, default, what it is for, whether it changes while a node runs
//! and whether anything depends on it yet. One file for each group.
//!
//! A row is added where its group is: a constructor for its kind, then `.live()` where it changes
//! while the node runs and `.idle()` as long as nothing depends on it. `docs/options.md` is made
//! from the table by `nereid config reference`.

mod alternator;
mod cluster;
mod identity;
mod legacy;
mod network;
mod requests;
mod rest;
mod runtime;
mod security;
mod storage;
mod tablets;

use crate::kind::Kind;
pub use legacy::LEGACY;

/// One option.
#[derive(Debug)]
pub struct OptionRow {
    pub name: &'static str,
    pub kind: Kind,
    pub default: &'static str,
    /// One line, without its kind and its default.
    pub about: &'static str,
    pub short: Option<char>,
    /// Whether it changes while the node runs.
    pub is_live: bool,
    /// Whether nothing depends on it yet: it is known, stored and shown.
    pub is_idle: bool,
    /// Whether it is about one start, and has no place in a file.
    pub is_of_line: bool,
    /// Whether its value is nobody's business but the node's.
    pub is_secret: bool,
}

/// Options that belong together.
#[derive(Debug)]
pub struct Group {
    pub name: &'static str,
    pub rows: &'static [OptionRow],
}

/// All options.
pub const GROUPS: &[Group] = &[
    Group { name: "Process and runtime", rows: runtime::ROWS },
    Group { name: "Identity and folders", rows: identity::ROWS },
    Group { name: "Addresses and ports", rows: network::ROWS },
    Group { name: "Time limits", rows: requests::TIMES },
    Group { name: "Limits and guardrails of requests", rows: requests::LIMITS },
    Group { name: "Commitlog", rows: storage::LOG },
    Group { name: "SSTables, caches and compaction", rows: storage::SSTABLES },
    Group { name: "Reads at the same time", rows: storage::SEMAPHORES },
    Group { name: "Cluster", rows: cluster::ROWS },
    Group { name: "Repair and streaming", rows: cluster::REPAIR },
    Group { name: "Hints, batches and views", rows: cluster::HINTS },
    Group { name: "Tablets", rows: tablets::ROWS },
    Group { name: "Security", rows: security::ROWS },
    Group { name: "Audit", rows: security::AUDIT },
    Group { name: "Functions of users", rows: rest::FUNCTIONS },
    Group { name: "Alternator", rows: alternator::ROWS },
    Group { name: "Search for vectors", rows: rest::VECTORS },
    Group { name: "Everything else", rows: rest::ROWS },
];

/// Every option, in the order of the groups.
pub fn rows() -> impl Iterator<Item = &'static OptionRow> {
    GROUPS.iter().flat_map(|group| group.rows)
}

impl OptionRow {
    /// By name, with underscores or dashes.
    pub fn of(name: &str) -> Option<&'static OptionRow> {
        let is_it = |known: &str| {
            let same = |(a, b): (u8, u8)| a == b || (a == b'_' && b == b'-');
            known.len() == name.len() && known.bytes().zip(name.bytes()).all(same)
        };
        rows().find(|row| is_it(row.name))
    }

    /// Its name on a command line, without the dashes before it.
    pub fn long(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The line of `--help`.
    pub fn help(&self) -> String {
        let mut text = self.about.to_string();
        if !self.default.is_empty() {
            text.push_str(&format!(" [default: {}]", self.default));
        }
        if self.is_idle {
            text.push_str(" (no effect yet)");
        }
        text
    }

    const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        about: &'static str,
    ) -> OptionRow {
        OptionRow {
            name,
            kind,
            default,
            about,
            short: None,
            is_live: false,
            is_idle: false,
            is_of_line: false,
            is_secret: false,
        }
    }

    const fn short(self, letter: char) -> OptionRow {
        OptionRow { short: Some(letter), ..self }
    }

    const fn live(self) -> OptionRow {
        OptionRow { is_live: true, ..self }
    }

    const fn idle(self) -> OptionRow {
        OptionRow { is_idle: true, ..self }
    }

    const fn of_line(self) -> OptionRow {
        OptionRow { is_of_line: true, ..self }
    }

    const fn secret(self) -> OptionRow {
        OptionRow { is_secret: true, ..self }
    }
}

type Words = &'static [&'static str];

/// What becomes of something that is seldom wise.
const MODES: Words = &["true", "warn", "false", "1", "0"];

const fn text(name: &'static str, default: &'static str, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::Text, default, about)
}

const fn number(name: &'static str, default: &'static str, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::Number, default, about)
}

const fn decimal(name: &'static str, default: &'static str, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::Decimal, default, about)
}

const fn port(name: &'static str, default: &'static str, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::Port, default, about)
}

const fn flag(name: &'static str, default: &'static str, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::Flag, default, about)
}

const fn size(name: &'static str, default: &'static str, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::Size, default, about)
}

const fn word(
    name: &'static str,
    default: &'static str,
    words: Words,
    about: &'static str,
) -> OptionRow {
    OptionRow::new(name, Kind::Word(words), default, about)
}

const fn class(
    name: &'static str,
    default: &'static str,
    words: Words,
    about: &'static str,
) -> OptionRow {
    OptionRow::new(name, Kind::Class(words), default, about)
}

const fn list(name: &'static str, default: &'static str, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::List, default, about)
}

const fn words(
    name: &'static str,
    default: &'static str,
    words: Words,
    about: &'static str,
) -> OptionRow {
    OptionRow::new(name, Kind::Words(words), default, about)
}

const fn map(name: &'static str, keys: Words, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::Map(keys), "", about)
}

const fn tree(name: &'static str, about: &'static str) -> OptionRow {
    OptionRow::new(name, Kind::Tree, "", about)
}
