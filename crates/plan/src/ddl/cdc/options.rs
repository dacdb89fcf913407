//! The property `cdc` of a table.

use super::super::properties::Properties;
use crate::error::Error;
use model::schema::cdc::{CdcOptions, Delta, Images};
use syntax::ast::PropertyValue;

/// Seconds that a value lives at most: twenty years.
const TTL_SECS_MAX: i64 = 630_720_000;

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Config(text))
}

fn invalid<T>(option: &str, value: &str) -> Result<T, Error> {
    refuse(format!("Invalid value for CDC option \"{option}\": {value}"))
}

fn boolean(option: &str, value: &str) -> Result<bool, Error> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => invalid(option, value),
    }
}

fn ttl(value: &str) -> Result<u32, Error> {
    let Ok(secs) = value.trim().parse::<i128>() else { return invalid("ttl", value) };
    match secs {
        ..0 => refuse("Invalid CDC option: ttl must be >= 0".to_owned()),
        secs if i128::from(TTL_SECS_MAX) < secs => {
            refuse("Invalid CDC option: ttl too large".to_owned())
        }
        secs => Ok(secs as u32),
    }
}

/// What the property asks for; `None` where it is not there, or says nothing. Whether it is
/// switched on comes with it, where that is said.
pub(in crate::ddl) fn asked(
    properties: &Properties<'_>,
) -> Result<Option<(Option<bool>, CdcOptions)>, Error> {
    // As Cassandra has it: a table of a log of its files, which there is none of here.
    if let Some(PropertyValue::Scalar(literal)) = properties.get("cdc")
        && literal.text.eq_ignore_ascii_case("false")
    {
        return Ok(Some((Some(false), CdcOptions::DEFAULT)));
    }
    let given = properties.map("cdc")?.unwrap_or_default();
    if given.is_empty() {
        return Ok(None);
    }
    let (mut enabled, mut options) = (None, CdcOptions::DEFAULT);
    for (name, value) in &given {
        let option = name.to_ascii_lowercase();
        match option.as_str() {
            "enabled" => enabled = Some(boolean(&option, value)?),
            "postimage" => options.postimage = boolean(&option, value)?,
            "preimage" => {
                options.preimage = match value.to_ascii_lowercase().as_str() {
                    "full" => Images::Full,
                    _ if boolean(&option, value)? => Images::Touched,
                    _ => Images::None,
                }
            }
            "delta" => {
                options.delta = match value.to_ascii_lowercase().as_str() {
                    "full" => Delta::Full,
                    "keys" => Delta::Keys,
                    _ => return invalid(&option, value),
                }
            }
            "ttl" => options.ttl_secs = ttl(value)?,
            _ => return refuse(format!("Invalid CDC option: {name}")),
        }
    }
    Ok(Some((enabled, options)))
}

/// Whether the property switches it on.
pub(in crate::ddl) fn is_switched_on(properties: &Properties<'_>) -> Result<bool, Error> {
    Ok(asked(properties)?.is_some_and(|(enabled, _)| enabled == Some(true)))
}
