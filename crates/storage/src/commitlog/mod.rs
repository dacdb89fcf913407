//! The commitlog of a shard.

/// What a log did and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Segments that hold entries not yet released, the active one included.
    pub segments: u64,
    /// Segments created or recycled.
    pub allocations: u64,
    /// Buffer writes.
    pub cycles: u64,
    /// Syncs.
    pub syncs: u64,
    /// Bytes of entries.
    pub entry_bytes: u64,
    /// Bytes written, padding included.
    pub written_bytes: u64,
    /// Bytes of padding.
    pub slack_bytes: u64,
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Segments let go.
    pub released: u64,
    /// Flushes asked for because of log space.
    pub flush_requests: u64,
    /// Appends that had to wait for a segment.
    pub blocked: u64,
}
