//! What tools with a [`Workload`](super::load::Workload) print: a line per sample, aggregates,
//! JSON.

use super::latencies::Latencies;
use super::load::{Plan, Sample};
use super::statistics::Aggregate;
use serde_json::{Value, json};
use std::fmt::Write;

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
        let mut line = format!(
            "{:.2} tps ({:5.1} allocs/op, {:5.1} logallocs/op, {:5.1} tasks/op, {} insns/op, {} \
             cycles/op, {:8} errors",
            self.throughput(),
            self.per_operation(self.worked.allocations),
            self.per_operation(self.worked.managed_allocations),
            self.per_operation(self.worked.tasks),
            optional(self.instructions()),
            optional(self.cycles()),
            self.worked.errors,
        );
        for (name, count) in &self.worked.counted {
            let _ = write!(line, ", {:8.1} {name}/op", self.per_operation(*count));
        }
        line.push(')');
        line
    }
}

/// The sample in the middle by throughput.
fn median(samples: &[Sample]) -> Option<&Sample> {
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    sorted.sort_by(|a, b| a.throughput().total_cmp(&b.throughput()));
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Everything after the samples.
fn aggregates(samples: &[Sample], latencies: &Latencies) -> String {
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
    out.push_str(&latency_line(latencies));
    out
}

/// Latencies of all samples, in microseconds: with that many workers each operation waits for
/// others.
fn latency_line(all: &Latencies) -> String {
    if all.len() == 0 {
        return String::new();
    }
    format!(
        "latency (us): p50={} p99={} p999={} maximum={} ({} operations timed)\n",
        all.quantile(0.5),
        all.quantile(0.99),
        all.quantile(0.999),
        all.quantile(1.0),
        all.len()
    )
}

/// What a run was told, for its JSON.
pub(crate) struct Parameters<'a> {
    /// Those that make runs comparable: told one by one and as one.
    pub(crate) compared: &'a [(&'a str, u64)],
    pub(crate) others: &'a [(&'a str, u64)],
    /// What was measured.
    pub(crate) kind: String,
}

/// Prints what the samples come to, and writes the JSON that the plan asks for.
pub(crate) async fn conclude(
    plan: &Plan,
    parameters: &Parameters<'_>,
    samples: &[Sample],
) -> Result<(), String> {
    let mut latencies = Latencies::default();
    for sample in samples {
        latencies.add(&sample.worked.latencies);
        runtime::task::yield_if_needed().await;
    }
    print!("{}", aggregates(samples, &latencies));
    let Some(path) = &plan.json_result else { return Ok(()) };
    let text = json(parameters, samples).to_string();
    let written = runtime::io::fs::write_file_atomic(path, text.as_bytes()).await;
    written.map_err(|error| error.to_string())
}

fn json(parameters: &Parameters<'_>, samples: &[Sample]) -> Value {
    let throughput: Vec<f64> = samples.iter().map(Sample::throughput).collect();
    let aggregate = Aggregate::of(&throughput);
    let middle = median(samples);
    let per_operation =
        |count: fn(&Sample) -> u64| middle.map(|sample| sample.per_operation(count(sample)));
    let mut stats = json!({
        "median tps": middle.map(Sample::throughput),
        "allocs_per_op": per_operation(|sample| sample.worked.allocations),
        "logallocs_per_op": per_operation(|sample| sample.worked.managed_allocations),
        "tasks_per_op": per_operation(|sample| sample.worked.tasks),
        "instructions_per_op": middle.and_then(Sample::instructions),
        "cpu_cycles_per_op": middle.and_then(Sample::cycles),
        "mad tps": aggregate.map(|aggregate| aggregate.median_absolute_deviation),
        "max tps": aggregate.map(|aggregate| aggregate.maximum),
        "min tps": aggregate.map(|aggregate| aggregate.minimum),
    });
    if let Some(sample) = middle {
        for (name, count) in &sample.worked.counted {
            stats[format!("{name}_per_op")] = json!(sample.per_operation(*count));
        }
    }
    json!({
        "parameters": parameters_of(parameters),
        "stats": stats,
        "test_properties": { "type": parameters.kind },
        "versions": super::versions(),
    })
}

fn parameters_of(parameters: &Parameters<'_>) -> Value {
    let mut told = json!({});
    for (name, value) in parameters.compared.iter().chain(parameters.others) {
        told[*name] = json!(value);
    }
    let names: Vec<&str> = parameters.compared.iter().map(|(name, _)| *name).collect();
    let values: Vec<String> =
        parameters.compared.iter().map(|(_, value)| value.to_string()).collect();
    told[names.join(",")] = json!(values.join(","));
    told
}

#[cfg(test)]
mod tests {
    use super::super::load::Worked;
    use super::*;

    fn sample(counted: Vec<(&'static str, u64)>) -> Sample {
        let worked = Worked {
            operations: 1000,
            allocations: 82_100,
            managed_allocations: 1_200,
            tasks: 14_100,
            instructions: Some(48_681_000),
            counted,
            latencies: (1..=1000).collect(),
            ..Worked::default()
        };
        Sample { seconds: 0.5, worked }
    }

    #[test]
    fn a_line_is_what_scripts_expect() {
        let common = "2000.00 tps ( 82.1 allocs/op,   1.2 logallocs/op,  14.1 tasks/op,   48681 \
                      insns/op,     n/a cycles/op,        0 errors";
        assert_eq!(sample(Vec::new()).line(), format!("{common})"));
        let more = sample(vec![("bytes", 512_000), ("writes", 100)]).line();
        assert_eq!(more, format!("{common},    512.0 bytes/op,      0.1 writes/op)"));
        let end = aggregates(&[sample(Vec::new())], &(1..=1000).collect());
        assert!(end.contains("cpu_cycles_per_op: n/a"), "{end}");
        let latencies = "latency (us): p50=500 p99=990 p999=999 maximum=1000 (1000 operations";
        assert!(end.contains(latencies), "{end}");
    }

    #[test]
    fn the_document_has_the_documented_shape() {
        let parameters = Parameters {
            compared: &[("concurrency", 100), ("cpus", 1)],
            others: &[("collection", 16)],
            kind: "read".to_string(),
        };
        let document = json(&parameters, &[sample(vec![("bytes", 500)])]);
        let told = json!({
            "concurrency": 100, "cpus": 1, "concurrency,cpus": "100,1", "collection": 16,
        });
        assert_eq!(document["parameters"], told);
        assert_eq!(document["stats"]["median tps"], json!(2000.0));
        assert_eq!(document["stats"]["logallocs_per_op"], json!(1.2));
        assert_eq!(document["stats"]["cpu_cycles_per_op"], Value::Null);
        assert_eq!(document["stats"]["bytes_per_op"], json!(0.5));
        assert_eq!(document["test_properties"], json!({ "type": "read" }));
        assert!(document["versions"]["scylla-server"]["version"].is_string());
    }
}
