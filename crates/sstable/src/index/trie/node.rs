//! The nodes of a trie file: how they are read, checked, and written in the fewest bytes
//! (storage-format reference, 12.1).
//!
//! A node starts with a byte of four bits of type and four bits that tell of its payload (or, for
//! two types without one, are the top of the distance to the only child). Children stand before
//! their parents: a node has distances, never positions.
//!
//! Invariants
//!  - *backwards*: a child lies before its parent, so every descent ends.
//!  - *one-page*: a node lies within one page of [`PAGE_BYTES`].

use stdx::{Damaged, Put};

/// No node crosses a multiple of this.
pub const PAGE_BYTES: usize = 4096;

const PAYLOAD_ONLY: u8 = 0;
const SINGLE_NO_PAYLOAD_4: u8 = 1;
const SINGLE_8: u8 = 2;
const SINGLE_NO_PAYLOAD_12: u8 = 3;
const SINGLE_16: u8 = 4;

/// Bits of a distance, by type: types 5 to 9 list their children, types 10 to 15 span them.
const POINTER_BITS: [u8; 16] = [0, 4, 8, 12, 16, 8, 12, 16, 24, 40, 12, 16, 24, 32, 40, 64];
const SPARSE: std::ops::RangeInclusive<u8> = 5..=9;
const DENSE: std::ops::RangeInclusive<u8> = 10..=15;

/// How the children of a node are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Leaf,
    Single,
    Sparse,
    Dense,
}

/// A node, over the bytes from it to the end of its page.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    bytes: &'a [u8],
    kind: u8,
    form: Form,
    /// Children, those that a dense node does not have included.
    slots: usize,
    /// Where the distances start, and what follows them.
    pointers_at: usize,
    payload_at: usize,
    /// 0 for no payload.
    payload_bits: u8,
}

impl<'a> Node<'a> {
    /// Reads the node that `bytes` starts with; they end with its page.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Node<'a>, Damaged> {
        let cut = Damaged::new("trie node cut short", 0);
        let head = *bytes.first().ok_or(cut)?;
        let (kind, bits) = (head >> 4, head & 15);
        let (form, slots, pointers_at) = match kind {
            PAYLOAD_ONLY => (Form::Leaf, 0, 1),
            SINGLE_NO_PAYLOAD_4 => (Form::Single, 1, 0),
            SINGLE_NO_PAYLOAD_12 => (Form::Single, 1, 0),
            SINGLE_8 | SINGLE_16 => (Form::Single, 1, 2),
            5..=9 => {
                let count = *bytes.get(1).ok_or(cut)? as usize;
                // A list of no children is of no writer, but harmless.
                (Form::Sparse, count, 2 + count)
            }
            _ => {
                let span = *bytes.get(2).ok_or(cut)? as usize + 1;
                (Form::Dense, span, 3)
            }
        };
        let pointer_bits = POINTER_BITS[kind as usize] as usize;
        let payload_at = match kind {
            SINGLE_NO_PAYLOAD_4 => 2,
            SINGLE_NO_PAYLOAD_12 => 3,
            _ => pointers_at + (slots * pointer_bits).div_ceil(8),
        };
        let has_payload = !matches!(kind, SINGLE_NO_PAYLOAD_4 | SINGLE_NO_PAYLOAD_12);
        if bytes.len() < payload_at {
            return Err(cut);
        }
        let node = Node {
            bytes,
            kind,
            form,
            slots,
            pointers_at,
            payload_at,
            payload_bits: if has_payload { bits } else { 0 },
        };
        if form == Form::Dense && 255 < bytes[1] as usize + slots - 1 {
            return Err(Damaged::new("trie node with transitions past 255", 1));
        }
        Ok(node)
    }

    /// The four bits of the payload, and its bytes with whatever follows them in the page.
    #[inline]
    pub fn payload(&self) -> Option<(u8, &'a [u8])> {
        (self.payload_bits != 0).then(|| (self.payload_bits, &self.bytes[self.payload_at..]))
    }

    /// Whether it has no children.
    pub fn is_leaf(&self) -> bool {
        self.slots == 0
    }

    /// Whether it has one slot and no payload.
    pub fn is_chain(&self) -> bool {
        self.slots == 1 && self.payload_bits == 0
    }

    /// Bytes before the payload.
    pub fn head_bytes(&self) -> usize {
        self.payload_at
    }

    /// The first slot whose transition is `byte` or more, and whether it is `byte`. Slots of
    /// absent children count as those of their transitions.
    #[inline]
    pub fn search(&self, byte: u8) -> (usize, bool) {
        match self.form {
            Form::Leaf => (0, false),
            Form::Single => {
                let own = self.transition(0);
                (usize::from(own < byte), own == byte)
            }
            Form::Sparse => match self.bytes[2..self.pointers_at].binary_search(&byte) {
                Ok(slot) => (slot, true),
                Err(slot) => (slot, false),
            },
            Form::Dense => {
                let first = self.bytes[1];
                match byte.checked_sub(first) {
                    None => (0, false),
                    Some(slot) if (slot as usize) < self.slots => (slot as usize, true),
                    Some(_) => (self.slots, false),
                }
            }
        }
    }

    /// The byte that leads to the child of a slot.
    pub fn transition(&self, slot: usize) -> u8 {
        assert!(slot < self.slots, "a child past the last");
        match (self.form, self.kind) {
            (Form::Single, SINGLE_NO_PAYLOAD_12) => self.bytes[2],
            (Form::Single, _) => self.bytes[1],
            (Form::Sparse, _) => self.bytes[2 + slot],
            _ => self.bytes[1] + slot as u8,
        }
    }

    /// How far before this node the child of a slot lies; 0 for no child.
    #[inline]
    pub fn distance(&self, slot: usize) -> u64 {
        assert!(slot < self.slots, "a child past the last");
        let pointers = &self.bytes[self.pointers_at..];
        let byte = |at: usize| pointers[at] as u64;
        match POINTER_BITS[self.kind as usize] {
            _ if self.kind == SINGLE_NO_PAYLOAD_4 => byte(0) & 15,
            _ if self.kind == SINGLE_NO_PAYLOAD_12 => (byte(0) & 15) << 8 | byte(1),
            8 => byte(slot),
            12 => {
                let at = slot / 2 * 3;
                match slot % 2 {
                    0 => byte(at) << 4 | byte(at + 1) >> 4,
                    _ => (byte(at + 1) & 15) << 8 | byte(at + 2),
                }
            }
            bits => {
                let width = bits as usize / 8;
                let pointer = &pointers[slot * width..][..width];
                pointer.iter().fold(0, |all, byte| all << 8 | *byte as u64)
            }
        }
    }

    /// The first slot at or after `from` that has a child.
    pub fn child_from(&self, from: usize) -> Option<usize> {
        (from..self.slots).find(|slot| self.distance(*slot) != 0)
    }

    /// The last slot before `before` that has a child.
    pub fn child_before(&self, before: usize) -> Option<usize> {
        (0..before.min(self.slots)).rev().find(|slot| self.distance(*slot) != 0)
    }
}

