//! A cached partition: one object when it is small and wholly known; otherwise a head and a
//! copy-on-write list of runs.
//!
//! ```text
//! whole  := tablet:be32 flags:u8 key:vint_bytes [ts:be64 deletion_time:be64] [static:vint_bytes]
//!           run                             flags: 01 partition tombstone | 02 static row
//! part   := slot:be32 run                   the slot of its [`RunRef`]
//! ```
//!
//! Invariants
//!  - *lives-by-name*: the object of a run lives until no list names its [`RunRef`], or until it
//!    is evicted; then all lists that name it see a gap there. If but one list names it, and
//!    nobody reads that list, its object may be exchanged for another of the same interval.
//!  - *apart*: the runs of a list ascend and do not overlap.
//!  - *snapshot*: a list that somebody else holds is never changed: `Rc::make_mut`.

use super::RowCache;
use super::evict::Garbage;
use super::run::{Marks, Parts, RunView};
use super::store::TabletId;
use memory::Handle;
use model::{ClusteringOrder, Token};
use mutation::{ClusteringPosition, Tombstone};
use std::cell::Cell;
use std::rc::Rc;
use stdx::{Bytes, Cursor, Damaged, Put};

/// The kind of an arena object: a whole partition.
pub(super) const WHOLE: u8 = 1;
/// The kind of an arena object: a run of a large partition.
pub(super) const PART: u8 = 2;

const HAS_TOMBSTONE: u8 = 0x01;
const HAS_STATIC: u8 = 0x02;

/// Runs in a chunk of a list, at most.
const CHUNK_RUNS_MAX: usize = 64;
/// How far [`RunList::floor_near`] goes from run to run before it searches.
const NEAR_MAX: usize = 3;
/// Bytes of a part before its run.
pub(super) const PART_HEAD_BYTES: usize = 4;

/// What a partition has beside its rows. Known as soon as the partition is.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) tombstone: Tombstone,
    /// Empty: none.
    pub(super) static_row: Bytes,
}

/// A view of a whole partition's object.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeView<'a> {
    pub(super) tablet: TabletId,
    pub(super) key: &'a [u8],
    pub(super) tombstone: Tombstone,
    pub(super) static_row: &'a [u8],
    /// Where the run begins in the object.
    pub(super) run_at: usize,
    bytes: &'a [u8],
}

impl<'a> WholeView<'a> {
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> WholeView<'a> {
        WholeView::read(bytes).expect("own-bytes: `write_whole` wrote them")
    }

    fn read(bytes: &'a [u8]) -> Result<WholeView<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let tablet = TabletId(cursor.u32("tablet")?);
        let flags = cursor.u8("flags")?;
        let key = cursor.vint_bytes("key")?;
        let mut tombstone = Tombstone::NONE;
        if flags & HAS_TOMBSTONE != 0 {
            let timestamp = cursor.i64("timestamp")?;
            tombstone = Tombstone { timestamp, deletion_time: cursor.i64("deletion time")? };
        }
        let static_row = match flags & HAS_STATIC {
            0 => &[],
            _ => cursor.vint_bytes("static row")?,
        };
        let run_at = cursor.offset();
        Ok(WholeView { tablet, key, tombstone, static_row, run_at, bytes })
    }

    #[inline]
    pub(super) fn run(&self) -> RunView<'a> {
        RunView::of(&self.bytes[self.run_at..])
    }
    pub(super) fn head(&self) -> Head {
        Head { tombstone: self.tombstone, static_row: Bytes::copy_from(self.static_row) }
    }
    /// Whether it is known not to exist.
    pub(super) fn is_absent(&self) -> bool {
        self.tombstone.is_none() && self.static_row.is_empty() && self.run().is_empty()
    }
}

/// Appends all of a whole partition's object but its run.
pub(super) fn write_whole(
    out: &mut Vec<u8>,
    tablet: TabletId,
    key: &[u8],
    (tombstone, static_row): (Tombstone, &[u8]),
) {
    let mut flags = if tombstone.is_none() { 0 } else { HAS_TOMBSTONE };
    flags |= if static_row.is_empty() { 0 } else { HAS_STATIC };
    out.put_u32(tablet.0);
    out.put_u8(flags);
    out.put_vint_bytes(key);
    if !tombstone.is_none() {
        out.put_i64(tombstone.timestamp);
        out.put_i64(tombstone.deletion_time);
    }
    if !static_row.is_empty() {
        out.put_vint_bytes(static_row);
    }
}

/// The slot of a part, and its run.
pub(super) fn read_part(bytes: &[u8]) -> (u32, &[u8]) {
    let (slot, run) = bytes.split_first_chunk().expect("own-bytes: a part has a slot");
    (u32::from_be_bytes(*slot), run)
}

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    chunk: usize,
    index: usize,
}

impl RunList {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
    #[cfg(test)]
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
                None => return Some(place),
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
    }

    /// Takes that very run out; whether it was there.
    pub(super) fn remove(&mut self, order: &ClusteringOrder, run: &Rc<RunRef>) -> bool {
        let place = self.place_of(order, run, None);
        place.inspect(|place| self.remove_at(*place)).is_some()
    }

    fn remove_at(&mut self, place: Place) {
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

/// A partition that is not one object.
#[derive(Debug)]
pub(super) struct Large {
    pub(super) key: Bytes,
    pub(super) head: Head,
    pub(super) runs: Rc<RunList>,
}

impl Large {
    /// About what it takes on the heap, without its runs.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Large>() + 96 + self.key.len() + self.head.static_row.len()
    }
}

/// One run, copied out of the cache.
#[derive(Debug)]
pub(crate) struct Run {
    bytes: Bytes,
    marks: Marks,
    /// Where it was copied from, if that is a run of a list.
    origin: Option<(Rc<RowCache>, Rc<RunRef>)>,
}

impl Run {
    /// Of the bytes of a run.
    pub(super) fn new(bytes: Bytes, origin: Option<(Rc<RowCache>, Rc<RunRef>)>) -> Run {
        Run { bytes, marks: Marks::default(), origin }
    }
    /// What it says.
    pub(crate) fn view(&self) -> RunView<'_> {
        RunView::of(&self.bytes).marking(&self.marks)
    }
    /// A part of what `view` gave, shared.
    pub(crate) fn share(&self, part: &[u8]) -> Bytes {
        self.bytes.slice_ref(part)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Which rows were wanted decides which stay when the run's turn comes.
        if let Some((cache, run)) = &self.origin
            && let Some(handle) = run.handle.get()
            && let Ok(mut store) = cache.store.try_borrow_mut()
        {
            store.mark_rows(handle, self.marks.rows());
        }
    }
}

/// What comes next in a partition.
#[derive(Debug)]
pub(crate) enum Stretch {
    /// All of an interval that holds the position asked for; it may begin before it.
    Known(Run),
    /// Nothing is known of what lies from `from` up to `to`, in table order.
    Gap { from: ClusteringPosition, to: ClusteringPosition },
    /// The position asked for is the end of the partition, in that direction.
    End,
}
