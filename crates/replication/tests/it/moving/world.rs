//! Machines with a node each.
//!
//! Invariants
//!  - *arrived-first*: a node that serves owns its part of the ring.

use cluster::membership::{self, Phase};
use cluster::{BootConfig, Cluster, MemberState, NodeConfig};
use messaging::Plain;
use model::Uuid;
use replication::hints::{self, Hints};
use replication::moves::{self, Planted};
use replication::{Config, Coordinator};
use runtime::sim::{NodeId, Options, World};
use runtime::task::Scope;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::SyncMode;
use testkit::config::{boot_config, node_config};

pub(super) const SECOND: Duration = Duration::from_secs(1);
const PORT: u16 = 7000;
/// How long a start may take: others have to be found, and those that move waited for.
const START_MAX: Duration = Duration::from_secs(120);
const TOKENS: u32 = 3;

/// How far the start of a node is; `None`: not there yet.
type Started = Rc<RefCell<Option<Result<(), String>>>>;

struct Machine {
    id: NodeId,
    rack: String,
    started: Started,
    /// Whether its node has begun anew since it first served.
    is_restarted: bool,
}

/// What goes on beside the rest on shard 0 of a node, until it ends.
struct Background(Scope);

/// All of them.
pub(super) struct Nodes {
    pub(super) world: World,
    machines: Vec<Machine>,
    /// The first so many are the seeds of all.
    seeds: usize,
    /// What nodes do wrong.
    mistake: Option<Planted>,
}

/// What a node is told at its start.
#[derive(Clone)]
struct Orders {
    listen: SocketAddr,
    seeds: Vec<SocketAddr>,
    rack: String,
    mistake: Option<Planted>,
}

impl Nodes {
    /// Machines by their racks and shards, without a node yet.
    pub(super) fn new(
        seed: u64,
        machines: &[(String, u16)],
        seeds: usize,
        mistake: Option<Planted>,
    ) -> Nodes {
        testkit::log::into_trace();
        let mut world = World::new(Options::new(seed));
        let machine = |(rack, shards): &(String, u16)| Machine {
            id: world.add_node(*shards),
            rack: rack.clone(),
            started: Rc::default(),
            is_restarted: false,
        };
        let machines = machines.iter().map(machine).collect();
        Nodes { world, machines, seeds, mistake }
    }

    pub(super) fn count(&self) -> usize {
        self.machines.len()
    }

    fn address(&self, node: usize) -> SocketAddr {
        SocketAddr::new(self.world.ip(self.machines[node].id), PORT)
    }

    /// Begins to start a node, on what there is of it.
    pub(super) fn start(&mut self, node: usize) {
        let machine = &self.machines[node];
        let orders = Orders {
            listen: self.address(node),
            seeds: (0..self.seeds).map(|seed| self.address(seed)).collect(),
            rack: machine.rack.clone(),
            mistake: self.mistake,
        };
        let started = machine.started.clone();
        started.replace(None);
        self.world.start(machine.id, move |shard| {
            let (orders, started) = (orders.clone(), started.clone());
            async move {
                if shard == 0 {
                    runtime::local::set(Rc::new(Background(Scope::new())));
                    let served = live(orders).await;
                    started.replace(Some(served));
                }
                std::future::pending::<()>().await;
            }
        });
    }

    /// Waits until a node serves; `false`: it is none of the cluster any more, and has said so.
    pub(super) fn wait(&mut self, node: usize) -> bool {
        let started = self.machines[node].started.clone();
        let ended = || started.borrow().is_some();
        assert!(self.world.run_until(ended, START_MAX), "heals: node {node} does not start");
        let how = started.borrow().clone().expect("it has ended");
        match how {
            Err(why) if is_gone(&why) => {
                self.crash(node);
                false
            }
            how => {
                assert_eq!(how, Ok(()), "node {node}");
                true
            }
        }
    }

    /// Whether a node has started, and not ended since.
    pub(super) fn serves(&self, node: usize) -> bool {
        *self.machines[node].started.borrow() == Some(Ok(()))
    }

