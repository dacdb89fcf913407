//! Faults from a seed, while clients do all that is promised something.
//!
//! Invariants
//!  - *heals*: when faults end, all nodes answer at ALL, and show one schema.
//!  - *works*: a schedule in which nothing is wrong has done something of each kind.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::batches::{self, Batches};
use super::client::{ALL, Client, ONE, below};
use super::counters::{self, Counters};
use super::nodes::{DiskFault, Nodes, Place};
use super::registers::{self, Conditional, Plain};
use super::rows::{self, Rows};
use super::schema::Tables;
use ::client::request::Consistency;
use cluster::membership;
use model::Uuid;
use replication::moves::Planted;
use runtime::task::Scope;
use runtime::time::sleep;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;

const CLIENTS: u32 = 6;
/// Faults of a schedule.
const STEPS: u32 = 8;
/// What nobody knows of ends within that time, batches that were left included.
const CALM: Duration = Duration::from_secs(40);

/// Reads of all that clients have written, but for tables that come and go.
const EVERYTHING: [&str; 5] = [
    "SELECT p, c FROM ks.rows",
    "SELECT k, v FROM ks.plain",
    "SELECT p, b FROM ks.batches",
    "SELECT k, v FROM ks.conditional",
    "SELECT k, v FROM ks.counters",
];

/// All that clients do.
#[derive(Default)]
struct Work {
    quiet: Cell<bool>,
    running: Cell<u32>,
    conditional: Conditional,
    plain: Plain,
    rows: Rows,
    counters: Counters,
    batches: Batches,
    tables: Tables,
}

impl Work {
    async fn one(&self, client: &mut Client) {
        match below(13) {
            0..=2 => self.conditional.work(client).await,
            3..=4 => self.plain.work(client).await,
            5..=7 => self.rows.work(client).await,
            8..=9 => self.counters.work(client).await,
            10..=11 => self.batches.work(client).await,
            _ => self.tables.work(client).await,
        }
    }

    /// How much was answered, of each kind.
    fn ended(&self) -> [u64; 6] {
        [
            self.conditional.ended(),
            self.plain.ended.get(),
            self.rows.ended.get(),
            self.counters.ended.get(),
            self.batches.ended.get(),
            self.tables.ended.get(),
        ]
    }

    fn is_wrong(&self) -> bool {
        let wrong =
            [&self.plain.wrong, &self.rows.wrong, &self.counters.wrong, &self.batches.wrong];
        wrong.iter().any(|wrong| !wrong.borrow().is_empty())
    }

    async fn check(&self, client: &mut Client) -> Vec<String> {
        let mut wrong = self.conditional.check(client).await;
        wrong.extend(self.plain.check(client).await);
        wrong.extend(self.rows.check(client).await);
        wrong.extend(self.counters.check(client).await);
        wrong.extend(self.batches.check(client).await);
        wrong.extend(self.tables.check(client).await);
        wrong
    }
}

/// The clients; they end with their machine.
struct Clients {
    _scope: Scope,
}

struct Schedule {
    nodes: Nodes,
    work: Rc<Work>,
    prng: Prng,
    /// Data centres.
    centers: u64,
    tablets: bool,
    /// Machines whose nodes do not run: they have not joined yet, or have left.
    away: BTreeSet<usize>,
    /// Those of them whose nodes have never run.
    spares: Vec<usize>,
    /// Nodes that died for ever.
    removed: Vec<Uuid>,
    /// Nodes that were told to leave.
    leaving: BTreeSet<usize>,
}

