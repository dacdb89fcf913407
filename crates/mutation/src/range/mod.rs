//! Positions and ranges among the rows of a partition, and range tombstones.
//!
//! Range tombstones have two forms: ranges (in memtables and frozen mutations) and changes (in
//! streams: from this position on, that tombstone holds). [`RangeTombstoneList`] holds ranges and
//! yields changes; [`RangeAssembler`] makes ranges of changes.
//!
//! Invariants
//!  - *normalized*: the ranges of a list are not empty, ascend, do not overlap, and neighbours
//!    that touch have different tombstones. Equal deletions make equal lists.
//!  - *chunked*: a list is chunks of some ranges each, none of them empty or long. A change moves
//!    and copies the ranges of one chunk, however many the list has and whoever shares it.

mod list;
#[cfg(test)]
mod tests;

pub use list::RangeTombstoneList;

use crate::tombstone::Tombstone;
use model::ClusteringOrder;
use std::cmp::Ordering;
use stdx::Bytes;

/// A place among the clustered rows: before (-1), at (0) or after (+1) what `prefix` names. Only
/// a row has weight 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusteringPosition {
    pub prefix: Bytes,
    pub weight: i8,
}

impl ClusteringPosition {
    /// Before every row.
    pub fn start() -> ClusteringPosition {
        ClusteringPosition { prefix: Bytes::new(), weight: -1 }
    }
    /// After every row.
    pub fn end() -> ClusteringPosition {
        ClusteringPosition { prefix: Bytes::new(), weight: 1 }
    }
    /// Before the row or rows that `prefix` names.
    pub fn before(prefix: Bytes) -> ClusteringPosition {
        ClusteringPosition { prefix, weight: -1 }
    }
    /// The row of that full key.
    pub fn row(key: Bytes) -> ClusteringPosition {
        ClusteringPosition { prefix: key, weight: 0 }
    }
    /// After the row or rows that `prefix` names.
    pub fn after(prefix: Bytes) -> ClusteringPosition {
        ClusteringPosition { prefix, weight: 1 }
    }
    /// As [`ClusteringOrder::compare`] takes it.
    pub fn as_parts(&self) -> (&[u8], i8) {
        (&self.prefix, self.weight)
    }
    pub fn compare(&self, order: &ClusteringOrder, other: &ClusteringPosition) -> Ordering {
        order.compare(self.as_parts(), other.as_parts())
    }
}

/// In which order a stream yields the rows of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The table's own order.
    Forward,
    /// The opposite.
    Reversed,
}

impl Direction {
    /// Of a `reversed` flag.
    pub const fn of(reversed: bool) -> Direction {
        if reversed { Direction::Reversed } else { Direction::Forward }
    }
    /// An order of the table, as it stands in this direction.
    pub const fn apply(self, order: Ordering) -> Ordering {
        match self {
            Direction::Forward => order,
            Direction::Reversed => order.reverse(),
        }
    }
}

/// What lies at or after `start` and before `end`, in clustering order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusteringRange {
    pub start: ClusteringPosition,
    pub end: ClusteringPosition,
}

impl ClusteringRange {
    /// All rows.
    pub fn full() -> ClusteringRange {
        ClusteringRange { start: ClusteringPosition::start(), end: ClusteringPosition::end() }
    }
    /// The rows that `prefix` names: one row for a full key.
    pub fn of_prefix(prefix: Bytes) -> ClusteringRange {
        ClusteringRange {
            start: ClusteringPosition::before(prefix.clone()),
            end: ClusteringPosition::after(prefix),
        }
    }
    /// Whether there is no position in it.
    pub fn is_empty(&self, order: &ClusteringOrder) -> bool {
        self.end.compare(order, &self.start).is_le()
    }
    /// Whether a position lies in it.
    pub fn contains(&self, order: &ClusteringOrder, position: (&[u8], i8)) -> bool {
        order.compare(self.start.as_parts(), position).is_le()
            && order.compare(position, self.end.as_parts()).is_lt()
    }
    /// What lies in both, unless there is nothing.
    pub fn intersect(
        &self,
        order: &ClusteringOrder,
        other: &ClusteringRange,
    ) -> Option<ClusteringRange> {
        let start = later(order, &self.start, &other.start);
        let end = earlier(order, &self.end, &other.end);
        let both = start.compare(order, end).is_lt();
        both.then(|| ClusteringRange { start: start.clone(), end: end.clone() })
    }
}

/// The later of two positions.
pub fn later<'a>(
    order: &ClusteringOrder,
    a: &'a ClusteringPosition,
    b: &'a ClusteringPosition,
) -> &'a ClusteringPosition {
    if a.compare(order, b).is_lt() { b } else { a }
}

/// The earlier of two positions.
pub fn earlier<'a>(
    order: &ClusteringOrder,
    a: &'a ClusteringPosition,
    b: &'a ClusteringPosition,
) -> &'a ClusteringPosition {
    if b.compare(order, a).is_lt() { b } else { a }
}

/// A deletion of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    pub range: ClusteringRange,
    pub tombstone: Tombstone,
}

/// From `position` on, in the direction of the stream, `tombstone` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneChange {
    pub position: ClusteringPosition,
    pub tombstone: Tombstone,
}

/// Makes ranges, in table order, of the changes of a stream.
#[derive(Clone, Debug)]
pub struct RangeAssembler {
    direction: Direction,
    open: Option<TombstoneChange>,
}

impl RangeAssembler {
    /// For a stream in that direction, at the start of a partition.
    pub fn new(direction: Direction) -> RangeAssembler {
        RangeAssembler { direction, open: None }
    }
    /// The tombstone that holds now.
    pub fn current(&self) -> Tombstone {
        self.open.as_ref().map_or(Tombstone::NONE, |open| open.tombstone)
    }
    /// Takes a change; yields the range that it ends, if one was open.
    pub fn change(&mut self, change: TombstoneChange) -> Option<RangeTombstone> {
        let next = (!change.tombstone.is_none()).then(|| change.clone());
        let open = std::mem::replace(&mut self.open, next)?;
        let (start, end) = match self.direction {
            Direction::Forward => (open.position, change.position),
            Direction::Reversed => (change.position, open.position),
        };
        Some(RangeTombstone { range: ClusteringRange { start, end }, tombstone: open.tombstone })
    }
}
