//! Byte strings under handles, in a log of segments that is reclaimed by the hand of a clock.
//!
//! An object lies in a segment behind a header of 8 bytes, or, if it is large, by itself. The
//! [`Handle`] finds it through a table entry of 8 bytes, so an object is moved by copying it and
//! changing one word: nobody holds its address. New objects go to the head segment of their
//! [`Age`]; a hit raises the heat of an object and touches no list. The owner of the objects drives
//! reclaiming, a segment at a time:
//!
//! ```
//! # use memory::{Age, Arena, Verdict};
//! # let mut arena = Arena::new(1 << 20);
//! # arena.set_limit(1 << 20);
//! # arena.allocate(Age::Probation, 0, 100);
//! # arena.set_limit(0);
//! while arena.over_limit()
//!     && let Some(mut victim) = arena.victim()
//! {
//!     while let Some((handle, verdict)) = arena.next(&mut victim) {
//!         match verdict {
//!             Verdict::Keep => arena.relocate(handle),
//!             Verdict::Evict => arena.free(handle), // and forget the handle
//!         }
//!     }
//!     arena.release(victim);
//! }
//! # assert_eq!(arena.used_bytes(), 0);
//! ```
//!
//! Invariants
//!  - *blocks*: from its start up to `used`, a segment is a sequence of blocks, each a header and
//!    as many bytes as the header says, rounded up to 8; a header without a handle is dead.
//!  - *found*: the entry of a handle names the block whose header names the handle.
//!  - *one-victim*: at most one unit is being reclaimed; `relocate` and `release` are of it alone.
//!  - *reserve*: what allocates asks the limit, what relocates does not; a turn relocates at most
//!    the bytes of its one segment, so it takes one segment beyond the limit at most, until the
//!    release of the victim gives one back. What is allocated meanwhile, while the owner holds the
//!    victim, leaves room for the rest of the turn.
//!  - *empty-free*: a segment without objects is free at once, unless it is the victim.
//!  - *within*: free segments keep their memory only as far as all of it is within the limit; but
//!    the one of the reserve keeps it, unless the limit is small.

mod handles;
mod policy;

use crate::region::Region;
use handles::{CHUNK_BYTES, Handles, Place};
use policy::{Clock, Turn, Unit};
use std::ops::Range;

pub use handles::Handle;

/// Bytes of a segment: what is reclaimed, and given back, at a time.
pub const SEGMENT_BYTES: usize = 128 << 10;
/// Objects with more bytes lie outside of segments.
const OBJECT_BYTES_MAX: usize = 32 << 10;
/// Bytes of a block's header: the handle and the length.
const HEADER: usize = 8;
/// What places and lengths of blocks are multiples of.
const ALIGNMENT: usize = 8;
/// A limit is small below this: the reserve would be more than one byte in 64.
const SMALL_LIMIT: usize = 64 * SEGMENT_BYTES;
/// Segments beyond the limit for which there is address space.
const RESERVE_SEGMENTS: usize = 4;
/// The most that a table entry can address.
const RESERVATION_MAX: usize = (1 << 32) * ALIGNMENT - RESERVE_SEGMENTS * SEGMENT_BYTES;
/// A large object is counted as whole pages.
const PAGE: usize = 4096;
/// Of an object that is fetched ahead: as a rule all of it, where it is small.
const PREFETCHED_BYTES: usize = 256;
/// Free segments, or chunks of the handle table, that one turn gives back at most.
const GIVEN_BACK_MAX: usize = 8;
/// The highest heat.
const HEAT_MAX: u8 = 3;

/// Which end of the clock an object is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// New: it goes at the first turn unless it was touched meanwhile.
    Probation,
    /// It was hit while on probation, or is known to be wanted again.
    Main,
}

/// What the clock says of an object of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The owner calls [`Arena::relocate`] (or frees it, if it knows better).
    Keep,
    /// The owner forgets the handle and frees the object (or relocates it, if it knows better).
    Evict,
}

