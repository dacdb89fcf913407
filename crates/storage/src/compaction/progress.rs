//! What is merged at present, and what was: for those who watch.

use super::disk_space::{Room, part_until};
use super::files::part_of_tablet;
use super::pace::Pacer;
use super::report::{
    CompactedSstable, CompactionKind, CompactionStats, FinishedCompaction, MILLION,
    RunningCompaction,
};
use super::weights::Weights;
use crate::table::{Table, Tablet};
use model::{TableId, TableSchema, Token, Uuid};
use mutation::PurgeCounts;
use reader::ReadError;
use runtime::sync::{Notify, Semaphore};
use runtime::time::{Instant, wall_micros};
use sstable::Descriptor;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The strategy of tables whose options do not name one.
const STRATEGY_DEFAULT: &str = "IncrementalCompactionStrategy";

/// Ended merges that nobody has asked for are kept up to this number.
const FINISHED_MAX: usize = 256;
/// So many of those that ended are known by how they did.
const ENDS_MAX: usize = 256;

/// The merges of a shard.
pub(crate) struct Compactions {
    running: RefCell<Vec<Rc<Progress>>>,
    finished: RefCell<VecDeque<FinishedCompaction>>,
    /// The last ones that ended, and whether they did what they were to do.
    ends: RefCell<VecDeque<(Uuid, bool)>>,
    pub(crate) weights: Weights,
    /// How fast they go.
    pub(crate) pacer: Pacer,
    /// What they were promised of the disk.
    pub(crate) room: Rc<Room>,
    totals: Cell<Totals>,
    /// Held by what somebody asked for to be done to SSTables one by one.
    pub(crate) upkeep: Semaphore,
    /// When a log was asked last to let go of what was flushed.
    pub(crate) log_asked: Cell<Option<Instant>>,
}

/// What merges have done since the shard started.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    finished: u64,
    failed: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// What a merge tells of itself.
pub(crate) struct Progress {
    begun: RunningCompaction,
    pub(crate) partitions: Cell<u64>,
    pub(crate) rows: Cell<u64>,
    pub(crate) bytes_written: Cell<u64>,
    /// Bytes of data gone through so far, where an input is read from one end to the other.
    pub(crate) bytes_read: Cell<u64>,
    inputs: Vec<Descriptor>,
    /// The same, for those who ask later.
    read: Vec<CompactedSstable>,
    written: RefCell<Vec<CompactedSstable>>,
    /// When it has ended.
    counted: RefCell<(Vec<(u32, u64)>, PurgeCounts)>,
    /// Of the inputs, what it reads.
    extents: Vec<Extent>,
    /// The last token that was merged.
    pub(crate) merged_until: Cell<Option<Token>>,
    /// What the table's options call its strategy.
    strategy: String,
    /// Somebody asked for it to end.
    stop_wanted: Cell<bool>,
    /// It has done what it was to do.
    is_done: Cell<bool>,
    /// Told when it has ended.
    ended: Notify,
}

/// What a job reads of an input.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// The first and the last.
    tokens: (Token, Token),
    /// Before compression.
    data_bytes: f64,
}

/// How much of these is done, in millionths: what they have before the partition of the token
/// `at`, if they spread evenly over their tokens. Partitions may differ widely, up to one that is
/// nearly all: it is at least what has passed, in bytes of data.
fn done_millionths(extents: &[Extent], at: Option<Token>, bytes_passed: u64) -> u32 {
    let all: f64 = extents.iter().map(|one| one.data_bytes).sum();
    let before = at.map(|at| Token(at.0.saturating_sub(1)));
    let bytes_of =
        |one: &Extent| before.map_or(0.0, |before| part_until(one.tokens, before) * one.data_bytes);
    let done = extents.iter().map(bytes_of).sum::<f64>().max(bytes_passed as f64);
    debug_assert!(0.0 <= done && 0.0 <= all, "done: {done} of {all}");
    (done / all.max(1.0) * f64::from(MILLION)).min(f64::from(MILLION)) as u32
}

/// A merge that is listed until this goes.
pub(crate) struct Listed<'c> {
    list: &'c Compactions,
    pub(crate) progress: Rc<Progress>,
}

