//! One row of the base table, before a write and after it, and what that changes in a view: a
//! function for each of the four kinds of views that the crate's page describes.

mod attributes;

use crate::contest::{Contest, Outcome, Shown};
use crate::out::Out;
use crate::place::Place;
use crate::plan::{Form, Kind, Part, Projected, ViewPlan};
use model::{ColumnId, TableSchema, Type};
use mutation::collection::compare_paths;
use mutation::{
    Cell, CellState, CollectionView, CollectionWriter, ColumnData, Marker, RowBuilder, RowView,
    Tombstone, row,
};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;
use stdx::Put;

/// What a row may take beyond those that it is made of, where they say nothing unusual.
const SPARE_BYTES: usize = 32;

/// A row, clustered or static, and a write of it. Empty rows stand for those that are not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'r> {
    pub(crate) before: RowView<'r>,
    pub(crate) update: RowView<'r>,
    /// What deletions of ranges and of the partition cover that were there before.
    pub(crate) existing: Tombstone,
    /// What those of the write cover.
    pub(crate) written: Tombstone,
}

/// Where it goes.
pub(crate) struct Sink<'s, 'a> {
    pub(crate) base: &'a TableSchema,
    pub(crate) now: i64,
    pub(crate) out: &'s mut Out<'a>,
    /// For a row that is made meanwhile.
    pub(crate) scratch: &'s mut Vec<u8>,
}

impl<'r> Change<'r> {
    /// What all deletions before the write cover.
    fn was(&self) -> Tombstone {
        self.existing.merge(self.before.tombstone())
    }

    /// What all deletions cover.
    fn all(&self) -> Tombstone {
        self.was().merge(self.written).merge(self.update.tombstone())
    }

    /// The deletion that a row of a view has to learn of, if it was there before or if others have
    /// made it: those of the write; and those that were there, where they cover what is written.
    /// For who wrote that elsewhere, before it was deleted, has made a row of it.
    fn told(&self) -> Tombstone {
        let was = self.was();
        let new = self.written.merge(self.update.tombstone());
        if self.update.is_empty() {
            // Nothing but deletions of ranges: of what is gone already they say nothing new.
            let ends_some = !new.is_none() && self.before.oldest_live() <= new.timestamp;
            return if ends_some && !was.subsumes(new) { new } else { Tombstone::NONE };
        }
        if !was.is_none() && self.update.oldest_live() <= was.timestamp {
            return was.merge(new);
        }
        if was.subsumes(new) { Tombstone::NONE } else { new }
    }

    /// What the write says beyond what was there. Merged with that it gives the row after.
    fn beyond<'s>(&self, base: &TableSchema, scratch: &'s mut Vec<u8>) -> RowView<'s>
    where
        'r: 's,
    {
        if self.before.is_empty() || self.update.is_empty() {
            return self.update;
        }
        // The usual write is newer than all that was there. Of a deletion that is not, which the
        // comparison would leave out, the view has what is newer than it.
        if self.before.last_update() < self.update.oldest_live() {
            return self.update;
        }
        scratch.clear();
        scratch.reserve(self.update.bytes().len() + SPARE_BYTES);
        match row::difference(base, self.update, self.before, scratch) {
            true => RowView::trusted(scratch),
            false => nothing(),
        }
    }

    /// The row after the write, but what deletions cover.
    fn after<'s>(&self, base: &TableSchema, scratch: &'s mut Vec<u8>) -> RowView<'s>
    where
        'r: 's,
    {
        if self.before.is_empty() {
            return self.update;
        }
        scratch.clear();
        let bytes = self.before.bytes().len() + self.update.bytes().len();
        scratch.reserve(bytes + SPARE_BYTES);
        row::merge(base, self.before, self.update, scratch);
        RowView::trusted(scratch)
    }
}

/// A row that says nothing.
pub(crate) fn nothing() -> RowView<'static> {
    RowView::trusted(&[0])
}

/// Derives for one view.
pub(crate) fn derive<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    change: &Change<'_>,
    sink: &mut Sink<'_, 'a>,
) {
    if !plan.filter.has_row(place) {
        return;
    }
    match &plan.kind {
        Kind::Mirror => mirror(plan, place, change, sink),
        Kind::Keyed { column, .. } => keyed(plan, place, change, *column, sink),
        Kind::Elements { column, ty, part, .. } => {
            elements(plan, place, change, (*column, ty, *part), sink);
        }
        Kind::Attributes { column, of } => {
            attributes::derive(plan, place, change, (*column, of), sink);
        }
    }
}

