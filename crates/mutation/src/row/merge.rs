//! Two rows of one position: what both say together, and what one says beyond the other.

use super::*;
use crate::{cell, collection};
use model::{TableSchema, Type};
use std::cmp::Ordering;

/// Merges two rows of one position and appends the result.
pub fn merge(schema: &TableSchema, a: RowView<'_>, b: RowView<'_>, out: &mut Vec<u8>) {
    // The same two, whichever way they come: a merge does not depend on its order.
    let (older, newer) = if (a.base, a.bytes) <= (b.base, b.bytes) { (a, b) } else { (b, a) };
    if replaces(newer, older) {
        return out.extend_from_slice(newer.bytes());
    }
    merge_columns(schema, a, b, out);
}

/// Whether `newer` has all that `older` has, and newer: then it is their merge. Says no where that
/// is not plain to see.
pub fn replaces(newer: RowView<'_>, older: RowView<'_>) -> bool {
    if replaces_plainly(&newer, &older) {
        return true;
    }
    if !older.tombstone.is_none() || !older.shadowable.is_none() {
        return false;
    }
    if older.marker.is_some() && merge_markers(newer.marker, older.marker) != newer.marker {
        return false;
    }
    let mut there = newer.columns();
    older.columns().all(|(id, x)| {
        let Some((found, y)) = there.find(|(column, _)| id <= *column) else { return false };
        found == id
            && match (x, y) {
                (ColumnData::Atomic(x), ColumnData::Atomic(y)) => {
                    x.timestamp < y.timestamp && !x.is_of_counter() && !y.is_of_counter()
                }
                (ColumnData::Collection(x), ColumnData::Collection(y)) => {
                    y.tomb().subsumes(x.tomb()) && y.tomb().covers(collection::last_update(x))
                }
                _ => false,
            }
    })
}

/// Says the same of rows that were written by one write each, values alone, and nothing of others.
fn replaces_plainly(newer: &RowView<'_>, older: &RowView<'_>) -> bool {
    let plain = newer.is_plain() && older.is_plain() && older.base < newer.base;
    if !plain || (older.marker.is_some() && newer.marker.is_none()) {
        return false;
    }
    let mut there = newer.at_base();
    let mut columns = older.at_base();
    let mut is_there = |id| there.find(|(other, _)| id <= *other).is_some_and(|(it, _)| it == id);
    columns.by_ref().all(|(id, _)| is_there(id)) && columns.is_at_end()
}

/// As [`merge`], column by column.
pub(super) fn merge_columns(
    schema: &TableSchema,
    a: RowView<'_>,
    b: RowView<'_>,
    out: &mut Vec<u8>,
) {
    let mut builder = RowBuilder::append_to(std::mem::take(out));
    builder.tombstone(a.tombstone.merge(b.tombstone));
    builder.shadowable(a.shadowable.merge(b.shadowable));
    if let Some(marker) = merge_markers(a.marker, b.marker) {
        builder.marker(marker);
    }
    let mut scratch = Vec::new();
    join(a.columns(), b.columns(), |id, x, y| match (x, y) {
        (Some(x), Some(y)) => merge_column(schema, id, x, y, &mut scratch, &mut builder),
        (Some(one), None) | (None, Some(one)) => copy(id, one, &mut builder),
        (None, None) => {}
    });
    *out = builder.finish();
}

/// Appends what `a` says beyond `b`: merged with `b` it gives the same as `a` does. Returns
/// whether there is anything; if not, nothing was appended.
pub fn difference(schema: &TableSchema, a: RowView<'_>, b: RowView<'_>, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut builder = RowBuilder::append_to(std::mem::take(out));
    if !b.tombstone.subsumes(a.tombstone) {
        builder.tombstone(a.tombstone);
    }
    if !b.shadowable().subsumes(a.shadowable) {
        builder.shadowable(a.shadowable);
    }
    let marker = a.marker.filter(|marker| !b.tombstone.covers(marker.timestamp()));
    if let Some(marker) = marker
        && merge_markers(a.marker, b.marker) != b.marker
    {
        builder.marker(marker);
    }
    let mut scratch = Vec::new();
    join(a.columns(), b.columns(), |id, x, y| {
        if let Some(x) = x {
            difference_column(schema, (id, x), (b.tombstone, y), &mut scratch, &mut builder);
        }
    });
    let any = !builder.is_empty();
    *out = builder.finish();
    if !any {
        out.truncate(start);
    }
    any
}

