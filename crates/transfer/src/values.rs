//! Values as text, as cqlsh's COPY writes and reads them: `[1, 2]`, `{'a': 0xff}`, `{x: 1, y: }`.
//!
//! A scalar stands bare; inside of a collection texts, dates, times, timestamps and addresses have
//! single quotes. A null inside of a tuple or a user type is nothing, `null` or `None`.
//!
//! Invariants
//!  - *exact*: what [`print`] prints of a valid value is read by [`put`] as the same bytes, but
//!    for the empty value of types whose text is never empty, which is read as null.

use jiff::fmt::strtime::BrokenDownTime;
use model::Type;
use model::types::quote_identifier;
use model::value::{self, temporal};

/// How values are written, beside what their types say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formats {
    /// What stands for null.
    pub null: String,
    /// As strftime has them; `None`: as CQL.
    pub timestamp: Option<String>,
    pub date: Option<String>,
    pub time: Option<String>,
    /// The words for true and false; `None`: these.
    pub booleans: Option<(String, String)>,
    /// In place of the point in numbers.
    pub decimal_separator: Option<char>,
    /// Left out of numbers.
    pub thousands_separator: Option<char>,
}

/// Appends the value that `text` means, with its length in front.
pub fn put(ty: &Type, text: &[u8], formats: &Formats, out: &mut Vec<u8>) -> Result<(), String> {
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => return Err(format!("not UTF-8 at byte {}", error.valid_up_to() + 1)),
    };
    let fixed = |bytes: &[u8], out: &mut Vec<u8>| {
        client::request::put_value(out, bytes);
        Ok(())
    };
    // What most values are goes past the general way, which allocates.
    match ty {
        Type::Text => return fixed(text.as_bytes(), out),
        Type::Int if formats.thousands_separator.is_none() => {
            if let Ok(number) = text.parse::<i32>() {
                return fixed(&number.to_be_bytes(), out);
            }
        }
        Type::BigInt if formats.thousands_separator.is_none() => {
            if let Ok(number) = text.parse::<i64>() {
                return fixed(&number.to_be_bytes(), out);
            }
        }
        Type::Double if formats.decimal_separator.is_none() && !text.is_empty() => {
            if let Ok(number) = text.parse::<f64>() {
                return fixed(&number.to_be_bytes(), out);
            }
        }
        Type::Uuid if text.len() == 36 => {
            if let Ok(uuid) = model::Uuid::try_parse(text) {
                return fixed(uuid.as_bytes(), out);
            }
        }
        _ => {}
    }
    let bytes = value(ty, text, formats)?;
    fixed(&bytes, out)
}

/// The bytes of a value of any type.
fn value(ty: &Type, text: &str, formats: &Formats) -> Result<Vec<u8>, String> {
    let element = |ty: &Type, text: &str| {
        let bytes = nested(ty, text, formats)?;
        bytes.ok_or_else(|| "a null within a collection".to_string())
    };
    let mut out = Vec::new();
    match ty {
        Type::List { element: inner, .. } | Type::Set { element: inner, .. } => {
            let parts = split(text, ',')?;
            let parts: Result<Vec<_>, _> = parts.iter().map(|part| element(inner, part)).collect();
            let parts = parts?;
            let mut parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            if let Type::Set { .. } = ty {
                value::sort_set(inner, &mut parts);
            }
            value::write_collection(parts.into_iter(), &mut out);
        }
        Type::Map { key, value: inner, .. } => {
            let mut entries = Vec::new();
            for entry in split(text, ',')? {
                let (name, text) = pair(entry)?;
                entries.push((element(key, name)?, element(inner, text)?));
            }
            let mut entries: Vec<(&[u8], &[u8])> =
                entries.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            value::sort_map(key, &mut entries);
            value::write_map(entries.into_iter(), &mut out);
        }
        Type::Tuple(types) => {
            let parts = split(text, ',')?;
            if types.len() < parts.len() {
                return Err(format!("{} elements of a tuple of {}", parts.len(), types.len()));
            }
            let parts = types.iter().enumerate().map(|(index, ty)| {
                parts.get(index).map_or(Ok(None), |part| nested(ty, part, formats))
            });
            let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
            value::write_tuple(parts.iter().map(Option::as_deref), &mut out);
        }
        Type::User(user) => {
            let mut fields = vec![None; user.fields.len()];
            for entry in split(text, ',')? {
                let (name, text) = pair(entry)?;
                let name = unquoted_name(name);
                let index = user.fields.iter().position(|(field, _)| *field == name);
                let index = index.ok_or_else(|| format!("{} has no field {name}", user.name))?;
                fields[index] = nested(&user.fields[index].1, text, formats)?;
            }
            value::write_tuple(fields.iter().map(Option::as_deref), &mut out);
        }
        Type::Vector { element: inner, dimension } => {
            let parts = split(text, ',')?;
            if parts.len() != usize::from(*dimension) {
                return Err(format!("{} elements of a vector of {dimension}", parts.len()));
            }
            let parts: Result<Vec<_>, _> = parts.iter().map(|part| element(inner, part)).collect();
            let parts = parts?;
            let fixed = inner.fixed_length();
            if parts.iter().any(|part| fixed.is_some_and(|length| part.len() != length)) {
                return Err("an empty element of a vector".to_string());
            }
            value::write_vector(inner, parts.iter().map(Vec::as_slice), &mut out);
        }
        _ => return scalar(ty, text, formats),
    }
    Ok(out)
}

