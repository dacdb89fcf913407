//! What a write *is*: cells, rows, tombstones and collections as checked byte views; merging,
//! expiring and collecting as pure functions; fragments, frozen mutations and result pages.
//!
//! Values are encoded once, where they enter, and read through views everywhere. Pure: no I/O,
//! no async, no clock (`now` is an argument).
//!
//! In reading order: [`tombstone`], [`cell`], [`counter`], [`collection`], [`row`], [`range`],
//! [`fragment`], [`frozen`], [`page`], [`compact`]; `testing` (generators).

pub mod cell;
pub mod collection;
pub mod compact;
pub mod counter;
pub mod fragment;
pub mod frozen;
pub mod page;
pub mod range;
pub mod row;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tombstone;

pub use cell::{Cell, CellState};
pub use collection::{CollectionView, CollectionWriter};
pub use compact::{
    CompactionFilter, Outside, PartitionSink, PurgeCounts, QueryCompactor, RowSteps, Step,
};
pub use fragment::{Fragment, Position};
pub use frozen::{FrozenMutation, FrozenView, MutationBuilder, drop_times, newer_than_drops};
pub use page::{
    ColumnForm, LIVENESS, Page, PageView, Partitions, ReadCommand, Resume, RingBound, RowPiece,
    RowPieces, RowShape, SendRange,
};
pub use range::{
    ClusteringPosition, ClusteringRange, Direction, RangeTombstone, RangeTombstoneList,
    TombstoneChange,
};
pub use row::{ColumnData, Marker, RowBuilder, RowView};
pub use tombstone::{Compacted, Purge, Tombstone};
