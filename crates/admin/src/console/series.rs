//! Figures over time: rows of numbers with a time each, the oldest of which goes when there is no
//! room.
//!
//! Invariants
//!  - *bounded*: a series keeps so many samples as it was made for, of `8 + 4 * N` bytes each.
//!  - *ascending*: samples have numbers that ascend.

use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The figures of one moment; NaN: there was nothing to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample<const N: usize> {
    /// Milliseconds since 1970.
    pub(super) at: i64,
    pub(super) figures: [f32; N],
}

/// Samples in the order of their numbers.
#[derive(Debug)]
pub(super) struct Series<const N: usize> {
    names: &'static [&'static str; N],
    samples_max: usize,
    samples: RefCell<VecDeque<Sample<N>>>,
    /// The number of the next sample, counted from 1.
    next: Cell<u64>,
}

impl<const N: usize> Series<N> {
    pub(super) fn new(names: &'static [&'static str; N], samples_max: usize) -> Series<N> {
        Series { names, samples_max, samples: RefCell::default(), next: Cell::new(1) }
    }

    pub(super) fn push(&self, sample: Sample<N>) {
        let mut samples = self.samples.borrow_mut();
        if samples.len() == self.samples_max {
            samples.pop_front();
        }
        samples.push_back(sample);
        self.next.set(self.next.get() + 1);
        assert!(samples.len() <= self.samples_max, "bounded");
    }

    /// Column by column, what came after the sample of that number and is not older than `since`:
    /// `{"last": 7, "at": [..], "reads": [..], ..}`.
    pub(super) fn told(&self, after: u64, since: i64) -> Value {
        let samples = self.samples.borrow();
        let next = self.next.get();
        // A number that is not there yet is of another run of the node.
        let after = if after < next { after } else { 0 };
        let first = next - samples.len() as u64;
        let numbered = samples.iter().zip(first..);
        let wanted = numbered.filter(|(one, number)| after < *number && since <= one.at);
        let wanted: Vec<&Sample<N>> = wanted.map(|(one, _)| one).collect();
        let mut columns = Map::new();
        columns.insert("last".to_owned(), json!(next - 1));
        columns.insert("at".to_owned(), wanted.iter().map(|one| one.at).collect());
        for (place, name) in self.names.iter().enumerate() {
            let values = wanted.iter().map(|one| rounded(one.figures[place]));
            columns.insert((*name).to_owned(), values.collect());
        }
        Value::Object(columns)
    }
}

/// A figure with the digits that a plot can show.
fn rounded(figure: f32) -> Value {
    match f64::from(figure) {
        it if !it.is_finite() => Value::Null,
        it if it == it.trunc() => json!(it as i64),
        it => json!((it * 1e3).round() / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_bounded_and_told_by_column() {
        let series = Series::new(&["a", "b"], 3);
        for number in 1..=5 {
            let figures = [number as f32, if number == 4 { f32::NAN } else { 0.123_456 }];
            series.push(Sample { at: 1_000 * number, figures });
        }
        let check = |after, since, at: Value, b: Value| {
            let told = series.told(after, since);
            assert_eq!((&told["at"], &told["b"], &told["last"]), (&at, &b, &json!(5)), "{told}");
        };
        check(0, 0, json!([3000, 4000, 5000]), json!([0.123, null, 0.123]));
        check(4, 0, json!([5000]), json!([0.123]));
        check(5, 0, json!([]), json!([]));
        check(0, 4000, json!([4000, 5000]), json!([null, 0.123]));
        check(99, 5000, json!([5000]), json!([0.123]));
        assert_eq!(series.told(4, 0)["a"], json!([5]));
    }
}
