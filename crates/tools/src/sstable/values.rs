//! Values, keys and times as the text that dumps have, and back.

use model::key::{clustering_components, compose_partition_key, push_clustering};
pub(crate) use model::value::print_plain as text;
use model::value::{self, temporal};
use model::{Column, Type};
use std::fmt::Write;
use stdx::{Cursor, Put};

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The bytes of hexadecimal digits, with or without `0x`.
pub(crate) fn of_hex(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    let pairs = digits.as_chunks::<2>();
    if !pairs.1.is_empty() {
        return None;
    }
    let digit = |byte: u8| (byte as char).to_digit(16);
    pairs.0.iter().map(|[a, b]| Some((digit(*a)? << 4 | digit(*b)?) as u8)).collect()
}

/// The bytes of what [`text`] printed. The error says what is wrong.
pub(crate) fn parse(ty: &Type, text: &str) -> Result<Vec<u8>, String> {
    match ty {
        Type::Blob | Type::Custom(_) => of_hex(text).ok_or_else(|| format!("not hex: {text}")),
        Type::Empty => Ok(Vec::new()),
        _ if ty.is_native() => value::parse_scalar(ty, text).map_err(|invalid| invalid.0),
        _ if text.starts_with("0x") => of_hex(text).ok_or_else(|| format!("not hex: {text}")),
        _ => {
            let value = plan::offline::value_of_literal(ty, text);
            let value = value.map_err(|error| error.to_string())?;
            value.ok_or_else(|| format!("null is no value of {}", ty.to_cql()))
        }
    }
}

/// The partition key with the length before each component.
pub(crate) fn partition_raw(columns: &[Column], key: &[u8]) -> String {
    let mut out = Vec::new();
    for component in partition_components(columns, key) {
        out.put_u16_bytes(component);
    }
    hex(&out)
}

/// The partition key's values, joined by colons.
pub(crate) fn partition_text(columns: &[Column], key: &[u8]) -> String {
    let values = columns.iter().zip(partition_components(columns, key));
    values.map(|(column, value)| text(&column.ty, value)).collect::<Vec<_>>().join(":")
}

fn partition_components<'a>(columns: &[Column], key: &'a [u8]) -> Vec<&'a [u8]> {
    model::key::split_partition_key(key, columns.len()).unwrap_or_else(|_| vec![key])
}

/// The partition key of what [`partition_raw`] printed.
pub(crate) fn partition_of_raw(columns: &[Column], raw: &str) -> Result<Vec<u8>, String> {
    let bytes = of_hex(raw).ok_or_else(|| format!("partition key is not hex: {raw}"))?;
    let components = split(&bytes).filter(|components| components.len() == columns.len());
    let components = components.ok_or_else(|| {
        format!("not a serialized partition key of {} columns: {raw}", columns.len())
    })?;
    let mut out = Vec::new();
    compose_partition_key(components.into_iter(), &mut out);
    Ok(out)
}

/// The partition key of values that are one column each.
pub(crate) fn partition_of_values(columns: &[Column], text: &str) -> Result<Vec<u8>, String> {
    let values = values_of(columns, text)?;
    let mut out = Vec::new();
    compose_partition_key(values.iter().map(Vec::as_slice), &mut out);
    Ok(out)
}

/// The clustering prefix of values.
pub(crate) fn clustering_of_values(columns: &[Column], text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for value in values_of(columns, text)? {
        push_clustering(&value, &mut out);
    }
    Ok(out)
}

fn values_of(columns: &[Column], text: &str) -> Result<Vec<Vec<u8>>, String> {
    // A value may hold a colon itself: then the raw form is needed.
    let parts: Vec<&str> = match columns {
        [_] => vec![text],
        [] => Vec::new(),
        _ => text.split(':').collect(),
    };
    if columns.len() < parts.len() {
        return Err(format!("more values than key columns: {text}; give the raw key"));
    }
    columns.iter().zip(parts).map(|(column, part)| parse(&column.ty, part)).collect()
}

/// The components of lengths and bytes.
fn split(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut cursor = Cursor::new(bytes);
    let mut out = Vec::new();
    while !cursor.is_empty() {
        out.push(cursor.u16_bytes("component").ok()?);
    }
    Some(out)
}

