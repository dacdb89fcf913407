//! The Bloom filter of partition keys (storage-format reference, section 7).
//!
//! Invariants
//!  - *no-false-negative*: what was added is found.
//!  - *bounded*: at most [`WORDS_MAX`] words and [`HASHES_MAX`] hashes.

mod keys;

pub use keys::KeyHashes;

use crate::store::version::FilterForm;
use stdx::{Cursor, Damaged, Put};

/// Bits per key that are tried, least and most.
const BITS_PER_KEY: std::ops::RangeInclusive<u32> = 2..=20;
/// Bits beyond what the keys need, before rounding up to a word.
const EXTRA_BITS: u64 = 20;
/// The most words of a filter: 2^31 bits, Cassandra's limit for one of these.
const WORDS_MAX: u64 = 1 << 25;
/// A damaged header may not ask for more.
const HASHES_MAX: u32 = 64;

const _: () = assert!(*BITS_PER_KEY.end() < HASHES_MAX);

/// A Bloom filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    hash_count: u32,
    words: Vec<u64>,
}

impl Filter {
    /// An empty filter for `keys` keys with at most `fp_chance` false positives. `None` where no
    /// filter is wanted (a chance of 1).
    pub fn new(keys: u64, fp_chance: f64) -> Option<Filter> {
        let (hash_count, words) = Filter::layout(keys, fp_chance)?;
        Some(Filter { hash_count, words: vec![0; words] })
    }

    /// The number of hashes and of words of such a filter.
    fn layout(keys: u64, fp_chance: f64) -> Option<(u32, usize)> {
        if fp_chance >= 1.0 {
            return None;
        }
        let (bits_per_key, hash_count) = spec(fp_chance);
        let bits = keys.saturating_mul(bits_per_key as u64).saturating_add(EXTRA_BITS);
        let words = bits.div_ceil(64).min(WORDS_MAX);
        debug_assert!(0 < words && 0 < hash_count && hash_count <= HASHES_MAX, "bounded: {words}");
        Some((hash_count, words as usize))
    }

