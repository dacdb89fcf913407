//! How answers are shown. Values in, text out.

use crate::failure::Failure;
use jiff::Timestamp;
use serde_json::Value;

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Rows in columns as wide as their widest text, with a space between them.
pub(crate) fn columns(sides: &[Side], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..sides.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).zip(sides).map(|((cell, width), side)| match side {
            Side::Left => format!("{cell:<width$}"),
            Side::Right => format!("{cell:>width$}"),
        });
        text += &cells.collect::<Vec<_>>().join(" ");
        text.push('\n');
    }
    text
}

/// All columns to the left.
pub(crate) fn left(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    columns(&vec![Side::Left; count], rows)
}

const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];

/// Bytes with two digits of the largest unit that they fill.
pub(crate) fn size(bytes: f64) -> String {
    let (value, unit) = in_unit(bytes, &UNITS);
    match unit {
        Some(unit) => format!("{value:.2} {unit}"),
        None => format!("{value:.0} bytes"),
    }
}

/// The same with the units of powers of two named as such.
pub(crate) fn size_iec(bytes: f64) -> String {
    let (value, unit) = in_unit(bytes, &["KiB", "MiB", "GiB", "TiB"]);
    match unit {
        Some(unit) => format!("{value:.2} {unit}"),
        None => format!("{value:.0} bytes"),
    }
}

/// The same, without digits that are zero.
pub(crate) fn size_short(bytes: f64) -> String {
    let (value, unit) = in_unit(bytes, &UNITS);
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {}", unit.unwrap_or("bytes"))
}

fn in_unit<'a>(bytes: f64, units: &[&'a str]) -> (f64, Option<&'a str>) {
    let (mut value, mut unit) = (bytes, None);
    for name in units {
        if value.abs() < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, Some(*name));
    }
    (value, unit)
}

/// A number with fifteen digits and its power of ten.
pub(crate) fn scientific(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_string();
    }
    let text = format!("{value:.15E}");
    let (digits, power) = text.split_once('E').unwrap_or((&text, "0"));
    let (sign, power) = match power.strip_prefix('-') {
        Some(power) => ('-', power),
        None => ('+', power),
    };
    format!("{digits}E{sign}{power:0>2}")
}

/// A moment, in UTC.
pub(crate) fn moment(millis: i64) -> String {
    match Timestamp::from_millisecond(millis) {
        Ok(at) => format!("{}.{:03}", at.strftime("%Y-%m-%dT%H:%M:%S"), millis.rem_euclid(1000)),
        Err(_) => millis.to_string(),
    }
}

/// A moment in front of a line about progress, in UTC.
pub(crate) fn stamp(millis: i64) -> String {
    match Timestamp::from_millisecond(millis) {
        Ok(at) => format!("{},{:03}", at.strftime("%Y-%m-%d %H:%M:%S"), millis.rem_euclid(1000)),
        Err(_) => millis.to_string(),
    }
}

/// The forms that some commands print in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
    Yaml,
}

impl Form {
    /// The one of that name; text, where there is none.
    pub(crate) fn named(name: Option<&str>) -> Result<Form, Failure> {
        match name {
            None | Some("text") => Ok(Form::Text),
            Some("json") => Ok(Form::Json),
            Some("yaml") => Ok(Form::Yaml),
            Some(other) => Err(Failure::Argument(format!(
                "invalid format {other}, valid formats are: {{text, json, yaml}}"
            ))),
        }
    }
}

/// A value in JSON or, else, in YAML.
pub(crate) fn value(value: &Value, form: Form) -> Result<String, Failure> {
    if form == Form::Json {
        return Ok(format!("{value}\n"));
    }
    let written = serde_saphyr::to_string(value);
    written.map_err(|error| Failure::Unexpected(format!("cannot write YAML: {error}")))
}

#[cfg(test)]
mod tests;
