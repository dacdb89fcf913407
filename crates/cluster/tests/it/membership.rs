//! Nodes that find each other over a simulated network: however they start and crash meanwhile they
//! are one cluster with one schema; who dies is down, and up again when it is back.

use cluster::MemberState;
use cluster::membership::links::{Keys, Links, Reach, Wishes};
use cluster::membership::{self, Phase};
use cluster::{AccessConfig, Authenticator, Authorizer};
use cluster::{BootConfig, Cluster, NodeConfig, SchemaChange};
use messaging::{HostId, Messaging, PeerState, ZstdRules};
use model::{Type, Uuid};
use runtime::sim::{NodeId, Options, World};
use runtime::task::join;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::SyncMode;
use testkit::config::{boot_config, keyspace, node_config, table};

const PORT: u16 = 7000;
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// How far the start of a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    NotYet,
    Yes,
    Refused(String),
}

pub(crate) type Slot = Rc<RefCell<Started>>;

pub(crate) struct Nodes {
    pub(crate) world: World,
    pub(crate) nodes: Vec<(NodeId, Slot)>,
    /// The seeds of each, by number.
    seeds: Vec<Vec<usize>>,
    names: Vec<&'static str>,
    ports: Vec<u16>,
    /// In which data centre and rack each is, and how it wants its links.
    places: Vec<(&'static str, &'static str)>,
    wishes: Vec<Wishes>,
    keys: Vec<Keys>,
    /// Features that each is to do without.
    withheld: Vec<BTreeSet<String>>,
}

/// Shows a certificate that the others do not trust, though it trusts theirs.
const STRANGER: Keys = Keys {
    client: || tls::testing::stranger_among_nodes(true).client,
    server: || Some(tls::testing::stranger_among_nodes(true).server),
};

/// All show one certificate, and trust it.
const KEYS: Keys = Keys {
    client: || tls::testing::between_nodes().client,
    server: || Some(tls::testing::between_nodes().server),
};

impl Nodes {
    pub(crate) fn new(seed: u64, shards: &[u16], seeds: &[usize]) -> Nodes {
        let mut world = World::new(Options::new(seed));
        let nodes = shards.iter().map(|shards| (world.add_node(*shards), slot())).collect();
        let (seeds, names) = (vec![seeds.to_vec(); shards.len()], vec!["test"; shards.len()]);
        let places = vec![("dc1", "r1"); shards.len()];
        let wishes = vec![Wishes::default(); shards.len()];
        let (keys, ports) = (vec![KEYS; shards.len()], vec![PORT; shards.len()]);
        let withheld = vec![BTreeSet::new(); shards.len()];
        Nodes { world, nodes, seeds, names, ports, places, wishes, keys, withheld }
    }

    fn ip(&self, number: usize) -> IpAddr {
        self.world.ip(self.nodes[number].0)
    }

    fn address(&self, number: usize) -> SocketAddr {
        SocketAddr::new(self.ip(number), self.ports[number])
    }

    pub(crate) fn start(&mut self, number: usize) {
        let listen = self.address(number);
        let seeds = self.seeds[number].iter().map(|seed| self.address(*seed));
        let (seeds, name) = (seeds.collect::<Vec<_>>(), self.names[number]);
        let place = self.places[number];
        let links = (self.wishes[number], self.keys[number]);
        let withheld = self.withheld[number].clone();
        let (node, slot) = &self.nodes[number];
        slot.replace(Started::NotYet);
        let slot = slot.clone();
        self.world.start(*node, move |shard| {
            let (seeds, slot, withheld) = (seeds.clone(), slot.clone(), withheld.clone());
            async move {
                if shard == 0 {
                    let config = NodeConfig {
                        cluster_name: name.to_owned(),
                        data_center: place.0.to_owned(),
                        rack: place.1.to_owned(),
                        withheld_features: withheld,
                        ..node_config(4)
                    };
                    let started = live(listen, seeds, config, links).await;
                    slot.replace(started.map_or_else(Started::Refused, |()| Started::Yes));
                    std::future::pending::<()>().await;
                }
            }
        });
    }

    pub(crate) fn crash(&mut self, number: usize) {
        let (node, slot) = &self.nodes[number];
        slot.replace(Started::NotYet);
        self.world.crash(*node);
    }

    /// Waits until each of these has started, or was refused.
    pub(crate) fn wait(&mut self, numbers: &[usize]) {
        for number in numbers {
            let slot = self.nodes[*number].1.clone();
            let ended = || *slot.borrow() != Started::NotYet;
            assert!(self.world.run_until(ended, 60 * SECOND), "node {number} does not start");
        }
    }

    pub(crate) fn started(&self, number: usize) -> Started {
        self.nodes[number].1.borrow().clone()
    }

