//! How latencies are shown: histograms, rates, estimated histograms. Pure.

use cluster::traffic::{Rates, Snapshot, Taken};
use serde_json::{Value, json};

/// Values that a histogram shows of all.
const SAMPLE_MAX: usize = 1024;
/// Bounds of estimated histograms: each a fifth more than the one before.
const OFFSETS: usize = 90;

/// Microseconds of nanoseconds.
fn micros(nanos: u64) -> u64 {
    nanos / 1000
}

/// `{count, sum, min, max, variance, mean, sample}`, in microseconds.
pub(super) fn histogram(spans: &Snapshot) -> Value {
    let sample: Vec<u64> = spans.sample(SAMPLE_MAX).into_iter().map(micros).collect();
    json!({
        "count": spans.count(),
        "sum": micros(spans.sum()),
        "min": micros(spans.min()),
        "max": micros(spans.max()),
        "variance": spans.variance() / 1e6,
        "mean": spans.mean() / 1e3,
        "sample": sample,
    })
}

/// `{rates, mean_rate, count}`.
pub(super) fn meter(rates: &Rates) -> Value {
    json!({ "rates": rates.averages, "mean_rate": rates.mean, "count": rates.count })
}

/// `{meter, hist}`.
pub(super) fn moving(taken: &Taken) -> Value {
    json!({ "meter": meter(&taken.rates), "hist": histogram(&taken.spans) })
}

/// The bounds of an estimated histogram.
fn offsets() -> Vec<u64> {
    let mut all = Vec::with_capacity(OFFSETS);
    let mut last = 0u64;
    for _ in 0..OFFSETS {
        last = (last + 1).max((last as f64 * 1.2).round() as u64);
        all.push(last);
    }
    all
}

/// Counts in the buckets of an estimated histogram: a value is in the first whose bound is not
/// below it, or in one more behind the last.
pub(super) fn bucketed(counts: impl Iterator<Item = (u64, u64)>) -> Value {
    let offsets = offsets();
    let mut buckets = vec![0u64; offsets.len() + 1];
    for (value, count) in counts {
        buckets[offsets.partition_point(|bound| *bound < value)] += count;
    }
    json!({ "buckets": buckets, "bucket_offsets": offsets })
}

/// `{buckets, bucket_offsets}`, in microseconds.
pub(super) fn estimated(spans: &Snapshot) -> Value {
    bucketed(
        spans
            .buckets()
            .map(|(bucket, count)| (micros(stdx::histogram::bucket_start(bucket)), count)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_grow_by_a_fifth() {
        let all = offsets();
        assert_eq!(all[..12], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17]);
        assert_eq!(all.len(), OFFSETS);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn values_go_into_the_first_bucket_that_holds_them() {
        let shown = bucketed([(0, 1), (1, 2), (9, 3), (10, 4), (u64::MAX, 5)].into_iter());
        let buckets: Vec<u64> = serde_json::from_value(shown["buckets"].clone()).unwrap();
        assert_eq!((buckets[0], buckets[8], buckets[OFFSETS]), (3, 7, 5));
        assert_eq!(buckets.iter().sum::<u64>(), 15);
    }

    #[test]
    fn spans_are_shown_in_microseconds() {
        let spans = stdx::histogram::Histogram::default();
        [1_000_000, 3_000_000].into_iter().for_each(|nanos| spans.record(nanos));
        let shown = histogram(&spans.snapshot());
        assert_eq!((&shown["count"], &shown["sum"]), (&json!(2), &json!(4000)));
        assert_eq!(shown["mean"], json!(2000.0));
        assert_eq!(shown["sample"].as_array().unwrap().len(), 2);
    }
}
