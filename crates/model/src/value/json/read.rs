//! JSON as values: the inverse of `to_json`.
//!
//! Numbers keep every digit that was written. Where an integer is wanted, one with an exponent or
//! a fraction will do if it is whole.

use super::Json;
use super::parse::parse;
use crate::types::{Type, UserTypeRef};
use crate::value::{self, Invalid};

/// The bytes of a JSON value as a value of `ty`; `None` is null.
pub fn from_json(ty: &Type, json: &Json) -> Result<Option<Vec<u8>>, Invalid> {
    if *json == Json::Null {
        return Ok(None);
    }
    let mut out = Vec::new();
    match ty {
        Type::List { element, .. } => {
            let parts = parts("list", "a list", element, json)?;
            value::write_collection(parts.iter().map(Vec::as_slice), &mut out);
        }
        Type::Set { element, .. } => {
            let parts = parts("set", "a list (representing a set)", element, json)?;
            let mut parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            value::sort_set(element, &mut parts);
            value::write_collection(parts.into_iter(), &mut out);
        }
        Type::Vector { element, dimension } => {
            let parts = parts("vector", "a list", element, json)?;
            let fixed = element.fixed_length();
            let fits = |part: &Vec<u8>| fixed.is_none_or(|length| part.len() == length);
            if parts.len() != *dimension as usize || !parts.iter().all(fits) {
                return Err(Invalid(format!(
                    "Expected a vector of {dimension} elements, but got {}",
                    parts.len()
                )));
            }
            value::write_vector(element, parts.iter().map(Vec::as_slice), &mut out);
        }
        Type::Map { key: key_type, value: value_type, .. } => {
            let Json::Object(entries) = json else { return Err(wrong("a map", json)) };
            let entries = map_entries(key_type, value_type, entries)?;
            let mut entries: Vec<(&[u8], &[u8])> =
                entries.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            value::sort_map(key_type, &mut entries);
            value::write_map(entries.into_iter(), &mut out);
        }
        Type::Tuple(types) => {
            let fields = tuple_fields(types, json)?;
            value::write_tuple(fields.iter().map(Option::as_deref), &mut out);
        }
        Type::User(user) => {
            let Json::Object(entries) = json else { return Err(wrong("a map", json)) };
            let fields = user_fields(user, entries)?;
            value::write_tuple(fields.iter().map(Option::as_deref), &mut out);
        }
        _ => return scalar(ty, json).map(Some),
    }
    Ok(Some(out))
}

fn wrong(expected: &str, json: &Json) -> Invalid {
    Invalid(format!("Expected {expected}, but got a {}: {}", kind(json), json))
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "Null",
        Json::Boolean(_) => "Boolean",
        Json::Number(_) => "Number",
        Json::String(_) => "String",
        Json::List(_) => "List",
        Json::Object(_) => "Map",
    }
}

/// How errors call a scalar type's JSON.
fn expected(ty: &Type) -> &'static str {
    match ty {
        Type::Ascii => "an ascii string",
        Type::Text => "a UTF-8 string",
        Type::Int => "an int value",
        Type::SmallInt => "a short value",
        Type::TinyInt => "a byte value",
        Type::BigInt | Type::Counter => "a bigint value",
        Type::Boolean => "a boolean value",
        Type::Date => "a string representation of a date value",
        Type::Time => "a string representation of a time value",
        Type::Timestamp => "a long or a datestring representation of a timestamp value",
        Type::Inet => "a string representation of an inet value",
        Type::Uuid => "a string representation of a uuid",
        Type::TimeUuid => "a string representation of a timeuuid",
        Type::Duration => "a string representation of a duration",
        Type::Float => "a float value",
        Type::Double => "a double value",
        Type::Decimal => "a decimal value",
        Type::Varint => "a varint value",
        _ => "a string of hexadecimal digits",
    }
}

