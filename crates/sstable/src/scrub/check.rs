//! Which rule of *ordered* a fragment breaks. Goes on after a broken rule, so that all breaches are
//! found.

use model::{ClusteringOrder, DecoratedKey};
use mutation::{Fragment, Tombstone};
use std::cmp::Ordering;

/// What is wrong with rows that are not behind the ones before them.
pub const ROWS_OUT_OF_ORDER: &str = "rows or range tombstones out of order";

/// The order of the fragments so far.
#[derive(Debug)]
pub struct OrderCheck<'o> {
    order: &'o ClusteringOrder,
    key: Option<DecoratedKey>,
    place: Place,
    open: Tombstone,
}

#[derive(Debug)]
enum Place {
    Outside,
    Start,
    AfterStatic,
    After(Vec<u8>, i8),
}

impl<'o> OrderCheck<'o> {
    /// Nothing was seen yet.
    pub fn new(order: &'o ClusteringOrder) -> OrderCheck<'o> {
        OrderCheck { order, key: None, place: Place::Outside, open: Tombstone::NONE }
    }

    /// Takes the next fragment; answers the rule that it breaks.
    pub fn check(&mut self, fragment: &Fragment) -> Option<&'static str> {
        match fragment {
            Fragment::PartitionStart { key, .. } => {
                let ordered = self.key.as_ref() < Some(key);
                let closed = matches!(self.place, Place::Outside);
                (self.place, self.open) = (Place::Start, Tombstone::NONE);
                if ordered {
                    self.key = Some(key.clone());
                }
                match (closed, ordered) {
                    (false, _) => Some("a partition starts inside another one"),
                    (true, false) => Some("partitions out of order"),
                    (true, true) => None,
                }
            }
            Fragment::StaticRow { .. } => match self.place {
                Place::Start => {
                    self.place = Place::AfterStatic;
                    None
                }
                _ => Some("a static row after other rows"),
            },
            Fragment::Row { key, .. } => self.at(key, 0),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.open = *tombstone;
                self.at(&position.prefix, position.weight)
            }
            Fragment::PartitionEnd => {
                self.place = Place::Outside;
                let open = std::mem::replace(&mut self.open, Tombstone::NONE);
                (!open.is_none()).then_some("a range tombstone is open at the end of the partition")
            }
        }
    }

    /// The rule that the end of the data breaks.
    pub fn finish(&self) -> Option<&'static str> {
        let outside = matches!(self.place, Place::Outside);
        debug_assert!(!outside || self.open.is_none(), "open outside: {:?}", self.open);
        match self.place {
            Place::Outside => None,
            _ => Some("the data ends inside a partition"),
        }
    }

    /// What was read up to here is unknown: the next fragment starts a partition.
    pub fn lost(&mut self) {
        (self.place, self.open) = (Place::Outside, Tombstone::NONE);
    }

    fn at(&mut self, prefix: &[u8], weight: i8) -> Option<&'static str> {
        if let Place::After(last, last_weight) = &self.place
            && !follows(self.order, (last, *last_weight), (prefix, weight))
        {
            return Some(ROWS_OUT_OF_ORDER);
        }
        debug_assert!((-1..=1).contains(&weight), "a weight of {weight}");
        self.place = Place::After(prefix.to_vec(), weight);
        None
    }
}

/// Whether an element at `next` may come after one at `last`.
pub fn follows(order: &ClusteringOrder, last: (&[u8], i8), next: (&[u8], i8)) -> bool {
    debug_assert!(
        (-1..=1).contains(&last.1) && (-1..=1).contains(&next.1),
        "{} {}",
        last.1,
        next.1
    );
    match order.compare(last, next) {
        Ordering::Less => true,
        Ordering::Equal => next.1 != 0,
        Ordering::Greater => false,
    }
}