/// A part of a collection, a tuple or a user type; `None` is null.
fn nested(ty: &Type, text: &str, formats: &Formats) -> Result<Option<Vec<u8>>, String> {
    let text = text.trim();
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    match quoted {
        Some(inside) => value(ty, &inside.replace("''", "'"), formats).map(Some),
        None if text.is_empty() || matches!(text, "null" | "None") => Ok(None),
        None => value(ty, text, formats).map(Some),
    }
}

/// The parts between brackets; what stands in quotes or in brackets of its own is one.
fn split(text: &str, separator: char) -> Result<Vec<&str>, String> {
    let text = text.trim();
    let inside = ["[]", "{}", "()"].iter().find_map(|brackets| {
        let (open, close) = brackets.split_at(1);
        text.strip_prefix(open)?.strip_suffix(close)
    });
    let inside = inside.ok_or_else(|| format!("no brackets around {text}"))?;
    let parts = parts(inside, separator)?;
    match &parts[..] {
        [only] if only.trim().is_empty() => Ok(Vec::new()),
        _ => Ok(parts),
    }
}

fn parts(text: &str, separator: char) -> Result<Vec<&str>, String> {
    let (mut found, mut start, mut depth, mut is_quoted) = (Vec::new(), 0, 0u32, false);
    for (at, c) in text.char_indices() {
        match c {
            '\'' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => {
                depth = depth.checked_sub(1).ok_or("brackets that do not match")?;
            }
            _ if c == separator && depth == 0 => {
                found.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    if is_quoted || depth != 0 {
        return Err("quotes or brackets that do not match".to_string());
    }
    found.push(&text[start..]);
    Ok(found)
}

/// A key and what follows its colon.
fn pair(entry: &str) -> Result<(&str, &str), String> {
    match parts(entry, ':')?[..] {
        [name, value] => Ok((name, value)),
        _ => Err(format!("not a key and a value: {}", entry.trim())),
    }
}

fn unquoted_name(name: &str) -> String {
    let name = name.trim();
    for quote in ['"', '\''] {
        if let Some(inside) = name.strip_prefix(quote).and_then(|name| name.strip_suffix(quote)) {
            return inside.replace(&format!("{quote}{quote}"), &quote.to_string());
        }
    }
    name.to_string()
}

fn scalar(ty: &Type, text: &str, formats: &Formats) -> Result<Vec<u8>, String> {
    let read = |text: &str| value::parse_scalar(ty, text).map_err(|invalid| invalid.0);
    let is_text = matches!(ty, Type::Text | Type::Ascii | Type::Blob | Type::Custom(_));
    if is_text {
        return read(text);
    }
    let text = text.trim();
    match ty {
        Type::Timestamp => match formats.timestamp.as_deref().and_then(|f| timestamp(f, text)) {
            Some(millis) => Ok(millis.to_be_bytes().to_vec()),
            None => read(text),
        },
        Type::Date => match formats.date.as_deref().and_then(|f| date(f, text)) {
            Some(date) => Ok(date.to_be_bytes().to_vec()),
            None => read(text),
        },
        Type::Time => match formats.time.as_deref().and_then(|f| time(f, text)) {
            Some(nanos) => Ok(nanos.to_be_bytes().to_vec()),
            None => read(text),
        },
        Type::Boolean => match &formats.booleans {
            Some((yes, _)) if text.eq_ignore_ascii_case(yes) => Ok(vec![1]),
            Some((_, no)) if text.eq_ignore_ascii_case(no) => Ok(vec![0]),
            _ => read(text),
        },
        Type::Float | Type::Double | Type::Decimal => read(&number(text, formats, true)),
        Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt | Type::Varint => {
            read(&number(text, formats, false))
        }
        Type::Counter => read(&number(text, formats, false)),
        _ => read(text),
    }
}

fn number<'a>(text: &'a str, formats: &Formats, has_point: bool) -> std::borrow::Cow<'a, str> {
    let point = formats.decimal_separator.filter(|point| has_point && *point != '.');
    if point.is_none() && formats.thousands_separator.is_none() {
        return text.into();
    }
    let kept = text.chars().filter(|c| Some(*c) != formats.thousands_separator);
    kept.map(|c| if Some(c) == point { '.' } else { c }).collect()
}

fn timestamp(format: &str, text: &str) -> Option<i64> {
    let parsed = BrokenDownTime::parse(format, text).ok()?;
    if let Ok(moment) = parsed.to_timestamp() {
        return Some(moment.as_millisecond());
    }
    let midnight = || parsed.to_date().ok().map(|date| date.at(0, 0, 0, 0));
    let civil = parsed.to_datetime().ok().or_else(midnight)?;
    Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

fn date(format: &str, text: &str) -> Option<u32> {
    let date = BrokenDownTime::parse(format, text).ok()?.to_date().ok()?;
    let day = temporal::Day {
        year: date.year().into(),
        month: u8::try_from(date.month()).ok()?,
        day: u8::try_from(date.day()).ok()?,
    };
    u32::try_from(day.to_epoch_days()? + i64::from(temporal::DATE_EPOCH)).ok()
}

fn time(format: &str, text: &str) -> Option<i64> {
    let time = BrokenDownTime::parse(format, text).ok()?.to_time().ok()?;
    let seconds = (i64::from(time.hour()) * 60 + i64::from(time.minute())) * 60;
    let nanos = i64::from(time.subsec_nanosecond());
    Some((seconds + i64::from(time.second())) * 1_000_000_000 + nanos)
}

/// Appends the text of a valid value.
pub fn print(ty: &Type, bytes: &[u8], formats: &Formats, out: &mut String) {
    match ty {
        Type::Text | Type::Ascii => out.push_str(&String::from_utf8_lossy(bytes)),
        _ => write(ty, bytes, formats, false, out),
    }
}

fn write(ty: &Type, bytes: &[u8], formats: &Formats, is_nested: bool, out: &mut String) {
    match ty {
        Type::List { element, .. } => {
            write_parts(('[', ']'), element, value::list_elements(bytes), formats, out);
        }
        Type::Set { element, .. } => {
            write_parts(('{', '}'), element, value::list_elements(bytes), formats, out);
        }
        Type::Vector { element, dimension } => {
            let parts = value::vector_elements(element, *dimension, bytes);
            write_parts(('[', ']'), element, parts, formats, out);
        }
        Type::Map { key, value: inner, .. } => {
            out.push('{');
            for (index, (name, bytes)) in value::map_entries(bytes).enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write(key, name, formats, true, out);
                out.push_str(": ");
                write(inner, bytes, formats, true, out);
            }
            out.push('}');
        }
        Type::Tuple(types) => {
            out.push('(');
            let mut parts = value::fields(bytes).map_while(Result::ok);
            for (index, ty) in types.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                match parts.next().flatten() {
                    Some(part) => write(ty, part, formats, true, out),
                    None => out.push_str("null"),
                }
            }
            out.push(')');
        }
        Type::User(user) => {
            out.push('{');
            let mut parts = value::fields(bytes).map_while(Result::ok);
            for (index, (name, ty)) in user.fields.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                let quoted = quote_identifier(name);
                // cqlsh knows no quotes here, and needs none unless a name has a separator.
                let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                out.push_str(if is_plain { name } else { &quoted });
                out.push_str(": ");
                if let Some(part) = parts.next().flatten() {
                    write(ty, part, formats, true, out);
                }
            }
            out.push('}');
        }
        _ => write_scalar(ty, bytes, formats, is_nested, out),
    }
}

