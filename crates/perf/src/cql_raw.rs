//! `perf-cql-raw`: CQL frames over TCP, to a node in this process or to another one.
//!
//! Every shard opens `--connections-per-shard` connections. Closed loop: each has
//! `--concurrency-per-shard` requests under way, always. Open loop (`--rate`): requests fall due
//! by the clock, whatever became of those before, and latencies count from when they fell due; so a
//! server that stalls cannot hide it (no coordinated omission).

mod load;
mod options;
mod report;
mod target;
mod wire;

use self::options::Options;
use super::given;
use super::tool::{self, Bench};
use clap::Command;
use load::Load;
use report::Sample;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use target::Target;

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
    let work = async || {
        let address = serve(bench).await?;
        let done = run(options, bench.shards, address).await;
        runtime::on_all_shards(|| async {
            runtime::local::get::<native::Server>().stop(Duration::from_secs(10)).await;
            runtime::local::clear::<native::Server>();
        })
        .await;
        done
    };
    bench.with_node(|_| {}, work).await
}

/// Starts a server on a free port of this node.
async fn serve(bench: &Bench) -> Result<SocketAddr, String> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    // A node would refuse it too, though nothing is encrypted here.
    node::encryption::wanted(&bench.values, native::server::ENCRYPTION)?;
    let clients = node::clients(&bench.values, bench.shards)?;
    let config = native::Config {
        direct: native::Ports { plain: Some(any), ..native::Ports::default() },
        proxied: native::Ports::default(),
        keepalive: clients.keepalive,
        tells_shards: clients.tells_shards,
        body_bytes_max: clients.body_bytes_max,
        limits: native::Limits {
            requests_max: clients.requests_max,
            ..native::Limits::of_shard(clients.shard_bytes)
        },
    };
    runtime::on_all_shards(move || {
        let config = config.clone();
        async move {
            native::Server::start(config);
        }
    })
    .await;
    let bound = runtime::local::get::<native::Server>().listen().await;
    let bound = bound.map_err(|error| error.to_string())?;
    bound.direct.plain.ok_or("no port".to_string())
}

async fn run(options: &Options, shards: u16, address: SocketAddr) -> Result<(), String> {
    println!("{}", options.heading(shards, address));
    let target = Target::new(address, options.tls_trust.as_deref()).await?;
    load::make_schema(options, &target).await?;
    start(options, target).await?;
    if options.populate {
        on_each_shard(|load| async move { load.populate().await }).await?;
    }
    let mut samples: Vec<Sample> = Vec::new();
    let until = options.duration;
    on_each_shard(|load| async move { load.begin().await }).await?;
    for _ in 0..until {
        let shards = on_each_shard(|load| async move { load.sample().await }).await?;
        let sample = Sample::sum(shards);
        println!("{}", sample.line());
        let failed = sample.errors() != 0 && !options.continue_after_error;
        samples.push(sample);
        if failed {
            break;
        }
    }
    on_each_shard(|load| async move { load.end().await }).await?;
    let total = report::total(&samples).await;
    print!("{}", report::aggregates(&samples, &total));
    if let Some(path) = &options.json_result {
        let text = report::json(options, shards, &samples, &total).to_string();
        let written = runtime::io::fs::write_file_atomic(path, text.as_bytes()).await;
        written.map_err(|error| error.to_string())?;
    }
    match samples.last() {
        Some(last) if last.errors() != 0 && !options.continue_after_error => {
            Err(format!("requests fail: {}", report::kinds(&total)))
        }
        _ => Ok(()),
    }
}

/// Connects every shard.
async fn start(options: &Options, target: Target) -> Result<(), String> {
    let options = options.clone();
    let started = runtime::on_all_shards(move || {
        let (options, target) = (options.clone(), target.clone());
        async move {
            runtime::local::set(Rc::new(Load::start(options, target).await?));
            Ok::<(), String>(())
        }
    });
    started.await.into_iter().collect()
}

async fn on_each_shard<F, Fut, R>(work: F) -> Result<Vec<R>, String>
where
    F: Fn(Rc<Load>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<R, String>> + 'static,
    R: Send + 'static,
{
    let done = runtime::on_all_shards(move || {
        let work = work.clone();
        async move { work(runtime::local::get::<Load>()).await }
    });
    done.await.into_iter().collect()
}
