//! Merging SSTables of a tablet, so that reads need few of them. Size-tiered; deletions are kept.
//!
//! In reading order: [`policy`] (what to merge; pure), then the task that does it.
//!
//! Invariants
//!  - *inputs-outlive-output*: the inputs are removed after the output is sealed and has taken
//!    their place in the set. A crash in between leaves both, which merge to the same: the output
//!    keeps every deletion.
//!  - *all-open-first*: nothing is compacted before all shards have opened the table: they list one
//!    directory, and clear it of what looks unfinished.
//!  - *checked*: inputs are compared with their checksums as they are read, so that damage does
//!    not get checksums of its own. What was found damaged is left alone until the next start: its
//!    reads fail, or go on, as they did.
//!  - *gives-way*: a truncation or drop that waits for quiet ends a compaction at its next batch.
//!  - *writes-first*: while memtables or log are beyond the point at which flushes start, a
//!    compaction pauses after each batch, the longer the nearer they are to their limits; it never
//!    stops. So writes come in at what the disk takes of flushes, however much there is to compact.

mod policy;

use crate::flush::pass_gate;
use crate::shard::Shard;
use crate::table::{Table, Tablet};
use model::Token;
use mutation::tombstone::Purge;
use mutation::{CompactionFilter, Direction, RingBound};
use policy::{Candidate, Options};
use reader::{Budget, ReadError, Slice};
use runtime::io::IoClass;
use runtime::time::{Instant, sleep, wall_micros};
use sstable::{Access, store};
use std::rc::Rc;
use std::time::Duration;

/// Pause after a compaction that failed.
const RETRY: Duration = Duration::from_secs(10);
/// One batch from the merge.
const BATCH: Budget = Budget { fragments_max: 128, bytes_max: 64 << 10 };

/// From here on, in thousandths, memtables and log press (*writes-first*); over that span more.
const PRESSED_MIN: u64 = 600;
const PRESSED_SPAN: u64 = 200;
/// The longest pause after a batch.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What is to be merged.
struct Job {
    table: Rc<Table>,
    tablet: Rc<Tablet>,
    inputs: Vec<Rc<sstable::Table>>,
}

impl Shard {
    /// Compacts whatever the policy finds, one job at a time.
    pub(crate) async fn compact(&self) {
        loop {
            let Some(job) = self.next_compaction() else {
                self.compaction_wake.notified().await;
                continue;
            };
            if let Err(error) = run(self, &job, &|_| {}).await {
                let name = job.table.dir.display();
                tracing::error!("compaction of {name} failed, to be tried again: {error}");
                sleep(RETRY).await;
            }
            runtime::task::yield_now().await;
        }
    }

    fn next_compaction(&self) -> Option<Job> {
        let tables = self.tables.borrow();
        let mut jobs: Vec<Job> = Vec::new();
        let ready = |table: &&Rc<Table>| {
            table.auto_compaction.get() && self.replay_state(table.log).done.get()
        };
        for table in tables.values().filter(ready) {
            let Some(options) = Options::of(&table.schema.borrow().options) else { continue };
            for tablet in &table.tablets {
                let mut own: Vec<_> = own_sstables(tablet);
                own.retain(|one| !one.is_damaged());
                let candidates: Vec<_> =
                    own.iter().map(|one| Candidate { bytes: one.disk_bytes() }).collect();
                let chosen = policy::choose(&options, &candidates);
                if !chosen.is_empty() {
                    let inputs = chosen.into_iter().map(|index| own[index].clone()).collect();
                    jobs.push(Job { table: table.clone(), tablet: tablet.clone(), inputs });
                }
            }
        }
        jobs.into_iter().max_by_key(|job| (job.inputs.len(), job.table.id, job.tablet.index))
    }
}

/// How many merges the options of a table ask for.
pub(crate) fn pending(table: &Table) -> usize {
    let Some(options) = Options::of(&table.schema.borrow().options) else { return 0 };
    let of_tablet = |tablet: &Rc<Tablet>| {
        let own = own_sstables(tablet);
        let candidates: Vec<_> =
            own.iter().map(|one| Candidate { bytes: one.disk_bytes() }).collect();
        policy::pending(&options, &candidates)
    };
    table.tablets.iter().map(of_tablet).sum()
}

/// The SSTables that lie in this tablet with all they hold.
fn own_sstables(tablet: &Tablet) -> Vec<Rc<sstable::Table>> {
    let (after, last) = tablet.range;
    let inside = |token: Token| (after < token || after == Token::MIN) && token <= last;
    let all = tablet.sstables.borrow();
    let own =
        all.iter().filter(|one| inside(one.first_key().token) && inside(one.last_key().token));
    own.cloned().collect()
}

/// Changes how the output of a merge is written.
pub(crate) type Adjust<'a> = &'a dyn Fn(&mut sstable::WriterOptions);

/// Merges all SSTables that lie in a tablet into one, even a single one.
pub(crate) async fn merge_all(
    shard: &Shard,
    table: &Rc<Table>,
    tablet: &Rc<Tablet>,
    adjust: Adjust<'_>,
) -> Result<(), ReadError> {
    let inputs = own_sstables(tablet);
    if inputs.is_empty() {
        return Ok(());
    }
    let job = Job { table: table.clone(), tablet: tablet.clone(), inputs };
    run(shard, &job, adjust).await
}

