//! Rows on disk: liveness, tombstones, which columns are missing, and the columns themselves
//! (storage-format reference, 4.3 to 4.8).
//!
//! What this module calls the body is what follows `prev_size`. Reads only: the encoder counts what
//! it writes, and stands where files are written.

use crate::mx::cell::{ROW_VALUE, RowTimes, counter_shards, read_cell, read_row_value};
use crate::mx::header::{FileColumn, FileColumns};
use crate::mx::layout::{Bases, DEAD_MARKER_TTL, ext_flags, flags};
use mutation::cell::CellState;
use mutation::collection::CollectionWriter;
use mutation::{Cell, Marker, RowBuilder, Tombstone};
use stdx::{Cursor, Damaged};

/// What a row takes in memory beyond what it takes on disk, as a rule.
const HEAD_BYTES: usize = 24;
/// From so many bytes on a row has more room, so that no value moves what was decoded before it.
const LARGE_BYTES_MIN: usize = 64 << 10;
const LARGE_ROOM: usize = 512;
/// A collection of so many elements is decoded into memory that can take all of the row's rest.
const MANY_ELEMENTS_MIN: u64 = 1024;
/// Up to this many columns the missing ones are a bitmap.
pub(crate) const BITMAP_COLUMNS: usize = 64;

const _: () = assert!(BITMAP_COLUMNS <= u64::BITS as usize);
const _: () = assert!(HEAD_BYTES < LARGE_ROOM && LARGE_ROOM < LARGE_BYTES_MIN);

/// The flag bytes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFlags {
    /// [`flags`].
    pub flags: u8,
    /// [`ext_flags`]; 0 where there are none.
    pub ext: u8,
}

/// What is known of a column before those of lesser ids are written.
#[derive(Debug)]
enum Place {
    /// Where it stands.
    Offset(usize),
    /// A collection, which is not read twice; `None`: nothing of it is left.
    Blob(Option<Vec<u8>>),
}

/// Reads rows of one file; keeps its memory between rows.
#[derive(Debug, Default)]
pub struct RowDecoder {
    row: Vec<u8>,
    counter: Vec<u8>,
    /// Where the columns of a row stand, when they do not stand by id: id, index, place.
    places: Vec<(model::ColumnId, u32, Place)>,
    /// Whether the row has a marker, tombstone, cell or collection.
    any: bool,
}

impl RowDecoder {
    /// One that puts rows into this memory.
    pub(crate) fn in_memory(row: Vec<u8>) -> RowDecoder {
        RowDecoder { row, ..RowDecoder::default() }
    }

    /// What was decoded last.
    pub(crate) fn row(&self) -> &[u8] {
        &self.row
    }

