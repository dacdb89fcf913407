//! Tables, keys and contents for the tests of the cache, all from a seed.

use crate::testing::{C, S, V};
use model::{ClusteringOrder, DecoratedKey, TableSchema, Token, Type};
use mutation::{
    Cell, CellState, ClusteringPosition, ClusteringRange, CollectionWriter, Direction, Fragment,
    FrozenMutation, Marker, MutationBuilder, RangeTombstone, RangeTombstoneList, RowBuilder,
    Tombstone, counter,
};
use std::collections::BTreeMap;
use stdx::{Bytes, Prng};

/// What tables there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `(a asc, b desc)`, a static row, a collection.
    Clustered,
    /// One clustering column, descending.
    Descending,
    /// No clustering columns.
    Flat,
    /// `(a asc, b desc)` and counters.
    Counters,
}

pub(super) const SHAPES: [Shape; 4] =
    [Shape::Clustered, Shape::Descending, Shape::Flat, Shape::Counters];

impl Shape {
    fn components(self) -> usize {
        match self {
            Shape::Clustered | Shape::Counters => 2,
            Shape::Descending => 1,
            Shape::Flat => 0,
        }
    }

    pub(super) fn schema(self) -> TableSchema {
        let mut schema = crate::testing::schema(1, "t");
        let drop = |schema: &mut TableSchema, names: &[&str]| {
            schema.columns.retain(|column| !names.contains(&&*column.name));
        };
        match self {
            Shape::Clustered => {}
            Shape::Descending => {
                drop(&mut schema, &["a"]);
                schema.columns[1].position = 0;
                schema.order.columns = vec![(Type::Int, true)];
            }
            Shape::Flat => {
                drop(&mut schema, &["a", "b", "s"]);
                schema.order = ClusteringOrder { columns: Vec::new() };
                schema.static_count = 0;
            }
            Shape::Counters => {
                drop(&mut schema, &["s", "c"]);
                schema.columns[3].ty = Type::Counter;
                schema.static_count = 0;
            }
        }
        schema.clustering_count = self.components();
        schema
    }
}

/// Keys of a table: the last two have one token.
pub(super) fn keys() -> Vec<DecoratedKey> {
    let mut keys: Vec<Vec<u8>> = (1..=4).map(crate::testing::key).collect();
    keys.extend(colliding());
    let keys: Vec<DecoratedKey> =
        keys.into_iter().map(|key| DecoratedKey::new(Bytes::from(key))).collect();
    assert_eq!(keys[4].token, keys[5].token);
    keys
}

/// Two keys of two blocks of murmur3: the second block of the second key undoes what its first
/// block does otherwise.
fn colliding() -> [Vec<u8>; 2] {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let inverse =
        |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
    let mix = |low: u64, high: u64| {
        let first = low.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
        (first, high.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1))
    };
    let step = |(h1, h2): (u64, u64), (m1, m2): (u64, u64)| {
        let h1 = (h1 ^ m1).rotate_left(27).wrapping_add(h2);
        let h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        let h2 = (h2 ^ m2).rotate_left(31).wrapping_add(h1);
        (h1, h2.wrapping_mul(5).wrapping_add(0x3849_5ab5))
    };
    let blocks = [[1u64, 2], [3, 4], [5, 6]];
    let state = |block: [u64; 2]| step((0, 0), mix(block[0], block[1]));
    let wanted = step(state(blocks[0]), mix(blocks[1][0], blocks[1][1]));
    let (h1, h2) = state(blocks[2]);
    let fifth = inverse(5);
    let m1 = wanted.0.wrapping_sub(0x52dc_e729).wrapping_mul(fifth).wrapping_sub(h2);
    let m1 = m1.rotate_right(27) ^ h1;
    let m2 = wanted.1.wrapping_sub(0x3849_5ab5).wrapping_mul(fifth).wrapping_sub(wanted.0);
    let m2 = m2.rotate_right(31) ^ h2;
    let low = m1.wrapping_mul(inverse(C2)).rotate_right(31).wrapping_mul(inverse(C1));
    let high = m2.wrapping_mul(inverse(C1)).rotate_right(33).wrapping_mul(inverse(C2));
    let bytes = |words: [u64; 4]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let first = bytes([blocks[0][0], blocks[0][1], blocks[1][0], blocks[1][1]]);
    [first, bytes([blocks[2][0], blocks[2][1], low, high])]
}

