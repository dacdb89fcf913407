//! Clients on all nodes that change several registers at once, each on what it has read, change
//! single ones, and read all of them, while nodes crash, are cut off, are slow and lose their
//! connections. On a node that has everything alone: [`super::transactions_alone`].
//!
//! Invariants
//!  - *serializable*: the history of all registers together is one that a single machine has, which
//!    does one thing after the other; what ended in a timeout happened once or never, and what was
//!    aborted never (`testkit::linear`).
//!  - *all-or-none*: when faults have ended, who reads without rounds sees what a transaction that
//!    took effect has made of all registers.
//!  - *heals*: then all registers can be read and written, and nothing is held.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::suffering::{Begins, Suffering};
use super::world::*;
use mutation::page::Partitions;
use replication::coordinator::nodes::Planted;
use replication::transactions::{Decided, LIFE, Request};
use replication::{Consistency, Owner, TransactionId, WriteError, WriteKind, WriteOptions};
use runtime::task::{Scope, join_all};
use runtime::time::{sleep, wall_micros};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;
use testkit::linear::{Act, Operation, is_explained};
use testkit::rows;

const SERIAL: Consistency = Consistency::Serial;
pub(super) const LEVELS: (Consistency, Consistency) = (SERIAL, Consistency::Quorum);
pub(super) const KEYS: usize = 4;

pub(super) type Values = [Option<i32>; KEYS];

/// What a client has asked of the registers.
#[derive(Clone, Debug)]
enum Asked {
    /// All of them, at one moment.
    Read(Values),
    /// Some of them are changed, if they are as they were seen; `None`: nobody knows.
    Change(Vec<Step>, Option<bool>),
}

impl Act for Asked {
    type State = Values;

    fn after(&self, values: &Values) -> Option<Values> {
        match self {
            Asked::Read(read) => (read == values).then_some(*values),
            // That it was aborted says nothing of the registers.
            Asked::Change(_, Some(false)) => Some(*values),
            Asked::Change(steps, _) => {
                let mut after = *values;
                for step in steps {
                    let value = &mut after[step.pk as usize];
                    if *value != step.from {
                        return None;
                    }
                    *value = step.to.or(*value);
                }
                Some(after)
            }
        }
    }

    fn must_happen(&self, has_ended: bool) -> bool {
        match self {
            Asked::Read(_) => has_ended,
            Asked::Change(_, took_effect) => *took_effect == Some(true),
        }
    }

    fn may_change(&self) -> bool {
        matches!(self, Asked::Change(_, None | Some(true)))
    }
}

#[derive(Default)]
pub(super) struct Model {
    next: Cell<i32>,
    clock: Cell<u64>,
    pub(super) quiet: Cell<bool>,
    asked: RefCell<Vec<Operation<Asked>>>,
    pub(super) committed: Cell<u32>,
}

impl Model {
    fn moment(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn begin(&self, kind: Asked) -> usize {
        let began = self.moment();
        self.asked.borrow_mut().push(Operation { kind, began, ended: None });
        self.asked.borrow().len() - 1
    }

    fn end(&self, at: usize, kind: Asked) {
        let ended = Some(self.moment());
        let operation = &mut self.asked.borrow_mut()[at];
        *operation = Operation { kind, ended, began: operation.began };
    }

    fn next(&self) -> i32 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let asked = self.asked.borrow();
        match is_explained(&asked, [None; KEYS]) {
            true => Ok(()),
            false => Err(format!("not serializable: {asked:#?}")),
        }
    }
}

/// A register, by a round. Where there is one replica a serial read is as any other: it may come
/// while the parts of a transaction are applied, one after the other.
async fn look(pk: i32) -> Option<Option<i32>> {
    let table = testkit::config::entry("ks", "t");
    if coordinator().is_spread(&table) {
        return get(pk, SERIAL).await.ok();
    }
    let key = rows::key(pk).to_vec();
    let command = rows::read_of(&table, Partitions::Key(key.clone()), 10);
    let read = move |owner: Owner| async move {
        let round = owner.begin(wall_micros()).await.ok()?;
        let page = owner.read(&command).await.ok()?;
        owner.finish(round).await.ok()?;
        let found = rows::pairs(&command, &page).pop();
        Some(found.map(|(_, value)| i32::from_be_bytes(four(&value))))
    };
    let (kind, limit) = (WriteKind::Cas, None);
    let options = WriteOptions { consistency: SERIAL, timeout: 2 * SECOND, kind, limit };
    coordinator().on_owner(&table, rows::token(pk), &key, &options, read).await.ok()?
}

/// All registers at one moment: they were the same before and after.
pub(super) async fn read_all(model: &Model) -> Option<Values> {
    let at = model.begin(Asked::Read([None; KEYS]));
    let mut last = None;
    for _ in 0..6 {
        let mut values = [None; KEYS];
        for (pk, value) in values.iter_mut().enumerate() {
            *value = look(pk as i32).await?;
        }
        if last.replace(values) == Some(values) {
            model.end(at, Asked::Read(values));
            return Some(values);
        }
    }
    None
}

