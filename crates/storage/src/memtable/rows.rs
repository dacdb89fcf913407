//! The rows of a partition by clustering key: a short vector, or a tree when there are many.

use model::ClusteringOrder;
use mutation::{ClusteringPosition, ClusteringRange, Direction};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use stdx::Bytes;

/// Up to this many rows stay in a vector.
const FEW_MAX: usize = 8;

pub(super) enum Rows {
    /// In clustering order.
    Few(Vec<(Bytes, Bytes)>),
    Many(BTreeMap<RowKey, Bytes>),
}

/// A position that knows how to compare.
pub(super) struct RowKey {
    order: Rc<ClusteringOrder>,
    prefix: Bytes,
    weight: i8,
}

impl RowKey {
    fn at(order: &Rc<ClusteringOrder>, position: &ClusteringPosition) -> RowKey {
        let ClusteringPosition { prefix, weight } = position.clone();
        RowKey { order: order.clone(), prefix, weight }
    }
}
impl Ord for RowKey {
    fn cmp(&self, other: &RowKey) -> Ordering {
        self.order.compare((&self.prefix, self.weight), (&other.prefix, other.weight))
    }
}
impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &RowKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for RowKey {
    fn eq(&self, other: &RowKey) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for RowKey {}

impl Rows {
    pub(super) fn new() -> Rows {
        Rows::Few(Vec::new())
    }

    /// The row of `key`, made (empty) if it is not there.
    pub(super) fn entry(&mut self, order: &Rc<ClusteringOrder>, key: &[u8]) -> &mut Bytes {
        if let Rows::Few(rows) = self
            && rows.len() == FEW_MAX
            && rows.binary_search_by(|(row, _)| order.compare_rows(row, key)).is_err()
        {
            let rows = std::mem::take(rows).into_iter();
            let tree =
                rows.map(|(key, row)| (RowKey::at(order, &ClusteringPosition::row(key)), row));
            *self = Rows::Many(tree.collect());
        }
        match self {
            Rows::Few(rows) => {
                let at = match rows.binary_search_by(|(row, _)| order.compare_rows(row, key)) {
                    Ok(at) => at,
                    Err(at) => {
                        if rows.is_empty() {
                            rows.reserve_exact(1);
                        }
                        rows.insert(at, (Bytes::copy_from(key), Bytes::new()));
                        at
                    }
                };
                &mut rows[at].1
            }
            Rows::Many(tree) => {
                let key = ClusteringPosition::row(Bytes::copy_from(key));
                tree.entry(RowKey::at(order, &key)).or_default()
            }
        }
    }

    /// Calls `each` with the rows in `range`, in that direction, until it breaks.
    pub(super) fn visit(
        &self,
        order: &Rc<ClusteringOrder>,
        range: &ClusteringRange,
        direction: Direction,
        mut each: impl FnMut(&Bytes, &Bytes) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Rows::Few(rows) => {
                let before = |position: &ClusteringPosition| {
                    let bound = position.as_parts();
                    rows.partition_point(|(row, _)| order.compare((row, 0), bound).is_lt())
                };
                let (first, last) = (before(&range.start), before(&range.end));
                let mut found = rows[first..last.max(first)].iter();
                match direction {
                    Direction::Forward => found.try_for_each(|(key, row)| each(key, row)),
                    Direction::Reversed => found.rev().try_for_each(|(key, row)| each(key, row)),
                }
            }
            Rows::Many(tree) => {
                let (start, end) = (RowKey::at(order, &range.start), RowKey::at(order, &range.end));
                if end <= start {
                    return ControlFlow::Continue(());
                }
                let mut found = tree.range((Bound::Included(start), Bound::Excluded(end)));
                let mut each = |(key, row): (&RowKey, &Bytes)| each(&key.prefix, row);
                match direction {
                    Direction::Forward => found.try_for_each(&mut each),
                    Direction::Reversed => found.rev().try_for_each(&mut each),
                }
            }
        }
    }
}