impl Progress {
    fn now(&self) -> RunningCompaction {
        debug_assert!(!self.inputs.is_empty(), "a merge of nothing");
        let passed = self.bytes_written.get().max(self.bytes_read.get());
        RunningCompaction {
            done_millionths: done_millionths(&self.extents, self.merged_until.get(), passed),
            partitions_done: self.partitions.get(),
            rows_done: self.rows.get(),
            bytes_written: self.bytes_written.get(),
            ..self.begun.clone()
        }
    }

    /// Whether somebody asked for it to end.
    pub(crate) fn is_to_stop(&self) -> bool {
        self.stop_wanted.get()
    }

    /// The error says that an operator asked for it to end.
    pub(crate) fn check_stop(&self) -> Result<(), ReadError> {
        match self.stop_wanted.get() {
            true => Err(ReadError::Stopped),
            false => Ok(()),
        }
    }

    /// These are in the set now.
    pub(crate) fn add_outputs(&self, outputs: &[Rc<sstable::Table>]) {
        debug_assert!(
            !outputs.iter().any(|one| self.inputs.contains(&one.descriptor())),
            "inputs-outlive-output: an output has the name of an input"
        );
        self.written.borrow_mut().extend(outputs.iter().map(CompactedSstable::of));
    }

    /// What was read has been merged so ([`FinishedCompaction::merged`]), and became of deletions.
    pub(crate) fn set_counts(&self, merged: Vec<(u32, u64)>, purges: PurgeCounts) {
        self.counted.replace((merged, purges));
    }

    fn finished(&self) -> FinishedCompaction {
        let (outputs, (merged, purges)) = (self.written.take(), self.counted.take());
        FinishedCompaction {
            job: RunningCompaction { done_millionths: MILLION, ..self.now() },
            ended_micros: wall_micros(),
            bytes_out: outputs.iter().map(|one| one.disk_bytes).sum(),
            merged,
            purges,
            inputs: self.read.clone(),
            outputs,
        }
    }

    fn log(&self, done: &FinishedCompaction) {
        let RunningCompaction { keyspace, name, kind, bytes_in, started_micros, .. } = &done.job;
        let millis = (done.ended_micros - started_micros).div_euclid(1000);
        let (files_in, files_out) = (done.inputs.len(), done.outputs.len());
        let (bytes_out, rows, strategy) = (done.bytes_out, done.job.rows_done, &self.strategy);
        tracing::info!(
            "{kind} of {keyspace}.{name}: {files_in} SSTables of {bytes_in} bytes became \
             {files_out} of {bytes_out}, {rows} rows were read, in {millis} ms, by {strategy}"
        );
    }
}

/// Which of these tokens lie in a range, after its first token, up to its second.
fn clipped((first, last): (Token, Token), range: Option<(Token, Token)>) -> (Token, Token) {
    let Some((after, until)) = range else { return (first, last) };
    (first.max(Token(after.0.saturating_add(1))), last.min(until))
}

/// The name of the strategy of a table.
fn strategy_of(schema: &TableSchema) -> String {
    let class = schema.options.compaction.iter().find(|(name, _)| name == "class");
    class.map_or(STRATEGY_DEFAULT, |(_, class)| class).to_string()
}

impl Default for Compactions {
    fn default() -> Compactions {
        Compactions {
            running: RefCell::default(),
            finished: RefCell::default(),
            ends: RefCell::default(),
            weights: Weights::default(),
            pacer: Pacer::default(),
            room: Rc::default(),
            totals: Cell::default(),
            upkeep: Semaphore::new(1, usize::MAX),
            log_asked: Cell::new(None),
        }
    }
}