pub(super) fn new_id() -> TransactionId {
    // Outcomes of several are in one bucket.
    let bucket = runtime::random_u64() as u32 % 4;
    TransactionId::new(wall_micros(), bucket, runtime::random_u64())
}

/// Changes registers in one transaction, if they are as they were seen.
pub(super) async fn transact(model: &Model, steps: Vec<Step>) {
    let at = model.begin(Asked::Change(steps.clone(), None));
    let id = new_id();
    let held = join_all(steps.iter().map(|step| hold(id, *step))).await;
    let parts = held.into_iter().map(|held| match held {
        Held::Part(part) => Some(part),
        Held::Found(_) | Held::Not => None,
    });
    let Some(parts) = parts.collect::<Option<Vec<_>>>() else {
        let table = testkit::config::entry("ks", "t").schema.id;
        let places = steps.iter().map(|step| (table, testkit::rows::key(step.pk).to_vec()));
        coordinator().abort(id, places.collect()).await;
        return model.end(at, Asked::Change(steps, Some(false)));
    };
    match coordinator().commit(id, parts, (2 * SECOND, None)).await {
        Ok(Decided::Committed) => {
            model.committed.set(model.committed.get() + 1);
            model.end(at, Asked::Change(steps, Some(true)));
        }
        Ok(_) => model.end(at, Asked::Change(steps, Some(false))),
        Err(_) => {}
    }
}

async fn change_one(model: &Model, step: Step) {
    let Some(to) = step.to else { return };
    let at = model.begin(Asked::Change(vec![step], None));
    match change_if(step.pk, step.from, to, LEVELS).await {
        Ok(Changed::Applied) => model.end(at, Asked::Change(vec![step], Some(true))),
        Ok(Changed::Found(_)) => model.end(at, Asked::Change(vec![step], Some(false))),
        Err(WriteError::Timeout { .. } | WriteError::Failure { .. }) => {}
        Err(_) => model.end(at, Asked::Change(vec![step], Some(false))),
    }
}

/// Asks again and again, and rests in between for so many microseconds at most.
pub(super) async fn client(model: Rc<Model>, mut prng: Prng, rest: u64) {
    let mut seen = [None; KEYS];
    while !model.quiet.get() {
        if let Some(values) = read_all(&model).await {
            seen = values;
        }
        let mut pks: Vec<i32> = (0..KEYS as i32).collect();
        while 3 < pks.len() || 1 < pks.len() && prng.one_in(3) {
            pks.swap_remove(prng.below(pks.len() as u64) as usize);
        }
        let is_written = |prng: &mut Prng| !prng.one_in(4);
        let steps = pks.iter().map(|pk| Step {
            pk: *pk,
            from: seen[*pk as usize],
            to: is_written(&mut prng).then(|| model.next()),
        });
        let steps: Vec<Step> = steps.collect();
        match prng.below(4) {
            0 => change_one(&model, steps[0]).await,
            _ => transact(&model, steps).await,
        }
        sleep(Duration::from_micros(prng.below(rest))).await;
    }
}

pub(super) struct Clients {
    pub(super) _scope: Scope,
}

struct Starts(Rc<Model>);

impl Begins for Starts {
    fn make_tables(&self, _: &mut Nodes, _: usize) {}

    fn start_clients(&self, nodes: &mut Nodes, node: usize, mut prng: Prng) {
        let model = self.0.clone();
        nodes.run(node, async move {
            let scope = Scope::new();
            for _ in 0..2 {
                drop(scope.spawn(client(model.clone(), prng.fork(), 200_000)));
            }
            runtime::local::set(Rc::new(Clients { _scope: scope }));
        });
    }
}

struct Schedule {
    all: Suffering<Starts>,
    model: Rc<Model>,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Schedule {
        let model: Rc<Model> = Rc::default();
        let all = Suffering::new(seed, planted, Starts(model.clone()));
        Schedule { all, model }
    }

    fn run(mut self, steps: u32) -> Result<u32, String> {
        for _ in 0..steps {
            self.all.suffer();
        }
        self.model.quiet.set(true);
        self.all.settle()?;
        // Who was to finish what others have left has looked once.
        self.all.nodes.world.run_for(3 * LIFE);
        let mut plain = Vec::new();
        for node in 0..self.all.nodes.count() {
            let model = self.model.clone();
            plain.push(self.all.nodes.run(node, async move {
                let level = Consistency::All;
                let reads = join_all((0..KEYS as i32).map(|pk| get(pk, level))).await;
                let values: Result<Vec<_>, _> = reads.into_iter().collect();
                let values = values.map_err(|error| format!("heals: {error}"))?;
                let serial = read_all(&model).await.ok_or("heals: no serial read")?;
                match values == serial {
                    true => Ok(()),
                    false => Err(format!("all-or-none: {values:?} is {serial:?} by rounds")),
                }
            }));
        }
        plain.into_iter().collect::<Result<(), String>>()?;
        self.model.check()?;
        Ok(self.model.committed.get())
    }
}