    pub(crate) fn run<F: Future + 'static>(&mut self, number: usize, body: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.world.block_on(self.nodes[number].0, 0, body)
    }

    /// What a node shows: the version of the schema, and who is there.
    fn shown(&mut self, number: usize) -> (Uuid, BTreeSet<Uuid>) {
        self.run(number, async {
            let cluster = runtime::local::get::<Cluster>();
            let there = cluster.topology();
            (cluster.schema().version, there.present().map(|member| member.host_id).collect())
        })
    }

    /// Waits until all show the same, and each the other ones alive.
    pub(crate) fn agree(&mut self, numbers: &[usize]) -> (Uuid, BTreeSet<Uuid>) {
        for _ in 0..60 {
            self.world.run_for(SECOND / 2);
            let all: Vec<_> = numbers.iter().map(|number| self.shown(*number)).collect();
            let alive = numbers.iter().all(|number| self.alive(*number) == numbers.len() - 1);
            if all.windows(2).all(|pair| pair[0] == pair[1]) && alive {
                return all[0].clone();
            }
        }
        let all: Vec<_> = numbers.iter().map(|number| self.shown(*number)).collect();
        panic!("nodes {numbers:?} do not agree: {all:?}");
    }

    /// How the group is on each node.
    pub(crate) fn statuses(&mut self) -> Vec<Option<consensus::group::Status>> {
        let all = 0..self.nodes.len();
        all.map(|number| self.run(number, async { membership::status() })).collect()
    }

    /// How many others a node thinks alive, on each of its shards.
    fn alive(&mut self, number: usize) -> usize {
        let on_all = self.run(number, async {
            runtime::on_all_shards(|| async {
                let lives = runtime::local::get::<Cluster>().lives();
                lives.values().filter(|life| life.is_alive).count()
            })
            .await
        });
        assert!(on_all.windows(2).all(|pair| pair[0] == pair[1]), "shards differ: {on_all:?}");
        on_all[0]
    }

    /// Makes a table of that name, in a keyspace that is made when it is not there.
    pub(crate) fn make(&mut self, number: usize, name: String) -> Result<(), String> {
        self.run(number, make(name))
    }
}

fn slot() -> Slot {
    Rc::new(RefCell::new(Started::NotYet))
}

pub(crate) async fn make(name: String) -> Result<(), String> {
    let made = table("ks", &name, Type::Int);
    let decide = move |schema: &cluster::Schema| {
        let mut changes = Vec::new();
        if schema.keyspace("ks").is_none() {
            changes.push(SchemaChange::CreateKeyspace(keyspace("ks", 2, Some(4))));
        }
        if schema.table("ks", &name).is_none() {
            changes.push(SchemaChange::CreateTable(made.clone()));
        }
        Ok::<_, ()>(changes)
    };
    let changed = runtime::local::get::<Cluster>().change_schema(decide).await;
    changed.map(drop).map_err(|error| format!("{error:?}"))
}

async fn live(
    listen: SocketAddr,
    seeds: Vec<SocketAddr>,
    config_of_node: NodeConfig,
    (wishes, keys): (Wishes, Keys),
) -> Result<(), String> {
    let config = boot_config("/node", SyncMode::Batch);
    let ip = listen.ip();
    let node =
        NodeConfig { listen_address: ip, broadcast_address: ip, rpc_address: ip, ..config_of_node };
    let segment_bytes = config.storage.segment_bytes;
    cluster::boot(BootConfig { node, ..config }).await.map_err(|error| error.to_string())?;
    let config = membership::Config {
        replaces: String::new(),
        ignores: Vec::new(),
        seeds,
        listen,
        ping_timeout: Duration::from_millis(600),
        down_after: 20 * SECOND,
        command_time: 20 * SECOND,
        segment_bytes,
        policy: Arc::new(move || Rc::new(Links::new(wishes, keys, Rc::new(ZstdRules::default)))),
        verbs: Arc::new(|_| ()),
    };
    membership::start(config).await?;
    membership::enter(Phase::Serving).await;
    Ok(())
}

/// Schedules that found something: a node that asks again to be let in while its vote is needed for
/// that, and a read that waited for what came by a snapshot.
const FOUND: [u64; 2] = [97, 411];

/// The seeds of the schedules: one that is named, or so many, and those of old.
pub(crate) fn seeds(rounds: u64, of_old: &[u64]) -> Vec<u64> {
    let seeds = runtime::sim::seeds(rounds);
    let of_old = if seeds.end - seeds.start == 1 { &[] } else { of_old };
    seeds.chain(of_old.iter().copied()).collect()
}

