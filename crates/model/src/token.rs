//! Tokens: Cassandra's murmur3 partitioner and the division of its ring.

/// A position on the ring. `i64::MIN` is before every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// Before every token that a key can have.
    pub const MIN: Token = Token(i64::MIN);
    /// The greatest token.
    pub const MAX: Token = Token(i64::MAX);

    /// The token of a partition key's bytes (storage-format reference, section 3).
    pub fn of(key: &[u8]) -> Token {
        let _ = key;
        todo!()
    }

    /// Which of `count` equal contiguous ranges holds this token: `((t + 2^63) * count) >> 64`.
    pub fn slot_of(self, count: u32) -> u32 {
        let biased = (self.0 as u64) ^ (1 << 63);
        ((biased as u128 * count as u128) >> 64) as u32
    }
}

/// Cassandra's MurmurHash3 x64_128 with seed 0: tail bytes are sign-extended.
pub fn murmur3(key: &[u8]) -> (u64, u64) {
    let _ = key;
    todo!()
}
