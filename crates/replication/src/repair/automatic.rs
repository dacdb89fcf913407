//! Tables are repaired by themselves: each range within a time, the *goal* of its table.
//!
//! A node sees to the ranges of which it is the first replica. When all replicas of one had the
//! same last its own history tells ([`super::history`]), also over restarts, and what it has
//! repaired itself since it started. One that never was repaired is as old as its table, if the id
//! of that tells, else as the time for which this node has looked.
//!
//! Invariants
//!  - *first-alone*: no node but its first replica begins to repair a range by itself.
//!  - *oldest-first*: of the ranges that are due the one is repaired whose age is most in parts of
//!    its goal.
//!  - *budgeted*: a node repairs one range at a time by itself, in the group *streaming*, and
//!    begins them at most [`SPEED`] times as often as all its goals need: whatever has come
//!    together, it is spread over a part of the goal.
//!  - *not-believed*: the time of a repair that is still to come says nothing.
//!  - *all-there*: none is begun while one of its replicas is down; one that failed is begun again
//!    after a part of its goal, and is as old as before.
//!
//! Lives on shard 0 of each node.

use super::job::{Task, Wanted};
use super::range::{Figures, How, Moment};
use super::times::Times;
use crate::coordinator::{Coordinator, own_coordinator, own_storage};
use cluster::settings::{Live, Rule, Settings, anything};
use cluster::{TableEntry, TableKind, features};
use model::value::timeuuid_ticks;
use model::{TableId, TableSchema, Token, Uuid};
use runtime::group::STREAMING;
use runtime::time::{Instant, sleep, wall_micros};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

const ENABLED: &str = "auto_repair_enabled_default";
const GOAL: &str = "auto_repair_threshold_default_in_seconds";
const GOAL_SECONDS: i64 = 86_400;
/// A goal is not less than this for a short `gc_grace_seconds` alone.
const GOAL_MIN: Duration = Duration::from_secs(3600);
/// *budgeted*
const SPEED: f64 = 4.0;
/// How often it is looked for what is due.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// A table of which nothing is due is looked at again after this part of its goal at the latest:
/// ranges may come from other nodes.
const LOOKS: u32 = 8;
/// After which part of its goal a range that failed is begun again.
const RETRIES: u32 = 16;
/// For how long the moment before which nothing was kept for the replicas is good.
const MOMENT_TIME: Duration = Duration::from_secs(60);
/// Ranges of which it is known when this node has tried them.
const TRIED_MAX: usize = 1 << 16;

/// What repairs that nobody asked for have done.
#[derive(Debug, Default)]
pub struct Counters {
    /// Ranges that were repaired, and those of them of which it was known that all agree.
    pub repaired: Cell<u64>,
    pub known: Cell<u64>,
    /// Ranges that could not be.
    pub failed: Cell<u64>,
    /// Rows that a replica had missed.
    pub rows: Cell<u64>,
    /// Ranges that are due now.
    pub due: Cell<u64>,
}

fn count(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

type Key = (TableId, Token, Token);

/// When this node has begun a range last, and whether it was repaired.
#[derive(Clone, Copy, Debug)]
struct Tried {
    at: Instant,
    is_done: bool,
}

/// What the last look at a table has found.
#[derive(Clone, Copy, Debug)]
struct Looked {
    goal: Duration,
    /// How many of its ranges are for this node.
    ranges: usize,
    /// Nothing is due before.
    until: Instant,
    /// What was repaired since nothing was due.
    repaired: u64,
    rows: u64,
}

/// See the module. Stands in `runtime::local` of shard 0; of each shard, what tests plant.
pub struct Automatic {
    began: Instant,
    tried: RefCell<BTreeMap<Key, Tried>>,
    tables: RefCell<BTreeMap<TableId, Looked>>,
    /// Before which microsecond nothing was kept for any replica, and when that was asked.
    moment: Cell<Option<(Option<i64>, Instant)>>,
    counters: Counters,
    planted_done: Cell<bool>,
}

impl Default for Automatic {
    fn default() -> Automatic {
        Automatic {
            began: Instant::now(),
            tried: RefCell::default(),
            tables: RefCell::default(),
            moment: Cell::default(),
            counters: Counters::default(),
            planted_done: Cell::new(false),
        }
    }
}

/// In what time each range of a table is to be repaired: in as long as is set for all, and so that
/// no replica forgets a deletion of which another one has not heard in two repairs.
fn goal(set_for_all: Duration, gc_grace_seconds: i32) -> Duration {
    let most = set_for_all.max(Duration::from_secs(1));
    let grace = Duration::from_secs(u64::try_from(gc_grace_seconds).unwrap_or(0));
    let goal = (grace / 2).clamp(GOAL_MIN.min(most), most);
    debug_assert!(!goal.is_zero() && goal <= most, "budgeted: a goal of {goal:?}");
    goal
}

/// What is known of when a range was repaired.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// By the history, in microseconds of the clock of who remembered it.
    repaired: Option<i64>,
    /// The same of when its table was made.
    made: Option<i64>,
    /// By this node since it started, and for how long it has looked.
    done_ago: Option<Duration>,
    looked_for: Duration,
}

