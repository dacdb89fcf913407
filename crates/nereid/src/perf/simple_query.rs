//! `perf-simple-query`: reads, writes, deletes or counter updates of single rows, through the
//! whole of a node but for the socket, with what each costs.
//!
//! Every shard runs `--concurrency` workers over keys that it owns. A sample is a second, or a
//! fixed number of operations per shard; allocations, tasks, instructions and cycles are those of
//! the shards' own threads during the sample.

mod options;
mod report;
mod workload;

use super::tool::Bench;
pub(crate) use options::Options;
use report::Sample;
use workload::{Limit, Worked, Workload};

async fn measure(options: &Options, bench: &Bench) -> Result<(), String> {
    // Population goes as fast as memtables are flushed, on a slow machine too.
    let patient = |node: &mut crate::node::Config| {
        node.boot.storage.write_wait_max = std::time::Duration::from_secs(60);
    };
    let work = async || {
        println!("{}", options.heading(bench.shards));
        workload::prepare(options).await?;
        let mut samples = Vec::new();
        for _ in 0..options.samples() {
            let sample = sample(options).await?;
            println!("{}", sample.line());
            samples.push(sample);
        }
        print!("{}", report::aggregates(&samples));
        let Some(path) = &options.json_result else { return Ok(()) };
        let text = report::json(options, bench.shards, &samples).to_string();
        let written = runtime::io::fs::write_file_atomic(path, text.as_bytes()).await;
        written.map_err(|error| error.to_string())
    };
    bench.with_node(patient, work).await
}

/// All shards work until the limit; what they did together.
async fn sample(options: &Options) -> Result<Sample, String> {
    let limit = match options.operations_per_shard {
        Some(operations) => Limit::Operations(operations),
        None => Limit::Time(std::time::Duration::from_secs(1)),
    };
    let started = runtime::time::Instant::now();
    let worked: Vec<Result<Worked, String>> = runtime::on_all_shards(move || async move {
        runtime::local::get::<Workload>().run(limit).await
    })
    .await;
    let seconds = started.elapsed().as_secs_f64();
    let mut total = Worked::default();
    for shard in worked {
        total.add(&shard?);
    }
    Ok(Sample { seconds, worked: total })
}
