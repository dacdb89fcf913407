//! Views that are found by attributes: by the values of some elements of a map.
//!
//! Invariants
//!  - *all-or-none*: there is a row where each attribute has a value of its type that is not empty.
//!    Its marker has the time of the newest one, and the lifetime of the one that ends first.
//!  - *what-was-ends*: what the attributes were before is no row any more, unless it is the one
//!    that is found now. Of a write that is late for some of them, neither is any row that a
//!    replica may have made which had it before what won over it: each of these attributes with
//!    either value. A row that could come back with a marker that is no newer stays. So of writes
//!    of one attribute each that came late, a row may be shown too many, never one too few.
//!
//! A write that is newer than what was there ends one row, however many attributes it changes.

use super::{Change, Sink, elements_of, put_end, put_row};
use crate::contest::{Contest, Outcome, is_one_row};
use crate::place::Place;
use crate::plan::{ATTRIBUTES_MAX, Attribute, ViewPlan};
use model::{ColumnId, value};
use mutation::{Cell, CellState, CollectionView, Marker, Tombstone};
use smallvec::SmallVec;
use std::borrow::Cow;

/// An attribute before and after.
struct Side<'r> {
    outcome: Outcome<'r>,
    winner: Option<Cell<'r>>,
    before: Option<Known<'r>>,
    update: Option<Known<'r>>,
}

/// A value that a row may be found by.
struct Known<'r> {
    value: Cow<'r, [u8]>,
    timestamp: i64,
    /// Until when it cannot win again; `None`: it has won.
    until: Option<i64>,
}

/// A value of each attribute, or of some.
type Values<T> = SmallVec<[T; 4]>;

const _: () = assert!(ATTRIBUTES_MAX <= 8, "late writes end 255 rows at most");

impl<'r> Side<'r> {
    fn new(
        attribute: &Attribute,
        (before, was): (CollectionView<'r>, Tombstone),
        (update, all): (CollectionView<'r>, Tombstone),
        now: i64,
    ) -> Side<'r> {
        let (old, new) = (find(before, attribute), find(update, attribute));
        let contest = Contest::of((old, was), (new, all));
        let ty = attribute.is_clustering.then_some(&attribute.ty);
        let outcome = contest.outcome(ty, |cell| value_of(attribute, cell, now));
        let [before, update] = contest.known().map(|cell| {
            let cell = cell?;
            let value = value_of(attribute, cell, now)?;
            let is_new = outcome.new.as_ref().is_some_and(|new| is_one_row(ty, new, &value));
            let until = (!is_new).then(|| contest.until(cell.timestamp, all));
            Some(Known { value, timestamp: cell.timestamp, until })
        });
        Side { outcome, winner: contest.winner(), before, update }
    }

    /// What the attribute may have been where the write was there and what won over it was not yet.
    fn beside_write(&self) -> SmallVec<[&Known<'r>; 2]> {
        let won = self.before.iter().filter(|before| before.until.is_none());
        let is_late = |update: &&Known<'r>| update.until.is_some();
        match self.update.iter().any(|update| !is_late(&update)) {
            true => self.update.iter().collect(),
            false => self.update.iter().chain(won).collect(),
        }
    }
}

fn find<'r>(elements: CollectionView<'r>, attribute: &Attribute) -> Option<Cell<'r>> {
    let mut elements = elements.iter();
    elements.find(|(path, _)| *path == attribute.path).map(|(_, cell)| cell)
}

/// What a cell makes a row be found by, if it is of the type.
fn value_of<'r>(attribute: &Attribute, cell: Cell<'r>, now: i64) -> Option<Cow<'r, [u8]>> {
    let (tag, bytes) = cell.value()?.split_first()?;
    let fits = *tag == attribute.tag && !bytes.is_empty() && cell.is_live(now);
    let is_valid = fits && value::validate(&attribute.ty, bytes).is_ok();
    is_valid.then_some(Cow::Borrowed(bytes))
}

/// Derives for one view.
pub(super) fn derive<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    change: &Change<'_>,
    (column, of): (ColumnId, &[Attribute]),
    sink: &mut Sink<'_, 'a>,
) {
    debug_assert!((1..=ATTRIBUTES_MAX).contains(&of.len()), "attributes of a view's key");
    let (before, update) = (elements_of(change.before, column), elements_of(change.update, column));
    let was = change.was().merge(before.tomb());
    let all = was.merge(change.all()).merge(update.tomb());
    let side = |it| Side::new(it, (before, was), (update, all), sink.now);
    let sides: Values<Side<'_>> = of.iter().map(side).collect();
    put_ends(plan, place, (&sides, change.all()), sink);
    let values = sides.iter().map(|side| side.outcome.new.as_deref());
    let Some(values) = values.collect::<Option<Values<&[u8]>>>() else { return };
    let is_update = sides.iter().all(|side| side.outcome.is_update);
    let is_same = is_update && sides.iter().all(|side| side.outcome.marker.is_none());
    let marker = marker(&sides).filter(|_| !is_same);
    let place = Place { value: values[0], others: &values[1..], ..*place };
    put_row(plan, &place, change, (marker, is_update), sink);
}

/// *what-was-ends*
fn put_ends<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    (sides, all): (&[Side<'_>], Tombstone),
    sink: &mut Sink<'_, 'a>,
) {
    if let [side] = sides {
        for (value, end) in &side.outcome.ends {
            put_end(plan, &Place { value, ..*place }, (*end, all), sink);
        }
        return;
    }
    let before = sides.iter().map(|side| side.before.as_ref());
    if let Some(before) = before.collect::<Option<Values<&Known<'_>>>>() {
        put_end_of(plan, place, (&before, all), sink);
    }
    let choices: Values<_> = sides.iter().map(Side::beside_write).collect();
    let count: usize = choices.iter().map(SmallVec::len).product();
    for number in 0..count {
        let mut left = number;
        let choose = |of: &SmallVec<[_; 2]>| {
            let at = left % of.len();
            left /= of.len();
            of[at]
        };
        let row: Values<&Known<'_>> = choices.iter().map(choose).collect();
        put_end_of(plan, place, (&row, all), sink);
    }
}

/// Ends a row, unless it is found now, or could come back.
fn put_end_of<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    (row, all): (&[&Known<'_>], Tombstone),
    sink: &mut Sink<'_, 'a>,
) {
    let Some(until) = row.iter().filter_map(|known| known.until).max() else { return };
    if row.iter().any(|known| until < known.timestamp) {
        stdx::probe!("a row of several attributes stays, for it may come back");
        return;
    }
    let values: Values<&[u8]> = row.iter().map(|known| &*known.value).collect();
    let place = Place { value: values[0], others: &values[1..], ..*place };
    put_end(plan, &place, (until, all), sink);
}

/// *all-or-none*
fn marker(sides: &[Side<'_>]) -> Option<Marker> {
    let cells = || sides.iter().filter_map(|side| side.winner);
    let timestamp = cells().map(|cell| cell.timestamp).max()?;
    let expiry = |cell: &Cell<'_>| match cell.state {
        CellState::Expiring { expiry, .. } => expiry,
        _ => i64::MAX,
    };
    let first = cells().min_by_key(expiry)?;
    Some(Marker::of_cell(Cell { timestamp, ..first }))
}
