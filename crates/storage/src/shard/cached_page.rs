//! Answering a read of one partition from one object of the row cache, and what a memtable has
//! besides, or from a few runs: no fragments, nothing copied but what goes into the page. Sinks
//! that are no page get what is there in the same way.

use crate::cache::{Piece, RunView, RunsView, Whole};
use crate::memtable::Plain;
use model::TableSchema;
use mutation::page::{Page, ReadCommand};
use mutation::{ClusteringRange, Direction, PartitionSink, QueryCompactor, RowView};
use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};

/// The page that a partition answers; `key`: of the partition.
pub(crate) fn page_of(
    whole: &Whole<'_>,
    key: &[u8],
    schema: &TableSchema,
    command: &ReadCommand,
) -> Page {
    let mut compactor = QueryCompactor::new(schema, command);
    if !whole.is_absent() {
        // However it ended: the compactor has what it wanted.
        let _ = feed(&mut compactor, whole, key, (schema, command));
    }
    compactor.finish()
}

/// What is wanted of a partition.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'w> {
    /// In the direction of the read.
    pub(crate) ranges: &'w [ClusteringRange],
    pub(crate) with_static: bool,
    pub(crate) direction: Direction,
}

/// Gives `sink` what is wanted of a partition.
pub(crate) fn visit(
    whole: &Whole<'_>,
    more: Option<Plain<'_>>,
    key: &[u8],
    (schema, wanted): (&TableSchema, Wanted<'_>),
    sink: &mut dyn PartitionSink,
) {
    // However it ends: the sink has what it wants.
    let _ = match more {
        Some(more) => Both { whole, more, schema, wanted, sink, scratch: Vec::new() }.feed(key),
        None if whole.is_absent() => ControlFlow::Continue(()),
        None => feed_wanted(whole, key, (schema, wanted), sink),
    };
}

fn begin(
    sink: &mut (impl PartitionSink + ?Sized),
    whole: &Whole<'_>,
    key: &[u8],
    with_static: bool,
) -> ControlFlow<()> {
    sink.begin(key, whole.tombstone).go_on()?;
    match with_static && !whole.static_row.is_empty() {
        true => sink.static_row(RowView::trusted(whole.static_row)).go_on(),
        false => ControlFlow::Continue(()),
    }
}

fn feed(
    compactor: &mut QueryCompactor<'_>,
    whole: &Whole<'_>,
    key: &[u8],
    (schema, command): (&TableSchema, &ReadCommand),
) -> ControlFlow<()> {
    begin(compactor, whole, key, command.needs_static())?;
    let run = whole.run;
    debug_assert!(run.is_whole(), "a part of a partition as all of it");
    if command.resume.is_some() || run.has_tombstones() {
        let ranges = wanted_ranges(schema, command);
        feed_ranges(compactor, run, (schema, &ranges, command.direction()))?;
    } else {
        feed_rows(compactor, run, (schema, command))?;
    }
    compactor.end().go_on()
}

fn feed_wanted(
    whole: &Whole<'_>,
    key: &[u8],
    (schema, wanted): (&TableSchema, Wanted<'_>),
    sink: &mut dyn PartitionSink,
) -> ControlFlow<()> {
    begin(sink, whole, key, wanted.with_static)?;
    feed_ranges(sink, whole.run, (schema, wanted.ranges, wanted.direction))?;
    sink.end().go_on()
}

/// The ranges that are left of a command, in its direction.
fn wanted_ranges(schema: &TableSchema, command: &ReadCommand) -> Vec<ClusteringRange> {
    let mut ranges = command.resumed_ranges(&schema.order);
    if command.reversed {
        ranges.reverse();
    }
    ranges
}

/// All rows in the ranges of a command that begins with them.
fn feed_rows(
    compactor: &mut QueryCompactor<'_>,
    run: RunView<'_>,
    (schema, command): (&TableSchema, &ReadCommand),
) -> ControlFlow<()> {
    let direction = command.direction();
    for index in 0..command.ranges.len() {
        let index = if command.reversed { command.ranges.len() - 1 - index } else { index };
        let range = &command.ranges[index];
        let bounds = ((&range.start.0[..], range.start.1), (&range.end.0[..], range.end.1));
        run.visit_rows(&schema.order, bounds, direction, |key, row| {
            compactor.row_blob(key, row).go_on()
        })?;
    }
    ControlFlow::Continue(())
}

/// All that lies in the ranges, which come in that direction.
fn feed_ranges(
    sink: &mut (impl PartitionSink + ?Sized),
    run: RunView<'_>,
    (schema, ranges, direction): (&TableSchema, &[ClusteringRange], Direction),
) -> ControlFlow<()> {
    for range in ranges {
        run.visit(&schema.order, range, direction, |piece| match piece {
            Piece::Row(key, row) => sink.row_blob(key, row).go_on(),
            Piece::Change(change) => {
                sink.change(change.position.as_parts(), change.tombstone).go_on()
            }
        })?;
    }
    ControlFlow::Continue(())
}

/// The page that a partition of several runs answers; `None`: not all that it takes is there.
pub(crate) fn page_of_runs(
    runs: &RunsView<'_>,
    key: &[u8],
    schema: &TableSchema,
    command: &ReadCommand,
) -> Option<Page> {
    let mut compactor = QueryCompactor::new(schema, command);
    // However it ended: the compactor has what it wanted.
    let _ = feed_runs(&mut compactor, runs, key, (schema, command))?;
    Some(compactor.finish())
}

fn feed_runs(
    compactor: &mut QueryCompactor<'_>,
    runs: &RunsView<'_>,
    key: &[u8],
    (schema, command): (&TableSchema, &ReadCommand),
) -> Option<ControlFlow<()>> {
    let begun = compactor.begin(key, runs.tombstone).go_on();
    if begun.is_break() {
        return Some(begun);
    }
    if command.needs_static() && !runs.static_row.is_empty() {
        let step = compactor.static_row(RowView::trusted(runs.static_row)).go_on();
        if step.is_break() {
            return Some(step);
        }
    }
    for range in &wanted_ranges(schema, command) {
        let bounds = (range.start.as_parts(), range.end.as_parts());
        let flow = runs.visit_rows(bounds, command.direction(), |key, row| {
            compactor.row_blob(key, row).go_on()
        })?;
        if flow.is_break() {
            return Some(flow);
        }
    }
    Some(compactor.end().go_on())
}

/// The page that a partition answers of which a memtable has something as well.
pub(crate) fn page_of_both(
    whole: &Whole<'_>,
    more: Plain<'_>,
    key: &[u8],
    schema: &TableSchema,
    command: &ReadCommand,
) -> Page {
    let mut compactor = QueryCompactor::new(schema, command);
    let scratch = Vec::new();
    let ranges = wanted_ranges(schema, command);
    let (with_static, direction) = (command.needs_static(), command.direction());
    let wanted = Wanted { ranges: &ranges, with_static, direction };
    let mut both = Both { whole, more, schema, wanted, sink: &mut compactor, scratch };
    // However it ended: the compactor has what it wanted.
    let _ = both.feed(key);
    compactor.finish()
}

/// What the cache knows of a partition and what a memtable has of it, on the way to a sink.
struct Both<'b, S: PartitionSink + ?Sized> {
    whole: &'b Whole<'b>,
    more: Plain<'b>,
    schema: &'b TableSchema,
    wanted: Wanted<'b>,
    sink: &'b mut S,
    /// Rows that both have are put together here.
    scratch: Vec<u8>,
}

impl<S: PartitionSink + ?Sized> Both<'_, S> {
    fn feed(&mut self, key: &[u8]) -> ControlFlow<()> {
        let Both { whole, more, wanted, .. } = *self;
        self.sink.begin(key, whole.tombstone.merge(more.tombstone)).go_on()?;
        if wanted.with_static {
            match (whole.static_row, more.static_row) {
                ([], []) => {}
                (row, []) | ([], row) => {
                    self.sink.static_row(RowView::trusted(row)).go_on()?;
                }
                (old, new) => {
                    self.merge(old, new);
                    self.sink.static_row(RowView::trusted(&self.scratch)).go_on()?;
                }
            }
        }
        wanted.ranges.iter().try_for_each(|range| self.range(range))?;
        self.sink.end().go_on()
    }

    /// All that lies in a range.
    fn range(&mut self, range: &ClusteringRange) -> ControlFlow<()> {
        let Both { whole, more, wanted, .. } = *self;
        let (order, direction) = (&self.schema.order, wanted.direction);
        let mut left = more.within(order, range);
        whole.run.visit(order, range, direction, |piece| {
            let place = match &piece {
                Piece::Row(key, _) => (*key, 0),
                Piece::Change(change) => change.position.as_parts(),
            };
            while let Some(index) = next_of(&left, direction) {
                debug_assert!(index < more.row_count(), "in-order: row {index}");
                let (key, row) = more.row(index);
                match (direction.apply(order.compare((key, 0), place)), &piece) {
                    (Ordering::Less, _) => {
                        self.sink.row_blob(key, row).go_on()?;
                        pass(&mut left, direction);
                    }
                    (Ordering::Equal, Piece::Row(_, old)) => {
                        pass(&mut left, direction);
                        self.merge(old, row);
                        return self.sink.row_blob(key, &self.scratch).go_on();
                    }
                    _ => break,
                }
            }
            let step = match piece {
                Piece::Row(key, row) => self.sink.row_blob(key, row),
                Piece::Change(change) => {
                    self.sink.change(change.position.as_parts(), change.tombstone)
                }
            };
            step.go_on()
        })?;
        while let Some(index) = next_of(&left, direction) {
            let (key, row) = more.row(index);
            self.sink.row_blob(key, row).go_on()?;
            pass(&mut left, direction);
        }
        ControlFlow::Continue(())
    }

    fn merge(&mut self, old: &[u8], new: &[u8]) {
        debug_assert!(!old.is_empty() && !new.is_empty(), "in-order: a row of nothing is merged");
        self.scratch.clear();
        let (old, new) = (RowView::trusted(old), RowView::trusted(new));
        mutation::row::merge(self.schema, old, new, &mut self.scratch);
    }
}

/// The row that comes next in that direction.
fn next_of(left: &Range<usize>, direction: Direction) -> Option<usize> {
    let next = match direction {
        Direction::Forward => left.start,
        Direction::Reversed => left.end.saturating_sub(1),
    };
    (!left.is_empty()).then_some(next)
}

fn pass(left: &mut Range<usize>, direction: Direction) {
    debug_assert!(left.start < left.end, "in-order: no row is left");
    match direction {
        Direction::Forward => left.start += 1,
        Direction::Reversed => left.end -= 1,
    }
}
