//! Keys of items: from attributes to the bytes of their columns.
//!
//! Invariants
//!  - *one-key-one-row*: equal keys have equal bytes ([`crate::number`]: *one-form*).
//!  - *short-keys*: no key, and nothing that a key is compared with, is longer than keys may be:
//!    what composes them counts on that.

use crate::error::Error;
use crate::json::Json;
use crate::number::Number;
use crate::table::{Table, key_type_name};
use crate::value::{Map, Value, pairs};
use model::key::{clustering_components, push_clustering, split_partition_key};
use model::{Column, ColumnKind, Token, Type};

/// Bytes of a hash key, and of a range key.
const HASH_BYTES_MAX: usize = 2048;
const RANGE_BYTES_MAX: usize = 1024;

/// Where an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The partition key.
    pub(crate) partition: Vec<u8>,
    /// The clustering key.
    pub(crate) clustering: Vec<u8>,
}

impl Key {
    pub(crate) fn token(&self) -> Token {
        Token::of(&self.partition)
    }

    /// Its attributes.
    pub(crate) fn attributes(&self, table: &Table) -> Result<Map, Error> {
        let schema = &table.entry.schema;
        let parts = split_partition_key(&self.partition, schema.partition_key_count);
        let parts = parts.map_err(|_| Error::internal("a partition key is damaged"))?;
        let components = parts.into_iter().chain(clustering_components(&self.clustering));
        let columns = table.key_columns().iter().zip(components);
        let attribute =
            |(column, bytes): (&Column, &[u8])| (column.name.clone(), value_of(&column.ty, bytes));
        Ok(columns.map(attribute).collect())
    }

    /// Of the attributes of an item, which may be more than the key. With what they were.
    pub(crate) fn of_item(table: &Table, item: &Map) -> Result<Key, Error> {
        Key::of(table, |column| {
            let name = &column.name;
            item.get(name).ok_or_else(|| {
                Error::validation(format!(
                    "One or more parameter values were invalid: Missing the key {name} in the item"
                ))
            })
        })
    }

    /// Of a parameter that has the key and nothing else.
    pub(crate) fn of_key(table: &Table, given: &Map) -> Result<Key, Error> {
        if let Some(name) = given.keys().find(|name| !table.is_key(name)) {
            return Err(unfit(&format!("{name} is not part of the key")));
        }
        Key::of(table, |column| {
            let name = &column.name;
            given.get(name).ok_or_else(|| unfit(&format!("{name} is missing")))
        })
    }

    /// The same of the parameter as it was sent, and the bytes of its attributes.
    pub(crate) fn of_parameter(table: &Table, json: Json<'_>) -> Result<(Key, usize), Error> {
        let mut given = pairs(json)?;
        let bytes = given.iter().map(|(name, value)| name.len() + value.size()).sum();
        if let Some((name, _)) = given.iter().find(|(name, _)| !table.is_key(name)) {
            return Err(unfit(&format!("{name} is not part of the key")));
        }
        let mut take = |column: &Column| {
            let at = given.iter().position(|(name, _)| *name == column.name);
            let at = at.ok_or_else(|| unfit(&format!("{} is missing", column.name)))?;
            taken_component(column, given.swap_remove(at).1)
        };
        let partition = take(table.hash())?;
        let mut clustering = Vec::new();
        if let Some(range) = table.range() {
            push_clustering(&take(range)?, &mut clustering);
        }
        Ok((Key { partition, clustering }, bytes))
    }

    fn of<'v>(
        table: &Table,
        find: impl Fn(&Column) -> Result<&'v Value, Error>,
    ) -> Result<Key, Error> {
        let hash = table.hash();
        let partition = component(hash, find(hash)?)?;
        let mut clustering = Vec::new();
        if let Some(range) = table.range() {
            push_clustering(&component(range, find(range)?)?, &mut clustering);
        }
        Ok(Key { partition, clustering })
    }
}

fn unfit(why: &str) -> Error {
    Error::validation(format!("The provided key element does not match the schema: {why}"))
}

/// *short-keys*
fn check_length(column: &Column, bytes: &[u8]) -> Result<(), Error> {
    let (what, most) = match column.kind {
        ColumnKind::PartitionKey => ("hashkey", HASH_BYTES_MAX),
        ColumnKind::Clustering => ("rangekey", RANGE_BYTES_MAX),
        ColumnKind::Static | ColumnKind::Regular => return Ok(()),
    };
    match bytes.len() <= most {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "One or more parameter values were invalid: Size of {what} has exceeded the maximum \
             size limit of {most} bytes"
        ))),
    }
}

