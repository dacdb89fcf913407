//! Answering a read of one partition from one object of the row cache: no fragments, nothing
//! copied but what goes into the page.

use crate::cache::{Piece, RunView, Whole};
use model::TableSchema;
use mutation::page::{Page, ReadCommand};
use mutation::{QueryCompactor, RowView, Step};
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
    go_on(compactor.begin(key, whole.tombstone))?;
    if command.needs_static() && !whole.static_row.is_empty() {
        go_on(compactor.static_row(RowView::trusted(whole.static_row)))?;
    }
    let run = whole.run;
    if command.resume.is_some() || run.has_tombstones() {
        feed_ranges(compactor, run, (schema, command))?;
    } else {
        feed_rows(compactor, run, (schema, command))?;
    }
    go_on(compactor.end())
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
            go_on(compactor.row(key, RowView::trusted(row)))
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
            Piece::Row(key, row) => go_on(compactor.row(key, RowView::trusted(row))),
            Piece::Change(change) => {
                go_on(compactor.change(change.position.as_parts(), change.tombstone))
            }
        })?;
    }
    ControlFlow::Continue(())
}

fn go_on(step: Step) -> ControlFlow<()> {
    match step {
        Step::Continue => ControlFlow::Continue(()),
        Step::NextPartition | Step::Stop => ControlFlow::Break(()),
    }
}
