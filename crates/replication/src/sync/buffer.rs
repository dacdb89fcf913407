//! What a replica has read ahead of its part of a range, as units. Pure.
//!
//! Replicas come to different places with buffers of the same size, and what they compare ends at
//! one edge. So a buffer is cut there, and what lies behind it stays. A deleted range that lies on
//! both sides is cut in two, by all replicas at the same place; one whose end was not read yet
//! counts up to where the buffer ends.
//!
//! Invariants
//!  - *once*: a unit is in a buffer once, and leaves it once; nothing before its beginning is in
//!    it.
//!  - *bounded*: a buffer is not filled any more when it has as many bytes as it may, but where
//!    there is no place to stop at yet: all that is in it lies before the place that it reaches.
//!  - *onward*: a buffer that is full, or at its end, reaches beyond its beginning.

use super::unit::{Edge, Hashing, Planted, Sum, Unit, What, compare_edges};
use model::{DecoratedKey, TableSchema};
use mutation::range::{ClusteringPosition, ClusteringRange};
use mutation::{Fragment, Tombstone};
use std::collections::VecDeque;
use std::rc::Rc;

/// See the module.
pub struct Buffer {
    schema: Rc<TableSchema>,
    hashing: Hashing,
    bytes_max: usize,
    /// Where it begins; `None`: at the beginning of the range.
    after: Option<Edge>,
    units: VecDeque<Unit>,
    bytes: usize,
    sum: Sum,
    /// The partition that is being read.
    key: Option<DecoratedKey>,
    /// A range that is deleted from here on, and is open where reading stands.
    open: Option<(ClusteringPosition, Tombstone)>,
    /// Up to where all was read; `None`: nothing was.
    reached: Option<Edge>,
    /// Something was read beyond it.
    is_beyond: bool,
    is_at_end: bool,
}

/// How far a buffer reaches, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// `None`: to the end of the range.
    pub reached: Option<Edge>,
    pub sum: Sum,
}

impl Buffer {
    /// One that is empty, and begins at a place.
    pub fn new(
        schema: Rc<TableSchema>,
        hashing: Hashing,
        bytes_max: usize,
        after: Option<Edge>,
    ) -> Buffer {
        assert!(0 < bytes_max, "bounded: a buffer for nothing");
        Buffer {
            schema,
            hashing,
            bytes_max,
            after,
            units: VecDeque::new(),
            bytes: 0,
            sum: Sum::default(),
            key: None,
            open: None,
            reached: None,
            is_beyond: false,
            is_at_end: false,
        }
    }

    /// Where it begins.
    pub fn after(&self) -> Option<&Edge> {
        self.after.as_ref()
    }

    /// Whether nothing more is to be read now.
    pub fn is_full(&self) -> bool {
        let is_settled = !self.is_beyond && self.is_onward();
        self.is_at_end || (self.bytes_max <= self.bytes && is_settled)
    }

    fn is_onward(&self) -> bool {
        let reached = self.reached.as_ref();
        reached.is_some()
            && (self.after.is_none()
                || compare_edges(&self.schema, self.after.as_ref(), reached).is_lt())
    }