/// A segment or a large object whose turn it is. One that is dropped before its release comes
/// again with the next call of [`Arena::victim`].
#[derive(Debug)]
pub struct Victim {
    /// Nothing, if the turn was to give free memory back.
    unit: Option<Unit>,
    age: Age,
    turn: Turn,
    /// Where in the segment the next block begins; for a large object, whether it was told.
    offset: usize,
}

impl Victim {
    /// The age of its objects.
    pub fn age(&self) -> Age {
        self.age
    }

    /// Whether its objects are only moved closer together: no verdict is `Evict`.
    pub fn is_compaction(&self) -> bool {
        self.turn == Turn::Compact
    }
}

/// What an arena holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaStats {
    /// Objects, large ones included.
    pub objects: usize,
    /// Segments in use.
    pub segments: usize,
    /// Segments that are free and have memory.
    pub free_segments: usize,
    /// Objects outside of segments.
    pub large_objects: usize,
    /// Bytes of large objects, in whole pages.
    pub large_bytes: usize,
    /// Bytes of the handle table.
    pub table_bytes: usize,
    /// [`Arena::used_bytes`].
    pub used: usize,
    /// [`Arena::live_bytes`].
    pub live: usize,
    /// Bytes of segments in use that hold no object, and are not ahead of a head's last one.
    pub dead: usize,
    /// Objects made so far, and their bytes.
    pub allocated_objects: u64,
    /// See [`ArenaStats::allocated_objects`].
    pub allocated_bytes: u64,
    /// Bytes copied by relocations so far, headers included.
    pub relocated_bytes: u64,
    /// Victims so far that were compacted.
    pub compacted_segments: u64,
    /// Victims so far that were reclaimed, large objects included.
    pub reclaimed_units: u64,
    /// Objects of reclaimed victims so far that were freed.
    pub evicted_objects: u64,
    /// Segments whose memory was given back so far.
    pub released_segments: u64,
}

#[derive(Clone, Copy)]
struct Segment {
    /// *blocks* end here.
    used: u32,
    /// Bytes of blocks with objects.
    live: u32,
    age: Age,
}

struct Large {
    bytes: Box<[u8]>,
    handle: Handle,
    age: Age,
}

impl Large {
    fn charge(len: usize) -> usize {
        len.next_multiple_of(PAGE)
    }
}

/// A store of movable byte strings within a limit. One per shard.
pub struct Arena {
    region: Region,
    limit: usize,
    handles: Handles,
    /// All segments that were ever used; the others follow them in the region.
    segments: Vec<Segment>,
    /// Free segments with memory, and without.
    free: Vec<u32>,
    bare: Vec<u32>,
    /// Where objects of each age are put.
    heads: [Option<u32>; 2],
    large: Vec<Option<Large>>,
    large_free: Vec<u32>,
    large_bytes: usize,
    live_bytes: usize,
    clock: Clock,
    /// The unit being reclaimed.
    turn: Option<(Unit, Turn)>,
    stats: ArenaStats,
}

impl Arena {
    /// An arena whose limit can be at most `reserve_bytes` (and 32 GiB), and is zero until
    /// [`Arena::set_limit`]. Takes address space only.
    ///
    /// # Panics
    /// If the system refuses the address space.
    pub fn new(reserve_bytes: usize) -> Arena {
        let segments = reserve_bytes.min(RESERVATION_MAX).div_ceil(SEGMENT_BYTES);
        Arena {
            region: Region::new((segments + RESERVE_SEGMENTS) * SEGMENT_BYTES),
            limit: 0,
            handles: Handles::new(),
            segments: Vec::new(),
            free: Vec::new(),
            bare: Vec::new(),
            heads: [None; 2],
            large: Vec::new(),
            large_free: Vec::new(),
            large_bytes: 0,
            live_bytes: 0,
            clock: Clock::new(),
            turn: None,
            stats: ArenaStats::default(),
        }
    }

    /// The most that `set_limit` can set.
    pub fn limit_max(&self) -> usize {
        self.region.bytes().len() - RESERVE_SEGMENTS * SEGMENT_BYTES
    }

