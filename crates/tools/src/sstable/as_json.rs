//! What stands in SSTables as JSON: keys, tombstones, rows and cells.

use super::values::{self, hex};
use model::value::plain_element;
use model::{TableSchema, Type};
use mutation::cell::CellState;
use mutation::{Cell, ClusteringPosition, CollectionView, ColumnData, Marker, RowView, Tombstone};
use serde_json::{Map, Value, json};

/// `{"token", "raw", "value"}`
pub(crate) fn decorated_key(schema: &TableSchema, key: &model::DecoratedKey) -> Value {
    let columns = schema.partition_key();
    json!({
        "token": key.token.0.to_string(),
        "raw": values::partition_raw(columns, &key.key),
        "value": values::partition_text(columns, &key.key),
    })
}

fn clustering_key(schema: &TableSchema, prefix: &[u8]) -> Value {
    json!({ "raw": hex(prefix), "value": values::clustering_text(schema.clustering(), prefix) })
}

/// A change of range tombstones.
pub(crate) fn change_json(
    schema: &TableSchema,
    position: &ClusteringPosition,
    tombstone: Tombstone,
) -> Value {
    let mut element = Map::new();
    element.insert("type".to_string(), json!("range-tombstone-change"));
    if !position.prefix.is_empty() {
        element.insert("key".to_string(), clustering_key(schema, &position.prefix));
    }
    element.insert("weight".to_string(), json!(position.weight));
    element.insert("tombstone".to_string(), tombstone_json(tombstone));
    Value::Object(element)
}

/// `{}` for none.
pub(crate) fn tombstone_json(tombstone: Tombstone) -> Value {
    match tombstone.is_none() {
        true => json!({}),
        false => json!({
            "timestamp": tombstone.timestamp,
            "deletion_time": values::time(tombstone.deletion_time),
        }),
    }
}

/// A clustering row.
pub(crate) fn row_json(schema: &TableSchema, key: &[u8], row: RowView<'_>) -> Value {
    let mut out = Map::new();
    out.insert("type".to_string(), json!("clustering-row"));
    out.insert("key".to_string(), clustering_key(schema, key));
    if !row.shadowable().is_none() {
        out.insert("tombstone".to_string(), tombstone_json(row.tombstone()));
        out.insert("shadowable_tombstone".to_string(), tombstone_json(row.shadowable()));
    }
    if let Some(marker) = row.marker() {
        out.insert("marker".to_string(), marker_json(marker));
    }
    out.insert("columns".to_string(), columns_json(schema, row));
    Value::Object(out)
}

pub(crate) fn marker_json(marker: Marker) -> Value {
    match marker {
        Marker::Live { timestamp } => json!({ "timestamp": timestamp }),
        Marker::Expiring { timestamp, expiry, ttl } => json!({
            "timestamp": timestamp,
            "ttl": format!("{ttl}s"),
            "expiry": values::time(expiry),
        }),
        Marker::Dead { timestamp, deletion_time } => json!({
            "timestamp": timestamp,
            "deletion_time": values::time(deletion_time),
        }),
    }
}

/// The cells of a row, by column.
pub(crate) fn columns_json(schema: &TableSchema, row: RowView<'_>) -> Value {
    let mut out = Map::new();
    for (id, data) in row.columns() {
        let Some(column) = schema.column_by_id(id) else { continue };
        let value = match data {
            ColumnData::Atomic(cell) => cell_json(&column.ty, cell),
            ColumnData::Collection(view) => collection_json(&column.ty, view),
        };
        out.insert(column.name.clone(), value);
    }
    Value::Object(out)
}

/// What sort of cell it is.
pub(crate) fn kind_of(ty: &Type, cell: &Cell<'_>) -> &'static str {
    match cell.state {
        CellState::Counter { .. } => "counter-shards",
        CellState::CounterUpdate { .. } => "counter-update",
        _ if ty.is_collection() => "frozen-collection",
        _ => "regular",
    }
}

pub(crate) fn cell_json(ty: &Type, cell: Cell<'_>) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.to_string(), value);
    put("is_live", json!(!matches!(cell.state, CellState::Dead { .. })));
    put("type", json!(kind_of(ty, &cell)));
    put("timestamp", json!(cell.timestamp));
    match cell.state {
        CellState::Live { value } => {
            put("value", json!(values::text(ty, value)));
        }
        CellState::Expiring { value, expiry, ttl } => {
            put("ttl", json!(format!("{ttl}s")));
            put("expiry", json!(values::time(expiry)));
            put("value", json!(values::text(ty, value)));
        }
        CellState::Dead { deletion_time } => {
            put("deletion_time", json!(values::time(deletion_time)));
        }
        CellState::CounterUpdate { delta } => {
            put("value", json!(delta));
        }
        CellState::Counter { shards } => {
            let shards = mutation::counter::shards(shards).map(|shard| {
                let id = model::Uuid::from_bytes(shard.id).hyphenated().to_string();
                json!({ "id": id, "value": shard.value, "clock": shard.clock })
            });
            put("value", Value::Array(shards.collect()));
        }
    }
    Value::Object(out)
}

pub(crate) fn collection_json(ty: &Type, view: CollectionView<'_>) -> Value {
    let mut out = Map::new();
    if !view.tomb().is_none() {
        out.insert("tombstone".to_string(), tombstone_json(view.tomb()));
    }
    let cells = view.iter().map(|(path, cell)| {
        let (key, element) = plain_element(ty, path);
        json!({ "key": key, "value": cell_json(&element, cell) })
    });
    out.insert("cells".to_string(), Value::Array(cells.collect()));
    Value::Object(out)
}
