//! What leaves the cache: garbage, freed in small steps, and what the arena's clock evicts.
//!
//! Invariants
//!  - *linked-or-garbage*: an object of the arena is named by an entry of an index, by the slot of
//!    a run, or by garbage.
//!  - *garbage-first*: the clock moves only while there is no garbage; so what it meets is linked.
//!  - *bounded*: a step moves or evicts at most [`STEP_OBJECTS`] objects; one that an insertion
//!    takes ahead of its need, at most [`AHEAD_OBJECTS`].

use super::ghosts::{hash_of_part, hash_of_whole};
use super::index::{Content, ENTRY_BYTES, Entry, Index};
use super::partition::{PART, WHOLE, WholeView, read_part};
use super::store::Store;
use memory::{Handle, SEGMENT_BYTES, Verdict};
use model::Token;
use std::rc::{Rc, Weak};

/// Objects that one step looks at.
const STEP_OBJECTS: usize = 64;
/// Objects that an insertion looks at ahead of its need. Enough for the largest run to take the
/// place of small partitions, and little beside the insertion.
const AHEAD_OBJECTS: usize = 16;
const _: () = assert!(AHEAD_OBJECTS < STEP_OBJECTS);
/// Runs that nobody names any more, freed in one step.
const STEP_RUNS: usize = 256;

impl Store {
    /// Frees a bounded part of the garbage; whether there was any.
    pub(super) fn collect_step(&mut self) -> bool {
        if self.collect_runs() {
            return true;
        }
        let list = self.garbage.lists.borrow_mut().pop();
        if let Some(mut list) = list {
            if let Some(own) = Rc::get_mut(&mut list) {
                own.drop_chunk();
            }
            self.garbage.add_list(list);
            return true;
        }
        let Some(mut index) = self.dead.pop() else { return false };
        for _ in 0..STEP_OBJECTS {
            let Some(content) = index.pop() else { return true };
            self.drop_content(content);
        }
        self.dead.push(index);
        true
    }

    fn collect_runs(&mut self) -> bool {
        let mut dropped = self.garbage.dropped.borrow_mut();
        let first = dropped.len().saturating_sub(STEP_RUNS);
        let any = !dropped.is_empty();
        for (slot, handle, bytes) in dropped.drain(first..) {
            debug_assert_eq!(self.slots[slot as usize].strong_count(), 0, "lives-by-name: {slot}");
            assert!(bytes <= self.heap_bytes, "heap-accounted: {bytes} of {}", self.heap_bytes);
            self.slots[slot as usize] = Weak::new();
            self.free_slots.push(slot);
            self.heap_bytes -= bytes;
            if let Some(handle) = handle {
                self.arena.free(handle);
            }
        }
        any
    }

    /// Frees what an entry was made of; of large partitions the runs go bit by bit.
    pub(super) fn drop_content(&mut self, content: Content) {
        assert!(ENTRY_BYTES <= self.heap_bytes, "heap-accounted: {} are left", self.heap_bytes);
        self.heap_bytes -= ENTRY_BYTES;
        match content {
            Content::Nothing => {}
            Content::Whole(handle) => self.arena.free(handle),
            Content::Large(large) => {
                let bytes = large.heap_bytes();
                assert!(bytes <= self.heap_bytes, "heap-accounted: {bytes} of {}", self.heap_bytes);
                self.heap_bytes -= bytes;
                self.garbage.add_list(large.runs);
            }
        }
    }

    /// All of an index is garbage.
    pub(super) fn drop_index(&mut self, index: Index) {
        self.dead.push(index);
    }

    /// Moves the hand of the clock over that many objects at most; `false`: nothing is there.
    fn evict_step(&mut self, objects_max: usize) -> bool {
        assert!(!self.has_garbage(), "garbage-first");
        let Some(mut victim) = self.victim.take().or_else(|| self.arena.victim()) else {
            return false;
        };
        for _ in 0..objects_max {
            let Some((handle, verdict)) = self.arena.next(&mut victim) else {
                self.arena.release(victim);
                return true;
            };
            match verdict {
                Verdict::Keep if victim.is_compaction() => self.arena.relocate(handle),
                Verdict::Keep => self.keep(handle),
                Verdict::Evict => self.evict(handle),
            }
            // Eviction of one run may let go of the names of others.
            while self.collect_runs() {}
        }
        self.victim = Some(victim);
        true
    }

