//! The range tombstones of a partition, normalized.

use super::*;
use std::iter::Peekable;
use std::rc::Rc;

/// Range tombstones of a chunk, at most: what an insertion moves.
const CHUNK_MAX: usize = 64;

/// Non-overlapping range tombstones in table order (*normalized*). Inserting and merging keep the
/// greater tombstone where two overlap. A clone shares all of them.
#[derive(Clone, Debug, Default)]
pub struct RangeTombstoneList {
    /// *chunked*.
    chunks: Vec<Rc<Vec<RangeTombstone>>>,
    len: usize,
}

/// A place in a list: that of a range, or behind the last chunk, at 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    chunk: usize,
    at: usize,
}

impl RangeTombstoneList {
    /// No deletions; allocates nothing.
    pub const fn new() -> RangeTombstoneList {
        RangeTombstoneList { chunks: Vec::new(), len: 0 }
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    pub fn len(&self) -> usize {
        self.len
    }
    /// In table order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &RangeTombstone> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Frees some of the last, at most `count`; whether there are more. Who frees a long list does
    /// it so, bit by bit.
    pub fn drop_last(&mut self, count: usize) -> bool {
        let Some(last) = self.chunks.last_mut() else { return false };
        let gone = match Rc::get_mut(last) {
            Some(own) if count < own.len() => {
                own.truncate(own.len() - count);
                count
            }
            // All of it, or what others hold still.
            _ => self.chunks.pop().map_or(0, |last| last.len()),
        };
        self.len -= gone;
        !self.is_empty()
    }

    /// Adds a deletion, splitting what it overlaps. Costs a binary search, moving the rest of a
    /// chunk, and copying that chunk if others share it.
    pub fn insert(&mut self, order: &ClusteringOrder, new: RangeTombstone) {
        if new.tombstone.is_none() || new.range.is_empty(order) {
            return;
        }
        // What overlaps or touches: neighbours that touch may have to be joined.
        let (start, end) = (&new.range.start, &new.range.end);
        let first = self.seek(|old| old.range.end.compare(order, start).is_lt());
        let last = self.seek(|old| old.range.start.compare(order, end).is_le());
        let (mut pieces, mut overlapped) = (Pieces { order, out: Vec::new() }, 0);
        let mut done = start;
        for old in self.between(first, last) {
            overlapped += 1;
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
        self.len = self.len - overlapped + pieces.len();
        self.replace(first, last, pieces);
    }

    /// The first place of which `is_before` does not hold: it holds of all before, of none after.
    fn seek(&self, is_before: impl Fn(&RangeTombstone) -> bool) -> Place {
        let chunk = self.chunks.partition_point(|one| one.last().is_some_and(&is_before));
        let at = self.chunks.get(chunk).map_or(0, |one| one.partition_point(&is_before));
        Place { chunk, at }
    }

    /// What lies from one place to before another.
    fn between(
        &self,
        first: Place,
        last: Place,
    ) -> impl DoubleEndedIterator<Item = &RangeTombstone> {
        let part = move |chunk: usize| {
            let all = self.chunks.get(chunk).map_or(&[][..], |one| one);
            let from = if chunk == first.chunk { first.at } else { 0 };
            let to = if chunk == last.chunk { last.at } else { all.len() };
            &all[from..to.max(from)]
        };
        (first.chunk..=last.chunk).flat_map(part)
    }

    /// Puts `pieces` where those from `first` to before `last` were.
    fn replace(&mut self, first: Place, last: Place, pieces: Vec<RangeTombstone>) {
        if self.chunks.is_empty() {
            self.chunks.push(Rc::default());
        }
        // What comes after all goes to the last chunk.
        let index = first.chunk.min(self.chunks.len() - 1);
        let from = if index == first.chunk { first.at } else { self.chunks[index].len() };
        let to = if index == last.chunk { last.at } else { self.chunks[index].len() };
        if index < last.chunk {
            if 0 < last.at {
                Rc::make_mut(&mut self.chunks[last.chunk]).drain(..last.at);
            }
            self.chunks.drain(index + 1..last.chunk);
        }
        let chunk = Rc::make_mut(&mut self.chunks[index]);
        chunk.splice(from..to, pieces);
        if CHUNK_MAX < chunk.len() {
            let all = std::mem::take(chunk);
            let parts = all.chunks(CHUNK_MAX / 2).map(|part| Rc::new(part.to_vec()));
            self.chunks.splice(index..=index, parts);
        }
    }

    /// Adds all deletions of `other`.
    pub fn merge(&mut self, order: &ClusteringOrder, other: &RangeTombstoneList) {
        if self.is_empty() {
            self.clone_from(other);
            return;
        }
        for range in other.iter() {
            self.insert(order, range.clone());
        }
    }

    /// The tombstone that holds at a position; of a row: weight 0.
    pub fn tombstone_at(&self, order: &ClusteringOrder, position: (&[u8], i8)) -> Tombstone {
        let ends_before =
            |old: &RangeTombstone| order.compare(old.range.end.as_parts(), position).is_le();
        let place = self.seek(ends_before);
        match self.chunks.get(place.chunk).and_then(|chunk| chunk.get(place.at)) {
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
        let first = self.seek(|old| old.range.end.compare(order, start).is_le());
        let last = self.seek(|old| old.range.start.compare(order, end).is_lt());
        self.between(first, last.max(first)).filter_map(move |old| {
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

impl PartialEq for RangeTombstoneList {
    fn eq(&self, other: &RangeTombstoneList) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for RangeTombstoneList {}

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
