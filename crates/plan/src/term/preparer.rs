//! What terms are made with, and what holds for the types of their parts.

use super::{Inputs, Term};
use crate::error::Error;
use crate::markers::Markers;
use cluster::Schema;
use functions::Aggregate;
use model::types::UserTypeRef;
use model::{Column, TableSchema, Type};
use syntax::ast::Name;

/// Makes terms of the expressions of one statement.
pub struct Preparer<'a> {
    pub schema: &'a Schema,
    /// Where unqualified types are.
    pub keyspace: &'a str,
    /// The table of the statement, for `token`.
    pub table: Option<&'a TableSchema>,
    pub markers: &'a mut Markers,
    /// Where terms may refer to a row: what they need of it.
    pub row: Option<&'a mut Inputs>,
    /// Where aggregates may stand: those found, with their arguments.
    pub aggregates: Option<&'a mut Vec<(Aggregate, Option<Term>)>>,
}

pub(super) type Prepared = Result<Term, Error>;

impl<'a> Preparer<'a> {
    /// The column of that name, if it is one that anybody sees.
    pub(super) fn column_of(&self, name: &Name) -> Result<&'a Column, Error> {
        let found = self.table.and_then(|table| {
            table.column(&name.text).filter(|column| !table.is_hidden(column.id))
        });
        found.ok_or_else(|| Error::Invalid(format!("Unrecognized name {}", name.text)))
    }
}

/// Whether a value of type `given` may stand where one of `expected` is.
pub(super) fn accepts(expected: &Type, given: &Type) -> bool {
    let (expected, given) = (expected.freeze(), given.freeze());
    expected == given
        || (expected == Type::Counter && given == Type::BigInt)
        || expected.is_value_compatible_with(&given)
}

pub(super) fn position_of(user: &UserTypeRef, name: &Name) -> Option<usize> {
    user.fields.iter().position(|(field, _)| *field == name.text)
}

/// The index and type of a user type's field.
pub(super) fn field_of(ty: &Type, name: &Name) -> Result<(usize, Type), Error> {
    let Type::User(user) = ty else {
        let text = format!("Invalid field selection: type {} is not a user type", ty.to_cql());
        return Err(Error::Invalid(text));
    };
    match position_of(user, name) {
        Some(index) => Ok((index, user.fields[index].1.clone())),
        None => Err(Error::Invalid(format!(
            "{} of type {} has no field {}",
            user.name, user.name, name.text
        ))),
    }
}

/// Of what has no elements.
pub(super) fn not_a_collection(what: impl std::fmt::Display, ty: &Type) -> Error {
    let ty = ty.to_cql();
    Error::Invalid(format!("Invalid element selection: {what} is of type {ty}, not a collection"))
}

/// Of a value that can be of several types, where none is expected.
pub(super) fn no_type() -> Error {
    Error::invalid(
        "Cannot infer type for a value in the selection clause (try using a cast to force a type)",
    )
}
