//! `perf-simple-query`: reads, writes, deletes or counter updates of single rows, through the
//! whole of a node but for the socket, with what each costs.
//!
//! Every shard runs `--concurrency` workers over keys that it owns, once the node has done with
//! what was written: flushes, compactions of any table, and freeing memory are no part of what is
//! measured.

mod options;
mod workload;

use super::load;
use super::quiet;
use super::report::{self, Parameters};
use super::tool::Bench;
pub(crate) use options::Options;
use workload::SingleRows;

async fn measure(options: &Options, bench: &Bench) -> Result<(), String> {
    // Population goes as fast as memtables are flushed, on a slow machine too.
    let patient = |node: &mut crate::node::Config| {
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
