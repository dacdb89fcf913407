//! Writes as facts: each says one thing.

use super::world::{NAMES, World};
use model::key::{compose_partition_key, push_clustering};
use model::schema::Column;
use model::{ColumnId, TableSchema, Type};
use mutation::{
    Cell, CellState, ClusteringPosition, ClusteringRange, CollectionWriter, FrozenMutation, Marker,
    MutationBuilder, RangeTombstone, RowBuilder, Tombstone,
};
use stdx::Prng;

/// A cell that owns its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owned {
    pub(super) timestamp: i64,
    pub(super) value: Option<Vec<u8>>,
}

/// When what is written with that timestamp expires, and after how long. Of one timestamp: see what
/// the crate does not promise.
fn lifetime(timestamp: i64) -> Option<(i64, i32)> {
    (timestamp % 4 == 1).then_some((timestamp * 2, 3))
}

impl Owned {
    pub(super) fn view(&self) -> Cell<'_> {
        let Some(value) = &self.value else { return Cell::dead(self.timestamp, 0) };
        match lifetime(self.timestamp) {
            Some((expiry, ttl)) => Cell::expiring(self.timestamp, value, expiry, ttl),
            None => Cell::live(self.timestamp, value),
        }
    }
}

/// Of a row, by its clustering key; of the static row without one.
pub(super) type Of = Option<Vec<u8>>;

#[derive(Clone, Debug)]
pub(super) enum Fact {
    Marker(Vec<u8>, Owned),
    Cell(Of, ColumnId, Owned),
    Element(Of, ColumnId, Vec<u8>, Owned),
    /// The collection was deleted or replaced.
    Cleared(Of, ColumnId, i64),
    RowDeleted(Vec<u8>, i64),
    RangeDeleted(ClusteringRange, i64),
    PartitionDeleted(i64),
}

#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) key: Vec<u8>,
    pub(super) facts: Vec<Fact>,
    pub(super) now: i64,
}

pub(super) fn tombstone(timestamp: i64) -> Tombstone {
    Tombstone::new(timestamp, 0)
}

fn int(prng: &mut Prng) -> Vec<u8> {
    (prng.below(3) as i32).to_be_bytes().to_vec()
}

fn scalar(ty: &Type, prng: &mut Prng) -> Vec<u8> {
    match ty {
        Type::Int => int(prng),
        // Texts, bytes, an empty text, a number, one that is damaged, a boolean, nothing.
        Type::Blob => {
            let values: [&[u8]; 9] = [
                b"\x00a",
                b"\x00a",
                b"\x00b",
                b"\x01a",
                b"\x00",
                b"\x03\0\0\0\0\x05",
                b"\x03\0",
                b"\x02\x01",
                b"",
            ];
            prng.pick(&values).expect("values").to_vec()
        }
        _ => prng.pick(&["", "x", "y"]).expect("texts").as_bytes().to_vec(),
    }
}

fn owned(ty: &Type, timestamp: i64, prng: &mut Prng) -> Owned {
    let value = if prng.one_in(4) { None } else { Some(scalar(ty, prng)) };
    Owned { timestamp, value }
}

/// The path of an element, and the type of its value.
fn path(ty: &Type, prng: &mut Prng) -> (Vec<u8>, Type) {
    match ty {
        Type::Map { key, value, .. } if **key == Type::Text => {
            let path = prng.pick(&NAMES).expect("names");
            (path.as_bytes().to_vec(), (**value).clone())
        }
        Type::Map { value, .. } => (int(prng), (**value).clone()),
        Type::Set { .. } => (int(prng), Type::Text),
        Type::List { element, .. } => {
            let mut uuid = vec![0; 16];
            (uuid[0], uuid[6], uuid[8]) = (prng.below(3) as u8, 0x10, 0x80);
            (uuid, (**element).clone())
        }
        _ => ((prng.below(2) as u16).to_be_bytes().to_vec(), Type::Int),
    }
}

fn clustering(base: &TableSchema, depth: usize, prng: &mut Prng) -> Vec<u8> {
    let mut key = Vec::new();
    base.clustering()[..depth].iter().for_each(|_| push_clustering(&int(prng), &mut key));
    key
}

fn range(base: &TableSchema, prng: &mut Prng) -> Option<ClusteringRange> {
    let bound = |prng: &mut Prng| {
        let depth = prng.below(base.clustering_count as u64 + 1) as usize;
        let weight = if prng.one_in(2) { 1 } else { -1 };
        ClusteringPosition { prefix: clustering(base, depth, prng).into(), weight }
    };
    let (a, b) = (bound(prng), bound(prng));
    let is_sorted = a.compare(&base.order, &b).is_le();
    let (start, end) = if is_sorted { (a, b) } else { (b, a) };
    let range = ClusteringRange { start, end };
    (!range.is_empty(&base.order)).then_some(range)
}

