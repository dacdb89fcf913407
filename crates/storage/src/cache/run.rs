//! The codec of a run: one interval of a partition's clustering positions, and all rows and range
//! tombstones that lie in it.
//!
//! ```text
//! run      := flags:u8 count:be16 [position] [position] [tombs:vint_bytes] touched end* row*
//! flags    := 01 from the partition's start | 02 to its end (that position is not written)
//!             | 04 ends have four bytes, not two | 08 tombs
//! position := weight:u8 prefix:vint_bytes
//! tombs    := (position position ts:be64 deletion_time:be64)*        start, end; ascending
//! touched  := a bit per row, to whole bytes; nothing where there is but one row
//! end      := where a row ends, from where the rows begin; none for the last row
//! row      := key:vint_bytes row blob
//! ```
//!
//! Invariants
//!  - *in-order*: rows ascend and lie in the interval; range tombstones are *normalized*
//!    ([`RangeTombstoneList`]) and clipped to it.
//!  - *own-bytes*: only [`Draft`] writes runs; so their bytes are trusted.

use model::ClusteringOrder;
use mutation::{
    ClusteringPosition, ClusteringRange, Direction, RangeTombstone, RangeTombstoneList, Tombstone,
    TombstoneChange,
};
use std::cell::Cell;
use std::ops::Range;
use stdx::{Bytes, Cursor, Damaged, Put, vint};

const FROM_START: u8 = 0x01;
const TO_END: u8 = 0x02;
const WIDE: u8 = 0x04;
const TOMBSTONES: u8 = 0x08;

/// What a run that is made has at most, unless one row has more.
pub(super) const RUN_BYTES: usize = 4096;
/// A run that grows beyond this is divided, but at rows only. So one that is full does not become
/// two halves by the next row that is merged into it.
pub(super) const RUN_BYTES_MAX: usize = RUN_BYTES / 2 * 3;
/// About what a range tombstone takes in a run, beside its prefixes.
const TOMBSTONE_BYTES: usize = 20;

/// A position as [`ClusteringOrder::compare`] takes it.
pub(crate) type Parts<'a> = (&'a [u8], i8);

/// The position with a prefix of its own.
pub(super) fn owned(position: Parts<'_>) -> ClusteringPosition {
    ClusteringPosition { prefix: Bytes::copy_from(position.0), weight: position.1 }
}

/// Which rows of a run were read: all from the first to the last one.
#[derive(Debug, Default)]
pub(super) struct Marks(Cell<(u16, u16)>);

impl Marks {
    #[inline]
    fn add(&self, index: usize) {
        debug_assert!(index < u16::MAX as usize, "own-bytes: row {index}");
        let index = index as u16;
        let (first, last) = self.0.get();
        self.0.set(match last {
            0 => (index, index + 1),
            _ => (first.min(index), last.max(index + 1)),
        });
    }
    /// By index; empty: none.
    pub(super) fn rows(&self) -> Range<usize> {
        let (first, last) = self.0.get();
        debug_assert!(first <= last, "own-bytes: rows from {first} to {last}");
        first as usize..last as usize
    }
}

/// A view of a run's bytes. Copying it costs nothing; it allocates nothing but where it says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunView<'a> {
    start: Parts<'a>,
    end: Parts<'a>,
    tombstones: &'a [u8],
    /// Where the touched bits are in the run's bytes.
    touched_at: usize,
    touched: &'a [u8],
    count: usize,
    wide: bool,
    ends: &'a [u8],
    /// Where the rows are in the run's bytes.
    rows_at: usize,
    rows: &'a [u8],
    /// Where reading is noted, if it is.
    marks: Option<&'a Marks>,
}

