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
pub fn integer(term: &Option<Term>, if_null: IfNull, env: &Env<'_>) -> Result<Option<i64>, Error> {
    let Some(term) = term else { return Ok(None) };
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
pub fn timeout(term: Option<&Term>, env: &Env<'_>) -> Result<Option<Duration>, Error> {
    let Some(term) = term else { return Ok(None) };
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
    Ok(Some(Duration::from_nanos(nanos)))
}
