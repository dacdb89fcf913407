//! Views that are found by attributes: by the values of one or two elements of a map.
//!
//! Invariants
//!  - *both-or-none*: there is a row where each attribute has a value of its type that is not
//!    empty. Its marker has the time of the newer one, and the lifetime of the one that ends first.
//!  - *pairs-end*: each pair of values that the write or what was before it knows ends, but the one
//!    that is found now, and those that could come back with a marker that is no newer. So of
//!    writes of one attribute each that came late, a row may be shown too many, never one too few.

use super::{Change, Sink, elements_of, put_end, put_row};
use crate::contest::{Contest, Outcome, is_one_row};
use crate::place::Place;
use crate::plan::{Attribute, ViewPlan};
use model::{ColumnId, value};
use mutation::{Cell, CellState, CollectionView, Marker, Tombstone};
use smallvec::SmallVec;
use std::borrow::Cow;

/// An attribute before and after.
struct Side<'r> {
    outcome: Outcome<'r>,
    winner: Option<Cell<'r>>,
    /// Of the values of before, and of the write: what rows may be found by.
    known: SmallVec<[Known<'r>; 2]>,
}

/// A value that a row may be found by.
struct Known<'r> {
    value: Cow<'r, [u8]>,
    timestamp: i64,
    /// Until when it cannot win again; `None`: it has won.
    until: Option<i64>,
}

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
        let known = contest.known().into_iter().flatten().filter_map(|cell| {
            let value = value_of(attribute, cell, now)?;
            let is_new = outcome.new.as_ref().is_some_and(|new| is_one_row(ty, new, &value));
            let until = (!is_new).then(|| contest.until(cell.timestamp, all));
            Some(Known { value, timestamp: cell.timestamp, until })
        });
        let known = known.collect();
        Side { outcome, winner: contest.winner(), known }
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
    debug_assert!(matches!(of.len(), 1 | 2), "a view is found by one attribute or two");
    let (before, update) = (elements_of(change.before, column), elements_of(change.update, column));
    let was = change.was().merge(before.tomb());
    let all = was.merge(change.all()).merge(update.tomb());
    let side = |it| Side::new(it, (before, was), (update, all), sink.now);
    let sides: SmallVec<[Side<'_>; 2]> = of.iter().map(side).collect();
    put_ends(plan, place, (&sides, change.all()), sink);
    let Some(value) = &sides[0].outcome.new else { return };
    let path = match sides.get(1) {
        None => place.path,
        Some(Side { outcome: Outcome { new: Some(path), .. }, .. }) => path,
        Some(_) => return,
    };
    let is_update = sides.iter().all(|side| side.outcome.is_update);
    let is_same = is_update && sides.iter().all(|side| side.outcome.marker.is_none());
    let marker = marker(&sides).filter(|_| !is_same);
    put_row(plan, &Place { value, path, ..*place }, change, (marker, is_update), sink);
}

/// *pairs-end*
fn put_ends<'a>(
    plan: &'a ViewPlan,
    place: &Place<'_>,
    (sides, all): (&[Side<'_>], Tombstone),
    sink: &mut Sink<'_, 'a>,
) {
    let Some(second) = sides.get(1) else {
        for (value, end) in &sides[0].outcome.ends {
            put_end(plan, &Place { value, ..*place }, (*end, all), sink);
        }
        return;
    };
    for one in &sides[0].known {
        for other in &second.known {
            let Some(until) = one.until.max(other.until) else { continue };
            if until < one.timestamp.max(other.timestamp) {
                stdx::probe!("a row of two attributes stays, for it may come back");
                continue;
            }
            let place = Place { value: &one.value, path: &other.value, ..*place };
            put_end(plan, &place, (until, all), sink);
        }
    }
}

/// *both-or-none*
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
