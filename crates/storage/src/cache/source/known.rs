//! What the cache knows of one partition, and nothing else.
//!
//! Invariants
//!  - *cache-alone*: gaps are passed over; nothing is read below and nothing is cached. A range
//!    tombstone ends where a gap begins, whatever lies below.

use super::first;
use super::walk::OpenTombstone;
use crate::cache::{Found, Piece, Run, Stretch, TabletCache};
use model::{ClusteringOrder, DecoratedKey};
use mutation::{ClusteringRange, Direction, Fragment, RingBound};
use reader::{Budget, LocalFuture, ReadError, Slice, Source};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::rc::Rc;

/// A stream of it. Yields no partition if nothing is known, or if it is known not to exist.
pub(crate) struct KnownSource {
    order: Rc<ClusteringOrder>,
    found: Found,
    direction: Direction,
    /// What is left of what was asked for, in the direction of the stream.
    left: VecDeque<ClusteringRange>,
    open: OpenTombstone,
    /// What comes next.
    ready: VecDeque<Fragment>,
}

impl KnownSource {
    /// Of what is known now. The slice must not be one that is forwarded.
    pub(crate) fn new(
        cache: &TabletCache,
        order: Rc<ClusteringOrder>,
        key: DecoratedKey,
        slice: Slice,
    ) -> KnownSource {
        assert!(!slice.forwarding, "what is known of a partition is not forwarded");
        debug_assert!(
            slice.ranges.is_sorted_by(|a, b| a.end.compare(&order, &b.start).is_le()),
            "in-order: {:?}",
            slice.ranges
        );
        let found = cache.find(&key);
        let direction = slice.direction();
        let mut left = VecDeque::from(slice.ranges);
        if direction == Direction::Reversed {
            left.make_contiguous().reverse();
        }
        let mut ready = VecDeque::new();
        if let Found::Present(snapshot) = &found {
            let tombstone = snapshot.tombstone;
            ready.push_back(Fragment::PartitionStart { key, tombstone });
            if slice.with_static && !snapshot.static_row.is_empty() {
                ready.push_back(Fragment::StaticRow { row: snapshot.static_row.clone() });
            }
        }
        KnownSource { order, found, direction, left, open: OpenTombstone::NONE, ready }
    }

    /// Goes on to the end of the next stretch: of a run, or of a gap.
    fn step(&mut self) {
        let Found::Present(snapshot) = &self.found else { return };
        let Some(left) = self.left.front().cloned() else {
            self.open.end(&mut self.ready);
            self.ready.push_back(Fragment::PartitionEnd);
            self.found = Found::Unknown;
            return;
        };
        if left.is_empty(&self.order) {
            self.left.pop_front();
            return;
        }
        let direction = self.direction;
        match snapshot.next(first(&left, direction).as_parts(), direction) {
            Stretch::Known(run) => self.known(&run, &left),
            Stretch::End => drop(self.left.pop_front()),
            Stretch::Gap { from, to } => {
                let open = self.open.now();
                debug_assert!(open.is_none(), "cache-alone: {open:?} goes on into a gap");
                let gap = ClusteringRange { start: from, end: to };
                self.pass(gap.intersect(&self.order, &left));
            }
        }
    }

    /// Yields what of a run lies in `left`.
    fn known(&mut self, run: &Run, left: &ClusteringRange) {
        let view = run.view();
        let both = left.intersect(&self.order, &view.interval());
        debug_assert!(both.is_some(), "goes-on: a run beside {left:?}");
        if let Some(both) = &both {
            let KnownSource { order, direction, open, ready, .. } = self;
            let _ = view.visit(order, both, *direction, |piece| {
                match piece {
                    Piece::Row(key, row) => {
                        open.flush(ready);
                        let (key, row) = (run.share(key), run.share(row));
                        ready.push_back(Fragment::Row { key, row });
                    }
                    Piece::Change(change) => open.change(order, change, ready),
                }
                ControlFlow::Continue(())
            });
        }
        self.pass(both);
    }

    /// Leaves a stretch behind; one that is nowhere ends the range, so that each step goes on.
    fn pass(&mut self, stretch: Option<ClusteringRange>) {
        match (stretch, self.left.front_mut()) {
            (Some(stretch), Some(left)) => {
                debug_assert!(!stretch.is_empty(&self.order), "goes-on: nothing of {left:?}");
                match self.direction {
                    Direction::Forward => left.start = stretch.end,
                    Direction::Reversed => left.end = stretch.start,
                }
            }
            _ => drop(self.left.pop_front()),
        }
    }
}

impl Source for KnownSource {
    fn try_fill(
        &mut self,
        mut budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        while self.ready.is_empty() && matches!(self.found, Found::Present(_)) {
            self.step();
        }
        while let Some(fragment) = self.ready.pop_front() {
            let more = budget.spend(&fragment);
            out.push(fragment);
            if !more {
                break;
            }
        }
        Some(Ok(()))
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        let filled = self.try_fill(budget, out).unwrap_or(Ok(()));
        Box::pin(async move { filled })
    }

    fn next_partition(&mut self) {
        self.left.clear();
        self.ready.clear();
        self.found = Found::Unknown;
    }

    fn forward_partitions(&mut self, _: &RingBound, _: &RingBound) {
        self.next_partition();
    }

    fn forward_rows(&mut self, _: ClusteringRange) {
        self.left.clear();
    }
}
