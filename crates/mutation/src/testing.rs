//! Generators of cells, collections, rows, range tombstones and mutations of one fixed table, for
//! the tests of this crate and those above.
//!
//! Invariants
//!  - *small-domains*: timestamps, times, keys and values come from a handful, so that ties,
//!    overlaps and collisions are common.

use crate::cell::{Cell, CellState};
use crate::collection::CollectionWriter;
use crate::frozen::{FrozenMutation, MutationBuilder};
use crate::page::{ColumnForm, Partitions, ReadCommand};
use crate::range::{ClusteringPosition, ClusteringRange, RangeTombstone};
use crate::row::{Marker, RowBuilder};
use crate::tombstone::Tombstone;
use model::key::push_clustering;
use model::schema::{Column, TableOptions};
use model::types::UserTypeRef;
use model::{ClusteringOrder, ColumnId, ColumnKind, TableSchema, Type, Uuid};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The second at which tests look at what the generators made: some of it has expired.
pub const NOW: i64 = 10;

/// The table of all generators:
/// `(k int, c int, d text, s int static, sm map<int, text> static, a int, b text,
///   l list<int>, m map<int, text>, t set<int>, u user(x int, y text),
///   primary key (k, c, d)) with clustering order by (c asc, d desc)`.
/// Column ids are not in the order of names.
pub fn schema() -> TableSchema {
    let column = |id, name: &str, kind, position, ty| Column {
        id: ColumnId(id),
        name: name.to_string(),
        kind,
        position,
        ty,
        reversed: name == "d",
    };
    let map = Type::Map { key: Box::new(Type::Int), value: Box::new(Type::Text), frozen: false };
    let list = Type::List { element: Box::new(Type::Int), frozen: false };
    let set = Type::Set { element: Box::new(Type::Int), frozen: false };
    let user = Type::User(Box::new(UserTypeRef {
        keyspace: "ks".to_string(),
        name: "user".to_string(),
        fields: vec![("x".to_string(), Type::Int), ("y".to_string(), Type::Text)],
        frozen: false,
    }));
    use ColumnKind::{Clustering, PartitionKey, Regular, Static};
    TableSchema {
        id: Uuid::from_u128(0x1234),
        version: Uuid::from_u128(1),
        keyspace: "ks".to_string(),
        name: "t".to_string(),
        columns: vec![
            column(0, "k", PartitionKey, 0, Type::Int),
            column(1, "c", Clustering, 0, Type::Int),
            column(2, "d", Clustering, 1, Type::Text),
            column(10, "s", Static, 0, Type::Int),
            column(9, "sm", Static, 1, map.clone()),
            column(8, "a", Regular, 0, Type::Int),
            column(3, "b", Regular, 1, Type::Text),
            column(4, "l", Regular, 2, list),
            column(20, "m", Regular, 3, map),
            column(5, "t", Regular, 4, set),
            column(6, "u", Regular, 5, user),
        ],
        partition_key_count: 1,
        clustering_count: 2,
        static_count: 2,
        next_column_id: 21,
        dropped: Vec::new(),
        options: options(),
        compact_storage: false,
        view: None,
        log: None,
        indexes: Vec::new(),
        order: ClusteringOrder { columns: vec![(Type::Int, false), (Type::Text, true)] },
        index: Default::default(),
    }
}

fn options() -> TableOptions {
    TableOptions {
        comment: String::new(),
        gc_grace_seconds: 864_000,
        bloom_filter_fp_chance: 0.01,
        default_time_to_live: 0,
        compaction: Vec::new(),
        compression: Vec::new(),
        caching: Vec::new(),
        speculative_retry: "99.0PERCENTILE".to_string(),
        crc_check_chance: 1.0,
        min_index_interval: 128,
        max_index_interval: 2048,
        memtable_flush_period_in_ms: 0,
        read_repair_chance: 0.0,
        dclocal_read_repair_chance: 0.0,
        extensions: Vec::new(),
        tombstone_gc: Vec::new(),
        cdc: Vec::new(),
        per_partition_rate_limit: Vec::new(),
        paxos_grace_seconds: None,
        tablets: Vec::new(),
    }
}

