//! How long things took: a log-linear histogram of spans, and how many of them there are a second.
//!
//! A span is counted in one of [`BUCKETS`] buckets: the first eight are 256 ns wide, from there on
//! each octave has eight of them. So a value that is told of a bucket is off by an eighth of an
//! octave, or 256 ns, at most. Counts and sum, least and greatest value are exact.
//!
//! Invariants
//!  - *covering*: every `u64` has one bucket; the last one is open to above.
//!  - *bounded*: a histogram has [`BUCKETS`] counters, whatever is counted; counting allocates
//!    nothing.
//!  - *adds-up*: merged snapshots are the snapshot of all that was counted in either.
//!
//! Cost: [`Histogram::record`] is some twenty instructions.

use std::cell::Cell;

/// The width of the first buckets is 2 to the power of this, in nanoseconds.
const UNIT_SHIFT: u32 = 8;
/// Each octave has 2 to the power of this buckets.
const PART_SHIFT: u32 = 3;
const PARTS: usize = 1 << PART_SHIFT;
/// Octaves above the first buckets: up to 137 s.
const OCTAVES: usize = 26;

/// Buckets of a histogram.
pub const BUCKETS: usize = PARTS * (1 + OCTAVES);

/// The bucket of a value.
#[inline]
pub fn bucket_of(nanos: u64) -> usize {
    let units = nanos >> UNIT_SHIFT;
    // What is below the first octave counts as if it were in an octave of its own.
    let octave = (units | PARTS as u64).ilog2() - PART_SHIFT;
    let part = (units >> octave) as usize;
    (octave as usize * PARTS + part).min(BUCKETS - 1)
}

/// The least value of a bucket; of the one after the last the end of all that is told apart.
pub fn bucket_start(bucket: usize) -> u64 {
    let (octave, part) = match bucket {
        0..PARTS => (0, bucket),
        _ => (bucket / PARTS - 1, PARTS + bucket % PARTS),
    };
    (part as u64) << (octave as u32 + UNIT_SHIFT)
}

/// Counts spans of one shard, in nanoseconds.
#[derive(Debug)]
pub struct Histogram {
    counts: [Cell<u64>; BUCKETS],
    sum: Cell<u64>,
    min: Cell<u64>,
    max: Cell<u64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: [const { Cell::new(0) }; BUCKETS],
            sum: Cell::new(0),
            min: Cell::new(u64::MAX),
            max: Cell::new(0),
        }
    }
}

impl Histogram {
    /// Counts one.
    #[inline]
    pub fn record(&self, nanos: u64) {
        let count = &self.counts[bucket_of(nanos)];
        count.set(count.get() + 1);
        self.sum.set(self.sum.get().saturating_add(nanos));
        self.min.set(self.min.get().min(nanos));
        self.max.set(self.max.get().max(nanos));
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(Cell::get).sum()
    }

    /// As it is now.
    pub fn snapshot(&self) -> Snapshot {
        let used = self.counts.iter().rposition(|count| count.get() != 0).map_or(0, |at| at + 1);
        Snapshot {
            counts: self.counts[..used].iter().map(Cell::get).collect(),
            sum: self.sum.get(),
            min: self.min.get(),
            max: self.max.get(),
        }
    }
}

