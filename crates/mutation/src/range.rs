//! Positions and ranges among the rows of a partition, and range tombstones.

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
    pub fn compare(&self, order: &ClusteringOrder, other: &ClusteringPosition) -> Ordering {
        order.compare((&self.prefix, self.weight), (&other.prefix, other.weight))
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
            start: ClusteringPosition { prefix: prefix.clone(), weight: -1 },
            end: ClusteringPosition { prefix, weight: 1 },
        }
    }
}

/// A deletion of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    pub range: ClusteringRange,
    pub tombstone: Tombstone,
}
