//! Views and indexes: what statements about them change, and what changes of tables mean for them.
//!
//! An index is a line in the schema of its table, and a view that answers it: both are changed by
//! one statement.
//!
//! Invariants
//!  - *whole-key*: the key of a view has all columns of its base's key, and one other column of the
//!    base at most, so that each of its rows is of one row of the base.
//!  - *same-columns*: a column of a view has the name and type of one of its base, but for computed
//!    columns and for the values of hidden ones; it stays so through each change of the base.
//!  - *hidden-where-needed*: a view with nothing but the base's key in its own has all regular
//!    columns of the base, for a row lives as long as one of them; those not asked for are hidden.
//!  - *index-with-view*: an index comes and goes with its view.
//!
//! From the ground up: [`rules`] (where there can be views at all, and their options), [`columns`]
//! (what a view has), [`filter`] (which rows), [`view`] (the statements about views), [`target`]
//! (what an index is on), [`index`] (the statements about indexes), [`follow`] (what changes of
//! tables mean).

mod columns;
mod filter;
mod follow;
mod index;
mod rules;
mod target;
#[cfg(test)]
mod tests;
mod view;

pub(super) use follow::{follow, refuse_view};
pub(super) use index::{create as create_index, drop as drop_index};
pub(super) use rules::{check_keyspaces, warnings};
pub(super) use view::{alter as alter_view, create as create_view, drop as drop_view};

use crate::error::Error;
use cluster::{Schema, TableEntry};
use std::rc::Rc;

/// The table that has an index of that name.
pub fn indexed<'s>(schema: &'s Schema, keyspace: &str, index: &str) -> Option<&'s Rc<TableEntry>> {
    let tables = &schema.keyspace(keyspace)?.tables;
    tables.values().find(|table| table.schema.index_named(index).is_some())
}

/// Whether a view answers an index.
pub fn is_of_index(schema: &Schema, view: &TableEntry) -> bool {
    let base = view.schema.view.as_ref().and_then(|it| schema.table_by_id(it.base));
    let mut indexes = base.into_iter().flat_map(|base| &base.schema.indexes);
    indexes.any(|index| index.view_name() == view.schema.name)
}

fn refuse<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(text.into()))
}
