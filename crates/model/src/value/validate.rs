//! Whether bytes are a value of a type.
//!
//! The empty value is valid for every scalar type but `duration`, and never for a collection. A
//! tuple or user type may have fewer fields than its type.

use super::collection::{part_type, parts_of};
use super::{Duration, Invalid, invalid, temporal};
use crate::types::{NESTING_MAX, Type};

/// Checks that `bytes` is a value of `ty` ("Expected 4 bytes for an int (3)").
pub fn validate(ty: &Type, bytes: &[u8]) -> Result<(), Invalid> {
    validate_nested(ty, bytes, NESTING_MAX)
}

fn validate_nested(ty: &Type, bytes: &[u8], depth_left: usize) -> Result<(), Invalid> {
    let got = bytes.len();
    if got == 0 && (ty.is_native() || matches!(ty, Type::Custom(_))) && *ty != Type::Duration {
        return Ok(());
    }
    let refusal = match ty {
        Type::Blob | Type::Varint | Type::Custom(_) => return Ok(()),
        Type::Text => return validate_utf8(bytes),
        Type::Ascii if !bytes.is_ascii() => {
            "Validation failed - non-ASCII character in an ASCII string".to_owned()
        }
        Type::TinyInt if got != 1 => format!("Expected 1 byte for a tinyint ({got})"),
        Type::SmallInt if got != 2 => format!("Expected 2 bytes for a smallint ({got})"),
        Type::Int if got != 4 => format!("Expected 4 bytes for an int ({got})"),
        Type::BigInt if got != 8 => format!("Expected 8 bytes for a bigint ({got})"),
        Type::Counter if got != 8 => format!("Expected 8 bytes for a counter ({got})"),
        Type::Boolean if got != 1 => format!("Validation failed for boolean, got {got} bytes"),
        Type::Date if got != 4 => format!("Expected 4 byte long for date ({got})"),
        Type::Time if got != 8 => format!("Expected 8 byte long for time ({got})"),
        Type::Time => return validate_time(bytes),
        Type::Timestamp if got != 8 => format!("Validation failed for timestamp - got {got} bytes"),
        Type::Float if got != 4 => format!("Expected 4 bytes for a floating type, got {got}"),
        Type::Double if got != 8 => format!("Expected 8 bytes for a floating type, got {got}"),
        Type::Uuid if got != 16 => format!("Validation failed for uuid - got {got} bytes"),
        Type::TimeUuid => return validate_timeuuid(bytes),
        Type::Inet if got != 4 && got != 16 => {
            format!("Validation failed for inet_addr - got {got} bytes")
        }
        Type::Decimal if got < 4 => format!("Expected at least 4 bytes for a decimal, got {got}"),
        Type::Empty => format!("Expected no bytes for an empty value, got {got}"),
        Type::Duration => return Duration::decode(bytes).map(|_| ()),
        _ if ty.is_native() => return Ok(()),
        _ => return validate_parts(ty, bytes, depth_left),
    };
    Err(Invalid(refusal))
}

fn validate_utf8(bytes: &[u8]) -> Result<(), Invalid> {
    str::from_utf8(bytes).map(|_| ()).map_err(|error| {
        let at = error.valid_up_to();
        let text = "Validation failed - non-UTF8 character in a UTF8 string, at byte offset";
        Invalid(format!("{text} {at}"))
    })
}

fn validate_time(bytes: &[u8]) -> Result<(), Invalid> {
    let nanos = <[u8; 8]>::try_from(bytes).map_or(-1, i64::from_be_bytes);
    if (0..temporal::NANOS_PER_DAY).contains(&nanos) {
        return Ok(());
    }
    invalid(format!("Time value out of range: {nanos} nanoseconds"))
}

fn validate_timeuuid(bytes: &[u8]) -> Result<(), Invalid> {
    let Ok(bytes) = <[u8; 16]>::try_from(bytes) else {
        return invalid(format!("Validation failed for timeuuid - got {} bytes", bytes.len()));
    };
    match bytes[6] >> 4 {
        1 => Ok(()),
        version => invalid(format!("Unsupported UUID version ({version})")),
    }
}