#[test]
fn nodes_that_start_as_they_like_are_one_cluster() {
    for seed in seeds(3, &FOUND) {
        let mut draw = stdx::prng::Prng::from_seed(seed);
        let count = draw.between(1, 5) as usize;
        let shards: Vec<u16> = (0..count).map(|_| draw.between(1, 3) as u16).collect();
        let seeds: Vec<usize> = match draw.below(2) {
            0 => (0..count).collect(),
            _ => vec![draw.below(count as u64) as usize],
        };
        let mut nodes = Nodes::new(seed, &shards, &seeds);
        let all: Vec<usize> = (0..count).collect();
        for number in &all {
            nodes.start(*number);
            nodes.world.run_for(Duration::from_millis(draw.below(400)));
        }
        // One crashes, maybe while it looks for the others, or is let in.
        let victim = draw.below(count as u64) as usize;
        nodes.world.run_for(Duration::from_millis(draw.below(600)));
        nodes.crash(victim);
        nodes.world.run_for(Duration::from_millis(draw.below(3000)));
        nodes.start(victim);
        nodes.wait(&all);
        for number in &all {
            assert_eq!(nodes.started(*number), Started::Yes, "seed {seed}: node {number}");
        }
        let (_, there) = nodes.agree(&all);
        assert_eq!(there.len(), count, "seed {seed}");
        // All change the schema, two of them at once.
        for number in &all {
            let name = format!("t{number}");
            let made = nodes.make(*number, name);
            assert_eq!(made, Ok(()), "seed {seed}: node {number}: {:#?}", nodes.statuses());
        }
        let both =
            nodes.run(victim, async { join(make("one".to_owned()), make("two".to_owned())).await });
        assert_eq!(both, (Ok(()), Ok(())), "seed {seed}");
        nodes.agree(&all);
        let tables = nodes.run(0, async {
            let schema = runtime::local::get::<Cluster>().schema();
            schema.keyspace("ks").expect("the keyspace").tables.len()
        });
        assert_eq!(tables, count + 2, "seed {seed}");
    }
}

#[test]
fn a_disk_that_fails_for_a_while_stops_nothing_for_ever() {
    let all = [0, 1, 2];
    for (seed, victim) in (20..).zip([0, 1, 2, 0, 1, 2]) {
        let mut nodes = Nodes::new(seed, &[1, 2, 1], &all);
        all.iter().for_each(|number| nodes.start(*number));
        nodes.wait(&all);
        nodes.agree(&all);
        let id = nodes.nodes[victim].0;
        match seed % 2 {
            0 => nodes.world.disk(id).set_capacity(Some(1)),
            _ => nodes.world.disk(id).set_error_rate(1),
        }
        // Whoever led: the others go on.
        assert_eq!(nodes.make((victim + 1) % 3, "meanwhile".to_owned()), Ok(()), "seed {seed}");
        nodes.world.run_for(90 * SECOND);
        nodes.world.disk(id).set_capacity(None);
        nodes.world.disk(id).set_error_rate(0);
        nodes.agree(&all);
        assert_eq!(nodes.make(victim, "after".to_owned()), Ok(()), "seed {seed}");
        nodes.agree(&all);
        let stopped = nodes.statuses().into_iter().flatten().find_map(|status| status.stopped);
        assert_eq!(stopped, None, "seed {seed}");
    }
}

#[test]
fn a_node_stops_while_its_disk_does_not_take_what_was_decided() {
    for seed in 40..80 {
        let mut nodes = Nodes::new(seed, &[2], &[0]);
        nodes.start(0);
        nodes.wait(&[0]);
        let id = nodes.nodes[0].0;
        // The log of the group has it, or not yet.
        nodes.world.disk(id).set_error_rate(3);
        nodes.run(0, async {
            let making = Rc::new(runtime::task::Scope::new());
            drop(making.spawn(async { drop(make("late".to_owned()).await) }));
            runtime::local::set(making);
        });
        nodes.world.run_for(Duration::from_millis(seed * 7));
        nodes.world.disk(id).set_error_rate(1);
        nodes.world.run_for(SECOND);
        nodes.run(0, async {
            membership::stop().await;
            // What is in memory cannot be written: it says so.
            drop(cluster::stop().await);
        });
        nodes.crash(0);
        nodes.world.disk(id).set_error_rate(0);
        nodes.start(0);
        nodes.wait(&[0]);
        assert_eq!(nodes.make(0, "after".to_owned()), Ok(()), "seed {seed}");
    }
}

