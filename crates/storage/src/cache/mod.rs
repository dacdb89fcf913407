//! The row cache of a shard: what its SSTables hold, as far as it was read and memory allows.
//!
//! A tablet's cache mirrors the SSTables of the tablet, not its memtables: a read merges both. Of
//! a partition it knows its tombstone, its static row and some intervals of its rows, each a *run*
//! ([`run`]); what lies between runs is a gap. Runs and small partitions are objects of a
//! [`memory::Arena`], named by handles; the arena's clock says what goes when memory is short.
//!
//! How a reader uses it: [`TabletCache::with_whole`] for a partition that is one object,
//! [`TabletCache::with_runs`] for a few runs of a larger one, else [`TabletCache::find`] and
//! [`Snapshot::next`]; of a range of partitions first
//! [`TabletCache::next_key`]. What it reads below (gaps, unknown partitions) it offers by
//! [`TabletCache::populate`] and [`TabletCache::populate_continuous`], with the phase that it noted
//! *in the step in which it took the set of SSTables that it reads*.
//!
//! Invariants
//!  - *mirror*: what is known of an interval is the merge of what the SSTables of the tablet hold
//!    of it; while an update runs, it may be more by what the sealed memtable holds.
//!  - *phase*: the phase is raised in the step that exchanges the set of SSTables, and by each
//!    invalidation; what was read at another phase never gets in. Phases grow (*phases-grow*).
//!  - *behind-the-update*: of what an update has passed, and is yet to be exchanged, nothing that
//!    was read below gets in.
//!  - *never-stale*: where an update or a population cannot be carried out, what it was about is
//!    forgotten.
//!  - *no-waiting*: no call waits, does I/O or works on without bound; see `UpdateStep` and
//!    [`RowCache::reclaim_step`].
//!
//! From the ground up: `stats`; [`run`] (the bytes of a run), `visit`, `run_list` (the names of
//! runs), `partition`, `ghosts`, `index`, `store`; on it `shed`, `evict` (what goes), `populate`,
//! `update`, `plain` (what comes), `snapshot`, `runs`, `warm` (what is read); [`source`] (a stream
//! of it, and of what lies below).

mod evict;
mod ghosts;
mod index;
mod partition;
mod plain;
mod populate;
pub(crate) mod run;
mod run_list;
mod runs;
mod shed;
mod snapshot;
pub(crate) mod source;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod update;
mod visit;
mod warm;

pub(crate) use partition::{Run, Stretch};
pub(crate) use populate::Populate;
pub(crate) use run::RunView;
pub(crate) use runs::RunsView;
pub(crate) use snapshot::Snapshot;
pub use stats::RowCacheStats;
pub(crate) use update::{Update, UpdateStep};
pub(crate) use visit::Piece;
pub use warm::WarmPartition;

use index::Known;
use memory::Handle;
use model::{ClusteringOrder, DecoratedKey, TableSchema, Token};
use mutation::{RingBound, Tombstone};
use partition::{Head, WholeView};
use run::{Draft, Marks};
use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::rc::Rc;
use stdx::Bytes;
use store::Store;

/// Which content the SSTables of a tablet have: it changes with each exchange of their set that
/// is no compaction, and with each invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase(pub(crate) u64);

/// Names a tablet of the cache. Used again once the tablet is dropped: then its objects are
/// garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TabletId(u32);

/// The row cache of a shard.
pub(crate) struct RowCache {
    store: RefCell<Store>,
    /// The buffers of a population that ended, for the next one.
    spare_draft: Cell<Option<Draft>>,
}

impl fmt::Debug for RowCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowCache")
    }
}

impl RowCache {
    /// A cache that may hold `limit` bytes now, and up to `reserve_bytes` later.
    pub(crate) fn new(reserve_bytes: usize, limit: usize) -> Rc<RowCache> {
        let store = RefCell::new(Store::new(reserve_bytes, limit));
        Rc::new(RowCache { store, spare_draft: Cell::default() })
    }

