//! Answering a read of one partition from one object of the row cache: no fragments, nothing
//! copied but what goes into the page.

use crate::cache::{Piece, RunView, Whole};
use model::TableSchema;
use mutation::page::{Page, ReadCommand};
use mutation::{QueryCompactor, RowView};
use std::ops::ControlFlow;

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

fn feed(
    compactor: &mut QueryCompactor<'_>,
    whole: &Whole<'_>,
    key: &[u8],
    (schema, command): (&TableSchema, &ReadCommand),
) -> ControlFlow<()> {
    compactor.begin(key, whole.tombstone).go_on()?;
    if command.needs_static() && !whole.static_row.is_empty() {
        compactor.static_row(RowView::trusted(whole.static_row)).go_on()?;
    }
    let run = whole.run;
    if command.resume.is_some() || run.has_tombstones() {
        feed_ranges(compactor, run, (schema, command))?;
    } else {
        feed_rows(compactor, run, (schema, command))?;
    }
    compactor.end().go_on()
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
            compactor.row(key, RowView::trusted(row)).go_on()
        })?;
    }
    ControlFlow::Continue(())
}

/// All that lies in the ranges that are left of a command.
fn feed_ranges(
    compactor: &mut QueryCompactor<'_>,
    run: RunView<'_>,
    (schema, command): (&TableSchema, &ReadCommand),
) -> ControlFlow<()> {
    let (order, direction) = (&schema.order, command.direction());
    let mut ranges = command.resumed_ranges(order);
    if command.reversed {
        ranges.reverse();
    }
    for range in &ranges {
        run.visit(order, range, direction, |piece| match piece {
            Piece::Row(key, row) => compactor.row(key, RowView::trusted(row)).go_on(),
            Piece::Change(change) => {
                compactor.change(change.position.as_parts(), change.tombstone).go_on()
            }
        })?;
    }
    ControlFlow::Continue(())
}