    /// The memory that rows were put into.
    pub(crate) fn take_memory(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.row)
    }

    /// Decodes a body that must end with its slice. `None`: the row holds nothing (any more).
    pub fn decode(
        &mut self,
        head: RowFlags,
        body: &[u8],
        columns: &FileColumns,
        bases: &Bases,
    ) -> Result<Option<&[u8]>, Damaged> {
        self.decode_behind(&[], head, body, columns, bases)
    }

    /// As [`RowDecoder::decode`], and puts the row behind `prefix`.
    pub fn decode_behind(
        &mut self,
        prefix: &[u8],
        head: RowFlags,
        body: &[u8],
        columns: &FileColumns,
        bases: &Bases,
    ) -> Result<Option<&[u8]>, Damaged> {
        let mut out = std::mem::take(&mut self.row);
        out.clear();
        // What the row takes is about what it takes on disk.
        let room = if body.len() < LARGE_BYTES_MIN { HEAD_BYTES } else { LARGE_ROOM };
        out.reserve(prefix.len() + body.len() + room);
        out.extend_from_slice(prefix);
        match decode_values(out, head, body, columns, bases) {
            Ok(row) => {
                self.row = row;
                return Ok(Some(&self.row));
            }
            Err(memory) => out = memory,
        }
        out.truncate(prefix.len());
        let mut cursor = Cursor::new(body);
        let mut builder = RowBuilder::append_to(out);
        self.any = head.flags & (flags::HAS_TIMESTAMP | flags::HAS_DELETION) != 0
            || head.ext & ext_flags::HAS_SHADOWABLE != 0;
        let times = read_head(head, &mut cursor, bases, &mut builder)?;
        let missing = match head.flags & flags::HAS_ALL_COLUMNS {
            0 => Missing::read(&mut cursor, columns.list.len())?,
            _ => Missing::None,
        };
        let context = Context { head, times: &times, bases };
        if columns.in_id_order {
            for (index, column) in columns.list.iter().enumerate() {
                if !missing.has(index) {
                    self.read_column(column, &context, &mut cursor, Some(&mut builder))?;
                }
            }
        } else {
            self.read_unordered(columns, &missing, &context, &mut cursor, &mut builder)?;
        }
        if !cursor.is_empty() {
            return Err(cursor.damaged("row shorter than its size says"));
        }
        self.row = builder.finish();
        debug_assert!(self.row.starts_with(prefix), "a row that is not behind its prefix");
        Ok(self.any.then_some(&self.row))
    }

    /// Two passes: where each column stands, and the collections; then the columns by id.
    fn read_unordered<'a>(
        &mut self,
        columns: &FileColumns,
        missing: &Missing,
        context: &Context<'_>,
        cursor: &mut Cursor<'a>,
        builder: &mut RowBuilder,
    ) -> Result<(), Damaged> {
        let body = *cursor;
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        for (index, column) in columns.list.iter().enumerate() {
            if !missing.has(index) {
                let offset = cursor.offset() - body.offset();
                let place = match column.id {
                    Some(_) if column.complex => {
                        Place::Blob(read_collection(column, context, cursor)?)
                    }
                    _ => {
                        self.read_column(column, context, cursor, None)?;
                        Place::Offset(offset)
                    }
                };
                if let Some(id) = column.id {
                    places.push((id, index as u32, place));
                }
            }
        }
        places.sort_unstable_by_key(|(id, index, _)| (*id, *index));
        debug_assert!(places.is_sorted_by(|a, b| a.0 < b.0), "by-id: a column stands twice");
        for (id, index, place) in places.drain(..) {
            match place {
                Place::Offset(offset) => {
                    let mut there = body;
                    there.take(offset, "column past its row")?;
                    let column = &columns.list[index as usize];
                    self.read_column(column, context, &mut there, Some(builder))?;
                }
                Place::Blob(Some(blob)) => {
                    self.any = true;
                    builder.collection(id, &blob);
                }
                Place::Blob(None) => {}
            }
        }
        self.places = places;
        Ok(())
    }

    fn read_column(
        &mut self,
        column: &FileColumn,
        context: &Context<'_>,
        cursor: &mut Cursor<'_>,
        out: Option<&mut RowBuilder>,
    ) -> Result<(), Damaged> {
        if column.complex {
            let blob = read_collection(column, context, cursor)?;
            if let (Some(id), Some(builder), Some(blob)) = (column.id, out, blob) {
                self.any = true;
                builder.collection(id, &blob);
            }
            return Ok(());
        }
        let (_, cell) = read_cell(cursor, column, context.times, context.bases)?;
        let (Some(id), Some(builder)) = (column.id, out) else {
            return Ok(());
        };
        if hidden(column, cell.timestamp) {
            return Ok(());
        }
        self.any = true;
        if let CellState::Counter { shards } = cell.state {
            let at = (cursor.offset() - shards.len()) as u64;
            counter_shards(shards, &mut self.counter).map_err(|error| error.from_base(at))?;
            let state = CellState::Counter { shards: &self.counter };
            builder.cell(id, Cell { timestamp: cell.timestamp, state });
        } else {
            builder.cell(id, cell);
        }
        Ok(())
    }
}

/// The blob of a collection, unless it says nothing; `None` as well for one of no column.
fn read_collection(
    column: &FileColumn,
    context: &Context<'_>,
    cursor: &mut Cursor<'_>,
) -> Result<Option<Vec<u8>>, Damaged> {
    let mut tombstone = match context.head.flags & flags::HAS_COMPLEX_DELETION {
        0 => Tombstone::NONE,
        _ => context.bases.tombstone(cursor)?,
    };
    if hidden(column, tombstone.timestamp) {
        tombstone = Tombstone::NONE;
    }
    let count = cursor.vint("element count cut short")?;
    if column.id.is_none() {
        for _ in 0..count {
            read_cell(cursor, column, context.times, context.bases)?;
        }
        return Ok(None);
    }
    let room = if count < MANY_ELEMENTS_MIN { 0 } else { cursor.rest().len() };
    let mut writer = CollectionWriter::append_to(Vec::with_capacity(room), tombstone);
    let mut any = !tombstone.is_none();
    for _ in 0..count {
        let (path, cell) = read_cell(cursor, column, context.times, context.bases)?;
        if !hidden(column, cell.timestamp) {
            writer.push(path, cell);
            any = true;
        }
    }
    Ok(any.then(|| writer.finish()))
}

