//! How a table's ring is divided into tablets, and which shard holds each.
//!
//! Invariants
//!  - *covering*: `last_tokens` ascends strictly and ends with the greatest token, so every token
//!    belongs to exactly one tablet.

use crate::token::{Token, slot_range};

/// The tablets of one table. Tablet `i` covers the tokens after `last_tokens[i - 1]`, up to and
/// including `last_tokens[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabletMap {
    pub last_tokens: Vec<Token>,
    pub shards: Vec<u16>,
}

impl TabletMap {
    /// `count` equal tablets, dealt to `shards` shards in turn. Panics for a count of 0.
    pub fn tablets(count: u32, shards: u16) -> TabletMap {
        assert!(0 < count && 0 < shards, "a table without tablets or shards");
        let last_tokens = (0..count).map(|index| slot_range(index, count).1).collect();
        let shards = (0..count).map(|index| (index % shards as u32) as u16).collect();
        TabletMap { last_tokens, shards }
    }

    /// One tablet per shard: shard = `((token + 2^63) * shards) >> 64`, as drivers compute it.
    pub fn static_map(shards: u16) -> TabletMap {
        TabletMap::tablets(shards as u32, shards)
    }

    /// The whole ring on one shard.
    pub fn single(shard: u16) -> TabletMap {
        TabletMap { last_tokens: vec![Token::MAX], shards: vec![shard] }
    }

    /// The number of tablets.
    pub fn count(&self) -> usize {
        self.last_tokens.len()
    }

    /// The tablet that holds `token`.
    pub fn tablet_of(&self, token: Token) -> usize {
        self.last_tokens.partition_point(|last| *last < token)
    }

    /// The shard that holds `token`.
    pub fn shard_of(&self, token: Token) -> u16 {
        self.shards[self.tablet_of(token)]
    }

    /// The range of tablet `index`: after the first token, up to and including the second.
    pub fn range(&self, index: usize) -> (Token, Token) {
        let start = if index == 0 { Token::MIN } else { self.last_tokens[index - 1] };
        (start, self.last_tokens[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_static_map_is_the_formula_of_the_drivers(token: i64, shards in 1u16..200) {
            let map = TabletMap::static_map(shards);
            let expected = Token(token).slot_of(shards as u32);
            prop_assert_eq!(map.shard_of(Token(token)) as u32, expected);
            let tablet = map.tablet_of(Token(token));
            let (after, last) = map.range(tablet);
            prop_assert!(token <= last.0 && (after.0 < token || token == i64::MIN));
        }
    }
}
