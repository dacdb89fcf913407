//! Walking in a trie: to the place of a key, and from there to the entries before and behind.
//!
//! Pure: a step that lacks a page says which, and is taken again when it has it. Steps that were
//! interrupted have changed nothing.
//!
//! Invariants
//!  - *backwards*: a child lies before its parent, and below every node there is an entry, so that
//!    every step ends; keys are not longer than [`DEPTH_MAX`].

use super::node::{Node, PAGE_BYTES, Payload};
use crate::index::pages::{Pages, Stop};
use smallvec::SmallVec;
use stdx::Damaged;

/// The longest key that is followed: more than the longest clustering key takes, every byte of it
/// a number of its own.
pub(crate) const DEPTH_MAX: u32 = 1 << 19;
/// Pages that are held between two steps.
const HELD_MAX: usize = 6;
/// Nodes with children or payloads to choose from that lie above a place, usually.
const FRAMES: usize = 10;

/// A place between two entries of a trie, or before or behind all: the nodes above it, root
/// first. Of the node itself (item 0) and its children (item 1 and on), those before `item` lie
/// before the place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    frames: SmallVec<[Frame; FRAMES]>,
}

/// A node above a place. In the last one the place is before `item`; in those above, somewhere
/// in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    node: u64,
    /// Bytes of key that lead to the node.
    depth: u32,
    item: u16,
}

/// Behind all children.
const BEHIND: u16 = 257;

impl Place {
    /// A place to be set.
    pub(crate) fn new() -> Place {
        Place::default()
    }

    /// Copies another place into the memory of this one.
    pub(crate) fn set(&mut self, other: &Place) {
        self.frames.clear();
        self.frames.extend_from_slice(&other.frames);
    }

    /// The lowest node above it.
    pub(crate) fn node(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.node)
    }

    /// Goes before the lowest node above it.
    pub(crate) fn before_node(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.item = 0;
        }
    }

    /// Bytes of key that lead to the lowest node above it.
    pub(crate) fn depth(&self) -> u32 {
        self.frames.last().map_or(0, |frame| frame.depth)
    }

    fn push(&mut self, node: u64, depth: u32, item: u16) -> Result<(), Stop> {
        if DEPTH_MAX < depth {
            return Err(Stop::Damaged(Damaged::new("trie with keys too long", node)));
        }
        let below = self.frames.last().is_none_or(|above| node < above.node);
        debug_assert!(below, "backwards: {node} below {:?}", self.frames.last());
        let deeper = self.frames.last().is_none_or(|above| above.depth < depth);
        debug_assert!(deeper, "backwards: depth {depth} below {:?}", self.frames.last());
        debug_assert!(item <= BEHIND, "item {item} of a node");
        self.frames.push(Frame { node, depth, item });
        Ok(())
    }
}

/// An entry that a step passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Of its payload.
    pub(crate) bits: u8,
    bytes: [u8; Payload::BYTES_MAX],
    len: u8,
    /// How many bytes of key it shares with the place that the step started from, at least.
    pub(crate) shared: u32,
}

impl Passed {
    /// Its payload, and what follows it: up to [`Payload::BYTES_MAX`] bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    fn new((bits, payload): (u8, &[u8]), shared: u32) -> Passed {
        debug_assert!((1..16).contains(&bits), "bits that tell of a payload: {bits}");
        let len = payload.len().min(Payload::BYTES_MAX);
        let mut bytes = [0; Payload::BYTES_MAX];
        bytes[..len].copy_from_slice(&payload[..len]);
        Passed { bits, bytes, len: len as u8, shared }
    }
}

/// A walker: the pages it holds.
#[derive(Debug)]
pub(crate) struct Walk<P: Pages> {
    pages: P,
    held: SmallVec<[(u64, P::Page); HELD_MAX]>,
}

impl<P: Pages> Walk<P> {
    /// A walker that holds nothing.
    pub(crate) fn new(pages: P) -> Walk<P> {
        Walk { pages, held: SmallVec::new() }
    }

    /// Where it gets pages from.
    pub(crate) fn pages(&self) -> &P {
        &self.pages
    }

    /// Gives it a page that it asked for.
    pub(crate) fn hold(&mut self, number: u64, page: P::Page) {
        let held = self.held.iter().any(|(other, _)| *other == number);
        debug_assert!(!held, "page {number} was asked for again");
        self.held.push((number, page));
    }

    /// A step was taken: forgets all but a few pages.
    pub(crate) fn settle(&mut self) {
        let excess = self.held.len().saturating_sub(HELD_MAX);
        self.held.drain(..excess);
        debug_assert!(self.held.len() <= HELD_MAX, "{} pages are held", self.held.len());
    }

    /// The page of a position, and the position in it.
    fn page(&mut self, at: u64) -> Result<(usize, usize), Stop> {
        let number = at / PAGE_BYTES as u64;
        let within = (at % PAGE_BYTES as u64) as usize;
        if let Some(index) = self.held.iter().rposition(|(held, _)| *held == number) {
            return Ok((index, within));
        }
        let page = self.pages.now(number).ok_or(Stop::Need(number))?;
        debug_assert!(page.len() <= PAGE_BYTES, "one-page: {} bytes", page.len());
        self.held.push((number, page));
        Ok((self.held.len() - 1, within))
    }

