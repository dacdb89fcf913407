//! The output of `perf-cql-raw`: a line per sample, aggregates with latencies and errors, JSON.

use super::options::Options;
use crate::latencies::Latencies;
use crate::statistics::Aggregate;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A second, or a number of operations, of one shard or of all.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    /// Answered well, in time.
    pub(super) done: u64,
    /// Answered well, too late.
    pub(super) late: u64,
    /// Fell due, and no stream was free for it.
    pub(super) unsent: u64,
    /// Answered with an error, by its code.
    pub(super) failed: BTreeMap<u32, u64>,
    /// Of what was answered well, in microseconds.
    pub(super) latencies: Latencies,
}

impl Sample {
    pub(super) fn new() -> Sample {
        let (failed, latencies) = (BTreeMap::new(), Latencies::default());
        Sample { seconds: 0.0, done: 0, late: 0, unsent: 0, failed, latencies }
    }

    /// What all shards did.
    pub(super) fn sum(shards: Vec<Sample>) -> Sample {
        shards.into_iter().fold(Sample::new(), |mut sum, shard| {
            sum.seconds = sum.seconds.max(shard.seconds);
            sum.add(&shard);
            sum
        })
    }

    fn add(&mut self, other: &Sample) {
        self.done += other.done;
        self.late += other.late;
        self.unsent += other.unsent;
        for (code, count) in &other.failed {
            *self.failed.entry(*code).or_default() += count;
        }
        self.latencies.add(&other.latencies);
    }

    /// Answered well, so long after it was due.
    pub(super) fn record(&mut self, micros: u64, timeout_micros: u64) {
        if micros <= timeout_micros {
            self.done += 1;
        } else {
            self.late += 1;
        }
        self.latencies.note(micros);
    }

    pub(super) fn errors(&self) -> u64 {
        self.failed.values().sum()
    }

    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds.max(1e-9)
    }

    fn throughput(&self) -> f64 {
        self.rate(self.done)
    }

    /// One line.
    pub(super) fn line(&self) -> String {
        format!(
            "{:.2} tps ({:8.0} late/s, {:8.0} errors/s, {:8.0} unsent/s, ms: {})",
            self.throughput(),
            self.rate(self.late),
            self.rate(self.errors()),
            self.rate(self.unsent),
            latencies(&self.latencies)
        )
    }
}

fn millis(latencies: &Latencies, share: f64) -> f64 {
    latencies.quantile(share) as f64 / 1000.0
}

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

fn latencies(latencies: &Latencies) -> String {
    let parts = QUANTILES.map(|(name, at)| format!("{name} {:.3}", millis(latencies, at)));
    parts.join(", ")
}

/// All samples as one. Their histograms are large: others get their turn in between.
pub(super) async fn total(samples: &[Sample]) -> Sample {
    let mut total = Sample::new();
    for sample in samples {
        total.seconds += sample.seconds;
        total.add(sample);
        runtime::task::yield_if_needed().await;
    }
    total
}

/// What an error code is called.
fn name(code: u32) -> String {
    match code {
        0x0000 => "server error".to_string(),
        0x1000 => "unavailable".to_string(),
        0x1001 => "overloaded".to_string(),
        0x1100 => "write timeout".to_string(),
        0x1200 => "read timeout".to_string(),
        0x2200 => "invalid".to_string(),
        0x2500 => "unprepared".to_string(),
        code => format!("{code:#06x}"),
    }
}

/// Errors by kind.
pub(super) fn kinds(total: &Sample) -> String {
    let kinds = total.failed.iter().map(|(code, count)| format!("{} {count}", name(*code)));
    let kinds: Vec<String> = kinds.collect();
    if kinds.is_empty() { "none".to_string() } else { kinds.join(", ") }
}

/// Everything after the samples, of which `total` is the sum.
pub(super) fn aggregates(samples: &[Sample], total: &Sample) -> String {
    let throughput: Vec<f64> = samples.iter().map(Sample::throughput).collect();
    let mut out = String::from("\n");
    if let Some(aggregate) = Aggregate::of(&throughput) {
        out.push_str(&aggregate.lines("throughput"));
    }
    out.push_str(&format!("latency (ms): {}\n", latencies(&total.latencies)));
    out.push_str(&format!(
        "answered {}, late {}, unsent {}, errors: {}\n",
        total.done,
        total.late,
        total.unsent,
        kinds(total)
    ));
    out
}

/// The result as JSON; `total` is the sum of the samples.
pub(super) fn json(options: &Options, shards: u16, samples: &[Sample], total: &Sample) -> Value {
    let throughput: Vec<f64> = samples.iter().map(Sample::throughput).collect();
    let aggregate = Aggregate::of(&throughput);
    let latencies: serde_json::Map<String, Value> = QUANTILES
        .iter()
        .map(|(name, at)| (name.to_string(), json!(millis(&total.latencies, *at))))
        .collect();
    let errors: serde_json::Map<String, Value> =
        total.failed.iter().map(|(code, count)| (name(*code), json!(count))).collect();
    json!({
        "parameters": {
            "workload": options.workload.name(),
            "partitions": options.partitions,
            "connections": options.connections * shards as usize,
            "concurrency": options.concurrency,
            "rate": options.rate,
            "cpus": shards,
            "duration": samples.len(),
        },
        "stats": {
            "median tps": aggregate.map(|aggregate| aggregate.median),
            "mad tps": aggregate.map(|aggregate| aggregate.median_absolute_deviation),
            "max tps": aggregate.map(|aggregate| aggregate.maximum),
            "min tps": aggregate.map(|aggregate| aggregate.minimum),
            "mean tps": aggregate.map(|aggregate| aggregate.mean),
            "answered": total.done,
            "late": total.late,
            "unsent": total.unsent,
            "errors": errors,
            "latency_ms": latencies,
        },
        "test_properties": { "type": options.workload.name() },
        "versions": crate::versions(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_add_up() {
        let mut one = Sample { seconds: 1.0, ..Sample::new() };
        (1..=100).for_each(|n| one.record(n * 1000, 90_000));
        one.failed.insert(0x1001, 7);
        let mut two = Sample { seconds: 1.1, unsent: 3, ..Sample::new() };
        two.failed.insert(0x1001, 1);
        two.failed.insert(0x2500, 2);
        let sum = Sample::sum(vec![one.clone(), two]);
        assert_eq!((sum.done, sum.late, sum.unsent, sum.errors()), (90, 10, 3, 10));
        assert_eq!(sum.seconds, 1.1);
        assert_eq!(kinds(&sum), "overloaded 8, unprepared 2");
        let p99 = millis(&sum.latencies, 0.99);
        assert!((98.9..99.2).contains(&p99), "{p99}");
        assert!(sum.line().starts_with("81.82 tps"), "{}", sum.line());
        assert_eq!(kinds(&Sample::new()), "none");
    }
}
