//! The stream contract and everything that only transforms streams. Does not know where rows
//! come from.
//!
//! A [`Source`] yields [`mutation::Fragment`]s of partitions in ring order, in batches:
//!  - *ordered*: fragments come as [`mutation::Fragment`] says, partitions by `DecoratedKey`.
//!  - *bounded*: a batch holds at most what `Budget` allows, at least one fragment unless the
//!    source is at its end.
//!  - *sliced*: within a partition only what intersects the slice, plus the range tombstones that
//!    cover it, opened and closed at the slice's bounds.
//!  - *reversed*: rows come in descending order, and positions of tombstone changes with them.

use mutation::{ClusteringRange, Fragment};
use std::future::Future;
use std::pin::Pin;

/// What can go wrong while reading.
#[derive(Debug)]
pub enum ReadError {
    /// A file breaks its own rules: which file, which component, where, what.
    Damaged {
        file: String,
        what: String,
        at: u64,
    },
    Io(runtime::io::IoError),
    TimedOut,
    /// Refused for lack of memory or permits.
    Overloaded(String),
}

/// What a reader wants from each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Disjoint, in table order.
    pub ranges: Vec<ClusteringRange>,
    pub reversed: bool,
    pub with_static: bool,
}

/// Limits of one batch.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub fragments_max: usize,
    pub bytes_max: usize,
}

/// A boxed, shard-local future.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A stream of fragments. `fill` appends to `out`; having appended nothing means the end.
pub trait Source {
    /// Answers at once when no I/O is needed (memtable, buffered data); `None`: call `fill`.
    fn try_fill(
        &mut self,
        budget: Budget,
        out: &mut Vec<Fragment>,
    ) -> Option<Result<(), ReadError>>;
    /// Fills `out`, waiting for I/O where needed.
    fn fill<'a>(
        &'a mut self,
        budget: Budget,
        out: &'a mut Vec<Fragment>,
    ) -> LocalFuture<'a, Result<(), ReadError>>;
    /// Skips the rest of the partition whose start the last fill yielded without yielding its end:
    /// what comes next is the start of another partition, or the end. Where the last fill ended
    /// with the end of a partition, or before any fill, nothing changes.
    fn next_partition(&mut self);
}
