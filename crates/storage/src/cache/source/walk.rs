//! Inside of a partition that the cache knows: runs come from its snapshot, gaps from below.

use super::filler::Filler;
use super::{Below, Progress, Reading, first};
use crate::cache::{Piece, Run, Snapshot, Stretch};
use model::{ClusteringOrder, DecoratedKey};
use mutation::range::{earlier, later};
use mutation::{ClusteringRange, Direction, Fragment, Tombstone, TombstoneChange};
use reader::{Slice, Source};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// The rest of a partition.
pub(super) struct Walk {
    key: DecoratedKey,
    snapshot: Snapshot,
    /// What is left of what was asked for, in the direction of the stream.
    left: VecDeque<ClusteringRange>,
    gap: Option<Gap>,
    open: OpenTombstone,
}

/// A stretch that is read below.
struct Gap {
    source: Box<dyn Source>,
    filler: Option<Filler>,
    range: ClusteringRange,
}

impl Walk {
    /// Of `ranges`, in table order.
    pub(super) fn new(
        reading: &Reading,
        key: DecoratedKey,
        snapshot: Snapshot,
        ranges: &[ClusteringRange],
    ) -> Walk {
        let open = OpenTombstone::NONE;
        let mut walk = Walk { key, snapshot, left: VecDeque::new(), gap: None, open };
        walk.forward(reading, ranges);
        walk
    }

    /// Goes on with these ranges alone, in table order.
    pub(super) fn forward(&mut self, reading: &Reading, ranges: &[ClusteringRange]) {
        debug_assert!(
            ranges.is_sorted_by(|a, b| a.end.compare(&reading.order, &b.start).is_le()),
            "in-order: {ranges:?}"
        );
        (self.gap, self.open) = (None, OpenTombstone::NONE);
        self.left = ranges.iter().cloned().collect();
        if let Direction::Reversed = reading.direction() {
            self.left.make_contiguous().reverse();
        }
    }

    /// Goes on to the end of the next stretch.
    pub(super) fn step(
        &mut self,
        (reading, below): (&Reading, &dyn Below),
        ready: &mut VecDeque<Fragment>,
    ) -> Progress {
        if self.gap.is_some() {
            return Progress::Below;
        }
        let Some(left) = self.left.front().cloned() else {
            self.open.end(ready);
            return Progress::End;
        };
        if left.is_empty(&reading.order) {
            self.left.pop_front();
            return Progress::Yielded;
        }
        let direction = reading.direction();
        match self.snapshot.next(first(&left, direction).as_parts(), direction) {
            Stretch::Known(run) => self.known(reading, &run, &left, ready),
            Stretch::End => {
                self.left.pop_front();
                Progress::Yielded
            }
            Stretch::Gap { from, to } => {
                let open = self.open.now();
                debug_assert!(open.is_none(), "exact: {open:?} goes on into what is read below");
                let order = &reading.order;
                let start = later(order, &from, &left.start).clone();
                let end = earlier(order, &to, &left.end).clone();
                debug_assert!(
                    start.compare(order, &end).is_lt(),
                    "goes-on: from {from:?} to {to:?}"
                );
                self.enter_gap((reading, below), ClusteringRange { start, end })
            }
        }
    }

    /// Yields what of a run lies in `left`.
    fn known(
        &mut self,
        reading: &Reading,
        run: &Run,
        left: &ClusteringRange,
        ready: &mut VecDeque<Fragment>,
    ) -> Progress {
        let (order, direction) = (&reading.order, reading.direction());
        let view = run.view();
        let Some(both) = left.intersect(order, &view.interval()) else {
            unreachable!("a snapshot yields a run that holds what was asked for");
        };
        let (open, mut rows) = (&mut self.open, 0);
        let _ = view.visit(order, &both, direction, |piece| {
            match piece {
                Piece::Row(key, row) => {
                    open.flush(ready);
                    let (key, row) = (run.share(key), run.share(row));
                    ready.push_back(Fragment::Row { key, row });
                    rows += 1;
                }
                Piece::Change(change) => open.change(order, change, ready),
            }
            ControlFlow::Continue(())
        });
        reading.count_known(rows);
        self.passed(reading, &both);
        Progress::Yielded
    }

    /// A stretch has come.
    fn passed(&mut self, reading: &Reading, stretch: &ClusteringRange) {
        let Some(left) = self.left.front_mut() else { return };
        debug_assert!(!stretch.is_empty(&reading.order), "goes-on: nothing of {left:?}");
        match reading.direction() {
            Direction::Forward => left.start = stretch.end.clone(),
            Direction::Reversed => left.end = stretch.start.clone(),
        }
    }