fn mirror<'a>(plan: &'a ViewPlan, place: &Place<'_>, change: &Change<'_>, sink: &mut Sink<'_, 'a>) {
    let told = change.told();
    let beyond = change.beyond(sink.base, sink.scratch);
    if told.is_none() && beyond.marker().is_none() && !has_any(plan, beyond) {
        return;
    }
    sink.out.row(plan, place, |row| {
        row.tombstone(told);
        if let Some(marker) = beyond.marker() {
            row.marker(marker);
        }
        project(plan, beyond, row);
    });
}

fn keyed<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    change: &Change<'_>,
    column: ColumnId,
    sink: &mut Sink<'_, 'a>,
) {
    let (was, all) = (change.was(), change.all());
    let old = cell_of(change.before, column);
    let contest = Contest::of((old, was), (cell_of(change.update, column), all));
    let shown = Shown { plan, place, now: sink.now };
    let ty = plan.value_type.as_ref();
    let outcome = contest.outcome(ty, |cell| shown.of(cell, cell.value().map(Cow::Borrowed)));
    put_ends(plan, place, &outcome, all, sink);
    let Some(value) = &outcome.new else { return };
    let place = Place { value, ..*place };
    put_row(plan, &place, change, (outcome.marker, outcome.is_update), sink);
}

/// Writes a row that is found now; `is_update`: that was found there before, too.
fn put_row<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    change: &Change<'_>,
    (marker, is_update): (Option<Marker>, bool),
    sink: &mut Sink<'_, 'a>,
) {
    if plan.columns.is_empty() {
        return put_marker(plan, place, marker, sink.out);
    }
    let (told, columns) = match is_update {
        true => (change.told(), change.beyond(sink.base, sink.scratch)),
        // All of it: it may have stood elsewhere until now.
        false => (change.all(), change.after(sink.base, sink.scratch)),
    };
    if told.is_none() && marker.is_none() && !has_any(plan, columns) {
        return;
    }
    sink.out.row(plan, place, |row| {
        row.tombstone(told);
        if let Some(marker) = marker {
            row.marker(marker);
        }
        project(plan, columns, row);
    });
}

fn cell_of(row: RowView<'_>, column: ColumnId) -> Option<Cell<'_>> {
    match row.column(column) {
        Some(ColumnData::Atomic(cell)) => Some(cell),
        _ => None,
    }
}

/// Writes a row that has nothing but its marker.
fn put_marker<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    marker: Option<Marker>,
    out: &mut Out<'a>,
) {
    if let Some(marker) = marker {
        out.row(plan, place, |row| row.marker(marker));
    }
}

/// Ends the rows that are found no more.
fn put_ends<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    outcome: &Outcome<'_>,
    all: Tombstone,
    sink: &mut Sink<'_, 'a>,
) {
    for (value, timestamp) in &outcome.ends {
        put_end(plan, &Place { value, ..*place }, (*timestamp, all), sink);
    }
}

/// Ends a row up to that time.
fn put_end<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    (timestamp, all): (i64, Tombstone),
    sink: &mut Sink<'_, 'a>,
) {
    sink.out.row(plan, place, |row| {
        // Without columns there is nothing but markers.
        row.tombstone(if plan.columns.is_empty() { Tombstone::NONE } else { all });
        row.shadowable(Tombstone::new(timestamp, sink.now));
    });
}

fn elements<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    change: &Change<'_>,
    (column, ty, part): (ColumnId, &Type, Part),
    sink: &mut Sink<'_, 'a>,
) {
    let (before, update) = (elements_of(change.before, column), elements_of(change.update, column));
    let was = change.was().merge(before.tomb());
    let all = was.merge(change.all()).merge(update.tomb());
    if update.is_empty() && was == all {
        return;
    }
    join(ty, before, update, |path, old, new| {
        let place = Place { path, ..*place };
        let shown = Shown { plan, place: &place, now: sink.now };
        let contest = Contest::of((old, was), (new, all));
        let ty = plan.value_type.as_ref();
        let outcome = contest.outcome(ty, |cell| shown.of(cell, part_of(part, path, cell)));
        put_ends(plan, &place, &outcome, all, sink);
        if let Some(value) = &outcome.new {
            put_marker(plan, &Place { value, ..place }, outcome.marker, sink.out);
        }
    });
}

