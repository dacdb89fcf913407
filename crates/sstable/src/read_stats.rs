//! What reading SSTables did on a shard, and memory that its reads hand on. One object per shard,
//! whatever cache a read uses.

use crate::spares::Spares;
use std::cell::RefCell;
use std::rc::Rc;

/// Classes of [`ReadCounts::data_ranges`]: class `n` has the ranges of up to `512 << n` bytes, the
/// last one all that are longer.
pub const RANGE_CLASSES: usize = 16;

/// Counters since the start of the shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Reads of one partition.
    pub single_reads: u64,
    /// Reads of a range of partitions.
    pub range_reads: u64,
    /// Partitions that were opened by the index.
    pub partition_seeks: u64,
    /// Keys that the filter let through.
    pub filter_positives: u64,
    /// Of these, keys that were not there.
    pub filter_false_positives: u64,
    /// Requests for data.
    pub data_reads: u64,
    /// Bytes that they asked for, uncompressed.
    pub data_bytes: u64,
    /// How often the consumer had to wait for data.
    pub data_waits: u64,
    /// Bytes that were read and dropped before the consumer came to them.
    pub discarded_bytes: u64,
    /// Steps in indexes of rows.
    pub block_steps: u64,
    /// Index pages that such steps had to wait for.
    pub block_misses: u64,
    /// Stretches of data that reads asked for, by length.
    pub data_ranges: [u64; RANGE_CLASSES],
}

/// The counters of a shard, and what its reads hand on.
#[derive(Debug, Default)]
pub struct ReadStats {
    counts: RefCell<ReadCounts>,
    spares: Spares,
}

impl ReadStats {
    /// The one of this shard.
    pub fn of_shard() -> Rc<ReadStats> {
        match runtime::local::try_get::<ReadStats>() {
            Some(stats) => stats,
            None => {
                let stats = Rc::new(ReadStats::default());
                runtime::local::set(stats.clone());
                stats
            }
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> ReadCounts {
        *self.counts.borrow()
    }

    /// Memory that reads hand on.
    pub(crate) fn spares(&self) -> &Spares {
        &self.spares
    }

    /// Counts.
    pub fn add(&self, change: impl FnOnce(&mut ReadCounts)) {
        change(&mut self.counts.borrow_mut());
    }

    /// Counts a stretch of data.
    pub fn add_range(&self, bytes: u64) {
        let class = (bytes.div_ceil(512).max(1).next_power_of_two().trailing_zeros()) as usize;
        debug_assert!(
            class == 0 || 512u64 << (class - 1) < bytes,
            "class {class} of {bytes} bytes"
        );
        self.add(|counts| counts.data_ranges[class.min(RANGE_CLASSES - 1)] += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted_by_length() {
        let check = |bytes: u64, class: usize| {
            let stats = ReadStats::default();
            stats.add_range(bytes);
            assert_eq!(stats.counts().data_ranges[class], 1, "{bytes}");
        };
        check(0, 0);
        check(512, 0);
        check(513, 1);
        check(2048, 2);
        check(u64::MAX / 2, RANGE_CLASSES - 1);
    }
}
