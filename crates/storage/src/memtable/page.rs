//! Reading a partition of a memtable straight into a page, or into another sink: at once, without
//! fragments.
//!
//! Invariants
//!  - *small-steps*: rows that are put together in steps are not read so.
//!  - *in-ranges*: what comes lies in the range that is walked, and no range tombstone outlives it.

use super::row::Row;
use super::{Memtable, Partition};
use model::{ClusteringOrder, DecoratedKey, TableSchema};
use mutation::page::{Page, ReadCommand, SendRange};
use mutation::{ClusteringRange, Direction, PartitionSink, QueryCompactor, RowView, Tombstone};
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
            let direction = command.direction();
            let mut walk = Walk { order: &self.order, direction, sink: &mut compactor };
            // It ends early where the compactor wants no more.
            let _ = walk.asked(key, partition, command);
        }
        compactor.finish()
    }

    /// Gives `sink` what is here of a partition, in table order: its deletion, the rows in these
    /// ranges, which ascend, with the range tombstones there, and the static row.
    pub(crate) fn visit(
        &self,
        key: &DecoratedKey,
        (ranges, with_static): (&[ClusteringRange], bool),
        sink: &mut dyn PartitionSink,
    ) {
        if let Some(partition) = self.partitions.borrow().get(key) {
            let mut walk = Walk { order: &self.order, direction: Direction::Forward, sink };
            // It ends early where the sink wants no more.
            let _ = walk.whole(key, partition, (ranges, with_static));
        }
    }
}

/// A walk over what is wanted of a partition.
struct Walk<'w, S: PartitionSink + ?Sized> {
    order: &'w ClusteringOrder,
    direction: Direction,
    sink: &'w mut S,
}

impl<S: PartitionSink + ?Sized> Walk<'_, S> {
    fn begin(
        &mut self,
        key: &DecoratedKey,
        partition: &Partition,
        with_static: bool,
    ) -> ControlFlow<()> {
        debug_assert!(!partition.is_huge, "small-steps: {key:?} takes long");
        self.sink.begin(&key.key, partition.tombstone).go_on()?;
        match &partition.static_row {
            Some(row) if with_static => {
                self.sink.static_row(RowView::trusted(&row.bytes())).go_on()
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// What a command asks for.
    fn asked(
        &mut self,
        key: &DecoratedKey,
        partition: &Partition,
        command: &ReadCommand,
    ) -> ControlFlow<()> {
        self.begin(key, partition, command.needs_static())?;
        if command.resume.is_none() && partition.ranges.is_none() {
            self.rows(partition, command)?;
            return self.sink.end().go_on();
        }
        let mut ranges = command.resumed_ranges(self.order);
        if self.direction == Direction::Reversed {
            ranges.reverse();
        }
        self.ranges(partition, &ranges)
    }

    /// What these ranges have, in the order of the walk.
    fn whole(
        &mut self,
        key: &DecoratedKey,
        partition: &Partition,
        (ranges, with_static): (&[ClusteringRange], bool),
    ) -> ControlFlow<()> {
        self.begin(key, partition, with_static)?;
        self.ranges(partition, ranges)
    }

    /// All that is wanted of a partition without range tombstones by a command that begins there.
    fn rows(&mut self, partition: &Partition, command: &ReadCommand) -> ControlFlow<()> {
        let (order, direction) = (self.order, self.direction);
        let (ranges, sink) = (&command.ranges, &mut *self.sink);
        let mut range = |SendRange { start, end }: &SendRange| {
            let bounds = ((&start.0[..], start.1), (&end.0[..], end.1));
            partition.rows.visit(order, bounds, direction, |key, row| give(sink, key, row))
        };
        match direction {
            Direction::Forward => ranges.iter().try_for_each(&mut range),
            Direction::Reversed => ranges.iter().rev().try_for_each(&mut range),
        }
    }

    /// To the end of the partition.
    fn ranges(&mut self, partition: &Partition, ranges: &[ClusteringRange]) -> ControlFlow<()> {
        let mut open = Tombstone::NONE;
        for range in ranges {
            self.range(partition, range, &mut open)?;
        }
        self.sink.end().go_on()
    }

    fn range(
        &mut self,
        partition: &Partition,
        range: &ClusteringRange,
        open: &mut Tombstone,
    ) -> ControlFlow<()> {
        let (order, direction) = (self.order, self.direction);
        let bounds = (range.start.as_parts(), range.end.as_parts());
        let sink = &mut *self.sink;
        let Some(list) = partition.ranges.as_deref() else {
            debug_assert!(open.is_none(), "in-ranges: {open:?} of no list");
            return partition.rows.visit(order, bounds, direction, |key, row| give(sink, key, row));
        };
        let mut changes = list.changes(order, range, direction).into_iter().peekable();
        let first = match direction {
            Direction::Forward => &range.start,
            Direction::Reversed => &range.end,
        };
        let opens = changes.next_if(|change| change.position.compare(order, first).is_eq());
        let at_first = opens.map_or(Tombstone::NONE, |change| change.tombstone);
        if at_first != *open {
            *open = at_first;
            sink.change(first.as_parts(), at_first).go_on()?;
        }
        partition.rows.visit(order, bounds, direction, |key, row| {
            while let Some(change) = changes.next_if(|change| {
                let place = order.compare(change.position.as_parts(), (key, 0));
                direction.apply(place).is_lt()
            }) {
                *open = change.tombstone;
                sink.change(change.position.as_parts(), change.tombstone).go_on()?;
            }
            debug_assert!(range.contains(order, (key, 0)), "in-ranges: {key:?} of {range:?}");
            give(sink, key, row)
        })?;
        changes.try_for_each(|change| {
            *open = change.tombstone;
            sink.change(change.position.as_parts(), change.tombstone).go_on()
        })?;
        debug_assert!(open.is_none(), "in-ranges: {open:?} is open after {range:?}");
        ControlFlow::Continue(())
    }
}

/// A row, borrowed where it is one blob.
#[inline]
fn give(sink: &mut (impl PartitionSink + ?Sized), key: &[u8], row: &Row) -> ControlFlow<()> {
    match row.blob() {
        Some(blob) => sink.row_blob(key, blob),
        None => sink.row_blob(key, &row.bytes()),
    }
    .go_on()
}
