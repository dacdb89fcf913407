//! What is done to SSTables one by one because somebody asked for it: scrub, validation, upgrade.
//!
//! Invariants
//!  - *one-at-a-time*: nobody merges the SSTables of a tablet meanwhile, and a shard does this to
//!    one table at a time.
//!  - *inputs-outlive-output*: an SSTable leaves the set in the step in which what was made of it
//!    joins, after that is durable.
//!  - *whole-table*: what is wrong with one SSTable does not keep the others from being looked at,
//!    save where the first error is to end it.

use super::super::Shard;
use super::super::upload::take_over;
use super::claim::claim_or_refuse;
use super::merge::{IN_DOUBT, run};
use super::reshard;
use super::walk::Walk;
use crate::compaction::Job;
use crate::compaction::files::{own_sstables, shared_sstables};
use crate::compaction::policy::{self, Why};
use crate::compaction::progress::Progress;
use crate::compaction::report::CompactionKind;
use crate::error::StorageError;
use crate::table::{Table, Tablet, pass_gate};
use model::TableId;
use reader::{LocalFuture, ReadError};
use runtime::io::{IoClass, fs};
use runtime::time::Instant;
use sstable::scrub::{self, Follow, Mode, Target};
use sstable::store::relocate::QUARANTINE;
use sstable::store::{self, State};
use sstable::{Component, Descriptor, Sealed, WriterOptions};
use std::path::Path;
use std::rc::Rc;

/// Errors of one SSTable that the log has in words; the others are counted.
const TOLD_MAX: u64 = 10;

/// What is done to each SSTable of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// It is written again without what is wrong in it.
    Scrub(Mode),
    /// It is read for what is wrong in it.
    Validate(Invalid),
    /// It is written again in the format of the table.
    Upgrade(Outdated),
}

/// What becomes of an SSTable with something wrong in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// It is moved to `quarantine/`.
    PutAside,
    /// It stays in use.
    Kept,
}

/// Which SSTables are written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// Those of formats that are older than that of the table.
    Older,
    /// All.
    All,
}

/// What there was to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpkeepDone {
    /// SSTables that were looked at.
    pub sstables: u64,
    /// Those with something wrong, by the names of their data files.
    pub invalid: Vec<String>,
    /// The error that ended a scrub that is to end at the first.
    pub aborted: Option<String>,
}

impl Shard {
    /// See [`crate::Storage::keep_up_quarantined`].
    pub(crate) async fn keep_up_quarantined(
        &self,
        id: TableId,
        what: Upkeep,
    ) -> Result<UpkeepDone, ReadError> {
        let table = self.table(id).ok_or_else(|| told(StorageError::UnknownTable(id)))?;
        assert!(runtime::shard_id() == 0, "what is quarantined is seen to by shard 0");
        let mut done = UpkeepDone::default();
        let aside = table.dir.join(QUARANTINE);
        let _alone = table.loading.acquire(1).await;
        if !fs::exists(&aside).await.map_err(ReadError::Io)? {
            return Ok(done);
        }
        for found in store::list(&aside).await.map_err(ReadError::Io)?.tables {
            if found.state == State::Complete && done.aborted.is_none() {
                self.visit_quarantined(&table, &aside, found.descriptor, what, &mut done).await?;
            }
        }
        Ok(done)
    }

