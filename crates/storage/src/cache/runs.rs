//! Reading rows of a partition of several runs where they lie: in one step, nothing copied.
//!
//! For a reader that needs a few runs, all of them cached and without range tombstones. Whoever
//! meets anything else is told so, and reads a [`super::Snapshot`].
//!
//! Invariants
//!  - *all-or-nothing*: rows are given as those between two positions only where each run from the
//!    one to the other is there and touches the next.
//!  - *no-waiting* (of the cache): at most [`RUNS_MAX`] runs are looked at.

use super::TabletCache;
use super::index::Entry;
use super::partition::Large;
use super::run::{Marks, Parts, RunView};
use super::run_list::{Place, RunRef};
use super::store::Store;
use memory::Handle;
use model::{ClusteringOrder, DecoratedKey};
use mutation::{Direction, Tombstone};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::rc::Rc;

/// Runs that one reading visits.
const RUNS_MAX: usize = 24;

/// Rows of runs, by index.
type Read = SmallVec<[(Handle, Range<usize>); 8]>;

/// A partition of several runs, borrowed from the cache.
pub(crate) struct RunsView<'a> {
    pub(crate) tombstone: Tombstone,
    /// A row blob; empty: none.
    pub(crate) static_row: &'a [u8],
    store: &'a Store,
    order: &'a ClusteringOrder,
    large: &'a Large,
    /// Which rows were read.
    read: RefCell<Read>,
}

impl TabletCache {
    /// Calls `read` with a partition that is cached in runs. What comes of it counts, and is given
    /// back, if it is something. `read` must not change the cache.
    pub(crate) fn with_runs<R>(
        &self,
        key: &DecoratedKey,
        read: impl FnOnce(&RunsView<'_>) -> Option<R>,
    ) -> Option<R> {
        let store = self.cache.store.borrow();
        let index = &store.tablet(self.id).index;
        let Some(Entry::Large { slot, .. }) = index.get(key.token) else { return None };
        let large = index.large(slot);
        if large.key != key.key {
            return None;
        }
        let view = RunsView {
            tombstone: large.head.tombstone,
            static_row: &large.head.static_row,
            store: &store,
            order: &store.tablet(self.id).order,
            large,
            read: RefCell::default(),
        };
        let result = read(&view)?;
        let read = view.read.take();
        self.note_lookup(&store, true);
        store.stats.add_rows_read(read.iter().map(|(_, rows)| rows.len()).sum(), 0);
        read.iter().for_each(|(handle, _)| store.arena.touch(*handle));
        drop(store);
        let mut store = self.cache.store.borrow_mut();
        read.into_iter().for_each(|(handle, rows)| store.mark_rows(handle, rows));
        Some(result)
    }
}

impl RunsView<'_> {
    /// Calls `each` with the rows between two positions, in that direction, until it breaks.
    /// `None`: not all of them, or not they alone, are here; some may have been given.
    pub(crate) fn visit_rows(
        &self,
        (start, end): (Parts<'_>, Parts<'_>),
        direction: Direction,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        let runs = &self.large.runs;
        if self.order.compare(start, end).is_ge() {
            return Some(ControlFlow::Continue(()));
        }
        let mut place = match direction {
            Direction::Forward => runs.floor(self.order, start)?,
            Direction::Reversed => runs.lower(self.order, end)?,
        };
        // Between the two is what was not given yet.
        let (mut from, mut to) = (start, end);
        for _ in 0..RUNS_MAX {
            let run = runs.at(place);
            let (handle, view) = self.run(run)?;
            let covers = match direction {
                Direction::Forward => {
                    self.order.compare(run.start.as_parts(), from).is_le()
                        && self.order.compare(from, view.end()).is_lt()
                }
                Direction::Reversed => self.order.compare(to, view.end()).is_le(),
            };
            debug_assert!(
                self.order.compare(view.start(), run.start.as_parts()).is_eq(),
                "apart: a run at {:?}",
                run.start
            );
            if !covers || view.has_tombstones() {
                return None;
            }
            let marks = Marks::default();
            let marking = view.marking(&marks);
            let flow = marking.visit_rows(self.order, (from, to), direction, &mut each);
            self.read.borrow_mut().push((handle, marks.rows()));
            let is_last = match direction {
                Direction::Forward => self.order.compare(to, view.end()).is_le(),
                Direction::Reversed => self.order.compare(run.start.as_parts(), from).is_le(),
            };
            if flow.is_break() || is_last {
                return Some(flow);
            }
            place = self.next(place, direction)?;
            debug_assert!(self.order.compare(from, to).is_lt(), "apart: nothing is left");
            match direction {
                Direction::Forward => from = view.end(),
                Direction::Reversed => to = run.start.as_parts(),
            }
        }
        None
    }

    fn run(&self, run: &Rc<RunRef>) -> Option<(Handle, RunView<'_>)> {
        let handle = run.handle.get()?;
        Some((handle, RunView::of(self.store.run_of(run)?)))
    }

    fn next(&self, place: Place, direction: Direction) -> Option<Place> {
        match direction {
            Direction::Forward => self.large.runs.after(Some(place)),
            Direction::Reversed => self.large.runs.before(place),
        }
    }
}