#[test]
fn who_dies_is_down_until_it_is_back() {
    let mut nodes = Nodes::new(7, &[1, 2, 1], &[0, 1, 2]);
    let all = [0, 1, 2];
    all.iter().for_each(|number| nodes.start(*number));
    nodes.wait(&all);
    nodes.agree(&all);
    assert_eq!(nodes.make(1, "before".to_owned()), Ok(()));
    nodes.agree(&all);
    for victim in all {
        nodes.crash(victim);
        let others: Vec<usize> = all.into_iter().filter(|number| *number != victim).collect();
        // Whoever led: the others go on.
        assert_eq!(nodes.make(others[0], format!("without{victim}")), Ok(()));
        nodes.world.run_for(25 * SECOND);
        others.iter().for_each(|number| assert_eq!(nodes.alive(*number), 1));
        nodes.start(victim);
        nodes.wait(&[victim]);
        nodes.agree(&all);
    }
    // A pause that is shorter than what makes a node dead is none.
    for other in [1, 2] {
        let (a, b) = (nodes.nodes[0].0, nodes.nodes[other].0);
        nodes.world.set_cut(a, b, true);
        nodes.world.set_cut(b, a, true);
    }
    nodes.world.run_for(12 * SECOND);
    all.iter().for_each(|number| assert_eq!(nodes.alive(*number), 2));
    nodes.world.run_for(12 * SECOND);
    assert_eq!(all.map(|number| nodes.alive(number)), [0, 1, 1]);
    // Who is cut off changes nothing, and says so; the others do.
    let refused = nodes.make(0, "alone".to_owned()).expect_err("no majority");
    assert!(refused.contains("Failed"), "{refused}");
    assert_eq!(nodes.make(1, "together".to_owned()), Ok(()));
    for other in [1, 2] {
        let (a, b) = (nodes.nodes[0].0, nodes.nodes[other].0);
        nodes.world.set_cut(a, b, false);
        nodes.world.set_cut(b, a, false);
    }
    nodes.agree(&all);
}

/// Of two nodes neither has a majority without the other, so that where one is cannot be written
/// down before the other one knows it.
#[test]
fn a_node_that_comes_back_elsewhere_is_found() {
    for (count, movers) in [(2, vec![1]), (2, vec![0]), (3, vec![0, 1, 2])] {
        let mut nodes = Nodes::new(count as u64, &vec![2; count], &[0]);
        let all: Vec<usize> = (0..count).collect();
        all.iter().for_each(|number| nodes.start(*number));
        nodes.wait(&all);
        nodes.agree(&all);
        assert_eq!(nodes.make(1, "before".to_owned()), Ok(()));
        nodes.agree(&all);
        movers.iter().for_each(|mover| nodes.crash(*mover));
        nodes.world.run_for(SECOND);
        for mover in &movers {
            nodes.ports[*mover] += 1;
            nodes.start(*mover);
        }
        nodes.wait(&movers);
        assert_eq!(nodes.make(movers[0], "after".to_owned()), Ok(()), "{movers:?} of {count}");
        nodes.agree(&all);
        let wanted: BTreeSet<SocketAddr> =
            all.iter().map(|number| nodes.address(*number)).collect();
        for number in all {
            let found: BTreeSet<SocketAddr> = nodes.run(number, async {
                let topology = runtime::local::get::<Cluster>().topology();
                topology.present().map(|member| member.address).collect()
            });
            assert_eq!(found, wanted, "{movers:?} of {count}, on {number}");
        }
    }
}

/// After all were killed, the first that is started has nobody to agree with, and starts.
#[test]
fn a_node_is_secured_again_without_the_others() {
    let mut nodes = Nodes::new(13, &[1, 2, 1], &[0]);
    let all = [0, 1, 2];
    all.iter().for_each(|number| nodes.start(*number));
    nodes.wait(&all);
    let secure = || async {
        let config = AccessConfig {
            authenticator: Authenticator::Password,
            authorizer: Authorizer::Cassandra,
            superuser: "root".to_owned(),
            default_superuser: true,
            superuser_salted_password: String::new(),
            certificate_roles: auth::certificate::Queries::usual(),
        };
        let cluster = runtime::local::get::<Cluster>();
        let secured = runtime::time::timeout(5 * SECOND, cluster.secure(config)).await;
        secured.unwrap_or_else(|_| Err("it waits for others".to_owned()))
    };
    for number in all {
        assert_eq!(nodes.run(number, secure()), Ok(()));
    }
    nodes.agree(&all);
    nodes.world.run_for(SECOND);
    all.iter().for_each(|number| nodes.crash(*number));
    nodes.start(2);
    nodes.wait(&[2]);
    assert_eq!(nodes.run(2, secure()), Ok(()));
}

