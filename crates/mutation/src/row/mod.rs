//! A row as one blob, the same in memtable, commitlog, frozen mutation and message.
//!
//! ```text
//! row    := flags:u8 [base:be64] [expiry:svint ttl:vint | deletion_time:svint]
//!           [tombstone ts:be64 deletion_time:be64] [shadowable ts:be64 deletion_time:be64]
//!           column*                                        by id, to the end of the blob
//! flags  := 01 marker | 02 marker expires | 04 marker is dead | 08 tombstone | 10 shadowable
//!           | 20 base
//! column := head:vint = id << 3 | form, then by form
//!   0 live      value:vint_bytes                  timestamp = base
//!   1 live      dts:svint value:vint_bytes        timestamp = base + dts
//!   2 expiring  value:vint_bytes                  timestamp, expiry and ttl of the marker
//!   3 expiring  dts:svint expiry:svint ttl:vint value:vint_bytes
//!   4 dead      dts:svint deletion_time:svint
//!   5 update    dts:svint delta:svint             counter increment
//!   6 counter   dts:svint shards:vint_bytes
//!   7 multi     blob:vint_bytes                   `collection`
//! ```
//! The base is the marker's timestamp, without a marker that of the first atomic cell, without
//! one 0; it is there when there is a marker or a column.
//!
//! Invariants
//!  - *column-order*: columns ascend by id.
//!  - *uncovered*: nothing in a row is covered by the row's own (regular) tombstone: the builder
//!    drops it. The shadowable tombstone covers only when read (`RowView::deletion`), because a
//!    newer marker may yet cancel it; so merging stays associative.
//!  - *canonical*: equal rows that [`RowBuilder`] wrote are equal bytes, fit for hashing.

mod build;
mod compact;
mod merge;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use build::put_length_before;
pub use build::{AsMarker, RowBuilder};
pub use compact::{apply_tombstone, compact, is_live, live_parts};
pub(crate) use compact::{for_each_deletion, is_all_live};
pub use merge::{difference, merge, replaces, type_of};
pub use run::Run;

use crate::cell::{Cell, CellState};
use crate::collection::CollectionView;
use crate::counter;
use crate::tombstone::{NO_TIMESTAMP, Tombstone};
use model::ColumnId;
use stdx::{Cursor, Damaged};

const HAS_MARKER: u8 = 0x01;
const MARKER_EXPIRES: u8 = 0x02;
const MARKER_DEAD: u8 = 0x04;
const HAS_TOMBSTONE: u8 = 0x08;
const HAS_SHADOWABLE: u8 = 0x10;
const HAS_BASE: u8 = 0x20;
const FLAGS_ALL: u8 = 0x3f;

const FORM_BITS: u32 = 3;
const FORM_MASK: u8 = (1 << FORM_BITS) - 1;
const LIVE_AT_BASE: u8 = 0;
const LIVE: u8 = 1;
const EXPIRING_AS_MARKER: u8 = 2;
const EXPIRING: u8 = 3;
const DEAD: u8 = 4;
const COUNTER_UPDATE: u8 = 5;
const COUNTER: u8 = 6;
const MULTI: u8 = 7;

/// The row's own liveness, made by INSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    Live { timestamp: i64 },
    Expiring { timestamp: i64, expiry: i64, ttl: i32 },
    Dead { timestamp: i64, deletion_time: i64 },
}

impl Marker {
    /// Microseconds.
    pub fn timestamp(&self) -> i64 {
        self.cell().timestamp
    }
    /// Whether it keeps its row alive at second `now`.
    pub fn is_live(&self, now: i64) -> bool {
        self.cell().is_live(now)
    }
    /// The cell without a value that reconciles and expires as the marker does.
    pub fn cell(&self) -> Cell<'static> {
        match *self {
            Marker::Live { timestamp } => Cell::live(timestamp, &[]),
            Marker::Expiring { timestamp, expiry, ttl } => {
                Cell::expiring(timestamp, &[], expiry, ttl)
            }
            Marker::Dead { timestamp, deletion_time } => Cell::dead(timestamp, deletion_time),
        }
    }
    /// The marker that reconciles and expires as a cell does, whatever its value.
    pub fn of_cell(cell: Cell<'_>) -> Marker {
        let timestamp = cell.timestamp;
        match cell.state {
            CellState::Expiring { expiry, ttl, .. } => Marker::Expiring { timestamp, expiry, ttl },
            CellState::Dead { deletion_time } => Marker::Dead { timestamp, deletion_time },
            _ => Marker::Live { timestamp },
        }
    }
}

