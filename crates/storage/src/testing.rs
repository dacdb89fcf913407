//! Tables and mutations for this crate's tests, all from a seed.

use model::schema::TableOptions;
use model::{ClusteringOrder, Column, ColumnId, ColumnKind, TableId, TableSchema, Type};
use model::{TabletMap, Token};
use mutation::{
    Cell, CellState, ClusteringPosition, ClusteringRange, CollectionWriter, FrozenMutation, Marker,
    MutationBuilder, RangeTombstone, RowBuilder, Tombstone,
};
use stdx::{Bytes, Prng};

/// Counts what tests allocate.
#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

pub(crate) const S: ColumnId = ColumnId(3);
pub(crate) const V: ColumnId = ColumnId(4);
pub(crate) const C: ColumnId = ColumnId(5);

fn options() -> TableOptions {
    TableOptions {
        comment: String::new(),
        gc_grace_seconds: 864_000,
        bloom_filter_fp_chance: 0.01,
        default_time_to_live: 0,
        compaction: Vec::new(),
        compression: Vec::new(),
        caching: Vec::new(),
        speculative_retry: "NONE".into(),
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

/// `ks.name (k bigint, a int, b int, s text static, v text, c set<int>,
/// PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a ASC, b DESC)`.
pub(crate) fn schema(id: u128, name: &str) -> TableSchema {
    let column = |id, name: &str, kind, position, ty, reversed| {
        let name = name.to_string();
        Column { id: ColumnId(id), name, kind, position, ty, reversed }
    };
    let set = Type::Set { element: Box::new(Type::Int), frozen: false };
    TableSchema {
        id: TableId::from_u128(id),
        version: TableId::from_u128(id + 1),
        keyspace: "ks".into(),
        name: name.into(),
        columns: vec![
            column(0, "k", ColumnKind::PartitionKey, 0, Type::BigInt, false),
            column(1, "a", ColumnKind::Clustering, 0, Type::Int, false),
            column(2, "b", ColumnKind::Clustering, 1, Type::Int, true),
            column(3, "s", ColumnKind::Static, 0, Type::Text, false),
            column(5, "c", ColumnKind::Regular, 0, set, false),
            column(4, "v", ColumnKind::Regular, 1, Type::Text, false),
        ],
        partition_key_count: 1,
        clustering_count: 2,
        static_count: 1,
        next_column_id: 6,
        dropped: Vec::new(),
        options: options(),
        compact_storage: false,
        view: None,
        log: None,
        indexes: Vec::new(),
        order: ClusteringOrder { columns: vec![(Type::Int, false), (Type::Int, true)] },
        index: Default::default(),
    }
}

/// A partition key.
pub(crate) fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A clustering prefix.
pub(crate) fn clustering(components: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    for component in components {
        model::key::push_clustering(&component.to_be_bytes(), &mut out);
    }
    out
}

/// How random mutations are.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) keys: u64,
    /// Values of each clustering column.
    pub(crate) rows: u64,
    /// Timestamps are below this; equal ones clash.
    pub(crate) timestamps: u64,
}

pub(crate) fn random_tombstone(prng: &mut Prng, shape: Shape) -> Tombstone {
    Tombstone::new(prng.below(shape.timestamps) as i64, 1_000 + prng.below(10) as i64)
}

fn random_cell<'a>(prng: &mut Prng, shape: Shape, value: &'a [u8]) -> Cell<'a> {
    let timestamp = prng.below(shape.timestamps) as i64;
    let state = match prng.below(8) {
        0 => CellState::Dead { deletion_time: 1_000 + prng.below(10) as i64 },
        1 => CellState::Expiring { value, expiry: 2_000_000_000, ttl: 100 },
        _ => CellState::Live { value },
    };
    Cell { timestamp, state }
}

fn random_value(prng: &mut Prng) -> Vec<u8> {
    let long = prng.one_in(20);
    let len = if long { prng.below(3_000) } else { prng.below(12) };
    (0..len).map(|_| b'a' + prng.below(26) as u8).collect()
}

pub(crate) fn random_row(prng: &mut Prng, shape: Shape) -> Vec<u8> {
    let mut row = RowBuilder::new(Vec::new());
    if prng.one_in(10) {
        row.tombstone(random_tombstone(prng, shape));
    }
    if !prng.one_in(3) {
        row.marker(Marker::Live { timestamp: prng.below(shape.timestamps) as i64 });
    }
    if !prng.one_in(4) {
        let value = random_value(prng);
        row.cell(V, random_cell(prng, shape, &value));
    }
    if prng.one_in(3) {
        let tomb = if prng.one_in(3) { random_tombstone(prng, shape) } else { Tombstone::NONE };
        let mut set = CollectionWriter::new(tomb);
        for element in 0..prng.below(4) as u32 {
            set.push(&element.to_be_bytes(), random_cell(prng, shape, b""));
        }
        row.collection(C, &set.finish());
    }
    row.finish()
}

fn random_position(prng: &mut Prng, shape: Shape) -> ClusteringPosition {
    let components = prng.below(3) as usize;
    let prefix: Vec<u32> = (0..components).map(|_| prng.below(shape.rows) as u32).collect();
    let prefix = Bytes::from(clustering(&prefix));
    if prng.one_in(2) {
        ClusteringPosition::before(prefix)
    } else {
        ClusteringPosition::after(prefix)
    }
}

/// A range between two random positions, not empty.
pub(crate) fn random_range(
    prng: &mut Prng,
    order: &ClusteringOrder,
    shape: Shape,
) -> ClusteringRange {
    loop {
        let (start, end) = (random_position(prng, shape), random_position(prng, shape));
        let range = ClusteringRange { start, end };
        if !range.is_empty(order) {
            return range;
        }
    }
}

/// A mutation of one of `shape.keys` partitions.
pub(crate) fn random_mutation(
    prng: &mut Prng,
    schema: &TableSchema,
    shape: Shape,
) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &key(prng.below(shape.keys)));
    if prng.one_in(20) {
        builder.delete_partition(random_tombstone(prng, shape));
    }
    if prng.one_in(4) {
        let value = random_value(prng);
        let mut row = RowBuilder::new(Vec::new());
        row.cell(S, random_cell(prng, shape, &value));
        builder.static_row(row.finish());
    }
    if prng.one_in(5) {
        let range = random_range(prng, &schema.order, shape);
        builder.delete_range(RangeTombstone { range, tombstone: random_tombstone(prng, shape) });
    }
    for _ in 0..prng.below(5) {
        let place = [prng.below(shape.rows) as u32, prng.below(shape.rows) as u32];
        builder.row(&clustering(&place), &random_row(prng, shape));
    }
    builder.freeze()
}

/// Another division of the ring, in which each token stays on its shard: some neighbours of one
/// shard become one, and some tablets several.
pub(crate) fn divided(map: &TabletMap, prng: &mut Prng) -> TabletMap {
    let (mut lasts, mut shards) = (Vec::new(), Vec::new());
    let (rejoins, splits) = (prng.between(1, 4), prng.between(1, 4));
    for index in 0..map.count() {
        let ((after, last), shard) = (map.range(index), map.shards()[index]);
        let width = (last.0 as u64).wrapping_sub(after.0 as u64);
        if prng.one_in(splits) && 2 < width {
            let middle = (after.0 as u64).wrapping_add(1 + prng.below(width - 2)) as i64;
            lasts.push(Token(middle));
            shards.push(shard);
        }
        let next = map.shards().get(index + 1);
        if next != Some(&shard) || !prng.one_in(rejoins) {
            lasts.push(last);
            shards.push(shard);
        }
    }
    TabletMap::new(lasts, shards)
}
