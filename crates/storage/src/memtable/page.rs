//! Reading a partition of a memtable straight into a page: at once, without fragments.
//!
//! Invariants
//!  - *small-steps*: rows that are put together in steps are not read so.
//!  - *in-ranges*: what comes lies in the range that is walked, and no range tombstone outlives it.

use super::row::Row;
use super::{Memtable, Partition};
use model::{ClusteringOrder, DecoratedKey, TableSchema};
use mutation::page::{Page, ReadCommand, SendRange};
use mutation::{ClusteringRange, Direction, QueryCompactor, RowView, Tombstone};
use std::ops::ControlFlow;

impl Memtable {
    /// What `command`, which is of that partition, sees here. As a source of the partition whose
    /// fragments a compactor takes; two allocations beside the page's.
    pub(crate) fn page(
        &self,
        schema: &TableSchema,
        key: &DecoratedKey,
        command: &ReadCommand,
    ) -> Page {
        let mut compactor = QueryCompactor::new(schema, command);
        if let Some(partition) = self.partitions.borrow().get(key) {
            let mut walk = Walk { order: &self.order, command, compactor: &mut compactor };
            // It ends early where the compactor wants no more.
            let _ = walk.partition(key, partition);
        }
        compactor.finish()
    }
}

/// A walk over what a command wants of a partition.
struct Walk<'w, 'c> {
    order: &'w ClusteringOrder,
    command: &'w ReadCommand,
    compactor: &'w mut QueryCompactor<'c>,
}

impl Walk<'_, '_> {
    fn partition(&mut self, key: &DecoratedKey, partition: &Partition) -> ControlFlow<()> {
        debug_assert!(!partition.is_huge, "small-steps: {key:?} takes long");
        self.compactor.begin(&key.key, partition.tombstone).go_on()?;
        if self.command.needs_static()
            && let Some(row) = &partition.static_row
        {
            self.compactor.static_row(RowView::trusted(&row.bytes())).go_on()?;
        }
        if self.command.resume.is_none() && partition.ranges.is_none() {
            self.rows(partition)?;
            return self.compactor.end().go_on();
        }
        let mut ranges = self.command.resumed_ranges(self.order);
        if self.command.direction() == Direction::Reversed {
            ranges.reverse();
        }
        let mut open = Tombstone::NONE;
        for range in &ranges {
            self.range(partition, range, &mut open)?;
        }
        self.compactor.end().go_on()
    }

    /// All that is wanted of a partition without range tombstones by a command that begins there.
    fn rows(&mut self, partition: &Partition) -> ControlFlow<()> {
        let (order, direction) = (self.order, self.command.direction());
        let (ranges, compactor) = (&self.command.ranges, &mut *self.compactor);
        let mut range = |SendRange { start, end }: &SendRange| {
            let bounds = ((&start.0[..], start.1), (&end.0[..], end.1));
            partition.rows.visit(order, bounds, direction, |key, row| give(compactor, key, row))
        };
        match direction {
            Direction::Forward => ranges.iter().try_for_each(&mut range),
            Direction::Reversed => ranges.iter().rev().try_for_each(&mut range),
        }
    }

    fn range(
        &mut self,
        partition: &Partition,
        range: &ClusteringRange,
        open: &mut Tombstone,
    ) -> ControlFlow<()> {
        let (order, direction) = (self.order, self.command.direction());
        let bounds = (range.start.as_parts(), range.end.as_parts());
        let compactor = &mut *self.compactor;
        let list = partition.ranges.as_deref();
        let mut changes =
            list.into_iter().flat_map(|list| list.changes(order, range, direction)).peekable();
        let first = match direction {
            Direction::Forward => &range.start,
            Direction::Reversed => &range.end,
        };
        let opens = changes.next_if(|change| change.position.compare(order, first).is_eq());
        let at_first = opens.map_or(Tombstone::NONE, |change| change.tombstone);
        if at_first != *open {
            *open = at_first;
            compactor.change(first.as_parts(), at_first).go_on()?;
        }
        partition.rows.visit(order, bounds, direction, |key, row| {
            while let Some(change) = changes.next_if(|change| {
                let place = order.compare(change.position.as_parts(), (key, 0));
                direction.apply(place).is_lt()
            }) {
                *open = change.tombstone;
                compactor.change(change.position.as_parts(), change.tombstone).go_on()?;
            }
            debug_assert!(range.contains(order, (key, 0)), "in-ranges: {key:?} of {range:?}");
            give(compactor, key, row)
        })?;
        changes.try_for_each(|change| {
            *open = change.tombstone;
            compactor.change(change.position.as_parts(), change.tombstone).go_on()
        })?;
        debug_assert!(open.is_none(), "in-ranges: {open:?} is open after {range:?}");
        ControlFlow::Continue(())
    }
}

/// A row, borrowed where it is one blob.
#[inline]
fn give(compactor: &mut QueryCompactor<'_>, key: &[u8], row: &Row) -> ControlFlow<()> {
    match row.blob() {
        Some(blob) => compactor.row_blob(key, blob),
        None => compactor.row_blob(key, &row.bytes()),
    }
    .go_on()
}
