//! When parts of the ring of a table were repaired last: all replicas had all deletions of before
//! then. Pure.
//!
//! Invariants
//!  - *latest*: a token has the latest of the times that were noted of ranges with it, or none.
//!  - *apart*: parts ascend, share no token, and neighbors have different times.
//!  - *bounded*: there are no more than [`PARTS_MAX`] parts; what would make more is not noted, so
//!    that deletions stay.

use model::Token;
use std::collections::BTreeMap;

/// Parts of one table.
const PARTS_MAX: usize = 1 << 16;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repairs {
    /// By their first token: the last, and the second.
    parts: BTreeMap<Token, (Token, i64)>,
}

impl Repairs {
    /// All between two tokens, these included, was repaired at a second.
    pub(crate) fn note(&mut self, (first, last): (Token, Token), at: i64) {
        assert!(first <= last, "apart: from {first:?} to {last:?}");
        if PARTS_MAX <= self.parts.len() {
            return tracing::warn!("more than {PARTS_MAX} parts of a table were repaired apart");
        }
        let mut pieces = Vec::new();
        let mut next = Some(first);
        for (from, to, known) in self.meeting((first, last)) {
            self.parts.remove(&from);
            if from < first {
                pieces.push((from, Token(first.0 - 1), known));
            }
            if let Some(gap) = next.filter(|gap| *gap < from) {
                pieces.push((gap, Token(from.0 - 1), at));
            }
            pieces.push((from.max(first), to.min(last), known.max(at)));
            if last < to {
                pieces.push((Token(last.0 + 1), to, known));
            }
            next = to.0.checked_add(1).map(Token);
        }
        if let Some(rest) = next.filter(|rest| *rest <= last) {
            pieces.push((rest, last, at));
        }
        self.put(pieces);
    }

    /// Parts that have a token of a range.
    fn meeting(&self, (first, last): (Token, Token)) -> Vec<(Token, Token, i64)> {
        let before = self.parts.range(..first).next_back().filter(|(_, (to, _))| first <= *to);
        let meeting = before.into_iter().chain(self.parts.range(first..=last));
        let meeting: Vec<_> = meeting.map(|(from, (to, at))| (*from, *to, *at)).collect();
        debug_assert!(meeting.is_sorted_by(|a, b| a.1 < b.0), "apart: {meeting:?}");
        meeting
    }

    /// Puts pieces in, each together with a neighbor of its time.
    fn put(&mut self, mut pieces: Vec<(Token, Token, i64)>) {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return };
        let (first, last) = (first.0, last.1);
        let before = first.0.checked_sub(1).map(Token);
        let after = last.0.checked_add(1).map(Token);
        for beside in [before, after].into_iter().flatten() {
            for piece in self.meeting((beside, beside)) {
                self.parts.remove(&piece.0);
                pieces.push(piece);
            }
        }
        pieces.sort_unstable();
        let mut open: Option<(Token, Token, i64)> = None;
        for (from, to, at) in pieces {
            match &mut open {
                Some((_, last, same)) if *same == at && last.0.checked_add(1) == Some(from.0) => {
                    *last = to;
                }
                _ => {
                    if let Some((from, to, at)) = open.replace((from, to, at)) {
                        self.parts.insert(from, (to, at));
                    }
                }
            }
        }
        if let Some((from, to, at)) = open {
            self.parts.insert(from, (to, at));
        }
        debug_assert!(!self.parts.is_empty(), "latest: nothing is left");
    }

    /// When a token was repaired.
    pub(crate) fn at(&self, token: Token) -> Option<i64> {
        let (_, (last, at)) = self.parts.range(..=token).next_back()?;
        (token <= *last).then_some(*at)
    }

    /// When the part of a range was that was repaired longest ago; `None`: a part never was.
    pub(crate) fn least(&self, (first, last): (Token, Token)) -> Option<i64> {
        let (mut next, mut least) = (first, i64::MAX);
        for (from, to, at) in self.meeting((first, last)) {
            if next < from {
                return None;
            }
            least = least.min(at);
            match to.0.checked_add(1) {
                Some(after) if to < last => next = Token(after),
                _ => return Some(least),
            }
        }
        None
    }

    /// When the part of a range was that was repaired last; `None`: none was.
    pub(crate) fn most(&self, (first, last): (Token, Token)) -> Option<i64> {
        debug_assert!(first <= last, "apart: from {first:?} to {last:?}");
        self.meeting((first, last)).into_iter().map(|(_, _, at)| at).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Slots of the ring, one after the other, each noted as a whole: most are one token, the
    /// first and the last of the ring among them; two are all that lies between these and the
    /// others.
    const SLOTS: usize = 18;

    /// The first and the last token of a slot.
    fn slot(index: usize) -> (Token, Token) {
        let (first, last) = match index {
            0 => (i64::MIN, i64::MIN),
            1 => (i64::MIN + 1, 0),
            16 => (15, i64::MAX - 1),
            17 => (i64::MAX, i64::MAX),
            one => (one as i64 - 1, one as i64 - 1),
        };
        (Token(first), Token(last))
    }

    /// From the first token of a slot to the last of another.
    fn tokens(first: usize, last: usize) -> (Token, Token) {
        (slot(first).0, slot(last).1)
    }

    proptest! {
        /// *latest*, *apart*, beside a time for each slot.
        #[test]
        fn a_token_has_the_latest_time(
            noted in proptest::collection::vec((0..SLOTS, 0..SLOTS, 0i64..6), 0..12),
            (first, last) in (0..SLOTS, 0..SLOTS),
        ) {
            let (mut repairs, mut model) = (Repairs::default(), [None; SLOTS]);
            for (a, b, at) in noted {
                let (first, last) = (a.min(b), a.max(b));
                repairs.note(tokens(first, last), at);
                for one in &mut model[first..=last] {
                    *one = (*one).max(Some(at));
                }
            }
            for (index, at) in model.iter().enumerate() {
                let (first, last) = slot(index);
                prop_assert_eq!((repairs.at(first), repairs.at(last)), (*at, *at));
            }
            let (first, last) = (first.min(last), first.max(last));
            let (part, range) = (&model[first..=last], tokens(first, last));
            prop_assert_eq!(repairs.most(range), part.iter().flatten().max().copied());
            let known: Option<Vec<i64>> = part.iter().copied().collect();
            prop_assert_eq!(repairs.least(range), known.and_then(|all| all.into_iter().min()));
            let parts: Vec<_> = repairs.parts.iter().collect();
            prop_assert!(parts.windows(2).all(|pair| {
                let ((_, (last, at)), (first, (_, then))) = (pair[0], pair[1]);
                last < first && (last.0 + 1 < first.0 || at != then)
            }), "{:?}", parts);
        }
    }

    #[test]
    fn no_more_parts_are_noted_than_may_be() {
        let mut repairs = Repairs::default();
        (0..2 * PARTS_MAX as i64).for_each(|at| repairs.note((Token(2 * at), Token(2 * at)), at));
        assert_eq!(repairs.parts.len(), PARTS_MAX);
        assert_eq!(repairs.at(Token(0)), Some(0));
    }
}