impl Schedule {
    /// Nodes that start together, and so many machines beside them, for nodes that come later.
    fn new(seed: u64, spares: u64) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        let centers = if prng.below(4) == 0 { 2 } else { 1 };
        let count = prng.between(centers + 2, 5 - spares.min(1));
        let racks = if prng.below(2) == 0 { 1 } else { count };
        let machine = |at: u64, prng: &mut Prng| Place {
            data_center: format!("dc{}", at % centers),
            rack: format!("rack{}", at / centers % racks),
            shards: prng.between(1, 3) as u16,
        };
        let machines: Vec<_> = (0..count + spares).map(|at| machine(at, &mut prng)).collect();
        let nodes = Nodes::new(seed, &machines, count as usize);
        let tablets = prng.below(3) != 0;
        let spares: Vec<usize> = (count as usize..machines.len()).collect();
        let (away, leaving) = (spares.iter().copied().collect(), BTreeSet::new());
        let (work, removed) = (Rc::default(), Vec::new());
        let mut schedule =
            Schedule { nodes, work, prng, centers, tablets, away, spares, removed, leaving };
        let all = 0..count as usize;
        all.clone().for_each(|node| schedule.nodes.start(node));
        all.for_each(|node| assert!(schedule.nodes.wait(node), "node {node}"));
        schedule.make_tables();
        schedule.start_clients();
        schedule
    }

    fn make_tables(&mut self) {
        let tablets = self.tablets;
        let addresses = self.nodes.addresses();
        let copies = if self.centers == 1 { 3 } else { 2 };
        let made = self.nodes.run_client(async move {
            let mut client = Client::new(addresses);
            let keyspace = format!(
                "CREATE KEYSPACE ks WITH replication = {{'class': 'NetworkTopologyStrategy', \
                 'replication_factor': {copies}}} AND tablets = {{'enabled': {tablets}}}"
            );
            client.stay_at(0);
            let tables = [rows::TABLE, counters::TABLE, batches::TABLE];
            let all = std::iter::once(&keyspace[..]).chain(registers::TABLES).chain(tables);
            for text in all {
                client.execute(text, ONE).await.map_err(|why| format!("{text}: {why}"))?;
            }
            Ok::<_, String>(())
        });
        made.expect("the tables");
    }

    fn start_clients(&mut self) {
        let (work, addresses) = (self.work.clone(), self.nodes.addresses());
        self.nodes.run_client(async move {
            let scope = Scope::new();
            for _ in 0..CLIENTS {
                let (work, mut client) = (work.clone(), Client::new(addresses.clone()));
                drop(scope.spawn(async move {
                    work.running.set(work.running.get() + 1);
                    while !work.quiet.get() {
                        work.one(&mut client).await;
                        sleep(Duration::from_micros(below(40_000))).await;
                    }
                    work.running.set(work.running.get() - 1);
                }));
            }
            runtime::local::set(Rc::new(Clients { _scope: scope }));
        });
    }

    /// The nodes that run, or are to run again.
    fn members(&self) -> Vec<usize> {
        (0..self.nodes.count()).filter(|node| !self.away.contains(node)).collect()
    }

    fn node(&mut self) -> usize {
        let members = self.members();
        members[self.prng.below(members.len() as u64) as usize]
    }

    /// Another one than that.
    fn other(&mut self, node: usize) -> usize {
        let others: Vec<usize> = self.members().into_iter().filter(|it| *it != node).collect();
        others[self.prng.below(others.len() as u64) as usize]
    }

    /// Waits until a node serves, unless it is none of the cluster any more.
    fn wait(&mut self, node: usize) {
        // Who joins waits for those that died for ever, until they are removed.
        self.bury();
        if !self.nodes.wait(node) {
            self.away.insert(node);
        }
    }

    fn run_for(&mut self, millis: u64) {
        let millis = 1 + self.prng.below(millis);
        self.nodes.world.run_for(Duration::from_millis(millis));
    }

    /// Something goes wrong, for a while.
    fn suffer(&mut self) {
        let node = self.node();
        match self.prng.below(5) {
            0 | 1 => self.suffer_process(node),
            2 => self.suffer_machine(node),
            _ => self.suffer_network(node),
        }
        self.run_for(1000);
    }

    /// The process of a node ends, or stands still.
    fn suffer_process(&mut self, node: usize) {
        match self.prng.below(6) {
            0..=2 => {
                self.nodes.crash(node);
                self.run_for(4000);
                self.nodes.start(node);
                if self.prng.below(2) == 0 {
                    self.wait(node);
                }
                // Else another fault may find it on its way up.
            }
            3 if self.nodes.serves(node) => {
                self.nodes.stop(node);
                self.run_for(2000);
                self.nodes.start(node);
                self.wait(node);
            }
            4 => {
                self.nodes.crash(node);
                let shards = self.prng.between(1, 3) as u16;
                self.nodes.set_shards(node, shards);
                self.nodes.start(node);
                self.wait(node);
            }
            _ => {
                self.nodes.set_paused(node, true);
                self.run_for(8000);
                self.nodes.set_paused(node, false);
            }
        }
    }

    /// Its disk or its clock is not what it should be.
    fn suffer_machine(&mut self, node: usize) {
        match self.prng.below(4) {
            0 => {
                let seconds = self.prng.between(0, 400) as i64 - 200;
                self.nodes.skew(node, seconds * 1_000_000);
            }
            1 => {
                self.nodes.disk(node).set_slowness(1 + self.prng.below(400) as u32);
                self.run_for(3000);
                self.nodes.disk(node).set_slowness(1);
            }
            kind => {
                let fault = if kind == 2 { DiskFault::Full } else { DiskFault::Errors };
                self.nodes.set_disk_failing(node, Some(fault));
                self.run_for(4000);
                self.nodes.set_disk_failing(node, None);
            }
        }
    }

    /// Something is between it and others.
    fn suffer_network(&mut self, node: usize) {
        let other = self.other(node);
        match self.prng.below(6) {
            0 => {
                self.nodes.set_alone(node, true);
                self.run_for(6000);
                self.nodes.set_alone(node, false);
            }
            1 => {
                self.nodes.set_out_of_reach(node, true);
                self.run_for(3000);
                self.nodes.set_out_of_reach(node, false);
            }
            2 => {
                self.nodes.set_cut(node, other, true);
                self.run_for(6000);
                self.nodes.set_cut(node, other, false);
            }
            3 => self.nodes.reset(node, other),
            4 => self.nodes.corrupt(node, other),
            _ => {
                let delay = Duration::from_millis(self.prng.below(900));
                self.nodes.set_delay(node, other, delay);
                self.run_for(3000);
                self.nodes.set_delay(node, other, Duration::ZERO);
            }
        }
    }

    /// A node gives all that it has to the others, and leaves, if it can.
    fn leave(&mut self, node: usize) {
        let left = self.nodes.run(node, replication::moves::leave(false));
        stdx::trace!("node {node} leaves: {left:?}");
        if left.is_ok() {
            self.away.insert(node);
            self.nodes.stop(node);
        }
    }

    /// Some node comes, or goes, or is removed, while faults go on.
    fn come_or_go(&mut self) {
        let spare = self.spares.pop();
        match (self.prng.below(3), spare) {
            (0 | 1, Some(new)) => {
                self.away.remove(&new);
                self.nodes.start(new);
            }
            (kind, spare) => {
                self.spares.extend(spare);
                let node = self.node();
                // As many stay as keyspaces want.
                // In its data center.
                let copies = if self.centers == 1 { 3 } else { 2 };
                let is_near =
                    |it: &usize| (*it as u64) % self.centers == node as u64 % self.centers;
                let members = self.members().into_iter().filter(is_near);
                let stay = members.filter(|it| !self.leaving.contains(it)).count();
                if stay <= copies || !self.nodes.serves(node) || self.leaving.contains(&node) {
                    return;
                }
                match kind {
                    // Of two that die for ever one may have the only other copy.
                    2 if self.removed.is_empty() => self.remove(node),
                    _ => {
                        self.leaving.insert(node);
                        let leaves = async { drop(replication::moves::leave(false).await) };
                        self.nodes.begin(node, leaves);
                    }
                }
            }
        }
        self.run_for(3000);
    }

    /// A node dies for ever, and another one has it removed.
    fn remove(&mut self, node: usize) {
        let other = self.other(node);
        if !self.nodes.serves(other) {
            return;
        }
        let host = self
            .nodes
            .run(node, async { runtime::local::get::<cluster::Cluster>().node().host_id });
        self.nodes.crash(node);
        self.away.insert(node);
        self.removed.push(host);
    }

    /// Those that died for ever are removed, by whoever can, until they are.
    fn bury(&mut self) {
        for host in std::mem::take(&mut self.removed) {
            let tries = 60;
            let left = (0..tries).any(|_| {
                self.run_for(2000);
                let by = self.node();
                if !self.nodes.serves(by) {
                    return false;
                }
                let removed = self.nodes.run(by, async move {
                    let removal = replication::moves::remove(host, true);
                    runtime::time::timeout(Duration::from_secs(20), removal).await
                });
                stdx::trace!("node {host} is removed by {by}: {removed:?}");
                let is_done = |why: &str| why.contains("has left already");
                match removed {
                    Ok(Ok(())) => true,
                    Ok(Err(why)) => is_done(&why),
                    Err(_) => false,
                }
            });
            assert!(left, "heals: node {host} is not removed");
        }
    }

    /// Who was told to leave leaves, and who came has what it owns.
    fn settle(&mut self) {
        for _ in 0..240 {
            let mut still = false;
            for node in self.members() {
                let (moves, has_left) = self.nodes.run(node, async {
                    let cluster = runtime::local::get::<cluster::Cluster>();
                    let (topology, me) = (cluster.topology(), cluster.node().host_id);
                    let tablets = cluster.schema();
                    let mut tablets = tablets.tables().filter(|it| !it.replicas.moves().is_empty());
                    let moves = topology.movers().next().is_some() || tablets.next().is_some();
                    let state = topology.member(me).map(|it| it.state);
                    (moves, state == Some(cluster::MemberState::Left) || membership::is_expelled())
                });
                if has_left {
                    self.away.insert(node);
                    self.nodes.crash(node);
                } else {
                    still |= moves;
                }
            }
            if !still {
                return;
            }
            self.nodes.world.run_for(Duration::from_millis(500));
        }
        panic!("heals: nodes or tablets are on the move for ever");
    }

    /// What some node lacks of what all have together, where no write was missed by a replica: a
    /// read at ONE asks the node itself where it has the data.
    fn lacking(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for text in EVERYTHING {
            let read = |nodes: &mut Nodes, node: usize, level: Consistency| {
                let addresses = nodes.addresses();
                nodes.run_client(async move {
                    let mut client = Client::new(addresses);
                    client.stay_at(node);
                    let read = client.rows(text, level).await;
                    read.unwrap_or_else(|why| panic!("{text}: {why}"))
                })
            };
            let members = self.members();
            let of_each: Vec<_> =
                members.iter().map(|node| (*node, read(&mut self.nodes, *node, ONE))).collect();
            let all = read(&mut self.nodes, members[0], ALL);
            for (node, own) in of_each.into_iter().filter(|(_, own)| *own != all) {
                wrong.push(format!("data-first: node {node} has {own:?}, all {all:?}: {text}"));
            }
        }
        wrong
    }

    /// Where everything is, for who looks for what is wrong.
    fn tell(&mut self) {
        for node in self.members() {
            self.nodes.run(node, async move {
                let cluster = runtime::local::get::<cluster::Cluster>();
                let topology = cluster.topology();
                for member in topology.members() {
                    let cluster::Member { host_id, state, rack, data_center, .. } = &**member;
                    let lost = topology.is_lost(*host_id);
                    println!("{node}: {host_id} {state:?} lost {lost} {data_center} {rack}");
                }
                for table in cluster.schema().tables().filter(|it| !it.replicas.is_empty()) {
                    println!("{node}: {} {:?}", table.schema.name, table.replicas);
                }
            });
        }
    }

    /// Whether all nodes show one schema.
    fn agrees(&mut self) -> bool {
        let version = || async { runtime::local::get::<cluster::Cluster>().schema().version };
        let shown: BTreeSet<_> =
            self.members().into_iter().map(|node| self.nodes.run(node, version())).collect();
        shown.len() == 1
    }

    fn run(mut self) -> Vec<String> {
        for _ in 0..STEPS {
            self.suffer();
            if self.work.is_wrong() {
                break;
            }
        }
        self.finish()
    }

    /// Faults are over: what is wrong?
    fn finish(mut self) -> Vec<String> {
        self.work.quiet.set(true);
        self.bury();
        self.members().into_iter().for_each(|node| self.wait(node));
        self.settle();
        self.nodes.world.run_for(CALM);
        let mut wrong = Vec::new();
        if !self.agrees() {
            wrong.push("agreed: nodes show several schemas".to_owned());
        }
        if self.work.running.get() != 0 {
            wrong.push(format!("heals: {} clients wait", self.work.running.get()));
        }
        for node in self.members() {
            let (work, addresses) = (self.work.clone(), self.nodes.addresses());
            wrong.extend(self.nodes.run_client(async move {
                let mut client = Client::new(addresses);
                client.stay_at(node);
                work.check(&mut client).await
            }));
        }
        if !wrong.is_empty() {
            self.tell();
        }
        if wrong.is_empty() {
            let ended = self.work.ended();
            println!("answered: {ended:?}, {:?}", self.nodes.world.now());
            assert!(ended.iter().all(|ended| 3 < *ended), "works: {ended:?}");
        }
        wrong
    }
}