/// What was counted up to some time, here or on several shards; in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// By bucket, up to the last one that has something.
    counts: Vec<u64>,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        Snapshot { counts: Vec::new(), sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Snapshot {
    /// Adds what another one has.
    pub fn merge(&mut self, other: &Snapshot) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, its)| *mine += its);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// What was counted after `earlier`, a snapshot of the same; the least and the greatest value
    /// are bounds of buckets.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let new = self.counts.iter().zip(before).map(|(count, before)| count - before);
        let mut counts: Vec<u64> = new.collect();
        let Some(last) = counts.iter().rposition(|count| *count != 0) else {
            return Snapshot::default();
        };
        counts.truncate(last + 1);
        let first = counts.iter().position(|count| *count != 0).unwrap_or(0);
        let (min, max) = (bucket_start(first).max(self.min), bucket_start(last + 1).min(self.max));
        Snapshot { counts, sum: self.sum.saturating_sub(earlier.sum), min, max }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The least one; 0 where there is none.
    pub fn min(&self) -> u64 {
        if self.min == u64::MAX { 0 } else { self.min }
    }

    /// The greatest one; 0 where there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// 0 where there is none.
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// Of the middles of the buckets; 0 where there are less than two.
    pub fn variance(&self) -> f64 {
        let (count, mean) = (self.count(), self.mean());
        if count < 2 {
            return 0.0;
        }
        let square = |(bucket, times): (usize, &u64)| {
            let off = self.middle(bucket) - mean;
            *times as f64 * off * off
        };
        self.counts.iter().enumerate().map(square).sum::<f64>() / (count - 1) as f64
    }

    /// The value that this part of all does not exceed, between 0 and 1: the middle of its bucket.
    /// 0 where there is none.
    pub fn quantile(&self, part: f64) -> u64 {
        let count = self.count();
        let rank = (part.clamp(0.0, 1.0) * count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, times) in self.counts.iter().enumerate() {
            seen += times;
            if rank <= seen {
                return self.middle(bucket) as u64;
            }
        }
        0
    }

    /// At most `count_max` values that are spread as those that were counted are.
    pub fn sample(&self, count_max: usize) -> Vec<u64> {
        let shown = self.count().min(count_max as u64);
        let part = |at: u64| (at as f64 + 0.5) / shown as f64;
        (0..shown).map(|at| self.quantile(part(at))).collect()
    }

    /// The bounds of the buckets, each the least value of the next one, with how many values were
    /// below it. What lies in the last bucket is below none of them.
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut seen = 0;
        (0..BUCKETS - 1).map(move |bucket| {
            seen += self.counts.get(bucket).copied().unwrap_or(0);
            (bucket_start(bucket + 1), seen)
        })
    }

    /// How many values are in each bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> {
        (0..BUCKETS).map(|bucket| (bucket, self.counts.get(bucket).copied().unwrap_or(0)))
    }

    /// The middle of a bucket, as far as it lies between the least and the greatest value.
    fn middle(&self, bucket: usize) -> f64 {
        let middle = (bucket_start(bucket) as f64 + bucket_start(bucket + 1) as f64) / 2.0;
        middle.clamp(self.min() as f64, self.max as f64)
    }
}

/// How often something happens a second: averages of the last minute, of five and of fifteen, in
/// which the past counts less the longer ago it is, and of all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Of one, five and fifteen minutes.
    pub averages: [f64; 3],
    /// Since the start.
    pub mean: f64,
    /// All that happened.
    pub count: u64,
    seconds: f64,
}

impl Rates {
    const WINDOWS_SECS: [f64; 3] = [60.0, 300.0, 900.0];

    /// `count` have happened by now, `seconds` after the last look.
    pub fn look(&mut self, count: u64, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        let rate = count.saturating_sub(self.count) as f64 / seconds;
        let is_first = self.seconds == 0.0;
        for (average, window) in self.averages.iter_mut().zip(Rates::WINDOWS_SECS) {
            let weight = if is_first { 1.0 } else { 1.0 - (-seconds / window).exp() };
            *average += weight * (rate - *average);
        }
        self.seconds += seconds;
        self.count = count;
        self.mean = count as f64 / self.seconds;
    }

