//! Clients on all nodes that write and read at QUORUM, while nodes crash, are cut off, are slow and
//! lose their connections.
//!
//! Invariants
//!  - *acknowledged-is-read*: a read sees what was acknowledged before it began, or what is later.
//!  - *never-back*: a read sees what a read saw that ended before it began, or what is later.
//!  - *written-once*: nothing is read that nobody wrote.
//!  - *rows-stay*, *deleted-stays*: a row that was acknowledged is in every read that begins later,
//!    until its deletion begins; after its deletion was acknowledged it is in none.
//!  - *heals*: when faults end, all nodes answer at ALL, the same.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::world::*;
use replication::Consistency;
use replication::coordinator::nodes::Planted;
use runtime::task::Scope;
use runtime::time::sleep;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;

const QUORUM: Consistency = Consistency::Quorum;
const KEYS: i32 = 4;
/// The partition of rows that come and go.
const PARTITION: i32 = 7;

/// What is known of all that was asked.
#[derive(Default)]
struct Model {
    next: Cell<i32>,
    quiet: Cell<bool>,
    clients: Cell<u32>,
    acknowledged: Cell<u64>,
    reads: Cell<u64>,
    floors: RefCell<BTreeMap<i32, i32>>,
    written: RefCell<BTreeSet<(i32, i32)>>,
    /// Rows: acknowledged; deletion begun; deletion acknowledged.
    rows: RefCell<BTreeSet<i32>>,
    deleting: RefCell<BTreeSet<i32>>,
    deleted: RefCell<BTreeSet<i32>>,
    violations: RefCell<Vec<String>>,
}

impl Model {
    fn number(&self) -> i32 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }
    fn floor(&self, key: i32) -> i32 {
        self.floors.borrow().get(&key).copied().unwrap_or(0)
    }
    fn raise(&self, key: i32, to: i32) {
        let mut floors = self.floors.borrow_mut();
        let floor = floors.entry(key).or_insert(0);
        *floor = to.max(*floor);
    }
    fn wrong(&self, what: String) {
        self.violations.borrow_mut().push(what);
    }
}

/// The clients of a node; they end with it.
struct Clients {
    _scope: Scope,
}

fn below(bound: i32) -> i32 {
    (runtime::random_u64() % bound as u64) as i32
}

async fn register(model: &Model) {
    let key = below(KEYS);
    if below(3) == 0 {
        let number = model.number();
        model.written.borrow_mut().insert((key, number));
        if put(key, number, number.into(), QUORUM).await.is_ok() {
            model.acknowledged.set(model.acknowledged.get() + 1);
            model.raise(key, number);
        }
        return;
    }
    let floor = model.floor(key);
    let Ok(found) = get(key, QUORUM).await else { return };
    model.reads.set(model.reads.get() + 1);
    let value = found.unwrap_or(0);
    if value < floor {
        model.wrong(format!("acknowledged-is-read, never-back: {value} of {key} after {floor}"));
    }
    if value != 0 && !model.written.borrow().contains(&(key, value)) {
        model.wrong(format!("written-once: {value} of {key}"));
    }
    model.raise(key, value);
}

async fn rows(model: &Model) {
    match below(4) {
        0 => {
            let number = model.number();
            let write = rows_of(PARTITION, row(number, number, number.into()));
            if write_rows(PARTITION, write, QUORUM).await.is_ok() {
                model.rows.borrow_mut().insert(number);
            }
        }
        1 => {
            let number = {
                let (rows, deleting) = (model.rows.borrow(), model.deleting.borrow());
                let there: Vec<i32> = rows.difference(&deleting).copied().collect();
                let Some(last) = there.len().checked_sub(1) else { return };
                there[below(last as i32 + 1) as usize]
            };
            model.deleting.borrow_mut().insert(number);
            let timestamp = model.number();
            let deletion = rows_of(PARTITION, deletion(number, timestamp.into()));
            if write_rows(PARTITION, deletion, QUORUM).await.is_ok() {
                model.deleted.borrow_mut().insert(number);
            }
        }
        _ => {
            let (rows, deleted) = (model.rows.borrow().clone(), model.deleted.borrow().clone());
            let partition = (below(3) != 0).then_some(PARTITION);
            let limit = 1 + below(6) as u64;
            let Ok((found, _)) = read_rows(command(partition, limit), QUORUM).await else { return };
            model.reads.set(model.reads.get() + 1);
            let found: Vec<i32> = found.into_iter().map(|(_, ck, _)| ck).collect();
            if !found.is_sorted_by(|a, b| a < b) {
                model.wrong(format!("written-once: rows {found:?}"));
            }
            for row in rows.difference(&model.deleting.borrow()).filter(|row| !found.contains(row))
            {
                model.wrong(format!("rows-stay: {row} is not in {found:?}, pages of {limit}"));
            }
            for row in deleted.iter().filter(|row| found.contains(row)) {
                model.wrong(format!("deleted-stays: {row} is in {found:?}, pages of {limit}"));
            }
        }
    }
}

