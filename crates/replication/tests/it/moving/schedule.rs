//! Nodes that join, leave, turn back and die for ever, while clients write and nodes fail, from a
//! seed.
//!
//! Invariants
//!  - *heals*: when faults end, whoever is on the move arrives, and all nodes answer at ALL.
//!
//! The others stand where they are looked at: [`super::registers`], [`super::held`],
//! [`super::world`].
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

mod conversion;

use super::held;
use super::registers::{Registers, TABLES};
use super::world::{Nodes, SECOND};
use cluster::membership;
use cluster::schema::Catalog;
use cluster::{Cluster, Member, MemberState, Resize, SchemaChange, Stage, TopologyChange};
use model::{Keyspace, TableSchema, Type, Uuid};
use replication::moves::{self, Planted};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Prng;

/// Who comes or goes, in a schedule.
const STEPS: u64 = 5;
/// Deletions are forgotten after so long.
const GC_GRACE: Duration = Duration::from_secs(3600);

pub(super) struct Schedule {
    nodes: Nodes,
    registers: Rc<Registers>,
    prng: Prng,
    copies: usize,
    /// Machines whose nodes do not run: they have not joined yet, or have left.
    away: BTreeSet<usize>,
    /// Those of them whose nodes have never run.
    spares: Vec<usize>,
    /// Nodes that died for ever.
    dead: Vec<Uuid>,
    /// Nodes that were told to leave.
    leaving: BTreeSet<usize>,
    /// Whether tables are truncated meanwhile, of which little else is known then.
    truncates: bool,
    /// Whether tables get more tablets and fewer meanwhile.
    resizes: bool,
    /// Whether the keyspace with tablets gets other numbers of copies meanwhile: the most of those
    /// that were asked for.
    altered: Option<usize>,
    /// Whether tablets go from shard to shard of nodes meanwhile.
    shifts: bool,
}

