//! Attribute values: from the JSON of the API, to it, and as they are stored.
//!
//! Invariants
//!  - *sets-sorted*: a set has each element once, in order; so equal sets are equal.
//!  - *bounded-depth*: no value has more than [`NESTING_MAX`] levels.
//!
//! [`stored`]: the form that a cell has.

pub mod stored;

use crate::error::Error;
use crate::json::{Cursor, Json, Kind, Object, write_list, write_string};
use crate::number::Number;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Levels of lists and maps, the item's own among them.
pub const NESTING_MAX: usize = 32;

/// Room for attributes of a key.
const PAIRS: usize = 2;

/// Bytes of an attribute's name.
const NAME_BYTES_MAX: usize = 65_535;

/// Refuses what no attribute may be called.
pub fn check_name(name: &str) -> Result<(), Error> {
    match name.len() {
        0 => Err(Error::validation("Empty attribute name: the name of an attribute is empty")),
        1..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(Error::validation(format!(
            "Attribute name is too large: {bytes} bytes, more than {NAME_BYTES_MAX}"
        ))),
    }
}

/// Attributes by name.
pub type Map = BTreeMap<String, Value>;

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    S(String),
    N(Number),
    B(Vec<u8>),
    Bool(bool),
    Null,
    M(Map),
    L(Vec<Value>),
    SS(Vec<String>),
    NS(Vec<Number>),
    BS(Vec<Vec<u8>>),
}

/// All types, as the API names them.
pub const TYPE_NAMES: [&str; 10] = ["S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"];

impl Value {
    /// Of `{"S": "text"}` and its like.
    pub fn parse(json: Json<'_>) -> Result<Value, Error> {
        Value::take(&mut json.cursor(), 1)
    }

    /// The same of what is taken next. After an error the cursor is somewhere within it.
    pub fn take(json: &mut Cursor<'_>, depth: usize) -> Result<Value, Error> {
        if NESTING_MAX < depth {
            return Err(Error::validation(format!(
                "Nesting Levels have exceeded supported limits: attributes can be nested \
                 {NESTING_MAX} levels deep"
            )));
        }
        if json.kind() != Kind::Object {
            let found = json.kind().name();
            return Err(Error::serialization(format!(
                "Unexpected value: {found}, not an AttributeValue"
            )));
        }
        json.open();
        let only = "must contain exactly one of the supported datatypes";
        let Some(name) = json.member() else {
            return Err(Error::validation(format!("Supplied AttributeValue is empty, {only}")));
        };
        let value = Value::take_typed(&name, json, depth)?;
        match json.member() {
            None => Ok(value),
            Some(_) => Err(Error::validation(format!(
                "Supplied AttributeValue has more than one datatypes set, {only}"
            ))),
        }
    }

