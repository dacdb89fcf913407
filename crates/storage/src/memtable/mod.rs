//! What was written to one tablet and is not yet in an SSTable.
//!
//! Partitions in ring order; in each, rows in clustering order as immutable blobs that readers
//! share. A write merges its rows with those that are there into new blobs.
//!
//! Invariants
//!  - *logged-first*, *sealed-is-final*: see the crate.
//!  - *nothing-lost*: what a reader sees after a write is the merge of all that was applied;
//!    deletions are kept beside what they cover.
//!  - *snapshots*: a reader holds a partition as it was when it came to it. A write that finds it
//!    held copies what it changes, a few nodes of a tree at most; so a reader sees all of a
//!    mutation of a partition or nothing of it.
//!  - *ring-order*: partitions are read in the order of their tokens, and of keys where tokens
//!    collide.
//!  - *small-steps*: whoever reads is told of rows that take long to be put together.
//!  - *leaves-once*: a memtable leaves memory by being durable, truncated or dropped, once.
//!  - *accounted*: [`Memtable::bytes`] is what its parts take from the allocator. It leaves the
//!    [`Dirty`] that the memtable belongs to when they are freed, not before.
//!
//! Never waits, never does I/O.
//!
//! From the ground up: `footprint`, `tree`, `blob`; `large` (rows in parts), `assembly`, `row`,
//! `rows`, `premerge` (what is merged before a write is applied); `partitions`; `garbage` (what is
//! freed bit by bit), [`dirty`] (memory of all memtables); this; `fetch`, `plain`, `page`, `source`
//! (reading).

mod assembly;
mod blob;
pub(crate) mod dirty;
mod fetch;
mod footprint;
mod garbage;
mod large;
mod page;
mod partitions;
mod plain;
mod premerge;
mod row;
mod rows;
mod source;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use fetch::Step;
pub(crate) use partitions::Number;
pub(crate) use plain::Plain;
pub(crate) use premerge::Premerged;
pub use source::{KeyRange, MemtableSource};

use crate::commitlog::{HeldEntries, SegmentId};
use crate::large_data::{Known, Watch};
use blob::{PartNode, Scratch};
use dirty::Dirty;
use footprint::{Grown, blob_bytes, boxed_bytes};
use garbage::Remains;
use model::{ClusteringOrder, DecoratedKey, TableSchema, Token};
use mutation::{Fragment, FrozenView, RangeTombstone, RangeTombstoneList, Tombstone};
use partitions::{Partitions, SLOT_BYTES};
use reader::ReadError;
use row::Row;
use rows::Rows;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use stdx::Bytes;

/// What a range tombstone takes besides its bounds, in a vector that is two thirds full.
const RANGE_BYTES: usize = size_of::<RangeTombstone>() / 2 * 3;
/// Memtables with more rows, range tombstones and partitions than this are freed gently.
const FREED_AT_ONCE_MAX: usize = 512;

/// The memtable of one tablet.
pub struct Memtable {
    order: Rc<ClusteringOrder>,
    partitions: RefCell<Partitions>,
    scratch: RefCell<Scratch>,
    /// Rows that have become large.
    known: RefCell<Known>,
    bytes: Cell<usize>,
    /// How much of `bytes` is written to an SSTable already.
    spooled: Cell<usize>,
    /// Rows, range tombstones and partitions.
    objects: Cell<usize>,
    /// Whether it has a row that is put together in steps.
    is_huge: Cell<bool>,
    /// What it counts for; in the tests of sources nothing.
    dirty: Option<Rc<Dirty>>,
    /// The oldest timestamp of data that was ever written to it, be it deleted or overwritten by
    /// now: what the log would bring back may be without what came after it.
    oldest_live: Cell<i64>,
    sealed: Cell<bool>,
    held: RefCell<HeldEntries>,
    /// Whether it holds what an earlier run logged.
    replayed: Cell<bool>,
    /// How its flush went so far.
    flush: RefCell<FlushState>,
}

