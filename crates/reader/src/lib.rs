//! The stream contract and everything that only transforms streams. Does not know where rows
//! come from.
//!
//! A [`Source`] yields [`mutation::Fragment`]s of partitions in ring order, in batches:
//!  - *ordered*: fragments come as [`mutation::Fragment`] says, partitions by `DecoratedKey`.
//!    Positions ascend, except that several tombstone changes may come at one position. See
//!    [`Validator`].
//!  - *bounded*: a batch holds at most what `Budget` allows, at least one fragment unless the
//!    source is at its end.
//!  - *sliced*: within a partition only what intersects the slice, plus the range tombstones that
//!    cover it, opened and closed at the slice's bounds. A partition of which nothing is left may
//!    come empty or not at all.
//!  - *reversed*: rows come in descending order, and positions of tombstone changes with them: a
//!    change says what holds for positions before it in table order.
//!  - *paired*: partitions start outside of one and end inside; all else comes inside.
//!  - *forwarded*: [`Source::forward_partitions`] and [`Source::forward_rows`] only go forward, in
//!    the direction of the stream, and what they leave behind is never yielded. A range tombstone
//!    that was open is closed by them, without a fragment that says so; what comes next opens its
//!    own.
//!
//! In reading order: [`Source`]; [`VecSource`] (the reference), [`MergeSource`], [`ChainSource`];
//! [`EvictableSource`] and [`place`]; [`read_page`]; [`semaphore`];
//! [`multishard`]; [`Validator`]; `testing` (the conformance suite).

mod chain;
mod evictable;
mod merge;
pub mod multishard;
mod page;
pub mod place;
pub mod semaphore;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod validate;
mod vec;

pub use chain::ChainSource;
pub use evictable::{EvictableSource, OpenSource};
pub use merge::{MergeCounts, MergeSource, merge, merge_counted};
pub use page::{read_page, read_page_admitted, read_page_now};
pub use validate::Validator;
pub use vec::VecSource;

use model::{ClusteringOrder, DecoratedKey};
use mutation::page::ReadCommand;
use mutation::{ClusteringRange, Direction, Fragment, RingBound};
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// What can go wrong while reading.
#[derive(Clone, Debug)]
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
    /// A tablet has gone to another shard of this node meanwhile: who begins anew finds it there.
    Moved,
    /// An operator has ended what it was part of.
    Stopped,
}

/// How [`ReadError::Stopped`] reads.
pub const STOPPED: &str = "stopped by an operator";

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Damaged { file, what, at } => {
                write!(f, "{file} is damaged: {what} at offset {at}")
            }
            ReadError::Io(error) => error.fmt(f),
            ReadError::TimedOut => f.write_str("the read timed out"),
            ReadError::Overloaded(what) => write!(f, "overloaded: {what}"),
            ReadError::Moved => f.write_str("a tablet has gone to another shard meanwhile"),
            ReadError::Stopped => f.write_str(STOPPED),
        }
    }
}
impl std::error::Error for ReadError {}
impl From<runtime::io::IoError> for ReadError {
    fn from(error: runtime::io::IoError) -> ReadError {
        ReadError::Io(error)
    }
}

/// Which partitions a reader wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionScope {
    /// One.
    Key(DecoratedKey),
    /// Those between two bounds.
    Range { start: RingBound, end: RingBound },
}

/// What a reader wants from each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Disjoint, in table order.
    pub ranges: Vec<ClusteringRange>,
    pub reversed: bool,
    pub with_static: bool,
    /// Whether rows come only as [`Source::forward_rows`] asks for them.
    pub forwarding: bool,
}

impl Slice {
    /// All of each partition, in table order.
    pub fn full() -> Slice {
        let ranges = vec![ClusteringRange::full()];
        Slice { ranges, reversed: false, with_static: true, forwarding: false }
    }
    /// What a command wants of each partition, but for the one in which it resumes.
    pub fn of(command: &ReadCommand) -> Slice {
        Slice::with(command, command.clustering_ranges())
    }
    /// What a command wants of the partition in which it resumes (of each, if it does not).
    pub fn resumed(command: &ReadCommand, order: &ClusteringOrder) -> Slice {
        Slice::with(command, command.resumed_ranges(order))
    }
    fn with(command: &ReadCommand, ranges: Vec<ClusteringRange>) -> Slice {
        let (reversed, with_static) = (command.reversed, command.needs_static());
        Slice { ranges, reversed, with_static, forwarding: false }
    }
    /// What of its ranges lies in `range`, in table order.
    pub fn within(&self, order: &ClusteringOrder, range: &ClusteringRange) -> Vec<ClusteringRange> {
        debug_assert!(are_disjoint(order, &self.ranges), "sliced: {:?}", self.ranges);
        self.ranges.iter().filter_map(|own| own.intersect(order, range)).collect()
    }
    /// The order in which rows come.
    pub fn direction(&self) -> Direction {
        Direction::of(self.reversed)
    }
}

/// Whether ranges stand in table order and share no position.
fn are_disjoint(order: &ClusteringOrder, ranges: &[ClusteringRange]) -> bool {
    ranges.windows(2).all(|pair| pair[0].end.compare(order, &pair[1].start).is_le())
}

/// Limits of one batch.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub fragments_max: usize,
    pub bytes_max: usize,
}

impl Budget {
    /// What a reader without better knowledge asks for: enough to amortise a call, little enough
    /// to stay far from a stall.
    pub const BATCH: Budget = Budget { fragments_max: 64, bytes_max: 128 << 10 };

    /// *bounded*: whether a source that was asked for this yielded no more fragments.
    fn allows(&self, fragments: usize) -> bool {
        fragments <= self.fragments_max.max(1)
    }

    /// Takes a fragment off the budget; whether anything is left for another one.
    #[inline]
    pub fn spend(&mut self, fragment: &Fragment) -> bool {
        self.fragments_max = self.fragments_max.saturating_sub(1);
        self.bytes_max = self.bytes_max.saturating_sub(fragment.size_bytes());
        0 < self.fragments_max && 0 < self.bytes_max
    }
}

/// A boxed, shard-local future.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A stream of fragments. `fill` appends to `out`; having appended nothing means the end: of the
/// range of partitions, or, inside a partition of a source with `Slice::forwarding`, of what was
/// asked for of it.
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
    /// Yields the partitions between two bounds from here on, and so after an end again. The range
    /// lies at or after the end of the present one; before the first fill, anywhere. Inside a
    /// partition its rest is dropped, without its end.
    fn forward_partitions(&mut self, start: &RingBound, end: &RingBound);
    /// Only for a source with `Slice::forwarding`, which yields of each partition its start and
    /// static row, then nothing until this is called: then what of its slice lies in `range`, then
    /// nothing again. The range lies at or after the end of the last one of the partition, in the
    /// direction of the stream; what was asked for before and not yet yielded is dropped. A
    /// partition comes without its end: `next_partition` goes on to the next one. Outside of a
    /// partition nothing changes.
    fn forward_rows(&mut self, range: ClusteringRange);
    /// Bytes of buffers that it holds, for the permit of its read.
    fn memory_bytes(&self) -> usize {
        0
    }
}
