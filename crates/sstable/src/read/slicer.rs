//! Cuts the elements of a partition to clustering ranges, and its range tombstones with them.
//!
//! Invariants
//!  - *closed*: every tombstone that is opened in a range is closed at its end, at the latest.
//!  - *range-by-range*: ranges are gone through in their order; outside of one, nothing is open in
//!    the output.

use model::ClusteringOrder;
use mutation::{ClusteringPosition, ClusteringRange, Fragment, Tombstone};
use std::cmp::Ordering;
use stdx::Damaged;

/// Where an element lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Before the next range.
    Before,
    /// In a range.
    Inside,
    /// After all ranges.
    Done,
}

/// The state of slicing one partition.
#[derive(Clone, Debug)]
pub(super) struct Slicer {
    ranges: Vec<ClusteringRange>,
    /// The range that comes or in which we are, and the end of those that count.
    next: usize,
    until: usize,
    inside: bool,
    /// The range tombstone that holds in the partition.
    current: Tombstone,
    /// The one that holds in the output.
    emitted: Tombstone,
}

impl Slicer {
    /// Slices to disjoint ranges in table order.
    pub(super) fn new(ranges: Vec<ClusteringRange>) -> Slicer {
        Slicer {
            until: ranges.len(),
            ranges,
            next: 0,
            inside: false,
            current: Tombstone::NONE,
            emitted: Tombstone::NONE,
        }
    }

    /// Goes to the start of a partition.
    pub(super) fn restart(&mut self) {
        self.next = 0;
        self.until = self.ranges.len();
        self.inside = false;
        self.current = Tombstone::NONE;
        self.emitted = Tombstone::NONE;
    }

    /// Goes on in the same partition with other ranges, which lie behind all that came.
    pub(super) fn set_ranges(&mut self, ranges: Vec<ClusteringRange>) {
        let not_empty = |range: &ClusteringRange| range.start != range.end;
        debug_assert!(ranges.iter().all(not_empty), "range-by-range: {ranges:?}");
        self.emitted = Tombstone::NONE;
        self.next = 0;
        self.until = ranges.len();
        self.inside = false;
        self.ranges = ranges;
    }

    /// The ranges.
    pub(super) fn ranges(&self) -> &[ClusteringRange] {
        &self.ranges
    }

    /// The range that comes, or in which we are.
    pub(super) fn next_range(&self) -> usize {
        self.next
    }

    /// Whether what came last lies before the range that comes, or nothing has come of it.
    pub(super) fn is_before(&self) -> bool {
        debug_assert!(self.until <= self.ranges.len(), "range-by-range: {}", self.until);
        !self.inside && self.next < self.until
    }

    /// Goes on where `open` holds; what lies between lies in no range. Fails inside a range: the
    /// index that leads away from there contradicts the data.
    pub(super) fn jump(&mut self, open: Tombstone) -> Result<(), Damaged> {
        if self.inside {
            return Err(Damaged::new("rows of a range that the index leads away from", 0));
        }
        self.current = open;
        Ok(())
    }

    /// Goes to a place where `open` holds, for a range alone: into it, or before it.
    pub(super) fn enter(&mut self, range: usize, open: Tombstone, inside: bool) {
        debug_assert!(range < self.ranges.len(), "range-by-range: {range} is entered");
        self.next = range;
        self.until = range + 1;
        self.inside = inside;
        self.current = open;
        self.emitted = if inside { open } else { Tombstone::NONE };
    }

    /// Nothing comes any more before a place in the range that comes.
    pub(super) fn leave(&mut self, out: &mut Vec<Fragment>) {
        if self.is_before() {
            let start = self.ranges[self.next].start.clone();
            self.set(start, self.current, out);
            self.inside = true;
        }
    }

    /// The range tombstone that holds in the partition.
    pub(super) fn current(&self) -> Tombstone {
        self.current
    }
    /// The range tombstone that holds in the output.
    pub(super) fn emitted(&self) -> Tombstone {
        self.emitted
    }

    /// A row comes.
    pub(super) fn row(
        &mut self,
        order: &ClusteringOrder,
        key: &[u8],
        out: &mut Vec<Fragment>,
    ) -> Place {
        self.step(order, (key, 0), false, out)
    }

    /// A tombstone change comes; after all ranges it is not taken.
    pub(super) fn change(
        &mut self,
        order: &ClusteringOrder,
        position: (&[u8], i8),
        tombstone: Tombstone,
        out: &mut Vec<Fragment>,
    ) -> Place {
        let place = self.step(order, position, true, out);
        if place == Place::Done {
            return place;
        }
        self.current = tombstone;
        if place == Place::Inside && self.emitted != tombstone {
            let position = ClusteringPosition { prefix: position.0.into(), weight: position.1 };
            self.set(position, tombstone, out);
        }
        place
    }

    /// Nothing comes any more: what holds, holds to the end of the ranges.
    pub(super) fn finish(&mut self, out: &mut Vec<Fragment>) {
        self.finish_before(self.until, out);
    }

    /// Nothing comes any more before a range: what holds, holds to the end of those before it.
    pub(super) fn finish_before(&mut self, range: usize, out: &mut Vec<Fragment>) {
        while self.next < range.min(self.until) {
            if self.emitted.is_none() && self.current.is_none() {
                self.inside = false;
                self.next += 1;
                continue;
            }
            let ClusteringRange { start, end } = self.ranges[self.next].clone();
            if !self.inside {
                self.set(start, self.current, out);
            }
            self.set(end, Tombstone::NONE, out);
            self.inside = false;
            self.next += 1;
        }
        debug_assert!(self.inside || self.emitted.is_none(), "closed: {:?}", self.emitted);
    }

