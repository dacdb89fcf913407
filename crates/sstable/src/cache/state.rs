//! The cache's decisions: who loads, who waits, what is evicted. Keeps *one-load*, *pinned-stays*,
//! *orphans-first* and *accounted* of the cache.

use super::body::{Body, Load, PageKind};
use super::lru::{Key, NONE, Segment, Slot, Slots};
use super::owner::Owner;
use super::{CacheStats, IndexCache, PageStats};
use reader::ReadError;
use std::rc::{Rc, Weak};
use stdx::HashMap;

/// What a page counts in the budget beside its content: its slot and its places in the maps.
const SLOT_BYTES: usize = std::mem::size_of::<Slot>() + 48;

/// Evictions in one step: less than 100 us.
pub(super) const EVICTIONS_MAX: usize = 128;

/// What asking for a page came to.
pub(crate) enum Claim {
    /// It is there.
    Ready(Body, Pin),
    /// Another reader loads it.
    Wait(Rc<Load>),
    /// The asker is to load it.
    Mine(Loader),
}

/// What is cached of one file.
#[derive(Debug)]
struct Cached {
    /// Keeps the address of the owner from being used by another while something is cached.
    _owner: Weak<Owner>,
    /// The first of its slots.
    first: u32,
}

#[derive(Debug)]
pub(super) struct State {
    bytes_max: usize,
    bytes: usize,
    slots: Slots,
    map: HashMap<Key, u32>,
    owners: HashMap<usize, Cached>,
    /// The owners among these whose files were closed.
    orphaned: Vec<usize>,
    partitions: PageStats,
    files: PageStats,
}

