//! What the rows of fragments say, as JSON: metadata without values, and values without metadata.
//! Together they are what `nereid sstable dump-data` prints. Pure.
//!
//! ```text
//! partition start        metadata {"tombstone":T}
//! static row             metadata COLUMNS                      value VALUES
//! clustering row         metadata {["tombstone":T,"shadowable_tombstone":T,]["marker":M,]
//!                                  "columns":COLUMNS}          value VALUES
//! range tombstone change metadata {"tombstone":T}
//! T       := {} | {"timestamp":micros,"deletion_time":"2011-02-03 04:05:06z"}
//! COLUMNS := {"column":CELL | {["tombstone":T,]"cells":[{"key":"..","value":CELL},..]},..}
//! CELL    := {"is_live":..,"type":..,"timestamp":..[,"ttl":"1s","expiry":".."]
//!             [,"deletion_time":".."]}
//! VALUES  := {"column":VALUE | [{"key":"..","value":VALUE},..],..}
//! VALUE   := "text" | null (dead) | 1 (increment) | [{"id":"..","value":1,"clock":1},..]
//! ```

use model::value::{plain_element, print_plain, quote_json, temporal};
use model::{TableSchema, Type, Uuid};
use mutation::cell::CellState;
use mutation::{Cell, CollectionView, ColumnData, Marker, RowView, Tombstone};
use std::fmt::Write;

/// `{"tombstone":T}`
pub(super) fn tombstone_alone(tombstone: Tombstone) -> String {
    let mut out = String::from("{\"tombstone\":");
    put_tombstone(&mut out, tombstone);
    out.push('}');
    out
}

/// The metadata of a static row.
pub(super) fn static_metadata(schema: &TableSchema, row: RowView<'_>) -> String {
    let mut out = String::new();
    put_columns(&mut out, schema, row, put_cell_metadata, put_collection_metadata);
    out
}

/// The metadata of a clustering row.
pub(super) fn row_metadata(schema: &TableSchema, row: RowView<'_>) -> String {
    let mut out = String::from("{");
    if !row.shadowable().is_none() {
        out.push_str("\"tombstone\":");
        put_tombstone(&mut out, row.tombstone());
        out.push_str(",\"shadowable_tombstone\":");
        put_tombstone(&mut out, row.shadowable());
        out.push(',');
    }
    if let Some(marker) = row.marker() {
        out.push_str("\"marker\":{");
        put_marker(&mut out, marker);
        out.push_str("},");
    }
    out.push_str("\"columns\":");
    put_columns(&mut out, schema, row, put_cell_metadata, put_collection_metadata);
    out.push('}');
    out
}

/// The values of a row.
pub(super) fn values(schema: &TableSchema, row: RowView<'_>) -> String {
    let mut out = String::new();
    put_columns(&mut out, schema, row, put_value, put_collection_values);
    out
}

fn put_columns(
    out: &mut String,
    schema: &TableSchema,
    row: RowView<'_>,
    atomic: fn(&mut String, &Type, Cell<'_>),
    collection: fn(&mut String, &Type, CollectionView<'_>),
) {
    out.push('{');
    let start = out.len();
    for (id, data) in row.columns() {
        // The type of a dropped column is unknown.
        let Some(column) = schema.column_by_id(id) else { continue };
        if start < out.len() {
            out.push(',');
        }
        put_string(out, &column.name);
        out.push(':');
        match data {
            ColumnData::Atomic(cell) => atomic(out, &column.ty, cell),
            ColumnData::Collection(view) => collection(out, &column.ty, view),
        }
    }
    out.push('}');
}

fn put_tombstone(out: &mut String, tombstone: Tombstone) {
    out.push('{');
    if !tombstone.is_none() {
        put(out, format_args!("\"timestamp\":{}", tombstone.timestamp));
        put(out, format_args!(",\"deletion_time\":\"{}\"", time(tombstone.deletion_time)));
    }
    out.push('}');
}

fn put_marker(out: &mut String, marker: Marker) {
    put(out, format_args!("\"timestamp\":{}", marker.timestamp()));
    put_times(out, marker.cell().state);
}

/// When a cell expires, or was deleted.
fn put_times(out: &mut String, state: CellState<'_>) {
    match state {
        CellState::Expiring { expiry, ttl, .. } => {
            put(out, format_args!(",\"ttl\":\"{ttl}s\",\"expiry\":\"{}\"", time(expiry)));
        }
        CellState::Dead { deletion_time } => {
            put(out, format_args!(",\"deletion_time\":\"{}\"", time(deletion_time)));
        }
        CellState::Live { .. } | CellState::CounterUpdate { .. } | CellState::Counter { .. } => {}
    }
}

fn put_cell_metadata(out: &mut String, ty: &Type, cell: Cell<'_>) {
    let is_live = !matches!(cell.state, CellState::Dead { .. });
    let kind = match cell.state {
        CellState::Counter { .. } => "counter-shards",
        CellState::CounterUpdate { .. } => "counter-update",
        _ if ty.is_collection() => "frozen-collection",
        _ => "regular",
    };
    put(out, format_args!("{{\"is_live\":{is_live},\"type\":\"{kind}\""));
    put(out, format_args!(",\"timestamp\":{}", cell.timestamp));
    put_times(out, cell.state);
    out.push('}');
}

fn put_collection_metadata(out: &mut String, ty: &Type, view: CollectionView<'_>) {
    out.push('{');
    if !view.tomb().is_none() {
        out.push_str("\"tombstone\":");
        put_tombstone(out, view.tomb());
        out.push(',');
    }
    out.push_str("\"cells\":");
    put_elements(out, ty, view, put_cell_metadata);
    out.push('}');
}

fn put_collection_values(out: &mut String, ty: &Type, view: CollectionView<'_>) {
    put_elements(out, ty, view, put_value);
}

fn put_elements(
    out: &mut String,
    ty: &Type,
    view: CollectionView<'_>,
    element: fn(&mut String, &Type, Cell<'_>),
) {
    out.push('[');
    for (index, (path, cell)) in view.iter().enumerate() {
        if 0 < index {
            out.push(',');
        }
        let (key, ty) = plain_element(ty, path);
        out.push_str("{\"key\":");
        put_string(out, &key);
        out.push_str(",\"value\":");
        element(out, &ty, cell);
        out.push('}');
    }
    out.push(']');
}

fn put_value(out: &mut String, ty: &Type, cell: Cell<'_>) {
    match cell.state {
        CellState::Live { value } | CellState::Expiring { value, .. } => {
            put_string(out, &print_plain(ty, value));
        }
        CellState::Dead { .. } => out.push_str("null"),
        CellState::CounterUpdate { delta } => put(out, format_args!("{delta}")),
        CellState::Counter { shards } => {
            out.push('[');
            for (index, shard) in mutation::counter::shards(shards).enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let id = Uuid::from_bytes(shard.id).hyphenated();
                let (value, clock) = (shard.value, shard.clock);
                let shard = format_args!("{{\"id\":\"{id}\",\"value\":{value},\"clock\":{clock}}}");
                put(out, format_args!("{comma}{shard}"));
            }
            out.push(']');
        }
    }
}

/// `2011-02-03 04:05:06z`
fn time(seconds: i64) -> String {
    let text = temporal::print_timestamp(seconds.saturating_mul(1000), ' ');
    let whole = text.split('.').next().unwrap_or(&text);
    format!("{whole}z")
}

fn put_string(out: &mut String, text: &str) {
    out.push_str(&quote_json(text));
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests;