/// For how long a range was not repaired (*not-believed*).
fn age(told: Told, now_micros: i64) -> Duration {
    let ago =
        |at: i64| u64::try_from(now_micros.saturating_sub(at)).ok().map(Duration::from_micros);
    let repaired = told.repaired.and_then(ago);
    match repaired.into_iter().chain(told.done_ago).min() {
        Some(age) => age,
        None => told.made.and_then(ago).unwrap_or(told.looked_for),
    }
}

/// How long it is from the beginning of one range to that of the next, at least (*budgeted*); of
/// each table how many ranges it has, and its goal.
fn pause(tables: impl Iterator<Item = (usize, Duration)>) -> Duration {
    let needed: f64 = tables.map(|(ranges, goal)| ranges as f64 / goal.as_secs_f64()).sum();
    debug_assert!(needed.is_finite() && 0.0 <= needed, "budgeted: {needed} ranges a second");
    match 0.0 < needed {
        true => Duration::from_secs_f64(1.0 / (SPEED * needed)),
        false => Duration::ZERO,
    }
}

/// A range that is due.
struct Due {
    task: Task,
    /// Its age, in parts of its goal.
    lateness: f64,
    goal: Duration,
}

impl Automatic {
    /// Of this shard: shard 0 has what was done.
    pub fn of_shard() -> Rc<Automatic> {
        runtime::local::get_or_default::<Automatic>()
    }

    /// Registers the options, for [`Settings::refused`].
    pub fn check(settings: &Settings) {
        Obeyed::registered(settings);
    }

    /// What was done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A mistake that a test plants (*all-there*): a range that failed counts as repaired.
    #[doc(hidden)]
    pub fn plant_done(&self) {
        self.planted_done.set(true);
    }

    /// The range to repair now, of all tables, if one is due (*oldest-first*).
    async fn look(&self, coordinator: &Coordinator, set_for_all: Duration) -> Option<Due> {
        let schema = coordinator.cluster.schema();
        let tables = schema.keyspaces.values().flat_map(|it| it.tables.values());
        let stored = tables.filter(|table| table.kind == TableKind::Stored);
        let tables: Vec<Rc<TableEntry>> = stored.cloned().collect();
        let is_there = |id: &TableId| schema.table_by_id(*id).is_some();
        self.tables.borrow_mut().retain(|id, _| is_there(id));
        self.tried.borrow_mut().retain(|(id, ..), _| is_there(id));
        let (mut oldest, mut due): (Option<Due>, _) = (None, 0);
        for table in tables.iter().filter(|table| coordinator.is_spread(table)) {
            let goal = goal(set_for_all, table.schema.options.gc_grace_seconds);
            let looked = self.tables.borrow().get(&table.schema.id).copied();
            let is_later = |it: &Looked| it.goal == goal && Instant::now() < it.until;
            if looked.as_ref().is_some_and(is_later) {
                continue;
            }
            let found = self.look_at(coordinator, table, goal);
            due += found.len() as u64;
            let more = found.into_iter().chain(oldest);
            oldest = more.max_by(|a, b| a.lateness.total_cmp(&b.lateness));
            runtime::task::yield_if_needed().await;
        }
        self.counters.due.set(due);
        let begins = |due: &Due| 1.0 <= due.lateness;
        debug_assert!(oldest.as_ref().is_none_or(begins), "oldest-first: one that is not due");
        oldest
    }

