//! Doing a merge.

use super::outputs::Outputs;
use super::progress::Progress;
use super::{Adjust, Job};
use crate::flush::pass_gate;
use crate::shard::Shard;
use model::Token;
use mutation::tombstone::Purge;
use mutation::{CompactionFilter, Direction, Fragment, RingBound};
use reader::{Budget, ReadError, Slice, Source};
use runtime::io::IoClass;
use runtime::time::{Instant, sleep, wall_micros};
use sstable::Access;
use std::rc::Rc;
use std::time::Duration;

/// One batch from the merge.
const BATCH: Budget = Budget { fragments_max: 128, bytes_max: 64 << 10 };

/// From here on, in thousandths, memtables and log press (*writes-first*); over that span more.
const PRESSED_MIN: u64 = 600;
const PRESSED_SPAN: u64 = 200;
/// The longest pause after a batch.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a merge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Done,
    GaveWay,
}

/// Does a job, unless somebody has taken its files or the table away meanwhile.
pub(super) async fn run(shard: &Shard, job: &Job, adjust: Adjust<'_>) -> Result<(), ReadError> {
    let Job { table, tablet, .. } = job;
    let _gate = pass_gate(table, 1).await;
    let present = tablet.sstables.borrow().clone();
    let is_there = |one: &Rc<sstable::Table>| present.iter().any(|other| Rc::ptr_eq(one, other));
    if table.dropped.get() || !job.inputs.iter().all(is_there) {
        return Ok(());
    }
    drop(present);
    let listed = shard.compactions.begin(table, job.kind(), &job.inputs);
    let mut merge = Merge {
        shard,
        job,
        inputs: job.inputs.clone(),
        outputs: Outputs::new(shard, job, adjust),
        progress: listed.progress.clone(),
    };
    match merge.all().await {
        Ok(Ended::Done) => listed.finish(),
        Ok(Ended::GaveWay) => merge.outputs.abort().await,
        Err(error) => {
            merge.outputs.abort().await;
            return Err(error);
        }
    }
    Ok(())
}

/// A merge that is under way.
struct Merge<'j> {
    shard: &'j Shard,
    job: &'j Job,
    /// Those that are still in the set.
    inputs: Vec<Rc<sstable::Table>>,
    outputs: Outputs<'j>,
    progress: Rc<Progress>,
}

impl Merge<'_> {
    async fn all(&mut self) -> Result<Ended, ReadError> {
        let mut source = source_of(self.job);
        let now = wall_micros() / 1_000_000;
        let mut filter = CompactionFilter::new(now, Box::new(|_| Purge::NEVER));
        let (mut batch, mut kept) = (Vec::new(), Vec::new());
        loop {
            if self.job.table.quiet_wanted.get() {
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
                if self.outputs.write(fragment).await? {
                    self.release(before).await;
                }
            }
            kept.clear();
            self.progress.bytes_written.set(self.outputs.bytes_written());
            match pause_factor(self.shard.pressed.get()) {
                0 => runtime::task::yield_if_needed().await,
                factor => sleep((begun.elapsed() * factor).min(PAUSE_MAX)).await,
            }
        }
        self.outputs.seal().await?;
        self.release(Some(Token::MAX)).await;
        Ok(Ended::Done)
    }

    fn count(&self, batch: &[Fragment]) {
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
        let over: Vec<_> = over;
        self.inputs = rest;
        let outputs = self.outputs.take_sealed();
        let bytes: u64 = outputs.iter().map(|one| one.disk_bytes()).sum();
        self.progress.bytes_out.set(self.progress.bytes_out.get() + bytes);
        let _removal = self.job.table.removals.acquire(1).await;
        self.job.tablet.replace(&over, outputs);
        for one in &over {
            self.job.table.remove_sstable(one.descriptor()).await;
        }
    }
}

fn source_of(job: &Job) -> Box<dyn Source> {
    let bound = |token, after| RingBound { token, key: None, after };
    let (start, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
    let sources = job.inputs.iter().map(|input| {
        let scope = sstable::Scope::Range { start: start.clone(), end: end.clone() };
        let access = Access::bypass(IoClass::Compaction);
        Box::new(input.read_checked(scope, Slice::full(), access)) as Box<dyn Source>
    });
    reader::merge(job.table.schema(), Direction::Forward, sources.collect())
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
