//! What each I/O class did on this shard, and its shares.

use crate::core::io_class::{IoClass, IoStats};
use crate::core::with;

/// What `class` did on this shard.
pub fn stats(class: IoClass) -> IoStats {
    with(|shard| shard.ops.borrow().queue.stats(class))
}

/// What all classes did on this shard.
pub fn total_stats() -> IoStats {
    let mut total = IoStats::default();
    for class in IoClass::ALL {
        let of = stats(class);
        total.reads += of.reads;
        total.read_bytes += of.read_bytes;
        total.writes += of.writes;
        total.write_bytes += of.write_bytes;
        total.syncs += of.syncs;
        total.in_flight += of.in_flight;
        total.queued += of.queued;
        total.queue_ns += of.queue_ns;
        total.service_ns += of.service_ns;
    }
    total
}

/// The most requests of this shard that were at the kernel at once since the last call.
pub fn take_peak_in_flight() -> u64 {
    with(|shard| shard.ops.borrow_mut().queue.take_peak() as u64)
}

/// Sets the shares of a class on this shard (at least 1).
pub fn set_shares(class: IoClass, shares: u32) {
    with(|shard| shard.ops.borrow_mut().queue.set_shares(class, shares));
}
