//! Rows as they are encoded, and what of them is counted on the way. [`crate::mx::row`] has the
//! form.
//!
//! Invariants
//!  - *file-order*: cells stand in the order of the file's columns, each once.
//!  - *whole-rows*: a row ends when all of its columns were written.

use crate::mx::cell::{
    CELL_HEAD_BYTES_MAX, EXPIRING_ROW_VALUE, ROW_VALUE, RowTimes, put_cell, put_row_value,
};
use crate::mx::header::FileColumns;
use crate::mx::layout::{Bases, DEAD_MARKER_TTL, cap_deletion_time, ext_flags, flags};
use crate::mx::row::{BITMAP_COLUMNS, RowFlags};
use crate::statistics::Collector;
use mutation::collection::{CollectionIter, CollectionView};
use mutation::{ColumnData, Marker, RowView};
use stdx::Put;

/// Writes rows of one file; keeps its memory between rows.
#[derive(Debug, Default)]
pub struct RowEncoder {
    /// The body of the row encoded last.
    pub body: Vec<u8>,
    /// Columns of the row: index in file order, data. Empty between rows.
    present: Vec<(u32, ColumnData<'static>)>,
}

impl RowEncoder {
    /// Encodes the body of `row` into `self.body`; what it holds goes into `stats`. Columns that
    /// the file does not have (dropped ones) are left out.
    pub fn encode(
        &mut self,
        row: RowView<'_>,
        columns: &FileColumns,
        bases: &Bases,
        stats: &mut Collector,
    ) -> RowFlags {
        let usual = self.encode_values(row, columns, bases, stats);
        if let Some(flags) = usual.or_else(|| self.encode_expiring(row, columns, bases, stats)) {
            return flags;
        }
        let mut encoding = self.begin(row, columns, bases, stats);
        while !self.step(&mut encoding, usize::MAX, (columns, bases), stats) {}
        self.end(encoding)
    }

    /// Encodes a row as nearly all are: with a live marker, and all columns, each a value of the
    /// time of the marker that is not large. `None`: it is another one.
    fn encode_values(
        &mut self,
        row: RowView<'_>,
        columns: &FileColumns,
        bases: &Bases,
        stats: &mut Collector,
    ) -> Option<RowFlags> {
        let (timestamp, mut values) = row.values_at_base().filter(|_| columns.plain)?;
        let body = &mut self.body;
        debug_assert!(columns.in_id_order, "file-order: plain columns stand by id");
        body.clear();
        bases.put_timestamp(timestamp, body);
        if let Some(run) = &columns.run
            && let Some(bytes_max) = run.write(row, ROW_VALUE, body)
        {
            let is_large = stats.is_large_cell(bytes_max + CELL_HEAD_BYTES_MAX);
            return (!is_large).then(|| count_values(timestamp, columns, bytes_max, stats));
        }
        let mut bytes_max = 0;
        for column in &columns.list {
            let (_, value) = values.next().filter(|(id, _)| column.id == Some(*id))?;
            if stats.is_large_cell(value.len() + CELL_HEAD_BYTES_MAX) {
                return None;
            }
            bytes_max = bytes_max.max(value.len());
            put_row_value(value, column.fixed, ROW_VALUE, body);
        }
        if !values.is_at_end() {
            return None;
        }
        Some(count_values(timestamp, columns, bytes_max, stats))
    }

