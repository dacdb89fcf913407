//! Memtables that nobody needs any more, taken apart piece by piece.
//!
//! Invariants
//!  - *gentle*: one step frees one node, or one partition without many rows; so whoever steps can
//!    yield between steps.

use super::Partition;
use super::row::Row;
use super::rows::Rows;
use super::tree::Node;
use model::DecoratedKey;
use std::collections::btree_map::IntoIter;
use std::rc::Rc;

/// What is left of a memtable.
pub(crate) struct Remains {
    partitions: IntoIter<DecoratedKey, Rc<Partition>>,
    rows: Vec<Rc<Node<Row>>>,
}

impl Remains {
    pub(super) fn new(partitions: IntoIter<DecoratedKey, Rc<Partition>>) -> Remains {
        Remains { partitions, rows: Vec::new() }
    }

    /// About how many steps there are.
    pub(crate) fn steps(&self) -> usize {
        self.partitions.len() + self.rows.len()
    }

    /// Frees a little; whether there is more.
    pub(crate) fn step(&mut self) -> bool {
        if let Some(node) = self.rows.pop() {
            Node::take_apart(node, drop, |inner| self.rows.push(inner));
            return true;
        }
        let Some((_, partition)) = self.partitions.next() else { return false };
        // Who still reads it frees what it alone holds.
        if let Some(Partition { rows: Rows::Many(tree), .. }) = Rc::into_inner(partition) {
            self.rows.push(tree.into_root());
        }
        true
    }
}