/// What operators ask of the group.
#[test]
fn the_group_is_shown_caught_up_with_cut_and_led_by_another() {
    let mut nodes = Nodes::new(12, &[2, 1, 1], &[0]);
    let all = [0, 1, 2];
    all.iter().for_each(|number| nodes.start(*number));
    nodes.wait(&all);
    nodes.agree(&all);
    let views = all.map(|number| nodes.run(number, membership::view()).expect("a group"));
    assert!(views.iter().all(|view| *view == views[0]), "{views:?}");
    assert_eq!(views[0].id.get_version_num(), 1, "tools read it as a time-based UUID");
    let (_, there) = nodes.agree(&all);
    let hosts: BTreeSet<Uuid> = views[0].members.iter().map(|member| member.host_id).collect();
    assert_eq!((hosts, views[0].members.iter().all(|it| it.votes)), (there, true));
    // A barrier: what was decided before is shown, on a shard that does not lead too.
    for round in 0..5 {
        let name = format!("t{round}");
        assert_eq!(nodes.make(round % 3, name.clone()), Ok(()));
        let other = (round + 1) % 3;
        assert_eq!(nodes.run(other, membership::read_barrier(Some(10 * SECOND))), Ok(()));
        let is_shown = nodes.run(other, async move {
            runtime::local::get::<Cluster>().schema().table("ks", &name).is_some()
        });
        assert!(is_shown, "read-your-past: t{round} on node {other}");
    }
    for number in all {
        assert_eq!(nodes.run(number, membership::cut_log(10 * SECOND)), Ok(()));
        let status = nodes.statuses()[number].clone().expect("a group");
        assert!(status.log_last <= status.log_first, "cut: {status:?}");
    }
    let leader = views[0].leader.expect("a leader");
    for number in all {
        let own = nodes.run(number, async { runtime::local::get::<Cluster>().node().host_id });
        let stood = nodes.run(number, membership::step_down(10 * SECOND));
        match own == leader {
            true => assert_eq!(stood, Ok(())),
            false if stood.is_ok() => {}
            false => assert_eq!(stood, Err("this node does not lead".to_owned())),
        }
    }
    assert_eq!(nodes.make(0, "after".to_owned()), Ok(()));
    nodes.agree(&all);
    // Who is cut off from the others waits in vain.
    for other in [1, 2] {
        let (a, b) = (nodes.nodes[0].0, nodes.nodes[other].0);
        nodes.world.set_cut(a, b, true);
        nodes.world.set_cut(b, a, true);
    }
    let waited = nodes.run(0, membership::read_barrier(Some(30 * SECOND)));
    let why = waited.expect_err("no majority");
    let expected = "raft operation [read_barrier] timed out, there is no raft quorum, total voters \
                    count 3, alive voters count 1";
    assert!(why.starts_with("the read barrier did not end") && why.ends_with(expected), "{why}");
    let made = nodes.make(0, "never".to_owned()).expect_err("no majority");
    assert!(made.contains("there is no raft quorum"), "{made}");
}

/// Who starts a node and asks another one for a write to all of them at once is not told that one
/// is down.
#[test]
fn a_node_that_has_started_is_alive_for_all() {
    for seed in 90..94 {
        let mut nodes = Nodes::new(seed, &[2, 3, 1], &[0]);
        let all = [0, 1, 2];
        all.iter().for_each(|number| nodes.start(*number));
        nodes.wait(&all);
        nodes.agree(&all);
        nodes.crash(1);
        let mut missed = false;
        while !missed {
            nodes.world.run_for(SECOND);
            missed = [0, 2].into_iter().all(|number| nodes.alive(number) == 1);
        }
        nodes.start(1);
        nodes.wait(&[1]);
        for number in all {
            assert_eq!(nodes.alive(number), 2, "seed {seed}, node {number}");
        }
    }
}

#[test]
fn who_is_convicted_is_down_at_once_and_up_when_it_answers() {
    let mut nodes = Nodes::new(10, &[2, 1, 1], &[0]);
    let all = [0, 1, 2];
    all.iter().for_each(|number| nodes.start(*number));
    nodes.wait(&all);
    nodes.agree(&all);
    let own = || async { runtime::local::get::<Cluster>().node().host_id };
    let hosts = all.map(|number| nodes.run(number, own()));
    nodes.crash(2);
    nodes.world.run_for(SECOND);
    assert_eq!([0, 1].map(|number| nodes.alive(number)), [2, 2]);
    let convicted = nodes.run(0, membership::convict(hosts[2]));
    assert_eq!(convicted, Ok(()));
    assert_eq!([0, 1].map(|number| nodes.alive(number)), [1, 2]);
    // One that lives is up again.
    assert_eq!(nodes.run(0, membership::convict(hosts[1])), Ok(()));
    nodes.world.run_for(SECOND);
    assert_eq!(nodes.alive(0), 1);
    let refused = nodes.run(0, membership::convict(hosts[0])).expect_err("itself");
    assert!(refused.contains("does not convict itself"), "{refused}");
    let stranger = Uuid::from_u128(7);
    let refused = nodes.run(0, membership::convict(stranger)).expect_err("nobody knows it");
    assert!(refused.contains("nothing was heard"), "{refused}");
}

