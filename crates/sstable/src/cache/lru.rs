//! Pages in numbered slots, linked into the lists of a segmented LRU and into one chain per file.
//! Pure: what is in the slots and who may be evicted, no loading and no waiting. Keeps *linked*,
//! *pinned-stays* and *accounted* of the cache.

use super::body::{Body, PageKind};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Names a page: the address of its owner, which the cache keeps from being used again, the kind
/// and the number among the owner's pages of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) owner: usize,
    pub(super) kind: PageKind,
    pub(super) number: u64,
}

/// The part of the LRU that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Probation,
    Protected,
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    previous: u32,
    next: u32,
}

const UNLINKED: Links = Links { previous: NONE, next: NONE };

impl Links {
    /// Whether there are no neighbours. Of one alone in its list there are none, either.
    fn is_unlinked(self) -> bool {
        self.previous == NONE && self.next == NONE
    }
}

/// A page.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: Key,
    pub(super) body: Body,
    /// What it counts in the budget.
    pub(super) bytes: usize,
    pub(super) pins: u32,
    /// The read that touched it last.
    pub(super) read: u64,
    pub(super) segment: Segment,
    /// Its file was closed.
    pub(super) orphan: bool,
    order: Links,
    chain: Links,
}

impl Slot {
    pub(super) fn new(key: Key, body: Body, read: u64) -> Slot {
        Slot {
            key,
            body,
            bytes: 0,
            pins: 1,
            read,
            segment: Segment::Probation,
            orphan: false,
            order: UNLINKED,
            chain: UNLINKED,
        }
    }
}

/// A list, youngest first.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    bytes: usize,
}

/// The slots and the lists through them.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    lists: [List; 2],
}

impl Slots {
    pub(super) fn new() -> Slots {
        let empty = List { first: NONE, last: NONE, bytes: 0 };
        Slots { slots: Vec::new(), free: Vec::new(), lists: [empty; 2] }
    }

    /// Takes a slot in; it is in no list yet, and the first of the chain whose head was `chain`.
    pub(super) fn insert(&mut self, mut slot: Slot, chain: u32) -> u32 {
        debug_assert!(slot.order.is_unlinked() && slot.chain.is_unlinked(), "linked: a new slot");
        slot.chain = Links { previous: NONE, next: chain };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                u32::try_from(self.slots.len() - 1).expect("pages of 4 KiB in the address space")
            }
        };
        if chain != NONE {
            debug_assert!(self.get(chain).chain.previous == NONE, "linked: not the first");
            self.get_mut(chain).chain.previous = index;
        }
        index
    }

    /// Takes an unlisted slot out, and answers how the chain's head changes, if it does.
    pub(super) fn remove(&mut self, index: u32) -> (Slot, Option<u32>) {
        let slot = self.slots[index as usize].take().expect("a slot in use");
        debug_assert!(slot.order.is_unlinked(), "linked: slot {index} is in a list");
        let ends = self.lists.iter().flat_map(|list| [list.first, list.last]);
        debug_assert!(!ends.into_iter().any(|end| end == index), "linked: slot {index}");
        self.free.push(index);
        let Links { previous, next } = slot.chain;
        debug_assert!(previous != index && next != index, "linked: slot {index} to itself");
        if next != NONE {
            self.get_mut(next).chain.previous = previous;
        }
        if previous != NONE {
            self.get_mut(previous).chain.next = next;
            return (slot, None);
        }
        (slot, Some(next))
    }

    pub(super) fn get(&self, index: u32) -> &Slot {
        self.slots[index as usize].as_ref().expect("a slot in use")
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Slot {
        self.slots[index as usize].as_mut().expect("a slot in use")
    }

    /// The slot after `index` in its file's chain.
    pub(super) fn next_of_file(&self, index: u32) -> u32 {
        self.get(index).chain.next
    }

    /// Bytes in a list.
    pub(super) fn listed_bytes(&self, segment: Segment) -> usize {
        self.lists[segment as usize].bytes
    }

    /// The oldest of a list.
    pub(super) fn oldest(&self, segment: Segment) -> Option<u32> {
        let last = self.lists[segment as usize].last;
        debug_assert!(last == NONE || self.get(last).pins == 0, "pinned-stays: slot {last}");
        debug_assert!(last == NONE || self.get(last).segment == segment, "linked: slot {last}");
        (last != NONE).then_some(last)
    }

    /// Puts a slot at the young end of its segment's list.
    pub(super) fn link(&mut self, index: u32) {
        let slot = self.get_mut(index);
        debug_assert!(slot.pins == 0, "pinned-stays: slot {index} has {} pins", slot.pins);
        debug_assert!(slot.order.is_unlinked(), "linked: slot {index} is in a list");
        let (segment, bytes) = (slot.segment, slot.bytes);
        let list = self.lists[segment as usize];
        self.get_mut(index).order = Links { previous: NONE, next: list.first };
        if list.first != NONE {
            self.get_mut(list.first).order.previous = index;
        }
        let list = &mut self.lists[segment as usize];
        list.first = index;
        if list.last == NONE {
            list.last = index;
        }
        list.bytes += bytes;
    }

    /// Takes a slot out of its segment's list.
    pub(super) fn unlink(&mut self, index: u32) {
        let slot = self.get_mut(index);
        let Links { previous, next } = std::mem::replace(&mut slot.order, UNLINKED);
        let (segment, bytes) = (slot.segment, slot.bytes);
        if previous != NONE {
            self.get_mut(previous).order.next = next;
        }
        if next != NONE {
            self.get_mut(next).order.previous = previous;
        }
        let list = &mut self.lists[segment as usize];
        debug_assert!(
            (previous == NONE) == (list.first == index),
            "linked: slot {index}, {segment:?}"
        );
        debug_assert!((next == NONE) == (list.last == index), "linked: slot {index}, {segment:?}");
        debug_assert!(bytes <= list.bytes, "accounted: {bytes} bytes of {} listed", list.bytes);
        if previous == NONE {
            list.first = next;
        }
        if next == NONE {
            list.last = previous;
        }
        list.bytes -= bytes;
    }
}
