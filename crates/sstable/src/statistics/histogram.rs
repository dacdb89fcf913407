//! Histograms of Statistics.db: of sizes with growing buckets, and of the times at which
//! tombstones can be dropped with a bounded number of moving bins.
//!
//! Invariants
//!  - *ascending*: bounds ascend, and so do the points of bins.
//!  - *all-counted*: a value is counted once, in the bucket whose bounds it lies between.

use crate::store::Version;
use stdx::{Cursor, Damaged, Put};

/// A histogram whose bucket bounds grow by a fifth.
#[derive(Clone, Debug)]
pub struct EstimatedHistogram {
    /// Inclusive upper bounds, ascending.
    bounds: Vec<i64>,
    /// One more than bounds: the last counts what is above all of them.
    counts: Vec<u64>,
    /// The bucket of the value counted last: the next one is often of it, too.
    latest: usize,
}

impl PartialEq for EstimatedHistogram {
    fn eq(&self, other: &EstimatedHistogram) -> bool {
        (&self.bounds, &self.counts) == (&other.bounds, &other.counts)
    }
}
impl Eq for EstimatedHistogram {}

impl EstimatedHistogram {
    /// An empty histogram with that many bounds.
    pub fn new(bound_count: usize) -> EstimatedHistogram {
        let next = |bound: &i64| Some(((*bound as f64 * 1.2).round() as i64).max(bound + 1));
        let bounds: Vec<i64> = std::iter::successors(Some(1i64), next).take(bound_count).collect();
        debug_assert!(bounds.is_sorted_by(|a, b| a < b), "ascending: {bound_count} bounds");
        EstimatedHistogram { bounds, counts: vec![0; bound_count + 1], latest: 0 }
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        if !self.is_of_latest(value) {
            self.latest = self.bounds.partition_point(|bound| *bound < value);
        }
        let fits = self.bounds.get(self.latest).is_none_or(|bound| value <= *bound);
        debug_assert!(fits, "all-counted: {value} in bucket {}", self.latest);
        self.counts[self.latest] += 1;
    }

    fn is_of_latest(&self, value: i64) -> bool {
        let below = self.latest.checked_sub(1).and_then(|before| self.bounds.get(before));
        let is_above = below.is_none_or(|below| *below < value);
        is_above && self.bounds.get(self.latest).is_some_and(|bound| value <= *bound)
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// No value that was counted is larger; 0 where there is none.
    pub fn largest(&self) -> u64 {
        let index = self.counts.iter().rposition(|count| 0 < *count);
        index.map_or(0, |index| self.bounds.get(index).map_or(u64::MAX, |bound| *bound as u64))
    }

    /// Each bucket's offset, as the file has it, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let bound = |index: usize| self.bounds.get(index.saturating_sub(1)).copied();
        self.counts
            .iter()
            .enumerate()
            .map(move |(index, count)| (bound(index).unwrap_or(0), *count))
    }

    /// The buckets that have a value, each with its largest possible value: these ascend, where the
    /// offsets of [`EstimatedHistogram::buckets`] begin with the same one twice.
    pub fn bounded(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let bound = |index: usize| self.bounds.get(index).copied().unwrap_or(i64::MAX);
        let counted = self.counts.iter().enumerate().filter(|(_, count)| 0 < **count);
        counted.map(move |(index, count)| (bound(index), *count))
    }

    /// The mean of the values, each taken for the bound of its bucket.
    pub fn mean(&self) -> f64 {
        let bounds = self.bounds.iter().chain(self.bounds.last());
        let sum: f64 = bounds.zip(&self.counts).map(|(b, count)| *b as f64 * *count as f64).sum();
        sum / self.count().max(1) as f64
    }

    /// Appends the serialized form: each count with the bound of the bucket before it.
    pub fn put(&self, out: &mut Vec<u8>) {
        assert!(self.counts.len() == self.bounds.len() + 1, "all-counted: {}", self.counts.len());
        out.put_u32(self.counts.len() as u32);
        for (index, count) in self.counts.iter().enumerate() {
            out.put_i64(self.bounds[index.saturating_sub(1)]);
            out.put_u64(*count);
        }
    }

