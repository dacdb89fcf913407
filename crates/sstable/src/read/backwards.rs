//! Reading the rows of a partition from the last to the first: range by range, in each block by
//! block. A block is read forward and yielded backward.
//!
//! Invariants
//!  - *last-first*: the data is read in chunks of blocks from the end of a range, small at first
//!    and growing as the consumer goes on, so that a few rows cost a few blocks.
//!  - *bounded-by-block*: what is in memory is one chunk of data, of at most
//!    [`CHUNK_BYTES`]`.end()` or one block, and the rows of one block; where several ranges are
//!    left also the first chunks of those to come, within the bounds of reads ahead.

use crate::index::block::{Block, Place};
use crate::index::cursor::BlockCursor;
use crate::index::scanned::{ScannedCursor, Start};
use crate::read::elements::{Elements, Look, Step};
use crate::read::window::{AHEAD_BYTES_MAX, FLIGHTS_MAX, GAP_BYTES, WHOLE_BYTES, Window};
use mutation::{ClusteringPosition, ClusteringRange, Fragment, Tombstone};
use reader::ReadError;
use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};
use stdx::Damaged;

/// Bytes of the first chunk, and of the longest, where blocks are shorter.
const CHUNK_BYTES: RangeInclusive<u64> = (4 << 10)..=(64 << 10);

/// Ranges whose blocks are looked up ahead.
const RANGES_MAX: usize = 128;

/// Blocks of one range that are read as one, from the last to the first.
#[derive(Debug)]
struct Chunk {
    blocks: VecDeque<Block>,
    /// The block before these, of the same range.
    below: Option<Block>,
}

/// What is left of a partition that is read backwards.
#[derive(Debug)]
pub(super) struct Backwards {
    cursor: BlockCursor,
    /// Of the partition in the data.
    position: u64,
    end: u64,
    end_is_known: bool,
    /// So many ranges are left; the last of them is at hand.
    left: usize,
    /// Blocks whose data is loaded.
    now: Chunk,
    /// The first chunks of ranges to come. All of each but the last is all of its range.
    ahead: VecDeque<Chunk>,
    /// Stretches of the data that have these, and were not asked for yet.
    planned: VecDeque<Range<u64>>,
    /// Where the block answered last starts: the one before it ends there.
    above: u64,
    /// Where the range stands.
    place: RangePlace,
    chunk_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangePlace {
    /// Nothing of it was looked up.
    Unknown,
    /// Its last block comes.
    Top,
    /// Blocks before its last one come.
    Within,
}

impl Backwards {
    /// Of a partition that lies between two positions of the data.
    pub(super) fn new(
        (cursor, position, end): (BlockCursor, u64, Option<u64>),
        data_bytes: u64,
        ranges: usize,
    ) -> Backwards {
        Backwards {
            cursor,
            position,
            end: end.unwrap_or(data_bytes),
            end_is_known: end.is_some(),
            left: ranges,
            now: Chunk { blocks: VecDeque::new(), below: None },
            ahead: VecDeque::new(),
            planned: VecDeque::new(),
            above: 0,
            place: RangePlace::Unknown,
            chunk_bytes: *CHUNK_BYTES.start(),
        }
    }

    /// Puts the fragments of the next block into `rows`, in the order of the table. Answers
    /// whether anything may follow.
    pub(super) async fn next(
        &mut self,
        window: &mut Window,
        elements: &mut Elements,
        rows: &mut Vec<Fragment>,
        damaged: impl Fn(Damaged) -> ReadError,
    ) -> Result<bool, ReadError> {
        while rows.is_empty() {
            let Some(number) = self.left.checked_sub(1) else { return Ok(false) };
            let more = !self.now.blocks.is_empty()
                || self.chunk(elements.ranges(), window, &damaged).await?;
            if !more {
                self.left = number;
                self.place = RangePlace::Unknown;
                continue;
            }
            let Some(block) = self.now.blocks.pop_front() else {
                unreachable!("a chunk has a block");
            };
            let (start, end) = self.bounds(&block).map_err(&damaged)?;
            debug_assert!(number < elements.ranges().len(), "last-first: range {number}");
            let more_below = !self.now.blocks.is_empty() || self.now.below.is_some();
            elements.enter(number, block.open, more_below);
            let held = elements.emitted();
            window.focus(start, end);
            collect(window, elements, rows).await?;
            match std::mem::replace(&mut self.place, RangePlace::Within) {
                RangePlace::Within => elements.leave(rows),
                _ => elements.finish(rows),
            }
            // The static row was yielded with the start of the partition.
            rows.retain(|fragment| !matches!(fragment, Fragment::StaticRow { .. }));
            reverse_changes(held, rows);
        }
        Ok(true)
    }

