//! Doing a merge.

use super::super::Shard;
use super::Adjust;
use super::outputs::Outputs;
use super::purge::{self, Purger};
use crate::compaction::policy::Why;
use crate::compaction::progress::Progress;
use crate::compaction::{Job, Obsolete, random_uuid};
use crate::config::Planted;
use crate::table::{Table, pass_gate};
use model::{DecoratedKey, Token};
use mutation::{CompactionFilter, Direction, Fragment, Outside, RingBound};
use reader::{Budget, MergeCounts, ReadError, Slice, Source};
use runtime::time::{Instant, sleep, wall_micros};
use sstable::{Access, Component};
use std::rc::Rc;
use std::time::Duration;

/// One batch from the merge.
const BATCH: Budget = Budget { fragments_max: 128, bytes_max: 64 << 10 };

/// From here on, in thousandths, memtables and log press (*writes-first*); over that span more.
const PRESSED_MIN: u64 = 600;
const PRESSED_SPAN: u64 = 200;
/// Merges pause longest before writes have to wait.
const _: () = assert!(PRESSED_MIN + PRESSED_SPAN <= 1000);
/// The longest pause after a batch.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Why nothing of a table is merged any more.
pub(super) const IN_DOUBT: &str =
    "the end of a merge may be durable or not: the next start will know";

/// How a merge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Done,
    GaveWay,
}

/// Whether a merge may forget deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forgets {
    Nothing,
    Something,
}

