//! Which stretches of a large partition a slice needs: where each range starts and ends in the
//! data is looked up in the index of its rows, some ranges ahead of the consumer, and planned.
//!
//! Invariants
//!  - *bounded-by-slice*: a stretch ends where the index says that its range does. Where that is
//!    not known at once and far, it is looked up when the first step of the stretch is used up.
//!  - *forward-only*: stretches ascend and do not overlap.

use crate::index::cursor::BlockCursor;
use crate::read::queue::Queue;
use crate::read::window::{AHEAD_BYTES_MAX, WHOLE_BYTES, Window};
use mutation::{ClusteringPosition, ClusteringRange, Tombstone};
use reader::ReadError;
use stdx::Damaged;

/// A stretch of the data, and where it leads in the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The range tombstone that is open at `start`; `None` where it goes on from the one before.
    pub(super) open: Option<Tombstone>,
    /// The first range that has something in it.
    pub(super) range: usize,
    /// Whether it ends before the end of the partition does.
    pub(super) bounded: bool,
    /// The range whose end it should have.
    pub(super) refine: Option<usize>,
}

/// The rows of a partition with an index of them, read forward.
#[derive(Debug)]
pub(super) struct Stretches {
    cursor: BlockCursor,
    /// Of the partition in the data.
    position: u64,
    end: u64,
    /// The next range to be looked up.
    next: usize,
    ahead: Queue<Stretch>,
    /// Where what was located so far ends.
    reached: u64,
    /// How many stretches in a row started near the end of the one before, where ranges are not
    /// known beforehand: then what lies between is read as well.
    near: Option<u32>,
}

/// Stretches that are located ahead of the consumer.
const STRETCHES_MAX: usize = 128;
/// What is skipped further than this is not read.
pub(super) const SKIP_BYTES: u64 = 32 << 10;
/// After so many near stretches the rest of the partition is read with growing steps.
const NEAR_MAX: u32 = 2;

/// Whether all ranges of a slice are known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranges {
    /// They are.
    Known,
    /// They are asked for one by one.
    Asked,
}

/// Whether a range has no upper bound.
fn is_open(range: &ClusteringRange) -> bool {
    range.end == ClusteringPosition::end()
}

impl Stretches {
    /// Of a partition that lies between two positions of the data.
    pub(super) fn new(
        cursor: BlockCursor,
        (position, end): (u64, u64),
        ranges: Ranges,
    ) -> Result<Stretches, Damaged> {
        let header_end = position.saturating_add(cursor.rows_start());
        if header_end <= position || end < header_end {
            return Err(Damaged::new("impossible header of a row index", cursor.rows_start()));
        }
        debug_assert!(position < end, "bounded-by-slice: a partition from {position} to {end}");
        let near = (ranges == Ranges::Asked).then_some(0);
        let ahead = Queue::new();
        Ok(Stretches { cursor, position, end, next: 0, ahead, reached: header_end, near })
    }

    /// The partition tombstone.
    pub(super) fn tombstone(&self) -> Tombstone {
        self.cursor.tombstone()
    }

    /// Where the partition and its rows start in the data.
    pub(super) fn header(&self) -> (u64, u64) {
        (self.position, self.position + self.cursor.rows_start())
    }

    /// The cursor.
    pub(super) fn into_cursor(self) -> BlockCursor {
        self.cursor
    }

    /// Ranges from one on are located anew; the consumer is at `here`.
    pub(super) fn restart(&mut self, range: usize, here: u64) {
        self.next = range;
        self.ahead.clear();
        let (_, header_end) = self.header();
        debug_assert!(header_end <= self.end, "bounded-by-slice: rows from {header_end} on");
        self.reached = here.clamp(header_end, self.end);
    }

    /// The consumer is at `here`.
    pub(super) fn catch_up(&mut self, here: u64) {
        debug_assert!(here <= self.end, "bounded-by-slice: at {here}, behind {}", self.end);
        self.reached = self.reached.max(here);
    }

    /// Where a range starts in the data, and what is open there.
    pub(super) async fn place_of(
        &mut self,
        range: &ClusteringRange,
    ) -> Result<Option<(u64, Tombstone)>, ReadError> {
        let skip = self.cursor.advance_to(range.start.as_parts()).await?;
        let place = self.place(skip.offset).ok();
        Ok(place.map(|place| (place.max(self.header().1), skip.open)))
    }

