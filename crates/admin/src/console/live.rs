//! Throughput and latency over time: the node is looked at each second while somebody watches, and
//! the last minutes are kept, so that a page that is opened again shows what came before.
//!
//! Invariants
//!  - *only-while-watched*: nothing is gathered once nobody has asked for [`IDLE_MAX`].
//!  - *bounded*: [`POINTS_MAX`] points are kept.

use super::counts::{EdgeCounts, Point, ShardCounts};
use crate::call::Call;
use runtime::task::Scope;
use runtime::time::{Instant, sleep, wall_micros};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Points kept: ten minutes.
const POINTS_MAX: usize = 600;
/// Looks end when nobody has asked for so long.
const IDLE_MAX: Duration = Duration::from_secs(120);

pub(super) struct Watch {
    edge: fn() -> EdgeCounts,
    kept: Rc<Kept>,
    looking: Scope,
}

/// The last minutes.
struct Kept {
    /// Looks of the past, in ascending order: each with its number and its time, in milliseconds
    /// since 1970.
    points: RefCell<VecDeque<(u64, i64, Value)>>,
    shards: RefCell<Value>,
    next: Cell<u64>,
    asked: Cell<Instant>,
}

impl Watch {
    pub(super) fn new(edge: fn() -> EdgeCounts) -> Watch {
        let kept = Kept {
            points: RefCell::default(),
            shards: RefCell::new(json!([])),
            next: Cell::new(1),
            asked: Cell::new(Instant::now()),
        };
        Watch { edge, kept: Rc::new(kept), looking: Scope::new() }
    }

    /// The points after the one with the number `after`, and the shards as they are.
    pub(super) fn told(&self, call: &Call) -> Value {
        self.kept.asked.set(Instant::now());
        if self.looking.task_count() == 0 {
            self.looking.spawn(look(self.kept.clone(), self.edge));
        }
        let after = call.parameter("after").and_then(|text| text.parse().ok()).unwrap_or(0);
        self.kept.after(after)
    }
}

impl Kept {
    fn push(&self, at_millis: i64, point: Point) {
        let number = self.next.get();
        self.next.set(number + 1);
        let mut points = self.points.borrow_mut();
        points.push_back((number, at_millis, point.node));
        while POINTS_MAX < points.len() {
            points.pop_front();
        }
        self.shards.replace(point.shards);
    }

    fn after(&self, after: u64) -> Value {
        // A number that is not there yet is of another run of the node.
        let after = if after < self.next.get() { after } else { 0 };
        let points = self.points.borrow();
        let told = points.iter().filter(|(number, ..)| after < *number);
        let told: Vec<Value> = told
            .map(|(number, at, node)| {
                let mut point = node.clone();
                point["n"] = json!(number);
                point["at"] = json!(at);
                point
            })
            .collect();
        let period = PERIOD.as_millis() as u64;
        json!({ "period_ms": period, "points": told, "shards": *self.shards.borrow() })
    }
}

/// Looks at the node until nobody watches.
async fn look(kept: Rc<Kept>, edge: fn() -> EdgeCounts) {
    let gather = || runtime::on_all_shards(move || async move { ShardCounts::of_shard(edge) });
    let (mut before, mut since) = (gather().await, Instant::now());
    while kept.asked.get().elapsed() < IDLE_MAX {
        sleep(PERIOD).await;
        let (counts, now) = (gather().await, Instant::now());
        let seconds = (now - since).as_secs_f64();
        kept.push(wall_micros() / 1000, Point::between(&before, &counts, seconds));
        (before, since) = (counts, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

    fn told(watch: &Watch, query: &str) -> Vec<u64> {
        let told = watch.told(&Call::new(&Method::GET, "/", query));
        let points = told["points"].as_array().cloned().unwrap_or_default();
        points.iter().filter_map(|point| point["n"].as_u64()).collect()
    }

    #[test]
    fn the_node_is_looked_at_while_somebody_watches() {
        runtime::sim::test(1, || async {
            let watch = Watch::new(|| EdgeCounts { connections: 7, ..EdgeCounts::default() });
            assert!(told(&watch, "").is_empty());
            sleep(Duration::from_millis(3_500)).await;
            assert_eq!(told(&watch, "after=0"), [1, 2, 3]);
            assert_eq!(told(&watch, "after=2"), [3]);
            assert_eq!(told(&watch, "after=99"), [1, 2, 3]);
            let shards = watch.told(&Call::new(&Method::GET, "/", ""))["shards"].clone();
            assert_eq!(shards[0]["connections"], json!(7));
            sleep(2 * IDLE_MAX).await;
            assert_eq!(watch.looking.task_count(), 0, "only-while-watched");
            let count = told(&watch, "").len();
            sleep(Duration::from_millis(1_500)).await;
            assert_eq!(told(&watch, "").len(), count + 1, "and again");
        });
    }

    #[test]
    fn points_are_bounded() {
        runtime::sim::test(1, || async {
            let watch = Watch::new(EdgeCounts::default);
            for _ in 0..POINTS_MAX + 5 {
                watch.kept.push(0, Point::between(&[], &[], 1.0));
            }
            let numbers = told(&watch, "after=0");
            assert_eq!((numbers.len(), numbers[0]), (POINTS_MAX, 6));
        });
    }
}
