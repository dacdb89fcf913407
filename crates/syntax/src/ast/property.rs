//! `WITH a = 1 AND b = {'c': 'd'}`.

use super::{Direction, Literal, Name};
use crate::Position;

/// `name = value`
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// What it is called.
    pub name: Name,
    /// What it is set to.
    pub value: PropertyValue,
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    /// `NULL`
    Null,
    /// A constant. A bare word counts as a string.
    Scalar(Literal),
    /// `{k: v}`, also `{}`.
    Map(Vec<(Literal, PropertyValue)>),
    /// `{a, b}`, never empty.
    Set(Vec<PropertyValue>),
    /// `[a, b]`
    List(Vec<PropertyValue>),
}

/// What follows `WITH` for tables and views.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableProperties {
    /// `name = value`, `ID = uuid` among them, in order of writing.
    pub properties: Vec<Property>,
    /// `CLUSTERING ORDER BY (a DESC, b)`
    pub clustering_order: Vec<(Name, Direction)>,
    /// `COMPACT STORAGE`
    pub compact_storage: Option<Position>,
}