impl<'a> RunView<'a> {
    /// A whole partition with nothing in it.
    pub(crate) const NOTHING: RunView<'static> = RunView {
        start: (&[], -1),
        end: (&[], 1),
        tombstones: &[],
        touched_at: 0,
        touched: &[],
        count: 0,
        wide: false,
        ends: &[],
        rows_at: 0,
        rows: &[],
        marks: None,
    };

    /// Of bytes that [`Draft`] wrote (*own-bytes*).
    pub(super) fn of(bytes: &'a [u8]) -> RunView<'a> {
        RunView::read(bytes).expect("own-bytes: a draft wrote them")
    }

    fn read(bytes: &'a [u8]) -> Result<RunView<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let flags = cursor.u8("flags")?;
        let count = cursor.u16("count")? as usize;
        let start = match flags & FROM_START {
            0 => read_position(&mut cursor)?,
            _ => (&[][..], -1),
        };
        let end = match flags & TO_END {
            0 => read_position(&mut cursor)?,
            _ => (&[][..], 1),
        };
        let tombstones = match flags & TOMBSTONES {
            0 => &[],
            _ => cursor.vint_bytes("tombstones")?,
        };
        let touched_at = cursor.offset();
        let touched = cursor.take(touched_len(count), "touched bits")?;
        let wide = flags & WIDE != 0;
        let ends = cursor.take(count.saturating_sub(1) * end_len(wide), "ends")?;
        let (rows_at, rows) = (cursor.offset(), cursor.rest());
        let marks = None;
        Ok(RunView {
            start,
            end,
            tombstones,
            touched_at,
            touched,
            count,
            wide,
            ends,
            rows_at,
            rows,
            marks,
        })
    }

    /// The view that notes which rows are read through it.
    pub(super) fn marking(mut self, marks: &'a Marks) -> RunView<'a> {
        self.marks = Some(marks);
        self
    }

    /// Where it starts: the first position that is known.
    pub(crate) fn start(&self) -> Parts<'a> {
        self.start
    }
    /// Where it ends: the first position that is not known any more.
    pub(crate) fn end(&self) -> Parts<'a> {
        self.end
    }
    /// The interval; allocates.
    pub(crate) fn interval(&self) -> ClusteringRange {
        ClusteringRange { start: owned(self.start), end: owned(self.end) }
    }
    /// Whether it is all of its partition.
    pub(crate) fn is_whole(&self) -> bool {
        is_start(self.start) && is_end(self.end)
    }
    /// How many rows it has.
    pub(crate) fn row_count(&self) -> usize {
        self.count
    }
    /// Whether range tombstones lie in it.
    pub(crate) fn has_tombstones(&self) -> bool {
        !self.tombstones.is_empty()
    }
    /// Whether it has neither rows nor range tombstones.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.tombstones.is_empty()
    }

    /// The key and the blob of a row, which counts as read. Panics if there is none of that index.
    #[inline]
    pub(crate) fn row(&self, index: usize) -> (&'a [u8], &'a [u8]) {
        if let Some(marks) = self.marks {
            marks.add(index);
        }
        self.row_at(index)
    }

    /// Where the key and the blob of a row lie in the run's bytes, if there is one of that index.
    pub(super) fn bytes_of(&self, index: usize) -> Option<(Range<usize>, Range<usize>)> {
        if self.count <= index {
            return None;
        }
        let (key, row) = self.row_at(index);
        let end = self.rows_at + self.end_of(index);
        debug_assert!(key.len() + row.len() <= end - self.rows_at, "own-bytes: row {index}");
        let row_at = end - row.len();
        Some((row_at - key.len()..row_at, row_at..end))
    }

    #[inline]
    fn row_at(&self, index: usize) -> (&'a [u8], &'a [u8]) {
        let first = if index == 0 { 0 } else { self.end_of(index - 1) };
        let bytes = &self.rows[first..self.end_of(index)];
        let (len, size) = vint::read(bytes).expect("own-bytes: a row has a key");
        bytes[size..].split_at(len as usize)
    }

    #[inline]
    fn end_of(&self, index: usize) -> usize {
        assert!(index < self.count, "row {index} of {}", self.count);
        if index + 1 == self.count {
            return self.rows.len();
        }
        match self.wide {
            false => {
                let at = &self.ends[2 * index..2 * index + 2];
                u16::from_be_bytes([at[0], at[1]]) as usize
            }
            true => {
                let at = &self.ends[4 * index..4 * index + 4];
                u32::from_be_bytes([at[0], at[1], at[2], at[3]]) as usize
            }
        }
    }

    /// How many rows lie before a position.
    #[inline]
    pub(crate) fn rows_before(&self, order: &ClusteringOrder, position: Parts<'_>) -> usize {
        if is_start(position) {
            return 0;
        }
        if is_end(position) {
            return self.count;
        }
        self.rows_before_within(order, position, 0..self.count)
    }

    /// The same, where the first `from` rows are known to lie before it. Costs little where the
    /// next row does not.
    pub(super) fn rows_before_from(
        &self,
        order: &ClusteringOrder,
        position: Parts<'_>,
        from: usize,
    ) -> usize {
        if is_end(position) {
            return self.count;
        }
        debug_assert!(from <= self.count, "in-order: {from} of {} rows", self.count);
        debug_assert!(
            from == 0 || order.compare((self.row_at(from - 1).0, 0), position).is_lt(),
            "in-order: row {from} is not before the position"
        );
        let (mut low, mut step) = (from, 1);
        while low + step <= self.count {
            let row = self.row_at(low + step - 1).0;
            if order.compare((row, 0), position).is_ge() {
                return self.rows_before_within(order, position, low..low + step - 1);
            }
            low += step;
            step *= 2;
        }
        self.rows_before_within(order, position, low..self.count)
    }

    fn rows_before_within(
        &self,
        order: &ClusteringOrder,
        position: Parts<'_>,
        within: Range<usize>,
    ) -> usize {
        let Range { start: mut low, end: mut high } = within;
        while low < high {
            let middle = low.midpoint(high);
            match order.compare((self.row_at(middle).0, 0), position).is_lt() {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        debug_assert!(
            low == 0 || order.compare((self.row_at(low - 1).0, 0), position).is_lt(),
            "in-order: row {low}"
        );
        debug_assert!(
            low == self.count || order.compare((self.row_at(low).0, 0), position).is_ge(),
            "in-order: row {low}"
        );
        low
    }

    /// The blob of the row with that key.
    #[cfg(test)]
    pub(crate) fn find(&self, order: &ClusteringOrder, key: &[u8]) -> Option<&'a [u8]> {
        let index = self.rows_before(order, (key, 0));
        if index == self.count {
            return None;
        }
        let found = self.row_at(index).0;
        let is_it = found == key || order.compare_rows(found, key).is_eq();
        is_it.then(|| self.row(index).1)
    }

    /// The rows in `range`, in table order; `rev()` gives the other direction.
    pub(crate) fn rows(&self, order: &ClusteringOrder, range: &ClusteringRange) -> RunRows<'a> {
        let first = self.rows_before(order, range.start.as_parts());
        let last = self.rows_before(order, range.end.as_parts());
        debug_assert!(first <= self.count && last <= self.count, "in-order: {first} to {last}");
        RunRows { run: *self, left: first..last.max(first) }
    }

    /// All rows.
    #[cfg(test)]
    pub(crate) fn all_rows(&self) -> RunRows<'a> {
        RunRows { run: *self, left: 0..self.count }
    }

    /// The range tombstones in it, one by one; each one allocates its positions.
    pub(crate) fn ranges(&self) -> RunRanges<'a> {
        RunRanges { cursor: Cursor::new(self.tombstones) }
    }

    /// The range tombstones in it. Allocates only if there are any.
    pub(crate) fn tombstones(&self, order: &ClusteringOrder) -> RangeTombstoneList {
        let mut list = RangeTombstoneList::new();
        self.ranges().for_each(|range| list.insert(order, range));
        debug_assert_eq!(list.len(), self.ranges().count(), "in-order: tombstones of {list:?}");
        list
    }

    /// The range tombstones in `range` as the changes of a stream in that direction, opened and
    /// closed at its bounds and at those of the run. Allocates only if there are any.
    pub(crate) fn changes(
        &self,
        order: &ClusteringOrder,
        range: &ClusteringRange,
        direction: Direction,
    ) -> Vec<TombstoneChange> {
        if !self.has_tombstones() {
            return Vec::new();
        }
        self.tombstones(order).changes(order, range, direction)
    }

    /// The rows from the first to the last one that were read since the bits were cleared; empty:
    /// none was. The only row of a run has no bit.
    pub(super) fn touched_rows(&self) -> Range<usize> {
        let is_set = |index: &usize| self.touched[index / 8] & (1 << (index % 8)) != 0;
        let bits = 0..if self.touched.is_empty() { 0 } else { self.count };
        let first = bits.clone().find(is_set);
        let last = bits.rev().find(is_set);
        debug_assert!(first.is_some() == last.is_some() && first <= last, "own-bytes: bits");
        first.unwrap_or(0)..last.map_or(0, |last| last + 1)
    }
    /// Where the bits of touched rows lie in the run's bytes.
    pub(super) fn touched_bytes(&self) -> Range<usize> {
        self.touched_at..self.touched_at + self.touched.len()
    }
}