    async fn visit_quarantined(
        &self,
        table: &Rc<Table>,
        aside: &Path,
        descriptor: Descriptor,
        what: Upkeep,
        done: &mut UpkeepDone,
    ) -> Result<(), ReadError> {
        let (shard, schema) = (self, table.schema());
        let name = descriptor.file_name(Component::Data);
        debug_assert!(
            !table.tablets().iter().any(|tablet| tablet.has_sstable(descriptor)),
            "quarantined: {name} is in use"
        );
        done.sstables += 1;
        let opened = sstable::Table::open(aside, descriptor, schema, &shard.index_cache).await;
        let mut follower = Follower::of(shard, table, &name, None);
        let problems = match (opened, what) {
            (Err(error), _) => {
                follower.tell(&error);
                1
            }
            (Ok(one), Upkeep::Scrub(mode)) => {
                let target = target_of(shard, table, &one, mode)?;
                match scrub::scrub(&one, mode, &target, &mut follower).await {
                    Err(error @ ReadError::Damaged { .. }) if mode == Mode::Abort => {
                        done.aborted = Some(error.to_string());
                        1
                    }
                    outcome => {
                        let written = outcome?.written;
                        let new = written.iter().map(|sealed| sealed.descriptor).collect();
                        take_over(table.id, new).await;
                        store::remove(aside, descriptor).await.map_err(ReadError::Io)?;
                        0
                    }
                }
            }
            (Ok(one), Upkeep::Validate(_)) => {
                scrub::validate(&one, IoClass::Maintenance, &mut follower).await?
            }
            (Ok(_), Upkeep::Upgrade(_)) => 0,
        };
        if 0 < problems {
            done.invalid.push(name);
        }
        Ok(())
    }
}

/// The SSTable that could not be opened: reads of the table are refused because of it.
pub(crate) fn not_opened(table: &Table) -> Option<String> {
    let broken = table.broken.borrow();
    let descriptor = broken.iter().find_map(|one| one.descriptor)?;
    Some(descriptor.file_name(Component::Data))
}

fn told(error: StorageError) -> ReadError {
    ReadError::Overloaded(error.to_string())
}

/// Does it to the SSTables that lie in the tablets of a table, one after the other.
pub(crate) async fn upkeep(
    shard: &Shard,
    table: &Rc<Table>,
    what: Upkeep,
) -> Result<UpkeepDone, ReadError> {
    let (mut done, mut failed) = (UpkeepDone::default(), None);
    let _turn = shard.compactions.upkeep.acquire(1).await;
    assert!(shard.compactions.upkeep.available() == 0, "one-at-a-time: another table");
    let mut walk = Walk::new(table);
    while let Some((tablet, alone)) = walk.next().await {
        let tablet = &tablet;
        let shared = shared_sstables(tablet);
        let shared = shared.into_iter().map(|one| (one, true));
        let own = own_sstables(tablet).into_iter().map(|one| (one, false));
        for (one, is_shared) in shared.chain(own) {
            if done.aborted.is_some() || table.dropped.get() || tablet.is_leaving() {
                break;
            }
            let visited = match what {
                // What this writes is as it should be.
                Upkeep::Scrub(_) | Upkeep::Upgrade(_) if is_shared => {
                    reshard_one(shard, (table, tablet), one, &mut done).await
                }
                _ => visit(shard, (table, tablet), one, what, &mut done).await,
            };
            match visited {
                // Nothing is wrong with this one: the others would not fare better.
                Err(error @ (ReadError::Overloaded(_) | ReadError::Stopped)) => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
                Ok(()) => {}
            }
        }
        if let Upkeep::Scrub(_) = what {
            // What was damaged may have been left out.
            tablet.changes.note_all();
        }
        walk.pass(tablet);
        // Who passed the tablet by meanwhile looks at it again.
        drop(alone);
        shard.compaction_wake.notify_one();
    }
    failed.map_or(Ok(done), Err)
}

/// Writes the part of a tablet of an SSTable that lies in others as well. Where that is damaged it
/// stays as it is: all shards together can put it aside.
async fn reshard_one(
    shard: &Shard,
    place: (&Rc<Table>, &Rc<Tablet>),
    one: Rc<sstable::Table>,
    done: &mut UpkeepDone,
) -> Result<(), ReadError> {
    assert!(place.1.is_busy(), "one-at-a-time: nobody has tablet {}", place.1.index.get());
    let job = reshard::job_of(place, &one).with_room(shard).await?;
    match run(shard, &job, &|_| {}).await {
        Err(error @ ReadError::Damaged { .. }) => {
            let name = one.descriptor().file_name(Component::Data);
            Follower::of(shard, place.0, &name, None).tell(&error);
            done.invalid.push(name);
        }
        other => other?,
    }
    done.sstables += 1;
    Ok(())
}

