//! Blocks of rows of a large partition, found by position, whatever the form of their index.
//!
//! Offsets count from the start of the partition in the uncompressed data. What a cursor answers
//! comes from a file: who uses it checks that it lies within the partition.

use crate::cache::{Access, CachedFile, PAGE_BYTES, PromotedAt};
use crate::index::block::{Block, Place, Skip, Widths};
use crate::index::ordinal::Ordinal;
use crate::index::pages::{CachedPages, Stop};
use crate::index::promoted;
use crate::index::scanned::ScannedCursor;
use crate::index::search::Search;
use crate::index::trie::RowsCursor;
use crate::mx::header::Mapping;
use crate::read_stats::ReadStats;
use mutation::Tombstone;
use reader::ReadError;
use std::rc::Rc;

/// A walk over the blocks of one partition. Forward, positions never descend; backward, it starts
/// with [`BlockCursor::last_before`]. The two do not disturb each other.
#[derive(Debug)]
pub enum BlockCursor {
    /// Of a promoted index.
    Promoted(PromotedCursor),
    /// Of a trie.
    Rows(RowsCursor),
    /// Of a scan.
    Scanned(ScannedCursor),
}

impl BlockCursor {
    /// Where everything at or after `position` starts: nothing at or after it lies before that
    /// offset. A block whose last key is before `position` is skipped where that can be trusted.
    pub async fn advance_to(&mut self, position: Place<'_>) -> Result<Skip, ReadError> {
        match self {
            BlockCursor::Promoted(cursor) => cursor.advance_to(position).await,
            BlockCursor::Rows(cursor) => cursor.advance_to(position).await,
            BlockCursor::Scanned(cursor) => Ok(cursor.advance_to(position)),
        }
    }

    /// An offset behind everything that lies before `position`, from what is in memory: exact, or
    /// coarse, or unknown. Reads nothing and populates nothing. `position` is at or after the one
    /// of the last `advance_to`.
    pub fn probe_end(&mut self, position: Place<'_>) -> Option<u64> {
        match self {
            BlockCursor::Promoted(cursor) => cursor.search.probe_end(position),
            BlockCursor::Rows(cursor) => cursor.probe_end(position),
            BlockCursor::Scanned(cursor) => Some(cursor.end_before(position)),
        }
    }

    /// As [`BlockCursor::probe_end`], but reads what it takes to be exact. `None` where only the
    /// end of the partition is one.
    pub async fn find_end(&mut self, position: Place<'_>) -> Result<Option<u64>, ReadError> {
        match self {
            BlockCursor::Promoted(cursor) => cursor.find_end(position).await,
            BlockCursor::Rows(cursor) => cursor.find_end(position).await,
            BlockCursor::Scanned(cursor) => Ok(Some(cursor.end_before(position))),
        }
    }

    /// The last block of what lies at or after `lower` and before `position`, from which a walk
    /// backward starts. It may hold nothing of that; an empty one says that nothing is there but
    /// the range tombstone.
    pub async fn last_before(
        &mut self,
        position: Place<'_>,
        lower: Place<'_>,
    ) -> Result<Block, ReadError> {
        match self {
            BlockCursor::Promoted(cursor) => cursor.last_before(position, lower).await,
            BlockCursor::Rows(cursor) => cursor.last_before(position, lower).await,
            BlockCursor::Scanned(cursor) => Ok(cursor.last_before(position)),
        }
    }

    /// The block before the one answered last; `None` when nothing at or after `lower` lies before
    /// that.
    pub async fn previous(&mut self, lower: Place<'_>) -> Result<Option<Block>, ReadError> {
        match self {
            BlockCursor::Promoted(cursor) => cursor.previous(lower).await,
            BlockCursor::Rows(cursor) => cursor.previous(lower).await,
            BlockCursor::Scanned(cursor) => Ok(cursor.previous(lower)),
        }
    }

    /// The offset of the first block: bytes of the partition's key, deletion time and static row.
    pub fn rows_start(&self) -> u64 {
        match self {
            BlockCursor::Promoted(cursor) => cursor.at.header_bytes,
            BlockCursor::Rows(cursor) => cursor.rows_start(),
            BlockCursor::Scanned(cursor) => cursor.rows().0,
        }
    }

    /// Deletes the whole partition.
    pub fn tombstone(&self) -> Tombstone {
        match self {
            BlockCursor::Promoted(cursor) => cursor.at.tombstone,
            BlockCursor::Rows(cursor) => cursor.tombstone(),
            BlockCursor::Scanned(cursor) => cursor.tombstone(),
        }
    }

