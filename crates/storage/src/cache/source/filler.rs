//! Putting what is read below into the cache, as it passes.

use super::{Reading, last};
use crate::cache::Populate;
use model::ClusteringOrder;
use mutation::{ClusteringPosition, ClusteringRange, Direction, Fragment};
use reader::place::beyond;
use smallvec::SmallVec;
use std::rc::Rc;

/// Follows the clustered fragments of one partition that a source below yields. What has come is
/// known, also when the source is left before its end; after an error nothing more is.
pub(super) struct Filler {
    /// `None`: nothing more is cached of it.
    populate: Option<Populate>,
    order: Rc<ClusteringOrder>,
    direction: Direction,
    /// The intervals that are read, against the direction of the stream. Neighbours do not touch.
    left: SmallVec<[ClusteringRange; 1]>,
    /// Whether the first of them has begun.
    begun: bool,
    /// All before this place, in the direction of the stream, came of the first of them.
    beyond: Option<ClusteringPosition>,
    /// How much more of this partition is cached, about.
    bytes_left: usize,
}

impl Filler {
    /// For a stream of `ranges`, disjoint and in table order. Caches so many bytes, about, and not
    /// what comes after them.
    pub(super) fn new(
        reading: &Reading,
        populate: Populate,
        ranges: &[ClusteringRange],
        bytes_max: usize,
    ) -> Filler {
        let mut filler = Filler {
            populate: Some(populate),
            order: reading.order.clone(),
            direction: reading.direction(),
            left: SmallVec::new(),
            begun: false,
            beyond: None,
            bytes_left: bytes_max,
        };
        filler.expect(ranges);
        filler
    }

    /// Leaves what it follows; now come these ranges.
    pub(super) fn expect(&mut self, ranges: &[ClusteringRange]) {
        self.leave();
        self.left.clear();
        for range in ranges {
            match self.left.last_mut() {
                Some(before) if before.end.compare(&self.order, &range.start).is_ge() => {
                    before.end = range.end.clone();
                }
                _ => self.left.push(range.clone()),
            }
        }
        debug_assert!(
            self.left.is_sorted_by(|a, b| a.end.compare(&self.order, &b.start).is_lt()),
            "disjoint: {ranges:?}"
        );
        if let Direction::Forward = self.direction {
            self.left.reverse();
        }
    }

    /// A fragment came.
    pub(super) fn fragment(&mut self, reading: &Reading, fragment: &Fragment) {
        let Some(position) = fragment.clustering() else { return };
        while let Some(range) = self.left.last() {
            // What closes a range tombstone at the end of a range belongs to the range.
            let end = last(range, self.direction).as_parts();
            if self.direction.apply(self.order.compare(position, end)).is_le() {
                break;
            }
            self.end_range();
        }
        self.begin_range();
        debug_assert!(
            self.left.last().is_none_or(|range| {
                let start = super::first(range, self.direction).as_parts();
                self.direction.apply(self.order.compare(start, position)).is_le()
            }),
            "in-order: {fragment:?} lies before what is read"
        );
        let Some(populate) = &mut self.populate else { return };
        populate.fragment(fragment);
        self.beyond = beyond(fragment, self.direction);
        self.bytes_left = self.bytes_left.saturating_sub(fragment.size_bytes());
        if self.bytes_left == 0 {
            self.leave();
            self.populate = None;
            reading.mispopulated();
        }
    }

    /// All has come.
    pub(super) fn finish(&mut self) {
        while !self.left.is_empty() {
            self.begin_range();
            self.end_range();
        }
    }

    /// The stream broke: what was not cached yet never is.
    pub(super) fn discard(mut self) {
        self.populate = None;
    }

    fn begin_range(&mut self) {
        let (Some(populate), Some(range)) = (&mut self.populate, self.left.last()) else { return };
        if !self.begun {
            debug_assert!(self.beyond.is_none(), "in-order: beyond what has not begun");
            self.begun = true;
            match self.direction {
                Direction::Forward => populate.interval(range.start.clone()),
                Direction::Reversed => populate.interval_reversed(range.end.clone()),
            }
        }
    }

    fn end_range(&mut self) {
        self.begin_range();
        if let Some(range) = self.left.pop() {
            debug_assert!(self.begun || self.populate.is_none(), "in-order: it was not begun");
            self.reached(last(&range, self.direction));
        }
        (self.begun, self.beyond) = (false, None);
    }

    /// What has come of the present range is all that will.
    fn leave(&mut self) {
        if let Some(beyond) = self.beyond.take() {
            self.reached(&beyond);
        }
        self.begun = false;
        self.left.clear();
    }

    fn reached(&mut self, position: &ClusteringPosition) {
        let Some(populate) = &mut self.populate else { return };
        match self.direction {
            Direction::Forward => populate.reached(position),
            Direction::Reversed => populate.reached_reversed(position),
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.leave();
    }
}
