//! Aggregates over samples, as the performance tools print them.

/// Mean, spread and extremes of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) mean: f64,
    /// With n - 1 in the denominator; 0 for one sample.
    pub(crate) standard_deviation: f64,
    pub(crate) median: f64,
    /// Median of the distances to the mean.
    pub(crate) median_absolute_deviation: f64,
    pub(crate) maximum: f64,
    pub(crate) minimum: f64,
}

impl Aggregate {
    /// `None` for no samples.
    pub(crate) fn of(samples: &[f64]) -> Option<Aggregate> {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let deviations: Vec<f64> = samples.iter().map(|sample| (sample - mean).abs()).collect();
        Some(Aggregate {
            mean,
            standard_deviation: if 1.0 < count { (squares / (count - 1.0)).sqrt() } else { 0.0 },
            median: median(samples)?,
            median_absolute_deviation: median(&deviations)?,
            maximum: samples.iter().copied().fold(f64::MIN, f64::max),
            minimum: samples.iter().copied().fold(f64::MAX, f64::min),
        })
    }

    /// The lines of the report, under a heading.
    pub(crate) fn lines(&self, heading: &str) -> String {
        format!(
            "{heading}:\n\tmean=   {:.2} standard-deviation={:.2}\n\tmedian= {:.2} \
             median-absolute-deviation={:.2}\n\tmaximum={:.2} minimum={:.2}\n",
            self.mean,
            self.standard_deviation,
            self.median,
            self.median_absolute_deviation,
            self.maximum,
            self.minimum
        )
    }
}

/// The middle sample; of an even count the lower of the two, so that it is one that was measured.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates() {
        let aggregate = Aggregate::of(&[1.0, 2.0, 3.0, 4.0, 10.0]).unwrap();
        assert_eq!((aggregate.mean, aggregate.median), (4.0, 3.0));
        assert_eq!((aggregate.minimum, aggregate.maximum), (1.0, 10.0));
        assert!((aggregate.standard_deviation - 12.5f64.sqrt()).abs() < 1e-9);
        assert_eq!(aggregate.median_absolute_deviation, 2.0);
        assert_eq!(Aggregate::of(&[]), None);
        assert_eq!(Aggregate::of(&[7.0]).unwrap().standard_deviation, 0.0);
    }
}
