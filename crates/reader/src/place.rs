//! Where a stream stands, and how to go on from there with another source.
//!
//! Pure: follows the fragments that a consumer has seen, knows no source.
//!
//! Invariants
//!  - *paired*: partitions start outside of one, all else comes inside.
//!  - *ascending*: a partition lies behind the one before it, and in the scope.
//!  - *static-once*: a static row comes once, before clustered fragments, where it is wanted.
//!  - *forward-only*: other partitions, and rows of the same one, are asked for further on.

use crate::{PartitionScope, Slice};
use model::{ClusteringOrder, DecoratedKey, Token};
use mutation::range::{earlier, later};
use mutation::{ClusteringPosition, ClusteringRange, Direction, Fragment, RingBound, Tombstone};

/// Where a stream stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which partitions it yields, from its beginning on.
    pub scope: PartitionScope,
    /// What of each.
    pub slice: Slice,
    /// How far it came.
    pub at: At,
}

/// How far a stream came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// Nothing of its partitions came yet.
    Start,
    /// The start of a partition came, and its end did not.
    Inside(Inside),
    /// The last that came is the end of this partition, or it was skipped.
    After(DecoratedKey),
    /// All came.
    End,
}

/// How far a stream came in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The partition.
    pub key: DecoratedKey,
    /// Whether its static row is wanted and did not come.
    pub static_due: bool,
    /// What lies beyond this position, in the direction of the stream, did not come; `None`: no
    /// clustered fragment came.
    pub beyond: Option<ClusteringPosition>,
    /// The range tombstone that holds there.
    pub open: Tombstone,
    /// What was asked for last of a source with `Slice::forwarding`.
    pub asked: Option<ClusteringRange>,
}

/// What to read to go on with a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: the stream is at its end.
    Nothing,
    /// Partitions that nothing came of.
    Partitions(PartitionScope),
    /// Only the rest of the partition that the stream is inside of, with this slice; after it,
    /// the partitions after it.
    Partition(Slice),
}

impl Place {
    /// At the beginning of a stream.
    pub fn new(scope: PartitionScope, slice: Slice) -> Place {
        Place { scope, slice, at: At::Start }
    }

    /// These fragments came.
    pub fn advance(&mut self, fragments: &[Fragment]) {
        let direction = self.slice.direction();
        let mut clustered = None;
        for fragment in fragments {
            match (fragment, &mut self.at) {
                (Fragment::PartitionStart { key, .. }, at) => {
                    debug_assert!(!matches!(at, At::Inside(_)), "paired: {key:?} inside {at:?}");
                    debug_assert!(
                        !matches!(at, At::After(last) if key <= last),
                        "ascending: {key:?} behind {at:?}"
                    );
                    debug_assert!(self.scope.holds(key), "ascending: {key:?} out of scope");
                    *at = At::Inside(Inside {
                        key: key.clone(),
                        static_due: self.slice.with_static,
                        beyond: None,
                        open: Tombstone::NONE,
                        asked: None,
                    });
                    clustered = None;
                }
                (Fragment::PartitionEnd, at) => {
                    debug_assert!(at.is_closed(), "paired: the end of a partition at {at:?}");
                    self.leave_partition();
                    clustered = None;
                }
                (Fragment::StaticRow { .. }, At::Inside(inside)) => {
                    debug_assert!(clustered.is_none(), "static-once: behind other rows");
                    inside.static_due = false;
                }
                (Fragment::RangeTombstoneChange { tombstone, .. }, At::Inside(inside)) => {
                    inside.open = *tombstone;
                    clustered = Some(fragment);
                }
                (Fragment::Row { .. }, at) => {
                    debug_assert!(matches!(at, At::Inside(_)), "paired: a row at {at:?}");
                    clustered = Some(fragment);
                }
                (_, at) => debug_assert!(false, "paired: {fragment:?} at {at:?}"),
            }
        }
        if let (Some(last), At::Inside(inside)) = (clustered, &mut self.at) {
            inside.static_due = false;
            inside.beyond = beyond(last, direction);
        }
    }

    /// The stream goes on with the next partition.
    pub fn leave_partition(&mut self) {
        if let At::Inside(inside) = &self.at {
            self.at = At::After(inside.key.clone());
        }
    }