    /// Reads the serialized form.
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<EstimatedHistogram, Damaged> {
        let count = cursor.u32("histogram cut short")? as usize;
        if count == 0 || cursor.remaining() / 16 < count {
            return Err(cursor.damaged("histogram without buckets or cut short"));
        }
        let mut bounds = Vec::with_capacity(count);
        let mut counts = Vec::with_capacity(count);
        for index in 0..count {
            let bound = cursor.i64("histogram cut short")?;
            // The first element repeats the first bound.
            if index != 0 || count == 1 {
                bounds.push(bound);
            }
            counts.push(cursor.u64("histogram cut short")?);
        }
        if !bounds.is_sorted_by(|a, b| a < b) {
            return Err(cursor.damaged("histogram whose bounds do not ascend"));
        }
        Ok(EstimatedHistogram { bounds, counts, latest: 0 })
    }
}

/// Bins of a [`TombstoneHistogram`] at most.
const BINS_MAX: usize = 100;

/// Counts by point in time; when there are too many bins, the two closest become one.
#[derive(Clone, Debug, PartialEq)]
pub struct TombstoneHistogram {
    bins_max: u32,
    /// Point (seconds since 1970) and count, ascending.
    bins: Vec<(f64, u64)>,
}

impl Default for TombstoneHistogram {
    fn default() -> Self {
        TombstoneHistogram { bins_max: BINS_MAX as u32, bins: Vec::new() }
    }
}

impl TombstoneHistogram {
    /// Counts a point, in seconds.
    pub fn add(&mut self, seconds: i32) {
        self.add_many(seconds, 1);
    }

    /// Counts a point so often.
    pub fn add_many(&mut self, seconds: i32, count: u64) {
        debug_assert!(0 < count, "all-counted: no point at {seconds}");
        let point = seconds as f64;
        match self.bins.binary_search_by(|(other, _)| other.total_cmp(&point)) {
            Ok(index) => self.bins[index].1 += count,
            Err(index) => {
                self.bins.insert(index, (point, count));
                if BINS_MAX < self.bins.len() {
                    self.merge_closest();
                }
                debug_assert!(self.bins.len() <= BINS_MAX, "all-counted: {}", self.bins.len());
            }
        }
    }

    fn merge_closest(&mut self) {
        let gaps = self.bins.windows(2).map(|pair| pair[1].0 - pair[0].0).enumerate();
        let Some((index, _)) = gaps.min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        let ((p, n), (q, m)) = (self.bins[index], self.bins.remove(index + 1));
        let point = (p * n as f64 + q * m as f64) / (n + m) as f64;
        debug_assert!(p <= point && point <= q, "ascending: {point} of {p} and {q}");
        self.bins[index] = (point, n + m);
    }

    /// How many points are at or before `seconds`, about.
    pub fn count_until(&self, seconds: i64) -> u64 {
        let before = self.bins.iter().take_while(|(point, _)| *point <= seconds as f64);
        before.map(|(_, count)| *count).sum()
    }

    /// Point and count of each bin.
    pub fn bins(&self) -> &[(f64, u64)] {
        &self.bins
    }

    /// Appends the serialized form.
    pub fn put(&self, out: &mut Vec<u8>) {
        assert!(self.bins.len() <= self.bins_max as usize, "all-counted: {}", self.bins.len());
        debug_assert!(self.bins.is_sorted_by(|a, b| a.0 < b.0), "ascending: bins");
        out.put_u32(self.bins_max);
        out.put_u32(self.bins.len() as u32);
        for (point, count) in &self.bins {
            out.put_u64(point.to_bits());
            out.put_u64(*count);
        }
    }

