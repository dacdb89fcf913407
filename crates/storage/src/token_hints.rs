//! Where the entry of a token is: a hash table beside an ordered map, so that looking up one
//! partition of many costs one line of memory and not one for each level of the map.
//!
//! The ordered map stays what counts; this only says where to look. It grows by splitting one
//! segment at a time and shrinks by joining two, so no call copies more than a segment.
//!
//! Invariants
//!  - *sure-or-unsure*: what was inserted and not removed is found, or the answer is that it is
//!    not known; tokens that were chosen so that they collide make it so.
//!  - *directed*: the directory names for each hash the segment whose prefix it has.
//!  - *bounded*: the directory has at most four places for each segment, whatever the tokens.

use model::Token;

/// Places of a segment; it is split when [`USED_MAX`] of them are taken.
const PLACES: usize = 512;
const USED_MAX: usize = PLACES / 16 * 13;
/// Two segments that have so few together are joined.
const JOINED_MAX: usize = PLACES / 4;

/// A search ends at a free place; what two segments join to is split at once by none.
const _: () = assert!(USED_MAX < PLACES && JOINED_MAX < USED_MAX);

/// Smaller maps do without: they lie in the processor's caches. Those of tests do not.
pub(crate) const ENTRIES_MIN: usize = if cfg!(test) { 4 } else { 256 };
/// About what an entry takes: a place of a segment of which five eighths are taken.
pub(crate) const HINT_BYTES: usize = 13;

/// A table from tokens to places elsewhere. A token may have several.
#[derive(Debug)]
pub(crate) struct Hints<V> {
    /// By the first bits of a hash: its segment.
    directory: Vec<u32>,
    /// How many bits.
    depth: u32,
    segments: Vec<Segment<V>>,
}

#[derive(Debug)]
struct Segment<V> {
    /// Hashes and what they stand for, by open addressing from the last bits of the hash on.
    places: Box<[(u32, Option<V>); PLACES]>,
    used: usize,
    /// How many first bits its hashes have in common, and these.
    depth: u32,
    prefix: u32,
    /// Whether it has all that was inserted (*sure-or-unsure*).
    complete: bool,
}

/// What a table says of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint<R> {
    /// One of its places is the one.
    Is(R),
    /// None of its places is.
    IsNot,
    /// It may have others.
    Unsure,
}

impl<V: Copy + Eq> Default for Hints<V> {
    fn default() -> Hints<V> {
        Hints { directory: vec![0], depth: 0, segments: vec![Segment::new(0, 0)] }
    }
}

impl<V: Copy + Eq> Hints<V> {
    /// The first of a token's places that `look` takes.
    #[inline]
    pub(crate) fn find<R>(&self, token: Token, look: impl FnMut(V) -> Option<R>) -> Hint<R> {
        let hash = hash_of(token);
        let segment = &self.segments[self.directory[self.slot(hash)] as usize];
        debug_assert!(segment.has(hash), "directed: {hash:x} to another segment");
        segment.find(hash, look)
    }

    /// Has the processor fetch what [`Hints::find`] is going to look at.
    #[inline]
    pub(crate) fn prefetch(&self, token: Token) {
        let hash = hash_of(token);
        let segment = &self.segments[self.directory[self.slot(hash)] as usize];
        memory::prefetch(&segment.places[hash as usize % PLACES]);
    }

    /// A place that is perhaps one of a token, nearly always the only one.
    #[inline]
    pub(crate) fn guess(&self, token: Token) -> Option<V> {
        match self.find(token, Some) {
            Hint::Is(place) => Some(place),
            Hint::IsNot | Hint::Unsure => None,
        }
    }

    /// Adds a place of a token.
    pub(crate) fn insert(&mut self, token: Token, place: V) {
        let hash = hash_of(token);
        loop {
            let at = self.directory[self.slot(hash)] as usize;
            debug_assert!(self.segments[at].has(hash), "directed: {hash:x} to another segment");
            let segment = &mut self.segments[at];
            if segment.used < USED_MAX {
                return segment.put(hash, place);
            }
            if !self.split(at) {
                self.segments[at].complete = false;
                return;
            }
        }
    }

    /// Takes a place of a token out, if it is there.
    pub(crate) fn remove(&mut self, token: Token, place: V) {
        let hash = hash_of(token);
        let at = self.directory[self.slot(hash)] as usize;
        debug_assert!(self.segments[at].has(hash), "directed: {hash:x} to another segment");
        if self.segments[at].take(hash, place) {
            self.join(at);
        }
    }