    /// Whether a node has lived once only, so that it knows all that it gave away.
    pub(super) fn remembers(&self, node: usize) -> bool {
        !self.machines[node].is_restarted
    }

    /// Kills a node.
    pub(super) fn crash(&mut self, node: usize) {
        self.machines[node].started.replace(None);
        self.machines[node].is_restarted = true;
        self.world.crash(self.machines[node].id);
    }

    pub(super) fn set_paused(&mut self, node: usize, paused: bool) {
        self.world.set_paused(self.machines[node].id, paused);
    }

    /// Cuts or joins one direction between two nodes.
    pub(super) fn set_cut(&mut self, from: usize, to: usize, cut: bool) {
        self.world.set_cut(self.machines[from].id, self.machines[to].id, cut);
    }

    /// Cuts or joins a node and all others.
    pub(super) fn set_alone(&mut self, node: usize, alone: bool) {
        for other in (0..self.count()).filter(|other| *other != node) {
            self.set_cut(node, other, alone);
            self.set_cut(other, node, alone);
        }
    }

    pub(super) fn set_delay(&mut self, from: usize, to: usize, delay: Duration) {
        self.world.set_delay(self.machines[from].id, self.machines[to].id, delay);
    }

    pub(super) fn reset(&mut self, a: usize, b: usize) {
        self.world.reset_connections(self.machines[a].id, self.machines[b].id);
    }

    /// Runs something on shard 0 of a node.
    pub(super) fn run<F: Future + 'static>(&mut self, node: usize, body: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.world.block_on(self.machines[node].id, 0, body)
    }

    /// Begins something on shard 0 of a node that runs.
    pub(super) fn begin(&mut self, node: usize, body: impl Future<Output = ()> + 'static) {
        self.run(node, async {
            let background = runtime::local::get::<Background>();
            drop(background.0.spawn(body));
        });
    }

    pub(super) fn host(&mut self, node: usize) -> Uuid {
        self.run(node, async { runtime::local::get::<Cluster>().node().host_id })
    }
}

/// Whether a node says that it is none of its cluster.
fn is_gone(why: &str) -> bool {
    let texts =
        ["has left its cluster", "is no longer one of its cluster", "was not let into the cluster"];
    texts.iter().any(|text| why.contains(text))
}

/// A node from its start until it serves, as `node::start` has it.
async fn live(orders: Orders) -> Result<(), String> {
    if let Some(planted) = orders.mistake {
        runtime::local::set(Rc::new(planted));
    }
    let ip = orders.listen.ip();
    let config = boot_config("/node", SyncMode::Batch);
    let segment_bytes = config.storage.segment_bytes;
    let node = NodeConfig {
        listen_address: ip,
        broadcast_address: ip,
        rpc_address: ip,
        rack: orders.rack,
        ..node_config(TOKENS)
    };
    let booted = cluster::boot(BootConfig { node, ..config }).await;
    booted.map_err(|error| error.to_string())?;
    let config = membership::Config {
        replaces: String::new(),
        ignores: Vec::new(),
        seeds: orders.seeds,
        listen: orders.listen,
        ping_timeout: Duration::from_millis(600),
        down_after: 2 * SECOND,
        command_time: 20 * SECOND,
        segment_bytes,
        policy: Arc::new(|| Rc::new(Plain)),
        verbs: Arc::new(replication::serve),
    };
    membership::start(config).await?;
    let started = Coordinator::start(Config::new(Duration::ZERO)).await;
    started.map_err(|error| error.to_string())?;
    Hints::start(hints::Config::new("/node/hints"), None).await?;
    moves::start();
    moves::joined().await?;
    let cluster = runtime::local::get::<Cluster>();
    let me = cluster.topology().member(cluster.node().host_id).map(|member| member.state);
    assert!(me != Some(MemberState::Joining), "arrived-first: {me:?}, and it serves");
    membership::enter(Phase::Serving).await;
    Ok(())
}