    /// The ranges of a table that are due and can be repaired.
    fn look_at(&self, coordinator: &Coordinator, table: &TableEntry, goal: Duration) -> Vec<Due> {
        let TableSchema { id, keyspace, name, .. } = &*table.schema;
        let wanted = Wanted { tables: vec![*id], is_primary: true, ..Wanted::default() };
        let tasks = coordinator.tasks(&wanted);
        let (now, now_micros) = (Instant::now(), wall_micros());
        let made = timeuuid_ticks(id).map(|ticks| ticks.div_euclid(10));
        let storage = own_storage().ok();
        let (ranges, mut found) = (tasks.len(), Vec::new());
        let mut next = goal / LOOKS;
        for task in tasks {
            let tokens = task.range.tokens;
            let tried = self.tried.borrow().get(&(*id, tokens.0, tokens.1)).copied();
            let repaired = storage.as_ref().and_then(|storage| storage.repaired_at(*id, tokens));
            let told = Told {
                repaired: repaired.map(|seconds| seconds.saturating_mul(1_000_000)),
                made,
                done_ago: tried.filter(|tried| tried.is_done).map(|tried| now - tried.at),
                looked_for: now - self.began,
            };
            let age = age(told, now_micros);
            let failed_ago = tried.filter(|tried| !tried.is_done).map(|tried| now - tried.at);
            let waits =
                failed_ago.map_or(Duration::ZERO, |ago| (goal / RETRIES).saturating_sub(ago));
            let left = goal.saturating_sub(age).max(waits);
            next = next.min(left);
            // *all-there*
            if left.is_zero() && coordinator.are_alive(&task.range) {
                let lateness = age.as_secs_f64() / goal.as_secs_f64();
                found.push(Due { task, lateness, goal });
            }
        }
        debug_assert!(next <= goal / LOOKS, "oldest-first: {next:?} without a look");
        debug_assert!(found.len() <= ranges, "oldest-first: {} of {ranges}", found.len());
        let mut tables = self.tables.borrow_mut();
        let fresh = Looked { goal, ranges, until: now, repaired: 0, rows: 0 };
        let looked = tables.entry(*id).or_insert(fresh);
        (looked.goal, looked.ranges, looked.until) = (goal, ranges, now + next);
        if found.is_empty() && 0 < looked.repaired {
            let (repaired, rows) = (looked.repaired, looked.rows);
            (looked.repaired, looked.rows) = (0, 0);
            tracing::info!(
                target: "repair",
                "{keyspace}.{name}: {repaired} ranges were repaired by themselves, of which {rows} \
                 rows were missing on a replica"
            );
        }
        found
    }

    /// Repairs a range.
    async fn repair(&self, coordinator: &Coordinator, due: Due) {
        let Due { task, lateness, goal } = due;
        let (tokens, id, name) = (task.range.tokens, task.range.table, task.name.clone());
        debug_assert!(task.is_here(), "first-alone: {name} is for another node");
        tracing::debug!(target: "repair", %name, lateness, "a range is due");
        let micros = self.moment(coordinator).await;
        let repair =
            (u128::from(runtime::random_u64()) << 64) | u128::from(runtime::random_u64() | 1);
        let moment = micros.map(|micros| Moment { repair, micros });
        let at = Instant::now();
        let how = How { moment, ..How::default() };
        let (figures, ended) = coordinator.carry_out(task, (runtime::random_u64(), how)).await;
        let is_done = ended.is_ok() || self.planted_done.get();
        let mut tried = self.tried.borrow_mut();
        if TRIED_MAX <= tried.len() {
            // Of most the history tells.
            tried.pop_first();
        }
        tried.insert((id, tokens.0, tokens.1), Tried { at, is_done });
        debug_assert!(tried.len() <= TRIED_MAX, "budgeted: {} ranges are known", tried.len());
        drop(tried);
        self.note(id, &figures, is_done);
        if let Err(why) = ended {
            let seconds = (goal / RETRIES).as_secs_f64();
            tracing::warn!(
                target: "repair",
                "{name} was not repaired by itself, and is tried again in {seconds:.0} s: {why}"
            );
        }
    }