fn write_parts<'a>(
    (open, close): (char, char),
    element: &Type,
    parts: impl Iterator<Item = Result<value::collection::Part<'a>, stdx::Damaged>>,
    formats: &Formats,
    out: &mut String,
) {
    out.push(open);
    for (index, part) in parts.map_while(Result::ok).enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        write(element, part.unwrap_or_default(), formats, true, out);
    }
    out.push(close);
}

fn write_scalar(ty: &Type, bytes: &[u8], formats: &Formats, is_nested: bool, out: &mut String) {
    let text = match ty {
        Type::Timestamp => print_timestamp(bytes, formats),
        Type::Date => print_date(bytes, formats),
        Type::Time => print_time(bytes, formats),
        Type::Boolean => match (value::decode_bool(bytes), &formats.booleans) {
            (Some(true), Some((yes, _))) => yes.clone(),
            (Some(false), Some((_, no))) => no.clone(),
            (Some(true), None) => "True".to_string(),
            (Some(false), None) => "False".to_string(),
            (None, _) => value::print_scalar(ty, bytes),
        },
        Type::Float | Type::Double | Type::Decimal => {
            let text = value::print_scalar(ty, bytes);
            match formats.decimal_separator {
                Some(point) => text.replace('.', &point.to_string()),
                None => text,
            }
        }
        _ => value::print_scalar(ty, bytes),
    };
    let is_text = matches!(
        ty,
        Type::Text | Type::Ascii | Type::Date | Type::Time | Type::Timestamp | Type::Inet
    );
    match is_nested && (is_text || text.is_empty()) {
        true => out.push_str(&value::quote_string(&text)),
        false => out.push_str(&text),
    }
}

