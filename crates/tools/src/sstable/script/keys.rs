//! Keys, positions and values, as a program in Lua has them.

use super::super::values;
use super::Shared;
use functions::push_lua;
use mlua::{
    Error, FromLua, Lua, MetaMethod, Result, Table, UserData, UserDataFields, UserDataMethods,
    UserDataRef, Value,
};
use model::{Column, DecoratedKey, TableSchema, Type};
use std::cmp::Ordering;
use std::rc::Rc;
use stdx::Bytes;

/// A value of a type that Lua has no like of.
pub(super) struct DataValue {
    pub(super) ty: Type,
    pub(super) bytes: Vec<u8>,
}

impl UserData for DataValue {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields
            .add_field_method_get("value", |lua, this| push_lua(lua, &this.ty, Some(&this.bytes)));
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString.name(), |_, this, ()| {
            Ok(values::text(&this.ty, &this.bytes))
        });
    }
}

fn components(
    lua: &Lua,
    columns: &[Column],
    parts: impl Iterator<Item = Vec<u8>>,
) -> Result<Table> {
    let values = columns.iter().zip(parts);
    lua.create_sequence_from(
        values.map(|(column, bytes)| DataValue { ty: column.ty.clone(), bytes }),
    )
}

/// A partition key.
#[derive(Clone)]
pub(super) struct PartitionKey {
    pub(super) schema: Rc<TableSchema>,
    pub(super) key: DecoratedKey,
}

impl UserData for PartitionKey {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("components", |lua, this| {
            let columns = this.schema.partition_key();
            let parts = model::key::split_partition_key(&this.key.key, columns.len());
            let parts = parts.map_err(|damaged| Error::runtime(damaged.to_string()))?;
            components(lua, columns, parts.into_iter().map(<[u8]>::to_vec))
        });
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("to_hex", |_, this, ()| {
            Ok(values::partition_raw(this.schema.partition_key(), &this.key.key))
        });
        methods.add_meta_method(MetaMethod::ToString.name(), |_, this, ()| {
            Ok(values::partition_text(this.schema.partition_key(), &this.key.key))
        });
    }
}

/// A clustering key, or the first columns of one.
#[derive(Clone)]
pub(super) struct ClusteringKey {
    pub(super) schema: Rc<TableSchema>,
    pub(super) prefix: Bytes,
}

impl UserData for ClusteringKey {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("components", |lua, this| {
            let parts = model::key::clustering_components(&this.prefix);
            components(lua, this.schema.clustering(), parts.map(<[u8]>::to_vec))
        });
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("to_hex", |_, this, ()| Ok(values::hex(&this.prefix)));
        methods.add_meta_method(MetaMethod::ToString.name(), |_, this, ()| {
            Ok(values::clustering_text(this.schema.clustering(), &this.prefix))
        });
    }
}

/// A weight: before, at, or after what it stands beside.
fn weight_of(weight: i64) -> Result<i8> {
    match weight {
        -1..=1 => Ok(weight as i8),
        _ => Err(Error::runtime("a weight is -1, 0 or 1")),
    }
}

/// Where an end of everything is: what is after nothing starts it, what is before nothing ends it.
fn end_of(weight: i8) -> Result<i8> {
    match weight {
        0 => Err(Error::runtime("a position without a key has a weight of -1 or 1")),
        weight => Ok(-weight),
    }
}

/// A place in the ring of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RingPlace {
    /// -1 is the start, 1 the end of the ring.
    End(i8),
    Token(i64),
    Key(DecoratedKey),
}

/// A place in the ring, or one before or after it.
struct RingPosition {
    schema: Rc<TableSchema>,
    place: RingPlace,
    weight: i8,
}

impl RingPosition {
    fn compare(&self, other: &RingPosition) -> Ordering {
        use RingPlace::{End, Key, Token};
        let token = |place: &RingPlace| match place {
            End(_) => 0,
            Token(token) => *token,
            Key(key) => key.token.0,
        };
        match (&self.place, &other.place) {
            (End(a), End(b)) => a.cmp(b),
            (End(a), _) => a.cmp(&0),
            (_, End(b)) => 0.cmp(b),
            (a, b) if token(a) != token(b) => token(a).cmp(&token(b)),
            (Key(a), Key(b)) => a.cmp(b).then(self.weight.cmp(&other.weight)),
            (Key(_), _) => 0.cmp(&other.weight),
            (_, Key(_)) => self.weight.cmp(&0),
            _ => self.weight.cmp(&other.weight),
        }
    }
}