/// What a column of a row holds.
#[derive(Clone, Copy, Debug)]
pub enum ColumnData<'a> {
    Atomic(Cell<'a>),
    Collection(CollectionView<'a>),
}

/// A checked view of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    bytes: &'a [u8],
    marker: Option<Marker>,
    tombstone: Tombstone,
    shadowable: Tombstone,
    base: i64,
    columns: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Checks all of `bytes`: use it where bytes enter.
    pub fn parse(bytes: &'a [u8]) -> Result<RowView<'a>, Damaged> {
        let row = RowView::parse_head(bytes)?;
        let offset = (bytes.len() - row.columns.len()) as u64;
        let mut last: Option<ColumnId> = None;
        // Most columns are live values that do not expire, of which no more is to be checked.
        let mut values = row.live_cells();
        let mut passed = 0;
        while let Some((id, _)) = values.next() {
            if last.is_some_and(|last| id <= last) {
                return Err(Damaged::new("row columns out of order", offset + passed as u64));
            }
            last = Some(id);
            passed = row.columns.len() - values.rest.len();
        }
        let mut columns = row.columns();
        columns.cursor.take(passed, "a column")?;
        while !columns.cursor.is_empty() {
            let at = offset + columns.cursor.offset() as u64;
            let (id, data) = columns.read().map_err(|damage| damage.from_base(offset))?;
            if last.is_some_and(|last| id <= last) {
                return Err(Damaged::new("row columns out of order", at));
            }
            last = Some(id);
            match data {
                RawData::Atomic(Cell { state: CellState::Counter { shards }, .. }) => {
                    counter::check(shards).map_err(|damage| damage.from_base(at))?;
                }
                RawData::Atomic(_) => {}
                RawData::Multi(blob) => {
                    CollectionView::parse(blob).map_err(|damage| damage.from_base(at))?;
                }
            }
        }
        Ok(row)
    }

    /// For bytes that `parse` or [`RowBuilder`] has vouched for: reads the head only. Damaged
    /// bytes give wrong rows, never a panic.
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> RowView<'a> {
        // Most rows have a live marker, or none, and no deletion.
        if let Some((flags, rest)) = bytes.split_first()
            && flags & !HAS_MARKER == HAS_BASE
            && let Some((base, columns)) = rest.split_first_chunk()
        {
            let base = i64::from_be_bytes(*base);
            let marker = (flags & HAS_MARKER != 0).then_some(Marker::Live { timestamp: base });
            let (tombstone, shadowable) = (Tombstone::NONE, Tombstone::NONE);
            return RowView { bytes, marker, tombstone, shadowable, base, columns };
        }
        RowView::trusted_head(bytes)
    }

    fn trusted_head(bytes: &'a [u8]) -> RowView<'a> {
        if let Some(row) = RowView::expiring(bytes) {
            return row;
        }
        RowView::parse_head(bytes).unwrap_or(RowView {
            bytes: &[0],
            marker: None,
            tombstone: Tombstone::NONE,
            shadowable: Tombstone::NONE,
            base: 0,
            columns: &[],
        })
    }

    /// A row with a marker that expires and no deletion, as those of a table with a default TTL.
    #[inline]
    fn expiring(bytes: &'a [u8]) -> Option<RowView<'a>> {
        let (flags, rest) = bytes.split_first()?;
        if *flags != HAS_MARKER | MARKER_EXPIRES | HAS_BASE {
            return None;
        }
        let (base, rest) = rest.split_first_chunk()?;
        let (expiry, expiry_bytes) = stdx::vint::read(rest)?;
        let (ttl, ttl_bytes) = stdx::vint::read(rest.get(expiry_bytes..)?)?;
        let (timestamp, expiry) = (i64::from_be_bytes(*base), stdx::vint::unzigzag(expiry));
        Some(RowView {
            bytes,
            marker: Some(Marker::Expiring { timestamp, expiry, ttl: ttl as i32 }),
            tombstone: Tombstone::NONE,
            shadowable: Tombstone::NONE,
            base: timestamp,
            columns: rest.get(expiry_bytes + ttl_bytes..)?,
        })
    }

    fn parse_head(bytes: &'a [u8]) -> Result<RowView<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let flags = cursor.u8("row flags")?;
        let sane = flags & !FLAGS_ALL == 0 && flags & (HAS_MARKER | HAS_BASE) != HAS_MARKER;
        if !sane {
            return Err(Damaged::new("row flags that no row has", 0));
        }
        let base = if flags & HAS_BASE != 0 { cursor.i64("row base timestamp")? } else { 0 };
        let marker = match flags & (HAS_MARKER | MARKER_EXPIRES | MARKER_DEAD) {
            0 => None,
            HAS_MARKER => Some(Marker::Live { timestamp: base }),
            marker if marker == HAS_MARKER | MARKER_EXPIRES => {
                let expiry = cursor.svint("row marker expiry")?;
                let ttl = cursor.vint("row marker ttl")? as i32;
                Some(Marker::Expiring { timestamp: base, expiry, ttl })
            }
            marker if marker == HAS_MARKER | MARKER_DEAD => {
                let deletion_time = cursor.svint("row marker deletion time")?;
                Some(Marker::Dead { timestamp: base, deletion_time })
            }
            _ => return Err(Damaged::new("row marker of two kinds", 0)),
        };
        let tombstone = read_tombstone(&mut cursor, flags & HAS_TOMBSTONE != 0)?;
        let shadowable = read_tombstone(&mut cursor, flags & HAS_SHADOWABLE != 0)?;
        if flags & HAS_BASE == 0 && !cursor.is_empty() {
            return Err(cursor.damaged("columns of a row without a base"));
        }
        let columns = cursor.rest();
        Ok(RowView { bytes, marker, tombstone, shadowable, base, columns })
    }

    /// The blob.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    /// The row's own liveness, as written (it may have expired).
    pub fn marker(&self) -> Option<Marker> {
        self.marker
    }
    /// The row tombstone ([`Tombstone::NONE`] where there is none).
    pub fn tombstone(&self) -> Tombstone {
        self.tombstone
    }
    /// The shadowable part, at least the regular one.
    pub fn shadowable(&self) -> Tombstone {
        self.tombstone.merge(self.shadowable)
    }
    /// What the row's tombstones cover: the shadowable one counts unless a newer marker that is
    /// not dead has cancelled it.
    pub fn deletion(&self) -> Tombstone {
        let cancelled = match self.marker {
            None | Some(Marker::Dead { .. }) => false,
            Some(marker) => self.shadowable.timestamp < marker.timestamp(),
        };
        if cancelled { self.tombstone } else { self.shadowable() }
    }
    /// Whether the row says nothing at all.
    pub fn is_empty(&self) -> bool {
        let without = self.tombstone.is_none() && self.shadowable.is_none();
        self.marker.is_none() && without && self.columns.is_empty()
    }
    /// The oldest timestamp of what it holds that is no deletion, whether it has expired or not;
    /// `i64::MAX` where there is nothing.
    #[inline]
    pub fn oldest_live(&self) -> i64 {
        self.only_time().unwrap_or_else(|| self.oldest_of_several())
    }
    fn oldest_of_several(&self) -> i64 {
        self.oldest_plain().unwrap_or_else(|| self.live_timestamps().min().unwrap_or(i64::MAX))
    }
    /// The same of a row with nothing but live cells that do not expire; `None`: it has others.
    #[inline]
    fn oldest_plain(&self) -> Option<i64> {
        if !self.is_plain() {
            return None;
        }
        let mut oldest = if self.marker.is_some() { self.base } else { i64::MAX };
        let mut cursor = Cursor::new(self.columns);
        while !cursor.is_empty() {
            let head = cursor.vint("column head").ok()?;
            let delta = match head as u8 & FORM_MASK {
                LIVE_AT_BASE => 0,
                LIVE => cursor.svint("cell timestamp").ok()?,
                _ => return None,
            };
            oldest = oldest.min(self.base.wrapping_add(delta));
            cursor.vint_bytes("cell value").ok()?;
        }
        Some(oldest)
    }
    /// The timestamps of what it holds that is no deletion, whether it has expired or not.
    pub fn live_timestamps(&self) -> impl Iterator<Item = i64> + use<'a> {
        let live = |cell: Cell<'a>| match cell.state {
            CellState::Dead { .. } => None,
            _ => Some(cell.timestamp),
        };
        let marker = self.marker.and_then(|marker| live(marker.cell()));
        let cells = self.columns().flat_map(move |(_, data)| {
            let (atomic, collection) = match data {
                ColumnData::Atomic(cell) => (live(cell), None),
                ColumnData::Collection(view) => (None, Some(view)),
            };
            let elements = collection.into_iter().flat_map(|view| view.iter());
            atomic.into_iter().chain(elements.filter_map(move |(_, cell)| live(cell)))
        });
        marker.into_iter().chain(cells)
    }
    /// Whether it has no deletion, and no marker that expires or is dead.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.bytes.first().is_some_and(|flags| flags & !(HAS_MARKER | HAS_BASE) == 0)
    }
    /// Of the blob of a row that is so, without a look at the rest: whether it has a marker, and
    /// its live cells. `None`: of any other row, and of some of these.
    #[inline]
    pub(crate) fn plain_cells(bytes: &'a [u8]) -> Option<(bool, LiveCells<'a>)> {
        let (flags, rest) = bytes.split_first()?;
        let (_, columns) = rest.split_first_chunk::<8>()?;
        let is_plain = flags & !HAS_MARKER == HAS_BASE;
        is_plain.then_some((flags & HAS_MARKER != 0, Values { rest: columns }))
    }
    /// Its live cells that do not expire, in order of id, up to the first column that is something
    /// else.
    #[inline]
    pub(crate) fn live_cells(&self) -> LiveCells<'a> {
        Values { rest: self.columns }
    }
    /// Of a row with a live marker and no deletion: the timestamp of the marker, and its values of
    /// that time, up to the first column that is anything else.
    #[inline]
    pub fn values_at_base(&self) -> Option<(i64, ValuesAtBase<'a>)> {
        let is_live = self.bytes.first() == Some(&(HAS_MARKER | HAS_BASE));
        is_live.then(|| (self.base, self.at_base()))
    }
    /// Of a row that holds something, all of it of one time: that, and its columns, all of which
    /// are values that do not expire.
    #[inline]
    pub fn values_of_one_time(&self) -> Option<(i64, ValuesAtBase<'a>)> {
        let flags = self.bytes.first()?;
        let is_whole = flags & !HAS_MARKER == HAS_BASE && self.at_base().reach_the_end();
        let holds_some = self.marker.is_some() || !self.columns.is_empty();
        (is_whole && holds_some).then(|| (self.base, self.at_base()))
    }
    /// Of a row with a marker that expires and no deletion: its values that have the time and the
    /// lifetime of the marker, up to the first column that is anything else.
    #[inline]
    pub fn values_as_marker(&self) -> Option<ValuesAsMarker<'a>> {
        let is_expiring = self.bytes.first() == Some(&(HAS_MARKER | MARKER_EXPIRES | HAS_BASE));
        is_expiring.then_some(ValuesAsMarker { rest: self.columns })
    }
    /// The time of a row that holds something, all of which was written at once: values that live
    /// for ever, or for as long as the marker. `None`: of any other row.
    #[inline]
    fn only_time(&self) -> Option<i64> {
        let flags = *self.bytes.first()?;
        let is_whole = flags & !(HAS_MARKER | MARKER_EXPIRES) == HAS_BASE;
        if !is_whole || (self.marker.is_none() && self.columns.is_empty()) {
            return None;
        }
        let as_marker = if flags & MARKER_EXPIRES == 0 { 0 } else { EXPIRING_AS_MARKER };
        // What a head of one byte does not have, of such a value.
        let others = 0x80 | (FORM_MASK & !as_marker);
        let at = short_columns(self.columns, others);
        let mut cursor = Cursor::new(self.columns.get(at..).unwrap_or(self.columns));
        while !cursor.is_empty() {
            let form = cursor.vint("column head").ok()? as u8 & FORM_MASK;
            if form & !as_marker != LIVE_AT_BASE {
                return None;
            }
            cursor.vint_bytes("cell value").ok()?;
        }
        Some(self.base)
    }
    /// Its columns up to the first one that is anything but a value with the timestamp of the row.
    #[inline]
    fn at_base(&self) -> ValuesAtBase<'a> {
        Values { rest: self.columns }
    }
    /// Columns in order of id.
    pub fn columns(&self) -> Columns<'a> {
        Columns { cursor: Cursor::new(self.columns), base: self.base, marker: self.marker }
    }
    /// Columns from an [`Columns::offset`] on.
    pub(crate) fn columns_from(&self, offset: usize) -> Columns<'a> {
        let rest = self.columns.get(offset..).unwrap_or(&[]);
        Columns { cursor: Cursor::new(rest), base: self.base, marker: self.marker }
    }
    /// Its columns in two parts: its timestamp with the values that have it, which live for ever,
    /// up to the first column that is anything else; and those from there on
    /// ([`RowView::columns_behind`]).
    #[inline]
    pub fn first_values(&self) -> (i64, ValuesAtBase<'a>) {
        (self.base, self.at_base())
    }
    /// The columns that `values`, of [`RowView::first_values`], has not come to.
    #[inline]
    pub fn columns_behind(&self, values: &ValuesAtBase<'a>) -> Columns<'a> {
        Columns { cursor: Cursor::new(values.rest), base: self.base, marker: self.marker }
    }
    /// Whether it has a column whose id is wanted.
    #[inline]
    pub fn has_column(&self, mut wanted: impl FnMut(ColumnId) -> bool) -> bool {
        let (_, mut values) = self.first_values();
        values.by_ref().any(|(id, _)| wanted(id))
            || self.columns_behind(&values).any(|(id, _)| wanted(id))
    }
    /// One column. Walks over the columns before it.
    pub fn column(&self, id: ColumnId) -> Option<ColumnData<'a>> {
        // Most columns are values of the row's own time.
        let (timestamp, mut values) = self.first_values();
        if let Some((column, value)) = values.find(|(column, _)| id <= *column) {
            return (column == id).then(|| ColumnData::Atomic(Cell::live(timestamp, value)));
        }
        let found = self.columns_behind(&values).find(|(column, _)| id <= *column);
        found.filter(|(column, _)| *column == id).map(|(_, data)| data)
    }
    /// The greatest timestamp of anything in the row.
    #[inline]
    pub fn last_update(&self) -> i64 {
        self.only_time().unwrap_or_else(|| self.last_of_several())
    }
    fn last_of_several(&self) -> i64 {
        let head = self.marker.map_or(NO_TIMESTAMP, |marker| marker.timestamp());
        let head = head.max(self.shadowable().timestamp);
        self.columns().fold(head, |newest, (_, data)| {
            newest.max(match data {
                ColumnData::Atomic(cell) => cell.timestamp,
                ColumnData::Collection(view) => crate::collection::last_update(view),
            })
        })
    }
}

