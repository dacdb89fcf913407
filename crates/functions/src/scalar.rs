//! Scalar functions.

use crate::cast::Cast;
use crate::collection::{CollectionFunction, set_intersection, slice};
use crate::error::Error;
use crate::mask::Mask;
use crate::math::MathFunction;
use crate::operator::Operation;
use crate::time::{DAY_MILLIS, date_of_millis, millis};
use crate::udf::{Calls, UserFunction};
use crate::uuids::Uuids;
use crate::vector::Similarity;
use model::value::{self, json};
use model::{Token, Type, Uuid};

/// What a function's value depends on besides its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Of the statement: microseconds since the epoch.
    pub now_micros: i64,
    /// New UUIDs.
    pub uuids: &'a Uuids,
    /// The calls of users' functions, where the statement has any.
    pub calls: Option<&'a Calls>,
}

/// A function of its arguments, and of the time of the statement.
#[derive(Clone, Debug)]
pub enum Function {
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
    /// An operator, of one operand or two.
    Operation(Operation),
    /// Of a number of that type.
    Math(MathFunction, Type),
    /// Of a collection of that type.
    Collection(CollectionFunction, Type),
    /// Of two sets of that type.
    SetIntersection(Type),
    /// Of a set or map of that type, the first key and the last one, if the ends are closed.
    Slice {
        ty: Type,
        from: bool,
        to: bool,
    },
    /// Of two vectors of floats.
    Similarity(Similarity),
    /// Of a value of that type.
    Mask(Mask, Type),
    /// What a user has made.
    User(UserFunction),
}

impl Function {
    /// The function's value; null arguments give null, save where a function says otherwise.
    pub fn call(
        &self,
        arguments: &[Option<&[u8]>],
        context: &Context<'_>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let now_millis = context.now_micros.div_euclid(1000);
        match self {
            Function::Now => return Ok(Some(uuid(context.uuids.timeuuid(context.now_micros)))),
            Function::CurrentTimestamp => return Ok(Some(now_millis.to_be_bytes().to_vec())),
            Function::CurrentDate => return Ok(Some(date_of_millis(now_millis))),
            Function::CurrentTime => {
                let nanos = context.now_micros.rem_euclid(DAY_MILLIS * 1000) * 1000;
                return Ok(Some(nanos.to_be_bytes().to_vec()));
            }
            Function::Uuid => return Ok(Some(uuid(context.uuids.random_uuid()))),
            Function::Token => return token(arguments),
            Function::ToJson(ty) => {
                let json = arguments.first().copied().flatten();
                let json = json.map_or_else(|| "null".to_owned(), |b| value::to_json(ty, b));
                return Ok(Some(json.into_bytes()));
            }
            Function::Mask(mask, ty) => return Ok(mask.call(ty, arguments)),
            Function::User(function) => return function.call(arguments, context.calls),
            _ => {}
        }
        let Some(Some(argument)) = arguments.first() else { return Ok(None) };
        match self {
            Function::MinTimeUuid => bound_of(argument, |(least, _)| least),
            Function::MaxTimeUuid => bound_of(argument, |(_, greatest)| greatest),
            Function::ToDate(ty) => Ok(millis(ty, argument).map(date_of_millis)),
            Function::ToTimestamp(ty) | Function::ToUnixTimestamp(ty) => {
                Ok(millis(ty, argument).map(|millis| millis.to_be_bytes().to_vec()))
            }
            Function::FromJson(ty) => of_json(ty, argument)
                .map_err(|reason| Error::of_native("fromjson", vec![Type::Text.to_cql()], reason)),
            Function::ToBlob => Ok(Some(argument.to_vec())),
            Function::FromBlob(ty) => match value::validate(ty, argument) {
                Ok(()) => Ok(Some(argument.to_vec())),
                Err(_) => Err(Error::Invalid(format!(
                    "In call to function system.blobas{name}, value 0x{hex} is not a valid binary \
                     representation for type {name}",
                    name = ty.to_cql(),
                    hex = argument.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
                ))),
            },
            Function::Cast(cast) => cast.convert(argument),
            Function::Math(function, ty) => function.call(ty, argument),
            Function::Collection(function, ty) => function.call(ty, argument),
            Function::Slice { ty, from, to } => {
                let mut bounds = arguments[1..].iter().copied();
                let from = from.then(|| bounds.next().flatten());
                let to = to.then(|| bounds.next().flatten());
                match (from, to) {
                    (Some(None), _) | (_, Some(None)) => Ok(None),
                    (from, to) => Ok(slice(ty, argument, from.flatten(), to.flatten())),
                }
            }
            _ => self.call_with_two(argument, arguments),
        }
    }

    /// Those of two arguments, of which the first is not null.
    fn call_with_two(
        &self,
        first: &[u8],
        arguments: &[Option<&[u8]>],
    ) -> Result<Option<Vec<u8>>, Error> {
        let second = match (self, arguments) {
            (_, [_, Some(second)]) => *second,
            (_, [_, None]) => return Ok(None),
            _ => &[],
        };
        match self {
            Function::Operation(operation) => operation.call(first, second),
            Function::SetIntersection(ty) => Ok(set_intersection(ty, first, second)),
            Function::Similarity(similarity) => {
                Ok(Some(similarity.of(first, second).to_be_bytes().to_vec()))
            }
            _ => Ok(None),
        }
    }
}

/// The value that a JSON text is, or what is wrong with it.
fn of_json(ty: &Type, text: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let text = str::from_utf8(text).unwrap_or_default();
    let parsed = json::parse(text).map_err(|error| json::unreadable(text, &error).0)?;
    json::from_json(ty, &parsed).map_err(|invalid| invalid.0)
}

/// The least or the greatest timeuuid of a timestamp, which must be of the times that these have.
fn bound_of(argument: &[u8], which: fn((Uuid, Uuid)) -> Uuid) -> Result<Option<Vec<u8>>, Error> {
    let Some(millis) = millis(&Type::Timestamp, argument) else { return Ok(None) };
    let bound = which(value::timeuuid_bounds(millis));
    if value::timeuuid_millis(&bound) != Some(millis) {
        return Err(Error::Invalid(format!(
            "timeuuid time must be within the range of timeuuids, got {millis} milliseconds"
        )));
    }
    Ok(Some(uuid(bound)))
}

fn uuid(uuid: Uuid) -> Vec<u8> {
    uuid.as_bytes().to_vec()
}

fn token(arguments: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>, Error> {
    let components: Option<Vec<&[u8]>> = arguments.iter().copied().collect();
    let Some(components) = components else { return Ok(None) };
    let checked = model::key::check_partition_key(components.iter().copied());
    checked.map_err(|invalid| Error::Invalid(invalid.0))?;
    let mut key = Vec::new();
    model::key::compose_partition_key(components.into_iter(), &mut key);
    Ok(Some(Token::of(&key).0.to_be_bytes().to_vec()))
}