async fn client(model: Rc<Model>) {
    model.clients.set(model.clients.get() + 1);
    while !model.quiet.get() {
        match below(3) {
            0 => rows(&model).await,
            _ => register(&model).await,
        }
        sleep(Duration::from_micros(below(20_000) as u64)).await;
    }
    model.clients.set(model.clients.get() - 1);
}

struct Schedule {
    nodes: Nodes,
    model: Rc<Model>,
    prng: Prng,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        // Every other schedule has two data centres, of several replicas each.
        let centers = 1 + seed % 2;
        let (count, copies) = if centers == 1 { (prng.between(3, 5), 3) } else { (5, 4) };
        let node = |node: u64| (prng.between(1, 3) as u16, (node % centers) as u16);
        let shards: Vec<_> = (0..count).map(node).collect();
        let nodes = Nodes::with(seed, &shards, copies, planted);
        let mut schedule = Schedule { nodes, model: Rc::default(), prng };
        (0..schedule.nodes.count()).for_each(|node| schedule.start_clients(node));
        schedule
    }

    fn node(&mut self) -> usize {
        self.prng.below(self.nodes.count() as u64) as usize
    }

    fn start_clients(&mut self, node: usize) {
        let model = self.model.clone();
        self.nodes.run(node, async move {
            let scope = Scope::new();
            for _ in 0..2 {
                drop(scope.spawn(client(model.clone())));
            }
            runtime::local::set(Rc::new(Clients { _scope: scope }));
        });
    }

    fn run_for(&mut self, millis: u64) {
        let millis = 1 + self.prng.below(millis);
        self.nodes.world.run_for(Duration::from_millis(millis));
    }

    /// Something goes wrong, for a while.
    fn suffer(&mut self) {
        let (node, other) = (self.node(), self.node());
        match self.prng.below(5) {
            0 | 1 => {
                self.nodes.crash(node);
                self.run_for(800);
                self.nodes.start(node);
                self.start_clients(node);
            }
            2 => {
                self.nodes.set_cut(node, true);
                self.run_for(4000);
                self.nodes.set_cut(node, false);
            }
            3 if node != other => self.nodes.reset(node, other),
            _ if node != other => {
                let delay = Duration::from_millis(self.prng.below(300));
                self.nodes.set_delay(node, other, delay);
                self.run_for(800);
                self.nodes.set_delay(node, other, Duration::ZERO);
            }
            _ => {}
        }
        self.run_for(300);
    }

    fn run(mut self, steps: u32) -> Vec<String> {
        for _ in 0..steps {
            self.suffer();
            if !self.model.violations.borrow().is_empty() {
                break;
            }
        }
        self.model.quiet.set(true);
        self.nodes.world.run_for(15 * SECOND);
        for node in 0..self.nodes.count() {
            let model = self.model.clone();
            self.nodes.run(node, async move {
                for key in 0..KEYS {
                    let found = get(key, Consistency::All).await;
                    let floor = model.floor(key);
                    match found {
                        Ok(value) if floor <= value.unwrap_or(0) => {
                            model.raise(key, value.unwrap_or(0));
                        }
                        _ => model.wrong(format!("heals: {found:?} of {key} after {floor}")),
                    }
                }
            });
        }
        let Model { acknowledged, reads, violations, .. } = &*self.model;
        if violations.borrow().is_empty() {
            let (writes, reads) = (acknowledged.get(), reads.get());
            assert!(20 < writes && 20 < reads, "{writes} writes and {reads} reads");
        }
        violations.take()
    }
}

#[test]
fn whatever_happens_quorums_meet() {
    for seed in runtime::sim::seeds(2) {
        let violations = Schedule::new(seed, None).run(10);
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    }
}

/// A mistake that is planted is caught within so many schedules.
fn is_caught(planted: Planted) {
    for seed in 0..30 {
        let violations = Schedule::new(seed, Some(planted)).run(12);
        if !violations.is_empty() {
            return;
        }
    }
    panic!("{planted:?} is not caught");
}

#[test]
fn a_write_that_is_acknowledged_early_is_caught() {
    is_caught(Planted::AcknowledgesEarly);
}

#[test]
fn digests_that_leave_out_values_are_caught() {
    is_caught(Planted::ComparesCounts);
}
