//! Building a mutation of one partition of a system table, by column names.
//!
//! Invariants
//!  - *whole-key*: a partition has a value for each column of its key, and a row one for each
//!    clustering column.
//!  - *fits-its-column*: a column that is a collection of cells is given as one, any other as a
//!    value.
//!  - *spared*: a deletion is earlier than what is written with it.

use model::key::{compose_partition_key, push_clustering};
use model::value::collection::{write_collection, write_map};
use model::{ColumnId, ColumnKind, TableSchema};
use mutation::cell::CellState;
use mutation::collection::CollectionWriter;
use mutation::range::{ClusteringPosition, RangeTombstone};
use mutation::{Cell, ClusteringRange, FrozenMutation, Marker, MutationBuilder};
use mutation::{RowBuilder, Tombstone};
use stdx::Bytes;

/// What a column is to hold.
#[derive(Clone, Debug)]
pub enum Value {
    /// A value, frozen where it is a collection.
    Atomic(Vec<u8>),
    /// No value any more, of a column that is no collection or a frozen one.
    Null,
    /// The elements of a set that is not frozen, instead of what it held.
    Set(Vec<Vec<u8>>),
    /// The cells of a collection that is not frozen, in its order, instead of what it held: names
    /// (keys of a map, UUIDs of a list) and values.
    Entries(Vec<(Vec<u8>, Vec<u8>)>),
    /// One element of such a set is there from now on, or no longer.
    Element(Vec<u8>, bool),
}

/// Columns by name; what is `None` stays as it was.
pub type Cells<'a> = Vec<(&'a str, Option<Value>)>;

/// Collects the changes of one partition, all with one timestamp; deletions have the one before,
/// so that they spare what is written with them.
pub struct PartitionWriter<'s> {
    schema: &'s TableSchema,
    builder: MutationBuilder<'s>,
    timestamp: i64,
    /// Seconds after which what is written expires; `None`: it stays.
    ttl: Option<i32>,
}

impl<'s> PartitionWriter<'s> {
    /// Of the partition with these key components, at `timestamp` microseconds.
    pub fn new(schema: &'s TableSchema, key: &[&[u8]], timestamp: i64) -> Self {
        let (given, wanted) = (key.len(), schema.partition_key_count);
        assert!(given == wanted, "whole-key: {given} of {wanted} in {}", schema.name);
        let mut bytes = Vec::new();
        compose_partition_key(key.iter().copied(), &mut bytes);
        let builder = MutationBuilder::new(schema, &bytes);
        PartitionWriter { schema, builder, timestamp, ttl: None }
    }

    /// The same; what is written expires so many seconds after the timestamp.
    pub fn expires_after(self, secs: i32) -> Self {
        assert!(0 < secs, "what is written expires before: {secs} seconds");
        PartitionWriter { ttl: Some(secs), ..self }
    }

    /// Writes a row with these clustering components.
    pub fn row(&mut self, clustering: &[&[u8]], cells: Cells<'_>) {
        self.check_row_key(clustering);
        let row = self.encode(ColumnKind::Regular, true, cells);
        self.builder.row(&prefix(clustering), &row);
    }

    /// Writes cells of a row with these clustering components, if there is such a row.
    pub fn cells(&mut self, clustering: &[&[u8]], cells: Cells<'_>) {
        self.check_row_key(clustering);
        let row = self.encode(ColumnKind::Regular, false, cells);
        self.builder.row(&prefix(clustering), &row);
    }

    /// Writes static columns.
    pub fn statics(&mut self, cells: Cells<'_>) {
        let row = self.encode(ColumnKind::Static, false, cells);
        self.builder.static_row(&row);
    }

    /// Deletes the rows that begin with these clustering components; all of them for none.
    pub fn delete_rows(&mut self, clustering: &[&[u8]]) {
        let (given, most) = (clustering.len(), self.schema.clustering_count);
        assert!(given <= most, "whole-key: {given} of {most} in {}", self.schema.name);
        let tombstone = self.tombstone();
        assert!(tombstone.timestamp < self.timestamp, "spared: {}", tombstone.timestamp);
        if clustering.is_empty() {
            self.builder.delete_partition(tombstone);
            return;
        }
        let range = ClusteringRange::of_prefix(Bytes::from(prefix(clustering)));
        self.builder.delete_range(RangeTombstone { range, tombstone });
    }

    /// Deletes the rows from the one with these clustering components to the one with those, both
    /// of them too; without components: from the first, to the last. Static columns stay.
    pub fn delete_between(&mut self, first: Option<&[&[u8]]>, last: Option<&[&[u8]]>) {
        [first, last].into_iter().flatten().for_each(|key| self.check_row_key(key));
        let place = |key: &[&[u8]]| Bytes::from(prefix(key));
        let first = first.map(|key| ClusteringPosition::before(place(key)));
        let last = last.map(|key| ClusteringPosition::after(place(key)));
        let range = ClusteringRange {
            start: first.unwrap_or_else(ClusteringPosition::start),
            end: last.unwrap_or_else(ClusteringPosition::end),
        };
        let (tombstone, order) = (self.tombstone(), &self.schema.order);
        assert!(tombstone.timestamp < self.timestamp, "spared: {}", tombstone.timestamp);
        debug_assert!(!range.is_empty(order), "a deletion of nothing in {}", self.schema.name);
        self.builder.delete_range(RangeTombstone { range, tombstone });
    }

    /// The mutation.
    pub fn freeze(self) -> FrozenMutation {
        self.builder.freeze()
    }

    fn check_row_key(&self, clustering: &[&[u8]]) {
        let (given, wanted) = (clustering.len(), self.schema.clustering_count);
        assert!(given == wanted, "whole-key: {given} of {wanted} in {}", self.schema.name);
    }