/// The clustering prefix of its hex form: as in memory.
pub(crate) fn clustering_of_raw(count: usize, raw: &str) -> Result<Vec<u8>, String> {
    let bytes = of_hex(raw).ok_or_else(|| format!("clustering key is not hex: {raw}"))?;
    let checked = model::key::check_clustering_prefix(&bytes, count);
    checked.map_err(|error| format!("clustering key {raw}: {error}"))?;
    Ok(bytes)
}

/// The values of a clustering prefix, joined by colons.
pub(crate) fn clustering_text(columns: &[Column], prefix: &[u8]) -> String {
    let values = columns.iter().zip(clustering_components(prefix));
    values.map(|(column, value)| text(&column.ty, value)).collect::<Vec<_>>().join(":")
}

/// `2011-02-03 04:05:06z`
pub(crate) fn time(seconds: i64) -> String {
    let text = temporal::print_timestamp(seconds.saturating_mul(1000), ' ');
    let whole = text.split('.').next().unwrap_or(&text);
    format!("{whole}z")
}

/// Seconds since 1970 of what [`time`] printed; plain seconds are taken too.
pub(crate) fn time_of(text: &str) -> Option<i64> {
    let text = text.trim().trim_end_matches(['z', 'Z']);
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let millis = temporal::parse_timestamp(&format!("{text}Z")).ok()?;
    Some(millis.div_euclid(1000))
}

/// Seconds of `600s` or `600`.
pub(crate) fn ttl_of(text: &str) -> Option<i32> {
    text.trim().trim_end_matches('s').trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{TableSchema, Uuid};

    #[test]
    fn times_round_trip() {
        for seconds in [0, 1, 1_700_000_000, i64::from(i32::MAX), 4_294_967_295] {
            assert_eq!(time_of(&time(seconds)), Some(seconds), "{}", time(seconds));
        }
        assert_eq!(time(1_296_705_906), "2011-02-03 04:05:06z");
        assert_eq!(time_of("2011-02-03 04:05:06"), Some(1_296_705_906));
        assert_eq!(time_of("nonsense"), None);
        assert_eq!((ttl_of("600s"), ttl_of("7"), ttl_of("x")), (Some(600), Some(7), None));
    }

    #[test]
    fn values_round_trip() {
        let list = Type::List { element: Box::new(Type::Text), frozen: true };
        let check = |ty: &Type, printed: &str| {
            let bytes = parse(ty, printed).unwrap();
            assert_eq!(text(ty, &bytes), printed);
        };
        check(&Type::Int, "-7");
        check(&Type::Text, "it's {not} a 'literal'");
        check(&Type::Blob, "00ff");
        check(&Type::Blob, "");
        check(&Type::Int, "");
        check(&Type::Timestamp, "2011-02-03T04:05:06.789Z");
        check(&list, "['a', 'it''s']");
        check(&Type::Tuple(vec![Type::Int, Type::Text]), "(1, null)");
        check(&Type::Vector { element: Box::new(Type::Int), dimension: 2 }, "[1, 2]");
        assert!(parse(&Type::Int, "x").is_err() && parse(&Type::Blob, "0").is_err());
    }

    #[test]
    fn keys_round_trip() {
        let table = TableSchema::builder("ks", "t", Uuid::nil())
            .partition_key("a", Type::Int)
            .partition_key("b", Type::Text)
            .clustering("c", Type::Int)
            .build()
            .unwrap();
        let columns = table.partition_key();
        let key = partition_of_raw(columns, "0004000000010002686a").unwrap();
        assert_eq!(partition_text(columns, &key), "1:hj");
        assert_eq!(partition_raw(columns, &key), "0004000000010002686a");
        assert_eq!(partition_of_values(columns, "1:hj").unwrap(), key);
        assert!(partition_of_raw(columns, "000400000001").is_err());
        assert!(partition_of_raw(columns, "zz").is_err());
        let prefix = clustering_of_raw(1, "000400000005").unwrap();
        assert_eq!(clustering_text(table.clustering(), &prefix), "5");
        assert_eq!(clustering_of_values(table.clustering(), "5").unwrap(), prefix);
        assert!(clustering_of_raw(1, "000400000005000400000005").is_err());
    }
}
