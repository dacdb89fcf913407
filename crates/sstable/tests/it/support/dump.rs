//! Fragments as text, one line each, for golden files.

use model::key::{clustering_components, split_partition_key};
use model::{Column, TableSchema, Type, value};
use mutation::cell::CellState;
use mutation::{Cell, ColumnData, Fragment, Marker, RowView, Tombstone};
use std::fmt::Write;

/// The text of fragments; the end of a partition has no line.
pub(crate) fn text(fragments: &[Fragment], schema: &TableSchema) -> String {
    let mut out = String::new();
    for fragment in fragments {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                out += "partition";
                let columns = schema.partition_key();
                let values = split_partition_key(&key.key, columns.len()).unwrap();
                for (column, value) in columns.iter().zip(values) {
                    out += " ";
                    out += &value::to_json(&column.ty, value);
                }
                deletion(*tombstone, &mut out);
            }
            Fragment::StaticRow { row } => {
                out += "static";
                row_text(RowView::parse(row).unwrap(), schema.statics(), &mut out);
            }
            Fragment::Row { key, row } => {
                out += "row";
                prefix(key, schema, &mut out);
                row_text(RowView::parse(row).unwrap(), schema.regulars(), &mut out);
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                out += if position.weight < 0 { "before" } else { "after" };
                prefix(&position.prefix, schema, &mut out);
                match tombstone.is_none() {
                    true => out += " nothing",
                    false => deletion(*tombstone, &mut out),
                }
            }
            Fragment::PartitionEnd => continue,
        }
        out += "\n";
    }
    out
}

fn prefix(key: &[u8], schema: &TableSchema, out: &mut String) {
    for (column, value) in schema.clustering().iter().zip(clustering_components(key)) {
        *out += " ";
        *out += &value::to_json(&column.ty, value);
    }
}

fn deletion(tombstone: Tombstone, out: &mut String) {
    if !tombstone.is_none() {
        write!(out, " deleted {}@{}", tombstone.timestamp, tombstone.deletion_time).unwrap();
    }
}

fn row_text(row: RowView<'_>, columns: &[Column], out: &mut String) {
    match row.marker() {
        None => {}
        Some(Marker::Live { timestamp }) => write!(out, " live {timestamp}").unwrap(),
        Some(Marker::Expiring { timestamp, expiry, ttl }) => {
            write!(out, " live {timestamp} ttl {ttl} until {expiry}").unwrap();
        }
        Some(Marker::Dead { timestamp, deletion_time }) => {
            write!(out, " dead {timestamp}@{deletion_time}").unwrap();
        }
    }
    deletion(row.tombstone(), out);
    if row.shadowable() != row.tombstone() {
        deletion(row.shadowable(), out);
    }
    for (id, data) in row.columns() {
        let column = columns.iter().find(|column| column.id == id).unwrap();
        match data {
            ColumnData::Atomic(cell) => {
                write!(out, " {}", column.name).unwrap();
                cell_text(cell, &column.ty, out);
            }
            ColumnData::Collection(view) => {
                if !view.tomb().is_none() {
                    write!(out, " {}", column.name).unwrap();
                    deletion(view.tomb(), out);
                }
                for (path, cell) in view.iter() {
                    let (path, ty) = element(&column.ty, path);
                    write!(out, " {}[{path}]", column.name).unwrap();
                    cell_text(cell, &ty, out);
                }
            }
        }
    }
}

fn element(ty: &Type, path: &[u8]) -> (String, Type) {
    match ty {
        Type::List { element, .. } => {
            (value::to_json(&Type::TimeUuid, path), element.as_ref().clone())
        }
        Type::Set { element, .. } => (value::to_json(element, path), Type::Empty),
        Type::Map { key, value, .. } => (value::to_json(key, path), value.as_ref().clone()),
        Type::User(user) => {
            let index = u16::from_be_bytes(path.try_into().unwrap());
            let (name, ty) = &user.fields[index as usize];
            (name.clone(), ty.clone())
        }
        other => panic!("{other:?} has no elements"),
    }
}

/// A long text as its start, length and checksum.
fn shortened(text: String) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) if 100 < text.len() => {
            let crc = stdx::checksum::crc32(text.as_bytes());
            format!("{}..{}:{crc:08x}", &text[..end], text.len())
        }
        _ => text,
    }
}

fn cell_text(cell: Cell<'_>, ty: &Type, out: &mut String) {
    let timestamp = cell.timestamp;
    let json = |bytes| match ty {
        Type::Empty => String::new(),
        _ => shortened(value::to_json(ty, bytes)),
    };
    match cell.state {
        CellState::Live { value } => write!(out, "={} {timestamp}", json(value)),
        CellState::Expiring { value, expiry, ttl } => {
            write!(out, "={} {timestamp} ttl {ttl} until {expiry}", json(value))
        }
        CellState::Dead { deletion_time } => write!(out, " dead {timestamp}@{deletion_time}"),
        CellState::Counter { shards } => {
            let shards = shards[2..].chunks_exact(32);
            let numbers = shards.map(|shard| i64::from_be_bytes(shard[24..].try_into().unwrap()));
            write!(out, "={} {timestamp}", numbers.sum::<i64>())
        }
        CellState::CounterUpdate { .. } => panic!("a counter update in a file"),
    }
    .unwrap();
}