fn elements_of(row: RowView<'_>, column: ColumnId) -> CollectionView<'_> {
    match row.column(column) {
        Some(ColumnData::Collection(view)) => view,
        _ => CollectionView::trusted(&[0; 5]),
    }
}

/// What an element is found by.
fn part_of<'r>(part: Part, path: &'r [u8], cell: Cell<'r>) -> Option<Cow<'r, [u8]>> {
    match part {
        Part::Key => Some(Cow::Borrowed(path)),
        Part::Value => cell.value().map(Cow::Borrowed),
        Part::Entry => {
            let value = cell.value()?;
            let mut entry = Vec::with_capacity(8 + path.len() + value.len());
            entry.put_u32_bytes(path);
            entry.put_u32_bytes(value);
            Some(Cow::Owned(entry))
        }
    }
}

/// Walks the elements of two collections of that type side by side.
fn join<'r>(
    ty: &Type,
    a: CollectionView<'r>,
    b: CollectionView<'r>,
    mut each: impl FnMut(&'r [u8], Option<Cell<'r>>, Option<Cell<'r>>),
) {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((x, _)), Some((y, _))) => compare_paths(Some(ty), x, y),
        };
        let x = if order.is_le() { a.next() } else { None };
        let y = if order.is_ge() { b.next() } else { None };
        if let Some((path, _)) = x.or(y) {
            each(path, x.map(|(_, cell)| cell), y.map(|(_, cell)| cell));
        }
    }
}

/// Whether a row has a column that the view has.
fn has_any(plan: &ViewPlan, row: RowView<'_>) -> bool {
    row.has_column(|id| plan.columns.iter().any(|column| column.base == id))
}

/// Adds the columns that the view has to a row of it.
fn project(plan: &ViewPlan, row: RowView<'_>, out: &mut RowBuilder) {
    if plan.columns.is_empty() {
        return;
    }
    if plan.is_in_order {
        return project_in_order(plan, row, out);
    }
    let columns: SmallVec<[(ColumnId, ColumnData<'_>); 16]> = row.columns().collect();
    for column in &plan.columns {
        if let Ok(index) = columns.binary_search_by_key(&column.base, |(id, _)| *id) {
            copy(column, columns[index].1, out);
        }
    }
}

/// The same of a plan that is in order.
fn project_in_order(plan: &ViewPlan, row: RowView<'_>, out: &mut RowBuilder) {
    let mut left = &plan.columns[..];
    // Ids ascend in both.
    let mut wanted = |id: ColumnId| {
        while let [first, rest @ ..] = left
            && first.base <= id
        {
            left = rest;
            if first.base == id {
                return Some(first);
            }
        }
        None
    };
    // Most rows have nothing but values of one time.
    let (timestamp, mut values) = row.first_values();
    let projected = values.by_ref().filter_map(|(id, value)| {
        let column = wanted(id)?;
        Some((column.view, if column.form == Form::Whole { value } else { &[] }))
    });
    match out.as_marker_of(timestamp) {
        Some(mut out) => projected.for_each(|(id, value)| out.put(id, value)),
        None => projected.for_each(|(id, value)| out.cell(id, Cell::live(timestamp, value))),
    }
    for (id, data) in row.columns_behind(&values) {
        if let Some(column) = wanted(id) {
            copy(column, data, out);
        }
    }
}

fn copy(column: &Projected, data: ColumnData<'_>, out: &mut RowBuilder) {
    match (data, column.form) {
        (ColumnData::Atomic(cell), Form::Whole) => out.cell(column.view, cell),
        (ColumnData::Atomic(cell), Form::WithoutValues) => out.cell(column.view, without(cell)),
        (ColumnData::Collection(view), Form::Whole) => out.collection(column.view, view.bytes()),
        (ColumnData::Collection(view), Form::WithoutValues) => {
            let mut writer = CollectionWriter::new(view.tomb());
            view.iter().for_each(|(path, cell)| writer.push(path, without(cell)));
            out.collection(column.view, &writer.finish());
        }
    }
}

/// A cell that lives as long, and has no value.
fn without(cell: Cell<'_>) -> Cell<'_> {
    let state = match cell.state {
        CellState::Live { .. } => CellState::Live { value: &[] },
        CellState::Expiring { expiry, ttl, .. } => CellState::Expiring { value: &[], expiry, ttl },
        state => state,
    };
    Cell { state, ..cell }
}
