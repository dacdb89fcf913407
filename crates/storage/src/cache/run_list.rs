//! The runs of a large partition: their names, and copy-on-write lists of these.
//!
//! Invariants
//!  - *lives-by-name*: the object of a run lives until no list names its [`RunRef`], or until it
//!    is evicted; then all lists that name it see a gap there. If but one list names it, and
//!    nobody reads that list, its object may be exchanged for another of the same interval.
//!  - *apart*: the runs of a list ascend and do not overlap.
//!  - *snapshot*: a list that somebody else holds is never changed: `Rc::make_mut`.

use super::TabletId;
use super::run::Parts;
use memory::Handle;
use model::{ClusteringOrder, Token};
use mutation::ClusteringPosition;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Runs in a chunk of a list, at most.
const CHUNK_RUNS_MAX: usize = 64;
/// How far [`RunList::floor_near`] goes from run to run before it searches.
const NEAR_MAX: usize = 3;

/// The name of a run: what lists hold.
#[derive(Debug)]
pub(super) struct RunRef {
    /// Where the run starts.
    pub(super) start: ClusteringPosition,
    /// `None`: evicted.
    pub(super) handle: Cell<Option<Handle>>,
    pub(super) slot: u32,
    /// The partition that it was made for.
    pub(super) owner: (TabletId, Token),
    pub(super) garbage: Rc<Garbage>,
}

impl RunRef {
    /// About what it takes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        heap_bytes_of_run(&self.start)
    }
}

/// About what the name of a run that starts there takes on the heap, with its place in a list.
pub(super) fn heap_bytes_of_run(start: &ClusteringPosition) -> usize {
    size_of::<RunRef>() + 48 + start.prefix.len()
}

impl Drop for RunRef {
    fn drop(&mut self) {
        let bytes = self.heap_bytes();
        debug_assert!(
            self.garbage.dropped.borrow().iter().all(|(slot, ..)| *slot != self.slot),
            "lives-by-name: slot {} is garbage twice",
            self.slot
        );
        self.garbage.dropped.borrow_mut().push((self.slot, self.handle.get(), bytes));
    }
}

type Chunk = Vec<Rc<RunRef>>;

/// The runs of a partition, by where they start. Cloning it costs a pointer per 64 runs.
#[derive(Clone, Debug, Default)]
pub(super) struct RunList {
    chunks: Vec<Rc<Chunk>>,
}

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    chunk: usize,
    index: usize,
}

impl RunList {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Rc<RunRef>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
    /// The only run, if there is but one.
    pub(super) fn single(&self) -> Option<&Rc<RunRef>> {
        match &self.chunks[..] {
            [chunk] if chunk.len() == 1 => chunk.first(),
            _ => None,
        }
    }

    /// The last run that starts at or before a position.
    pub(super) fn floor(&self, order: &ClusteringOrder, position: Parts<'_>) -> Option<Place> {
        self.last_where(|run| order.compare(run.start.as_parts(), position).is_le())
    }

    /// The last run that starts before a position.
    pub(super) fn lower(&self, order: &ClusteringOrder, position: Parts<'_>) -> Option<Place> {
        self.last_where(|run| order.compare(run.start.as_parts(), position).is_lt())
    }

    fn last_where(&self, holds: impl Fn(&RunRef) -> bool) -> Option<Place> {
        let chunk = self.chunks.partition_point(|chunk| holds(&chunk[0])).checked_sub(1)?;
        let index = self.chunks[chunk].partition_point(|run| holds(run)) - 1;
        debug_assert!(holds(&self.chunks[chunk][index]), "apart: the last of those that hold");
        Some(Place { chunk, index })
    }

    /// As [`RunList::floor`]; cheap if it is at `near` or soon after.
    pub(super) fn floor_near(
        &self,
        order: &ClusteringOrder,
        position: Parts<'_>,
        near: Option<Place>,
    ) -> Option<Place> {
        let holds = |place: &Place| {
            let run = self.get(*place);
            run.is_some_and(|run| order.compare(run.start.as_parts(), position).is_le())
        };
        let mut floor = near.filter(&holds);
        for _ in 0..NEAR_MAX {
            let Some(place) = floor else { break };
            match self.after(floor).filter(&holds) {
                None => {
                    debug_assert_eq!(floor, self.floor(order, position), "apart: near {place:?}");
                    return Some(place);
                }
                next => floor = next,
            }
        }
        self.floor(order, position)
    }

    /// Where that very run is, if it is there; cheap if it is at `near`.
    pub(super) fn place_of(
        &self,
        order: &ClusteringOrder,
        run: &Rc<RunRef>,
        near: Option<Place>,
    ) -> Option<Place> {
        let is_it = |place: &Place| self.get(*place).is_some_and(|found| Rc::ptr_eq(found, run));
        let found = near.filter(&is_it);
        found.or_else(|| self.floor(order, run.start.as_parts()).filter(&is_it))
    }