    /// Sets how many bytes may be used. Frees nothing by itself: [`Arena::over_limit`] tells
    /// whether there is something to reclaim.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes.min(self.limit_max());
    }

    /// How many bytes may be used.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of segments in use, large objects and the handle table.
    pub fn used_bytes(&self) -> usize {
        self.segments_in_use() * SEGMENT_BYTES + self.large_bytes + self.handles.bytes()
    }

    /// Of [`Arena::used_bytes`], what lies on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.large_bytes + self.handles.bytes()
    }

    /// Bytes that objects asked for.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// Whether more memory is taken, by what is used and by free segments, than the limit allows.
    pub fn over_limit(&self) -> bool {
        let reserve = if self.limit < SMALL_LIMIT { 0 } else { SEGMENT_BYTES };
        let used = self.used_bytes();
        used > self.limit || used + self.free.len() * SEGMENT_BYTES > self.limit + reserve
    }

    /// Objects that were allocated and not freed.
    pub fn objects(&self) -> usize {
        self.handles.live()
    }

    /// What the arena holds and has done.
    pub fn stats(&self) -> ArenaStats {
        let in_use = |segment: &&Segment| segment.used > 0;
        ArenaStats {
            objects: self.handles.live(),
            segments: self.segments_in_use(),
            free_segments: self.free.len(),
            large_objects: self.large.len() - self.large_free.len(),
            large_bytes: self.large_bytes,
            table_bytes: self.handles.bytes(),
            used: self.used_bytes(),
            live: self.live_bytes,
            dead: self.segments.iter().filter(in_use).map(|s| (s.used - s.live) as usize).sum(),
            ..self.stats
        }
    }

    fn segments_in_use(&self) -> usize {
        self.segments.len() - self.free.len() - self.bare.len()
    }
}

/// Objects.
impl Arena {
    /// A new object of `len` bytes, whose contents are unspecified (bytes of objects that were
    /// there before). `kind` is the owner's. `None` if nothing is free within the limit: reclaim
    /// a victim, then try again.
    pub fn allocate(&mut self, age: Age, kind: u8, len: usize) -> Option<Handle> {
        let large = len > OBJECT_BYTES_MAX;
        let needed = match large {
            true => Large::charge(len),
            false if block_bytes(len) <= self.head_room(age) => 0,
            false => SEGMENT_BYTES,
        };
        let table = if self.handles.has_room() { 0 } else { CHUNK_BYTES };
        let fits = self.used_bytes().saturating_add(table + needed) <= self.limit
            || (table + needed == 0 && self.keeps_reserve(age, block_bytes(len)));
        if !fits || (table > 0 && !self.handles.grow()) {
            return None;
        }
        let handle = if large {
            self.allocate_large(age, kind, len)
        } else {
            let offset = self.bump(age, block_bytes(len));
            let handle = self.handles.take(Place::Segment, (offset / ALIGNMENT) as u32, kind);
            self.write_header(offset, Some(handle), len);
            handle
        };
        if needed + table > 0 {
            self.stay_within((needed + table).div_ceil(SEGMENT_BYTES));
        }
        self.live_bytes += len;
        self.stats.allocated_objects += 1;
        self.stats.allocated_bytes += len as u64;
        Some(handle)
    }

    fn allocate_large(&mut self, age: Age, kind: u8, len: usize) -> Handle {
        let charge = Large::charge(len);
        let slot = self.large_free.pop().unwrap_or_else(|| {
            self.large.push(None);
            (self.large.len() - 1) as u32
        });
        let handle = self.handles.take(Place::Large, slot, kind);
        let bytes = vec![0; len].into_boxed_slice();
        self.large[slot as usize] = Some(Large { bytes, handle, age });
        self.large_bytes += charge;
        self.clock.push(Unit::Large(slot), age, charge);
        handle
    }

    /// The bytes of an object.
    ///
    /// # Panics
    /// If the object was freed (here as below).
    #[inline]
    pub fn get(&self, handle: Handle) -> &[u8] {
        let entry = self.handles.entry(handle);
        if entry.place == Place::Segment {
            let offset = entry.address as usize * ALIGNMENT;
            let (_, len) = self.header(offset);
            &self.region.bytes()[offset + HEADER..][..len]
        } else {
            &self.large_of(entry.address).bytes
        }
    }