    /// How many bytes it may hold from now on. Frees nothing: [`RowCache::reclaim_step`] does.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.store.borrow_mut().set_limit(limit);
    }
    /// Whether [`RowCache::reclaim_step`] would find work.
    pub(crate) fn is_to_reclaim(&self) -> bool {
        self.store.borrow().is_to_reclaim()
    }
    /// Bytes of the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.store.borrow().heap_bytes()
    }
    /// What it holds and has done.
    pub(crate) fn stats(&self) -> RowCacheStats {
        self.store.borrow().stats()
    }
    /// Frees garbage and, over the limit, what is coldest: at most some dozens of microseconds of
    /// work. Whether there is more to do.
    pub(crate) fn reclaim_step(&self) -> bool {
        self.store.borrow_mut().reclaim_step()
    }

    /// A cache of the tablet with the tokens after the first one, up to the second one. Dropping
    /// the last reference makes garbage of all of it.
    pub(crate) fn open(
        self: &Rc<Self>,
        order: Rc<ClusteringOrder>,
        range: (Token, Token),
    ) -> Rc<TabletCache> {
        let id = self.store.borrow_mut().add_tablet(order.clone(), range);
        let lookups = Cell::default();
        let order = RefCell::new(order);
        Rc::new(TabletCache { cache: self.clone(), id, order, lookups })
    }

    /// Counts rows that a reader found here, and rows that it read below.
    pub(crate) fn count_rows(&self, hits: usize, misses: usize) {
        self.store.borrow().stats.add_rows_read(hits, misses);
    }
    /// A read begins.
    pub(crate) fn count_read(&self) {
        self.store.borrow().stats.add_read();
    }

    /// Counts a read that had to read below.
    pub(crate) fn count_read_with_misses(&self) {
        self.store.borrow().stats.add_read_with_misses();
    }
    /// Counts what a reader read below and did not offer.
    pub(crate) fn count_mispopulation(&self) {
        self.store.borrow().stats.add_mispopulation();
    }
}

/// What is cached of one tablet.
pub(crate) struct TabletCache {
    cache: Rc<RowCache>,
    id: TabletId,
    order: RefCell<Rc<ClusteringOrder>>,
    lookups: Cell<CacheLookups>,
}

/// Partitions that were looked up in what is cached of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLookups {
    /// Something was known of them.
    pub hits: u64,
    /// Nothing was.
    pub misses: u64,
}

/// All of a partition, borrowed from the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<'a> {
    pub(crate) tombstone: Tombstone,
    /// A row blob; empty: none.
    pub(crate) static_row: &'a [u8],
    /// All of its rows.
    pub(crate) run: RunView<'a>,
}

impl Whole<'_> {
    const ABSENT: Whole<'static> =
        Whole { tombstone: Tombstone::NONE, static_row: &[], run: RunView::NOTHING };

    /// Whether the SSTables have nothing of it.
    pub(crate) fn is_absent(&self) -> bool {
        self.tombstone.is_none() && self.static_row.is_empty() && self.run.is_empty()
    }
}

/// What is known of a partition.
pub(crate) enum Found {
    Unknown,
    /// The SSTables have nothing of it.
    Absent,
    /// At least its tombstone and its static row are known.
    Present(Snapshot),
}

/// What is known of the next partition of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextKey {
    /// Something is known of this one, and that there is none before it. It may turn out to be
    /// absent, or to be evicted by the time that it is looked up.
    Known(DecoratedKey),
    /// Which partitions there are up to `until` must be read below.
    NothingKnown { until: RingBound },
    /// There is none up to the end of the range.
    End,
}

/// Reading.
impl TabletCache {
    /// Partitions that were looked up since the table was opened.
    pub(crate) fn lookups(&self) -> CacheLookups {
        self.lookups.get()
    }

    #[inline]
    fn note_lookup(&self, store: &Store, found: bool) {
        store.stats.add_lookup(found);
        let mut lookups = self.lookups.get();
        *(if found { &mut lookups.hits } else { &mut lookups.misses }) += 1;
        self.lookups.set(lookups);
    }

