//! Tries written from sorted keys, bottom up, whole subtrees to a page.
//!
//! While keys come, the path to the latest one is open; what lies to the left of it is finished,
//! and held in memory until it no longer fits into a page together with its parent. Then it is
//! laid out: written, at a place of the file that its parent points back to.
//!
//! Invariants
//!  - *bounded*: what is held is, for each open node of the path, [`HELD_BYTES_MAX`] and one
//!    subtree of a page at most.
//!  - *one-page* and *backwards* of [`super::node`]; between nodes there may be zeros.
//!  - *keys-ascend*: keys are added in their order, each once.

use super::node::{PAGE_BYTES, Payload, node_bytes, put_node};

/// Bytes of finished subtrees that an open node holds before some of them are laid out: enough
/// to fill pages well.
const HELD_BYTES_MAX: usize = 4 * PAGE_BYTES;

/// A finished subtree, or a run of nodes with one child each above it.
#[derive(Debug)]
struct Child {
    /// What leads to it from its parent.
    byte: u8,
    /// Transitions of nodes with one child and no payload, the lowest first.
    chain: Vec<u8>,
    bottom: Bottom,
    /// About how many bytes it will take, itself and the chain included.
    bytes: usize,
}

#[derive(Debug)]
enum Bottom {
    /// It is laid out here.
    At(u64),
    /// It is held.
    Held(Payload, Vec<Child>),
}

/// A node of the path to the latest key.
#[derive(Debug, Default)]
struct Open {
    /// What leads to it from the node above.
    byte: u8,
    payload: Payload,
    children: Vec<Child>,
    /// About how many bytes the children take that are not laid out.
    held_bytes: usize,
}

/// Builds one trie after the other.
#[derive(Debug)]
pub struct Builder {
    /// Written, and not yet taken.
    out: Vec<u8>,
    /// Where `out` starts in the file.
    base: u64,
    /// From the root to the latest key.
    path: Vec<Open>,
    keys: u64,
}

impl Builder {
    /// A builder that writes from this position of a file on.
    pub fn new(position: u64) -> Builder {
        Builder { out: Vec::new(), base: position, path: vec![Open::default()], keys: 0 }
    }

    /// Where the next byte will stand.
    pub fn position(&self) -> u64 {
        self.base + self.out.len() as u64
    }

    /// Bytes that were written since they were taken.
    pub fn written(&self) -> usize {
        self.out.len()
    }

    /// What was written since this was called last.
    pub fn take(&mut self, put: impl FnOnce(&[u8])) {
        put(&self.out);
        self.base += self.out.len() as u64;
        self.out.clear();
    }

    /// Appends bytes that are no node.
    pub fn put_raw(&mut self, bytes: &[u8]) {
        debug_assert!(self.keys == 0, "keys-ascend: bytes inside of a trie");
        self.out.extend_from_slice(bytes);
    }

    /// Adds a key, which must be greater than the one before.
    pub fn add(&mut self, key: &[u8], payload: Payload) {
        assert!(payload.bits != 0, "a key has a payload");
        let latest = self.path[1..].iter().map(|open| open.byte);
        let shared = latest.zip(key).take_while(|(a, b)| a == *b).count();
        let next = key.get(shared).map(|byte| *byte as i32);
        let greater = match self.path.get(shared + 1) {
            Some(open) => Some(open.byte as i32) < next,
            None => next.is_some() || self.keys == 0,
        };
        assert!(greater, "keys ascend");
        while shared + 1 < self.path.len() {
            self.close();
        }
        self.path.extend(key[shared..].iter().map(|byte| Open { byte: *byte, ..Open::default() }));
        self.path.last_mut().expect("the root stays").payload = payload;
        self.keys += 1;
    }

    /// Writes what is left and answers where the root stands. `tail_bytes` that will follow it
    /// come to lie in its page if they fit. The builder is ready for another trie.
    pub fn finish(&mut self, tail_bytes: usize) -> u64 {
        assert!(0 < self.keys, "a trie has a key");
        while 1 < self.path.len() {
            self.close();
        }
        let mut root = self.path.pop().expect("the root stays");
        self.path.push(Open::default());
        self.keys = 0;
        let tail = if tail_bytes <= PAGE_BYTES / 2 { tail_bytes } else { 0 };
        if PAGE_BYTES < root.node_bytes(self.position()) + root.held_bytes + tail {
            self.lay_out_all(&mut root.children);
        }
        let at = self.write_subtree(&root.payload, &mut root.children, tail);
        assert!(at < self.position(), "backwards: a root at {at} of {}", self.position());
        at
    }