    /// Where a block lies in the data.
    fn bounds(&self, block: &Block) -> Result<(u64, u64), Damaged> {
        debug_assert!(self.position <= self.end, "bounded-by-block: {}", self.position);
        let place = |offset: u64| self.position.saturating_add(offset).min(self.end);
        let (start, end) = (place(block.start), place(block.end));
        match block.start <= block.end && self.position.checked_add(block.start) == Some(start) {
            true => Ok((start, end)),
            false => Err(Damaged::new("block past the end of its partition", block.start)),
        }
    }

    /// The block before the one answered last, which it must end at.
    async fn previous(
        &mut self,
        lower: Place<'_>,
    ) -> Result<Result<Option<Block>, Damaged>, ReadError> {
        let Some(block) = self.cursor.previous(lower).await? else { return Ok(Ok(None)) };
        if block.end != self.above || block.end <= block.start {
            let what = "blocks of a row index that do not follow each other";
            return Ok(Err(Damaged::new(what, block.start)));
        }
        self.above = block.start;
        Ok(Ok(Some(block)))
    }

    /// The last block of a partition ends with it, but for the byte that ends the partition.
    fn check_last(&self, range: &ClusteringRange, top: &Block) -> Result<(), Damaged> {
        let end = self.position.saturating_add(top.end);
        let ends = !self.end_is_known || self.end <= end.saturating_add(1);
        let all = range.end == ClusteringPosition::end();
        match all && !ends {
            true => Err(Damaged::new("the last block does not end with its partition", top.end)),
            false => Ok(()),
        }
    }

    /// Looks up and loads the next blocks of the present range; whether there are any.
    async fn chunk(
        &mut self,
        ranges: &[ClusteringRange],
        window: &mut Window,
        damaged: &impl Fn(Damaged) -> ReadError,
    ) -> Result<bool, ReadError> {
        debug_assert!(self.now.blocks.is_empty(), "bounded-by-block: blocks are left");
        let lower = ranges[self.left - 1].start.as_parts();
        if self.place == RangePlace::Unknown {
            self.place = RangePlace::Top;
            if self.ahead.is_empty() {
                self.look_ahead(ranges, window, damaged).await?;
            }
            let Some(chunk) = self.ahead.pop_front() else { unreachable!("of this range") };
            self.now = chunk;
        } else {
            let Some(top) = self.now.below.take() else { return Ok(false) };
            self.now = self.gather(top, lower, damaged).await?;
        }
        let (start, end) = self.stretch(&self.now);
        if start == end || holds(window, start, end) {
            return Ok(true);
        }
        debug_assert!(start < end, "last-first: a chunk from {start} to {end}");
        while window.asked() < FLIGHTS_MAX
            && let Some(range) = self.planned.pop_front()
        {
            window.ask(range).await;
        }
        if !window.land(start, end).await? {
            window.reset(start, end);
            window.set_step(end - start);
            window.load((end - start) as usize).await?;
        }
        Ok(true)
    }

    /// Looks up the first chunks of the ranges from the present one on, as far as each of them is
    /// all of its range and it makes sense to read ahead, and plans to read them.
    async fn look_ahead(
        &mut self,
        ranges: &[ClusteringRange],
        window: &Window,
        damaged: &impl Fn(Damaged) -> ReadError,
    ) -> Result<(), ReadError> {
        debug_assert!(self.ahead.is_empty(), "last-first: looked ahead twice");
        let mut bytes = 0;
        for range in ranges[..self.left].iter().rev() {
            let lower = range.start.as_parts();
            let top = self.cursor.last_before(range.end.as_parts(), lower).await?;
            self.above = top.start;
            self.check_last(range, &top).map_err(damaged)?;
            let chunk = self.gather(top, lower, damaged).await?;
            let (start, end) = self.stretch(&chunk);
            let whole = chunk.below.is_none();
            self.ahead.push_back(chunk);
            if start < end && !holds(window, start, end) {
                bytes += end - start;
                self.plan(start..end);
            }
            if !whole || RANGES_MAX <= self.ahead.len() || AHEAD_BYTES_MAX <= bytes {
                break;
            }
        }
        // One stretch is read when it is gone to.
        if self.planned.len() == 1 {
            self.planned.clear();
        }
        Ok(())
    }

