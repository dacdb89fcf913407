//! What a merge was, once it has ended: for those who keep a history.
//!
//! Counting costs a merge an addition for each fragment, and nothing else for what is not a
//! deletion; names are noted once for each SSTable.

use super::progress::RunningCompaction;
use mutation::PurgeCounts;
use sstable::Generation;
use std::rc::Rc;

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
