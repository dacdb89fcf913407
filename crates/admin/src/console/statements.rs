//! Statements grouped by their form, and the switches of what is recorded of them.
//!
//! Invariants
//!  - *ends-by-itself*: nothing is recorded once nobody has asked for it for [`IDLE_MAX`].

use crate::call::{Answer, Call};
use cluster::statements::{self, Cost};
use cluster::{SlowQueries, TraceRules};
use runtime::task::Scope;
use runtime::time::{Instant, sleep, wall_micros};
use serde_json::{Value, json};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Forms that are shown.
const LISTED_MAX: usize = 200;
/// Recording ends when no page has asked for so long.
const IDLE_MAX: Duration = Duration::from_secs(600);
const PERIOD: Duration = Duration::from_secs(5);

/// Whether statements are recorded for the page.
pub(super) struct Recording {
    state: Rc<Turned>,
    ending: Scope,
}

struct Turned {
    /// Milliseconds since 1970; `None`: nothing is recorded.
    since: Cell<Option<i64>>,
    until: Cell<i64>,
    asked: Cell<Instant>,
}

impl Recording {
    pub(super) fn new() -> Recording {
        let asked = Cell::new(Instant::now());
        let state = Turned { since: Cell::new(None), until: Cell::new(0), asked };
        Recording { state: Rc::new(state), ending: Scope::new() }
    }

    /// What was recorded, those forms first that took most time.
    pub(super) async fn listed(&self) -> Value {
        self.state.asked.set(Instant::now());
        let all = statements::of_node().await;
        let nanos: u64 = all.iter().map(|(_, cost)| cost.nanos).sum();
        let forms = all.iter().take(LISTED_MAX).map(|(form, cost)| shown(form, cost, nanos));
        let (since, until) = (self.state.since.get(), self.state.until.get());
        json!({
            "recording": TraceRules::of_shard().counts(),
            "seconds": since.map(|since| {
                let end = if TraceRules::of_shard().counts() { now_millis() } else { until };
                (end - since).max(0) as f64 / 1e3
            }),
            "forms": Value::from_iter(forms),
        })
    }

    /// Begins or ends.
    pub(super) async fn turn(&self, call: &Call) -> Result<Answer, Answer> {
        let wanted = call.flag("enable", true)?;
        self.state.asked.set(Instant::now());
        if wanted && !TraceRules::of_shard().counts() {
            self.state.since.set(Some(now_millis()));
        }
        self.state.record(wanted).await;
        if wanted && self.ending.task_count() == 0 {
            self.ending.spawn_in(runtime::group::BACKGROUND, self.state.clone().end());
        }
        Ok(Answer::done())
    }
}

impl Turned {
    async fn record(&self, wanted: bool) {
        if !wanted && TraceRules::of_shard().counts() {
            self.until.set(now_millis());
        }
        statements::record_on_node(wanted).await;
    }

    /// Ends recording once nobody asks (*ends-by-itself*).
    async fn end(self: Rc<Self>) {
        while TraceRules::of_shard().counts() {
            if IDLE_MAX <= self.asked.get().elapsed() {
                self.record(false).await;
                tracing::info!(target: "api", "statements are not recorded any more: no page asks");
            }
            sleep(PERIOD).await;
        }
    }
}

fn now_millis() -> i64 {
    wall_micros().div_euclid(1000)
}

fn shown(form: &str, cost: &Cost, nanos: u64) -> Value {
    let micros = |nanos: u64| nanos as f64 / 1e3;
    json!({
        "form": form,
        "count": cost.count,
        "rows": cost.rows,
        "mean_us": micros(cost.nanos) / cost.count.max(1) as f64,
        "p99_us": micros(cost.quantile(0.99)),
        "max_us": micros(cost.nanos_max),
        "share": cost.nanos as f64 / nanos.max(1) as f64,
    })
}

/// Sets which requests are slow: `enable`, `threshold_us`.
pub(super) async fn set_slow(call: &Call) -> Result<Answer, Answer> {
    let rules = TraceRules::of_shard().slow();
    let slow = SlowQueries {
        enabled: call.flag("enable", rules.enabled)?,
        threshold_micros: call.number("threshold_us", Some(rules.threshold_micros))?,
        ..rules
    };
    TraceRules::set_slow(slow).await;
    let state = if slow.enabled { "on" } else { "off" };
    tracing::info!(target: "api", "the slow query log is {state}, set by the console");
    Ok(Answer::done())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::statements::Statements;
    use hyper::Method;

    #[test]
    fn recording_is_turned_and_ends_by_itself() {
        runtime::sim::test(1, || async {
            let recording = Recording::new();
            let turn = async |query: &str| {
                let call = Call::new(&Method::POST, "/", query);
                recording.turn(&call).await.map(|answer| answer.status)
            };
            assert_eq!(recording.listed().await["recording"], json!(false));
            assert_eq!(turn("enable=true").await, Ok(200));
            Statements::of_shard().record("SELECT ?", 3_000, 2);
            Statements::of_shard().record("INSERT ?", 1_000, 0);
            sleep(Duration::from_secs(2)).await;
            let told = recording.listed().await;
            assert_eq!((&told["recording"], &told["seconds"]), (&json!(true), &json!(2.0)));
            let first = &told["forms"][0];
            assert_eq!((&first["form"], &first["share"]), (&json!("SELECT ?"), &json!(0.75)));
            assert_eq!((&first["mean_us"], &first["rows"]), (&json!(3.0), &json!(2)));
            sleep(IDLE_MAX / 2).await;
            assert_eq!(recording.listed().await["recording"], json!(true));
            sleep(IDLE_MAX + 2 * PERIOD).await;
            assert!(!TraceRules::of_shard().any(), "ends-by-itself");
            let told = recording.listed().await;
            assert_eq!(told["forms"].as_array().unwrap().len(), 2, "what was recorded stays");
            assert_eq!(turn("enable=maybe").await.unwrap_err().status, 400);
        });
    }

    #[test]
    fn the_slow_log_is_switched() {
        runtime::sim::test(1, || async {
            let call = Call::new(&Method::POST, "/", "enable=true&threshold_us=2000");
            set_slow(&call).await.unwrap();
            let slow = TraceRules::of_shard().slow();
            assert_eq!((slow.enabled, slow.threshold_micros), (true, 2000));
            set_slow(&Call::new(&Method::POST, "/", "enable=false")).await.unwrap();
            let slow = TraceRules::of_shard().slow();
            assert_eq!((slow.enabled, slow.threshold_micros), (false, 2000));
        });
    }
}
