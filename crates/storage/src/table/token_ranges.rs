//! Ranges of tokens that something is done to, each after its first token, up to and including its
//! second; after `Token::MIN` begins the ring. Nothing here reads or writes.
//!
//! Invariants
//!  - *ranges-apart*: ranges ascend, none is empty, and no two touch: what follows on another is
//!    one with it.

use model::Token;

/// Ranges of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenRanges(Vec<(Token, Token)>);

impl TokenRanges {
    /// Of ranges that ascend and share no token.
    pub(crate) fn new(given: Vec<(Token, Token)>) -> TokenRanges {
        let mut ranges: Vec<(Token, Token)> = Vec::with_capacity(given.len());
        for (after, last) in given {
            assert!(after < last, "ranges-apart: nothing lies after {after:?} up to {last:?}");
            match ranges.last_mut() {
                Some(before) if before.1 == after => before.1 = last,
                before => {
                    let end = before.map(|before| before.1);
                    assert!(end < Some(after), "ranges-apart: {after:?} comes before {end:?}");
                    ranges.push((after, last));
                }
            }
        }
        TokenRanges(ranges)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, Token)> {
        self.0.iter().copied()
    }

    /// Whether a token lies in one of them.
    pub(crate) fn holds(&self, token: Token) -> bool {
        self.holds_all_of((token, token))
    }

    /// Whether all tokens from the first to the last lie in one of them.
    pub(crate) fn holds_all_of(&self, (first, last): (Token, Token)) -> bool {
        debug_assert!(first <= last, "ranges-apart: tokens from {first:?} to {last:?}");
        let at = self.0.partition_point(|range| range.1 < first);
        self.0.get(at).is_some_and(|(after, until)| is_after(first, *after) && last <= *until)
    }

    /// What of them lies among the tokens from the first to the last.
    pub(crate) fn among(
        &self,
        (first, last): (Token, Token),
    ) -> impl Iterator<Item = (Token, Token)> {
        debug_assert!(first <= last, "ranges-apart: tokens from {first:?} to {last:?}");
        let at = self.0.partition_point(|range| range.1 < first);
        let meets = move |range: &&(Token, Token)| is_after(last, range.0);
        self.0[at..].iter().take_while(meets).map(move |(after, until)| {
            // What lies before the first token is not asked for.
            ((*after).max(Token(first.0.saturating_sub(1))), (*until).min(last))
        })
    }

    /// What of them lies within a range.
    pub(crate) fn within(&self, (after, last): (Token, Token)) -> TokenRanges {
        let clipped = self.0.iter().map(|(from, until)| ((*from).max(after), (*until).min(last)));
        let own = TokenRanges(clipped.filter(|(from, until)| from < until).collect());
        debug_assert!(
            own.0.is_sorted_by(|a, b| a.1 < b.0),
            "ranges-apart: {own:?} within {after:?} to {last:?}"
        );
        own
    }

    /// How much of the tokens from the first to the last lies outside, about: from 0 to 1.
    pub(crate) fn part_outside(&self, (first, last): (Token, Token)) -> f64 {
        let all = last.0 as i128 - first.0 as i128 + 1;
        let inside =
            self.among((first, last)).map(|(after, until)| until.0 as i128 - after.0 as i128);
        let inside = inside.sum::<i128>().min(all);
        1.0 - inside as f64 / all.max(1) as f64
    }
}

/// Whether a token lies after the one that a range begins with.
fn is_after(token: Token, after: Token) -> bool {
    after < token || after == Token::MIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    fn ranges(given: &[(i64, i64)]) -> TokenRanges {
        TokenRanges::new(given.iter().map(|(a, b)| (Token(*a), Token(*b))).collect())
    }

    /// Whether a token of those that a range is drawn from lies in one.
    fn naive(given: &[(i64, i64)], token: i64) -> bool {
        given.iter().any(|(a, b)| (*a < token || *a == i64::MIN) && token <= *b)
    }

    #[test]
    fn ranges_are_sets_of_tokens() {
        let places: Vec<i64> = [i64::MIN].into_iter().chain(-6..7).chain([i64::MAX]).collect();
        for seed in 0..400 {
            let mut prng = Prng::from_seed(seed);
            let mut ends: Vec<i64> = places.iter().copied().filter(|_| prng.one_in(2)).collect();
            ends.truncate(ends.len() / 2 * 2);
            let mut given: Vec<(i64, i64)> = ends.chunks(2).map(|two| (two[0], two[1])).collect();
            if let Some(last) = given.last_mut()
                && prng.one_in(2)
                && last.1 < 7
            {
                let end = last.1;
                given.push((end, 7));
            }
            let set = ranges(&given);
            for &token in &places {
                assert_eq!(set.holds(Token(token)), naive(&given, token), "{given:?} {token}");
            }
            let mut two = [*prng.pick(&places).unwrap(), *prng.pick(&places).unwrap()];
            two.sort_unstable();
            let tokens = (Token(two[0]), Token(two[1]));
            let asked = || places.iter().copied().filter(|at| (two[0]..=two[1]).contains(at));
            let among: Vec<_> = set.among(tokens).map(|(a, b)| (a.0, b.0)).collect();
            let of = |token| naive(&given, token);
            assert_eq!(asked().any(of), !among.is_empty() && asked().any(|at| naive(&among, at)));
            assert!(asked().all(|at| of(at) == naive(&among, at)), "{given:?} {two:?} {among:?}");
            if set.holds_all_of(tokens) {
                assert!(asked().all(of), "{given:?} {two:?}");
                let outside = set.part_outside(tokens);
                assert!(outside < 1e-9 || two[0] == i64::MIN, "{given:?} {two:?}");
            }
            if two[0] < two[1] {
                let own = set.within(tokens);
                let inside = |token| naive(&[(two[0], two[1])], token);
                for &token in &places {
                    let expected = of(token) && inside(token);
                    assert_eq!(own.holds(Token(token)), expected, "{given:?} {two:?} {token}");
                }
            }
        }
    }

    #[test]
    fn what_touches_is_one_range() {
        let set = ranges(&[(i64::MIN, 3), (3, 5), (6, 9)]);
        assert_eq!(set, ranges(&[(i64::MIN, 5), (6, 9)]));
        assert!(set.holds_all_of((Token(i64::MIN), Token(5))));
        assert!(!set.holds_all_of((Token(5), Token(7))));
        assert!((set.part_outside((Token(1), Token(10))) - 0.2).abs() < 1e-9);
    }

    #[test]
    #[should_panic(expected = "ranges-apart")]
    fn ranges_ascend() {
        ranges(&[(5, 9), (1, 3)]);
    }
}