/// A cell that owns its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedCell {
    Live { timestamp: i64, value: Vec<u8> },
    Expiring { timestamp: i64, value: Vec<u8>, expiry: i64, ttl: i32 },
    Dead { timestamp: i64, deletion_time: i64 },
}

impl OwnedCell {
    /// As the crate's cell.
    pub fn view(&self) -> Cell<'_> {
        match self {
            OwnedCell::Live { timestamp, value } => Cell::live(*timestamp, value),
            OwnedCell::Expiring { timestamp, value, expiry, ttl } => {
                Cell::expiring(*timestamp, value, *expiry, *ttl)
            }
            OwnedCell::Dead { timestamp, deletion_time } => Cell::dead(*timestamp, *deletion_time),
        }
    }
    /// A copy of a cell that is no counter.
    pub fn of(cell: Cell<'_>) -> OwnedCell {
        let timestamp = cell.timestamp;
        match cell.state {
            CellState::Live { value } => OwnedCell::Live { timestamp, value: value.to_vec() },
            CellState::Expiring { value, expiry, ttl } => {
                OwnedCell::Expiring { timestamp, value: value.to_vec(), expiry, ttl }
            }
            CellState::Dead { deletion_time } => OwnedCell::Dead { timestamp, deletion_time },
            _ => panic!("counters have no owned form: {cell:?}"),
        }
    }
}

fn timestamps() -> impl Strategy<Value = i64> {
    1i64..8
}

/// Any tombstone, often none.
pub fn tombstone() -> impl Strategy<Value = Tombstone> {
    let some = (timestamps(), 0i64..4).prop_map(|(at, made)| Tombstone::new(at, made));
    prop_oneof![2 => Just(Tombstone::NONE), 1 => some]
}

/// Any cell of a type with these values.
pub fn cell(values: impl Strategy<Value = Vec<u8>> + Clone) -> impl Strategy<Value = OwnedCell> {
    let live = (timestamps(), values.clone())
        .prop_map(|(timestamp, value)| OwnedCell::Live { timestamp, value });
    let expiring =
        (timestamps(), values, 8i64..13, 1i32..5).prop_map(|(timestamp, value, expiry, ttl)| {
            OwnedCell::Expiring { timestamp, value, expiry, ttl }
        });
    let dead = (timestamps(), 0i64..5)
        .prop_map(|(timestamp, deletion_time)| OwnedCell::Dead { timestamp, deletion_time });
    prop_oneof![3 => live, 2 => expiring, 1 => dead]
}

fn scalar(ty: &Type) -> BoxedStrategy<Vec<u8>> {
    match ty {
        Type::Int => (-2i32..3).prop_map(|value| value.to_be_bytes().to_vec()).boxed(),
        _ => prop_oneof![Just("a"), Just("b"), Just("bc"), Just("")]
            .prop_map(|value| value.as_bytes().to_vec())
            .boxed(),
    }
}

/// Any blob of a multi-cell column of that type.
pub fn collection(ty: &Type) -> BoxedStrategy<Vec<u8>> {
    match ty {
        Type::Map { value, .. } => {
            let entries = btree_map(-3i32..4, cell(scalar(value)), 0..5);
            blob(entries, |key| key.to_be_bytes().to_vec())
        }
        Type::Set { .. } => {
            let entries = btree_map(-3i32..4, cell(Just(Vec::new())), 0..5);
            blob(entries, |key| key.to_be_bytes().to_vec())
        }
        Type::List { element, .. } => {
            let entries = btree_map(0u64..5, cell(scalar(element)), 0..5);
            blob(entries, |tick| time_uuid(*tick))
        }
        Type::User(user) => {
            let cells = (cell(scalar(&user.fields[0].1)), cell(scalar(&user.fields[1].1)));
            let entries = (cells, 0u8..4).prop_map(|((x, y), mask)| {
                let both = [(0u16, x), (1u16, y)].into_iter();
                both.filter(|(index, _)| mask & (1 << index) != 0).collect::<BTreeMap<_, _>>()
            });
            blob(entries, |index| index.to_be_bytes().to_vec())
        }
        _ => panic!("{ty:?} is not multi-cell"),
    }
}

