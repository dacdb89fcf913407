//! Merging SSTables of a tablet, so that reads need few of them, and what is deleted goes.
//!
//! In reading order: [`policy`] (what to merge; pure), [`files`] (what it is told), [`purge`] (what
//! may be forgotten), [`weights`] (how many at a time), `job` (doing it), [`outputs`],
//! [`obsolete`], [`upkeep`] (what is done to SSTables one by one), [`progress`].
//!
//! Invariants
//!  - *inputs-outlive-output*: an input is removed after the outputs that have all of it are sealed
//!    and have taken its place in the set. A crash in between leaves both, which merge to the same
//!    as long as the outputs keep every deletion.
//!  - *all-or-none*: where a merge may forget deletions, all its inputs stay until all its outputs
//!    are sealed, and go in one step, which is durable ([`obsolete`]).
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
//!    not get checksums of its own. What was found damaged is left alone until the next start: its
//!    reads fail, or go on, as they did.
//!  - *gives-way*: a truncation or drop that waits for quiet ends a compaction at its next batch.
//!  - *writes-first*: while memtables or log are beyond the point at which flushes start, a
//!    compaction pauses after each batch, the longer the nearer they are to their limits; it never
//!    stops. So writes come in at what the disk takes of flushes, however much there is to compact.

mod files;
mod job;
mod obsolete;
mod outputs;
mod policy;
mod progress;
mod purge;
mod upkeep;
mod weights;

use crate::shard::Shard;
use crate::table::{Table, Tablet};
use files::own_sstables;
use model::Uuid;
pub(crate) use obsolete::Obsolete;
pub(crate) use policy::Windows;
use policy::{File, Options, Why};
pub(crate) use progress::Compactions;
pub use progress::{CompactionKind, FinishedCompaction, RunningCompaction};
use reader::ReadError;
use runtime::group;
use runtime::sync::Permit;
use runtime::task::Scope;
use runtime::time::{sleep, timeout, wall_micros};
use std::rc::Rc;
use std::time::Duration;
pub use upkeep::{Invalid, Outdated, Upkeep, UpkeepDone};
use weights::{Counted, weight_of};

/// Pause after a compaction that failed.
const RETRY: Duration = Duration::from_secs(10);

/// What is to be merged.
struct Job {
    table: Rc<Table>,
    tablet: Rc<Tablet>,
    inputs: Vec<Rc<sstable::Table>>,
    why: Why,
    /// Of the outputs: their level, and from which size on they are cut.
    level: u32,
    bytes_max: u64,
    /// The run that they join; `None`: one of their own.
    run: Option<Uuid>,
    /// *one-at-a-time*.
    _alone: Option<Permit>,
    /// *one-of-a-size*.
    _counted: Option<Counted>,
}

impl Job {
    /// A job that a strategy wants, of these SSTables.
    fn of(
        (table, tablet): (&Rc<Table>, &Rc<Tablet>),
        own: &[Rc<sstable::Table>],
        wanted: &policy::Job,
    ) -> Job {
        Job {
            table: table.clone(),
            tablet: tablet.clone(),
            inputs: wanted.files.iter().map(|index| own[*index].clone()).collect(),
            why: wanted.why,
            level: wanted.level,
            bytes_max: wanted.bytes_max,
            run: None,
            _alone: None,
            _counted: None,
        }
    }

    /// What it counts for among those that run; `None`: for nothing.
    fn weight(&self) -> Option<u32> {
        let bytes = self.inputs.iter().map(|one| one.data_bytes()).sum();
        (self.why != Why::Expired).then(|| weight_of(bytes))
    }

    fn kind(&self) -> CompactionKind {
        match self.why {
            Why::Major => CompactionKind::Major,
            Why::Upgrade => CompactionKind::Upgrade,
            _ => CompactionKind::Minor,
        }
    }
}

impl Shard {
    /// Compacts whatever the strategies of the tables ask for, some jobs at a time
    /// (*one-of-a-size*).
    pub(crate) async fn compact(self: Rc<Shard>) {
        let running = Scope::new();
        loop {
            let Some(job) = self.next_compaction() else {
                let _ = timeout(self.look_again(), self.compaction_wake.notified()).await;
                continue;
            };
            let shard = self.clone();
            running.spawn_in(group::COMPACTION, async move { shard.do_compaction(job).await });
            runtime::task::yield_now().await;
        }
    }

