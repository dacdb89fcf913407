//! What of a `WHERE` an index could look up.

use super::values::InList;
use crate::term::Term;

/// What is looked up.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    One(Term),
    Many(InList),
    /// Of a map: this value under this key.
    Entry {
        key: Term,
        value: Term,
    },
}

/// A relation that an index could look up.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Of the table's columns.
    pub(super) column: usize,
    pub(super) kind: Kind,
    pub(super) lookup: Lookup,
    /// Among the filters.
    pub(super) filter: Option<usize>,
}

/// What kind of lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The column has the value.
    Equal,
    Contains,
    ContainsKey,
    /// A map has the value under a key.
    Entry,
}

impl Found {
    /// A search for what is in a collection, as it is `filter` among the filters.
    pub(super) fn search(column: usize, kind: Kind, lookup: Lookup, filter: usize) -> Found {
        Found { column, kind, lookup, filter: Some(filter) }
    }
}