    /// The stream goes on with other partitions.
    pub fn forward_partitions(&mut self, start: &RingBound, end: &RingBound) {
        debug_assert!(start.token <= end.token, "forward-only: from {start:?} to {end:?}");
        if let (PartitionScope::Range { end: before, .. }, false) =
            (&self.scope, self.at == At::Start)
        {
            debug_assert!(before.token <= start.token, "forward-only: {start:?} after {before:?}");
        }
        self.scope = PartitionScope::Range { start: start.clone(), end: end.clone() };
        self.at = At::Start;
    }

    /// The stream goes on with these rows of the partition that it is inside of, if it is.
    pub fn forward_rows(&mut self, range: ClusteringRange) {
        if let At::Inside(inside) = &mut self.at {
            inside.static_due = false;
            inside.beyond = None;
            inside.open = Tombstone::NONE;
            inside.asked = Some(range);
        }
    }

    /// What to read to go on.
    pub fn rest(&self, order: &ClusteringOrder) -> Rest {
        match (&self.at, &self.scope) {
            (At::End, _) | (At::After(_), PartitionScope::Key(_)) => Rest::Nothing,
            (At::Start, scope) => Rest::Partitions(scope.clone()),
            (At::After(key), PartitionScope::Range { end, .. }) => {
                let end = end.clone();
                Rest::Partitions(PartitionScope::Range { start: just_after(key), end })
            }
            (At::Inside(inside), _) => {
                let mut slice = Slice { with_static: inside.static_due, ..self.slice.clone() };
                if !slice.forwarding {
                    let left = slice.ranges.iter();
                    let left =
                        left.filter_map(|range| inside.left_of(order, range, self.direction()));
                    slice.ranges = left.collect();
                }
                Rest::Partition(slice)
            }
        }
    }

    /// What is left of what was asked for of the partition that the stream is inside of.
    pub fn rest_of_asked(&self, order: &ClusteringOrder) -> Option<ClusteringRange> {
        let At::Inside(inside) = &self.at else { return None };
        inside.left_of(order, inside.asked.as_ref()?, self.direction())
    }

    fn direction(&self) -> Direction {
        self.slice.direction()
    }
}

impl PartitionScope {
    /// Whether a partition is one of these.
    fn holds(&self, key: &DecoratedKey) -> bool {
        match self {
            PartitionScope::Key(own) => own == key,
            PartitionScope::Range { start, end } => {
                start.place(key.token, &key.key).is_gt() && end.place(key.token, &key.key).is_lt()
            }
        }
    }
}

impl At {
    /// Whether a partition may end here: inside of one, where no range tombstone is open.
    fn is_closed(&self) -> bool {
        matches!(self, At::Inside(inside) if inside.open.is_none())
    }
}

impl Inside {
    fn left_of(
        &self,
        order: &ClusteringOrder,
        range: &ClusteringRange,
        direction: Direction,
    ) -> Option<ClusteringRange> {
        let mut left = range.clone();
        if let Some(beyond) = &self.beyond {
            match direction {
                Direction::Forward => left.start = later(order, &range.start, beyond).clone(),
                Direction::Reversed => left.end = earlier(order, &range.end, beyond).clone(),
            }
        }
        Some(left).filter(|left| !left.is_empty(order))
    }
}

/// The place behind a clustered fragment, in the direction of its stream; of others none.
pub fn beyond(fragment: &Fragment, direction: Direction) -> Option<ClusteringPosition> {
    match (fragment, direction) {
        (Fragment::Row { key, .. }, Direction::Forward) => {
            Some(ClusteringPosition::after(key.clone()))
        }
        (Fragment::Row { key, .. }, Direction::Reversed) => {
            Some(ClusteringPosition::before(key.clone()))
        }
        (Fragment::RangeTombstoneChange { position, .. }, _) => Some(position.clone()),
        _ => None,
    }
}

/// The bound just after a partition.
pub fn just_after(key: &DecoratedKey) -> RingBound {
    debug_assert!(key.token == Token::of(&key.key), "a key under the token of another");
    RingBound { token: key.token, key: Some(key.key.to_vec()), after: true }
}
