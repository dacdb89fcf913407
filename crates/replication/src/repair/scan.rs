//! What a node has of a range of the ring, in order, judged by a second that all replicas of it
//! have in common: what has expired by then is a deletion, what was deleted before another second
//! is forgotten, and what a deletion covers is gone. So it does not matter which of them has
//! compacted what.
//!
//! Invariants
//!  - *read-once*: what lies behind the place where a scan begins is read once, in order.
//!  - *bounded*: it holds a batch of fragments.

use super::reading::{Reading, Way};
use crate::coordinator::own_storage;
use crate::sync::unit::Edge;
use model::{TableId, Token};
use mutation::compact::{CompactionFilter, Outside};
use mutation::range::{ClusteringPosition, ClusteringRange};
use mutation::{Fragment, RingBound};
use reader::multishard::MultishardSource;
use reader::{ReadError, Slice, Source};
use runtime::io::IoClass;
use std::collections::VecDeque;
use storage::SourceOptions;

const OPTIONS: SourceOptions = SourceOptions { bypass_cache: true, class: IoClass::Streaming };

/// What is scanned, and how it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) table: TableId,
    /// The first token and the last.
    pub(crate) range: (Token, Token),
    pub(crate) now: i64,
    pub(crate) gc_before: i64,
}

/// See the module.
pub(crate) struct Scan {
    wanted: Wanted,
    way: Way,
    source: MultishardSource,
    /// The partitions behind the one in which it begins.
    then: Option<(RingBound, RingBound)>,
    filter: CompactionFilter<'static>,
    batch: Vec<Fragment>,
    filtered: Vec<Fragment>,
    ready: VecDeque<Fragment>,
}

impl Scan {
    /// Begins behind a place.
    pub(crate) fn open(wanted: Wanted, after: Option<&Edge>) -> Result<Scan, ReadError> {
        let (first, last) = wanted.range;
        assert!(first <= last, "read-once: from {first:?} to {last:?}");
        let bound = |token, after| RingBound { token, key: None, after };
        let at = |edge: &Edge, after| {
            let (token, key) = (edge.key.token, Some(edge.key.key.to_vec()));
            RingBound { token, key, after }
        };
        let start = after.map_or(bound(first, false), |edge| at(edge, true));
        let rest = (start, bound(last, true));
        let (bounds, slice, then) = match after {
            Some(edge) if edge.within.is_some() => {
                let key = (at(edge, false), at(edge, true));
                (key, rest_of(edge), Some(rest))
            }
            _ => (rest, Slice::full(), None),
        };
        let all = Outside {
            gc_before: wanted.gc_before,
            log: i64::MAX,
            memtables: i64::MAX,
            sstables: i64::MAX,
        };
        let way = Reading::of_shard().way();
        Ok(Scan {
            wanted,
            way,
            source: source(wanted.table, bounds, slice, way)?,
            then,
            filter: CompactionFilter::new(wanted.now, Box::new(move |_| all)),
            batch: Vec::new(),
            filtered: Vec::new(),
            ready: VecDeque::new(),
        })
    }

    /// The next fragment; `None`: there is none.
    pub(crate) async fn next(&mut self) -> Result<Option<Fragment>, ReadError> {
        loop {
            if let Some(fragment) = self.ready.pop_front() {
                return Ok(Some(fragment));
            }
            debug_assert!(self.batch.is_empty(), "bounded: a batch was not taken");
            match self.source.try_fill(self.way.batch, &mut self.batch) {
                Some(filled) => filled?,
                None => self.source.fill(self.way.batch, &mut self.batch).await?,
            }
            if self.batch.is_empty() {
                let Some(bounds) = self.then.take() else { return Ok(None) };
                self.source = source(self.wanted.table, bounds, Slice::full(), self.way)?;
                continue;
            }
            for fragment in self.batch.drain(..) {
                self.filter.push(fragment, &mut self.filtered);
            }
            self.ready.extend(self.filtered.drain(..));
            debug_assert!(self.batch.is_empty() && self.filtered.is_empty(), "bounded: left over");
            runtime::task::yield_if_needed().await;
        }
    }
}

/// What lies behind a place in its partition.
fn rest_of(edge: &Edge) -> Slice {
    debug_assert!(edge.within.is_some(), "read-once: {edge:?} is behind its partition");
    let start = edge.within.clone().unwrap_or_else(ClusteringPosition::end);
    let ranges = vec![ClusteringRange { start, end: ClusteringPosition::end() }];
    Slice { ranges, with_static: false, ..Slice::full() }
}

fn source(
    table: TableId,
    bounds: (RingBound, RingBound),
    slice: Slice,
    way: Way,
) -> Result<MultishardSource, ReadError> {
    debug_assert!(bounds.0.token <= bounds.1.token, "read-once: {bounds:?}");
    let Ok(storage) = own_storage() else { return Err(ReadError::Stopped) };
    storage.open_multishard(table, bounds, slice, OPTIONS, way.options)
}
