//! What a stream of ordered data consists of.

use crate::range::{ClusteringPosition, TombstoneChange};
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

impl From<TombstoneChange> for Fragment {
    fn from(change: TombstoneChange) -> Fragment {
        let TombstoneChange { position, tombstone } = change;
        Fragment::RangeTombstoneChange { position, tombstone }
    }
}

impl Fragment {
    /// About how much memory it takes, for budgets.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        size_of::<Fragment>()
            + match self {
                Fragment::PartitionStart { key, .. } => key.key.len(),
                Fragment::StaticRow { row } => row.len(),
                Fragment::Row { key, row } => key.len() + row.len(),
                Fragment::RangeTombstoneChange { position, .. } => position.prefix.len(),
                Fragment::PartitionEnd => 0,
            }
    }
    /// The clustering position of a row or a tombstone change.
    pub fn clustering(&self) -> Option<(&[u8], i8)> {
        match self {
            Fragment::Row { key, .. } => Some((key, 0)),
            Fragment::RangeTombstoneChange { position, .. } => Some(position.as_parts()),
            _ => None,
        }
    }
}