    /// Has the processor fetch what [`Arena::get`] looks at first: where the object is.
    #[inline]
    pub fn prefetch_place(&self, handle: Handle) {
        self.handles.prefetch(handle);
    }

    /// The same, of the object itself: its first lines.
    #[inline]
    pub fn prefetch(&self, handle: Handle) {
        let entry = self.handles.entry(handle);
        if entry.place == Place::Segment {
            let offset = entry.address as usize * ALIGNMENT;
            let rest = &self.region.bytes()[offset..];
            crate::prefetch_all(&rest[..rest.len().min(PREFETCHED_BYTES)]);
        }
    }

    /// The bytes of an object, to be written.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> &mut [u8] {
        let entry = self.handles.entry(handle);
        if entry.place == Place::Segment {
            let offset = entry.address as usize * ALIGNMENT;
            let (_, len) = self.header(offset);
            &mut self.region.bytes_mut()[offset + HEADER..][..len]
        } else {
            let slot = entry.address;
            &mut self.large_of_mut(slot).bytes
        }
    }

    /// The owner's kind of an object.
    #[inline]
    pub fn kind(&self, handle: Handle) -> u8 {
        self.handles.entry(handle).kind
    }

    /// Counts a hit: raises the heat of an object, up to 3.
    #[inline]
    pub fn touch(&self, handle: Handle) {
        let heat = &self.handles.entry(handle).heat;
        heat.set((heat.get() + 1).min(HEAT_MAX));
    }

    /// How often an object was hit since it came or moved, up to 3.
    pub fn heat(&self, handle: Handle) -> u8 {
        self.handles.entry(handle).heat.get()
    }

    /// The age of the unit that an object lies in.
    pub fn age(&self, handle: Handle) -> Age {
        let entry = self.handles.entry(handle);
        match entry.place {
            Place::Segment => self.segments[segment_at(entry.address) as usize].age,
            Place::Large | Place::Free => self.large_of(entry.address).age,
        }
    }

    /// Ends an object and its handle.
    pub fn free(&mut self, handle: Handle) {
        let entry = self.handles.entry(handle);
        let (place, address) = (entry.place, entry.address);
        self.handles.give(handle);
        let unit = match place {
            Place::Segment => Unit::Segment(segment_at(address)),
            Place::Large | Place::Free => Unit::Large(address),
        };
        if self.turn == Some((unit, Turn::Reclaim)) {
            self.stats.evicted_objects += 1;
        }
        if place == Place::Segment {
            let offset = address as usize * ALIGNMENT;
            let (_, len) = self.header(offset);
            self.live_bytes -= len;
            self.cut(offset, 0, block_bytes(len));
        } else {
            self.free_large(address);
        }
    }

    fn free_large(&mut self, slot: u32) {
        let large = self.large[slot as usize].take().expect("found: a large object");
        self.live_bytes -= large.bytes.len();
        let charge = Large::charge(large.bytes.len());
        self.large_bytes -= charge;
        self.large_free.push(slot);
        self.leave_clock(Unit::Large(slot), charge);
    }

    /// Takes a large object out of the clock, or ends its turn.
    fn leave_clock(&mut self, unit: Unit, charge: usize) {
        if self.turn.is_some_and(|(turn, _)| turn == unit) {
            self.turn = None;
        } else {
            self.clock.remove(unit, charge);
        }
    }

    /// Shortens an object to its first `len` bytes.
    pub fn shrink(&mut self, handle: Handle, len: usize) {
        let entry = self.handles.entry(handle);
        let (place, address) = (entry.place, entry.address);
        let before = self.get(handle).len();
        assert!(len <= before, "an object of {before} bytes cannot shrink to {len}");
        self.live_bytes -= before - len;
        if place == Place::Segment {
            let offset = address as usize * ALIGNMENT;
            self.write_header(offset, Some(handle), len);
            self.cut(offset, block_bytes(len), block_bytes(before));
        } else {
            self.shrink_large(address, len);
        }
    }

    fn shrink_large(&mut self, slot: u32, len: usize) {
        let large = self.large_of_mut(slot);
        let age = large.age;
        let before = Large::charge(large.bytes.len());
        let mut bytes = std::mem::take(&mut large.bytes).into_vec();
        bytes.truncate(len);
        large.bytes = bytes.into_boxed_slice();
        let charge = Large::charge(len);
        self.large_bytes -= before - charge;
        let unit = Unit::Large(slot);
        if charge < before {
            self.leave_clock(unit, before);
            self.clock.push(unit, age, charge);
        }
    }

    fn large_of(&self, slot: u32) -> &Large {
        self.large[slot as usize].as_ref().expect("found: a large object")
    }

    fn large_of_mut(&mut self, slot: u32) -> &mut Large {
        self.large[slot as usize].as_mut().expect("found: a large object")
    }
}

