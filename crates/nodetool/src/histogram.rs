//! What histograms of a node say.

use crate::answer::list;
use serde_json::Value;

/// The percentiles that are shown, and the names of their lines.
pub(crate) const SHOWN: [(&str, f64); 5] =
    [("50%", 0.5), ("75%", 0.75), ("95%", 0.95), ("98%", 0.98), ("99%", 0.99)];

/// The percentiles of [`SHOWN`], then the least and the largest.
pub(crate) type Spread = [f64; 7];

/// Of a sample of values, between which it is drawn straight.
pub(crate) fn of_sample(told: &Value) -> Spread {
    let mut sample: Vec<f64> = list(&told["hist"]["sample"]).filter_map(Value::as_f64).collect();
    sample.sort_by(f64::total_cmp);
    let (Some(least), Some(largest)) = (sample.first(), sample.last()) else { return [0.0; 7] };
    let at = |part: f64| {
        let place = part * (sample.len() + 1) as f64;
        let whole = place.floor() as usize;
        match whole {
            0 => *least,
            whole if sample.len() <= whole => *largest,
            whole => {
                let (low, high) = (sample[whole - 1], sample[whole]);
                low + (place - place.floor()) * (high - low)
            }
        }
    };
    spread(at, *least, *largest)
}

/// Of counts between offsets: bucket `n` holds what is above offset `n - 1`, up to offset `n`.
pub(crate) fn of_buckets(told: &Value) -> Spread {
    let counts: Vec<u64> = list(&told["buckets"]).filter_map(Value::as_u64).collect();
    let offsets: Vec<f64> = list(&told["bucket_offsets"]).filter_map(Value::as_f64).collect();
    let total: u64 = counts.iter().sum();
    // What is above the last offset is in a bucket of its own.
    let offset = |index: usize| offsets.get(index).or(offsets.last()).copied().unwrap_or(0.0);
    let at = |part: f64| {
        let (wanted, mut passed) = ((total as f64 * part).floor() as u64, 0);
        for (index, count) in counts.iter().enumerate() {
            passed += count;
            if 0 < passed && wanted <= passed {
                return offset(index);
            }
        }
        0.0
    };
    let held = |index: &usize| counts[*index] != 0;
    let least = (0..counts.len()).find(held).filter(|index| *index != 0);
    let largest = (0..counts.len()).rev().find(held);
    spread(at, least.map_or(0.0, |index| 1.0 + offset(index - 1)), largest.map_or(0.0, offset))
}

fn spread(at: impl Fn(f64) -> f64, least: f64, largest: f64) -> Spread {
    let [a, b, c, d, e] = SHOWN.map(|(_, part)| at(part));
    [a, b, c, d, e, least, largest]
}

/// The names of the lines.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SHOWN.iter().map(|(name, _)| *name).chain(["Min", "Max"])
}

#[cfg(test)]
mod tests;
