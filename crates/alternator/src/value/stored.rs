//! Values as cells have them, the form that ScyllaDB gives them: a byte for the type, and the
//! value.
//!
//! ```text
//! stored := 0 text | 1 bytes | 2 bool:u8 | 3 decimal | 4 JSON
//! ```
//! `decimal` is a value of CQL; JSON is that of the API with its type, for what has parts, and
//! null.
//!
//! Invariants
//!  - *foreign-is-damaged*: no bytes make a reader panic: CQL may have written them.

use super::{Value, write_binary, write_text};
use crate::error::Error;
use crate::json::{Json, Object};
use crate::number::Number;

const TEXT: u8 = 0;
const BYTES: u8 = 1;
const BOOL: u8 = 2;
const NUMBER: u8 = 3;
const JSON: u8 = 4;

/// Most values in JSON have no more.
const JSON_BYTES: usize = 256;

/// Appends the bytes of a cell.
pub fn encode_into(value: &Value, out: &mut Vec<u8>) {
    let mut put = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(bytes);
    };
    match value {
        Value::S(text) => put(TEXT, text.as_bytes()),
        Value::B(bytes) => put(BYTES, bytes),
        Value::Bool(value) => put(BOOL, &[u8::from(*value)]),
        Value::N(number) => put(NUMBER, &number.encode()),
        other => {
            let mut text = String::with_capacity(JSON_BYTES);
            other.write(&mut text);
            put(JSON, text.as_bytes());
        }
    }
}

fn damaged() -> Error {
    Error::internal("a stored attribute is damaged: no value of the API")
}

/// The value of a cell.
pub fn decode(bytes: &[u8]) -> Result<Value, Error> {
    let (tag, rest) = bytes.split_first().ok_or_else(damaged)?;
    match *tag {
        TEXT => Ok(Value::S(text(rest)?.to_owned())),
        BYTES => Ok(Value::B(rest.to_vec())),
        BOOL => Ok(Value::Bool(flag(rest)?)),
        NUMBER => Number::decode(rest).map(Value::N).ok_or_else(damaged),
        JSON => {
            Value::parse(Json::parse_bytes(rest).map_err(|_| damaged())?).map_err(|_| damaged())
        }
        _ => Err(damaged()),
    }
}

/// Appends the value of a cell as JSON, without making it.
pub fn write_json(bytes: &[u8], out: &mut String) -> Result<(), Error> {
    let (tag, rest) = bytes.split_first().ok_or_else(damaged)?;
    match *tag {
        TEXT => {
            write_text(text(rest)?, out);
            return Ok(());
        }
        JSON => {
            out.push_str(Json::parse_bytes(rest).map_err(|_| damaged())?.text());
            return Ok(());
        }
        _ => {}
    }
    let mut object = Object::open(out);
    match *tag {
        BYTES => write_binary(rest, object.member("B")),
        BOOL => object.member("BOOL").push_str(if flag(rest)? { "true" } else { "false" }),
        NUMBER => {
            let number = Number::decode(rest).ok_or_else(damaged)?;
            object.string("N", &number.to_string());
        }
        _ => return Err(damaged()),
    }
    object.close();
    Ok(())
}

fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| damaged())
}

fn flag(bytes: &[u8]) -> Result<bool, Error> {
    match bytes {
        [value] => Ok(*value != 0),
        _ => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::values;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stored_values_go_both_ways(value in values()) {
            let mut bytes = Vec::new();
            encode_into(&value, &mut bytes);
            prop_assert_eq!(decode(&bytes).unwrap(), value.clone());
            let (mut direct, mut by_value) = (String::new(), String::new());
            write_json(&bytes, &mut direct).unwrap();
            value.write(&mut by_value);
            prop_assert_eq!(direct, by_value);
        }

        #[test]
        fn foreign_bytes_do_not_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
            let _ = write_json(&bytes, &mut String::new());
        }
    }
}