    /// Calls `read` with all of a partition, if all of it is known and in one object, or it is
    /// known not to exist. Allocates nothing. `read` must not change the cache.
    pub(crate) fn with_whole<R>(
        &self,
        key: &DecoratedKey,
        read: impl FnOnce(Whole<'_>) -> R,
    ) -> Option<R> {
        let store = self.cache.store.borrow();
        let index = &store.tablet(self.id).index;
        if let Some((handle, view)) = index.whole(&store.arena, key) {
            debug_assert_eq!(
                view.tablet, self.id,
                "linked-or-garbage: an object of another tablet"
            );
            store.arena.touch(handle);
            self.note_lookup(&store, true);
            let (tombstone, static_row) = (view.tombstone, view.static_row);
            let marks = Marks::default();
            let run = view.run().marking(&marks);
            debug_assert!(run.is_whole(), "own-bytes: a part of {key:?} as all of it");
            let few = run.row_count() < 2;
            let result = read(Whole { tombstone, static_row, run });
            drop(store);
            if !few {
                self.cache.store.borrow_mut().mark_rows(handle, marks.rows());
            }
            return Some(result);
        }
        if let Known::Absent = index.lookup(&store.arena, key) {
            self.note_lookup(&store, true);
            return Some(read(Whole::ABSENT));
        }
        None
    }

    /// A partition of that token is about to be looked for.
    #[inline]
    pub(crate) fn prefetch(&self, token: Token) {
        self.cache.store.borrow().tablet(self.id).index.prefetch(token);
    }

    /// Once that is there: where the object of such a partition lies, if it is one.
    #[inline]
    pub(crate) fn prefetch_place(&self, token: Token) -> Option<Handle> {
        let store = self.cache.store.borrow();
        let handle = store.tablet(self.id).index.guess(token)?;
        debug_assert!(store.arena.kind(handle) == partition::WHOLE, "hinted: no whole partition");
        store.arena.prefetch_place(handle);
        Some(handle)
    }

    /// Once that is there: the object. Nothing was changed since.
    #[inline]
    pub(crate) fn prefetch_object(&self, handle: Handle) {
        self.cache.store.borrow().arena.prefetch(handle);
    }

    /// What is known of a partition, as it stands now.
    pub(crate) fn find(&self, key: &DecoratedKey) -> Found {
        let store = self.cache.store.borrow();
        let known = store.lookup(self.id, key);
        self.note_lookup(&store, !matches!(known, Known::Nothing));
        match known {
            Known::Nothing => Found::Unknown,
            Known::Absent => Found::Absent,
            Known::Whole(handle) => {
                let object = store.arena.get(handle);
                debug_assert!(WholeView::of(object).key == &*key.key, "another partition: {key:?}");
                store.arena.touch(handle);
                match WholeView::of(object).is_absent() {
                    true => Found::Absent,
                    false => Found::Present(Snapshot::of_whole(self, object)),
                }
            }
            Known::Large(slot) => {
                let large = store.tablet(self.id).index.large(slot);
                debug_assert!(large.key == key.key, "another partition: {key:?}");
                debug_assert!(!large.runs.is_empty(), "linked-or-garbage: {key:?} is of no run");
                Found::Present(Snapshot::of_large(self, large))
            }
        }
    }

    /// Counts a partition that was looked up and not known.
    pub(crate) fn count_miss(&self) {
        self.note_lookup(&self.cache.store.borrow(), false);
    }

    /// Whether something is known of a partition.
    pub(crate) fn knows(&self, key: &DecoratedKey) -> bool {
        let store = self.cache.store.borrow();
        !matches!(store.lookup(self.id, key), Known::Nothing)
    }

    /// What is known of the first partition between two bounds. The bounds lie in the tablet or
    /// reach beyond it.
    pub(crate) fn next_key(&self, after: &RingBound, before: &RingBound) -> NextKey {
        let store = self.cache.store.borrow();
        let next = store.tablet(self.id).index.next_key(&store.arena, after, before);
        debug_assert!(
            match &next {
                NextKey::Known(key) => {
                    after.place(key.token, &key.key).is_gt()
                        && before.place(key.token, &key.key).is_lt()
                }
                NextKey::NothingKnown { .. } | NextKey::End => true,
            },
            "in-order: {next:?} after {after:?}"
        );
        next
    }

    /// How its rows compare.
    pub(crate) fn order(&self) -> Ref<'_, Rc<ClusteringOrder>> {
        self.order.borrow()
    }
    /// Sets another order, and forgets what lies in the old one.
    pub(crate) fn set_order(&self, order: &Rc<ClusteringOrder>) {
        self.invalidate();
        self.cache.store.borrow_mut().tablet_mut(self.id).order = order.clone();
        self.order.replace(order.clone());
    }
    /// The cache that it is a part of.
    pub(crate) fn cache(&self) -> &Rc<RowCache> {
        &self.cache
    }
}

