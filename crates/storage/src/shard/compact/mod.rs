//! Merging SSTables of a tablet, so that reads need few of them, and what is deleted goes.
//!
//! From the ground up: [`purge`] (what may be forgotten), [`claim`] (room on the disk), [`control`]
//! (shares), [`outputs`], [`merge`] (doing it), [`reshard`] (SSTables of several tablets),
//! [`walk`] (tablet by tablet), [`upkeep`] (what is done to SSTables one by one), [`clear`] (ranges
//! that go), this (which one is next).
//!
//! Invariants
//!  - *inputs-outlive-output*: an input is removed after the outputs that have all of it are sealed
//!    and have taken its place in the set. A crash in between leaves both, which merge to the same
//!    as long as the outputs keep every deletion.
//!  - *all-or-none*: where a merge may forget deletions, all its inputs stay until all its outputs
//!    are sealed, and go in one step, which is durable (`compaction::obsolete`).
//!  - *in-doubt*: where nobody knows whether that is durable, nothing of the table is merged until
//!    the next start, which finds out; both inputs and outputs stay.
//!  - *not-by-halves*: a merge that was begun goes on to its end, whoever asked for it.
//!  - *one-at-a-time*: nobody else merges the SSTables of a tablet meanwhile.
//!  - *one-of-a-size*: of the merges that a shard does by itself at the same time no two are of
//!    about one size, and there are few. So a large one does not hold up the small ones, of which
//!    reads have more, and what runs has a bound.
//!  - *all-open-first*: nothing is compacted before all shards have opened the table: they list one
//!    directory, and clear it of what looks unfinished.
//!  - *checked*: inputs are compared with their checksums as they are read, so that damage does
//!    not get checksums of its own.
//!  - *quarantined*: what was found damaged is merged no more until the next start, or until it is
//!    scrubbed; its job fails, which the log says with file, place and rule, and others go on. It
//!    stays in the set: reads of what is damaged fail, where without it they would answer with
//!    less than there was, and nothing that it covers is forgotten.
//!  - *gives-way*: a truncation or drop that waits for quiet ends a compaction at its next batch;
//!    so does a division, of the tablets that leave.
//!  - *writes-first*: while memtables or log are beyond the point at which flushes start, a
//!    compaction pauses after each batch, the longer the nearer they are to their limits; it never
//!    stops. So writes come in at what the disk takes of flushes, however much there is to compact.
//!  - *after-flushes*: what a shard merges by itself begins when the flushes that somebody waits
//!    for have ended, or after a second. They are more urgent; and until all have ended the log may
//!    have what was flushed already, for which the merge would keep every deletion.
//!  - *not-for-the-log*: what has expired stays no longer than it must because a segment of the log
//!    that is hardly written to would bring back what is as old: the log is asked to let it go.

mod claim;
mod clear;
mod control;
mod merge;
mod outputs;
mod purge;
pub(crate) use purge::deletions_before;
mod reshard;
mod upkeep;
mod walk;

pub use clear::Cleared;
pub(crate) use clear::{check as check_clear, clear, settle};
pub use upkeep::{Invalid, Outdated, Upkeep, UpkeepDone};
pub(crate) use upkeep::{not_opened, upkeep};

use super::Shard;
use crate::compaction::Job;
use crate::compaction::disk_space::Held;
use crate::compaction::files::own_sstables;
use crate::compaction::options_of;
use crate::compaction::policy::{File, Options, Why};
use crate::table::{Table, Tablet};
use reader::ReadError;
use runtime::group;
use runtime::task::Scope;
use runtime::time::{Instant, sleep, timeout, wall_micros};
use std::rc::Rc;
use std::time::Duration;
use walk::Walk;

/// Pause after a compaction that failed, and between two looks for room.
const RETRY: Duration = Duration::from_secs(10);

/// Between two times that a log is asked to let go of something: flushes have to be done meanwhile.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// What becomes of an SSTable that a merge finds damaged.
const QUARANTINED: &str = "and its SSTable is merged no more until it is scrubbed, or the node \
    starts again; reads of what is damaged fail";

impl Shard {
    /// Compacts whatever the strategies of the tables ask for, some jobs at a time
    /// (*one-of-a-size*).
    pub(crate) async fn compact(self: Rc<Shard>) {
        let running = Scope::new();
        // Since the last pause nobody was promised more.
        let mut room = u64::MAX;
        loop {
            let Some(job) = self.next_compaction(room) else {
                let _ = timeout(self.look_again(), self.compaction_wake.notified()).await;
                room = u64::MAX;
                continue;
            };
            match claim::claim(&self, job.needed(&self)).await {
                Err(short) => room = room.min(short.room),
                Ok(claim) => {
                    let (shard, job) = (self.clone(), Job { claim: Some(claim), ..job });
                    running.spawn_in(group::COMPACTION, async move {
                        shard.do_compaction(job).await;
                    });
                    runtime::task::yield_now().await;
                }
            }
        }
    }

