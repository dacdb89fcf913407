//! Whose turn it is: the hand of the clock over segments and large objects. Pure: moves no byte.
//!
//! Invariants
//!  - *log-order*: units of one age stand in the order in which they came; the oldest goes first.
//!  - *sparse-first*: a segment much of which is dead goes before all others, the sparsest first,
//!    because compacting it costs no object.
//!  - *probation-share*: as long as probation holds its share of all bytes it pays, else main.

use super::Age;

/// A segment must have this many eighths of it dead to be worth compacting. It may not be two: so
/// much may be lost behind the last object of a segment, which compacting does not mend.
const SPARSE_EIGHTHS: usize = 3;
/// Probation pays while it holds at least one byte in so many.
const PROBATION_SHARE: usize = 10;

const NONE: u32 = u32::MAX;

/// What the hand of the clock stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Segment(u32),
    Large(u32),
}

impl Unit {
    /// Segments and large objects share one space of numbers: even and odd ones.
    fn id(self) -> u32 {
        match self {
            Unit::Segment(segment) => segment * 2,
            Unit::Large(slot) => slot * 2 + 1,
        }
    }

    fn of_id(id: u32) -> Unit {
        if id.is_multiple_of(2) { Unit::Segment(id / 2) } else { Unit::Large(id / 2) }
    }
}

/// What is to be done with the unit whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// All of its objects move; none is lost.
    Compact,
    /// Those with heat move to main, the others go.
    Reclaim,
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    /// The list that this member is in, or `NONE`.
    list: u32,
}

/// Doubly linked lists over small numbers, each of which is in at most one of them.
struct Lists<const N: usize> {
    ends: [(u32, u32); N],
    links: Vec<Link>,
}

impl<const N: usize> Lists<N> {
    fn new() -> Lists<N> {
        Lists { ends: [(NONE, NONE); N], links: Vec::new() }
    }

    fn list_of(&self, id: u32) -> Option<usize> {
        self.links.get(id as usize).filter(|link| link.list != NONE).map(|link| link.list as usize)
    }

    fn first(&self, list: usize) -> Option<u32> {
        let (first, _) = self.ends[list];
        (first != NONE).then_some(first)
    }

    fn push(&mut self, list: usize, id: u32) {
        if self.links.len() <= id as usize {
            let empty = Link { before: NONE, after: NONE, list: NONE };
            self.links.resize(id as usize + 1, empty);
        }
        assert!(self.list_of(id).is_none(), "a member of one list at most");
        let (first, last) = self.ends[list];
        self.links[id as usize] = Link { before: last, after: NONE, list: list as u32 };
        if last == NONE {
            self.ends[list] = (id, id);
        } else {
            self.links[last as usize].after = id;
            self.ends[list] = (first, id);
        }
    }

    fn remove(&mut self, id: u32) {
        let list = self.list_of(id).expect("removed from the list that it is in");
        let Link { before, after, .. } = self.links[id as usize];
        let (first, last) = &mut self.ends[list];
        match before {
            NONE => *first = after,
            _ => self.links[before as usize].after = after,
        }
        match after {
            NONE => *last = before,
            _ => self.links[after as usize].before = before,
        }
        self.links[id as usize].list = NONE;
    }
}

/// All units that may be reclaimed.
pub(super) struct Clock {
    ages: Lists<2>,
    /// Segments by how many eighths of them, beyond `SPARSE_EIGHTHS`, are dead.
    sparse: Lists<{ 8 - SPARSE_EIGHTHS + 1 }>,
    /// Bytes of the units of each age.
    bytes: [usize; 2],
}

impl Clock {
    pub(super) fn new() -> Clock {
        Clock { ages: Lists::new(), sparse: Lists::new(), bytes: [0; 2] }
    }

    /// Puts a unit of `bytes` behind all others of its age.
    pub(super) fn push(&mut self, unit: Unit, age: Age, bytes: usize) {
        self.ages.push(age as usize, unit.id());
        self.bytes[age as usize] += bytes;
    }

    /// Whether the unit is one of them.
    #[cfg(test)]
    pub(super) fn holds(&self, unit: Unit) -> bool {
        self.ages.list_of(unit.id()).is_some()
    }

