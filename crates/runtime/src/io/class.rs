//! I/O classes and what each did.

use crate::core::with;

/// On whose behalf a disk request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoClass {
    /// Commitlog writes and replay.
    Commitlog,
    /// Memtables to SSTables.
    Flush,
    /// Compaction.
    Compaction,
    /// Reads that a client waits for.
    Query,
    /// Streaming and repair.
    Streaming,
    /// Everything else.
    System,
    /// What an operator asked to be done to files.
    Maintenance,
}

impl IoClass {
    /// All classes.
    pub const ALL: [IoClass; 7] = [
        IoClass::Commitlog,
        IoClass::Flush,
        IoClass::Compaction,
        IoClass::Query,
        IoClass::Streaming,
        IoClass::System,
        IoClass::Maintenance,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            IoClass::Commitlog => "commitlog",
            IoClass::Flush => "flush",
            IoClass::Compaction => "compaction",
            IoClass::Query => "query",
            IoClass::Streaming => "streaming",
            IoClass::System => "system",
            IoClass::Maintenance => "maintenance",
        }
    }
}

/// What a class did on this shard since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Read requests.
    pub reads: u64,
    /// Bytes asked for by read requests, after rounding.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes of write requests.
    pub write_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Requests at the kernel now.
    pub in_flight: u64,
    /// Requests that wait for their turn now.
    pub queued: u64,
    /// Time that requests waited for their turn, in nanoseconds.
    pub queue_ns: u64,
    /// Time that requests spent at the kernel, in nanoseconds.
    pub service_ns: u64,
}

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
