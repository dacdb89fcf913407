//! Clients of a node that has everything alone, which do what those of [`super::transactions`] do,
//! while it crashes: what is held is in memory, and the log is synced for outcomes alone.
//!
//! Invariants
//!  - *serializable*, *all-or-none*, *heals*: as there.
//!
//! `NEREID_SIM_ROUNDS` sets how many schedules run, `NEREID_SIM_SEED` replays one.

use super::transactions::{
    Clients, KEYS, LEVELS, Model, Values, client, new_id, read_all, steps, transact,
};
use super::world::*;
use replication::coordinator::nodes::Planted;
use replication::transactions::{Decided, HELD_MAX, LIFE};
use replication::{Consistency, TransactionId};
use runtime::task::{Scope, join_all};
use runtime::time::{Instant, sleep, wall_micros};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stdx::Prng;
use storage::SyncMode;

/// Clients rest for so many microseconds at most: they meet each other often.
const REST: u64 = 40_000;
const PERIODIC: SyncMode = SyncMode::Periodic { period: Duration::from_secs(2) };

/// A node of so many shards, with everything on it.
fn alone(seed: u64, shards: u16, planted: Option<Planted>, sync: SyncMode) -> Nodes {
    let nodes = Plan::with(seed, &[(shards, 0)], 1, planted).syncing(sync).start();
    nodes.known.is_single.store(true, Ordering::Relaxed);
    nodes
}

struct Schedule {
    nodes: Nodes,
    model: Rc<Model>,
    prng: Prng,
}

impl Schedule {
    fn new(seed: u64, planted: Option<Planted>) -> Schedule {
        let mut prng = Prng::from_seed(seed);
        let shards = prng.between(1, 3) as u16;
        let is_periodic = !prng.one_in(4);
        let sync = if is_periodic { PERIODIC } else { SyncMode::Batch };
        let nodes = alone(seed, shards, planted, sync);
        let mut all = Schedule { nodes, model: Rc::default(), prng };
        all.start_clients();
        all
    }

    fn start_clients(&mut self) {
        let (model, mut prng) = (self.model.clone(), self.prng.fork());
        self.nodes.run(0, async move {
            let scope = Scope::new();
            for _ in 0..4 {
                drop(scope.spawn(client(model.clone(), prng.fork(), REST)));
            }
            runtime::local::set(Rc::new(Clients { _scope: scope }));
        });
    }

    fn run(mut self, crashes: u32) -> Result<u32, String> {
        for _ in 0..crashes {
            let millis = 1 + self.prng.below(500);
            self.nodes.world.run_for(Duration::from_millis(millis));
            self.nodes.crash(0);
            self.nodes.start(0);
            self.start_clients();
        }
        self.nodes.world.run_for(Duration::from_millis(200));
        self.model.quiet.set(true);
        // Who was to finish what others have left has looked once.
        self.nodes.world.run_for(3 * LIFE);
        let model = self.model.clone();
        self.nodes.run(0, async move {
            let plain = all_plainly().await?;
            let serial = read_all(&model).await.ok_or("heals: no serial read")?;
            match plain == serial {
                true => Ok(()),
                false => Err(format!("all-or-none: {plain:?} is {serial:?} by rounds")),
            }
        })?;
        self.model.check()?;
        Ok(self.model.committed.get())
    }
}

/// All registers, by reads without rounds.
async fn all_plainly() -> Result<Values, String> {
    let reads = join_all((0..KEYS as i32).map(|pk| get(pk, Consistency::One))).await;
    let mut values: Values = [None; KEYS];
    for (value, read) in values.iter_mut().zip(reads) {
        *value = read.map_err(|error| format!("heals: {error}"))?;
    }
    Ok(values)
}

