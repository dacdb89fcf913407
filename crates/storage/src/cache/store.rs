//! All that the row cache of a shard holds, and how objects get into it.
//!
//! Invariants
//!  - *allocate-then-look*: making room for an object may evict anything, so what an insertion
//!    relies on is looked up after its last allocation.
//!  - *heap-accounted*: what the index, the names of runs and large partitions take is counted when
//!    it comes and when it goes.
//!  - *came-before*: each partition that is there, was evicted or was removed was counted when it
//!    came.
//!  - *linked-at-once*: an object that is not the run of a [`RunRef`] is linked in the step that
//!    made it, before anything else is allocated.

use super::ghosts::{Ghosts, hash_of_part, hash_of_whole};
use super::index::{Content, ENTRY_BYTES, Entry, Index, Known};
use super::partition::{
    Head, Large, PART, PART_HEAD_BYTES, WHOLE, WholeView, read_part, write_whole,
};
use super::run::{self, RUN_BYTES, RunView};
use super::run_list::{Garbage, Place, RunList, RunRef, heap_bytes_of_run};
use super::stats::{RowCacheStats, Stats};
use super::{Phase, TabletId};
use memory::{Age, Arena, Handle, Victim};
use model::{ClusteringOrder, DecoratedKey, Token};
use mutation::{ClusteringPosition, ClusteringRange};
use std::cell::Cell;
use std::rc::{Rc, Weak};

/// Larger objects are not cached.
pub(super) const OBJECT_BYTES_MAX: usize = 1 << 20;
/// The part of the cache that one object may take.
const OBJECT_SHARE: usize = 16;
/// Steps that one insertion spends on making room.
const ROOM_STEPS_MAX: usize = 24;

/// What the cache knows of a tablet.
pub(super) struct Tablet {
    pub(super) order: Rc<ClusteringOrder>,
    /// After which token it begins, and its last one.
    pub(super) range: (Token, Token),
    pub(super) index: Index,
    pub(super) phase: Phase,
    /// Of an update that runs: up to which token it came.
    pub(super) updated_to: Option<Token>,
}

pub(super) struct Store {
    pub(super) arena: Arena,
    pub(super) tablets: Vec<Option<Tablet>>,
    /// The names of runs, by the slot that their object gives.
    pub(super) slots: Vec<Weak<RunRef>>,
    pub(super) free_slots: Vec<u32>,
    pub(super) ghosts: Ghosts,
    /// The segment under the hand of the clock, between two steps.
    pub(super) victim: Option<Victim>,
    /// Indexes that nobody reads any more.
    pub(super) dead: Vec<Index>,
    pub(super) garbage: Rc<Garbage>,
    pub(super) stats: Stats,
    /// About what is taken outside of the arena.
    pub(super) heap_bytes: usize,
    pub(super) limit: usize,
    /// Objects are put together here.
    scratch: Vec<u8>,
}

/// The names of new runs, and the object of a partition that is one.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    pub(super) whole: Option<Handle>,
    pub(super) runs: Vec<Rc<RunRef>>,
}

impl Store {
    pub(super) fn new(reserve_bytes: usize, limit: usize) -> Store {
        let ghosts = Ghosts::new(limit);
        let mut store = Store {
            arena: Arena::new(reserve_bytes),
            tablets: Vec::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            heap_bytes: ghosts.heap_bytes(),
            ghosts,
            victim: None,
            dead: Vec::new(),
            garbage: Rc::default(),
            stats: Stats::default(),
            limit,
            scratch: Vec::new(),
        };
        store.apply_limit();
        store
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        let ghosts = self.ghosts.heap_bytes();
        assert!(ghosts <= self.heap_bytes, "heap-accounted: {ghosts} of {}", self.heap_bytes);
        self.heap_bytes -= ghosts;
        self.ghosts.resize(limit);
        self.heap_bytes += self.ghosts.heap_bytes();
        self.limit = limit;
        self.apply_limit();
    }

