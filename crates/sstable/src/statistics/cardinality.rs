//! How many partition keys a set of files has together: HyperLogLog++ in the serialized form
//! that Cassandra reads (precision 13, sparse precision 25; hash: murmur2, 64 bits).

use stdx::Put;

const PRECISION: u32 = 13;
const SPARSE_PRECISION: u32 = 25;
const REGISTERS: usize = 1 << PRECISION;
/// Registers of five bits in a 32-bit word.
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_BITS: usize = 5;
const RANK_MAX: u32 = (1 << REGISTER_BITS) - 1;
const _: () = assert!(REGISTER_BITS * REGISTERS_PER_WORD <= u32::BITS as usize);
const _: () = assert!(PRECISION < SPARSE_PRECISION && SPARSE_PRECISION <= u32::BITS);
/// The version of the serialized form, negated.
const VERSION: i32 = -2;

/// A HyperLogLog++ sketch in its dense form.
#[derive(Clone, Debug)]
pub struct Cardinality {
    registers: Vec<u8>,
}

impl Cardinality {
    /// An empty sketch.
    pub fn new() -> Cardinality {
        Cardinality { registers: vec![0; REGISTERS] }
    }

    /// Adds a partition key.
    pub fn add(&mut self, key: &[u8]) {
        self.add_hash(murmur2(key));
    }

    fn add_hash(&mut self, hash: u64) {
        let index = (hash >> (64 - PRECISION)) as usize;
        let rank = ((hash << PRECISION) | (1 << (PRECISION - 1))).leading_zeros() + 1;
        // Of one hash in 2^31 the rank has more bits than a register.
        let rank = rank.min(RANK_MAX);
        let register = &mut self.registers[index];
        *register = (*register).max(rank as u8);
    }

    /// The serialized form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = REGISTERS.div_ceil(REGISTERS_PER_WORD);
        let mut out = Vec::with_capacity(words * 4 + 12);
        out.put_i32(VERSION);
        put_leb128(PRECISION, &mut out);
        put_leb128(SPARSE_PRECISION, &mut out);
        put_leb128(0, &mut out);
        put_leb128(words as u32 * 4, &mut out);
        for group in self.registers.chunks(REGISTERS_PER_WORD) {
            let fit = group.iter().all(|rank| u32::from(*rank) <= RANK_MAX);
            assert!(fit, "a rank that spills into the next register: {group:?}");
            let bits = |(index, rank): (usize, &u8)| (*rank as u32) << (REGISTER_BITS * index);
            out.put_u32(group.iter().enumerate().map(bits).fold(0, |word, bits| word | bits));
        }
        debug_assert!(out.len() <= words * 4 + 12, "{} bytes of registers", out.len());
        out
    }
}

impl Default for Cardinality {
    fn default() -> Self {
        Cardinality::new()
    }
}

fn put_leb128(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// MurmurHash2, 64-bit variant A, seed 0.
fn murmur2(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = (key.len() as u64).wrapping_mul(M);
    let (blocks, tail) = key.as_chunks::<8>();
    for block in blocks {
        let mut k = u64::from_le_bytes(*block).wrapping_mul(M);
        k = (k ^ (k >> 47)).wrapping_mul(M);
        hash = (hash ^ k).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let last = tail.iter().rev().fold(0u64, |word, byte| (word << 8) | *byte as u64);
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 47)).wrapping_mul(M);
    hash ^ (hash >> 47)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_has_its_length_and_an_estimate_holds() {
        let mut sketch = Cardinality::new();
        (0..10_000u32).for_each(|key| sketch.add(&key.to_be_bytes()));
        let bytes = sketch.to_bytes();
        assert_eq!(bytes[..7], [0xff, 0xff, 0xff, 0xfe, 13, 25, 0]);
        assert_eq!(bytes.len(), 4 + 3 + 2 + 1366 * 4);
        let sum: f64 = sketch.registers.iter().map(|rank| 2f64.powi(-(*rank as i32))).sum();
        let m = REGISTERS as f64;
        let raw = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let zeros = sketch.registers.iter().filter(|rank| **rank == 0).count() as f64;
        let linear = m * (m / zeros).ln();
        let estimate = if raw < 2.5 * m { linear } else { raw };
        assert!((9_500.0..10_500.0).contains(&estimate), "{estimate}");
    }

    #[test]
    fn a_rank_stays_in_its_register() {
        let mut sketch = Cardinality::new();
        sketch.add_hash(0);
        let bytes = sketch.to_bytes();
        assert_eq!(bytes[9..13], RANK_MAX.to_be_bytes(), "one register alone");
        assert!(bytes[13..].iter().all(|byte| *byte == 0));
    }
}
