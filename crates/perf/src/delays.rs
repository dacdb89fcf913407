//! How long other tasks of a shard wait for their turn while something is done.
//!
//! A task takes a turn after each turn of another one, and notes the processor time that the
//! shard's thread had in between. The longest such span bounds the longest turn; what other
//! processes take of the processor does not count.

use runtime::counters::cpu_ns;
use runtime::task::{Scope, yield_now};
use std::cell::RefCell;
use std::rc::Rc;

/// Spans in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    pub(crate) p99_ns: u64,
    pub(crate) maximum_ns: u64,
}

impl Spread {
    fn of(mut spans: Vec<u64>) -> Spread {
        spans.sort_unstable();
        let Some(last) = spans.len().checked_sub(1) else { return Spread::default() };
        Spread {
            count: spans.len(),
            p99_ns: spans[(last as f64 * 0.99).round() as usize],
            maximum_ns: spans[last],
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = |ns: u64| ns as f64 / 1e6;
        let (p99, maximum) = (millis(self.p99_ns), millis(self.maximum_ns));
        write!(f, "{{count: {}, 99%: {p99:.6} [ms], max: {maximum:.6} [ms]}}", self.count)
    }
}

/// Awaits `work`, and tells the turns that others had to wait for.
pub(crate) async fn during<T>(work: impl Future<Output = T>) -> (T, Spread) {
    let spans = Rc::new(RefCell::new(Vec::new()));
    let scope = Scope::new();
    let noted = spans.clone();
    scope.spawn(async move {
        let mut before = cpu_ns();
        loop {
            yield_now().await;
            let now = cpu_ns();
            noted.borrow_mut().push(now - before);
            before = now;
        }
    });
    // It has its first turn before the work has one.
    yield_now().await;
    let done = work.await;
    // What the last turn of the work took counts as well.
    yield_now().await;
    scope.cancel().await;
    (done, Spread::of(spans.take()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_span_is_told() {
        let spread = Spread::of((1..=1000).rev().map(|n| n * 1000).collect());
        assert_eq!((spread.count, spread.p99_ns, spread.maximum_ns), (1000, 990_000, 1_000_000));
        let text = "{count: 1000, 99%: 0.990000 [ms], max: 1.000000 [ms]}";
        assert_eq!(spread.to_string(), text);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
