//! `USING TIMESTAMP .. AND TTL ..`.

use crate::error::CqlError;
use crate::request::{IfNull, Request, integer};
use crate::term::{Preparer, Receiver, Term};
use model::Type;
use syntax::ast;

/// Twenty years: what an expiry in 32 bits still allows.
const TTL_MAX: i64 = 630_720_000;
/// How far ahead of the clock a timestamp may be.
const FUTURE_MICROS_MAX: i64 = 3 * 24 * 3600 * 1_000_000;

/// The prepared clauses.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsingPlan {
    pub(super) timestamp: Option<Term>,
    pub(super) ttl: Option<Term>,
    pub(crate) timeout: Option<Term>,
}

impl UsingPlan {
    pub(crate) fn prepare(
        using: &ast::Using,
        preparer: &mut Preparer<'_>,
    ) -> Result<UsingPlan, CqlError> {
        let mut term = |expr: &Option<ast::Expr>, name: &str, ty: &Type| {
            let receiver = Receiver { name, ty };
            expr.as_ref().map(|expr| preparer.prepare(expr, receiver)).transpose()
        };
        let timeout = term(&using.timeout, "[timeout]", &Type::Duration)?;
        let timestamp = term(&using.timestamp, "[timestamp]", &Type::BigInt)?;
        let ttl = term(&using.ttl, "[ttl]", &Type::Int)?;
        Ok(UsingPlan { timestamp, ttl, timeout })
    }

    /// Whether it says `TIMESTAMP`.
    pub(crate) fn has_timestamp(&self) -> bool {
        self.timestamp.is_some()
    }

    /// The timestamp of a write, microseconds, unless `default` is to be taken.
    pub(crate) fn timestamp(&self, request: &Request<'_>) -> Result<Option<i64>, CqlError> {
        let given = integer(&self.timestamp, IfNull::Refused("timestamp"), &request.env())?;
        let Some(timestamp) = given else { return Ok(None) };
        check_timestamp(timestamp, request.now_micros)?;
        Ok(Some(timestamp))
    }

    /// Seconds that the written values last; 0: for ever.
    pub(crate) fn ttl(&self, default: i32, request: &Request<'_>) -> Result<i32, CqlError> {
        match integer(&self.ttl, IfNull::Is(0), &request.env())? {
            None => Ok(default),
            Some(ttl) if ttl < 0 => Err(CqlError::Invalid(format!(
                "A TTL must be greater or equal to 0, but was {ttl}"
            ))),
            Some(ttl) if TTL_MAX < ttl => Err(CqlError::Invalid(format!(
                "ttl is too large. requested ({ttl}) maximum ({TTL_MAX})"
            ))),
            Some(ttl) => Ok(ttl as i32),
        }
    }
}

/// Refuses what is no timestamp, or too far ahead.
pub(crate) fn check_timestamp(timestamp: i64, now_micros: i64) -> Result<(), CqlError> {
    if timestamp == i64::MIN {
        return Err(CqlError::Invalid(format!(
            "Out of bound timestamp, must be in [{}, {}]",
            i64::MIN + 1,
            i64::MAX
        )));
    }
    if now_micros.saturating_add(FUTURE_MICROS_MAX) < timestamp {
        return Err(CqlError::Invalid(format!(
            "Cannot provide a timestamp more than 3 days into the future. If this was not \
             intended, set restrict_future_timestamp to false (timestamp {timestamp}, now \
             {now_micros})"
        )));
    }
    Ok(())
}
