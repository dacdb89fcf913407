//! Logged batches over several nodes are whole in the end, whoever dies for ever.
//!
//! Invariants
//!  - *whole*: all keys of a group have the value of one batch, which somebody wrote, and none was
//!    refused.
//!  - *acknowledged-stays*: it is the last one that was acknowledged, or a later one.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::world::*;
use messaging::{HostId, Messaging, Payload, Target, ToShard};
use model::Token;
use replication::coordinator::nodes::Planted;
use replication::wire::{self, verb};
use replication::{BatchEntry, BatchKind, Consistency, Coordinator, WriteError, WriteKind};
use runtime::task::Scope;
use runtime::time::sleep;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use testkit::config::entry;
use testkit::rows;

const ONE: Consistency = Consistency::One;
const QUORUM: Consistency = Consistency::Quorum;
/// More than any wait of those who keep batches takes: between rounds, and for one.
const REPLAYED: Duration = Duration::from_secs(180);

/// A logged batch that sets keys of `t` to a value, which is its timestamp too.
async fn batch(keys: Range<i32>, value: i32, level: Consistency) -> Result<(), WriteError> {
    let table = entry("ks", "t");
    let entry = |pk: i32| BatchEntry {
        table: table.clone(),
        token: rows::token(pk),
        mutation: rows::put(&table, pk, value, value.into()),
    };
    let entries = keys.map(entry).collect();
    coordinator().write_batch(BatchKind::Logged, entries, &write_options(level)).await
}

/// What is found of keys, at QUORUM.
fn found(nodes: &mut Nodes, node: usize, keys: Range<i32>) -> Vec<Option<i32>> {
    nodes.run(node, async move {
        let mut found = Vec::new();
        for pk in keys {
            found.push(get(pk, QUORUM).await.expect("a read"));
        }
        found
    })
}

/// Rows in the batchlog of a node.
fn rows_kept(nodes: &mut Nodes, node: usize) -> u64 {
    nodes.run(node, async {
        let log = entry("system", "batchlog");
        let read = rows::command(&log, rows::whole_ring(), 1000, Vec::new());
        let options = replication::ReadOptions::new(ONE, 2 * SECOND);
        let page = coordinator().read(&log, Token::MIN, &read, &options).await;
        page.expect("a page").row_count
    })
}

/// Batches that a node knows, got from others, has completed, and parts that it has discarded.
fn counted(nodes: &mut Nodes, node: usize) -> (usize, u64, u64, u64) {
    nodes.run_on((node, 0), async {
        let coordinator = coordinator();
        let held = coordinator.held();
        (held.len(), held.received.get(), held.completed.get(), held.discarded.get())
    })
}

struct Running {
    _scope: Scope,
}

/// Begins a batch on a node, which nobody waits for.
fn begin(nodes: &mut Nodes, node: usize, keys: Range<i32>, value: i32) {
    nodes.run(node, async move {
        let scope = Scope::new();
        drop(scope.spawn(async move { drop(batch(keys, value, QUORUM).await) }));
        runtime::local::set(Rc::new(Running { _scope: scope }));
    });
}

/// Nodes of which the first has died, when a batch of its was kept and no part of it was told.
fn left_alone(seed: u64, shards: &[u16]) -> Nodes {
    let mut nodes = Plan::new(seed, shards).hinting(Hinting::new()).start();
    // Connections are made before.
    nodes.run(0, async { batch(0..20, 1, QUORUM).await.expect("a batch") });
    nodes.world.run_for(3 * SECOND);
    assert!((0..nodes.count()).all(|node| rows_kept(&mut nodes, node) == 0), "it is forgotten");
    let delay = Duration::from_millis(200);
    for other in 1..nodes.count() {
        nodes.set_delay(0, other, delay);
        nodes.set_delay(other, 0, delay);
    }
    begin(&mut nodes, 0, 0..20, 2);
    // It is kept after 200 ms, which its coordinator would know after 400.
    nodes.world.run_for(Duration::from_millis(300));
    nodes.crash(0);
    for other in 1..nodes.count() {
        nodes.set_delay(0, other, Duration::ZERO);
        nodes.set_delay(other, 0, Duration::ZERO);
    }
    let kept: u64 = (1..nodes.count()).map(|node| rows_kept(&mut nodes, node)).sum();
    assert_eq!(kept, 2, "seed {seed}");
    nodes
}