    fn enter_gap(
        &mut self,
        (reading, below): (&Reading, &dyn Below),
        range: ClusteringRange,
    ) -> Progress {
        debug_assert!(self.gap.is_none(), "one gap at a time: {range:?}");
        let Snapshot { tombstone, static_row, .. } = &self.snapshot;
        let populate = reading.populate(&self.key, *tombstone, || static_row.clone());
        let ranges = std::slice::from_ref(&range);
        let mut filler =
            populate.map(|populate| Filler::new(reading, populate, ranges, usize::MAX));
        let (reversed, with_static, forwarding) = (reading.slice.reversed, false, false);
        let slice = Slice { ranges: vec![range.clone()], reversed, with_static, forwarding };
        match below.partition(&self.key, &slice) {
            Some(source) => {
                reading.missed();
                self.gap = Some(Gap { source, filler, range });
                Progress::Below
            }
            None => {
                filler.iter_mut().for_each(Filler::finish);
                self.passed(reading, &range);
                Progress::Yielded
            }
        }
    }

    /// The source that is to be read, if the walk is in a gap.
    pub(super) fn below(&mut self) -> Option<&mut Box<dyn Source>> {
        self.gap.as_mut().map(|gap| &mut gap.source)
    }

    /// Takes what the source below yielded.
    pub(super) fn digest(
        &mut self,
        reading: &Reading,
        batch: &mut Vec<Fragment>,
        ready: &mut VecDeque<Fragment>,
    ) {
        let Some(gap) = &mut self.gap else { return };
        let mut ended = batch.is_empty();
        for fragment in batch.drain(..) {
            debug_assert!(
                match &fragment {
                    Fragment::PartitionStart { key, .. } => *key == self.key,
                    // What closes a range tombstone lies at the end.
                    Fragment::RangeTombstoneChange { position, .. } => {
                        gap.range.contains(&reading.order, position.as_parts())
                            || [&gap.range.start, &gap.range.end].contains(&position)
                    }
                    Fragment::Row { key, .. } => gap.range.contains(&reading.order, (key, 0)),
                    _ => true,
                },
                "exact: {fragment:?} is not of {:?}",
                gap.range
            );
            if let Some(filler) = &mut gap.filler {
                filler.fragment(reading, &fragment);
            }
            reading.count_read(&fragment);
            match fragment {
                Fragment::Row { .. } => {
                    self.open.flush(ready);
                    ready.push_back(fragment);
                }
                Fragment::RangeTombstoneChange { position, tombstone } => {
                    let change = TombstoneChange { position, tombstone };
                    self.open.change(&reading.order, change, ready);
                }
                Fragment::PartitionEnd => ended = true,
                Fragment::PartitionStart { .. } | Fragment::StaticRow { .. } => {}
            }
        }
        if ended && let Some(mut gap) = self.gap.take() {
            gap.filler.iter_mut().for_each(Filler::finish);
            self.passed(reading, &gap.range);
        }
    }

    /// Bytes of buffers.
    pub(super) fn memory_bytes(&self) -> usize {
        self.gap.as_ref().map_or(0, |gap| gap.source.memory_bytes())
    }

    /// The source below broke.
    pub(super) fn discard(&mut self) {
        if let Some(filler) = self.gap.take().and_then(|gap| gap.filler) {
            filler.discard();
        }
    }
}

/// The range tombstone that holds where stretches meet: what ends there and begins again is one.
pub(super) struct OpenTombstone {
    /// As it was yielded.
    open: Tombstone,
    /// A change that is due, unless another one comes at its position.
    due: Option<TombstoneChange>,
}

impl OpenTombstone {
    pub(super) const NONE: OpenTombstone = OpenTombstone { open: Tombstone::NONE, due: None };

    pub(super) fn change(
        &mut self,
        order: &ClusteringOrder,
        change: TombstoneChange,
        ready: &mut VecDeque<Fragment>,
    ) {
        match &mut self.due {
            Some(due) if due.position.compare(order, &change.position).is_eq() => {
                due.tombstone = change.tombstone;
            }
            _ => {
                self.flush(ready);
                self.due = Some(change);
            }
        }
    }

    /// What holds from here on.
    pub(super) fn now(&self) -> Tombstone {
        self.due.as_ref().map_or(self.open, |due| due.tombstone)
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self, ready: &mut VecDeque<Fragment>) {
        self.flush(ready);
        debug_assert!(self.open.is_none(), "nothing-lost: {:?} has no end", self.open);
    }

    pub(super) fn flush(&mut self, ready: &mut VecDeque<Fragment>) {
        if let Some(due) = self.due.take()
            && due.tombstone != self.open
        {
            self.open = due.tombstone;
            ready.push_back(due.into());
        }
    }
}
