//! `perf-alternator`: the DynamoDB API over HTTP, of a node in this process or of another server.
//!
//! Every shard has `--concurrency` connections, each with one request under way. Requests are not
//! signed. Client and node share the process unless `--remote-host` names another one: then what
//! is counted is the client alone.

mod http;
mod options;
mod request;
mod workload;

use self::options::Options;
use super::given;
use super::load;
use super::quiet;
use super::report::{self, Parameters};
use super::tool::{self, Bench};
use ::alternator::{Ports, Server};
use ::options::Source;
use clap::Command;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use workload::Requests;

/// What requests that are under way may take when the node stops.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the tool: the words after its name.
pub fn main(words: &[String]) -> ExitCode {
    tool::main::<Options>(words)
}

/// The tool's command line.
pub fn command() -> Command {
    tool::command::<Options>()
}

async fn measure(options: &Options, bench: &Bench) -> Result<(), String> {
    if let Some(host) = &options.remote_host {
        let address = given::remote((host, options.remote_port))?;
        return run(options, bench.shards, address).await;
    }
    // Population goes as fast as memtables are flushed, on a slow machine too.
    let patient = |node: &mut node::Config| {
        node.boot.storage.write_wait_max = Duration::from_secs(600);
    };
    let work = async || {
        let address = serve(bench).await?;
        let done = run(options, bench.shards, address).await;
        runtime::on_all_shards(|| async {
            runtime::local::clear::<Requests>();
            runtime::local::get::<Server>().stop(PATIENCE).await;
            runtime::local::clear::<Server>();
        })
        .await;
        done
    };
    bench.with_node(patient, work).await
}

/// Starts a server on this node: on a free port, unless the operator said which.
async fn serve(bench: &Bench) -> Result<SocketAddr, String> {
    let port = match bench.values.source("alternator_port") {
        Source::Default => 0,
        _ => {
            let text = bench.values.text("alternator_port");
            text.parse().map_err(|_| format!("--alternator-port: not a port: {text}"))?
        }
    };
    runtime::on_all_shards(|| async {
        Server::start(None);
    })
    .await;
    let plain = Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let bound = runtime::local::get::<Server>().listen(Ports { plain, ..Ports::default() });
    bound.map_err(|error| error.to_string())?.plain.ok_or("no port".to_string())
}

async fn run(options: &Options, shards: u16, address: SocketAddr) -> Result<(), String> {
    println!("{}", options.heading(shards, address));
    workload::make_table(options, address).await?;
    if options.prepopulate {
        workload::populate(options, address).await?;
    }
    if options.remote_host.is_none() {
        if options.flush {
            workload::flush().await?;
        }
        quiet::wait().await;
    }
    workload::start(options, address).await;
    let samples = load::samples::<Requests>(&options.plan).await?;
    let parameters = Parameters {
        compared: &[
            ("concurrency", options.plan.concurrency),
            ("partitions", options.partitions),
            ("cpus", u64::from(shards)),
            ("duration", options.plan.duration),
        ],
        others: &options.of_workload(),
        kind: options.workload.name().to_string(),
    };
    report::conclude(&options.plan, &parameters, &samples).await
}