    async fn do_compaction(&self, job: Job) {
        assert!(job.claim.is_some(), "fits-first: a job without its room");
        let log = job.table.log;
        debug_assert!(self.replay_state(log).done.get(), "all-open-first: others may list it");
        // *after-flushes*
        self.await_no_flushes().await;
        match merge::run(self, &job, &|_| {}).await {
            Ok(()) => {}
            Err(ReadError::Io(error)) if error.is_full_disk() => {
                let file = error.path.display().to_string();
                let _counted = self.compactions.room.found_full(&job.table, &file);
                job.tablet.reshard_last.set(job.why == Why::Reshard);
                sleep(RETRY).await;
            }
            // It is left alone from now on (*quarantined*): the next one may begin.
            Err(error) if job.inputs.iter().any(|one| one.is_damaged()) => {
                let name = job.table.name();
                tracing::error!("a merge of {name} failed, {QUARANTINED}: {error}");
            }
            Err(error) => {
                let name = job.table.dir.display();
                tracing::error!("compaction of {name} failed, to be tried again: {error}");
                job.tablet.reshard_last.set(job.why == Why::Reshard);
                sleep(RETRY).await;
            }
        }
        drop(job);
        self.compaction_wake.notify_one();
    }

    /// The most urgent job of those that may begin. Those that need more of the disk than `room`
    /// wait.
    fn next_compaction(&self, room: u64) -> Option<Job> {
        let mut jobs = self.wanted_compactions();
        jobs.retain(|job| self.compactions.weights.allow(job.weight()));
        let needed = |job: &Job| if room == u64::MAX { 0 } else { job.needed(self) };
        let held = jobs.iter().map(|job| Held { table: job.table.clone(), needed: needed(job) });
        self.compactions.room.hold(held.filter(|held| room < held.needed).collect(), room);
        jobs.retain(|job| needed(job) <= room);
        debug_assert!(
            jobs.iter().all(|job| !job.inputs.iter().any(|one| one.is_damaged())),
            "quarantined: a damaged SSTable is to be merged"
        );
        let mut job = jobs.into_iter().max_by_key(Job::urgency)?;
        job.tablet.reshard_last.set(false);
        job.counted = Some(self.compactions.weights.count(job.weight()));
        // Whoever had it has let go of it, or the tablet would not have been looked at.
        job.alone = job.tablet.compacting.try_acquire(1);
        assert!(job.alone.is_some(), "one-at-a-time: tablet {} is merged", job.tablet.index.get());
        Some(job)
    }

    /// What the strategies of the tables ask for, of tablets that nobody merges.
    fn wanted_compactions(&self) -> Vec<Job> {
        let tables = self.tables.borrow();
        let mut jobs: Vec<Job> = Vec::new();
        let ready =
            |table: &&Rc<Table>| !table.in_doubt.get() && self.replay_state(table.log).done.get();
        for table in tables.values().filter(ready) {
            let options = options_of(table);
            let idle = |tablet: &&Rc<Tablet>| tablet.compacting.available() == 1;
            for tablet in table.tablets().iter().filter(idle) {
                // No strategy is asked: whoever does not want merges wants deletions to go.
                let shared = reshard::next_of(tablet);
                jobs.extend(shared.map(|one| reshard::job_of((table, tablet), &one)));
                if !table.auto_compaction.get() {
                    continue;
                }
                let (own, files) = seen(self, table, tablet);
                if purge::log_keeps_expired(self, (table, tablet), &own, wall_micros()) {
                    self.let_log_go(table);
                }
                let wanted = options.jobs(&files, wall_micros());
                jobs.extend(wanted.iter().map(|wanted| Job::of((table, tablet), &own, wanted)));
            }
        }
        jobs
    }

    /// Has the log let go of what was flushed of a table, unless that was just asked for
    /// (*not-for-the-log*).
    fn let_log_go(&self, table: &Table) {
        let (now, asked) = (Instant::now(), &self.compactions.log_asked);
        debug_assert!(asked.get().is_none_or(|asked| asked <= now), "not-for-the-log: asked later");
        if asked.get().is_none_or(|asked| LOG_PAUSE <= now - asked) {
            asked.set(Some(now));
            self.log_of(table.log).let_go_of(table.id);
        }
    }