    /// The next stretch that was located.
    pub(super) fn take(&mut self) -> Option<Stretch> {
        self.ahead.pop_front()
    }

    /// Whether something of `ranges` was not located yet.
    pub(super) fn lacks(&self, ranges: &[ClusteringRange]) -> bool {
        self.next < ranges.len()
    }

    /// Where an offset that the index answered lies in the data.
    fn place(&self, offset: u64) -> Result<u64, Damaged> {
        let place = self.position.checked_add(offset).filter(|place| *place <= self.end);
        place.ok_or(Damaged::new("block past the end of its partition", offset))
    }

    /// Locates ranges, as far as it makes sense to read ahead.
    pub(super) async fn locate(
        &mut self,
        ranges: &[ClusteringRange],
        window: &mut Window,
        damaged: impl Fn(Damaged) -> ReadError,
    ) -> Result<(), ReadError> {
        let mut bytes = 0;
        while self.lacks(ranges) && self.ahead.len() < STRETCHES_MAX && bytes < AHEAD_BYTES_MAX {
            let stretch = self.locate_one(ranges, &damaged).await?;
            let forward = self.reached <= stretch.start && stretch.start <= stretch.end;
            assert!(forward, "forward-only: {stretch:?} after {}", self.reached);
            assert!(stretch.end <= self.end, "bounded-by-slice: {stretch:?}, behind {}", self.end);
            self.reached = stretch.end;
            bytes += stretch.end - stretch.start;
            let known = stretch.bounded && stretch.refine.is_none();
            match self.ahead.back_mut() {
                Some(last) if stretch.open.is_none() => {
                    (last.end, last.bounded, last.refine) =
                        (stretch.end, stretch.bounded, stretch.refine);
                }
                _ => self.ahead.push_back(stretch),
            }
            debug_assert!(self.ahead.len() <= STRETCHES_MAX, "{} stretches", self.ahead.len());
            window.plan(stretch.start..stretch.end);
            if !known {
                return Ok(());
            }
            window.issue_ahead().await;
        }
        Ok(())
    }

    async fn locate_one(
        &mut self,
        ranges: &[ClusteringRange],
        damaged: &impl Fn(Damaged) -> ReadError,
    ) -> Result<Stretch, ReadError> {
        let number = self.next;
        debug_assert!(number < ranges.len(), "forward-only: range {number} of {}", ranges.len());
        let range = &ranges[number];
        let skip = self.cursor.advance_to(range.start.as_parts()).await?;
        let start = self.place(skip.offset).map_err(damaged)?;
        // Within a block that was located, the ranges share a stretch.
        let goes_on = start < self.reached;
        let start = start.max(self.reached);
        if let Some(near) = &mut self.near {
            *near = if start - self.reached <= SKIP_BYTES { *near + 1 } else { 0 };
            if NEAR_MAX < *near {
                self.next = ranges.len();
                let (end, open) = (self.end, (!goes_on).then_some(skip.open));
                let (bounded, refine) = (false, None);
                return Ok(Stretch { start, end, open, range: number, bounded, refine });
            }
        }
        let (mut end, mut bounded, mut refine) = (self.end, false, None);
        if !is_open(range) {
            let upper = range.end.as_parts();
            let place = |offset| self.position.saturating_add(offset);
            let probed = self.cursor.probe_end(upper).map(place);
            let near = probed.is_some_and(|end| end <= start.saturating_add(WHOLE_BYTES));
            let found = if near || number + 1 == ranges.len() {
                refine = (!near).then_some(number);
                probed
            } else {
                self.cursor.find_end(upper).await?.map(|offset| self.position + offset)
            };
            if let Some(found) = found {
                (end, bounded) = (found.max(start), true);
            }
            if self.end < end {
                return Err(damaged(Damaged::new("block past the end of its partition", end)));
            }
        }
        self.next = if bounded { number + 1 } else { ranges.len() };
        let open = (!goes_on).then_some(skip.open);
        Ok(Stretch { start, end, open, range: number, bounded, refine })
    }

    /// Where the stretch of a range ends exactly.
    pub(super) async fn refined_end(
        &mut self,
        range: &ClusteringRange,
    ) -> Result<Option<u64>, ReadError> {
        let end = self.cursor.find_end(range.end.as_parts()).await?;
        let end = end.map(|offset| self.position.saturating_add(offset));
        Ok(end.filter(|end| *end <= self.end))
    }
}
