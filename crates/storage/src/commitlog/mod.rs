//! The commitlog of a shard: what was written, until memtables have become SSTables.
//!
//! From the ground up: [`SegmentId`] and [`ReplayPosition`]; `layout` (the bytes of a segment);
//! [`parse_segment`] (reading them back); `writer` (append, group commit, release) with
//! `pieces` (what is too large for one step), `tasks` (its disk work) and `files`; `replay`.

pub(crate) mod files;
mod layout;
mod parse;
mod pieces;
mod position;
mod tasks;
mod writer;

pub(crate) use layout::ENTRY_HEADER;
pub use layout::VERSION;
pub(crate) use parse::Parser;
pub use parse::{SegmentReport, SegmentState, Unfinished, id_in_header, parse_segment};
pub(crate) use position::HeldEntries;
pub use position::{ReplayPosition, SegmentId};
pub(crate) use tasks::start;
pub(crate) use writer::{Appended, Commitlog, LogConfig, Refusal, SEGMENT_BYTES_MIN, group_bytes};

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
