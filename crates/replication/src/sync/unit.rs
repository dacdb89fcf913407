//! What replicas compare: a part of a partition with its place, and a hash of both. Pure.
//!
//! A partition's deletion is a unit, so are its static row, each row, and each range of rows that
//! is deleted. Ranges are as a stream of a replica has them: disjoint, each as long as its
//! tombstone holds.
//!
//! Invariants
//!  - *all-of-it*: a hash covers the partition, the place in it and all that is there, so that two
//!    units of one hash are the same unit, up to chance. The seed is another one in each repair:
//!    chance does not hide a difference for ever.
//!  - *in-place*: units of a partition ascend by place; a range stands where it ends.

use model::{DecoratedKey, TableSchema, Token};
use mutation::range::{ClusteringPosition, ClusteringRange};
use mutation::{FrozenView, MutationBuilder, RangeTombstone, RowView, Tombstone};
use std::cmp::Ordering;
use stdx::{Bytes, Put};
use twox_hash::XxHash3_128;

/// What a unit takes beside its bytes, for bounds of memory.
const OVERHEAD_BYTES: usize = 160;

/// A place between two units: what lies up to it, and what behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub key: DecoratedKey,
    /// Of weight -1 or +1; `None`: the partition lies before it.
    pub within: Option<ClusteringPosition>,
}

impl Edge {
    /// Behind a partition.
    pub fn behind(key: DecoratedKey) -> Edge {
        debug_assert!(key.token == Token::of(&key.key), "in-place: {key:?} has another token");
        Edge { key, within: None }
    }

    fn compare(&self, schema: &TableSchema, other: &Edge) -> Ordering {
        let is_between = |edge: &Edge| edge.within.as_ref().is_none_or(|it| it.weight != 0);
        debug_assert!(is_between(self) && is_between(other), "in-place: an edge at a row");
        self.key.cmp(&other.key).then_with(|| match (&self.within, &other.within) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => a.compare(&schema.order, b),
        })
    }
}

/// Two edges; `None` is the end of the range.
pub fn compare_edges(schema: &TableSchema, a: Option<&Edge>, b: Option<&Edge>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => a.compare(schema, b),
    }
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The partition is deleted.
    Deleted(Tombstone),
    Static(Bytes),
    Row {
        key: Bytes,
        row: Bytes,
    },
    Range(ClusteringRange, Tombstone),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub key: DecoratedKey,
    pub hash: u128,
    pub what: What,
}

impl Unit {
    /// With its hash.
    pub fn new(key: DecoratedKey, what: What, hashing: &mut Hashing) -> Unit {
        debug_assert!(!is_void(&what), "all-of-it: a unit of nothing");
        let hash = hashing.hash(&key, &what);
        Unit { key, hash, what }
    }

    /// What travels of the hash.
    pub fn short(&self) -> u64 {
        short(self.hash)
    }

    pub fn size_bytes(&self) -> usize {
        OVERHEAD_BYTES
            + self.key.key.len()
            + match &self.what {
                What::Deleted(_) => 0,
                What::Static(row) => row.len(),
                What::Row { key, row } => key.len() + row.len(),
                What::Range(range, _) => range.start.prefix.len() + range.end.prefix.len(),
            }
    }

    /// Whether it lies before an edge, and all of it. A range that lies on both sides does not.
    pub fn is_before(&self, schema: &TableSchema, edge: &Edge) -> bool {
        debug_assert!(!is_void(&self.what), "in-place: nothing is nowhere");
        match (self.key.cmp(&edge.key), &edge.within) {
            (Ordering::Less, _) | (Ordering::Equal, None) => true,
            (Ordering::Greater, _) => false,
            (Ordering::Equal, Some(within)) => match &self.what {
                What::Deleted(_) | What::Static(_) => true,
                What::Row { key, .. } => schema.order.compare((key, 0), within.as_parts()).is_lt(),
                What::Range(range, _) => range.end.compare(&schema.order, within).is_le(),
            },
        }
    }

    /// Adds it to a mutation of its partition.
    pub fn add_to(&self, builder: &mut MutationBuilder<'_>) {
        match &self.what {
            What::Deleted(tombstone) => builder.delete_partition(*tombstone),
            What::Static(row) => builder.static_row(&row[..]),
            What::Row { key, row } => builder.row(key, row),
            What::Range(range, tombstone) => {
                let (range, tombstone) = (range.clone(), *tombstone);
                builder.delete_range(RangeTombstone { range, tombstone });
            }
        }
    }
}

