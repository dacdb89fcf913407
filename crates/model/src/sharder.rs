//! Which shard of a node holds a token of a ring: a table of a keyspace without tablets.
//!
//! The ring is divided into `2^ignored_bits` equal sections, each of which is divided among all
//! shards in their order: `shard = (((token + 2^63) << ignored_bits) * shards) >> 64`. So drivers
//! compute it too (`biased-token-round-robin`). A *piece* is what one shard holds of one section,
//! a contiguous range of tokens; pieces are numbered in ring order.
//!
//! Invariants
//!  - *pieces-cover*: the pieces touch, do not overlap, and hold exactly the tokens that
//!    `shard_of` maps to their shard.

use crate::token::Token;
use std::fmt;

/// How the tokens of a ring are dealt to the shards of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharder {
    shards: u16,
    ignored_bits: u8,
}

impl Sharder {
    /// The topmost bits of a token that have no part in the choice of a shard. Not 0, which some
    /// drivers take for a node without shards; and with so many sections each part of the ring
    /// that a node of a cluster has is shared evenly by its shards.
    pub const IGNORED_BITS: u8 = 12;

    /// Panics for no shards, and for more ignored bits than leave a token to each shard.
    pub const fn new(shards: u16, ignored_bits: u8) -> Sharder {
        assert!(0 < shards && ignored_bits <= 32, "a ring without shards or pieces");
        Sharder { shards, ignored_bits }
    }

    /// That of rings of a node with so many shards.
    pub const fn of_node(shards: u16) -> Sharder {
        Sharder::new(shards, Sharder::IGNORED_BITS)
    }

    /// How many shards there are.
    pub fn shards(self) -> u16 {
        self.shards
    }

    /// The shard that holds `token`.
    #[inline]
    pub fn shard_of(self, token: Token) -> u16 {
        let kept = token.biased() << self.ignored_bits;
        ((u128::from(kept) * u128::from(self.shards)) >> 64) as u16
    }

    /// The number of pieces.
    pub fn pieces(self) -> u64 {
        u64::from(self.shards) << self.ignored_bits
    }

    /// The piece that holds `token`.
    pub fn piece_of(self, token: Token) -> u64 {
        let section = match self.ignored_bits {
            0 => 0,
            bits => token.biased() >> (64 - bits),
        };
        section * u64::from(self.shards) + u64::from(self.shard_of(token))
    }

    /// Which shard holds a piece.
    pub fn shard_of_piece(self, piece: u64) -> u16 {
        (piece % u64::from(self.shards)) as u16
    }

    /// The range of a piece: after the first token, up to and including the second. The first
    /// piece starts at [`Token::MIN`].
    pub fn range(self, piece: u64) -> (Token, Token) {
        assert!(piece < self.pieces(), "piece {piece} of {}", self.pieces());
        let start = match piece {
            0 => Token::MIN,
            _ => Token::from_biased(self.first_of(piece) - 1),
        };
        let end = match piece + 1 == self.pieces() {
            true => Token::MAX,
            false => Token::from_biased(self.first_of(piece + 1) - 1),
        };
        (start, end)
    }

    /// The first biased token of a piece.
    fn first_of(self, piece: u64) -> u64 {
        let (section, slot) = (piece / u64::from(self.shards), piece % u64::from(self.shards));
        let scaled = (u128::from(slot) << 64).div_ceil(u128::from(self.shards));
        let within = scaled.div_ceil(1 << self.ignored_bits) as u64;
        match self.ignored_bits {
            0 => within,
            bits => (section << (64 - bits)) + within,
        }
    }
}

/// One shard's part of a ring. Its printed form is that of SSTables that hold nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShare {
    /// How the ring is dealt.
    pub sharder: Sharder,
    /// Whose part.
    pub shard: u16,
}

impl RingShare {
    /// Whether a token is of this part.
    pub fn holds(self, token: Token) -> bool {
        self.sharder.shard_of(token) == self.shard
    }

    /// Reads the printed form.
    pub fn parse(text: &str) -> Option<RingShare> {
        let (shard, rest) = text.split_once(" of ")?;
        let (shards, bits) = rest.strip_suffix(" ignored bits")?.split_once(", ")?;
        let (shard, shards, bits) = (shard.parse().ok()?, shards.parse().ok()?, bits.parse().ok()?);
        let valid = shard < shards && bits <= 32;
        valid.then(|| RingShare { sharder: Sharder::new(shards, bits), shard })
    }
}

impl fmt::Display for RingShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sharder { shards, ignored_bits } = self.sharder;
        write!(f, "{} of {shards}, {ignored_bits} ignored bits", self.shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the reference has it: the sum, the shift within 64 bits, and the product in 128.
    fn naive(token: i64, shards: u16, ignored_bits: u8) -> u16 {
        let biased = (i128::from(token) + (1 << 63)) as u128;
        let kept = (biased << ignored_bits) % (1 << 64);
        (kept * u128::from(shards) / (1 << 64)) as u16
    }

    fn near_an_edge() -> impl Strategy<Value = i64> {
        (0i64..4096, -2i64..3)
            .prop_map(|(section, by)| i64::MIN.wrapping_add(section << 52).wrapping_add(by))
    }

    proptest! {
        #[test]
        fn shards_are_those_of_the_formula(
            token in prop_oneof![any::<i64>(), near_an_edge()],
            shards in 1u16..300,
            bits in 0u8..=16,
        ) {
            let sharder = Sharder::new(shards, bits);
            prop_assert_eq!(sharder.shard_of(Token(token)), naive(token, shards, bits));
        }

        #[test]
        fn pieces_cover(
            token in prop_oneof![any::<i64>(), near_an_edge()],
            shards in 1u16..300,
            bits in 0u8..=16,
        ) {
            let sharder = Sharder::new(shards, bits);
            let piece = sharder.piece_of(Token(token));
            prop_assert_eq!(sharder.shard_of_piece(piece), sharder.shard_of(Token(token)));
            let (after, last) = sharder.range(piece);
            prop_assert!(token <= last.0 && (after.0 < token || token == i64::MIN));
            prop_assert_eq!(sharder.piece_of(last), piece);
            if piece + 1 < sharder.pieces() {
                prop_assert_eq!(sharder.range(piece + 1).0, last);
                prop_assert_eq!(sharder.piece_of(Token(last.0 + 1)), piece + 1);
            } else {
                prop_assert_eq!(last, Token::MAX);
            }
        }

        #[test]
        fn a_share_is_read_as_it_was_printed(shards in 1u16..300, at: u16, bits in 0u8..=32) {
            let share = RingShare { sharder: Sharder::new(shards, bits), shard: at % shards };
            prop_assert_eq!(RingShare::parse(&share.to_string()), Some(share));
        }
    }

    #[test]
    fn what_is_no_share_is_not_read() {
        for text in ["", "0 of 2", "2 of 2, 12 ignored bits", "0 of 2, 33 ignored bits", "x"] {
            assert_eq!(RingShare::parse(text), None, "{text}");
        }
    }

    #[test]
    fn vectors() {
        let check = |token, shards, shard| {
            assert_eq!(Sharder::of_node(shards).shard_of(Token(token)), shard, "{token}");
        };
        check(i64::MIN, 2, 0);
        check(i64::MAX, 2, 1);
        check(0, 2, 0);
        check(i64::MIN + (1 << 51), 2, 1);
        check(i64::MIN + (1 << 52), 2, 0);
        check(-1, 3, 2);
    }
}
