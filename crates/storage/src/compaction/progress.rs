//! What is merged at present, and what was: for those who watch.

use super::weights::Weights;
use crate::table::Table;
use model::{TableId, TableSchema, Uuid};
use reader::ReadError;
use runtime::sync::Semaphore;
use runtime::time::{Instant, wall_micros};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// The strategy of tables whose options do not name one.
const STRATEGY_DEFAULT: &str = "IncrementalCompactionStrategy";

/// Ended merges that nobody has asked for are kept up to this number.
const FINISHED_MAX: usize = 256;

/// A merge that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningCompaction {
    /// Its own.
    pub id: Uuid,
    /// Of which table.
    pub table: TableId,
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// What is done.
    pub kind: &'static str,
    /// When it began, in microseconds since 1970.
    pub started_micros: i64,
    /// Bytes of its inputs on the disk.
    pub bytes_in: u64,
    /// Partitions of its inputs, about; one that several of them have counts for each.
    pub partitions: u64,
    /// Partitions merged so far.
    pub partitions_done: u64,
    /// Rows merged so far.
    pub rows_done: u64,
    /// Bytes of data written so far, before compression.
    pub bytes_written: u64,
}

/// A merge that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedCompaction {
    /// As it was when it ended.
    pub job: RunningCompaction,
    /// When it ended, in microseconds since 1970.
    pub ended_micros: i64,
    /// Bytes of its outputs on the disk.
    pub bytes_out: u64,
}

/// Why a compaction ended that somebody asked to end.
const STOPPED: &str = "the compaction was stopped, as somebody asked for";

/// What is done to SSTables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// What the strategy of a table asks for.
    Minor,
    /// A merge of all, which somebody asked for.
    Major,
    /// Each is written again without what is wrong in it.
    Scrub,
    /// Each is read, and put aside where something is wrong.
    Validation,
    /// Each is written again in the present format.
    Upgrade,
    /// Of one that lies in several tablets each tablet writes its part.
    Reshard,
}

impl CompactionKind {
    /// What lists call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            CompactionKind::Minor => "Compaction",
            CompactionKind::Major => "Major",
            CompactionKind::Scrub => "Scrub",
            CompactionKind::Validation => "Validation",
            CompactionKind::Upgrade => "Upgrade",
            CompactionKind::Reshard => "Reshard",
        }
    }
}

/// The merges of a shard.
pub(crate) struct Compactions {
    running: RefCell<Vec<Rc<Progress>>>,
    finished: RefCell<VecDeque<FinishedCompaction>>,
    pub(super) weights: Weights,
    /// Held by what somebody asked for to be done to SSTables one by one.
    pub(super) upkeep: Semaphore,
    /// When a log was asked last to let go of what was flushed.
    pub(super) log_asked: Cell<Option<Instant>>,
}

/// What a merge tells of itself.
pub(super) struct Progress {
    begun: RunningCompaction,
    pub(super) partitions: Cell<u64>,
    pub(super) rows: Cell<u64>,
    pub(super) bytes_written: Cell<u64>,
    /// Bytes of the outputs on the disk.
    pub(super) bytes_out: Cell<u64>,
    files_in: usize,
    pub(super) files_out: Cell<usize>,
    /// What the table's options call its strategy.
    strategy: String,
    /// Somebody asked for it to end.
    stop_wanted: Cell<bool>,
}

/// A merge that is listed until this goes.
pub(super) struct Listed<'c> {
    list: &'c Compactions,
    pub(super) progress: Rc<Progress>,
}

impl Progress {
    fn now(&self) -> RunningCompaction {
        RunningCompaction {
            partitions_done: self.partitions.get(),
            rows_done: self.rows.get(),
            bytes_written: self.bytes_written.get(),
            ..self.begun.clone()
        }
    }

    /// The error says that somebody asked for it to end.
    pub(super) fn check_stop(&self) -> Result<(), ReadError> {
        match self.stop_wanted.get() {
            true => Err(ReadError::Overloaded(STOPPED.to_string())),
            false => Ok(()),
        }
    }

    fn log(&self, done: &FinishedCompaction) {
        let RunningCompaction { keyspace, name, kind, bytes_in, started_micros, .. } = &done.job;
        let millis = (done.ended_micros - started_micros).div_euclid(1000);
        let (files_in, files_out) = (self.files_in, self.files_out.get());
        let (bytes_out, rows, strategy) = (done.bytes_out, done.job.rows_done, &self.strategy);
        tracing::info!(
            "{kind} of {keyspace}.{name}: {files_in} SSTables of {bytes_in} bytes became \
             {files_out} of {bytes_out}, {rows} rows were read, in {millis} ms, by {strategy}"
        );
    }
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
            weights: Weights::default(),
            upkeep: Semaphore::new(1, usize::MAX),
            log_asked: Cell::new(None),
        }
    }
}

impl Compactions {
    /// Lists a merge of so much of its inputs: 1 is all.
    pub(super) fn begin(
        &self,
        table: &Table,
        kind: CompactionKind,
        inputs: &[Rc<sstable::Table>],
        part: f64,
    ) -> Listed<'_> {
        let schema = table.schema();
        let sum = |of: fn(&Rc<sstable::Table>) -> u64| {
            (inputs.iter().map(of).sum::<u64>() as f64 * part).round() as u64
        };
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
        };
        let progress = Rc::new(Progress {
            begun,
            partitions: Cell::new(0),
            rows: Cell::new(0),
            bytes_written: Cell::new(0),
            bytes_out: Cell::new(0),
            files_in: inputs.len(),
            files_out: Cell::new(0),
            strategy: strategy_of(&schema),
            stop_wanted: Cell::new(false),
        });
        self.running.borrow_mut().push(progress.clone());
        Listed { list: self, progress }
    }

    pub(crate) fn running(&self) -> Vec<RunningCompaction> {
        self.running.borrow().iter().map(|progress| progress.now()).collect()
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

    pub(crate) fn take_finished(&self) -> Vec<FinishedCompaction> {
        self.finished.take().into()
    }
}

impl Listed<'_> {
    /// It has done what it was to do.
    pub(super) fn finish(self) {
        let progress = &self.progress;
        let done = FinishedCompaction {
            job: progress.now(),
            ended_micros: wall_micros(),
            bytes_out: progress.bytes_out.get(),
        };
        progress.log(&done);
        let mut finished = self.list.finished.borrow_mut();
        if FINISHED_MAX <= finished.len() {
            finished.pop_front();
        }
        finished.push_back(done);
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.list.running.borrow_mut().retain(|one| !Rc::ptr_eq(one, &self.progress));
    }
}
