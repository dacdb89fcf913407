//! An ordered map that only grows, of nodes that snapshots share.
//!
//! A clone is one counter. Whoever changes a tree that others hold copies the nodes on the way to
//! the change and no more; they keep what they hold.
//!
//! Invariants
//!  - *bounded-nodes*: no node has more than [`NODE_MAX`] entries, so no change copies or moves
//!    more than that on each of its few levels.
//!  - *first-key*: the key of a child is the least one in it, but for the first child of the
//!    leftmost nodes, whose key is not looked at.
//!  - *keys-ascend*: the keys of a node ascend, each once.
//!  - *no-empty-node*: each node has an entry, but for the root of an empty tree.
//!
//! Keys are compared by closures, because their order belongs to the table.

use super::footprint::{Grown, boxed_bytes, vec_bytes};
use mutation::Direction;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::rc::Rc;
use stdx::Bytes;

/// Entries of a node.
pub(super) const NODE_MAX: usize = 32;

/// An ordered map from byte strings.
#[derive(Clone)]
pub(super) struct Tree<V> {
    root: Rc<Node<V>>,
    /// Whether the latest entry was added at the end: then the next one is looked for there first.
    /// What comes in order, such as a log, is mostly added there.
    ascends: bool,
}

#[derive(Clone)]
pub(super) enum Node<V> {
    Leaf(Vec<(Bytes, V)>),
    Inner(Vec<(Bytes, Rc<Node<V>>)>),
}

/// What a key is to the one that is looked for: less, equal, greater.
pub(super) trait Place: Fn(&[u8]) -> Ordering {}
impl<F: Fn(&[u8]) -> Ordering> Place for F {}

impl<V: Clone> Tree<V> {
    /// Of entries in order, at most [`NODE_MAX`].
    pub(super) fn of_few(entries: Vec<(Bytes, V)>, grown: &mut Grown) -> Tree<V> {
        assert!(entries.len() <= NODE_MAX, "bounded-nodes");
        grown.add(boxed_bytes::<Node<V>>());
        Tree { root: Rc::new(Node::Leaf(entries)), ascends: true }
    }

    /// The value at `place`; where there is none, `make` says what it becomes, with its key.
    pub(super) fn entry(
        &mut self,
        place: impl Place,
        make: impl FnOnce() -> (Bytes, V),
        grown: &mut Grown,
    ) -> &mut V {
        if self.root.is_full() {
            let mut left = std::mem::replace(&mut self.root, Rc::new(Node::Leaf(Vec::new())));
            let (key, right) = split(&mut left, &place, grown);
            // The key of a first child is not looked at.
            let children = vec![(Bytes::new(), left), (key, right)];
            grown.add(boxed_bytes::<Node<V>>() + vec_bytes::<(Bytes, Rc<Node<V>>)>(2));
            self.root = Rc::new(Node::Inner(children));
        }
        let at_end = std::mem::take(&mut self.ascends);
        let (mut node, mut is_last) = (&mut self.root, true);
        loop {
            let before = node.capacity_bytes();
            match Rc::make_mut(node) {
                Node::Leaf(entries) => {
                    let at = match find(entries, at_end, &place) {
                        Ok(at) => at,
                        Err(at) => {
                            insert(entries, at, make());
                            at
                        }
                    };
                    self.ascends = is_last && at + 1 == entries.len();
                    debug_assert!(entries.len() <= NODE_MAX, "bounded-nodes: {}", entries.len());
                    debug_assert!(
                        entries[..at].iter().all(|(key, _)| place(key).is_lt())
                            && entries[at + 1..].iter().all(|(key, _)| place(key).is_gt()),
                        "keys-ascend: entry {at} of {}",
                        entries.len()
                    );
                    grown.change(before, vec_bytes::<(Bytes, V)>(entries.capacity()));
                    return &mut entries[at].1;
                }
                Node::Inner(children) => {
                    debug_assert!(!children.is_empty(), "no-empty-node");
                    let mut at = match children.last() {
                        Some((key, _)) if at_end && 1 < children.len() && place(key).is_le() => {
                            children.len() - 1
                        }
                        _ => child_of(children, &place),
                    };
                    if children[at].1.is_full() {
                        let (key, right) = split(&mut children[at].1, &place, grown);
                        let goes_right = place(&key).is_le();
                        insert(children, at + 1, (key, right));
                        at += goes_right as usize;
                    }
                    grown.change(before, vec_bytes::<(Bytes, Rc<Node<V>>)>(children.capacity()));
                    is_last &= at + 1 == children.len();
                    node = &mut children[at].1;
                }
            }
        }
    }