/// Rows of a run; see [`RunView::rows`].
#[derive(Clone, Debug)]
pub(crate) struct RunRows<'a> {
    run: RunView<'a>,
    left: Range<usize>,
}

impl RunRows<'_> {
    /// Which rows are left, by index.
    pub(crate) fn indices(&self) -> Range<usize> {
        self.left.clone()
    }
}

impl<'a> Iterator for RunRows<'a> {
    type Item = (&'a [u8], &'a [u8]);
    fn next(&mut self) -> Option<Self::Item> {
        self.left.next().map(|index| self.run.row(index))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}
impl DoubleEndedIterator for RunRows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left.next_back().map(|index| self.run.row(index))
    }
}
impl ExactSizeIterator for RunRows<'_> {}

/// Range tombstones of a run; see [`RunView::ranges`].
#[derive(Clone, Debug)]
pub(crate) struct RunRanges<'a> {
    cursor: Cursor<'a>,
}

impl Iterator for RunRanges<'_> {
    type Item = RangeTombstone;
    fn next(&mut self) -> Option<RangeTombstone> {
        if self.cursor.is_empty() {
            return None;
        }
        let cursor = &mut self.cursor;
        let mut read = || -> Result<RangeTombstone, Damaged> {
            let start = owned(read_position(cursor)?);
            let end = owned(read_position(cursor)?);
            let timestamp = cursor.i64("timestamp")?;
            let deletion_time = cursor.i64("deletion time")?;
            let tombstone = Tombstone { timestamp, deletion_time };
            Ok(RangeTombstone { range: ClusteringRange { start, end }, tombstone })
        };
        Some(read().expect("own-bytes: a draft wrote them"))
    }
}