    fn has_garbage(&self) -> bool {
        let runs = self.garbage.dropped.borrow();
        !runs.is_empty() || !self.garbage.lists.borrow().is_empty() || !self.dead.is_empty()
    }

    /// Frees an object and forgets what it said.
    pub(super) fn evict(&mut self, handle: Handle) {
        match self.arena.kind(handle) {
            WHOLE => self.evict_whole(handle),
            PART => self.evict_part(handle),
            kind => unreachable!("linked-or-garbage: an object of kind {kind}"),
        }
    }

    fn evict_whole(&mut self, handle: Handle) {
        let whole = WholeView::of(self.arena.get(handle));
        let (tablet, token) = (whole.tablet, Token::of(whole.key));
        self.stats.add_evictions(1, whole.run().row_count());
        let index = &mut self.tablet_mut(tablet).index;
        match index.remove(token) {
            Some(Content::Whole(own)) => assert!(own == handle, "linked-or-garbage"),
            _ => unreachable!("linked-or-garbage: no entry names it"),
        }
        self.heap_bytes -= ENTRY_BYTES;
        self.arena.free(handle);
        self.ghosts.add(hash_of_whole(tablet.0, token));
    }

    fn evict_part(&mut self, handle: Handle) {
        let (slot, run) = read_part(self.arena.get(handle));
        let rows = super::run::RunView::of(run).row_count();
        debug_assert!((slot as usize) < self.slots.len(), "linked-or-garbage: slot {slot}");
        let run = self.slots[slot as usize].upgrade();
        let run = run.expect("linked-or-garbage: the slot of a run names it");
        assert!(run.handle.take() == Some(handle), "linked-or-garbage");
        self.arena.free(handle);
        self.stats.add_evictions(0, rows);
        let (tablet, token) = run.owner;
        self.ghosts.add(hash_of_part(tablet.0, token, run.start.as_parts()));
        // The partition that it was made for may be gone, with lists of it still being read.
        let Some(Some(owner)) = self.tablets.get_mut(tablet.0 as usize) else { return };
        let Some(Entry::Large { slot, .. }) = owner.index.get(token) else { return };
        let order = owner.order.clone();
        let large = owner.index.large_mut(slot);
        if !large.runs.names(&order, &run) {
            return;
        }
        let removed = Rc::make_mut(&mut large.runs).remove(&order, &run);
        assert!(removed, "lives-by-name: an evicted run is named");
        if large.runs.is_empty() {
            let content = owner.index.remove(token).expect("the entry is there");
            self.drop_content(content);
            self.stats.add_evictions(1, 0);
        }
    }

    /// Bounded work towards the limit; whether there is more to do.
    pub(super) fn reclaim_step(&mut self) -> bool {
        self.apply_limit();
        if self.collect_step() {
            return true;
        }
        debug_assert!(!self.has_garbage(), "garbage-first");
        debug_assert!(
            !self.is_empty() || self.heap_bytes == self.ghosts.heap_bytes(),
            "heap-accounted: {} of nothing",
            self.heap_bytes
        );
        self.arena.over_limit() && self.evict_step(STEP_OBJECTS)
    }

    /// Whether nothing is known, and nobody reads what was.
    fn is_empty(&self) -> bool {
        let mut tablets = self.tablets.iter().flatten();
        self.free_slots.len() == self.slots.len() && tablets.all(|tablet| tablet.index.len() == 0)
    }

    /// Whether a step would find work.
    pub(super) fn is_to_reclaim(&self) -> bool {
        !self.garbage.is_empty() || !self.dead.is_empty() || self.arena.over_limit()
    }

    /// Bounded work towards room for a new object; `false`: there is none to make.
    pub(super) fn make_room_step(&mut self) -> bool {
        self.collect_step() || self.evict_step(STEP_OBJECTS)
    }

    /// A little work towards room for what comes next.
    pub(super) fn make_room_ahead(&mut self) {
        let _ = self.collect_step() || self.evict_step(AHEAD_OBJECTS);
    }

    /// Whether a new object will soon find no room.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.arena.limit() < self.arena.used_bytes() + 2 * SEGMENT_BYTES
    }
}