    /// Encodes a row as nearly all are of a table with a lifetime: with a marker that expires, and
    /// values that expire with it, which are not large. `None`: it is another one.
    fn encode_expiring(
        &mut self,
        row: RowView<'_>,
        columns: &FileColumns,
        bases: &Bases,
        stats: &mut Collector,
    ) -> Option<RowFlags> {
        let total = columns.list.len();
        let is_usual = columns.simple && total < BITMAP_COLUMNS;
        let mut values = row.values_as_marker().filter(|_| is_usual)?;
        let (mut here, mut found, mut bytes_max) = (0u64, [&[][..]; BITMAP_COLUMNS], 0);
        let mut known = columns.by_id.iter().peekable();
        for (id, value) in values.by_ref() {
            while known.next_if(|(other, _)| *other < id).is_some() {}
            if let Some((_, index)) = known.next_if(|(other, _)| *other == id) {
                here |= 1 << index;
                found[*index as usize] = value;
                bytes_max = bytes_max.max(value.len());
            }
        }
        if !values.is_at_end() || stats.is_large_cell(bytes_max + CELL_HEAD_BYTES_MAX) {
            return None;
        }
        let body = &mut self.body;
        body.clear();
        let mut head = RowFlags { flags: 0, ext: 0 };
        let times = put_marker(row.marker(), bases, &mut head, stats, body);
        let missing = ((1u64 << total) - 1) & !here;
        match missing {
            0 => head.flags |= flags::HAS_ALL_COLUMNS,
            missing => body.put_vint(missing),
        }
        let mut left = here;
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            put_row_value(found[index], columns.list[index].fixed, EXPIRING_ROW_VALUE, body);
            left &= left - 1;
        }
        debug_assert!(times.expiry.is_some(), "whole-rows: values that expire with no marker");
        if let Some((expiry, _)) = times.expiry
            && here != 0
        {
            stats.expiring_cells(cap_deletion_time(expiry), here.count_ones(), bytes_max);
        }
        Some(head)
    }

    /// Begins to encode a row as [`RowEncoder::encode`] does, in steps; `end` gives its flags.
    pub fn begin<'r>(
        &mut self,
        row: RowView<'r>,
        columns: &FileColumns,
        bases: &Bases,
        stats: &mut Collector,
    ) -> Encoding<'r> {
        let mut present: Vec<(u32, ColumnData<'r>)> = recycle(std::mem::take(&mut self.present));
        collect_present(row, columns, &mut present);
        let body = &mut self.body;
        body.clear();
        let mut head = RowFlags { flags: 0, ext: 0 };
        let times = put_marker(row.marker(), bases, &mut head, stats, body);
        put_tombstones(row, bases, &mut head, stats, body);
        let ascend = present.windows(2).all(|pair| pair[0].0 < pair[1].0);
        debug_assert!(ascend, "file-order: {} cells", present.len());
        if present.len() == columns.list.len() {
            head.flags |= flags::HAS_ALL_COLUMNS;
        } else {
            put_missing(&present, columns.list.len(), body);
        }
        let has_complex_deletion = present.iter().any(|(_, data)| match data {
            ColumnData::Collection(view) => !view.tomb().is_none(),
            ColumnData::Atomic(_) => false,
        });
        if has_complex_deletion {
            head.flags |= flags::HAS_COMPLEX_DELETION;
        }
        Encoding { present, head, times, has_complex_deletion, next: 0, open: None }
    }

    /// Goes on with at most so many cells; whether the row is done.
    pub fn step(
        &mut self,
        encoding: &mut Encoding<'_>,
        cells_max: usize,
        (columns, bases): (&FileColumns, &Bases),
        stats: &mut Collector,
    ) -> bool {
        debug_assert!(encoding.next <= encoding.present.len(), "whole-rows: {}", encoding.next);
        let (body, times) = (&mut self.body, encoding.times);
        let mut left = cells_max.max(1);
        while let Some((index, data)) = encoding.present.get(encoding.next) {
            if left == 0 {
                return false;
            }
            let column = &columns.list[*index as usize];
            match data {
                ColumnData::Atomic(cell) => {
                    stats.cell(cell);
                    let start = body.len();
                    put_cell(*cell, None, column, &times, bases, body);
                    stats.column(&column.name, (body.len() - start) as u64, 0);
                    left -= 1;
                }
                ColumnData::Collection(view) => {
                    let (elements, start) = encoding.open.get_or_insert_with(|| {
                        if encoding.has_complex_deletion {
                            bases.put_tombstone(view.tomb(), body);
                        }
                        let start = body.len();
                        begin_collection(*view, stats, body);
                        (view.iter(), start)
                    });
                    for (path, cell) in elements.by_ref().take(left) {
                        stats.cell(&cell);
                        put_cell(cell, Some(path), column, &times, bases, body);
                        left -= 1;
                    }
                    if left == 0 {
                        return false;
                    }
                    debug_assert!(*start <= body.len(), "whole-rows: a collection at {start}");
                    stats.collection(view.len() as u64);
                    stats.column(&column.name, (body.len() - *start) as u64, view.len() as u64);
                    encoding.open = None;
                }
            }
            encoding.next += 1;
        }
        true
    }

    /// The flags of a row that is done.
    pub fn end(&mut self, encoding: Encoding<'_>) -> RowFlags {
        debug_assert!(encoding.open.is_none(), "whole-rows: a row ends inside a collection");
        debug_assert!(encoding.next == encoding.present.len(), "whole-rows: {}", encoding.next);
        self.present = recycle(encoding.present);
        encoding.head
    }
}

