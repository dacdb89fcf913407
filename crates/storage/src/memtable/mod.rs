//! What was written to one tablet and is not yet in an SSTable.
//!
//! Partitions in ring order; in each, rows in clustering order as immutable blobs that readers
//! share. A write merges its rows with those that are there into new blobs.
//!
//! Invariants
//!  - *logged-first*, *sealed-is-final*: see the crate.
//!  - *nothing-lost*: what a reader sees after a write is the merge of all that was applied;
//!    deletions are kept beside what they cover.
//!
//! Never waits, never does I/O.

mod rows;
mod source;
#[cfg(test)]
mod tests;

pub use source::{KeyRange, MemtableSource};

use crate::commitlog::{HeldEntries, SegmentId};
use model::{ClusteringOrder, DecoratedKey, TableSchema};
use mutation::{FrozenView, RangeTombstoneList, RowView, Tombstone};
use reader::ReadError;
use rows::Rows;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::Bytes;

/// About what a partition costs besides its bytes.
const PARTITION_BYTES: usize = 192;
/// About what a row costs besides its bytes.
const ROW_BYTES: usize = 96;
/// About what a range tombstone costs.
const RANGE_BYTES: usize = 128;

/// The memtable of one tablet.
pub struct Memtable {
    order: Rc<ClusteringOrder>,
    partitions: RefCell<BTreeMap<DecoratedKey, Partition>>,
    /// Merged rows are put together here.
    scratch: RefCell<Vec<u8>>,
    bytes: Cell<usize>,
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

struct Partition {
    tombstone: Tombstone,
    static_row: Bytes,
    rows: Rows,
    ranges: RangeTombstoneList,
}

impl Memtable {
    /// An empty memtable of a table with that order.
    pub fn new(order: Rc<ClusteringOrder>) -> Memtable {
        Memtable {
            order,
            partitions: RefCell::new(BTreeMap::new()),
            scratch: RefCell::new(Vec::new()),
            bytes: Cell::new(0),
            sealed: Cell::new(false),
            held: RefCell::new(HeldEntries::default()),
            replayed: Cell::new(false),
            flush: RefCell::default(),
        }
    }

    /// About how much memory it takes.
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
        self.partitions.borrow().contains_key(key)
    }
    /// Ends its life as a place to write to.
    pub(crate) fn seal(&self) {
        self.sealed.set(true);
    }
    /// The log entries that it holds.
    pub(crate) fn held(&self) -> HeldEntries {
        self.held.borrow().clone()
    }
    /// Notes that an applied mutation has its entry in that segment.
    pub(crate) fn hold(&self, segment: SegmentId) {
        self.held.borrow_mut().add(segment, 1);
    }

    /// Notes that it holds what an earlier run logged; whether that is news.
    pub(crate) fn mark_replayed(&self) -> bool {
        !self.replayed.replace(true)
    }
    pub(crate) fn is_replayed(&self) -> bool {
        self.replayed.get()
    }
    pub(crate) fn fail(&self, error: ReadError) {
        *self.flush.borrow_mut() = FlushState::Failed(Rc::new(error));
    }
    pub(crate) fn finish(&self) {
        *self.flush.borrow_mut() = FlushState::Done;
    }
    /// Forgets an earlier failure.
    pub(crate) fn retry(&self) {
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

    /// Merges a checked mutation of one of this tablet's partitions, whose key is `key`. Returns
    /// by how many bytes the memtable has grown.
    pub fn apply(&self, schema: &TableSchema, key: DecoratedKey, view: &FrozenView<'_>) -> usize {
        assert!(!self.sealed.get(), "sealed-is-final");
        let mut partitions = self.partitions.borrow_mut();
        let mut scratch = self.scratch.borrow_mut();
        let mut grown = 0;
        let partition = partitions.entry(key).or_insert_with(|| {
            grown += view.key().len() + PARTITION_BYTES;
            Partition::new()
        });
        partition.tombstone = partition.tombstone.merge(view.tombstone());
        if let Some(row) = view.static_row() {
            let before = partition.static_row.len();
            merge_row(schema, &mut partition.static_row, row, &mut scratch);
            grown += partition.static_row.len().saturating_sub(before);
        }
        for range in view.ranges() {
            partition.ranges.insert(&self.order, range);
            grown += RANGE_BYTES;
        }
        for (key, row) in view.rows() {
            let slot = partition.rows.entry(&self.order, key);
            if slot.is_empty() {
                grown += key.len() + ROW_BYTES;
            }
            let before = slot.len();
            merge_row(schema, slot, row, &mut scratch);
            grown += slot.len().saturating_sub(before);
        }
        self.bytes.set(self.bytes.get() + grown);
        grown
    }
}

impl Partition {
    fn new() -> Partition {
        Partition {
            tombstone: Tombstone::NONE,
            static_row: Bytes::new(),
            rows: Rows::new(),
            ranges: RangeTombstoneList::new(),
        }
    }
}

/// Makes `slot` (empty: no row yet) the merge of itself and `row`.
fn merge_row(schema: &TableSchema, slot: &mut Bytes, row: RowView<'_>, scratch: &mut Vec<u8>) {
    if slot.is_empty() {
        *slot = Bytes::copy_from(row.bytes());
        return;
    }
    scratch.clear();
    mutation::row::merge(schema, RowView::trusted(slot), row, scratch);
    if scratch[..] != slot[..] {
        *slot = Bytes::copy_from(scratch);
    }
}
