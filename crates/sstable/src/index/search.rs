//! Finding blocks of a promoted index by as few of its pages as possible. Pure: says which page
//! it lacks, and goes on when it has it.
//!
//! A probe reads the start of one block: a page of the map of offsets and the page that has the
//! block. Probes are placed by interpolation between what is known, and every block that starts
//! on a page at hand is tried before another page is asked for.
//!
//! Invariants
//!  - *progress*: a step that asks for a page never asks for it again before it has ended.
//!  - *log-probes*: from the fourth page on every second probe halves what is left, so whatever
//!    the keys are, it takes at most twice as many as bisection, and three more.
//!  - *log-memory*: it holds what a step needs and then [`HELD_MAX`] pages; of blocks it remembers
//!    starts beyond the position, each nearer than the one before.
//!  - *hints-decide-nothing*: ordinals choose probes; only compared positions move the bracket.

use crate::cache::{PAGE_BYTES, PromotedAt};
use crate::index::block::{Block, Place, Skip};
use crate::index::ordinal::Ordinal;
use crate::index::pages::{Pages, Stop};
use crate::index::promoted::{self, BlockTail, read_tail};
use crate::mx::clustering::read_position;
use crate::mx::header::Mapping;
use mutation::Tombstone;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;
use stdx::{Cursor, Damaged};

/// Pages that are held between two steps.
const HELD_MAX: usize = 3;
/// Blocks behind a position that are known when it is found, usually.
const HIGHS: usize = 6;
/// From this many blocks on the last one is looked at before others, where nothing is known of
/// where the keys end.
const FAR_BLOCKS: u64 = 64;

/// Pages of one step.
#[derive(Debug)]
struct Held<P: Pages> {
    pages: P,
    held: SmallVec<[(u64, P::Page); 2 * HELD_MAX]>,
    joined: Vec<u8>,
}

impl<P: Pages> Held<P> {
    fn page(&mut self, number: u64) -> Result<P::Page, Stop> {
        if let Some((_, page)) = self.held.iter().rev().find(|(other, _)| *other == number) {
            return Ok(page.clone());
        }
        let page = self.pages.now(number).ok_or(Stop::Need(number))?;
        self.held.push((number, page.clone()));
        Ok(page)
    }

    /// Parses what starts at `at` and ends before `end`, from as many pages as it takes.
    fn parse<T>(
        &mut self,
        at: u64,
        end: u64,
        mut parse: impl FnMut(&mut Cursor<'_>) -> Result<T, Damaged>,
    ) -> Result<T, Stop> {
        debug_assert!(at <= end, "progress: {at} to {end}");
        let limit = end.saturating_sub(at);
        let mut number = at / PAGE_BYTES;
        let page = self.page(number)?;
        let rest = page.get((at % PAGE_BYTES) as usize..).unwrap_or_default();
        let first = &rest[..rest.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
        let mut error = match parse(&mut Cursor::new(first)) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        joined.extend_from_slice(first);
        while (joined.len() as u64) < limit && (at + joined.len() as u64).is_multiple_of(PAGE_BYTES)
        {
            number += 1;
            let page = self.page(number)?;
            let more = page.len().min((limit - joined.len() as u64) as usize);
            joined.extend_from_slice(&page[..more]);
            match parse(&mut Cursor::new(&joined)) {
                Ok(value) => {
                    self.joined = joined;
                    return Ok(value);
                }
                Err(again) => error = again,
            }
        }
        Err(Stop::Damaged(error.from_base(at)))
    }
}

/// The start of a block that is known to lie beyond a position.
#[derive(Debug)]
struct High {
    index: u64,
    /// Where its prefix starts in the bytes of all.
    at: usize,
    weight: i8,
    ordinal: Ordinal,
}

/// What is known of where a position lies: of the blocks before `low` that they start before it,
/// of the block `high` and those behind it that they do not.
#[derive(Clone, Debug)]
struct Bracket {
    low: u64,
    high: u64,
    low_ordinal: Option<Ordinal>,
    high_ordinal: Option<Ordinal>,
    /// Blocks that start on pages at hand.
    run: Range<u64>,
    /// Probes on pages at hand, and others.
    near: u32,
    far: u32,
}

/// Which pages a search may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// All.
    All,
    /// Those at hand.
    AtHand,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
struct Target<'a> {
    position: Place<'a>,
    ordinal: Ordinal,
    /// Whether a block that starts right there counts as one before.
    or_at: bool,
}

/// The state of looking for positions in one promoted index.
#[derive(Debug)]
pub(crate) struct Search<P: Pages> {
    held: Held<P>,
    at: PromotedAt,
    mapping: Rc<Mapping>,
    /// Whether widths and last keys of blocks can be trusted.
    exact: bool,
    /// About where the rows end.
    outer: Option<Ordinal>,
    /// Forward: this many blocks start at or before the latest position.
    low: u64,
    low_ordinal: Option<Ordinal>,
    highs: SmallVec<[High; HIGHS]>,
    high_bytes: Vec<u8>,
    /// Backward: the block answered last.
    back: u64,
    /// Far probes that the present step forward has taken.
    far: u32,
    /// Prefixes of the block parsed last.
    first: Vec<u8>,
    last: Vec<u8>,
    /// The block whose end is in `last`.
    parsed: Option<(u64, BlockTail)>,
}

impl<P: Pages> Search<P> {
    /// Before the first block.
    pub(crate) fn new(
        pages: P,
        at: PromotedAt,
        mapping: Rc<Mapping>,
        exact: bool,
        outer: Option<Ordinal>,
    ) -> Search<P> {
        Search {
            held: Held { pages, held: SmallVec::new(), joined: Vec::new() },
            at,
            mapping,
            exact,
            outer,
            low: 0,
            low_ordinal: None,
            highs: SmallVec::new(),
            high_bytes: Vec::new(),
            back: 0,
            far: 0,
            first: Vec::new(),
            last: Vec::new(),
            parsed: None,
        }
    }