/// Blocks and segments.
impl Arena {
    /// The handle, if the block is not dead, and the bytes behind the header that are the object.
    #[inline]
    fn header(&self, offset: usize) -> (Option<Handle>, usize) {
        let bytes = &self.region.bytes()[offset..][..HEADER];
        let word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        (Handle::of_word(word as u32), (word >> 32) as usize)
    }

    fn write_header(&mut self, offset: usize, handle: Option<Handle>, len: usize) {
        let word = u64::from(handle.map_or(0, Handle::word)) | ((len as u64) << 32);
        self.region.bytes_mut()[offset..][..HEADER].copy_from_slice(&word.to_ne_bytes());
    }

    fn write_dead(&mut self, offset: usize, size: usize) {
        self.write_header(offset, None, size - HEADER);
        self.region.poison(offset + HEADER..offset + size);
    }

    /// Bytes behind the last block of the head of an age.
    fn head_room(&self, age: Age) -> usize {
        self.heads[age as usize]
            .map_or(0, |head| SEGMENT_BYTES - self.segments[head as usize].used as usize)
    }

    /// Whether the head of an age, with a block of `size` bytes more, still has room for what is
    /// left of the victim, if that goes there (*reserve*).
    fn keeps_reserve(&self, age: Age, size: usize) -> bool {
        let Some((Unit::Segment(victim), turn)) = self.turn else { return true };
        let left = self.segments[victim as usize].live as usize;
        self.destination(victim, turn) != age || self.head_room(age) >= size + left
    }

    /// Where objects of a victim are moved to.
    fn destination(&self, victim: u32, turn: Turn) -> Age {
        match turn {
            Turn::Compact => self.segments[victim as usize].age,
            Turn::Reclaim => Age::Main,
        }
    }

    /// Room for a block of `size` bytes at the head of an age, which is a new segment if need be:
    /// its offset in the region. Does not ask the limit.
    fn bump(&mut self, age: Age, size: usize) -> usize {
        if size > self.head_room(age) {
            self.seal(age);
            self.heads[age as usize] = Some(self.open(age));
        }
        let head = self.heads[age as usize].expect("it was opened if there was none");
        let segment = &mut self.segments[head as usize];
        let offset = head as usize * SEGMENT_BYTES + segment.used as usize;
        segment.used += size as u32;
        segment.live += size as u32;
        self.region.unpoison(offset..offset + size);
        offset
    }

    /// A free segment, now in use.
    fn open(&mut self, age: Age) -> u32 {
        let segment = self.take_segment(Segment { used: 0, live: 0, age });
        self.region.poison(bytes_of(segment));
        segment
    }

    fn take_segment(&mut self, empty: Segment) -> u32 {
        let free = match self.free.pop() {
            Some(segment) => Some(segment),
            None => self.bare.pop(),
        };
        if let Some(segment) = free {
            self.segments[segment as usize] = empty;
            return segment;
        }
        let segment = self.segments.len();
        let reserved = self.region.bytes().len() / SEGMENT_BYTES;
        assert!(segment < reserved, "reserve: address space for one more segment than the limit");
        self.segments.push(empty);
        segment as u32
    }

    /// Hands the head of an age to the clock.
    fn seal(&mut self, age: Age) {
        if let Some(head) = self.heads[age as usize].take() {
            self.clock.push(Unit::Segment(head), age, SEGMENT_BYTES);
            self.note_dead(head);
        }
    }