    /// Reads the serialized form of a version: bins of doubles and 64-bit counts, or with unsigned
    /// times of 64-bit points and 32-bit counts.
    pub fn parse(cursor: &mut Cursor<'_>, version: Version) -> Result<TombstoneHistogram, Damaged> {
        let cut = "tombstone histogram cut short";
        let bins_max = cursor.u32(cut)?;
        let count = cursor.u32(cut)? as usize;
        if cursor.remaining() / 12 < count {
            return Err(cursor.damaged(cut));
        }
        let mut bins = Vec::with_capacity(count);
        for _ in 0..count {
            bins.push(match version.has_unsigned_times() {
                true => (cursor.i64(cut)? as f64, cursor.u32(cut)? as u64),
                false => (f64::from_bits(cursor.u64(cut)?), cursor.u64(cut)?),
            });
        }
        Ok(TombstoneHistogram { bins_max, bins })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_by_a_fifth() {
        let histogram = EstimatedHistogram::new(150);
        assert_eq!(histogram.bounds[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(histogram.bounds[8..14], [10, 12, 14, 17, 20, 24]);
        assert_eq!(histogram.counts.len(), 151);
        assert_eq!(histogram.largest(), 0);
        let largest = |value| {
            let mut histogram = histogram.clone();
            [value, 3].into_iter().for_each(|value| histogram.add(value));
            histogram.largest()
        };
        assert_eq!([0, 9, 18, 24].map(largest), [3, 10, 20, 24]);
    }

    #[test]
    fn a_point_counts_as_often_as_it_is_told() {
        let (mut once, mut each) = (TombstoneHistogram::default(), TombstoneHistogram::default());
        for (seconds, count) in [(50, 3), (20, 1), (50, 2), (70, 9)] {
            once.add_many(seconds, count);
            (0..count).for_each(|_| each.add(seconds));
        }
        assert_eq!(once.bins(), [(20.0, 1), (50.0, 5), (70.0, 9)]);
        assert_eq!(once, each);
    }

    #[test]
    fn a_value_is_counted_in_its_bucket_whatever_came_before() {
        let mut prng = stdx::Prng::from_seed(7);
        let mut histogram = EstimatedHistogram::new(20);
        let mut counts = vec![0; 21];
        for _ in 0..10_000 {
            // Bounds and their neighbours among them; the last bound is 72.
            let value = prng.below(90);
            (0..1 + prng.below(2)).for_each(|_| {
                histogram.add(value);
                let bound = histogram.bounds.iter().position(|bound| value as i64 <= *bound);
                counts[bound.unwrap_or(20)] += 1;
            });
        }
        assert_eq!(histogram.counts, counts);
        assert!(counts.iter().all(|count| 0 < *count));
    }

    #[test]
    fn bounds_of_what_is_counted_ascend() {
        let mut prng = stdx::Prng::from_seed(8);
        for _ in 0..200 {
            let mut histogram = EstimatedHistogram::new(20);
            let values: Vec<u64> = (0..prng.below(30)).map(|_| prng.below(90)).collect();
            values.iter().for_each(|value| histogram.add(*value));
            let mut expected = std::collections::BTreeMap::new();
            for value in values {
                let bound = histogram.bounds.iter().find(|bound| value as i64 <= **bound);
                *expected.entry(bound.copied().unwrap_or(i64::MAX)).or_insert(0) += 1;
            }
            assert!(histogram.bounded().eq(expected));
        }
    }

    #[test]
    fn bounds_that_do_not_ascend_are_refused() {
        let mut out = Vec::new();
        EstimatedHistogram::new(5).put(&mut out);
        // The bound of the last bucket, after the count and four buckets of 16 bytes each.
        out[4 + 5 * 16..][..8].copy_from_slice(&1i64.to_be_bytes());
        let refused = EstimatedHistogram::parse(&mut Cursor::new(&out)).unwrap_err();
        assert!(refused.to_string().contains("do not ascend"), "{refused}");
    }

    #[test]
    fn sizes_round_trip() {
        let mut histogram = EstimatedHistogram::new(114);
        [0, 1, 2, 9, 10, 11, u64::MAX].iter().for_each(|value| histogram.add(*value));
        assert_eq!((histogram.counts[0], histogram.counts[1]), (2, 1));
        assert_eq!((histogram.counts[8], histogram.counts[9], histogram.counts[114]), (2, 1, 1));
        let mut out = Vec::new();
        histogram.put(&mut out);
        assert_eq!(EstimatedHistogram::parse(&mut Cursor::new(&out)).unwrap(), histogram);
        assert_eq!(histogram.largest(), u64::MAX);
        for cut in 0..out.len() {
            assert!(EstimatedHistogram::parse(&mut Cursor::new(&out[..cut])).is_err());
        }
    }

    #[test]
    fn too_many_points_merge_and_none_is_lost() {
        let mut histogram = TombstoneHistogram::default();
        (0..1000).for_each(|point| histogram.add(point * 7 % 1000));
        assert_eq!(histogram.bins.len(), BINS_MAX);
        assert_eq!(histogram.count_until(i64::MAX), 1000);
        let half = histogram.count_until(500);
        assert!((400..600).contains(&half), "{half}");
        let mut out = Vec::new();
        histogram.put(&mut out);
        let back = TombstoneHistogram::parse(&mut Cursor::new(&out), Version::Me);
        assert_eq!(back.unwrap(), histogram);
    }
}
