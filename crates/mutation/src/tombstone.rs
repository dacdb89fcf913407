//! Deletions: what a tombstone covers and which of two wins.

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

    /// Whether there is none.
    pub const fn is_none(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }
    /// Whether it deletes data written at `timestamp`.
    pub const fn covers(&self, timestamp: i64) -> bool {
        !self.is_none() && timestamp <= self.timestamp
    }
}
