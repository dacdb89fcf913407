//! What may be purged of a partition, what keeps the rest, and how often either happened.

use crate::tombstone::Purge;

/// What lies outside of a compaction and may be covered by deletions of a partition: the least
/// timestamps, by where it lies; `i64::MAX` where there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Seconds since the epoch: deletions made before this are old enough.
    pub gc_before: i64,
    /// Of what a restart would bring back from a log.
    pub log: i64,
    /// Of what memtables have.
    pub memtables: i64,
    /// Of what other SSTables have.
    pub sstables: i64,
}

impl Outside {
    /// Nobody knows what there is: everything is kept, and nothing of it was tried.
    pub const UNKNOWN: Outside =
        Outside { gc_before: i64::MIN, log: i64::MIN, memtables: i64::MIN, sstables: i64::MIN };

    /// What may be forgotten.
    pub fn purge(&self) -> Purge {
        let timestamp_before = self.log.min(self.memtables).min(self.sstables);
        Purge { gc_before: self.gc_before, timestamp_before }
    }
}

/// Deletions that were old enough to be forgotten, and older than what the log would bring back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeCounts {
    /// All of them.
    pub tried: u64,
    /// Those that stay because a memtable may have what they cover.
    pub kept_for_memtables: u64,
    /// Those that stay because of another SSTable, and of no memtable.
    pub kept_for_sstables: u64,
}

impl PurgeCounts {
    /// Counts a deletion that nothing else covers.
    pub(crate) fn note(&mut self, outside: &Outside, timestamp: i64, deletion_time: i64) {
        if outside.gc_before <= deletion_time || outside.log <= timestamp {
            return;
        }
        self.tried += 1;
        if outside.memtables <= timestamp {
            self.kept_for_memtables += 1;
        } else if outside.sstables <= timestamp {
            self.kept_for_sstables += 1;
        }
    }
}
