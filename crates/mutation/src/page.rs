//! The answer of one replica to a read: rows as result bytes, and where the next page starts.
//!
//! ```text
//! page      := partition*
//! partition := key:vint_bytes static_flag:u8 [static columns] row_count:vint row*
//! row       := clustering:vint_bytes column*             (columns in the order of the command)
//! column    := 0 (null) | 1 value | 2 ts:be64 ttl_left/expiry.. value      see `ColumnForm`
//! ```

use crate::fragment::Position;
use crate::range::ClusteringRange;
use model::{ColumnId, TableId, Token};
use stdx::Bytes;

/// Which partitions a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// One partition key.
    Key(Vec<u8>),
    /// Partitions with `start < or <= (token, key)`, up to and including `end`, in ring order.
    Range { start: RingBound, end: RingBound },
}

/// A bound on the ring: before or after a token, or before or after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingBound {
    pub token: Token,
    /// `None`: all keys of the token.
    pub key: Option<Vec<u8>>,
    /// Whether the bound lies after (true) or before the token or key.
    pub after: bool,
}

/// How a column's content is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnForm {
    /// The CQL value (multi-cell collections as serialized CQL collections).
    Value,
    /// The value with its write timestamp and expiry (for writetime() and ttl()).
    ValueWithTimes,
    /// The live elements as a collection blob (for element access, list positions, ..).
    Blob,
}

/// A read, as sent to a replica. Plain data: it can go to another shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommand {
    pub table: TableId,
    pub partitions: Partitions,
    /// Clustering ranges in table order, disjoint (start prefix, weight, end prefix, weight).
    pub ranges: Vec<SendRange>,
    pub reversed: bool,
    /// Static and regular columns wanted, in the order of the answer.
    pub columns: Vec<(ColumnId, ColumnForm)>,
    /// Rows at most (a partition that has only a static row counts as one).
    pub row_limit: u64,
    pub per_partition_limit: u64,
    /// Partitions at most (SELECT DISTINCT).
    pub partition_limit: u64,
    /// The page is cut when its bytes reach this.
    pub bytes_max: usize,
    /// Whether a partition whose rows are all out of `ranges`, but which has a live static row,
    /// yields one row (true without clustering restrictions).
    pub static_only_rows: bool,
    /// Dead rows and tombstone changes seen at most before the page is cut.
    pub tombstone_limit: u64,
    /// Seconds since the epoch; what expires before is gone.
    pub now: i64,
    pub bypass_cache: bool,
    /// Where to go on, in the first partition read.
    pub resume: Option<Resume>,
}

/// A clustering range without shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRange {
    pub start: (Vec<u8>, i8),
    pub end: (Vec<u8>, i8),
}
impl SendRange {
    pub fn range(&self) -> ClusteringRange {
        let _ = Bytes::new();
        todo!()
    }
}

/// Where a page ended: the next one starts after this place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    pub key: Vec<u8>,
    /// The last clustering key seen and +1, or a later position; `None`: the partition is done.
    pub after: Option<(Vec<u8>, i8)>,
    /// Rows already answered from this partition (for `per_partition_limit`).
    pub rows_in_partition: u64,
}

/// An answer page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub bytes: Vec<u8>,
    pub row_count: u64,
    pub partition_count: u64,
    /// `None`: nothing is left.
    pub resume: Option<Resume>,
    /// For warnings.
    pub tombstones_seen: u64,
}

#[doc(hidden)]
pub type _Position = Position;