impl Write {
    pub(super) fn any(world: &World, now: i64, prng: &mut Prng) -> Write {
        let base = &world.base;
        let mut parts = vec![(prng.below(2) as i32).to_be_bytes().to_vec()];
        if base.partition_key_count == 2 {
            parts.push(b"q".to_vec());
        }
        let mut key = Vec::new();
        compose_partition_key(parts.iter().map(Vec::as_slice), &mut key);
        let timestamp = prng.between(1, 12) as i64;
        let mut facts = Vec::new();
        for _ in 0..prng.between(1, 3) {
            // Most of a write has one timestamp.
            let timestamp = if prng.one_in(6) { prng.between(1, 12) as i64 } else { timestamp };
            Write::add(base, timestamp, &mut facts, prng);
        }
        Write { key, facts, now }
    }

    /// One that is newer than those before, with one timestamp.
    pub(super) fn newest(world: &World, at: i64, prng: &mut Prng) -> Write {
        let mut write = Write::any(world, at, prng);
        write.facts.clear();
        Write::add(&world.base, 2 * at + 2, &mut write.facts, prng);
        write
    }

    fn add(base: &TableSchema, timestamp: i64, facts: &mut Vec<Fact>, prng: &mut Prng) {
        let key = clustering(base, base.clustering_count, prng);
        match prng.below(14) {
            0 => facts.push(Fact::PartitionDeleted(timestamp)),
            1 | 2 => facts.push(Fact::RowDeleted(key, timestamp)),
            3 | 4 => {
                if let Some(range) = range(base, prng) {
                    facts.push(Fact::RangeDeleted(range, timestamp));
                }
            }
            5 | 6 if base.has_statics() => {
                if let Some(column) = prng.pick(base.statics()) {
                    Write::column(column, None, timestamp, facts, prng);
                }
            }
            kind => {
                if kind < 10 {
                    let value = Some(Vec::new());
                    facts.push(Fact::Marker(key.clone(), Owned { timestamp, value }));
                }
                for column in base.regulars() {
                    if prng.one_in(2) {
                        Write::column(column, Some(key.clone()), timestamp, facts, prng);
                    }
                }
            }
        }
    }

    fn column(column: &Column, of: Of, timestamp: i64, facts: &mut Vec<Fact>, prng: &mut Prng) {
        if !column.ty.is_multi_cell() {
            facts.push(Fact::Cell(of, column.id, owned(&column.ty, timestamp, prng)));
            return;
        }
        if prng.one_in(3) {
            facts.push(Fact::Cleared(of.clone(), column.id, timestamp - 1));
        }
        let is_item = matches!(&column.ty, Type::Map { value, .. } if **value == Type::Blob);
        if is_item && prng.one_in(2) {
            for name in NAMES {
                let value = Some(prng.pick(&[b"\x00a", b"\x00b"]).expect("texts").to_vec());
                let (path, cell) = (name.as_bytes().to_vec(), Owned { timestamp, value });
                facts.push(Fact::Element(of.clone(), column.id, path, cell));
            }
            return;
        }
        for _ in 0..prng.below(3) {
            let (path, ty) = path(&column.ty, prng);
            let mut cell = owned(&ty, timestamp, prng);
            if matches!(column.ty, Type::Set { .. }) {
                cell.value = cell.value.map(|_| Vec::new());
            }
            facts.push(Fact::Element(of.clone(), column.id, path, cell));
        }
    }

    pub(super) fn freeze(&self, base: &TableSchema) -> FrozenMutation {
        let mut out = MutationBuilder::new(base, &self.key);
        for fact in &self.facts {
            let mut row = RowBuilder::new(Vec::new());
            let of = match fact {
                Fact::PartitionDeleted(timestamp) => {
                    out.delete_partition(tombstone(*timestamp));
                    continue;
                }
                Fact::RangeDeleted(range, timestamp) => {
                    let (range, tombstone) = (range.clone(), tombstone(*timestamp));
                    out.delete_range(RangeTombstone { range, tombstone });
                    continue;
                }
                Fact::Marker(key, cell) => {
                    row.marker(Marker::of_cell(cell.view()));
                    Some(key)
                }
                Fact::RowDeleted(key, timestamp) => {
                    row.tombstone(tombstone(*timestamp));
                    Some(key)
                }
                Fact::Cell(of, column, cell) => {
                    row.cell(*column, cell.view());
                    of.as_ref()
                }
                Fact::Element(of, column, path, cell) => {
                    let mut writer = CollectionWriter::new(Tombstone::NONE);
                    writer.push(path, cell.view());
                    row.collection(*column, &writer.finish());
                    of.as_ref()
                }
                Fact::Cleared(of, column, timestamp) => {
                    let writer = CollectionWriter::new(tombstone(*timestamp));
                    row.collection(*column, &writer.finish());
                    of.as_ref()
                }
            };
            let row = row.finish();
            match of {
                Some(key) => out.row(key, &row),
                None => out.static_row(row),
            }
        }
        out.freeze()
    }
}

/// The state of a cell as it is compared: value, and when it expires.
pub(super) fn seen(cell: Cell<'_>) -> (i64, Option<i64>, Vec<u8>) {
    match cell.state {
        CellState::Expiring { value, expiry, .. } => (cell.timestamp, Some(expiry), value.to_vec()),
        _ => (cell.timestamp, None, cell.value().unwrap_or(&[]).to_vec()),
    }
}