fn validate_parts(ty: &Type, bytes: &[u8], depth_left: usize) -> Result<(), Invalid> {
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return invalid("Type is nested too deeply");
    };
    let Some(parts) = parts_of(ty, bytes) else { return Ok(()) };
    // Each element of a counted collection has a length before it.
    let counted = matches!(ty, Type::List { .. } | Type::Set { .. } | Type::Map { .. });
    if counted && parts.left().is_some_and(|left| parts.rest().len() / 4 < left) {
        return invalid(format!("Not enough bytes to read a {}", kind(ty)));
    }
    let nulls_allowed = matches!(ty, Type::Tuple(_) | Type::User(_));
    for (index, part) in parts.enumerate() {
        let Some(part_ty) = part_type(ty, index) else {
            return invalid(format!("Expected {index} elements in a {}, but got more", kind(ty)));
        };
        match part {
            Err(damaged) if damaged.what.starts_with("bytes after") => {
                return invalid(format!("Unexpected extraneous bytes after {} value", kind(ty)));
            }
            Err(_) => return invalid(format!("Not enough bytes to read a {}", kind(ty))),
            Ok(None) if nulls_allowed => {}
            Ok(None) => return invalid("null is not supported inside collections"),
            Ok(Some(part)) => {
                let fixed = matches!(ty, Type::Vector { .. }) && part.is_empty();
                if fixed && part_ty.fixed_length().is_some() {
                    return invalid("A vector's element may not be empty");
                }
                validate_nested(part_ty, part, depth_left)?;
            }
        }
    }
    Ok(())
}

fn kind(ty: &Type) -> &'static str {
    match ty {
        Type::List { .. } => "list",
        Type::Set { .. } => "set",
        Type::Map { .. } => "map",
        Type::Tuple(_) => "tuple",
        Type::User(_) => "user type",
        Type::Vector { .. } => "vector",
        _ => "value",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    fn check(cql: &str, bytes: &[u8], expected: &str) {
        let ty = Type::from_cql(cql, &|_| None).unwrap();
        let found = validate(&ty, bytes).map_or_else(|invalid| invalid.0, |()| "ok".into());
        assert_eq!(found, expected, "{cql} {bytes:02x?}");
    }

    #[test]
    fn scalars() {
        check("int", &[0; 3], "Expected 4 bytes for an int (3)");
        check("int", &[0; 4], "ok");
        check("int", &[], "ok");
        check("bigint", &[0; 4], "Expected 8 bytes for a bigint (4)");
        check("tinyint", &[0; 2], "Expected 1 byte for a tinyint (2)");
        check("boolean", &[0; 2], "Validation failed for boolean, got 2 bytes");
        check("timestamp", &[1], "Validation failed for timestamp - got 1 bytes");
        check("float", &[0; 8], "Expected 4 bytes for a floating type, got 8");
        check("inet", &[0; 5], "Validation failed for inet_addr - got 5 bytes");
        check("inet", &[0; 16], "ok");
        check("decimal", &[0; 4], "ok");
        check("time", &[0xff; 8], "Time value out of range: -1 nanoseconds");
        check("timeuuid", &[0x40; 16], "Unsupported UUID version (4)");
        check("timeuuid", &[0x10; 16], "ok");
        check("uuid", &[0x40; 16], "ok");
        check("duration", &[], "Expected at least 3 bytes for a duration, got 0");
        let text = "Validation failed - non-UTF8 character in a UTF8 string, at byte offset 1";
        check("text", b"a\xc0\x80", text);
        check("text", b"\xed\xa0\x80", &text.replace('1', "0"));
        check("ascii", b"\x80", "Validation failed - non-ASCII character in an ASCII string");
    }

    #[test]
    fn nested() {
        check("frozen<list<int>>", &[], "Not enough bytes to read a list");
        check("frozen<list<int>>", &[0xff; 4], "Not enough bytes to read a list");
        check("frozen<list<int>>", &[0; 4], "ok");
        let huge = b"\x7f\xff\xff\xff\xff\xff\xff\xff";
        check("frozen<list<int>>", huge, "Not enough bytes to read a list");
        check("frozen<map<int, int>>", huge, "Not enough bytes to read a map");
        check("frozen<list<int>>", &[0; 5], "Unexpected extraneous bytes after list value");
        check("frozen<list<int>>", b"\0\0\0\x01\0\0\0\x01x", "Expected 4 bytes for an int (1)");
        let null = b"\0\0\0\x01\xff\xff\xff\xff";
        check("frozen<set<int>>", null, "null is not supported inside collections");
        check("tuple<int, int>", &[], "ok");
        check("tuple<int, int>", &[0xff; 4], "ok");
        check("tuple<int>", &[0xff; 8], "Expected 1 elements in a tuple, but got more");
        check("vector<float, 2>", &[0; 8], "ok");
        check("vector<float, 2>", &[0; 7], "Not enough bytes to read a vector");
        check("vector<float, 2>", &[0; 9], "Unexpected extraneous bytes after vector value");
        check("vector<text, 2>", b"\x01a\0", "ok");
    }

    proptest! {
        #[test]
        fn generated_values_are_valid((ty, bytes) in testing::typed_value()) {
            prop_assert_eq!(validate(&ty, &bytes), Ok(()));
        }

        #[test]
        fn never_panics(ty in testing::value_type(), bytes: Vec<u8>, small in "[\0-\x04]{0,20}") {
            let _ = validate(&ty, &bytes);
            let _ = validate(&ty, small.as_bytes());
        }
    }
}
