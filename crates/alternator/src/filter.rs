//! Conditions and projections of a request, in the words of expressions or in old parameters.

use crate::error::Error;
use crate::evaluate::{find, holds};
use crate::expression::{Condition, Path, Placeholders, Selection, condition, projection};
use crate::legacy;
use crate::request::Request;
use crate::value::{Map, check_name};

/// A condition, of an expression or of an old parameter.
pub(crate) fn condition_of(
    request: &Request<'_>,
    expression: &str,
    old: &str,
    known: &Placeholders<'_>,
) -> Result<Option<Condition>, Error> {
    if let Some(text) = request.string(expression)? {
        return condition(&text, expression, known).map(Some);
    }
    let joined = request.string("ConditionalOperator")?;
    match request.object(old)? {
        Some(json) => legacy::condition(json, old, joined.as_deref()),
        None if joined.is_some() => Err(Error::validation(format!(
            "ConditionalOperator cannot be used without Filter or Expected: {old} is not there"
        ))),
        None => Ok(None),
    }
}

/// What of items is wanted; `None`: all.
pub(crate) fn selection_of(
    request: &Request<'_>,
    known: &Placeholders<'_>,
) -> Result<Option<Selection>, Error> {
    if let Some(text) = request.string("ProjectionExpression")? {
        return projection(&text, "ProjectionExpression", known).map(Some);
    }
    let Some(names) = request.strings("AttributesToGet")? else { return Ok(None) };
    if names.is_empty() {
        return Err(Error::validation("AttributesToGet must not be empty: a list of length 1"));
    }
    names.iter().try_for_each(|name| check_name(name))?;
    let mut sorted = names.clone();
    sorted.sort();
    if let Some(two) = sorted.windows(2).find(|two| two[0] == two[1]) {
        return Err(Error::validation(format!(
            "One or more parameter values were invalid: Duplicate value in attribute name: {}",
            two[0]
        )));
    }
    Ok(Some(Selection::of_names(names.into_iter())))
}

/// Which items of a read are answered, and what of them.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) condition: Option<Condition>,
    pub(crate) selection: Option<Selection>,
    /// Instead of a selection.
    pub(crate) columns: Option<Columns>,
}

/// Values within items, each under a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns(pub(crate) Vec<(String, Path)>);

impl Columns {
    pub(crate) fn of_item(&self, item: &Map) -> Map {
        let value = |(name, path): &(String, Path)| Some((name.clone(), find(path, item)?.clone()));
        self.0.iter().filter_map(value).collect()
    }
}

impl Filter {
    pub(crate) fn admits(&self, item: &Map) -> Result<bool, Error> {
        self.condition.as_ref().map_or(Ok(true), |condition| holds(condition, item))
    }
}
