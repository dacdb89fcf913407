//! Functions of one row.

use super::Cast;
use crate::error::CqlError;
use crate::term::Env;
use model::value;
use model::{Token, Type, Uuid};

/// A function of its arguments, and of the time of the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Now,
    CurrentTimestamp,
    CurrentDate,
    CurrentTime,
    Uuid,
    MinTimeUuid,
    MaxTimeUuid,
    /// Of a timeuuid or timestamp.
    ToDate(Type),
    /// Of a timeuuid or date.
    ToTimestamp(Type),
    /// Of a timeuuid, timestamp or date.
    ToUnixTimestamp(Type),
    /// The bytes as they are.
    ToBlob,
    /// The bytes as they are, if they are a value of the type.
    FromBlob(Type),
    /// Of the partition key's columns.
    Token,
    Cast(Cast),
    ToJson(Type),
    /// JSON as a value of that type.
    FromJson(Type),
}

const DAY_MILLIS: i64 = 86_400_000;
const EPOCH_DAY: i64 = 1 << 31;

impl Function {
    /// The function's value; null arguments give null, save where a function says otherwise.
    pub(crate) fn call(
        &self,
        arguments: &[Option<&[u8]>],
        env: &Env<'_>,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        let now_millis = env.now_micros.div_euclid(1000);
        match self {
            Function::Now => return Ok(Some(uuid(env.ids.timeuuid(env.now_micros)))),
            Function::CurrentTimestamp => return Ok(Some(now_millis.to_be_bytes().to_vec())),
            Function::CurrentDate => return Ok(Some(date_of_millis(now_millis))),
            Function::CurrentTime => {
                let nanos = env.now_micros.rem_euclid(DAY_MILLIS * 1000) * 1000;
                return Ok(Some(nanos.to_be_bytes().to_vec()));
            }
            Function::Uuid => return Ok(Some(uuid(env.ids.random_uuid()))),
            Function::Token => return token(arguments),
            Function::ToJson(ty) => {
                let json = arguments.first().copied().flatten();
                let json = json.map_or_else(|| "null".to_owned(), |b| value::to_json(ty, b));
                return Ok(Some(json.into_bytes()));
            }
            _ => {}
        }
        let Some(Some(argument)) = arguments.first() else { return Ok(None) };
        match self {
            Function::MinTimeUuid => Ok(millis(&Type::Timestamp, argument)
                .map(|millis| uuid(value::timeuuid_bounds(millis).0))),
            Function::MaxTimeUuid => Ok(millis(&Type::Timestamp, argument)
                .map(|millis| uuid(value::timeuuid_bounds(millis).1))),
            Function::ToDate(ty) => Ok(millis(ty, argument).map(date_of_millis)),
            Function::ToTimestamp(ty) | Function::ToUnixTimestamp(ty) => {
                Ok(millis(ty, argument).map(|millis| millis.to_be_bytes().to_vec()))
            }
            Function::FromJson(ty) => {
                let text = str::from_utf8(argument).unwrap_or_default();
                crate::json::from_json(ty, &crate::json::parse(text)?)
            }
            Function::ToBlob => Ok(Some(argument.to_vec())),
            Function::FromBlob(ty) => match value::validate(ty, argument) {
                Ok(()) => Ok(Some(argument.to_vec())),
                Err(_) => Err(CqlError::Invalid(format!(
                    "In call to function system.blobas{name}, value 0x{hex} is not a valid binary \
                     representation for type {name}",
                    name = ty.to_cql(),
                    hex = argument.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
                ))),
            },
            Function::Cast(cast) => cast.convert(argument),
            _ => Ok(None),
        }
    }
}

fn uuid(uuid: Uuid) -> Vec<u8> {
    uuid.as_bytes().to_vec()
}

/// Milliseconds since the epoch of a value of a type that has a time.
pub(super) fn millis(ty: &Type, bytes: &[u8]) -> Option<i64> {
    match ty {
        Type::TimeUuid => value::timeuuid_millis(&value::decode_uuid(bytes)?),
        Type::Date => Some((value::decode_date(bytes)? as i64 - EPOCH_DAY) * DAY_MILLIS),
        _ => value::decode_i64(bytes),
    }
}

/// The bytes of a date.
pub(super) fn date_of_millis(millis: i64) -> Vec<u8> {
    let days = (millis.div_euclid(DAY_MILLIS) + EPOCH_DAY).clamp(0, u32::MAX as i64);
    (days as u32).to_be_bytes().to_vec()
}

fn token(arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, CqlError> {
    let components: Option<Vec<&[u8]>> = arguments.iter().copied().collect();
    let Some(components) = components else { return Ok(None) };
    let checked = model::key::check_partition_key(components.iter().copied());
    checked.map_err(|invalid| CqlError::Invalid(invalid.0))?;
    let mut key = Vec::new();
    model::key::compose_partition_key(components.into_iter(), &mut key);
    Ok(Some(Token::of(&key).0.to_be_bytes().to_vec()))
}
