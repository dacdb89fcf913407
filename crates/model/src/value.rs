//! The bytes of a value: validation, order, text. A value is its native-protocol serialization
//! (v3 and later), everywhere: in frames, rows, keys and files.
//!
//! Submodules to come: `compare`, `validate`, `text` (parse and print), `json`, `varint`,
//! `decimal`, `temporal`, `inet`, `duration`.

use crate::types::Type;
use std::cmp::Ordering;

/// Why bytes or text are not a value of a type; the text that clients see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

/// Compares two valid values of `ty` in its order. Never panics: invalid bytes compare somehow,
/// but consistently.
pub fn compare(ty: &Type, a: &[u8], b: &[u8]) -> Ordering {
    let _ = (ty, a, b);
    todo!()
}

/// Checks that `bytes` is a value of `ty` ("Expected 4 bytes for an int (3)").
pub fn validate(ty: &Type, bytes: &[u8]) -> Result<(), Invalid> {
    let _ = (ty, bytes);
    todo!()
}

/// The CQL literal of a value: `'text'`, `0xff`, `{1: 'a'}`, `1h30m`.
pub fn to_literal(ty: &Type, bytes: &[u8]) -> String {
    let _ = (ty, bytes);
    todo!()
}

/// The bytes of a constant's text (the content of a string literal, a number's digits, a uuid,
/// `true`): what a scalar type accepts from CQL text, from COPY and from JSON strings.
pub fn parse_scalar(ty: &Type, text: &str) -> Result<Vec<u8>, Invalid> {
    let _ = (ty, text);
    todo!()
}