    /// Adds a key by its murmur3 hash.
    pub fn add(&mut self, hash: (u64, u64)) {
        let bits = self.words.len() as u64 * 64;
        for bit in indices(hash, self.hash_count, bits) {
            self.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        debug_assert!(self.may_contain(hash), "no-false-negative: {hash:?}");
    }

    /// Whether a key of that murmur3 hash may have been added.
    pub fn may_contain(&self, hash: (u64, u64)) -> bool {
        let bits = self.words.len() as u64 * 64;
        indices(hash, self.hash_count, bits)
            .all(|bit| self.words[(bit / 64) as usize] >> (bit % 64) & 1 != 0)
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Appends the serialized form.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.put_head(out);
        put_words(self.words(), out);
    }

    /// Appends what stands before the words.
    pub fn put_head(&self, out: &mut Vec<u8>) {
        assert!(self.words.len() as u64 <= WORDS_MAX, "bounded: {} words", self.words.len());
        assert!((1..=HASHES_MAX).contains(&self.hash_count), "bounded: {}", self.hash_count);
        out.reserve(8 + self.words.len() * 8);
        out.put_u32(self.hash_count);
        out.put_u32(self.words.len() as u32);
    }

    /// The bits.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Reads the serialized form.
    pub fn parse(bytes: &[u8], form: FilterForm) -> Result<Filter, Damaged> {
        let (mut filter, words) = Filter::begin(bytes)?;
        filter.extend(words, form);
        Ok(filter)
    }

    /// Reads what stands before the words; these are to be added, in steps.
    pub fn begin(bytes: &[u8]) -> Result<(Filter, &[[u8; 8]]), Damaged> {
        let mut cursor = Cursor::new(bytes);
        let hash_count = cursor.u32("filter header cut short")?;
        if hash_count == 0 || HASHES_MAX < hash_count {
            return Err(cursor.damaged("impossible number of hashes in a filter"));
        }
        let count = cursor.u32("filter header cut short")? as usize;
        let words = cursor.rest().as_chunks::<8>().0;
        if count == 0 || words.len() != count || !cursor.remaining().is_multiple_of(8) {
            return Err(cursor.damaged("filter of another length than it says"));
        }
        Ok((Filter { hash_count, words: Vec::with_capacity(count) }, words))
    }

    /// Adds words as they stand in a file.
    pub fn extend(&mut self, words: &[[u8; 8]], form: FilterForm) {
        let word = match form {
            FilterForm::BigEndian => u64::from_be_bytes,
            FilterForm::LittleEndian => u64::from_le_bytes,
        };
        debug_assert!(self.words.len() + words.len() <= self.words.capacity(), "bounded");
        self.words.extend(words.iter().map(|bytes| word(*bytes)));
    }
}

/// Appends words of a filter.
pub fn put_words(words: &[u64], out: &mut Vec<u8>) {
    words.iter().for_each(|word| out.put_u64(*word));
}

/// The bits of a key: `|base + i * increment mod bits|` in wrapping signed arithmetic.
fn indices(hash: (u64, u64), count: u32, bits: u64) -> impl Iterator<Item = u64> {
    debug_assert!(0 < bits && bits <= i64::MAX as u64, "bounded: {bits} bits");
    let (increment, base) = (hash.0 as i64, hash.1 as i64);
    (0..count as i64).map(move |i| {
        let place = base.wrapping_add(i.wrapping_mul(increment));
        (place % bits as i64).unsigned_abs()
    })
}

/// Bits per key and number of hashes for a chance of false positives: the fewest bits that
/// reach it with the best number of hashes, then the fewest hashes that still do.
fn spec(fp_chance: f64) -> (u32, u32) {
    let bits = BITS_PER_KEY.clone().find(|bits| chance(*bits, best_hashes(*bits)) <= fp_chance);
    let Some(bits) = bits else {
        let most = *BITS_PER_KEY.end();
        return (most, best_hashes(most));
    };
    let mut hashes = best_hashes(bits);
    while 1 < hashes && chance(bits, hashes - 1) <= fp_chance {
        hashes -= 1;
    }
    (bits, hashes)
}

fn chance(bits_per_key: u32, hashes: u32) -> f64 {
    (1.0 - (-(hashes as f64) / bits_per_key as f64).exp()).powi(hashes as i32)
}

fn best_hashes(bits_per_key: u32) -> u32 {
    ((bits_per_key as f64 * std::f64::consts::LN_2).round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_reference() {
        assert_eq!(spec(0.01), (10, 5));
        assert_eq!(spec(0.1), (5, 3));
        assert_eq!(spec(0.0), (20, 14));
        assert!(Filter::new(1, 1.0).is_none());
    }

    #[test]
    fn bits_of_the_reference() {
        let hash = (0x15d6_7461_d204_4fb3, 0xb577_9866_b4e3_a989);
        let bits: Vec<u64> = indices(hash, 5, 128).collect();
        assert_eq!(bits, [119, 68, 17, 94, 85]);
    }

    #[test]
    fn keys_are_found_and_few_others_are() {
        let mut filter = Filter::new(1000, 0.01).unwrap();
        let mut prng = stdx::Prng::from_seed(1);
        let hashes: Vec<_> = (0..1000).map(|_| (prng.next_u64(), prng.next_u64())).collect();
        hashes.iter().for_each(|hash| filter.add(*hash));
        assert!(hashes.iter().all(|hash| filter.may_contain(*hash)));
        let others = (0..10_000).filter(|_| filter.may_contain((prng.next_u64(), prng.next_u64())));
        assert!(others.count() < 200);
        let mut out = Vec::new();
        filter.put(&mut out);
        assert_eq!(Filter::parse(&out, FilterForm::BigEndian).unwrap(), filter);
        for cut in 0..40 {
            assert!(Filter::parse(&out[..cut], FilterForm::BigEndian).is_err());
        }
        out[8..].as_chunks_mut::<8>().0.iter_mut().for_each(|word| word.reverse());
        assert_eq!(Filter::parse(&out, FilterForm::LittleEndian).unwrap(), filter);
    }
}