    /// Takes the next fragment of the replica's stream.
    pub fn push(&mut self, fragment: Fragment) {
        assert!(!self.is_at_end, "once: a fragment behind the end");
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                assert!(self.open.is_none(), "in-place: a range is open between partitions");
                debug_assert!(
                    self.key.is_none() && self.reached.as_ref().is_none_or(|it| it.key <= key),
                    "in-place: {key:?} behind {:?}",
                    self.reached
                );
                self.key = Some(key);
                if !tombstone.is_none() && !self.is_inside() {
                    self.add(What::Deleted(tombstone));
                }
            }
            Fragment::StaticRow { row } => {
                if !self.is_inside() {
                    self.add(What::Static(row));
                }
            }
            Fragment::Row { key, row } => {
                let position = ClusteringPosition::after(key.clone());
                self.add(What::Row { key, row });
                // Where there is one row at most, the partition's end comes next.
                if !position.prefix.is_empty() {
                    self.reach(Some(position));
                }
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.close(&position);
                if !tombstone.is_none() {
                    self.open = Some((position.clone(), tombstone));
                    self.is_beyond = true;
                }
                if position.weight != 0 && !position.prefix.is_empty() {
                    self.reach(Some(position));
                }
            }
            Fragment::PartitionEnd => {
                assert!(self.open.is_none(), "in-place: a range is open at the end");
                self.reach(None);
                self.key = None;
            }
        }
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        assert!(self.key.is_none() && self.open.is_none(), "in-place: it ends in a partition");
        self.is_at_end = true;
    }

    /// Whether the partition being read is the one in which the buffer begins.
    fn is_inside(&self) -> bool {
        let inside = self.after.as_ref().filter(|after| after.within.is_some());
        inside.is_some_and(|after| self.key.as_ref() == Some(&after.key))
    }

    fn reach(&mut self, within: Option<ClusteringPosition>) {
        debug_assert!(self.key.is_some(), "onward: outside of a partition");
        let Some(key) = self.key.clone() else { return };
        self.reached = Some(Edge { key, within });
        self.is_beyond = false;
    }

    fn add(&mut self, what: What) {
        let Some(key) = self.key.clone() else {
            return debug_assert!(false, "in-place: {what:?} outside of a partition");
        };
        let unit = Unit::new(key, what, &mut self.hashing);
        if self.after.as_ref().is_some_and(|after| unit.is_before(&self.schema, after)) {
            return debug_assert!(
                matches!(unit.what, What::Range(..)),
                "once: {unit:?} was compared before"
            );
        }
        debug_assert!(
            self.units.back().is_none_or(|last| last.key <= unit.key),
            "in-place: {unit:?} behind another partition"
        );
        self.sum.add(unit.hash);
        self.bytes += unit.size_bytes();
        self.units.push_back(unit);
        self.is_beyond = true;
        debug_assert!(self.sum.count as usize == self.units.len(), "once: {:?}", self.sum);
    }

    /// Ends the range that is open.
    fn close(&mut self, end: &ClusteringPosition) {
        let Some((start, tombstone)) = self.open.take() else { return };
        debug_assert!(start.compare(&self.schema.order, end).is_le(), "in-place: back to {end:?}");
        let range = ClusteringRange { start, end: end.clone() };
        if !range.is_empty(&self.schema.order) {
            self.add(What::Range(range, tombstone));
        }
    }

    /// The open range up to where the buffer reaches.
    fn opened(&mut self) -> Option<Unit> {
        let (Some((start, tombstone)), Some(reached)) = (&self.open, &self.reached) else {
            return None;
        };
        debug_assert!(self.key.as_ref() == Some(&reached.key), "in-place: a range of another one");
        let end = reached.within.clone()?;
        let range = ClusteringRange { start: start.clone(), end };
        if range.is_empty(&self.schema.order) {
            return None;
        }
        let what = What::Range(range, *tombstone);
        Some(Unit::new(reached.key.clone(), what, &mut self.hashing))
    }

    /// What is in it. It is full.
    pub fn told(&mut self) -> Told {
        assert!(self.is_full(), "onward: a buffer is told of that is being filled");
        let mut sum = self.sum;
        if let Some(unit) = self.opened() {
            sum.add(unit.hash);
        }
        let reached = if self.is_at_end { None } else { self.reached.clone() };
        Told { reached, sum }
    }

    /// Cuts it at an edge that it reaches (`None`: at the end of the range). What lay before is
    /// given out.
    pub fn take(&mut self, edge: Option<&Edge>) -> Vec<Unit> {
        let Some(edge) = edge else {
            assert!(self.is_at_end, "bounded: not all was read");
            self.after = self.reached.clone();
            (self.bytes, self.sum) = (0, Sum::default());
            return self.units.drain(..).collect();
        };
        let (schema, mut out) = (self.schema.clone(), Vec::new());
        while self.units.front().is_some_and(|unit| unit.is_before(&schema, edge)) {
            let unit = self.units.pop_front().expect("it was looked at");
            self.forget(&unit);
            out.push(unit);
        }
        if let Some(within) = &edge.within
            && !self.hashing.is_planted(Planted::LeavesRanges)
        {
            out.extend(self.split(&edge.key, within));
        }
        self.after = Some(edge.clone());
        debug_assert!(
            self.units.iter().all(|unit| !unit.is_before(&schema, edge)),
            "once: something before the edge stays"
        );
        out
    }

    fn forget(&mut self, unit: &Unit) {
        assert!(unit.size_bytes() <= self.bytes, "once: {unit:?} left twice");
        self.bytes -= unit.size_bytes();
        self.sum.take(unit.hash);
    }

    /// What lies before a position of a deleted range that lies on both sides of it.
    fn split(&mut self, key: &DecoratedKey, at: &ClusteringPosition) -> Option<Unit> {
        let order = &self.schema.order;
        let of_key = self.units.iter().take_while(|unit| unit.key == *key);
        let mut ranges = of_key.enumerate().filter_map(|(index, unit)| match &unit.what {
            What::Range(range, tombstone) => Some((index, range.clone(), *tombstone)),
            _ => None,
        });
        // Ranges are disjoint: only the first of those that end behind it can begin before it.
        if let Some((index, range, tombstone)) = ranges.next() {
            if !range.start.compare(order, at).is_lt() {
                return None;
            }
            let old = self.units[index].clone();
            self.forget(&old);
            let rest = ClusteringRange { start: at.clone(), end: range.end };
            let rest = Unit::new(key.clone(), What::Range(rest, tombstone), &mut self.hashing);
            self.sum.add(rest.hash);
            self.bytes += rest.size_bytes();
            self.units[index] = rest;
            let first = ClusteringRange { start: range.start, end: at.clone() };
            return Some(Unit::new(key.clone(), What::Range(first, tombstone), &mut self.hashing));
        }
        let is_open_there = self.key.as_ref() == Some(key);
        let (start, tombstone) = self.open.as_mut().filter(|_| is_open_there)?;
        if !start.compare(order, at).is_lt() {
            return None;
        }
        let start = std::mem::replace(start, at.clone());
        let what = What::Range(ClusteringRange { start, end: at.clone() }, *tombstone);
        Some(Unit::new(key.clone(), what, &mut self.hashing))
    }
}