    /// Collects the blocks from one on that are read as one.
    async fn gather(
        &mut self,
        top: Block,
        lower: Place<'_>,
        damaged: &impl Fn(Damaged) -> ReadError,
    ) -> Result<Chunk, ReadError> {
        let mut blocks = VecDeque::from([top]);
        let mut below = self.previous(lower).await?.map_err(damaged)?;
        while let Some(block) = below
            && top.end.saturating_sub(block.start) <= self.chunk_bytes
        {
            blocks.push_back(block);
            below = self.previous(lower).await?.map_err(damaged)?;
        }
        debug_assert!(CHUNK_BYTES.contains(&self.chunk_bytes), "{} a chunk", self.chunk_bytes);
        self.chunk_bytes = (2 * self.chunk_bytes).min(*CHUNK_BYTES.end());
        Ok(Chunk { blocks, below })
    }

    /// Where the blocks of a chunk lie in the data.
    fn stretch(&self, chunk: &Chunk) -> (u64, u64) {
        let place = |offset: u64| self.position.saturating_add(offset).min(self.end);
        match (chunk.blocks.back(), chunk.blocks.front()) {
            (Some(lowest), Some(top)) => (place(lowest.start), place(top.end)),
            _ => (0, 0),
        }
    }

    /// A stretch before all that were planned, or one that shares blocks with the latest of them.
    fn plan(&mut self, range: Range<u64>) {
        debug_assert!(!range.is_empty() && range.end <= self.end, "bounded-by-block: {range:?}");
        if let Some(last) = self.planned.back_mut()
            && last.start <= range.end.saturating_add(GAP_BYTES)
            && (last.start <= range.start || last.end.saturating_sub(range.start) <= WHOLE_BYTES)
        {
            last.start = last.start.min(range.start);
            last.end = last.end.max(range.end);
            return;
        }
        self.planned.push_back(range);
    }
}

/// Whether a stretch is loaded.
fn holds(window: &Window, start: u64, end: u64) -> bool {
    window.loaded_from() <= start && end <= window.loaded()
}

/// Looks for blocks in a partition that has no index of its rows, from its first element, at the
/// window, to its end. Puts the static row into `out`.
pub(super) async fn scan(
    window: &mut Window,
    elements: &mut Elements,
    (position, tombstone): (u64, Tombstone),
    out: &mut Vec<Fragment>,
) -> Result<ScannedCursor, ReadError> {
    let (mut starts, mut open): (Vec<Start>, Tombstone) = (Vec::new(), Tombstone::NONE);
    let mut rows_start = window.position();
    loop {
        let here = window.position();
        match elements.look(window)? {
            Look::Need(bytes) => window.load(bytes).await?,
            Look::Static => {
                while let Step::Need(bytes) = elements.next(window, false, false, out)? {
                    window.load(bytes).await?;
                }
                rows_start = window.position();
            }
            Look::End => {
                debug_assert!(position < rows_start && rows_start <= here, "rows end at {here}");
                let rows = (rows_start - position, here - position);
                return Ok(ScannedCursor::new(elements.mapping(), starts, rows, tombstone));
            }
            Look::Element { weight, change } => {
                let offset = here - position;
                let due = |last: &Start| *CHUNK_BYTES.end() <= offset - last.offset;
                if starts.last().is_none_or(due) {
                    let first = (elements.prefix().to_vec(), weight);
                    starts.push(Start { first, offset, open });
                }
                open = change.unwrap_or(open);
            }
        }
    }
}

/// Takes elements to the end of the window, or of the partition, or of the range.
async fn collect(
    window: &mut Window,
    elements: &mut Elements,
    rows: &mut Vec<Fragment>,
) -> Result<(), ReadError> {
    loop {
        match elements.next(window, true, false, rows)? {
            Step::Need(bytes) => window.load(bytes).await?,
            Step::Pause => runtime::task::yield_now().await,
            Step::Taken => {}
            Step::PartitionEnd | Step::Limit | Step::Beyond => return Ok(()),
        }
    }
}

/// Turns changes of a forward stream, in which `held` holds at first, into what a backward stream
/// changes to: what held before.
pub(super) fn reverse_changes(mut held: Tombstone, rows: &mut [Fragment]) {
    for fragment in rows {
        if let Fragment::RangeTombstoneChange { tombstone, .. } = fragment {
            std::mem::swap(tombstone, &mut held);
        }
    }
}