impl UserData for RingPosition {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("token", |_, this| {
            Ok(match &this.place {
                RingPlace::End(_) => None,
                RingPlace::Token(token) => Some(*token),
                RingPlace::Key(key) => Some(key.token.0),
            })
        });
        fields.add_field_method_get("key", |_, this| {
            Ok(match &this.place {
                RingPlace::Key(key) => {
                    Some(PartitionKey { schema: this.schema.clone(), key: key.clone() })
                }
                _ => None,
            })
        });
        fields.add_field_method_get("weight", |_, this| Ok(this.weight));
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("tri_cmp", |_, this, other: UserDataRef<RingPosition>| {
            Ok(this.compare(&other) as i8)
        });
    }
}

/// A clustering position.
struct PositionInPartition {
    schema: Rc<TableSchema>,
    /// `None` is an end of the partition.
    prefix: Option<Bytes>,
    weight: i8,
}

impl PositionInPartition {
    fn compare(&self, other: &PositionInPartition) -> Ordering {
        match (&self.prefix, &other.prefix) {
            (None, None) => other.weight.cmp(&self.weight),
            (None, Some(_)) => 0.cmp(&self.weight),
            (Some(_), None) => other.weight.cmp(&0),
            (Some(a), Some(b)) => self.schema.order.compare((a, self.weight), (b, other.weight)),
        }
    }
}

impl UserData for PositionInPartition {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("key", |_, this| {
            let key = |prefix: &Bytes| ClusteringKey {
                schema: this.schema.clone(),
                prefix: prefix.clone(),
            };
            Ok(this.prefix.as_ref().map(key))
        });
        fields.add_field_method_get("weight", |_, this| Ok(this.weight));
    }
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("tri_cmp", |_, this, other: UserDataRef<PositionInPartition>| {
            Ok(this.compare(&other) as i8)
        });
    }
}

fn new_ring_position(lua: &Lua, (weight, at, _): (i64, Value, Value)) -> Result<RingPosition> {
    let weight = weight_of(weight)?;
    let place = match at {
        Value::Nil => RingPlace::End(end_of(weight)?),
        Value::UserData(data) => RingPlace::Key(data.borrow::<PartitionKey>()?.key.clone()),
        token => {
            end_of(weight)?;
            RingPlace::Token(i64::from_lua(token, lua)?)
        }
    };
    Ok(RingPosition { schema: Shared::of(lua)?.schema, place, weight })
}

fn new_position_in_partition(
    lua: &Lua,
    (weight, key): (i64, Option<UserDataRef<ClusteringKey>>),
) -> Result<PositionInPartition> {
    let weight = weight_of(weight)?;
    let prefix = key.map(|key| key.prefix.clone());
    if prefix.is_none() {
        end_of(weight)?;
    }
    Ok(PositionInPartition { schema: Shared::of(lua)?.schema, prefix, weight })
}

/// `unserialize_*`, `token_of`, `new_ring_position`, `new_position_in_partition`.
pub(super) fn add_functions(lua: &Lua, table: &Table) -> Result<()> {
    let partition = |lua: &Lua, digits: String| {
        let schema = Shared::of(lua)?.schema;
        let key = values::partition_of_raw(schema.partition_key(), &digits);
        let key = DecoratedKey::new(Bytes::copy_from(&key.map_err(Error::runtime)?));
        Ok(PartitionKey { schema, key })
    };
    table.raw_set("unserialize_partition_key", lua.create_function(partition)?)?;
    let clustering = |lua: &Lua, digits: String| {
        let schema = Shared::of(lua)?.schema;
        let prefix = values::clustering_of_raw(schema.clustering().len(), &digits);
        let prefix = Bytes::copy_from(&prefix.map_err(Error::runtime)?);
        Ok(ClusteringKey { schema, prefix })
    };
    table.raw_set("unserialize_clustering_key", lua.create_function(clustering)?)?;
    let token = |_: &Lua, key: UserDataRef<PartitionKey>| Ok(key.key.token.0);
    table.raw_set("token_of", lua.create_function(token)?)?;
    table.raw_set("new_ring_position", lua.create_function(new_ring_position)?)?;
    let position = lua.create_function(new_position_in_partition)?;
    table.raw_set("new_position_in_partition", position)
}
