//! Blocks of a long partition that has no index of its rows, as a scan of it found them.

use crate::index::block::{Block, Place, Skip};
use crate::mx::header::Mapping;
use model::ClusteringOrder;
use mutation::Tombstone;
use std::rc::Rc;

/// Where a block starts.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// The prefix and weight of its first element.
    pub(crate) first: (Vec<u8>, i8),
    /// From the start of the partition, in bytes.
    pub(crate) offset: u64,
    /// The range tombstone that is open there.
    pub(crate) open: Tombstone,
}

/// A walk over blocks that are all known.
#[derive(Debug)]
pub struct ScannedCursor {
    mapping: Rc<Mapping>,
    starts: Vec<Start>,
    /// Offsets of the first element, and behind the last one.
    rows: (u64, u64),
    tombstone: Tombstone,
    /// Backward: the block answered last.
    back: usize,
}

impl ScannedCursor {
    /// Over blocks in their order. `rows`: where the first element starts and the last one ends.
    pub(crate) fn new(
        mapping: Rc<Mapping>,
        starts: Vec<Start>,
        rows: (u64, u64),
        tombstone: Tombstone,
    ) -> ScannedCursor {
        debug_assert!(rows.0 <= rows.1, "rows from {} to {}", rows.0, rows.1);
        debug_assert!(starts.is_sorted_by(|a, b| a.offset < b.offset), "contiguous-blocks");
        let within = |start: &Start| rows.0 <= start.offset && start.offset < rows.1;
        debug_assert!(starts.iter().all(within), "contiguous-blocks: beside the rows");
        ScannedCursor { mapping, starts, rows, tombstone, back: 0 }
    }

    fn order(&self) -> &ClusteringOrder {
        &self.mapping.schema.order
    }

    /// How many blocks start before a position, or, with `or_at`, right there.
    fn before(&self, position: Place<'_>, or_at: bool) -> usize {
        self.starts.partition_point(|start| {
            let order = self.order().compare((&start.first.0, start.first.1), position);
            order.is_lt() || (or_at && order.is_eq())
        })
    }

    fn end_of(&self, index: usize) -> u64 {
        debug_assert!(index < self.starts.len(), "block {index} of {}", self.starts.len());
        self.starts.get(index + 1).map_or(self.rows.1, |next| next.offset)
    }

    pub(crate) fn advance_to(&self, position: Place<'_>) -> Skip {
        match self.before(position, true).checked_sub(1).and_then(|index| self.starts.get(index)) {
            Some(start) => Skip { offset: start.offset, open: start.open },
            None => Skip { offset: self.rows.0, open: Tombstone::NONE },
        }
    }

    pub(crate) fn end_before(&self, position: Place<'_>) -> u64 {
        self.starts.get(self.before(position, false)).map_or(self.rows.1, |start| start.offset)
    }

    pub(crate) fn last_before(&mut self, position: Place<'_>) -> Block {
        let Some(index) = self.before(position, false).checked_sub(1) else {
            self.back = 0;
            return Block { start: self.rows.0, end: self.rows.0, open: Tombstone::NONE };
        };
        self.back = index;
        let Start { offset, open, .. } = self.starts[index];
        Block { start: offset, end: self.end_of(index), open }
    }

    pub(crate) fn previous(&mut self, lower: Place<'_>) -> Option<Block> {
        debug_assert!(self.back < self.starts.len().max(1), "a walk back from {}", self.back);
        let index = self.back.checked_sub(1)?;
        let first = &self.starts[self.back].first;
        if self.order().compare((&first.0, first.1), lower).is_le() {
            return None;
        }
        self.back = index;
        let Start { offset, open, .. } = self.starts[index];
        Some(Block { start: offset, end: self.end_of(index), open })
    }

    pub(crate) fn rows(&self) -> (u64, u64) {
        self.rows
    }

    pub(crate) fn tombstone(&self) -> Tombstone {
        self.tombstone
    }
}
