//! Ranges of rows as the cases of single-key slicing name them.

use super::dataset::Dataset;
use mutation::{ClusteringPosition, ClusteringRange};
use std::fmt;

/// A bound: a row, and whether it is inside.
pub(crate) type Bound = (u64, bool);

/// Rows between two bounds; `None`: no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: Option<Bound>,
    pub(crate) end: Option<Bound>,
}

impl Range {
    const fn closed(start: u64, end: u64) -> Range {
        Range { start: Some((start, true)), end: Some((end, true)) }
    }

    const fn left_open(start: u64, end: u64) -> Range {
        Range { start: Some((start, false)), end: Some((end, true)) }
    }

    const fn right_open(start: u64, end: u64) -> Range {
        Range { start: Some((start, true)), end: Some((end, false)) }
    }

    /// How many of `n` rows lie in it.
    pub(crate) fn count(&self, n: u64) -> u64 {
        let from = self.start.map_or(0, |(row, inside)| row + u64::from(!inside));
        let to = self.end.map_or(n, |(row, inside)| row + u64::from(inside));
        to.min(n).saturating_sub(from)
    }

    /// Whether every row of `other` lies in it, of `n`.
    pub(crate) fn covers(&self, other: &Range) -> bool {
        let low = |range: &Range| range.start.map_or(0, |(row, inside)| row + u64::from(!inside));
        let high =
            |range: &Range| range.end.map_or(u64::MAX, |(row, inside)| row + u64::from(inside));
        low(self) <= low(other) && high(other) <= high(self)
    }

    /// As a reader takes it.
    pub(crate) fn clustering(&self, dataset: &Dataset) -> ClusteringRange {
        let bound = |(row, before)| if before { dataset.before(row) } else { dataset.after(row) };
        let start = self.start.map_or(ClusteringPosition::start(), bound);
        let end = self.end.map_or(ClusteringPosition::end(), |(row, inside)| bound((row, !inside)));
        ClusteringRange { start, end }
    }

    /// As files are called.
    pub(crate) fn file_name(&self) -> String {
        let word = |inside| if inside { "incl" } else { "excl" };
        let mut parts = Vec::new();
        parts.push(match self.start {
            Some((row, inside)) => format!("begin_{}_{row}", word(inside)),
            None => "begin_inf".to_string(),
        });
        parts.push(match self.end {
            Some((row, inside)) => format!("end_{}_{row}", word(inside)),
            None => "end_inf".to_string(),
        });
        parts.join("-")
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.start {
            Some((row, true)) => write!(f, "[{row}, ")?,
            Some((row, false)) => write!(f, "({row}, ")?,
            None => write!(f, "(-inf, ")?,
        }
        match self.end {
            Some((row, true)) => write!(f, "{row}]"),
            Some((row, false)) => write!(f, "{row})"),
            None => write!(f, "+inf)"),
        }
    }
}

/// Reads that follow each other: the later ones meet what the earlier ones left in the cache.
pub(crate) fn all(n: u64) -> Vec<Vec<Range>> {
    let half = n / 2;
    let open = Range { start: None, end: None };
    let from = |row| Range { start: Some((row, true)), end: None };
    let to = |row| Range { start: None, end: Some((row, true)) };
    vec![
        // The same again.
        vec![Range::closed(0, 1), Range::closed(0, 1)],
        vec![Range::closed(0, half), Range::closed(0, half)],
        vec![Range::closed(0, n), Range::closed(0, n)],
        // Adjacent.
        vec![Range::closed(0, half), Range::left_open(half, n)],
        vec![Range::right_open(0, half), Range::closed(half, n)],
        // Contained.
        vec![Range::closed(0, n), Range::closed(half, half + 1)],
        vec![Range::closed(0, half), Range::closed(1, half - 1)],
        // Overlapping.
        vec![Range::closed(0, half), Range::closed(half / 2, half + half / 2)],
        vec![Range::closed(half, n), Range::closed(half / 2, half + half / 2)],
        // Enclosed, and enclosing.
        vec![Range::closed(half / 2, half), Range::closed(0, n)],
        vec![Range::closed(half, half), Range::closed(half - 1, half + 1)],
        // A single row left out.
        vec![Range::closed(half, half), Range::left_open(half, half + 1)],
        vec![Range::right_open(half - 1, half), Range::closed(half, half)],
        // Open-ended.
        vec![open, open],
        vec![from(half), open],
        vec![to(half), from(half)],
        vec![open, from(half)],
        // Gaps.
        vec![Range::closed(0, 1), Range::closed(half, half + 1), Range::closed(0, half + 1)],
        vec![Range::closed(half, half + 1), Range::closed(0, 1), Range::closed(0, n)],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_rows_and_have_names() {
        let check = |range: Range, count, text: &str, file: &str| {
            assert_eq!(range.count(100), count, "{text}");
            assert_eq!((range.to_string().as_str(), range.file_name().as_str()), (text, file));
        };
        check(Range::closed(0, 1), 2, "[0, 1]", "begin_incl_0-end_incl_1");
        check(Range::left_open(50, 51), 1, "(50, 51]", "begin_excl_50-end_incl_51");
        check(Range::right_open(49, 50), 1, "[49, 50)", "begin_incl_49-end_excl_50");
        check(Range::closed(0, 100), 100, "[0, 100]", "begin_incl_0-end_incl_100");
        check(Range { start: None, end: None }, 100, "(-inf, +inf)", "begin_inf-end_inf");
    }

    #[test]
    fn what_was_read_before_covers() {
        assert!(Range::closed(0, 10).covers(&Range::left_open(3, 10)));
        assert!(!Range::right_open(0, 10).covers(&Range::closed(3, 10)));
        assert!(Range { start: None, end: None }.covers(&Range::closed(0, 5)));
    }
}
