//! What a stream of ordered data consists of.

use crate::range::ClusteringPosition;
use crate::tombstone::Tombstone;
use model::DecoratedKey;
use stdx::Bytes;

/// One piece of a partition. A stream yields, per partition: start, at most one static row, rows
/// and tombstone changes by position, end. The last change of a partition sets no tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fragment {
    PartitionStart {
        key: DecoratedKey,
        tombstone: Tombstone,
    },
    /// A row blob ([`crate::RowView`]).
    StaticRow {
        row: Bytes,
    },
    /// `key` is a full clustering prefix; `row` a row blob.
    Row {
        key: Bytes,
        row: Bytes,
    },
    /// From `position` on this tombstone holds ([`Tombstone::NONE`] ends the previous one).
    RangeTombstoneChange {
        position: ClusteringPosition,
        tombstone: Tombstone,
    },
    PartitionEnd,
}

/// A place inside a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    PartitionStart,
    StaticRow,
    Clustered(ClusteringPosition),
    PartitionEnd,
}
