//! User-defined functions as the rest of the language sees them: overloads beside the native
//! ones.
//!
//! The owner of user-defined functions implements [`UserFunction`] and [`UserAggregate`] and
//! answers [`overloads`]; overload resolution, the preparation of arguments, null handling and
//! the place in a plan are the same as for native functions.

use super::Signature;
use crate::error::CqlError;
use crate::udf::Calls;
use cluster::Schema;
use std::fmt;

/// A function of one row.
pub(crate) trait UserFunction: fmt::Debug {
    /// Its value of these arguments, null ones among them. With `calls` it may be interrupted,
    /// which is an error that ends the step (see [`Calls`]).
    fn call(
        &self,
        arguments: &[Option<&[u8]>],
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, CqlError>;
}

/// A function of many rows: a state that each row changes.
pub(crate) trait UserAggregate: fmt::Debug {
    /// The state before the first row.
    fn begin(&self) -> Option<Vec<u8>>;
    /// The state after a row with these arguments.
    fn add(
        &self,
        state: Option<Vec<u8>>,
        arguments: &[Option<&[u8]>],
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, CqlError>;
    /// The value after the last row.
    fn finish(
        &self,
        state: Option<Vec<u8>>,
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, CqlError>;
}

/// The functions and aggregates of that name that users have made in a keyspace.
pub(crate) fn overloads(schema: &Schema, keyspace: &str, name: &str) -> Vec<Signature> {
    let Some(entry) = schema.keyspace(keyspace) else { return Vec::new() };
    crate::udf::overloads(schema, entry, name)
}
