//! Clients on all nodes that change registers on conditions and read them at SERIAL, while nodes
//! crash, are cut off in both directions or in one, are slow, lose their connections, and have wall
//! clocks that are minutes apart and step back. Often each replica thinks that it is the one
//! to lead.
//!
//! Invariants
//!  - *linearizable*: the history of each register is one of a register that one machine has, in
//!    which what ended in a timeout happened once or never (`testkit::linear`).
//!  - *heals*: when faults end, all nodes serve.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::world::*;
use replication::coordinator::nodes::Planted;
use replication::{Consistency, WriteError};
use runtime::task::Scope;
use runtime::time::sleep;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stdx::Prng;
use testkit::linear::{Histories, Kind};

const SERIAL: Consistency = Consistency::Serial;
const KEYS: usize = 2;

/// How many clients there are on each node, and how many microseconds each waits between two
/// requests at most. Many that wait for little share rounds.
#[derive(Clone, Copy)]
struct Crowd {
    clients: u64,
    waits: u64,
}

impl Crowd {
    const NONE: Crowd = Crowd { clients: 1, waits: 60_000 };
}

struct Model {
    next: Cell<i32>,
    quiet: Cell<bool>,
    unknown: Cell<u64>,
    histories: Histories,
    violations: RefCell<Vec<String>>,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            next: Cell::new(0),
            quiet: Cell::new(false),
            unknown: Cell::new(0),
            histories: Histories::new(KEYS),
            violations: RefCell::default(),
        }
    }
}

struct Clients {
    _scope: Scope,
}

fn below(bound: u64) -> u64 {
    runtime::random_u64() % bound
}

fn value(found: Option<i32>) -> u64 {
    found.map_or(0, |value| value as u64)
}

async fn change(model: &Model, key: usize, seen: &mut Option<i32>, commit: Consistency) {
    let to = model.next.get() + 1;
    model.next.set(to);
    let (from, to_value) = (value(*seen), to as u64);
    let kind = |took_effect| Kind::Change { from, to: to_value, took_effect };
    let at = model.histories.begin(key, kind(None));
    match change_if(key as i32, *seen, to, (SERIAL, commit)).await {
        Ok(Changed::Applied) => {
            model.histories.end(key, at, kind(Some(true)));
            *seen = Some(to);
        }
        Ok(Changed::Found(found)) => {
            assert_ne!(found, *seen, "a condition that holds");
            model.histories.end(key, at, Kind::Read(value(found)));
            *seen = found;
        }
        Err(WriteError::Timeout { .. } | WriteError::Failure { .. }) => {
            model.unknown.set(model.unknown.get() + 1);
        }
        Err(_) => model.histories.forget(key, at),
    }
}

async fn client(model: Rc<Model>, waits: u64) {
    let mut seen = [None; KEYS];
    while !model.quiet.get() {
        let key = below(KEYS as u64) as usize;
        match below(3) {
            0 => {
                let at = model.histories.begin(key, Kind::Read(0));
                if let Ok(found) = get(key as i32, SERIAL).await {
                    model.histories.end(key, at, Kind::Read(value(found)));
                    seen[key] = found;
                }
            }
            level => {
                let commit = match level {
                    1 => Consistency::Quorum,
                    _ => Consistency::One,
                };
                change(&model, key, &mut seen[key], commit).await;
            }
        }
        sleep(Duration::from_micros(below(waits))).await;
    }
}

struct Schedule {
    nodes: Nodes,
    model: Rc<Model>,
    prng: Prng,
    crowd: Crowd,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Schedule {
        Schedule::of(seed, planted, Crowd::NONE)
    }

    /// With many clients that contend, most often at one leader.
    fn crowded(seed: u64, planted: Option<Planted>) -> Schedule {
        let mut prng = Prng::from_seed(!seed);
        let crowd = Crowd { clients: prng.between(2, 6), waits: 1 << prng.between(4, 13) };
        Schedule::of(seed, planted, crowd)
    }

