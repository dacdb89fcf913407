//! Deletions: what a tombstone covers, which of two wins, and when one may be forgotten.

/// The timestamp of nothing: older than every write.
pub const NO_TIMESTAMP: i64 = i64::MIN;

/// A deletion. Covers data with `timestamp <= self.timestamp`. Ordered by timestamp, then
/// deletion time; merging takes the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tombstone {
    /// Microseconds; [`NO_TIMESTAMP`] where there is no deletion.
    pub timestamp: i64,
    /// Seconds since the epoch: when it was made, for garbage collection.
    pub deletion_time: i64,
}

impl Tombstone {
    /// No deletion.
    pub const NONE: Tombstone = Tombstone { timestamp: NO_TIMESTAMP, deletion_time: 0 };

    /// A deletion of what was written at or before `timestamp`, made at `deletion_time`.
    pub const fn new(timestamp: i64, deletion_time: i64) -> Tombstone {
        Tombstone { timestamp, deletion_time }
    }
    /// Whether there is none.
    pub const fn is_none(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }
    /// Whether it deletes data written at `timestamp`.
    pub const fn covers(&self, timestamp: i64) -> bool {
        !self.is_none() && timestamp <= self.timestamp
    }
    /// Whether it deletes all that `other` does, so that `other` need not be kept beside it.
    pub fn subsumes(&self, other: Tombstone) -> bool {
        other.is_none() || other <= *self
    }
    /// The one that holds where both do.
    #[must_use]
    pub fn merge(self, other: Tombstone) -> Tombstone {
        if other.is_none() || (!self.is_none() && other < self) { self } else { other }
    }
}

/// Which tombstones of a partition may be forgotten: those made before `gc_before` that are older
/// than all data that this compaction does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Seconds since the epoch: tombstones with a deletion time before this are old enough.
    pub gc_before: i64,
    /// Microseconds: the least timestamp of what lies outside of the compaction.
    pub timestamp_before: i64,
}

impl Purge {
    /// Everything is kept.
    pub const NEVER: Purge = Purge { gc_before: i64::MIN, timestamp_before: i64::MIN };

    /// Whether a deletion with this timestamp and deletion time may be forgotten.
    pub const fn allows(&self, timestamp: i64, deletion_time: i64) -> bool {
        deletion_time < self.gc_before && timestamp < self.timestamp_before
    }
    /// The tombstone, or none if it may be forgotten.
    pub fn retain(&self, tombstone: Tombstone) -> Tombstone {
        if self.allows(tombstone.timestamp, tombstone.deletion_time) {
            Tombstone::NONE
        } else {
            tombstone
        }
    }
}

/// What compacting a row or a collection left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compacted {
    /// All of it: use the input; nothing was written.
    Unchanged,
    /// What was appended to the output.
    Changed,
    /// Nothing; nothing was written.
    Empty,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_deletes_and_none_deletes_nothing() {
        let tombstone = Tombstone::new(5, 1);
        assert!(tombstone.covers(5) && tombstone.covers(4) && !tombstone.covers(6));
        assert!(!Tombstone::NONE.covers(NO_TIMESTAMP));
        assert_eq!(tombstone.merge(Tombstone::new(5, 2)), Tombstone::new(5, 2));
        assert_eq!(Tombstone::NONE.merge(tombstone), tombstone);
        assert_eq!(tombstone.merge(Tombstone::NONE), tombstone);
        assert!(tombstone.subsumes(Tombstone::NONE) && !Tombstone::NONE.subsumes(tombstone));
    }

    #[test]
    fn only_old_tombstones_older_than_the_rest_are_purged() {
        let purge = Purge { gc_before: 100, timestamp_before: 50 };
        let check = |timestamp, deletion_time, purged| {
            let tombstone = Tombstone::new(timestamp, deletion_time);
            assert_eq!(purge.retain(tombstone).is_none(), purged, "{tombstone:?}");
            assert_eq!(Purge::NEVER.retain(tombstone), tombstone);
        };
        check(49, 99, true);
        check(50, 99, false);
        check(49, 100, false);
    }
}