#[test]
fn who_goes_says_so() {
    let mut nodes = Nodes::new(9, &[2, 1, 1], &[0]);
    let all = [0, 1, 2];
    all.iter().for_each(|number| nodes.start(*number));
    nodes.wait(&all);
    nodes.agree(&all);
    nodes.run(2, membership::stop());
    nodes.world.run_for(SECOND);
    assert_eq!([0, 1].map(|number| nodes.alive(number)), [1, 1]);
    assert_eq!(nodes.make(0, "t".to_owned()), Ok(()));
}

#[test]
fn strangers_are_told_why_they_are_refused() {
    let mut nodes = Nodes::new(11, &[1, 1, 1, 1], &[0]);
    nodes.names[1] = "other";
    nodes.seeds[3] = vec![3];
    nodes.start(0);
    nodes.start(3);
    nodes.wait(&[0, 3]);
    // Of a cluster with another name.
    nodes.start(1);
    nodes.wait(&[1]);
    let refused = |nodes: &Nodes, number: usize, parts: &[&str]| {
        let Started::Refused(why) = nodes.started(number) else { panic!("{number} was let in") };
        parts.iter().for_each(|part| assert!(why.contains(part), "{why}"));
    };
    let at = nodes.ip(0).to_string();
    refused(&nodes, 1, &[&at, "cluster", "other"]);
    // There are data: it joins, and owns nothing before somebody has seen to it that it has some.
    assert_eq!(nodes.make(0, "t".to_owned()), Ok(()));
    nodes.start(2);
    nodes.wait(&[2]);
    assert_eq!(nodes.started(2), Started::Yes);
    let joins = nodes.run(2, async {
        let cluster = runtime::local::get::<Cluster>();
        let topology = cluster.topology();
        topology.member(cluster.node().host_id).map(|member| member.state)
    });
    assert_eq!(joins, Some(MemberState::Joining));
    // It belongs to a cluster of its own already, and stays there whatever it is told.
    nodes.crash(3);
    nodes.seeds[3] = vec![0];
    nodes.start(3);
    nodes.wait(&[3]);
    assert_eq!(nodes.started(3), Started::Yes);
    assert_eq!(nodes.shown(3).1.len(), 1);
    assert_eq!(nodes.shown(0).1.len(), 2);
}

/// Each link of each node: from which node to which, and whether it is encrypted.
fn links(nodes: &mut Nodes) -> BTreeSet<(usize, usize, bool)> {
    let hosts: Vec<HostId> = (0..nodes.nodes.len())
        .map(|number| {
            nodes.run(number, async {
                HostId(runtime::local::get::<Cluster>().node().host_id.as_u128())
            })
        })
        .collect();
    let mut links = BTreeSet::new();
    for number in 0..hosts.len() {
        let seen = nodes.run(number, async {
            runtime::on_all_shards(|| async { Messaging::current().expect("it runs").peers() })
                .await
        });
        for peer in seen.into_iter().flatten() {
            let other = hosts.iter().position(|host| *host == peer.host).expect("a node");
            if let PeerState::Up { encrypted, .. } = peer.state {
                links.insert((number, other, encrypted));
            }
        }
    }
    links
}

/// The same, none of which is plain that has to be encrypted (*never-less*).
fn links_that_may_be(
    nodes: &mut Nodes,
    has_to: impl Fn(usize, usize) -> bool,
) -> BTreeSet<(usize, usize, bool)> {
    let links = links(nodes);
    for (one, other, encrypted) in &links {
        assert!(*encrypted || !has_to(*one, *other), "{one} to {other} is plain: {links:?}");
    }
    links
}