impl Schedule {
    /// Nodes that are there together, and some machines beside them for those that come later.
    pub(super) fn new(seed: u64, mistake: Option<Planted>) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        let copies = [1, 2, 3, 3][prng.below(4) as usize];
        let count = prng.between(copies.max(2), 4) as usize;
        Schedule::with(seed, prng, (copies, count), (1, 2), mistake)
    }

    /// The same, of nodes with several shards, from one to another of which tablets go meanwhile.
    pub(super) fn of_shards(seed: u64, mistake: Option<Planted>) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        let copies = [1, 1, 2, 3][prng.below(4) as usize];
        let count = prng.between(copies.max(2), 4) as usize;
        let schedule = Schedule::with(seed, prng, (copies, count), (2, 3), mistake);
        Schedule { shifts: true, ..schedule }
    }

    /// Four nodes that have one copy, or two.
    pub(super) fn of_four(seed: u64, mistake: Option<Planted>) -> Schedule {
        Schedule::with(seed, Prng::from_seed(seed), (1 + seed % 2, 4), (1, 2), mistake)
    }

    fn with(
        seed: u64,
        mut prng: Prng,
        (copies, count): (u64, usize),
        shards: (u64, u64),
        mistake: Option<Planted>,
    ) -> Schedule {
        let spares = prng.between(1, 2) as usize;
        let racks = if prng.below(2) == 0 { 1 } else { count };
        let machine = |at: usize, prng: &mut Prng| {
            (format!("rack{}", at % racks), prng.between(shards.0, shards.1) as u16)
        };
        let machines: Vec<_> = (0..count + spares).map(|at| machine(at, &mut prng)).collect();
        let nodes = Nodes::new(seed, &machines, count, mistake);
        let spares: Vec<usize> = (count..machines.len()).collect();
        let away = spares.iter().copied().collect();
        let (registers, copies) = (Rc::default(), copies as usize);
        let (dead, leaving) = (Vec::new(), BTreeSet::new());
        let truncates = prng.below(4) == 0;
        let (resizes, altered, shifts) = (false, None, false);
        let mut schedule = Schedule {
            nodes,
            registers,
            prng,
            copies,
            away,
            spares,
            dead,
            leaving,
            truncates,
            resizes,
            altered,
            shifts,
        };
        (0..count).for_each(|node| schedule.nodes.start(node));
        (0..count).for_each(|node| assert!(schedule.nodes.wait(node), "node {node}"));
        schedule.nodes.run(0, make_tables(copies));
        (0..count).for_each(|node| schedule.start_client(node));
        schedule
    }

    /// The same, with tablets that split and merge: somebody splits them, and whoever leads merges
    /// them again, since they have next to nothing; for that they have to be on the same nodes.
    pub(super) fn of_resizes(seed: u64, mistake: Option<Planted>) -> Schedule {
        Schedule { resizes: true, ..Schedule::new(seed, mistake) }
    }

    /// The same, with a keyspace that is told again and again to have another number of copies.
    pub(super) fn of_copies(seed: u64, mistake: Option<Planted>) -> Schedule {
        let mut schedule = Schedule::new(seed, mistake);
        (schedule.truncates, schedule.altered) = (false, Some(schedule.copies));
        schedule
    }

    fn start_client(&mut self, node: usize) {
        let registers = self.registers.clone();
        self.nodes.begin(node, async move { registers.work().await });
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

    fn run_for(&mut self, millis: u64) {
        let millis = self.prng.below(millis);
        self.nodes.world.run_for(Duration::from_millis(millis));
    }

    /// Waits until a node serves, unless it is none of the cluster any more.
    fn wait(&mut self, node: usize) {
        // Who joins waits for those that died for ever, until they are removed.
        self.bury();
        match self.nodes.wait(node) {
            true => self.start_client(node),
            false => drop(self.away.insert(node)),
        }
    }

    /// Something goes wrong, for a while.
    fn suffer(&mut self) {
        let node = self.node();
        let other = self.other(node);
        match self.prng.below(8) {
            0 | 1 => self.restart(node),
            2 => {
                if let Some(leader) = self.leader() {
                    self.restart(leader);
                }
            }
            3 => {
                self.nodes.set_paused(node, true);
                self.run_for(3000);
                self.nodes.set_paused(node, false);
            }
            4 => {
                self.nodes.set_alone(node, true);
                self.run_for(3000);
                self.nodes.set_alone(node, false);
            }
            5 => {
                self.nodes.set_cut(node, other, true);
                self.run_for(3000);
                self.nodes.set_cut(node, other, false);
            }
            6 => self.nodes.reset(node, other),
            _ => {
                let delay = Duration::from_millis(self.prng.below(900));
                self.nodes.set_delay(node, other, delay);
                self.run_for(3000);
                self.nodes.set_delay(node, other, Duration::ZERO);
            }
        }
    }

    fn restart(&mut self, node: usize) {
        self.nodes.crash(node);
        self.run_for(2000);
        self.nodes.start(node);
        // Sometimes another fault finds it on its way up.
        if self.prng.below(2) == 0 {
            self.wait(node);
        }
    }

    /// The node that leads the group.
    fn leader(&mut self) -> Option<usize> {
        let members = self.members();
        let running = members.into_iter().filter(|node| self.nodes.serves(*node));
        let running: Vec<usize> = running.collect();
        running.into_iter().find(|node| self.nodes.run(*node, async { membership::leads() }))
    }

    /// Some node comes, or goes, or turns back.
    fn come_or_go(&mut self) {
        let node = self.node();
        if self.truncates && self.prng.below(2) == 0 {
            self.truncate();
        }
        match self.prng.below(6) {
            0 | 1 => match self.spares.pop() {
                Some(new) => {
                    self.away.remove(&new);
                    self.nodes.start(new);
                }
                None => self.leave(node),
            },
            2 | 3 => self.leave(node),
            4 => self.die(node),
            _ => self.turn_back(),
        }
    }

    /// As many stay as the keyspaces want copies.
    fn can_go(&mut self, node: usize) -> bool {
        let stay = self.members().into_iter().filter(|it| !self.leaving.contains(it)).count();
        let most = self.altered.unwrap_or(0).max(self.copies).max(2);
        most < stay && self.nodes.serves(node) && !self.leaving.contains(&node)
    }

    fn leave(&mut self, node: usize) {
        if self.can_go(node) {
            self.leaving.insert(node);
            self.nodes.begin(node, async { drop(moves::leave(false).await) });
        }
    }

    /// Somebody has the keyspace with tablets have another number of copies, any that there are
    /// nodes for.
    fn alter(&mut self) {
        let (node, delay) = (self.node(), Duration::from_millis(self.prng.below(1500)));
        let stay = self.members().into_iter().filter(|it| !self.leaving.contains(it));
        let stay = stay.count() as u64;
        let copies = self.prng.between(1, stay.clamp(1, 5)) as usize;
        if !self.nodes.serves(node) {
            return;
        }
        self.alter_to(node, copies, delay);
    }

    /// A node asks for so many copies of the keyspace with tablets, in a while.
    fn alter_to(&mut self, node: usize, copies: usize, delay: Duration) {
        self.altered = self.altered.max(Some(copies));
        self.nodes.begin(node, async move {
            runtime::time::sleep(delay).await;
            let decide = move |schema: &cluster::Schema| {
                let altered = schema.keyspace(TABLES[1]).map(|it| it.keyspace.clone());
                let altered = altered.map(|mut keyspace| {
                    let factor = keyspace.replication.iter_mut().find(|(name, _)| name == "dc1");
                    factor.expect("a factor").1 = copies.to_string();
                    SchemaChange::AlterKeyspace(keyspace)
                });
                Ok::<_, String>(altered.into_iter().collect())
            };
            let made = runtime::local::get::<Cluster>().change_schema(decide).await;
            stdx::trace!("{copies} copies at {:?}: {made:?}", runtime::time::Instant::now());
        });
    }

    /// How many copies each of the tables has in the end.
    fn wanted(&mut self) -> [usize; 2] {
        let node = self.members()[0];
        let of_tablets = self.nodes.run(node, async {
            let schema = runtime::local::get::<Cluster>().schema();
            schema.keyspace(TABLES[1]).expect("the keyspace").replication.total()
        });
        [self.copies, of_tablets as usize]
    }

    /// Somebody gives the table with tablets twice as many, or half.
    fn resize(&mut self) {
        let (node, delay) = (self.node(), Duration::from_millis(self.prng.below(1500)));
        let resize = if self.prng.below(4) == 0 { Resize::Merge } else { Resize::Split };
        if !self.nodes.serves(node) {
            return;
        }
        self.nodes.begin(node, async move {
            runtime::time::sleep(delay).await;
            let decide = move |catalog: &Catalog| {
                let table = catalog.schema.table(TABLES[1], TABLES[1]);
                let table = table.filter(|it| it.replicas.count() < 32);
                Ok(table.map(|table| (table.schema.id, resize)).into_iter().collect())
            };
            let made = runtime::local::get::<Cluster>().resize_tables(decide).await;
            stdx::trace!("{resize:?} at {:?}: {made:?}", runtime::time::Instant::now());
        });
    }

    /// Somebody has tablets that it has, or others have, go to other shards of their nodes.
    fn shift(&mut self) {
        let (node, delay) = (self.node(), Duration::from_millis(self.prng.below(1500)));
        let registers = self.registers.clone();
        if self.nodes.serves(node) {
            let mut prng = self.prng.fork();
            self.nodes.begin(node, async move {
                runtime::time::sleep(delay).await;
                for _ in 0..prng.between(1, 4) {
                    let wrong = held::shift(&mut prng).await;
                    registers.wrong.borrow_mut().extend(wrong);
                }
            });
        }
    }

    /// Somebody repairs all that it has.
    fn repair(&mut self) {
        let (node, delay) = (self.node(), Duration::from_millis(self.prng.below(1500)));
        if self.nodes.serves(node) {
            self.nodes.begin(node, async move {
                runtime::time::sleep(delay).await;
                let repaired = held::repair_here().await;
                stdx::trace!("a repair at {:?}: {repaired:?}", runtime::time::Instant::now());
            });
        }
    }

    /// Nodes know when tablets were repaired, also when they have all started anew.
    fn check_repair_times(&mut self, seed: u64) {
        let members = self.members();
        let known = held::repair_times(&mut self.nodes, members[0]);
        for node in &members[1..] {
            let other = held::repair_times(&mut self.nodes, *node);
            assert_eq!(other, known, "seed {seed}: node {node}");
        }
        members.iter().for_each(|node| self.nodes.crash(*node));
        members.iter().for_each(|node| self.nodes.start(*node));
        for node in members {
            assert!(self.nodes.wait(node), "seed {seed}: node {node}");
            let other = held::repair_times(&mut self.nodes, node);
            assert_eq!(other, known, "seed {seed}: node {node} after a crash");
        }
    }

    /// A table is emptied about the time when somebody begins to move.
    fn truncate(&mut self) {
        let (node, delay) = (self.node(), Duration::from_millis(self.prng.below(1500)));
        let (registers, table) = (self.registers.clone(), TABLES[self.prng.below(2) as usize]);
        if self.nodes.serves(node) {
            self.nodes.begin(node, async move {
                runtime::time::sleep(delay).await;
                registers.truncate(table).await;
            });
        }
    }

    /// A node that leaves stays after all, if it is not too late; one that joins does not.
    fn turn_back(&mut self) {
        let node = self.node();
        if !self.nodes.serves(node) {
            return;
        }
        self.nodes.begin(node, async {
            let back = |catalog: &Catalog| {
                let moves = catalog.topology.movers().filter(|it| {
                    it.state == MemberState::Leaving && !catalog.topology.is_lost(it.host_id)
                });
                let mut back = moves.map(|it| TopologyChange::TurnBack(it.host_id));
                let back = back.find(|it| catalog.topology.check(it).is_ok());
                Ok(back.into_iter().collect())
            };
            let _ = runtime::local::get::<Cluster>().change_topology(back).await;
        });
    }

    /// A node dies for ever. Of two that do one may have the only other copy.
    fn die(&mut self, node: usize) {
        if self.copies == 3 && self.altered.is_none() && self.dead.is_empty() && self.can_go(node) {
            let host = self.nodes.host(node);
            self.nodes.crash(node);
            self.away.insert(node);
            self.dead.push(host);
        }
    }

    /// Those that died for ever are removed, by whoever can, until they are.
    fn bury(&mut self) {
        for host in std::mem::take(&mut self.dead) {
            let left = (0..60).any(|_| {
                self.run_for(2000);
                let by = self.node();
                self.nodes.serves(by) && self.is_removed(by, host)
            });
            assert!(left, "heals: node {host} is not removed");
        }
    }

    fn is_removed(&mut self, by: usize, host: Uuid) -> bool {
        let removed = self.nodes.run(by, async move {
            runtime::time::timeout(20 * SECOND, moves::remove(host, true)).await
        });
        stdx::trace!("node {host} is removed by {by}: {removed:?}");
        match removed {
            Ok(Ok(())) => true,
            Ok(Err(why)) => why.contains("has left already"),
            Err(_) => false,
        }
    }

    /// Whether a node has left, and whether it sees anybody on the move.
    fn state(&mut self, node: usize) -> (bool, bool) {
        self.nodes.run(node, async {
            let Some(cluster) = runtime::local::try_get::<Cluster>() else { return (false, true) };
            let topology = cluster.topology();
            let state = topology.member(cluster.node().host_id).map(|it| it.state);
            let has_left = state == Some(MemberState::Left) || membership::is_expelled();
            (has_left, !moves::is_still().await)
        })
    }

    /// Who was told to leave leaves, who came has what it owns, and tablets are where they stay.
    fn settle(&mut self) {
        for _ in 0..600 {
            let mut moving = false;
            for node in self.members() {
                let (has_left, moves) = self.state(node);
                if has_left {
                    self.away.insert(node);
                    self.nodes.crash(node);
                } else {
                    moving |= moves;
                }
            }
            if !moving {
                return;
            }
            self.nodes.world.run_for(SECOND / 5);
        }
        panic!("heals: nodes or tablets are on the move for ever");
    }

    pub(super) fn run(mut self) -> Vec<String> {
        self.run_on()
    }

    fn run_on(&mut self) -> Vec<String> {
        for _ in 0..STEPS {
            if self.resizes {
                self.resize();
                self.repair();
            }
            if self.altered.is_some() {
                self.alter();
            }
            if self.shifts {
                self.shift();
            }
            self.come_or_go();
            self.run_for(600);
            // Hints that are on their way outlive a truncation.
            match self.truncates {
                true => self.run_for(2000),
                false => self.suffer(),
            }
            self.run_for(600);
            if self.registers.is_wrong() {
                break;
            }
        }
        self.finish()
    }

    /// The stage of nodes that move, as one of them sees it.
    fn stage(&mut self, node: usize) -> Option<Stage> {
        self.nodes.run(node, async { runtime::local::get::<Cluster>().topology().stage() })
    }

    /// A node leaves; ends when that is in a stage.
    fn leave_until(&mut self, node: usize, stage: Stage) {
        self.run_for(2000);
        self.leave(node);
        self.run_until(node, stage);
    }

    /// Until a node sees a stage.
    fn run_until(&mut self, node: usize, stage: Stage) {
        for _ in 0..20_000 {
            if self.stage(node) == Some(stage) {
                return;
            }
            self.nodes.world.run_for(Duration::from_millis(1));
        }
        panic!("heals: node {node} does not come to {stage:?}");
    }

    /// A node that leaves turns back while what it gives is on its way to another one.
    pub(super) fn run_late(mut self) -> Vec<String> {
        let giver = self.node();
        self.leave_until(giver, Stage::ReadOld);
        let others: Vec<usize> = self.members().into_iter().filter(|it| *it != giver).collect();
        let leader = self.leader();
        others.iter().filter(|it| Some(**it) != leader).for_each(|getter| {
            self.nodes.set_cut(giver, *getter, true);
        });
        self.nodes.world.run_for(SECOND / 2);
        self.turn_all_back(leader.unwrap_or(others[0]));
        self.nodes.world.run_for(SECOND);
        others.iter().for_each(|getter| self.nodes.set_cut(giver, *getter, false));
        self.finish()
    }

    /// Who leaves stays, as one of the nodes says.
    fn turn_all_back(&mut self, by: usize) {
        let back = |catalog: &Catalog| {
            let leaves = |it: &&Arc<Member>| it.state == MemberState::Leaving;
            let leaver = catalog.topology.movers().find(leaves).map(|it| it.host_id);
            Ok(leaver.map(TopologyChange::TurnBack).into_iter().collect())
        };
        let turned = self.nodes.run(by, async move {
            runtime::local::get::<Cluster>().change_topology(back).await.is_ok()
        });
        stdx::trace!("who leaves turns back: {turned}");
        self.leaving.clear();
    }

    /// A node gives away a part of a ring to one that joins; while it waits for those that may
    /// still write to it, it is told to leave, and turns back.
    pub(super) fn run_back(mut self) -> Vec<String> {
        self.run_for(1000);
        let leader = self.leader().expect("a leader");
        let mut others = self.members().into_iter().filter(|it| *it != leader);
        let (giver, slow) = (others.next().expect("a second"), others.next().expect("a third"));
        let new = self.spares.pop().expect("a spare machine");
        self.away.remove(&new);
        self.nodes.start(new);
        self.run_until(leader, Stage::ReadNew);
        self.nodes.set_delay(giver, slow, SECOND);
        while self.stage(leader).is_some() {
            self.nodes.world.run_for(Duration::from_millis(1));
        }
        self.nodes.world.run_for(Duration::from_millis(200));
        self.leave(giver);
        self.nodes.world.run_for(3 * SECOND);
        self.nodes.set_delay(giver, slow, Duration::ZERO);
        self.turn_all_back(leader);
        self.finish()
    }

    /// One of four nodes has each tablet, then three, while what one of them tells two others takes
    /// as long as all that: it is acknowledged by the first, and read at those that come.
    pub(super) fn run_slow(seed: u64, mistake: Option<Planted>) -> Vec<String> {
        let mut schedule = Schedule::with(seed, Prng::from_seed(seed), (1, 4), (1, 2), mistake);
        schedule.truncates = false;
        schedule.run_for(1000);
        let leader = schedule.leader().expect("a leader");
        let others: Vec<usize> =
            schedule.members().into_iter().filter(|it| *it != leader).collect();
        let delay = Duration::from_millis(400);
        others[1..].iter().for_each(|other| schedule.nodes.set_delay(others[0], *other, delay));
        schedule.nodes.world.run_for(SECOND / 2);
        for copies in [3, 1, 3, 1, 3, 1, 3] {
            schedule.alter_to(leader, copies, Duration::ZERO);
            schedule.nodes.world.run_for(5 * SECOND / 2);
        }
        let none = Duration::ZERO;
        others[1..].iter().for_each(|other| schedule.nodes.set_delay(others[0], *other, none));
        schedule.finish()
    }

    /// Faults are over: what is wrong?
    fn finish(&mut self) -> Vec<String> {
        self.bury();
        for node in self.members() {
            if !self.nodes.serves(node) {
                self.wait(node);
            }
        }
        self.settle();
        self.registers.quiet.set(true);
        // Hints that were kept are sent, and what was given away is removed.
        self.nodes.world.run_for(4 * SECOND);
        let (members, wanted) = (self.members(), self.wanted());
        let mut wrong = held::badly_placed(&mut self.nodes, &members, wanted);
        let remember: Vec<usize> =
            members.iter().copied().filter(|node| self.nodes.remembers(*node)).collect();
        wrong.extend(held::left_behind(&mut self.nodes, &remember));
        wrong.extend(held::clean(&mut self.nodes, &members));
        wrong.extend(held::left_behind(&mut self.nodes, &members));
        for node in &members {
            self.nodes.run(*node, self.registers.clone().check());
        }
        for node in &members {
            // Elsewhere mistakes are planted, which are to be told in other words.
            let copies = if self.resizes { wanted[1].min(members.len()) } else { 0 };
            wrong.extend(held::repair(&mut self.nodes, *node, copies));
        }
        wrong.extend(held::differing(&mut self.nodes, &members));
        wrong.extend(self.registers.wrong.take());
        if wrong.is_empty() {
            let (writes, reads) = self.registers.ended.get();
            stdx::trace!("{writes} writes, {reads} reads, {:?}", self.nodes.world.now());
            assert!(10 < writes && 10 < reads, "works: {writes} writes, {reads} reads");
        }
        wrong
    }
}

