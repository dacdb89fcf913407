//! The range tombstones of a partition, normalized.

use super::*;
use std::iter::Peekable;

/// Non-overlapping range tombstones in table order (*normalized*). Inserting and merging keep the
/// greater tombstone where two overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstoneList {
    ranges: Vec<RangeTombstone>,
}

impl RangeTombstoneList {
    /// No deletions; allocates nothing.
    pub const fn new() -> RangeTombstoneList {
        RangeTombstoneList { ranges: Vec::new() }
    }
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    pub fn len(&self) -> usize {
        self.ranges.len()
    }
    /// In table order.
    pub fn iter(&self) -> std::slice::Iter<'_, RangeTombstone> {
        self.ranges.iter()
    }

    /// Frees the last `count` of them; whether there are more. Who frees a long list does it so,
    /// bit by bit.
    pub fn drop_last(&mut self, count: usize) -> bool {
        self.ranges.truncate(self.ranges.len().saturating_sub(count));
        !self.is_empty()
    }

    /// Adds a deletion, splitting what it overlaps. Costs a binary search and moving what follows.
    pub fn insert(&mut self, order: &ClusteringOrder, new: RangeTombstone) {
        if new.tombstone.is_none() || new.range.is_empty(order) {
            return;
        }
        // What overlaps or touches: neighbours that touch may have to be joined.
        let (start, end) = (&new.range.start, &new.range.end);
        let first = self.ranges.partition_point(|old| old.range.end.compare(order, start).is_lt());
        let last = self.ranges.partition_point(|old| old.range.start.compare(order, end).is_le());
        let mut pieces = Pieces { order, out: Vec::with_capacity(2 * (last - first) + 1) };
        let mut done = start;
        for old in &self.ranges[first..last] {
            let range = &old.range;
            pieces.push(&range.start, earlier(order, &range.end, start), old.tombstone);
            pieces.push(done, earlier(order, &range.start, end), new.tombstone);
            let both_end = earlier(order, &range.end, end);
            let both = old.tombstone.merge(new.tombstone);
            pieces.push(later(order, &range.start, start), both_end, both);
            done = later(order, done, both_end);
            if end.compare(order, &range.end).is_lt() {
                pieces.push(done, end, new.tombstone);
                pieces.push(later(order, &range.start, end), &range.end, old.tombstone);
                done = end;
            }
        }
        pieces.push(done, end, new.tombstone);
        let pieces = pieces.out;
        self.ranges.splice(first..last, pieces);
    }

    /// Adds all deletions of `other`.
    pub fn merge(&mut self, order: &ClusteringOrder, other: &RangeTombstoneList) {
        if self.is_empty() {
            self.ranges.clone_from(&other.ranges);
            return;
        }
        for range in &other.ranges {
            self.insert(order, range.clone());
        }
    }

    /// The tombstone that holds at a position; of a row: weight 0.
    pub fn tombstone_at(&self, order: &ClusteringOrder, position: (&[u8], i8)) -> Tombstone {
        let ends_before =
            |old: &RangeTombstone| order.compare(old.range.end.as_parts(), position).is_le();
        match self.ranges.get(self.ranges.partition_point(ends_before)) {
            Some(found) if found.range.contains(order, position) => found.tombstone,
            _ => Tombstone::NONE,
        }
    }

    /// What lies in `range`, cut at its bounds.
    pub fn slice<'a>(
        &'a self,
        order: &'a ClusteringOrder,
        range: &'a ClusteringRange,
    ) -> impl DoubleEndedIterator<Item = RangeTombstone> + 'a {
        let (start, end) = (&range.start, &range.end);
        let first = self.ranges.partition_point(|old| old.range.end.compare(order, start).is_le());
        let last = self.ranges.partition_point(|old| old.range.start.compare(order, end).is_lt());
        self.ranges[first..last.max(first)].iter().filter_map(move |old| {
            let range = old.range.intersect(order, range)?;
            Some(RangeTombstone { range, tombstone: old.tombstone })
        })
    }

    /// What lies in `range` as the changes of a stream in that direction: opened and closed at
    /// the bounds, one change where neighbours touch.
    pub fn changes(
        &self,
        order: &ClusteringOrder,
        range: &ClusteringRange,
        direction: Direction,
    ) -> Vec<TombstoneChange> {
        self.each_change(order, range, direction).collect()
    }

    /// As [`RangeTombstoneList::changes`], one after the other: who stops early pays for no more.
    pub fn each_change<'a>(
        &'a self,
        order: &'a ClusteringOrder,
        range: &'a ClusteringRange,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = TombstoneChange> + 'a> {
        let ranges = self.slice(order, range);
        match direction {
            Direction::Forward => Box::new(Changes::of(order, direction, ranges)),
            Direction::Reversed => Box::new(Changes::of(order, direction, ranges.rev())),
        }
    }
}

/// Makes changes of ranges that come in the direction of the stream.
struct Changes<'o, I: Iterator<Item = RangeTombstone>> {
    order: &'o ClusteringOrder,
    direction: Direction,
    ranges: Peekable<I>,
    /// Where the range ends that is open.
    end: Option<ClusteringPosition>,
}

impl<'o, I: Iterator<Item = RangeTombstone>> Changes<'o, I> {
    fn of(order: &'o ClusteringOrder, direction: Direction, ranges: I) -> Changes<'o, I> {
        Changes { order, direction, ranges: ranges.peekable(), end: None }
    }
}

impl<I: Iterator<Item = RangeTombstone>> Iterator for Changes<'_, I> {
    type Item = TombstoneChange;
    fn next(&mut self) -> Option<TombstoneChange> {
        if let Some(end) = self.end.take() {
            // Where the next one begins just there, its begin is the change.
            let begin = self.ranges.peek().map(|next| match self.direction {
                Direction::Forward => &next.range.start,
                Direction::Reversed => &next.range.end,
            });
            if begin.is_none_or(|begin| end.compare(self.order, begin).is_ne()) {
                return Some(TombstoneChange { position: end, tombstone: Tombstone::NONE });
            }
        }
        let RangeTombstone { range, tombstone } = self.ranges.next()?;
        let (position, end) = match self.direction {
            Direction::Forward => (range.start, range.end),
            Direction::Reversed => (range.end, range.start),
        };
        self.end = Some(end);
        Some(TombstoneChange { position, tombstone })
    }
}

/// Collects neighbouring pieces, leaving out empty ones and joining equal ones.
struct Pieces<'o> {
    order: &'o ClusteringOrder,
    out: Vec<RangeTombstone>,
}

impl Pieces<'_> {
    fn push(&mut self, start: &ClusteringPosition, end: &ClusteringPosition, tombstone: Tombstone) {
        if end.compare(self.order, start).is_le() {
            return;
        }
        match self.out.last_mut() {
            Some(last)
                if last.tombstone == tombstone
                    && last.range.end.compare(self.order, start).is_eq() =>
            {
                last.range.end = end.clone();
            }
            _ => {
                let range = ClusteringRange { start: start.clone(), end: end.clone() };
                self.out.push(RangeTombstone { range, tombstone });
            }
        }
    }
}
