//! JSON as values: `INSERT JSON` and `fromJson`.
//!
//! Numbers beyond 64 bits, and decimals whose scale matters, are best written as strings: JSON's
//! own numbers pass through 64 bits.

use crate::error::CqlError;
use model::types::UserTypeRef;
use model::value;
use model::{TableSchema, Type};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// The bytes of a JSON value as a value of `ty`; `None` is null.
pub(crate) fn from_json(ty: &Type, json: &Value) -> Result<Option<Vec<u8>>, CqlError> {
    let wrong = |expected: &str| {
        Err(CqlError::Invalid(format!("Expected {expected}, but got a {}: {json}", kind(json))))
    };
    if json.is_null() {
        return Ok(None);
    }
    let mut out = Vec::new();
    match ty {
        Type::List { element, .. } | Type::Set { element, .. } => {
            let Value::Array(items) = json else { return wrong("a list") };
            let parts = parts(element, items)?;
            let mut parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            if matches!(ty, Type::Set { .. }) {
                value::collection::sort_set(element, &mut parts);
            }
            value::write_collection(parts.into_iter(), &mut out);
        }
        Type::Vector { element, dimension } => {
            let Value::Array(items) = json else { return wrong("a list") };
            let parts = parts(element, items)?;
            let fixed = element.fixed_length();
            let fits = |part: &Vec<u8>| fixed.is_none_or(|length| part.len() == length);
            if items.len() != *dimension as usize || !parts.iter().all(fits) {
                return wrong(&format!("a vector of {dimension} elements"));
            }
            value::write_vector(element, parts.iter().map(Vec::as_slice), &mut out);
        }
        Type::Map { key: key_type, value: value_type, .. } => {
            let Value::Object(entries) = json else { return wrong("a map") };
            let entries = map_entries(key_type, value_type, entries)?;
            let mut entries: Vec<(&[u8], &[u8])> =
                entries.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            value::collection::sort_map(key_type, &mut entries);
            value::write_map(entries.into_iter(), &mut out);
        }
        Type::Tuple(types) => {
            let Value::Array(items) = json else {
                return wrong("a list representation of a tuple");
            };
            if types.len() < items.len() {
                return wrong(&format!("a tuple of {} elements", types.len()));
            }
            let fields: Result<Vec<Option<Vec<u8>>>, CqlError> =
                types.iter().zip(items).map(|(ty, item)| from_json(ty, item)).collect();
            value::write_tuple(fields?.iter().map(Option::as_deref), &mut out);
        }
        Type::User(user) => {
            let Value::Object(entries) = json else { return wrong("a map") };
            let fields = user_fields(user, entries)?;
            value::write_tuple(fields.iter().map(Option::as_deref), &mut out);
        }
        _ => return scalar(ty, json).map(Some),
    }
    Ok(Some(out))
}

fn kind(json: &Value) -> &'static str {
    match json {
        Value::Null => "Null",
        Value::Bool(_) => "Boolean",
        Value::Number(_) => "Number",
        Value::String(_) => "String",
        Value::Array(_) => "List",
        Value::Object(_) => "Map",
    }
}

fn scalar(ty: &Type, json: &Value) -> Result<Vec<u8>, CqlError> {
    let is_text = matches!(ty, Type::Text | Type::Ascii | Type::Blob);
    let text = match json {
        Value::String(text) => text.clone(),
        Value::Number(number) if !is_text => number.to_string(),
        Value::Bool(flag) if *ty == Type::Boolean => flag.to_string(),
        _ => {
            return Err(CqlError::Invalid(format!(
                "Expected a {} value, but got a {}: {json}",
                ty.to_cql(),
                kind(json)
            )));
        }
    };
    value::parse_scalar(ty, &text).map_err(|invalid| CqlError::Invalid(invalid.0))
}