    /// How many places there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.used).sum()
    }

    /// Frees one segment, of a table that nobody asks any more; whether there was one.
    pub(crate) fn free_one(&mut self) -> bool {
        self.segments.pop().is_some()
    }

    fn slot(&self, hash: u32) -> usize {
        first_bits(hash, self.depth) as usize
    }

    /// Makes two of a full segment; `false`: the tokens do not allow it (*bounded*).
    fn split(&mut self, at: usize) -> bool {
        if self.segments[at].depth == self.depth {
            if 4 * self.segments.len() < 2 * self.directory.len() || self.depth == 24 {
                return false;
            }
            self.directory = self.directory.iter().flat_map(|&at| [at, at]).collect();
            self.depth += 1;
            assert!(self.directory.len() == 1 << self.depth, "directed: by {} bits", self.depth);
        }
        let (depth, prefix) = (self.segments[at].depth + 1, self.segments[at].prefix << 1);
        let old = std::mem::replace(&mut self.segments[at], Segment::new(depth, prefix));
        let mut other = Segment::new(depth, prefix | 1);
        for &(hash, place) in &old.places[..] {
            let Some(place) = place else { continue };
            match first_bits(hash, depth) == prefix {
                true => self.segments[at].put(hash, place),
                false => other.put(hash, place),
            }
        }
        let used = self.segments[at].used + other.used;
        assert!(used == old.used, "sure-or-unsure: {used} of {} are left", old.used);
        other.complete = old.complete;
        self.segments[at].complete = old.complete;
        self.segments.push(other);
        self.point_at(self.segments.len() - 1);
        true
    }

    /// Joins a segment with the one that it was once split from, if they have little.
    fn join(&mut self, at: usize) {
        let Segment { used, depth, prefix, .. } = self.segments[at];
        if depth == 0 || JOINED_MAX < used {
            return;
        }
        let twin = self.directory[((prefix ^ 1) << (self.depth - depth)) as usize] as usize;
        if self.segments[twin].depth != depth || JOINED_MAX < used + self.segments[twin].used {
            return;
        }
        debug_assert!(
            self.segments[twin].prefix == prefix ^ 1 && twin != at,
            "directed: {prefix:b} has no twin"
        );
        let gone = self.segments.swap_remove(at.max(twin));
        let stays = at.min(twin);
        let segment = &mut self.segments[stays];
        (segment.depth, segment.prefix) = (depth - 1, prefix >> 1);
        segment.complete &= gone.complete;
        for &(hash, place) in &gone.places[..] {
            if let Some(place) = place {
                segment.put(hash, place);
            }
        }
        assert!(segment.used <= JOINED_MAX, "bounded: {} are joined", segment.used);
        self.point_at(stays);
        if at.max(twin) < self.segments.len() {
            self.point_at(at.max(twin));
        }
    }

    /// Has the directory name a segment wherever it is meant.
    fn point_at(&mut self, at: usize) {
        let Segment { depth, prefix, .. } = self.segments[at];
        assert!(depth <= self.depth, "directed: {depth} of {} bits", self.depth);
        let width = self.depth - depth;
        let first = (prefix as usize) << width;
        self.directory[first..first + (1 << width)].fill(at as u32);
    }
}

impl<V: Copy + Eq> Segment<V> {
    fn new(depth: u32, prefix: u32) -> Segment<V> {
        let places: Box<[(u32, Option<V>)]> = vec![(0, None); PLACES].into_boxed_slice();
        let places = places.try_into().ok().expect("so many places were made");
        Segment { places, used: 0, depth, prefix, complete: true }
    }

    #[inline]
    fn find<R>(&self, hash: u32, mut look: impl FnMut(V) -> Option<R>) -> Hint<R> {
        let mut at = hash as usize % PLACES;
        while let (own, Some(place)) = self.places[at] {
            if own == hash
                && let Some(found) = look(place)
            {
                return Hint::Is(found);
            }
            at = (at + 1) % PLACES;
        }
        if self.complete { Hint::IsNot } else { Hint::Unsure }
    }

    /// Whether hashes like that one are its own.
    fn has(&self, hash: u32) -> bool {
        first_bits(hash, self.depth) == self.prefix
    }

    fn put(&mut self, hash: u32, place: V) {
        let mut at = hash as usize % PLACES;
        while self.places[at].1.is_some() {
            at = (at + 1) % PLACES;
        }
        debug_assert!(self.has(hash), "directed: {hash:x} is of another segment");
        self.places[at] = (hash, Some(place));
        self.used += 1;
        assert!(self.used <= USED_MAX, "bounded: {} places are taken", self.used);
    }

    /// Takes a place out and moves those after it up, so that none is behind a gap.
    fn take(&mut self, hash: u32, place: V) -> bool {
        let mut gap = hash as usize % PLACES;
        loop {
            match self.places[gap] {
                (_, None) => return false,
                found if found == (hash, Some(place)) => break,
                _ => gap = (gap + 1) % PLACES,
            }
        }
        let mut at = gap;
        loop {
            at = (at + 1) % PLACES;
            let (own, Some(_)) = self.places[at] else { break };
            let from_home = (at + PLACES - own as usize % PLACES) % PLACES;
            if (at + PLACES - gap) % PLACES <= from_home {
                self.places[gap] = self.places[at];
                gap = at;
            }
        }
        self.places[gap] = (0, None);
        assert!(0 < self.used, "sure-or-unsure: nothing is left");
        self.used -= 1;
        debug_assert!(self.is_compact(), "sure-or-unsure: a place behind a gap");
        true
    }

