//! `perf-simple-query`: reads, writes, deletes or counter updates of single rows, through the
//! whole of a node but for the socket, with what each costs.
//!
//! Every shard runs `--concurrency` workers over keys that it owns, once the node has done with
//! what was written: flushes, compactions of any table, and freeing memory are no part of what is
//! measured.

mod options;
mod workload;

use self::options::Options;
use super::load;
use super::quiet;
use super::report::{self, Parameters};
use super::tool::{self, Bench};
use clap::Command;
use std::process::ExitCode;
use workload::SingleRows;

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

async fn measure(options: &Options, bench: &Bench) -> Result<(), String> {
    // Population goes as fast as memtables are flushed, on a slow machine too.
    let patient = |node: &mut node::Config| {
        node.boot.storage.write_wait_max = std::time::Duration::from_secs(600);
    };
    let work = async || {
        println!("{}", options.heading(bench.shards));
        workload::prepare(options).await?;
        quiet::wait().await;
        let samples = load::samples::<SingleRows>(&options.plan).await?;
        let collection = (0 < options.collection).then_some(("collection", options.collection));
        let tablets = options.tablets.map(|count| ("initial_tablets", count));
        let parameters = Parameters {
            compared: &[
                ("concurrency", options.plan.concurrency),
                ("partitions", options.partitions),
                ("cpus", u64::from(bench.shards)),
                ("duration", options.plan.duration),
            ],
            others: &tablets.into_iter().chain(collection).collect::<Vec<_>>(),
            kind: options.kind(),
        };
        report::conclude(&options.plan, &parameters, &samples).await
    };
    bench.with_node(patient, work).await
}
