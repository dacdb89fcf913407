//! `ExpressionAttributeNames` and `ExpressionAttributeValues`: what placeholders stand for.
//!
//! Invariants
//!  - *all-used*: a placeholder that no expression of the request uses is refused.

use super::programs::Programs;
use crate::error::Error;
use crate::json::{Cursor, Json, Kind};
use crate::value::{Value, check_name};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};

const NAMES: &str = "ExpressionAttributeNames";
const VALUES: &str = "ExpressionAttributeValues";

/// Those of a request.
#[derive(Debug, Default)]
pub struct Placeholders<'a> {
    names: Known<'a, Cow<'a, str>>,
    values: Known<'a, Given<'a>>,
    /// What the texts may say in which they stand.
    programs: Option<&'a Programs>,
}

/// What a placeholder stands for.
#[derive(Debug)]
struct One<'a, T> {
    name: Cow<'a, str>,
    is: T,
    used: Cell<bool>,
}

/// All of a kind.
#[derive(Debug)]
struct Known<'a, T> {
    /// In order of their names.
    all: Vec<One<'a, T>>,
    /// Behind the one that was used last: most programs use them in this order.
    next: Cell<usize>,
}

impl<T> Default for Known<'_, T> {
    fn default() -> Self {
        Known::with_room_for(0)
    }
}

/// A value: whoever uses it first has it, others make it again.
#[derive(Debug)]
struct Given<'a> {
    json: Json<'a>,
    made: RefCell<Option<Value>>,
}

impl<'a, T> Known<'a, T> {
    fn with_room_for(count: usize) -> Self {
        Known { all: Vec::with_capacity(count), next: Cell::new(0) }
    }

    fn add(&mut self, name: Cow<'a, str>, is: T) {
        self.all.push(One { name, is, used: Cell::new(false) });
    }

    /// Puts them in order; of those with one name the last counts.
    fn sort(&mut self) {
        if !self.all.is_sorted_by(|a, b| a.name < b.name) {
            self.all.sort_by(|a, b| a.name.cmp(&b.name));
            self.all.dedup_by(|later, earlier| {
                let is_same = later.name == earlier.name;
                if is_same {
                    std::mem::swap(later, earlier);
                }
                is_same
            });
        }
    }

    fn get(&self, name: &str) -> Option<&T> {
        let next = self.next.get();
        let at = match self.all.get(next) {
            Some(one) if one.name == name => next,
            _ => self.all.binary_search_by(|one| (*one.name).cmp(name)).ok()?,
        };
        self.next.set(at + 1);
        self.all[at].used.set(true);
        Some(&self.all[at].is)
    }

    fn check_used(&self, what: &str) -> Result<(), Error> {
        let unused = self.all.iter().filter(|one| !one.used.get());
        let unused: Vec<&str> = unused.map(|one| &*one.name).collect();
        match unused.is_empty() {
            true => Ok(()),
            false => Err(Error::validation(format!(
                "Value provided in {what} unused in expressions: keys: {{{}}}",
                unused.join(", ")
            ))),
        }
    }
}

/// Room for placeholders, more than most requests have.
const ROOM: usize = 8;

impl<'a> Placeholders<'a> {
    /// Of these parameters. `has_expressions`: whether the request has any that may use them.
    pub fn of(
        names: Option<Json<'a>>,
        values: Option<Json<'a>>,
        has_expressions: bool,
    ) -> Result<Placeholders<'a>, Error> {
        let mut found = Placeholders::default();
        for (given, what) in [(names, NAMES), (values, VALUES)] {
            let Some(given) = given else { continue };
            check(given, what, has_expressions)?;
        }
        for (name, value) in names.into_iter().flat_map(Json::members) {
            let refuse = |why: &str| Error::validation(format!("{NAMES} {why}: {name}"));
            if !is_placeholder(&name, '#') {
                return Err(refuse("contains invalid key: Syntax error; key"));
            }
            let value = value
                .string()
                .ok_or_else(|| Error::serialization(format!("{NAMES}: {name} is not a string")))?;
            check_name(&value).map_err(|error| Error {
                message: format!("{NAMES} contains invalid value: {}; key: {name}", error.message),
                ..error
            })?;
            found.names.add(name, value);
        }
        found.names.sort();
        if values.is_some() {
            found.values = Known::with_room_for(ROOM);
        }
        let mut rest = values.map(Json::cursor);
        rest.iter_mut().for_each(Cursor::open);
        while let Some(rest) = &mut rest
            && let Some(name) = rest.member()
        {
            if !is_placeholder(&name, ':') {
                return Err(Error::validation(format!(
                    "{VALUES} contains invalid key: Syntax error; key: \"{name}\""
                )));
            }
            let before = rest.clone();
            let made = Value::take(rest, 1).map_err(|error| Error {
                message: format!("{VALUES} contains invalid value: {}; key: {name}", error.message),
                ..error
            })?;
            let json = rest.since(&before);
            found.values.add(name, Given { json, made: RefCell::new(Some(made)) });
        }
        found.values.sort();
        Ok(found)
    }

    /// They stand in texts that may be among these.
    pub fn in_texts_of(self, programs: &'a Programs) -> Placeholders<'a> {
        Placeholders { programs: Some(programs), ..self }
    }

    pub(super) fn programs(&self) -> Option<&'a Programs> {
        self.programs
    }

    /// The name that `#name` stands for, in an expression of that parameter.
    pub fn name(&self, reference: &str, what: &str) -> Result<&str, Error> {
        let known = self.names.get(reference).ok_or_else(|| {
            Error::validation(format!(
                "Invalid {what}: An expression attribute name used in the document path is not \
                 defined; attribute name: {reference}"
            ))
        })?;
        Ok(known)
    }

    /// The value that `:value` stands for.
    pub fn value(&self, reference: &str, what: &str) -> Result<Value, Error> {
        let known = self.values.get(reference).ok_or_else(|| {
            Error::validation(format!(
                "Invalid {what}: An expression attribute value used in expression is not defined; \
                 attribute value: {reference}"
            ))
        })?;
        known.made.take().map_or_else(|| Value::parse(known.json), Ok)
    }

    /// *all-used*
    pub fn check_used(&self) -> Result<(), Error> {
        self.names.check_used(NAMES)?;
        self.values.check_used(VALUES)
    }
}

fn check(given: Json<'_>, what: &str, has_expressions: bool) -> Result<(), Error> {
    if given.kind() != Kind::Object {
        return Err(Error::serialization(format!("{what} is not an object")));
    }
    if !has_expressions {
        return Err(Error::validation(format!(
            "{what} can only be specified when using expressions"
        )));
    }
    match given.members().next() {
        Some(_) => Ok(()),
        None => Err(Error::validation(format!("{what} must not be empty"))),
    }
}

fn is_placeholder(name: &str, sign: char) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.strip_prefix(sign).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_part))
}