pub(super) fn is_start(position: Parts<'_>) -> bool {
    position.0.is_empty() && position.1 < 0
}

pub(super) fn is_end(position: Parts<'_>) -> bool {
    position.0.is_empty() && 0 < position.1
}

/// Flags are told apart.
const _: () = assert!(FROM_START | TO_END | WIDE | TOMBSTONES == 0x0f);
/// What is drafted as one run is no more than what is cut in two.
const _: () = assert!(RUN_BYTES < RUN_BYTES_MAX && RUN_BYTES_MAX <= 2 * RUN_BYTES);
/// A row that is one run ends where two bytes can say, and rows of one are counted by two.
const _: () = assert!(RUN_BYTES_MAX < u16::MAX as usize);

const fn touched_len(count: usize) -> usize {
    if count < 2 { 0 } else { count.div_ceil(8) }
}

const fn end_len(wide: bool) -> usize {
    if wide { 4 } else { 2 }
}

fn read_position<'a>(cursor: &mut Cursor<'a>) -> Result<Parts<'a>, Damaged> {
    let weight = cursor.u8("weight")? as i8;
    Ok((cursor.vint_bytes("prefix")?, weight))
}

fn put_position(out: &mut Vec<u8>, position: Parts<'_>) {
    out.put_u8(position.1 as u8);
    out.put_vint_bytes(position.0);
}

