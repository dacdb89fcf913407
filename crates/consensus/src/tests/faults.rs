//! Schedules of faults, and what must hold under all of them.
//!
//! `NEREID_SIM_ROUNDS` sets the number of schedules, `NEREID_SIM_SEED` replays one; a failure
//! prints its seed. Clients on each node read and change one register; then faults end, and the
//! group has to agree and to serve again. What was seen is checked: one log, applied in order and
//! exactly once; one leader a term; a linearizable history of the register; no node stopped.

use super::client::Client;
use super::*;
use crate::options::Planted;
use runtime::time::Instant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use stdx::Prng;
use testkit::linear::is_linearizable;

/// A schedule's dice, apart from those of the world: so a step more in the world draws no other
/// faults.
struct Schedule {
    prng: Prng,
    cluster: Cluster,
    client: Client,
    down: Vec<usize>,
}

/// What a schedule showed.
#[derive(Debug)]
struct Seen {
    wrong: Vec<String>,
    commands: usize,
    operations: usize,
    snapshots: u64,
    elections: u64,
    trace: u64,
}

fn simulate(seed: u64, planted: Option<Planted>) -> Seen {
    let mut prng = Prng::from_seed(seed ^ 0x5eed);
    let count = [3, 3, 3, 4, 5, 5, 7][prng.below(7) as usize];
    let mut options = options();
    options.planted = planted;
    let mut cluster = Cluster::of_voters(seed, count, options);
    let client = Client::default();
    cluster.client = Some(client.clone());
    cluster.start_clients();
    let mut schedule = Schedule { prng, cluster, client, down: Vec::new() };
    for _ in 0..15 {
        schedule.fault();
        let span = Duration::from_millis(schedule.prng.between(10, 1_500));
        schedule.cluster.world.run_for(span);
    }
    schedule.end()
}

impl Schedule {
    fn any(&mut self) -> usize {
        self.prng.below(self.cluster.nodes.len() as u64) as usize
    }

    /// One more thing goes wrong, or right again.
    fn fault(&mut self) {
        let node = self.any();
        match self.prng.below(12) {
            0..=2 => self.crash(node),
            3 => self.start(),
            4 => self.cut_one_way(node),
            5 => self.part(),
            6 => self.cluster.network.borrow_mut().heal(),
            7 => {
                let span = Duration::from_millis(self.prng.between(500, 4_000));
                let until = Instant::from_nanos(self.cluster.world.now().as_nanos() as u64) + span;
                self.cluster.network.borrow_mut().pause(self.cluster.nodes[node].id, until);
            }
            8 => {
                let mut network = self.cluster.network.borrow_mut();
                let mut draw = |choices: [u64; 3]| choices[self.prng.below(3) as usize];
                network.faults.lost = draw([0, 5, 20]);
                network.faults.twice = draw([0, 3, 10]);
                network.faults.late = draw([0, 10, 50]);
            }
            9 => {
                let micros = self.prng.between(0, 1_200_000_000) as i64 - 600_000_000;
                let sim = self.cluster.nodes[node].sim;
                self.cluster.world.skew_wall_clock(sim, micros);
                let slowness = [1, 1, 20, 200][self.prng.below(4) as usize];
                self.cluster.world.disk(sim).set_slowness(slowness);
            }
            10 => self.order_members(node),
            _ => self.cluster.nodes[node].orders.borrow_mut().push(Order::StepDown),
        }
    }

    fn crash(&mut self, node: usize) {
        if self.down.contains(&node) {
            return;
        }
        self.cluster.crash(node);
        // Mostly at once: what matters is what it forgot.
        if self.prng.one_in(3) {
            self.down.push(node);
        } else {
            self.cluster.start(node);
        }
    }

    fn start(&mut self) {
        if let Some(node) = self.down.pop() {
            self.cluster.start(node);
        }
    }

    fn cut_one_way(&mut self, node: usize) {
        let (from, to) = (self.cluster.nodes[node].id, self.any());
        let to = self.cluster.nodes[to].id;
        self.cluster.network.borrow_mut().set_cut(from, to, from != to);
    }

    /// Two sides that do not hear each other.
    fn part(&mut self) {
        let ids = self.cluster.ids();
        let side: Vec<bool> = ids.iter().map(|_| self.prng.one_in(2)).collect();
        let mut network = self.cluster.network.borrow_mut();
        for (from, here) in ids.iter().zip(&side) {
            for (to, there) in ids.iter().zip(&side) {
                network.set_cut(*from, *to, here != there);
            }
        }
    }