    /// A value of the type of that name.
    fn take_typed(name: &str, json: &mut Cursor<'_>, depth: usize) -> Result<Value, Error> {
        let found = json.kind();
        let wrong = |expected: &str| {
            Error::serialization(format!(
                "Unexpected value of type {name}: {}, not {expected}",
                found.name()
            ))
        };
        let mut text = || json.string().ok_or_else(|| wrong("a string"));
        // Most have one of these, each of which is one byte.
        match name.as_bytes() {
            b"S" => return Ok(Value::S(text()?.into_owned())),
            b"N" => return Ok(Value::N(Number::parse(&text()?)?)),
            b"B" => return Ok(Value::B(binary(&text()?)?)),
            _ => {}
        }
        match name {
            "BOOL" => Ok(Value::Bool(json.value().bool().ok_or_else(|| wrong("a boolean"))?)),
            "NULL" => null(json.value()),
            "M" if found == Kind::Object => Ok(Value::M(take_attributes(json, depth + 1)?)),
            "M" => Err(wrong("an object")),
            "L" if found == Kind::Array => {
                json.open();
                let mut list = Vec::new();
                while json.element() {
                    list.push(Value::take(json, depth + 1)?);
                }
                Ok(Value::L(list))
            }
            "L" => Err(wrong("a list")),
            "SS" => set(json.value(), "string", |text| Ok(text.to_owned())).map(Value::SS),
            "NS" => set(json.value(), "number", Number::parse).map(Value::NS),
            "BS" => set(json.value(), "binary", binary).map(Value::BS),
            other => Err(Error::validation(format!(
                "Supplied AttributeValue is empty or of an unknown type {other}, must contain \
                 exactly one of the supported datatypes"
            ))),
        }
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::S(_) => "S",
            Value::N(_) => "N",
            Value::B(_) => "B",
            Value::Bool(_) => "BOOL",
            Value::Null => "NULL",
            Value::M(_) => "M",
            Value::L(_) => "L",
            Value::SS(_) => "SS",
            Value::NS(_) => "NS",
            Value::BS(_) => "BS",
        }
    }

    /// Appends it as JSON.
    pub fn write(&self, out: &mut String) {
        if let Value::S(text) = self {
            return write_text(text, out);
        }
        let mut object = Object::open(out);
        let out = object.member(self.type_name());
        match self {
            Value::S(text) => write_string(text, out),
            Value::N(number) => write_number(*number, out),
            Value::B(bytes) => write_binary(bytes, out),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Null => out.push_str("true"),
            Value::M(map) => write_attributes(map, out),
            Value::L(list) => write_list(list, out, |value, out| value.write(out)),
            Value::SS(set) => write_list(set, out, |text, out| write_string(text, out)),
            Value::NS(set) => write_list(set, out, |number, out| write_number(*number, out)),
            Value::BS(set) => write_list(set, out, |bytes, out| write_binary(bytes, out)),
        }
        object.close();
    }

    /// Bytes that the service counts for it.
    pub fn size(&self) -> usize {
        match self {
            Value::S(text) => text.len(),
            Value::N(number) => number.size(),
            Value::B(bytes) => bytes.len(),
            Value::Bool(_) | Value::Null => 1,
            Value::M(map) => {
                3 + map.iter().map(|(name, it)| 1 + name.len() + it.size()).sum::<usize>()
            }
            Value::L(list) => 3 + list.iter().map(|it| 1 + it.size()).sum::<usize>(),
            Value::SS(set) => set.iter().map(String::len).sum(),
            Value::NS(set) => set.iter().map(|number| number.size()).sum(),
            Value::BS(set) => set.iter().map(Vec::len).sum(),
        }
    }

    /// Levels of lists and maps within it.
    pub fn depth(&self) -> usize {
        match self {
            Value::M(map) => 1 + map.values().map(Value::depth).max().unwrap_or(0),
            Value::L(list) => 1 + list.iter().map(Value::depth).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// How two values stand to each other, of one type that has an order.
pub fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::S(a), Value::S(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Value::N(a), Value::N(b)) => Some(a.cmp(b)),
        (Value::B(a), Value::B(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn null(inner: Json<'_>) -> Result<Value, Error> {
    match inner.bool() {
        Some(true) => Ok(Value::Null),
        Some(false) => Err(Error::validation(
            "One or more parameter values were invalid: Null attribute value types must have the \
             value of true",
        )),
        None => Err(Error::serialization("Unexpected value of type NULL: not a boolean")),
    }
}

/// *sets-sorted*
fn set<T: Ord>(
    json: Json<'_>,
    what: &str,
    parse: impl Fn(&str) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    if json.kind() != Kind::Array {
        return Err(Error::serialization(format!("Unexpected value of a {what} set: not a list")));
    }
    let part = |part: Json<'_>| match part.string() {
        Some(text) => parse(&text),
        None => Err(Error::serialization(format!("Unexpected element of a {what} set: no string"))),
    };
    let mut all = json.elements().map(part).collect::<Result<Vec<T>, Error>>()?;
    if all.is_empty() {
        return Err(Error::validation(format!(
            "One or more parameter values were invalid: An {what} set may not be empty"
        )));
    }
    all.sort();
    match all.windows(2).any(|two| two[0] == two[1]) {
        true => Err(Error::validation(format!(
            "One or more parameter values were invalid: Input collection {} contains duplicates.",
            json.text()
        ))),
        false => Ok(all),
    }
}

/// The bytes that a text in base64 stands for.
pub(crate) fn binary(text: &str) -> Result<Vec<u8>, Error> {
    let refused =
        |_| Error::serialization("Invalid base64: a value of type B or BS is not encoded");
    STANDARD.decode(text).map_err(refused)
}

fn write_number(number: Number, out: &mut String) {
    use std::fmt::Write;
    // A string takes whatever is written.
    let _ = write!(out, "\"{number}\"");
}

/// Appends a value that is a text.
pub fn write_text(text: &str, out: &mut String) {
    // Whatever it is, most texts are copied as they are.
    out.reserve(text.len() + "{\"S\":\"\"}".len());
    out.push_str("{\"S\":");
    write_string(text, out);
    out.push('}');
}

/// Appends bytes as they go into JSON.
pub fn write_binary(bytes: &[u8], out: &mut String) {
    out.push('"');
    STANDARD.encode_string(bytes, out);
    out.push('"');
}

/// Few attributes, as of a key: in order of their names, which are not copied.
pub fn pairs(json: Json<'_>) -> Result<Vec<(Cow<'_, str>, Value)>, Error> {
    let mut all = Vec::with_capacity(PAIRS);
    if json.kind() == Kind::Object {
        let mut json = json.cursor();
        json.open();
        while let Some(name) = json.member() {
            all.push((name, Value::take(&mut json, 1)?));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    match all.windows(2).find(|two| two[0].0 == two[1].0) {
        None => Ok(all),
        Some(two) => Err(Error::serialization(format!("duplicate attribute {}", two[0].0))),
    }
}

/// The attributes of an object: of an item, a key, a map. Of anything else none.
pub fn attributes(json: Json<'_>) -> Result<Map, Error> {
    match json.kind() {
        Kind::Object => take_attributes(&mut json.cursor(), 1),
        _ => Ok(Map::new()),
    }
}

/// Those of the object that is taken next, which are at that depth of an item.
pub fn take_attributes(json: &mut Cursor<'_>, depth: usize) -> Result<Map, Error> {
    let mut map = Map::new();
    json.open();
    while let Some(name) = json.member() {
        match map.entry(name.into_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(Value::take(json, depth)?);
            }
            Entry::Occupied(entry) => {
                let name = entry.key();
                return Err(Error::serialization(format!("duplicate attribute {name}")));
            }
        }
    }
    Ok(map)
}

/// Appends attributes as an object.
pub fn write_attributes(map: &Map, out: &mut String) {
    let mut object = Object::open(out);
    map.iter().for_each(|(name, value)| value.write(object.member(name)));
    object.close();
}

/// Attributes as JSON.
pub fn attributes_json(map: &Map) -> String {
    let mut out = String::new();
    write_attributes(map, &mut out);
    out
}

/// Bytes that the service counts for an item.
pub fn item_size(map: &Map) -> usize {
    map.iter().map(|(name, value)| name.len() + value.size()).sum()
}

/// A value as messages show it.
pub fn shown(value: &Value) -> String {
    let mut out = String::new();
    value.write(&mut out);
    if 200 < out.len() {
        out.truncate(out.floor_char_boundary(200));
        out.push_str("...");
    }
    out
}

/// For tests: the value of a JSON text.
#[cfg(test)]
pub(crate) fn value(text: &str) -> Value {
    Value::parse(Json::parse(text).expect("JSON")).expect("a value")
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use proptest::prelude::*;

    /// Values of all types.
    pub(crate) fn values() -> impl Strategy<Value = Value> {
        let number = || (any::<i64>(), -20i32..20);
        let number = move || {
            number().prop_map(|(n, e)| Number::parse(&format!("{n}e{e}")).expect("in range"))
        };
        let bytes = || prop::collection::vec(any::<u8>(), 0..6);
        let leaf = prop_oneof![
            ".{0,6}".prop_map(Value::S),
            number().prop_map(Value::N),
            bytes().prop_map(Value::B),
            any::<bool>().prop_map(Value::Bool),
            Just(Value::Null),
            prop::collection::btree_set(".{0,3}", 1..4)
                .prop_map(|set| Value::SS(set.into_iter().collect())),
            prop::collection::btree_set(number(), 1..4)
                .prop_map(|set| Value::NS(set.into_iter().collect())),
            prop::collection::btree_set(bytes(), 1..4)
                .prop_map(|set| Value::BS(set.into_iter().collect())),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::L),
                prop::collection::btree_map("[a-z]{0,2}", inner, 0..4).prop_map(Value::M),
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::testing::values;
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        Value::parse(Json::parse(text).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let check = |text: &str, expected: &str| {
            let found = refused(text);
            assert!(found.contains(expected), "{text}: {found}");
        };
        check("{}", "ValidationException: Supplied AttributeValue is empty");
        check("3", "SerializationException");
        check(r#"{"S":"a","N":"1"}"#, "more than one");
        check(r#"{"X":"a"}"#, "ValidationException");
        check(r#"{"N":123}"#, "SerializationException");
        check(r#"{"B":"YWJjZGVmZ2g"}"#, "SerializationException");
        check(r#"{"NULL":false}"#, "ValidationException");
        check(r#"{"SS":[]}"#, "may not be empty");
        check(r#"{"NS":["1","1.0"]}"#, "duplicates");
        let deep = |levels| "{\"L\":[".repeat(levels) + "{\"S\":\"\"}" + &"]}".repeat(levels);
        check(&deep(NESTING_MAX), "Nesting");
        assert_eq!(value(&deep(NESTING_MAX - 1)).depth(), NESTING_MAX - 1);
    }

    proptest! {
        #[test]
        fn json_goes_both_ways(given in values()) {
            let mut text = String::new();
            given.write(&mut text);
            prop_assert_eq!(value(&text), given);
        }
    }
}