    /// The last node of the path is complete: it becomes a child of the one above.
    fn close(&mut self) {
        let mut open = self.path.pop().expect("a node below the root");
        let position = self.position();
        let child = if open.payload.bits == 0 && open.children.len() == 1 {
            let mut child = open.children.pop().expect("one child");
            child.chain.push(child.byte);
            // The chain's first node may point far, the others point to what is before them.
            child.bytes += match (&child.bottom, child.chain.len()) {
                (Bottom::At(at), 1) => open_bytes(1, (0, 0), position - at, &Payload::NONE),
                _ => 3,
            };
            child.byte = open.byte;
            if PAGE_BYTES < child.bytes {
                self.lay_out(&mut child);
            }
            child
        } else {
            let own = open.node_bytes(position);
            if PAGE_BYTES < own + open.held_bytes {
                self.lay_out_all(&mut open.children);
                open.held_bytes = 0;
            }
            let bytes = own + open.held_bytes;
            let bottom = Bottom::Held(open.payload, open.children);
            Child { byte: open.byte, chain: Vec::new(), bottom, bytes }
        };
        let Builder { path, .. } = self;
        let above = path.last_mut().expect("the root stays");
        above.held_bytes += child.held_bytes();
        above.children.push(child);
        debug_assert!(above.held_bytes <= HELD_BYTES_MAX + 2 * PAGE_BYTES, "bounded");
        if HELD_BYTES_MAX < above.held_bytes {
            let mut children = std::mem::take(&mut above.children);
            let held = self.lay_out_until(&mut children, HELD_BYTES_MAX / 2);
            let above = self.path.last_mut().expect("the root stays");
            above.children = children;
            above.held_bytes = held;
        }
    }

    fn lay_out_all(&mut self, children: &mut [Child]) {
        self.lay_out_until(children, 0);
    }

    /// Lays out children until those that are held take no more than `held_max`: in their order,
    /// but where one does not fit into the rest of the page the next that does is preferred.
    /// Answers how much is held.
    fn lay_out_until(&mut self, children: &mut [Child], held_max: usize) -> usize {
        let mut held: usize = children.iter().map(Child::held_bytes).sum();
        while held_max < held {
            let left = self.page_left();
            let mut waiting = (0..children.len()).filter(|at| 0 < children[*at].held_bytes());
            let first = waiting.clone().next().expect("what is held is of a child");
            let fitting = waiting.find(|at| children[*at].bytes <= left);
            let child = &mut children[fitting.unwrap_or(first)];
            held -= child.held_bytes();
            self.lay_out(child);
        }
        let left: usize = children.iter().map(Child::held_bytes).sum();
        debug_assert!(left == held && held <= held_max, "bounded: {left} bytes are held");
        held
    }

    /// Writes a child and its chain; what is left of it is where it stands.
    fn lay_out(&mut self, child: &mut Child) {
        let bottom = std::mem::replace(&mut child.bottom, Bottom::At(0));
        let at = match bottom {
            Bottom::At(at) => at,
            Bottom::Held(payload, mut children) => self.write_subtree(&payload, &mut children, 0),
        };
        let at = child
            .chain
            .drain(..)
            .fold(at, |below, byte| self.write_node(&Payload::NONE, [(byte, below)].into_iter()));
        debug_assert!(at < self.position(), "backwards: laid out at {at}");
        child.bottom = Bottom::At(at);
        child.bytes = 0;
    }

    /// Writes a node and the held ones below it, in one page if they fit; answers where it
    /// stands.
    fn write_subtree(&mut self, payload: &Payload, children: &mut [Child], tail: usize) -> u64 {
        // First where the file ends, then at a page of its own: distances decide whether it fits.
        for _ in 0..2 {
            let start = self.out.len();
            let left = self.page_left();
            let at = self.write_held(payload, children);
            if self.out.len() - start + tail <= left {
                return at;
            }
            self.out.truncate(start);
            self.pad();
        }
        self.lay_out_all(children);
        let children = children.iter().map(|child| match child.bottom {
            Bottom::At(at) => (child.byte, at),
            Bottom::Held(..) => unreachable!("all were laid out"),
        });
        self.write_node(payload, children.collect::<Vec<_>>().into_iter())
    }