    /// The same, which puts keys into this memory.
    pub(crate) fn in_memory(self, [first, last, high_bytes]: [Vec<u8>; 3]) -> Search<P> {
        Search { first, last, high_bytes, ..self }
    }

    /// The memory that keys were put into.
    pub(crate) fn take_memory(&mut self) -> [Vec<u8>; 3] {
        debug_assert!(self.low <= self.count(), "log-memory: {} blocks", self.low);
        self.highs.clear();
        self.parsed = None;
        [&mut self.first, &mut self.last, &mut self.high_bytes].map(std::mem::take)
    }

    /// The pages that it looks at.
    pub(crate) fn pages(&self) -> &P {
        &self.held.pages
    }

    /// Gives it a page that it asked for.
    pub(crate) fn hold(&mut self, number: u64, page: P::Page) {
        let held = self.held.held.iter().all(|(other, _)| *other != number);
        debug_assert!(held, "progress: page {number} was asked for again");
        self.held.held.push((number, page));
    }

    /// A step has ended: forgets all but a few pages.
    pub(crate) fn settle(&mut self) {
        let held = &mut self.held.held;
        let excess = held.len().saturating_sub(HELD_MAX);
        held.drain(..excess);
        debug_assert!(held.len() <= HELD_MAX, "log-memory: {} pages", held.len());
    }

    fn count(&self) -> u64 {
        self.at.blocks as u64
    }

    /// Where the map of offsets starts in the file.
    fn map_at(&self) -> u64 {
        debug_assert!(4 * self.count() <= self.at.len, "a map of {} blocks", self.count());
        self.at.start + self.at.len - 4 * self.count()
    }

    fn compare(&self, prefix: &[u8], weight: i8, position: Place<'_>) -> Ordering {
        self.mapping.schema.order.compare((prefix, weight), position)
    }

