//! What follows `WITH`, looked up by name and read as numbers, words and maps.

use crate::error::Error;
use std::str::FromStr;
use syntax::ast::{Property, PropertyValue};

/// Sub-options by name.
pub(super) type Options = Vec<(String, String)>;

/// The properties of a statement; the parser has seen to it that each is there once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Properties<'a>(pub(super) &'a [Property]);

impl<'a> Properties<'a> {
    /// An error for the first property that is none of these.
    pub(super) fn refuse_unknown(&self, known: &[&str]) -> Result<(), Error> {
        match self.0.iter().find(|property| !known.contains(&property.name.text.as_str())) {
            Some(property) => {
                Err(Error::Syntax(format!("Unknown property '{}'", property.name.text)))
            }
            None => Ok(()),
        }
    }

    /// The value of a property.
    pub(super) fn get(&self, name: &str) -> Option<&'a PropertyValue> {
        self.0.iter().find(|property| property.name.text == name).map(|property| &property.value)
    }

    /// A constant, as it was written.
    pub(super) fn scalar(&self, name: &str) -> Result<Option<&'a str>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(PropertyValue::Scalar(literal)) => Ok(Some(&literal.text)),
            Some(_) => Err(Error::Syntax(format!(
                "Invalid value for property '{name}'. It should be a string"
            ))),
        }
    }

    /// `kind` is what messages call a `T`.
    fn parsed<T: FromStr>(&self, name: &str, kind: &str) -> Result<Option<T>, Error> {
        let Some(text) = self.scalar(name)? else { return Ok(None) };
        match text.trim().parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Error::Syntax(format!("Invalid {kind} value {text} for '{name}'"))),
        }
    }

    /// A whole number.
    pub(super) fn int(&self, name: &str) -> Result<Option<i32>, Error> {
        self.parsed(name, "integer")
    }

    /// A number.
    pub(super) fn double(&self, name: &str) -> Result<Option<f64>, Error> {
        self.parsed(name, "double")
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, Error> {
        let Some(text) = self.scalar(name)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Ok(Some(true)),
            "false" | "0" | "no" => Ok(Some(false)),
            _ => Err(Error::Syntax(format!("Invalid boolean value {text} for '{name}'"))),
        }
    }

    /// A map of constants.
    pub(super) fn map(&self, name: &str) -> Result<Option<Options>, Error> {
        let wrong =
            || Error::Syntax(format!("Invalid value for property '{name}'. It should be a map"));
        let entries = match self.get(name) {
            None => return Ok(None),
            Some(PropertyValue::Map(entries)) => entries,
            Some(_) => return Err(wrong()),
        };
        let mut options = Options::new();
        for (key, value) in entries {
            let value = match value {
                PropertyValue::Scalar(value) => value,
                PropertyValue::Null => {
                    let key = &key.text;
                    let text = format!("Invalid null value of '{key}' of property '{name}'");
                    return Err(Error::Syntax(text));
                }
                _ => return Err(wrong()),
            };
            put(&mut options, &key.text, value.text.clone());
        }
        Ok(Some(options))
    }
}

/// Sets an option, in the place of an earlier one of that name.
pub(super) fn put(options: &mut Options, name: &str, value: String) {
    match options.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = value,
        None => options.push((name.to_owned(), value)),
    }
}

/// An option's value.
pub(super) fn get<'a>(options: &'a [(String, String)], name: &str) -> Option<&'a str> {
    options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
