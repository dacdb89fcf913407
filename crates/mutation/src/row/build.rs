//! The only writer of rows.

use super::*;
use crate::collection::{self, ValueElements};
use crate::tombstone::{Compacted, Purge};
use stdx::Put;

/// Before a value of so many bytes room is made for what comes behind it, too.
const LARGE_BYTES_MIN: usize = 64 << 10;
/// What is mostly enough for that.
const ROOM_BEHIND: usize = 256;

/// Writes a row blob into a buffer: marker and tombstones first, in any order, then columns in
/// order of id. Drops what the row tombstone covers.
#[derive(Debug)]
pub struct RowBuilder {
    out: Vec<u8>,
    start: usize,
    marker: Option<Marker>,
    tombstone: Tombstone,
    shadowable: Tombstone,
    base: Option<i64>,
    last: Option<ColumnId>,
    /// Whether flags, marker and tombstones are written.
    has_head: bool,
}

/// Of [`RowBuilder::as_marker`].
#[derive(Debug)]
pub struct AsMarker<'b> {
    form: u8,
    last: &'b mut Option<ColumnId>,
    out: &'b mut Vec<u8>,
}

impl AsMarker<'_> {
    /// The value of a column. Panics if `column` is not greater than the last one.
    // Always: it is a few instructions, in the loop of every row that is made of another.
    #[inline(always)]
    pub fn put(&mut self, column: ColumnId, value: &[u8]) {
        check_order(*self.last, column);
        *self.last = Some(column);
        if column.0 < 0x80 >> FORM_BITS && value.len() < 0x80 {
            self.out.reserve(2 + value.len());
            self.out.put(&[(column.0 as u8) << FORM_BITS | self.form, value.len() as u8]);
            return self.out.put(value);
        }
        self.put_long(column, value);
    }

    fn put_long(&mut self, column: ColumnId, value: &[u8]) {
        self.out.put_vint((column.0 as u64) << FORM_BITS | self.form as u64);
        self.out.put_vint_bytes(value);
    }
}

#[inline]
fn check_order(last: Option<ColumnId>, column: ColumnId) {
    assert!(last < Some(column), "{column:?} after {last:?}");
}

impl RowBuilder {
    /// Reuses `out` (cleared).
    pub fn new(mut out: Vec<u8>) -> RowBuilder {
        out.clear();
        RowBuilder::append_to(out)
    }
    /// Appends the row to what `out` holds; `finish` gives it back.
    pub fn append_to(out: Vec<u8>) -> RowBuilder {
        RowBuilder {
            start: out.len(),
            out,
            marker: None,
            tombstone: Tombstone::NONE,
            shadowable: Tombstone::NONE,
            base: None,
            last: None,
            has_head: false,
        }
    }
    /// As [`RowBuilder::append_to`], of a row with a live marker and no deletion.
    #[inline]
    pub fn append_live_to(mut out: Vec<u8>, timestamp: i64) -> RowBuilder {
        let start = out.len();
        out.put_u8(HAS_MARKER | HAS_BASE);
        out.put_i64(timestamp);
        let marker = Some(Marker::Live { timestamp });
        let (base, has_head) = (Some(timestamp), true);
        RowBuilder { start, marker, base, has_head, ..RowBuilder::append_to(out) }
    }
    /// The row's own liveness. Panics after a column.
    pub fn marker(&mut self, marker: Marker) {
        assert!(!self.has_head, "a row marker after a column");
        self.marker = Some(marker);
    }
    /// The row tombstone. Panics after a column.
    pub fn tombstone(&mut self, tombstone: Tombstone) {
        assert!(!self.has_head, "a row tombstone after a column");
        self.tombstone = tombstone;
    }
    /// The shadowable tombstone of a view's row. Panics after a column.
    pub fn shadowable(&mut self, tombstone: Tombstone) {
        assert!(!self.has_head, "a shadowable tombstone after a column");
        self.shadowable = tombstone;
    }

    /// An atomic column. Panics if `column` is not greater than the last one.
    #[inline]
    pub fn cell(&mut self, column: ColumnId, cell: Cell<'_>) {
        // As nearly all are: of the same write as the one before, head and length of a byte each.
        if let CellState::Live { value } = cell.state
            && self.base == Some(cell.timestamp)
            && self.tombstone.is_none()
            && column.0 < 0x80 >> FORM_BITS
            && value.len() < 0x80
        {
            check_order(self.last, column);
            self.last = Some(column);
            self.out.reserve(2 + value.len());
            self.out.put(&[(column.0 as u8) << FORM_BITS | LIVE_AT_BASE, value.len() as u8]);
            return self.out.put(value);
        }
        self.any_cell(column, cell);
    }

