//! Analysed statements, bounded by bytes; the least recently used ones go first.
//!
//! Invariants
//!  - *bounded*: the sum of the entries' sizes is at most `bytes_max`, or there is one entry.

use std::hash::Hash;
use stdx::HashMap;

/// A bounded map.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    bytes: usize,
    bytes_max: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    used_at: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    pub(crate) fn new(bytes_max: usize) -> Cache<K, V> {
        Cache { entries: HashMap::default(), bytes: 0, bytes_max, clock: 0 }
    }

    /// The value of `key`, which counts as used.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        Q: Hash + Eq + ?Sized,
        K: std::borrow::Borrow<Q>,
    {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used_at = self.clock;
        Some(entry.value.clone())
    }

    /// Keeps a value; others may have to go.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.clock += 1;
        let entry = Entry { value, bytes, used_at: self.clock };
        if let Some(before) = self.entries.insert(key, entry) {
            self.bytes -= before.bytes;
        }
        self.bytes += bytes;
        if self.bytes_max < self.bytes {
            self.evict();
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes the least recently used until an eighth is free: seldom, so sorting is cheap.
    fn evict(&mut self) {
        let mut by_age: Vec<(u64, K)> =
            self.entries.iter().map(|(key, entry)| (entry.used_at, key.clone())).collect();
        by_age.sort_by_key(|(used_at, _)| *used_at);
        by_age.pop(); // The newest stays.
        for (_, key) in by_age {
            if self.bytes <= self.bytes_max - self.bytes_max / 8 {
                return;
            }
            if let Some(entry) = self.entries.remove(&key) {
                self.bytes -= entry.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_go_first() {
        let mut cache = Cache::new(80);
        (0..8).for_each(|key: u32| cache.insert(key, key, 10));
        assert_eq!(cache.get(&0), Some(0));
        cache.insert(8, 8, 10);
        assert_eq!((cache.len(), cache.get(&0), cache.get(&1)), (7, Some(0), None));
        cache.insert(9, 9, 1000);
        assert_eq!((cache.len(), cache.get(&9)), (1, Some(9)));
    }
}