impl Compactions {
    /// Lists a merge of what its inputs have of this tablet; `None`: of all.
    pub(crate) fn begin(
        &self,
        table: &Table,
        kind: CompactionKind,
        inputs: &[Rc<sstable::Table>],
        tablet: Option<&Tablet>,
    ) -> Listed<'_> {
        let schema = table.schema();
        assert!(!inputs.is_empty(), "a merge of nothing");
        debug_assert!(
            // Of what lies in several tablets each may write its part, or look at the whole.
            inputs.iter().all(|one| table.is_shared(one) || !self.has_input(table.id, one)),
            "one-at-a-time: an SSTable of two jobs, one of them {}: {inputs:?}",
            kind.name()
        );
        let tokens = |one: &Rc<sstable::Table>| (one.first_key().token, one.last_key().token);
        let bytes = |one: &Rc<sstable::Table>, of: fn(&Rc<sstable::Table>) -> u64| {
            of(one) as f64 * tablet.map_or(1.0, |tablet| part_of_tablet(tokens(one), tablet))
        };
        let sum = |of: fn(&Rc<sstable::Table>) -> u64| {
            inputs.iter().map(|one| bytes(one, of)).sum::<f64>().round() as u64
        };
        let extents = inputs.iter().map(|one| Extent {
            tokens: clipped(tokens(one), tablet.map(|tablet| tablet.range)),
            data_bytes: bytes(one, |one| one.data_bytes()),
        });
        let begun = RunningCompaction {
            id: super::random_uuid(),
            table: table.id,
            keyspace: schema.keyspace.clone(),
            name: schema.name.clone(),
            kind: kind.name(),
            started_micros: wall_micros(),
            bytes_in: sum(|one| one.disk_bytes()),
            partitions: sum(|one| one.partition_count()),
            partitions_done: 0,
            rows_done: 0,
            bytes_written: 0,
            done_millionths: 0,
        };
        let progress = Rc::new(Progress {
            begun,
            partitions: Cell::new(0),
            rows: Cell::new(0),
            bytes_written: Cell::new(0),
            bytes_read: Cell::new(0),
            read: inputs.iter().map(CompactedSstable::of).collect(),
            written: RefCell::default(),
            counted: RefCell::default(),
            inputs: inputs.iter().map(|one| one.descriptor()).collect(),
            extents: extents.collect(),
            merged_until: Cell::new(None),
            strategy: strategy_of(&schema),
            stop_wanted: Cell::new(false),
            is_done: Cell::new(false),
            ended: Notify::new(),
        });
        self.running.borrow_mut().push(progress.clone());
        Listed { list: self, progress }
    }

    /// Whether a job that runs has this SSTable.
    fn has_input(&self, table: TableId, one: &sstable::Table) -> bool {
        let running = self.running.borrow();
        let mut of_table = running.iter().filter(|job| job.begun.table == table);
        of_table.any(|job| job.inputs.contains(&one.descriptor()))
    }

    pub(crate) fn running(&self) -> Vec<RunningCompaction> {
        self.running.borrow().iter().map(|progress| progress.now()).collect()
    }

    /// The part of an SSTable, with these tokens, that a job has merged.
    pub(crate) fn merged_of(&self, one: Descriptor, tokens: (Token, Token)) -> f64 {
        let running = self.running.borrow();
        let job = running.iter().find(|job| job.inputs.contains(&one));
        let until = job.and_then(|job| job.merged_until.get());
        let part = until.map_or(0.0, |until| part_until(tokens, until));
        debug_assert!((0.0..=1.0).contains(&part), "a part of an SSTable: {part}");
        part
    }

    /// One has met an error.
    pub(crate) fn count_failure(&self) {
        assert!(!self.running.borrow().is_empty(), "what failed was not listed");
        let totals = self.totals.get();
        self.totals.set(Totals { failed: totals.failed + 1, ..totals });
    }

    pub(crate) fn stats(&self) -> CompactionStats {
        let Totals { finished, failed, bytes_in, bytes_out } = self.totals.get();
        CompactionStats {
            running: self.running.borrow().len(),
            held: self.room.held_count(),
            finished,
            failed,
            bytes_in,
            bytes_out,
            pace: self.pacer.stats(),
        }
    }

    /// Asks those of that kind to end, of these tables, or of all.
    pub(crate) fn stop(&self, kind: CompactionKind, tables: Option<&[TableId]>) {
        for one in self.running.borrow().iter() {
            let of_table = tables.is_none_or(|tables| tables.contains(&one.begun.table));
            if of_table && one.begun.kind == kind.name() {
                one.stop_wanted.set(true);
            }
        }
    }

    /// Asks this one to end; whether it is under way.
    pub(crate) fn stop_one(&self, id: Uuid) -> bool {
        let running = self.running.borrow();
        let found = running.iter().find(|one| one.begun.id == id);
        found.inspect(|one| one.stop_wanted.set(true)).is_some()
    }

    /// Waits until this one has ended: whether it did what it was to do. `None`: it is not one of
    /// those that run, nor of the last that ended.
    pub(crate) async fn end_of(&self, id: Uuid) -> Option<bool> {
        let of_id = |one: &&Rc<Progress>| one.begun.id == id;
        let running = self.running.borrow().iter().find(of_id).cloned();
        if let Some(job) = running {
            job.ended.notified().await;
            return Some(job.is_done.get());
        }
        let ends = self.ends.borrow();
        ends.iter().find(|(one, _)| *one == id).map(|(_, is_done)| *is_done)
    }

    pub(crate) fn take_finished(&self) -> Vec<FinishedCompaction> {
        self.finished.take().into()
    }
}

