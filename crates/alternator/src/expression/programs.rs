//! What texts of expressions say that a shard was asked for before: it need not parse them again.
//!
//! Invariants
//!  - *bounded*: there are so many, which say so much, at most; who was asked for longest ago goes.
//!  - *right-alone*: a text that says nothing is not kept.
//!
//! Cost: who is found costs a hash of the text, and to be the latest.

use super::code::{Code, Kind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stdx::HashMap;

/// Bytes of texts and of what they say.
const BYTES_MAX: usize = 2 << 20;
/// What one of them takes beside that, about.
const HEAD_BYTES: usize = 128;

/// No place.
const NONE: usize = usize::MAX;

/// One text, between those that were asked for before and after it.
#[derive(Debug)]
struct Program {
    kind: Kind,
    text: Rc<str>,
    codes: Rc<[Code]>,
    earlier: usize,
    later: usize,
}

impl Program {
    fn bytes(&self) -> usize {
        HEAD_BYTES + self.text.len() + size_of_val(&*self.codes)
    }
}

/// In the order in which they were asked for last.
#[derive(Debug)]
struct Kept {
    places: [HashMap<Rc<str>, usize>; Kind::NAMES.len()],
    all: Vec<Program>,
    earliest: usize,
    latest: usize,
    bytes: usize,
}

/// Those of one shard. Stands in `runtime::local`. Keeps none unless it is told how many.
#[derive(Debug)]
pub struct Programs {
    most: Cell<usize>,
    kept: RefCell<Kept>,
    hits: [Cell<u64>; Kind::NAMES.len()],
    misses: [Cell<u64>; Kind::NAMES.len()],
    evictions: Cell<u64>,
}

impl Default for Programs {
    fn default() -> Programs {
        let kept = Kept {
            places: Default::default(),
            all: Vec::new(),
            earliest: NONE,
            latest: NONE,
            bytes: 0,
        };
        Programs {
            most: Cell::new(0),
            kept: RefCell::new(kept),
            hits: Default::default(),
            misses: Default::default(),
            evictions: Cell::default(),
        }
    }
}

impl Programs {
    /// From now on keeps so many at most.
    pub fn keep(&self, most: usize) {
        self.most.set(most);
        let mut kept = self.kept.borrow_mut();
        while most < kept.all.len() {
            self.evict(&mut kept);
        }
    }

    /// What a text says, if that is known.
    pub(super) fn get(&self, kind: Kind, text: &str) -> Option<Rc<[Code]>> {
        if self.most.get() == 0 {
            return None;
        }
        let mut kept = self.kept.borrow_mut();
        let found = kept.places[kind as usize].get(text).copied();
        let count = if found.is_some() { &self.hits } else { &self.misses };
        let count = &count[kind as usize];
        count.set(count.get() + 1);
        let place = found?;
        if kept.latest != place {
            kept.unlink(place);
            kept.link(place);
        }
        Some(kept.all[place].codes.clone())
    }

    /// Keeps what a text says that was not known. (*bounded*)
    pub(super) fn put(&self, kind: Kind, text: &str, codes: &[Code]) {
        if self.most.get() == 0 {
            return;
        }
        let (earlier, later) = (NONE, NONE);
        let new = Program { kind, text: text.into(), codes: codes.into(), earlier, later };
        let mut kept = self.kept.borrow_mut();
        while self.most.get() <= kept.all.len() || BYTES_MAX < kept.bytes + new.bytes() {
            self.evict(&mut kept);
        }
        kept.add(new);
    }

    fn evict(&self, kept: &mut Kept) {
        kept.remove_earliest();
        self.evictions.set(self.evictions.get() + 1);
    }

    /// Hits and misses by kind of expression.
    pub fn asked(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let counts = self.hits.iter().zip(&self.misses);
        let named = Kind::NAMES.iter().zip(counts);
        named.map(|(name, (hits, misses))| (*name, hits.get(), misses.get()))
    }

    pub fn evictions(&self) -> u64 {
        self.evictions.get()
    }

    /// How many there are now.
    pub fn len(&self) -> usize {
        self.kept.borrow().all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Kept {
    /// Sets whom the neighbours of a place have instead of it.
    fn replace(&mut self, (earlier, later): (usize, usize), (before, after): (usize, usize)) {
        match self.all.get_mut(earlier) {
            Some(program) => program.later = after,
            None => self.earliest = after,
        }
        match self.all.get_mut(later) {
            Some(program) => program.earlier = before,
            None => self.latest = before,
        }
    }

    fn unlink(&mut self, place: usize) {
        let Program { earlier, later, .. } = self.all[place];
        self.replace((earlier, later), (earlier, later));
    }

    /// Makes it the latest.
    fn link(&mut self, place: usize) {
        let before = self.latest;
        self.replace((before, NONE), (place, place));
        (self.all[place].earlier, self.all[place].later) = (before, NONE);
    }

    fn add(&mut self, new: Program) {
        let place = self.all.len();
        self.bytes += new.bytes();
        let old = self.places[new.kind as usize].insert(new.text.clone(), place);
        debug_assert!(old.is_none(), "bounded: a text is there twice");
        self.all.push(new);
        self.link(place);
    }

    fn remove_earliest(&mut self) {
        let place = self.earliest;
        self.unlink(place);
        let gone = self.all.swap_remove(place);
        self.bytes -= gone.bytes();
        self.places[gone.kind as usize].remove(&gone.text);
        // The last one has its place now.
        if let Some(Program { kind, text, earlier, later, .. }) = self.all.get(place) {
            let (kind, text, around) = (*kind, text.clone(), (*earlier, *later));
            self.replace(around, (place, place));
            self.places[kind as usize].insert(text, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODES: [Code; 1] = [Code::Not];

    /// Asks for a text, which is kept then: whether it was known.
    fn ask(programs: &Programs, kind: Kind, text: &str) -> bool {
        let is_known = programs.get(kind, text).is_some();
        if !is_known {
            programs.put(kind, text, &CODES);
        }
        is_known
    }

    #[test]
    fn what_is_kept_is_of_its_kind() {
        let programs = Programs::default();
        assert!(!ask(&programs, Kind::Update, "a") && !ask(&programs, Kind::Update, "a"));
        assert!(programs.is_empty(), "nobody has said how many");
        programs.keep(2);
        assert!(!ask(&programs, Kind::Update, "a") && ask(&programs, Kind::Update, "a"));
        assert!(!ask(&programs, Kind::Condition, "a") && ask(&programs, Kind::Condition, "a"));
        let asked: Vec<_> = programs.asked().collect();
        assert_eq!(asked[0], ("UpdateExpression", 1, 1));
        assert_eq!(asked[1], ("ConditionExpression", 1, 1));
        assert_eq!(asked[2], ("ProjectionExpression", 0, 0));
        programs.keep(0);
        assert_eq!((programs.len(), programs.evictions()), (0, 2));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let programs = Programs::default();
        programs.keep(1_000_000);
        for number in 0..1000 {
            ask(&programs, Kind::Condition, &format!("{number:04096}"));
        }
        let bytes = programs.kept.borrow().bytes;
        assert!(programs.len() < 500 && bytes <= BYTES_MAX && BYTES_MAX - 5000 < bytes);
    }

    proptest! {
        #[test]
        fn the_latest_are_kept(
            asked in prop::collection::vec((0u8..12, any::<bool>(), 0usize..6), 1..200),
        ) {
            let programs = Programs::default();
            let mut latest: Vec<(u8, bool)> = Vec::new();
            let mut most = 0;
            for (text, is_update, new_most) in asked {
                if text == 11 {
                    most = new_most;
                    programs.keep(most);
                } else {
                    let kind = if is_update { Kind::Update } else { Kind::Projection };
                    let was_known = latest.contains(&(text, is_update));
                    prop_assert_eq!(ask(&programs, kind, &text.to_string()), was_known);
                    latest.retain(|it| *it != (text, is_update));
                    latest.push((text, is_update));
                }
                latest.drain(..latest.len() - most.min(latest.len()));
                prop_assert_eq!(programs.len(), latest.len());
            }
        }
    }
}
