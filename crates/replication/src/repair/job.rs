//! Tables are repaired range by range, a few at once on each shard.
//!
//! A range that this node is a replica of it repairs itself; one of tablets that are elsewhere, the
//! first of its replicas that is alive, at this node's word.
//!
//! Invariants
//!  - *each-once*: the ranges of a job are disjoint, and are all that was asked for.
//!  - *others-go-on*: a range that fails keeps no other one from being repaired; the job fails
//!    then, and says why the first did.
//!  - *bounded*: so many ranges of a job are repaired at once on a shard, by its memory.
//!  - *ends*: a job that is told to end begins no more rounds.
//!  - *sent-before*: what nodes keep for the replicas is sent before the first range is repaired,
//!    if it can be in time ([`super::sent`]).

use super::ask::{part, said};
use super::history::History;
use super::known::Known;
use super::range::{Figures, How, Moment, Range};
use super::session::{BUFFER_BYTES_MAX, MEMORY_PART, Sessions};
use super::times::Times;
use crate::coordinator::{Coordinator, nodes, own_coordinator};
use crate::placement::{Replica, Replicas};
use crate::wire::sync::{Lead, decode_figures};
use crate::wire::verb;
use cluster::{TableEntry, features};
use messaging::{HostId, Messaging, Payload, Target, ToShard};
use model::{TableId, TableSchema, Token, Uuid};
use runtime::group::STREAMING;
use runtime::sync::Notify;
use runtime::task::{Either, join_all, race};
use runtime::time::sleep;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Ranges of a job that a shard repairs at once, at most.
const AT_ONCE_MAX: usize = 4;
/// How long another node may take for a range.
const LEAD_TIME: Duration = Duration::from_secs(24 * 3600);
/// Before it is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// A range has so much of the ring at most, so that all shards have something to do.
const WIDTH_MAX: u64 = u64::MAX / 64;

/// What a job is to repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub tables: Vec<TableId>,
    /// Only ranges of which this node is the first replica.
    pub is_primary: bool,
    /// Also ranges of which it is no replica.
    pub is_everywhere: bool,
    /// From the first token up to the last; none: the whole ring.
    pub within: Vec<(Token, Token)>,
    /// Only ranges that have one of these tokens; none: all.
    pub holding: Vec<Token>,
    /// Only among replicas on these nodes.
    pub among: Option<BTreeSet<Uuid>>,
    /// Replicas on these are left out.
    pub without: BTreeSet<Uuid>,
    /// Its tables are small: a range is not cut so that all shards have something to do.
    pub is_small: bool,
    /// No more ranges at once than this; 0: as many as the memory allows.
    pub at_once: usize,
    pub how: How,
}

/// How far a job is, and the word to end it.
#[derive(Debug, Default)]
pub struct Watch {
    pub ranges: Cell<u64>,
    pub done: Cell<u64>,
    pub figures: Cell<Figures>,
    /// Before which microsecond nothing was kept for the replicas any more when it began.
    pub moment: Cell<Option<i64>>,
    is_ended: Cell<bool>,
    ending: Notify,
    number: Cell<u64>,
}

impl Watch {
    /// Ends the job soon.
    pub fn end(&self) {
        self.is_ended.set(true);
        self.ending.notify_all();
    }

    async fn told_to_end(&self) {
        let told = self.ending.notified();
        if !self.is_ended.get() {
            told.await;
        }
        debug_assert!(self.is_ended.get(), "ends: it was not told");
    }
}

/// The jobs that are to end, by number. Stands in `runtime::local` of each shard.
#[derive(Default)]
struct Ended(RefCell<BTreeSet<u64>>);

/// A range, and who repairs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) range: Range,
    pub(super) name: String,
    leader: Leader,
}

