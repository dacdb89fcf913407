//! How latencies are shown: in microseconds, as ScyllaDB's are.

use admin::metrics::{Buckets, Labels, Sheet};
use cluster::traffic::{Snapshot, Taken};

/// The parts of all that summaries tell of.
const PARTS: [f64; 4] = [0.5, 0.95, 0.99, 0.999];

/// The first bound that is shown, in nanoseconds: what is faster is of no interest.
const FIRST_NS: u64 = 1 << 14;

/// How finely a histogram is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// Two bounds an octave.
    Fine,
    /// One.
    Coarse,
}

/// The bounds of a histogram, from 16 microseconds to 69 seconds.
pub(super) fn buckets(spans: &Snapshot, steps: Steps) -> Buckets {
    let chosen = |bound: &u64| match steps {
        Steps::Coarse => bound.is_power_of_two(),
        // Three halves of a power of two.
        Steps::Fine => {
            bound.is_power_of_two() || (bound.is_multiple_of(3) && (bound / 3).is_power_of_two())
        }
    };
    let up_to = spans.up_to().filter(|(bound, _)| FIRST_NS <= *bound && chosen(bound));
    let up_to = up_to.map(|(bound, count)| (micros(bound), count));
    Buckets { up_to: up_to.collect(), sum: micros(spans.sum()), count: spans.count() }
}

/// Adds a summary: parts of the last ten seconds, sum and number of all the time.
pub(super) fn summary(
    sheet: &mut Sheet,
    (name, help): (&'static str, &'static str),
    labels: Labels<'_>,
    taken: &Taken,
) {
    let quantiles = PARTS.map(|part| (part, micros(taken.recent.quantile(part))));
    let (sum, count) = (micros(taken.spans.sum()), taken.spans.count());
    sheet.summary(name, help, labels, (&quantiles, sum, count));
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::histogram::Histogram;

    #[test]
    fn bounds_are_in_microseconds_and_count_what_is_below() {
        let histogram = Histogram::default();
        [1_000, 20_000, 20_000_000, 200_000_000_000].into_iter().for_each(|ns| {
            histogram.record(ns);
        });
        let spans = histogram.snapshot();
        let coarse = buckets(&spans, Steps::Coarse);
        assert_eq!(coarse.up_to.first(), Some(&(16.384, 1)));
        assert_eq!(coarse.up_to.get(1), Some(&(32.768, 2)));
        assert_eq!(coarse.up_to.last(), Some(&(68_719_476.736, 3)));
        assert_eq!((coarse.up_to.len(), coarse.count), (23, 4));
        assert_eq!(coarse.sum, 200_020_021.0);
        let fine = buckets(&spans, Steps::Fine);
        assert_eq!(fine.up_to.get(1), Some(&(24.576, 2)));
        assert!(fine.up_to.is_sorted());
    }
}