/// Where the columns end that begin so: with heads of one byte that has none of these bits, and
/// lengths of one byte. May be past the end where that is damaged.
#[inline]
fn short_columns(columns: &[u8], others: u8) -> usize {
    const _: () = assert!(LIVE_AT_BASE == 0, "a head of a live value has no bit of a form");
    let others = u16::from_le_bytes([others, 0x80]);
    let mut at = 0;
    while let Some(both) = columns.get(at..).and_then(<[u8]>::first_chunk) {
        // Head and length, looked at together.
        let both = u16::from_le_bytes(*both);
        if both & others != 0 {
            break;
        }
        at += 2 + usize::from(both >> 8);
    }
    at
}

fn read_tombstone(cursor: &mut Cursor<'_>, is_there: bool) -> Result<Tombstone, Damaged> {
    if !is_there {
        return Ok(Tombstone::NONE);
    }
    let timestamp = cursor.i64("row tombstone timestamp")?;
    let deletion_time = cursor.i64("row tombstone deletion time")?;
    Ok(Tombstone { timestamp, deletion_time })
}

/// Iterator of [`RowView::live_cells`].
pub(crate) type LiveCells<'a> = Values<'a, false>;
/// Iterator of [`RowView::values_at_base`].
pub type ValuesAtBase<'a> = Values<'a, true>;

