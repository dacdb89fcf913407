//! What there is to tell of merges, while they run and once they have ended: for those who watch,
//! and for those who keep a history.
//!
//! Counting costs a merge an addition for each fragment, and nothing else for what is not a
//! deletion; names are noted once for each SSTable.

use super::pace::PaceStats;
use model::{TableId, Uuid};
use mutation::PurgeCounts;
use sstable::Generation;
use std::rc::Rc;
use std::time::Duration;

/// All of a job.
pub(super) const MILLION: u32 = 1_000_000;

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
    /// How much of its inputs is done, in millionths of their data, about.
    pub done_millionths: u32,
}

impl RunningCompaction {
    /// How much of its inputs is done, from 0 to 1: the one figure of all that show it.
    pub fn done(&self) -> f64 {
        f64::from(self.done_millionths.min(MILLION)) / f64::from(MILLION)
    }

    /// The same in bytes of its inputs on the disk.
    pub fn bytes_done(&self) -> u64 {
        debug_assert!((0.0..=1.0).contains(&self.done()), "done: {}", self.done());
        (self.bytes_in as f64 * self.done()) as u64
    }

    /// How long it goes on, seen at `now_micros` since 1970, if the rest takes as long as what is
    /// done did, byte for byte; `None`: nothing is done yet, or the clock went back.
    pub fn remaining(&self, now_micros: i64) -> Option<Duration> {
        let elapsed = u64::try_from(now_micros.checked_sub(self.started_micros)?).ok()?;
        let done = self.done_millionths.min(MILLION);
        if done == 0 {
            return None;
        }
        let left = u128::from(elapsed) * u128::from(MILLION - done) / u128::from(done);
        Some(Duration::from_micros(u64::try_from(left).unwrap_or(u64::MAX)))
    }
}

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
    /// Ranges of tokens go: each is removed, or written again without them.
    Cleanup,
}

impl CompactionKind {
    /// What lists call it.
    pub const fn name(self) -> &'static str {
        match self {
            CompactionKind::Minor => "Compaction",
            CompactionKind::Major => "Major",
            CompactionKind::Scrub => "Scrub",
            CompactionKind::Validation => "Validation",
            CompactionKind::Upgrade => "Upgrade",
            CompactionKind::Reshard => "Reshard",
            CompactionKind::Cleanup => "Cleanup",
        }
    }
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
    /// How many fragments so many of its inputs had, by the number of inputs: starts and ends of
    /// partitions, rows, changes of range deletions. Empty where nothing was merged.
    pub merged: Vec<(u32, u64)>,
    /// What became of deletions that were old enough to be forgotten.
    pub purges: PurgeCounts,
    /// What it read.
    pub inputs: Vec<CompactedSstable>,
    /// What it wrote.
    pub outputs: Vec<CompactedSstable>,
}

/// An SSTable that a merge read or wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactedSstable {
    /// Its name.
    pub generation: Generation,
    /// What wrote it, as it says itself.
    pub origin: String,
    /// Bytes on the disk.
    pub disk_bytes: u64,
}

impl CompactedSstable {
    pub(super) fn of(one: &Rc<sstable::Table>) -> CompactedSstable {
        CompactedSstable {
            generation: one.descriptor().generation,
            origin: one.scylla().origin.clone(),
            disk_bytes: one.disk_bytes(),
        }
    }
}

/// The merges of a shard in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CompactionStats {
    /// Those that run.
    pub running: usize,
    /// Those that could begin if the disk had room for them.
    pub held: usize,
    /// Those that have ended since the shard started.
    pub finished: u64,
    /// Those that met an error.
    pub failed: u64,
    /// Bytes on the disk of the inputs of those that have ended.
    pub bytes_in: u64,
    /// The same of their outputs.
    pub bytes_out: u64,
    /// How fast they go, and how much there is to do.
    pub pace: PaceStats,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_is_done() {
        let check = |done_millionths, now_micros: i64, expected: Option<u64>| {
            let job = RunningCompaction {
                id: Uuid::nil(),
                table: Uuid::nil(),
                keyspace: String::new(),
                name: String::new(),
                kind: "Compaction",
                started_micros: 5_000_000,
                bytes_in: 0,
                partitions: 0,
                partitions_done: 0,
                rows_done: 0,
                bytes_written: 0,
                done_millionths,
            };
            let left = job.remaining(now_micros).map(|left| left.as_micros() as u64);
            assert_eq!(left, expected, "{done_millionths} at {now_micros}");
        };
        check(0, 9_000_000, None);
        check(1, 5_000_000, Some(0));
        check(250_000, 6_000_000, Some(3_000_000));
        check(500_000, 6_000_000, Some(1_000_000));
        check(999_999, 5_999_999, Some(1));
        check(MILLION, 6_000_000, Some(0));
        check(2 * MILLION, 6_000_000, Some(0));
        // The clock went back.
        check(500_000, 4_999_999, None);
        check(500_000, i64::MIN, None);
        check(1, i64::MAX, Some(u64::MAX));
    }
}