    fn note_dead(&mut self, segment: u32) {
        let dead = SEGMENT_BYTES - self.segments[segment as usize].live as usize;
        self.clock.set_dead(Unit::Segment(segment), dead, SEGMENT_BYTES);
    }

    /// Makes what lies from `kept` up to `size` of the block at `offset` dead.
    fn cut(&mut self, offset: usize, kept: usize, size: usize) {
        if kept == size {
            return;
        }
        self.write_dead(offset + kept, size - kept);
        let index = (offset / SEGMENT_BYTES) as u32;
        let segment = &mut self.segments[index as usize];
        segment.live -= (size - kept) as u32;
        let emptied = segment.live == 0;
        let head = self.heads[segment.age as usize] == Some(index);
        if head && offset % SEGMENT_BYTES + size == segment.used as usize {
            segment.used -= (size - kept) as u32;
        }
        if self.turn.is_some_and(|(unit, _)| unit == Unit::Segment(index)) {
            return;
        }
        match (emptied, head) {
            (true, true) => {
                self.heads[segment.age as usize] = None;
                self.free_segment(index);
            }
            (true, false) => {
                self.clock.remove(Unit::Segment(index), SEGMENT_BYTES);
                self.free_segment(index);
            }
            (false, true) => {}
            (false, false) => self.note_dead(index),
        }
    }

    /// *empty-free*.
    fn free_segment(&mut self, segment: u32) {
        assert!(self.segments[segment as usize].live == 0, "empty-free: no object is in it");
        self.segments[segment as usize].used = 0;
        self.region.poison(bytes_of(segment));
        self.free.push(segment);
        self.stay_within(1);
    }

    /// *within*: gives memory of free segments back, of at most so many; of how many.
    fn stay_within(&mut self, segments_max: usize) -> usize {
        let mut given_back = 0;
        while given_back < segments_max
            && self.over_limit()
            && let Some(segment) = self.free.pop()
        {
            self.region.discard(bytes_of(segment));
            self.bare.push(segment);
            given_back += 1;
        }
        self.stats.released_segments += given_back as u64;
        given_back
    }
}

/// Reclaiming, which the owner of the objects drives.
impl Arena {
    /// The unit whose turn it is: what is free beyond the limit, a sparse segment, else the oldest
    /// of probation or main. Nothing is put into it any more. `None` if nothing is in use.
    pub fn victim(&mut self) -> Option<Victim> {
        if let Some((unit, turn)) = self.turn {
            return Some(self.victim_of(unit, turn));
        }
        let given_back = self.handles.drop_empty(GIVEN_BACK_MAX) + self.stay_within(GIVEN_BACK_MAX);
        let nothing = Victim { unit: None, age: Age::Probation, turn: Turn::Compact, offset: 0 };
        if given_back > 0 && self.used_bytes() + SEGMENT_BYTES <= self.limit {
            return Some(nothing);
        }
        let head = self.heads.iter().flatten().next();
        let chosen = self.clock.choose();
        let chosen = chosen.or(head.map(|&head| (Unit::Segment(head), Turn::Reclaim)));
        let Some((unit, turn)) = chosen else {
            return (given_back > 0).then_some(nothing);
        };
        match unit {
            Unit::Segment(segment) if self.heads.contains(&Some(segment)) => {
                self.heads[self.segments[segment as usize].age as usize] = None;
            }
            Unit::Segment(_) => self.clock.remove(unit, SEGMENT_BYTES),
            Unit::Large(slot) => {
                let charge = Large::charge(self.large_of(slot).bytes.len());
                self.clock.remove(unit, charge);
            }
        }
        self.turn = Some((unit, turn));
        Some(self.victim_of(unit, turn))
    }

    fn victim_of(&self, unit: Unit, turn: Turn) -> Victim {
        let age = match unit {
            Unit::Segment(segment) => self.segments[segment as usize].age,
            Unit::Large(slot) => self.large_of(slot).age,
        };
        Victim { unit: Some(unit), age, turn, offset: 0 }
    }