async fn run(shard: &Shard, job: &Job, adjust: Adjust<'_>) -> Result<(), ReadError> {
    let Job { table, tablet, inputs } = job;
    let _gate = pass_gate(table, 1).await;
    // Somebody may have truncated meanwhile.
    let present = tablet.sstables.borrow().clone();
    let is_there = |one: &Rc<sstable::Table>| present.iter().any(|other| Rc::ptr_eq(one, other));
    if table.dropped.get() || !inputs.iter().all(is_there) {
        return Ok(());
    }
    let Some(output) = merge(shard, table, inputs, adjust).await? else { return Ok(()) };
    let _removal = table.removals.acquire(1).await;
    tablet.replace(inputs, output.opened);
    for input in inputs {
        table.remove_sstable(input.descriptor()).await;
    }
    Ok(())
}

/// What a merge made: nothing, if its inputs said nothing together.
struct Output {
    opened: Option<Rc<sstable::Table>>,
}

/// Writes the merge of `inputs`; `None` if it had to give way.
async fn merge(
    shard: &Shard,
    table: &Table,
    inputs: &[Rc<sstable::Table>],
    adjust: Adjust<'_>,
) -> Result<Option<Output>, ReadError> {
    let schema = table.schema();
    let node = shard.sstables.get();
    let options = sstable::WriterOptions::of_table(&schema, "compaction", node);
    let mut options = options.map_err(ReadError::Overloaded)?;
    options.host_id = Some(shard.config.host_id);
    options.estimated_partitions = inputs.iter().map(|one| one.partition_count()).sum();
    adjust(&mut options);
    let generation = sstable::Generation::generate();
    let class = IoClass::Compaction;
    let created = sstable::Writer::create(&table.dir, generation, schema.clone(), options, class);
    let mut writer = created.await.map_err(ReadError::Io)?;
    match copy(shard, table, inputs, &mut writer).await {
        Ok(Copied::All) => {}
        Ok(Copied::GaveWay) => {
            writer.abort().await.map_err(ReadError::Io)?;
            return Ok(None);
        }
        Err(error) => {
            // What is left is garbage that the next start removes.
            let _ = writer.abort().await;
            return Err(error);
        }
    }
    let Some(sealed) = writer.finish().await.map_err(ReadError::Io)? else {
        return Ok(Some(Output { opened: None }));
    };
    let (schema, cache) = (table.schema(), &shard.index_cache);
    match sstable::Table::open(&table.dir, sealed.descriptor, schema, cache).await {
        Ok(opened) => Ok(Some(Output { opened: Some(opened) })),
        Err(error) => {
            let _ = store::remove(&table.dir, sealed.descriptor).await;
            Err(error)
        }
    }
}

/// How copying ended.
enum Copied {
    All,
    GaveWay,
}

/// How many times as long as a batch took a compaction pauses after it (*writes-first*), when
/// memtables or log are so far towards their limits, in thousandths: up to 20.
fn pause_factor(pressed: u64) -> u32 {
    (pressed.saturating_sub(PRESSED_MIN).min(PRESSED_SPAN) / 10) as u32
}

async fn copy(
    shard: &Shard,
    table: &Table,
    inputs: &[Rc<sstable::Table>],
    writer: &mut sstable::Writer,
) -> Result<Copied, ReadError> {
    let bound = |token, after| RingBound { token, key: None, after };
    let (start, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
    let sources = inputs.iter().map(|input| {
        let scope = sstable::Scope::Range { start: start.clone(), end: end.clone() };
        let access = Access::bypass(IoClass::Compaction);
        Box::new(input.read_checked(scope, Slice::full(), access)) as Box<dyn reader::Source>
    });
    let mut source = reader::merge(table.schema(), Direction::Forward, sources.collect());
    let now = wall_micros() / 1_000_000;
    let mut filter = CompactionFilter::new(now, Box::new(|_| Purge::NEVER));
    let (mut batch, mut kept) = (Vec::new(), Vec::new());
    loop {
        if table.quiet_wanted.get() {
            return Ok(Copied::GaveWay);
        }
        let begun = Instant::now();
        source.fill(BATCH, &mut batch).await?;
        if batch.is_empty() {
            return Ok(Copied::All);
        }
        for fragment in batch.drain(..) {
            filter.push(fragment, &mut kept);
        }
        for fragment in &kept {
            writer.write(fragment).await.map_err(ReadError::Io)?;
        }
        kept.clear();
        match pause_factor(shard.pressed.get()) {
            0 => runtime::task::yield_if_needed().await,
            factor => sleep((begun.elapsed() * factor).min(PAUSE_MAX)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_pauses_the_longer_the_more_writes_press() {
        for (pressed, factor) in [(0, 0), (600, 0), (609, 0), (700, 10), (800, 20), (1000, 20)] {
            assert_eq!(pause_factor(pressed), factor, "{pressed}");
        }
    }
}
