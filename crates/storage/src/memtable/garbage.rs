//! Memtables that nobody needs any more, taken apart piece by piece.
//!
//! Invariants
//!  - *gentle*: one step frees one node, some range tombstones, or one partition without many rows;
//!    so whoever steps can yield between steps.

use super::Memtable;
use super::blob::PartNode;
use super::partitions::{Partitions, Parts};
use super::row::Row;
use super::rows::Rows;
use super::tree::Node;
use mutation::RangeTombstoneList;
use std::rc::Rc;

/// Rows of a node of a large partition, about; and range tombstones.
const ROWS_PER_STEP: usize = 24;

/// Bytes of a node of a large collection, about.
const BYTES_PER_STEP: usize = 64 << 10;

/// What is left of a memtable, or of a part of it.
pub(crate) struct Remains {
    partitions: Parts,
    rows: Vec<Rc<Node<Row>>>,
    ranges: Option<RangeTombstoneList>,
    parts: Vec<Rc<PartNode>>,
    /// About how many steps there are.
    pub(crate) steps: usize,
}

impl Remains {
    /// Of that many rows, range tombstones and partitions.
    pub(super) fn new(partitions: Partitions, objects: usize) -> Remains {
        debug_assert!(partitions.len() <= objects, "accounted: {objects} objects");
        let rows = objects.saturating_sub(partitions.len());
        let steps = (partitions.len() + rows / ROWS_PER_STEP).max(1);
        let partitions = partitions.into_remains();
        Remains { partitions, rows: Vec::new(), ranges: None, parts: Vec::new(), steps }
    }

    /// Of large collections that so many bytes are in.
    pub(super) fn of_parts(parts: Vec<Rc<PartNode>>, bytes: usize) -> Remains {
        let steps = (bytes / BYTES_PER_STEP).max(1);
        Remains { partitions: Parts::none(), rows: Vec::new(), ranges: None, parts, steps }
    }

    /// Frees a little; whether there is more.
    pub(crate) fn step(&mut self) -> bool {
        let Remains { partitions, rows, ranges, parts, .. } = self;
        if let Some(node) = parts.pop() {
            Node::take_apart(node, drop, |inner| parts.push(inner));
            return true;
        }
        if let Some(node) = rows.pop() {
            Node::take_apart(node, |row| take_row(row, parts), |inner| rows.push(inner));
            return true;
        }
        if let Some(list) = ranges {
            if !list.drop_last(ROWS_PER_STEP) {
                *ranges = None;
            }
            return true;
        }
        let Some(partition) = partitions.take() else { return false };
        // Who still reads it frees what it alone holds.
        if let Some(partition) = Rc::into_inner(partition) {
            partition.static_row.into_iter().for_each(|row| take_row(row, parts));
            *ranges = partition.ranges.and_then(Rc::into_inner);
            match partition.rows {
                Rows::Few(few) => few.into_iter().for_each(|(_, row)| take_row(row, parts)),
                Rows::Many(tree) => rows.push(tree.into_root()),
            }
        }
        true
    }
}

impl Memtable {
    /// Frees one that counts for no pool, and that nobody else has, bit by bit; others are let go.
    pub async fn take_apart(memtable: Rc<Memtable>) {
        let Some(mut own) = Rc::into_inner(memtable) else { return };
        assert!(own.dirty.is_none(), "accounted: a pool counts what nobody tells it of");
        let partitions = std::mem::take(own.partitions.get_mut());
        let mut remains = Remains::new(partitions, own.objects.get());
        while remains.step() {
            runtime::task::yield_if_needed().await;
        }
    }
}

/// Frees a row, but for its parts.
fn take_row(row: Row, parts: &mut Vec<Rc<PartNode>>) {
    if let Row::Large(large) = row {
        parts.extend(Rc::into_inner(large).into_iter().flat_map(|large| large.into_nodes()));
    }
}
