//! The rows of a partition by clustering key: a short vector, or a tree when there are many.
//!
//! Invariants
//!  - *rows-ascend*: rows stand in clustering order, each once.
//!  - *few*: the vector has at most [`FEW_MAX`] rows.

use super::footprint::{Grown, blob_bytes, vec_bytes};
use super::row::Row;
use super::tree::{NODE_MAX, Tree, find};
use model::ClusteringOrder;
use mutation::Direction;
use std::ops::ControlFlow;
use stdx::Bytes;

/// Up to this many rows stay in a vector.
const FEW_MAX: usize = 8;

/// What was a vector becomes one node of a tree.
const _: () = assert!(FEW_MAX < NODE_MAX);

/// A position as [`ClusteringOrder::compare`] takes it.
pub(super) type Parts<'a> = (&'a [u8], i8);

/// Rows in clustering order. A clone copies at most [`FEW_MAX`] of them.
#[derive(Clone)]
pub(super) enum Rows {
    Few(Vec<(Bytes, Row)>),
    Many(Tree<Row>),
}

/// Whether no row lies before a position.
fn is_before_all((prefix, weight): Parts<'_>) -> bool {
    prefix.is_empty() && weight < 0
}

/// Whether all rows lie before a position.
fn is_after_all((prefix, weight): Parts<'_>) -> bool {
    prefix.is_empty() && 0 < weight
}

impl Rows {
    pub(super) fn new() -> Rows {
        Rows::Few(Vec::new())
    }

    /// The row of `key`.
    pub(super) fn get(&self, order: &ClusteringOrder, key: &[u8]) -> Option<&Row> {
        let place = |row: &[u8]| order.compare_rows(row, key);
        match self {
            Rows::Few(rows) => {
                let at = rows.binary_search_by(|(row, _)| place(row)).ok()?;
                Some(&rows[at].1)
            }
            Rows::Many(tree) => {
                let (found, row, _) = tree.floor(place);
                place(found).is_eq().then_some(row)
            }
        }
    }

    /// The row of `key`; where there is none, what `first` makes becomes it.
    pub(super) fn entry(
        &mut self,
        order: &ClusteringOrder,
        key: &[u8],
        first: impl FnOnce(&mut Grown) -> Row,
        grown: &mut Grown,
    ) -> Option<&mut Row> {
        let place = |row: &[u8]| order.compare_rows(row, key);
        let mut made = None;
        let make = || {
            let grown = made.insert(Grown::default());
            grown.add(blob_bytes(key.len()));
            (Bytes::copy_from(key), first(grown))
        };
        if let Rows::Few(rows) = self
            && rows.len() == FEW_MAX
            && rows.binary_search_by(|(row, _)| place(row)).is_err()
        {
            let tree = Tree::of_few(std::mem::take(rows), grown);
            *self = Rows::Many(tree);
        }
        let found = match self {
            Rows::Few(rows) => {
                let at = match find(rows, true, &place) {
                    Ok(at) => at,
                    Err(at) => {
                        let before = vec_bytes::<(Bytes, Row)>(rows.capacity());
                        if rows.is_empty() {
                            rows.reserve_exact(1);
                        }
                        rows.insert(at, make());
                        grown.change(before, vec_bytes::<(Bytes, Row)>(rows.capacity()));
                        at
                    }
                };
                debug_assert!(rows.len() <= FEW_MAX, "few: {}", rows.len());
                debug_assert!(
                    rows.is_sorted_by(|(a, _), (b, _)| order.compare_rows(a, b).is_lt()),
                    "rows-ascend"
                );
                &mut rows[at].1
            }
            Rows::Many(tree) => tree.entry(place, make, grown),
        };
        match made {
            Some(made) => {
                grown.merge(made);
                None
            }
            None => Some(found),
        }
    }

    /// Calls `each` with the rows between two positions, in that direction, until it breaks.
    pub(super) fn visit(
        &self,
        order: &ClusteringOrder,
        (start, end): (Parts<'_>, Parts<'_>),
        direction: Direction,
        mut each: impl FnMut(&Bytes, &Row) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let starts = |row: &[u8]| order.compare((row, 0), start).is_lt();
        let ends = |row: &[u8]| order.compare((row, 0), end).is_lt();
        // Most ask for all, and no key is looked at to find where that begins and ends.
        let starts = (!is_before_all(start)).then_some(&starts);
        let ends = (!is_after_all(end)).then_some(&ends);
        match self {
            Rows::Few(rows) => {
                let count = |is_before: &dyn Fn(&[u8]) -> bool| {
                    rows.partition_point(|(row, _)| is_before(row))
                };
                let first = starts.map_or(0, |starts| count(starts));
                let last = ends.map_or(rows.len(), |ends| count(ends));
                let mut found = rows[first..last.max(first)].iter();
                match direction {
                    Direction::Forward => found.try_for_each(|(key, row)| each(key, row)),
                    Direction::Reversed => found.rev().try_for_each(|(key, row)| each(key, row)),
                }
            }
            Rows::Many(tree) => tree.visit((starts, ends), direction, &mut each),
        }
    }
}
