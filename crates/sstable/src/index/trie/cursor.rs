//! Walking over the blocks of a partition, by its row index in Rows.db.

use super::key::put_position;
use super::rows::{RowsAt, RowsSearch};
use crate::cache::{Access, CachedFile};
use crate::index::block::{Block, Place, Skip};
use crate::index::pages::CachedPages;
use crate::index::pages::Stop;
use crate::mx::header::Mapping;
use crate::read_stats::ReadStats;
use mutation::Tombstone;
use reader::ReadError;
use std::rc::Rc;

/// A walk over the blocks of a row index.
#[derive(Debug)]
pub struct RowsCursor {
    search: RowsSearch<CachedPages>,
    mapping: Rc<Mapping>,
    tombstone: Tombstone,
    rows_start: u64,
    /// The encoded positions of the present step.
    position: Vec<u8>,
    lower: Vec<u8>,
    stats: Rc<ReadStats>,
}

impl RowsCursor {
    /// Of the row index that stands in `file` at `at`. `exact_end`: its last separator leads to
    /// the end of the rows, not behind it.
    pub async fn open(
        (file, at): (CachedFile, RowsAt),
        mapping: Rc<Mapping>,
        exact_end: bool,
        access: Access,
    ) -> Result<RowsCursor, ReadError> {
        debug_assert!(at.root < file.len(), "within-file: a root at {}", at.root);
        let pages = CachedPages { file, access };
        let stats = ReadStats::of_shard();
        let mut cursor = RowsCursor {
            search: RowsSearch::new(pages, at, exact_end),
            mapping,
            tombstone: at.tombstone,
            rows_start: 0,
            position: stats.spares().buffer(),
            lower: stats.spares().buffer(),
            stats,
        };
        cursor.rows_start = cursor.run(RowsSearch::start).await?;
        Ok(cursor)
    }

    /// See [`crate::index::cursor::BlockCursor::advance_to`].
    pub async fn advance_to(&mut self, position: Place<'_>) -> Result<Skip, ReadError> {
        self.encode(position, None);
        debug_assert!(self.lower.is_empty(), "separated: between two positions");
        let position = std::mem::take(&mut self.position);
        let skip = self.run(|search| search.advance(&position)).await;
        self.position = position;
        skip
    }

    /// See [`crate::index::cursor::BlockCursor::probe_end`].
    pub fn probe_end(&mut self, position: Place<'_>) -> Option<u64> {
        self.encode(position, None);
        self.search.probe_end(&self.position)
    }

    /// See [`crate::index::cursor::BlockCursor::find_end`].
    pub async fn find_end(&mut self, position: Place<'_>) -> Result<Option<u64>, ReadError> {
        self.encode(position, None);
        let position = std::mem::take(&mut self.position);
        let end = self.run(|search| search.find_end(&position)).await;
        self.position = position;
        end
    }

    /// See [`crate::index::cursor::BlockCursor::last_before`].
    pub async fn last_before(
        &mut self,
        position: Place<'_>,
        lower: Place<'_>,
    ) -> Result<Block, ReadError> {
        self.encode(position, Some(lower));
        let position = std::mem::take(&mut self.position);
        let lower = std::mem::take(&mut self.lower);
        let block = self.run(|search| search.last_before(&position, &lower)).await;
        (self.position, self.lower) = (position, lower);
        block
    }

    /// See [`crate::index::cursor::BlockCursor::previous`].
    pub async fn previous(&mut self, lower: Place<'_>) -> Result<Option<Block>, ReadError> {
        self.encode(lower, None);
        let lower = std::mem::take(&mut self.position);
        let block = self.run(|search| search.previous(&lower)).await;
        self.position = lower;
        block
    }

    /// The offset of the first block.
    pub fn rows_start(&self) -> u64 {
        self.rows_start
    }

    /// Deletes the whole partition.
    pub fn tombstone(&self) -> Tombstone {
        self.tombstone
    }

    /// The offset behind the last block, if it can be trusted and was seen.
    pub fn end(&self) -> Option<u64> {
        self.search.end()
    }

    fn encode(&mut self, position: Place<'_>, lower: Option<Place<'_>>) {
        let order = &self.mapping.schema.order;
        self.position.clear();
        put_position(order, position, &mut self.position);
        self.lower.clear();
        if let Some(lower) = lower {
            put_position(order, lower, &mut self.lower);
        }
        debug_assert!(!self.position.is_empty(), "prefix-free: an encoding has its terminator");
    }

    /// Takes a step, with the pages that it needs.
    async fn run<T>(
        &mut self,
        mut step: impl FnMut(&mut RowsSearch<CachedPages>) -> Result<T, Stop>,
    ) -> Result<T, ReadError> {
        loop {
            match step(&mut self.search) {
                Ok(found) => {
                    self.search.walk.settle();
                    self.stats.add(|counts| counts.block_steps += 1);
                    return Ok(found);
                }
                Err(Stop::Need(number)) => {
                    self.stats.add(|counts| counts.block_misses += 1);
                    let CachedPages { file, access } = self.search.walk.pages();
                    let page = file.page(access, number).await?;
                    debug_assert!(!page.is_empty(), "within-file: page {number} is empty");
                    self.search.walk.hold(number, page);
                }
                Err(Stop::Damaged(damaged)) => {
                    let CachedPages { file, .. } = self.search.walk.pages();
                    return Err(file.damaged(damaged.what, damaged.at));
                }
            }
        }
    }
}

impl Drop for RowsCursor {
    fn drop(&mut self) {
        let spares = self.stats.spares();
        spares.keep_buffer(std::mem::take(&mut self.lower));
        spares.keep_buffer(std::mem::take(&mut self.position));
    }
}
