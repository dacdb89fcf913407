//! The columns of one row in the forms that a command wants, written as a page has them.

use crate::cell::{Cell, CellState};
use crate::collection::{self, CollectionView, ToCql};
use crate::counter;
use crate::page::ColumnForm;
use crate::row::{ColumnData, LiveCells, RowView};
use crate::tombstone::Tombstone;
use model::{ColumnId, TableSchema};
use stdx::Put;

const NULL: i32 = -1;
const ABSENT: u32 = u32::MAX;
/// A larger value is copied in pieces of so many bytes.
const VALUE_PIECE_BYTES: usize = 256 << 10;

/// What is seen of a row: when, and under which deletions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) shadow: Tombstone,
    pub(super) now: i64,
}

/// As many columns are looked up without a table on the heap.
const FEW: usize = 32;

/// The columns wanted of a row. Rows have theirs by id; if the command's are not, it is first
/// noted, per row, where each one starts.
pub(super) struct ColumnPlan<'c> {
    wanted: &'c [(ColumnId, ColumnForm)],
    sorted: bool,
    /// They are by id, and all are wanted as values; [`ColumnForm::Liveness`] is none of a row.
    plain: bool,
    /// For more than a few that are not sorted: indexes into `wanted`, by id.
    by_id: Vec<u32>,
    /// As long as `by_id`: where each wanted column starts in the row.
    offsets: Vec<u32>,
}