/// The type of a column, dropped ones included.
pub fn type_of(schema: &TableSchema, id: ColumnId) -> Option<&Type> {
    let dropped = || schema.dropped.iter().find(|column| column.id == id);
    match schema.column_by_id(id) {
        Some(column) => Some(&column.ty),
        None => dropped().map(|column| &column.ty),
    }
}

fn merge_markers(a: Option<Marker>, b: Option<Marker>) -> Option<Marker> {
    match (a, b) {
        (Some(x), Some(y)) => Some(Marker::of_cell(cell::reconcile(x.cell(), y.cell()))),
        (one, None) | (None, one) => one,
    }
}

/// Walks two rows' columns side by side, by id.
fn join<'a>(
    a: Columns<'a>,
    b: Columns<'a>,
    mut visit: impl FnMut(ColumnId, Option<ColumnData<'a>>, Option<ColumnData<'a>>),
) {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((x, _)), Some((y, _))) => x.cmp(y),
        };
        let x = if order.is_le() { a.next() } else { None };
        let y = if order.is_ge() { b.next() } else { None };
        if let Some((id, _)) = x.or(y) {
            visit(id, x.map(|(_, data)| data), y.map(|(_, data)| data));
        }
    }
}

fn copy(id: ColumnId, data: ColumnData<'_>, builder: &mut RowBuilder) {
    match data {
        ColumnData::Atomic(cell) => builder.cell(id, cell),
        ColumnData::Collection(view) => builder.collection(id, view.bytes()),
    }
}

fn merge_column(
    schema: &TableSchema,
    id: ColumnId,
    x: ColumnData<'_>,
    y: ColumnData<'_>,
    scratch: &mut Vec<u8>,
    builder: &mut RowBuilder,
) {
    scratch.clear();
    match (x, y) {
        (ColumnData::Atomic(x), ColumnData::Atomic(y)) => match (x.state, y.state) {
            (CellState::Counter { shards: a }, CellState::Counter { shards: b }) => {
                counter::merge(a, b, scratch);
                let timestamp = x.timestamp.max(y.timestamp);
                let state = CellState::Counter { shards: scratch };
                builder.cell(id, Cell { timestamp, state });
            }
            _ => builder.cell(id, cell::reconcile(x, y)),
        },
        (ColumnData::Collection(x), ColumnData::Collection(y)) => {
            builder.collection_with(id, |out| collection::merge(type_of(schema, id), x, y, out));
        }
        // A column never changes between atomic and multi-cell; if bytes say so, all replicas
        // must at least agree on what to keep.
        (one @ ColumnData::Collection(_), ColumnData::Atomic(_))
        | (ColumnData::Atomic(_), one @ ColumnData::Collection(_)) => copy(id, one, builder),
    }
}

fn difference_column(
    schema: &TableSchema,
    (id, x): (ColumnId, ColumnData<'_>),
    (shadow, y): (Tombstone, Option<ColumnData<'_>>),
    scratch: &mut Vec<u8>,
    builder: &mut RowBuilder,
) {
    scratch.clear();
    match (x, y) {
        (ColumnData::Atomic(x), Some(ColumnData::Atomic(y))) => {
            let told = match (x.state, y.state) {
                (CellState::Counter { shards: a }, CellState::Counter { shards: b }) => {
                    counter::merge(a, b, scratch);
                    scratch.as_slice() == b && x.timestamp <= y.timestamp
                }
                _ => cell::reconcile(y, x) == y,
            };
            if !told && !shadow.covers(x.timestamp) {
                builder.cell(id, x);
            }
        }
        (ColumnData::Atomic(x), None) if !shadow.covers(x.timestamp) => builder.cell(id, x),
        (ColumnData::Atomic(_), _) => {}
        (ColumnData::Collection(x), y) => {
            let nothing = CollectionView::trusted(&[0; 5]);
            let y = match y {
                Some(ColumnData::Collection(y)) => y,
                _ => nothing,
            };
            let mut beyond = Vec::new();
            if collection::difference(type_of(schema, id), x, y, &mut beyond) {
                let beyond = CollectionView::trusted(&beyond);
                match collection::compact(beyond, shadow, i64::MIN, &Purge::NEVER, scratch) {
                    Compacted::Unchanged => builder.collection(id, beyond.bytes()),
                    Compacted::Changed => builder.collection(id, scratch),
                    Compacted::Empty => {}
                }
            }
        }
    }
}

use crate::tombstone::{Compacted, Purge};