    /// The next object of the victim, which the owner relocates or frees; `None` after the last.
    pub fn next(&self, victim: &mut Victim) -> Option<(Handle, Verdict)> {
        let handle = match victim.unit? {
            Unit::Segment(segment) => self.next_block(segment, &mut victim.offset)?,
            Unit::Large(slot) => {
                self.turn.filter(|_| victim.offset == 0)?;
                victim.offset = 1;
                self.large_of(slot).handle
            }
        };
        let keeps = victim.turn == Turn::Compact || self.heat(handle) > 0;
        Some((handle, if keeps { Verdict::Keep } else { Verdict::Evict }))
    }

    fn next_block(&self, segment: u32, from: &mut usize) -> Option<Handle> {
        let used = self.segments[segment as usize].used as usize;
        while *from < used {
            let (handle, len) = self.header(segment as usize * SEGMENT_BYTES + *from);
            *from += block_bytes(len);
            if handle.is_some() {
                return handle;
            }
        }
        None
    }

    /// Moves an object of the victim to the head of main and takes one from its heat; if the
    /// victim is only compacted, to the head of its own age with its heat. Never fails.
    ///
    /// # Panics
    /// *one-victim*: if the object does not lie in the victim.
    pub fn relocate(&mut self, handle: Handle) {
        let entry = self.handles.entry(handle);
        let address = entry.address;
        let unit = match entry.place {
            Place::Segment => Unit::Segment(segment_at(address)),
            Place::Large | Place::Free => Unit::Large(address),
        };
        let turn = self.turn.filter(|(victim, _)| *victim == unit).map(|(_, turn)| turn);
        let turn = turn.expect("one-victim: the object lies in the victim");
        if turn == Turn::Reclaim {
            entry.heat.set(entry.heat.get().saturating_sub(1));
        }
        match unit {
            Unit::Segment(segment) => self.relocate_block(handle, segment, turn),
            Unit::Large(slot) => {
                let large = self.large_of_mut(slot);
                large.age = Age::Main;
                let charge = Large::charge(large.bytes.len());
                self.clock.push(unit, Age::Main, charge);
                self.turn = None;
            }
        }
    }

    fn relocate_block(&mut self, handle: Handle, segment: u32, turn: Turn) {
        let from = self.handles.entry(handle).address as usize * ALIGNMENT;
        let (_, len) = self.header(from);
        let size = block_bytes(len);
        let to = self.bump(self.destination(segment, turn), size);
        self.region.bytes_mut().copy_within(from..from + size, to);
        self.handles.entry_mut(handle).address = (to / ALIGNMENT) as u32;
        self.write_dead(from, size);
        self.segments[segment as usize].live -= size as u32;
        self.stats.relocated_bytes += size as u64;
    }

    /// Ends the turn of a victim all of whose objects were relocated or freed. Its segment is free;
    /// over the limit, its memory goes back to the system.
    ///
    /// # Panics
    /// If an object is left in it.
    pub fn release(&mut self, victim: Victim) {
        let Some(unit) = victim.unit else { return };
        match victim.turn {
            Turn::Compact => self.stats.compacted_segments += 1,
            Turn::Reclaim => self.stats.reclaimed_units += 1,
        }
        match unit {
            Unit::Segment(segment) => {
                assert!(self.turn == Some((unit, victim.turn)), "one-victim: another one is");
                self.turn = None;
                self.free_segment(segment);
            }
            // It was relocated or freed, which ended the turn.
            Unit::Large(_) => assert!(self.turn.is_none(), "empty-free: the object is there"),
        }
    }
}

/// Bytes of the block of an object.
#[inline]
fn block_bytes(len: usize) -> usize {
    HEADER + len.next_multiple_of(ALIGNMENT)
}

/// Where a segment lies in the region.
fn bytes_of(segment: u32) -> Range<usize> {
    let start = segment as usize * SEGMENT_BYTES;
    start..start + SEGMENT_BYTES
}

/// The segment that an address of an entry lies in.
fn segment_at(address: u32) -> u32 {
    address / (SEGMENT_BYTES / ALIGNMENT) as u32
}

#[cfg(test)]
mod tests;