    /// The entry with the greatest key at or before `place`, else the first one; and the key that
    /// follows it.
    pub(super) fn floor(&self, place: impl Place) -> (&Bytes, &V, Option<&Bytes>) {
        let (mut node, mut next, mut least) = (&self.root, None, None);
        loop {
            match &**node {
                Node::Leaf(entries) => {
                    debug_assert!(
                        least.is_none_or(|least: &Bytes| entries[0].0 == *least),
                        "first-key: {least:?} names another child"
                    );
                    let after = entries.partition_point(|(key, _)| place(key).is_le());
                    let at = after.saturating_sub(1);
                    let next = entries.get(at + 1).map(|(key, _)| key).or(next);
                    debug_assert!(
                        next.is_none_or(|next| place(next).is_gt()),
                        "keys-ascend: {next:?} follows"
                    );
                    return (&entries[at].0, &entries[at].1, next);
                }
                Node::Inner(children) => {
                    let at = child_of(children, &place);
                    next = children.get(at + 1).map(|(key, _)| key).or(next);
                    if 0 < at {
                        least = Some(&children[at].0);
                    }
                    node = &children[at].1;
                }
            }
        }
    }

    /// Calls `each` with the entries between two places, in that direction, until it breaks.
    /// `starts` and `ends` tell of a key whether it lies before the start, before the end; without
    /// them the first is at the first entry, the other behind the last.
    pub(super) fn visit(
        &self,
        bounds: (Option<&impl Fn(&[u8]) -> bool>, Option<&impl Fn(&[u8]) -> bool>),
        direction: Direction,
        each: &mut impl FnMut(&Bytes, &V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit(&self.root, bounds, direction, each)
    }

    /// All values, in order.
    pub(super) fn values(&self) -> Vec<&V> {
        fn gather<'t, V>(node: &'t Node<V>, out: &mut Vec<&'t V>) {
            match node {
                Node::Leaf(entries) => out.extend(entries.iter().map(|(_, value)| value)),
                Node::Inner(children) => {
                    children.iter().for_each(|(_, child)| gather(child, out));
                }
            }
        }
        let mut out = Vec::new();
        gather(&self.root, &mut out);
        out
    }

    /// Has the processor fetch the root.
    #[inline]
    pub(super) fn prefetch(&self) {
        memory::prefetch(&*self.root);
    }

    /// All entries, if one node has them.
    #[inline]
    pub(super) fn only_leaf(&self) -> Option<&[(Bytes, V)]> {
        match &*self.root {
            Node::Leaf(entries) => Some(entries),
            Node::Inner(_) => None,
        }
    }

    /// Its nodes, to be taken apart by [`Node::take_apart`].
    pub(super) fn into_root(self) -> Rc<Node<V>> {
        self.root
    }
}

impl<V: Clone> Node<V> {
    fn is_full(&self) -> bool {
        let len = match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner(children) => children.len(),
        };
        NODE_MAX <= len
    }

    fn capacity_bytes(&self) -> usize {
        match self {
            Node::Leaf(entries) => vec_bytes::<(Bytes, V)>(entries.capacity()),
            Node::Inner(children) => vec_bytes::<(Bytes, Rc<Node<V>>)>(children.capacity()),
        }
    }

    /// What a node holds, if nobody else holds the node: values, or nodes.
    pub(super) fn take_apart(
        node: Rc<Node<V>>,
        mut value: impl FnMut(V),
        mut inner: impl FnMut(Rc<Node<V>>),
    ) {
        match Rc::into_inner(node) {
            Some(Node::Leaf(entries)) => entries.into_iter().for_each(|(_, one)| value(one)),
            Some(Node::Inner(nodes)) => nodes.into_iter().for_each(|(_, one)| inner(one)),
            None => {}
        }
    }
}

