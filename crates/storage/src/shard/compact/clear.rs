//! Ranges of tokens that a shard is to have nothing of: of a range that the node does not own any
//! more, or that it is about to receive and may have had in an earlier time. What was deleted and
//! forgotten elsewhere must not come back from here.
//!
//! ```text
//! memtables with something of the ranges -> SSTables              what is there is in SSTables
//! record: the log has nothing of the ranges up to here            a replay brings none back
//! of each tablet, in one step: SSTables within the ranges leave,
//!   those that lie partly in them are exchanged for what is outside
//! ```
//!
//! A crash leaves each tablet as it was or without the ranges: whoever asked asks again. Who writes
//! to the ranges meanwhile has each mutation there afterwards or not.
//!
//! Invariants
//!  - *cleared-is-gone*: once this has returned, nothing that was written before it began lies in
//!    the ranges, now and after any crash: in no memtable, SSTable or cache, nor in what the log
//!    would bring back.
//!  - *outside-stays*: all that lies outside is copied as it is: no deletion is forgotten, and
//!    nothing is merged. What is written again keeps its level, run and time of repair.
//!  - *logged-in-sstables*: the record is made after all that the log has of the ranges is in
//!    SSTables. A crash between the two loses nothing, if this fails later.
//!  - *in-one-step*: of a tablet all SSTables go at once, in memory and on the disk, so that nobody
//!    sees what was deleted or overwritten without what covers it. Where the disk has too little
//!    room for that they go one after the other, and reads of the ranges may see older data until
//!    the last has gone.
//!  - *no-leftovers*: SSTables that other tablets or shards have as well, or that could not be
//!    removed, are gone first: a restart would find them. Memtables that several tablets have since
//!    they were divided are flushed before.
//!  - *nothing-is-cheap*: where there is nothing of the ranges, nothing is written.
//!  - *gives-way*: it ends at its next batch for who waits for quiet, and begins again behind him;
//!    after some times it goes on to its end.

use super::super::Shard;
use super::claim::{claim, claim_or_refuse};
use super::merge::{IN_DOUBT, make_gone};
use super::outputs::Outputs;
use super::part_alone;
use super::upkeep::not_opened;
use crate::commitlog::ReplayPosition;
use crate::compaction::Job;
use crate::compaction::disk_space::Claim;
use crate::compaction::policy::{self, Why};
use crate::compaction::progress::Progress;
use crate::compaction::report::CompactionKind;
use crate::config::Planted;
use crate::error::StorageError;
use crate::memtable::Memtable;
use crate::table::{Table, Tablet, TokenRanges, part_outside, pass_gate};
use model::Token;
use mutation::RingBound;
use reader::{Budget, ReadError, Slice};
use runtime::io::IoClass;
use runtime::time::Instant;
use runtime::{local, on_all_shards};
use sstable::{Access, Component, store};
use std::rc::Rc;

type SsTable = Rc<sstable::Table>;

/// One batch from an SSTable.
const BATCH: Budget = Budget { fragments_max: 128, bytes_max: 64 << 10 };
/// Enough to see that there is something.
const GLANCE: Budget = Budget { fragments_max: 1, bytes_max: 1 };
/// So often it gives way.
const WAYS_GIVEN_MAX: usize = 8;
/// So often all shards are asked to write their parts of what several have.
const SETTLES_MAX: usize = 8;

/// What was done to clear ranges on a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// SSTables of which nothing is left.
    pub removed: u64,
    /// SSTables that were written again without the ranges.
    pub rewritten: u64,
    /// Bytes of all these on the disk.
    pub bytes_before: u64,
    /// Bytes of what was written instead.
    pub bytes_after: u64,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Done,
    GaveWay,
}