/// A keyspace and a table of one name, of a ring and with tablets.
async fn make_tables(copies: usize) {
    let keyspace = |name: &str, initial_tablets| Keyspace {
        name: name.to_owned(),
        replication: vec![
            ("class".into(), "NetworkTopologyStrategy".into()),
            ("dc1".into(), copies.to_string()),
        ],
        previous: None,
        durable_writes: true,
        initial_tablets,
        storage: Vec::new(),
    };
    let table = |name: &str| {
        let builder = TableSchema::builder(name, name, Cluster::new_table_id());
        let builder = builder.partition_key("pk", Type::Int).regular("v", Type::Int);
        let mut table = builder.build().expect("a table");
        table.options.gc_grace_seconds = GC_GRACE.as_secs() as i32;
        table.options.tombstone_gc = vec![("mode".to_owned(), "timeout".to_owned())];
        table
    };
    let keyspaces = [keyspace(TABLES[0], None), keyspace(TABLES[1], Some(4))];
    let mut changes: Vec<_> = keyspaces.into_iter().map(SchemaChange::CreateKeyspace).collect();
    changes.extend(TABLES.map(|name| SchemaChange::CreateTable(table(name))));
    let decide = move |_: &cluster::Schema| Ok::<_, ()>(changes.clone());
    let changed = runtime::local::get::<Cluster>().change_schema(decide).await;
    changed.expect("tables");
}

