//! How often what a tablet holds has changed, by parts of the ring: for who wants to know, without
//! reading it, whether it is what it was.
//!
//! Invariants
//!  - *every-change*: what adds to a tablet, or takes from it what may still be read, counts in the
//!    step in which it is seen. What only lies elsewhere afterwards (flushes, merges) does not:
//!    what a merge leaves out nobody could read any more.
//!  - *never-again*: a count is the same a second time only if nothing has changed; of another
//!    tablet, or after another start, it is another one, up to chance.
//!
//! Nothing is counted before somebody asks. It is not durable.

use model::Token;
use std::cell::{Cell, OnceCell};

/// Parts of the ring that are told apart.
const PARTS: usize = 256;

/// See the module.
#[derive(Default)]
pub(crate) struct Changes {
    counted: OnceCell<Box<Counted>>,
}

struct Counted {
    base: u64,
    parts: [Cell<u64>; PARTS],
}

fn part_of(token: Token) -> usize {
    const { assert!(PARTS == 1 << 8, "every-change: a part for each first byte") };
    ((token.0 as u64 ^ 1 << 63) >> 56) as usize
}

impl Changes {
    /// Something of the partitions at a token has changed.
    #[inline]
    pub(crate) fn note(&self, token: Token) {
        if let Some(counted) = self.counted.get() {
            let part = &counted.parts[part_of(token)];
            part.set(part.get().wrapping_add(1));
        }
    }

    /// Anything may have changed.
    pub(crate) fn note_all(&self) {
        let parts = self.counted.get().into_iter().flat_map(|counted| &counted.parts);
        parts.for_each(|part| part.set(part.get().wrapping_add(1)));
    }

    /// How often something between two tokens, these included, has changed, from some number on.
    pub(crate) fn of(&self, (first, last): (Token, Token)) -> u64 {
        assert!(first <= last, "every-change: from {first:?} to {last:?}");
        let counted = self.counted.get_or_init(|| {
            let base = runtime::random_u64();
            Box::new(Counted { base, parts: [const { Cell::new(0) }; PARTS] })
        });
        let parts = &counted.parts[part_of(first)..=part_of(last)];
        parts.iter().fold(counted.base, |sum, part| sum.wrapping_add(part.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_the_same_until_something_changes_there() {
        runtime::sim::test(1, || async {
            let changes = Changes::default();
            let at = |part: u64| Token((part << 56 ^ 1 << 63) as i64);
            // Nobody has asked yet.
            changes.note(at(3));
            let (low, high) = ((at(3), at(4)), (at(200), Token(i64::MAX)));
            let all = (Token(i64::MIN), Token(i64::MAX));
            let counts = || [low, high, all].map(|range| changes.of(range));
            let first = counts();
            assert_eq!(counts(), first);
            changes.note(Token(at(4).0 + 7));
            let second = counts();
            assert_eq!(second.map(|count| first.contains(&count)), [false, true, false]);
            changes.note(at(199));
            assert_eq!(counts()[..2], second[..2]);
            changes.note_all();
            let third = counts();
            assert!(third.iter().zip(&second).all(|(a, b)| a != b));
            assert_ne!(Changes::default().of(low), third[0], "another tablet");
        });
    }
}
