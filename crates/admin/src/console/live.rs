//! Throughput and latency second by second while somebody watches. What was before that is in
//! [`super::history`].
//!
//! Invariants
//!  - *only-while-watched*: nothing is gathered once nobody has asked for [`IDLE_MAX`].
//!  - *bounded*: [`POINTS_MAX`] points are kept.

use super::counts::{EdgeCounts, FIGURES, Point, ShardCounts};
use super::series::{Sample, Series};
use crate::call::Call;
use runtime::task::Scope;
use runtime::time::{Instant, sleep, wall_micros};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
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
    points: Series<{ FIGURES.len() }>,
    shards: RefCell<Value>,
    asked: Cell<Instant>,
}

impl Watch {
    pub(super) fn new(edge: fn() -> EdgeCounts) -> Watch {
        let kept = Kept {
            points: Series::new(&FIGURES, POINTS_MAX),
            shards: RefCell::new(json!([])),
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
        let period = PERIOD.as_millis() as u64;
        let points = self.kept.points.told(after, i64::MIN);
        json!({ "period_ms": period, "points": points, "shards": *self.kept.shards.borrow() })
    }
}

impl Kept {
    fn push(&self, at: i64, point: Point) {
        self.points.push(Sample { at, figures: point.node });
        self.shards.replace(point.shards);
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

    /// The number of the last point, and how many there are.
    fn told(watch: &Watch, query: &str) -> (u64, usize) {
        let points = watch.told(&Call::new(&Method::GET, "/", query))["points"].clone();
        (points["last"].as_u64().unwrap(), points["at"].as_array().unwrap().len())
    }

    #[test]
    fn the_node_is_looked_at_while_somebody_watches() {
        runtime::sim::test(1, || async {
            let watch = Watch::new(|| EdgeCounts { connections: 7, ..EdgeCounts::default() });
            assert_eq!(told(&watch, ""), (0, 0));
            sleep(Duration::from_millis(3_500)).await;
            assert_eq!(told(&watch, "after=0"), (3, 3));
            assert_eq!(told(&watch, "after=2"), (3, 1));
            assert_eq!(told(&watch, "after=99"), (3, 3));
            let shards = watch.told(&Call::new(&Method::GET, "/", ""))["shards"].clone();
            assert_eq!(shards[0]["connections"], json!(7));
            sleep(2 * IDLE_MAX).await;
            assert_eq!(watch.looking.task_count(), 0, "only-while-watched");
            let (_, count) = told(&watch, "");
            sleep(Duration::from_millis(1_500)).await;
            assert_eq!(told(&watch, "").1, count + 1, "and again");
        });
    }

    #[test]
    fn points_are_bounded() {
        runtime::sim::test(1, || async {
            let watch = Watch::new(EdgeCounts::default);
            for _ in 0..POINTS_MAX + 5 {
                watch.kept.push(0, Point::between(&[], &[], 1.0));
            }
            let last = POINTS_MAX as u64 + 5;
            assert_eq!(told(&watch, "after=0"), (last, POINTS_MAX));
        });
    }
}