impl<'c> ColumnPlan<'c> {
    pub(super) fn new(wanted: &'c [(ColumnId, ColumnForm)]) -> ColumnPlan<'c> {
        let sorted = wanted.is_sorted_by(|(a, _), (b, _)| a < b);
        let is_plain = |form| matches!(form, ColumnForm::Value | ColumnForm::Liveness);
        let plain = sorted && wanted.iter().all(|(_, form)| is_plain(*form));
        if sorted || wanted.len() <= FEW {
            return ColumnPlan { wanted, sorted, plain, by_id: Vec::new(), offsets: Vec::new() };
        }
        let mut by_id: Vec<u32> = (0..wanted.len() as u32).collect();
        by_id.sort_by_key(|index| wanted[*index as usize].0);
        ColumnPlan { wanted, sorted, plain, by_id, offsets: vec![ABSENT; wanted.len()] }
    }

    /// Appends every wanted column; whether any is live.
    #[inline]
    pub(super) fn write(
        &mut self,
        schema: &TableSchema,
        row: RowView<'_>,
        sight: Sight,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.plain && sight.shadow.is_none() && row.is_plain() {
            let start = out.len();
            out.reserve(self.bytes_max(row.bytes()));
            if let Some(any) = self.write_live(row.live_cells(), out) {
                return any;
            }
            out.truncate(start);
        }
        self.write_any(schema, row, sight, out)
    }

    /// Whether the last column tells what keeps a row ([`ColumnForm::Liveness`]).
    pub(super) fn tells_liveness(&self) -> bool {
        self.wanted.last().is_some_and(|(_, form)| *form == ColumnForm::Liveness)
    }

    /// Whether [`ColumnPlan::write_live`] may be of use.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    /// What a plain row takes at most.
    #[inline]
    pub(super) fn bytes_max(&self, row: &[u8]) -> usize {
        row.len() + 4 * self.wanted.len()
    }

    /// Appends every wanted column of a row that nothing covers, whether any is there. `None`: not
    /// all of them are live cells that stay; what was appended then is of no use.
    // Always, as the loop of every page of plain rows is this: a call costs as much as a value.
    #[inline(always)]
    pub(super) fn write_live(&self, mut cells: LiveCells<'_>, out: &mut Vec<u8>) -> Option<bool> {
        let mut next = cells.next();
        let mut any = false;
        for (id, _) in self.wanted {
            while next.is_some_and(|(column, _)| column < *id) {
                next = cells.next();
            }
            match next {
                Some((column, value)) if column == *id => {
                    out.put_u32_bytes(value);
                    any = true;
                }
                _ => out.put_i32(NULL),
            }
        }
        (next.is_some() || cells.is_at_end()).then_some(any)
    }

    fn write_any(
        &mut self,
        schema: &TableSchema,
        row: RowView<'_>,
        sight: Sight,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.sorted {
            return self.write_sorted(schema, row, sight, out);
        }
        if self.by_id.is_empty() {
            let mut offsets = [ABSENT; FEW];
            let mut columns = row.columns();
            let mut offset = 0;
            while let Some((id, _)) = columns.next() {
                let matching = self.wanted.iter().zip(&mut offsets).filter(|((x, _), _)| *x == id);
                matching.for_each(|(_, slot)| *slot = offset);
                offset = columns.offset() as u32;
            }
            return self.write_located(&offsets, schema, row, sight, out);
        }
        self.locate(row);
        self.write_located(&self.offsets, schema, row, sight, out)
    }

    fn write_sorted(
        &self,
        schema: &TableSchema,
        row: RowView<'_>,
        sight: Sight,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut any = false;
        let mut columns = row.columns();
        let mut next = columns.next();
        for (id, form) in self.wanted {
            while next.is_some_and(|(column, _)| column < *id) {
                next = columns.next();
            }
            let data = next.filter(|(column, _)| column == id).map(|(_, data)| data);
            any |= write_column(schema, (*id, *form), data, sight, out);
        }
        any
    }

    fn write_located(
        &self,
        offsets: &[u32],
        schema: &TableSchema,
        row: RowView<'_>,
        sight: Sight,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut any = false;
        for ((id, form), offset) in self.wanted.iter().zip(offsets) {
            let data = match *offset {
                ABSENT => None,
                offset => row.columns_from(offset as usize).next().map(|(_, data)| data),
            };
            any |= write_column(schema, (*id, *form), data, sight, out);
        }
        any
    }

    fn locate(&mut self, row: RowView<'_>) {
        self.offsets.fill(ABSENT);
        let mut columns = row.columns();
        let mut offset = 0;
        let mut present = columns.next();
        for index in &self.by_id {
            let id = self.wanted[*index as usize].0;
            while present.is_some_and(|(column, _)| column < id) {
                offset = columns.offset();
                present = columns.next();
            }
            if present.is_some_and(|(column, _)| column == id) {
                self.offsets[*index as usize] = offset as u32;
            }
        }
    }
}

/// The columns wanted of a row on their way into a page, in steps.
#[derive(Debug)]
pub(super) struct ColumnSteps<'r> {
    row: RowView<'r>,
    sight: Sight,
    /// The wanted column that comes next.
    next: usize,
    /// What is left of it, if it is a collection, and where it starts in the page.
    open: Option<(ToCql<'r>, usize)>,
    /// Bytes that the page has of it already, if it is a large value.
    written: usize,
    any: bool,
}

impl<'r> ColumnSteps<'r> {
    pub(super) fn new(row: RowView<'r>, sight: Sight) -> ColumnSteps<'r> {
        ColumnSteps { row, sight, next: 0, open: None, written: 0, any: false }
    }
    pub(super) fn is_any_live(&self) -> bool {
        self.any
    }
    pub(super) fn sight(&self) -> Sight {
        self.sight
    }
}

impl ColumnPlan<'_> {
    /// Goes on with at most so many elements of collections, or a piece of a large value; whether
    /// all columns are written, as [`ColumnPlan::write`] does.
    pub(super) fn step(
        &self,
        schema: &TableSchema,
        steps: &mut ColumnSteps<'_>,
        elements_max: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        while let Some((id, form)) = self.wanted.get(steps.next) {
            let data = steps.row.column(*id);
            let view = match data {
                Some(ColumnData::Collection(view)) if *form != ColumnForm::Blob => Some(view),
                _ => None,
            };
            let Sight { shadow, now } = steps.sight;
            if let Some(view) = view
                && steps.open.is_none()
                && let Some(column) = schema.column_by_id(*id)
            {
                let start = out.len();
                out.put_i32(NULL);
                let begun = ToCql::begin(&column.ty, view, (shadow, now), out);
                match begun {
                    Some(begun) => steps.open = Some((begun, start)),
                    None => out.truncate(start),
                }
            }
            let live = match (&mut steps.open, view) {
                (Some((elements, start)), Some(view)) => {
                    if !elements.step(elements_max, out) {
                        return false;
                    }
                    let live = elements.end(out);
                    end_collection(*form, view, (*start, live), out);
                    if !live {
                        out.put_i32(NULL);
                    }
                    live
                }
                _ => match large_value(*form, data, steps.sight) {
                    Some(value) => {
                        if !put_piece_of(value, &mut steps.written, out) {
                            return false;
                        }
                        true
                    }
                    None => write_column(schema, (*id, *form), data, steps.sight, out),
                },
            };
            steps.open = None;
            steps.any |= live;
            steps.next += 1;
        }
        true
    }
}

/// A live value that is copied in pieces.
fn large_value<'r>(
    form: ColumnForm,
    data: Option<ColumnData<'r>>,
    sight: Sight,
) -> Option<&'r [u8]> {
    let Some(ColumnData::Atomic(cell)) = data else { return None };
    let (CellState::Live { value } | CellState::Expiring { value, .. }) = cell.state else {
        return None;
    };
    let shown = cell.is_live(sight.now) && !sight.shadow.covers(cell.timestamp);
    (form == ColumnForm::Value && VALUE_PIECE_BYTES < value.len() && shown).then_some(value)
}

