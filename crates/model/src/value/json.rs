//! Values as JSON text, in the form of Cassandra's `toJson`, and back: [`Json`] is a parsed text,
//! [`from_json`] what it means.
//!
//! Numbers and booleans are bare, everything else scalar is a string. Lists, sets, tuples and
//! vectors are arrays; maps and user types are objects, whose keys are strings: other map keys
//! stand in quotes. A float that is no number is `null`; an empty value is `""`.

mod parse;
mod read;

pub use parse::{Json, parse};
pub use read::{folded, from_json, unreadable};

use super::collection::{Parts, part_type, parts_of};
use super::{decode_f32, decode_f64, decode_i64, temporal, text, validate};
use crate::types::Type;
use std::fmt::Write;

/// The JSON text of a value; of invalid bytes, a string with the blob.
pub fn to_json(ty: &Type, bytes: &[u8]) -> String {
    let mut out = String::new();
    if validate(ty, bytes).is_ok() {
        write_value(ty, bytes, &mut out);
    } else {
        write_string(&text::print_scalar(&Type::Blob, bytes), &mut out);
    }
    out
}

/// A text as a JSON string, in double quotes.
pub fn quote_json(text: &str) -> String {
    let mut out = String::new();
    write_string(text, &mut out);
    out
}

fn write_value(ty: &Type, bytes: &[u8], out: &mut String) {
    match ty {
        Type::Map { .. } => object(out, |out| write_map(ty, bytes, out)),
        Type::User(_) => object(out, |out| write_fields(ty, bytes, out)),
        _ => match parts_of(ty, bytes) {
            Some(parts) => write_array(ty, parts, out),
            None => write_scalar(ty, bytes, out),
        },
    }
}

fn object(out: &mut String, inside: impl FnOnce(&mut String)) {
    out.push('{');
    inside(out);
    out.push('}');
}

fn write_scalar(ty: &Type, bytes: &[u8], out: &mut String) {
    let finite = match ty {
        Type::Float => decode_f32(bytes).is_none_or(f32::is_finite),
        Type::Double => decode_f64(bytes).is_none_or(f64::is_finite),
        _ => true,
    };
    let text = match (ty, decode_i64(bytes)) {
        (Type::Timestamp, Some(millis)) => temporal::print_timestamp(millis, ' '),
        _ => text::print_scalar(ty, bytes),
    };
    match ty {
        _ if !finite => out.push_str("null"),
        _ if bytes.is_empty() => write_string(&text, out),
        Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt | Type::Counter => {
            out.push_str(&text);
        }
        Type::Boolean | Type::Float | Type::Double | Type::Varint | Type::Decimal => {
            out.push_str(&text);
        }
        _ => write_string(&text, out),
    }
}

fn write_array(ty: &Type, parts: Parts<'_>, out: &mut String) {
    out.push('[');
    let mut count = 0;
    for (index, part) in parts.map_while(Result::ok).enumerate() {
        separate(index, out);
        write_part(part_type(ty, index), part, out);
        count = index + 1;
    }
    // Fields that are missing at the end of a tuple are null.
    let fields = if let Type::Tuple(types) = ty { types.len() } else { 0 };
    for index in count..fields {
        separate(index, out);
        out.push_str("null");
    }
    out.push(']');
}

fn write_map(ty: &Type, bytes: &[u8], out: &mut String) {
    let Type::Map { key: key_ty, value: value_ty, .. } = ty else { return };
    for (index, (key, value)) in super::map_entries(bytes).enumerate() {
        separate(index, out);
        let mut name = String::new();
        write_value(key_ty, key, &mut name);
        if name.starts_with('"') {
            out.push_str(&name);
        } else {
            write_string(&name, out);
        }
        out.push_str(": ");
        write_value(value_ty, value, out);
    }
}

