//! A node as a process: start, serve, stop; signals; what the log and the supervisor are told.
//!
//! Shard 0 leads. The other shards serve what is handed to them until they are told to end.
//!
//! From the ground up: what options say of it: `persona` (its name), `encryption`, `maintenance`,
//! `ports`, `dynamo`, `relabel`, `ephemeral`; what it tells of itself: `notify` (the supervisor),
//! `descriptors`, `metrics`, `tables` and `large_data` (system tables), `console`; `reread`
//! (options that change); this (start, serve, stop).
//!
//! Invariants
//!  - *locked-first*: nothing in the data folder is looked at before its lock is ours.
//!  - *ready-last*: the node calls itself ready when every listener is up.

mod console;
mod descriptors;
mod dynamo;
mod encryption;
mod ephemeral;
mod handoff;
mod large_data;
mod maintenance;
mod metrics;
mod moves;
mod notify;
mod persona;
mod ports;
mod relabel;
mod repair;
mod reread;
mod tables;
mod tablets;
mod views;

use admin::metrics::relabel::{Relabelling, Rules};
use cluster::membership::Phase;
use encryption::Encryption;
use logging::{Form, Stream};
use metrics::Tables;
use native::Server;
use node::version::version;
use node::{TemporaryFolder, patience};
use options::terminal::program;
use options::{Values, contradictions, options_file};
use persona::Persona;
use runtime::signal::Signal;
use runtime::sync::Notify;
use runtime::task::{Either, Scope, race};
use std::cell::Cell;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long requests of operators may take to be answered when the node has left.
const ANSWERS_MAX: Duration = Duration::from_secs(2);

/// What the shards of a server share: plain data.
#[derive(Debug)]
struct Plan {
    node: node::Config,
    native: native::Config,
    maintenance: Option<native::Socket>,
    api: Option<admin::Config>,
    dynamo: dynamo::Wanted,
    prometheus: Option<admin::Config>,
    /// How metrics are labelled at first.
    rules: Rules,
    values: Values,
    persona: Persona,
    workdir: std::path::PathBuf,
    /// Whether stdout belongs to whoever started an ephemeral node.
    ephemeral: bool,
    /// The process that started us.
    parent: Option<rustix::process::Pid>,
    failed: AtomicBool,
}

