//! Which value a row of a view is found by, before a write and after it.

use crate::place::Place;
use crate::plan::ViewPlan;
use model::{Type, value};
use mutation::cell::reconcile;
use mutation::{Cell, CellState, Marker, Tombstone};
use smallvec::SmallVec;
use std::borrow::Cow;

/// The cells that contend for being what a row is found by: of a column, or of an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest<'r> {
    /// What was there.
    old: Option<Cell<'r>>,
    /// What is written, even if a deletion covers it.
    update: Option<Cell<'r>>,
    /// What is there after the write.
    winner: Option<Cell<'r>>,
}

/// What a write did to what a row is found by.
#[derive(Debug)]
pub(crate) struct Outcome<'r> {
    /// What it is found by now, if there is a row.
    pub(crate) new: Option<Cow<'r, [u8]>>,
    /// Whether it was found by that before.
    pub(crate) is_update: bool,
    /// The marker of the row, where it is another than before.
    pub(crate) marker: Option<Marker>,
    /// What rows that end were found by, and up to which time they end.
    pub(crate) ends: SmallVec<[(Cow<'r, [u8]>, i64); 2]>,
}

impl<'r> Contest<'r> {
    /// Of what was there and what is written, each with what deletions cover then.
    pub(crate) fn of(
        (before, was): (Option<Cell<'r>>, Tombstone),
        (update, all): (Option<Cell<'r>>, Tombstone),
    ) -> Contest<'r> {
        let old = before.filter(|cell| !was.covers(cell.timestamp));
        let left = |cell: Option<Cell<'r>>| cell.filter(|cell| !all.covers(cell.timestamp));
        let winner = match (left(old), left(update)) {
            (Some(old), Some(update)) => Some(reconcile(old, update)),
            (one, None) | (None, one) => one,
        };
        Contest { old, update, winner }
    }

    /// Up to which time a row ends that a cell of that time had made, and that is not found any
    /// more (*only-sound-ends*). No cell with its value that is so old can win.
    fn end(&self, timestamp: i64) -> i64 {
        match self.winner {
            None => timestamp,
            Some(Cell { timestamp: won, state: CellState::Dead { .. } }) => timestamp.max(won),
            Some(Cell { timestamp: won, .. }) => timestamp.max(won.saturating_sub(1)),
        }
    }

    /// What was there, and what is written.
    pub(crate) fn known(&self) -> [Option<Cell<'r>>; 2] {
        [self.old, self.update]
    }

    /// Until when a cell of that time that has lost cannot win again; of all such that were there
    /// `cover` is what deletions cover.
    pub(crate) fn until(&self, timestamp: i64, cover: Tombstone) -> i64 {
        match self.winner {
            None => cover.timestamp.max(timestamp),
            Some(_) => self.end(timestamp),
        }
    }

    /// What is there after the write.
    pub(crate) fn winner(&self) -> Option<Cell<'r>> {
        self.winner
    }

    /// `shown` tells what a row is found by that a cell makes, if it makes one. `ty`: see
    /// [`ViewPlan::value_type`].
    pub(crate) fn outcome(
        &self,
        ty: Option<&Type>,
        shown: impl Fn(Cell<'r>) -> Option<Cow<'r, [u8]>>,
    ) -> Outcome<'r> {
        let new = self.winner.and_then(&shown);
        let old = self.old.and_then(&shown);
        // Of what has won there is no more to be told than of what is found now.
        let late = self.update.filter(|_| self.update != self.winner).and_then(&shown);
        let is = |a: &Cow<'_, [u8]>, b: &Option<Cow<'_, [u8]>>| {
            b.as_ref().is_some_and(|b| is_one_row(ty, a, b))
        };
        let mut ends: SmallVec<[(Cow<'r, [u8]>, i64); 2]> = SmallVec::new();
        let is_update = old.as_ref().is_some_and(|old| is(old, &new));
        let made = [(old, self.old), (late, self.update)];
        for (value, cell) in made.into_iter().filter_map(|(value, cell)| Some((value?, cell?))) {
            let end = self.end(cell.timestamp);
            match ends.iter_mut().find(|(ended, _)| is_one_row(ty, ended, &value)) {
                Some((_, timestamp)) => *timestamp = end.max(*timestamp),
                None if !is(&value, &new) => ends.push((value, end)),
                None => {}
            }
        }
        let is_same = is_update && self.winner == self.old;
        let marker = self.winner.filter(|_| new.is_some() && !is_same).map(Marker::of_cell);
        debug_assert!(ends.iter().all(|(value, _)| !is(value, &new)), "only-sound-ends");
        Outcome { new, is_update, marker, ends }
    }
}

/// What a row is found by, of which cells.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'k> {
    pub(crate) plan: &'k ViewPlan,
    pub(crate) place: &'k Place<'k>,
    pub(crate) now: i64,
}

impl Shown<'_> {
    /// The value, if a cell that has it makes a row.
    pub(crate) fn of<'r>(
        &self,
        cell: Cell<'r>,
        value: Option<Cow<'r, [u8]>>,
    ) -> Option<Cow<'r, [u8]>> {
        let value = value.filter(|_| cell.is_live(self.now))?;
        let place = Place { value: &value, ..*self.place };
        self.plan.filter.has_value(&place).then_some(value)
    }
}

/// Whether both values are found in one row of the view.
pub(crate) fn is_one_row(ty: Option<&Type>, a: &[u8], b: &[u8]) -> bool {
    a == b || ty.is_some_and(|ty| value::compare(ty, a, b).is_eq())
}
