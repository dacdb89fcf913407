//! Small partitions of a memtable as they lie, without fragments.

use super::fetch::{SCAN_MAX, fetch_all};
use super::partitions::Number;
use super::row::Row;
use super::rows::Rows;
use super::{Memtable, Partition};
use model::{ClusteringOrder, DecoratedKey, Token};
use mutation::{ClusteringPosition, ClusteringRange, Tombstone};
use std::ops::Range;
use std::rc::Rc;
use stdx::Bytes;

/// A partition of a few rows, each one blob, without range tombstones.
#[derive(Clone, Copy)]
pub(crate) struct Plain<'p> {
    pub(crate) tombstone: Tombstone,
    /// A row blob; empty: none.
    pub(crate) static_row: &'p [u8],
    rows: &'p [(Bytes, Row)],
}

impl<'p> Plain<'p> {
    /// How many rows it has.
    pub(crate) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The key and the blob of a row, in table order. Panics if there is none of that index.
    pub(crate) fn row(&self, index: usize) -> (&'p [u8], &'p [u8]) {
        let (key, row) = &self.rows[index];
        debug_assert!(row.blob().is_some(), "plain: a row in parts");
        (key, row.blob().unwrap_or_default())
    }

    /// The rows in a range, by index.
    pub(crate) fn within(&self, order: &ClusteringOrder, range: &ClusteringRange) -> Range<usize> {
        let before = |position: &ClusteringPosition| {
            self.rows
                .partition_point(|(key, _)| order.compare((key, 0), position.as_parts()).is_lt())
        };
        let first = before(&range.start);
        first..before(&range.end).max(first)
    }
}

impl Partition {
    /// All of it, if it lies so.
    pub(crate) fn plain(&self) -> Option<Plain<'_>> {
        let Rows::Few(rows) = &self.rows else { return None };
        let static_row = match &self.static_row {
            None => &[],
            Some(row) => row.blob()?,
        };
        let is_plain = self.ranges.is_none() && rows.iter().all(|(_, row)| row.blob().is_some());
        is_plain.then_some(Plain { tombstone: self.tombstone, static_row, rows })
    }
}

impl Memtable {
    /// Calls `each` with the partitions after `left` (from the first, if there is none) in ring
    /// order, at most so many.
    pub(crate) fn next_few<R>(
        &self,
        left: Option<&DecoratedKey>,
        count_max: usize,
        each: impl FnOnce(&[(&DecoratedKey, &Rc<Partition>)]) -> R,
    ) -> R {
        let partitions = self.partitions.borrow();
        let numbers: Vec<Number> = match left {
            Some(left) => partitions.after(left).take(count_max).collect(),
            None => partitions.from(Token::MIN).take(count_max).collect(),
        };
        numbers.chunks(SCAN_MAX).for_each(|some| fetch_all(&partitions, some));
        let few: Vec<_> = numbers.iter().map(|&number| partitions.at(number)).collect();
        debug_assert!(few.is_sorted_by(|a, b| a.0 < b.0), "ring-order");
        debug_assert!(left.is_none_or(|left| few.iter().all(|(key, _)| left < key)), "ring-order");
        each(&few)
    }
}
