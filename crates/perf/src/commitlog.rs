//! `perf-commitlog`: what appending to the commitlog costs, without memtables.
//!
//! Each shard has a log of its own in one folder. Workers append entries of random sizes and wait
//! until each is as durable as `--commitlog-sync` promises. When the log asks for a flush, what it
//! holds is released after a random delay, as if a memtable had been written meanwhile; so appends
//! wait for segments as they do on a busy node.

mod options;

use self::options::Options;
use super::load::{self, Workers, Workload};
use super::report::{self, Parameters};
use super::tool::{self, Bench};
use clap::Command;
use runtime::task::Scope;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use storage::commitlog::LogStats;
use storage::{LoneLog, WriteError};

/// Bytes of what is written that are made at once.
const FILLED_BYTES: usize = 256 << 10;

/// A shard's log, and what is appended to it.
struct Appends {
    log: Rc<LoneLog>,
    /// Entries are heads of these bytes.
    bytes: Vec<u8>,
    entry_bytes_min: usize,
    workers: Workers,
    flusher: Scope,
}

impl Workload for Appends {
    type Error = WriteError;

    fn workers(&self) -> &Workers {
        &self.workers
    }

    async fn operate(&self) -> Result<(), WriteError> {
        let span = (self.bytes.len() - self.entry_bytes_min) as u64;
        let more = runtime::with_prng(|prng| prng.below(span + 1));
        self.log.append(&self.bytes[..self.entry_bytes_min + more as usize]).await
    }

    fn counted(&self) -> Vec<(&'static str, u64)> {
        let LogStats { written_bytes, cycles, .. } = self.log.stats();
        vec![("bytes", written_bytes), ("writes", cycles)]
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

async fn measure(options: &Options, bench: &Bench) -> Result<(), String> {
    let mut config = node::config(&bench.values, bench.shards)?.boot.storage;
    config.write_wait_max = Duration::from_secs(60);
    let shared = options.clone();
    let started = runtime::on_all_shards(move || {
        let (options, config) = (shared.clone(), config.clone());
        async move { start(&options, &config).await }
    });
    started.await.into_iter().collect::<Result<(), String>>()?;
    println!("{}", options.heading(&bench.values, bench.shards));
    let samples = load::samples::<Appends>(&options.plan).await;
    runtime::on_all_shards(|| async {
        let appends = runtime::local::get::<Appends>();
        appends.log.stop().await;
        appends.flusher.cancel().await;
        runtime::local::clear::<Appends>();
    })
    .await;
    let parameters = Parameters {
        compared: &[
            ("concurrency", options.plan.concurrency),
            ("cpus", u64::from(bench.shards)),
            ("duration", options.plan.duration),
        ],
        others: &[
            ("min_data_size", options.entry_bytes_min as u64),
            ("max_data_size", options.entry_bytes_max as u64),
        ],
        kind: "commitlog".to_string(),
    };
    report::conclude(&options.plan, &parameters, &samples?).await
}

/// Gives this shard its log, and who releases what the log holds.
async fn start(options: &Options, config: &storage::Config) -> Result<(), String> {
    let log = LoneLog::open(config).await.map_err(|error| error.to_string())?;
    if log.entry_bytes_max() < options.entry_bytes_max {
        let most = log.entry_bytes_max();
        return Err(format!("--max-data-size: segments of this size take entries of {most} bytes"));
    }
    let (log, flusher) = (Rc::new(log), Scope::new());
    let (flushed, delay) = (log.clone(), options.flush_delay_ms.clone());
    flusher.spawn(async move {
        loop {
            let entries = flushed.flush_wanted().await;
            let span = delay.end() - delay.start();
            let millis = delay.start() + runtime::with_prng(|prng| prng.below(span + 1));
            runtime::time::sleep(Duration::from_millis(millis)).await;
            flushed.release(&entries);
        }
    });
    let mut bytes = Vec::with_capacity(options.entry_bytes_max);
    while bytes.len() < options.entry_bytes_max {
        bytes.resize((bytes.len() + FILLED_BYTES).min(options.entry_bytes_max), 0x5a);
        runtime::task::yield_if_needed().await;
    }
    runtime::local::set(Rc::new(Appends {
        log,
        bytes,
        entry_bytes_min: options.entry_bytes_min,
        workers: Workers::new(&options.plan),
        flusher,
    }));
    Ok(())
}