    /// After how long to look at the tables although nothing has come.
    fn look_again(&self) -> Duration {
        if 0 < self.compactions.room.held_count() {
            return RETRY;
        }
        let tables = self.tables.borrow();
        let secs = tables.values().map(|table| {
            let options = Options::of(&table.schema.borrow().options);
            options.look_again_secs()
        });
        Duration::from_secs(secs.min().unwrap_or(3600))
    }
}

/// What a strategy is told of a tablet: SSTables that are not damaged.
fn seen(shard: &Shard, table: &Table, tablet: &Tablet) -> (Vec<Rc<sstable::Table>>, Vec<File>) {
    let mut own = own_sstables(tablet);
    own.retain(|one| !one.is_damaged());
    debug_assert!(own.iter().all(|one| tablet.holds_all_of(one)), "own-alone: another's");
    let files = purge::files_of(shard, (table, tablet), &own, wall_micros());
    (own, files)
}

/// How many merges the options of a table ask for, with those of SSTables of several tablets.
pub(crate) fn pending(shard: &Shard, table: &Table) -> usize {
    let options = options_of(table);
    let of_tablet = |tablet: &Rc<Tablet>| {
        let (_, files) = seen(shard, table, tablet);
        reshard::to_reshard(tablet).len() + options.pending(&files, wall_micros())
    };
    table.tablets().iter().map(of_tablet).sum()
}

/// Changes how the output of a merge is written.
pub(crate) type Adjust<'a> = &'a dyn Fn(&mut sstable::WriterOptions);

/// Merges all SSTables of each tablet of a table: see [`merge_tablet`].
pub(crate) async fn merge_all(
    shard: &Shard,
    table: &Rc<Table>,
    adjust: Adjust<'_>,
) -> Result<(), ReadError> {
    let mut walk = Walk::new(table);
    while let Some((tablet, alone)) = walk.next().await {
        merge_tablet(shard, table, &tablet, adjust).await?;
        walk.pass(&tablet);
        // Who passed the tablet by meanwhile looks at it again.
        drop(alone);
        shard.compaction_wake.notify_one();
    }
    Ok(())
}

/// Has each tablet of this shard write its part of what others have as well.
pub(crate) async fn part_alone(shard: &Shard, table: &Rc<Table>) -> Result<(), ReadError> {
    let mut walk = Walk::new(table);
    while let Some((tablet, alone)) = walk.next().await {
        let written = reshard::write_parts(shard, (table, &tablet), &|_| {}).await;
        walk.pass(&tablet);
        drop(alone);
        shard.compaction_wake.notify_one();
        written?;
    }
    Ok(())
}

/// Merges all SSTables of a tablet, even a single one, into what the strategy of the table makes of
/// them: one, or one run, or one for each window. Of those that lie in others as well its part is
/// written before.
async fn merge_tablet(
    shard: &Shard,
    table: &Rc<Table>,
    tablet: &Rc<Tablet>,
    adjust: Adjust<'_>,
) -> Result<(), ReadError> {
    assert!(tablet.is_busy(), "one-at-a-time: nobody has tablet {}", tablet.index.get());
    reshard::write_parts(shard, (table, tablet), adjust).await?;
    let own = own_sstables(tablet);
    let files = purge::files_of(shard, (&**table, &**tablet), &own, wall_micros());
    let options = Options::of(&table.schema.borrow().options);
    for wanted in options.major(&files) {
        assert!(!wanted.files.is_empty(), "a merge of nothing");
        let job = Job::of((table, tablet), &own, &wanted).with_room(shard).await?;
        merge::run(shard, &job, adjust).await?;
    }
    Ok(())
}

/// Merges some SSTables of a tablet: those that `pick` takes out of so many, into outputs that are
/// cut at that size.
#[cfg(test)]
pub(crate) async fn merge_some(
    shard: &Shard,
    (table, tablet): (&Rc<Table>, &Rc<Tablet>),
    pick: impl FnOnce(usize) -> Vec<usize>,
    bytes_max: u64,
) -> Result<(), ReadError> {
    let _alone = tablet.compacting.acquire(1).await.ok();
    let own = own_sstables(tablet);
    let files = pick(own.len());
    if files.is_empty() {
        return Ok(());
    }
    let wanted = crate::compaction::policy::Job { files, why: Why::Tier, level: 0, bytes_max };
    merge::run(shard, &Job::of((table, tablet), &own, &wanted), &|_| {}).await
}
