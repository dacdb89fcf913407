//! What a run yields to a stream.

use super::RunView;
use super::run::Parts;
use model::ClusteringOrder;
use mutation::{ClusteringRange, Direction, TombstoneChange};
use std::ops::ControlFlow;

/// A piece of a run.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// The key and the blob of a row.
    Row(&'a [u8], &'a [u8]),
    Change(TombstoneChange),
}

impl<'a> RunView<'a> {
    /// Calls `each` with the rows and tombstone changes of the run in `range`, in the order of a
    /// stream in that direction, until it breaks. Range tombstones are opened and closed at the
    /// bounds. Allocates only if there are any.
    pub(crate) fn visit(
        &self,
        order: &ClusteringOrder,
        range: &ClusteringRange,
        direction: Direction,
        mut each: impl FnMut(Piece<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let bounds = (range.start.as_parts(), range.end.as_parts());
        if !self.has_tombstones() {
            return self
                .visit_rows(order, bounds, direction, |key, row| each(Piece::Row(key, row)));
        }
        let changes = self.changes(order, range, direction);
        debug_assert!(
            changes.is_sorted_by(|a, b| {
                direction.apply(a.position.compare(order, &b.position)).is_lt()
            }),
            "in-order: {changes:?}"
        );
        debug_assert!(
            changes.last().is_none_or(|last| last.tombstone.is_none()),
            "in-order: a range tombstone is open at the end: {changes:?}"
        );
        let mut changes = changes.into_iter().peekable();
        self.visit_rows(order, bounds, direction, |key, row| {
            let before = |change: &TombstoneChange| {
                let place = order.compare(change.position.as_parts(), (key, 0));
                direction.apply(place).is_lt()
            };
            while let Some(change) = changes.next_if(before) {
                each(Piece::Change(change))?;
            }
            each(Piece::Row(key, row))
        })?;
        changes.try_for_each(|change| each(Piece::Change(change)))
    }

    /// Calls `each` with the rows between two positions, in that direction, until it breaks.
    /// Allocates nothing.
    pub(crate) fn visit_rows(
        &self,
        order: &ClusteringOrder,
        (start, end): (Parts<'_>, Parts<'_>),
        direction: Direction,
        mut each: impl FnMut(&'a [u8], &'a [u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut rows = self.rows_before(order, start)..self.rows_before(order, end);
        debug_assert!(
            rows.start <= rows.end || order.compare(end, start).is_lt(),
            "in-order: rows {rows:?}"
        );
        let mut row = |index| {
            let (key, row) = self.row(index);
            each(key, row)
        };
        match direction {
            Direction::Forward => rows.try_for_each(&mut row),
            Direction::Reversed => rows.rev().try_for_each(&mut row),
        }
    }
}