    fn tombstone(&self) -> Tombstone {
        Tombstone {
            timestamp: self.timestamp - 1,
            deletion_time: self.timestamp.div_euclid(1_000_000),
        }
    }

    fn encode(&self, kind: ColumnKind, marks: bool, cells: Cells<'_>) -> Vec<u8> {
        let mut row = RowBuilder::new(Vec::new());
        if marks {
            let timestamp = self.timestamp;
            row.marker(match self.ttl {
                Some(ttl) => Marker::Expiring { timestamp, expiry: self.expiry(ttl), ttl },
                None => Marker::Live { timestamp },
            });
        }
        let mut values: Vec<(ColumnId, Value)> = Vec::with_capacity(cells.len());
        for (name, value) in cells {
            let Some(value) = value else { continue };
            let column = self.schema.column(name).filter(|column| column.kind == kind);
            let Some(column) = column else { panic!("no column {name} in {}", self.schema.name) };
            let is_value = matches!(value, Value::Atomic(_) | Value::Null);
            assert!(is_value != column.ty.is_multi_cell(), "fits-its-column: {name}");
            values.push((column.id, value));
        }
        values.sort_by_key(|(id, _)| *id);
        let differ = values.is_sorted_by(|a, b| a.0 < b.0);
        assert!(differ, "a column of {} is written twice", self.schema.name);
        for (id, value) in values {
            self.put(&mut row, id, value);
        }
        row.finish()
    }

    fn expiry(&self, ttl: i32) -> i64 {
        self.timestamp.div_euclid(1_000_000) + i64::from(ttl)
    }

    fn state<'v>(&self, value: &'v [u8]) -> CellState<'v> {
        match self.ttl {
            Some(ttl) => CellState::Expiring { value, expiry: self.expiry(ttl), ttl },
            None => CellState::Live { value },
        }
    }

    fn put(&self, row: &mut RowBuilder, column: ColumnId, value: Value) {
        match value {
            Value::Atomic(value) => {
                let state = self.state(&value);
                row.cell(column, Cell { timestamp: self.timestamp, state });
            }
            Value::Null => {
                let deletion_time = self.timestamp.div_euclid(1_000_000);
                row.cell(column, Cell::dead(self.timestamp, deletion_time));
            }
            Value::Set(mut elements) => {
                elements.sort();
                let differ = elements.is_sorted_by(|a, b| a < b);
                debug_assert!(differ, "fits-its-column: a set has an element twice");
                self.put_cells(row, column, elements.iter().map(|element| (&element[..], &[][..])));
            }
            Value::Entries(entries) => {
                let cells = entries.iter().map(|(name, value)| (&name[..], &value[..]));
                self.put_cells(row, column, cells);
            }
            Value::Element(element, is_there) => {
                let deletion_time = self.timestamp.div_euclid(1_000_000);
                let state = match is_there {
                    true => self.state(&[]),
                    false => CellState::Dead { deletion_time },
                };
                let mut writer = CollectionWriter::new(Tombstone::NONE);
                writer.push(&element, Cell { timestamp: self.timestamp, state });
                row.collection(column, &writer.finish());
            }
        }
    }

    /// A collection that is not frozen has these cells, and no others.
    fn put_cells<'c>(
        &self,
        row: &mut RowBuilder,
        column: ColumnId,
        cells: impl Iterator<Item = (&'c [u8], &'c [u8])>,
    ) {
        let mut writer = CollectionWriter::new(self.tombstone());
        for (name, value) in cells {
            writer.push(name, Cell { timestamp: self.timestamp, state: self.state(value) });
        }
        row.collection(column, &writer.finish());
    }
}

fn prefix(components: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    components.iter().for_each(|component| push_clustering(component, &mut bytes));
    bytes
}

/// A text.
pub fn text(value: &str) -> Option<Value> {
    Some(Value::Atomic(value.as_bytes().to_vec()))
}
/// An int.
pub fn int(value: i32) -> Option<Value> {
    Some(Value::Atomic(value.to_be_bytes().to_vec()))
}
/// A bigint or timestamp.
pub fn bigint(value: i64) -> Option<Value> {
    Some(Value::Atomic(value.to_be_bytes().to_vec()))
}
/// A double.
pub fn double(value: f64) -> Option<Value> {
    Some(Value::Atomic(value.to_be_bytes().to_vec()))
}
/// A boolean.
pub fn boolean(value: bool) -> Option<Value> {
    Some(Value::Atomic(vec![value as u8]))
}
/// A uuid or timeuuid.
pub fn uuid(value: model::Uuid) -> Option<Value> {
    Some(Value::Atomic(value.as_bytes().to_vec()))
}
/// An inet.
pub fn inet(value: std::net::IpAddr) -> Option<Value> {
    Some(Value::Atomic(match value {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    }))
}
/// A frozen map of texts, sorted already, to texts or blobs.
pub fn map<V: AsRef<[u8]>>(entries: &[(String, V)]) -> Option<Value> {
    let sorted = entries.is_sorted_by(|a, b| a.0 < b.0);
    debug_assert!(sorted, "fits-its-column: a map out of order, or a key twice");
    let mut bytes = Vec::new();
    write_map(entries.iter().map(|(key, value)| (key.as_bytes(), value.as_ref())), &mut bytes);
    Some(Value::Atomic(bytes))
}
/// A frozen list, or a frozen set that is sorted already, of texts.
pub fn texts<'a>(elements: impl ExactSizeIterator<Item = &'a str>) -> Option<Value> {
    let mut bytes = Vec::new();
    write_collection(elements.map(str::as_bytes), &mut bytes);
    Some(Value::Atomic(bytes))
}