#[test]
fn two_others_keep_a_batch_until_it_is_applied() {
    let mut nodes = Plan::new(1, &[2, 1, 3, 2]).hinting(Hinting::new()).start();
    nodes.run(0, async { batch(0..20, 1, QUORUM).await.expect("a batch") });
    nodes.world.run_for(3 * SECOND);
    let all: Vec<_> = (0..4).map(|node| counted(&mut nodes, node)).collect();
    assert_eq!(all.iter().map(|one| one.1).sum::<u64>(), 2, "two others: {all:?}");
    assert_eq!(all[0].1, 0);
    assert!(all.iter().all(|one| (one.0, one.2) == (0, 0)), "forgotten, not replayed: {all:?}");
    assert!((0..4).all(|node| rows_kept(&mut nodes, node) == 0));
    assert_eq!(found(&mut nodes, 3, 0..20), vec![Some(1); 20]);
    // Of one part nobody keeps anything.
    nodes.run(0, async { batch(5..6, 2, QUORUM).await.expect("a batch") });
    let received: u64 = (0..4).map(|node| counted(&mut nodes, node).1).sum();
    assert_eq!(received, 2);
}

#[test]
fn who_keeps_a_batch_replays_it_when_its_coordinator_is_gone() {
    for seed in 2..6 {
        let mut nodes = left_alone(seed, &[1, 2, 1, 3]);
        let before = found(&mut nodes, 1, 0..20);
        assert_eq!(before, vec![Some(1); 20], "seed {seed}: nobody was told of a part");
        // Holders die too, and come back.
        for node in (1..4).filter(|_| seed % 2 == 0) {
            nodes.crash(node);
            nodes.start(node);
        }
        nodes.world.run_for(REPLAYED);
        assert_eq!(found(&mut nodes, 1, 0..20), vec![Some(2); 20], "seed {seed}");
        let all: Vec<_> = (1..4).map(|node| counted(&mut nodes, node)).collect();
        assert_eq!(all.iter().map(|one| one.2).sum::<u64>(), 2, "seed {seed}: {all:?}");
        assert!(all.iter().all(|one| one.0 == 0), "seed {seed}: {all:?}");
        assert!((1..4).all(|node| rows_kept(&mut nodes, node) == 0), "seed {seed}");
    }
}

#[test]
fn an_operator_has_it_replayed_at_once() {
    let mut nodes = left_alone(6, &[1, 1, 1, 1]);
    nodes.world.run_for(5 * SECOND);
    for node in 1..4 {
        nodes.run(node, async { Coordinator::replay_batchlog().await });
    }
    assert_eq!(found(&mut nodes, 1, 0..20), vec![Some(2); 20]);
}

#[test]
fn a_batch_waits_for_a_quorum_and_leaves_hints_for_the_others() {
    let mut nodes = left_alone(7, &[1, 1, 1, 1]);
    nodes.crash(3);
    nodes.world.run_for(REPLAYED);
    // Keys that nodes 0 and 3 have, have one replica.
    let kept: u64 = (1..3).map(|node| rows_kept(&mut nodes, node)).sum();
    assert!(0 < kept, "it is kept for as long as a part of it lacks its quorum");
    nodes.start(3);
    nodes.world.run_for(REPLAYED);
    assert_eq!(found(&mut nodes, 3, 0..20), vec![Some(2); 20]);
    assert!((1..4).all(|node| rows_kept(&mut nodes, node) == 0));
    // Who has died has all of its keys when it is back, by hints alone.
    nodes.start(0);
    nodes.world.run_for(60 * SECOND);
    let own: Vec<i32> = (0..20).filter(|pk| nodes.replicas_of(*pk).contains(&0)).collect();
    nodes.run(0, async move {
        for pk in own {
            assert_eq!(get(pk, ONE).await, Ok(Some(2)), "key {pk}");
        }
    });
}