    fn target<'a>(&self, position: Place<'a>, or_at: bool) -> Target<'a> {
        let ordinal = Ordinal::of(&self.mapping.schema.order, position);
        Target { position, ordinal, or_at }
    }

    /// Where a block stands in the file.
    fn block_at(&mut self, index: u64) -> Result<u64, Stop> {
        assert!(index < self.count(), "a block past the last");
        if index == 0 {
            return Ok(self.at.blocks_at);
        }
        let at = self.map_at() + 4 * index;
        let offset = self.held.parse(at, at + 4, |cursor| cursor.u32("offset of a block"))?;
        let block = self.at.blocks_at + offset as u64;
        if self.map_at() <= block {
            let what = "offset of a block past the blocks";
            return Err(Stop::Damaged(Damaged::new(what, at)));
        }
        Ok(block)
    }

    /// Reads where a block starts into `self.first`.
    fn read_start(&mut self, index: u64) -> Result<i8, Stop> {
        let (at, end) = (self.block_at(index)?, self.map_at());
        let (mapping, first) = (&self.mapping, &mut self.first);
        self.held.parse(at, end, |cursor| {
            first.clear();
            read_position(cursor, &mapping.shape.clustering, first)
        })
    }

    /// Reads a block; where it ends goes into `self.last`, what follows is answered.
    fn read_block(&mut self, index: u64) -> Result<BlockTail, Stop> {
        if let Some((parsed, tail)) = self.parsed
            && parsed == index
        {
            return Ok(tail);
        }
        self.parsed = None;
        let (at, end) = (self.block_at(index)?, self.map_at());
        let (mapping, first, last) = (&self.mapping, &mut self.first, &mut self.last);
        let form = self.at.form;
        let tail = self.held.parse(at, end, |cursor| {
            let fixed = &mapping.shape.clustering;
            first.clear();
            last.clear();
            read_position(cursor, fixed, first)?;
            let weight = read_position(cursor, fixed, last)?;
            read_tail(cursor, weight, form)
        })?;
        self.parsed = Some((index, tail));
        Ok(tail)
    }

    /// A block as it stands, for who looks for breaches.
    pub(crate) fn whole_block(&mut self, index: u64) -> Result<promoted::Block, Stop> {
        let first_weight = self.read_start(index)?;
        let BlockTail { last_weight, offset, width, open } = self.read_block(index)?;
        let (first, last) = ((self.first.clone(), first_weight), (self.last.clone(), last_weight));
        Ok(promoted::Block { first, last, offset, width, open })
    }

    /// Whether all of the block read last lies before a position, which only trusted keys tell.
    fn ends_before(&self, tail: &BlockTail, position: Place<'_>) -> bool {
        self.exact && self.compare(&self.last, tail.last_weight, position).is_lt()
    }

    /// Of the blocks around one, in the bracket, those that start on its page and whose entries of
    /// the map are on the page of its entry. Asks for no page, if the block was just read.
    fn run_around(&mut self, index: u64, within: Range<u64>) -> Result<Range<u64>, Stop> {
        let start = self.block_at(index)? / PAGE_BYTES * PAGE_BYTES;
        let map_at = self.map_at();
        let map_page = (map_at + 4 * index) / PAGE_BYTES * PAGE_BYTES;
        let first = map_page.saturating_sub(map_at).div_ceil(4).max(within.start);
        let end = ((map_page + PAGE_BYTES).saturating_sub(map_at) / 4).min(within.end);
        let (mut low, mut high) = (first.min(index), index);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.block_at(middle)? < start {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let begin = low;
        (low, high) = ((index + 1).min(end), end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.block_at(middle)? < start + PAGE_BYTES {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        debug_assert!(begin <= index, "progress: {index} is not in the run around it");
        Ok(begin.max(within.start)..low.max(begin))
    }

    /// Where to look next: a block of the bracket, and whether it is on a page at hand.
    fn choose(&self, bracket: &Bracket, target: &Target<'_>) -> (u64, bool) {
        let (low, high) = (bracket.low, bracket.high);
        debug_assert!(low < high && high <= self.count(), "progress: {low} to {high}");
        let run = bracket.run.start.max(low)..bracket.run.end.min(high);
        let near = !run.is_empty();
        let halve = match near {
            true => 2 <= bracket.near && bracket.near.is_multiple_of(2),
            false => 3 <= bracket.far && !bracket.far.is_multiple_of(2),
        };
        let guess = if halve { None } else { self.interpolate(bracket, target) };
        let guess = guess.unwrap_or(low + (high - low) / 2);
        if near { (guess.clamp(run.start, run.end - 1), true) } else { (guess, false) }
    }

    fn interpolate(&self, bracket: &Bracket, target: &Target<'_>) -> Option<u64> {
        let (low, high, count) = (bracket.low, bracket.high, self.count());
        let outer = if high == count { self.outer } else { None };
        let Some(low_ordinal) = bracket.low_ordinal else { return Some(low) };
        let Some(high_ordinal) = bracket.high_ordinal.or(outer) else {
            let far = high == count && FAR_BLOCKS <= high - low;
            return far.then_some(count - 1);
        };
        let fraction = target.ordinal.fraction(&low_ordinal, &high_ordinal)?;
        let from = low.saturating_sub(1);
        let way = (((high - from) as u128 * fraction as u128) >> 32) as u64;
        debug_assert!(way <= high - from, "hints-decide-nothing: {way} of {}", high - from);
        Some((from + way).clamp(low, high - 1))
    }

    /// Narrows a bracket until it is closed, or as far as `reach` allows; `beyond` is told of the
    /// starts that lie beyond.
    fn narrow(
        &mut self,
        bracket: &mut Bracket,
        target: &Target<'_>,
        reach: Reach,
        mut beyond: impl FnMut(u64, &[u8], i8, Ordinal),
    ) -> Result<(), Stop> {
        while bracket.low < bracket.high {
            let (probe, near) = self.choose(bracket, target);
            debug_assert!(
                (bracket.low..bracket.high).contains(&probe),
                "progress: probe {probe} beside {bracket:?}"
            );
            if !near && reach == Reach::AtHand {
                return Ok(());
            }
            let weight = match self.read_start(probe) {
                Ok(weight) => weight,
                // The block starts on a page at hand and ends elsewhere.
                Err(Stop::Need(_)) if near => {
                    let (low, high) = (bracket.low, bracket.high);
                    let run = bracket.run.start.max(low)..bracket.run.end.min(high);
                    let drop_front = probe == run.start && probe + 1 != run.end;
                    bracket.run = if drop_front { probe + 1..run.end } else { run.start..probe };
                    continue;
                }
                Err(stop) => return Err(stop),
            };
            if near {
                bracket.near += 1;
            } else {
                bracket.far += 1;
            }
            let ordinal = Ordinal::of(&self.mapping.schema.order, (&self.first, weight));
            let before = match self.compare(&self.first, weight, target.position) {
                Ordering::Less => true,
                Ordering::Equal => target.or_at,
                Ordering::Greater => false,
            };
            if before {
                (bracket.low, bracket.low_ordinal) = (probe + 1, Some(ordinal));
            } else {
                (bracket.high, bracket.high_ordinal) = (probe, Some(ordinal));
                beyond(probe, &self.first, weight, ordinal);
            }
            if !near {
                bracket.run = self.run_around(probe, bracket.low..bracket.high).unwrap_or(0..0);
                bracket.near = 0;
            }
        }
        Ok(())
    }

    /// The bracket of a position between what earlier steps have found: forward only.
    fn known(&mut self, target: &Target<'_>) -> Bracket {
        let mut bracket = Bracket {
            low: self.low,
            high: self.count(),
            low_ordinal: self.low_ordinal,
            high_ordinal: None,
            run: 0..0,
            near: 0,
            far: self.far,
        };
        for (number, high) in self.highs.iter().enumerate().rev() {
            let end = self.highs.get(number + 1).map_or(self.high_bytes.len(), |next| next.at);
            let prefix = &self.high_bytes[high.at..end];
            let before = match self.compare(prefix, high.weight, target.position) {
                Ordering::Less => true,
                Ordering::Equal => target.or_at,
                Ordering::Greater => false,
            };
            if before {
                (bracket.low, bracket.low_ordinal) = (high.index + 1, Some(high.ordinal));
            } else {
                (bracket.high, bracket.high_ordinal) = (high.index, Some(high.ordinal));
                break;
            }
        }
        bracket.low = bracket.low.min(bracket.high);
        debug_assert!(bracket.high <= self.count(), "progress: {bracket:?}");
        bracket
    }

    /// See [`crate::index::cursor::BlockCursor::advance_to`].
    pub(crate) fn advance_to(&mut self, position: Place<'_>) -> Result<Skip, Stop> {
        let target = self.target(position, true);
        let mut bracket = self.known(&target);
        while self.highs.last().is_some_and(|high| high.index < bracket.low) {
            let high = self.highs.pop();
            self.high_bytes.truncate(high.map_or(0, |high| high.at));
        }
        self.look_around(&mut bracket);
        let (mut highs, mut bytes) =
            (std::mem::take(&mut self.highs), std::mem::take(&mut self.high_bytes));
        let narrowed =
            self.narrow(&mut bracket, &target, Reach::All, |index, prefix, weight, ordinal| {
                let nearer = highs.last().is_none_or(|before: &High| index < before.index);
                debug_assert!(nearer, "log-memory: block {index} is not nearer");
                highs.push(High { index, at: bytes.len(), weight, ordinal });
                bytes.extend_from_slice(prefix);
            });
        (self.highs, self.high_bytes) = (highs, bytes);
        (self.low, self.low_ordinal) = (bracket.low, bracket.low_ordinal);
        self.far = bracket.far;
        narrowed?;
        debug_assert!(bracket.low == bracket.high, "progress: {bracket:?} is not closed");
        let Some(index) = bracket.low.checked_sub(1) else {
            return Ok(Skip { offset: self.at.header_bytes, open: Tombstone::NONE });
        };
        let tail = self.read_block(index)?;
        let skip = match self.ends_before(&tail, position) {
            true => Skip { offset: tail.offset + tail.width, open: tail.open },
            false => Skip { offset: tail.offset, open: self.open_before(index)? },
        };
        self.far = 0;
        Ok(skip)
    }

    /// Starts with the blocks of the page that has the latest one, or with the first block, if
    /// these are at hand.
    fn look_around(&mut self, bracket: &mut Bracket) {
        let near = bracket.low.saturating_sub(1);
        if bracket.low == 0 {
            if self.read_start(0).is_ok() {
                bracket.run = 0..1;
            }
        } else if let Ok(run) = self.run_around(near, bracket.low..bracket.high) {
            bracket.run = run;
        }
    }

    /// The range tombstone that is open before a block.
    fn open_before(&mut self, index: u64) -> Result<Tombstone, Stop> {
        match index.checked_sub(1) {
            Some(before) => Ok(self.read_block(before)?.open),
            None => Ok(Tombstone::NONE),
        }
    }

    /// See [`crate::index::cursor::BlockCursor::probe_end`].
    pub(crate) fn probe_end(&mut self, position: Place<'_>) -> Option<u64> {
        let found = self.end_of(position, Reach::AtHand);
        self.settle();
        found.ok().flatten()
    }

    /// See [`crate::index::cursor::BlockCursor::find_end`].
    pub(crate) fn find_end(&mut self, position: Place<'_>) -> Result<Option<u64>, Stop> {
        self.end_of(position, Reach::All)
    }

    fn end_of(&mut self, position: Place<'_>, reach: Reach) -> Result<Option<u64>, Stop> {
        let target = self.target(position, false);
        let mut bracket = self.known(&target);
        self.look_around(&mut bracket);
        self.narrow(&mut bracket, &target, reach, |_, _, _, _| {})?;
        if bracket.high < self.count() {
            return self.start_offset(bracket.high).map(Some);
        }
        match self.exact && bracket.low == self.count() {
            true => self.end().map(Some),
            false => Ok(None),
        }
    }

    /// The offset of a block, from the one before it if that is what is at hand.
    fn start_offset(&mut self, index: u64) -> Result<u64, Stop> {
        match self.read_block(index) {
            Err(Stop::Need(number)) if self.exact && 0 < index => {
                let before = self.read_block(index - 1).map_err(|_| Stop::Need(number))?;
                Ok(before.offset + before.width)
            }
            read => Ok(read?.offset),
        }
    }

    /// Where the last block ends.
    fn end(&mut self) -> Result<u64, Stop> {
        debug_assert!(0 < self.count(), "an index of no block");
        let tail = self.read_block(self.count() - 1)?;
        Ok(tail.offset + tail.width)
    }

    /// Where the last block ends, if that can be trusted and is at hand.
    pub(crate) fn end_now(&mut self) -> Option<u64> {
        if self.exact { self.end().ok() } else { None }
    }

    /// See [`crate::index::cursor::BlockCursor::last_before`].
    pub(crate) fn last_before(
        &mut self,
        position: Place<'_>,
        lower: Place<'_>,
    ) -> Result<Block, Stop> {
        let target = self.target(position, false);
        let mut bracket = Bracket {
            low: 0,
            high: self.count(),
            low_ordinal: None,
            high_ordinal: None,
            run: 0..0,
            near: 0,
            far: 0,
        };
        if position.0.is_empty() && 0 < position.1 {
            bracket.low = self.count();
        } else {
            self.look_around(&mut bracket);
            self.narrow(&mut bracket, &target, Reach::All, |_, _, _, _| {})?;
        }
        self.back = bracket.low;
        debug_assert!(self.back <= self.count(), "progress: backwards from {}", self.back);
        let Some(index) = bracket.low.checked_sub(1) else {
            let start = self.at.header_bytes;
            return Ok(Block { start, end: start, open: Tombstone::NONE });
        };
        let tail = self.read_block(index)?;
        let end = tail.offset + tail.width;
        if self.ends_before(&tail, lower) {
            return Ok(Block { start: end, end, open: tail.open });
        }
        let open = self.open_before(index)?;
        self.back = index;
        Ok(Block { start: tail.offset, end, open })
    }

    /// See [`crate::index::cursor::BlockCursor::previous`].
    pub(crate) fn previous(&mut self, lower: Place<'_>) -> Result<Option<Block>, Stop> {
        debug_assert!(self.back <= self.count(), "progress: backwards from {}", self.back);
        let Some(index) = self.back.checked_sub(1) else { return Ok(None) };
        let open_below = lower.0.is_empty() && lower.1 < 0;
        if self.back < self.count() && !open_below {
            let weight = self.read_start(self.back)?;
            if self.compare(&self.first, weight, lower).is_le() {
                return Ok(None);
            }
        }
        let tail = self.read_block(index)?;
        if self.ends_before(&tail, lower) {
            return Ok(None);
        }
        let open = self.open_before(index)?;
        self.back = index;
        Ok(Some(Block { start: tail.offset, end: tail.offset + tail.width, open }))
    }
}

#[cfg(test)]
mod tests;
