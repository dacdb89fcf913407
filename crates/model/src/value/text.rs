//! Values as CQL text.

use super::Invalid;
use crate::types::Type;

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

/// A text as a CQL string literal: in single quotes, those inside doubled.
pub fn quote_string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