fn parts(element: &Type, items: &[Value]) -> Result<Vec<Vec<u8>>, CqlError> {
    let part = |item: &Value| {
        let null = || CqlError::invalid("Invalid null element in a JSON list");
        from_json(element, item)?.ok_or_else(null)
    };
    items.iter().map(part).collect()
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn map_entries(
    key_type: &Type,
    value_type: &Type,
    entries: &Map<String, Value>,
) -> Result<Entries, CqlError> {
    let mut out = Vec::with_capacity(entries.len());
    for (key, item) in entries {
        // Keys of JSON are strings; those of other types are JSON in a string.
        let key = match key_type.is_native() {
            true => Value::String(key.clone()),
            false => parse(key)?,
        };
        let null = || CqlError::invalid("Invalid null key or value in a JSON map");
        let key = from_json(key_type, &key)?.ok_or_else(null)?;
        out.push((key, from_json(value_type, item)?.ok_or_else(null)?));
    }
    Ok(out)
}

fn user_fields(
    user: &UserTypeRef,
    entries: &Map<String, Value>,
) -> Result<Vec<Option<Vec<u8>>>, CqlError> {
    let mut fields = vec![None; user.fields.len()];
    for (name, item) in entries {
        let name = folded(name);
        let index = user.fields.iter().position(|(field, _)| *field == name);
        let unknown =
            || CqlError::Invalid(format!("Unknown field '{name}' in value of {}", user.name));
        let index = index.ok_or_else(unknown)?;
        fields[index] = from_json(&user.fields[index].1, item)?;
    }
    Ok(fields)
}

/// Names are as in CQL: without regard to case, unless they stand in quotes within the string.
fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name.to_lowercase(),
    }
}

/// Parses a JSON text.
pub(crate) fn parse(text: &str) -> Result<Value, CqlError> {
    serde_json::from_str(text).map_err(|error| {
        CqlError::Invalid(format!("Could not decode JSON string '{text}': {error}"))
    })
}

/// The columns that a JSON text names, folded.
type Fields = Map<String, Value>;

/// The JSON text of a row, parsed when its first column is asked for.
#[derive(Debug)]
pub(crate) struct JsonRow {
    /// The columns that may stand in it.
    names: Vec<String>,
    /// The last text, and what it holds.
    parsed: RefCell<(Vec<u8>, Rc<Fields>)>,
}

impl JsonRow {
    /// For rows of `table`.
    pub(crate) fn new(table: &TableSchema) -> JsonRow {
        let names = table.columns.iter().map(|column| column.name.clone()).collect();
        JsonRow { names, parsed: RefCell::new((Vec::new(), Rc::new(Map::new()))) }
    }

    /// What `text` says of a column: nothing, or a value.
    pub(crate) fn column(
        &self,
        text: &[u8],
        name: &str,
        ty: &Type,
    ) -> Result<Option<Option<Vec<u8>>>, CqlError> {
        let row = self.parse(text)?;
        row.get(name).map(|json| from_json(ty, json)).transpose()
    }

    fn parse(&self, text: &[u8]) -> Result<Rc<Fields>, CqlError> {
        let present = self.parsed.borrow();
        if present.0 == text && !text.is_empty() {
            return Ok(present.1.clone());
        }
        drop(present);
        let decoded = parse(str::from_utf8(text).unwrap_or_default())?;
        let Value::Object(entries) = decoded else {
            return Err(CqlError::invalid("INSERT JSON takes a JSON object"));
        };
        let mut row = Map::new();
        for (name, item) in entries {
            let name = folded(&name);
            if !self.names.contains(&name) {
                return Err(CqlError::Invalid(format!(
                    "JSON values map contains unrecognized column: {name}"
                )));
            }
            row.insert(name, item);
        }
        let row = Rc::new(row);
        *self.parsed.borrow_mut() = (text.to_vec(), row.clone());
        Ok(row)
    }
}

/// Appends a row as JSON: `{"name": value}`, names that are not lower case in quotes of their own.
pub(crate) fn write_row<'a>(
    columns: impl Iterator<Item = (&'a str, &'a Type, Option<Vec<u8>>)>,
) -> String {
    let mut out = String::from("{");
    for (name, ty, bytes) in columns {
        if 1 < out.len() {
            out.push_str(", ");
        }
        let quoted = name.chars().any(char::is_uppercase).then(|| format!("\"{name}\""));
        out.push_str(&Value::String(quoted.unwrap_or_else(|| name.to_owned())).to_string());
        out.push_str(": ");
        out.push_str(&bytes.map_or_else(|| "null".to_owned(), |b| value::to_json(ty, &b)));
    }
    out.push('}');
    out
}
