//! Options: one table of names, kinds and defaults; read from a YAML file and the command line.
//!
//! Every option of ScyllaDB's configuration is known here, so that its launch scripts and files
//! work unchanged; what a node of today does not use yet is stored and shown, and does nothing.
//!
//! Invariants
//!  - *known-or-refused*: a name that is not in the table stops the start, with the nearest name.
//!  - *source-kept*: each value knows where it came from (default, file or command line).

mod file;
mod line;
mod live;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::HashMap;

pub(crate) use line::{Invocation, parse_line};
pub(crate) use live::offers;
pub(crate) use table::{OPTIONS, OptionRow};

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File,
    CommandLine,
}

impl Source {
    /// As `system.config` shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::File => "config",
            Source::CommandLine => "cli",
        }
    }
}

/// Why options are refused, for the person who typed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of every option, by its name in the file (underscores).
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    given: HashMap<String, (Vec<String>, Source)>,
    asked: Asked,
}

/// Which options somebody asked for, of all copies of some values.
#[derive(Clone, Debug)]
struct Asked(Arc<[AtomicBool]>);

impl Default for Asked {
    fn default() -> Asked {
        Asked(OPTIONS.iter().map(|_| AtomicBool::new(false)).collect())
    }
}

impl Asked {
    fn flag(&self, row: &OptionRow) -> Option<&AtomicBool> {
        let at = OPTIONS.iter().position(|known| known.name == row.name)?;
        self.0.get(at)
    }
}

impl Values {
    /// Sets an option. A later source replaces an earlier one as a whole.
    pub(crate) fn set(
        &mut self,
        name: &str,
        value: Vec<String>,
        source: Source,
    ) -> Result<(), Refused> {
        let Some(row) = OptionRow::of(name) else { return Err(unknown(name)) };
        for one in &value {
            row.kind.check(name, one)?;
        }
        self.given.insert(row.name.to_string(), (value, source));
        Ok(())
    }

    /// The text of an option: as given, or its default.
    pub(crate) fn text(&self, name: &str) -> &str {
        let row = self.ask(name);
        match self.given.get(row.name).and_then(|(values, _)| values.last()) {
            Some(value) => value,
            None => row.default,
        }
    }

    /// All values of an option that may be repeated.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let row = self.ask(name);
        match self.given.get(row.name) {
            Some((values, _)) => values.clone(),
            None if row.default.is_empty() => Vec::new(),
            None => vec![row.default.to_string()],
        }
    }

    fn ask(&self, name: &str) -> &'static OptionRow {
        let row = OptionRow::of(name).expect("an option of the table");
        if let Some(flag) = self.asked.flag(row) {
            flag.store(true, Ordering::Relaxed);
        }
        row
    }

    /// A copy, for those who look at values only to show them.
    pub(crate) fn to_show(&self) -> Values {
        Values { asked: Asked::default(), ..self.clone() }
    }

    /// The options that were given and that nobody asked for, by name.
    pub(crate) fn unasked(&self) -> Vec<&'static str> {
        let is_unasked = |row: &&OptionRow| {
            let asked = self.asked.flag(row);
            self.source(row.name) != Source::Default
                && asked.is_some_and(|flag| !flag.load(Ordering::Relaxed))
        };
        OPTIONS.iter().filter(is_unasked).map(|row| row.name).collect()
    }

    /// Whether it was given at all, and by whom.
    pub(crate) fn source(&self, name: &str) -> Source {
        self.given.get(name).map_or(Source::Default, |(_, source)| *source)
    }

    /// A number; `Kind::check` has seen to it that it is one.
    pub(crate) fn integer(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A flag.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name), "1" | "true" | "yes" | "on")
    }

    /// Sets what a YAML file holds. Names of old Cassandra options that mean nothing any more give
    /// a warning each.
    pub(crate) fn read_file(&mut self, text: &str) -> Result<Vec<String>, Refused> {
        let mut warnings = Vec::new();
        for (name, value) in file::parse(text)? {
            if table::LEGACY.contains(&name.as_str()) {
                warnings.push(format!("option {name} has no effect and is ignored"));
                continue;
            }
            let Some(row) = OptionRow::of(&name) else { return Err(unknown(&name)) };
            if self.source(row.name) != Source::CommandLine {
                self.set(&name, value, Source::File)?;
            }
        }
        Ok(warnings)
    }
}

impl Values {
    /// As [`Values::read_file`], for who only wants to know: what is refused is passed over.
    /// Returns why, one by one.
    pub(crate) fn read_file_leniently(&mut self, text: &str) -> Result<Vec<String>, Refused> {
        let mut complaints = Vec::new();
        for (name, value) in file::parse(text)? {
            if table::LEGACY.contains(&name.as_str()) {
                complaints.push(format!("Option is deprecated : {name}"));
            } else if OptionRow::of(&name).is_none() {
                complaints.push(format!("Unknown option : {name}"));
            } else if let Err(refused) = self.set(&name, value, Source::File) {
                complaints.push(refused.to_string());
            }
        }
        Ok(complaints)
    }
}

/// The refusal of an unknown name, with the nearest known one.
pub(crate) fn unknown(name: &str) -> Refused {
    let wanted = name.replace('-', "_");
    let near = OPTIONS.iter().map(|row| (distance(&wanted, row.name), row.name)).min();
    match near {
        Some((far, near)) if far <= wanted.len() / 3 + 1 => {
            Refused(format!("unknown option {name}; did you mean {near}?"))
        }
        _ => Refused(format!("unknown option {name}; --help lists the options")),
    }
}

/// How many letters must be inserted, removed or replaced to get from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The text of an options file. Read before any shard runs, so blocking harms nobody.
#[allow(clippy::disallowed_methods, reason = "no shard runs yet")]
pub(crate) fn read_text(path: &std::path::Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

/// Bytes of a size as people write it: `200M`, `1G`, `64k`, `1073741824`.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().trim_end_matches("ib") {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "t" | "tb" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests;
