//! The bytes of a value: validation, order, text. A value is its native-protocol serialization
//! (v3 and later), everywhere: in frames, rows, keys and files.
//!
//! Invariants
//!  - *total-order*: [`compare`] is a total order over all byte strings, valid or not; the empty
//!    value sorts first and what is invalid sorts last.
//!  - *literal-parses*: for every scalar type, what [`to_literal`] prints is what
//!    [`parse_scalar`] reads back (without the quotes of a string literal) to an equal value.
//!
//! From the ground up: [`varint`], [`decimal`], [`duration`], [`temporal`] (dates and times) and
//! [`inet`]; [`scalar`] (Rust values in and out), [`collection`] (the parts of collections, tuples
//! and vectors), `compare`, `sorted` (sets and maps in their order), `validate`, `text`, [`json`]
//! and `plain`.

pub mod collection;
mod compare;
pub mod decimal;
pub mod duration;
pub mod inet;
pub mod json;
mod plain;
pub mod scalar;
mod sorted;
pub mod temporal;
mod text;
mod validate;
pub mod varint;

pub use collection::{
    fields, list_elements, map_entries, vector_elements, write_collection, write_map, write_tuple,
    write_vector,
};
pub use compare::compare;
pub use decimal::Decimal;
pub use duration::Duration;
pub use json::{quote_json, to_json};
pub use plain::{plain_element, print_plain};
pub use scalar::*;
pub use sorted::{normalize, sort_map, sort_set};
pub use text::{parse_scalar, print_scalar, quote_string, to_literal};
pub use validate::validate;

use std::fmt;

/// Why bytes or text are not a value of a type; the text that clients see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Invalid {}

/// Shorthand for a refusal with a text.
fn invalid<T>(text: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid(text.into()))
}