/// Rows as they stand in a run.
#[derive(Debug, Default)]
struct Rows {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Rows {
    fn start_of(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] as usize }
    }
    fn bytes_of(&self, rows: &Range<usize>) -> &[u8] {
        &self.bytes[self.start_of(rows.start)..self.start_of(rows.end)]
    }
    fn key(&self, index: usize) -> &[u8] {
        let bytes = &self.bytes[self.start_of(index)..self.start_of(index + 1)];
        let (len, size) = vint::read(bytes).expect("own-bytes: a row has a key");
        &bytes[size..size + len as usize]
    }
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// The only writer of runs: takes rows and range tombstones of an interval that begins at
/// `start` and gives them as runs of about [`RUN_BYTES`], one of up to [`RUN_BYTES_MAX`].
#[derive(Debug)]
pub(super) struct Draft {
    start: ClusteringPosition,
    rows: Rows,
    tombstones: RangeTombstoneList,
    /// About what the tombstones take.
    tombstone_bytes: usize,
    /// Where a run is put together.
    scratch: Vec<u8>,
}

impl Draft {
    /// Of an interval that begins there.
    pub(super) fn new(start: ClusteringPosition) -> Draft {
        let (rows, tombstones) = (Rows::default(), RangeTombstoneList::new());
        Draft { start, rows, tombstones, tombstone_bytes: 0, scratch: Vec::new() }
    }

    /// About how many bytes of buffers it keeps.
    pub(super) fn capacity(&self) -> usize {
        self.rows.bytes.capacity() + self.scratch.capacity()
    }

    /// Drops what it has, and begins there.
    pub(super) fn restart(&mut self, start: ClusteringPosition) {
        self.start = start;
        self.rows.clear();
        self.tombstones = RangeTombstoneList::new();
        self.tombstone_bytes = 0;
    }