/// Values that do not expire, in order of id, up to the first column that is something else: of
/// the timestamp of their row alone, or of any.
#[derive(Clone, Debug)]
pub struct Values<'a, const AT_BASE: bool> {
    rest: &'a [u8],
}

impl<const AT_BASE: bool> Values<'_, AT_BASE> {
    /// Whether it came to the end of the row, and not to a column of another kind.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether all that comes, to the end of the row, are these.
    #[inline]
    pub(crate) fn reach_the_end(mut self) -> bool {
        // As `next`, without a look at ids and values.
        let at = short_columns(self.rest, 0x80 | FORM_MASK);
        self.rest = self.rest.get(at..).unwrap_or(self.rest);
        self.by_ref().for_each(drop);
        self.is_at_end()
    }
}

impl<'a, const AT_BASE: bool> Iterator for Values<'a, AT_BASE> {
    type Item = (ColumnId, &'a [u8]);
    // Always: it is a few instructions, in the loop of every row that is read or merged.
    #[inline(always)]
    fn next(&mut self) -> Option<(ColumnId, &'a [u8])> {
        // Heads and lengths of one byte each, as nearly all are.
        if let [head @ 0..0x80, length @ 0..0x80, rest @ ..] = self.rest
            && head & FORM_MASK == LIVE_AT_BASE
            && let Some((value, rest)) = rest.split_at_checked(*length as usize)
        {
            self.rest = rest;
            return Some((ColumnId((head >> FORM_BITS) as u32), value));
        }
        self.next_long()
    }
}

impl<'a, const AT_BASE: bool> Values<'a, AT_BASE> {
    fn next_long(&mut self) -> Option<(ColumnId, &'a [u8])> {
        let mut cursor = Cursor::new(self.rest);
        let head = cursor.vint("column head").ok()?;
        match head as u8 & FORM_MASK {
            LIVE_AT_BASE => {}
            LIVE if !AT_BASE => {
                cursor.vint("cell timestamp").ok()?;
            }
            _ => return None,
        }
        let value = cursor.vint_bytes("cell value").ok()?;
        self.rest = cursor.rest();
        Some((ColumnId(u32::try_from(head >> FORM_BITS).ok()?), value))
    }
}

/// Iterator of [`RowView::values_as_marker`], in order of id.
#[derive(Clone, Debug)]
pub struct ValuesAsMarker<'a> {
    rest: &'a [u8],
}