/// What travels of a hash.
pub fn short(hash: u128) -> u64 {
    (hash >> 64) as u64
}

/// The units of a mutation. The order of its rows is that of their table.
pub fn units_of(view: &FrozenView<'_>, hashing: &mut Hashing) -> Vec<Unit> {
    let key = DecoratedKey::new(Bytes::copy_from(view.key()));
    let mut out = Vec::with_capacity(view.row_count() + view.range_count() + 2);
    let mut push = |what| out.push(Unit::new(key.clone(), what, hashing));
    if !view.tombstone().is_none() {
        push(What::Deleted(view.tombstone()));
    }
    if let Some(row) = view.static_row() {
        push(What::Static(Bytes::copy_from(row.bytes())));
    }
    for RangeTombstone { range, tombstone } in view.ranges() {
        push(What::Range(range, tombstone));
    }
    for (key, row) in view.rows() {
        push(What::Row { key: Bytes::copy_from(key), row: Bytes::copy_from(row.bytes()) });
    }
    debug_assert!(out.is_empty() == view.is_empty(), "all-of-it: {} units", out.len());
    out
}

fn is_void(what: &What) -> bool {
    match what {
        What::Deleted(tombstone) | What::Range(_, tombstone) => tombstone.is_none(),
        What::Static(row) | What::Row { row, .. } => RowView::trusted(row).is_empty(),
    }
}

/// Mistakes that tests plant, to see them caught.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Hashes do not cover deletions of ranges and partitions.
    IgnoresTombstones,
    /// The first replica's edge is taken for that of all.
    TakesOneEdge,
    /// What lies on both sides of an edge is left for the other side.
    LeavesRanges,
    /// Who is fetched from tells nobody else.
    KeepsFetched,
}

/// Makes hashes.
#[derive(Clone, Debug)]
pub struct Hashing {
    seed: u64,
    scratch: Vec<u8>,
    planted: Option<Planted>,
}

impl Hashing {
    pub fn new(seed: u64, planted: Option<Planted>) -> Hashing {
        Hashing { seed, scratch: Vec::new(), planted }
    }

    pub fn is_planted(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn hash(&mut self, key: &DecoratedKey, what: &What) -> u128 {
        let ignores = self.is_planted(Planted::IgnoresTombstones);
        let out = &mut self.scratch;
        out.clear();
        out.put_u32_bytes(&key.key);
        let put_tombstone = |out: &mut Vec<u8>, tombstone: &Tombstone| {
            if !ignores {
                out.put_i64(tombstone.timestamp);
                out.put_i64(tombstone.deletion_time);
            }
        };
        match what {
            What::Deleted(tombstone) => {
                out.put_u8(0);
                put_tombstone(out, tombstone);
            }
            What::Static(row) => {
                out.put_u8(1);
                out.put(row);
            }
            What::Row { key, row } => {
                out.put_u8(2);
                out.put_u32_bytes(key);
                out.put(row);
            }
            What::Range(range, tombstone) => {
                out.put_u8(3);
                for position in [&range.start, &range.end] {
                    out.put_u32_bytes(&position.prefix);
                    out.put_u8(position.weight as u8);
                }
                put_tombstone(out, tombstone);
            }
        }
        debug_assert!(key.key.len() < out.len(), "all-of-it: a hash without a place");
        XxHash3_128::oneshot_with_seed(self.seed, out)
    }
}

/// Units as one: how many, and the sum of their hashes, which does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub hash: u128,
    pub count: u32,
}

impl Sum {
    pub fn add(&mut self, hash: u128) {
        debug_assert!(self.count < u32::MAX, "all-of-it: more units than are counted");
        self.hash = self.hash.wrapping_add(hash);
        self.count += 1;
    }

    pub fn take(&mut self, hash: u128) {
        assert!(0 < self.count, "all-of-it: less than nothing");
        self.hash = self.hash.wrapping_sub(hash);
        self.count -= 1;
    }

    pub fn of(units: &[Unit]) -> Sum {
        let mut sum = Sum::default();
        units.iter().for_each(|unit| sum.add(unit.hash));
        debug_assert!(sum.count as usize == units.len(), "all-of-it: {} units", sum.count);
        sum
    }
}