/// Where the entry of a place stands, or would; looked for at the end first, if it is likely there.
#[inline]
pub(super) fn find<V>(
    entries: &[(Bytes, V)],
    at_end: bool,
    place: &impl Place,
) -> Result<usize, usize> {
    if at_end && let Some((last, _)) = entries.last() {
        match place(last) {
            Ordering::Less => return Err(entries.len()),
            Ordering::Equal => return Ok(entries.len() - 1),
            Ordering::Greater => {}
        }
    }
    entries.binary_search_by(|(key, _)| place(key))
}

/// The child that has, or would have, what is looked for.
fn child_of<V>(children: &[(Bytes, Rc<Node<V>>)], place: &impl Place) -> usize {
    // Of the first child the key is not looked at (*first-key*).
    let at = children[1..].partition_point(|(key, _)| place(key).is_le());
    debug_assert!(
        children[1..=at].iter().all(|(key, _)| place(key).is_le())
            && children[at + 1..].iter().all(|(key, _)| place(key).is_gt()),
        "keys-ascend: child {at} of {}",
        children.len()
    );
    at
}

/// Inserts, with room for more but for no more than a node has.
fn insert<T>(all: &mut Vec<T>, at: usize, one: T) {
    if all.len() == all.capacity() && all.len() < NODE_MAX {
        all.reserve_exact(all.len().max(2).min(NODE_MAX - all.len()));
    }
    all.insert(at, one);
    debug_assert!(all.len() <= NODE_MAX, "bounded-nodes: {}", all.len());
}

/// Takes the upper part of a full node away: the least key of it and the new node. Who adds at an
/// end leaves full nodes behind.
fn split<V: Clone>(
    node: &mut Rc<Node<V>>,
    place: &impl Place,
    grown: &mut Grown,
) -> (Bytes, Rc<Node<V>>) {
    fn cut<T: Clone>(all: &mut Vec<(Bytes, T)>, place: &impl Place) -> Vec<(Bytes, T)> {
        let at = match (all.first(), all.last()) {
            (_, Some((last, _))) if place(last).is_lt() => all.len() - 1,
            (Some((first, _)), _) if place(first).is_gt() => 1,
            _ => all.len() / 2,
        };
        debug_assert!(0 < at && at < all.len(), "no-empty-node: {at} of {}", all.len());
        let upper = all.split_off(at);
        all.shrink_to(NODE_MAX.min(at * 3 / 2));
        upper
    }
    let before = node.capacity_bytes();
    let (key, right) = match Rc::make_mut(node) {
        Node::Leaf(entries) => {
            let upper = cut(entries, place);
            (upper[0].0.clone(), Node::Leaf(upper))
        }
        Node::Inner(children) => {
            let upper = cut(children, place);
            (upper[0].0.clone(), Node::Inner(upper))
        }
    };
    grown.change(before, node.capacity_bytes());
    grown.add(boxed_bytes::<Node<V>>() + right.capacity_bytes());
    (key, Rc::new(right))
}

/// How many entries, which are the first ones, have keys before a place.
fn count<V>(entries: &[(Bytes, V)], is_before: &impl Fn(&[u8]) -> bool) -> usize {
    entries.partition_point(|(key, _)| is_before(key))
}

