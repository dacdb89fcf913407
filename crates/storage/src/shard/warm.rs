//! What is in the cache of a node that gives a tablet away is read ahead by the node that gets it,
//! before clients read it there.
//!
//! What is told are keys, and ranges of rows: who gets the tablet reads its own SSTables, so that
//! its cache holds nothing that they do not (`cache`, *mirror*). That reads each of them once, with
//! the requests to the disk and the permits of streaming.
//!
//! Invariants
//!  - *few-at-once*: no more than [`AT_ONCE`] partitions are read ahead at a time.
//!  - *known-stays*: what the cache knows of a partition already is not read again.

use super::Shard;
use super::view::View;
use crate::cache::WarmPartition;
use crate::table::{Table, Through};
use model::{TableId, Token};
use reader::semaphore::Reading;
use reader::{Budget, ReadError, Slice};
use runtime::io::IoClass;
use runtime::task::{join_all, need_preempt, yield_now};
use sstable::{Access, Lookup};
use std::cell::{Cell, RefCell};
use stdx::Bytes;

const AT_ONCE: usize = 8;
/// About what a partition takes beside its key and its ranges.
const PARTITION_BYTES: usize = 16;

/// What is told at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmPage {
    /// In the order of the ring.
    pub partitions: Vec<WarmPartition>,
    /// Up to which token; `None`: to the end.
    pub reached: Option<Token>,
}

impl Shard {
    /// See [`crate::Storage::warm_partitions`].
    pub(crate) async fn warm_partitions(
        &self,
        id: TableId,
        range: (Token, Token),
        bytes_max: usize,
    ) -> Result<WarmPage, ReadError> {
        assert!(range.0 < range.1, "ring-order: nothing lies in {range:?}");
        let table = self.readable(id)?;
        let (mut page, mut bytes) = (WarmPage::default(), 0);
        for tablet in table.tablets().iter() {
            let (mut after, last) = (range.0.max(tablet.range.0), range.1.min(tablet.range.1));
            let Some(cache) = table.cache_of(tablet, Through::Cache) else { continue };
            while after < last {
                let before = page.partitions.len();
                let reached = cache.add_warm((after, last), &mut page.partitions);
                debug_assert!(reached.is_none_or(|it| after < it), "ring-order: back to {after:?}");
                bytes += page.partitions[before..].iter().map(size_of).sum::<usize>();
                after = reached.unwrap_or(last);
                if bytes_max <= bytes {
                    page.reached = Some(after).filter(|reached| *reached < range.1);
                    return Ok(page);
                }
                if need_preempt() {
                    yield_now().await;
                }
            }
        }
        Ok(page)
    }

    /// See [`crate::Storage::warm_up`].
    pub(crate) async fn warm_up(
        &self,
        id: TableId,
        partitions: Vec<WarmPartition>,
    ) -> Result<usize, ReadError> {
        let table = self.readable(id)?;
        let (left, read) = (RefCell::new(partitions.into_iter()), Cell::new(0));
        let work = async || {
            loop {
                let next = left.borrow_mut().next();
                let Some(next) = next.filter(|_| !table.dropped.get()) else { return Ok(()) };
                let is_read = self.warm_up_one(&table, next).await?;
                read.set(read.get() + usize::from(is_read));
            }
        };
        let count = left.borrow().len();
        let done: Result<Vec<()>, ReadError> =
            join_all((0..AT_ONCE).map(|_| work())).await.into_iter().collect();
        debug_assert!(read.get() <= count, "known-stays: {} of {count} were read", read.get());
        done.map(|_| read.get())
    }

    /// Whether it was read.
    async fn warm_up_one(&self, table: &Table, warm: WarmPartition) -> Result<bool, ReadError> {
        let schema = table.schema();
        let lookup = Lookup::new(Bytes::from(warm.key));
        let Some(tablet) = table.tablet_of(lookup.key.token) else { return Ok(false) };
        let Some(cache) = table.cache_of(&tablet, Through::Cache) else { return Ok(false) };
        if cache.knows(&lookup.key) {
            return Ok(false);
        }
        let (after, last) = tablet.range;
        let token = lookup.key.token;
        debug_assert!(after < token && token <= last, "ring-order: {token:?} of another tablet");
        let reading = Reading { schema: schema.clone(), operation: "warm-up" };
        let permit = self.reads.streaming.admit(&reading, None).await?;
        let ranges: Vec<_> = warm.ranges.iter().map(|range| range.range()).collect();
        let slice = match ranges.is_empty() {
            true => Slice::full(),
            false => Slice { ranges, ..Slice::full() },
        };
        let access = Access::new(IoClass::Streaming, &self.index_cache);
        let view = View::of(&tablet, &schema, access, Some(cache));
        let mut source = view.partition(&lookup, slice);
        let mut batch = Vec::new();
        loop {
            source.fill(Budget::BATCH, &mut batch).await?;
            if batch.is_empty() {
                break;
            }
            batch.clear();
            if need_preempt() {
                yield_now().await;
            }
        }
        drop((source, permit));
        cache.warm_up(&lookup.key);
        Ok(true)
    }
}

/// About what it takes in a message.
fn size_of(warm: &WarmPartition) -> usize {
    let ranges = warm.ranges.iter().map(|range| range.start.0.len() + range.end.0.len());
    PARTITION_BYTES + warm.key.len() + ranges.map(|bytes| bytes + PARTITION_BYTES).sum::<usize>()
}
