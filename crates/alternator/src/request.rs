//! The parameters of a request, taken out of its JSON as they are asked for.

use crate::error::Error;
use crate::expression::{Placeholders, Programs};
use crate::json::{self, Json, Kind};
use std::borrow::Cow;

/// Parameters that are expressions.
const EXPRESSIONS: [&str; 5] = [
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
];

fn no_object(what: &str, found: Kind) -> Error {
    Error::serialization(format!("{what} is {}, not an object", found.name()))
}

/// Refuses parameters, called `what`, that are no object.
pub(crate) fn check_object(found: Kind, what: &str) -> Result<(), Error> {
    if found == Kind::Object { Ok(()) } else { Err(no_object(what, found)) }
}

/// What a parameter that has to be there is missed with.
pub(crate) fn missing(name: &str) -> Error {
    Error::validation(format!("One or more parameter values were invalid: {name} is missing"))
}

/// Room for parameters, more than most requests have.
const FIELDS: usize = 8;

/// An object of parameters: of a request, or of a part of one.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    fields: Vec<(Cow<'a, str>, Json<'a>)>,
}

impl<'a> Request<'a> {
    /// Of a body.
    pub(crate) fn parse(body: &'a str) -> Result<Request<'a>, Error> {
        let mut fields = Vec::with_capacity(FIELDS);
        match Json::parse_with(body, |name, value| fields.push((name, value)))?.kind() {
            Kind::Object => Ok(Request { fields }),
            other => Err(no_object("the request", other)),
        }
    }

    /// Of a body that may be no text.
    pub(crate) fn parse_bytes(body: &'a [u8]) -> Result<Request<'a>, Error> {
        Request::parse(json::text(body)?)
    }

    /// Of an object that is called `what`.
    pub(crate) fn of(json: Json<'a>, what: &str) -> Result<Request<'a>, Error> {
        match json.kind() {
            Kind::Object => {
                let mut fields = Vec::with_capacity(FIELDS);
                fields.extend(json.members());
                Ok(Request { fields })
            }
            other => Err(no_object(what, other)),
        }
    }

    /// A parameter; `null` is none.
    pub(crate) fn get(&self, name: &str) -> Option<Json<'a>> {
        let (_, json) = self.fields.iter().find(|(known, _)| known == name)?;
        Some(*json).filter(|json| json.kind() != Kind::Null)
    }

    /// One that has to be there.
    pub(crate) fn need(&self, name: &str) -> Result<Json<'a>, Error> {
        self.get(name).ok_or_else(|| missing(name))
    }

    pub(crate) fn string(&self, name: &str) -> Result<Option<Cow<'a, str>>, Error> {
        let Some(json) = self.get(name) else { return Ok(None) };
        json.string().map(Some).ok_or_else(|| wrong(name, json, "a string"))
    }

    pub(crate) fn need_string(&self, name: &str) -> Result<Cow<'a, str>, Error> {
        let json = self.need(name)?;
        json.string().ok_or_else(|| wrong(name, json, "a string"))
    }

    pub(crate) fn bool(&self, name: &str) -> Result<Option<bool>, Error> {
        let Some(json) = self.get(name) else { return Ok(None) };
        json.bool().map(Some).ok_or_else(|| wrong(name, json, "a boolean"))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Error> {
        let Some(json) = self.get(name) else { return Ok(None) };
        json.integer().map(Some).ok_or_else(|| wrong(name, json, "a whole number"))
    }

    /// `Limit`: how much is asked for, of so much at most; that without it.
    pub(crate) fn limit(&self, max: usize) -> Result<usize, Error> {
        let Some(limit) = self.integer("Limit")? else { return Ok(max) };
        usize::try_from(limit).ok().filter(|limit| (1..=max).contains(limit)).ok_or_else(|| {
            Error::validation(format!(
                "1 validation error detected: Value '{limit}' at 'limit' failed to satisfy \
                 constraint: Limit must be between 1 and {max}"
            ))
        })
    }

    /// An object.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Json<'a>>, Error> {
        let Some(json) = self.get(name) else { return Ok(None) };
        match json.kind() {
            Kind::Object => Ok(Some(json)),
            _ => Err(wrong(name, json, "an object")),
        }
    }

    pub(crate) fn need_object(&self, name: &str) -> Result<Json<'a>, Error> {
        self.need(name)?;
        self.object(name)?.ok_or_else(|| Error::internal(format!("{name} is gone")))
    }

    /// A list.
    pub(crate) fn list(&self, name: &str) -> Result<Option<Json<'a>>, Error> {
        let Some(json) = self.get(name) else { return Ok(None) };
        match json.kind() {
            Kind::Array => Ok(Some(json)),
            _ => Err(wrong(name, json, "a list")),
        }
    }

    /// A list of strings.
    pub(crate) fn strings(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let one = |json: Json<'a>| {
            json.string().map(Cow::into_owned).ok_or_else(|| wrong(name, json, "a string"))
        };
        list.elements().map(one).collect::<Result<_, _>>().map(Some)
    }

    /// One of these words; the first where it says none.
    pub(crate) fn word(
        &self,
        name: &str,
        words: &'static [&'static str],
    ) -> Result<&'static str, Error> {
        let Some(given) = self.string(name)? else { return Ok(words[0]) };
        words.iter().find(|word| **word == given).copied().ok_or_else(|| {
            Error::validation(format!(
                "1 validation error detected: Value '{given}' at '{name}' failed to satisfy \
                 constraint: Member must satisfy enum value set: [{}]",
                words.join(", ")
            ))
        })
    }

    /// What placeholders stand for, in texts that may be among those that were parsed before.
    pub(crate) fn placeholders<'p>(&self, programs: &'p Programs) -> Result<Placeholders<'p>, Error>
    where
        'a: 'p,
    {
        let has_expressions = EXPRESSIONS.iter().any(|name| self.get(name).is_some());
        let (names, values) =
            (self.get("ExpressionAttributeNames"), self.get("ExpressionAttributeValues"));
        Ok(Placeholders::of(names, values, has_expressions)?.in_texts_of(programs))
    }

    /// Refuses old parameters beside expressions.
    pub(crate) fn check_styles(&self, old: &[&str], new: &[&str]) -> Result<(), Error> {
        let is_given = |name: &&str| self.get(name).is_some();
        if !old.iter().any(is_given) || !new.iter().any(is_given) {
            return Ok(());
        }
        let given = |names: &[&str]| {
            let given = names.iter().copied().filter(is_given);
            given.collect::<Vec<_>>().join(", ")
        };
        Err(Error::validation(format!(
            "Can not use both expression and non-expression parameters in the same request: \
             Non-expression parameters: {{{}}} Expression parameters: {{{}}}",
            given(old),
            given(new)
        )))
    }
}

pub(crate) fn wrong(name: &str, json: Json<'_>, expected: &str) -> Error {
    Error::serialization(format!("{name} is {}, not {expected}", json.kind().name()))
}
