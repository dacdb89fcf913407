//! `USING TIMESTAMP .. AND TTL ..`.

use crate::error::Error;
use crate::markers::Receiver;
use crate::term::{Env, IfNull, Preparer, Term, integer};
use model::Type;
use syntax::ast;

/// Twenty years: what an expiry in 32 bits still allows.
const TTL_MAX: i64 = 630_720_000;
/// How far ahead of the clock a timestamp may be.
const FUTURE_MICROS_MAX: i64 = 3 * 24 * 3600 * 1_000_000;

/// The prepared clauses.
#[derive(Clone, Debug, Default)]
pub struct UsingPlan {
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
    pub timeout: Option<Term>,
}

impl UsingPlan {
    pub fn prepare(using: &ast::Using, preparer: &mut Preparer<'_>) -> Result<UsingPlan, Error> {
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
    pub fn has_timestamp(&self) -> bool {
        self.timestamp.is_some()
    }

    /// The timestamp of a write, microseconds, unless `default` is to be taken.
    #[inline]
    pub fn timestamp(&self, env: &Env<'_>) -> Result<Option<i64>, Error> {
        let given = integer(&self.timestamp, IfNull::Refused("timestamp"), env)?;
        let Some(timestamp) = given else { return Ok(None) };
        check_timestamp(timestamp, env.now_micros)?;
        Ok(Some(timestamp))
    }

    /// Seconds that the written values last; 0: for ever.
    #[inline]
    pub fn ttl(&self, default: i32, env: &Env<'_>) -> Result<i32, Error> {
        match integer(&self.ttl, IfNull::Is(0), env)? {
            None => Ok(default),
            Some(ttl) if ttl < 0 => {
                Err(Error::Invalid(format!("A TTL must be greater or equal to 0, but was {ttl}")))
            }
            Some(ttl) if TTL_MAX < ttl => Err(Error::Invalid(format!(
                "ttl is too large. requested ({ttl}) maximum ({TTL_MAX})"
            ))),
            Some(ttl) => Ok(ttl as i32),
        }
    }
}

/// Refuses what is no timestamp, or too far ahead.
pub fn check_timestamp(timestamp: i64, now_micros: i64) -> Result<(), Error> {
    if timestamp == i64::MIN {
        return Err(Error::Invalid(format!(
            "Out of bound timestamp, must be in [{}, {}]",
            i64::MIN + 1,
            i64::MAX
        )));
    }
    if now_micros.saturating_add(FUTURE_MICROS_MAX) < timestamp {
        return Err(Error::Invalid(format!(
            "Cannot provide a timestamp more than 3 days into the future. If this was not \
             intended, set restrict_future_timestamp to false (timestamp {timestamp}, now \
             {now_micros})"
        )));
    }
    Ok(())
}