fn tombstone(prng: &mut Prng) -> Tombstone {
    Tombstone::new(prng.below(30) as i64, 1_000 + prng.below(10) as i64)
}

fn clustering_key(prng: &mut Prng, shape: Shape, components: usize) -> Vec<u8> {
    let values = if shape == Shape::Descending { 24 } else { 6 };
    let key: Vec<u32> = (0..components).map(|_| prng.below(values) as u32).collect();
    crate::testing::clustering(&key)
}

/// A bound of a range.
pub(super) fn position(prng: &mut Prng, shape: Shape) -> ClusteringPosition {
    let components = prng.below(shape.components() as u64 + 1) as usize;
    let prefix = Bytes::from(clustering_key(prng, shape, components));
    match prng.one_in(2) {
        true => ClusteringPosition::before(prefix),
        false => ClusteringPosition::after(prefix),
    }
}

/// A range that is not empty, often all.
pub(super) fn range(prng: &mut Prng, shape: Shape, order: &ClusteringOrder) -> ClusteringRange {
    loop {
        let (start, end) = (position(prng, shape), position(prng, shape));
        let range = ClusteringRange { start, end };
        if prng.one_in(4) {
            return ClusteringRange::full();
        }
        if !range.is_empty(order) {
            return range;
        }
    }
}

fn row(prng: &mut Prng, shape: Shape, value_len: u64) -> Vec<u8> {
    let mut row = RowBuilder::new(Vec::new());
    if prng.one_in(12) {
        row.tombstone(tombstone(prng));
    }
    let timestamp = prng.below(30) as i64;
    if shape == Shape::Counters {
        let shards = counter::single([prng.below(3) as u8; 16], timestamp, 2 * timestamp);
        row.cell(V, Cell { timestamp, state: CellState::Counter { shards: &shards } });
        return row.finish();
    }
    row.marker(Marker::Live { timestamp });
    if prng.one_in(2) {
        let len = prng.below(value_len);
        let value: Vec<u8> = (0..len).map(|_| b'a' + prng.below(26) as u8).collect();
        let timestamp = prng.below(30) as i64;
        row.cell(V, Cell { timestamp, state: CellState::Live { value: &value } });
    }
    if prng.one_in(3) {
        let deletion = if prng.one_in(3) { tombstone(prng) } else { Tombstone::NONE };
        let mut set = CollectionWriter::new(deletion);
        for element in 0..prng.below(4) as u32 {
            set.push(&element.to_be_bytes(), Cell::live(prng.below(30) as i64, b""));
        }
        row.collection(C, &set.finish());
    }
    row.finish()
}

/// A mutation of one partition; now and then a big one, which makes it large.
pub(super) fn mutation(
    prng: &mut Prng,
    shape: Shape,
    schema: &TableSchema,
    key: &DecoratedKey,
) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &key.key);
    if prng.one_in(12) {
        builder.delete_partition(tombstone(prng));
    }
    if 0 < schema.static_count && prng.one_in(4) {
        let mut row = RowBuilder::new(Vec::new());
        row.cell(S, Cell::live(prng.below(30) as i64, b"static"));
        builder.static_row(row.finish());
    }
    if shape != Shape::Flat {
        for _ in 0..prng.below(3) {
            let range = range(prng, shape, &schema.order);
            builder.delete_range(RangeTombstone { range, tombstone: tombstone(prng) });
        }
    }
    let is_big = prng.one_in(3);
    for _ in 0..if is_big { 40 } else { prng.below(4) } {
        let place = clustering_key(prng, shape, shape.components());
        let len = if is_big { 800 } else { 20 };
        builder.row(&place, &row(prng, shape, len));
    }
    builder.freeze()
}