#[test]
fn transactions_are_serializable_whatever_happens() {
    let (mut committed, mut schedules) = (0, 0);
    for seed in runtime::sim::seeds(6) {
        schedules += 1;
        let checked = Schedule::new(seed, None).run(8);
        committed += checked.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    // Few may be unlucky together: a portion of many is not to fail for that.
    let least = if schedules < 50 { schedules } else { 3 * schedules };
    assert!(least < committed, "{committed} transactions of {schedules} took effect");
}

/// A mistake that is planted is caught within so many schedules.
fn is_caught(planted: Planted) {
    for seed in 0..2000 {
        if let Err(violation) = Schedule::new(seed, Some(planted)).run(8) {
            println!("{planted:?} is caught by schedule {seed}: {violation:.60}");
            return;
        }
    }
    panic!("{planted:?} is not caught");
}

#[test]
fn what_is_held_and_taken_for_chosen_is_caught() {
    is_caught(Planted::TakesHeld);
}

#[test]
fn what_is_held_and_passed_over_is_caught() {
    is_caught(Planted::PassesHeld);
}

#[test]
fn a_coordinator_that_decides_alone_is_caught() {
    is_caught(Planted::DecidesAlone);
}

pub(super) fn steps<const N: usize>(changes: [(i32, Option<i32>, i32); N]) -> Vec<Step> {
    changes.map(|(pk, from, to)| Step { pk, from, to: Some(to) }).to_vec()
}

/// Where the condition of one part does not hold nothing happens, and nothing stays held.
#[test]
fn what_is_aborted_leaves_nothing_behind() {
    let mut nodes = Nodes::new(4, &[1, 2, 1]);
    let model: Rc<Model> = Rc::default();
    nodes.run(0, async move {
        transact(&model, steps([(0, None, 1), (1, Some(9), 2)])).await;
        assert_eq!(model.committed.get(), 0);
        // In the background, soon.
        sleep(SECOND).await;
        let begun = runtime::time::Instant::now();
        assert_eq!(change_if(0, None, 5, LEVELS).await, Ok(Changed::Applied));
        assert!(begun.elapsed() < SECOND / 10, "it was held");
        transact(&model, steps([(0, Some(5), 6), (1, None, 2)])).await;
        assert_eq!(model.committed.get(), 1);
        assert_eq!(get(1, SERIAL).await, Ok(Some(2)));
    });
}

/// A coordinator dies when it has decided, and before anybody was told: others finish what it has
/// begun, though nobody asks for it.
#[test]
fn what_was_decided_is_finished_by_others() {
    let mut nodes = Nodes::new(5, &[1, 1, 1]);
    nodes.run(0, async {
        let id = new_id();
        let mut parts = Vec::new();
        for step in steps([(0, None, 1), (1, None, 2)]) {
            let Held::Part(part) = hold(id, step).await else { panic!("{step:?} is not held") };
            parts.push(part);
        }
        coordinator().decide_only(id, parts).await.expect("a decision");
        assert_eq!(get(0, Consistency::Quorum).await, Ok(None));
    });
    nodes.crash(0);
    nodes.world.run_for(3 * LIFE);
    nodes.run(1, async {
        assert_eq!(get(0, Consistency::Quorum).await, Ok(Some(1)));
        assert_eq!(get(1, Consistency::Quorum).await, Ok(Some(2)));
    });
}

/// *once-a-token*
#[test]
fn what_a_client_asks_for_twice_is_done_once() {
    let mut nodes = Nodes::new(6, &[1, 1, 1]);
    let attempt = |from: Option<i32>, to: i32, token: u8, body: u8| async move {
        let request = Request { token: [token; 32], body: [body; 32] };
        let before = coordinator().done_before(request, SECOND).await.expect("an answer");
        let id = TransactionId::new(wall_micros(), request.bucket(), runtime::random_u64());
        let held = hold(id, Step { pk: 1, from, to: Some(to) }).await;
        let Held::Part(part) = held else { panic!("{held:?}") };
        let decided = coordinator().commit(id, vec![part], (SECOND, Some(request))).await;
        (before, decided.expect("a decision"))
    };
    nodes.run(0, async move {
        assert_eq!(attempt(None, 1, 5, 1).await, (None, Decided::Committed));
        let again = (Some(Decided::DoneBefore), Decided::DoneBefore);
        assert_eq!(attempt(Some(1), 2, 5, 1).await, again);
        let other = (Some(Decided::Differs), Decided::Differs);
        assert_eq!(attempt(Some(1), 2, 5, 2).await, other);
        assert_eq!(attempt(Some(1), 2, 6, 2).await, (None, Decided::Committed));
    });
    // Also after all of it was learned; and another node knows.
    nodes.world.run_for(60 * SECOND);
    nodes.run(2, async move {
        let again = (Some(Decided::DoneBefore), Decided::DoneBefore);
        assert_eq!(attempt(Some(2), 3, 5, 1).await, again);
        assert_eq!(get(1, SERIAL).await, Ok(Some(2)));
    });
    nodes.world.run_for(700 * SECOND);
    nodes.run(2, async move {
        assert_eq!(attempt(Some(2), 3, 5, 1).await, (None, Decided::Committed));
    });
}
