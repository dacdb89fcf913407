//! What a row cache counts.

use std::cell::Cell;

/// What a row cache holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCacheStats {
    /// Partitions that were looked up and of which something was known.
    pub partition_hits: u64,
    /// Partitions that were looked up and not known.
    pub partition_misses: u64,
    pub partition_insertions: u64,
    /// Partitions that went for lack of memory.
    pub partition_evictions: u64,
    /// Partitions that were invalidated.
    pub partition_removals: u64,
    /// Rows that were read from the cache.
    pub row_hits: u64,
    /// Rows that were read below it.
    pub row_misses: u64,
    pub row_insertions: u64,
    /// Rows that went for lack of memory.
    pub row_evictions: u64,
    /// Reads by way of the cache.
    pub reads: u64,
    /// Reads that had to read below the cache.
    pub reads_with_misses: u64,
    /// What was read below the cache and could not go into it.
    pub mispopulations: u64,
    /// Objects made in the arena.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Bytes of objects that were moved to be kept.
    pub moved_bytes: u64,
    /// Partitions that are cached.
    pub partitions: u64,
    /// Bytes in use: the arena and the index.
    pub bytes_used: u64,
    /// Bytes that may be in use.
    pub bytes_limit: u64,
}

/// The counters, which reading raises as well.
#[derive(Debug, Default)]
pub(super) struct Stats {
    partition_hits: Cell<u64>,
    partition_misses: Cell<u64>,
    partition_insertions: Cell<u64>,
    partition_evictions: Cell<u64>,
    partition_removals: Cell<u64>,
    row_hits: Cell<u64>,
    row_misses: Cell<u64>,
    row_insertions: Cell<u64>,
    row_evictions: Cell<u64>,
    reads: Cell<u64>,
    reads_with_misses: Cell<u64>,
    mispopulations: Cell<u64>,
}

fn add(cell: &Cell<u64>, count: usize) {
    cell.set(cell.get() + count as u64);
}

impl Stats {
    pub(super) fn add_lookup(&self, found: bool) {
        add(if found { &self.partition_hits } else { &self.partition_misses }, 1);
    }
    pub(super) fn add_insertions(&self, partitions: usize, rows: usize) {
        add(&self.partition_insertions, partitions);
        add(&self.row_insertions, rows);
    }
    pub(super) fn add_evictions(&self, partitions: usize, rows: usize) {
        add(&self.partition_evictions, partitions);
        add(&self.row_evictions, rows);
    }
    pub(super) fn add_removals(&self, partitions: usize) {
        add(&self.partition_removals, partitions);
    }
    pub(super) fn add_rows_read(&self, hits: usize, misses: usize) {
        add(&self.row_hits, hits);
        add(&self.row_misses, misses);
    }
    pub(super) fn add_read(&self) {
        add(&self.reads, 1);
    }
    pub(super) fn add_read_with_misses(&self) {
        add(&self.reads_with_misses, 1);
    }
    pub(super) fn add_mispopulation(&self) {
        add(&self.mispopulations, 1);
    }

    /// What was counted; the rest is zero.
    pub(super) fn read(&self) -> RowCacheStats {
        RowCacheStats {
            partition_hits: self.partition_hits.get(),
            partition_misses: self.partition_misses.get(),
            partition_insertions: self.partition_insertions.get(),
            partition_evictions: self.partition_evictions.get(),
            partition_removals: self.partition_removals.get(),
            row_hits: self.row_hits.get(),
            row_misses: self.row_misses.get(),
            row_insertions: self.row_insertions.get(),
            row_evictions: self.row_evictions.get(),
            reads: self.reads.get(),
            reads_with_misses: self.reads_with_misses.get(),
            mispopulations: self.mispopulations.get(),
            ..RowCacheStats::default()
        }
    }
}
