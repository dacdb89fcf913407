//! A partition as a reader found it, to be read run by run.
//!
//! Invariants
//!  - *stays*: what it gives as known is what was known when it was taken, whatever is merged
//!    since; only eviction may turn known into gap.
//!  - *goes-on*: what comes next at a position reaches beyond it.

use super::partition::{Head, Large, Run, Stretch, WholeView};
use super::run::{Parts, RunView, is_end, is_start, owned};
use super::run_list::{Garbage, Place, RunList};
use super::store::Store;
use super::{RowCache, TabletCache};
use model::ClusteringOrder;
use mutation::{Direction, Tombstone};
use std::rc::Rc;
use stdx::Bytes;

const START: Parts<'static> = (&[], -1);
const END: Parts<'static> = (&[], 1);

/// See the module.
pub(crate) struct Snapshot {
    pub(crate) tombstone: Tombstone,
    /// A row blob; empty: none.
    pub(crate) static_row: Bytes,
    rows: Rows,
}

enum Rows {
    Whole(Bytes),
    Runs(Runs),
}

/// Runs that are read while the cache changes.
struct Runs {
    cache: Rc<RowCache>,
    order: Rc<ClusteringOrder>,
    list: Rc<RunList>,
    garbage: Rc<Garbage>,
}

impl Drop for Runs {
    fn drop(&mut self) {
        // The last one to hold a long list does not free it in one go.
        self.garbage.add_list(std::mem::take(&mut self.list));
    }
}

impl Snapshot {
    pub(super) fn of_whole(_: &TabletCache, object: &[u8]) -> Snapshot {
        let bytes = Bytes::copy_from(object);
        let view = WholeView::of(&bytes);
        let run = bytes.slice(view.run_at..bytes.len());
        let static_row = bytes.slice_ref(view.static_row);
        Snapshot { tombstone: view.tombstone, static_row, rows: Rows::Whole(run) }
    }

    pub(super) fn of_large(tablet: &TabletCache, large: &Large) -> Snapshot {
        let Head { tombstone, static_row } = large.head.clone();
        let (cache, order) = (tablet.cache.clone(), tablet.order().clone());
        let garbage = cache.store.borrow().garbage.clone();
        let runs = Runs { cache, order, list: large.runs.clone(), garbage };
        Snapshot { tombstone, static_row, rows: Rows::Runs(runs) }
    }

    /// What comes next at a position: forward, what begins there or holds it; reversed, what ends
    /// there or holds what lies just before it. A run may reach to both sides of the position.
    /// Costs a copy of one run.
    pub(crate) fn next(&self, from: Parts<'_>, direction: Direction) -> Stretch {
        let last = match direction {
            Direction::Forward => is_end(from),
            Direction::Reversed => is_start(from),
        };
        match &self.rows {
            _ if last => Stretch::End,
            Rows::Whole(run) => Stretch::Known(Run::new(run.clone(), None)),
            Rows::Runs(runs) => {
                let store = runs.cache.store.borrow();
                let next = match direction {
                    Direction::Forward => runs.forward(&store, from),
                    Direction::Reversed => runs.backward(&store, from),
                };
                debug_assert!(runs.is_at(&next, from, direction), "goes-on: {next:?} at {from:?}");
                next
            }
        }
    }
}

impl Runs {
    fn forward(&self, store: &Store, from: Parts<'_>) -> Stretch {
        let floor = self.list.floor(&self.order, from);
        if let Some(place) = floor
            && let Some(bytes) = store.run_of(self.list.at(place))
            && self.order.compare(from, RunView::of(bytes).end()).is_lt()
        {
            return self.known(store, place, bytes);
        }
        let mut place = self.list.after(floor);
        while let Some(at) = place {
            let run = self.list.at(at);
            debug_assert!(
                self.order.compare(from, run.start.as_parts()).is_lt(),
                "apart: a run after the position begins before it"
            );
            if run.handle.get().is_some() {
                return gap(from, run.start.as_parts());
            }
            place = self.list.after(Some(at));
        }
        gap(from, END)
    }

    fn backward(&self, store: &Store, from: Parts<'_>) -> Stretch {
        let mut place = self.list.lower(&self.order, from);
        while let Some(at) = place {
            debug_assert!(
                self.order.compare(self.list.at(at).start.as_parts(), from).is_lt(),
                "apart: a run before the position begins after it"
            );
            if let Some(bytes) = store.run_of(self.list.at(at)) {
                let end = RunView::of(bytes).end();
                return match self.order.compare(end, from).is_lt() {
                    true => gap(end, from),
                    false => self.known(store, at, bytes),
                };
            }
            place = self.list.before(at);
        }
        gap(START, from)
    }

    /// Whether a stretch has something of what lies behind a position, right from there on.
    fn is_at(&self, next: &Stretch, from: Parts<'_>, direction: Direction) -> bool {
        let (start, end) = match next {
            Stretch::Known(run) => (run.view().start(), run.view().end()),
            Stretch::Gap { from, to } => (from.as_parts(), to.as_parts()),
            Stretch::End => return false,
        };
        let (to_start, to_end) = (self.order.compare(start, from), self.order.compare(from, end));
        match direction {
            Direction::Forward => to_start.is_le() && to_end.is_lt(),
            Direction::Reversed => to_start.is_lt() && to_end.is_le(),
        }
    }

    fn known(&self, store: &Store, place: Place, bytes: &[u8]) -> Stretch {
        let run = self.list.at(place).clone();
        debug_assert!(run.handle.get().is_some(), "lives-by-name: an evicted run is known");
        debug_assert!(
            self.order.compare(RunView::of(bytes).start(), run.start.as_parts()).is_eq(),
            "apart: a run at {:?}",
            run.start
        );
        if let Some(handle) = run.handle.get() {
            store.arena.touch(handle);
        }
        Stretch::Known(Run::new(Bytes::copy_from(bytes), Some((self.cache.clone(), run))))
    }
}

fn gap(from: Parts<'_>, to: Parts<'_>) -> Stretch {
    Stretch::Gap { from: owned(from), to: owned(to) }
}
