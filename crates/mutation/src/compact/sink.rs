//! What takes a partition piece by piece, as it lies somewhere: borrowed, without fragments.

use crate::fragment::Fragment;
use crate::row::RowView;
use crate::tombstone::Tombstone;
use std::ops::ControlFlow;

/// What the reader of the source has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give the next fragment.
    Continue,
    /// Nothing more is wanted of this partition: skip to the next one. Fragments of this one are
    /// ignored, and its end need not come.
    NextPartition,
    /// The page is full or all is answered.
    Stop,
}

impl Step {
    /// For a walk over a partition: whether it goes on.
    #[inline]
    pub fn go_on(self) -> ControlFlow<()> {
        match self {
            Step::Continue => ControlFlow::Continue(()),
            Step::NextPartition | Step::Stop => ControlFlow::Break(()),
        }
    }
}

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