#[test]
fn whatever_happens_promises_are_kept() {
    for seed in runtime::sim::seeds(2) {
        let wrong = Schedule::new(seed, 0).run();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// A node joins and another one leaves, while clients work; what is wrong then.
fn come_and_go(seed: u64, planted: Option<Planted>) -> Vec<String> {
    let mut schedule = Schedule::new(seed, 1);
    schedule.nodes.planted = planted;
    for node in schedule.members() {
        schedule.nodes.plant(node);
    }
    schedule.run_for(3000);
    let new = schedule.spares.pop().expect("a spare machine");
    schedule.nodes.start(new);
    schedule.away.remove(&new);
    schedule.wait(new);
    schedule.run_for(3000);
    let gone = schedule.node();
    schedule.leave(gone);
    schedule.run_for(3000);
    schedule.work.quiet.set(true);
    schedule.settle();
    schedule.nodes.world.run_for(CALM / 4);
    let mut wrong = schedule.lacking();
    wrong.extend(schedule.finish());
    wrong
}

/// Nodes join and leave where there are data, while clients work.
#[test]
fn nodes_come_and_go_where_there_are_data() {
    for seed in runtime::sim::seeds(2) {
        let wrong = come_and_go(seed, None);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// What is not copied is missed.
#[test]
fn a_node_that_takes_nothing_is_found_out() {
    let found = (1..20).find(|seed| !come_and_go(*seed, Some(Planted::TakesNothing)).is_empty());
    assert!(found.is_some_and(|seed| seed < 10), "found by schedule {found:?}");
}

/// Nodes join, leave and are removed in the middle of faults.
#[test]
fn whatever_comes_and_goes_promises_are_kept() {
    for seed in runtime::sim::seeds(2) {
        let mut schedule = Schedule::new(seed, 2);
        for _ in 0..STEPS / 2 {
            schedule.come_or_go();
            schedule.suffer();
            schedule.suffer();
            if schedule.work.is_wrong() {
                break;
            }
        }
        let wrong = schedule.finish();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}
