//! How long operations took.

use hdrhistogram::Histogram;

/// The longest latency that is told from longer ones: ten minutes of nanoseconds.
const LONGEST: u64 = 600_000_000_000;

/// Latencies in a unit of their owner's, to three digits. Noting one costs the same however many
/// there are, and so does telling what share of them was how short.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        let made = Histogram::new_with_bounds(1, LONGEST, 3);
        Latencies(made.expect("the bounds are constants that a histogram takes"))
    }
}

impl Latencies {
    /// Counts one; nothing is shorter than 1.
    pub(crate) fn note(&mut self, latency: u64) {
        self.0.saturating_record(latency.max(1));
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// That share of them was as short as this or shorter; 0 if there are none.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok(), "histograms of the same bounds");
    }
}

impl FromIterator<u64> for Latencies {
    fn from_iter<I: IntoIterator<Item = u64>>(all: I) -> Latencies {
        let mut latencies = Latencies::default();
        all.into_iter().for_each(|one| latencies.note(one));
        latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_two_are_those_of_their_sum() {
        let (mut few, many): (Latencies, Latencies) = ((1..=10).collect(), (11..=1000).collect());
        few.add(&many);
        assert_eq!((few.len(), few.quantile(0.5), few.quantile(0.99)), (1000, 500, 990));
        assert_eq!(few.quantile(1.0), 1000);
        few.note(u64::MAX);
        assert!(few.quantile(1.0) >= LONGEST);
        assert_eq!((Latencies::default().len(), Latencies::default().quantile(0.5)), (0, 0));
    }
}