    fn note(&self, id: TableId, figures: &Figures, is_done: bool) {
        let rows = figures.fetched + figures.sent;
        let counters = &self.counters;
        count(if is_done { &counters.repaired } else { &counters.failed }, 1);
        count(&counters.known, figures.known);
        count(&counters.rows, rows);
        let all = counters.repaired.get() + counters.failed.get();
        debug_assert!(counters.known.get() <= all, "budgeted: {counters:?}");
        if let Some(looked) = self.tables.borrow_mut().get_mut(&id) {
            looked.repaired += u64::from(is_done);
            looked.rows += rows;
        }
    }

    /// Before which microsecond nothing is kept for any replica; what was told is good for a while,
    /// also that it is not known.
    async fn moment(&self, coordinator: &Coordinator) -> Option<i64> {
        if let Some((moment, at)) = self.moment.get()
            && Instant::now() - at < MOMENT_TIME
        {
            return moment;
        }
        let own = coordinator.cluster.node().host_id;
        let to: BTreeSet<Uuid> = coordinator.places().others().into_iter().chain([own]).collect();
        debug_assert!(1 < to.len(), "first-alone: a range of a node alone");
        let at = Instant::now();
        let told = coordinator.have_sent(&to).await;
        let micros = told.as_ref().ok().copied().filter(|micros| *micros != 0);
        let before = self.moment.replace(Some((micros, at)));
        if let Err(why) = &told
            && before.is_none_or(|(moment, _)| moment.is_some())
        {
            tracing::warn!(
                target: "repair",
                "repairs are not remembered: hints and batches were not all sent before them: {why}"
            );
        }
        micros
    }

    fn pause(&self) -> Duration {
        pause(self.tables.borrow().values().map(|looked| (looked.ranges, looked.goal)))
    }
}

/// The options, which all shards have and shard 0 obeys.
struct Obeyed {
    is_enabled: Live<bool>,
    seconds: Live<i64>,
}

impl Obeyed {
    fn registered(settings: &Settings) -> Obeyed {
        let positive: Rule<i64> = |seconds| match 0 < *seconds {
            true => Ok(()),
            false => Err("not a number of seconds from 1 on".to_owned()),
        };
        Obeyed {
            // A node's options say yes; where there are none, as in tests, nobody asked for it.
            is_enabled: settings.register(ENABLED, false, anything),
            seconds: settings.register(GOAL, GOAL_SECONDS, positive),
        }
    }
}

impl Coordinator {
    /// Tables are repaired by themselves from now on, for as long as this lives. Runs on each
    /// shard.
    pub(crate) fn repair_by_itself(&self) {
        let obeyed = Obeyed::registered(&Settings::of_shard());
        if runtime::shard_id() == 0 {
            drop(self.background.spawn_in(STREAMING, keep_repairing(obeyed)));
        }
    }
}

