//! How a table's ring is divided, and which shard holds each part: into tablets, or, without
//! them, by a formula ([`Sharder`]).
//!
//! A ring without tablets has one part per shard all the same, the shard's storage of the table: it
//! holds many pieces of the ring, with those of other shards between them. On a node with one shard
//! it is one tablet.
//!
//! Invariants
//!  - *covering*: the last tokens of tablets ascend strictly and end with the greatest token, so
//!    every token belongs to exactly one tablet.

use crate::sharder::{RingShare, Sharder};
use crate::token::{Token, slot_range};

/// The parts of one table. Tablet `i` covers the tokens after `last_tokens[i - 1]`, up to and
/// including `last_tokens[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabletMap {
    /// Of each tablet; none with a sharder.
    last_tokens: Vec<Token>,
    /// Of each part.
    shards: Vec<u16>,
    /// Where parts are no tablets: part `i` is what this gives to shard `i`.
    sharder: Option<Sharder>,
}

impl TabletMap {
    /// Tablets up to these tokens, on these shards (*covering*).
    pub fn new(last_tokens: Vec<Token>, shards: Vec<u16>) -> TabletMap {
        assert!(last_tokens.len() == shards.len(), "a tablet without a shard");
        assert!(last_tokens.last() == Some(&Token::MAX), "*covering*");
        TabletMap { last_tokens, shards, sharder: None }
    }

    /// `count` equal tablets, dealt to `shards` shards in turn. Panics for a count of 0.
    pub fn tablets(count: u32, shards: u16) -> TabletMap {
        assert!(0 < count && 0 < shards, "a table without tablets or shards");
        let last_tokens = (0..count).map(|index| slot_range(index, count).1).collect();
        let shards = (0..count).map(|index| (index % shards as u32) as u16).collect();
        TabletMap { last_tokens, shards, sharder: None }
    }

    /// A ring without tablets, as drivers compute it: one part per shard.
    pub fn static_map(shards: u16) -> TabletMap {
        match shards {
            1 => TabletMap::single(0),
            _ => TabletMap {
                last_tokens: Vec::new(),
                shards: (0..shards).collect(),
                sharder: Some(Sharder::of_node(shards)),
            },
        }
    }

    /// The whole ring on one shard.
    pub fn single(shard: u16) -> TabletMap {
        TabletMap { last_tokens: vec![Token::MAX], shards: vec![shard], sharder: None }
    }

    /// The same ring with other tablets, which end at these tokens; every token stays on its shard,
    /// so that a tablet is in parts here where that has two shards. Nothing of a ring with a
    /// sharder.
    pub fn divided_at(&self, last_tokens: &[Token]) -> TabletMap {
        assert!(self.sharder.is_none(), "a ring without tablets is divided into some");
        let changes = self.last_tokens.iter().zip(self.shards.windows(2));
        let changes = changes.filter(|(_, two)| two[0] != two[1]).map(|(last, _)| *last);
        let mut all: Vec<Token> = last_tokens.iter().copied().chain(changes).collect();
        all.sort_unstable();
        all.dedup();
        let shards = all.iter().map(|last| self.shard_of(*last)).collect();
        TabletMap::new(all, shards)
    }

    /// The same ring, of which a shard has this range: all that lies after its first token, up to
    /// and including its second. It is one part then. Nothing of a ring with a sharder.
    pub fn with_shard(&self, (after, last): (Token, Token), shard: u16) -> TabletMap {
        assert!(self.sharder.is_none(), "a part of a ring without tablets goes to another shard");
        assert!(after < last, "*covering*: nothing lies after {after:?} up to {last:?}");
        let is_apart = |end: &Token| *end <= after || last <= *end;
        let mut ends: Vec<Token> =
            self.last_tokens.iter().copied().filter(is_apart).chain([last]).collect();
        ends.extend((after != Token::MIN).then_some(after));
        ends.sort_unstable();
        ends.dedup();
        let of = |end: &Token| if *end == last { shard } else { self.shard_of(*end) };
        let shards = ends.iter().map(of).collect();
        TabletMap::new(ends, shards)
    }

    /// The number of parts.
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// The shard of each part.
    pub fn shards(&self) -> &[u16] {
        &self.shards
    }

    /// The last token of each tablet; none of a ring with a sharder.
    pub fn last_tokens(&self) -> &[Token] {
        &self.last_tokens
    }

    /// How tokens are dealt to shards, where parts are no tablets: then each of them is all over
    /// the ring, and their ranges overlap.
    pub fn sharder(&self) -> Option<Sharder> {
        self.sharder
    }

    /// What part `index` holds of its range, unless all.
    pub fn share(&self, index: usize) -> Option<RingShare> {
        Some(RingShare { sharder: self.sharder?, shard: self.shards[index] })
    }

    /// The part that holds `token`.
    #[inline]
    pub fn tablet_of(&self, token: Token) -> usize {
        match self.sharder {
            Some(sharder) => sharder.shard_of(token) as usize,
            None => self.last_tokens.partition_point(|last| *last < token),
        }
    }