#[test]
fn what_is_too_old_is_not_replayed() {
    let mut nodes = left_alone(8, &[1, 1, 1, 1]);
    // Ten days are the grace of a table.
    (1..4).for_each(|node| nodes.skew(node, 864_001_000_000));
    nodes.world.run_for(REPLAYED);
    assert_eq!(found(&mut nodes, 1, 0..20), vec![Some(1); 20]);
    let discarded: u64 = (1..4).map(|node| counted(&mut nodes, node).3).sum();
    assert_eq!(discarded, 40);
    assert!((1..4).all(|node| rows_kept(&mut nodes, node) == 0));
}

#[test]
fn what_was_truncated_stays_so() {
    let mut nodes = left_alone(9, &[1, 1, 1, 1]);
    nodes.start(0);
    nodes.run(1, async {
        let table = entry("ks", "t").schema.id;
        coordinator().truncate(table, 10 * SECOND).await.expect("a truncation");
    });
    nodes.world.run_for(REPLAYED);
    assert_eq!(found(&mut nodes, 1, 0..20), vec![None; 20]);
    assert!((1..4).all(|node| rows_kept(&mut nodes, node) == 0));
    // One that is written later is there.
    nodes.run(0, async { batch(0..20, 3, QUORUM).await.expect("a batch") });
    assert_eq!(found(&mut nodes, 1, 0..20), vec![Some(3); 20]);
}

#[test]
fn one_who_keeps_it_is_enough_and_nobody_is_an_error() {
    let mut nodes = Plan::new(10, &[1, 1, 1]).hinting(Hinting::new()).start();
    nodes.run(0, async { batch(0..20, 1, QUORUM).await.expect("a batch") });
    nodes.set_cut_from(0, 2, true);
    nodes.run(0, async { batch(0..20, 2, QUORUM).await.expect("a batch") });
    nodes.set_cut_from(0, 1, true);
    let written = nodes.run(0, batch(0..20, 3, ONE));
    let (consistency, kind) = (ONE, WriteKind::BatchLog);
    let expected = WriteError::Timeout { consistency, received: 0, required: 1, kind };
    assert_eq!(written, Err(expected));
    nodes.set_cut_from(0, 1, false);
    nodes.set_cut_from(0, 2, false);
    nodes.world.run_for(REPLAYED);
    assert_eq!(found(&mut nodes, 1, 0..20), vec![Some(2); 20], "nobody was told");
    assert!((0..3).all(|node| rows_kept(&mut nodes, node) == 0));
}

/// At ONE the copy of who coordinates a batch is enough for its client, and not for forgetting it.
#[test]
fn a_batch_that_only_its_coordinator_has_is_not_forgotten() {
    let mut kept = 0;
    for seed in 20..28 {
        let mut nodes = Plan::new(seed, &[1, 1, 1, 1, 1]).hinting(Hinting::new()).start();
        nodes.run(0, async { batch(0..40, 1, QUORUM).await.expect("a batch") });
        nodes.set_cut_from(0, 3, true);
        nodes.set_cut_from(0, 4, true);
        let alone = |pk: &i32| {
            let mut replicas = nodes.replicas_of(*pk);
            replicas.sort_unstable();
            replicas == [0, 3, 4]
        };
        assert!((0..40).any(|pk| alone(&pk)), "keys that nodes 0, 3 and 4 have");
        // Some parts have a replica that is not cut off, and some have this one.
        let written = nodes.run(0, batch(0..40, 2, ONE));
        nodes.world.run_for(Duration::from_millis(500));
        nodes.crash(0);
        nodes.set_cut_from(0, 3, false);
        nodes.set_cut_from(0, 4, false);
        nodes.world.run_for(REPLAYED);
        let values = found(&mut nodes, 1, 0..40);
        match written {
            Ok(()) => {
                assert_eq!(values, vec![Some(2); 40], "seed {seed}");
                kept += 1;
            }
            // Both who were drawn to keep it are those that are cut off.
            Err(error) => assert_eq!(values, vec![Some(1); 40], "seed {seed}: {error}"),
        }
    }
    assert!(0 < kept, "all were refused");
}