    pub(super) fn start(&self) -> &ClusteringPosition {
        &self.start
    }
    /// About how many bytes its runs have.
    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes.len() + 2 * self.rows.ends.len() + self.tombstone_bytes
    }

    /// Whether it becomes one run, if it ends here.
    pub(super) fn is_one_run(&self) -> bool {
        self.rows.bytes.len() <= RUN_BYTES_MAX
    }

    /// Appends all of it, which are rows alone, as a run of a whole partition, and drops it.
    pub(super) fn take_whole(&mut self, order: &ClusteringOrder, out: &mut Vec<u8>) {
        debug_assert!(self.tombstones.is_empty(), "rows alone become a whole partition");
        debug_assert!(is_start(self.start.as_parts()), "a whole partition from {:?}", self.start);
        debug_assert!(self.is_one_run(), "own-bytes: {} bytes as one run", self.bytes());
        self.encode(order, &ClusteringRange::full(), 0..self.rows.ends.len(), out);
        self.rows.clear();
    }

    /// Adds a row after all that it has.
    pub(super) fn row(&mut self, key: &[u8], row: &[u8]) {
        self.row_with(key, |out| out.extend_from_slice(row));
    }

    /// Adds a row whose blob `write` appends.
    pub(super) fn row_with(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.rows.bytes.len();
        self.rows.bytes.put_vint_bytes(key);
        write(&mut self.rows.bytes);
        debug_assert!(before + key.len() < self.rows.bytes.len(), "own-bytes: a row of nothing");
        self.rows.ends.push(row_end(self.rows.bytes.len()));
    }

    /// Adds rows of a run, by index, after all that it has.
    pub(super) fn rows_of(&mut self, run: &RunView<'_>, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        let first = if rows.start == 0 { 0 } else { run.end_of(rows.start - 1) };
        let base = self.rows.bytes.len();
        self.rows.bytes.extend_from_slice(&run.rows[first..run.end_of(rows.end - 1)]);
        let ends = rows.map(|index| row_end(base + run.end_of(index) - first));
        self.rows.ends.extend(ends);
        let end = self.rows.ends.last().map_or(0, |end| *end as usize);
        debug_assert_eq!(end, self.rows.bytes.len(), "own-bytes: where rows end");
    }

    /// Adds a range tombstone. It may reach beyond the interval that is drafted.
    pub(super) fn range(&mut self, order: &ClusteringOrder, range: RangeTombstone) {
        let prefixes = range.range.start.prefix.len() + range.range.end.prefix.len();
        debug_assert!(!range.tombstone.is_none(), "in-order: a range tombstone that is none");
        self.tombstone_bytes += TOMBSTONE_BYTES + prefixes;
        self.tombstones.insert(order, range);
    }

    /// Ends the interval at `end`: gives it as runs, each with where it starts, and begins anew
    /// there, with the range tombstones that reach beyond.
    pub(super) fn finish(
        &mut self,
        order: &ClusteringOrder,
        end: &ClusteringPosition,
        mut each: impl FnMut(&ClusteringPosition, &[u8]),
    ) {
        let count = self.rows.ends.len();
        let pieces = match self.is_one_run() {
            true => 1,
            false => self.rows.bytes.len().div_ceil(RUN_BYTES),
        };
        let target = self.rows.bytes.len().div_ceil(pieces);
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut first = 0;
        loop {
            let mut last = if pieces == 1 { count } else { first };
            while last < count && self.rows.start_of(last) - self.rows.start_of(first) < target {
                last += 1;
            }
            debug_assert!(first < last || last == count, "in-order: no row from {first} on");
            let reached = match last == count {
                true => end.clone(),
                false => ClusteringPosition::after(Bytes::copy_from(self.rows.key(last - 1))),
            };
            scratch.clear();
            let interval = ClusteringRange { start: self.start.clone(), end: reached };
            self.encode(order, &interval, first..last, &mut scratch);
            each(&interval.start, &scratch);
            self.start = interval.end;
            first = last;
            if last == count {
                break;
            }
        }
        self.scratch = scratch;
        self.rows.clear();
        self.keep_tombstones_from(order, end);
    }

    fn keep_tombstones_from(&mut self, order: &ClusteringOrder, end: &ClusteringPosition) {
        self.tombstone_bytes = 0;
        if self.tombstones.is_empty() {
            return;
        }
        let rest = ClusteringRange { start: end.clone(), end: ClusteringPosition::end() };
        let old = std::mem::take(&mut self.tombstones);
        old.slice(order, &rest).for_each(|range| self.range(order, range));
    }

    fn encode(
        &self,
        order: &ClusteringOrder,
        interval: &ClusteringRange,
        rows: Range<usize>,
        out: &mut Vec<u8>,
    ) {
        let (at, start, end) = (out.len(), interval.start.as_parts(), interval.end.as_parts());
        debug_assert!(order.compare(start, end).is_le(), "in-order: {interval:?}");
        debug_assert!(
            rows.clone().all(|row| {
                let key = (self.rows.key(row), 0);
                order.compare(start, key).is_le() && order.compare(key, end).is_lt()
            }),
            "in-order: a row is not in {interval:?}"
        );
        debug_assert!(
            rows.clone().skip(1).all(|row| {
                order.compare_rows(self.rows.key(row - 1), self.rows.key(row)).is_lt()
            }),
            "in-order: rows of {interval:?}"
        );
        let mut tombstones = Vec::new();
        for range in self.tombstones.slice(order, interval) {
            put_position(&mut tombstones, range.range.start.as_parts());
            put_position(&mut tombstones, range.range.end.as_parts());
            tombstones.put_i64(range.tombstone.timestamp);
            tombstones.put_i64(range.tombstone.deletion_time);
        }
        let bytes = self.rows.bytes_of(&rows);
        let wide = u16::MAX as usize <= bytes.len();
        let mut flags = if is_start(start) { FROM_START } else { 0 };
        flags |= if is_end(end) { TO_END } else { 0 };
        flags |= if wide { WIDE } else { 0 };
        flags |= if tombstones.is_empty() { 0 } else { TOMBSTONES };
        let count = u16::try_from(rows.len()).expect("a run of a few KiB has few rows");
        out.put_u8(flags);
        out.put_u16(count);
        if !is_start(start) {
            put_position(out, start);
        }
        if !is_end(end) {
            put_position(out, end);
        }
        if !tombstones.is_empty() {
            out.put_vint_bytes(&tombstones);
        }
        out.resize(out.len() + touched_len(rows.len()), 0);
        let base = self.rows.start_of(rows.start);
        for index in rows.start..rows.end.saturating_sub(1).max(rows.start) {
            let end = self.rows.ends[index] as usize - base;
            match wide {
                false => out.put_u16(end as u16),
                true => out.put_u32(end as u32),
            }
        }
        out.put(bytes);
        debug_assert!(
            {
                let view = RunView::of(&out[at..]);
                let is_row = |row: usize| view.row_at(row - rows.start).0 == self.rows.key(row);
                (view.start, view.end, view.count) == (start, end, rows.len())
                    && rows.clone().all(is_row)
            },
            "own-bytes: {interval:?} is not read back"
        );
    }
}