/// The version 1 uuid of a tick, with a fixed node.
pub fn time_uuid(tick: u64) -> Vec<u8> {
    let mut bytes = [0u8; 16];
    bytes[0..4].copy_from_slice(&(tick as u32).to_be_bytes());
    bytes[6] = 0x10;
    bytes[8] = 0x80;
    bytes.to_vec()
}

fn blob<K: std::fmt::Debug + 'static>(
    entries: impl Strategy<Value = BTreeMap<K, OwnedCell>> + 'static,
    path: impl Fn(&K) -> Vec<u8> + 'static,
) -> BoxedStrategy<Vec<u8>> {
    let any = (tombstone(), entries).prop_map(move |(tomb, entries)| {
        let mut writer = CollectionWriter::new(tomb);
        entries.iter().for_each(|(key, cell)| writer.push(&path(key), cell.view()));
        writer.finish()
    });
    any.boxed()
}

fn marker() -> impl Strategy<Value = Option<Marker>> {
    let cell = cell(Just(Vec::new()));
    proptest::option::of(cell.prop_map(|cell| match cell {
        OwnedCell::Live { timestamp, .. } => Marker::Live { timestamp },
        OwnedCell::Expiring { timestamp, expiry, ttl, .. } => {
            Marker::Expiring { timestamp, expiry, ttl }
        }
        OwnedCell::Dead { timestamp, deletion_time } => Marker::Dead { timestamp, deletion_time },
    }))
}

/// Any regular row of [`schema`], with row tombstones. May be empty.
pub fn row() -> BoxedStrategy<Vec<u8>> {
    let deletions = prop_oneof![
        4 => Just((Tombstone::NONE, Tombstone::NONE)),
        1 => (tombstone(), tombstone()),
    ];
    let columns = columns(schema().regulars());
    (marker(), deletions, columns).prop_map(build_row).boxed()
}

/// Any static row of [`schema`]. May be empty.
pub fn static_row() -> BoxedStrategy<Vec<u8>> {
    let columns = columns(schema().statics());
    let none = (Tombstone::NONE, Tombstone::NONE);
    columns.prop_map(move |columns| build_row((None, none, columns))).boxed()
}

#[derive(Clone, Debug)]
enum AnyColumn {
    Absent,
    Atomic(OwnedCell),
    Multi(Vec<u8>),
}

fn columns(columns: &[Column]) -> BoxedStrategy<BTreeMap<ColumnId, AnyColumn>> {
    let any = columns.iter().map(|column| {
        let data = match column.ty.is_multi_cell() {
            true => collection(&column.ty).prop_map(AnyColumn::Multi).boxed(),
            false => cell(scalar(&column.ty)).prop_map(AnyColumn::Atomic).boxed(),
        };
        let data = prop_oneof![1 => Just(AnyColumn::Absent), 1 => data];
        (Just(column.id), data)
    });
    any.collect::<Vec<_>>().prop_map(|columns| columns.into_iter().collect()).boxed()
}

type RowParts = (Option<Marker>, (Tombstone, Tombstone), BTreeMap<ColumnId, AnyColumn>);

fn build_row((marker, (regular, shadowable), columns): RowParts) -> Vec<u8> {
    let mut builder = RowBuilder::new(Vec::new());
    if let Some(marker) = marker {
        builder.marker(marker);
    }
    builder.tombstone(regular);
    builder.shadowable(shadowable);
    for (id, column) in &columns {
        match column {
            AnyColumn::Absent => {}
            AnyColumn::Atomic(cell) => builder.cell(*id, cell.view()),
            AnyColumn::Multi(blob) => builder.collection(*id, blob),
        }
    }
    builder.finish()
}

/// The clustering prefix of these components.
pub fn clustering(c: i32, d: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_clustering(&c.to_be_bytes(), &mut out);
    push_clustering(d.as_bytes(), &mut out);
    out
}

/// Any full clustering key of [`schema`].
pub fn clustering_key() -> impl Strategy<Value = Vec<u8>> {
    (0i32..4, prop_oneof![Just("a"), Just("b"), Just("c")]).prop_map(|(c, d)| clustering(c, d))
}