async fn keep_repairing(obeyed: Obeyed) {
    assert!(runtime::shard_id() == 0, "first-alone: on another shard");
    let automatic = Automatic::of_shard();
    let mut begun: Option<Instant> = None;
    let mut left = LOOK_PERIOD;
    loop {
        sleep(left.min(LOOK_PERIOD)).await;
        left = LOOK_PERIOD;
        if !obeyed.is_enabled.get() {
            automatic.counters.due.set(0);
            continue;
        }
        let Ok(coordinator) = own_coordinator() else { return };
        if !coordinator.places().enables(features::REPAIR_HISTORY) {
            continue;
        }
        if Times::of_shard().is_due() {
            coordinator.tell_repair_times().await;
        }
        let set_for_all = Duration::from_secs(obeyed.seconds.get().unsigned_abs());
        let Some(due) = automatic.look(&coordinator, set_for_all).await else { continue };
        let now = Instant::now();
        left = begun.map_or(Duration::ZERO, |begun| automatic.pause().saturating_sub(now - begun));
        if left.is_zero() {
            begun = Some(now);
            automatic.repair(&coordinator, due).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_goal_leaves_time_for_two_repairs_before_deletions_are_forgotten() {
        for (set_for_all, gc_grace_seconds, expected) in [
            (DAY, 864_000, DAY),
            (DAY, 86_400, 12 * HOUR),
            (DAY, 7200, HOUR),
            (DAY, 0, HOUR),
            (DAY, -1, HOUR),
            (HOUR / 60, 0, HOUR / 60),
            (20 * DAY, 864_000, 5 * DAY),
            (Duration::ZERO, 864_000, Duration::from_secs(1)),
        ] {
            let found = goal(set_for_all, gc_grace_seconds);
            assert_eq!(found, expected, "{set_for_all:?} {gc_grace_seconds}");
        }
    }

    #[test]
    fn a_range_is_as_old_as_what_is_known_of_it() {
        let second = |count: u64| Duration::from_secs(count);
        let told = Told { looked_for: second(7), ..Told::default() };
        let at = |seconds: i64| Some(seconds * 1_000_000);
        let now = 1_000_000_000;
        for (told, expected) in [
            (told, 7),
            (Told { made: at(400), ..told }, 600),
            (Told { made: at(1001), ..told }, 7),
            (Told { repaired: at(900), made: at(400), ..told }, 100),
            // *not-believed*
            (Told { repaired: at(1001), made: at(400), ..told }, 600),
            (Told { repaired: at(900), done_ago: Some(second(3)), ..told }, 3),
            (Told { repaired: at(999), done_ago: Some(second(3)), ..told }, 1),
            (Told { repaired: at(1001), done_ago: Some(second(3)), ..told }, 3),
            (Told { repaired: Some(i64::MIN), ..told }, i64::MAX as u64 / 1_000_000),
        ] {
            assert_eq!(age(told, now).as_secs(), expected, "{told:?}");
        }
    }

    proptest! {
        /// *oldest-first*, *budgeted*: whatever the goals are, and whatever has come together, all
        /// ranges are repaired within them, and no more often than is allowed.
        #[test]
        fn all_are_repaired_in_time(
            tables in proptest::collection::vec((1usize..40, 60u64..5000), 1..5),
            late in proptest::collection::vec(0.0f64..3.0, 1..9),
        ) {
            let of = |(ranges, goal): &(usize, u64)| (*ranges, Duration::from_secs(*goal));
            let pause = pause(tables.iter().map(of)).as_secs_f64();
            let mut ages: Vec<(f64, f64)> = Vec::new();
            for (ranges, goal) in &tables {
                for index in 0..*ranges {
                    let goal = *goal as f64;
                    ages.push((goal * late[index % late.len()], goal));
                }
            }
            let most = tables.iter().map(|(_, goal)| *goal as f64).fold(0.0, f64::max);
            let (mut now, mut begun) = (0.0, 0);
            while now < 4.0 * most {
                let oldest = ages.iter_mut().max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
                let oldest = oldest.expect("a range");
                // What had come together has been worked off by then. Those that come together
                // are due together again, once more spread over a quarter.
                if 1.5 * most < now {
                    let latest = 1.25 * oldest.1 + 2.0 * pause;
                    prop_assert!(oldest.0 <= latest, "{oldest:?} at {now}");
                }
                if oldest.1 <= oldest.0 {
                    oldest.0 = 0.0;
                    begun += 1;
                }
                ages.iter_mut().for_each(|(age, _)| *age += pause);
                now += pause;
            }
            let needed = tables.iter().map(|(ranges, goal)| *ranges as f64 / *goal as f64);
            let needed: f64 = needed.sum();
            prop_assert!(f64::from(begun) <= SPEED * needed * now + 1.0);
        }
    }
}
