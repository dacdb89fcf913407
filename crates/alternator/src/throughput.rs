//! `BillingMode` and `ProvisionedThroughput`: checked, kept and shown; nothing is held to them.

use crate::error::Error;
use crate::json::{Json, Object};
use crate::request::Request;

const READ: &str = "ReadCapacityUnits";
const WRITE: &str = "WriteCapacityUnits";
/// What may be provisioned of either.
pub(crate) const UNITS_MAX: i64 = 1_000_000_000_000;

/// What a request provisions, as it is kept; `None`: it pays per request.
pub(crate) fn of(request: &Request<'_>) -> Result<Option<String>, Error> {
    let mode = request.string("BillingMode")?;
    let units = request.object("ProvisionedThroughput")?;
    match (mode.as_deref(), units) {
        (Some("PAY_PER_REQUEST"), None) => Ok(None),
        (Some("PAY_PER_REQUEST"), Some(_)) => Err(Error::validation(
            "One or more parameter values were invalid: ProvisionedThroughput cannot be specified \
             when BillingMode is PAY_PER_REQUEST",
        )),
        (None | Some("PROVISIONED"), Some(units)) => kept(units).map(Some),
        (None | Some("PROVISIONED"), None) => Err(Error::validation(
            "One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits \
             must both be specified when BillingMode is PROVISIONED",
        )),
        (Some(other), _) => Err(Error::validation(format!(
            "1 validation error detected: Value '{other}' at 'billingMode' failed to satisfy \
             constraint: Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]"
        ))),
    }
}

fn kept(units: Json<'_>) -> Result<String, Error> {
    let units = Request::of(units, "ProvisionedThroughput")?;
    let one = |name: &str| match units.integer(name)? {
        Some(count) if (1..=UNITS_MAX).contains(&count) => Ok(count),
        Some(count) if UNITS_MAX < count => Err(Error::validation(format!(
            "1 validation error detected: Value '{count}' at 'provisionedThroughput.{name}' failed \
             to satisfy constraint: Member must have value less than or equal to {UNITS_MAX}"
        ))),
        _ => Err(Error::validation(format!(
            "1 validation error detected: Value at 'provisionedThroughput.{name}' failed to \
             satisfy constraint: Member must not be null, and must be greater than or equal to 1"
        ))),
    };
    Ok(format!("{} {}", one(READ)?, one(WRITE)?))
}

/// Adds both to the description of a table that was made then, milliseconds.
pub(crate) fn write(kept: Option<&str>, created: i64, object: &mut Object<'_>) {
    let (read, write) = kept.and_then(|kept| kept.split_once(' ')).unwrap_or(("0", "0"));
    let mut units = Object::open(object.member("ProvisionedThroughput"));
    units.json("NumberOfDecreasesToday", "0").json(READ, read).json(WRITE, write);
    units.close();
    if kept.is_none() {
        let mut mode = Object::open(object.member("BillingModeSummary"));
        mode.string("BillingMode", "PAY_PER_REQUEST");
        let seconds = format!("{}.{:03}", created.div_euclid(1000), created.rem_euclid(1000));
        mode.json("LastUpdateToPayPerRequestDateTime", &seconds);
        mode.close();
    }
}
