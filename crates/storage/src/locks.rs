//! One lock per partition, for reads that decide writes.
//!
//! Invariants
//!  - *bounded-by-waiters*: the map holds the keys that somebody holds or waits for, no others.

/// Holds a partition; it is let go on drop.
#[derive(Debug)]
pub struct PartitionGuard {
    _private: (),
}