#[test]
fn whoever_comes_and_goes_nothing_is_lost_or_left() {
    for seed in runtime::sim::seeds(2) {
        let wrong = Schedule::new(seed, None).run();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// In the end there are as many tablets again as the keyspace wants.
#[test]
fn tablets_split_and_merge_while_nodes_come_and_go() {
    for seed in runtime::sim::seeds(2) {
        let mut schedule = Schedule::of_resizes(seed, None);
        let wrong = schedule.run_on();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        let members = schedule.members();
        for node in members {
            let count = schedule
                .nodes
                .run(node, async { testkit::config::entry(TABLES[1], TABLES[1]).replicas.count() });
            assert_eq!(count, 4, "seed {seed}: node {node}");
        }
        schedule.check_repair_times(seed);
    }
}

/// *as-said*
#[test]
fn tablets_go_from_shard_to_shard_while_nodes_come_and_go() {
    for seed in runtime::sim::seeds(4) {
        let wrong = Schedule::of_shards(seed, None).run();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// In the end each tablet has as many copies as the keyspace was told last.
#[test]
fn keyspaces_get_any_number_of_copies_while_nodes_come_and_go() {
    for seed in runtime::sim::seeds(4) {
        let wrong = Schedule::of_copies(seed, None).run();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// *both-sides*
#[test]
fn what_is_written_slowly_is_read_where_it_is_to_be() {
    for seed in runtime::sim::seeds(2) {
        let wrong = Schedule::run_slow(seed, None);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// *session-guards*
#[test]
fn what_comes_late_is_not_written() {
    for seed in runtime::sim::seeds(4) {
        let wrong = Schedule::of_four(seed, None).run_late();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// *removed-for-good*
#[test]
fn who_turns_back_removes_what_was_given_away_before() {
    for seed in runtime::sim::seeds(4) {
        let wrong = Schedule::of_four(seed, None).run_back();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// *clients-go-first*
#[test]
fn a_node_that_has_given_all_away_does_not_serve_again() {
    for seed in runtime::sim::seeds(2) {
        let mut schedule = Schedule::of_four(seed, None);
        let gone = schedule.node();
        schedule.leave_until(gone, Stage::ReadNew);
        schedule.nodes.crash(gone);
        let other = schedule.other(gone);
        schedule.run_until(other, Stage::ReadNew);
        schedule.nodes.start(gone);
        assert!(!schedule.nodes.wait(gone), "seed {seed}: node {gone} serves");
        schedule.away.insert(gone);
        let wrong = schedule.finish();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// A node that joins dies for ever: it is removed, whatever stage it is in.
#[test]
fn a_node_that_dies_while_it_joins_holds_up_nobody() {
    for (seed, stage) in [(1, Stage::Prepare), (3, Stage::ReadOld), (5, Stage::ReadNew)] {
        let mut schedule = Schedule::of_four(seed, None);
        schedule.run_for(2000);
        let by = schedule.node();
        let new = schedule.spares.pop().expect("a spare machine");
        schedule.nodes.start(new);
        schedule.run_until(by, stage);
        let host = schedule.nodes.host(new);
        schedule.nodes.crash(new);
        assert!(schedule.is_removed(by, host), "seed {seed}: {stage:?}");
        let wrong = schedule.finish();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}