/// As cqlsh writes it; outside of its years the milliseconds, which it reads.
fn print_timestamp(bytes: &[u8], formats: &Formats) -> String {
    let Some(millis) = value::decode_i64(bytes) else { return String::new() };
    if let Some(format) = &formats.timestamp {
        let moment = jiff::Timestamp::from_millisecond(millis).ok();
        let zoned = moment.map(|moment| moment.to_zoned(jiff::tz::TimeZone::UTC));
        if let Some(zoned) = zoned {
            return zoned.strftime(format).to_string();
        }
    }
    const YEARS: std::ops::Range<i64> = -62_135_596_800_000..253_402_300_800_000;
    match YEARS.contains(&millis) {
        true => temporal::print_timestamp(millis, ' ').replace('Z', "+0000"),
        false => millis.to_string(),
    }
}

fn print_date(bytes: &[u8], formats: &Formats) -> String {
    let formatted = formats.date.as_ref().and_then(|format| {
        let days = i64::from(value::decode_date(bytes)?) - i64::from(temporal::DATE_EPOCH);
        let day = temporal::Day::from_epoch_days(days);
        let (year, month, day) =
            (i16::try_from(day.year).ok()?, day.month.cast_signed(), day.day.cast_signed());
        Some(jiff::civil::Date::new(year, month, day).ok()?.strftime(format).to_string())
    });
    formatted.unwrap_or_else(|| value::print_scalar(&Type::Date, bytes))
}

