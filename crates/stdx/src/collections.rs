//! Hash maps whose iteration order depends on nothing but their content's history: the seed is
//! fixed, so a simulated run replays.

use std::hash::{BuildHasher, Hash};

/// A hash map with a fixed seed.
pub type HashMap<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;
/// A hash set with a fixed seed.
pub type HashSet<K> = hashbrown::HashSet<K, foldhash::fast::FixedState>;

/// A 64-bit hash of `value`, equal in every process.
pub fn hash_one<T: Hash>(value: T) -> u64 {
    foldhash::fast::FixedState::default().hash_one(value)
}