    fn of(seed: u64, planted: Option<Planted>, crowd: Crowd) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        let count = prng.between(3, 4);
        let shards: Vec<_> = (0..count).map(|_| (prng.between(1, 2) as u16, 0)).collect();
        let nodes = Nodes::with(seed, &shards, 3, planted);
        // Who leads is a matter of speed, and not of what may be chosen.
        nodes.known.all_lead.store(prng.below(3) < 2, Ordering::Relaxed);
        let mut schedule = Schedule { nodes, model: Rc::default(), prng, crowd };
        (0..schedule.nodes.count()).for_each(|node| schedule.start_clients(node));
        schedule
    }

    fn node(&mut self) -> usize {
        self.prng.below(self.nodes.count() as u64) as usize
    }

    fn start_clients(&mut self, node: usize) {
        let (model, Crowd { clients, waits }) = (self.model.clone(), self.crowd);
        self.nodes.run(node, async move {
            let scope = Scope::new();
            (0..clients).for_each(|_| drop(scope.spawn(client(model.clone(), waits))));
            runtime::local::set(Rc::new(Clients { _scope: scope }));
        });
    }

    fn run_for(&mut self, millis: u64) {
        let millis = 1 + self.prng.below(millis);
        self.nodes.world.run_for(Duration::from_millis(millis));
    }

    fn suffer(&mut self) {
        let (node, other) = (self.node(), self.node());
        match self.prng.below(8) {
            0 | 1 => {
                self.nodes.crash(node);
                self.run_for(400);
                self.nodes.start(node);
                self.start_clients(node);
            }
            2 => {
                self.nodes.set_cut(node, true);
                self.run_for(1500);
                self.nodes.set_cut(node, false);
            }
            3 if node != other => {
                self.nodes.set_cut_from(node, other, true);
                self.run_for(1500);
                self.nodes.set_cut_from(node, other, false);
            }
            4 if node != other => self.nodes.reset(node, other),
            5 => {
                let minutes = self.prng.between(0, 6) as i64 - 3;
                self.nodes.skew(node, minutes * 60_000_000);
            }
            _ if node != other => {
                let delay = Duration::from_millis(self.prng.below(400));
                self.nodes.set_delay(node, other, delay);
                self.run_for(600);
                self.nodes.set_delay(node, other, Duration::ZERO);
            }
            _ => {}
        }
        self.run_for(200);
    }

    fn run(mut self, steps: u32) -> Vec<String> {
        for _ in 0..steps {
            self.suffer();
        }
        self.model.quiet.set(true);
        self.nodes.world.run_for(5 * SECOND);
        for node in 0..self.nodes.count() {
            let model = self.model.clone();
            self.nodes.run(node, async move {
                for key in 0..KEYS {
                    let at = model.histories.begin(key, Kind::Read(0));
                    match get(key as i32, SERIAL).await {
                        Ok(found) => model.histories.end(key, at, Kind::Read(value(found))),
                        Err(error) => {
                            model.violations.borrow_mut().push(format!("heals: {error}"));
                        }
                    }
                }
            });
        }
        let mut violations = self.model.violations.take();
        violations.extend(self.model.histories.violations());
        if violations.is_empty() {
            let ended = self.model.histories.ended();
            assert!(20 < ended, "{ended} operations ended, {} unknown", self.model.unknown.get());
        }
        violations
    }
}

#[test]
fn whatever_happens_conditional_writes_are_linearizable() {
    for seed in runtime::sim::seeds(4) {
        let violations = Schedule::new(seed, None).run(10);
        assert!(violations.is_empty(), "seed {seed}: {}", violations.join("\n"));
    }
}

#[test]
fn whoever_shares_rounds_conditional_writes_are_linearizable() {
    stdx::check::record_probes();
    for seed in runtime::sim::seeds(4) {
        let violations = Schedule::crowded(seed, None).run(10);
        assert!(violations.is_empty(), "seed {seed}: {}", violations.join("\n"));
    }
    let seen = stdx::check::take_probes();
    assert!(seen.contains(&"a round is shared"), "{seen:?}");
}

/// Schedules that have found mistakes. 78: two proposals that nobody had promised, each of which
/// made the other one look impossible (`paxos/promises/tests.rs` has the decision itself).
const FOUND: [u64; 1] = [78];

#[test]
fn what_was_found_stays_mended() {
    for seed in FOUND {
        let violations = Schedule::new(seed, None).run(10);
        assert!(violations.is_empty(), "seed {seed}: {}", violations.join("\n"));
    }
}

/// A mistake that is planted is caught within so many schedules.
fn is_caught(planted: Planted) {
    is_caught_by(planted, 0..2000);
}

/// The same, of schedules that do not begin with the first.
fn is_caught_by(planted: Planted, schedules: Range<u64>) {
    is_caught_among(planted, schedules, Schedule::new);
}

/// The same, of many clients.
fn is_caught_in_a_crowd(planted: Planted) {
    is_caught_among(planted, 0..2000, Schedule::crowded);
}

fn is_caught_among(
    planted: Planted,
    mut schedules: Range<u64>,
    make: impl Fn(u64, Option<Planted>) -> Schedule,
) {
    match schedules.find(|seed| !make(*seed, Some(planted)).run(10).is_empty()) {
        Some(seed) => println!("{planted:?} is caught by schedule {seed}"),
        None => panic!("{planted:?} is not caught"),
    }
}

#[test]
fn promises_that_are_forgotten_are_caught() {
    is_caught(Planted::ForgetsPromises);
}

#[test]
fn replicas_that_accept_anything_are_caught() {
    is_caught(Planted::AcceptsAnything);
}

#[test]
fn rounds_that_are_left_unfinished_are_caught() {
    is_caught_by(Planted::LeavesUnfinished, 45..2045);
}

#[test]
fn proposals_that_hide_what_they_are_made_since_are_caught() {
    is_caught(Planted::HidesSince);
}

#[test]
fn rounds_in_which_nobody_sees_what_was_added_are_caught() {
    is_caught_in_a_crowd(Planted::SharesUnseen);
}

#[test]
fn answers_before_a_shared_round_has_ended_are_caught() {
    is_caught_in_a_crowd(Planted::AnswersEarly);
}
