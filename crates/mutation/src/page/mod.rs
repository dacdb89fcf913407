//! A read as sent to a replica, and its answer: rows as result bytes, and where the next page
//! starts.
//!
//! ```text
//! page      := partition*
//! partition := key:vint_bytes has_static:u8 [columns_bytes:be32 column*]
//!              row_count:be32 rows_bytes:be32 row*
//! row       := clustering:vint_bytes columns_bytes:be32 column*
//! column    := length:be32 = -1 (null)
//!            | length:be32 value                                  ColumnForm::Value
//!            | length:be32 value ts:be64 expiry:be64 ttl:be32     ColumnForm::ValueWithTimes
//!            | length:be32 blob                                   ColumnForm::Blob
//!            | length:be32 = 8, hash:be64                         ColumnForm::Liveness
//! ```
//! A column in the form `Value` is a `[bytes]` of the native protocol, so that the columns of a
//! row can go into a response frame in one copy. Without an expiry `expiry` and `ttl` are 0.
//!
//! A command may ask for rows in another shape ([`RowShape::Pieces`]): then the page is nothing but
//! rows as a response frame has them.
//!
//! Invariants
//!  - *statics-first*: in a command static columns stand before regular ones; a partition has a
//!    column per static one (if `has_static`), a row one per regular one, in that order.
//!  - *only-answers*: a partition stands in a page only if it has rows in it, or (no rows) if its
//!    static row alone makes one.

mod view;

pub use view::{
    PageColumn, PageColumns, PageLayout, PagePartition, PagePartitions, PageRow, PageRows,
    PageView, ROWS_HEADER_BYTES, Times,
};

use crate::range::{ClusteringPosition, ClusteringRange, Direction, earlier, later};
use model::{ClusteringOrder, ColumnId, TableId, Token};
use smallvec::SmallVec;
use stdx::Bytes;

/// Which partitions a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// One partition key.
    Key(Vec<u8>),
    /// Partitions with `start < or <= (token, key)`, up to and including `end`, in ring order.
    Range { start: RingBound, end: RingBound },
}

impl Partitions {
    /// Those of the whole ring.
    pub fn all() -> Partitions {
        let bound = |token, after| RingBound { token, key: None, after };
        Partitions::Range { start: bound(Token::MIN, false), end: bound(Token::MAX, true) }
    }
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

impl RingBound {
    /// How a key stands to this bound: `Less` before it, `Greater` after it; never equal.
    #[inline]
    pub fn place(&self, token: Token, key: &[u8]) -> std::cmp::Ordering {
        let mine = self.key.as_deref();
        let order = token.cmp(&self.token);
        let order = order.then_with(|| mine.map_or(std::cmp::Ordering::Equal, |own| key.cmp(own)));
        order.then(if self.after { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater })
    }
}

/// How a column's content is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnForm {
    /// The CQL value (multi-cell collections as serialized CQL collections).
    Value,
    /// The value with its write timestamp and expiry (for writetime() and ttl()); of a multi-cell
    /// column the newest timestamp and no expiry.
    ValueWithTimes,
    /// The live elements as a collection blob (for element access, list positions, ..); of an
    /// atomic column the blob of its cell.
    Blob,
    /// What keeps a row of which no wanted column is there: a hash of which of its parts are live
    /// ([`crate::row::live_parts`]); null where a wanted column is. Stands under [`LIVENESS`], last
    /// among the static or the regular columns, for those who compare the pages of replicas: two
    /// rows without values may be there for reasons that delete each other.
    Liveness,
}

/// The column of [`ColumnForm::Liveness`]: no table has it.
pub const LIVENESS: ColumnId = ColumnId(u32::MAX);

/// What a page has of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RowShape {
    /// Its clustering key and its columns, in a partition with its key: for [`PageView`].
    #[default]
    Whole,
    /// These pieces, one after the other, each value as a `[bytes]` of the native protocol; rows
    /// stand side by side, and nothing else is in the page. For one partition key, of a table
    /// without static columns, every column as [`ColumnForm::Value`].
    Pieces(RowPieces),
}

/// What rows are made of, left to right.
pub type RowPieces = SmallVec<[RowPiece; 4]>;

/// A part of a row of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPiece {
    /// The column of the partition key at that position.
    PartitionKey(u16),
    /// The clustering column at that position.
    Clustering(u16),
    /// All regular columns of the command, in their order.
    Regulars,
}

/// A read, as sent to a replica. Plain data: it can go to another shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommand {
    pub table: TableId,
    pub partitions: Partitions,
    /// Clustering ranges in table order, disjoint (start prefix, weight, end prefix, weight).
    pub ranges: Vec<SendRange>,
    pub reversed: bool,
    /// Static, then regular columns wanted, in the order of the answer (*statics-first*).
    pub columns: Vec<(ColumnId, ColumnForm)>,
    /// How many of `columns` are static.
    pub static_count: usize,
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
    pub shape: RowShape,
    /// Where to go on, in the first partition read.
    pub resume: Option<Resume>,
}

