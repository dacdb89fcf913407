//! Machines with a whole node each, and one for the clients.
//!
//! Invariants
//!  - *as-configured*: a node is what its options say; nothing of it is made otherwise for a test.
//!  - *clients-live*: the machine of the clients has no faults of its own.

use cluster::membership::{self, Phase};
use native::Server;
use options::{Source, Values};
use replication::moves::Planted;
use runtime::sim::{Disk, NodeId, Options, World};
use runtime::task::Scope;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// Where CQL is served.
const PORT: u16 = 9042;
/// How long a start may take: others have to be found, and the log replayed.
const START_MAX: Duration = Duration::from_secs(120);
/// How long requests may run when a node is told to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far the start of a node is: `None`: not there yet.
type Started = Rc<RefCell<Option<Result<(), String>>>>;

/// Where a machine is, and how many shards its node has.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) data_center: String,
    pub(super) rack: String,
    pub(super) shards: u16,
}

/// A machine with a node.
struct Machine {
    id: NodeId,
    place: Place,
    started: Started,
    /// Whether its disk has failed since its last start.
    disk_failed: bool,
}

/// What is wrong with a disk.
#[derive(Clone, Copy, Debug)]
pub(super) enum DiskFault {
    /// It takes nothing more.
    Full,
    /// One operation of some fails.
    Errors,
}

/// What goes on beside the rest on shard 0 of a node.
struct Background(Scope);

/// All of them.
pub(super) struct Nodes {
    pub(super) world: World,
    machines: Vec<Machine>,
    clients: NodeId,
    /// The first so many are the seeds of all.
    seeds: usize,
    /// In how many seconds they repair all by themselves.
    repair_seconds: u32,
    /// What nodes do wrong that start.
    pub(super) planted: Option<Planted>,
}

impl Nodes {
    /// Machines, without a node yet; the first so many are the seeds of all.
    pub(super) fn new(seed: u64, machines: &[Place], seeds: usize) -> Nodes {
        testkit::log::into_trace();
        let mut world = World::new(Options::new(seed));
        let machine = |place: &Place| Machine {
            id: world.add_node(place.shards),
            place: place.clone(),
            started: Rc::default(),
            disk_failed: false,
        };
        let machines = machines.iter().map(machine).collect();
        let clients = world.add_node(1);
        // Of some schedules in a moment, else not before their end.
        let repair_seconds = if seed % 3 == 1 { 4 } else { 86_400 };
        Nodes { world, machines, clients, seeds, repair_seconds, planted: None }
    }

    pub(super) fn count(&self) -> usize {
        self.machines.len()
    }

    fn ip(&self, node: usize) -> IpAddr {
        self.world.ip(self.machines[node].id)
    }