    /// With those of another shard.
    pub fn merge(&mut self, other: &Rates) {
        self.averages.iter_mut().zip(other.averages).for_each(|(mine, its)| *mine += its);
        self.mean += other.mean;
        self.count += other.count;
        self.seconds = self.seconds.max(other.seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorded(values: &[u64]) -> Snapshot {
        let histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        histogram.snapshot()
    }

    /// How far what is told of a value may be from it.
    fn error_of(value: u64) -> u64 {
        (value / PARTS as u64).max(1 << UNIT_SHIFT)
    }

    /// Spans of all sizes alike.
    fn any_span() -> impl Strategy<Value = u64> {
        (0u32..37, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
    }

    #[test]
    fn buckets_have_no_gap() {
        let check = |nanos: u64, bucket: usize| assert_eq!(bucket_of(nanos), bucket, "{nanos}");
        check(0, 0);
        check(255, 0);
        check(256, 1);
        check(2047, 7);
        check(2048, 8);
        check(4095, 15);
        check(4096, 16);
        check(u64::MAX, BUCKETS - 1);
        for bucket in 0..BUCKETS {
            let (start, end) = (bucket_start(bucket), bucket_start(bucket + 1));
            assert_eq!((bucket_of(start), bucket_of(end - 1)), (bucket, bucket));
            assert!(end - start <= error_of(start), "{bucket}");
        }
        assert_eq!(bucket_start(BUCKETS), 1 << 37);
    }

    #[test]
    fn nothing_counted_is_all_zeros() {
        let none = recorded(&[]);
        assert_eq!((none.count(), none.sum(), none.min(), none.max()), (0, 0, 0, 0));
        assert_eq!((none.mean(), none.variance(), none.quantile(0.5)), (0.0, 0.0, 0));
        assert!(none.sample(10).is_empty());
        assert!(none.up_to().all(|(_, count)| count == 0));
        let mut merged = Snapshot::default();
        merged.merge(&recorded(&[7]));
        assert_eq!((merged.count(), merged.min(), merged.quantile(1.0)), (1, 7, 7));
    }

    proptest! {
        #[test]
        fn it_tells_what_a_list_of_all_tells(
            mut values in proptest::collection::vec(any_span(), 1..200),
            parts in proptest::collection::vec(0.0f64..=1.0, 5),
            split in 0usize..200,
        ) {
            let (some, others) = values.split_at(split.min(values.len()));
            let mut all = recorded(some);
            all.merge(&recorded(others));
            prop_assert_eq!(&all, &recorded(&values));
            values.sort_unstable();
            let (count, sum) = (values.len() as u64, values.iter().sum::<u64>());
            prop_assert_eq!((all.count(), all.sum()), (count, sum));
            prop_assert_eq!((all.min(), all.max()), (values[0], values[values.len() - 1]));
            for part in parts {
                let rank = (part * values.len() as f64).ceil().max(1.0) as usize;
                let (told, value) = (all.quantile(part), values[rank - 1]);
                prop_assert!(told.abs_diff(value) <= error_of(value), "{part}: {told} of {value}");
            }
            for (bound, below) in all.up_to() {
                prop_assert_eq!(below, values.partition_point(|value| *value < bound) as u64);
            }
            let (before, after) = values.split_at(split.min(values.len()));
            let mut whole = recorded(before);
            whole.merge(&recorded(after));
            let new = whole.since(&recorded(before));
            prop_assert_eq!(new.buckets().collect::<Vec<_>>(),
                recorded(after).buckets().collect::<Vec<_>>());
            prop_assert_eq!(new.sum(), recorded(after).sum());
            if let (Some(least), Some(greatest)) = (after.iter().min(), after.iter().max()) {
                prop_assert!(new.min() <= *least && *greatest <= new.max());
                prop_assert!(new.max() - greatest <= error_of(*greatest));
            }
            let sample = all.sample(values.len());
            for (told, value) in sample.iter().zip(&values) {
                prop_assert!(told.abs_diff(*value) <= error_of(*value));
            }
            // Each value is off by an eighth of itself or 256 ns: so is the deviation at most.
            let mean = all.mean();
            let square = |value: &u64| (*value as f64 - mean).powi(2);
            let exact = values.iter().map(square).sum::<f64>() / (count.max(2) - 1) as f64;
            let slack = values.iter().map(|value| (error_of(*value) as f64).powi(2)).sum::<f64>();
            let slack = (slack / (count.max(2) - 1) as f64).sqrt();
            let off = (all.variance().sqrt() - exact.sqrt()).abs();
            prop_assert!(off <= slack + 1.0, "{off} above {slack}");
        }

        #[test]
        fn a_steady_rate_is_its_average(per_look in 0u64..1000, looks in 1u64..200) {
            let mut rates = Rates::default();
            (1..=looks).for_each(|look| rates.look(look * per_look, 10.0));
            let rate = per_look as f64 / 10.0;
            for told in rates.averages.into_iter().chain([rates.mean]) {
                prop_assert!((told - rate).abs() < 1e-6, "{told} is not {rate}");
            }
            prop_assert_eq!(rates.count, looks * per_look);
        }
    }

    #[test]
    fn what_is_over_is_forgotten_the_sooner_the_shorter_the_window() {
        let mut rates = Rates::default();
        rates.look(600, 10.0);
        assert_eq!(rates.averages, [60.0; 3]);
        (0..6).for_each(|_| rates.look(600, 10.0));
        let share = rates.averages.map(|average| (average / 60.0 * 100.0).round() as u64);
        assert_eq!(share, [37, 82, 94]);
        let mut both = rates;
        both.merge(&rates);
        assert_eq!((both.count, both.mean), (1200, 2.0 * rates.mean));
    }
}
