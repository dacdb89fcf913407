//! I/O classes and what each did: plain values.
//!
//! Invariants
//!  - *class-is-index*: [`IoClass::ALL`] has each class at its own number.

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

const _: () = {
    let mut at = 0;
    while at < IoClass::ALL.len() {
        assert!(IoClass::ALL[at] as usize == at, "class-is-index");
        at += 1;
    }
    assert!(at == IoClass::Maintenance as usize + 1, "class-is-index: all of them");
};

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