/// Removes all of a table that lies in these ranges from this shard. See the module.
pub(crate) async fn clear(
    shard: &Shard,
    table: &Rc<Table>,
    ranges: TokenRanges,
) -> Result<Cleared, StorageError> {
    let mut cleared = Cleared::default();
    if ranges.is_empty() || table.tablets().is_empty() {
        return Ok(cleared);
    }
    let _turn = table.clearing.acquire(1).await;
    assert!(table.clearing.available() == 0, "one-at-a-time: of a table");
    check(shard, table)?;
    settle(shard, table, &ranges).await?;
    if !has_some(table, &ranges).await? {
        return Ok(cleared);
    }
    let (before, waiting) = cut_off(shard, table, &ranges);
    shard.await_memtables(waiting).await?;
    if !is_planted(shard, Planted::ClearsNoLog) {
        let _gate = pass_gate(table, 1).await;
        if table.dropped.get() {
            return Ok(cleared);
        }
        let tablets = table.tablets();
        let own = tablets.iter().map(|tablet| ranges.within(tablet.range));
        let own = own.flat_map(|own| own.iter().collect::<Vec<_>>()).collect();
        debug_assert!(
            is_planted(shard, Planted::ClearsNoMemtable) || !has_older(table, &ranges, before),
            "logged-in-sstables: a memtable has some from before {before}"
        );
        shard.record_cleared(table, own, before).await?;
    }
    let ranges = Rc::new(ranges);
    for tablet in table.tablets().iter() {
        let alone = tablet.compacting.acquire(1).await.ok();
        assert!(tablet.is_busy(), "one-at-a-time: nobody has tablet {}", tablet.index.get());
        let done = clear_tablet(shard, (table, tablet), &ranges, &mut cleared).await;
        // Who passed the tablet by meanwhile looks at it again.
        drop(alone);
        shard.compaction_wake.notify_one();
        done?;
    }
    // Flushes and merges may have failed meanwhile, and left what was in the ranges.
    remove_again(table).await?;
    Ok(cleared)
}

fn is_planted(shard: &Shard, planted: Planted) -> bool {
    shard.config.planted == Some(planted)
}

/// Refuses where nobody can tell what there is.
pub(crate) fn check(shard: &Shard, table: &Table) -> Result<(), StorageError> {
    let refused = |what: String| Err(StorageError::Shard(what));
    if !shard.replay_state(table.log).done.get() {
        return refused("the commitlog is not replayed yet".to_string());
    }
    if table.in_doubt.get() {
        return refused(IN_DOUBT.to_string());
    }
    match not_opened(table) {
        Some(name) => refused(format!("{name} of {} could not be opened", table.name())),
        None if !table.broken.borrow().is_empty() => {
            refused(format!("a file of {} could not be opened", table.name()))
        }
        None => Ok(()),
    }
}

/// Has SSTables go that a restart would find (*no-leftovers*).
pub(crate) async fn settle(
    shard: &Shard,
    table: &Rc<Table>,
    ranges: &TokenRanges,
) -> Result<(), StorageError> {
    debug_assert!(table.clearing.available() == 0, "one-at-a-time: of a table");
    // What several tablets have in memory becomes an SSTable of several. Nobody divides them now.
    let mut shared = table.sealed_memtables();
    shared.retain(|one| 1 < table.holders_of(one).len());
    shard.await_memtables(shared).await?;
    remove_again(table).await?;
    if is_planted(shard, Planted::ClearsNoSharers) {
        return Ok(part_alone(shard, table).await?);
    }
    for _ in 0..SETTLES_MAX {
        if !has_sharers(table, ranges) {
            return Ok(());
        }
        let id = table.id;
        let written = on_all_shards(move || async move {
            let Some(shard) = local::try_get::<Shard>() else { return Ok(()) };
            let Some(table) = shard.table(id) else { return Ok(()) };
            part_alone(&shard, &table).await.map_err(|error| error.to_string())
        });
        if let Some(error) = written.await.into_iter().find_map(|written| written.err()) {
            return Err(StorageError::Shard(error));
        }
        shard.ask_for_removals().await;
    }
    let what = "SSTables of several tablets could not be divided among them, or are in use";
    Err(StorageError::Shard(format!("{what}: {}", table.name())))
}

/// Whether SSTables that may hold something of the ranges lie in several tablets.
fn has_sharers(table: &Table, ranges: &TokenRanges) -> bool {
    let shared = |tablet: &Rc<Tablet>| {
        let all = tablet.sstables.borrow();
        all.iter().any(|one| !tablet.holds_all_of(one) && meets(one, ranges))
    };
    !table.let_go.borrow().is_empty() || table.tablets().iter().any(shared)
}

/// Tries again to remove what could not be removed.
async fn remove_again(table: &Table) -> Result<(), StorageError> {
    let _gate = pass_gate(table, 1).await;
    let unremoved = table.unremoved.borrow().clone();
    for one in unremoved {
        let name = one.file_name(Component::Data);
        if table.tablets().iter().any(|tablet| tablet.has_sstable(one)) {
            let what = format!("what a scrub of {name} left is known after the next start alone");
            return Err(StorageError::Shard(what));
        }
        store::remove(&table.dir, one).await?;
        table.unremoved.borrow_mut().retain(|other| *other != one);
        debug_assert!(!table.unremoved.borrow().contains(&one), "no-leftovers: {name}");
    }
    Ok(())
}