/// Any position that bounds a range: before or after a prefix of 0, 1 or 2 components.
pub fn bound() -> impl Strategy<Value = ClusteringPosition> {
    let first = (0i32..4).prop_map(|c| {
        let mut out = Vec::new();
        push_clustering(&c.to_be_bytes(), &mut out);
        out
    });
    let prefix = prop_oneof![1 => Just(Vec::new()), 2 => first, 3 => clustering_key()];
    (prefix, any::<bool>()).prop_map(|(prefix, after)| ClusteringPosition {
        prefix: prefix.into(),
        weight: if after { 1 } else { -1 },
    })
}

/// Any range of rows that is not empty.
pub fn range() -> impl Strategy<Value = ClusteringRange> {
    let order = schema().order;
    (bound(), bound()).prop_filter_map("empty", move |(a, b)| {
        let (start, end) = if a.compare(&order, &b).is_le() { (a, b) } else { (b, a) };
        let range = ClusteringRange { start, end };
        (!range.is_empty(&order)).then_some(range)
    })
}

/// Any range tombstone.
pub fn range_tombstone() -> impl Strategy<Value = RangeTombstone> {
    (range(), timestamps(), 0i64..4).prop_map(|(range, timestamp, deletion_time)| RangeTombstone {
        range,
        tombstone: Tombstone { timestamp, deletion_time },
    })
}

/// Any ascending, disjoint ranges; at least one.
pub fn ranges() -> impl Strategy<Value = Vec<ClusteringRange>> {
    let order = schema().order;
    let some = vec(bound(), 2..8).prop_filter_map("empty", move |mut bounds| {
        bounds.sort_by(|a, b| a.compare(&order, b));
        bounds.dedup_by(|a, b| a.compare(&order, b).is_eq());
        let pairs = bounds
            .chunks_exact(2)
            .map(|pair| ClusteringRange { start: pair[0].clone(), end: pair[1].clone() });
        let pairs: Vec<_> = pairs.collect();
        (!pairs.is_empty()).then_some(pairs)
    });
    prop_oneof![1 => Just(vec![ClusteringRange::full()]), 3 => some]
}

/// The partition key of a number.
pub fn partition_key(k: i32) -> Vec<u8> {
    k.to_be_bytes().to_vec()
}

type AnyMutation = (Tombstone, Option<Vec<u8>>, Vec<RangeTombstone>, Vec<(Vec<u8>, Vec<u8>)>);

/// Any mutation of the partition `key`. May be empty.
pub fn mutation_of(key: Vec<u8>) -> BoxedStrategy<FrozenMutation> {
    let rows = vec((clustering_key(), row()), 0..6);
    let ranges = vec(range_tombstone(), 0..3);
    let deletion = prop_oneof![5 => Just(Tombstone::NONE), 1 => tombstone()];
    let any = (deletion, proptest::option::of(static_row()), ranges, rows);
    let freeze = move |(deletion, static_row, ranges, rows): AnyMutation| {
        let schema = schema();
        let mut builder = MutationBuilder::new(&schema, &key);
        builder.delete_partition(deletion);
        if let Some(row) = static_row {
            builder.static_row(&row);
        }
        ranges.into_iter().for_each(|range| builder.delete_range(range));
        rows.iter().for_each(|(key, row)| builder.row(key, row));
        builder.freeze()
    };
    any.prop_map(freeze).boxed()
}

/// Such a mutation that carries up to four others, of other partitions.
pub fn carrying(key: Vec<u8>) -> BoxedStrategy<FrozenMutation> {
    let others = vec(prop_oneof![mutation_of(vec![2]), mutation_of(vec![3, 4])], 0..4);
    (mutation_of(key), others).prop_map(|(one, others)| one.attach(others)).boxed()
}

/// Any mutation of one of four partitions.
pub fn mutation() -> BoxedStrategy<FrozenMutation> {
    (0i32..4).prop_flat_map(|k| mutation_of(partition_key(k))).boxed()
}

/// A command that reads all of [`schema`], every column as a value, without limits.
pub fn read_all() -> ReadCommand {
    let schema = schema();
    let wanted = schema.statics().iter().chain(schema.regulars());
    ReadCommand {
        columns: wanted.map(|column| (column.id, ColumnForm::Value)).collect(),
        static_count: schema.static_count,
        bytes_max: usize::MAX,
        static_only_rows: true,
        ..ReadCommand::all(schema.id, Partitions::all(), NOW)
    }
}