/// What some place holds, by partition.
pub(super) type Content = BTreeMap<DecoratedKey, FrozenMutation>;

/// Adds to a content.
pub(super) fn add(
    schema: &TableSchema,
    content: &mut Content,
    key: &DecoratedKey,
    new: &FrozenMutation,
) {
    if is_nothing(new) {
        return;
    }
    let merged = match content.get(key) {
        Some(old) => mutation::frozen::merge(schema, old.view().unwrap(), new.view().unwrap()),
        None => new.clone(),
    };
    content.insert(key.clone(), merged);
}

pub(super) fn is_nothing(mutation: &FrozenMutation) -> bool {
    let view = mutation.view().unwrap();
    let empty = view.static_row().is_none() && view.rows().next().is_none();
    empty && view.tombstone().is_none() && view.ranges().next().is_none()
}

/// What of a partition lies in a range, without its tombstone and its static row.
pub(super) fn slice(
    schema: &TableSchema,
    key: &DecoratedKey,
    mutation: Option<&FrozenMutation>,
    range: &ClusteringRange,
) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &key.key);
    if let Some(mutation) = mutation {
        let view = mutation.view().unwrap();
        for (key, row) in view.rows().filter(|(key, _)| range.contains(&schema.order, (key, 0))) {
            builder.row(key, row.bytes());
        }
        for tombstone in view.ranges() {
            if let Some(range) = tombstone.range.intersect(&schema.order, range) {
                builder.delete_range(RangeTombstone { range, tombstone: tombstone.tombstone });
            }
        }
    }
    builder.freeze()
}

/// The tombstone and the static row of a partition, as a mutation.
pub(super) fn head_of(
    schema: &TableSchema,
    key: &DecoratedKey,
    tombstone: Tombstone,
    static_row: &[u8],
) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &key.key);
    builder.delete_partition(tombstone);
    if !static_row.is_empty() {
        builder.static_row(static_row);
    }
    builder.freeze()
}

pub(super) fn parts_of_head(mutation: Option<&FrozenMutation>) -> (Tombstone, Bytes) {
    let Some(mutation) = mutation else { return (Tombstone::NONE, Bytes::new()) };
    let view = mutation.view().unwrap();
    let row = view.static_row().map_or(Bytes::new(), |row| Bytes::copy_from(row.bytes()));
    (view.tombstone(), row)
}

/// Rows and tombstone changes of a partition as a stream yields them.
pub(super) fn fragments(
    schema: &TableSchema,
    mutation: &FrozenMutation,
    range: &ClusteringRange,
    direction: Direction,
) -> Vec<Fragment> {
    let order = &schema.order;
    let view = mutation.view().unwrap();
    let mut list = RangeTombstoneList::new();
    view.ranges().for_each(|range| list.insert(order, range));
    let mut placed: Vec<Fragment> =
        list.changes(order, range, direction).into_iter().map(Fragment::from).collect();
    let rows = view.rows().filter(|(key, _)| range.contains(order, (key, 0)));
    placed.extend(rows.map(|(key, row)| Fragment::Row {
        key: Bytes::copy_from(key),
        row: Bytes::copy_from(row.bytes()),
    }));
    placed.sort_by(|a, b| {
        let (a, b) = (a.clustering().unwrap(), b.clustering().unwrap());
        direction.apply(order.compare(a, b))
    });
    placed
}

/// All of a content as a stream.
pub(super) fn stream(schema: &TableSchema, content: &Content) -> Vec<Fragment> {
    let mut out = Vec::new();
    for (key, mutation) in content {
        let (tombstone, row) = parts_of_head(Some(mutation));
        out.push(Fragment::PartitionStart { key: key.clone(), tombstone });
        if !row.is_empty() {
            out.push(Fragment::StaticRow { row });
        }
        out.extend(fragments(schema, mutation, &ClusteringRange::full(), Direction::Forward));
        out.push(Fragment::PartitionEnd);
    }
    out
}

/// The tokens of the tablet: all.
pub(super) const RING: (Token, Token) = (Token::MIN, Token::MAX);
