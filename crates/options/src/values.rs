//! The value of every option: where it came from, and who has asked for it.
//!
//! Invariants
//!  - *known-or-refused*: a name that is not in the table stops the start, with the nearest name.
//!  - *source-kept*: each value knows where it came from (default, file, command line, ourselves).

use crate::file::{self, Note, Place};
use crate::kind;
use crate::refused::{Refused, nearest};
use crate::table::{self, OptionRow, rows};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::HashMap;

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File,
    CommandLine,
    /// The node itself, from other options.
    Internal,
}

impl Source {
    /// As `system.config` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::File => "config",
            Source::CommandLine => "cli",
            Source::Internal => "internal",
        }
    }
}

/// The value of an option that somebody gave.
#[derive(Clone, Debug)]
struct Given {
    values: Vec<String>,
    source: Source,
    /// In the file.
    at: Option<Place>,
}

/// The value of every option, by its name in the file (underscores).
#[derive(Clone, Debug, Default)]
pub struct Values {
    given: HashMap<&'static str, Given>,
    asked: Asked,
}

/// Which options somebody asked for, of all copies of some values.
#[derive(Clone, Debug)]
struct Asked(Arc<[AtomicBool]>);

impl Default for Asked {
    fn default() -> Asked {
        Asked(rows().map(|_| AtomicBool::new(false)).collect())
    }
}

impl Asked {
    fn flag(&self, row: &OptionRow) -> Option<&AtomicBool> {
        let at = rows().position(|known| known.name == row.name)?;
        self.0.get(at)
    }
}

impl Values {
    /// Sets an option. A later source replaces an earlier one as a whole.
    pub fn set(&mut self, name: &str, values: Vec<String>, source: Source) -> Result<(), Refused> {
        let Some(row) = OptionRow::of(name) else { return Err(unknown(name)) };
        let values = match (row.kind, source) {
            (kind::Kind::Map(_), Source::CommandLine) => entries(&values),
            _ => values,
        };
        for one in &values {
            row.kind.check(name, one, row.default)?;
        }
        self.given.insert(row.name, Given { values, source, at: None });
        Ok(())
    }

    /// The text of an option: as given, or its default.
    pub fn text(&self, name: &str) -> &str {
        let row = self.ask(name);
        match self.given.get(row.name).and_then(|given| given.values.last()) {
            Some(value) => value,
            None => row.default,
        }
    }

    /// All values of an option that may be repeated.
    pub fn list(&self, name: &str) -> Vec<String> {
        let row = self.ask(name);
        match self.given.get(row.name) {
            Some(given) => given.values.clone(),
            None if row.default.is_empty() => Vec::new(),
            None => row.default.split(',').map(str::to_string).collect(),
        }
    }

    /// As JSON; what is nobody else's business as asterisks.
    pub fn shown(&self, row: &OptionRow) -> String {
        let is_given = self.given.get(row.name).is_some_and(|given| given.values != [""]);
        if row.is_secret && is_given {
            return "\"***\"".to_owned();
        }
        row.kind.shown(&match row.kind.is_plural() {
            true => self.list(row.name),
            false => vec![self.text(row.name).to_owned()],
        })
    }