/// Without `starts`, or `ends`, no key of the node lies before the start, or none at or after the
/// end.
fn visit<V>(
    node: &Node<V>,
    (starts, ends): (Option<&impl Fn(&[u8]) -> bool>, Option<&impl Fn(&[u8]) -> bool>),
    direction: Direction,
    each: &mut impl FnMut(&Bytes, &V) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match node {
        Node::Leaf(entries) => {
            let first = starts.map_or(0, |starts| count(entries, starts));
            let last = ends.map_or(entries.len(), |ends| count(entries, ends));
            let mut found = entries[first..last.max(first)].iter();
            match direction {
                Direction::Forward => found.try_for_each(|(key, value)| each(key, value)),
                Direction::Reversed => found.rev().try_for_each(|(key, value)| each(key, value)),
            }
        }
        Node::Inner(children) => {
            // Of the first child the key is not looked at (*first-key*).
            let others = &children[1..];
            let first = starts.map_or(0, |starts| count(others, starts));
            let last = ends.map_or(others.len(), |ends| count(others, ends)).max(first);
            debug_assert!(last < children.len(), "no-empty-node: {last} of {}", children.len());
            // What lies between the two has all of its keys in the range.
            let mut into = |at: usize| {
                let bounds = (starts.filter(|_| at == first), ends.filter(|_| at == last));
                visit(&children[at].1, bounds, direction, each)
            };
            match direction {
                Direction::Forward => (first..=last).try_for_each(&mut into),
                Direction::Reversed => (first..=last).rev().try_for_each(&mut into),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn put(tree: &mut Tree<u32>, model: &mut BTreeMap<u32, u32>, key: u32, value: u32) {
        let wanted = key.to_be_bytes();
        let make = || (Bytes::copy_from(&wanted), 0);
        *tree.entry(|stored| stored.cmp(&wanted), make, &mut Grown::default()) = value;
        model.insert(key, value);
    }

    fn between(tree: &Tree<u32>, from: u32, to: u32, direction: Direction) -> Vec<u32> {
        let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
        let mut out = Vec::new();
        let (starts, ends) = (|key: &[u8]| key < &from[..], |key: &[u8]| key < &to[..]);
        let _ = tree.visit((Some(&starts), Some(&ends)), direction, &mut |_, value| {
            out.push(*value);
            ControlFlow::Continue(())
        });
        out
    }

    fn check(keys: &[u32], snapshots: &[usize]) {
        let mut grown = Grown::default();
        let mut tree = Tree::of_few(Vec::new(), &mut grown);
        let mut model = BTreeMap::new();
        let mut taken: Vec<(Tree<u32>, BTreeMap<u32, u32>)> = Vec::new();
        for (step, key) in keys.iter().enumerate() {
            put(&mut tree, &mut model, *key, step as u32);
            if snapshots.contains(&(step % 97)) {
                taken.push((tree.clone(), model.clone()));
            }
        }
        taken.push((tree, model));
        for (tree, model) in &taken {
            for (from, to) in [(0, u32::MAX), (300, 700), (700, 300), (999, 1001)] {
                let range = if from <= to { from..to } else { from..from };
                let mut wanted: Vec<u32> = model.range(range).map(|(_, value)| *value).collect();
                assert_eq!(between(tree, from, to, Direction::Forward), wanted);
                wanted.reverse();
                assert_eq!(between(tree, from, to, Direction::Reversed), wanted);
            }
            for wanted in [0u32, 1, 500, 5000] {
                if model.is_empty() {
                    continue;
                }
                let place = |stored: &[u8]| stored.cmp(&wanted.to_be_bytes()[..]);
                let (key, _, next) = tree.floor(place);
                let number = |key: &Bytes| u32::from_be_bytes(key[..].try_into().unwrap());
                let floor = model.range(..=wanted).next_back().or(model.iter().next()).unwrap();
                assert_eq!(number(key), *floor.0);
                let after = model.range(floor.0 + 1..).next().map(|(key, _)| *key);
                assert_eq!(next.map(number), after);
            }
        }
    }

    #[test]
    fn ascending_and_descending_keys_fill_nodes() {
        let up: Vec<u32> = (0..2000).collect();
        let down: Vec<u32> = (0..2000).rev().collect();
        for keys in [up, down] {
            check(&keys, &[]);
            let mut grown = Grown::default();
            let mut tree: Tree<u32> = Tree::of_few(Vec::new(), &mut grown);
            keys.iter().for_each(|key| {
                let wanted = key.to_be_bytes();
                let make = || (Bytes::copy_from(&wanted), *key);
                tree.entry(|stored| stored.cmp(&wanted), make, &mut grown);
            });
            let least = keys.len() * size_of::<(Bytes, u32)>();
            assert!((grown.bytes() as usize) < least * 5 / 4, "{} for {least}", grown.bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..Default::default() })]
        #[test]
        fn a_tree_is_a_map_and_its_snapshots_stay(
            keys in proptest::collection::vec(0u32..1500, 0..1500),
            snapshots in proptest::collection::vec(0usize..97, 0..3),
        ) {
            check(&keys, &snapshots);
        }
    }
}