#[test]
fn links_between_places_are_encrypted_from_the_first_word_on() {
    const PLACES: [(&str, &str); 4] = [("a", "r"), ("a", "r"), ("a", "s"), ("b", "r")];
    let crosses = |reach: Reach, one: usize, other: usize| {
        let ((dc, rack), (other_dc, other_rack)) = (PLACES[one], PLACES[other]);
        match reach {
            Reach::None => false,
            Reach::DataCenters => dc != other_dc,
            Reach::Racks => dc != other_dc || rack != other_rack,
            Reach::All => true,
        }
    };
    let reaches = [Reach::DataCenters, Reach::Racks, Reach::All];
    for (seed, encrypted) in (40..).zip(reaches) {
        let mut nodes = Nodes::new(seed, &[1, 2, 1, 1], &[0, 3]);
        nodes.places = PLACES.to_vec();
        nodes.wishes = vec![Wishes { encrypted, ..Wishes::default() }; PLACES.len()];
        let all = [0, 1, 2, 3];
        all.iter().for_each(|number| nodes.start(*number));
        nodes.wait(&all);
        nodes.agree(&all);
        links_that_may_be(&mut nodes, |one, other| crosses(encrypted, one, other));
        // Whoever leads, others are behind it for a while: they do not know it, and it knows them.
        for victim in all {
            nodes.crash(victim);
            let other = (victim + 1) % all.len();
            assert_eq!(nodes.make(other, format!("t{victim}")), Ok(()), "{encrypted:?}");
            nodes.start(victim);
            nodes.wait(&[victim]);
            nodes.agree(&all);
        }
        let links = links_that_may_be(&mut nodes, |one, other| crosses(encrypted, one, other));
        let plain = links.iter().filter(|(_, _, encrypted)| !encrypted).count();
        assert_eq!(plain == 0, encrypted == Reach::All, "{encrypted:?}: {links:?}");
    }
}

#[test]
fn tls_is_introduced_node_by_node() {
    let mut nodes = Nodes::new(50, &[1, 2, 1], &[0, 1, 2]);
    let all = [0, 1, 2];
    all.iter().for_each(|number| nodes.start(*number));
    nodes.wait(&all);
    nodes.agree(&all);
    let encrypted = Reach::All;
    for transitional in [true, false] {
        for number in all {
            nodes.crash(number);
            nodes.wishes[number] = Wishes { encrypted, transitional, ..Wishes::default() };
            nodes.start(number);
            nodes.wait(&[number]);
            nodes.agree(&all);
            let name = format!("t{number}{transitional}");
            assert_eq!(nodes.make((number + 1) % 3, name), Ok(()));
        }
    }
    let links = links(&mut nodes);
    assert!(links.iter().all(|(_, _, encrypted)| *encrypted), "{links:?}");
    // Who comes without is told at once, and does not start.
    nodes.crash(2);
    nodes.world.run_for(SECOND);
    nodes.wishes[2] = Wishes::default();
    nodes.start(2);
    nodes.world.run_for(5 * SECOND);
    assert_eq!(nodes.alive(0), 2, "it is not thought dead yet");
    nodes.world.run_for(25 * SECOND);
    assert_eq!([0, 1].map(|number| nodes.alive(number)), [1, 1]);
}

#[test]
fn who_looks_for_a_cluster_without_tls_is_told_that_it_needs_some() {
    let mut nodes = Nodes::new(51, &[1, 1], &[0]);
    nodes.wishes[0] = Wishes { encrypted: Reach::All, ..Wishes::default() };
    nodes.start(0);
    nodes.wait(&[0]);
    nodes.start(1);
    nodes.wait(&[1]);
    let Started::Refused(why) = nodes.started(1) else { panic!("it was let in") };
    let at = nodes.ip(0).to_string();
    assert!(why.contains(&at) && why.contains("connects without TLS"), "{why}");
}

#[test]
fn who_is_not_trusted_waits_and_does_not_knock_all_the_time() {
    let mut nodes = Nodes::new(52, &[1, 1], &[0]);
    nodes.wishes = vec![Wishes { encrypted: Reach::All, ..Wishes::default() }; 2];
    nodes.keys[1] = STRANGER;
    nodes.start(0);
    nodes.wait(&[0]);
    nodes.start(1);
    nodes.world.run_for(20 * SECOND);
    assert_eq!(nodes.started(1), Started::NotYet);
    let refused = nodes.run(0, async { Messaging::current().expect("it runs").counters().refused });
    assert!((15..=25).contains(&refused), "{refused} handshakes in 20 s");
    assert_eq!(nodes.shown(0).1.len(), 1);
    nodes.crash(1);
    nodes.keys[1] = KEYS;
    nodes.start(1);
    nodes.wait(&[1]);
    assert_eq!(nodes.agree(&[0, 1]).1.len(), 2);
}

/// The features that a node says the cluster has, on each shard, and in its tables.
fn enabled(nodes: &mut Nodes, number: usize) -> BTreeSet<String> {
    let on_all = nodes.run(number, async {
        runtime::on_all_shards(|| async {
            runtime::local::get::<Cluster>().topology().enabled().clone()
        })
        .await
    });
    assert!(on_all.windows(2).all(|pair| pair[0] == pair[1]), "shards differ: {on_all:?}");
    on_all[0].clone()
}

