//! CQL values as Lua values. What is not a value of its type becomes nil.

use super::number::Number;
use mlua::{Lua, Result, Table, Value};
use model::Type;
use model::value::{self, fields, list_elements, map_entries, vector_elements};

/// The Lua value of a CQL value; null is nil.
pub fn push(lua: &Lua, ty: &Type, bytes: Option<&[u8]>) -> Result<Value> {
    let Some(bytes) = bytes else { return Ok(Value::Nil) };
    let integer = |value: Option<i64>| Ok(value.map_or(Value::Nil, Value::Integer));
    let float = |value: Option<f64>| Ok(value.map_or(Value::Nil, Value::Number));
    match ty {
        Type::Ascii | Type::Text | Type::Blob | Type::Custom(_) => {
            Ok(Value::String(lua.create_string(bytes)?))
        }
        Type::TinyInt => integer(value::decode_i8(bytes).map(i64::from)),
        Type::SmallInt => integer(value::decode_i16(bytes).map(i64::from)),
        Type::Int => integer(value::decode_i32(bytes).map(i64::from)),
        Type::BigInt | Type::Counter | Type::Time | Type::Timestamp => {
            integer(value::decode_i64(bytes))
        }
        Type::Date => integer(value::decode_date(bytes).map(i64::from)),
        Type::Float => float(value::decode_f32(bytes).map(f64::from)),
        Type::Double => float(value::decode_f64(bytes)),
        Type::Boolean => Ok(value::decode_bool(bytes).map_or(Value::Nil, Value::Boolean)),
        Type::Varint => number(lua, value::decode_varint(bytes).map(Number::Varint)),
        Type::Decimal => number(lua, value::decode_decimal(bytes).map(Number::Decimal)),
        Type::Inet => text(lua, value::decode_inet(bytes).map(|address| address.to_string())),
        Type::Uuid | Type::TimeUuid => {
            text(lua, value::decode_uuid(bytes).map(|uuid| uuid.to_string()))
        }
        Type::Empty => Ok(Value::Nil),
        Type::Duration => duration(lua, bytes),
        Type::List { element, .. } => sequence(lua, element, list_elements(bytes).flatten()),
        Type::Vector { element, dimension } => {
            sequence(lua, element, vector_elements(element, *dimension, bytes).flatten())
        }
        Type::Set { element, .. } => {
            let table = lua.create_table()?;
            for part in list_elements(bytes).flatten() {
                set(&table, push(lua, element, part)?, Value::Boolean(true))?;
            }
            Ok(Value::Table(table))
        }
        Type::Map { key, value, .. } => {
            let table = lua.create_table()?;
            for (part, inner) in map_entries(bytes) {
                set(&table, push(lua, key, Some(part))?, push(lua, value, Some(inner))?)?;
            }
            Ok(Value::Table(table))
        }
        Type::Tuple(types) => {
            let table = lua.create_table()?;
            for (index, (part, ty)) in fields(bytes).flatten().zip(types).enumerate() {
                set(&table, Value::Integer(index as i64 + 1), push(lua, ty, part)?)?;
            }
            Ok(Value::Table(table))
        }
        Type::User(user) => {
            let table = lua.create_table()?;
            for (part, (name, ty)) in fields(bytes).flatten().zip(&user.fields) {
                set(&table, Value::String(lua.create_string(name)?), push(lua, ty, part)?)?;
            }
            Ok(Value::Table(table))
        }
    }
}

/// Nil keys and values leave no trace in a table.
fn set(table: &Table, key: Value, value: Value) -> Result<()> {
    if key.is_nil() || value.is_nil() {
        return Ok(());
    }
    table.raw_set(key, value)
}

fn text(lua: &Lua, text: Option<String>) -> Result<Value> {
    text.map_or(Ok(Value::Nil), |text| Ok(Value::String(lua.create_string(text)?)))
}

fn number(lua: &Lua, number: Option<Number>) -> Result<Value> {
    number.map_or(Ok(Value::Nil), |number| Ok(Value::UserData(lua.create_userdata(number)?)))
}

fn sequence<'a>(
    lua: &Lua,
    element: &Type,
    parts: impl Iterator<Item = Option<&'a [u8]>>,
) -> Result<Value> {
    let table = lua.create_table()?;
    for (index, part) in parts.enumerate() {
        set(&table, Value::Integer(index as i64 + 1), push(lua, element, part)?)?;
    }
    Ok(Value::Table(table))
}

fn duration(lua: &Lua, bytes: &[u8]) -> Result<Value> {
    let Some(duration) = value::decode_duration(bytes) else { return Ok(Value::Nil) };
    let table = lua.create_table()?;
    table.raw_set("months", duration.months)?;
    table.raw_set("days", duration.days)?;
    table.raw_set("nanoseconds", duration.nanos)?;
    Ok(Value::Table(table))
}
