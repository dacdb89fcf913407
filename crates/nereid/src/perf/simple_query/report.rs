//! The output of `perf-simple-query`: a line per sample, aggregates, JSON.

use super::options::Options;
use super::workload::Worked;
use crate::perf::statistics::Aggregate;
use serde_json::{Value, json};

/// One measured second, or a fixed number of operations.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    pub(crate) worked: Worked,
}

impl Sample {
    fn throughput(&self) -> f64 {
        self.worked.operations as f64 / self.seconds
    }

    fn per_operation(&self, count: u64) -> f64 {
        count as f64 / self.worked.operations.max(1) as f64
    }

    fn instructions(&self) -> Option<f64> {
        self.worked.instructions.map(|count| self.per_operation(count))
    }

    fn cycles(&self) -> Option<f64> {
        self.worked.cycles.map(|count| self.per_operation(count))
    }

    /// One line, in the shape that scripts read.
    pub(crate) fn line(&self) -> String {
        let optional = |value: Option<f64>| match value {
            Some(value) => format!("{value:7.0}"),
            None => format!("{:>7}", "n/a"),
        };
        format!(
            "{:.2} tps ({:5.1} allocs/op, {:5.1} logallocs/op, {:5.1} tasks/op, {} insns/op, {} \
             cycles/op, {:8} errors)",
            self.throughput(),
            self.per_operation(self.worked.allocations),
            0.0,
            self.per_operation(self.worked.tasks),
            optional(self.instructions()),
            optional(self.cycles()),
            self.worked.errors,
        )
    }
}

/// The sample in the middle by throughput.
fn median(samples: &[Sample]) -> Option<&Sample> {
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    sorted.sort_by(|a, b| a.throughput().total_cmp(&b.throughput()));
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Everything after the samples.
pub(crate) fn aggregates(samples: &[Sample]) -> String {
    let mut out = String::new();
    if let Some(median) = median(samples) {
        out.push_str(&format!("\nmedian {}\n", median.line()));
    }
    let mut add = |heading: &str, values: Vec<Option<f64>>| {
        let values: Option<Vec<f64>> = values.into_iter().collect();
        match values.as_deref().and_then(Aggregate::of) {
            Some(aggregate) => out.push_str(&aggregate.lines(heading)),
            None => out.push_str(&format!("{heading}: n/a\n")),
        }
    };
    add("throughput", samples.iter().map(|sample| Some(sample.throughput())).collect());
    add("instructions_per_op", samples.iter().map(Sample::instructions).collect());
    add("cpu_cycles_per_op", samples.iter().map(Sample::cycles).collect());
    out.push_str(&latency_line(samples));
    out
}

/// Latencies of all samples, in microseconds: with that many workers each operation waits for
/// others.
fn latency_line(samples: &[Sample]) -> String {
    let mut all: Vec<u32> =
        samples.iter().flat_map(|sample| sample.worked.latencies.iter().copied()).collect();
    all.sort_unstable();
    let Some(last) = all.len().checked_sub(1) else { return String::new() };
    let at = |share: f64| all[(last as f64 * share).round() as usize];
    format!(
        "latency (us): p50={} p99={} p999={} maximum={} ({} operations timed)\n",
        at(0.5),
        at(0.99),
        at(0.999),
        all[last],
        all.len()
    )
}

/// The result as JSON.
pub(crate) fn json(options: &Options, shards: u16, samples: &[Sample]) -> Value {
    let throughput: Vec<f64> = samples.iter().map(Sample::throughput).collect();
    let aggregate = Aggregate::of(&throughput);
    let (concurrency, partitions) = (options.concurrency, options.partitions);
    let duration = options.duration;
    let mut parameters = json!({
        "concurrency": concurrency,
        "partitions": partitions,
        "cpus": shards,
        "duration": duration,
        "concurrency,partitions,cpus,duration":
            format!("{concurrency},{partitions},{shards},{duration}"),
    });
    if let Some(tablets) = options.tablets {
        parameters["initial_tablets"] = json!(tablets);
    }
    if 0 < options.collection {
        parameters["collection"] = json!(options.collection);
    }
    let middle = median(samples);
    let per_operation = |count: fn(&Worked) -> u64| {
        middle.map(|sample| sample.per_operation(count(&sample.worked)))
    };
    json!({
        "parameters": parameters,
        "stats": {
            "median tps": middle.map(Sample::throughput),
            "allocs_per_op": per_operation(|worked| worked.allocations),
            "logallocs_per_op": 0.0,
            "tasks_per_op": per_operation(|worked| worked.tasks),
            "instructions_per_op": middle.and_then(Sample::instructions),
            "cpu_cycles_per_op": middle.and_then(Sample::cycles),
            "mad tps": aggregate.map(|aggregate| aggregate.median_absolute_deviation),
            "max tps": aggregate.map(|aggregate| aggregate.maximum),
            "min tps": aggregate.map(|aggregate| aggregate.minimum),
        },
        "test_properties": { "type": options.kind() },
        "versions": crate::perf::versions(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_scripts_expect() {
        let worked = Worked {
            operations: 1000,
            errors: 0,
            allocations: 82_100,
            tasks: 14_100,
            instructions: Some(48_681_000),
            cycles: None,
            latencies: (1..=1000).collect(),
        };
        let sample = Sample { seconds: 0.5, worked };
        assert_eq!(
            sample.line(),
            "2000.00 tps ( 82.1 allocs/op,   0.0 logallocs/op,  14.1 tasks/op,   48681 insns/op, \
             \u{20}   n/a cycles/op,        0 errors)"
        );
        let end = aggregates(&[sample]);
        assert!(end.contains("cpu_cycles_per_op: n/a"), "{end}");
        let latencies = "latency (us): p50=501 p99=990 p999=999 maximum=1000 (1000 operations";
        assert!(end.contains(latencies), "{end}");
    }
}
