//! Rows as JSON, an object on each line.
//!
//! Names of columns stand as they are, in any case. Numbers that are none are written as the
//! strings `"NaN"`, `"Infinity"` and `"-Infinity"`, and a counter's value is a number.

use model::Type;
use model::value::json::{self, Json};
use model::value::{decode_f32, decode_f64, quote_json};

/// The members of the object in a line.
pub(crate) fn members(text: &str) -> Result<Vec<(String, Json)>, String> {
    match json::parse(text)? {
        Json::Object(members) => Ok(members),
        _ => Err("not a JSON object".to_string()),
    }
}

/// The bytes of a value; `None` is null.
pub(crate) fn value(ty: &Type, json: &Json) -> Result<Option<Vec<u8>>, String> {
    let is_scalar = matches!(json, Json::String(text) if text.is_empty());
    let is_text = matches!(ty, Type::Text | Type::Ascii);
    if is_scalar && !is_text {
        return Ok(Some(Vec::new())); // The empty value, as it is printed.
    }
    json::from_json(ty, json).map_err(|invalid| invalid.0)
}

/// Appends a value; `None` is null.
pub(crate) fn print(ty: &Type, bytes: Option<&[u8]>, out: &mut String) {
    let Some(bytes) = bytes else { return out.push_str("null") };
    let number = match ty {
        Type::Float => decode_f32(bytes).map(f64::from),
        Type::Double => decode_f64(bytes),
        _ => None,
    };
    match number.filter(|number| !number.is_finite()) {
        Some(_) => out.push_str(&quote_json(&model::value::print_scalar(ty, bytes))),
        None => out.push_str(&model::value::to_json(ty, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing;
    use proptest::prelude::*;

    proptest! {
        /// What is printed is read, but for numbers that are none inside of collections.
        #[test]
        fn round_trip((ty, bytes) in testing::typed_value()) {
            let mut text = String::new();
            print(&ty, Some(&bytes), &mut text);
            let has_hole = text.contains("null") || text.contains("\"\"");
            let is_unknown = ty.any(&|ty| matches!(ty, Type::Custom(_) | Type::Empty));
            if !has_hole && !is_unknown {
                let json = json::parse(&text).expect("what is printed is JSON");
                let read = value(&ty, &json);
                let literal = |bytes: &[u8]| model::value::to_literal(&ty, bytes);
                let read = read.map(|bytes| bytes.map(|bytes| literal(&bytes)));
                prop_assert_eq!(read, Ok(Some(literal(&bytes))), "{}", text);
            }
        }
    }
}
