//! Analysed statements, bounded by bytes; the least recently used ones are evicted first.
//!
//! Invariants
//!  - *bounded*: the sum of the entries' sizes is at most `bytes_max`, or there is one entry.
//!  - *kept-when-repeated*: a text that is executed unprepared is kept from its second time on,
//!    so that texts with values in them, each of which comes once, evict nothing.

use model::Uuid;
use plan::{Plan, Statement};
use std::hash::Hash;
use std::rc::Rc;
use stdx::HashMap;

/// What a cache holds, and what it did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Statements in it.
    pub entries: u64,
    /// What they take, about.
    pub bytes: u64,
    /// What they may take.
    pub bytes_max: u64,
    /// Look-ups that found what they looked for.
    pub hits: u64,
    /// And those that did not.
    pub misses: u64,
    /// Statements that had to go for others.
    pub evictions: u64,
}

/// A bounded map.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: HashMap<K, Entry<V>>,
    bytes: usize,
    bytes_max: usize,
    clock: u64,
    stats: CacheStats,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    used_at: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    pub(crate) fn new(bytes_max: usize) -> Cache<K, V> {
        let stats = CacheStats { bytes_max: bytes_max as u64, ..CacheStats::default() };
        Cache { entries: HashMap::default(), bytes: 0, bytes_max, clock: 0, stats }
    }

    /// The value of `key`, which counts as used.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        Q: Hash + Eq + ?Sized,
        K: std::borrow::Borrow<Q>,
    {
        self.clock += 1;
        let Some(entry) = self.entries.get_mut(key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        entry.used_at = self.clock;
        Some(entry.value.clone())
    }

    /// The value of `key`, which counts neither as used nor as asked for.
    pub(crate) fn peek<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Eq + ?Sized,
        K: std::borrow::Borrow<Q>,
    {
        self.entries.get(key).map(|entry| entry.value.clone())
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

    /// What it holds and did.
    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats { entries: self.entries.len() as u64, bytes: self.bytes as u64, ..self.stats }
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
                self.stats.evictions += 1;
            }
        }
    }
}

/// Statements that were executed by their text more than once.
#[derive(Debug)]
pub(crate) struct Unprepared {
    cache: Cache<u64, Rc<Statement>>,
    /// Of texts that came once: a part of the hash, at the place that another part says.
    seen: Box<[u32]>,
    /// The changes of options after which the statements were analysed.
    changes: u64,
}

impl Unprepared {
    /// Texts that are remembered after they came once.
    const SEEN: usize = 4096;
    /// Longer texts are not kept.
    const TEXT_BYTES_MAX: usize = 16 << 10;

    pub(crate) fn new(bytes_max: usize) -> Unprepared {
        let seen = vec![0; Unprepared::SEEN].into_boxed_slice();
        Unprepared { cache: Cache::new(bytes_max), seen, changes: 0 }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// The statement, if it is kept and was analysed for this schema after so many `changes` of
    /// options.
    pub(crate) fn get(
        &mut self,
        (text, keyspace): (&str, Option<&str>),
        schema: Uuid,
        changes: u64,
    ) -> Option<Rc<Statement>> {
        if self.changes != changes {
            self.changes = changes;
            self.cache = Cache { stats: self.cache.stats, ..Cache::new(self.cache.bytes_max) };
        }
        let found = self.cache.get(&stdx::hash_one((text, keyspace)))?;
        let is_it = *found.text == *text && found.keyspace.as_deref() == keyspace;
        (is_it && found.version == schema).then_some(found)
    }

    /// Keeps a statement that [`Unprepared::get`] did not find, if it was seen before
    /// (*kept-when-repeated*).
    pub(crate) fn offer(&mut self, statement: &Rc<Statement>) {
        let keeps = matches!(statement.plan, Plan::Select(_) | Plan::Modify(_) | Plan::Batch(_));
        if !keeps || Unprepared::TEXT_BYTES_MAX < statement.text.len() {
            return;
        }
        let hash = stdx::hash_one((&*statement.text, statement.keyspace.as_deref()));
        let (place, tag) = (hash as usize % Unprepared::SEEN, (hash >> 32) as u32);
        if std::mem::replace(&mut self.seen[place], tag) == tag {
            self.cache.insert(hash, statement.clone(), statement.size_bytes());
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
        let len = |cache: &Cache<u32, u32>| cache.stats().entries;
        assert_eq!((len(&cache), cache.get(&0), cache.get(&1)), (7, Some(0), None));
        cache.insert(9, 9, 1000);
        assert_eq!((len(&cache), cache.get(&9)), (1, Some(9)));
        let stats =
            CacheStats { entries: 1, bytes: 1000, bytes_max: 80, hits: 3, misses: 1, evictions: 9 };
        assert_eq!(cache.stats(), stats);
    }
}
