//! A source over fragments that are all there: the reference for all others.

use crate::{Budget, LocalFuture, ReadError, Slice, Source};
use model::{ClusteringOrder, DecoratedKey};
use mutation::{
    ClusteringPosition, ClusteringRange, Direction, Fragment, RangeTombstoneList, RingBound,
    Tombstone, TombstoneChange, range::RangeAssembler,
};
use std::collections::VecDeque;
use stdx::Bytes;

/// Yields the fragments that it was made of, sliced and turned round.
pub struct VecSource {
    order: ClusteringOrder,
    slice: Slice,
    partitions: std::vec::IntoIter<Partition>,
    /// Where partitions end, and before which bound they do not count.
    wanted: Option<(RingBound, RingBound)>,
    /// The partition that it is inside of.
    present: Option<Partition>,
    /// What comes next of it.
    ready: VecDeque<Fragment>,
}

impl VecSource {
    /// Of fragments in table order, as a source without a slice would yield them.
    pub fn new(order: &ClusteringOrder, fragments: Vec<Fragment>, slice: &Slice) -> VecSource {
        let mut partitions: Vec<Partition> = Vec::new();
        for fragment in fragments {
            if let Fragment::PartitionStart { key, tombstone } = fragment {
                partitions.push(Partition::new(key, tombstone));
                continue;
            }
            let partition = partitions.last_mut().expect("fragments begin with a partition");
            match fragment {
                Fragment::StaticRow { row } => partition.static_row = Some(row),
                Fragment::Row { key, row } => partition.rows.push((key, row)),
                Fragment::RangeTombstoneChange { position, tombstone } => {
                    let change = TombstoneChange { position, tombstone };
                    if let Some(range) = partition.open.change(change) {
                        partition.ranges.insert(order, range);
                    }
                }
                _ => assert!(partition.open.current().is_none(), "open at a partition's end"),
            }
        }
        let ascend = partitions.windows(2).all(|pair| pair[0].key < pair[1].key);
        debug_assert!(ascend, "ordered: partitions of a reference");
        debug_assert!(crate::are_disjoint(order, &slice.ranges), "sliced: {:?}", slice.ranges);
        VecSource {
            order: order.clone(),
            slice: slice.clone(),
            partitions: partitions.into_iter(),
            wanted: None,
            present: None,
            ready: VecDeque::new(),
        }
    }

    /// Goes to the next partition that is wanted; whether there is one.
    fn start_partition(&mut self) -> bool {
        debug_assert!(self.present.is_none() && self.ready.is_empty(), "paired");
        let left = self.partitions.as_slice();
        let before = |bound: &RingBound, partition: &Partition| {
            bound.place(partition.key.token, &partition.key.key).is_lt()
        };
        let behind = match &self.wanted {
            Some((start, _)) => left.iter().take_while(|one| before(start, one)).count(),
            None => 0,
        };
        let next = left.get(behind);
        let Some(next) =
            next.filter(|next| self.wanted.as_ref().is_none_or(|(_, end)| before(end, next)))
        else {
            return false;
        };
        let (key, tombstone) = (next.key.clone(), next.tombstone);
        self.ready.push_back(Fragment::PartitionStart { key, tombstone });
        if let Some(row) = next.static_row.clone().filter(|_| self.slice.with_static) {
            self.ready.push_back(Fragment::StaticRow { row });
        }
        if !self.slice.forwarding {
            self.ready.extend(next.sliced(&self.order, &self.slice, &self.slice.ranges));
            self.ready.push_back(Fragment::PartitionEnd);
        }
        self.present = self.partitions.nth(behind);
        true
    }
}

struct Partition {
    key: DecoratedKey,
    tombstone: Tombstone,
    static_row: Option<Bytes>,
    rows: Vec<(Bytes, Bytes)>,
    ranges: RangeTombstoneList,
    open: RangeAssembler,
}

impl Partition {
    fn new(key: DecoratedKey, tombstone: Tombstone) -> Partition {
        Partition {
            key,
            tombstone,
            static_row: None,
            rows: Vec::new(),
            ranges: RangeTombstoneList::new(),
            open: RangeAssembler::new(Direction::Forward),
        }
    }

    /// The clustered fragments in `ranges`.
    fn sliced(
        &self,
        order: &ClusteringOrder,
        slice: &Slice,
        ranges: &[ClusteringRange],
    ) -> Vec<Fragment> {
        let mut out = Vec::new();
        match slice.direction() {
            Direction::Forward => {
                ranges.iter().for_each(|range| self.range(order, range, slice, &mut out));
            }
            Direction::Reversed => {
                ranges.iter().rev().for_each(|range| self.range(order, range, slice, &mut out));
            }
        }
        out
    }

    fn range(
        &self,
        order: &ClusteringOrder,
        range: &ClusteringRange,
        slice: &Slice,
        out: &mut Vec<Fragment>,
    ) {
        debug_assert!(!range.is_empty(order), "sliced: an empty range");
        let direction = slice.direction();
        let rows = self.rows.iter().filter(|(key, _)| range.contains(order, (key, 0)));
        let rows = rows.map(|(key, row)| Fragment::Row { key: key.clone(), row: row.clone() });
        let changes = self.ranges.changes(order, range, direction).into_iter();
        let mut all: Vec<Fragment> = rows.chain(changes.map(Fragment::from)).collect();
        all.sort_by(|a, b| {
            let place = |fragment: &Fragment| match fragment {
                Fragment::RangeTombstoneChange { position, .. } => position.clone(),
                Fragment::Row { key, .. } => ClusteringPosition::row(key.clone()),
                _ => ClusteringPosition::start(),
            };
            direction.apply(place(a).compare(order, &place(b)))
        });
        out.extend(all);
    }
}

impl Source for VecSource {
    fn try_fill(
        &mut self,
        mut budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>> {
        loop {
            if self.ready.is_empty() && self.present.is_none() && !self.start_partition() {
                return Some(Ok(()));
            }
            let Some(fragment) = self.ready.pop_front() else {
                return Some(Ok(()));
            };
            if let Fragment::PartitionEnd = fragment {
                self.present = None;
            }
            let more = budget.spend(&fragment);
            out.push(fragment);
            if !more {
                return Some(Ok(()));
            }
        }
    }

    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>> {
        let filled = self.try_fill(budget, out).unwrap_or(Ok(()));
        Box::pin(std::future::ready(filled))
    }

    fn next_partition(&mut self) {
        self.present = None;
        self.ready.clear();
    }

    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        let before = self.wanted.as_ref().map(|(_, end)| end.token);
        debug_assert!(before <= Some(start.token), "forwarded: to {start:?} after {before:?}");
        self.next_partition();
        self.wanted = Some((start.clone(), end.clone()));
    }

    fn forward_rows(&mut self, range: ClusteringRange) {
        assert!(self.slice.forwarding, "rows are forwarded of a source that was not opened so");
        if let Some(partition) = &self.present {
            let ranges = self.slice.within(&self.order, &range);
            self.ready = partition.sliced(&self.order, &self.slice, &ranges).into();
        }
    }
}