/// The bytes of a key column.
pub(crate) fn component(column: &Column, value: &Value) -> Result<Vec<u8>, Error> {
    not_empty(column, plain_component(column, value)?)
}

/// The same of a value that is not needed any more.
fn taken_component(column: &Column, value: Value) -> Result<Vec<u8>, Error> {
    let bytes = match (&column.ty, value) {
        (Type::Text | Type::Ascii, Value::S(text)) => text.into_bytes(),
        (Type::Blob, Value::B(bytes)) => bytes,
        (_, value) => return component(column, &value),
    };
    check_length(column, &bytes)?;
    not_empty(column, bytes)
}

fn not_empty(column: &Column, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    match bytes.is_empty() {
        false => Ok(bytes),
        true => Err(Error::validation(format!(
            "One or more parameter values are not valid. The AttributeValue for a key attribute \
             cannot contain an empty string value. Key: {}",
            column.name
        ))),
    }
}

/// The same; an empty text or value of bytes is one.
pub(crate) fn plain_component(column: &Column, value: &Value) -> Result<Vec<u8>, Error> {
    let bytes = bytes_of(column, value)?;
    check_length(column, &bytes)?;
    Ok(bytes)
}

fn bytes_of(column: &Column, value: &Value) -> Result<Vec<u8>, Error> {
    match (&column.ty, value) {
        (Type::Decimal, Value::N(number)) => Ok(number.encode()),
        (Type::Blob, Value::B(bytes)) => Ok(bytes.clone()),
        (Type::Blob | Type::Decimal, _) => Err(mismatch(column, value)),
        (Type::Text | Type::Ascii, Value::S(text)) => Ok(text.as_bytes().to_vec()),
        (ty, Value::S(text)) => {
            model::value::parse_scalar(ty, text).map_err(|_| mismatch(column, value))
        }
        _ => Err(mismatch(column, value)),
    }
}

fn mismatch(column: &Column, value: &Value) -> Error {
    let (name, expected, actual) = (&column.name, key_type_name(&column.ty), value.type_name());
    Error::validation(format!(
        "One or more parameter values were invalid: Type mismatch for key {name} expected: \
         {expected} actual: {actual}"
    ))
}

/// The value of a column of CQL, as the API has it: texts, bytes, numbers and booleans are
/// themselves, all others their texts; that of a map is the one that ScyllaDB shows here.
pub(crate) fn value_of(ty: &Type, bytes: &[u8]) -> Value {
    let text = || Value::S(model::value::print_plain(ty, bytes));
    match ty {
        Type::Text | Type::Ascii => match std::str::from_utf8(bytes) {
            Ok(text) => Value::S(text.to_owned()),
            Err(_) => Value::B(bytes.to_vec()),
        },
        Type::Blob => Value::B(bytes.to_vec()),
        Type::Boolean => Value::Bool(bytes.first().is_some_and(|byte| *byte != 0)),
        Type::Decimal => Number::decode(bytes).map_or_else(text, Value::N),
        Type::Int | Type::BigInt | Type::SmallInt | Type::TinyInt | Type::Varint => {
            Number::parse(&model::value::print_plain(ty, bytes)).map_or_else(|_| text(), Value::N)
        }
        Type::Map { key, value, .. } => Value::S(map_text(key, value, bytes)),
        _ => text(),
    }
}

/// A map as `{{a : 1}, {b : 2}}`.
fn map_text(key: &Type, value: &Type, bytes: &[u8]) -> String {
    let print = model::value::print_plain;
    let entry = |(k, v): (&[u8], &[u8])| format!("{{{} : {}}}", print(key, k), print(value, v));
    format!("{{{}}}", model::value::map_entries(bytes).map(entry).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_columns_are_texts() {
        let check = |entries: &[(&str, i32)], expected: &str| {
            let entries: Vec<_> =
                entries.iter().map(|(name, value)| (*name, value.to_be_bytes())).collect();
            let mut bytes = Vec::new();
            let pairs = entries.iter().map(|(name, value)| (name.as_bytes(), value.as_slice()));
            model::value::write_map(pairs, &mut bytes);
            let (key, value) = (Box::new(Type::Text), Box::new(Type::Int));
            let found = value_of(&Type::Map { key, value, frozen: false }, &bytes);
            assert_eq!(found, Value::S(expected.to_owned()));
        };
        check(&[], "{}");
        check(&[("a", 1)], "{{a : 1}}");
        check(&[("a", -1), ("b'", 2)], "{{a : -1}, {b' : 2}}");
    }
}