    fn step(
        &mut self,
        order: &ClusteringOrder,
        position: (&[u8], i8),
        is_change: bool,
        out: &mut Vec<Fragment>,
    ) -> Place {
        while let Some(range) = self.ranges.get(self.next).filter(|_| self.next < self.until) {
            let (start, end) = (&range.start, &range.end);
            debug_assert!(
                order.compare((&start.prefix, start.weight), (&end.prefix, end.weight)).is_lt(),
                "range-by-range: {range:?} is empty"
            );
            if !self.inside {
                debug_assert!(self.emitted.is_none(), "closed: {:?} before a range", self.emitted);
                let at = order.compare((&start.prefix, start.weight), position);
                if at == Ordering::Greater {
                    return Place::Before;
                }
                self.inside = true;
                // A change right at the start replaces what would be opened there.
                if !(is_change && at == Ordering::Equal) && self.emitted != self.current {
                    let start = start.clone();
                    self.set(start, self.current, out);
                    continue;
                }
            }
            // No row lies behind the end of all rows.
            let before_end = end.prefix.is_empty() && 0 < end.weight && position.1 <= 0;
            if before_end || order.compare(position, (&end.prefix, end.weight)) == Ordering::Less {
                return Place::Inside;
            }
            if !self.emitted.is_none() {
                let end = end.clone();
                self.set(end, Tombstone::NONE, out);
            }
            self.inside = false;
            self.next += 1;
        }
        debug_assert!(self.emitted.is_none(), "closed: {:?} behind all ranges", self.emitted);
        Place::Done
    }

    fn set(&mut self, position: ClusteringPosition, tombstone: Tombstone, out: &mut Vec<Fragment>) {
        if self.emitted != tombstone {
            debug_assert!(position.weight != 0, "closed: at a row, {position:?}");
            self.emitted = tombstone;
            out.push(Fragment::RangeTombstoneChange { position, tombstone });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Type;
    use stdx::Bytes;

    #[test]
    fn a_jump_out_of_a_range_is_damage() {
        let mut slicer = Slicer::new(vec![range(1, 3), range(5, 7)]);
        assert_eq!(slicer.jump(Tombstone::NONE), Ok(()));
        slicer.row(&order(), &prefix(2), &mut Vec::new());
        assert!(slicer.jump(Tombstone::NONE).is_err());
    }

    fn order() -> ClusteringOrder {
        ClusteringOrder { columns: vec![(Type::Int, false)] }
    }
    fn prefix(value: i32) -> Bytes {
        let mut out = Vec::new();
        model::key::push_clustering(&value.to_be_bytes(), &mut out);
        out.into()
    }
    fn range(start: i32, end: i32) -> ClusteringRange {
        ClusteringRange {
            start: ClusteringPosition { prefix: prefix(start), weight: -1 },
            end: ClusteringPosition { prefix: prefix(end), weight: 1 },
        }
    }

    /// Elements: `r5` a row, `-5:t` and `+5:t` changes before and after 5; output likewise.
    fn check(ranges: &[(i32, i32)], elements: &str, expected: &str) {
        let mut slicer = Slicer::new(ranges.iter().map(|(a, b)| range(*a, *b)).collect());
        let mut out = Vec::new();
        let mut text: Vec<String> = Vec::new();
        let render = |out: &mut Vec<Fragment>, text: &mut Vec<String>| {
            for fragment in out.drain(..) {
                let Fragment::RangeTombstoneChange { position, tombstone } = fragment else {
                    panic!("only changes");
                };
                let value = i32::from_be_bytes(position.prefix[2..].try_into().unwrap());
                let sign = if position.weight < 0 { '-' } else { '+' };
                text.push(format!("{sign}{value}:{}", tombstone.timestamp.max(0)));
            }
        };
        for element in elements.split_whitespace() {
            if let Some(key) = element.strip_prefix('r') {
                let place = slicer.row(&order(), &prefix(key.parse().unwrap()), &mut out);
                render(&mut out, &mut text);
                if place == Place::Inside {
                    text.push(element.to_string());
                }
                continue;
            }
            let (position, timestamp) = element[1..].split_once(':').unwrap();
            let weight = if element.starts_with('-') { -1 } else { 1 };
            let tombstone = match timestamp.parse().unwrap() {
                0 => Tombstone::NONE,
                timestamp => Tombstone { timestamp, deletion_time: 0 },
            };
            let key = prefix(position.parse().unwrap());
            slicer.change(&order(), (&key, weight), tombstone, &mut out);
            render(&mut out, &mut text);
        }
        slicer.finish(&mut out);
        render(&mut out, &mut text);
        assert_eq!(text.join(" "), expected, "{elements}");
    }

    #[test]
    fn rows_and_tombstones_are_cut() {
        check(&[(1, 9)], "r1 r5 r9 r10", "r1 r5 r9");
        check(&[(2, 3), (6, 7)], "r1 r2 r4 r6 r8", "r2 r6");
        check(&[(4, 6)], "-1:7 r2 +9:0", "-4:7 +6:0");
        check(&[(4, 6)], "-1:7 r5 +9:0", "-4:7 r5 +6:0");
        check(&[(4, 6)], "-1:7 -4:8 r5 +5:0", "-4:8 r5 +5:0");
        check(&[(4, 6)], "-1:7 -4:0 r5", "r5");
        check(&[(4, 6)], "-4:7 +6:0", "-4:7 +6:0");
        check(&[(2, 3), (6, 7)], "-1:5 r2 r6 +9:0", "-2:5 r2 +3:0 -6:5 r6 +7:0");
        check(&[(2, 3), (6, 7)], "-1:5 +4:0 r6", "-2:5 +3:0 r6");
    }
}