    fn ask(&self, name: &str) -> &'static OptionRow {
        let row = OptionRow::of(name).expect("an option of the table");
        if let Some(flag) = self.asked.flag(row) {
            flag.store(true, Ordering::Relaxed);
        }
        row
    }

    /// A copy, for those who look at values only to show them.
    pub fn to_show(&self) -> Values {
        Values { asked: Asked::default(), ..self.clone() }
    }

    /// What the command line gave alone.
    pub fn of_line(&self) -> Values {
        let mut values = self.clone();
        values.given.retain(|_, given| given.source == Source::CommandLine);
        values
    }

    /// The options that an operator gave and that nobody asked for, by name.
    pub fn unasked(&self) -> Vec<&'static str> {
        let is_unasked = |row: &&OptionRow| {
            let asked = self.asked.flag(row);
            matches!(self.source(row.name), Source::File | Source::CommandLine)
                && asked.is_some_and(|flag| !flag.load(Ordering::Relaxed))
        };
        rows().filter(is_unasked).map(|row| row.name).collect()
    }

    /// Whether it was given at all, and by whom.
    pub fn source(&self, name: &str) -> Source {
        self.given.get(name).map_or(Source::Default, |given| given.source)
    }

    /// Where in the file it was given.
    pub fn place(&self, name: &str) -> Option<Place> {
        self.given.get(name).and_then(|given| given.at)
    }

    /// A number; `Kind::check` has seen to it that it is one.
    pub fn integer(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A flag.
    pub fn flag(&self, name: &str) -> bool {
        kind::flag_of(self.text(name)).unwrap_or(false)
    }

    /// Sets what a YAML file holds. Names of old Cassandra options that mean nothing any more give
    /// a warning each. All that is wrong is told at once, and then nothing is set.
    pub fn read_file(&mut self, text: &str) -> Result<Vec<Note>, Vec<Note>> {
        let (mut warnings, mut faults, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for entry in file::parse(text).map_err(|fault| vec![fault])? {
            if table::LEGACY.contains(&entry.name.as_str()) {
                let text = format!("option {} has no effect and is ignored", entry.name);
                warnings.push(Note::new(entry.at, text));
                continue;
            }
            match given_by(&entry) {
                Ok(Some(given)) => found.push(given),
                Ok(None) => {}
                Err(wrong) => faults.extend(wrong),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        for (row, given) in found {
            if self.source(row.name) != Source::CommandLine {
                self.given.insert(row.name, given);
            }
        }
        Ok(warnings)
    }

    /// As [`Values::read_file`], for who only wants to know: what is refused is passed over.
    /// Returns why, one by one.
    pub fn read_file_leniently(&mut self, text: &str) -> Result<Vec<String>, Refused> {
        let mut complaints = Vec::new();
        let entries = file::parse(text).map_err(|fault| Refused(fault.text))?;
        for entry in entries {
            if table::LEGACY.contains(&entry.name.as_str()) {
                complaints.push(format!("Option is deprecated : {}", entry.name));
            } else if OptionRow::of(&entry.name).is_none() {
                complaints.push(format!("Unknown option : {}", entry.name));
            } else {
                match given_by(&entry) {
                    Ok(Some((row, given))) => drop(self.given.insert(row.name, given)),
                    Ok(None) => {}
                    Err(faults) => complaints.extend(faults.into_iter().map(|fault| fault.text)),
                }
            }
        }
        Ok(complaints)
    }
}

/// What an entry of a file sets; nothing if it has no value.
fn given_by(entry: &file::Entry) -> Result<Option<(&'static OptionRow, Given)>, Vec<Note>> {
    let name = entry.name.as_str();
    let refuse = |at, text| Err(vec![Note::new(at, text)]);
    let Some(row) = OptionRow::of(name) else { return refuse(entry.at, unknown(name).0) };
    if row.is_of_line {
        let text = format!("option {name}: it belongs on the command line, not in a file");
        return refuse(entry.at, text);
    }
    let texts = entry.value.texts(name, row.kind).map_err(|fault| vec![fault])?;
    let checked = texts.iter().filter_map(|(text, at)| {
        let refused = row.kind.check(name, text, row.default).err()?;
        Some(Note::new(*at, refused.0))
    });
    let faults: Vec<Note> = checked.collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    let values = texts.into_iter().map(|(text, _)| text).collect();
    let given = Given { values, source: Source::File, at: Some(entry.at) };
    Ok((!entry.value.is_nothing(row.kind)).then_some((row, given)))
}

/// The refusal of an unknown name, with the nearest known one.
pub(crate) fn unknown(name: &str) -> Refused {
    let wanted = name.replace('-', "_");
    match nearest(&wanted, rows().map(|row| row.name)) {
        Some(near) => Refused(format!("unknown option {name}; did you mean {near}?")),
        None => Refused(format!("unknown option {name}; --help lists the options")),
    }
}

/// The entries of a map that are one word of the command line, with commas between them. A comma is
/// part of a value where no `key=` follows.
fn entries(words: &[String]) -> Vec<String> {
    let begins = |part: &str| {
        let key = part.split_once('=').map_or("", |(key, _)| key);
        !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let mut entries: Vec<String> = Vec::new();
    for word in words {
        for (at, part) in word.split(',').enumerate() {
            match entries.last_mut() {
                Some(last) if 0 < at && !begins(part) => *last = format!("{last},{part}"),
                _ => entries.push(part.to_owned()),
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests;
