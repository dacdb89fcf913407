//! Blocks of rows of a large partition, whatever the form of their index.
//!
//! Offsets count from the start of the partition in the uncompressed data.

use mutation::Tombstone;

/// Where reading may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Offset from the start of the partition.
    pub offset: u64,
    /// The range tombstone that is open there.
    pub open: Tombstone,
}

/// A stretch of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Offset of its first element from the start of the partition.
    pub start: u64,
    /// Offset behind its last element. Where `end` is `start`, nothing lies there, and only the
    /// range tombstone holds.
    pub end: u64,
    /// The range tombstone that is open at `start`.
    pub open: Tombstone,
}

/// A place among the rows of a partition: a clustering prefix and its weight.
pub type Place<'a> = (&'a [u8], i8);

/// Whether widths and last keys of blocks say what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Widths {
    /// They do: the file says that its writer knew.
    Exact,
    /// They may count the end of the partition, and nothing is decided by them.
    Loose,
}
