//! Write timestamps of a shard.
//!
//! Invariants
//!  - *never-back*: they ascend strictly, whatever the wall clock does.

use std::cell::Cell;

/// The source of one shard.
#[derive(Debug)]
pub(crate) struct Timestamps {
    last: Cell<i64>,
}

impl Timestamps {
    pub(crate) fn new() -> Timestamps {
        Timestamps { last: Cell::new(i64::MIN) }
    }

    /// A write timestamp, microseconds.
    pub(crate) fn next(&self, now_micros: i64) -> i64 {
        let next = now_micros.max(self.last.get().saturating_add(1));
        self.last.set(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_back_when_the_clock_does() {
        let timestamps = Timestamps::new();
        assert_eq!([5, 5, 3, 9].map(|now| timestamps.next(now)), [5, 6, 7, 9]);
    }
}