impl State {
    pub(super) fn new(bytes_max: usize) -> State {
        State {
            bytes_max,
            bytes: 0,
            slots: Slots::new(),
            map: HashMap::default(),
            owners: HashMap::default(),
            orphaned: Vec::new(),
            partitions: PageStats::default(),
            files: PageStats::default(),
        }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(super) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Pages there are, and loads.
    pub(super) fn pages(&self) -> usize {
        self.map.len()
    }

    /// *accounted*, as far as a few numbers tell.
    fn is_accounted(&self) -> bool {
        let pages = self.partitions.pages + self.files.pages;
        let listed = [Segment::Probation, Segment::Protected].map(|it| self.slots.listed_bytes(it));
        self.bytes as u64 == self.partitions.bytes + self.files.bytes
            && pages <= self.map.len() as u64
            && listed[0] + listed[1] <= self.bytes
            && self.owners.len() <= self.map.len()
    }

    pub(super) fn stats(&self) -> CacheStats {
        debug_assert!(self.is_accounted(), "accounted: what is told");
        let (partitions, files) = (self.partitions, self.files);
        CacheStats { partitions, files, bytes_max: self.bytes_max as u64 }
    }

    fn stats_of(&mut self, kind: PageKind) -> &mut PageStats {
        match kind {
            PageKind::File => &mut self.files,
            PageKind::Partitions => &mut self.partitions,
        }
    }

    /// Pins a slot on behalf of a read. A second read that touches it makes it popular.
    fn pin(&mut self, index: u32, read: u64) {
        let slot = self.slots.get(index);
        debug_assert!(!matches!(slot.body, Body::Loading(_)), "one-load: pinned while it loads");
        if slot.pins == 0 {
            self.slots.unlink(index);
        }
        let slot = self.slots.get_mut(index);
        slot.pins += 1;
        if slot.read != read {
            slot.read = read;
            slot.segment = Segment::Protected;
        }
    }

    /// Takes one pin away; the last one puts the page into the LRU.
    fn unpin(&mut self, index: u32) {
        let slot = self.slots.get_mut(index);
        debug_assert!(0 < slot.pins, "pinned-stays: slot {index} is unpinned once too often");
        debug_assert!(!matches!(slot.body, Body::Loading(_)), "one-load: unpinned while it loads");
        slot.pins -= 1;
        if 0 < slot.pins {
            return;
        }
        if slot.orphan {
            self.remove(index);
            return;
        }
        let grown = slot.segment == Segment::Protected;
        self.slots.link(index);
        if grown {
            self.demote();
        }
        if self.bytes_max < self.bytes {
            self.shrink();
        }
    }

    /// Lets the oldest protected pages fall back where they are more than their share.
    fn demote(&mut self) {
        let share = self.bytes_max / 5 * 4;
        while share < self.slots.listed_bytes(Segment::Protected)
            && let Some(oldest) = self.slots.oldest(Segment::Protected)
        {
            self.slots.unlink(oldest);
            self.slots.get_mut(oldest).segment = Segment::Probation;
            self.slots.link(oldest);
        }
    }

    /// Evicts until the budget is kept, or only pinned pages are left; [`EVICTIONS_MAX`] at most,
    /// so that a budget that was lowered is come to in steps.
    fn shrink(&mut self) {
        self.evict_to(self.bytes_max);
    }

    /// As [`State::shrink`], to any number of bytes; whether there is more to be evicted.
    pub(super) fn evict_to(&mut self, bytes_max: usize) -> bool {
        for _ in 0..EVICTIONS_MAX {
            if self.bytes <= bytes_max {
                return false;
            }
            let oldest = self.orphan().or_else(|| self.slots.oldest(Segment::Probation));
            let oldest = oldest.or_else(|| self.slots.oldest(Segment::Protected));
            let Some(oldest) = oldest else { return false };
            let kind = self.slots.get(oldest).key.kind;
            let (pins, before) = (self.slots.get(oldest).pins, self.bytes);
            debug_assert!(pins == 0, "pinned-stays: slot {oldest} of {pins} pins is evicted");
            self.slots.unlink(oldest);
            self.remove(oldest);
            debug_assert!(self.bytes < before, "accounted: an eviction of nothing");
            self.stats_of(kind).evictions += 1;
        }
        bytes_max < self.bytes
    }

    /// An unpinned page of a closed file (*orphans-first*). Pinned ones on the way are marked, and
    /// go with their last pin.
    fn orphan(&mut self) -> Option<u32> {
        while let Some(owner) = self.orphaned.last() {
            let mut at = self.owners.get(owner).map_or(NONE, |cached| cached.first);
            while at != NONE && 0 < self.slots.get(at).pins {
                self.slots.get_mut(at).orphan = true;
                at = self.slots.next_of_file(at);
            }
            if at != NONE {
                let is_loading = matches!(self.slots.get(at).body, Body::Loading(_));
                debug_assert!(!is_loading, "orphans-first: slot {at} is being loaded");
                return Some(at);
            }
            self.orphaned.pop();
        }
        None
    }

    /// The file at this address was closed.
    pub(super) fn forget(&mut self, owner: usize) {
        debug_assert!(!self.orphaned.contains(&owner), "orphans-first: a file closed twice");
        if self.owners.contains_key(&owner) {
            self.orphaned.push(owner);
        }
    }

    fn insert(&mut self, owner: &Rc<Owner>, slot: Slot) -> u32 {
        let key = slot.key;
        let cached = self.owners.entry(key.owner);
        let cached = cached.or_insert_with(|| Cached { _owner: Rc::downgrade(owner), first: NONE });
        let index = self.slots.insert(slot, cached.first);
        cached.first = index;
        let before = self.map.insert(key, index);
        debug_assert!(before.is_none(), "one-load: {key:?} is in slot {before:?} already");
        debug_assert!(!self.orphaned.contains(&key.owner), "orphans-first: read after its close");
        index
    }

    /// Forgets a page that is in no list.
    fn remove(&mut self, index: u32) {
        let (slot, head) = self.slots.remove(index);
        let mapped = self.map.remove(&slot.key);
        debug_assert!(mapped == Some(index), "accounted: {:?} is in slot {mapped:?}", slot.key);
        debug_assert!(
            slot.bytes <= self.bytes,
            "accounted: {} of {} bytes",
            slot.bytes,
            self.bytes
        );
        match head {
            Some(NONE) => {
                self.owners.remove(&slot.key.owner);
                // From now on the address may be another's.
                self.orphaned.retain(|owner| *owner != slot.key.owner);
            }
            Some(first) => {
                let cached = self.owners.get_mut(&slot.key.owner);
                cached.expect("a chain has its owner").first = first;
            }
            None => {}
        }
        self.bytes -= slot.bytes;
        if !matches!(slot.body, Body::Loading(_)) {
            let stats = self.stats_of(slot.key.kind);
            stats.pages -= 1;
            stats.bytes -= slot.bytes as u64;
        }
        debug_assert!(self.is_accounted(), "accounted: slot {index} was freed");
    }

    /// Gives a slot its content.
    fn fill(&mut self, index: u32, body: Body) -> Body {
        let bytes = SLOT_BYTES
            + match &body {
                Body::Loading(_) => 0,
                Body::File(page) => page.memory_bytes(),
                Body::Partitions(page) => page.memory_bytes(),
            };
        let slot = self.slots.get_mut(index);
        debug_assert!(matches!(slot.body, Body::Loading(_)), "one-load: {:?} is there", slot.key);
        debug_assert!(slot.pins == 1 && slot.bytes == 0, "accounted: {:?} while loading", slot.key);
        slot.bytes = bytes;
        let kind = slot.key.kind;
        let loading = std::mem::replace(&mut slot.body, body);
        self.bytes += bytes;
        let stats = self.stats_of(kind);
        stats.populations += 1;
        stats.pages += 1;
        stats.bytes += bytes as u64;
        debug_assert!(self.is_accounted(), "accounted: slot {index} was filled");
        if self.bytes_max < self.bytes {
            self.shrink();
        }
        loading
    }
}

impl IndexCache {
    /// Asks for a page on behalf of a read that did or did not wait for it before.
    pub(crate) fn claim(
        self: &Rc<Self>,
        owner: &Rc<Owner>,
        (kind, number): (PageKind, u64),
        read: u64,
        waited: bool,
    ) -> Claim {
        let key = Key { owner: Rc::as_ptr(owner) as usize, kind, number };
        let state = &mut *self.state.borrow_mut();
        let found = state.map.get(&key).copied();
        if let Some(index) = found {
            if let Body::Loading(load) = &state.slots.get(index).body {
                let load = load.clone();
                state.stats_of(kind).blocks += !waited as u64;
                return Claim::Wait(load);
            }
            state.pin(index, read);
            state.stats_of(kind).hits += !waited as u64;
            let body = state.slots.get(index).body.clone();
            return Claim::Ready(body, Pin { cache: self.clone(), index });
        }
        state.stats_of(kind).misses += 1;
        Claim::Mine(self.start(state, owner, key, read))
    }