/// *all-have-it*, *never-less*: nodes of an older version join, and are replaced one by one.
#[test]
fn features_are_enabled_when_all_nodes_have_them_and_never_taken_back() {
    let mut nodes = Nodes::new(60, &[2, 1, 1, 1], &[0]);
    let all: BTreeSet<String> =
        catalog::features::ALL.iter().map(|name| (*name).to_owned()).collect();
    let lwt: BTreeSet<String> = [catalog::features::LWT.to_owned()].into();
    nodes.withheld[1] = lwt.clone();
    nodes.withheld[2] = lwt.clone();
    nodes.withheld[3] = lwt.clone();
    // The first is alone for a moment, and must not enable what the others lack: it starts last.
    nodes.seeds = vec![vec![1]; 4];
    for number in [1, 0, 2] {
        nodes.start(number);
        nodes.wait(&[number]);
    }
    let three = [0, 1, 2];
    nodes.agree(&three);
    nodes.world.run_for(3 * SECOND);
    for number in three {
        assert_eq!(enabled(&mut nodes, number), &all - &lwt, "node {number}");
    }
    for number in [1, 2] {
        nodes.crash(number);
        nodes.withheld[number] = BTreeSet::new();
        nodes.start(number);
        nodes.wait(&[number]);
        nodes.agree(&three);
        nodes.world.run_for(5 * SECOND);
        let expected = if number == 2 { all.clone() } else { &all - &lwt };
        for shown in three {
            assert_eq!(enabled(&mut nodes, shown), expected, "node {shown} after {number}");
        }
    }
    // Who lacks one neither joins nor starts.
    nodes.start(3);
    nodes.wait(&[3]);
    nodes.crash(2);
    nodes.withheld[2] = lwt;
    nodes.start(2);
    nodes.wait(&[2]);
    for number in [2, 3] {
        let Started::Refused(why) = nodes.started(number) else { panic!("{number} starts") };
        assert!(why.contains("lacks features that") && why.contains("LWT"), "{why}");
    }
    nodes.crash(2);
    nodes.withheld[2] = BTreeSet::new();
    nodes.start(2);
    nodes.wait(&[2]);
    nodes.agree(&three);
}

/// Who asks a node that has only just started waits for what the leader does first, and then finds
/// it; a node of no cluster does not wait.
#[test]
fn a_change_waits_for_a_cluster_that_has_just_formed() {
    let mut before = 0;
    for seed in 70..74 {
        let mut nodes = Nodes::new(seed, &[2, 1], &[0]);
        nodes.start(0);
        nodes.wait(&[0]);
        let what = || {
            let cluster = runtime::local::get::<Cluster>();
            (cluster.topology().enabled().len(), cluster.has_streams())
        };
        let (at_first, then) = nodes.run(0, async move {
            let at_first = what();
            runtime::local::get::<Cluster>().formed().await;
            (at_first, what())
        });
        assert_eq!(then, (catalog::features::ALL.len(), true), "seed {seed}");
        before += usize::from(at_first != then);
        // A second node: other streams come a minute later, and nobody waits for them.
        nodes.start(1);
        nodes.wait(&[1]);
        nodes.agree(&[0, 1]);
        let took = nodes.run(1, async {
            let since = runtime::time::Instant::now();
            runtime::local::get::<Cluster>().formed().await;
            since.elapsed()
        });
        assert!(took.is_zero(), "seed {seed}: waited for {took:?}");
    }
    assert!(before > 0, "nobody asked while the cluster formed");
}

/// *own-silence-is-not-theirs*: also where it was paused while it waited for answers, which are
/// late when it goes on.
#[test]
fn a_node_that_goes_on_after_a_pause_thinks_nobody_dead() {
    for seed in 80..90 {
        let mut nodes = Nodes::new(seed, &[2, 1, 1], &[0]);
        for number in [0, 1, 2] {
            nodes.start(number);
        }
        nodes.wait(&[0, 1, 2]);
        nodes.agree(&[0, 1, 2]);
        let paused = nodes.nodes[0].0;
        for other in [nodes.nodes[1].0, nodes.nodes[2].0] {
            nodes.world.set_delay(paused, other, SECOND / 5);
            nodes.world.set_delay(other, paused, SECOND / 5);
        }
        // At another place of its round each time.
        nodes.world.run_for(3 * SECOND + (seed % 10) as u32 * SECOND / 11);
        nodes.world.set_paused(paused, true);
        nodes.world.run_for(40 * SECOND);
        assert_eq!([nodes.alive(1), nodes.alive(2)], [1, 1], "the others do not miss it");
        nodes.world.set_paused(paused, false);
        for moment in 0..400 {
            nodes.world.run_for(SECOND / 200);
            assert_eq!(nodes.alive(0), 2, "seed {seed}: {} ms after the pause", moment * 5);
        }
        nodes.agree(&[0, 1, 2]);
    }
}