#[test]
fn a_node_keeps_its_batches_where_nobody_else_is() {
    let mut nodes =
        Plan::with(11, &[(3, 0), (1, 0), (1, 1)], 1, None).hinting(Hinting::new()).start();
    let own: Vec<i32> = (0..200).filter(|pk| nodes.replicas_of(*pk) == [0]).collect();
    let first = own.windows(2).find(|two| two[0] + 1 == two[1]).expect("neighbors")[0];
    nodes.crash(1);
    nodes.run(0, async move {
        for turn in 0..40 {
            batch(first..first + 2, turn, ONE).await.expect("a batch");
        }
    });
    // The other data center is not asked.
    assert_eq!(counted(&mut nodes, 2).1, 0);
    nodes.world.run_for(3 * SECOND);
    assert_eq!((rows_kept(&mut nodes, 0), counted(&mut nodes, 0).0), (0, 0));
}

#[test]
fn a_batch_that_comes_after_its_removal_is_not_there() {
    let mut nodes = Plan::new(12, &[1, 1, 1]).hinting(Hinting::new()).start();
    nodes.run(0, async {
        let table = entry("ks", "t");
        let target = Target::statements(HostId(id_of(1).as_u128()), ToShard::Same);
        let messaging = Messaging::current().expect("messages");
        let call =
            |verb, bytes: Vec<u8>| messaging.call(target, verb, Payload::from(bytes), 2 * SECOND);
        let name = |id: u8| [&[id; 16][..], &1_000_000i64.to_be_bytes()].concat();
        let batch = |id: u8, key: i32| {
            let mutations = [rows::put(&table, key, 7, 7), rows::put(&table, key + 1, 7, 7)];
            [name(id), wire::encode_mutations(&mutations)].concat()
        };
        call(verb::BATCH_FORGET, name(1)).await.expect("an answer");
        call(verb::BATCH_STORE, batch(1, 10)).await.expect("an answer");
        call(verb::BATCH_STORE, batch(2, 20)).await.expect("an answer");
        let own = entry("system", "local").schema.id;
        let mut foreign = batch(3, 30);
        foreign[24 + 4..][..16].copy_from_slice(own.as_bytes());
        call(verb::BATCH_STORE, foreign).await.expect_err("a batch of tables of one node");
    });
    assert_eq!((rows_kept(&mut nodes, 1), counted(&mut nodes, 1).0), (1, 2));
    nodes.world.run_for(REPLAYED);
    assert_eq!((rows_kept(&mut nodes, 1), counted(&mut nodes, 1).0), (0, 0));
    assert_eq!(found(&mut nodes, 0, 10..12), [None, None], "removed-by-its-time");
    assert_eq!(found(&mut nodes, 0, 20..22), [Some(7), Some(7)]);
}

/// Keys of a group, which are written together.
const GROUP: i32 = 4;

/// What became of the batches of a group.
#[derive(Default)]
struct Group {
    begun: BTreeSet<i32>,
    acknowledged: i32,
}

#[derive(Default)]
struct Model {
    next: Cell<i32>,
    groups: RefCell<BTreeMap<i32, Group>>,
    acknowledged: Cell<u64>,
    is_quiet: Cell<bool>,
}