    /// Whether a search for each hash that is there comes to it.
    fn is_compact(&self) -> bool {
        let taken = |at: usize| self.places[at % PLACES].1.is_some();
        let reached = |(at, (hash, place)): (usize, &(u32, Option<V>))| {
            let home = *hash as usize % PLACES;
            let way = (at + PLACES - home) % PLACES;
            place.is_none() || (home..home + way).all(taken)
        };
        self.places.iter().enumerate().all(reached)
    }
}

/// A token is a hash already, but those of one tablet have their first bits in common.
#[inline]
fn hash_of(token: Token) -> u32 {
    ((token.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn first_bits(hash: u32, count: u32) -> u32 {
    debug_assert!(count <= u32::BITS, "directed: by {count} bits");
    (u64::from(hash) >> (u32::BITS - count)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::bool::weighted;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn found(hints: &Hints<u32>, token: i64, place: u32) -> Hint<u32> {
        hints.find(Token(token), |found| (found == place).then_some(found))
    }

    fn audit(hints: &Hints<u32>) {
        assert_eq!(hints.directory.len(), 1 << hints.depth);
        let mut seen = 0;
        for (at, segment) in hints.segments.iter().enumerate() {
            let used = segment.places.iter().filter(|(_, place)| place.is_some()).count();
            assert!(segment.used == used && used <= USED_MAX);
            seen += hints.directory.iter().filter(|&&named| named as usize == at).count();
            for (slot, &named) in hints.directory.iter().enumerate() {
                let within = slot as u32 >> (hints.depth - segment.depth) == segment.prefix;
                assert_eq!(within, named as usize == at);
            }
        }
        assert_eq!(seen, hints.directory.len());
    }

    /// Adds and removes so that at most `count` are there, then removes all.
    fn check(tokens: impl Fn(u32) -> i64, steps: &[(bool, u32)]) {
        let (mut hints, mut model) = (Hints::default(), BTreeSet::new());
        for &(adds, number) in steps {
            let token = tokens(number);
            if adds && model.insert((token, number)) {
                hints.insert(Token(token), number);
            } else if !adds && model.remove(&(token, number)) {
                hints.remove(Token(token), number);
            }
        }
        audit(&hints);
        for number in 0..5000 {
            let there = model.contains(&(tokens(number), number));
            match found(&hints, tokens(number), number) {
                Hint::Is(_) => assert!(there),
                Hint::IsNot => assert!(!there),
                Hint::Unsure => {}
            }
        }
        for &(token, number) in &model {
            hints.remove(Token(token), number);
        }
        audit(&hints);
        assert!(hints.segments.iter().all(|segment| segment.used == 0));
    }

    fn spread(number: u32) -> i64 {
        i64::from(number).wrapping_mul(0x1234_5678_9abc_def1)
    }

    #[test]
    fn tokens_far_apart_and_next_to_each_other_are_known_for_sure() {
        for tokens in [spread, |number: u32| i64::from(number)] {
            let mut hints = Hints::default();
            for number in 0..100_000 {
                hints.insert(Token(tokens(number)), number);
            }
            audit(&hints);
            for number in 0..100_000 {
                assert_eq!(found(&hints, tokens(number), number), Hint::Is(number));
                assert_eq!(found(&hints, tokens(number), number + 1), Hint::IsNot);
            }
            let bytes = hints.segments.len() * size_of::<[(u32, Option<u32>); PLACES]>();
            assert!(bytes / 100_000 < 3 * HINT_BYTES / 2, "{bytes}");
            for number in 0..100_000 {
                hints.remove(Token(tokens(number)), number);
            }
            audit(&hints);
            assert!(hints.segments.len() < 20, "{}", hints.segments.len());
        }
    }

    #[test]
    fn tokens_that_collide_are_unsure_and_take_no_more_than_others() {
        let mut hints = Hints::default();
        (0..5000).for_each(|number| hints.insert(Token(7), number));
        audit(&hints);
        assert_eq!(found(&hints, 7, 4999), Hint::Unsure);
        assert!(hints.segments.len() < 8 && hints.directory.len() <= 32);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..Default::default() })]
        #[test]
        fn what_is_said_is_true(
            steps in proptest::collection::vec((weighted(0.7), 0u32..5000), 0..9000),
            kind in 0usize..3,
        ) {
            match kind {
                0 => check(spread, &steps),
                1 => check(|number| i64::from(number / 3), &steps),
                _ => check(|number| i64::from(number % 2), &steps),
            }
        }
    }
}
