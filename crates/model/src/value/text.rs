//! Values as CQL text, in and out.

use super::collection::{Parts, part_type, parts_of};
use super::{
    Decimal, Duration, Invalid, decode_bool, decode_date, decode_f32, decode_f64, decode_i8,
    decode_i16, decode_i32, decode_i64, decode_inet, decode_text, decode_uuid, inet, invalid,
    temporal, validate, varint,
};
use crate::types::{Type, quote_identifier};
use std::fmt::Write;
use uuid::Uuid;

/// The CQL literal of a value: `'text'`, `0xff`, `{1: 'a'}`, `1h30m`. The empty value of a type
/// that has no literal for it is `''`; invalid bytes are printed as a blob.
pub fn to_literal(ty: &Type, bytes: &[u8]) -> String {
    if validate(ty, bytes).is_err() {
        return print_blob(bytes);
    }
    let mut out = String::new();
    write_literal(ty, bytes, &mut out);
    out
}

fn write_literal(ty: &Type, bytes: &[u8], out: &mut String) {
    let (open, close) = match ty {
        Type::List { .. } | Type::Vector { .. } => ('[', ']'),
        Type::Set { .. } | Type::Map { .. } | Type::User(_) => ('{', '}'),
        Type::Tuple(_) => ('(', ')'),
        _ => {
            out.push_str(&scalar_literal(ty, bytes));
            return;
        }
    };
    out.push(open);
    if let Some(parts) = parts_of(ty, bytes) {
        write_parts(ty, parts, out);
    }
    out.push(close);
}

fn write_parts(ty: &Type, parts: Parts<'_>, out: &mut String) {
    let is_map = matches!(ty, Type::Map { .. });
    for (index, part) in parts.map_while(Result::ok).enumerate() {
        let Some(part_ty) = part_type(ty, index) else { return };
        if is_map && !index.is_multiple_of(2) {
            out.push_str(": ");
        } else if index != 0 {
            out.push_str(", ");
        }
        if let Type::User(user) = ty
            && let Some((name, _)) = user.fields.get(index)
        {
            let _ = write!(out, "{}: ", quote_identifier(name));
        }
        match part {
            Some(part) => write_literal(part_ty, part, out),
            None => out.push_str("null"),
        }
    }
}

fn scalar_literal(ty: &Type, bytes: &[u8]) -> String {
    match ty {
        Type::Blob | Type::Custom(_) => print_blob(bytes),
        Type::Ascii | Type::Text | Type::Date | Type::Time | Type::Timestamp | Type::Inet => {
            quote_string(&print_scalar(ty, bytes))
        }
        _ if bytes.is_empty() => "''".to_owned(),
        _ => print_scalar(ty, bytes),
    }
}

/// The text of a valid scalar value as [`parse_scalar`] takes it: without quotes.
pub fn print_scalar(ty: &Type, bytes: &[u8]) -> String {
    printed(ty, bytes).unwrap_or_else(|| {
        if bytes.is_empty() && !matches!(ty, Type::Blob | Type::Custom(_)) {
            return String::new();
        }
        print_blob(bytes)
    })
}

/// `None` for the empty value, for bytes of a wrong length and for what has no text but bytes.
fn printed(ty: &Type, bytes: &[u8]) -> Option<String> {
    let text = match ty {
        Type::Ascii | Type::Text => decode_text(bytes)?.to_owned(),
        Type::TinyInt => decode_i8(bytes)?.to_string(),
        Type::SmallInt => decode_i16(bytes)?.to_string(),
        Type::Int => decode_i32(bytes)?.to_string(),
        Type::BigInt | Type::Counter => decode_i64(bytes)?.to_string(),
        Type::Boolean => decode_bool(bytes)?.to_string(),
        Type::Date => temporal::print_date(decode_date(bytes)?),
        Type::Time => temporal::print_time(decode_i64(bytes)?),
        Type::Timestamp => temporal::print_timestamp(decode_i64(bytes)?, 'T'),
        Type::Float => print_float(decode_f32(bytes)?.into(), &format!("{:?}", decode_f32(bytes)?)),
        Type::Double => print_float(decode_f64(bytes)?, &format!("{:?}", decode_f64(bytes)?)),
        Type::Uuid | Type::TimeUuid => decode_uuid(bytes)?.hyphenated().to_string(),
        Type::Inet => decode_inet(bytes)?.to_string(),
        Type::Varint if !bytes.is_empty() => varint::decode(bytes).to_string(),
        Type::Decimal => Decimal::decode(bytes)?.to_string(),
        Type::Duration => Duration::decode(bytes).ok()?.to_string(),
        _ => return None,
    };
    Some(text)
}

