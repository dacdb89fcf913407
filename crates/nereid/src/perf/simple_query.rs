//! `perf-simple-query`: reads, writes, deletes or counter updates of single rows, through the
//! whole of a node but for the socket, with what each costs.
//!
//! Every shard runs `--concurrency` workers over keys that it owns. A sample is a second, or a
//! fixed number of operations per shard; allocations, tasks, instructions and cycles are those of
//! the shards' own threads during the sample.

mod options;
mod report;
mod workload;

use crate::ephemeral::Folder;
use crate::{node, perf};
use options::Options;
use report::Sample;
use std::process::ExitCode;
use std::sync::Arc;
use workload::{Limit, Worked, Workload};

/// Runs the tool.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if let Err(text) = perf::start_logging(&options.common) {
        eprintln!("{text}");
        return ExitCode::from(2);
    }
    perf::conclude(run(options))
}

fn run(mut options: Options) -> Result<(), String> {
    let folder = Folder::make().map_err(|error| format!("no temporary folder: {error}"))?;
    options.in_folder(folder.path());
    let runtime_config = crate::server::runtime_config(&options.common)?;
    let node = options.node_config(runtime_config.shards)?;
    let (shards, options) = (runtime_config.shards, Arc::new(options));
    perf::run_shards(runtime_config, move || {
        let (options, node) = (options.clone(), node.clone());
        async move { measure(&options, node, shards).await }
    })
}

async fn measure(options: &Options, node: node::Config, shards: u16) -> Result<(), String> {
    node::start(node).await?;
    println!("{}", options.heading(shards));
    workload::prepare(options).await?;
    let mut samples = Vec::new();
    for _ in 0..options.samples() {
        let sample = sample(options).await?;
        println!("{}", sample.line());
        samples.push(sample);
    }
    print!("{}", report::aggregates(&samples));
    if let Some(path) = &options.json_result {
        let text = report::json(options, shards, &samples).to_string();
        runtime::io::fs::write_file_atomic(path, text.as_bytes())
            .await
            .map_err(|error| error.to_string())?;
    }
    node::stop().await
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