/// How the flush of a memtable stands.
#[derive(Debug, Default)]
pub(crate) enum FlushState {
    /// Not tried, or being tried.
    #[default]
    Due,
    /// Failed; it will be tried again.
    Failed(Rc<ReadError>),
    /// It has left memory for good.
    Done,
}

/// What was written to a partition. A clone shares its rows.
#[derive(Clone)]
pub(crate) struct Partition {
    tombstone: Tombstone,
    static_row: Option<Row>,
    rows: Rows,
    /// `None`: there is none.
    ranges: Option<Rc<RangeTombstoneList>>,
    /// Whether it has a row that is put together in steps.
    is_huge: bool,
}

impl Memtable {
    /// An empty memtable of a table with that order, which counts for nothing.
    pub fn new(order: Rc<ClusteringOrder>) -> Memtable {
        Memtable::of(order, None)
    }

    /// An empty memtable whose bytes count for `dirty`.
    pub(crate) fn counted(order: Rc<ClusteringOrder>, dirty: Rc<Dirty>) -> Memtable {
        Memtable::of(order, Some(dirty))
    }

    fn of(order: Rc<ClusteringOrder>, dirty: Option<Rc<Dirty>>) -> Memtable {
        Memtable {
            order,
            partitions: RefCell::default(),
            scratch: RefCell::default(),
            known: RefCell::default(),
            bytes: Cell::new(0),
            spooled: Cell::new(0),
            objects: Cell::new(0),
            is_huge: Cell::new(false),
            dirty,
            oldest_live: Cell::new(i64::MAX),
            sealed: Cell::new(false),
            held: RefCell::new(HeldEntries::default()),
            replayed: Cell::new(false),
            flush: RefCell::default(),
        }
    }

