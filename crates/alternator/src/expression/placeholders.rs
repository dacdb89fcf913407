//! `ExpressionAttributeNames` and `ExpressionAttributeValues`: what placeholders stand for.
//!
//! Invariants
//!  - *all-used*: a placeholder that no expression of the request uses is refused.

use crate::error::Error;
use crate::json::{Json, Kind};
use crate::value::{Value, check_name};
use std::cell::Cell;
use std::collections::BTreeMap;

const NAMES: &str = "ExpressionAttributeNames";
const VALUES: &str = "ExpressionAttributeValues";

/// Those of a request.
#[derive(Debug, Default)]
pub struct Placeholders {
    names: BTreeMap<String, Known<String>>,
    values: BTreeMap<String, Known<Value>>,
}

#[derive(Debug)]
struct Known<T> {
    is: T,
    used: Cell<bool>,
}

impl<T> Known<T> {
    fn new(is: T) -> Known<T> {
        Known { is, used: Cell::new(false) }
    }
}

impl Placeholders {
    /// Of these parameters. `has_expressions`: whether the request has any that may use them.
    pub fn of(
        names: Option<Json<'_>>,
        values: Option<Json<'_>>,
        has_expressions: bool,
    ) -> Result<Placeholders, Error> {
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
            found.names.insert(name.to_string(), Known::new(value.into_owned()));
        }
        for (name, value) in values.into_iter().flat_map(Json::members) {
            if !is_placeholder(&name, ':') {
                return Err(Error::validation(format!(
                    "{VALUES} contains invalid key: Syntax error; key: \"{name}\""
                )));
            }
            let value = Value::parse(value).map_err(|error| Error {
                message: format!("{VALUES} contains invalid value: {}; key: {name}", error.message),
                ..error
            })?;
            found.values.insert(name.to_string(), Known::new(value));
        }
        Ok(found)
    }

    /// The name that `#name` stands for, in an expression of that parameter.
    pub fn name(&self, reference: &str, what: &str) -> Result<&str, Error> {
        let known = self.names.get(reference).ok_or_else(|| {
            Error::validation(format!(
                "Invalid {what}: An expression attribute name used in the document path is not \
                 defined; attribute name: {reference}"
            ))
        })?;
        known.used.set(true);
        Ok(&known.is)
    }

    /// The value that `:value` stands for.
    pub fn value(&self, reference: &str, what: &str) -> Result<&Value, Error> {
        let known = self.values.get(reference).ok_or_else(|| {
            Error::validation(format!(
                "Invalid {what}: An expression attribute value used in expression is not defined; \
                 attribute value: {reference}"
            ))
        })?;
        known.used.set(true);
        Ok(&known.is)
    }

    /// *all-used*
    pub fn check_used(&self) -> Result<(), Error> {
        check_all(&self.names, NAMES)?;
        check_all(&self.values, VALUES)
    }
}

fn check_all<T>(all: &BTreeMap<String, Known<T>>, what: &str) -> Result<(), Error> {
    let unused = all.iter().filter(|(_, known)| !known.used.get());
    let unused: Vec<&str> = unused.map(|(name, _)| name.as_str()).collect();
    match unused.is_empty() {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "Value provided in {what} unused in expressions: keys: {{{}}}",
            unused.join(", ")
        ))),
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