impl Listed<'_> {
    /// It has done what it was to do.
    pub(crate) fn finish(self) {
        assert!(!self.progress.is_done.replace(true), "a merge ends once");
        let done = self.progress.finished();
        self.progress.log(&done);
        let totals = self.list.totals.get();
        self.list.totals.set(Totals {
            finished: totals.finished + 1,
            bytes_in: totals.bytes_in + done.job.bytes_in,
            bytes_out: totals.bytes_out + done.bytes_out,
            ..totals
        });
        let mut finished = self.list.finished.borrow_mut();
        if FINISHED_MAX <= finished.len() {
            finished.pop_front();
        }
        finished.push_back(done);
        assert!(finished.len() <= FINISHED_MAX, "bounded: {} are kept", finished.len());
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let before = self.list.running.borrow().len();
        self.list.running.borrow_mut().retain(|one| !Rc::ptr_eq(one, &self.progress));
        assert!(self.list.running.borrow().len() + 1 == before, "a merge is listed once");
        let mut ends = self.list.ends.borrow_mut();
        if ENDS_MAX <= ends.len() {
            ends.pop_front();
        }
        assert!(ends.len() < ENDS_MAX, "bounded: {} ends are kept", ends.len());
        ends.push_back((self.progress.begun.id, self.progress.is_done.get()));
        self.progress.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_goes_by_tokens_and_by_bytes() {
        let extent =
            |first, last, data_bytes| Extent { tokens: (Token(first), Token(last)), data_bytes };
        let two = [extent(1, 100, 3000.0), extent(51, 100, 1000.0)];
        let one_partition = [extent(7, 7, 1000.0)];
        let check = |extents: &[Extent], at: Option<i64>, passed, expected| {
            assert_eq!(
                done_millionths(extents, at.map(Token), passed),
                expected,
                "{at:?} {passed}"
            );
        };
        check(&two, None, 0, 0);
        // The partition at hand is not done.
        check(&two, Some(1), 0, 0);
        check(&two, Some(51), 0, 375_000);
        check(&two, Some(76), 0, 687_500);
        // Much of it overlaps or is left out, or little, and one partition is large.
        check(&two, Some(76), 100, 687_500);
        check(&two, Some(76), 3000, 750_000);
        check(&two, Some(100), 5000, MILLION);
        check(&one_partition, Some(7), 0, 0);
        check(&one_partition, Some(7), 300, 300_000);
        check(&one_partition, None, 300, 300_000);
        check(&[extent(i64::MIN, i64::MAX, 1000.0)], Some(0), 0, 500_000);
        check(&[extent(i64::MIN, i64::MAX, 1000.0)], Some(i64::MIN), 0, 0);
        check(&[], Some(1), 0, 0);
        // Nothing of it lies in the range.
        check(&[extent(11, 10, 0.0)], Some(12), 0, 0);
    }

    #[test]
    fn a_range_leaves_its_tokens() {
        let check = |range: Option<(i64, i64)>, expected: (i64, i64)| {
            let range = range.map(|(after, until)| (Token(after), Token(until)));
            let (first, last) = clipped((Token(10), Token(20)), range);
            assert_eq!((first.0, last.0), expected, "{range:?}");
        };
        check(None, (10, 20));
        check(Some((i64::MIN, i64::MAX)), (10, 20));
        check(Some((10, 15)), (11, 15));
        check(Some((9, 20)), (10, 20));
    }
}