    /// The shard that holds `token`.
    #[inline]
    pub fn shard_of(&self, token: Token) -> u16 {
        match self.sharder {
            Some(sharder) => sharder.shard_of(token),
            None => self.shards[self.tablet_of(token)],
        }
    }

    /// The range in which all tokens of part `index` are: after the first token, up to and
    /// including the second. A tablet has all of it, a part of a ring its [`TabletMap::share`].
    pub fn range(&self, index: usize) -> (Token, Token) {
        if self.sharder.is_some() {
            return (Token::MIN, Token::MAX);
        }
        let start = if index == 0 { Token::MIN } else { self.last_tokens[index - 1] };
        (start, self.last_tokens[index])
    }

    /// The number of contiguous ranges of the ring of which each is on one shard: tablets, or the
    /// pieces of a ring.
    pub fn stretches(&self) -> usize {
        self.sharder.map_or(self.last_tokens.len(), |sharder| sharder.pieces() as usize)
    }

    /// The stretch that holds `token`.
    pub fn stretch_of(&self, token: Token) -> usize {
        match self.sharder {
            Some(sharder) => sharder.piece_of(token) as usize,
            None => self.tablet_of(token),
        }
    }

    /// The range of a stretch: after the first token, up to and including the second.
    pub fn stretch_range(&self, index: usize) -> (Token, Token) {
        match self.sharder {
            Some(sharder) => sharder.range(index as u64),
            None => self.range(index),
        }
    }

    /// The shard that has a stretch.
    pub fn stretch_shard(&self, index: usize) -> u16 {
        match self.sharder {
            Some(sharder) => sharder.shard_of_piece(index as u64),
            None => self.shards[index],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_token_is_in_the_stretch_of_its_shard(
            token: i64,
            shards in 1u16..20,
            tablets: bool,
        ) {
            let map = match tablets {
                true => TabletMap::tablets(16, shards),
                false => TabletMap::static_map(shards),
            };
            let token = Token(token);
            let stretch = map.stretch_of(token);
            let (after, last) = map.stretch_range(stretch);
            prop_assert!(token <= last && (after < token || token == Token::MIN));
            prop_assert!(stretch < map.stretches());
            prop_assert_eq!(map.stretch_shard(stretch), map.shard_of(token));
            let part = map.tablet_of(token);
            prop_assert_eq!(map.shards()[part], map.shard_of(token));
            prop_assert!(map.share(part).is_none_or(|share| share.holds(token)));
            prop_assert_eq!(map.share(part).is_some(), !tablets && 1 < shards);
        }

        #[test]
        fn a_range_goes_to_a_shard_and_all_else_stays(
            parts in prop::collection::btree_map(any::<i64>(), 0u16..3, 0..9),
            ends: [i64; 2],
            shard in 0u16..3,
            tokens: [i64; 9],
        ) {
            let mut parts = parts;
            parts.entry(i64::MAX).or_insert(0);
            let (lasts, shards): (Vec<i64>, Vec<u16>) = parts.into_iter().unzip();
            let before = TabletMap::new(lasts.into_iter().map(Token).collect(), shards);
            let (after, last) = (Token(ends[0].min(ends[1])), Token(ends[0].max(ends[1])));
            prop_assume!(after < last);
            let map = before.with_shard((after, last), shard);
            prop_assert_eq!(map.range(map.tablet_of(last)), (after, last));
            for token in tokens.into_iter().chain(ends).map(Token) {
                let is_within = after < token && token <= last;
                let expected = if is_within { shard } else { before.shard_of(token) };
                prop_assert_eq!(map.shard_of(token), expected, "{:?}", token);
            }
            prop_assert_eq!(&map.with_shard((after, last), shard), &map);
        }

        #[test]
        fn tokens_stay_on_their_shards_however_tablets_end(
            parts in prop::collection::btree_map(any::<i64>(), 0u16..3, 0..9),
            ends in prop::collection::btree_set(any::<i64>(), 0..9),
            tokens: [i64; 9],
        ) {
            let map = |mut parts: std::collections::BTreeMap<i64, u16>| {
                parts.entry(i64::MAX).or_insert(0);
                let (ends, shards): (Vec<i64>, Vec<u16>) = parts.into_iter().unzip();
                TabletMap::new(ends.into_iter().map(Token).collect(), shards)
            };
            let before = map(parts);
            let ends: Vec<Token> = ends.into_iter().chain([i64::MAX]).map(Token).collect();
            let ends: Vec<Token> = { let mut ends = ends; ends.dedup(); ends };
            let after = before.divided_at(&ends);
            for token in tokens.into_iter().map(Token).chain(ends.iter().copied()) {
                prop_assert_eq!(after.shard_of(token), before.shard_of(token));
            }
            // No part is in two of the new tablets, and none ends without a reason.
            for (at, last) in after.last_tokens().iter().enumerate() {
                let other = after.shards().get(at + 1) != Some(&after.shards()[at]);
                prop_assert!(ends.contains(last) || other, "{last:?} in {after:?}");
            }
            prop_assert!(ends.iter().all(|end| after.last_tokens().contains(end)));
            prop_assert_eq!(&after.divided_at(&ends), &after);
        }
    }
}
