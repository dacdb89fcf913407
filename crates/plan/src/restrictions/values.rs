//! The values that relations compare with: one, those of an `IN`, tuples for several columns, and
//! bounds.

use crate::error::Error;
use crate::term::{Env, Evaluated, Term};
use model::value;
use std::borrow::Cow;
use std::rc::Rc;
use syntax::ast::Comparison;

/// The most combinations of `IN` values in a key, where no option says it.
pub(super) const COMBINATIONS_MAX: usize = 100;

/// What a null in a key restriction means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Nothing equals it: there are no rows. `SELECT`.
    NoRows,
    /// An error. Writes.
    Refused,
}

/// The values of an `IN`.
#[derive(Clone, Debug)]
pub enum InList {
    /// Written out.
    Terms(Vec<Term>),
    /// A list.
    Whole(Term),
}

/// Evaluates a value for a key or comparison; `None` for null, if that means no rows.
pub fn key_value<'a>(
    term: &'a Term,
    name: &str,
    nulls: Nulls,
    env: &Env<'a>,
) -> Result<Option<Cow<'a, [u8]>>, Error> {
    match term.evaluate(env)? {
        Evaluated::Value(bytes) => Ok(Some(bytes)),
        Evaluated::Null if nulls == Nulls::NoRows => Ok(None),
        Evaluated::Null => {
            Err(Error::Invalid(format!("Invalid null value in condition for column {name}")))
        }
        Evaluated::Unset => Err(Error::Invalid(format!("Invalid unset value for column {name}"))),
    }
}

impl InList {
    /// The values; nulls among them equal nothing and are left out, or refused.
    pub fn evaluate<'a>(
        &'a self,
        name: &str,
        nulls: Nulls,
        env: &Env<'a>,
    ) -> Result<Vec<Cow<'a, [u8]>>, Error> {
        let mut out = Vec::new();
        match self {
            InList::Terms(terms) => {
                for term in terms {
                    out.extend(key_value(term, name, nulls, env)?);
                }
            }
            InList::Whole(term) => match key_value(term, name, nulls, env)? {
                None => {}
                Some(Cow::Borrowed(list)) => {
                    for part in value::list_elements(list) {
                        out.extend(part.ok().flatten().map(Cow::Borrowed));
                    }
                }
                Some(Cow::Owned(list)) => {
                    for part in value::list_elements(&list) {
                        out.extend(part.ok().flatten().map(|part| Cow::Owned(part.to_vec())));
                    }
                }
            },
        }
        Ok(out)
    }

    /// The values; `None` if the list is null or has a null in it.
    pub fn all<'a>(
        &'a self,
        name: &str,
        env: &Env<'a>,
    ) -> Result<Option<Vec<Cow<'a, [u8]>>>, Error> {
        let InList::Whole(term) = self else {
            let InList::Terms(terms) = self else { return Ok(None) };
            return terms.iter().map(|term| key_value(term, name, Nulls::NoRows, env)).collect();
        };
        let Some(list) = key_value(term, name, Nulls::NoRows, env)? else { return Ok(None) };
        let part = |part: Result<Option<&[u8]>, _>| {
            part.ok().flatten().map(|bytes| Cow::Owned(bytes.to_vec()))
        };
        Ok(value::list_elements(&list).map(part).collect())
    }
}

/// A bound of a range.
#[derive(Clone, Debug)]
pub struct Bound<T> {
    pub value: T,
    pub inclusive: bool,
}

/// The values for several columns.
#[derive(Clone, Debug)]
pub enum Tuple {
    /// Of a single column that no tuple was written for: a null equals nothing.
    One(Term),
    /// One by one, each with its column; a null is refused.
    Parts(Vec<(Rc<str>, Term)>),
    /// One tuple.
    Whole(Term),
}

/// The value lists for several columns.
#[derive(Clone, Debug)]
pub enum TupleList {
    Tuples(Vec<Tuple>),
    /// A list of tuples.
    Whole(Term),
}

/// The values of several columns.
pub(super) type Values<'a> = Vec<Cow<'a, [u8]>>;

impl Tuple {
    /// The values of its columns; `None` if one is null and that means no rows.
    pub(super) fn values<'a>(
        &'a self,
        name: &str,
        nulls: Nulls,
        env: &Env<'a>,
    ) -> Result<Option<Values<'a>>, Error> {
        match self {
            Tuple::One(term) => Ok(key_value(term, name, nulls, env)?.map(|value| vec![value])),
            Tuple::Parts(parts) => {
                let value =
                    |(name, part): &'a (Rc<str>, Term)| key_value(part, name, Nulls::Refused, env);
                parts.iter().map(value).collect()
            }
            Tuple::Whole(term) => {
                let Some(whole) = key_value(term, name, nulls, env)? else { return Ok(None) };
                fields(&whole, name, nulls)
            }
        }
    }
}

impl TupleList {
    /// The values of each tuple; those with a null are left out, or refused.
    pub(super) fn values<'a>(
        &'a self,
        name: &str,
        nulls: Nulls,
        env: &Env<'a>,
    ) -> Result<Vec<Values<'a>>, Error> {
        let mut out = Vec::new();
        match self {
            TupleList::Tuples(tuples) => {
                for tuple in tuples {
                    out.extend(tuple.values(name, nulls, env)?);
                }
            }
            TupleList::Whole(term) => {
                let Some(list) = key_value(term, name, nulls, env)? else { return Ok(out) };
                for part in value::list_elements(&list) {
                    if let Ok(Some(whole)) = part {
                        out.extend(fields(whole, name, nulls)?);
                    }
                }
            }
        }
        Ok(out)
    }
}

fn fields(whole: &[u8], name: &str, nulls: Nulls) -> Result<Option<Values<'static>>, Error> {
    let mut out = Vec::new();
    for part in value::fields(whole) {
        match part {
            Ok(Some(bytes)) => out.push(Cow::Owned(bytes.to_vec())),
            _ if nulls == Nulls::NoRows => return Ok(None),
            _ => {
                let text = format!("Invalid null value in condition for column {name}");
                return Err(Error::Invalid(text));
            }
        }
    }
    Ok(Some(out))
}

pub(super) fn lower_comparison(inclusive: bool) -> Comparison {
    if inclusive { Comparison::GreaterOrEqual } else { Comparison::Greater }
}

pub(super) fn upper_comparison(inclusive: bool) -> Comparison {
    if inclusive { Comparison::LessOrEqual } else { Comparison::Less }
}
