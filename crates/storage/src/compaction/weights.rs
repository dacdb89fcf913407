//! How many merges a shard does at the same time: one of a size, and few.
//!
//! Sizes are powers of four, so two of about one size rarely run together, and the sum of what
//! runs is hardly more than the largest. What costs nothing counts for nothing.

use std::cell::RefCell;
use std::rc::Rc;

/// Merges that count, at most.
const RUNNING_MAX: usize = 4;

/// Smaller merges are of one size.
const SMALL_BYTES: u64 = 1 << 20;

/// The weights of the merges that run.
#[derive(Clone, Default)]
pub(crate) struct Weights(Rc<RefCell<Vec<u32>>>);

/// A merge that counts until this goes.
pub(crate) struct Counted {
    all: Weights,
    weight: Option<u32>,
}

/// The weight of a merge of so many bytes.
pub(crate) fn weight_of(bytes: u64) -> u32 {
    bytes.saturating_add(SMALL_BYTES).ilog(4) - SMALL_BYTES.ilog(4)
}

impl Weights {
    /// Whether a merge of that weight may begin.
    pub(crate) fn allow(&self, weight: Option<u32>) -> bool {
        let running = self.0.borrow();
        weight.is_none_or(|weight| running.len() < RUNNING_MAX && !running.contains(&weight))
    }

    pub(crate) fn count(&self, weight: Option<u32>) -> Counted {
        debug_assert!(
            weight.is_none_or(|weight| !self.0.borrow().contains(&weight)),
            "one-of-a-size: {weight:?} runs"
        );
        self.0.borrow_mut().extend(weight);
        let running = self.0.borrow().len();
        assert!(running <= RUNNING_MAX, "one-of-a-size: {running} run");
        Counted { all: self.clone(), weight }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut running = self.all.0.borrow_mut();
        let is_counted = self.weight.is_none_or(|weight| running.contains(&weight));
        assert!(is_counted, "one-of-a-size: {:?} is not counted", self.weight);
        if let Some(at) = running.iter().position(|one| Some(*one) == self.weight) {
            running.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_four() {
        for (mb, weight) in [(0, 0), (2, 0), (3, 1), (14, 1), (15, 2), (63, 3), (1023, 5)] {
            assert_eq!(weight_of(mb << 20), weight, "{mb} MB");
        }
        assert_eq!(weight_of(u64::MAX), 21);
    }

    #[test]
    fn of_one_size_one_runs_and_few_in_all() {
        let weights = Weights::default();
        let first = weights.count(Some(1));
        assert!(!weights.allow(Some(1)) && weights.allow(Some(2)) && weights.allow(None));
        let more: Vec<_> = (2..5).map(|weight| weights.count(Some(weight))).collect();
        assert!(!weights.allow(Some(9)) && weights.allow(None));
        let nothing = weights.count(None);
        drop(more);
        drop(nothing);
        assert!(!weights.allow(Some(1)) && weights.allow(Some(9)));
        drop(first);
        assert!(weights.allow(Some(1)));
    }
}
