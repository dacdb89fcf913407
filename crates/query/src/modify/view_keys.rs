//! What views mean for a write: values that their rows cannot be found by, since they are too long
//! for a key, and what traces say of those that are waited for.
//!
//! A write of such a value is refused before anything of it is there: nobody would find its row by
//! what he has just written. What was written before there was the view has no row in it.
//!
//! Writes that have no room for such a value pay for a look at their length.

use crate::error::CqlError;
use crate::request::Request;
use cluster::{Cluster, Schema, TableEntry};
use model::key::{
    KEY_BYTES_MAX, check_clustering, check_partition_key, clustering_components,
    partition_key_component,
};
use model::schema::{Computed, View};
use model::{Column, ColumnKind, TableSchema};
use mutation::{ColumnData, FrozenMutation, FrozenView, RowView};

/// What a mutation has at least beside the parts of a key that is too long, less what they are
/// framed with there.
const SPARE_BYTES: usize = 1024;

/// Refuses a mutation of `table` with a value that is too long for the key of a view.
#[inline]
pub(crate) fn check_view_keys(
    table: &TableEntry,
    mutation: &FrozenMutation,
) -> Result<(), CqlError> {
    match mutation.0.len() < KEY_BYTES_MAX - SPARE_BYTES {
        true => Ok(()),
        false => check_long(table, mutation),
    }
}

/// Notes which views a write of `table` is not acknowledged without, if it is traced.
#[inline]
pub(crate) fn note_views(table: &TableEntry, request: &Request<'_>) {
    if request.parameters.trace.is_some() && !table.views.is_empty() {
        note_synchronous(table, request);
    }
}

#[cold]
fn note_synchronous(table: &TableEntry, request: &Request<'_>) {
    let schema = runtime::local::get::<Cluster>().schema();
    for view in table.views.iter().filter_map(|view| schema.table_by_id(*view)) {
        let TableSchema { keyspace, name, view, .. } = &*view.schema;
        if view.as_ref().is_some_and(|view| view.is_synchronous()) {
            request.note(|| format!("Forcing {keyspace}.{name} view update to be synchronous"));
        }
    }
}

#[cold]
fn check_long(table: &TableEntry, mutation: &FrozenMutation) -> Result<(), CqlError> {
    let schema = runtime::local::get::<Cluster>().schema();
    // Views that came after the statement was prepared count too.
    match schema.table_by_id(table.schema.id) {
        Some(table) => check(&schema, table, mutation),
        None => Ok(()),
    }
}

fn check(schema: &Schema, table: &TableEntry, mutation: &FrozenMutation) -> Result<(), CqlError> {
    // Made by a builder a moment ago.
    let Ok(written) = FrozenView::trusted(&mutation.0) else { return Ok(()) };
    let base = &table.schema;
    for view in table.views.iter().filter_map(|view| schema.table_by_id(*view)) {
        let Some(keys) = ViewKeys::of(base, &view.schema) else { continue };
        let statics = written.static_row().map(|row| (&[][..], row));
        for (clustering, row) in statics.into_iter().chain(written.rows()) {
            keys.check_row((written.key(), clustering), row)?;
        }
    }
    Ok(())
}

/// The keys of a view's rows that are found by a column which is not in the key of the base table.
struct ViewKeys<'s> {
    base: &'s TableSchema,
    table: &'s TableSchema,
    view: &'s View,
    found_by: &'s Column,
    part: Part,
}

/// What of the column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    ElementKey,
    ElementValue,
    Entry,
}