impl ReadCommand {
    /// A read of partitions that wants no column, has no limit but the bytes of a page, 1 MiB, and
    /// goes forward: for whoever says what is otherwise.
    pub fn all(table: TableId, partitions: Partitions, now: i64) -> ReadCommand {
        ReadCommand {
            table,
            partitions,
            ranges: vec![SendRange::full()],
            reversed: false,
            columns: Vec::new(),
            static_count: 0,
            row_limit: u64::MAX,
            per_partition_limit: u64::MAX,
            partition_limit: u64::MAX,
            bytes_max: 1 << 20,
            static_only_rows: false,
            tombstone_limit: u64::MAX,
            now,
            bypass_cache: false,
            shape: RowShape::Whole,
            resume: None,
        }
    }
    /// The direction of the answer.
    pub fn direction(&self) -> Direction {
        Direction::of(self.reversed)
    }
    /// What the answer's bytes hold.
    pub fn layout(&self) -> PageLayout<'_> {
        PageLayout::new(&self.columns, self.static_count)
    }
    /// Whether the static row has to be read.
    pub fn needs_static(&self) -> bool {
        0 < self.static_count || self.static_only_rows
    }
    /// The partitions after the one in which this command resumes; `None`: there are none.
    pub fn partitions_after_resume(&self) -> Option<Partitions> {
        let resume = self.resume.as_ref()?;
        match &self.partitions {
            Partitions::Key(_) => None,
            Partitions::Range { end, .. } => {
                let (token, key) = (Token::of(&resume.key), Some(resume.key.clone()));
                let start = RingBound { token, key, after: true };
                Some(Partitions::Range { start, end: end.clone() })
            }
        }
    }
    /// The clustering ranges, in table order.
    pub fn clustering_ranges(&self) -> Vec<ClusteringRange> {
        self.ranges.iter().map(SendRange::range).collect()
    }
    /// The clustering ranges that are left of the partition in which `resume` stands; none when
    /// that partition is done.
    pub fn resumed_ranges(&self, order: &ClusteringOrder) -> Vec<ClusteringRange> {
        let Some(resume) = &self.resume else { return self.clustering_ranges() };
        let Some((prefix, weight)) = &resume.after else { return Vec::new() };
        let after = ClusteringPosition { prefix: Bytes::copy_from(prefix), weight: *weight };
        let left = self.ranges.iter().map(|range| {
            let mut range = range.range();
            match self.direction() {
                Direction::Forward => range.start = later(order, &range.start, &after).clone(),
                Direction::Reversed => range.end = earlier(order, &range.end, &after).clone(),
            }
            range
        });
        left.filter(|range| !range.is_empty(order)).collect()
    }
}

/// A clustering range without shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRange {
    pub start: (Vec<u8>, i8),
    pub end: (Vec<u8>, i8),
}

impl SendRange {
    /// All rows.
    pub fn full() -> SendRange {
        SendRange { start: (Vec::new(), -1), end: (Vec::new(), 1) }
    }
    /// The rows that `prefix` names.
    pub fn of_prefix(prefix: &[u8]) -> SendRange {
        SendRange { start: (prefix.to_vec(), -1), end: (prefix.to_vec(), 1) }
    }
    /// The range, for this shard. A single prefix costs one allocation.
    pub fn range(&self) -> ClusteringRange {
        let start = Bytes::copy_from(&self.start.0);
        let end =
            if self.end.0 == self.start.0 { start.clone() } else { Bytes::copy_from(&self.end.0) };
        ClusteringRange {
            start: ClusteringPosition { prefix: start, weight: self.start.1 },
            end: ClusteringPosition { prefix: end, weight: self.end.1 },
        }
    }
}

impl From<&ClusteringRange> for SendRange {
    fn from(range: &ClusteringRange) -> SendRange {
        SendRange {
            start: (range.start.prefix.to_vec(), range.start.weight),
            end: (range.end.prefix.to_vec(), range.end.weight),
        }
    }
}

/// Where a page ended: the next one starts after this place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    pub key: Vec<u8>,
    /// A position of weight -1 or +1: what lies beyond it, in the direction of the read, is left.
    /// After the row K that is (K, +1), reversed (K, -1). `None`: the partition is done.
    pub after: Option<(Vec<u8>, i8)>,
    /// Rows already answered from this partition (for `per_partition_limit`).
    pub rows_in_partition: u64,
}

/// An answer page. Read its bytes with [`PageView`], unless its rows are in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub bytes: Vec<u8>,
    pub row_count: u64,
    /// Partitions whose first row stands in this page (not the one that it resumes after rows).
    pub partition_count: u64,
    /// `None`: nothing is left.
    pub resume: Option<Resume>,
    /// For warnings.
    pub tombstones_seen: u64,
    /// For traces.
    pub opened: Opened,
}

/// How many SSTables were opened for single partitions of a page. Says how the page came about,
/// not what it holds: all are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opened(pub u64);

impl PartialEq for Opened {
    fn eq(&self, _: &Opened) -> bool {
        true
    }
}
impl Eq for Opened {}