/// A row that is being encoded.
#[derive(Debug)]
pub struct Encoding<'r> {
    present: Vec<(u32, ColumnData<'r>)>,
    head: RowFlags,
    times: RowTimes,
    has_complex_deletion: bool,
    /// The column that comes next, and what is left of it if it is a collection, with where it
    /// began.
    next: usize,
    open: Option<(CollectionIter<'r>, usize)>,
}

/// Counts a row of a live marker and values of its time, none of which is longer.
fn count_values(
    timestamp: i64,
    columns: &FileColumns,
    bytes_max: usize,
    stats: &mut Collector,
) -> RowFlags {
    stats.live_row(timestamp, columns.list.len(), bytes_max);
    RowFlags { flags: flags::HAS_TIMESTAMP | flags::HAS_ALL_COLUMNS, ext: 0 }
}

/// An empty vector in the memory of another.
fn recycle<'a>(mut from: Vec<(u32, ColumnData<'_>)>) -> Vec<(u32, ColumnData<'a>)> {
    from.clear();
    from.into_iter().map(|_| unreachable!("the vector is empty")).collect()
}

fn collect_present<'a>(
    row: RowView<'a>,
    columns: &FileColumns,
    present: &mut Vec<(u32, ColumnData<'a>)>,
) {
    debug_assert!(columns.by_id.is_sorted(), "file-order: {:?}", columns.by_id);
    let mut known = columns.by_id.iter().peekable();
    for (id, data) in row.columns() {
        while known.next_if(|(other, _)| *other < id).is_some() {}
        if let Some((_, index)) = known.next_if(|(other, _)| *other == id) {
            present.push((*index, data));
        }
    }
    if !columns.in_id_order {
        present.sort_unstable_by_key(|(index, _)| *index);
    }
}

fn put_marker(
    marker: Option<Marker>,
    bases: &Bases,
    head: &mut RowFlags,
    stats: &mut Collector,
    body: &mut Vec<u8>,
) -> RowTimes {
    let (timestamp, expiry, shared) = match marker {
        None => return RowTimes::default(),
        Some(Marker::Live { timestamp }) => {
            stats.live_marker(timestamp);
            (timestamp, None, None)
        }
        Some(Marker::Expiring { timestamp, expiry, ttl }) => {
            let expiry = cap_deletion_time(expiry);
            debug_assert!(ttl != DEAD_MARKER_TTL, "a live marker with the ttl of dead ones");
            stats.expiring(timestamp, expiry, ttl);
            (timestamp, Some((expiry, ttl)), Some((expiry as i64, ttl)))
        }
        Some(Marker::Dead { timestamp, deletion_time }) => {
            let deletion_time = cap_deletion_time(deletion_time);
            stats.dead(timestamp, deletion_time);
            (timestamp, Some((deletion_time, DEAD_MARKER_TTL)), None)
        }
    };
    head.flags |= flags::HAS_TIMESTAMP;
    bases.put_timestamp(timestamp, body);
    if let Some((expiry, ttl)) = expiry {
        head.flags |= flags::HAS_TTL;
        bases.put_ttl(ttl, body);
        bases.put_deletion_time(expiry, body);
    }
    RowTimes { timestamp: Some(timestamp), expiry: shared }
}

