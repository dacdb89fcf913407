//! The options file: YAML, as a tree whose every value knows its line and column.
//!
//! Invariants
//!  - *placed*: whatever is found wrong with an entry is told with the place of what is wrong.

use crate::kind::Kind;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: u64,
    pub column: u64,
}

impl From<Location> for Place {
    fn from(at: Location) -> Place {
        Place { line: at.line(), column: at.column() }
    }
}

/// Something to say about a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub at: Option<Place>,
    pub text: String,
}

impl Note {
    pub fn new(at: Place, text: String) -> Note {
        Note { at: Some(at), text }
    }

    /// With the file's name, as compilers do.
    pub fn of_file(&self, path: &std::path::Path) -> String {
        format!("{}:{self}", path.display())
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(Place { line, column }) => write!(f, "{line}:{column}: {}", self.text),
            None => write!(f, " {}", self.text),
        }
    }
}

/// One option of a file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) at: Place,
    pub(crate) value: Tree,
}

/// The entries of a file, in order.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, Note> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let found: Result<Spanned<Shape>, _> = serde_saphyr::from_str_with_options(text, options);
    let found = found.map_err(|error| Note {
        at: error.location().map(Place::from),
        text: format!("the options file is not YAML: {error}"),
    })?;
    let at = Place::from(found.referenced);
    match found.value {
        Shape::Null => Ok(Vec::new()),
        Shape::Map(entries) => {
            let entries = entries.into_iter().map(|(key, value)| Entry {
                name: key.value,
                at: key.referenced.into(),
                value: Tree(value),
            });
            Ok(entries.collect())
        }
        _ => {
            let text = "the options file does not hold `name: value` lines".to_string();
            Err(Note { at: Some(at), text })
        }
    }
}

/// The value of an option.
#[derive(Debug)]
pub(crate) struct Tree(Spanned<Shape>);

#[derive(Debug)]
enum Shape {
    Null,
    /// A boolean, a number or a text.
    Scalar(Value),
    List(Vec<Spanned<Shape>>),
    Map(Vec<(Spanned<String>, Spanned<Shape>)>),
}

impl Tree {
    /// Whether an option of this kind is as if it were not there.
    pub(crate) fn is_nothing(&self, kind: Kind) -> bool {
        matches!(self.0.value, Shape::Null) && kind != Kind::Port
    }

    /// What an option of this kind is given, each with its place.
    pub(crate) fn texts(&self, name: &str, kind: Kind) -> Result<Vec<(String, Place)>, Note> {
        let at = Place::from(self.0.referenced);
        let refuse = |what: &str| Err(Note::new(at, format!("option {name}: {what}")));
        match (kind, &self.0.value) {
            (Kind::Port, Shape::Null) => Ok(vec![(String::new(), at)]),
            (_, Shape::Null) => Ok(Vec::new()),
            (Kind::Tree, shape) => Ok(vec![(json_of(shape).to_string(), at)]),
            (Kind::Map(_), Shape::Scalar(_)) => refuse("expected a map of `key: value` lines"),
            (_, Shape::Scalar(value)) => Ok(vec![(plain(value), at)]),
            (Kind::List | Kind::Words(_), Shape::List(items)) => {
                Ok(items.iter().map(text).collect())
            }
            (Kind::Map(_), Shape::Map(entries)) => Ok(entries.iter().map(pair).collect()),
            // Some maps are written as a list of maps.
            (Kind::Map(_), Shape::List(items)) => {
                let maps = items.iter().filter_map(|item| match &item.value {
                    Shape::Map(entries) => Some(entries),
                    _ => None,
                });
                Ok(maps.flatten().map(pair).collect())
            }
            (Kind::Text, Shape::List(items)) => {
                let items: Vec<String> = items.iter().map(|item| text(item).0).collect();
                Ok(vec![(items.join(","), at)])
            }
            (_, Shape::List(_)) => refuse("expected one value, found a list"),
            (_, Shape::Map(_)) => refuse("expected one value, found a map"),
        }
    }
}

fn text(item: &Spanned<Shape>) -> (String, Place) {
    let text = match &item.value {
        Shape::Scalar(value) => plain(value),
        Shape::Null => String::new(),
        shape => json_of(shape).to_string(),
    };
    (text, item.referenced.into())
}

fn pair((key, value): &(Spanned<String>, Spanned<Shape>)) -> (String, Place) {
    (format!("{}={}", key.value, text(value).0), key.referenced.into())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn json_of(shape: &Shape) -> Value {
    match shape {
        Shape::Null => Value::Null,
        Shape::Scalar(value) => value.clone(),
        Shape::List(items) => items.iter().map(|item| json_of(&item.value)).collect(),
        Shape::Map(entries) => {
            let pairs =
                entries.iter().map(|(key, value)| (key.value.clone(), json_of(&value.value)));
            Value::Object(pairs.collect())
        }
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Shape, D::Error> {
        from.deserialize_any(Shapes)
    }
}

struct Shapes;

impl<'de> Visitor<'de> for Shapes {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Shape, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar(json!(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar(json!(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar(json!(value)))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Shape, E> {
        Ok(Shape::Scalar(json!(value.to_string())))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Shape, E> {
        Ok(Shape::Scalar(json!(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Shape, E> {
        // JSON has no infinity; text of it is refused where a number is wanted.
        Ok(Shape::Scalar(if value.is_finite() { json!(value) } else { json!(value.to_string()) }))
    }

    fn visit_str<E>(self, value: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar(json!(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Shape, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Shape::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Shape, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = from.next_entry()? {
            entries.push(entry);
        }
        Ok(Shape::Map(entries))
    }
}
