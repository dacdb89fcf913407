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

    /// Sixteen tokens, the first and the last of the ring among them.
    fn token(index: i64) -> Token {
        match index {
            ..=0 => Token(i64::MIN),
            15.. => Token(i64::MAX),
            _ => Token(index),
        }
    }

    proptest! {
        /// *latest*, *apart*, beside a time for each of a few tokens.
        #[test]
        fn a_token_has_the_latest_time(
            noted in proptest::collection::vec((0i64..16, 0i64..16, 0i64..6), 0..12),
            (first, last) in (0i64..16, 0i64..16),
        ) {
            let (mut repairs, mut model) = (Repairs::default(), [None; 16]);
            for (a, b, at) in noted {
                let (first, last) = (a.min(b), a.max(b));
                repairs.note((token(first), token(last)), at);
                for one in &mut model[first as usize..=last as usize] {
                    *one = (*one).max(Some(at));
                }
            }
            for index in 0..16 {
                prop_assert_eq!(repairs.at(token(index)), model[index as usize]);
            }
            let (first, last) = (first.min(last), first.max(last));
            let part = &model[first as usize..=last as usize];
            let range = (token(first), token(last));
            prop_assert_eq!(repairs.most(range), part.iter().flatten().max().copied());
            // What lies between the first two, and the last two, of these tokens was noted only
            // where both were together: it is no less known than they are.
            let least = repairs.least(range);
            let known: Option<Vec<i64>> = part.iter().copied().collect();
            let known = known.and_then(|known| known.into_iter().min());
            prop_assert!(least.is_none() || least == known, "{:?} {:?}", least, known);
            if 1 <= first && last <= 14 {
                prop_assert_eq!(least, known);
            }
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
