//! Names of columns, tables and everything else that has one.

use crate::Position;

/// An identifier, folded to lower case unless it was quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name itself, without quotes.
    pub text: String,
    /// Where it was written.
    pub at: Position,
}

/// A name that may say which keyspace it is in: a table, type, function, aggregate, view or index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    /// `ks` of `ks.name`.
    pub keyspace: Option<Name>,
    /// `name` of `ks.name`.
    pub name: Name,
}

impl QualifiedName {
    /// Where the name begins.
    pub fn at(&self) -> Position {
        self.keyspace.as_ref().unwrap_or(&self.name).at
    }
}
