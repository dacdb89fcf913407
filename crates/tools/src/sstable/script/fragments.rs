//! Fragments of mutations, as a program in Lua has them: their fields are made when they are asked
//! for. What is absent is nil.

use super::super::as_json;
use super::keys::{ClusteringKey, DataValue, PartitionKey};
use super::{Shared, times};
use functions::push_lua;
use mlua::{Lua, MetaMethod, Result, Table, UserData, UserDataFields, UserDataMethods, Value};
use model::value::plain_element;
use model::{Column, ColumnKind, DecoratedKey, TableSchema, Type, Uuid};
use mutation::cell::CellState;
use mutation::counter::Shard;
use mutation::{Cell, ClusteringPosition, CollectionView, ColumnData, Marker, RowView, Tombstone};
use stdx::Bytes;

/// Makes fields that there are not nil, not errors.
fn nil_for_others<T, M: UserDataMethods<T>>(methods: &mut M) {
    methods.add_meta_method(MetaMethod::Index.name(), |_, _, _: Value| Ok(Value::Nil));
}

/// The start of a partition.
pub(super) struct PartitionStart {
    pub(super) key: DecoratedKey,
    pub(super) tombstone: Tombstone,
}

impl UserData for PartitionStart {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("key", |lua, this| {
            Ok(PartitionKey { schema: Shared::of(lua)?.schema, key: this.key.clone() })
        });
        fields.add_field_method_get("token", |_, this| Ok(this.key.token.0));
        fields.add_field_method_get("tombstone", |lua, this| tombstone(lua, this.tombstone));
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        nil_for_others(methods);
    }
}

/// A row; the static one has no key.
pub(super) struct Row {
    pub(super) key: Option<Bytes>,
    pub(super) row: Bytes,
}

impl Row {
    pub(super) fn view(&self) -> RowView<'_> {
        RowView::trusted(&self.row)
    }
}

impl UserData for Row {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("key", |lua, this| key_of(lua, this.key.as_ref()));
        fields.add_field_method_get("tombstone", |lua, this| {
            // With a shadowable one there is always the other, if only an empty one.
            match this.view().shadowable().is_none() {
                true => Ok(Value::Nil),
                false => Ok(Value::Table(any_tombstone(lua, this.view().tombstone())?)),
            }
        });
        fields.add_field_method_get("shadowable_tombstone", |lua, this| {
            tombstone(lua, this.view().shadowable())
        });
        fields.add_field_method_get("marker", |lua, this| {
            this.view().marker().map(|found| marker(lua, found)).transpose()
        });
        fields.add_field_method_get("cells", |lua, this| cells(lua, this.view()));
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        nil_for_others(methods);
    }
}

/// A change of range tombstones.
pub(super) struct Change {
    pub(super) position: ClusteringPosition,
    pub(super) tombstone: Tombstone,
}

impl UserData for Change {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("key", |lua, this| {
            key_of(lua, Some(&this.position.prefix).filter(|prefix| !prefix.is_empty()))
        });
        fields.add_field_method_get("key_weight", |_, this| Ok(this.position.weight));
        fields.add_field_method_get("tombstone", |lua, this| tombstone(lua, this.tombstone));
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        nil_for_others(methods);
    }
}

fn key_of(lua: &Lua, prefix: Option<&Bytes>) -> Result<Option<ClusteringKey>> {
    let schema = Shared::of(lua)?.schema;
    Ok(prefix.map(|prefix| ClusteringKey { schema, prefix: prefix.clone() }))
}

fn tombstone(lua: &Lua, tombstone: Tombstone) -> Result<Value> {
    match tombstone.is_none() {
        true => Ok(Value::Nil),
        false => any_tombstone(lua, tombstone).map(Value::Table),
    }
}

fn any_tombstone(lua: &Lua, tombstone: Tombstone) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("timestamp", tombstone.timestamp)?;
    table.raw_set("deletion_time", times::time(lua, tombstone.deletion_time)?)?;
    Ok(table)
}

/// What markers and cells say of their life: of what expires it is as if it was deleted when it
/// was written.
fn life(lua: &Lua, timestamp: i64, state: CellState<'_>) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("timestamp", timestamp)?;
    table.raw_set("is_live", !matches!(state, CellState::Dead { .. }))?;
    table.raw_set("has_ttl", matches!(state, CellState::Expiring { .. }))?;
    match state {
        CellState::Expiring { expiry, ttl, .. } => {
            table.raw_set("ttl", ttl)?;
            table.raw_set("expiry", times::time(lua, expiry)?)?;
            table.raw_set("deletion_time", times::time(lua, expiry - i64::from(ttl))?)?;
        }
        CellState::Dead { deletion_time } => {
            table.raw_set("deletion_time", times::time(lua, deletion_time)?)?;
            let tombstone = any_tombstone(lua, Tombstone::new(timestamp, deletion_time))?;
            table.raw_set("tombstone", tombstone)?;
        }
        CellState::Live { .. } | CellState::CounterUpdate { .. } | CellState::Counter { .. } => {}
    }
    Ok(table)
}

fn marker(lua: &Lua, marker: Marker) -> Result<Table> {
    life(lua, marker.timestamp(), marker.cell().state)
}

