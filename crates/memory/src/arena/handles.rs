//! The table that says where the object of a handle lies.
//!
//! Invariants
//!  - *eight-bytes*: an entry has 8 bytes; nothing else is kept for an object beside its header.
//!  - *free-known*: an entry of no object says so, and using its handle panics. Debug builds also
//!    know a handle whose entry was taken by another object, by 8 bits of generation; they have
//!    2^24 handles instead of 2^32.
//!  - *low-first*: the lowest chunk with room gives the next handle, so that high ones fall empty.

use std::cell::Cell;
use std::num::NonZeroU32;

/// Names an object of an arena, from `allocate` to `free`, wherever the object lies. Four bytes;
/// an option of it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(NonZeroU32);

const GENERATION_BITS: u32 = if cfg!(debug_assertions) { 8 } else { 0 };
const INDEX_BITS: u32 = u32::BITS - GENERATION_BITS;
const INDEX_MASK: u32 = u32::MAX >> GENERATION_BITS;

impl Handle {
    fn new(index: u32, generation: u8) -> Handle {
        let generation = (u64::from(generation) << INDEX_BITS) as u32;
        Handle(NonZeroU32::new((index + 1) | generation).expect("an index and one"))
    }

    /// The handle that [`Handle::word`] gave this number for.
    pub(super) fn of_word(word: u32) -> Option<Handle> {
        NonZeroU32::new(word).map(Handle)
    }

    pub(super) fn word(self) -> u32 {
        self.0.get()
    }

    #[inline]
    fn index(self) -> usize {
        ((self.0.get() & INDEX_MASK).wrapping_sub(1)) as usize
    }

    fn generation(self) -> u8 {
        (u64::from(self.0.get()) >> INDEX_BITS) as u8
    }
}

/// Where an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere: `address` is the next free entry of the chunk.
    Free,
    /// In a segment: `address` is that of its header, in units of 8 bytes.
    Segment,
    /// By itself: `address` is its slot among the large ones.
    Large,
}

/// *eight-bytes*.
pub(super) struct Entry {
    pub(super) address: u32,
    pub(super) heat: Cell<u8>,
    pub(super) kind: u8,
    pub(super) place: Place,
    generation: u8,
}

const _: () = assert!(size_of::<Entry>() == 8);

/// Entries of a chunk, which is the unit in which the table grows and shrinks.
const CHUNK: usize = 4096;
/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = CHUNK * size_of::<Entry>();
/// Chunks that handles can name.
const CHUNKS_MAX: usize = INDEX_MASK as usize / CHUNK;
/// Ends the list of free entries of a chunk.
const LAST: u16 = CHUNK as u16;

struct Chunk {
    entries: Option<Box<[Entry; CHUNK]>>,
    live: u16,
    /// The first free entry.
    free: u16,
    /// It is among `Handles::emptied`.
    emptied: bool,
}

impl Chunk {
    fn new(generation: u8) -> Chunk {
        let entries: Box<[Entry]> = (1..=CHUNK as u32)
            .map(|next| Entry {
                address: next,
                heat: Cell::new(0),
                kind: 0,
                place: Place::Free,
                generation,
            })
            .collect();
        Chunk { entries: entries.try_into().ok(), live: 0, free: 0, emptied: true }
    }
}

/// The table.
pub(super) struct Handles {
    chunks: Vec<Chunk>,
    /// Bit by chunk: it has a free entry.
    roomy: Vec<u64>,
    /// No word of `roomy` before this one has a bit.
    roomy_from: usize,
    /// Chunks whose memory was given back.
    absent: Vec<u32>,
    /// Chunks that were empty once; they may have been used since.
    emptied: Vec<u32>,
    live: usize,
    grown: u8,
}

impl Handles {
    pub(super) fn new() -> Handles {
        Handles {
            chunks: Vec::new(),
            roomy: Vec::new(),
            roomy_from: 0,
            absent: Vec::new(),
            emptied: Vec::new(),
            live: 0,
            grown: 0,
        }
    }