/// The special values by the names that CQL has for them.
fn print_float(value: f64, finite: &str) -> String {
    match value {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ if value.is_nan() => "NaN".to_owned(),
        _ => finite.to_owned(),
    }
}

fn print_blob(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A text as a CQL string literal: in single quotes, those inside doubled.
pub fn quote_string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The bytes of a constant's text (the content of a string literal, a number's digits, a uuid,
/// `true`): what a scalar type accepts from CQL text, from COPY and from JSON strings. The empty
/// text is the empty value of every type but `duration`.
pub fn parse_scalar(ty: &Type, text: &str) -> Result<Vec<u8>, Invalid> {
    if text.is_empty() && *ty != Type::Duration {
        return Ok(Vec::new());
    }
    match ty {
        Type::Text => Ok(text.as_bytes().to_vec()),
        Type::Ascii if text.is_ascii() => Ok(text.as_bytes().to_vec()),
        Type::Ascii => invalid("Invalid ASCII character in string literal"),
        Type::Blob | Type::Custom(_) => parse_blob(text),
        Type::TinyInt => number::<i8>(text, "byte").map(|v| v.to_be_bytes().to_vec()),
        Type::SmallInt => number::<i16>(text, "short").map(|v| v.to_be_bytes().to_vec()),
        Type::Int => number::<i32>(text, "int").map(|v| v.to_be_bytes().to_vec()),
        Type::BigInt | Type::Counter => {
            number::<i64>(text, "long").map(|v| v.to_be_bytes().to_vec())
        }
        Type::Float => number::<f32>(text, "float").map(|v| v.to_be_bytes().to_vec()),
        Type::Double => number::<f64>(text, "double").map(|v| v.to_be_bytes().to_vec()),
        Type::Boolean if text.eq_ignore_ascii_case("true") => Ok(vec![1]),
        Type::Boolean if text.eq_ignore_ascii_case("false") => Ok(vec![0]),
        Type::Boolean => invalid(format!("Unable to make boolean from '{text}'")),
        Type::Date => temporal::parse_date(text).map(|date| date.to_be_bytes().to_vec()),
        Type::Time => temporal::parse_time(text).map(|nanos| nanos.to_be_bytes().to_vec()),
        Type::Timestamp => temporal::parse_timestamp(text).map(|ms| ms.to_be_bytes().to_vec()),
        Type::Uuid => parse_uuid(text).map(|uuid| uuid.as_bytes().to_vec()),
        Type::TimeUuid => {
            let uuid = parse_uuid(text)?;
            validate(ty, uuid.as_bytes())?;
            Ok(uuid.as_bytes().to_vec())
        }
        Type::Inet => match inet::parse(text) {
            Some(address) => Ok(inet::encode(address)),
            None => invalid(format!("Unable to make inet address from '{text}'")),
        },
        Type::Varint => varint::parse(text).map(|value| varint::encode(&value)),
        Type::Decimal => Decimal::parse(text).map(|value| value.encode()),
        Type::Duration => Duration::parse(text).map(|value| value.encode()),
        _ => invalid(format!("'{text}' is not a value of type {}", ty.to_cql())),
    }
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Invalid> {
    text.parse().map_err(|_| Invalid(format!("Unable to make {what} from '{text}'")))
}

/// Only the canonical form of 36 characters.
fn parse_uuid(text: &str) -> Result<Uuid, Invalid> {
    let canonical = text.len() == 36;
    match Uuid::try_parse(text) {
        Ok(uuid) if canonical => Ok(uuid),
        _ => invalid(format!("Unable to make UUID from '{text}'")),
    }
}

/// Hexadecimal digits, with or without `0x` in front.
fn parse_blob(text: &str) -> Result<Vec<u8>, Invalid> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
    let nibble = |byte: &u8| (*byte as char).to_digit(16).map(|nibble| nibble as u8);
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some((nibble(high)? << 4) | nibble(low)?);
    match pairs.iter().map(byte).collect::<Option<Vec<u8>>>() {
        Some(bytes) if odd.is_empty() => Ok(bytes),
        _ => invalid(format!("cannot parse '{text}' as hex bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::value::{compare, write_collection, write_map, write_tuple, write_vector};
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn literal(ty: Type, text: &str, expected: &str) {
        let bytes = parse_scalar(&ty, text).unwrap();
        assert_eq!(to_literal(&ty, &bytes), expected, "{ty:?}");
    }

    #[test]
    fn scalars() {
        literal(Type::Text, "it's", "'it''s'");
        literal(Type::Blob, "0xCAfe", "0xcafe");
        literal(Type::Blob, "", "0x");
        literal(Type::Int, "+7", "7");
        literal(Type::Int, "", "''");
        literal(Type::Boolean, "TRUE", "true");
        literal(Type::Float, "1.5", "1.5");
        literal(Type::Double, "nan", "NaN");
        literal(Type::Double, "-infinity", "-Infinity");
        literal(Type::Double, "1e300", "1e300");
        literal(Type::Date, "2011-02-03", "'2011-02-03'");
        literal(Type::Time, "04:05:06.5", "'04:05:06.500000000'");
        literal(Type::Timestamp, "2011-02-03 04:05", "'2011-02-03T04:05:00.000Z'");
        literal(Type::Inet, "::1", "'::1'");
        literal(Type::Varint, "-123456789012345678901234567890", "-123456789012345678901234567890");
        literal(Type::Decimal, "1.50", "1.50");
        literal(Type::Duration, "P1Y2M", "1y2mo");
        let uuid = "d2177dd0-eaa2-11de-a572-001b779c76e3";
        literal(Type::TimeUuid, uuid, uuid);
    }

    #[test]
    fn collections() {
        let (one, text) = (1i32.to_be_bytes(), &b"a'b"[..]);
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            out
        };
        let check = |cql: &str, bytes: Vec<u8>, expected: &str| {
            let ty = Type::from_cql(cql, &|_| None).unwrap();
            assert_eq!(to_literal(&ty, &bytes), expected);
        };
        let list = written(&|out| write_collection([&one[..], &one].into_iter(), out));
        check("list<int>", list.clone(), "[1, 1]");
        check("set<int>", list, "{1, 1}");
        let map =
            written(&|out| write_map([(&one[..], text), (text, text)][..1].iter().copied(), out));
        check("map<int, text>", map, "{1: 'a''b'}");
        let tuple = written(&|out| write_tuple([Some(text), None].into_iter(), out));
        check("tuple<text, int>", tuple, "('a''b', null)");
        let vector = written(&|out| write_vector(&Type::Int, [&one[..], &one].into_iter(), out));
        check("vector<int, 2>", vector, "[1, 1]");
        check("vector<int, 2>", vec![1], "0x01");
    }

    #[test]
    fn refusals() {
        let check = |ty: Type, text: &str, expected: &str| {
            assert_eq!(parse_scalar(&ty, text), Err(Invalid(expected.into())));
        };
        check(Type::Int, "2147483648", "Unable to make int from '2147483648'");
        check(Type::BigInt, "1.5", "Unable to make long from '1.5'");
        check(Type::Boolean, "yes", "Unable to make boolean from 'yes'");
        check(Type::Blob, "0x123", "cannot parse '0x123' as hex bytes");
        check(Type::Blob, "zz", "cannot parse 'zz' as hex bytes");
        check(Type::Ascii, "\u{e9}", "Invalid ASCII character in string literal");
        check(
            Type::Uuid,
            "d2177dd0eaa211dea572001b779c76e3",
            "Unable to make UUID from 'd2177dd0eaa211dea572001b779c76e3'",
        );
        check(
            Type::TimeUuid,
            "d2177dd0-eaa2-41de-a572-001b779c76e3",
            "Unsupported UUID version (4)",
        );
        check(Type::Inet, "localhost", "Unable to make inet address from 'localhost'");
        check(Type::Duration, "", "Unable to convert '' to a duration");
    }

    proptest! {
        #[test]
        fn literals_of_scalars_parse(
            (ty, bytes) in testing::scalar_type().prop_flat_map(|ty| {
                (Just(ty.clone()), testing::value_of(&ty))
            }),
        ) {
            let text = print_scalar(&ty, &bytes);
            let back = parse_scalar(&ty, &text).unwrap();
            prop_assert_eq!(compare(&ty, &back, &bytes), Ordering::Equal, "{:?} {}", ty, text);
            if ty != Type::Varint && ty != Type::Decimal {
                prop_assert_eq!(back, bytes, "{:?} {}", ty, text);
            }
        }

        #[test]
        fn any_bytes_have_a_literal(ty in testing::value_type(), bytes: Vec<u8>) {
            prop_assert!(!to_literal(&ty, &bytes).is_empty());
        }

        #[test]
        fn any_text_is_parsed_or_refused(ty in testing::scalar_type(), text in "\\PC{0,20}") {
            if let Ok(bytes) = parse_scalar(&ty, &text) {
                prop_assert_eq!(validate(&ty, &bytes), Ok(()));
            }
        }
    }
}