fn cells(lua: &Lua, row: RowView<'_>) -> Result<Table> {
    let schema = Shared::of(lua)?.schema;
    let table = lua.create_table()?;
    for (id, data) in row.columns() {
        let Some(column) = schema.column_by_id(id) else { continue };
        let value = match data {
            ColumnData::Atomic(cell) => atomic_cell(lua, &column.ty, cell)?,
            ColumnData::Collection(view) => collection(lua, &column.ty, view)?,
        };
        table.raw_set(column.name.as_str(), value)?;
    }
    Ok(table)
}

fn atomic_cell(lua: &Lua, ty: &Type, cell: Cell<'_>) -> Result<Table> {
    let table = life(lua, cell.timestamp, cell.state)?;
    table.raw_set("type", as_json::kind_of(ty, &cell))?;
    let value = match cell.state {
        CellState::Live { value } | CellState::Expiring { value, .. } => native(lua, ty, value)?,
        CellState::Dead { .. } => Value::Nil,
        CellState::CounterUpdate { delta } => Value::Integer(delta),
        CellState::Counter { shards } => {
            let shards = mutation::counter::shards(shards).collect();
            Value::UserData(lua.create_userdata(CounterShards { shards })?)
        }
    };
    table.raw_set("value", value)?;
    Ok(table)
}

/// A value of Lua where it has its like, else one that carries its type.
fn native(lua: &Lua, ty: &Type, bytes: &[u8]) -> Result<Value> {
    let has_like = match ty {
        Type::Ascii | Type::Text => true,
        Type::Boolean | Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt => {
            !bytes.is_empty()
        }
        Type::Float | Type::Double => !bytes.is_empty(),
        _ => false,
    };
    match has_like {
        true => push_lua(lua, ty, Some(bytes)),
        false => {
            let value = DataValue { ty: ty.clone(), bytes: bytes.to_vec() };
            Ok(Value::UserData(lua.create_userdata(value)?))
        }
    }
}

fn collection(lua: &Lua, ty: &Type, view: CollectionView<'_>) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("type", "collection")?;
    table.raw_set("tombstone", tombstone(lua, view.tomb())?)?;
    let elements = lua.create_table()?;
    for (path, cell) in view.iter() {
        let (name, element) = plain_element(ty, path);
        let pair = lua.create_table()?;
        match ty {
            Type::User(_) => pair.raw_set("key", name)?,
            _ => {
                let ty = ty.path_type().unwrap_or(Type::Blob);
                pair.raw_set("key", DataValue { ty, bytes: path.to_vec() })?;
            }
        }
        pair.raw_set("value", atomic_cell(lua, &element, cell)?)?;
        elements.raw_push(pair)?;
    }
    // By the name of the documents, and by the one that scripts use.
    table.raw_set("values", &elements)?;
    table.raw_set("cells", elements)?;
    Ok(table)
}

/// The shards of a counter.
struct CounterShards {
    shards: Vec<Shard>,
}

impl CounterShards {
    fn total(&self) -> i64 {
        self.shards.iter().fold(0, |sum, shard| sum.wrapping_add(shard.value))
    }
}

impl UserData for CounterShards {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("value", |_, this| Ok(this.total()));
        fields.add_field_method_get("shards", |lua, this| {
            let list = lua.create_table()?;
            for shard in &this.shards {
                let table = lua.create_table()?;
                table.raw_set("id", Uuid::from_bytes(shard.id).hyphenated().to_string())?;
                table.raw_set("value", shard.value)?;
                table.raw_set("clock", shard.clock)?;
                list.raw_push(table)?;
            }
            Ok(list)
        });
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString.name(), |_, this, ()| {
            Ok(this.total().to_string())
        });
    }
}

/// The columns of the table.
pub(super) fn schema(lua: &Lua, schema: &TableSchema) -> Result<Table> {
    let column = |column: &Column| -> Result<Table> {
        let table = lua.create_table()?;
        table.raw_set("id", column.id.0)?;
        table.raw_set("name", column.name.as_str())?;
        let kind = match column.kind {
            ColumnKind::PartitionKey => "partition_key",
            ColumnKind::Clustering => "clustering_key",
            ColumnKind::Static => "static_column",
            ColumnKind::Regular => "regular_column",
        };
        table.raw_set("kind", kind)?;
        table.raw_set("type", column.ty.to_cql())?;
        Ok(table)
    };
    let of = |wanted: &dyn Fn(&Column) -> bool| -> Result<Table> {
        let columns = schema.columns.iter().filter(|column| wanted(column));
        lua.create_sequence_from(columns.map(column).collect::<Result<Vec<_>>>()?)
    };
    let table = lua.create_table()?;
    for (name, kind) in [
        ("partition_key_columns", ColumnKind::PartitionKey),
        ("clustering_key_columns", ColumnKind::Clustering),
        ("static_columns", ColumnKind::Static),
        ("regular_columns", ColumnKind::Regular),
    ] {
        table.raw_set(name, of(&|column| column.kind == kind)?)?;
    }
    table.raw_set("all_columns", of(&|_| true)?)?;
    Ok(table)
}
