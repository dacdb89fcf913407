//! Faults from a seed, while clients do all that is promised something.
//!
//! Invariants
//!  - *heals*: when faults end, all nodes answer at ALL, and show one schema.
//!  - *works*: a schedule in which nothing is wrong has done something of each kind.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::batches::{self, Batches};
use super::client::{Client, ONE, below};
use super::counters::{self, Counters};
use super::nodes::{DiskFault, Nodes, Place};
use super::registers::{self, Conditional, Plain};
use super::rows::{self, Rows};
use super::schema::Tables;
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
}

impl Schedule {
    fn new(seed: u64) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        let centers = if prng.below(4) == 0 { 2 } else { 1 };
        let count = prng.between(centers + 2, 5);
        let racks = if prng.below(2) == 0 { 1 } else { count };
        let machine = |at: u64, prng: &mut Prng| Place {
            data_center: format!("dc{}", at % centers),
            rack: format!("rack{}", at / centers % racks),
            shards: prng.between(1, 3) as u16,
        };
        let machines: Vec<_> = (0..count).map(|at| machine(at, &mut prng)).collect();
        let nodes = Nodes::new(seed, &machines);
        let mut schedule = Schedule { nodes, work: Rc::default(), prng, centers };
        let all = 0..schedule.nodes.count();
        all.clone().for_each(|node| schedule.nodes.start(node));
        all.for_each(|node| schedule.nodes.wait(node));
        schedule.make_tables();
        schedule.start_clients();
        schedule
    }

    fn make_tables(&mut self) {
        let tablets = self.prng.below(3) != 0;
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

    fn node(&mut self) -> usize {
        self.prng.below(self.nodes.count() as u64) as usize
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
                    self.nodes.wait(node);
                }
                // Else another fault may find it on its way up.
            }
            3 if self.nodes.serves(node) => {
                self.nodes.stop(node);
                self.run_for(2000);
                self.nodes.start(node);
                self.nodes.wait(node);
            }
            4 => {
                self.nodes.crash(node);
                let shards = self.prng.between(1, 3) as u16;
                self.nodes.set_shards(node, shards);
                self.nodes.start(node);
                self.nodes.wait(node);
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
        let count = self.nodes.count() as u64;
        let other = (node + 1 + self.prng.below(count - 1) as usize) % self.nodes.count();
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

    /// Whether all nodes show one schema.
    fn agrees(&mut self) -> bool {
        let version = || async { runtime::local::get::<cluster::Cluster>().schema().version };
        let shown: BTreeSet<_> =
            (0..self.nodes.count()).map(|node| self.nodes.run(node, version())).collect();
        shown.len() == 1
    }

    fn run(mut self) -> Vec<String> {
        for _ in 0..STEPS {
            self.suffer();
            if self.work.is_wrong() {
                break;
            }
        }
        self.work.quiet.set(true);
        (0..self.nodes.count()).for_each(|node| self.nodes.wait(node));
        self.nodes.world.run_for(CALM);
        let mut wrong = Vec::new();
        if !self.agrees() {
            wrong.push("agreed: nodes show several schemas".to_owned());
        }
        if self.work.running.get() != 0 {
            wrong.push(format!("heals: {} clients wait", self.work.running.get()));
        }
        for node in 0..self.nodes.count() {
            let (work, addresses) = (self.work.clone(), self.nodes.addresses());
            wrong.extend(self.nodes.run_client(async move {
                let mut client = Client::new(addresses);
                client.stay_at(node);
                work.check(&mut client).await
            }));
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
        let wrong = Schedule::new(seed).run();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}