/// Appends a row as nearly all are, and as [`crate::write::row::RowEncoder`] writes them; otherwise
/// gives back the memory, with anything behind what it held.
fn decode_values(
    mut out: Vec<u8>,
    head: RowFlags,
    body: &[u8],
    columns: &FileColumns,
    bases: &Bases,
) -> Result<Vec<u8>, Vec<u8>> {
    let of_values = flags::HAS_TIMESTAMP | flags::HAS_ALL_COLUMNS;
    if !columns.plain || head != (RowFlags { flags: of_values, ext: 0 }) {
        return Err(out);
    }
    let mut cursor = Cursor::new(body);
    let Ok(timestamp) = bases.timestamp(&mut cursor) else { return Err(out) };
    if let Some(run) = &columns.run
        && run.read(timestamp, ROW_VALUE, cursor.rest(), &mut out)
    {
        return Ok(out);
    }
    let mut builder = RowBuilder::append_live_to(out, timestamp);
    let mut rest = cursor.rest();
    for column in &columns.list {
        let value = read_row_value(&mut rest, column.fixed);
        let (Some(id), Some(value)) = (column.id, value) else { return Err(builder.finish()) };
        builder.cell(id, Cell::live(timestamp, value));
    }
    if rest.is_empty() { Ok(builder.finish()) } else { Err(builder.finish()) }
}

struct Context<'a> {
    head: RowFlags,
    times: &'a RowTimes,
    bases: &'a Bases,
}

/// Whether what was written to `column` at `timestamp` belongs to a dropped column.
fn hidden(column: &FileColumn, timestamp: i64) -> bool {
    column.dropped_at.is_some_and(|dropped_at| timestamp <= dropped_at)
}

fn read_head(
    head: RowFlags,
    cursor: &mut Cursor<'_>,
    bases: &Bases,
    builder: &mut RowBuilder,
) -> Result<RowTimes, Damaged> {
    let mut times = RowTimes::default();
    if head.flags & flags::HAS_TIMESTAMP != 0 {
        let timestamp = bases.timestamp(cursor)?;
        times.timestamp = Some(timestamp);
        let marker = match head.flags & flags::HAS_TTL {
            0 => Marker::Live { timestamp },
            _ => {
                let ttl = bases.ttl(cursor)?;
                let expiry = bases.deletion_time(cursor)?;
                if expiry < 0 || ttl < 0 {
                    return Err(cursor.damaged("negative expiry or ttl of a row"));
                }
                if ttl == DEAD_MARKER_TTL {
                    Marker::Dead { timestamp, deletion_time: expiry }
                } else {
                    times.expiry = Some((expiry, ttl));
                    Marker::Expiring { timestamp, expiry, ttl }
                }
            }
        };
        builder.marker(marker);
    } else if head.flags & flags::HAS_TTL != 0 {
        return Err(cursor.damaged("row with a ttl and no timestamp"));
    }
    if head.flags & flags::HAS_DELETION != 0 {
        builder.tombstone(bases.tombstone(cursor)?);
    }
    if head.ext & ext_flags::HAS_SHADOWABLE != 0 {
        builder.shadowable(bases.tombstone(cursor)?);
    }
    Ok(times)
}

/// Which columns a row lacks.
pub(crate) enum Missing {
    None,
    Bits(u64),
    /// Sorted indices of the present columns.
    AllBut(Vec<u32>),
    /// Sorted indices.
    These(Vec<u32>),
}

impl Missing {
    pub(crate) fn read(cursor: &mut Cursor<'_>, total: usize) -> Result<Missing, Damaged> {
        let first = cursor.vint("missing columns cut short")?;
        if total < BITMAP_COLUMNS {
            if first >> total != 0 {
                return Err(cursor.damaged("unknown missing columns"));
            }
            return Ok(Missing::Bits(first));
        }
        if total as u64 <= first {
            // All are missing: the list of the present ones is empty.
            return match first == total as u64 {
                true => Ok(Missing::AllBut(Vec::new())),
                false => Err(cursor.damaged("more missing columns than columns")),
            };
        }
        let (missing, present) = (first as usize, total - first as usize);
        let of_present = present < total / 2;
        let count = if of_present { present } else { missing };
        debug_assert!(count <= total, "{count} of {total} columns are listed");
        let mut list: Vec<u32> = Vec::with_capacity(count);
        for _ in 0..count {
            let index = cursor.vint("missing columns cut short")?;
            if total as u64 <= index || list.last().is_some_and(|last| index <= *last as u64) {
                return Err(cursor.damaged("missing columns out of order"));
            }
            list.push(index as u32);
        }
        Ok(if of_present { Missing::AllBut(list) } else { Missing::These(list) })
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        match self {
            Missing::None => false,
            Missing::Bits(bits) => bits >> index & 1 != 0,
            Missing::AllBut(list) => list.binary_search(&(index as u32)).is_err(),
            Missing::These(list) => list.binary_search(&(index as u32)).is_ok(),
        }
    }
}