    /// Writes a node and the held ones below it without regard to pages.
    fn write_held(&mut self, payload: &Payload, children: &[Child]) -> u64 {
        let mut places = Vec::with_capacity(children.len());
        for child in children {
            let at = match &child.bottom {
                Bottom::At(at) => *at,
                Bottom::Held(payload, children) => self.write_held(payload, children),
            };
            let at = child.chain.iter().fold(at, |below, byte| {
                let at = self.position();
                put_node([(*byte, below)].into_iter(), at, &Payload::NONE, &mut self.out);
                at
            });
            places.push((child.byte, at));
        }
        let at = self.position();
        put_node(places.into_iter(), at, payload, &mut self.out);
        at
    }

    /// Writes one node, in one page.
    fn write_node(
        &mut self,
        payload: &Payload,
        children: impl ExactSizeIterator<Item = (u8, u64)> + Clone,
    ) -> u64 {
        let (start, left) = (self.out.len(), self.page_left());
        put_node(children.clone(), self.position(), payload, &mut self.out);
        if left < self.out.len() - start {
            self.out.truncate(start);
            self.pad();
            put_node(children, self.position(), payload, &mut self.out);
            let at = self.base + (start + left) as u64;
            assert!(self.is_one_page(at), "one-page: a node at {at}");
            return at;
        }
        let at = self.base + start as u64;
        debug_assert!(self.is_one_page(at), "one-page: a node at {at}");
        at
    }

    /// Bytes up to the end of the page; a whole page at its start.
    fn page_left(&self) -> usize {
        PAGE_BYTES - (self.position() % PAGE_BYTES as u64) as usize
    }

    fn pad(&mut self) {
        let left = self.page_left() % PAGE_BYTES;
        self.out.resize(self.out.len() + left, 0);
        debug_assert!(self.position().is_multiple_of(PAGE_BYTES as u64), "one-page: padded");
    }

    /// Whether what was written last, from `at` on, lies in one page.
    fn is_one_page(&self, at: u64) -> bool {
        let page = PAGE_BYTES as u64;
        at < self.position() && at / page == (self.position() - 1) / page
    }
}

impl Open {
    /// About how many bytes the node itself takes at `position`.
    fn node_bytes(&self, position: u64) -> usize {
        let first = self.children.first().map_or(0, |child| child.byte);
        let last = self.children.last().map_or(0, |child| child.byte);
        let furthest = self.children.iter().map(|child| match &child.bottom {
            Bottom::At(at) if child.chain.is_empty() => position - at,
            _ => 0,
        });
        let furthest = furthest.max().unwrap_or(0);
        open_bytes(self.children.len(), (first, last), furthest, &self.payload)
    }
}

/// About how many bytes a node takes whose held children are within its page.
fn open_bytes(count: usize, ends: (u8, u8), furthest: u64, payload: &Payload) -> usize {
    let furthest = if furthest == 0 { 0 } else { furthest + PAGE_BYTES as u64 };
    node_bytes(count, ends, furthest.max(PAGE_BYTES as u64 - 1), payload)
}

impl Child {
    /// About how many bytes are still to be written of it.
    fn held_bytes(&self) -> usize {
        match &self.bottom {
            Bottom::At(_) if self.chain.is_empty() => 0,
            _ => self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Node;
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    type Entries = Vec<(Vec<u8>, Payload)>;

    fn payload(number: usize) -> Payload {
        let bytes = (number as u32).to_be_bytes();
        Payload::new(1 + (number % 15) as u8, &bytes)
    }

    fn build(base: u64, keys: &BTreeSet<Vec<u8>>, tail: usize) -> (Vec<u8>, u64) {
        let mut builder = Builder::new(base);
        let mut out = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            builder.add(key, payload(number));
            builder.take(|bytes| out.extend_from_slice(bytes));
        }
        let root = builder.finish(tail);
        builder.take(|bytes| out.extend_from_slice(bytes));
        (out, root)
    }

    fn node(file: &[u8], base: u64, at: u64) -> Node<'_> {
        let page_end = (at + 1).next_multiple_of(PAGE_BYTES as u64);
        let end = page_end.min(base + file.len() as u64);
        Node::parse(&file[(at - base) as usize..(end - base) as usize]).unwrap()
    }

