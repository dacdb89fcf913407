//! What flush and compaction keep of a stream.

use super::purge::{Outside, PurgeCounts};
use crate::fragment::Fragment;
use crate::row::{self, RowView};
use crate::tombstone::{Compacted, Purge, Tombstone};
use model::DecoratedKey;
use stdx::Bytes;

/// Tells what deletions of a partition may cover elsewhere.
pub type OutsideOf<'c> = Box<dyn FnMut(&DecoratedKey) -> Outside + 'c>;

/// Drops data that deletions cover, turns what has expired into deletions, forgets deletions that
/// may be purged; partitions of which nothing is left do not come out at all. For streams in
/// table order or reversed. Rows that stay as they are pass through without a copy.
pub struct CompactionFilter<'c> {
    /// Seconds since the epoch.
    now: i64,
    outside_of: OutsideOf<'c>,
    outside: Outside,
    purge: Purge,
    counts: PurgeCounts,
    /// The start of a partition of which nothing has come out yet.
    start: Option<Fragment>,
    partition: Tombstone,
    range: Tombstone,
    /// The range tombstone that holds in what came out.
    range_out: Tombstone,
    scratch: Vec<u8>,
}

impl<'c> CompactionFilter<'c> {
    /// `outside_of` is asked once per partition.
    pub fn new(now: i64, outside_of: OutsideOf<'c>) -> CompactionFilter<'c> {
        CompactionFilter {
            now,
            outside_of,
            outside: Outside::UNKNOWN,
            purge: Purge::NEVER,
            counts: PurgeCounts::default(),
            start: None,
            partition: Tombstone::NONE,
            range: Tombstone::NONE,
            range_out: Tombstone::NONE,
            scratch: Vec::new(),
        }
    }

    /// Takes a fragment and appends what is to be written.
    pub fn push(&mut self, fragment: Fragment, out: &mut Vec<Fragment>) {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                self.outside = (self.outside_of)(&key);
                self.purge = self.outside.purge();
                self.note(tombstone, Tombstone::NONE);
                self.partition = tombstone;
                self.range = Tombstone::NONE;
                self.range_out = Tombstone::NONE;
                let tombstone = self.purge.retain(tombstone);
                self.start = Some(Fragment::PartitionStart { key, tombstone });
                if !tombstone.is_none() {
                    self.emit_start(out);
                }
            }
            Fragment::StaticRow { row } => {
                if let Some(row) = self.compact(row, self.partition) {
                    self.emit(Fragment::StaticRow { row }, out);
                }
            }
            Fragment::Row { key, row } => {
                let shadow = self.partition.merge(self.range);
                if let Some(row) = self.compact(row, shadow) {
                    self.emit(Fragment::Row { key, row }, out);
                }
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                // What begins nothing ends what was before it.
                let of = if tombstone.is_none() { self.range } else { tombstone };
                self.note(of, self.partition);
                self.range = tombstone;
                let covered = self.partition.subsumes(tombstone);
                let kept = if covered { Tombstone::NONE } else { self.purge.retain(tombstone) };
                if kept != self.range_out {
                    self.range_out = kept;
                    self.emit(Fragment::RangeTombstoneChange { position, tombstone: kept }, out);
                }
            }
            Fragment::PartitionEnd => {
                if self.start.take().is_none() {
                    out.push(Fragment::PartitionEnd);
                }
            }
        }
    }

    /// What became so far of deletions that were old enough. A partition's deletion counts once,
    /// one of a range for each of its ends, one of a row, cell or collection once, with what has
    /// expired; what another one covers does not count.
    pub fn counts(&self) -> PurgeCounts {
        self.counts
    }

    fn note(&mut self, deletion: Tombstone, shadow: Tombstone) {
        if !shadow.subsumes(deletion) {
            self.counts.note(&self.outside, deletion.timestamp, deletion.deletion_time);
        }
    }

    fn compact(&mut self, row: Bytes, shadow: Tombstone) -> Option<Bytes> {
        self.scratch.clear();
        let view = RowView::trusted(&row);
        if shadow.is_none() && row::is_all_live(view) {
            return Some(row);
        }
        if self.outside.gc_before != i64::MIN {
            let (counts, outside) = (&mut self.counts, &self.outside);
            row::for_each_deletion(view, shadow, self.now, &mut |timestamp, deletion_time| {
                counts.note(outside, timestamp, deletion_time);
            });
        }
        match row::compact(view, shadow, self.now, &self.purge, &mut self.scratch) {
            Compacted::Unchanged => Some(row),
            Compacted::Changed => Some(Bytes::copy_from(&self.scratch)),
            Compacted::Empty => None,
        }
    }

    fn emit(&mut self, fragment: Fragment, out: &mut Vec<Fragment>) {
        self.emit_start(out);
        out.push(fragment);
    }

    fn emit_start(&mut self, out: &mut Vec<Fragment>) {
        out.extend(self.start.take());
    }
}