    /// The arena may have what the index leaves.
    pub(super) fn apply_limit(&mut self) {
        self.arena.set_limit(self.limit.saturating_sub(self.heap_bytes));
    }

    /// Bytes of the heap: the index, and what of the arena does not lie in segments.
    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes + self.arena.heap_bytes()
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.arena.used_bytes() + self.heap_bytes
    }

    pub(super) fn stats(&self) -> RowCacheStats {
        let partitions = self.tablets.iter().flatten().map(|tablet| tablet.index.len() as u64);
        let arena = self.arena.stats();
        let stats = RowCacheStats {
            allocations: arena.allocated_objects,
            allocated_bytes: arena.allocated_bytes,
            moved_bytes: arena.relocated_bytes,
            partitions: partitions.sum(),
            bytes_used: self.used_bytes() as u64,
            bytes_limit: self.limit as u64,
            ..self.stats.read()
        };
        debug_assert!(
            stats.partitions + stats.partition_evictions + stats.partition_removals
                <= stats.partition_insertions,
            "came-before: {stats:?}"
        );
        stats
    }

    pub(super) fn add_tablet(
        &mut self,
        order: Rc<ClusteringOrder>,
        range: (Token, Token),
    ) -> TabletId {
        let tablet =
            Tablet { order, range, index: Index::default(), phase: Phase(0), updated_to: None };
        assert!(range.0 <= range.1, "a tablet after {:?} to {:?}", range.0, range.1);
        let free = self.tablets.iter().position(Option::is_none);
        let id = free.unwrap_or(self.tablets.len());
        match free {
            Some(id) => self.tablets[id] = Some(tablet),
            None => self.tablets.push(Some(tablet)),
        }
        TabletId(id as u32)
    }

    pub(super) fn drop_tablet(&mut self, id: TabletId) {
        let tablet = self.tablets[id.0 as usize].take().expect("a tablet that is open");
        self.drop_index(tablet.index);
    }

    pub(super) fn tablet(&self, id: TabletId) -> &Tablet {
        self.tablets[id.0 as usize].as_ref().expect("a tablet that is open")
    }
    pub(super) fn tablet_mut(&mut self, id: TabletId) -> &mut Tablet {
        self.tablets[id.0 as usize].as_mut().expect("a tablet that is open")
    }

    /// What is known of a key.
    pub(super) fn lookup(&self, id: TabletId, key: &DecoratedKey) -> Known {
        self.tablet(id).index.lookup(&self.arena, key)
    }

    /// The run that a name stands for, unless it was evicted.
    pub(super) fn run_of<'a>(&'a self, run: &RunRef) -> Option<&'a [u8]> {
        let (slot, bytes) = read_part(self.arena.get(run.handle.get()?));
        debug_assert_eq!(slot, run.slot, "linked-or-garbage: the object of another run");
        Some(bytes)
    }

    /// A new object, with room made for it if that takes few steps. May evict anything
    /// (*allocate-then-look*).
    pub(super) fn allocate(&mut self, age: Age, kind: u8, len: usize) -> Option<Handle> {
        if OBJECT_BYTES_MAX.min(self.limit / OBJECT_SHARE) < len {
            return None;
        }
        self.apply_limit();
        if self.is_nearly_full() {
            // So that no insertion has to do much.
            self.make_room_ahead();
        }
        for _ in 0..ROOM_STEPS_MAX {
            if let Some(handle) = self.arena.allocate(age, kind, len) {
                return Some(handle);
            }
            if !self.make_room_step() {
                return None;
            }
        }
        None
    }

    /// An object of a whole partition. Link it at once (*linked-at-once*).
    pub(super) fn make_whole(
        &mut self,
        (id, key): (TabletId, &DecoratedKey),
        head: &Head,
        run: &[u8],
        (age, heat): (Age, u8),
    ) -> Option<Handle> {
        debug_assert!(RunView::of(run).is_whole(), "a whole partition of a part");
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        write_whole(&mut bytes, id, &key.key, (head.tombstone, &head.static_row));
        let handle = self.allocate(age, WHOLE, bytes.len() + run.len());
        if let Some(handle) = handle {
            let object = self.arena.get_mut(handle);
            object[..bytes.len()].copy_from_slice(&bytes);
            object[bytes.len()..].copy_from_slice(run);
            (0..heat).for_each(|_| self.arena.touch(handle));
        }
        self.scratch = bytes;
        debug_assert!(
            handle.is_none_or(|handle| {
                let whole = WholeView::of(self.arena.get(handle));
                whole.key == &*key.key && whole.tablet == id && whole.run().is_whole()
            }),
            "own-bytes: {key:?} is not read back"
        );
        handle
    }

    /// A run by itself, which may be evicted at any time from here on.
    pub(super) fn make_part(
        &mut self,
        owner: (TabletId, Token),
        start: &ClusteringPosition,
        run: &[u8],
        (age, heat): (Age, u8),
    ) -> Option<Rc<RunRef>> {
        let handle = self.allocate(age, PART, PART_HEAD_BYTES + run.len())?;
        Some(self.name_part(owner, start, (handle, run), heat))
    }

    /// Fills the object of a run, and gives it a name.
    pub(super) fn name_part(
        &mut self,
        owner: (TabletId, Token),
        start: &ClusteringPosition,
        (handle, run): (Handle, &[u8]),
        heat: u8,
    ) -> Rc<RunRef> {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Weak::new());
            (self.slots.len() - 1) as u32
        });
        debug_assert_eq!(self.slots[slot as usize].strong_count(), 0, "a slot of two runs: {slot}");
        let object = self.arena.get_mut(handle);
        object[..PART_HEAD_BYTES].copy_from_slice(&slot.to_be_bytes());
        object[PART_HEAD_BYTES..].copy_from_slice(run);
        (0..heat).for_each(|_| self.arena.touch(handle));
        let (start, garbage) = (start.clone(), self.garbage.clone());
        self.heap_bytes += heap_bytes_of_run(&start);
        let run = RunRef { start, handle: Cell::new(Some(handle)), slot, owner, garbage };
        let run = Rc::new(run);
        self.slots[slot as usize] = Rc::downgrade(&run);
        run
    }

    /// Where an object of a new partition goes.
    fn age_of(&mut self, hash: u64) -> Age {
        if self.ghosts.take(hash) { Age::Main } else { Age::Probation }
    }

    /// Adds what is known of an interval of a partition; what is known already stays as it is.
    pub(super) fn add_run(
        &mut self,
        (id, key): (TabletId, &DecoratedKey),
        head: &Head,
        start: &ClusteringPosition,
        bytes: &[u8],
    ) {
        let run = RunView::of(bytes);
        let Tablet { index, order, .. } = self.tablet(id);
        debug_assert!(order.compare(run.start(), start.as_parts()).is_eq(), "a run at {start:?}");
        match index.get(key.token) {
            None if run.is_whole() => {
                let age = self.age_of(hash_of_whole(id.0, key.token));
                let Some(handle) = self.make_whole((id, key), head, bytes, (age, 0)) else {
                    self.stats.add_mispopulation();
                    return;
                };
                self.stats.add_insertions(1, run.row_count());
                self.insert(id, key.token, Content::Whole(handle));
            }
            None => self.add_parts((id, key), head, start, bytes),
            Some(entry) if index.key_of(&self.arena, entry) == Some(&key.key) => {
                if let Entry::Large { .. } = entry {
                    self.add_parts((id, key), head, start, bytes);
                }
            }
            Some(Entry::Collided) => {}
            Some(_) => self.collide(id, key.token),
        }
    }

    /// Adds a partition of a token that has none.
    pub(super) fn insert(&mut self, id: TabletId, token: Token, content: Content) {
        debug_assert!(self.is_of(id, &content), "linked-at-once: another object at {token:?}");
        self.heap_bytes += ENTRY_BYTES;
        if let Content::Large(large) = &content {
            debug_assert!(!large.runs.is_empty(), "a large partition of no run");
            self.heap_bytes += large.heap_bytes();
        }
        self.tablet_mut(id).index.insert(token, content);
    }

    /// Whether the object of a partition, if it is one, is still that of one of this tablet.
    fn is_of(&self, id: TabletId, content: &Content) -> bool {
        let Content::Whole(handle) = content else { return true };
        self.arena.kind(*handle) == WHOLE && WholeView::of(self.arena.get(*handle)).tablet == id
    }

    /// Exchanges what is known of a partition.
    pub(super) fn exchange(&mut self, id: TabletId, token: Token, content: Content) {
        debug_assert!(self.is_of(id, &content), "linked-at-once: another object at {token:?}");
        self.heap_bytes += ENTRY_BYTES;
        if let Content::Large(large) = &content {
            self.heap_bytes += large.heap_bytes();
        }
        let old = self.tablet_mut(id).index.exchange(token, content);
        self.drop_content(old);
    }

    /// Two keys of that token exist: none is cached any more.
    pub(super) fn collide(&mut self, id: TabletId, token: Token) {
        let old = self.tablet_mut(id).index.collide(token);
        self.heap_bytes += ENTRY_BYTES;
        if let Some(content) = old {
            self.drop_content(content);
        }
    }

    /// Forgets a partition, and that there is none before the next one.
    pub(super) fn forget(&mut self, id: TabletId, token: Token) {
        let index = &mut self.tablet_mut(id).index;
        match index.get(token) {
            Some(Entry::Collided) => {}
            Some(_) => {
                let content = index.remove(token).expect("the entry is there");
                self.drop_content(content);
                self.stats.add_removals(1);
            }
            None => index.break_after(token),
        }
        debug_assert!(
            matches!(self.tablet(id).index.get(token), None | Some(Entry::Collided)),
            "never-stale: {token:?} is forgotten"
        );
    }

    fn add_parts(
        &mut self,
        (id, key): (TabletId, &DecoratedKey),
        head: &Head,
        start: &ClusteringPosition,
        bytes: &[u8],
    ) {
        let order = self.tablet(id).order.clone();
        let interval = RunView::of(bytes).interval();
        let age = self.age_of(hash_of_part(id.0, key.token, start.as_parts()));
        for gap in self.gaps(id, key.token, &interval) {
            if gap == interval {
                let run = self.make_part((id, key.token), start, bytes, (age, 0));
                self.link_part((id, key), head, run);
                continue;
            }
            let mut pieces = Vec::new();
            run::clip(&order, &RunView::of(bytes), &gap, |start, piece| {
                pieces.push((start.clone(), piece.to_vec()));
            });
            for (start, piece) in pieces {
                let run = self.make_part((id, key.token), &start, &piece, (age, 0));
                self.link_part((id, key), head, run);
            }
        }
    }

    /// What of an interval is not known of a partition.
    fn gaps(&self, id: TabletId, token: Token, interval: &ClusteringRange) -> Vec<ClusteringRange> {
        let Tablet { index, order, .. } = self.tablet(id);
        let runs = match index.get(token) {
            Some(Entry::Large { slot, .. }) => &index.large(slot).runs,
            _ => return vec![interval.clone()],
        };
        let mut gaps = Vec::new();
        let mut from = interval.start.clone();
        let mut place = runs.floor(order, from.as_parts()).or_else(|| runs.after(None));
        while let Some(at) = place {
            let run = runs.at(at);
            if interval.end.compare(order, &run.start).is_le() {
                break;
            }
            let end = self.run_of(run).map(|bytes| run::owned(RunView::of(bytes).end()));
            if let Some(end) = end
                && from.compare(order, &end).is_lt()
            {
                gaps.push(ClusteringRange { start: from, end: run.start.clone() });
                from = end;
            }
            place = runs.after(Some(at));
        }
        gaps.push(ClusteringRange { start: from, end: interval.end.clone() });
        gaps.retain(|gap| !gap.is_empty(order));
        debug_assert!(
            gaps.is_sorted_by(|a, b| a.end.compare(order, &b.start).is_le()),
            "apart: gaps in {interval:?}"
        );
        debug_assert!(
            gaps.iter().all(|gap| {
                interval.start.compare(order, &gap.start).is_le()
                    && gap.end.compare(order, &interval.end).is_le()
            }),
            "apart: a gap beyond {interval:?}"
        );
        gaps
    }

    /// Names a new run in the list of its partition, of which nothing is known there.
    pub(super) fn link_part(
        &mut self,
        (id, key): (TabletId, &DecoratedKey),
        head: &Head,
        run: Option<Rc<RunRef>>,
    ) {
        let Some(run) = run.filter(|run| run.handle.get().is_some()) else {
            self.stats.add_mispopulation();
            return;
        };
        let rows = self.run_of(&run).map_or(0, |bytes| RunView::of(bytes).row_count());
        let order = self.tablet(id).order.clone();
        match self.tablet(id).index.get(key.token) {
            None => {
                let mut runs = RunList::default();
                runs.insert(&order, run);
                let (key_bytes, head) = (key.key.clone(), head.clone());
                let large = Large { key: key_bytes, head, runs: Rc::new(runs) };
                self.insert(id, key.token, Content::Large(Box::new(large)));
                self.stats.add_insertions(1, rows);
            }
            Some(Entry::Large { slot, .. }) => {
                let large = self.tablet_mut(id).index.large_mut(slot);
                debug_assert!(large.key == key.key, "a run of another partition: {key:?}");
                // A compaction that forgets an old deletion changes no phase. What was read before
                // it may have rows that only the tombstone of its own read covers.
                large.head.tombstone = large.head.tombstone.merge(head.tombstone);
                Rc::make_mut(&mut large.runs).insert(&order, run.clone());
                debug_assert!(self.is_apart(id, key.token), "apart: a run of {key:?}");
                self.stats.add_insertions(0, rows);
                self.join_neighbours((id, key), run);
            }
            Some(_) => {}
        }
    }

    /// Makes one run of a run and those that touch it, as far as they are small.
    fn join_neighbours(&mut self, (id, key): (TabletId, &DecoratedKey), run: Rc<RunRef>) {
        let mut run = run;
        if let Some(left) = self.neighbour((id, key), &run, RunList::before)
            && let Some(joined) = self.join((id, key), &left, &run)
        {
            run = joined;
        }
        let after = |runs: &RunList, place| runs.after(Some(place));
        if let Some(right) = self.neighbour((id, key), &run, after) {
            self.join((id, key), &run, &right);
        }
        self.make_one_object((id, key));
    }

    fn neighbour(
        &self,
        (id, key): (TabletId, &DecoratedKey),
        run: &Rc<RunRef>,
        step: impl Fn(&RunList, Place) -> Option<Place>,
    ) -> Option<Rc<RunRef>> {
        let Tablet { index, order, .. } = self.tablet(id);
        let Some(Entry::Large { slot, .. }) = index.get(key.token) else { return None };
        let runs = &index.large(slot).runs;
        let place = runs.floor(order, run.start.as_parts())?;
        debug_assert!(
            run.handle.get().is_none() || Rc::ptr_eq(runs.at(place), run),
            "lives-by-name: {:?} is there, and not in the list",
            run.start
        );
        Some(runs.at(step(runs, place)?).clone())
    }

    fn join(
        &mut self,
        (id, key): (TabletId, &DecoratedKey),
        left: &Rc<RunRef>,
        right: &Rc<RunRef>,
    ) -> Option<Rc<RunRef>> {
        let order = self.tablet(id).order.clone();
        let (left_bytes, right_bytes) = (self.run_of(left)?, self.run_of(right)?);
        let views = (RunView::of(left_bytes), RunView::of(right_bytes));
        let touch = order.compare(views.0.end(), views.1.start()).is_eq();
        if !touch || RUN_BYTES < left_bytes.len() + right_bytes.len() {
            return None;
        }
        let mut joined = Vec::new();
        run::join(&order, (&views.0, &views.1), |_, bytes| joined.push(bytes.to_vec()));
        let [joined] = &joined[..] else { return None };
        debug_assert!(
            order.compare(RunView::of(joined).end(), views.1.end()).is_eq(),
            "apart: two runs are not one"
        );
        debug_assert_eq!(
            RunView::of(joined).row_count(),
            views.0.row_count() + views.1.row_count(),
            "mirror: rows of two runs"
        );
        let (left_heat, right_heat) = (self.heat_of(left), self.heat_of(right));
        let heat = if left_heat.1 < right_heat.1 { right_heat } else { left_heat };
        let joined = self.make_part((id, key.token), &left.start, joined, heat)?;
        let index = &mut self.tablet_mut(id).index;
        let Some(Entry::Large { slot, .. }) = index.get(key.token) else { return None };
        let runs = &mut index.large_mut(slot).runs;
        let alive = joined.handle.get().is_some();
        if !alive || !runs.names(&order, left) || !runs.names(&order, right) {
            return None;
        }
        let runs = Rc::make_mut(runs);
        let removed = runs.remove(&order, left) & runs.remove(&order, right);
        assert!(removed, "apart: two runs and what they were joined to");
        runs.insert(&order, joined.clone());
        Some(joined)
    }

    /// Whether the runs of a large partition are *apart*.
    pub(super) fn is_apart(&self, id: TabletId, token: Token) -> bool {
        let Tablet { index, order, .. } = self.tablet(id);
        let Some(Entry::Large { slot, .. }) = index.get(token) else { return true };
        let runs = &index.large(slot).runs;
        let mut place = runs.after(None);
        while let Some(at) = place {
            let next = runs.after(place);
            if let Some(bytes) = self.run_of(runs.at(at))
                && let Some(next) = next
                && order.compare(RunView::of(bytes).end(), runs.at(next).start.as_parts()).is_gt()
            {
                return false;
            }
            place = next;
        }
        true
    }

    /// Where what takes the place of a run goes, and how hot it is.
    pub(super) fn heat_of(&self, run: &RunRef) -> (Age, u8) {
        run.handle.get().map_or((Age::Probation, 0), |handle| self.heat_of_object(handle))
    }
    pub(super) fn heat_of_object(&self, handle: Handle) -> (Age, u8) {
        (self.arena.age(handle), self.arena.heat(handle))
    }

    /// A partition whose only run is all of it becomes one object.
    fn make_one_object(&mut self, (id, key): (TabletId, &DecoratedKey)) {
        let index = &self.tablet(id).index;
        let Some(Entry::Large { slot, .. }) = index.get(key.token) else { return };
        let large = index.large(slot);
        let Some(only) = large.runs.single().cloned() else { return };
        let Some(bytes) = self.run_of(&only) else { return };
        if !RunView::of(bytes).is_whole() {
            return;
        }
        let (head, bytes) = (large.head.clone(), bytes.to_vec());
        let heat = self.heat_of(&only);
        let Some(handle) = self.make_whole((id, key), &head, &bytes, heat) else { return };
        let index = &mut self.tablet_mut(id).index;
        match index.get(key.token) {
            Some(Entry::Large { slot, .. }) if only.handle.get().is_some() => {
                assert!(
                    index.large(slot).runs.single().is_some_and(|run| Rc::ptr_eq(run, &only)),
                    "allocate-then-look: another run"
                );
                self.exchange(id, key.token, Content::Whole(handle));
            }
            _ => self.arena.free(handle),
        }
    }
}