    /// Handles in use.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Memory of the chunks.
    pub(super) fn bytes(&self) -> usize {
        (self.chunks.len() - self.absent.len()) * CHUNK_BYTES
    }

    /// Whether `take` can give a handle.
    pub(super) fn has_room(&mut self) -> bool {
        self.first_roomy().is_some()
    }

    fn first_roomy(&mut self) -> Option<usize> {
        while let Some(&word) = self.roomy.get(self.roomy_from) {
            if word != 0 {
                return Some(self.roomy_from * 64 + word.trailing_zeros() as usize);
            }
            self.roomy_from += 1;
        }
        None
    }

    fn set_roomy(&mut self, chunk: usize, roomy: bool) {
        let (word, bit) = (chunk / 64, 1 << (chunk % 64));
        if roomy {
            self.roomy[word] |= bit;
            self.roomy_from = self.roomy_from.min(word);
        } else {
            self.roomy[word] &= !bit;
        }
    }

    /// Adds a chunk; false if there are no more numbers for handles.
    pub(super) fn grow(&mut self) -> bool {
        let index = match self.absent.pop() {
            Some(index) => index as usize,
            None if self.chunks.len() < CHUNKS_MAX => self.chunks.len(),
            None => return false,
        };
        // Entries of a chunk that was there before start with another generation.
        self.grown = self.grown.wrapping_add(1);
        let generation = if GENERATION_BITS == 0 { 0 } else { self.grown };
        let chunk = Chunk::new(generation);
        if index == self.chunks.len() {
            self.chunks.push(chunk);
            self.roomy.resize(self.chunks.len().div_ceil(64), 0);
        } else {
            self.chunks[index] = chunk;
        }
        self.emptied.push(index as u32);
        self.set_roomy(index, true);
        true
    }

    /// Gives the memory of at most `chunks_max` empty chunks back; how many there were.
    pub(super) fn drop_empty(&mut self, chunks_max: usize) -> usize {
        let mut dropped = 0;
        while dropped < chunks_max
            && let Some(index) = self.emptied.pop()
        {
            let chunk = &mut self.chunks[index as usize];
            chunk.emptied = false;
            if chunk.live == 0 {
                chunk.entries = None;
                self.set_roomy(index as usize, false);
                self.absent.push(index);
                dropped += 1;
            }
        }
        dropped
    }

    /// A handle for the object at a place; `has_room` says whether there is one.
    pub(super) fn take(&mut self, place: Place, address: u32, kind: u8) -> Handle {
        let index = self.first_roomy().expect("`has_room` was asked");
        let chunk = &mut self.chunks[index];
        let slot = chunk.free;
        let entries = chunk.entries.as_mut().expect("a roomy chunk is there");
        let entry = &mut entries[usize::from(slot)];
        chunk.free = entry.address as u16;
        chunk.live += 1;
        entry.address = address;
        entry.heat.set(0);
        entry.kind = kind;
        entry.place = place;
        let handle = Handle::new((index * CHUNK + usize::from(slot)) as u32, entry.generation);
        if chunk.free == LAST {
            self.set_roomy(index, false);
        }
        self.live += 1;
        handle
    }

    /// Ends a handle.
    pub(super) fn give(&mut self, handle: Handle) {
        let entry = self.entry_mut(handle);
        entry.place = Place::Free;
        if GENERATION_BITS > 0 {
            entry.generation = entry.generation.wrapping_add(1);
        }
        let (index, slot) = (handle.index() / CHUNK, handle.index() % CHUNK);
        let chunk = &mut self.chunks[index];
        let entries = chunk.entries.as_mut().expect("the chunk of a handle is there");
        entries[slot].address = u32::from(chunk.free);
        let was_full = chunk.free == LAST;
        chunk.free = slot as u16;
        chunk.live -= 1;
        if chunk.live == 0 && !chunk.emptied {
            chunk.emptied = true;
            self.emptied.push(index as u32);
        }
        if was_full {
            self.set_roomy(index, true);
        }
        self.live -= 1;
    }

