//! How large, or how many, things were: a histogram of whole numbers that few counters make.
//!
//! A bucket has a bound, and counts what is above the bound before it. Bounds are 1, 2, 3 and 4,
//! and from there on four to an octave: 5, 6, 7, 8, 10, 12, 14, 16, 20 and so on.
//!
//! Invariants
//!  - *at-most*: what a bucket counts is its bound at most; 0 counts as 1.
//!  - *bounded*: a histogram has the counters that its type says; counting allocates nothing.
//!
//! Cost: [`Sizes::record`] is some ten instructions.

use std::cell::Cell;

/// Each octave has 2 to the power of this buckets.
const PART_SHIFT: u32 = 2;
const PARTS: u64 = 1 << PART_SHIFT;

/// The bucket of a value.
#[inline]
fn bucket_of(value: u64) -> usize {
    // A bound belongs to the bucket below it (*at-most*).
    let below = value.saturating_sub(1);
    // What is below the first octave counts as if it were in an octave of its own.
    let octave = (below | PARTS).ilog2() - PART_SHIFT;
    octave as usize * PARTS as usize + (below >> octave) as usize
}

/// The greatest value of a bucket.
fn bound_of(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    match next {
        0..PARTS => next,
        _ => (PARTS + next % PARTS) << (next / PARTS - 1),
    }
}

/// Counts what one shard has met, in buckets with so many bounds; the values above the last bound
/// are in none of them.
#[derive(Debug)]
pub struct Sizes<const BOUNDS: usize> {
    counts: [Cell<u64>; BOUNDS],
    count: Cell<u64>,
    sum: Cell<u64>,
}

impl<const BOUNDS: usize> Default for Sizes<BOUNDS> {
    fn default() -> Self {
        let counts = [const { Cell::new(0) }; BOUNDS];
        Sizes { counts, count: Cell::default(), sum: Cell::default() }
    }
}

impl<const BOUNDS: usize> Sizes<BOUNDS> {
    /// Counts a value. `exact`: what it adds to the sum, which may be of a finer unit.
    #[inline]
    pub fn record(&self, value: u64, exact: u64) {
        if let Some(count) = self.counts.get(bucket_of(value)) {
            count.set(count.get() + 1);
        }
        self.count.set(self.count.get() + 1);
        self.sum.set(self.sum.get().saturating_add(exact));
    }

    /// The bounds, which ascend, with how many values were at most as great.
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut seen = 0;
        self.counts.iter().enumerate().map(move |(bucket, count)| {
            seen += count.get();
            (bound_of(bucket), seen)
        })
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    pub fn sum(&self) -> u64 {
        self.sum.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_ascend_by_a_quarter_of_an_octave() {
        let bounds: Vec<u64> = (0..16).map(bound_of).collect();
        assert_eq!(bounds, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]);
        assert_eq!((bound_of(31), bound_of(43)), (512, 4096));
        let sizes = Sizes::<3>::default();
        [0, 1, 2, 4, u64::MAX].into_iter().for_each(|value| sizes.record(value, value / 2));
        assert_eq!(sizes.up_to().collect::<Vec<_>>(), [(1, 2), (2, 3), (3, 3)]);
        assert_eq!((sizes.count(), sizes.sum()), (5, 1 + 2 + u64::MAX / 2));
    }

    proptest! {
        #[test]
        fn a_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed(
            value: u64, bits in 0u32..64,
        ) {
            let value = value >> bits;
            let bucket = bucket_of(value);
            if bucket < bucket_of(u64::MAX) {
                prop_assert!(value <= bound_of(bucket));
            }
            prop_assert!(bucket == 0 || bound_of(bucket - 1) < value);
        }
    }
}