impl Task {
    /// Whether this node repairs it.
    pub(super) fn is_here(&self) -> bool {
        matches!(self.leader, Leader::Here(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    /// A shard of this node.
    Here(u16),
    /// A shard of another one.
    There(Uuid, u16),
}

/// The parts of a range that lie within others; all of it, where there are none.
fn within(range: (Token, Token), parts: &[(Token, Token)]) -> Vec<(Token, Token)> {
    debug_assert!(range.0 <= range.1, "each-once: {range:?}");
    if parts.is_empty() {
        return vec![range];
    }
    let parts = parts.iter().map(|part| (part.0.max(range.0), part.1.min(range.1)));
    let mut parts: Vec<(Token, Token)> = parts.filter(|part| part.0 <= part.1).collect();
    parts.sort_unstable();
    let mut out: Vec<(Token, Token)> = Vec::new();
    for part in parts {
        match out.last_mut() {
            Some(last) if part.0 <= last.1 => last.1 = last.1.max(part.1),
            _ => out.push(part),
        }
    }
    debug_assert!(out.is_sorted_by(|a, b| a.1 < b.0), "each-once: {out:?}");
    out
}

impl Coordinator {
    /// Repairs tables. Runs on shard 0.
    pub async fn repair(
        self: &Rc<Coordinator>,
        wanted: Wanted,
        watch: Rc<Watch>,
    ) -> Result<(), String> {
        let tasks = self.tasks(&wanted);
        let all = tasks.len();
        watch.ranges.set(all as u64);
        watch.number.set(runtime::random_u64());
        self.send_before(&tasks, &watch).await;
        let shards = runtime::shard_count();
        let mut queues: Vec<VecDeque<Task>> = vec![VecDeque::new(); usize::from(shards)];
        for task in tasks {
            let shard = match task.leader {
                Leader::Here(shard) => shard,
                Leader::There(_, shard) => shard % shards,
            };
            queues[usize::from(shard)].push_back(task);
        }
        let failures = RefCell::new(Vec::new());
        let at_once = self.at_once(wanted.at_once);
        let queues: Vec<_> = queues.into_iter().map(RefCell::new).collect();
        let workers = queues.iter().flat_map(|queue| (0..at_once).map(move |_| queue));
        let number = (u128::from(runtime::random_u64()) << 64) | u128::from(watch.number.get() | 1);
        let moment = watch.moment.get().map(|micros| Moment { repair: number, micros });
        let how = How { moment, ..wanted.how };
        let workers = workers.map(|queue| self.work((queue, how), &watch, &failures));
        race(join_all(workers), tell_of_end(&watch)).await;
        self.tell_repair_times().await;
        self.forget(&watch).await;
        let failures = failures.into_inner();
        debug_assert!(failures.len() <= all, "each-once: {} failures", failures.len());
        match failures.first() {
            None => Ok(()),
            Some(first) => {
                let count = failures.len();
                Err(format!("{count} of {all} ranges were not repaired; the first: {first}"))
            }
        }
    }

    /// *sent-before*
    async fn send_before(&self, tasks: &[Task], watch: &Watch) {
        let hosts: BTreeSet<Uuid> = tasks.iter().flat_map(|task| self.hosts(task)).collect();
        if hosts.is_empty() {
            return;
        }
        debug_assert!(1 < hosts.len(), "sent-before: replicas on {hosts:?}");
        match race(self.have_sent(&hosts), watch.told_to_end()).await {
            Either::Left(Ok(moment)) => watch.moment.set(Some(moment).filter(|it| *it != 0)),
            Either::Left(Err(why)) => tracing::warn!(
                target: "repair",
                "a repair is not remembered: hints and batches were not all sent before it: {why}"
            ),
            Either::Right(()) => {}
        }
    }

    /// Whose replicas take part.
    fn hosts(&self, task: &Task) -> Vec<Uuid> {
        let own = Messaging::current().map(|messaging| Uuid::from_u128(messaging.host().0));
        let leader = match task.leader {
            Leader::Here(_) => own,
            Leader::There(host, _) => Some(host),
        };
        let others = task.range.others.iter().map(|(host, _)| *host);
        debug_assert!(!task.range.others.is_empty(), "each-once: {} has one replica", task.name);
        others.chain(leader).collect()
    }

    /// *bounded*: what a range takes is a buffer, what of it is compared, and what others send.
    fn at_once(&self, most: usize) -> usize {
        let each = 4 * BUFFER_BYTES_MAX as usize;
        const { assert!(0 < AT_ONCE_MAX, "bounded: nothing at once") };
        let room = (self.storage.memory_bytes() / MEMORY_PART / each).clamp(1, AT_ONCE_MAX);
        if most == 0 { room } else { room.min(most) }
    }

    async fn work(
        &self,
        (queue, how): (&RefCell<VecDeque<Task>>, How),
        watch: &Watch,
        failures: &RefCell<Vec<String>>,
    ) {
        loop {
            let Some(task) = queue.borrow_mut().pop_front() else { return };
            let Task { name, .. } = task.clone();
            let (figures, ended) = match watch.is_ended.get() {
                true => (Figures::default(), Err("it was ended".to_owned())),
                false => self.carry_out(task, (watch.number.get(), how)).await,
            };
            if Times::of_shard().is_due() {
                self.tell_repair_times().await;
            }
            let mut all = watch.figures.get();
            all.add(figures);
            watch.figures.set(all);
            watch.done.set(watch.done.get() + 1);
            debug_assert!(watch.done.get() <= watch.ranges.get(), "each-once: one too many");
            if let Err(why) = ended {
                tracing::warn!(target: "repair", "{name} was not repaired: {why}");
                failures.borrow_mut().push(format!("{name}: {why}"));
            }
        }
    }

    pub(super) async fn carry_out(
        &self,
        task: Task,
        (number, how): (u64, How),
    ) -> (Figures, Result<(), String>) {
        let (part, range) = (part(&task.range), task.range);
        let (figures, ended) = self.carry_out_by(task.leader, range, (number, how)).await;
        if let Some(moment) = how.moment.filter(|_| figures.remembered != 0) {
            self.note_repair_time(part, moment);
        }
        (figures, ended)
    }

    async fn carry_out_by(
        &self,
        leader: Leader,
        range: Range,
        (number, how): (u64, How),
    ) -> (Figures, Result<(), String>) {
        match leader {
            Leader::Here(shard) => {
                let repair = move || async move {
                    let Ok(coordinator) = own_coordinator() else {
                        return (Figures::default(), Err("the node stops".to_owned()));
                    };
                    let of_task = coordinator.clone();
                    // A task of its own: ranges that this shard repairs at once share no group.
                    let task = async move {
                        let ended = runtime::local::get_or_default::<Ended>();
                        let goes_on = || !ended.0.borrow().contains(&number);
                        of_task.repair_range(&range, how, &goes_on).await
                    };
                    let done = coordinator.background.spawn_in(STREAMING, task).await;
                    done.unwrap_or_else(|_| (Figures::default(), Err("the node stops".to_owned())))
                };
                runtime::on_shard(shard, repair).await
            }
            Leader::There(host, shard) => {
                let mut led = self.have_led(&range, (host, shard), how).await;
                if led.is_err() && self.places().is_alive(host) {
                    // What was done is done; the rest may go on.
                    sleep(PAUSE).await;
                    led = self.have_led(&range, (host, shard), how).await;
                }
                match led {
                    Ok(figures) => (figures, Ok(())),
                    Err(why) => (Figures::default(), Err(why)),
                }
            }
        }
    }

    /// Another replica repairs a range.
    async fn have_led(
        &self,
        range: &Range,
        place: (Uuid, u16),
        how: How,
    ) -> Result<Figures, String> {
        debug_assert!(place.0 != self.cluster.node().host_id, "each-once: this node asks itself");
        let target = Target::bulk(HostId(place.0.as_u128()), ToShard::At(place.1));
        // A node that does not know it has nothing that it knows, either.
        let is_full = how.is_full && self.places().enables(features::REPAIR_HISTORY);
        let how = How { is_full, ..how };
        let payload = Payload::from(Lead { range: range.clone(), how }.encode());
        let led = nodes::call(target, verb::SYNC_LEAD, payload, LEAD_TIME).await;
        let led = led.map_err(|refusal| said(self, place.0, &refusal.text))?;
        decode_figures(&led).map_err(|damaged| said(self, place.0, &damaged.to_string()))
    }

    /// How many ranges this shard keeps something of, for others that repair them.
    pub fn repair_sessions() -> usize {
        Sessions::of_shard().count()
    }

    /// What a node of before turns does at an end: for tests of upgrades.
    #[doc(hidden)]
    pub fn end_repair_session(session: u128) {
        Sessions::of_shard().end(session);
    }

    /// A mistake that a test plants, on this shard.
    #[doc(hidden)]
    pub fn plant_late_counts() {
        Known::of_shard().plant_late();
    }

    /// A mistake that a test plants, on this shard.
    #[doc(hidden)]
    pub fn plant_any_repair() {
        History::of_shard().plant_any();
    }

    async fn forget(&self, watch: &Watch) {
        if !watch.is_ended.get() {
            return;
        }
        let number = watch.number.get();
        let forget = move || async move {
            runtime::local::get_or_default::<Ended>().0.borrow_mut().remove(&number);
        };
        runtime::on_all_shards(forget).await;
    }

    /// *each-once*
    pub(super) fn tasks(&self, wanted: &Wanted) -> Vec<Task> {
        let schema = self.cluster.schema();
        let mut tasks = Vec::new();
        for id in &wanted.tables {
            let Some(table) = schema.table_by_id(*id) else { continue };
            let cuts = if wanted.is_primary { self.places().cuts(table) } else { Vec::new() };
            // Tablets are of a size already; of what is small each range costs more than its rows.
            let is_cut = table.replicas.is_empty() && !wanted.is_small;
            let width = if is_cut { WIDTH_MAX } else { u64::MAX };
            let mut first = Token::MIN;
            loop {
                let (replicas, end) = self.places().stretch(table, first);
                let Replicas::Nodes(_) = replicas else { break };
                let cut = cuts.partition_point(|cut| *cut < first);
                let end = cuts.get(cut).map_or(end, |cut| (*cut).min(end));
                let last = end.min(Token(first.0.saturating_add_unsigned(width)));
                assert!(first <= last, "each-once: from {first:?} to {last:?}");
                // The same nodes in all of the stretch, but other shards, and in another order.
                if let Replicas::Nodes(replicas) = self.places().replicas(table, last) {
                    tasks.extend(of_stretch(self, table, &replicas, (first, last), wanted));
                }
                if last == Token::MAX {
                    break;
                }
                first = Token(last.0 + 1);
            }
        }
        tasks
    }
}

/// When a job is told to end, tells all shards. What runs of it ends with its round.
async fn tell_of_end(watch: &Watch) {
    watch.told_to_end().await;
    let number = watch.number.get();
    let tell = move || async move {
        runtime::local::get_or_default::<Ended>().0.borrow_mut().insert(number);
    };
    runtime::on_all_shards(tell).await;
    std::future::pending().await
}

/// What is to be done of a part of a stretch.
fn of_stretch(
    coordinator: &Coordinator,
    table: &TableEntry,
    replicas: &[Replica],
    tokens: (Token, Token),
    wanted: &Wanted,
) -> Vec<Task> {
    let holds = |token: &Token| tokens.0 <= *token && *token <= tokens.1;
    if !wanted.holding.is_empty() && !wanted.holding.iter().any(holds) {
        return Vec::new();
    }
    let takes_part = |replica: &&Replica| {
        let host = replica.host_id;
        wanted.among.as_ref().is_none_or(|among| among.contains(&host))
            && !wanted.without.contains(&host)
    };
    let replicas: Vec<&Replica> = replicas.iter().filter(takes_part).collect();
    let here = replicas.iter().find(|replica| replica.is_here).copied();
    if wanted.is_primary && here.is_none_or(|here| here.rank != 0) {
        return Vec::new();
    }
    let is_alive = |one: &&&Replica| coordinator.places().is_alive(one.host_id);
    let elsewhere = || replicas.iter().find(is_alive).or(replicas.first()).copied();
    let leader = here.or_else(|| elsewhere().filter(|_| wanted.is_everywhere));
    // What has one replica has nothing to be compared with.
    let Some(leader) = leader.filter(|_| 1 < replicas.len()) else { return Vec::new() };
    let others = replicas.iter().filter(|one| one.host_id != leader.host_id);
    let others: Vec<(Uuid, u16)> = others.map(|one| (one.host_id, one.shard)).collect();
    let leader = match leader.is_here {
        true => Leader::Here(leader.shard),
        false => Leader::There(leader.host_id, leader.shard),
    };
    debug_assert!(others.len() + 1 == replicas.len(), "each-once: a replica is there twice");
    let TableSchema { id, keyspace, name, .. } = &*table.schema;
    let task = |tokens: (Token, Token)| Task {
        range: Range { table: *id, tokens, others: others.clone() },
        name: format!("{keyspace}.{name} from {} to {}", tokens.0.0, tokens.1.0),
        leader,
    };
    within(tokens, &wanted.within).into_iter().map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_what_lies_in_both(
            range in (-9i64..9, 0i64..9),
            parts in proptest::collection::vec((-9i64..9, 0i64..9), 0..4),
            token in -9i64..9,
        ) {
            let of = |(first, span): (i64, i64)| (Token(first), Token(first + span));
            let (range, parts) = (of(range), parts.into_iter().map(of).collect::<Vec<_>>());
            let holds = |(first, last): &(Token, Token)| (first.0..=last.0).contains(&token);
            let expected = holds(&range) && (parts.is_empty() || parts.iter().any(holds));
            let found = within(range, &parts).into_iter().filter(holds).count();
            prop_assert_eq!(found, usize::from(expected));
        }
    }
}