/// Runs a node until it is told to stop.
pub fn main(values: &Values, warnings: &[String]) -> ExitCode {
    let mut values = values.clone();
    let mut folder = None;
    if values.flag("ephemeral") {
        match TemporaryFolder::make() {
            Ok(made) => {
                ephemeral::adjust(&mut values, &made);
                folder = Some(made);
            }
            Err(error) => {
                eprintln!("cannot make a temporary folder: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let stream = if folder.is_some() { Stream::Stderr } else { Stream::Stdout };
    let levels = values.list("logger_log_level");
    let form = Form::of(values.text("log_format"), stream);
    if let Err(text) = logging::start(values.text("default_log_level"), &levels, stream, form) {
        eprintln!("{text}");
        return ExitCode::from(2);
    }
    let persona = Persona::of(&values, &program());
    if folder.is_none() && persona == Persona::Scylla {
        // Harnesses know a log by its first words, whatever there is to warn of.
        println!("Scylla version {} starting", version());
    } else {
        tracing::info!(target: "init", "{} version {} starting", persona.name(), version());
    }
    let few = descriptors::raise();
    warnings.iter().chain(&few).for_each(|text| tracing::warn!(target: "init", "{text}"));
    match run(values, persona, folder.is_some()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            tracing::error!(target: "init", "Startup failed: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut values: Values, persona: Persona, ephemeral: bool) -> Result<(), String> {
    let wrong = contradictions(&values);
    if !wrong.is_empty() {
        let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        return Err(wrong.join("; "));
    }
    node::name_folders(&mut values);
    let runtime_config = node::runtime_config(&values)?;
    let shards = runtime_config.shards;
    let plan = Arc::new(Plan {
        node: node_config(&values, shards)?,
        native: native_config(&values, shards)?,
        maintenance: maintenance::socket(&values)?,
        api: http_config(&values, "api")?,
        dynamo: dynamo::wanted(&values)?,
        prometheus: http_config(&values, "prometheus")?,
        rules: relabel::rules(&values)?,
        workdir: node::workdir(&values),
        values,
        persona,
        ephemeral,
        parent: rustix::process::getppid(),
        failed: AtomicBool::new(false),
    });
    if let Some(file) = options_file(&plan.values.to_show()) {
        tracing::info!(target: "init", "options file: {}", file.display());
    }
    let plural = if shards == 1 { "" } else { "s" };
    let folder = plan.workdir.display();
    tracing::info!(target: "init", "{shards} shard{plural}, data in {folder}");
    let shared = plan.clone();
    runtime::run(runtime_config, move |shard| {
        let plan = shared.clone();
        async move { if shard == 0 { lead(&plan).await } else { node::follow().await } }
    })
    .map_err(|error| error.to_string())?;
    if plan.failed.load(Ordering::Relaxed) { Err("see the lines above".into()) } else { Ok(()) }
}

async fn lead(plan: &Plan) {
    if let Err(text) = serve(plan).await {
        tracing::error!(target: "init", "{text}");
        plan.failed.store(true, Ordering::Relaxed);
    }
    node::end_all().await;
}

/// Starts the node, serves until told to stop, stops.
async fn serve(plan: &Plan) -> Result<(), String> {
    notify::status("locking the data directory");
    let _lock = node::lock(&plan.workdir).await?;
    check_options(&plan.values)?;
    let encryption = Encryption::start(&plan.values).await?;
    let (background, hangup) = (Scope::new(), Rc::new(Notify::new()));
    // From now on: other nodes may refuse this one until it has another certificate.
    background.spawn(encryption.watch(hangup.clone()));
    notify::status("loading");
    node::start(plan.node.clone()).await?;
    let api = start_api(plan)?;
    let prometheus = start_metrics(plan)?;
    notify::status("joining the cluster");
    node::joined().await?;
    let bound = listen(plan).await?;
    dynamo::start(plan.dynamo.clone()).await?;
    let provide = move || async move {
        tables::provide(bound);
        large_data::provide();
        views::provide();
        tablets::provide();
    };
    runtime::on_all_shards(provide).await;
    tell_idle(&plan.values);
    cluster::membership::enter(Phase::Serving).await;
    // Who is told that the node is ready may end it, in order.
    runtime::signal::keep();
    tell_ready(plan);
    if plan.ephemeral {
        let api = api.as_ref().map(admin::Server::bound);
        println!("{}", ephemeral::line(bound, api, &plan.workdir));
    }
    // What was replayed goes to SSTables, so that the log of the last run can go.
    background.spawn_in(runtime::group::FLUSH, node::flush());
    let storage = runtime::local::get::<storage::Storage>();
    background.spawn_in(runtime::group::BACKGROUND, async move {
        storage.expire_snapshots().await;
    });
    background.spawn(node::write_down_compactions());
    let again = Rc::new(Cell::new(false));
    let (values, file) = (plan.values.clone(), options_file(&plan.values.to_show()));
    background.spawn(reread::watch(values, file, again.clone(), hangup.clone()));
    let hang_up = || {
        again.set(true);
        hangup.notify_all();
    };
    let reason = wait_for_end(plan, hang_up).await;
    background.cancel().await;
    tracing::info!(target: "init", "{reason}; shutting down");
    notify::tell("STOPPING=1\nSTATUS=shutting down\n");
    if let (true, Some(api)) = (cluster::membership::has_left(), &api) {
        // Whoever had this node leave is told that it has.
        api.settle(ANSWERS_MAX).await;
    }
    for server in [api, prometheus].into_iter().flatten() {
        server.stop().await;
    }
    cluster::membership::enter(Phase::Leaving).await;
    let patience = patience::now();
    runtime::on_all_shards(move || async move {
        dynamo::stop(patience).await;
        runtime::local::get::<Server>().stop(patience).await;
        runtime::local::clear::<Server>();
    })
    .await;
    node::stop().await?;
    let name = plan.persona.name();
    tracing::info!(target: "init", "{name} version {} shutdown complete.", version());
    Ok(())
}

/// *ready-last*
fn tell_ready(plan: &Plan) {
    let (name, version) = (plan.persona.name(), version());
    if maintenance::is_mode(&plan.values) {
        maintenance::tell_mode(name, &version);
        return;
    }
    tracing::info!(target: "init", "{name} version {version} initialization completed.");
    tracing::info!(target: "init", "serving");
    notify::ready("serving");
}

/// Names the options that were given and that nothing depends on.
fn tell_idle(values: &Values) {
    let settings = cluster::Settings::of_shard();
    let mut idle = values.unasked();
    idle.retain(|name| !settings.is_obeyed(name));
    if !idle.is_empty() {
        let names = idle.join(", ");
        tracing::warn!(target: "init", "options without effect in this version: {names}");
    }
}

/// Options that ask for what this version cannot do: a clear refusal, not a surprise later.
fn check_options(values: &Values) -> Result<(), String> {
    encryption::check(values)
}

/// Serves the REST API, if it is wanted.
fn start_api(plan: &Plan) -> Result<Option<admin::Server>, String> {
    let Some(config) = plan.api else { return Ok(None) };
    let cluster = runtime::local::get::<cluster::Cluster>();
    let is_shut = maintenance::is_mode(&plan.values);
    let transport = Rc::new(Listeners { is_shut });
    let console = console::console(cluster.clone(), version());
    let (default, levels) =
        (plan.values.text("default_log_level"), plan.values.list("logger_log_level"));
    let loggers = Rc::new(Loggers(logging::Loggers::of(default, &levels)?));
    let handoff = Rc::new(handoff::Kept { host: cluster.node().host_id });
    let repairs = Rc::new(repair::Replicas::new());
    let version = version();
    let moves = Rc::new(moves::OfNode);
    let door = admin::Door { cluster, version, transport, loggers, handoff, repairs, moves };
    let service =
        admin::Service::Rest(admin::Rest::new(door), Box::new(console), guard(&plan.values));
    let server = admin::Server::start(config, service).map_err(|error| error.to_string())?;
    let bound = server.bound();
    let name = plan.persona.name();
    tracing::info!(target: "init", "{name} API server listening on {bound}");
    Ok(Some(server))
}

/// By which names the REST API is asked: those that the node is configured with, and those that the
/// operator allows.
fn guard(values: &Values) -> admin::Guard {
    let own = [
        "api_address",
        "listen_address",
        "broadcast_address",
        "rpc_address",
        "broadcast_rpc_address",
        "prometheus_address",
    ];
    let own = own.map(|name| values.text(name).to_owned());
    admin::Guard::new(own.into(), values.list("api_allowed_hosts"))
}

/// The loggers of the process, as the REST API shows and sets them.
struct Loggers(logging::Loggers);

impl admin::Loggers for Loggers {
    fn names(&self) -> &'static [&'static str] {
        self.0.names()
    }

    fn level(&self, name: &str) -> Option<&'static str> {
        self.0.level(name)
    }

    fn set(&self, name: Option<&str>, level: &str) -> Result<(), String> {
        self.0.set(name, level)
    }
}

/// The listeners of CQL, as the REST API opens and closes them.
struct Listeners {
    /// Whether the node is in maintenance mode.
    is_shut: bool,
}

impl admin::Transport for Listeners {
    fn is_open(&self) -> bool {
        runtime::local::try_get::<Server>().is_some_and(|server| server.is_listening())
    }

    fn is_shut(&self) -> bool {
        self.is_shut
    }

    fn open(&self) -> admin::Moved {
        if self.is_shut {
            return Box::pin(async { Err(maintenance::SHUT.to_owned()) });
        }
        Box::pin(async {
            let server = runtime::local::try_get::<Server>().ok_or("the node starts or stops")?;
            if server.is_listening() {
                return Ok(());
            }
            server.listen().await.map(|_| ()).map_err(|error| error.to_string())
        })
    }

    fn close(&self) -> admin::Moved {
        Box::pin(async {
            let server = runtime::local::try_get::<Server>().ok_or("the node starts or stops")?;
            server.close(patience::now()).await;
            Ok(())
        })
    }
}

/// Serves metrics, if they are wanted.
fn start_metrics(plan: &Plan) -> Result<Option<admin::Server>, String> {
    let Some(config) = plan.prometheus else { return Ok(None) };
    let prefix = plan.values.text("prometheus_prefix").to_string();
    let by_shard = plan.values.flag("enable_keyspace_column_family_metrics");
    let summed = plan.values.flag("enable_node_aggregated_table_metrics");
    let tables = match (by_shard, summed) {
        (true, _) => Tables::ByShard,
        (false, true) => Tables::Summed,
        (false, false) => Tables::No,
    };
    Relabelling::of_shard().set(plan.rules.clone());
    let gather = Box::new(move |filter| Box::pin(metrics::gather(filter, tables)) as _);
    let allows_protobuf = plan.values.flag("prometheus_allow_protobuf");
    let metrics = admin::metrics::Metrics { prefix, allows_protobuf, gather };
    let service = admin::Service::Metrics(metrics);
    let server = admin::Server::start(config, service).map_err(|error| error.to_string())?;
    tracing::info!(target: "init", "Prometheus metrics on {}", server.bound());
    Ok(Some(server))
}

async fn listen(plan: &Plan) -> Result<native::Bound, String> {
    notify::status("starting listeners");
    let config = plan.native.clone();
    runtime::on_all_shards(move || {
        let config = config.clone();
        async move {
            Server::start(config);
        }
    })
    .await;
    if let Some(socket) = &plan.maintenance {
        maintenance::open(socket).await?;
    }
    if maintenance::is_mode(&plan.values) {
        return Ok(native::Bound::default());
    }
    let server = runtime::local::get::<Server>();
    runtime::local::set(Rc::new(moves::farewell()));
    let bound = server.listen().await.map_err(|error| error.to_string())?;
    for (address, port) in bound.kinds() {
        let encrypted = if port.encrypted { "encrypted" } else { "unencrypted" };
        let kind = match port.choice {
            native::Choice::InTurn => "non-shard-aware",
            native::Choice::SourcePort => "shard-aware",
        };
        let proxied = if port.proxied { ", proxy protocol" } else { "" };
        tracing::info!(
            target: "cql_server",
            "Starting listening for CQL clients on {address} ({encrypted}, {kind}{proxied})"
        );
    }
    Ok(bound)
}

async fn wait_for_end(plan: &Plan, hang_up: impl Fn()) -> String {
    let parent = plan.parent;
    let gone = async {
        match plan.ephemeral {
            true => ephemeral::parent_gone(parent).await,
            false => std::future::pending().await,
        }
    };
    let signalled = async {
        loop {
            match runtime::signal::wait().await {
                Signal::Terminate | Signal::Interrupt => return,
                Signal::Hangup => hang_up(),
            }
        }
    };
    let ends = race(signalled, gone);
    match race(ends, cluster::membership::recovery::expelled()).await {
        Either::Left(Either::Left(())) => "Signal received".to_owned(),
        Either::Left(Either::Right(())) => "The parent process is gone".to_owned(),
        Either::Right(why) => {
            plan.failed.store(!cluster::membership::has_left(), Ordering::Relaxed);
            why
        }
    }
}

/// Whatever [`main`] would refuse to start with, without starting anything.
pub fn refusals(values: &Values) -> Vec<String> {
    let shards = match node::runtime_config(values) {
        Ok(config) => config.shards,
        Err(_) => 1,
    };
    let levels = values.list("logger_log_level");
    let checked = [
        node::runtime_config(values).map(drop),
        logging::check(values.text("default_log_level"), &levels),
        node_config(values, shards).map(drop),
        native_config(values, shards).map(drop),
        maintenance::socket(values).map(drop),
        http_config(values, "api").map(drop),
        dynamo::wanted(values).map(drop),
        http_config(values, "prometheus").map(drop),
        relabel::rules(values).map(drop),
        check_options(values),
    ];
    let mut texts: Vec<String> = checked.into_iter().filter_map(Result::err).collect();
    texts.extend(node::refused_settings(values));
    texts
}

/// What the parts of the node are told. In maintenance mode it speaks to no other node.
fn node_config(values: &Values, shards: u16) -> Result<node::Config, String> {
    match maintenance::is_mode(values) {
        true => node::config(values, shards),
        false => node::config_of_member(values, shards),
    }
}

/// Reads the settings of CQL from the options. The error names the option.
fn native_config(values: &Values, shards: u16) -> Result<native::Config, String> {
    let (direct, proxied) = (ports::direct(values)?, ports::proxied(values)?);
    let clients = node::clients(values, shards)?;
    Ok(native::Config {
        direct,
        proxied,
        keepalive: clients.keepalive,
        tells_shards: clients.tells_shards,
        body_bytes_max: clients.body_bytes_max,
        limits: native::Limits {
            requests_max: clients.requests_max,
            ..native::Limits::of_shard(clients.shard_bytes)
        },
    })
}

/// Reads where one of the two HTTP services is from the options. The error names the option.
fn http_config(values: &Values, service: &str) -> Result<Option<admin::Config>, String> {
    let name = format!("{service}_port");
    let port = match values.text(&name) {
        "" | "null" => return Ok(None),
        text => text.parse().map_err(|_| format!("option {name}: not a port: {text}"))?,
    };
    let address = SocketAddr::new(node::address(values, &format!("{service}_address"))?, port);
    let encryption = encryption::of_http(values, service)?;
    Ok(Some(admin::Config { address, encryption }))
}