    /// The page, if it is there.
    pub(crate) fn get(
        self: &Rc<Self>,
        owner: &Rc<Owner>,
        (kind, number): (PageKind, u64),
        read: u64,
    ) -> Option<(Body, Pin)> {
        let key = Key { owner: Rc::as_ptr(owner) as usize, kind, number };
        let state = &mut *self.state.borrow_mut();
        let index = *state.map.get(&key)?;
        if let Body::Loading(_) = state.slots.get(index).body {
            return None;
        }
        state.pin(index, read);
        state.stats_of(kind).hits += 1;
        let body = state.slots.get(index).body.clone();
        Some((body, Pin { cache: self.clone(), index }))
    }

    /// Counts a touch of a page whose load was claimed with others.
    pub(crate) fn missed(&self, kind: PageKind) {
        self.state.borrow_mut().stats_of(kind).misses += 1;
    }

    /// Claims the load of a page that is neither there nor being loaded; counts no touch.
    pub(crate) fn claim_absent(
        self: &Rc<Self>,
        owner: &Rc<Owner>,
        (kind, number): (PageKind, u64),
        read: u64,
    ) -> Option<Loader> {
        let key = Key { owner: Rc::as_ptr(owner) as usize, kind, number };
        let state = &mut *self.state.borrow_mut();
        if state.map.contains_key(&key) {
            return None;
        }
        Some(self.start(state, owner, key, read))
    }

    fn start(self: &Rc<Self>, state: &mut State, owner: &Rc<Owner>, key: Key, read: u64) -> Loader {
        debug_assert!(key.owner == Rc::as_ptr(owner) as usize, "one-load: {key:?} of another");
        let load = Rc::new(Load::default());
        let index = state.insert(owner, Slot::new(key, Body::Loading(load.clone()), read));
        owner.cached_in(self);
        Loader { cache: self.clone(), index, load, done: false }
    }
}

/// Keeps a page where it is.
#[derive(Debug)]
pub(crate) struct Pin {
    cache: Rc<IndexCache>,
    index: u32,
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        let mut state = self.cache.state.borrow_mut();
        let slot = state.slots.get_mut(self.index);
        debug_assert!(0 < slot.pins, "pinned-stays: slot {} has no pin", self.index);
        slot.pins += 1;
        Pin { cache: self.cache.clone(), index: self.index }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.cache.state.borrow_mut().unpin(self.index);
    }
}

/// The duty to load a page. Dropped, it hands the duty on (*one-load*).
#[derive(Debug)]
pub(crate) struct Loader {
    cache: Rc<IndexCache>,
    index: u32,
    load: Rc<Load>,
    done: bool,
}

impl Loader {
    /// The page is loaded.
    pub(crate) fn finish(mut self, body: Body) -> Pin {
        debug_assert!(!matches!(body, Body::Loading(_)), "one-load: it ends with another");
        self.done = true;
        let loading = self.cache.state.borrow_mut().fill(self.index, body);
        drop(loading);
        self.load.ended.notify_all();
        Pin { cache: self.cache.clone(), index: self.index }
    }

    /// The page could not be loaded.
    pub(crate) fn fail(self, error: &ReadError) {
        debug_assert!(!self.done, "one-load: it failed after it ended");
        *self.load.error.borrow_mut() = Some(error.clone());
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if !self.done {
            self.cache.state.borrow_mut().remove(self.index);
            self.load.ended.notify_all();
        }
    }
}