fn tokens_of(one: &SsTable) -> (Token, Token) {
    (one.first_key().token, one.last_key().token)
}

/// Whether tokens of the ranges lie between the first and the last of an SSTable.
fn meets(one: &SsTable, ranges: &TokenRanges) -> bool {
    ranges.among(tokens_of(one)).next().is_some()
}

/// Whether there is anything of the ranges (*nothing-is-cheap*). What only the log has is in no
/// SSTable because an earlier truncation or clear covers it: merges keep what the log would bring
/// back (*not-replayed*).
async fn has_some(table: &Table, ranges: &TokenRanges) -> Result<bool, ReadError> {
    debug_assert!(!ranges.is_empty(), "nothing-is-cheap: of no range");
    for tablet in table.tablets().iter() {
        let own = ranges.within(tablet.range);
        // Before the SSTables are looked at: what is flushed meanwhile goes from here to there.
        if tablet.memtables().any(|one| one.meets_any(own.iter())) {
            return Ok(true);
        }
        let all = tablet.sstables.borrow().clone();
        for one in all.iter() {
            if contains(tablet, one, &own).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether an SSTable has a partition of a tablet in the ranges.
async fn contains(tablet: &Tablet, one: &SsTable, own: &TokenRanges) -> Result<bool, ReadError> {
    let ends = tokens_of(one);
    debug_assert!(tablet.intersects(one), "once-in-set: {:?} has nothing", one.descriptor());
    if tablet.holds_all_of(one) && (own.holds(ends.0) || own.holds(ends.1)) {
        return Ok(true);
    }
    let bound = |token, after| RingBound { token, key: None, after };
    for (after, last) in own.among(ends) {
        let (start, end) = (bound(after, after != Token::MIN), bound(last, true));
        let scope = sstable::Scope::Range { start, end };
        let found = one.read(scope, Slice::full(), Access::bypass(IoClass::Maintenance));
        let mut found = tablet.part_of(one, Box::new(found));
        let mut first = Vec::new();
        found.fill(GLANCE, &mut first).await?;
        if !first.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// In one step: the place in the log before which all that it has of the ranges is in these
/// memtables, which are sealed, or was in SSTables before.
fn cut_off(
    shard: &Shard,
    table: &Rc<Table>,
    ranges: &TokenRanges,
) -> (ReplayPosition, Vec<Rc<Memtable>>) {
    let before = shard.log_of(table.log).position();
    match is_planted(shard, Planted::ClearsNoMemtable) {
        true => (before, Vec::new()),
        false => (before, shard.seal_within(table, ranges)),
    }
}

/// Whether a sealed memtable has something of the ranges, and nothing that was logged behind that
/// place.
fn has_older(table: &Table, ranges: &TokenRanges, before: ReplayPosition) -> bool {
    let is_older =
        |one: &Memtable| one.newest_segment().is_some_and(|newest| newest < before.segment);
    let sealed = table.sealed_memtables();
    sealed.iter().any(|one| is_older(one) && one.meets_any(ranges.iter()))
}

/// What is to become of the SSTables of a tablet.
#[derive(Default)]
struct Plan {
    /// Nothing of them is left.
    removed: Vec<SsTable>,
    /// They have something of the ranges, and perhaps something else. The smallest first, so that
    /// room is free as early as possible.
    rewritten: Vec<SsTable>,
}

impl Plan {
    async fn of(shard: &Shard, tablet: &Tablet, ranges: &TokenRanges) -> Result<Plan, ReadError> {
        let (mut plan, own) = (Plan::default(), ranges.within(tablet.range));
        let all = tablet.sstables.borrow().clone();
        // Those that others have as well came after the begin (*no-leftovers*).
        for one in all.iter().filter(|one| tablet.holds_all_of(one) && meets(one, &own)) {
            let beyond = is_planted(shard, Planted::ClearsBeyond);
            if own.holds_all_of(tokens_of(one)) || beyond {
                plan.removed.push(one.clone());
            } else if contains(tablet, one, &own).await? {
                plan.rewritten.push(one.clone());
            }
        }
        plan.rewritten.sort_by_key(|one| (one.disk_bytes(), one.descriptor()));
        assert!(tablet.is_busy(), "one-at-a-time: nobody has tablet {}", tablet.index.get());
        Ok(plan)
    }

    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.rewritten.is_empty()
    }

    /// The parts that are done in one step each, with the room that they need (*in-one-step*).
    async fn into_steps(self, shard: &Shard, table: &Table) -> Vec<(Plan, Option<Claim>)> {
        assert!(!self.is_empty(), "nothing-is-cheap: a plan of nothing");
        let needed: u64 = self.rewritten.iter().map(|one| one.disk_bytes()).sum();
        if let Ok(claim) = claim(shard, needed).await {
            return vec![(self, Some(claim))];
        }
        let name = table.name();
        tracing::info!("{name} is cleared one SSTable at a time: {needed} bytes are not free");
        let first = Plan { removed: self.removed, ..Plan::default() };
        let rest = self.rewritten.into_iter();
        let rest = rest.map(|one| Plan { rewritten: vec![one], ..Plan::default() });
        let steps = [first].into_iter().chain(rest).filter(|step| !step.is_empty());
        steps.map(|step| (step, None)).collect()
    }
}

/// Clears a tablet, whose SSTables nobody else merges.
async fn clear_tablet(
    shard: &Shard,
    place: (&Rc<Table>, &Rc<Tablet>),
    ranges: &Rc<TokenRanges>,
    cleared: &mut Cleared,
) -> Result<(), ReadError> {
    let (table, tablet) = place;
    for given in 0.. {
        let _gate = pass_gate(table, 1).await;
        if table.in_doubt.get() {
            return Err(ReadError::Overloaded(IN_DOUBT.to_string()));
        }
        let plan = Plan::of(shard, tablet, ranges).await?;
        if table.dropped.get() || plan.is_empty() {
            break;
        }
        let mut ended = Ended::Done;
        for (plan, claim) in plan.into_steps(shard, table).await {
            let needed = plan.rewritten.iter().map(|one| one.disk_bytes()).sum();
            let claim = match claim {
                Some(claim) => claim,
                None => claim_or_refuse(shard, table, needed).await?,
            };
            let gives_way = given < WAYS_GIVEN_MAX;
            let step = Step { shard, table, tablet, ranges, claim, gives_way };
            ended = step.run(plan, cleared).await?;
            if ended == Ended::GaveWay {
                break;
            }
        }
        if ended == Ended::Done {
            break;
        }
    }
    Ok(())
}

/// What is done to SSTables of a tablet in one step.
struct Step<'s> {
    shard: &'s Shard,
    table: &'s Rc<Table>,
    tablet: &'s Rc<Tablet>,
    ranges: &'s Rc<TokenRanges>,
    claim: Claim,
    gives_way: bool,
}

impl Step<'_> {
    async fn run(&self, plan: Plan, cleared: &mut Cleared) -> Result<Ended, ReadError> {
        let inputs: Vec<SsTable> = plan.removed.iter().chain(&plan.rewritten).cloned().collect();
        assert!(!inputs.is_empty(), "nothing-is-cheap: a step of nothing");
        let (compactions, kind) = (&self.shard.compactions, CompactionKind::Cleanup);
        let listed = compactions.begin(self.table, kind, &inputs, None);
        let mut outputs = Vec::new();
        match self.write_all(&plan, &listed.progress, &mut outputs).await {
            Ok(Ended::Done) => {}
            other => {
                self.remove(&outputs).await;
                if other.is_err() && !listed.progress.is_to_stop() {
                    compactions.count_failure();
                }
                return other;
            }
        }
        let bytes = |all: &[SsTable]| all.iter().map(|one| one.disk_bytes()).sum::<u64>();
        let removed = inputs.len() - outputs.len();
        listed.progress.add_outputs(&outputs);
        let (before, after) = (bytes(&inputs), bytes(&outputs));
        if let Err(error) = self.exchange(&inputs, outputs).await {
            compactions.count_failure();
            return Err(error);
        }
        listed.finish();
        cleared.removed += removed as u64;
        cleared.rewritten += (inputs.len() - removed) as u64;
        cleared.bytes_before += before;
        cleared.bytes_after += after;
        Ok(Ended::Done)
    }

    /// Writes what is left of SSTables, at most one for each.
    async fn write_all(
        &self,
        plan: &Plan,
        progress: &Progress,
        written: &mut Vec<SsTable>,
    ) -> Result<Ended, ReadError> {
        progress.check_stop()?;
        let mut passed: u64 = plan.removed.iter().map(|one| one.data_bytes()).sum();
        progress.bytes_read.set(passed);
        for one in &plan.rewritten {
            let job = job_of((self.table, self.tablet), one, self.ranges);
            let repaired_at = one.stats().repaired_at;
            let adjust = |options: &mut sstable::WriterOptions| options.repaired_at = repaired_at;
            let mut outputs = Outputs::new(self.shard, &job, &adjust);
            let copied = match self.copy(one, &mut outputs, progress, passed).await {
                Ok(Ended::Done) => outputs.seal().await.map(|()| Ended::Done),
                other => other,
            };
            if !matches!(copied, Ok(Ended::Done)) {
                outputs.abort().await;
                return copied;
            }
            let sealed = outputs.take_sealed();
            assert!(sealed.len() < 2, "outside-stays: one became {} SSTables", sealed.len());
            written.extend(sealed);
            passed += one.data_bytes();
            progress.bytes_read.set(passed);
            let taken = written.iter().map(|one| one.disk_bytes()).sum();
            self.claim.set_taken(taken);
        }
        Ok(Ended::Done)
    }

    /// Copies what lies outside of the ranges.
    async fn copy(
        &self,
        one: &SsTable,
        outputs: &mut Outputs<'_>,
        progress: &Progress,
        passed: u64,
    ) -> Result<Ended, ReadError> {
        assert!(!outputs.is_writing(), "outside-stays: two in one output");
        let bound = |token, after| RingBound { token, key: None, after };
        let (start, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
        let access = Access::bypass(IoClass::Maintenance);
        let scope = sstable::Scope::Range { start, end };
        let all = Box::new(one.read_checked(scope, Slice::full(), access));
        let mut source = part_outside(self.ranges.clone(), all);
        let mut batch = Vec::new();
        let quiet_wanted = || self.gives_way && self.table.quiet_wanted.get();
        loop {
            progress.check_stop()?;
            if quiet_wanted() {
                return Ok(Ended::GaveWay);
            }
            let begun = Instant::now();
            source.fill(BATCH, &mut batch).await?;
            if batch.is_empty() {
                return Ok(Ended::Done);
            }
            for fragment in batch.drain(..) {
                outputs.write(&fragment).await?;
            }
            let written = outputs.bytes_written();
            progress.bytes_read.set(passed + written.min(one.data_bytes()));
            let ends = || progress.is_to_stop() || self.table.quiet_wanted.get();
            self.shard.give_way(begun, ends).await;
        }
    }

    /// What was written takes the place of what it was made of, for good.
    async fn exchange(&self, inputs: &[SsTable], outputs: Vec<SsTable>) -> Result<(), ReadError> {
        let Step { shard, table, tablet, ranges, .. } = self;
        debug_assert!(
            outputs
                .iter()
                .all(|one| !ranges.holds(one.first_key().token)
                    && !ranges.holds(one.last_key().token)),
            "cleared-is-gone: {outputs:?}"
        );
        let mut record = None;
        if !is_planted(shard, Planted::ClearsApart) {
            match make_gone(table, inputs).await {
                Ok(made) => record = Some(made),
                Err(error) if table.in_doubt.get() => {
                    // They have all that is to stay.
                    let left = outputs.iter().map(|one| one.descriptor());
                    table.unremoved.borrow_mut().extend(left);
                    return Err(error);
                }
                Err(error) => {
                    self.remove(&outputs).await;
                    return Err(error);
                }
            }
        }
        let _removal = table.removals.acquire(1).await;
        let kept_before = table.unremoved.borrow().len();
        tablet.replace(inputs, outputs);
        tablet.changes.note_all();
        if !is_planted(shard, Planted::ClearsNoCache) {
            // In the same step.
            tablet.forget_cached();
        }
        debug_assert!(
            !inputs.iter().any(|one| tablet.has_sstable(one.descriptor())),
            "in-one-step: one stays"
        );
        self.remove(inputs).await;
        let all_removed = table.unremoved.borrow().len() == kept_before;
        if let Some(record) = record.filter(|_| all_removed)
            && let Err(error) = record.remove().await
        {
            // The next start finds that its SSTables are gone, and removes it.
            tracing::warn!("a record that is not needed any more stays: {error}");
        }
        Ok(())
    }

    async fn remove(&self, all: &[SsTable]) {
        for one in all {
            self.table.remove_sstable(one.descriptor()).await;
        }
    }
}

/// How an SSTable is written again.
fn job_of(place: (&Rc<Table>, &Rc<Tablet>), one: &SsTable, ranges: &TokenRanges) -> Job {
    debug_assert!(place.1.holds_all_of(one), "own-alone: {:?} is of others", one.descriptor());
    let level = one.stats().level;
    let wanted = policy::Job { files: vec![0], why: Why::Cleanup, level, bytes_max: u64::MAX };
    let mut job = Job::of(place, std::slice::from_ref(one), &wanted);
    job.run = one.scylla().run_id;
    job.part = ranges.part_outside(tokens_of(one)).clamp(0.0, 1.0);
    job
}