    /// Others vote: any that are more than one.
    fn order_members(&mut self, node: usize) {
        let mut voters = Vec::new();
        let mut learners = Vec::new();
        for id in self.cluster.ids() {
            if self.prng.one_in(4) { learners.push(id) } else { voters.push(id) }
        }
        if 2 <= voters.len() {
            let order = Order::Members(voters, learners);
            self.cluster.nodes[node].orders.borrow_mut().push(order);
        }
    }

    /// Faults end: the group heals, agrees and serves.
    fn end(mut self) -> Seen {
        self.cluster.network.borrow_mut().heal();
        for index in 0..self.cluster.nodes.len() {
            let sim = self.cluster.nodes[index].sim;
            self.cluster.world.disk(sim).set_slowness(1);
        }
        while let Some(node) = self.down.pop() {
            self.cluster.start(node);
        }
        let all: Vec<_> = (0..self.cluster.nodes.len()).collect();
        let mut wrong = Vec::new();
        self.cluster.world.run_for(3 * SECOND);
        self.client.stop();
        if self.cluster.wrong().is_empty() {
            if !self.cluster.wait_for_agreement(&all) {
                wrong.push(format!("does not agree: {:#?}", figures(&self.cluster)));
            } else {
                for index in all {
                    let served = self.cluster.on(index, move |group| async move {
                        let proposed = group.propose(vec![0], 10 * SECOND).await;
                        (proposed.is_ok(), group.read_barrier(10 * SECOND).await.is_ok())
                    });
                    if served != (true, true) {
                        wrong.push(format!("node {index} does not serve: {served:?}"));
                    }
                }
            }
        }
        let operations = self.client.operations();
        if !is_linearizable(&operations) {
            wrong.push(format!("not linearizable: {operations:?}"));
        }
        wrong.extend(self.cluster.wrong());
        Seen {
            wrong,
            commands: self.cluster.witness.borrow().count(),
            operations: operations.len(),
            snapshots: self.cluster.sum(|counters| counters.snapshots_taken.get()),
            elections: self.cluster.sum(|counters| counters.elections_won.get()),
            trace: self.cluster.world.trace_hash(),
        }
    }
}

#[test]
fn nothing_is_lost_repeated_or_seen_out_of_order() {
    let (mut commands, mut operations, mut snapshots, mut elections) = (0, 0, 0, 0);
    let seeds = runtime::sim::seeds(20);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let seen = simulate(seed, None);
        assert!(seen.wrong.is_empty(), "NEREID_SIM_SEED={seed}: {:#?}", seen.wrong);
        commands += seen.commands;
        operations += seen.operations;
        snapshots += seen.snapshots;
        elections += seen.elections;
    }
    eprintln!(
        "{count} schedules: {commands} commands, {operations} operations, {snapshots} snapshots \
         taken, {elections} elections won"
    );
    if 10 <= count {
        // Else it has shown nothing.
        assert!(20 * count < operations as u64, "{operations} operations in {count} schedules");
        assert!(0 < snapshots && count < elections, "{snapshots} snapshots, {elections} elections");
    }
}

#[test]
fn a_schedule_replays() {
    for seed in 0..2 {
        assert_eq!(simulate(seed, None).trace, simulate(seed, None).trace, "seed {seed}");
    }
}

/// The most schedules that a planted mistake may survive.
const SEEDS: u64 = 2_000;

fn is_caught(planted: Planted) {
    let wrong = |seed: &u64| {
        // The library, too, may see that what it relied on is not so.
        let seen = catch_unwind(AssertUnwindSafe(|| simulate(*seed, Some(planted))));
        seen.map_or(true, |seen| !seen.wrong.is_empty())
    };
    let caught = (0..SEEDS).find(wrong);
    assert!(caught.is_some(), "{planted:?}");
    eprintln!("{planted:?} is caught by seed {caught:?}");
}

#[test]
fn a_forgotten_vote_is_caught() {
    is_caught(Planted::ForgetsVote);
}

#[test]
fn an_answer_before_the_sync_is_caught() {
    is_caught(Planted::AnswersBeforeSync);
}

#[test]
fn an_entry_applied_twice_is_caught() {
    is_caught(Planted::AppliesTwice);
}

#[test]
fn a_snapshot_without_its_last_entry_is_caught() {
    is_caught(Planted::MislabelsSnapshot);
}

#[test]
fn a_read_without_a_quorum_is_caught() {
    is_caught(Planted::ReadsWithoutQuorum);
}
