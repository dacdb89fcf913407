//! A source over fragments that are all there: the reference for all others.

use crate::{Budget, LocalFuture, ReadError, Slice, Source};
use model::ClusteringOrder;
use mutation::{
    ClusteringPosition, ClusteringRange, Direction, Fragment, RangeTombstoneList, TombstoneChange,
    range::RangeAssembler,
};
use stdx::Bytes;

/// Yields the fragments that it was made of, sliced and turned round.
pub struct VecSource {
    rest: std::vec::IntoIter<Fragment>,
    inside: bool,
}

impl VecSource {
    /// Of fragments in table order, as a source without a slice would yield them.
    pub fn new(order: &ClusteringOrder, fragments: Vec<Fragment>, slice: &Slice) -> VecSource {
        let mut out = Vec::new();
        let mut partition = Partition::new();
        for fragment in fragments {
            match fragment {
                start @ Fragment::PartitionStart { .. } => out.push(start),
                Fragment::StaticRow { row } if slice.with_static => {
                    out.push(Fragment::StaticRow { row });
                }
                Fragment::StaticRow { .. } => {}
                Fragment::Row { key, row } => partition.rows.push((key, row)),
                Fragment::RangeTombstoneChange { position, tombstone } => {
                    let change = TombstoneChange { position, tombstone };
                    if let Some(range) = partition.open.change(change) {
                        partition.ranges.insert(order, range);
                    }
                }
                Fragment::PartitionEnd => {
                    let partition = std::mem::replace(&mut partition, Partition::new());
                    partition.slice(order, slice, &mut out);
                    out.push(Fragment::PartitionEnd);
                }
            }
        }
        VecSource { rest: out.into_iter(), inside: false }
    }
}

struct Partition {
    rows: Vec<(Bytes, Bytes)>,
    ranges: RangeTombstoneList,
    open: RangeAssembler,
}

impl Partition {
    fn new() -> Partition {
        let open = RangeAssembler::new(Direction::Forward);
        Partition { rows: Vec::new(), ranges: RangeTombstoneList::new(), open }
    }

    fn slice(&self, order: &ClusteringOrder, slice: &Slice, out: &mut Vec<Fragment>) {
        assert!(self.open.current().is_none(), "a range tombstone open at a partition's end");
        match slice.direction() {
            Direction::Forward => {
                slice.ranges.iter().for_each(|range| self.range(order, range, slice, out));
            }
            Direction::Reversed => {
                slice.ranges.iter().rev().for_each(|range| self.range(order, range, slice, out));
            }
        }
    }

    fn range(
        &self,
        order: &ClusteringOrder,
        range: &ClusteringRange,
        slice: &Slice,
        out: &mut Vec<Fragment>,
    ) {
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
        for fragment in self.rest.by_ref() {
            self.inside = !matches!(fragment, Fragment::PartitionEnd);
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
        Box::pin(std::future::ready(filled))
    }

    fn next_partition(&mut self) {
        if self.inside {
            self.rest.by_ref().find(|fragment| matches!(fragment, Fragment::PartitionEnd));
            self.inside = false;
        }
    }
}
