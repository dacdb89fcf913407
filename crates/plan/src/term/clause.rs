//! Values that clauses take: `LIMIT`, `USING TIMEOUT`.

use super::{Env, Evaluated, Term};
use crate::error::Error;
use model::value;
use std::time::Duration;

/// What null means to a clause.
#[derive(Clone, Copy, Debug)]
pub enum IfNull {
    /// It is refused; the clause has this name.
    Refused(&'static str),
    /// As if this were said.
    Is(i64),
}

/// An `int` or `bigint` that a clause takes; `None` where it is not given, or unset.
#[inline]
pub fn integer(term: &Option<Term>, if_null: IfNull, env: &Env<'_>) -> Result<Option<i64>, Error> {
    match term {
        Some(term) => integer_of(term, if_null, env),
        None => Ok(None),
    }
}

fn integer_of(term: &Term, if_null: IfNull, env: &Env<'_>) -> Result<Option<i64>, Error> {
    let bytes = match term.evaluate(env)? {
        Evaluated::Value(bytes) => bytes,
        Evaluated::Unset => return Ok(None),
        Evaluated::Null => {
            return match if_null {
                IfNull::Is(value) => Ok(Some(value)),
                IfNull::Refused(name) => {
                    Err(Error::Invalid(format!("Invalid null value of {name}")))
                }
            };
        }
    };
    Ok(match bytes.len() {
        4 => value::decode_i32(&bytes).map(i64::from),
        _ => value::decode_i64(&bytes),
    })
}

/// The span of `USING TIMEOUT`; `None` where it is not given.
#[inline]
pub fn timeout(term: Option<&Term>, env: &Env<'_>) -> Result<Option<Duration>, Error> {
    match term {
        Some(term) => timeout_of(term, env).map(Some),
        None => Ok(None),
    }
}

fn timeout_of(term: &Term, env: &Env<'_>) -> Result<Duration, Error> {
    let bytes = match term.evaluate(env)? {
        Evaluated::Value(bytes) => bytes,
        Evaluated::Unset => return Err(Error::invalid("Timeout value cannot be unset")),
        Evaluated::Null => return Err(Error::invalid("Timeout value cannot be null")),
    };
    let span = value::decode_duration(&bytes);
    let span = span.ok_or_else(|| Error::invalid("Timeout value is not a duration"))?;
    if span.months != 0 || span.days != 0 {
        return Err(Error::invalid("Timeout values cannot be expressed in days/months"));
    }
    if span.nanos % 1_000_000 != 0 {
        return Err(Error::invalid(
            "Timeout values cannot have granularity finer than milliseconds",
        ));
    }
    let nanos = u64::try_from(span.nanos);
    let nanos = nanos.map_err(|_| Error::invalid("Timeout values must be non-negative"))?;
    Ok(Duration::from_nanos(nanos))
}