    /// The offset behind the last block, if it can be trusted and is in memory.
    pub fn end(&mut self) -> Option<u64> {
        match self {
            BlockCursor::Promoted(cursor) => cursor.search.end_now(),
            BlockCursor::Rows(cursor) => cursor.end(),
            BlockCursor::Scanned(cursor) => Some(cursor.rows().1),
        }
    }
}

/// A walk over the blocks of a promoted index.
#[derive(Debug)]
pub struct PromotedCursor {
    search: Search<CachedPages>,
    at: PromotedAt,
    stats: Rc<ReadStats>,
}

impl PromotedCursor {
    /// Of the promoted index that stands in `file` at `at`. `outer` is about where the rows of the
    /// partition end, where something is known of that.
    pub fn new(
        (file, at): (CachedFile, PromotedAt),
        mapping: Rc<Mapping>,
        widths: Widths,
        outer: Option<Ordinal>,
        access: Access,
    ) -> PromotedCursor {
        debug_assert!(0 < at.blocks && at.start <= at.blocks_at, "a promoted index of no block");
        debug_assert!(at.start + at.len <= file.len(), "within-file: {at:?}");
        let pages = CachedPages { file, access };
        let stats = ReadStats::of_shard();
        let memory = [(); 3].map(|()| stats.spares().buffer());
        let search = Search::new(pages, at, mapping, widths == Widths::Exact, outer);
        PromotedCursor { search: search.in_memory(memory), at, stats }
    }

    async fn advance_to(&mut self, position: Place<'_>) -> Result<Skip, ReadError> {
        loop {
            match self.search.advance_to(position) {
                Ok(skip) => return Ok(self.done(skip)),
                Err(stop) => self.serve(stop).await?,
            }
        }
    }

    /// A block by its number, as it stands; `None` behind the last one.
    pub(crate) async fn whole_block(
        &mut self,
        index: u64,
    ) -> Result<Option<promoted::Block>, ReadError> {
        if u64::from(self.at.blocks) <= index {
            return Ok(None);
        }
        loop {
            match self.search.whole_block(index) {
                Ok(block) => return Ok(Some(self.done(block))),
                Err(stop) => self.serve(stop).await?,
            }
        }
    }

    async fn find_end(&mut self, position: Place<'_>) -> Result<Option<u64>, ReadError> {
        loop {
            match self.search.find_end(position) {
                Ok(end) => return Ok(self.done(end)),
                Err(stop) => self.serve(stop).await?,
            }
        }
    }

    async fn last_before(
        &mut self,
        position: Place<'_>,
        lower: Place<'_>,
    ) -> Result<Block, ReadError> {
        loop {
            match self.search.last_before(position, lower) {
                Ok(block) => return Ok(self.done(block)),
                Err(stop) => self.serve(stop).await?,
            }
        }
    }

    async fn previous(&mut self, lower: Place<'_>) -> Result<Option<Block>, ReadError> {
        loop {
            match self.search.previous(lower) {
                Ok(block) => return Ok(self.done(block)),
                Err(stop) => self.serve(stop).await?,
            }
        }
    }

    fn done<T>(&mut self, found: T) -> T {
        self.search.settle();
        self.stats.add(|counts| counts.block_steps += 1);
        found
    }

    /// Gives the search the page that it lacks.
    async fn serve(&mut self, stop: Stop) -> Result<(), ReadError> {
        let CachedPages { file, access } = self.search.pages();
        match stop {
            Stop::Need(number) => {
                let within =
                    self.at.start / PAGE_BYTES..=(self.at.start + self.at.len) / PAGE_BYTES;
                debug_assert!(within.contains(&number), "within-file: page {number} of {within:?}");
                self.stats.add(|counts| counts.block_misses += 1);
                let page = file.page(access, number).await?;
                debug_assert!(!page.is_empty(), "within-file: page {number} is empty");
                self.search.hold(number, page);
                Ok(())
            }
            Stop::Damaged(damaged) => Err(file.damaged(damaged.what, damaged.at)),
        }
    }
}

impl Drop for PromotedCursor {
    fn drop(&mut self) {
        let memory = self.search.take_memory();
        memory.into_iter().for_each(|buffer| self.stats.spares().keep_buffer(buffer));
    }
}