impl ValuesAsMarker<'_> {
    /// Whether it came to the end of the row, and not to a column of another kind.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for ValuesAsMarker<'a> {
    type Item = (ColumnId, &'a [u8]);
    #[inline]
    fn next(&mut self) -> Option<(ColumnId, &'a [u8])> {
        let mut cursor = Cursor::new(self.rest);
        let head = cursor.vint("column head").ok()?;
        if head as u8 & FORM_MASK != EXPIRING_AS_MARKER {
            return None;
        }
        let value = cursor.vint_bytes("cell value").ok()?;
        self.rest = cursor.rest();
        Some((ColumnId(u32::try_from(head >> FORM_BITS).ok()?), value))
    }
}

/// Iterator of [`RowView::columns`].
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    cursor: Cursor<'a>,
    base: i64,
    marker: Option<Marker>,
}

/// A column whose collection has not been looked into.
enum RawData<'a> {
    Atomic(Cell<'a>),
    Multi(&'a [u8]),
}

impl<'a> Columns<'a> {
    /// Where the next column starts, from the first one.
    pub(crate) fn offset(&self) -> usize {
        self.cursor.offset()
    }

    fn read(&mut self) -> Result<(ColumnId, RawData<'a>), Damaged> {
        let cursor = &mut self.cursor;
        let head = cursor.vint("column head")?;
        let id = u32::try_from(head >> FORM_BITS);
        let id = ColumnId(id.map_err(|_| cursor.damaged("column id over 32 bits"))?);
        let form = head as u8 & FORM_MASK;
        if form == MULTI {
            return Ok((id, RawData::Multi(cursor.vint_bytes("collection")?)));
        }
        let at_base = form == LIVE_AT_BASE || form == EXPIRING_AS_MARKER;
        let delta = if at_base { 0 } else { cursor.svint("cell timestamp")? };
        let timestamp = self.base.wrapping_add(delta);
        let state = match form {
            LIVE_AT_BASE | LIVE => CellState::Live { value: cursor.vint_bytes("cell value")? },
            EXPIRING_AS_MARKER => match self.marker {
                Some(Marker::Expiring { expiry, ttl, .. }) => {
                    CellState::Expiring { value: cursor.vint_bytes("cell value")?, expiry, ttl }
                }
                _ => return Err(cursor.damaged("a cell that expires as a marker that does not")),
            },
            EXPIRING => {
                let expiry = cursor.svint("cell expiry")?;
                let ttl = cursor.vint("cell ttl")? as i32;
                CellState::Expiring { value: cursor.vint_bytes("cell value")?, expiry, ttl }
            }
            DEAD => CellState::Dead { deletion_time: cursor.svint("cell deletion time")? },
            COUNTER_UPDATE => CellState::CounterUpdate { delta: cursor.svint("counter delta")? },
            _ => CellState::Counter { shards: cursor.vint_bytes("counter shards")? },
        };
        Ok((id, RawData::Atomic(Cell { timestamp, state })))
    }
}

impl<'a> Iterator for Columns<'a> {
    type Item = (ColumnId, ColumnData<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let (id, data) = self.read().ok()?;
        let data = match data {
            RawData::Atomic(cell) => ColumnData::Atomic(cell),
            RawData::Multi(blob) => ColumnData::Collection(CollectionView::trusted(blob)),
        };
        Some((id, data))
    }
}