fn print_time(bytes: &[u8], formats: &Formats) -> String {
    let formatted = formats.time.as_ref().and_then(|format| {
        let nanos = value::decode_i64(bytes)?;
        let midnight = jiff::civil::Time::midnight();
        let time = midnight.checked_add(jiff::Span::new().nanoseconds(nanos)).ok()?;
        Some(time.strftime(format).to_string())
    });
    formatted.unwrap_or_else(|| value::print_scalar(&Type::Time, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::testing;
    use proptest::prelude::*;

    fn ty(text: &str) -> Type {
        let user = model::UserType {
            keyspace: "k".into(),
            name: "u".into(),
            fields: vec![("a".into(), Type::Int), ("B c".into(), Type::Text)],
        };
        Type::from_cql(text, &|_| Some(user.clone())).expect("a type")
    }

    fn check(cql: &str, text: &str, printed: &str) {
        check_with(&Formats::default(), cql, text, printed);
    }

    fn check_with(formats: &Formats, cql: &str, text: &str, printed: &str) {
        let mut out = Vec::new();
        put(&ty(cql), text.as_bytes(), formats, &mut out).expect(text);
        let mut again = String::new();
        print(&ty(cql), &out[4..], formats, &mut again);
        assert_eq!(again, printed, "{cql}");
    }

    #[test]
    fn what_copy_writes_is_read() {
        check("int", "7", "7");
        check("int", " +7", "7");
        check("boolean", "True", "True");
        check("double", "1e300", "1e300");
        check("float", "nan", "NaN");
        check("blob", "0xCAFE", "0xcafe");
        check("timestamp", "2011-02-03 04:05:00.000+0000", "2011-02-03 04:05:00.000+0000");
        check("timestamp", "-99999999999999", "-99999999999999");
        check("list<text>", "['a', 'it''s', 'b,c']", "['a', 'it''s', 'b,c']");
        check("set<int>", "{3, 1, 2, 1}", "{1, 2, 3}");
        check("set<text>", "{}", "{}");
        check(
            "map<text, frozen<list<int>>>",
            "{'x:y': [1, 2], 'z': []}",
            "{'x:y': [1, 2], 'z': []}",
        );
        check(
            "tuple<int, text, time>",
            "(1, 'null', '01:02:03')",
            "(1, 'null', '01:02:03.000000000')",
        );
        check("tuple<int, text, int>", "(None, '')", "(null, '', null)");
        check("frozen<u>", "{a: 1, B c: 'x'}", "{a: 1, \"B c\": 'x'}");
        check("frozen<u>", "{a: }", "{a: , \"B c\": }");
        check("vector<float, 2>", "[1.5, 2]", "[1.5, 2.0]");
        check(
            "map<timestamp, inet>",
            "{'2011-02-03 04:05+0000': '::1'}",
            "{'2011-02-03 04:05:00.000+0000': '::1'}",
        );
    }

    #[test]
    fn formats_of_the_operator() {
        let formats = Formats {
            timestamp: Some("%d/%m/%Y %H:%M:%S".into()),
            date: Some("%d.%m.%Y".into()),
            time: Some("%H-%M-%S".into()),
            booleans: Some(("yes".into(), "no".into())),
            decimal_separator: Some(','),
            thousands_separator: Some('.'),
            ..Formats::default()
        };
        check_with(&formats, "timestamp", "03/02/2011 04:05:06", "03/02/2011 04:05:06");
        check_with(&formats, "date", "03.02.2011", "03.02.2011");
        check_with(&formats, "time", "04-05-06", "04-05-06");
        check_with(&formats, "boolean", "NO", "no");
        check_with(&formats, "double", "1.234,5", "1234,5");
        check_with(&formats, "int", "1.234", "1234");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |cql: &str, text: &[u8], expected: &str| {
            let refused = put(&ty(cql), text, &Formats::default(), &mut Vec::new());
            let said = refused.expect_err("a refusal");
            assert!(said.contains(expected), "{said}");
        };
        refused("int", b"x", "Unable to make int from 'x'");
        refused("text", b"a\xff", "not UTF-8 at byte 2");
        refused("list<int>", b"[1, 2", "no brackets");
        refused("list<int>", b"[1, ]", "null within a collection");
        refused("map<int, int>", b"{1}", "not a key and a value");
        refused("frozen<u>", b"{z: 1}", "u has no field z");
        refused("vector<float, 2>", b"[1]", "1 elements of a vector of 2");
        refused("tuple<int, text, int>", b"(1, 2, 3, 4)", "4 elements of a tuple of 3");
    }

    /// Whether an empty value stands somewhere: its text is not told from null (*exact*).
    fn has_empty(ty: &Type, text: &str) -> bool {
        text.is_empty() || text.contains("''") || ty.any(&|ty| matches!(ty, Type::Custom(_)))
    }

    proptest! {
        #[test]
        fn exact((ty, bytes) in testing::typed_value()) {
            let mut text = String::new();
            print(&ty, &bytes, &Formats::default(), &mut text);
            if !has_empty(&ty, &text) {
                let mut out = Vec::new();
                let read = put(&ty, text.as_bytes(), &Formats::default(), &mut out);
                prop_assert_eq!(read, Ok(()), "{:?} {}", ty, text);
                // Fields may be missing at the end of tuples: they are written as nulls.
                let has_fields = ty.any(&|ty| matches!(ty, Type::Tuple(_) | Type::User(_)));
                if !has_fields {
                    let expected = value::normalize(&ty, &bytes);
                    prop_assert_eq!(&out[4..], &*expected, "{} {:?}", text, ty);
                }
                let mut again = String::new();
                print(&ty, &out[4..], &Formats::default(), &mut again);
                prop_assert_eq!(again, text);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(
            ty in testing::value_type(),
            text in "[\\[\\](){}:,' a0-9]{0,20}",
        ) {
            let _ = put(&ty, text.as_bytes(), &Formats::default(), &mut Vec::new());
        }
    }
}
