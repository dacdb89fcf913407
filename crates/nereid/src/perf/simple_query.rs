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
use crate::logging::{self, Stream};
use crate::node;
use options::Options;
use report::Sample;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let level = options.common.text("default_log_level");
    let levels = options.common.list("logger_log_level");
    if let Err(text) = logging::start(level, &levels, Stream::Stderr) {
        eprintln!("{text}");
        return ExitCode::from(2);
    }
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut options: Options) -> Result<(), String> {
    let folder = Folder::make().map_err(|error| format!("no temporary folder: {error}"))?;
    options.in_folder(folder.path());
    let runtime_config = crate::server::runtime_config(&options.common)?;
    let node = node::config(&options.common, runtime_config.shards)?;
    let shards = runtime_config.shards;
    let failed = Arc::new(AtomicBool::new(false));
    let (outcome, options) = (failed.clone(), Arc::new(options));
    runtime::run(runtime_config, move |shard| {
        let (node, options, outcome) = (node.clone(), options.clone(), outcome.clone());
        async move {
            if shard != 0 {
                return crate::server::follow().await;
            }
            if let Err(text) = measure(&options, node, shards).await {
                eprintln!("{text}");
                outcome.store(true, Ordering::Relaxed);
            }
            crate::server::end_all().await;
        }
    })
    .map_err(|error| error.to_string())?;
    if failed.load(Ordering::Relaxed) { Err("the measurement failed".into()) } else { Ok(()) }
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