    fn node(&mut self, at: u64) -> Result<Node<'_>, Stop> {
        let (index, within) = self.page(at)?;
        let page = &self.held[index].1;
        let node = page.get(within..).ok_or(Damaged::new("trie node past the end", 0));
        let node = node.and_then(Node::parse);
        node.map_err(|error| Stop::Damaged(error.from_base(at)))
    }

    /// The payload of the node at a position, if it has one.
    pub(crate) fn payload(&mut self, at: u64) -> Result<Option<Passed>, Stop> {
        Ok(self.node(at)?.payload().map(|payload| Passed::new(payload, 0)))
    }

    /// Goes to the place of a key: behind the entries whose keys are less (with `or_at`: or
    /// equal), before all others. Whether the lowest node on the way is a leaf, whose own key may
    /// go on otherwise than the one that is looked for, but is no longer in the trie.
    pub(crate) fn seek(
        &mut self,
        root: u64,
        key: &[u8],
        or_at: bool,
        place: &mut Place,
    ) -> Result<bool, Stop> {
        place.frames.clear();
        let (mut at, mut depth) = (root, 0);
        loop {
            let node = self.node(at)?;
            let is_leaf = node.is_leaf();
            let Some(byte) = key.get(depth as usize) else {
                place.push(at, depth, or_at as u16)?;
                return Ok(is_leaf);
            };
            let (slot, found) = node.search(*byte);
            let distance = if found { node.distance(slot) } else { 0 };
            // A node with nothing beside the child plays no part in steps.
            let is_chain = node.is_chain();
            if distance == 0 {
                place.push(at, depth, slot as u16 + 1)?;
                return Ok(is_leaf);
            }
            if !is_chain {
                place.push(at, depth, slot as u16 + 1)?;
            }
            at = child(at, distance)?;
            depth += 1;
        }
    }

    /// Goes from a place to that behind the next entry; `None` at the end.
    pub(crate) fn next(&mut self, from: &Place, to: &mut Place) -> Result<Option<Passed>, Stop> {
        to.set(from);
        let mut shared = from.depth();
        loop {
            let Some(frame) = to.frames.last_mut() else { return Ok(None) };
            let (at, depth, item) = (frame.node, frame.depth, frame.item);
            let node = self.node(at)?;
            if item == 0 {
                frame.item = 1;
                if let Some(payload) = node.payload() {
                    debug_assert!(shared <= depth, "{shared} bytes are shared at depth {depth}");
                    return Ok(Some(Passed::new(payload, shared)));
                }
            }
            match node.child_from(item.max(1) as usize - 1) {
                Some(slot) => {
                    let below = child(at, node.distance(slot))?;
                    frame.item = slot as u16 + 1;
                    if node.is_chain() {
                        to.frames.pop();
                    }
                    to.push(below, depth + 1, 0)?;
                }
                None if item == 0 => return Err(no_entry(at)),
                None => {
                    to.frames.pop();
                    if let Some(above) = to.frames.last_mut() {
                        above.item += 1;
                        shared = shared.min(above.depth);
                    }
                }
            }
        }
    }

    /// Goes from a place to that before the previous entry; `None` at the start.
    pub(crate) fn previous(
        &mut self,
        from: &Place,
        to: &mut Place,
    ) -> Result<Option<Passed>, Stop> {
        to.set(from);
        let mut shared = from.depth();
        loop {
            let Some(frame) = to.frames.last_mut() else { return Ok(None) };
            let (at, depth, item) = (frame.node, frame.depth, frame.item);
            let node = self.node(at)?;
            let slot = match item {
                0 | 1 => None,
                _ => node.child_before(item as usize - 1),
            };
            if let Some(slot) = slot {
                let below = child(at, node.distance(slot))?;
                frame.item = slot as u16 + 1;
                if node.is_chain() {
                    to.frames.pop();
                }
                to.push(below, depth + 1, BEHIND)?;
                continue;
            }
            if 0 < item
                && let Some(payload) = node.payload()
            {
                frame.item = 0;
                debug_assert!(shared <= depth, "{shared} bytes are shared at depth {depth}");
                return Ok(Some(Passed::new(payload, shared)));
            }
            if item == BEHIND {
                return Err(no_entry(at));
            }
            to.frames.pop();
            shared = shared.min(to.depth());
        }
    }
}

fn child(at: u64, distance: u64) -> Result<u64, Stop> {
    let below = at.checked_sub(distance).filter(|below| *below < at);
    below.ok_or(Stop::Damaged(Damaged::new("a trie node points past the start of the file", at)))
}

fn no_entry(at: u64) -> Stop {
    Stop::Damaged(Damaged::new("a trie node with no entry below it", at))
}

#[cfg(test)]
pub(super) mod tests;