async fn visit(
    shard: &Shard,
    place: (&Rc<Table>, &Rc<Tablet>),
    one: Rc<sstable::Table>,
    what: Upkeep,
    done: &mut UpkeepDone,
) -> Result<(), ReadError> {
    let name = one.descriptor().file_name(Component::Data);
    let problems = match what {
        Upkeep::Scrub(mode) => match scrub_one(shard, place, &one, mode).await {
            Err(error @ ReadError::Damaged { .. }) if mode == Mode::Abort => {
                done.aborted = Some(error.to_string());
                1
            }
            other => other?,
        },
        Upkeep::Validate(_) => {
            let kind = CompactionKind::Validation;
            let listed = shard.compactions.begin(place.0, kind, std::slice::from_ref(&one), None);
            let mut follower = Follower::of(shard, place.0, &name, Some(&listed.progress));
            scrub::validate(&one, IoClass::Maintenance, &mut follower).await?
        }
        Upkeep::Upgrade(which) => {
            upgrade_one(shard, place, &one, which).await?;
            0
        }
    };
    done.sstables += 1;
    if 0 < problems {
        tracing::warn!("{name} in {} has {problems} errors", place.0.dir.display());
        done.invalid.push(name);
    }
    Ok(())
}

/// Follows what is done to one SSTable: tells the log what is wrong in it, keeps the pace of
/// merges, and ends when somebody asks for it.
struct Follower<'f> {
    shard: &'f Shard,
    table: &'f Table,
    name: &'f str,
    told: u64,
    /// Of what is listed among the jobs.
    progress: Option<Rc<Progress>>,
    begun: Instant,
}

impl<'f> Follower<'f> {
    fn of(
        shard: &'f Shard,
        table: &'f Table,
        name: &'f str,
        progress: Option<&Rc<Progress>>,
    ) -> Follower<'f> {
        let (progress, begun) = (progress.cloned(), Instant::now());
        Follower { shard, table, name, told: 0, progress, begun }
    }
}

impl Follow for Follower<'_> {
    fn tell(&mut self, error: &ReadError) {
        if self.told < TOLD_MAX {
            tracing::warn!("{}: {error}", self.name);
        }
        self.told += 1;
    }

    fn go_on(&mut self, bytes_read: u64) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            let progress = self.progress.as_deref();
            progress.inspect(|progress| progress.bytes_read.set(bytes_read));
            // Who waits for quiet waits for the end of this: then it makes haste.
            let quiet_wanted = &self.table.quiet_wanted;
            let ends = || quiet_wanted.get() || progress.is_some_and(Progress::is_to_stop);
            self.shard.give_way(self.begun, ends).await;
            self.begun = Instant::now();
            progress.map_or(Ok(()), Progress::check_stop)
        })
    }
}

async fn upgrade_one(
    shard: &Shard,
    (table, tablet): (&Rc<Table>, &Rc<Tablet>),
    one: &Rc<sstable::Table>,
    which: Outdated,
) -> Result<(), ReadError> {
    let options = options_of(shard, table, "upgrade")?;
    let is_older = !one.descriptor().version.is_at_least(options.version);
    if which == Outdated::Older && !is_older {
        return Ok(());
    }
    let level = one.stats().level;
    let wanted = policy::Job { files: vec![0], why: Why::Upgrade, level, bytes_max: u64::MAX };
    let mut job = Job::of((table, tablet), std::slice::from_ref(one), &wanted);
    job.run = one.scylla().run_id;
    run(shard, &job.with_room(shard).await?, &|_| {}).await
}

fn options_of(shard: &Shard, table: &Table, origin: &str) -> Result<WriterOptions, ReadError> {
    let options = WriterOptions::of_table(&table.schema(), origin, shard.sstables.get());
    let mut options = options.map_err(ReadError::Overloaded)?;
    options.host_id = Some(shard.config.host_id);
    Ok(options)
}

