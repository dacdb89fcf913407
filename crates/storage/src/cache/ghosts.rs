//! What was evicted not long ago: fingerprints, so that what is read again soon after it went is
//! taken for wanted.
//!
//! Invariants
//!  - *bounded*: a fixed table, of a 64th of the cache at most; in each bucket the oldest
//!    fingerprint gives way.
//!  - *a hint*: two things may have one fingerprint; a wrong answer costs a place in main.

use super::run::Parts;
use model::Token;

/// Fingerprints of a bucket, the newest first; 0: none.
type Bucket = [u32; 8];

/// The cache's bytes for each fingerprint: about what evicted partitions were large.
const BYTES_PER_GHOST: usize = 1024;

/// A bucket is a line of memory, or less.
const _: () = assert!(size_of::<Bucket>() <= 64);

#[derive(Debug)]
pub(super) struct Ghosts {
    /// A power of two of them.
    buckets: Vec<Bucket>,
}

impl Ghosts {
    /// For a cache of that many bytes.
    pub(super) fn new(limit: usize) -> Ghosts {
        let ghosts = Ghosts { buckets: vec![[0; 8]; Ghosts::count(limit)] };
        assert!(
            ghosts.heap_bytes() <= limit / 64 + size_of::<Bucket>(),
            "bounded: {} bytes in a cache of {limit}",
            ghosts.heap_bytes()
        );
        ghosts
    }

    fn count(limit: usize) -> usize {
        (limit / BYTES_PER_GHOST / size_of::<Bucket>() * size_of::<u32>()).next_power_of_two()
    }

    /// What it takes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// The cache may have that many bytes now. Forgets all if that makes a difference.
    pub(super) fn resize(&mut self, limit: usize) {
        if Ghosts::count(limit) != self.buckets.len() {
            *self = Ghosts::new(limit);
        }
    }

    /// What has this hash was evicted.
    pub(super) fn add(&mut self, hash: u64) {
        let (bucket, fingerprint) = self.place(hash);
        bucket.copy_within(..7, 1);
        bucket[0] = fingerprint;
    }

    /// Whether what has this hash was evicted not long ago; it is not any more.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        let (bucket, fingerprint) = self.place(hash);
        let Some(found) = bucket.iter().position(|&ghost| ghost == fingerprint) else {
            return false;
        };
        bucket.copy_within(found + 1.., found);
        bucket[7] = 0;
        true
    }

    fn place(&mut self, hash: u64) -> (&mut Bucket, u32) {
        debug_assert!(self.buckets.len().is_power_of_two(), "bounded: {}", self.buckets.len());
        let index = hash as usize & (self.buckets.len() - 1);
        (&mut self.buckets[index], ((hash >> 32) as u32).max(1))
    }
}

/// What ghosts know a partition by.
pub(super) fn hash_of_whole(tablet: u32, token: Token) -> u64 {
    stdx::hash_one((tablet, token.0))
}

/// What ghosts know a run by.
pub(super) fn hash_of_part(tablet: u32, token: Token, start: Parts<'_>) -> u64 {
    stdx::hash_one((tablet, token.0, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_evicted_last_is_remembered_once() {
        let mut ghosts = Ghosts::new(0);
        let hash = |number: u64| number << 32;
        (1..=10).for_each(|number| ghosts.add(hash(number)));
        let found: Vec<u64> = (1..=10).filter(|&number| ghosts.take(hash(number))).collect();
        assert_eq!(found, [3, 4, 5, 6, 7, 8, 9, 10], "the oldest two gave way");
        assert!((1..=10).all(|number| !ghosts.take(hash(number))));
    }

    #[test]
    fn the_table_grows_with_the_cache() {
        let mut ghosts = Ghosts::new(1 << 20);
        let small = ghosts.heap_bytes();
        ghosts.add(5);
        ghosts.resize((1 << 20) + 1);
        assert!(ghosts.take(5), "nothing changed");
        ghosts.resize(64 << 20);
        assert!(16 * small <= ghosts.heap_bytes());
    }
}