    /// Takes out a unit of `bytes`, as they were when it was pushed.
    pub(super) fn remove(&mut self, unit: Unit, bytes: usize) {
        let age = self.ages.list_of(unit.id()).expect("a unit of the clock");
        self.bytes[age] -= bytes;
        self.ages.remove(unit.id());
        if self.sparse.list_of(unit.id()).is_some() {
            self.sparse.remove(unit.id());
        }
    }

    /// Tells how many of the `bytes` of a unit are dead.
    pub(super) fn set_dead(&mut self, unit: Unit, dead: usize, bytes: usize) {
        let list = (dead * 8 / bytes).checked_sub(SPARSE_EIGHTHS);
        let was = self.sparse.list_of(unit.id());
        if list == was {
            return;
        }
        if was.is_some() {
            self.sparse.remove(unit.id());
        }
        if let Some(list) = list {
            self.sparse.push(list, unit.id());
        }
    }

    /// The unit whose turn it is, which stays where it is; `None` if there is no unit.
    pub(super) fn choose(&self) -> Option<(Unit, Turn)> {
        let sparsest = (0..=8 - SPARSE_EIGHTHS).rev().find_map(|list| self.sparse.first(list));
        if let Some(id) = sparsest {
            return Some((Unit::of_id(id), Turn::Compact));
        }
        let [probation, main] = self.bytes;
        let age = if probation * PROBATION_SHARE >= probation + main {
            [Age::Probation, Age::Main]
        } else {
            [Age::Main, Age::Probation]
        };
        let id = age.into_iter().find_map(|age| self.ages.first(age as usize))?;
        Some((Unit::of_id(id), Turn::Reclaim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Unit::{Large, Segment};

    /// Takes whatever unit's turn it is until none is left.
    fn order(clock: &mut Clock, bytes: usize) -> Vec<(Unit, Turn)> {
        std::iter::from_fn(|| {
            let (unit, turn) = clock.choose()?;
            clock.remove(unit, bytes);
            Some((unit, turn))
        })
        .collect()
    }

    #[test]
    fn units_of_an_age_go_in_the_order_in_which_they_came() {
        let mut clock = Clock::new();
        let units = [Segment(3), Large(0), Segment(0), Large(3), Segment(1)];
        units.into_iter().for_each(|unit| clock.push(unit, Age::Main, 100));
        clock.remove(Segment(0), 100);
        clock.push(Segment(0), Age::Main, 100);
        let expected = [Segment(3), Large(0), Large(3), Segment(1), Segment(0)];
        assert_eq!(order(&mut clock, 100), expected.map(|unit| (unit, Turn::Reclaim)));
        assert_eq!(clock.choose(), None);
    }

    #[test]
    fn the_sparsest_segment_goes_first_and_the_dense_ones_wait() {
        let mut clock = Clock::new();
        for segment in 0..5 {
            clock.push(Segment(segment), Age::Probation, 800);
        }
        clock.set_dead(Segment(1), 299, 800);
        clock.set_dead(Segment(2), 300, 800);
        clock.set_dead(Segment(3), 100, 800);
        clock.set_dead(Segment(3), 650, 800);
        clock.set_dead(Segment(4), 350, 800);
        let expected = [
            (Segment(3), Turn::Compact),
            (Segment(2), Turn::Compact),
            (Segment(4), Turn::Compact),
            (Segment(0), Turn::Reclaim),
            (Segment(1), Turn::Reclaim),
        ];
        assert_eq!(order(&mut clock, 800), expected);
    }

    #[test]
    fn probation_pays_while_it_holds_its_share() {
        // Units of probation, units of main, who pays first.
        let check = |probation: u32, main: u32, expected: Unit| {
            let mut clock = Clock::new();
            (0..probation).for_each(|unit| clock.push(Segment(unit), Age::Probation, 100));
            (0..main).for_each(|unit| clock.push(Large(unit), Age::Main, 100));
            // What went does not count.
            (100..200).for_each(|unit| clock.push(Segment(unit), Age::Probation, 100));
            (100..200).for_each(|unit| clock.remove(Segment(unit), 100));
            assert_eq!(clock.choose(), Some((expected, Turn::Reclaim)), "{probation} {main}");
        };
        check(1, 0, Segment(0));
        check(0, 1, Large(0));
        check(1, 9, Segment(0));
        check(1, 10, Large(0));
        check(2, 10, Segment(0));
        check(10, 200, Large(0));
    }
}
