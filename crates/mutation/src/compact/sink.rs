//! What takes a partition piece by piece, as it lies somewhere: borrowed, without fragments.

use super::{QueryCompactor, Step};
use crate::fragment::Fragment;
use crate::row::RowView;
use crate::tombstone::Tombstone;

/// Takes the pieces of partitions in the order of a stream: `begin`, at most one `static_row`, rows
/// and changes by position, `end`.
pub trait PartitionSink {
    /// A partition and its own deletion.
    fn begin(&mut self, key: &[u8], tombstone: Tombstone) -> Step;
    /// The static row, before any other.
    fn static_row(&mut self, row: RowView<'_>) -> Step;
    /// A row's full clustering prefix, and its blob, which was vouched for.
    fn row_blob(&mut self, key: &[u8], blob: &[u8]) -> Step;
    /// From that position on this range tombstone holds.
    fn change(&mut self, position: (&[u8], i8), tombstone: Tombstone) -> Step;
    /// The end of the partition.
    fn end(&mut self) -> Step;

    /// The same of a fragment of a stream.
    fn fragment(&mut self, fragment: &Fragment) -> Step {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => self.begin(&key.key, *tombstone),
            Fragment::StaticRow { row } => self.static_row(RowView::trusted(row)),
            Fragment::Row { key, row } => self.row_blob(key, row),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.change(position.as_parts(), *tombstone)
            }
            Fragment::PartitionEnd => self.end(),
        }
    }
}

impl PartitionSink for QueryCompactor<'_> {
    #[inline]
    fn begin(&mut self, key: &[u8], tombstone: Tombstone) -> Step {
        QueryCompactor::begin(self, key, tombstone)
    }
    #[inline]
    fn static_row(&mut self, row: RowView<'_>) -> Step {
        QueryCompactor::static_row(self, row)
    }
    #[inline]
    fn row_blob(&mut self, key: &[u8], blob: &[u8]) -> Step {
        QueryCompactor::row_blob(self, key, blob)
    }
    #[inline]
    fn change(&mut self, position: (&[u8], i8), tombstone: Tombstone) -> Step {
        QueryCompactor::change(self, position, tombstone)
    }
    #[inline]
    fn end(&mut self) -> Step {
        QueryCompactor::end(self)
    }
}