/// Phases and populating.
impl TabletCache {
    /// To be noted in the step in which a reader takes its set of SSTables.
    pub(crate) fn phase(&self) -> Phase {
        self.cache.store.borrow().tablet(self.id).phase
    }

    /// Whether what was read at that phase of partitions of that token may go into the cache.
    pub(crate) fn may_populate(&self, opened_at: Phase, token: Token) -> bool {
        let store = self.cache.store.borrow();
        let tablet = store.tablet(self.id);
        debug_assert!(opened_at.0 <= tablet.phase.0, "phases-grow: {opened_at:?}");
        tablet.phase == opened_at && tablet.updated_to.is_none_or(|passed| passed < token)
    }

    /// Begins to offer what was read below of a partition, of which tombstone and static row
    /// (empty: none) are known.
    pub(crate) fn populate(
        self: &Rc<Self>,
        key: DecoratedKey,
        tombstone: Tombstone,
        static_row: Bytes,
        opened_at: Phase,
    ) -> Populate {
        debug_assert!(opened_at.0 <= self.phase().0, "phases-grow: {opened_at:?}");
        Populate::new(self.clone(), key, Head { tombstone, static_row }, opened_at)
    }

    /// The SSTables have nothing of this partition.
    pub(crate) fn populate_absent(&self, key: &DecoratedKey, opened_at: Phase) {
        if self.may_populate(opened_at, key.token) {
            self.cache.store.borrow_mut().add_absent(self.id, key);
        }
    }

    /// The SSTables have no partition *strictly between* two bounds. Between which bounds that is
    /// worth saying: just after the partition before (or the start of the range), just before the
    /// next one (or the end of the range). It is noted only where both neighbours are cached, so
    /// call it after the next one was populated, before the one after that.
    pub(crate) fn populate_continuous(&self, from: &RingBound, to: &RingBound, opened_at: Phase) {
        // Tokens that an update has passed are refused with all that lies after them.
        if self.may_populate(opened_at, from.token) {
            let mut store = self.cache.store.borrow_mut();
            store.set_continuous(self.id, from, to);
        }
    }

    /// Begins to merge a sealed memtable whose SSTable is about to join the set. One at a time.
    pub(crate) fn begin_update(self: &Rc<Self>, schema: &Rc<TableSchema>) -> Update {
        Update::new(self.clone(), schema.clone())
    }

    /// Forgets all: what the SSTables hold has changed.
    pub(crate) fn invalidate(&self) {
        self.cache.store.borrow_mut().invalidate(self.id);
    }

    /// Forgets one partition: what the SSTables hold of it has changed.
    #[cfg(test)]
    pub(crate) fn invalidate_partition(&self, key: &DecoratedKey) {
        let mut store = self.cache.store.borrow_mut();
        store.forget(self.id, key.token);
        store.tablet_mut(self.id).phase.0 += 1;
    }
}

impl Drop for TabletCache {
    fn drop(&mut self) {
        self.cache.store.borrow_mut().drop_tablet(self.id);
    }
}