    /// All keys below a node, in order.
    fn walk(file: &[u8], base: u64, root: u64) -> Entries {
        let mut out = Vec::new();
        let mut stack = vec![(root, Vec::new())];
        while let Some((at, key)) = stack.pop() {
            let node = node(file, base, at);
            if let Some((bits, bytes)) = node.payload() {
                out.push((key.clone(), Payload::new(bits, &bytes[..4])));
            }
            let mut before = 256;
            while let Some(slot) = node.child_before(before) {
                let mut below = key.clone();
                below.push(node.transition(slot));
                stack.push((at - node.distance(slot), below));
                before = slot;
            }
        }
        out
    }

    fn check(base: u64, keys: &BTreeSet<Vec<u8>>, tail: usize) -> usize {
        let (file, root) = build(base, keys, tail);
        let expected: Entries =
            keys.iter().enumerate().map(|(number, key)| (key.clone(), payload(number))).collect();
        assert_eq!(walk(&file, base, root), expected);
        file.len()
    }

    #[test]
    fn golden_trie() {
        // The worked example of the reference.
        let mut builder = Builder::new(0);
        builder.add(&[0x40], Payload::new(8, &[0x98, 0x2c]));
        assert_eq!(builder.finish(0), 3);
        builder.take(|bytes| assert_eq!(bytes, [0x08, 0x98, 0x2c, 0x13, 0x40]));
    }

    #[test]
    fn tries_of_many_shapes() {
        let be = |number: u64| number.to_be_bytes()[4..].to_vec();
        check(0, &(0..50_000).map(be).collect(), 0);
        check(4000, &(0..50_000).map(|number| be(number * 77_777)).collect(), 30);
        // Chains longer than a page, with and without branches, keys that prefix others.
        let long = |number: usize| [vec![7; 10_000 * number], be(number as u64)].concat();
        check(1, &(0..8).map(long).collect(), 0);
        check(1, &(0..6000).map(|length| vec![1; length]).collect(), 0);
        check(0, &[Vec::new()].into(), 0);
    }

    /// Separators of 105 000 blocks: what a lookup walks through lies in three pages.
    #[test]
    fn lookups_touch_few_pages() {
        let key = |row: u64| [vec![0x40, 0x80], row.to_be_bytes()[5..].to_vec()].concat();
        let keys: BTreeSet<Vec<u8>> = (1..105_000).map(|block| key(block * 19 / 2)).collect();
        let (file, root) = build(0, &keys, 40);
        for key in keys.iter().step_by(97) {
            let mut pages = BTreeSet::new();
            let mut at = root;
            for byte in key {
                pages.insert(at / PAGE_BYTES as u64);
                let node = node(&file, 0, at);
                let (slot, found) = node.search(*byte);
                assert!(found);
                at -= node.distance(slot);
            }
            pages.insert(at / PAGE_BYTES as u64);
            assert!(pages.len() <= 3, "{key:?} {pages:?}");
        }
        assert!(file.len() < 105_000 * 10, "{} bytes", file.len());
    }

    #[test]
    #[should_panic(expected = "keys ascend")]
    fn keys_must_ascend() {
        let mut builder = Builder::new(0);
        builder.add(b"ab", payload(1));
        builder.add(b"a", payload(2));
    }

    proptest! {
        #[test]
        fn tries_round_trip(
            keys in btree_set(vec(0u8..4, 0..12), 1..400),
            base in 0u64..10_000,
            tail in 0usize..5000,
        ) {
            check(base, &keys, tail);
        }

        #[test]
        fn wide_tries_round_trip(
            keys in btree_set(vec(any::<u8>(), 1..4), 1..3000),
            base in 0u64..10_000,
        ) {
            let bytes = check(base, &keys, 0);
            prop_assert!(bytes <= 40 * keys.len() + 2 * PAGE_BYTES, "{} of {}", bytes, keys.len());
        }
    }
}
