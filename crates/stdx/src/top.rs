//! What is frequent in a long sequence, in little memory: the Space-Saving algorithm of Metwally,
//! Agrawal and El Abbadi; and about how many different things there were, by HyperLogLog.
//!
//! Invariants
//!  - *bounded*: a [`Top`] holds no more than its capacity of keys, a [`Distinct`] 1 KiB.
//!  - *never-less*: `count - error <= how often it came <= count` for each key that is held; one
//!    that came more often than `total / capacity` is held.

use crate::{HashMap, hash_one};
use std::collections::BTreeSet;
use std::hash::Hash;

/// The frequent keys of a sequence.
#[derive(Clone, Debug)]
pub struct Top<K> {
    capacity: usize,
    total: u64,
    slots: Vec<Counted<K>>,
    /// Where each key is in `slots`.
    places: HashMap<K, usize>,
    /// Counts with their slots, so that the least is found at once.
    order: BTreeSet<(u64, usize)>,
}

/// A key with how often it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<K> {
    pub key: K,
    /// So often at most.
    pub count: u64,
    /// So many of `count` may have been others.
    pub error: u64,
}

impl<K: Clone + Eq + Hash> Top<K> {
    /// Holds so many keys; one at least.
    pub fn new(capacity: usize) -> Top<K> {
        let (places, order) = (HashMap::default(), BTreeSet::new());
        Top { capacity: capacity.max(1), total: 0, slots: Vec::new(), places, order }
    }

    /// The key came once more.
    pub fn count(&mut self, key: K) {
        self.total += 1;
        if let Some(&slot) = self.places.get(&key) {
            let counted = &mut self.slots[slot];
            self.order.remove(&(counted.count, slot));
            counted.count += 1;
            self.order.insert((counted.count, slot));
            return;
        }
        if self.slots.len() < self.capacity {
            let slot = self.slots.len();
            self.slots.push(Counted { key: key.clone(), count: 1, error: 0 });
            self.places.insert(key, slot);
            self.order.insert((1, slot));
            return;
        }
        let Some((least, slot)) = self.order.pop_first() else { return };
        let counted = Counted { key: key.clone(), count: least + 1, error: least };
        let gone = std::mem::replace(&mut self.slots[slot], counted);
        self.places.remove(&gone.key);
        self.places.insert(key, slot);
        self.order.insert((least + 1, slot));
        assert!(self.places.len() == self.slots.len(), "a key of two slots (*bounded*)");
    }

    /// How many keys came, each as often as it did.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Those that came most often first.
    pub fn into_sorted(mut self) -> Vec<Counted<K>> {
        self.slots.sort_by_key(|one| (std::cmp::Reverse(one.count), one.error));
        self.slots
    }
}

/// Registers of a [`Distinct`].
const REGISTERS: usize = 1 << 10;

/// About how many different keys came: within a tenth, nearly always.
#[derive(Clone, Debug)]
pub struct Distinct {
    /// Of each part of the hashes the longest run of zeros, plus one.
    registers: Box<[u8; REGISTERS]>,
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct { registers: Box::new([0; REGISTERS]) }
    }
}

impl Distinct {
    /// The key came.
    pub fn count<K: Hash>(&mut self, key: K) {
        let hash = mixed(hash_one(key));
        let register = &mut self.registers[hash as usize % REGISTERS];
        let rest = hash / REGISTERS as u64;
        // 54 bits are left.
        *register = (*register).max((rest.leading_zeros() - 10 + 1) as u8);
    }

    /// How many there were, about.
    pub fn estimate(&self) -> u64 {
        let registers = REGISTERS as f64;
        let sum: f64 = self.registers.iter().map(|&run| (-f64::from(run)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        let empty = self.registers.iter().filter(|run| **run == 0).count();
        // Where many registers are empty, their number says more.
        let estimate = match empty {
            1.. if raw <= 2.5 * registers => registers * (registers / empty as f64).ln(),
            _ => raw,
        };
        estimate.round() as u64
    }
}

/// All bits of a hash in each of the bits: a fast hash may leave its low ones poor.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;

    fn of(capacity: usize, keys: &str) -> String {
        let mut top = Top::new(capacity);
        keys.chars().for_each(|key| top.count(key));
        let shown = top.into_sorted().into_iter();
        let shown = shown.map(|one| format!("{}{}-{}", one.key, one.count, one.error));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_frequent_is_held() {
        let check = |capacity, keys, expected| assert_eq!(of(capacity, keys), expected, "{keys}");
        check(3, "", "");
        check(3, "abacab", "a3-0 b2-0 c1-0");
        // The least makes room, and its count is what the new one may not have had.
        check(2, "aabc", "a2-0 c2-1");
        check(1, "abc", "c3-2");
        check(0, "aa", "a2-0");
    }

    #[test]
    fn bounds_hold_for_any_sequence() {
        for seed in 0..20 {
            let mut random = Prng::from_seed(seed);
            let (mut top, mut exact) = (Top::new(32), HashMap::default());
            for _ in 0..5_000 {
                // Small numbers come more often.
                let bound = 1 + random.below(400);
                let key = random.below(bound);
                top.count(key);
                *exact.entry(key).or_insert(0_u64) += 1;
            }
            let total = top.total();
            assert_eq!(total, 5_000);
            let held = top.into_sorted();
            assert!(held.len() <= 32, "bounded");
            assert!(held.is_sorted_by(|a, b| b.count <= a.count));
            for one in &held {
                let came = exact[&one.key];
                assert!(one.count - one.error <= came && came <= one.count, "{one:?}: {came}");
            }
            let frequent = exact.iter().filter(|(_, came)| total / 32 < **came);
            for (key, came) in frequent {
                assert!(held.iter().any(|one| one.key == *key), "{key}, {came} times");
            }
        }
    }

    #[test]
    fn different_keys_are_estimated() {
        for count in [0_u64, 1, 10, 1_000, 5_000, 100_000] {
            let mut distinct = Distinct::default();
            for key in (0..count).chain(0..count) {
                distinct.count(key);
            }
            let (found, wanted) = (distinct.estimate() as f64, count as f64);
            assert!((found - wanted).abs() <= wanted * 0.1, "{count}: {found}");
        }
    }
}
