//! `WHERE`: which partitions and which clustering ranges it names, and what is left to be
//! filtered row by row.
//!
//! Invariants
//!  - *nothing-lost*: every relation ends up in the partition plan, in the clustering plan or in
//!    the filters; a relation that the plans cover is not in the filters.
//!  - *filtering-is-asked-for*: where rows are read that the answer does not hold, the statement
//!    says `ALLOW FILTERING`.
//!
//! Of several relations on one column of a key the one that names its values best makes the plan,
//! the others are filters that need not be asked for.
//!
//! In reading order: [`relations`] (what is said per column), [`analyze`] (who does what),
//! [`partition`], [`clustering`], [`filter`] (evaluation).

mod analyze;
mod clustering;
mod filter;
mod partition;
mod relations;

pub(crate) use analyze::{Purpose, Restrictions, analyze};
pub(crate) use clustering::ClusteringPlan;
pub(crate) use filter::{contains as contains_value, holds, like};
pub(crate) use partition::{KeyValue, Keys, PartitionPlan, RingRange, keys, keys_up_to, ring};
pub(crate) use relations::{find, symbol};

use crate::error::CqlError;
use crate::term::{Env, Evaluated, Term};
use std::borrow::Cow;

/// The most combinations of `IN` values in a key, where no option says it.
const COMBINATIONS_MAX: usize = 100;

/// What a null in a key restriction means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Nothing equals it: there are no rows. `SELECT`.
    NoRows,
    /// An error. Writes.
    Refused,
}

/// The values of an `IN`.
#[derive(Clone, Debug)]
pub(crate) enum InList {
    /// Written out.
    Terms(Vec<Term>),
    /// A list.
    Whole(Term),
}

/// Evaluates a value for a key or comparison; `None` for null, if that means no rows.
pub(crate) fn key_value<'a>(
    term: &'a Term,
    name: &str,
    nulls: Nulls,
    env: &Env<'a>,
) -> Result<Option<Cow<'a, [u8]>>, CqlError> {
    match term.evaluate(env)? {
        Evaluated::Value(bytes) => Ok(Some(bytes)),
        Evaluated::Null if nulls == Nulls::NoRows => Ok(None),
        Evaluated::Null => {
            Err(CqlError::Invalid(format!("Invalid null value in condition for column {name}")))
        }
        Evaluated::Unset => {
            Err(CqlError::Invalid(format!("Invalid unset value for column {name}")))
        }
    }
}

impl InList {
    /// The values; nulls among them equal nothing and are left out, or refused.
    pub(crate) fn evaluate<'a>(
        &'a self,
        name: &str,
        nulls: Nulls,
        env: &Env<'a>,
    ) -> Result<Vec<Cow<'a, [u8]>>, CqlError> {
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
                    for part in model::value::list_elements(list) {
                        out.extend(part.ok().flatten().map(Cow::Borrowed));
                    }
                }
                Some(Cow::Owned(list)) => {
                    for part in model::value::list_elements(&list) {
                        out.extend(part.ok().flatten().map(|part| Cow::Owned(part.to_vec())));
                    }
                }
            },
        }
        Ok(out)
    }

    /// The values; `None` if the list is null or has a null in it.
    pub(crate) fn all<'a>(
        &'a self,
        name: &str,
        env: &Env<'a>,
    ) -> Result<Option<Vec<Cow<'a, [u8]>>>, CqlError> {
        let InList::Whole(term) = self else {
            let InList::Terms(terms) = self else { return Ok(None) };
            return terms.iter().map(|term| key_value(term, name, Nulls::NoRows, env)).collect();
        };
        let Some(list) = key_value(term, name, Nulls::NoRows, env)? else { return Ok(None) };
        let part = |part: Result<Option<&[u8]>, _>| {
            part.ok().flatten().map(|bytes| Cow::Owned(bytes.to_vec()))
        };
        Ok(model::value::list_elements(&list).map(part).collect())
    }
}