    /// Whether no other list names the run at a place.
    pub(super) fn names_alone(&self, place: Place) -> bool {
        Rc::strong_count(&self.chunks[place.chunk]) == 1
    }

    fn get(&self, place: Place) -> Option<&Rc<RunRef>> {
        self.chunks.get(place.chunk)?.get(place.index)
    }
    pub(super) fn at(&self, place: Place) -> &Rc<RunRef> {
        &self.chunks[place.chunk][place.index]
    }
    /// The place after that one; of `None` the first.
    pub(super) fn after(&self, place: Option<Place>) -> Option<Place> {
        let next = match place {
            None => Place { chunk: 0, index: 0 },
            Some(Place { chunk, index }) if index + 1 < self.chunks[chunk].len() => {
                Place { chunk, index: index + 1 }
            }
            Some(Place { chunk, .. }) => Place { chunk: chunk + 1, index: 0 },
        };
        (next.chunk < self.chunks.len()).then_some(next)
    }
    /// The place before that one.
    pub(super) fn before(&self, Place { chunk, index }: Place) -> Option<Place> {
        if 0 < index {
            return Some(Place { chunk, index: index - 1 });
        }
        let chunk = chunk.checked_sub(1)?;
        Some(Place { chunk, index: self.chunks[chunk].len() - 1 })
    }

    /// Adds a run that overlaps none (*apart*).
    pub(super) fn insert(&mut self, order: &ClusteringOrder, run: Rc<RunRef>) {
        let place = self.floor(order, run.start.as_parts());
        debug_assert!(
            place.is_none_or(|place| self.at(place).start.compare(order, &run.start).is_lt()),
            "apart: two runs at {:?}",
            run.start
        );
        debug_assert!(
            self.after(place)
                .is_none_or(|next| { run.start.compare(order, &self.at(next).start).is_lt() }),
            "apart: a run behind {:?}",
            run.start
        );
        let Some(last) = self.chunks.len().checked_sub(1) else {
            self.chunks.push(Rc::new(vec![run]));
            return;
        };
        let (chunk, index) = place.map_or((0, 0), |place| (place.chunk, place.index + 1));
        let full = self.chunks[chunk].len() == CHUNK_RUNS_MAX;
        if full && chunk == last && index == CHUNK_RUNS_MAX {
            self.chunks.push(Rc::new(vec![run]));
            return;
        }
        let runs = Rc::make_mut(&mut self.chunks[chunk]);
        runs.insert(index, run);
        if full {
            let right = runs.split_off(CHUNK_RUNS_MAX / 2);
            self.chunks.insert(chunk + 1, Rc::new(right));
        }
        let len = self.chunks[chunk].len();
        assert!(0 < len && len <= CHUNK_RUNS_MAX, "a chunk of {len} runs");
    }

    /// Takes that very run out; whether it was there.
    pub(super) fn remove(&mut self, order: &ClusteringOrder, run: &Rc<RunRef>) -> bool {
        let place = self.place_of(order, run, None);
        place.inspect(|place| self.remove_at(*place)).is_some()
    }

    fn remove_at(&mut self, place: Place) {
        debug_assert!(self.get(place).is_some(), "apart: nothing is at {place:?}");
        if self.chunks[place.chunk].len() == 1 {
            self.chunks.remove(place.chunk);
        } else {
            Rc::make_mut(&mut self.chunks[place.chunk]).remove(place.index);
        }
    }

    /// Whether it names that very run.
    pub(super) fn names(&self, order: &ClusteringOrder, run: &Rc<RunRef>) -> bool {
        self.place_of(order, run, None).is_some()
    }

    /// Drops its last chunk; whether there was one.
    pub(super) fn drop_chunk(&mut self) -> bool {
        self.chunks.pop().is_some()
    }
}

/// What nobody reads any more and is not yet freed. Shared with the names of runs, which end up
/// in it whoever lets them go.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    /// Of runs: slot, object, and what the name took on the heap.
    pub(super) dropped: RefCell<Vec<(u32, Option<Handle>, usize)>>,
    /// Lists of large partitions.
    pub(super) lists: RefCell<Vec<Rc<RunList>>>,
}

impl Garbage {
    pub(super) fn is_empty(&self) -> bool {
        self.dropped.borrow().is_empty() && self.lists.borrow().is_empty()
    }

    /// Lets go of a list, bit by bit if nobody else has it.
    pub(super) fn add_list(&self, list: Rc<RunList>) {
        debug_assert!(
            list.chunks.iter().all(|chunk| !chunk.is_empty()),
            "lives-by-name: a chunk of no run"
        );
        if Rc::strong_count(&list) == 1 && !list.is_empty() {
            self.lists.borrow_mut().push(list);
        }
    }
}