fn put_tombstones(
    row: RowView<'_>,
    bases: &Bases,
    head: &mut RowFlags,
    stats: &mut Collector,
    body: &mut Vec<u8>,
) {
    let (regular, shadowable) = (row.tombstone(), row.shadowable());
    if !regular.is_none() {
        head.flags |= flags::HAS_DELETION;
        bases.put_tombstone(regular, body);
        stats.tombstone(regular);
    }
    if shadowable > regular && !shadowable.is_none() {
        head.flags |= flags::EXTENSION;
        head.ext |= ext_flags::HAS_SHADOWABLE;
        bases.put_tombstone(shadowable, body);
        stats.tombstone(shadowable);
    }
}

fn put_missing(present: &[(u32, ColumnData<'_>)], total: usize, body: &mut Vec<u8>) {
    debug_assert!(present.len() < total, "whole-rows: none of {total} columns is missing");
    if total < BITMAP_COLUMNS {
        let all = (1u64 << total) - 1;
        let here = present.iter().fold(0u64, |bits, (index, _)| bits | 1 << index);
        return body.put_vint(all & !here);
    }
    body.put_vint((total - present.len()) as u64);
    if present.len() < total / 2 {
        present.iter().for_each(|(index, _)| body.put_vint(*index as u64));
        return;
    }
    let mut here = present.iter().map(|(index, _)| *index).peekable();
    for index in 0..total as u32 {
        if here.next_if_eq(&index).is_none() {
            body.put_vint(index as u64);
        }
    }
}

/// What stands before the elements of a collection.
fn begin_collection(view: CollectionView<'_>, stats: &mut Collector, body: &mut Vec<u8>) {
    if !view.tomb().is_none() {
        stats.tombstone(view.tomb());
    }
    body.put_vint(view.len() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mx::row::{Missing, RowDecoder};
    use mutation::cell::CellState;
    use mutation::{Cell, RowBuilder};
    use proptest::prelude::*;
    use stdx::Cursor;

    /// The columns of a file with columns of any length; where `fixed`, each third of four bytes.
    fn columns(count: usize, fixed: bool) -> (FileColumns, Vec<model::ColumnId>) {
        let class = |index| if fixed && index % 3 == 0 { "Int32Type" } else { "BytesType" };
        let class = |index| format!("org.apache.cassandra.db.marshal.{}", class(index));
        let header = crate::mx::header::SerializationHeader {
            bases: Bases::EPOCH,
            partition_key: class(0),
            clustering: Vec::new(),
            statics: Vec::new(),
            regulars: (0..count).map(|index| (format!("r{index:02}"), class(index))).collect(),
        };
        let schema = crate::testing::schema_of_header(&header).unwrap();
        let shape = crate::mx::header::Shape::new(&header, &schema).unwrap();
        assert!(shape.regulars.plain, "all columns of a new table are plain ones");
        // Ids begin behind that of the key.
        assert_eq!(shape.regulars.run.is_some(), !fixed && count < 16);
        (shape.regulars, schema.regulars().iter().map(|column| column.id).collect())
    }

    /// The same columns, whose ids descend in the order of the file.
    fn reversed(columns: FileColumns) -> FileColumns {
        let FileColumns { mut list, by_id, .. } = columns;
        let ids = by_id.iter().map(|(id, _)| *id).rev();
        list.iter_mut().zip(ids).for_each(|(column, id)| column.id = Some(id));
        let count = list.len() as u32;
        let by_id = by_id.into_iter().map(|(id, index)| (id, count - 1 - index)).collect();
        let in_id_order = list.len() == 1;
        FileColumns { list, by_id, in_id_order, simple: true, plain: in_id_order, run: None }
    }

    /// A row that is nothing but values of one time, or not quite.
    fn row(ids: &[model::ColumnId], prng: &mut stdx::Prng) -> Vec<u8> {
        let time = 1_700_000_000_000_000 + prng.below(1000) as i64;
        let mut builder = RowBuilder::new(Vec::new());
        let expires = prng.one_in(3);
        if !prng.one_in(8) {
            builder.marker(match prng.below(8) {
                _ if expires => {
                    Marker::Expiring { timestamp: time, expiry: 1_700_000_100, ttl: 60 }
                }
                0 => Marker::Expiring { timestamp: time, expiry: 1_700_000_100, ttl: 60 },
                _ => Marker::Live { timestamp: time },
            });
        }
        for (index, id) in ids.iter().enumerate() {
            if prng.one_in(40) {
                continue;
            }
            let bytes = if index % 3 == 0 { 4 } else { [0, 1, 64, 127, 128, 300][index % 6] };
            let value = vec![index as u8; if prng.one_in(20) { 0 } else { bytes }];
            builder.cell(
                *id,
                match prng.below(60) {
                    0 => Cell::live(time + 1, &value),
                    1 => Cell::expiring(time, &value, 1_700_000_100, 60),
                    2 => Cell::dead(time, 1_700_000_000),
                    _ if expires => Cell::expiring(time, &value, 1_700_000_100, 60),
                    _ => Cell::live(time, &value),
                },
            );
        }
        builder.finish()
    }

    proptest! {
        /// Rows of values alone are written and read by a way of their own: with the same result.
        #[test]
        fn rows_of_values_are_as_any_other(
            count in 1usize..20, fixed: bool, is_reversed: bool, seed: u64,
        ) {
            let mut prng = stdx::Prng::from_seed(seed);
            let (columns, ids) = columns(count, fixed);
            let columns = if is_reversed && !fixed { reversed(columns) } else { columns };
            let general =
                FileColumns { simple: false, plain: false, run: None, ..columns.clone() };
            let limits = crate::LargeLimits { cell_bytes: 250, ..crate::LargeLimits::USUAL };
            for _ in 0..20 {
                let blob = row(&ids, &mut prng);
                let write = |columns: &FileColumns| {
                    let mut encoder = RowEncoder::default();
                    let mut stats = Collector::with(limits);
                    let row = RowView::parse(&blob).unwrap();
                    let head = encoder.encode(row, columns, &Bases::EPOCH, &mut stats);
                    (head, encoder.body, format!("{stats:?}"))
                };
                let written = write(&columns);
                prop_assert_eq!(&written, &write(&general));
                let (head, body, _) = written;
                for cut in [body.len(), prng.below(body.len() as u64 + 1) as usize] {
                    let read = |columns: &FileColumns| {
                        let mut decoder = RowDecoder::default();
                        let row = decoder.decode(head, &body[..cut], columns, &Bases::EPOCH);
                        row.map(|row| row.map(<[u8]>::to_vec))
                    };
                    let there = read(&columns);
                    prop_assert_eq!(&there, &read(&general));
                    if cut == body.len() && !RowView::parse(&blob).unwrap().is_empty() {
                        prop_assert_eq!(there, Ok(Some(blob.clone())));
                    }
                }
            }
        }

        #[test]
        fn missing_columns_round_trip(total in 1usize..200, seed: u64, density in 1u64..9) {
            let mut prng = stdx::Prng::from_seed(seed);
            let cell = Cell { timestamp: 0, state: CellState::Live { value: &[] } };
            let present: Vec<(u32, ColumnData<'_>)> = (0..total as u32)
                .filter(|_| prng.one_in(density))
                .map(|index| (index, ColumnData::Atomic(cell)))
                .collect();
            prop_assume!(present.len() < total);
            let mut out = Vec::new();
            put_missing(&present, total, &mut out);
            let mut cursor = Cursor::new(&out);
            let missing = Missing::read(&mut cursor, total).unwrap();
            prop_assert!(cursor.is_empty());
            for index in 0..total {
                let here = present.iter().any(|(other, _)| *other as usize == index);
                prop_assert_eq!(missing.has(index), !here);
            }
            for cut in 0..out.len() {
                prop_assert!(Missing::read(&mut Cursor::new(&out[..cut]), total).is_err());
            }
        }
    }
}