    /// The entry of a handle in use.
    ///
    /// # Panics
    /// *free-known*: if the object was freed.
    #[inline]
    pub(super) fn entry(&self, handle: Handle) -> &Entry {
        let index = handle.index();
        let entry = self
            .chunks
            .get(index / CHUNK)
            .and_then(|chunk| chunk.entries.as_ref())
            .map(|entries| &entries[index % CHUNK])
            .filter(|entry| entry.place != Place::Free);
        let entry = entry.expect("free-known: the object of this handle was freed");
        debug_assert!(
            entry.generation == handle.generation(),
            "free-known: the object of {handle:?} was freed, another one took its place"
        );
        entry
    }

    /// Has the processor fetch the entry of a handle in use.
    #[inline]
    pub(super) fn prefetch(&self, handle: Handle) {
        let index = handle.index();
        let chunk = self.chunks.get(index / CHUNK).and_then(|chunk| chunk.entries.as_ref());
        if let Some(entries) = chunk {
            crate::prefetch(&entries[index % CHUNK]);
        }
    }

    /// As [`Handles::entry`].
    #[inline]
    pub(super) fn entry_mut(&mut self, handle: Handle) -> &mut Entry {
        let index = handle.index();
        let entry = self
            .chunks
            .get_mut(index / CHUNK)
            .and_then(|chunk| chunk.entries.as_mut())
            .map(|entries| &mut entries[index % CHUNK])
            .filter(|entry| entry.place != Place::Free);
        let entry = entry.expect("free-known: the object of this handle was freed");
        debug_assert!(
            entry.generation == handle.generation(),
            "free-known: the object of {handle:?} was freed, another one took its place"
        );
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(handles: &mut Handles, address: u32) -> Handle {
        if !handles.has_room() {
            assert!(handles.grow());
        }
        handles.take(Place::Segment, address, 7)
    }

    #[test]
    fn chunks_come_as_they_are_needed_and_go_when_they_are_empty() {
        let mut handles = Handles::new();
        let all: Vec<_> = (0..CHUNK as u32 * 3).map(|at| take(&mut handles, at)).collect();
        assert_eq!((handles.live(), handles.bytes()), (CHUNK * 3, CHUNK_BYTES * 3));
        assert_eq!(handles.drop_empty(10), 0);
        for (at, &handle) in all.iter().enumerate() {
            assert_eq!(handles.entry(handle).address, at as u32);
            if at / CHUNK != 1 || at % 2 == 0 {
                handles.give(handle);
            }
        }
        assert_eq!(handles.drop_empty(1), 1);
        assert_eq!(handles.drop_empty(10), 1);
        assert_eq!(handles.bytes(), CHUNK_BYTES);
        for (at, &handle) in all.iter().enumerate().filter(|(at, _)| at / CHUNK == 1 && at % 2 == 1)
        {
            assert_eq!(handles.entry(handle).address, at as u32);
        }
        // What is left of the middle chunk is used before another one comes.
        (0..CHUNK as u32 / 2).for_each(|at| _ = take(&mut handles, at));
        assert_eq!(handles.bytes(), CHUNK_BYTES);
        take(&mut handles, 0);
        assert_eq!((handles.live(), handles.bytes()), (CHUNK + 1, CHUNK_BYTES * 2));
    }

    #[test]
    fn the_lowest_chunk_with_room_gives_the_next_handle() {
        let mut handles = Handles::new();
        let all: Vec<_> = (0..CHUNK as u32 * 100).map(|at| take(&mut handles, at)).collect();
        for at in [99, 70, 3] {
            handles.give(all[at * CHUNK + 5]);
        }
        for at in [3, 70, 99] {
            let handle = take(&mut handles, 1);
            assert_eq!(handle.index(), all[at * CHUNK + 5].index());
            assert_eq!(handle == all[at * CHUNK + 5], GENERATION_BITS == 0);
        }
    }
}