    /// Where clients find the nodes.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        (0..self.count()).map(|node| SocketAddr::new(self.ip(node), PORT)).collect()
    }

    /// The options of a node: those of an operator, with what is small or fast here.
    fn values(&self, node: usize) -> Values {
        let ip = self.ip(node).to_string();
        let seeds: Vec<String> = (0..self.seeds).map(|it| self.ip(it).to_string()).collect();
        let megabytes = 48 * u32::from(self.machines[node].place.shards);
        let given = [
            ("workdir", "/node".to_owned()),
            ("listen_address", ip.clone()),
            ("rpc_address", ip),
            ("seeds", seeds.join(",")),
            ("smp", self.machines[node].place.shards.to_string()),
            ("memory", format!("{megabytes}M")),
            ("commitlog_sync", "batch".to_owned()),
            ("commitlog_segment_size_in_mb", "1".to_owned()),
            ("direct_failure_detector_ping_timeout_in_ms", "600".to_owned()),
            ("failure_detector_timeout_in_ms", "3000".to_owned()),
            ("num_tokens", "4".to_owned()),
            ("auto_repair_threshold_default_in_seconds", self.repair_seconds.to_string()),
        ];
        let mut values = Values::default();
        for (name, value) in given {
            values.set(name, vec![value], Source::CommandLine).expect("an option");
        }
        node::name_folders(&mut values);
        values
    }

    /// From its next start on a node has so many shards.
    pub(super) fn set_shards(&mut self, node: usize, shards: u16) {
        self.machines[node].place.shards = shards;
        self.world.set_shards(self.machines[node].id, shards);
    }

    /// Begins to start a node, on what there is of it.
    pub(super) fn start(&mut self, node: usize) {
        let values = self.values(node);
        let machine = &self.machines[node];
        let mut config = node::config_of_member(&values, machine.place.shards).expect("options");
        config.boot.node.rack = machine.place.rack.clone();
        config.boot.node.data_center = machine.place.data_center.clone();
        let port = SocketAddr::new(self.ip(node), PORT);
        let (started, planted) = (machine.started.clone(), self.planted);
        started.replace(None);
        self.world.start(machine.id, move |shard| {
            let (config, started) = (config.clone(), started.clone());
            async move {
                if shard == 0 {
                    if let Some(planted) = planted {
                        runtime::local::set(Rc::new(planted));
                    }
                    let background = Rc::new(Background(Scope::new()));
                    runtime::local::set(background.clone());
                    let served = serve(config, port, &background.0).await;
                    started.replace(Some(served));
                    std::future::pending::<()>().await;
                }
                node::follow().await;
            }
        });
    }

    /// Waits until a node serves; `false`: it is none of the cluster any more, and has said so. One
    /// whose disk failed meanwhile may say so, and is started again.
    pub(super) fn wait(&mut self, node: usize) -> bool {
        loop {
            let started = self.machines[node].started.clone();
            let ended = || started.borrow().is_some();
            assert!(self.world.run_until(ended, START_MAX), "node {node} does not start");
            let how = started.take().expect("it has ended");
            match how {
                Err(why) if is_gone(&why) => {
                    self.crash(node);
                    return false;
                }
                Err(_) if self.machines[node].disk_failed => {
                    self.crash(node);
                    self.machines[node].disk_failed = false;
                    self.start(node);
                }
                how => {
                    assert_eq!(how, Ok(()), "node {node}");
                    started.replace(Some(how));
                    return true;
                }
            }
        }
    }

    /// Lets the disk of a node fail in some way, or heals it.
    pub(super) fn set_disk_failing(&mut self, node: usize, how: Option<DiskFault>) {
        self.machines[node].disk_failed |= how.is_some();
        let mut disk = self.world.disk(self.machines[node].id);
        match how {
            Some(DiskFault::Full) => disk.set_capacity(Some(1)),
            Some(DiskFault::Errors) => disk.set_error_rate(50),
            None => {
                disk.set_capacity(None);
                disk.set_error_rate(0);
            }
        }
    }

    /// Whether a node has started, and not ended since.
    pub(super) fn serves(&self, node: usize) -> bool {
        *self.machines[node].started.borrow() == Some(Ok(()))
    }

    /// Kills a node.
    pub(super) fn crash(&mut self, node: usize) {
        self.machines[node].started.replace(None);
        self.world.crash(self.machines[node].id);
    }

    /// Stops a node that serves, in order.
    pub(super) fn stop(&mut self, node: usize) {
        self.machines[node].started.replace(None);
        self.world.block_on(self.machines[node].id, 0, async {
            membership::enter(Phase::Leaving).await;
            let end = || async {
                runtime::local::get::<Server>().stop(PATIENCE).await;
                runtime::local::clear::<Server>();
            };
            runtime::on_all_shards(end).await;
            node::stop().await.expect("a stop");
        });
        self.world.crash(self.machines[node].id);
    }

    /// Stops the process of a node where it is, or lets it go on.
    pub(super) fn set_paused(&mut self, node: usize, paused: bool) {
        self.world.set_paused(self.machines[node].id, paused);
    }

    /// Runs something on shard 0 of a node.
    pub(super) fn run<F: Future + 'static>(&mut self, node: usize, body: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.world.block_on(self.machines[node].id, 0, body)
    }

    /// From now on a node that runs does wrong what is planted.
    pub(super) fn plant(&mut self, node: usize) {
        if let Some(planted) = self.planted {
            self.run(node, async move { runtime::local::set(Rc::new(planted)) });
        }
    }

    /// Begins something on shard 0 of a node that serves.
    pub(super) fn begin(&mut self, node: usize, body: impl Future<Output = ()> + 'static) {
        self.run(node, async {
            let background = runtime::local::get::<Background>();
            drop(background.0.spawn(body));
        });
    }

    /// Runs something on the machine of the clients.
    pub(super) fn run_client<F: Future + 'static>(&mut self, body: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.world.block_on(self.clients, 0, body)
    }

    /// Cuts or joins one direction between two nodes.
    pub(super) fn set_cut(&mut self, from: usize, to: usize, cut: bool) {
        self.world.set_cut(self.machines[from].id, self.machines[to].id, cut);
    }

    /// Cuts or joins a node and all others; clients reach it still.
    pub(super) fn set_alone(&mut self, node: usize, alone: bool) {
        for other in (0..self.count()).filter(|other| *other != node) {
            self.set_cut(node, other, alone);
            self.set_cut(other, node, alone);
        }
    }

    /// Cuts or joins a node and the clients.
    pub(super) fn set_out_of_reach(&mut self, node: usize, out: bool) {
        self.world.set_cut(self.machines[node].id, self.clients, out);
        self.world.set_cut(self.clients, self.machines[node].id, out);
    }

    pub(super) fn set_delay(&mut self, from: usize, to: usize, delay: Duration) {
        self.world.set_delay(self.machines[from].id, self.machines[to].id, delay);
    }

    /// Breaks the connections between two nodes.
    pub(super) fn reset(&mut self, a: usize, b: usize) {
        self.world.reset_connections(self.machines[a].id, self.machines[b].id);
    }

    /// Flips a bit of the next packet.
    pub(super) fn corrupt(&mut self, from: usize, to: usize) {
        self.world.corrupt_next(self.machines[from].id, self.machines[to].id);
    }

    /// Sets the wall clock of a node so many microseconds apart.
    pub(super) fn skew(&mut self, node: usize, micros: i64) {
        self.world.skew_wall_clock(self.machines[node].id, micros);
    }

    /// The disk of a node.
    pub(super) fn disk(&mut self, node: usize) -> Disk<'_> {
        self.world.disk(self.machines[node].id)
    }
}

/// Whether a node says that it is none of its cluster.
fn is_gone(why: &str) -> bool {
    let texts =
        ["has left its cluster", "is no longer one of its cluster", "was not let into the cluster"];
    texts.iter().any(|text| why.contains(text))
}

/// A node as a server has it, its listener for CQL included.
async fn serve(config: node::Config, port: SocketAddr, background: &Scope) -> Result<(), String> {
    node::start(config).await?;
    node::joined().await?;
    runtime::on_all_shards(move || async move {
        let ports = native::Ports { plain: Some(port), ..native::Ports::default() };
        Server::start(native::Config {
            direct: ports,
            proxied: native::Ports::default(),
            keepalive: false,
            tells_shards: true,
            body_bytes_max: 16 << 20,
            limits: native::Limits::of_shard(32 << 20),
        });
    })
    .await;
    let server = runtime::local::get::<Server>();
    server.listen().await.map_err(|error| error.to_string())?;
    membership::enter(Phase::Serving).await;
    // What was replayed goes to SSTables, so that the log of the last life can go.
    drop(background.spawn_in(runtime::group::FLUSH, node::flush()));
    Ok(())
}