#[test]
fn transactions_of_one_node_are_serializable_whatever_happens() {
    let (mut committed, mut schedules) = (0, 0);
    for seed in runtime::sim::seeds(6) {
        schedules += 1;
        let checked = Schedule::new(seed, None).run(5);
        committed += checked.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    // Few may be unlucky together: a portion of many is not to fail for that.
    let least = if schedules < 50 { schedules } else { 3 * schedules };
    assert!(least < committed, "{committed} transactions of {schedules} took effect");
}

/// A mistake that is planted is caught within so many schedules.
fn is_caught(planted: Planted) {
    for seed in 0..500 {
        if let Err(violation) = Schedule::new(seed, Some(planted)).run(5) {
            println!("{planted:?} is caught by schedule {seed}: {violation:.60}");
            return;
        }
    }
    panic!("{planted:?} is not caught");
}

#[test]
fn what_is_held_in_memory_and_not_seen_is_caught() {
    is_caught(Planted::ForgetsClaims);
}

#[test]
fn a_start_that_applies_nothing_is_caught() {
    is_caught(Planted::RedoesNothing);
}

#[test]
fn an_outcome_that_is_followed_before_the_disk_has_it_is_caught() {
    is_caught(Planted::DecidesUnsynced);
}

#[test]
fn one_node_that_passes_over_what_is_held_is_caught() {
    is_caught(Planted::PassesHeld);
}

/// What is held by a transaction that nobody commits is held until it is aborted, by who needs it.
#[test]
fn what_is_held_is_held_until_it_is_aborted() {
    let mut nodes = alone(3, 2, None, SyncMode::Batch);
    let model: Rc<Model> = Rc::default();
    nodes.run(0, async move {
        transact(&model, steps([(0, None, 1), (1, None, 2), (2, None, 3)])).await;
        assert_eq!(model.committed.get(), 1);
        // Another one holds two of them, and goes no further.
        let id = new_id();
        for step in steps([(0, Some(1), 10), (1, Some(2), 20)]) {
            assert!(matches!(hold(id, step).await, Held::Part(_)), "{step:?}");
        }
        // Plain reads see nothing of it, and other transactions do not wait.
        assert_eq!(get(0, Consistency::One).await, Ok(Some(1)));
        transact(&model, steps([(0, Some(1), 100), (2, Some(3), 300)])).await;
        assert_eq!(model.committed.get(), 1);
        sleep(HELD_MAX + SECOND).await;
        transact(&model, steps([(0, Some(1), 5), (1, Some(2), 6)])).await;
        assert_eq!(model.committed.get(), 2);
        for (pk, value) in [(0, 5), (1, 6), (2, 3)] {
            assert_eq!(get(pk, Consistency::One).await, Ok(Some(value)), "{pk}");
        }
    });
}

/// The same where nobody needs it.
#[test]
fn what_is_held_and_needed_by_nobody_is_let_go() {
    let mut nodes = alone(4, 3, None, SyncMode::Batch);
    nodes.run(0, async move {
        let id = new_id();
        for step in steps([(0, None, 10), (1, None, 20), (2, None, 30)]) {
            assert!(matches!(hold(id, step).await, Held::Part(_)), "{step:?}");
        }
        sleep(2 * HELD_MAX).await;
        let begun = Instant::now();
        for pk in 0..3 {
            assert_eq!(change_if(pk, None, 5, LEVELS).await, Ok(Changed::Applied));
        }
        assert!(begun.elapsed() < SECOND / 10, "it was held");
    });
}

/// What was decided is there when a node is up again, in all its parts, though the log has lost
/// them; what was held only is not held any more, or until it is aborted.
#[test]
fn what_is_committed_is_there_after_a_crash() {
    for seed in 0..20 {
        let mut nodes = alone(seed, 1 + (seed % 3) as u16, None, PERIODIC);
        let model: Rc<Model> = Rc::default();
        let shared = model.clone();
        nodes.run(0, async move {
            transact(&shared, steps([(0, None, 1), (1, None, 2), (2, None, 3)])).await;
            assert_eq!(shared.committed.get(), 1);
            let held = hold(new_id(), Step { pk: 3, from: None, to: Some(7) }).await;
            assert!(matches!(held, Held::Part(_)), "{held:?}");
            // Decided, and its coordinator does no more.
            let id = new_id();
            let mut parts = Vec::new();
            for step in steps([(0, Some(1), 4), (1, Some(2), 5)]) {
                let Held::Part(part) = hold(id, step).await else { panic!("{step:?}") };
                parts.push(part);
            }
            let decided = coordinator().decide_only(id, parts).await;
            assert_eq!(decided.expect("a decision"), Decided::Committed);
        });
        nodes.crash(0);
        nodes.start(0);
        nodes.run(0, async move {
            assert_eq!(all_plainly().await, Ok([Some(4), Some(5), Some(3), None]), "seed {seed}");
            sleep(HELD_MAX + SECOND).await;
            transact(&model, steps([(3, None, 8), (0, Some(4), 9)])).await;
            assert_eq!(model.committed.get(), 2);
        });
    }
}

/// What was held by the row of its rounds, and was aborted, stays so though the row has it still
/// after a crash: when a later transaction that has looked at the partition is applied again, all
/// rounds before that are over, but they have not all been won.
#[test]
fn what_was_aborted_is_not_applied_with_what_came_later() {
    // What fits in memory, and what not, is drawn: one in eight of what is held.
    for seed in 0..100 {
        let mut nodes = alone(seed, 3, None, PERIODIC);
        let model: Rc<Model> = Rc::default();
        nodes.run(0, async move {
            transact(&model, steps([(0, None, 1), (1, None, 2)])).await;
            sleep(3 * SECOND).await;
            let id = new_id();
            let held = hold(id, Step { pk: 0, from: Some(1), to: Some(7) }).await;
            assert!(matches!(held, Held::Part(_)), "{held:?}");
            let table = testkit::config::entry("ks", "t").schema.id;
            coordinator().abort(id, vec![(table, testkit::rows::key(0).to_vec())]).await;
            let looks = Step { pk: 0, from: Some(1), to: None };
            let writes = Step { pk: 1, from: Some(2), to: Some(3) };
            transact(&model, vec![looks, writes]).await;
            assert_eq!(model.committed.get(), 2);
        });
        // The first start applies the later one again, and says so in the row.
        for _ in 0..2 {
            nodes.crash(0);
            nodes.start(0);
            nodes.run(0, async move {
                assert_eq!(all_plainly().await, Ok([Some(1), Some(3), None, None]), "seed {seed}");
                runtime::on_all_shards(|| async {
                    let storage = runtime::local::get::<storage::Storage>();
                    storage.sync_log().await.expect("a log that is synced");
                })
                .await;
            });
        }
    }
}

/// Whether two transactions are there after a crash, whose outcomes are in one partition: the row
/// of its rounds, which may be on another shard, keeps the last of them alone.
fn keeps_both(bucket: u32, planted: Option<Planted>) -> bool {
    // One with tablets.
    let mut nodes = alone(3, 3, planted, PERIODIC);
    nodes.run(0, async move {
        for step in steps([(0, None, 1), (1, None, 2)]) {
            let id = TransactionId::new(wall_micros(), bucket, runtime::random_u64());
            let Held::Part(part) = hold(id, step).await else { panic!("{step:?} is not held") };
            let decided = coordinator().commit(id, vec![part], (SECOND, None)).await;
            assert_eq!(decided.expect("a decision"), Decided::Committed);
        }
    });
    nodes.crash(0);
    nodes.start(0);
    nodes.run(0, async { all_plainly().await == Ok([Some(1), Some(2), None, None]) })
}

#[test]
fn outcomes_in_one_partition_do_not_cost_each_other() {
    assert!((0..40).all(|bucket| keeps_both(bucket, None)));
    let caught = (0..40).filter(|bucket| !keeps_both(*bucket, Some(Planted::OvertakesWrites)));
    assert!(0 < caught.count(), "OvertakesWrites is not caught");
}

/// Where its outcome is agreed on with other nodes, what was held in memory is not committed
/// (*dies-with-its-decider*).
#[test]
fn what_one_node_has_held_is_not_committed_by_several() {
    let mut nodes = Nodes::with(5, &[(1, 0), (1, 0), (1, 0)], 1, None);
    nodes.known.is_single.store(true, Ordering::Relaxed);
    let known = nodes.known.clone();
    let part = nodes.run(0, async {
        let id = new_id();
        let held = hold(id, Step { pk: 1, from: None, to: Some(7) }).await;
        let Held::Part(part) = held else { panic!("{held:?}") };
        (id, part)
    });
    known.is_single.store(false, Ordering::Relaxed);
    nodes.run(0, async move {
        let (id, part) = part;
        let decided = coordinator().commit(id, vec![part], (SECOND, None)).await;
        assert_eq!(decided.expect("a decision"), Decided::Aborted);
        sleep(SECOND).await;
        assert_eq!(get(1, Consistency::Quorum).await, Ok(None));
    });
}

/// A table that was truncated stays empty, though a transaction had written to it just before.
#[test]
fn what_was_truncated_is_not_applied_again() {
    for seed in 0..10 {
        let mut nodes = alone(seed, 2, None, PERIODIC);
        let model: Rc<Model> = Rc::default();
        nodes.run(0, async move {
            transact(&model, steps([(0, None, 1), (1, None, 2), (2, None, 3)])).await;
            assert_eq!(model.committed.get(), 1);
            let table = testkit::config::entry("ks", "t").schema.id;
            coordinator().truncate(table, 10 * SECOND).await.expect("a truncation");
            assert_eq!(all_plainly().await, Ok([None; KEYS]));
        });
        nodes.crash(0);
        nodes.start(0);
        nodes.run(0, async move { assert_eq!(all_plainly().await, Ok([None; KEYS])) });
    }
}