/// The bytes of a payload and the four bits that tell of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// 0 for no payload.
    pub bits: u8,
    len: u8,
    bytes: [u8; Payload::BYTES_MAX],
}

impl Payload {
    /// The most bytes.
    pub const BYTES_MAX: usize = 20;
    /// No payload.
    pub const NONE: Payload = Payload { bits: 0, len: 0, bytes: [0; Payload::BYTES_MAX] };

    /// A payload. Panics over [`Payload::BYTES_MAX`] bytes, or if the bits are not 1 to 15.
    pub fn new(bits: u8, bytes: &[u8]) -> Payload {
        assert!((1..16).contains(&bits), "bits that tell of a payload");
        assert!(bytes.len() <= Payload::BYTES_MAX, "a payload of {} bytes", bytes.len());
        let mut payload = Payload { bits, len: bytes.len() as u8, ..Payload::NONE };
        payload.bytes[..bytes.len()].copy_from_slice(bytes);
        payload
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// A type for these children, and how many bytes the node takes before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    kind: u8,
    bytes: usize,
}

/// The smallest type for `count` children with transitions from `first` to `last`, none further
/// than `distance`.
fn choose(count: usize, (first, last): (u8, u8), distance: u64, has_payload: bool) -> Choice {
    match count {
        0 => return Choice { kind: PAYLOAD_ONLY, bytes: 1 },
        1 if distance < 1 << 4 && !has_payload => {
            return Choice { kind: SINGLE_NO_PAYLOAD_4, bytes: 2 };
        }
        1 if distance < 1 << 8 => return Choice { kind: SINGLE_8, bytes: 3 },
        1 if distance < 1 << 12 && !has_payload => {
            return Choice { kind: SINGLE_NO_PAYLOAD_12, bytes: 3 };
        }
        1 if distance < 1 << 16 => return Choice { kind: SINGLE_16, bytes: 4 },
        _ => {}
    }
    debug_assert!(first <= last && count <= (last - first) as usize + 1, "{count} children");
    let bits_needed = 64 - distance.leading_zeros() as u8;
    let fits = |kind: &u8| bits_needed <= POINTER_BITS[*kind as usize];
    let pointers =
        |slots: usize, kind: u8| (slots * POINTER_BITS[kind as usize] as usize).div_ceil(8);
    let span = (last - first) as usize + 1;
    let dense = DENSE.clone().find(fits).expect("64 bits hold any distance");
    let dense = Choice { kind: dense, bytes: 3 + pointers(span, dense) };
    match SPARSE.clone().find(fits) {
        Some(sparse) if 2 + count + pointers(count, sparse) < dense.bytes => {
            Choice { kind: sparse, bytes: 2 + count + pointers(count, sparse) }
        }
        _ => dense,
    }
}

/// How many bytes a node takes with its payload, if no child is further than `distance`.
pub fn node_bytes(count: usize, ends: (u8, u8), distance: u64, payload: &Payload) -> usize {
    choose(count, ends, distance, payload.bits != 0).bytes + payload.bytes().len()
}

/// Appends a node that will stand at `position`; children with their transitions, ascending, and
/// their positions, all before it.
pub fn put_node(
    children: impl ExactSizeIterator<Item = (u8, u64)> + Clone,
    position: u64,
    payload: &Payload,
    out: &mut Vec<u8>,
) {
    let distance = |at: u64| {
        assert!(at < position, "*backwards*");
        position - at
    };
    let (start, count) = (out.len(), children.len());
    let ascend = children.clone().zip(children.clone().skip(1)).all(|(a, b)| a.0 < b.0);
    debug_assert!(ascend, "transitions ascend");
    let first = children.clone().next().map_or(0, |(byte, _)| byte);
    let last = children.clone().last().map_or(0, |(byte, _)| byte);
    let furthest = children.clone().map(|(_, at)| distance(at)).max().unwrap_or(0);
    let Choice { kind, bytes } = choose(count, (first, last), furthest, payload.bits != 0);
    match kind {
        PAYLOAD_ONLY => out.put_u8(payload.bits),
        SINGLE_NO_PAYLOAD_4 => out.put(&[kind << 4 | furthest as u8, first]),
        SINGLE_NO_PAYLOAD_12 => {
            out.put(&[kind << 4 | (furthest >> 8) as u8, furthest as u8, first]);
        }
        SINGLE_8 => out.put(&[kind << 4 | payload.bits, first, furthest as u8]),
        SINGLE_16 => {
            out.put(&[kind << 4 | payload.bits, first]);
            out.put_u16(furthest as u16);
        }
        _ if SPARSE.contains(&kind) => {
            out.put(&[kind << 4 | payload.bits, count as u8]);
            children.clone().for_each(|(byte, _)| out.put_u8(byte));
            put_distances(children.map(|(_, at)| distance(at)), POINTER_BITS[kind as usize], out);
        }
        _ => {
            out.put(&[kind << 4 | payload.bits, first, last - first]);
            let mut children = children.peekable();
            let spanned = (first..=last).map(|byte| {
                let child = children.next_if(|(own, _)| *own == byte);
                child.map_or(0, |(_, at)| distance(at))
            });
            put_distances(spanned, POINTER_BITS[kind as usize], out);
            assert!(children.next().is_none(), "transitions ascend");
        }
    }
    debug_assert!(out.len() - start == bytes, "one-page: {bytes} bytes were reckoned with");
    out.put(payload.bytes());
}

fn put_distances(distances: impl Iterator<Item = u64>, bits: u8, out: &mut Vec<u8>) {
    debug_assert!(bits == 12 || bits.is_multiple_of(8), "distances of {bits} bits");
    if bits != 12 {
        let width = bits as usize / 8;
        distances.for_each(|distance| out.put(&distance.to_be_bytes()[8 - width..]));
        return;
    }
    let mut half = None;
    for distance in distances {
        match half.take() {
            None => {
                out.put_u8((distance >> 4) as u8);
                half = Some((distance as u8 & 15) << 4);
            }
            Some(high) => out.put(&[high | (distance >> 8) as u8, distance as u8]),
        }
    }
    out.extend(half);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn written(children: &[(u8, u64)], position: u64, payload: &Payload) -> Vec<u8> {
        let mut out = Vec::new();
        put_node(children.iter().copied(), position, payload, &mut out);
        out
    }

    #[test]
    fn golden_nodes() {
        let check = |children: &[(u8, u64)], position, payload: &Payload, bytes: &[u8]| {
            assert_eq!(written(children, position, payload), bytes);
        };
        // The worked example: a leaf with hash byte and position, and a root above it.
        check(&[], 0, &Payload::new(8, &[0x98, 0x2c]), &[0x08, 0x98, 0x2c]);
        check(&[(0x40, 0)], 3, &Payload::NONE, &[0x13, 0x40]);
        check(&[(7, 0)], 0x23, &Payload::NONE, &[0x20, 7, 0x23]);
        check(&[(7, 0)], 0x123, &Payload::NONE, &[0x31, 0x23, 7]);
        check(&[(7, 0)], 0x1234, &Payload::NONE, &[0x40, 7, 0x12, 0x34]);
        check(&[(7, 0)], 0x23, &Payload::new(1, &[9]), &[0x21, 7, 0x23, 9]);
        check(&[(7, 0)], 0x1_2345, &Payload::NONE, &[0xc0, 7, 0, 1, 0x23, 0x45]);
        check(&[(1, 0), (9, 1)], 5, &Payload::NONE, &[0x50, 2, 1, 9, 5, 4]);
        // Two distances of 12 bits, 0x123 and 0x456, take three bytes.
        let far = 0x456;
        let sparse = written(&[(1, far - 0x123), (9, 0)], far, &Payload::NONE);
        assert_eq!(sparse, [0x60, 2, 1, 9, 0x12, 0x34, 0x56]);
        let dense: Vec<(u8, u64)> =
            (0..5).map(|byte| (3 + byte, 0x456 - 0x100 - byte as u64)).collect();
        let bytes = written(&dense, 0x456, &Payload::NONE);
        assert_eq!(bytes, [0xa0, 3, 4, 0x10, 0x01, 0x01, 0x10, 0x21, 0x03, 0x10, 0x40]);
        check(&[(1, 1), (2, 0)], 1 << 41, &Payload::NONE, &{
            let mut out = vec![0xf0, 1, 1];
            out.put_u64((1 << 41) - 1);
            out.put_u64(1 << 41);
            out
        });
    }

    fn position(bits: u32) -> impl Strategy<Value = u64> {
        (4u32..=bits).prop_flat_map(|bits| 300u64.max(1 << (bits - 1))..1 << bits.max(9))
    }

    proptest! {
        #[test]
        fn nodes_round_trip(
            children in btree_map(any::<u8>(), any::<u64>(), 0..40),
            position in position(62),
            payload in vec(any::<u8>(), 0..=Payload::BYTES_MAX),
        ) {
            let children: Vec<(u8, u64)> =
                children.into_iter().map(|(byte, at)| (byte, at % position)).collect();
            let bits = payload.first().map_or(0, |first| 1 + first % 15);
            let payload =
                if bits == 0 { Payload::NONE } else { Payload::new(bits, &payload) };
            let mut out = written(&children, position, &payload);
            let ends = (children.first().map_or(0, |c| c.0), children.last().map_or(0, |c| c.0));
            let furthest = children.iter().map(|(_, at)| position - at).max().unwrap_or(0);
            prop_assert_eq!(node_bytes(children.len(), ends, furthest, &payload), out.len());
            let node = Node::parse(&out).unwrap();
            prop_assert_eq!(node.head_bytes() + payload.bytes().len(), out.len());
            match node.payload() {
                Some((bits, bytes)) => prop_assert_eq!(Payload::new(bits, bytes), payload),
                None => prop_assert_eq!(payload, Payload::NONE),
            }
            prop_assert_eq!(node.is_leaf(), children.is_empty());
            let mut seen = Vec::new();
            let mut from = 0;
            while let Some(slot) = node.child_from(from) {
                seen.push((node.transition(slot), position - node.distance(slot)));
                from = slot + 1;
            }
            prop_assert_eq!(&seen, &children);
            let mut before = usize::MAX;
            while let Some(slot) = node.child_before(before) {
                prop_assert_eq!(seen.pop().unwrap().0, node.transition(slot));
                before = slot;
            }
            for byte in 0..=255 {
                let (slot, found) = node.search(byte);
                let child = children.iter().find(|(own, _)| *own == byte);
                prop_assert_eq!(found && node.distance(slot) != 0, child.is_some());
                let next = children.iter().find(|(own, _)| byte <= *own);
                let found = node.child_from(slot).map(|slot| node.transition(slot));
                prop_assert_eq!(found, next.map(|(own, _)| *own));
            }
            let head = node.head_bytes();
            for cut in 0..head {
                prop_assert!(Node::parse(&out[..cut]).is_err());
            }
            out.truncate(head);
            prop_assert!(Node::parse(&out).is_ok());
        }

        #[test]
        fn any_bytes_are_a_node_or_damage(bytes in vec(any::<u8>(), 0..300)) {
            if let Ok(node) = Node::parse(&bytes) {
                for byte in 0..=255 {
                    node.search(byte);
                }
                let mut from = 0;
                while let Some(slot) = node.child_from(from) {
                    node.transition(slot);
                    from = slot + 1;
                }
                node.child_before(256);
            }
        }
    }
}
