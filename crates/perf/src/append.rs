//! `perf-append`: one collection that grows element by element, statement by statement, and what
//! each append costs as it grows.
//!
//! One map of one row takes elements through prepared statements, one after the other, past the
//! socket. For each tenfold of its size the tool tells allocations and bytes per append, which no
//! other work on the machine changes, and processor time and latency of single appends, which it
//! does. If an append costs the same however large the map is, all of them are O(n log n).

use super::cql::{self, Statement};
use super::given::{Given, number, ranged, word};
use super::latencies::Latencies;
use super::tool::{self, Bench, Tool};
use clap::{Arg, Command};
use query::Value;
use replication::Consistency;
use runtime::counters::{Counters, cpu_ns};
use runtime::time::Instant;
use std::process::ExitCode;

const KEYSPACE: &str = "ks";

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    elements: u32,
    value_bytes: usize,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
    Scattered,
}

impl Order {
    fn of(name: &str) -> Option<Order> {
        match name {
            "ascending" => Some(Order::Ascending),
            "descending" => Some(Order::Descending),
            "scattered" => Some(Order::Scattered),
            _ => None,
        }
    }

    /// The key of an element: each number has another.
    fn key(self, number: u32) -> u32 {
        match self {
            Order::Ascending => number,
            Order::Descending => u32::MAX / 2 - number,
            Order::Scattered => number.wrapping_mul(0x9e37_79b1),
        }
    }
}

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

impl Tool for Options {
    const NAME: &'static str = "perf-append";
    const ABOUT: &'static str = "Measures appending to a collection as it grows";
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("commitlog_sync", "periodic"), ("default_log_level", "warn")];

    fn args() -> Vec<Arg> {
        let orders = ["ascending", "descending", "scattered"];
        vec![
            ranged("elements", "1000000", (0, u32::MAX.into()), "Elements of the map at the end"),
            number("value-size", "8", "Bytes of a value"),
            word("order", "ascending", orders, "Order of the keys"),
        ]
    }

    fn take(given: &Given) -> Result<Options, String> {
        Ok(Options {
            elements: (given.number("elements") as u32).max(10),
            value_bytes: given.count("value-size"),
            order: given.text("order").and_then(Order::of).unwrap_or(Order::Ascending),
        })
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        if bench.shards != 1 {
            return Err("one map is on one shard: -c 1".to_string());
        }
        bench.with_node(|_| {}, async || append_all(self).await).await
    }
}

/// What was spent so far.
struct Spent {
    allocations: u64,
    bytes: u64,
    instructions: Option<u64>,
    cpu_ns: u64,
}

impl Spent {
    fn now(counters: &Counters) -> Spent {
        let memory::Counts { allocations, bytes } = memory::counts();
        let instructions = counters.read().instructions;
        Spent { allocations, bytes, instructions, cpu_ns: cpu_ns() }
    }
}

async fn append_all(options: &Options) -> Result<(), String> {
    for text in [
        format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': \
             'NetworkTopologyStrategy', 'replication_factor': 1}} AND tablets = {{'enabled': \
             false}}"
        ),
        format!("CREATE TABLE {KEYSPACE}.cf (k int PRIMARY KEY, m map<int, blob>)"),
    ] {
        cql::execute(&text).await?;
    }
    let text = format!("UPDATE {KEYSPACE}.cf SET m = m + ? WHERE k = 0");
    let statement = Statement::prepare(&text).await?;
    let counters = Counters::open();
    println!(
        "{:>10} {:>12} {:>12} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "elements",
        "allocs/op",
        "bytes/op",
        "insns/op",
        "cpu us/op",
        "p50 us",
        "p99 us",
        "p999 us",
        "max us",
        "max cpu"
    );
    let (mut done, mut next) = (0, 1000.min(options.elements));
    while done < options.elements {
        report(&append_up_to(options, &statement, &counters, done..next).await?, next);
        (done, next) = (next, next.saturating_mul(10).min(options.elements));
    }
    Ok(())
}

/// What some appends cost.
struct Sample {
    count: f64,
    before: Spent,
    after: Spent,
    /// In nanoseconds.
    latencies: Latencies,
    cpu_ns_max: u64,
}

async fn append_up_to(
    options: &Options,
    statement: &Statement,
    counters: &Counters,
    numbers: std::ops::Range<u32>,
) -> Result<Sample, String> {
    let mut latencies = Latencies::default();
    let element = vec![0x5a; options.value_bytes];
    let count = numbers.len() as f64;
    let (before, mut cpu_ns_max) = (Spent::now(counters), 0);
    for number in numbers {
        let key = options.order.key(number).to_be_bytes();
        let mut map = Vec::new();
        model::value::write_map([(&key[..], &element[..])].into_iter(), &mut map);
        let (begun, begun_cpu) = (Instant::now(), cpu_ns());
        let done = statement.run(&[Value::Bytes(&map)], Consistency::One).await;
        done.map_err(|error| error.to_string())?;
        latencies.note(begun.elapsed().as_nanos() as u64);
        cpu_ns_max = cpu_ns_max.max(cpu_ns() - begun_cpu);
        // As a client would that waits for its answer.
        runtime::task::yield_now().await;
    }
    Ok(Sample { count, before, after: Spent::now(counters), latencies, cpu_ns_max })
}

fn report(sample: &Sample, elements: u32) {
    let Sample { count, before, after, latencies, cpu_ns_max } = sample;
    let each = |after: u64, before: u64| (after - before) as f64 / count;
    let instructions = match (before.instructions, after.instructions) {
        (Some(before), Some(after)) => format!("{:.0}", each(after, before)),
        _ => "n/a".to_string(),
    };
    let micros = |share| latencies.quantile(share) as f64 / 1000.0;
    println!(
        "{elements:>10} {:>12.1} {:>12.0} {instructions:>12} {:>10.2} {:>9.1} {:>9.1} {:>9.1} \
         {:>9.1} {:>9.1}",
        each(after.allocations, before.allocations),
        each(after.bytes, before.bytes),
        each(after.cpu_ns, before.cpu_ns) / 1000.0,
        micros(0.5),
        micros(0.99),
        micros(0.999),
        micros(1.0),
        *cpu_ns_max as f64 / 1000.0,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{check_refusals, options};

    #[test]
    fn own_options_and_those_of_the_node() {
        let (given, node) = options::<Options>("--elements 50 --order scattered -m512M");
        assert_eq!((given.elements, given.order), (50, Order::Scattered));
        assert_eq!((node.text("memory"), node.text("smp")), ("512M", "1"));
        check_refusals::<Options>(&[
            ("--order random", "invalid value 'random' for '--order <WORD>'"),
            ("--elements all", "invalid value 'all' for '--elements <N>'"),
        ]);
    }

    #[test]
    fn keys_of_an_order_differ() {
        for order in [Order::Ascending, Order::Descending, Order::Scattered] {
            let mut keys: Vec<u32> = (0..10_000).map(|number| order.key(number)).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), 10_000);
        }
    }
}
