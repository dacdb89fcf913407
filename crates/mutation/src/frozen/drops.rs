//! A mutation without what its table hides: cells of a column from before a column of that name
//! was dropped.

use super::*;
use crate::cell::Cell;
use crate::collection::{CollectionView, CollectionWriter};
use crate::row::{ColumnData, RowBuilder};
use model::{ColumnId, TableSchema};

/// When a column of the name of each column was dropped last, in microseconds: of the columns that
/// were added again.
pub fn drop_times(schema: &TableSchema) -> Vec<(ColumnId, i64)> {
    let last_drop = |name: &str| {
        let dropped = schema.dropped.iter().filter(|dropped| dropped.name == name);
        dropped.map(|dropped| dropped.dropped_at).max()
    };
    let columns = schema.columns.iter();
    columns.filter_map(|column| Some((column.id, last_drop(&column.name)?))).collect()
}

/// The mutation without the cells, elements and deletions of collections that are not newer than
/// the drop of their column ([`drop_times`]); `None` if all is newer. SSTables are read in the same
/// way, so nothing shows until a flush and is lost then. What is attached stays as it is.
pub fn newer_than_drops(
    schema: &TableSchema,
    view: &FrozenView<'_>,
    drops: &[(ColumnId, i64)],
) -> Option<FrozenMutation> {
    let rows = || view.static_row().into_iter().chain(view.rows().map(|(_, row)| row));
    if rows().all(|row| row.columns().all(|(id, data)| is_newer(data, dropped_at(drops, id)))) {
        return None;
    }
    let mut builder = MutationBuilder::new(schema, view.key());
    builder.delete_partition(view.tombstone());
    if let Some(row) = view.static_row() {
        builder.static_row(newer_row(row, drops));
    }
    view.ranges().for_each(|range| builder.delete_range(range));
    view.rows().for_each(|(key, row)| builder.row(key, &newer_row(row, drops)));
    let attached = view.attached().map(|it| it.to_owned()).collect();
    Some(builder.freeze().attach(attached))
}

fn dropped_at(drops: &[(ColumnId, i64)], id: ColumnId) -> i64 {
    drops.iter().find(|(column, _)| *column == id).map_or(i64::MIN, |(_, at)| *at)
}

/// Whether all of it is newer.
fn is_newer(data: ColumnData<'_>, dropped_at: i64) -> bool {
    let newer = |cell: &Cell<'_>| dropped_at < cell.timestamp;
    match data {
        _ if dropped_at == i64::MIN => true,
        ColumnData::Atomic(cell) => newer(&cell),
        ColumnData::Collection(view) => {
            let tomb = view.tomb();
            (tomb.is_none() || dropped_at < tomb.timestamp)
                && view.iter().all(|(_, cell)| newer(&cell))
        }
    }
}

fn newer_row(row: RowView<'_>, drops: &[(ColumnId, i64)]) -> Vec<u8> {
    let mut builder = RowBuilder::new(Vec::new());
    builder.tombstone(row.tombstone());
    builder.shadowable(row.shadowable());
    if let Some(marker) = row.marker() {
        builder.marker(marker);
    }
    for (id, data) in row.columns() {
        let at = dropped_at(drops, id);
        match data {
            ColumnData::Atomic(cell) if is_newer(data, at) => builder.cell(id, cell),
            ColumnData::Atomic(_) => {}
            ColumnData::Collection(view) if is_newer(data, at) => {
                builder.collection(id, view.bytes());
            }
            ColumnData::Collection(view) => builder.collection(id, &newer_elements(view, at)),
        }
    }
    builder.finish()
}

fn newer_elements(view: CollectionView<'_>, dropped_at: i64) -> Vec<u8> {
    let tomb = if dropped_at < view.tomb().timestamp { view.tomb() } else { Tombstone::NONE };
    let mut writer = CollectionWriter::new(tomb);
    let newer = view.iter().filter(|(_, cell)| dropped_at < cell.timestamp);
    newer.for_each(|(path, cell)| writer.push(path, cell));
    writer.finish()
}