    async fn do_compaction(&self, job: Job) {
        if let Err(error) = job::run(self, &job, &|_| {}).await {
            let name = job.table.dir.display();
            tracing::error!("compaction of {name} failed, to be tried again: {error}");
            sleep(RETRY).await;
        }
        drop(job);
        self.compaction_wake.notify_one();
    }

    /// The job that spares reads most, of those that may begin: with the most inputs.
    fn next_compaction(&self) -> Option<Job> {
        let tables = self.tables.borrow();
        let mut jobs: Vec<Job> = Vec::new();
        let ready = |table: &&Rc<Table>| {
            let wanted = table.auto_compaction.get() && !table.in_doubt.get();
            wanted && self.replay_state(table.log).done.get()
        };
        for table in tables.values().filter(ready) {
            let options = Options::of(&table.schema.borrow().options);
            let idle = |tablet: &&Rc<Tablet>| tablet.compacting.available() == 1;
            for tablet in table.tablets.iter().filter(idle) {
                let (own, files) = seen(self, table, tablet);
                let wanted = options.jobs(&files, wall_micros());
                jobs.extend(wanted.iter().map(|wanted| Job::of((table, tablet), &own, wanted)));
            }
        }
        jobs.retain(|job| self.compactions.weights.allow(job.weight()));
        let chosen =
            jobs.into_iter().max_by_key(|job| (job.inputs.len(), job.table.id, job.tablet.index));
        let mut job = chosen?;
        job._counted = Some(self.compactions.weights.count(job.weight()));
        // Whoever had it has let go of it, or the tablet would not have been looked at.
        job._alone = job.tablet.compacting.try_acquire(1);
        Some(job)
    }

    /// After how long to look at the tables although nothing has come.
    fn look_again(&self) -> Duration {
        let tables = self.tables.borrow();
        let secs = tables.values().map(|table| {
            let options = Options::of(&table.schema.borrow().options);
            options.look_again_secs()
        });
        Duration::from_secs(secs.min().unwrap_or(3600))
    }
}

/// The windows of time by which what a table writes is to be divided, if it is.
pub(crate) fn windows_of(table: &Table) -> Option<Windows> {
    Options::of(&table.schema.borrow().options).windows()
}

/// What a strategy is told of a tablet: SSTables that are not damaged.
fn seen(shard: &Shard, table: &Table, tablet: &Tablet) -> (Vec<Rc<sstable::Table>>, Vec<File>) {
    let mut own = own_sstables(tablet);
    own.retain(|one| !one.is_damaged());
    let files = purge::files_of(shard, (table, tablet), &own, wall_micros());
    (own, files)
}

/// How many merges the options of a table ask for.
pub(crate) fn pending(shard: &Shard, table: &Table) -> usize {
    let options = Options::of(&table.schema.borrow().options);
    let of_tablet = |tablet: &Rc<Tablet>| {
        let (_, files) = seen(shard, table, tablet);
        options.pending(&files, wall_micros())
    };
    table.tablets.iter().map(of_tablet).sum()
}

/// Changes how the output of a merge is written.
pub(crate) type Adjust<'a> = &'a dyn Fn(&mut sstable::WriterOptions);

/// Merges all SSTables that lie in a tablet, even a single one, into what the strategy of the table
/// makes of them: one, or one run, or one for each window.
pub(crate) async fn merge_all(
    shard: &Shard,
    table: &Rc<Table>,
    tablet: &Rc<Tablet>,
    adjust: Adjust<'_>,
) -> Result<(), ReadError> {
    let alone = tablet.compacting.acquire(1).await.ok();
    let own = own_sstables(tablet);
    let files = purge::files_of(shard, (&**table, &**tablet), &own, wall_micros());
    let options = Options::of(&table.schema.borrow().options);
    for wanted in options.major(&files) {
        job::run(shard, &Job::of((table, tablet), &own, &wanted), adjust).await?;
    }
    // Who passed the tablet by meanwhile looks at it again.
    drop(alone);
    shard.compaction_wake.notify_one();
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
    let wanted = policy::Job { files, why: Why::Tier, level: 0, bytes_max };
    job::run(shard, &Job::of((table, tablet), &own, &wanted), &|_| {}).await
}

fn random_uuid() -> Uuid {
    let bits = (runtime::random_u64() as u128) << 64 | runtime::random_u64() as u128;
    // Version 4, as RFC 9562 has it.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    Uuid::from_u128(bits)
}