    /// A value with the time and the lifetime of the row's marker. Panics as
    /// [`RowBuilder::as_marker`] and [`AsMarker::put`] do.
    pub fn value_as_marker(&mut self, column: ColumnId, value: &[u8]) {
        self.as_marker().put(column, value);
    }

    /// Values with the time and the lifetime of the row's marker. Panics if that is dead or not
    /// there, and beside a row tombstone.
    pub fn as_marker(&mut self) -> AsMarker<'_> {
        let form = match self.marker {
            Some(Marker::Live { .. }) => LIVE_AT_BASE,
            Some(Marker::Expiring { .. }) => EXPIRING_AS_MARKER,
            _ => panic!("a value as a marker that is not live"),
        };
        assert!(self.tombstone.is_none(), "a value as a marker that may be covered");
        if !self.has_head {
            self.write_head();
        }
        AsMarker { form, last: &mut self.last, out: &mut self.out }
    }

    /// The same, if the marker is one that lives on, of that time, and nothing covers it.
    #[inline]
    pub fn as_marker_of(&mut self, timestamp: i64) -> Option<AsMarker<'_>> {
        let is_it = self.marker == Some(Marker::Live { timestamp }) && self.tombstone.is_none();
        is_it.then(|| self.as_marker())
    }

    fn any_cell(&mut self, column: ColumnId, cell: Cell<'_>) {
        if self.tombstone.covers(cell.timestamp) {
            return;
        }
        self.begin_column(column);
        let base = match self.base {
            Some(base) => base,
            None => {
                self.out[self.start + 1..self.start + 9]
                    .copy_from_slice(&cell.timestamp.to_be_bytes());
                self.base = Some(cell.timestamp);
                cell.timestamp
            }
        };
        let form = self.form_of(&cell, base);
        let out = &mut self.out;
        out.put_vint((column.0 as u64) << FORM_BITS | form as u64);
        if form != LIVE_AT_BASE && form != EXPIRING_AS_MARKER {
            out.put_svint(cell.timestamp.wrapping_sub(base));
        }
        match cell.state {
            CellState::Live { value } => {
                if LARGE_BYTES_MIN <= value.len() {
                    // What comes behind it is not to move it.
                    out.reserve(value.len() + ROOM_BEHIND);
                }
                out.put_vint_bytes(value);
            }
            CellState::Expiring { value, expiry, ttl } => {
                if form == EXPIRING {
                    out.put_svint(expiry);
                    out.put_vint(ttl as u32 as u64);
                }
                out.put_vint_bytes(value);
            }
            CellState::Dead { deletion_time } => out.put_svint(deletion_time),
            CellState::CounterUpdate { delta } => out.put_svint(delta),
            CellState::Counter { shards } => out.put_vint_bytes(shards),
        }
    }

    /// A collection blob (`CollectionWriter::finish`), which must be well formed; one that says
    /// nothing is dropped. Panics if `column` is not greater than the last one.
    pub fn collection(&mut self, column: ColumnId, blob: &[u8]) {
        let view = CollectionView::trusted(blob);
        let mut rest = Vec::new();
        let compacted = if self.tombstone.is_none() && !view.is_void() {
            Compacted::Unchanged
        } else {
            collection::compact(view, self.tombstone, i64::MIN, &Purge::NEVER, &mut rest)
        };
        match compacted {
            Compacted::Unchanged => self.put_collection(column, blob),
            Compacted::Changed => self.put_collection(column, &rest),
            Compacted::Empty => {}
        }
    }

    /// A multi-cell column with the blob that `write` appends, where it stays. As
    /// [`RowBuilder::collection`].
    pub(super) fn collection_with(&mut self, column: ColumnId, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.tombstone.is_none() {
            let mut blob = Vec::new();
            write(&mut blob);
            return self.collection(column, &blob);
        }
        let before = (self.out.len(), self.last, self.base, self.has_head);
        self.begin_column(column);
        self.out.put_vint((column.0 as u64) << FORM_BITS | MULTI as u64);
        let blob_at = self.out.len();
        write(&mut self.out);
        if CollectionView::trusted(&self.out[blob_at..]).is_void() {
            self.out.truncate(before.0);
            (_, self.last, self.base, self.has_head) = before;
            return;
        }
        put_length_before(&mut self.out, blob_at);
    }

    /// A multi-cell column with the elements of a value, written where they stay. `path` as in
    /// [`ValueElements::write`]. Panics if `column` is not greater than the last one.
    pub fn elements(
        &mut self,
        column: ColumnId,
        elements: &ValueElements<'_>,
        path: impl FnMut() -> [u8; 16],
    ) {
        if !self.tombstone.is_none() || elements.is_void() {
            let mut blob = Vec::new();
            elements.write(path, &mut blob);
            return self.collection(column, &blob);
        }
        self.begin_column(column);
        self.out.put_vint((column.0 as u64) << FORM_BITS | MULTI as u64);
        self.out.put_vint(elements.blob_bytes() as u64);
        elements.write(path, &mut self.out);
    }

    /// A multi-cell column whose blob of so many bytes the caller puts in afterwards; where it goes
    /// in what `finish` gives. Nothing in the blob may be covered by the row tombstone. Panics if
    /// `column` is not greater than the last one.
    pub fn collection_apart(&mut self, column: ColumnId, blob_bytes: usize) -> usize {
        self.begin_column(column);
        self.out.put_vint((column.0 as u64) << FORM_BITS | MULTI as u64);
        self.out.put_vint(blob_bytes as u64);
        self.out.len()
    }

    /// The blob.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.has_head {
            self.write_head();
        }
        self.out
    }

    /// Whether nothing has been added that is not covered.
    pub fn is_empty(&self) -> bool {
        let head = self.uncovered_marker().is_none() && self.tombstone.is_none();
        self.last.is_none() && head && self.shadowable.is_none()
    }

    fn put_collection(&mut self, column: ColumnId, blob: &[u8]) {
        self.begin_column(column);
        self.out.put_vint((column.0 as u64) << FORM_BITS | MULTI as u64);
        self.out.put_vint_bytes(blob);
    }

    fn begin_column(&mut self, column: ColumnId) {
        check_order(self.last, column);
        self.last = Some(column);
        if !self.has_head {
            self.write_head();
        }
    }

    fn form_of(&self, cell: &Cell<'_>, base: i64) -> u8 {
        match cell.state {
            CellState::Live { .. } if cell.timestamp == base => LIVE_AT_BASE,
            CellState::Live { .. } => LIVE,
            CellState::Expiring { expiry, ttl, .. } => {
                let as_marker = Marker::Expiring { timestamp: cell.timestamp, expiry, ttl };
                let same = self.uncovered_marker() == Some(as_marker);
                if same { EXPIRING_AS_MARKER } else { EXPIRING }
            }
            CellState::Dead { .. } => DEAD,
            CellState::CounterUpdate { .. } => COUNTER_UPDATE,
            CellState::Counter { .. } => COUNTER,
        }
    }

    fn uncovered_marker(&self) -> Option<Marker> {
        self.marker.filter(|marker| !self.tombstone.covers(marker.timestamp()))
    }

    fn write_head(&mut self) {
        self.has_head = true;
        let marker = self.uncovered_marker();
        let has_shadowable = !self.tombstone.subsumes(self.shadowable);
        let mut flags = match marker {
            None => 0,
            Some(Marker::Live { .. }) => HAS_MARKER | HAS_BASE,
            Some(Marker::Expiring { .. }) => HAS_MARKER | MARKER_EXPIRES | HAS_BASE,
            Some(Marker::Dead { .. }) => HAS_MARKER | MARKER_DEAD | HAS_BASE,
        };
        flags |= if self.last.is_some() { HAS_BASE } else { 0 };
        flags |= if self.tombstone.is_none() { 0 } else { HAS_TOMBSTONE };
        flags |= if has_shadowable { HAS_SHADOWABLE } else { 0 };
        self.base = marker.map(|marker| marker.timestamp());
        let out = &mut self.out;
        out.put_u8(flags);
        if flags & HAS_BASE != 0 {
            out.put_i64(self.base.unwrap_or(0));
        }
        match marker {
            Some(Marker::Expiring { expiry, ttl, .. }) => {
                out.put_svint(expiry);
                out.put_vint(ttl as u32 as u64);
            }
            Some(Marker::Dead { deletion_time, .. }) => out.put_svint(deletion_time),
            _ => {}
        }
        if !self.tombstone.is_none() {
            put_tombstone(out, self.tombstone);
        }
        if has_shadowable {
            put_tombstone(out, self.shadowable);
        }
    }
}

/// Puts the length of what `out` holds from `at` on before it, as a vint.
pub(crate) fn put_length_before(out: &mut Vec<u8>, at: usize) {
    let (length, length_bytes) = stdx::vint::encode((out.len() - at) as u64);
    // As nearly all are.
    match length {
        [a, ..] if length_bytes == 1 => put_before(out, at, [a]),
        [a, b, ..] if length_bytes == 2 => put_before(out, at, [a, b]),
        _ => {
            out.splice(at..at, length[..length_bytes].iter().copied());
        }
    }
}

/// Puts these bytes before what `out` holds from `at` on.
#[inline]
fn put_before<const N: usize>(out: &mut Vec<u8>, at: usize, bytes: [u8; N]) {
    let end = out.len();
    out.put(&bytes);
    out.copy_within(at..end, at + N);
    out[at..at + N].copy_from_slice(&bytes);
}

fn put_tombstone(out: &mut Vec<u8>, tombstone: Tombstone) {
    out.put_i64(tombstone.timestamp);
    out.put_i64(tombstone.deletion_time);
}
