//! Values of statements: prepared once against the type that is expected, evaluated for each
//! execution, and in selections for each row.
//!
//! Invariants
//!  - *valid-bytes*: what [`Term::evaluate`] yields is a valid value of the term's type, with the
//!    sets and maps in it sorted.
//!  - *constants-folded*: what depends on no marker, row or clock is a [`Term::Constant`].
//!
//! Evaluating a marker or a column of a row allocates nothing.

mod call;
mod clause;
mod constant;
mod evaluate;
mod inputs;
mod literal;
mod outline;
mod prepare;
mod preparer;

pub use clause::{IfNull, integer, timeout};
pub use constant::constant;
pub use inputs::{Input, Inputs, RowCell, Source};
pub use preparer::Preparer;

use crate::json::JsonRow;
use crate::metadata::Slot;
use crate::values::Value;
use functions::{Calls, Context, Function, Uuids};
use model::Type;
use std::borrow::Cow;
use std::rc::Rc;
use syntax::ast::{CellAttribute, JsonMissing};

/// A prepared value.
#[derive(Clone, Debug)]
pub enum Term {
    /// `NULL`
    Null,
    /// Valid bytes.
    Constant(Rc<[u8]>),
    /// The bound value of that variable, checked when it is evaluated.
    Marker(u16, Rc<Slot>),
    /// A list, set, tuple, user type or vector of parts.
    Parts(Rc<Type>, Vec<Term>),
    /// A map.
    Map(Rc<Type>, Vec<(Term, Term)>),
    /// A function's value.
    Call(Rc<Function>, Vec<Term>),
    /// The row's input of that index.
    Column(u16),
    /// Write time or TTL of an input, or of the element of it with that path.
    Attribute(CellAttribute, u16, Option<Box<Path>>),
    /// The field of that index of a frozen or whole user type.
    Field(Box<Term>, usize),
    /// An element of a map, set, list or vector of that type.
    Element(Box<Term>, Rc<Type>, Box<Term>),
    /// A column of a row that is written as JSON.
    Json(Rc<JsonColumn>),
    /// Values as a JSON object.
    JsonObject(Rc<[(String, Type)]>, Vec<Term>),
    /// The value of an aggregate.
    Aggregate(u16),
}

/// A column of a row that is written as JSON.
#[derive(Debug)]
pub struct JsonColumn {
    pub row: Rc<JsonRow>,
    /// The JSON text.
    pub text: Term,
    pub name: String,
    pub ty: Type,
    /// Of columns that the text does not name.
    pub missing: JsonMissing,
}

/// An element of a multi-cell column.
#[derive(Clone, Debug)]
pub enum Path {
    /// By map key or set element, of that type; by position for a list.
    Key(Rc<Type>, Term),
    /// A user type's field.
    Field(u16),
}

/// What a term evaluates to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluated<'a> {
    /// Null.
    Null,
    /// A marker bound to "unset".
    Unset,
    /// A value.
    Value(Cow<'a, [u8]>),
}

impl<'a> Evaluated<'a> {
    /// The bytes; `None` for null and unset.
    #[inline]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Evaluated::Value(bytes) => Some(bytes),
            Evaluated::Null | Evaluated::Unset => None,
        }
    }
    /// Null where there are no bytes.
    #[inline]
    pub fn of(bytes: Option<Cow<'a, [u8]>>) -> Evaluated<'a> {
        bytes.map_or(Evaluated::Null, Evaluated::Value)
    }
}

/// What evaluation depends on.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The bound values, by variable.
    pub values: &'a [Value<'a>],
    /// Of the statement: microseconds since the epoch.
    pub now_micros: i64,
    /// The seconds since the epoch by which values expire, where the client has said them.
    pub given_secs: Option<i32>,
    /// New UUIDs.
    pub uuids: &'a Uuids,
    /// The row, by input.
    pub cells: &'a [RowCell<'a>],
    /// The values of aggregates.
    pub aggregates: &'a [Option<Vec<u8>>],
    /// The calls of users' functions, where the statement has any.
    pub calls: Option<&'a Calls>,
}

impl<'a> Env<'a> {
    /// Outside of any row.
    #[inline]
    pub fn new(values: &'a [Value<'a>], now_micros: i64, uuids: &'a Uuids) -> Env<'a> {
        let given_secs = None;
        Env { values, now_micros, given_secs, uuids, cells: &[], aggregates: &[], calls: None }
    }

    /// The same for a row.
    #[inline]
    pub fn with_row<'b>(self, cells: &'b [RowCell<'b>]) -> Env<'b>
    where
        'a: 'b,
    {
        Env { cells, ..self }
    }

    /// What functions see of it.
    #[inline]
    pub fn context(&self) -> Context<'a> {
        Context { now_micros: self.now_micros, uuids: self.uuids, calls: self.calls }
    }

    /// Seconds since the epoch by which values expire.
    #[inline]
    pub fn now_secs(&self) -> i64 {
        match self.given_secs {
            Some(secs) => secs.into(),
            None => self.now_micros.div_euclid(1_000_000),
        }
    }
}

impl Term {
    /// A constant.
    pub fn constant(bytes: impl Into<Rc<[u8]>>) -> Term {
        Term::Constant(bytes.into())
    }

    /// Whether its value is known before execution.
    pub fn is_constant(&self) -> bool {
        matches!(self, Term::Constant(_) | Term::Null)
    }
}
