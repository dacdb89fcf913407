//! What a node counts, as Prometheus reads it.
//!
//! Who composes the node gathers samples of every shard; here they are grouped into families,
//! filtered and written in the text format, version 0.0.4.
//!
//! Invariants
//!  - *one-help*: samples of one name have one kind and one help text, those of the first.

use crate::call::{Answer, Call};
use hyper::Method;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram};
use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

/// What a value means over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows from the start of the node on.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often what was measured was at most so much.
    Histogram,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Without the prefix.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    /// In the order in which they are shown.
    pub labels: Vec<(&'static str, String)>,
    /// Of a histogram the sum of all that was measured.
    pub value: f64,
    /// Of a histogram: bounds that ascend, the last one infinite, and how often what was measured
    /// was at most so much.
    pub buckets: Vec<(f64, u64)>,
}

/// Gathers the samples of all shards.
pub type Gather = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<Sample>>>>>;

/// What the metrics are made of.
pub struct Metrics {
    /// Comes before each name, with an underscore.
    pub prefix: String,
    pub gather: Gather,
}

impl Metrics {
    pub(crate) async fn answer(&self, call: Call) -> Answer {
        match (&call.method, call.path.first().map(String::as_str), call.path.len()) {
            (&Method::GET, Some("metrics"), 1) => {
                let samples = (self.gather)().await;
                let wanted = call.parameter("__name__");
                Answer::text(text(&self.prefix, samples, wanted))
            }
            _ => Answer::refused(404, "Not found: metrics are at /metrics"),
        }
    }
}

/// The samples as text. `wanted` is the name of a family, or the start of names before a `*`.
fn text(prefix: &str, samples: Vec<Sample>, wanted: Option<&str>) -> Vec<u8> {
    let mut families: BTreeMap<String, MetricFamily> = BTreeMap::new();
    for sample in samples {
        let name = format!("{prefix}_{}", sample.name);
        if !wanted.is_none_or(|wanted| matches(wanted, &name)) {
            continue;
        }
        let family = families.entry(name).or_insert_with_key(|name| {
            let mut family = MetricFamily::default();
            family.set_name(name.clone());
            family.set_help(sample.help.to_string());
            family.set_field_type(match sample.kind {
                Kind::Counter => MetricType::COUNTER,
                Kind::Gauge => MetricType::GAUGE,
                Kind::Histogram => MetricType::HISTOGRAM,
            });
            family
        });
        family.mut_metric().push(metric(sample));
    }
    let families: Vec<MetricFamily> = families.into_values().collect();
    let mut out = Vec::new();
    TextEncoder::new().encode(&families, &mut out).expect("a vector takes all, and names are set");
    out
}

fn matches(wanted: &str, name: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == wanted,
    }
}

fn metric(sample: Sample) -> Metric {
    let labels = sample.labels.into_iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_string());
        pair.set_value(value);
        pair
    });
    let mut metric = Metric::default();
    metric.set_label(labels.collect());
    match sample.kind {
        Kind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(sample.value);
            metric.set_counter(counter);
        }
        Kind::Gauge => {
            let mut gauge = Gauge::default();
            gauge.set_value(sample.value);
            metric.set_gauge(gauge);
        }
        Kind::Histogram => {
            let mut histogram = Histogram::default();
            histogram.set_sample_count(sample.buckets.last().map_or(0, |(_, count)| *count));
            histogram.set_sample_sum(sample.value);
            let bucket = |(bound, count): &(f64, u64)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(*bound);
                bucket.set_cumulative_count(*count);
                bucket
            };
            // The one of all is added where the text is made.
            let finite = sample.buckets.iter().filter(|(bound, _)| bound.is_finite());
            histogram.set_bucket(finite.map(bucket).collect());
            metric.set_histogram(histogram);
        }
    }
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &'static str, kind: Kind, shard: u16, value: f64) -> Sample {
        let labels = vec![("shard", shard.to_string()), ("class", "a\"b".to_string())];
        Sample { name, help: "What it is.", kind, labels, value, buckets: Vec::new() }
    }

    #[test]
    fn samples_are_grouped_by_name() {
        let samples = vec![
            sample("b_now", Kind::Gauge, 0, 0.5),
            sample("a_total", Kind::Counter, 0, 3.0),
            sample("b_now", Kind::Gauge, 1, -1.0),
        ];
        let expected = "\
# HELP x_a_total What it is.
# TYPE x_a_total counter
x_a_total{shard=\"0\",class=\"a\\\"b\"} 3
# HELP x_b_now What it is.
# TYPE x_b_now gauge
x_b_now{shard=\"0\",class=\"a\\\"b\"} 0.5
x_b_now{shard=\"1\",class=\"a\\\"b\"} -1
";
        assert_eq!(String::from_utf8(text("x", samples, None)).unwrap(), expected);
    }

    #[test]
    fn a_histogram_has_buckets_a_sum_and_a_count() {
        let mut one = sample("h", Kind::Histogram, 0, 7.5);
        one.labels.pop();
        one.buckets = vec![(1.0, 2), (10.0, 3), (f64::INFINITY, 4)];
        let expected = "\
# HELP x_h What it is.
# TYPE x_h histogram
x_h_bucket{shard=\"0\",le=\"1\"} 2
x_h_bucket{shard=\"0\",le=\"10\"} 3
x_h_bucket{shard=\"0\",le=\"+Inf\"} 4
x_h_sum{shard=\"0\"} 7.5
x_h_count{shard=\"0\"} 4
";
        assert_eq!(String::from_utf8(text("x", vec![one], None)).unwrap(), expected);
    }

    #[test]
    fn names_are_chosen() {
        let check = |wanted: &str, names: &[&str]| {
            let samples = ["a_one", "a_two", "b"].map(|name| sample(name, Kind::Gauge, 0, 1.0));
            let text = String::from_utf8(text("x", samples.to_vec(), Some(wanted))).unwrap();
            let found: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("# TYPE "))
                .filter_map(|line| line.split(' ').next())
                .collect();
            assert_eq!(found, names, "{wanted}");
        };
        check("x_a*", &["x_a_one", "x_a_two"]);
        check("x_b", &["x_b"]);
        check("x_a", &[]);
        check("*", &["x_a_one", "x_a_two", "x_b"]);
    }
}