impl<'s> ViewKeys<'s> {
    /// `None`: there is no such column, or the view has not all rows that have one.
    fn of(base: &'s TableSchema, table: &'s TableSchema) -> Option<ViewKeys<'s>> {
        let view = table.view.as_deref()?;
        let (found_by, part) = key_columns(table).find_map(|key| {
            let (name, part) = match view.computed(key.id) {
                None => (&key.name, Part::Whole),
                Some(Computed::ElementKey(name)) => (name, Part::ElementKey),
                Some(Computed::ElementValue(name)) => (name, Part::ElementValue),
                Some(Computed::ElementEntry(name)) => (name, Part::Entry),
                Some(Computed::Token | Computed::KeyOfValue(_) | Computed::Attribute(_)) => {
                    return None;
                }
            };
            let column = base.column(name)?;
            (ColumnKind::Static <= column.kind).then_some((column, part))
        })?;
        let named = || view.filter.iter().flat_map(|condition| &condition.columns);
        let is_chosen = named().any(|name| *name == found_by.name);
        (!is_chosen).then_some(ViewKeys { base, table, view, found_by, part })
    }

    fn check_row(&self, at: (&[u8], &[u8]), row: RowView<'_>) -> Result<(), CqlError> {
        match row.column(self.found_by.id) {
            Some(ColumnData::Atomic(cell)) => match cell.value() {
                Some(value) => self.check_key(at, value, b""),
                None => Ok(()),
            },
            Some(ColumnData::Collection(elements)) => {
                for (path, cell) in elements.iter() {
                    let Some(value) = cell.value() else { continue };
                    match self.part {
                        Part::Whole | Part::ElementValue => self.check_key(at, value, path)?,
                        Part::ElementKey => self.check_key(at, path, b"")?,
                        Part::Entry => self.check_key(at, &entry(path, value), b"")?,
                    }
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Of the row that is found by a value, and by the key of its element.
    fn check_key(
        &self,
        (key, clustering): (&[u8], &[u8]),
        value: &[u8],
        path: &[u8],
    ) -> Result<(), CqlError> {
        const TOKEN: &[u8] = &[0; 8];
        let count = self.base.partition_key_count;
        let part = |column: &Column| match self.view.computed(column.id) {
            Some(Computed::Token) => TOKEN,
            Some(Computed::KeyOfValue(_)) => path,
            Some(_) => value,
            None => match self.base.column(&column.name) {
                Some(Column { kind: ColumnKind::PartitionKey, position, .. }) => {
                    partition_key_component(key, count, (*position).into()).unwrap_or_default()
                }
                Some(Column { kind: ColumnKind::Clustering, position, .. }) => {
                    let mut rows = clustering_components(clustering);
                    rows.nth((*position).into()).unwrap_or_default()
                }
                _ => value,
            },
        };
        let partition: Vec<&[u8]> = self.table.partition_key().iter().map(part).collect();
        // Of one column it may be empty here.
        let is_empty = partition.iter().all(|part| part.is_empty());
        let fits = (is_empty || check_partition_key(partition.into_iter()).is_ok())
            && check_clustering(self.table.clustering().iter().map(part)).is_ok();
        if fits { Ok(()) } else { Err(self.refusal(value.len())) }
    }

    fn refusal(&self, bytes: usize) -> CqlError {
        let (table, column) = (&self.base.name, &self.found_by.name);
        let index = self.base.indexes.iter().find(|it| it.view_name() == self.table.name);
        let keyspace = &self.base.keyspace;
        CqlError::Invalid(match index {
            Some(index) => format!(
                "Cannot index value of size {bytes} for index {} on {keyspace}.{table}({column}) \
                 (maximum allowed size of a key={KEY_BYTES_MAX})",
                index.name
            ),
            None => format!(
                "Cannot write value of size {bytes} to {keyspace}.{table}({column}), which is in \
                 the key of the materialized view {keyspace}.{} (maximum allowed size of a \
                 key={KEY_BYTES_MAX})",
                self.table.name
            ),
        })
    }
}

fn key_columns(table: &TableSchema) -> impl Iterator<Item = &Column> {
    table.partition_key().iter().chain(table.clustering())
}

/// An element as an index on entries has it: a tuple.
fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    model::value::write_tuple([Some(key), Some(value)].into_iter(), &mut out);
    out
}