/// Fields that are missing at the end are null. Names that are not lower-case stand in double
/// quotes inside of their string, as they would in CQL.
fn write_fields(ty: &Type, bytes: &[u8], out: &mut String) {
    let Type::User(user) = ty else { return };
    let mut parts = super::fields(bytes).map_while(Result::ok);
    for (index, (name, field_ty)) in user.fields.iter().enumerate() {
        separate(index, out);
        if name.chars().any(char::is_uppercase) {
            write_string(&format!("\"{name}\""), out);
        } else {
            write_string(name, out);
        }
        out.push_str(": ");
        write_part(Some(field_ty), parts.next().flatten(), out);
    }
}

fn write_part(ty: Option<&Type>, part: Option<&[u8]>, out: &mut String) {
    match (ty, part) {
        (Some(ty), Some(part)) => write_value(ty, part, out),
        _ => out.push_str("null"),
    }
}

fn separate(index: usize, out: &mut String) {
    if index != 0 {
        out.push_str(", ");
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::types::UserTypeRef;
    use crate::value::{parse_scalar, write_collection, write_map, write_tuple};
    use proptest::prelude::*;

    fn check(ty: Type, text: &str, expected: &str) {
        let bytes = parse_scalar(&ty, text).unwrap();
        assert_eq!(to_json(&ty, &bytes), expected);
    }

    #[test]
    fn scalars() {
        check(Type::Int, "-5", "-5");
        check(Type::Int, "", "\"\"");
        check(Type::Text, "a\"b\\\n\u{1}\u{e9}", "\"a\\\"b\\\\\\n\\u0001\u{e9}\"");
        check(Type::Boolean, "true", "true");
        check(Type::Double, "1.0", "1.0");
        check(Type::Double, "NaN", "null");
        check(Type::Blob, "0xff", "\"0xff\"");
        check(Type::Timestamp, "2011-02-03 04:05", "\"2011-02-03 04:05:00.000Z\"");
        check(Type::Date, "2011-02-03", "\"2011-02-03\"");
        check(Type::Decimal, "1.50", "1.50");
        check(Type::Duration, "1h", "\"1h\"");
    }

    #[test]
    fn composites() {
        let one = 1i32.to_be_bytes();
        let mut list = Vec::new();
        write_collection([&one[..], &one].into_iter(), &mut list);
        let int = || Box::new(Type::Int);
        let list_ty = Type::List { element: int(), frozen: true };
        assert_eq!(to_json(&list_ty, &list), "[1, 1]");
        let mut map = Vec::new();
        write_map([(&list[..], &one[..])].into_iter(), &mut map);
        let map_ty = Type::Map { key: Box::new(list_ty), value: int(), frozen: true };
        assert_eq!(to_json(&map_ty, &map), "{\"[1, 1]\": 1}");
        let mut user = Vec::new();
        write_tuple([Some(&one[..])].into_iter(), &mut user);
        let fields = vec![("A".into(), Type::Int), ("b".into(), Type::Text)];
        let (keyspace, name) = ("ks".into(), "t".into());
        let user_ty = Type::User(Box::new(UserTypeRef { keyspace, name, fields, frozen: true }));
        assert_eq!(to_json(&user_ty, &user), "{\"\\\"A\\\"\": 1, \"b\": null}");
        assert_eq!(to_json(&Type::Int, &[1]), "\"0x01\"");
        let pair = Type::Tuple(vec![Type::Int, Type::Text]);
        assert_eq!(to_json(&pair, &user), "[1, null]");
    }

    proptest! {
        #[test]
        fn any_bytes_have_json(ty in testing::value_type(), bytes: Vec<u8>) {
            prop_assert!(!to_json(&ty, &bytes).is_empty());
        }

        #[test]
        fn quotes_and_brackets_balance((ty, bytes) in testing::typed_value()) {
            let json = to_json(&ty, &bytes);
            let (mut depth, mut in_string, mut escaped) = (0i32, false, false);
            for c in json.chars() {
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '"' => in_string = !in_string,
                    '[' | '{' if !in_string => depth += 1,
                    ']' | '}' if !in_string => depth -= 1,
                    _ => {}
                }
                prop_assert!(0 <= depth);
            }
            prop_assert!(depth == 0 && !in_string, "{}", json);
        }
    }
}