/// Appends what [`Draft::take_whole`] makes of one row with less than 64 KiB.
pub(super) fn write_only_row(out: &mut Vec<u8>, key: &[u8], row: &[u8]) {
    debug_assert!(row.len() < u16::MAX as usize, "a row of {} bytes", row.len());
    let at = out.len();
    out.put_u8(FROM_START | TO_END);
    out.put_u16(1);
    out.put_vint_bytes(key);
    out.put(row);
    debug_assert_eq!(RunView::of(&out[at..]).row_at(0), (key, row), "own-bytes: the only row");
}

/// Rows of a draft are few, and none has 4 GiB.
fn row_end(end: usize) -> u32 {
    u32::try_from(end).expect("rows over 4 GiB are not cached")
}

/// Gives what of `run` lies in `range` as a run, if anything of that range does.
pub(super) fn clip(
    order: &ClusteringOrder,
    run: &RunView<'_>,
    range: &ClusteringRange,
    each: impl FnMut(&ClusteringPosition, &[u8]),
) {
    let Some(range) = run.interval().intersect(order, range) else { return };
    debug_assert!(
        order.compare(run.start, range.start.as_parts()).is_le()
            && order.compare(range.end.as_parts(), run.end).is_le(),
        "in-order: {range:?} reaches beyond its run"
    );
    let mut draft = Draft::new(range.start.clone());
    draft.rows_of(run, run.rows(order, &range).indices());
    run.ranges().for_each(|tombstone| draft.range(order, tombstone));
    // What lies before the range is cut off by the interval, what lies after it as well.
    draft.finish(order, &range.end, each);
}

/// Gives two runs that touch as one interval.
pub(super) fn join(
    order: &ClusteringOrder,
    (left, right): (&RunView<'_>, &RunView<'_>),
    each: impl FnMut(&ClusteringPosition, &[u8]),
) {
    assert!(order.compare(left.end, right.start).is_eq(), "runs that do not touch");
    let mut draft = Draft::new(owned(left.start));
    for run in [left, right] {
        draft.rows_of(run, 0..run.count);
        run.ranges().for_each(|tombstone| draft.range(order, tombstone));
    }
    draft.finish(order, &owned(right.end), each);
}