    /// How much memory it takes.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.partitions.borrow().is_empty()
    }
    /// How many partitions it has.
    pub fn partition_count(&self) -> usize {
        self.partitions.borrow().len()
    }
    /// Whether anything was written to a partition.
    pub(crate) fn contains(&self, key: &DecoratedKey) -> bool {
        self.partitions.borrow().get(key).is_some()
    }
    /// Whether anything was written to a partition with a token in a range.
    pub(crate) fn meets(&self, (after, last): (Token, Token)) -> bool {
        debug_assert!(after <= last, "ring-order: a range after {after:?} to {last:?}");
        let first = if after == Token::MIN { after } else { Token(after.0.saturating_add(1)) };
        let partitions = self.partitions.borrow();
        let found = partitions.from(first).next();
        found.is_some_and(|number| partitions.at(number).0.token <= last)
    }

    /// Whether it has a partition in one of these ranges.
    pub(crate) fn meets_any(&self, mut ranges: impl Iterator<Item = (Token, Token)>) -> bool {
        ranges.any(|range| self.meets(range))
    }

    /// Whether a partition has rows so large that they are put together in steps: they are read
    /// through a source.
    pub(crate) fn has_huge_rows(&self, key: &DecoratedKey) -> bool {
        debug_assert!(
            self.is_huge.get() || !self.partitions.borrow().get(key).is_some_and(|one| one.is_huge),
            "small-steps: nobody knows of {key:?}"
        );
        self.is_huge.get() && self.partitions.borrow().get(key).is_some_and(|one| one.is_huge)
    }
    /// The oldest timestamp of data, deletions left out, that was ever written to it, in the unit
    /// of its writers; `i64::MAX` where there is none.
    pub(crate) fn oldest_live(&self) -> i64 {
        self.oldest_live.get()
    }
    /// Ends its life as a place to write to.
    pub(crate) fn seal(&self) {
        assert!(!self.sealed.replace(true), "sealed-is-final: it is sealed twice");
    }
    /// Whether nothing is written to it any more.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.get()
    }
    /// The log entries that it holds.
    pub(crate) fn held(&self) -> HeldEntries {
        self.held.borrow().clone()
    }
    /// The newest segment of the log that it holds entries of.
    pub(crate) fn newest_segment(&self) -> Option<SegmentId> {
        self.held.borrow().counts.iter().map(|(segment, _)| *segment).max()
    }
    /// Whether it holds entries of that segment of the log, or of an older one.
    pub(crate) fn holds_up_to(&self, segment: SegmentId) -> bool {
        self.held.borrow().counts.iter().any(|(held, _)| *held <= segment)
    }
    /// Notes that an applied mutation has its entry in that segment.
    pub(crate) fn hold(&self, segment: SegmentId) {
        assert!(!self.sealed.get(), "sealed-is-final: an entry of {segment:?}");
        self.held.borrow_mut().add(segment, 1);
    }

    /// Notes that it holds what an earlier run logged; whether that is news.
    pub(crate) fn mark_replayed(&self) -> bool {
        assert!(!self.sealed.get(), "sealed-is-final: something is replayed");
        !self.replayed.replace(true)
    }
    pub(crate) fn is_replayed(&self) -> bool {
        self.replayed.get()
    }
    pub(crate) fn fail(&self, error: ReadError) {
        assert!(self.sealed.get(), "sealed-is-final: a flush of what is written to fails");
        assert!(
            !matches!(*self.flush.borrow(), FlushState::Done),
            "leaves-once: a flush that is done fails"
        );
        *self.flush.borrow_mut() = FlushState::Failed(Rc::new(error));
    }
    pub(crate) fn finish(&self) {
        assert!(self.sealed.get(), "sealed-is-final: it left while it was written to");
        let before = self.flush.replace(FlushState::Done);
        assert!(!matches!(before, FlushState::Done), "leaves-once: it has left before");
    }
    /// Forgets an earlier failure.
    pub(crate) fn retry(&self) {
        debug_assert!(self.sealed.get(), "sealed-is-final: its flush is tried again");
        let mut state = self.flush.borrow_mut();
        if matches!(*state, FlushState::Failed(_)) {
            *state = FlushState::Due;
        }
    }
    /// How its flush ended, if it did.
    pub(crate) fn flushed(&self) -> Option<Result<(), Rc<ReadError>>> {
        match &*self.flush.borrow() {
            FlushState::Due => None,
            FlushState::Failed(error) => Some(Err(error.clone())),
            FlushState::Done => Some(Ok(())),
        }
    }

    /// A partition as it is now (*snapshots*).
    pub(crate) fn snapshot(&self, key: &DecoratedKey) -> Option<Rc<Partition>> {
        self.partitions.borrow().get(key).cloned()
    }

    /// Merges a checked mutation of one of this tablet's partitions, whose key is `key`. Returns
    /// by how many bytes the memtable has grown; it may have shrunk.
    pub fn apply(&self, schema: &TableSchema, key: DecoratedKey, view: &FrozenView<'_>) -> isize {
        self.apply_watched(schema, key, view, Watch::NONE, Premerged::default())
    }

    /// The same, and notes rows that have become large. `ahead`: those of its rows that are merged
    /// already.
    pub(crate) fn apply_watched(
        &self,
        schema: &TableSchema,
        key: DecoratedKey,
        view: &FrozenView<'_>,
        watch: Watch,
        mut ahead: Premerged,
    ) -> isize {
        assert!(!self.sealed.get(), "sealed-is-final");
        debug_assert!(key.key[..] == *view.key(), "a mutation of another partition: {key:?}");
        debug_assert!(
            key.token == Token::of(&key.key),
            "ring-order: a token of another key: {key:?}"
        );
        let mut partitions = self.partitions.borrow_mut();
        let mut scratch = self.scratch.borrow_mut();
        let mut grown = Grown::default();
        let mut added = 0;
        if let Some(oldest) = ahead.oldest() {
            self.note_oldest(oldest);
        }
        let shared = partitions.entry(key, || {
            added += 1;
            grown.add(blob_bytes(view.key().len()) + boxed_bytes::<Partition>() + SLOT_BYTES);
            Rc::new(Partition::new())
        });
        if ahead.put_whole((&mut *shared, added != 0), &mut scratch, &mut grown) {
            added += ahead.rows_added();
        } else {
            let change = (&mut *scratch, &mut grown);
            added += self.merge_into(Rc::make_mut(shared), (schema, view), watch, ahead, change);
        }
        debug_assert!(
            view.rows().all(|(key, _)| shared.rows.get(&self.order, key).is_some()),
            "nothing-lost: a row of {added} that were added"
        );
        self.objects.set(self.objects.get() + added);
        if std::mem::take(&mut scratch.is_huge) {
            Rc::make_mut(shared).is_huge = true;
            self.is_huge.set(true);
        }
        let before = self.bytes.get();
        debug_assert!(
            before.checked_add_signed(grown.bytes()).is_some(),
            "accounted: {before} bytes, and {grown:?}"
        );
        self.bytes.set(before.saturating_add_signed(grown.bytes()));
        let grown = self.bytes.get() as isize - before as isize;
        if scratch.litter.is_empty() {
            self.count(grown);
        } else {
            let litter = std::mem::take(&mut scratch.litter);
            let bytes = litter.iter().map(|(_, bytes)| bytes).sum();
            self.count(grown + bytes as isize);
            self.free_gently(litter, bytes);
        }
        grown
    }

    /// Merges a mutation into its partition; how many rows are new, and range
    /// tombstones at most.
    fn merge_into(
        &self,
        partition: &mut Partition,
        (schema, view): (&TableSchema, &FrozenView<'_>),
        watch: Watch,
        mut ahead: Premerged,
        (scratch, grown): (&mut Scratch, &mut Grown),
    ) -> usize {
        let mut added = 0;
        let looks = ahead.oldest().is_none();
        partition.tombstone = partition.tombstone.merge(view.tombstone());
        if let Some(row) = view.static_row() {
            if looks {
                self.note_oldest(row.oldest_live());
            }
            let merged = ahead.next();
            match &mut partition.static_row {
                Some(old) => old.merge_or_put(merged, (schema, row), scratch, grown),
                none => *none = Some(Row::first(row, merged, scratch, grown)),
            }
            if let Some(merged) = partition.static_row.as_ref()
                && watch.bytes < merged.len()
            {
                self.note(schema, (view.key(), &[]), merged, watch);
            }
        }
        for range in view.ranges() {
            added += 1;
            partition.delete(&self.order, range, grown);
        }
        for (key, row) in view.rows() {
            if looks {
                self.note_oldest(row.oldest_live());
            }
            let mut merged = ahead.next();
            let first = |grown: &mut Grown| Row::first(row, merged.take(), scratch, grown);
            match partition.rows.entry(&self.order, key, first, grown) {
                Some(old) => {
                    old.merge_or_put(merged, (schema, row), scratch, grown);
                    if watch.bytes < old.len() {
                        self.note(schema, (view.key(), key), old, watch);
                    }
                }
                None => added += 1,
            }
        }
        debug_assert!(ahead.is_used_up(), "same-row: what was merged ahead is left");
        added
    }

    #[inline]
    fn note_oldest(&self, timestamp: i64) {
        self.oldest_live.set(self.oldest_live.get().min(timestamp));
    }

    /// Notes how large a row has become, where that is of interest.
    #[cold]
    fn note(&self, schema: &TableSchema, place: (&[u8], &[u8]), row: &Row, watch: Watch) {
        debug_assert!(watch.bytes < row.len(), "pays-who-asks: a row of {}", row.len());
        let collections = row.collections();
        let named = collections.iter().filter_map(|(id, count)| {
            let column = schema.column_by_id(*id).filter(|column| column.ty.is_collection())?;
            Some((column.name.as_str(), *count))
        });
        let bytes = row.len() as u64;
        self.known.borrow_mut().note(place, watch, bytes, named);
        let is_noted = bytes <= watch.row_bytes || !self.known.borrow().is_empty();
        debug_assert!(is_noted, "next-one: nobody will know of a row of {bytes} bytes");
    }

    /// Rows that have become large in it.
    pub(crate) fn known(&self) -> Ref<'_, Known> {
        self.known.borrow()
    }

    /// Tells the pool that so much more, or less, is taken.
    fn count(&self, bytes: isize) {
        if let Some(dirty) = &self.dirty {
            dirty.grow(bytes);
        }
    }

    /// Lets go of collections that are deleted, of so many bytes, which counted for the memtable.
    fn free_gently(&self, litter: Vec<(Rc<PartNode>, usize)>, bytes: usize) {
        let Some(dirty) = &self.dirty else { return };
        debug_assert!(!litter.is_empty(), "accounted: nothing is left to be freed");
        let nodes = litter.into_iter().map(|(node, _)| node).collect();
        dirty.free_gently(Remains::of_parts(nodes, bytes), bytes, 0);
    }

    /// Notes that a flush has written a fragment of it.
    pub(crate) fn spool(&self, fragment: &Fragment) {
        debug_assert!(self.sealed.get(), "sealed-is-final: it is flushed before");
        let bytes = match fragment {
            Fragment::PartitionStart { key, .. } => {
                blob_bytes(key.key.len()) + boxed_bytes::<Partition>() + SLOT_BYTES
            }
            Fragment::StaticRow { row } => blob_bytes(row.len()),
            Fragment::Row { key, row } => {
                blob_bytes(key.len()) + blob_bytes(row.len()) + size_of::<(Bytes, Row)>()
            }
            Fragment::RangeTombstoneChange { .. } => RANGE_BYTES / 2,
            Fragment::PartitionEnd => 0,
        };
        self.set_spooled((self.spooled.get() + bytes).min(self.bytes.get()));
    }

    /// Notes that all of it is written, or has to be written again.
    pub(crate) fn set_all_spooled(&self, all: bool) {
        self.set_spooled(if all { self.bytes.get() } else { 0 });
    }

    fn set_spooled(&self, bytes: usize) {
        debug_assert!(bytes <= self.bytes.get(), "accounted: {bytes} are spooled");
        let before = self.spooled.replace(bytes);
        if let Some(dirty) = &self.dirty {
            dirty.spool(bytes as isize - before as isize);
        }
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        let Some(dirty) = &self.dirty else { return };
        let (bytes, spooled) = (self.bytes.get(), self.spooled.get());
        debug_assert!(spooled <= bytes, "accounted: {spooled} of {bytes} are spooled");
        let partitions = std::mem::take(self.partitions.get_mut());
        if self.objects.get() <= FREED_AT_ONCE_MAX {
            drop(partitions);
            dirty.freed(bytes, spooled);
        } else {
            let remains = Remains::new(partitions, self.objects.get());
            dirty.free_gently(remains, bytes, spooled);
        }
    }
}

impl Partition {
    fn new() -> Partition {
        Partition {
            tombstone: Tombstone::NONE,
            static_row: None,
            rows: Rows::new(),
            ranges: None,
            is_huge: false,
        }
    }

    fn delete(&mut self, order: &ClusteringOrder, range: RangeTombstone, grown: &mut Grown) {
        let bounds = &range.range;
        let prefixes = blob_bytes(bounds.start.prefix.len()) + blob_bytes(bounds.end.prefix.len());
        let list = Rc::make_mut(self.ranges.get_or_insert_default());
        let before = list.len();
        list.insert(order, range);
        if before < list.len() {
            grown.add((list.len() - before) * RANGE_BYTES + prefixes);
        }
    }
}