/// A scalar: a string as in CQL, or a bare number or boolean for the types that have one. The
/// empty string is a value of texts only.
fn scalar(ty: &Type, json: &Json) -> Result<Vec<u8>, Invalid> {
    use Type::*;
    let is_number = matches!(
        ty,
        TinyInt | SmallInt | Int | BigInt | Counter | Varint | Decimal | Float | Double
    );
    let text = match json {
        Json::String(text) if text.is_empty() && !matches!(ty, Text | Ascii) => {
            return Err(wrong(expected(ty), json));
        }
        Json::String(text) => {
            let is_blob = matches!(ty, Blob | Custom(_));
            if is_blob && !text.starts_with("0x") && !text.starts_with("0X") {
                return Err(Invalid(format!(
                    "Value '{text}' is not a valid blob representation: String representation \
                     of blob is missing 0x prefix"
                )));
            }
            text.clone()
        }
        Json::Number(text) if matches!(ty, Timestamp) || is_number => whole(ty, text),
        Json::Boolean(flag) if matches!(ty, Boolean) => flag.to_string(),
        _ => return Err(wrong(expected(ty), json)),
    };
    value::parse_scalar(ty, &text)
}

/// A number without exponent and fraction if it is of a type of integers and has none.
fn whole(ty: &Type, text: &str) -> String {
    let is_plain = !text.contains(['.', 'e', 'E']);
    if is_plain || matches!(ty, Type::Decimal | Type::Float | Type::Double) {
        return text.to_owned();
    }
    let integer = value::Decimal::parse(text).ok().and_then(|decimal| {
        let integer = decimal.to_integer()?;
        value::Decimal::from_integer(integer.clone()).compare(&decimal).is_eq().then_some(integer)
    });
    integer.map_or_else(|| text.to_owned(), |integer| integer.to_string())
}

fn parts(what: &str, article: &str, element: &Type, json: &Json) -> Result<Vec<Vec<u8>>, Invalid> {
    let Json::List(items) = json else { return Err(wrong(article, json)) };
    let part = |item: &Json| {
        let null = || Invalid(format!("Invalid null element in {what}"));
        from_json(element, item)?.ok_or_else(null)
    };
    items.iter().map(part).collect()
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn map_entries(
    key_type: &Type,
    value_type: &Type,
    entries: &[(String, Json)],
) -> Result<Entries, Invalid> {
    let mut out = Vec::with_capacity(entries.len());
    for (key, item) in entries {
        // Keys of JSON are strings; those of other types are JSON in a string.
        let key = match key_type.is_native() {
            true => Json::String(key.clone()),
            false => parse(key).map_err(|error| unreadable(key, &error))?,
        };
        let null = |what: &str| Invalid(format!("Invalid null {what} in map"));
        let key = from_json(key_type, &key)?.ok_or_else(|| null("key"))?;
        out.push((key, from_json(value_type, item)?.ok_or_else(|| null("value"))?));
    }
    Ok(out)
}

fn tuple_fields(types: &[Type], json: &Json) -> Result<Vec<Option<Vec<u8>>>, Invalid> {
    let Json::List(items) = json else {
        return Err(wrong("a list representation of a tuple", json));
    };
    if items.len() != types.len() {
        let which = if types.len() < items.len() { "contains extra" } else { "is missing" };
        return Err(Invalid(format!(
            "Tuple {which} items (expected {}): {} items",
            types.len(),
            items.len()
        )));
    }
    types.iter().zip(items).map(|(ty, item)| from_json(ty, item)).collect()
}

fn user_fields(
    user: &UserTypeRef,
    entries: &[(String, Json)],
) -> Result<Vec<Option<Vec<u8>>>, Invalid> {
    let mut fields = vec![None; user.fields.len()];
    for (name, item) in entries {
        let name = folded(name);
        let index = user.fields.iter().position(|(field, _)| *field == name);
        let unknown = || {
            Invalid(format!("Unknown field '{name}' in value of user defined type {}", user.name))
        };
        let index = index.ok_or_else(unknown)?;
        fields[index] = from_json(&user.fields[index].1, item)?;
    }
    Ok(fields)
}

/// Names are as in CQL: without regard to case, unless they stand in quotes within the string.
pub fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name.to_lowercase(),
    }
}

/// Why a text is not JSON.
pub fn unreadable(text: &str, error: &str) -> Invalid {
    Invalid(format!("Could not decode JSON string '{text}': {error}"))
}