/// How an SSTable is written again.
fn target_of(
    shard: &Shard,
    table: &Table,
    one: &sstable::Table,
    mode: Mode,
) -> Result<Target, ReadError> {
    let mut options = options_of(shard, table, "scrub")?;
    options.estimated_partitions = one.partition_count();
    options.bases = one.statistics().header.bases;
    // Partitions of one shard stay such: else what is written seems to be of all shards.
    options.share = one.scylla().share();
    // What comes out in several pieces that share tokens is no run, and of no level.
    if mode != Mode::Segregate {
        (options.level, options.run_id) = (one.stats().level, one.scylla().run_id);
    }
    Ok(Target::new(&table.dir, table.schema(), options, IoClass::Maintenance))
}

/// Writes an SSTable again without what is wrong in it; how much that was. The gate is passed to
/// the end: a truncation that came between would not know of the new ones.
async fn scrub_one(
    shard: &Shard,
    (table, tablet): (&Rc<Table>, &Rc<Tablet>),
    one: &Rc<sstable::Table>,
    mode: Mode,
) -> Result<u64, ReadError> {
    let _gate = pass_gate(table, 1).await;
    if table.in_doubt.get() {
        return Err(ReadError::Overloaded(IN_DOUBT.to_string()));
    }
    assert!(tablet.is_busy(), "one-at-a-time: nobody has tablet {}", tablet.index.get());
    let is_there = tablet.sstables.borrow().iter().any(|other| Rc::ptr_eq(one, other));
    if table.dropped.get() || !is_there {
        return Ok(0);
    }
    let _claim = claim_or_refuse(shard, table, one.disk_bytes()).await?;
    let name = one.descriptor().file_name(Component::Data);
    let (kind, inputs) = (CompactionKind::Scrub, std::slice::from_ref(one));
    let listed = shard.compactions.begin(table, kind, inputs, None);
    let target = target_of(shard, table, one, mode)?;
    let mut follower = Follower::of(shard, table, &name, Some(&listed.progress));
    let outcome = scrub::scrub(one, mode, &target, &mut follower).await;
    if let Err(ReadError::Io(_)) = outcome {
        // Some of what was written may be whole, and nobody knows its name: this one stands for it,
        // so that nothing is forgotten that covers it.
        table.unremoved.borrow_mut().push(one.descriptor());
    }
    let outcome = outcome?;
    let outputs = open_all(shard, table, &outcome.written).await?;
    let progress = listed.progress.clone();
    progress.add_outputs(&outputs);
    progress.partitions.set(outcome.written.iter().map(|sealed| sealed.partitions).sum());
    progress.rows.set(outcome.written.iter().map(|sealed| sealed.rows).sum());
    {
        let _removal = table.removals.acquire(1).await;
        tablet.replace(std::slice::from_ref(one), outputs);
        if 0 < outcome.problems {
            tablet.forget_cached();
        }
        debug_assert!(!tablet.has_sstable(one.descriptor()), "inputs-outlive-output: it stays");
        table.remove_sstable(one.descriptor()).await;
    }
    listed.finish();
    Ok(outcome.problems)
}

/// Opens what was written; where one cannot be opened, none is left.
async fn open_all(
    shard: &Shard,
    table: &Table,
    written: &[Sealed],
) -> Result<Vec<Rc<sstable::Table>>, ReadError> {
    let mut all = Vec::with_capacity(written.len());
    for sealed in written {
        let (dir, cache) = (&table.dir, &shard.index_cache);
        match sstable::Table::open(dir, sealed.descriptor, table.schema(), cache).await {
            Ok(opened) => all.push(opened),
            Err(error) => {
                for sealed in written {
                    table.remove_sstable(sealed.descriptor).await;
                }
                return Err(error);
            }
        }
    }
    Ok(all)
}
