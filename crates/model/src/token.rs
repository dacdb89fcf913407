//! Tokens: Cassandra's murmur3 partitioner and the division of its ring.
//!
//! Invariants
//!  - *never-min*: no key has the token `i64::MIN`; it stands before every key, so a range that
//!    starts there (exclusively) holds the whole ring.
//!  - *slots-cover*: the ranges of `slot_range(0..count)` touch, do not overlap and hold exactly
//!    the tokens that `slot_of` maps to them.

/// A position on the ring. `i64::MIN` is before every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// Before every token that a key can have.
    pub const MIN: Token = Token(i64::MIN);
    /// The greatest token.
    pub const MAX: Token = Token(i64::MAX);

    /// The token of a partition key's bytes (storage-format reference, section 3).
    #[inline]
    pub fn of(key: &[u8]) -> Token {
        Token::of_hash(murmur3(key))
    }

    /// The token of a key with that [`murmur3`] hash.
    pub fn of_hash((first, _): (u64, u64)) -> Token {
        match first as i64 {
            i64::MIN => Token::MAX,
            token => Token(token),
        }
    }

    /// The distance from the start of the ring.
    pub const fn biased(self) -> u64 {
        (self.0 as u64) ^ (1 << 63)
    }

    /// The inverse of [`Token::biased`].
    pub const fn from_biased(biased: u64) -> Token {
        Token((biased ^ (1 << 63)) as i64)
    }

    /// Which of `count` equal contiguous ranges holds this token: `((t + 2^63) * count) >> 64`.
    pub fn slot_of(self, count: u32) -> u32 {
        ((self.biased() as u128 * count as u128) >> 64) as u32
    }

    /// The token halfway of the range from `self` (exclusive) to `end` (inclusive), going around
    /// the ring when `end <= self`. Never outside of the range, and `end` only when the range
    /// holds one token.
    pub fn midpoint(self, end: Token) -> Token {
        let length = end.biased().wrapping_sub(self.biased());
        let half = match length {
            0 => 1 << 63,
            1 => 1,
            _ => length / 2,
        };
        Token::from_biased(self.biased().wrapping_add(half))
    }
}

/// The tokens that [`Token::slot_of`] maps to slot `index` of `count`: from the first token
/// (exclusive) to the second (inclusive). Slot 0 starts at [`Token::MIN`].
pub fn slot_range(index: u32, count: u32) -> (Token, Token) {
    assert!(index < count, "slot {index} of {count}");
    let start = match index {
        0 => Token::MIN,
        _ => Token::from_biased(slot_first(index, count) - 1),
    };
    let end = match index + 1 {
        next if next == count => Token::MAX,
        next => Token::from_biased(slot_first(next, count) - 1),
    };
    (start, end)
}

/// The first biased token of slot `index`: `index * 2^64 / count`, rounded up.
fn slot_first(index: u32, count: u32) -> u64 {
    let scaled = ((index as u128) << 64).div_ceil(count as u128);
    u64::try_from(scaled).expect("index < count, so the quotient is below 2^64")
}

/// Cassandra's MurmurHash3 x64_128 with seed 0: tail bytes are sign-extended.
pub fn murmur3(key: &[u8]) -> (u64, u64) {
    let mut h1 = 0u64;
    let mut h2 = 0u64;
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let (low, high) = halves(block);
        h1 ^= mix_first(low);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_second(high);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    if 8 < tail.len() {
        h2 ^= mix_second(signed_tail(&tail[8..]));
    }
    if !tail.is_empty() {
        h1 ^= mix_first(signed_tail(&tail[..tail.len().min(8)]));
    }
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = avalanche(h1);
    h2 = avalanche(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2)
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*block);
    (whole as u64, (whole >> 64) as u64)
}

fn mix_first(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_second(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

/// Up to eight bytes, little-endian, each one sign-extended before it is mixed in: what signed
/// byte arithmetic makes of bytes from 0x80 on. So a byte is inverted once for each of those that
/// stand before it.
fn signed_tail(bytes: &[u8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = word(bytes);
    let signs = (word >> 7) & ONES;
    // In each byte, how many before it have a sign: seven at most, so nothing is carried.
    let odd = signs.wrapping_mul(ONES << 8) & ONES;
    word ^ (odd * 0xff)
}

/// Up to eight bytes, little-endian.
fn word(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            // Where the two overlap they are the same.
            let last = u64::from(u32::from_le_bytes(*last)) << (8 * (bytes.len() - 4));
            u64::from(u32::from_le_bytes(*first)) | last
        }
        _ => bytes.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)),
    }
}

fn avalanche(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(key: &[u8], h1: u64, h2: u64, token: i64) {
        assert_eq!(murmur3(key), (h1, h2), "{key:02x?}");
        assert_eq!(Token::of(key), Token(token), "{key:02x?}");
    }

    #[test]
    fn vectors_of_the_reference() {
        check(b"a", 0x85555565f6597889, 0xe6b53a48510e895a, -8839064797231613815);
        check(b"key1", 0x15d67461d2044fb3, 0xb5779866b4e3a989, 1573573083296714675);
        check(&[0; 4], 0xcfa0f7ddd84c76bc, 0x589623161cf526f1, -3485513579396041028);
        let one = 1u64.to_be_bytes();
        check(&one, 0x5752fae69d1653da, 0x80d26b9fc2bbad56, 6292367497774912474);
        let sixteen: Vec<u8> = (0..16).collect();
        check(&sixteen, 0x444924b591903f30, 0xab906456762fe845, 4920504430128807728);
        check(&[0x80; 17], 0x9806ece43f565cbc, 0x6f63fe54ba904f61, -7492040465024918340);
    }

    #[test]
    fn midpoints_lie_within() {
        assert_eq!(Token(0).midpoint(Token(10)), Token(5));
        assert_eq!(Token(0).midpoint(Token(1)), Token(1));
        assert_eq!(Token::MIN.midpoint(Token::MAX), Token(-1));
        assert_eq!(Token(i64::MAX - 1).midpoint(Token(i64::MIN + 1)), Token::MAX);
        assert_eq!(Token(5).midpoint(Token(5)), Token(i64::MIN + 5));
    }

    proptest! {
        #[test]
        fn a_tail_is_its_bytes_one_by_one(bytes in proptest::collection::vec(any::<u8>(), 0..9)) {
            let extend = |(at, byte): (usize, &u8)| ((*byte as i8 as i64) << (8 * at)) as u64;
            let one_by_one = bytes.iter().enumerate().map(extend).fold(0, |k, part| k ^ part);
            prop_assert_eq!(signed_tail(&bytes), one_by_one);
        }

        #[test]
        fn slots_cover(count in 1u32..5000, token: i64) {
            let slot = Token(token).slot_of(count);
            let (start, end) = slot_range(slot, count);
            prop_assert!(Token(token) <= end);
            prop_assert!(start < Token(token) || (slot == 0 && token == i64::MIN));
            if slot + 1 < count {
                prop_assert_eq!(slot_range(slot + 1, count).0, end);
                prop_assert_eq!(Token(end.0 + 1).slot_of(count), slot + 1);
            } else {
                prop_assert_eq!(end, Token::MAX);
            }
        }

        #[test]
        fn a_midpoint_is_never_outside(a: i64, b: i64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assume!(low < high);
            let middle = Token(low).midpoint(Token(high)).0;
            prop_assert!(low < middle && middle <= high);
        }
    }
}