/// Appends a piece of a value of which `written` bytes are there; whether it was the last.
fn put_piece_of(value: &[u8], written: &mut usize, out: &mut Vec<u8>) -> bool {
    if *written == 0 {
        out.put_u32(value.len() as u32);
    }
    let end = value.len().min(*written + VALUE_PIECE_BYTES);
    out.extend_from_slice(&value[*written..end]);
    let is_last = end == value.len();
    *written = if is_last { 0 } else { end };
    is_last
}

/// Appends one column; whether it is live.
fn write_column(
    schema: &TableSchema,
    (id, form): (ColumnId, ColumnForm),
    data: Option<ColumnData<'_>>,
    sight: Sight,
    out: &mut Vec<u8>,
) -> bool {
    let live = match data {
        None => false,
        Some(ColumnData::Atomic(cell)) => write_cell(form, cell, sight, out),
        Some(ColumnData::Collection(view)) => {
            write_collection(schema, (id, form), view, sight, out)
        }
    };
    if !live {
        out.put_i32(NULL);
    }
    live
}

/// Appends a live cell; appends nothing for one that is not.
fn write_cell(form: ColumnForm, cell: Cell<'_>, sight: Sight, out: &mut Vec<u8>) -> bool {
    if sight.shadow.covers(cell.timestamp) || !cell.is_live(sight.now) {
        return false;
    }
    if form == ColumnForm::Blob {
        out.put_u32(cell.blob_bytes() as u32);
        cell.write(out);
        return true;
    }
    match cell.state {
        CellState::Live { value } | CellState::Expiring { value, .. } => out.put_u32_bytes(value),
        CellState::Counter { shards } => {
            out.put_u32(8);
            out.put_i64(counter::total(shards));
        }
        CellState::Dead { .. } | CellState::CounterUpdate { .. } => return false,
    }
    if form == ColumnForm::ValueWithTimes {
        let (expiry, ttl) = match cell.state {
            CellState::Expiring { expiry, ttl, .. } => (expiry, ttl),
            _ => (0, 0),
        };
        put_times(out, cell.timestamp, expiry, ttl);
    }
    true
}

/// Appends a collection with a live element; appends nothing for one without.
fn write_collection(
    schema: &TableSchema,
    (id, form): (ColumnId, ColumnForm),
    view: CollectionView<'_>,
    Sight { shadow, now }: Sight,
    out: &mut Vec<u8>,
) -> bool {
    let Some(column) = schema.column_by_id(id) else { return false };
    let start = out.len();
    out.put_i32(NULL);
    let live = match form {
        ColumnForm::Blob => collection::live_elements(view, shadow, now, out),
        _ => collection::to_cql(&column.ty, view, shadow, now, out),
    };
    end_collection(form, view, (start, live), out);
    live
}

/// What stands in `out` from `start` on is a length to be filled in and the value; takes it back
/// out if it is not live.
fn end_collection(
    form: ColumnForm,
    view: CollectionView<'_>,
    (start, live): (usize, bool),
    out: &mut Vec<u8>,
) {
    if !live {
        out.truncate(start);
        return;
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    if form == ColumnForm::ValueWithTimes {
        put_times(out, collection::last_update(view), 0, 0);
    }
}

fn put_times(out: &mut Vec<u8>, timestamp: i64, expiry: i64, ttl: i32) {
    out.put_i64(timestamp);
    out.put_i64(expiry);
    out.put_i32(ttl);
}