impl Model {
    /// How a batch has ended.
    fn note(&self, group: i32, number: i32, written: &Result<(), WriteError>) {
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(group).or_default();
        match written {
            Ok(()) => {
                self.acknowledged.set(self.acknowledged.get() + 1);
                group.acknowledged = number.max(group.acknowledged);
            }
            Err(WriteError::Unavailable { .. } | WriteError::Refused(_)) => {
                group.begun.remove(&number);
            }
            Err(_) => {}
        }
    }
}

fn below(bound: i32) -> i32 {
    (runtime::random_u64() % bound as u64) as i32
}

async fn client(model: Rc<Model>) {
    while !model.is_quiet.get() {
        let number = model.next.get() + 1;
        model.next.set(number);
        let count = model.groups.borrow().len() as i32;
        // A new group, or one of the last ones again.
        let group = if below(2) == 0 { count } else { (count - 1 - below(8)).max(0) };
        model.groups.borrow_mut().entry(group).or_default().begun.insert(number);
        let written = batch(GROUP * group..GROUP * (group + 1), number, QUORUM).await;
        model.note(group, number, &written);
        sleep(Duration::from_micros(below(200_000) as u64)).await;
    }
}

struct Schedule {
    nodes: Nodes,
    model: Rc<Model>,
    prng: Prng,
    /// Who has died for ever.
    gone: Option<usize>,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        let count = prng.between(3, 5);
        let shards: Vec<_> = (0..count).map(|_| (prng.between(1, 2) as u16, 0)).collect();
        let nodes = Plan::with(seed, &shards, 3, planted).hinting(Hinting::new()).start();
        let mut schedule = Schedule { nodes, model: Rc::default(), prng, gone: None };
        (0..schedule.nodes.count()).for_each(|node| schedule.start_clients(node));
        schedule
    }

    fn start_clients(&mut self, node: usize) {
        let model = self.model.clone();
        self.nodes.run(node, async move {
            let scope = Scope::new();
            for _ in 0..2 {
                drop(scope.spawn(client(model.clone())));
            }
            runtime::local::set(Rc::new(Running { _scope: scope }));
        });
    }

    fn run_for(&mut self, millis: u64) {
        let millis = 1 + self.prng.below(millis);
        self.nodes.world.run_for(Duration::from_millis(millis));
    }

    /// One that is there.
    fn node(&mut self) -> usize {
        loop {
            let node = self.prng.below(self.nodes.count() as u64) as usize;
            if self.gone != Some(node) {
                return node;
            }
        }
    }

    /// What a node says comes to some of the others late.
    fn stagger(&mut self, node: usize) {
        for other in (0..self.nodes.count()).filter(|it| *it != node) {
            let delay = Duration::from_millis(self.prng.below(80));
            self.nodes.set_delay(node, other, delay);
        }
        self.run_for(300);
    }

    fn restart(&mut self, node: usize, millis: u64) {
        self.stagger(node);
        self.nodes.crash(node);
        for other in (0..self.nodes.count()).filter(|it| *it != node) {
            self.nodes.set_delay(node, other, Duration::ZERO);
        }
        self.run_for(millis);
        self.nodes.start(node);
        self.start_clients(node);
    }

    /// Something goes wrong, for a while.
    fn suffer(&mut self) {
        let (node, other) = (self.node(), self.node());
        match self.prng.below(6) {
            0 | 1 => self.restart(node, 3000),
            2 => {
                self.nodes.set_cut(node, true);
                self.run_for(4000);
                self.nodes.set_cut(node, false);
            }
            3 if node != other => {
                self.nodes.set_cut_from(node, other, true);
                self.run_for(3000);
                self.nodes.set_cut_from(node, other, false);
            }
            4 if node != other => self.nodes.reset(node, other),
            _ if node != other => {
                let delay = Duration::from_millis(self.prng.below(700));
                self.nodes.set_delay(node, other, delay);
                self.run_for(1500);
                self.nodes.set_delay(node, other, Duration::ZERO);
            }
            _ => {}
        }
        self.run_for(500);
    }

    /// A node dies for ever, while some others hear of it late or not at all.
    fn lose(&mut self) {
        let node = self.node();
        let others: Vec<usize> = (0..self.nodes.count()).filter(|it| *it != node).collect();
        self.stagger(node);
        if self.prng.below(3) == 0 {
            let other = others[self.prng.below(others.len() as u64) as usize];
            self.nodes.set_cut_from(node, other, true);
            self.run_for(1000);
        }
        self.nodes.crash(node);
        self.gone = Some(node);
        if self.prng.below(2) == 0 {
            // Nobody of the others keeps anything in memory.
            for other in others {
                self.restart(other, 100);
            }
        }
    }

    fn run(mut self, steps: u64) -> Vec<String> {
        let lost_at = self.prng.below(steps);
        for step in 0..steps {
            match step == lost_at {
                true => self.lose(),
                false => self.suffer(),
            }
        }
        self.run_for(6000);
        self.model.is_quiet.set(true);
        self.nodes.world.run_for(REPLAYED);
        self.check()
    }

    fn check(mut self) -> Vec<String> {
        let acknowledged = self.model.acknowledged.get();
        assert!(20 < acknowledged, "{acknowledged} batches");
        let (mut wrong, reader) = (Vec::new(), self.node());
        let groups = self.model.groups.take();
        for (number, Group { begun, acknowledged }) in groups {
            let keys = GROUP * number..GROUP * (number + 1);
            let values = self.nodes.run(reader, async move {
                let mut values = Vec::new();
                for pk in keys {
                    values.push(get(pk, QUORUM).await);
                }
                values
            });
            let is_whole = values.iter().all(|value| *value == values[0]);
            if !is_whole {
                wrong.push(format!("whole: group {number} of {begun:?}: {values:?}"));
                continue;
            }
            match &values[0] {
                Ok(None) if acknowledged == 0 => {}
                Ok(Some(value)) if acknowledged <= *value && begun.contains(value) => {}
                value => {
                    let was = format!("was {acknowledged} of {begun:?}");
                    wrong.push(format!("acknowledged-stays: group {number} is {value:?}, {was}"));
                }
            }
        }
        for node in (0..self.nodes.count()).filter(|node| self.gone != Some(*node)) {
            let (known, ..) = counted(&mut self.nodes, node);
            let kept = rows_kept(&mut self.nodes, node);
            if (known, kept) != (0, 0) {
                wrong.push(format!("node {node} still keeps {kept} batches, and knows {known}"));
            }
        }
        wrong
    }
}

#[test]
fn whoever_dies_for_ever_batches_are_whole() {
    for seed in runtime::sim::seeds(4) {
        let wrong = Schedule::new(seed, None).run(6);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// A mistake that is planted is caught within so many schedules.
fn is_caught(planted: Planted) {
    let by = |seed: &u64| {
        let wrong = Schedule::new(*seed, Some(planted)).run(6);
        wrong.into_iter().find(|what| !what.starts_with("node"))
    };
    let caught = (0..30).find_map(|seed| by(&seed).map(|what| (seed, what)));
    let (seed, what) = caught.unwrap_or_else(|| panic!("{planted:?} is not caught"));
    println!("{planted:?} is caught by schedule {seed}: {what}");
}

#[test]
fn parts_that_are_told_before_the_batch_is_remembered_are_caught() {
    is_caught(Planted::TellsFirst);
}

#[test]
fn batches_that_are_forgotten_at_a_restart_are_caught() {
    is_caught(Planted::ForgetsBatches);
}

#[test]
fn batches_that_are_replayed_with_other_timestamps_are_caught() {
    is_caught(Planted::ReplaysAnew);
}