/// Does a job, unless somebody has taken its files or the table away meanwhile.
pub(super) async fn run(shard: &Shard, job: &Job, adjust: Adjust<'_>) -> Result<(), ReadError> {
    let Job { table, tablet, .. } = job;
    assert!(tablet.is_busy(), "one-at-a-time: nobody has tablet {}", tablet.index.get());
    let _gate = pass_gate(table, 1).await;
    if table.in_doubt.get() {
        return Err(ReadError::Overloaded(IN_DOUBT.to_string()));
    }
    let present = tablet.sstables.borrow().clone();
    let is_there = |one: &Rc<sstable::Table>| present.iter().any(|other| Rc::ptr_eq(one, other));
    if table.dropped.get() || !job.inputs.iter().all(is_there) {
        return Ok(());
    }
    drop(present);
    if job.why == Why::Expired && !is_still_expired(shard, job) {
        return Ok(());
    }
    let part = (job.why == Why::Reshard).then_some(&*job.tablet);
    let listed = shard.compactions.begin(table, job.kind(), &job.inputs, part);
    let mut merge = Merge {
        shard,
        job,
        inputs: job.inputs.clone(),
        outputs: Outputs::new(shard, job, adjust),
        released_bytes: 0,
        progress: listed.progress.clone(),
        counts: MergeCounts::new(job.inputs.len()),
    };
    match merge.all().await {
        Ok(Ended::Done) => {
            listed.finish();
            shard.compactions.room.went_on(table);
        }
        Ok(Ended::GaveWay) => merge.outputs.abort().await,
        Err(error) => {
            merge.give_up().await;
            if !listed.progress.is_to_stop() {
                shard.compactions.count_failure();
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Whether data that the inputs may cover has come meanwhile.
fn is_still_expired(shard: &Shard, job: &Job) -> bool {
    let place = (&*job.table, &*job.tablet);
    let files = purge::files_of(shard, place, &job.inputs, wall_micros());
    files.iter().all(|file| file.expired)
}

/// A merge that is under way.
struct Merge<'j> {
    shard: &'j Shard,
    job: &'j Job,
    /// Those that are still in the set.
    inputs: Vec<Rc<sstable::Table>>,
    outputs: Outputs<'j>,
    /// On the disk, of inputs that are gone.
    released_bytes: u64,
    progress: Rc<Progress>,
    /// Of how many inputs what was read came.
    counts: Rc<MergeCounts>,
}

impl Merge<'_> {
    async fn all(&mut self) -> Result<Ended, ReadError> {
        if self.job.why == Why::Expired {
            self.end(Forgets::Something).await?;
            return Ok(Ended::Done);
        }
        let mut source = source_of(self.job, &self.counts);
        let now = wall_micros() / 1_000_000;
        let (shard, job) = (self.shard, self.job);
        // What is not merged with what it covers forgets nothing (*parts-outlive-whole*).
        let mut purger = match job.why {
            Why::Reshard => None,
            _ => Purger::of(shard, (&*job.table, &*job.tablet), &job.inputs, now),
        };
        let forgets = if purger.is_some() { Forgets::Something } else { Forgets::Nothing };
        let outside_of = move |key: &DecoratedKey| match &mut purger {
            Some(purger) => purger.outside_of(key),
            None => Outside::UNKNOWN,
        };
        let mut filter = CompactionFilter::new(now, Box::new(outside_of));
        let (mut batch, mut kept) = (Vec::new(), Vec::new());
        loop {
            self.progress.check_stop()?;
            if self.job.table.quiet_wanted.get() || self.job.tablet.is_leaving() {
                return Ok(Ended::GaveWay);
            }
            let begun = Instant::now();
            source.fill(BATCH, &mut batch).await?;
            if batch.is_empty() {
                break;
            }
            self.count(&batch);
            for fragment in batch.drain(..) {
                filter.push(fragment, &mut kept);
            }
            for fragment in &kept {
                let before = self.outputs.last_token();
                let sealed = self.outputs.write(fragment).await?;
                debug_assert!(before <= self.outputs.last_token(), "apart: tokens of outputs");
                if sealed && forgets == Forgets::Nothing && job.why != Why::Reshard {
                    self.release(before).await;
                }
            }
            kept.clear();
            self.note_progress();
            let (progress, Job { table, tablet, .. }) = (&self.progress, self.job);
            let ends = || progress.is_to_stop() || table.quiet_wanted.get() || tablet.is_leaving();
            self.shard.give_way(begun, ends).await;
        }
        if self.is_planted(Planted::RemovesInputsFirst) {
            for one in &self.inputs {
                let _ = sstable::store::remove(&self.job.table.dir, one.descriptor()).await;
            }
        }
        self.progress.set_counts(self.counts.get(), filter.counts());
        self.outputs.seal().await?;
        assert!(!self.outputs.is_writing(), "inputs-outlive-output: an output is not sealed");
        self.end(forgets).await?;
        Ok(Ended::Done)
    }

    fn note_progress(&self) {
        let written = self.outputs.bytes_written();
        debug_assert!(self.progress.bytes_written.get() <= written, "bytes are taken back");
        debug_assert!(
            self.progress.merged_until.get() <= self.outputs.last_token(),
            "apart: back from {:?}",
            self.progress.merged_until.get()
        );
        self.progress.bytes_written.set(written);
        self.progress.merged_until.set(self.outputs.last_token());
        if let Some(claim) = &self.job.claim {
            let on_disk = (written as f64 * self.job.compression()) as u64;
            claim.set_taken(on_disk.saturating_sub(self.released_bytes));
        }
    }

    fn is_planted(&self, planted: Planted) -> bool {
        self.shard.config.planted == Some(planted)
    }

    /// All outputs are sealed: all inputs that are left go (*all-or-none*).
    async fn end(&mut self, forgets: Forgets) -> Result<(), ReadError> {
        let mut record = None;
        if forgets == Forgets::Something && !self.is_planted(Planted::RemovesInputsApart) {
            record = Some(self.make_durable().await?);
        }
        let kept_before = self.job.table.unremoved.borrow().len();
        self.release(Some(Token::MAX)).await;
        assert!(self.inputs.is_empty(), "inputs-outlive-output: {} stay", self.inputs.len());
        let all_removed = self.job.table.unremoved.borrow().len() == kept_before;
        if let Some(record) = record.filter(|_| all_removed)
            && let Err(error) = record.remove().await
        {
            // The next start finds that its SSTables are gone, and removes it.
            tracing::warn!("a record that is not needed any more stays: {error}");
        }
        Ok(())
    }

    /// Makes it durable that the inputs are gone.
    async fn make_durable(&self) -> Result<Obsolete, ReadError> {
        assert!(
            self.inputs.len() == self.job.inputs.len(),
            "all-or-none: {} of {} inputs are left",
            self.inputs.len(),
            self.job.inputs.len()
        );
        debug_assert!(
            self.shard.replay_state(self.job.table.log).old_gone.get(),
            "not-replayed: segments of earlier runs are there"
        );
        make_gone(&self.job.table, &self.inputs).await
    }

    /// It has failed. What is in doubt keeps its outputs: they have all that the inputs have.
    async fn give_up(mut self) {
        if self.job.table.in_doubt.get() {
            let sealed = self.outputs.take_sealed();
            let mut unremoved = self.job.table.unremoved.borrow_mut();
            unremoved.extend(sealed.iter().map(|one| one.descriptor()));
            return;
        }
        self.outputs.abort().await;
    }

    fn count(&self, batch: &[Fragment]) {
        if let [_] = self.job.inputs[..] {
            self.counts.add(1, batch.len() as u64);
        }
        let of = |wanted: fn(&Fragment) -> bool| batch.iter().filter(|one| wanted(one)).count();
        let partitions = of(|one| matches!(one, Fragment::PartitionStart { .. }));
        let rows = of(|one| matches!(one, Fragment::Row { .. } | Fragment::StaticRow { .. }));
        let Progress { partitions: partitions_done, rows: rows_done, .. } = &*self.progress;
        partitions_done.set(partitions_done.get() + partitions as u64);
        rows_done.set(rows_done.get() + rows as u64);
    }

    /// What is sealed takes the place of the inputs that it has all of: those that end at or before
    /// this token. Their files are removed.
    async fn release(&mut self, until: Option<Token>) {
        let is_over = |one: &Rc<sstable::Table>| Some(one.last_key().token) <= until;
        if until != Some(Token::MAX) && !self.inputs.iter().any(is_over) {
            return;
        }
        let (over, rest) = self.inputs.iter().cloned().partition(is_over);
        let mut over: Vec<_> = over;
        self.inputs = rest;
        self.released_bytes += over.iter().map(|one| one.disk_bytes()).sum::<u64>();
        let outputs = self.outputs.take_sealed();
        debug_assert!(
            outputs.iter().all(|one| Some(one.last_key().token) <= until),
            "inputs-outlive-output: an output is beyond {until:?}"
        );
        self.progress.add_outputs(&outputs);
        let _removal = self.job.table.removals.acquire(1).await;
        self.job.tablet.replace(&over, outputs);
        if self.is_planted(Planted::RemovesInputsApart) {
            // The newest first: deletions before what they delete.
            over.reverse();
        }
        if self.job.why == Why::Reshard {
            // In the same step.
            let shared = over.iter().map(|one| one.descriptor());
            return self.shard.let_go_of(&self.job.table, shared);
        }
        for one in &over {
            self.job.table.remove_sstable(one.descriptor()).await;
        }
    }
}

/// Makes it durable that these are gone, all at once. Where that fails it is undone; where that
/// fails as well nobody knows what the next start will find (*in-doubt*).
pub(super) async fn make_gone(
    table: &Table,
    gone: &[Rc<sstable::Table>],
) -> Result<Obsolete, ReadError> {
    debug_assert!(!table.in_doubt.get(), "in-doubt: another end of a merge");
    let names = gone.iter().map(|one| one.descriptor().file_name(Component::Data)).collect();
    let id = random_uuid();
    let error = match Obsolete::store(&table.dir, id, names).await {
        Ok(record) => return Ok(record),
        Err(error) => error,
    };
    if let Err(worse) = Obsolete::retract(&table.dir, id).await {
        tracing::error!("{}: {IN_DOUBT}: {worse}", table.dir.display());
        table.in_doubt.set(true);
    }
    Err(ReadError::Io(error))
}

fn source_of(job: &Job, counts: &Rc<MergeCounts>) -> Box<dyn Source> {
    let bound = |token, after| RingBound { token, key: None, after };
    let (after, last) = job.tablet.range;
    let (start, end) = match job.why {
        Why::Reshard => (bound(after, after != Token::MIN), bound(last, true)),
        _ => (bound(Token::MIN, false), bound(Token::MAX, true)),
    };
    let sources = job.inputs.iter().map(|input| {
        let scope = sstable::Scope::Range { start: start.clone(), end: end.clone() };
        let access = Access::bypass(job.class());
        let all = Box::new(input.read_checked(scope, Slice::full(), access));
        job.tablet.part_of(input, all)
    });
    let sources: Vec<_> = sources.collect();
    assert!(sources.len() == job.inputs.len(), "checked: an input is not read");
    reader::merge_counted(job.table.schema(), Direction::Forward, sources, counts)
}

impl Shard {
    /// Pauses after a batch that began then, as long as writes press (*writes-first*), and until
    /// what it asked of the disk is within the limit (*limited*). Who wants it to end does not
    /// wait for that.
    pub(super) async fn give_way(&self, begun: Instant, ends: impl Fn() -> bool) {
        let pacer = &self.compactions.pacer;
        debug_assert!(
            self.pressed.get() <= 1000,
            "writes-first: {} thousandths",
            self.pressed.get()
        );
        let pressed = begun.elapsed() * pause_factor(self.pressed.get());
        let mut pause = pressed.max(pacer.pause());
        if pause.is_zero() {
            return runtime::task::yield_if_needed().await;
        }
        while !pause.is_zero() && !ends() {
            sleep(pause.min(PAUSE_MAX)).await;
            pause = pacer.pause();
        }
    }
}

/// How many times as long as a batch took a compaction pauses after it (*writes-first*), when
/// memtables or log are so far towards their limits, in thousandths: up to 20.
fn pause_factor(pressed: u64) -> u32 {
    (pressed.saturating_sub(PRESSED_MIN).min(PRESSED_SPAN) / 10) as u32
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
