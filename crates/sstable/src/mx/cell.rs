//! Cells on disk (storage-format reference, 4.6 to 4.8).

use crate::mx::header::FileColumn;
use crate::mx::layout::{Bases, cap_deletion_time, cell_flags as flags};
use mutation::Cell;
use mutation::cell::CellState;
use stdx::{Cursor, Damaged, Put};

/// The flags of a value with the time of its row that is not empty.
pub const ROW_VALUE: u8 = flags::USE_ROW_TIMESTAMP;
/// The same of a value that expires with its row.
pub const EXPIRING_ROW_VALUE: u8 = ROW_VALUE | flags::IS_EXPIRING | flags::USE_ROW_TTL;
/// The flags of an empty value with the time of its row.
const EMPTY_ROW_VALUE: u8 = flags::USE_ROW_TIMESTAMP | flags::HAS_EMPTY_VALUE;
/// Bytes of one counter shard: id, clock, value.
const SHARD_BYTES: usize = 32;

const _: () = assert!((EXPIRING_ROW_VALUE | EMPTY_ROW_VALUE) & !flags::KNOWN == 0);

/// The liveness of the row, which cells may share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowTimes {
    /// Microseconds.
    pub timestamp: Option<i64>,
    /// Expiry and ttl, in seconds, of an expiring row.
    pub expiry: Option<(i64, i32)>,
}

/// Appends a cell of `column`; `path` inside complex columns.
pub fn put_cell(
    cell: Cell<'_>,
    path: Option<&[u8]>,
    column: &FileColumn,
    row: &RowTimes,
    bases: &Bases,
    out: &mut Vec<u8>,
) {
    let (mut bits, value, deletion_time, ttl): (u8, &[u8], i32, i32) = match cell.state {
        CellState::Live { value } => (0, value, 0, 0),
        CellState::Counter { shards } => (0, shards, 0, 0),
        CellState::Expiring { value, expiry, ttl } => {
            (flags::IS_EXPIRING, value, cap_deletion_time(expiry), ttl)
        }
        CellState::Dead { deletion_time } => {
            (flags::IS_DELETED, &[], cap_deletion_time(deletion_time), 0)
        }
        CellState::CounterUpdate { .. } => panic!("a counter update on its way to a file"),
    };
    if value.is_empty() {
        bits |= flags::HAS_EMPTY_VALUE;
    }
    if row.timestamp == Some(cell.timestamp) {
        bits |= flags::USE_ROW_TIMESTAMP;
    }
    if bits & flags::IS_EXPIRING != 0 && row.expiry == Some((deletion_time as i64, ttl)) {
        bits |= flags::USE_ROW_TTL;
    }
    debug_assert!(path.is_some() == column.complex, "a path in {}", column.name);
    debug_assert!(bits & !flags::KNOWN == 0 && 0 <= ttl, "cell flags {bits:x}");
    out.put_u8(bits);
    if bits & flags::USE_ROW_TIMESTAMP == 0 {
        bases.put_timestamp(cell.timestamp, out);
    }
    if bits & flags::USE_ROW_TTL == 0 {
        if bits & (flags::IS_DELETED | flags::IS_EXPIRING) != 0 {
            bases.put_deletion_time(deletion_time, out);
        }
        if bits & flags::IS_EXPIRING != 0 {
            bases.put_ttl(ttl, out);
        }
    }
    if let Some(path) = path {
        out.put_vint_bytes(path);
    }
    match cell.state {
        CellState::Counter { shards } => put_counter(shards, out),
        _ => put_value(value, column.fixed, out),
    }
}

fn put_value(value: &[u8], fixed: Option<usize>, out: &mut Vec<u8>) {
    match fixed {
        _ if value.is_empty() => {}
        Some(length) => {
            assert_eq!(value.len(), length, "a value of a wrong length");
            out.put(value);
        }
        None => out.put_vint_bytes(value),
    }
}

/// Shards in memory are `count:be16 shard*`; on disk an index of global shards stands between.
fn put_counter(shards: &[u8], out: &mut Vec<u8>) {
    let (count, body) = shards.split_first_chunk::<2>().expect("a counter starts with its count");
    let count = u16::from_be_bytes(*count);
    assert_eq!(body.len(), count as usize * SHARD_BYTES, "a counter of a wrong length");
    assert!(count < 0x8000, "too many counter shards");
    out.put_vint((2 + 2 * count as usize + body.len()) as u64);
    out.put_u16(count);
    (0..count).for_each(|index| out.put_u16(0x8000 + index));
    out.put(body);
}

/// The most bytes that stand before the value of a cell with the time of its row.
pub const CELL_HEAD_BYTES_MAX: usize = 1 + stdx::vint::SIZE_MAX;

/// Appends a value that has the time of its row, and expires with it or not at all, as [`put_cell`]
/// does. `bits`: [`EXPIRING_ROW_VALUE`] or [`ROW_VALUE`].
#[inline]
pub fn put_row_value(value: &[u8], fixed: Option<usize>, bits: u8, out: &mut Vec<u8>) {
    if fixed.is_none() && (1..0x80).contains(&value.len()) {
        // As nearly all are: a length of one byte.
        out.reserve(2 + value.len());
        out.put(&[bits, value.len() as u8]);
        return out.put(value);
    }
    debug_assert!(fixed.is_none_or(|length| [0, length].contains(&value.len())), "{value:?}");
    let empty = if value.is_empty() { flags::HAS_EMPTY_VALUE } else { 0 };
    out.put_u8(bits | empty);
    put_value(value, fixed, out);
}

/// Reads such a value; `None`: another cell stands there, or what is no cell.
#[inline]
pub fn read_row_value<'a>(rest: &mut &'a [u8], fixed: Option<usize>) -> Option<&'a [u8]> {
    let (bits, behind) = rest.split_first()?;
    let (value, behind) = match (*bits, fixed) {
        (flags::USE_ROW_TIMESTAMP, Some(length)) => behind.split_at_checked(length)?,
        (flags::USE_ROW_TIMESTAMP, None) => match behind.split_first()? {
            (length @ 0..0x80, behind) => behind.split_at_checked(*length as usize)?,
            _ => {
                let mut cursor = Cursor::new(behind);
                let value = cursor.vint_bytes("cell value cut short").ok()?;
                (value, cursor.rest())
            }
        },
        (EMPTY_ROW_VALUE, _) => (&[][..], behind),
        _ => return None,
    };
    *rest = behind;
    Some(value)
}

/// Reads a cell of `column`: its path (empty for an atomic one) and itself. The value of a counter
/// cell is what stands on disk: see [`counter_shards`].
pub fn read_cell<'a>(
    cursor: &mut Cursor<'a>,
    column: &FileColumn,
    row: &RowTimes,
    bases: &Bases,
) -> Result<(&'a [u8], Cell<'a>), Damaged> {
    let bits = cursor.u8("cell flags cut short")?;
    let (deleted, expiring) = (bits & flags::IS_DELETED != 0, bits & flags::IS_EXPIRING != 0);
    if bits & !flags::KNOWN != 0 || (deleted && expiring) {
        return Err(cursor.damaged("impossible cell flags"));
    }
    let timestamp = if bits & flags::USE_ROW_TIMESTAMP != 0 {
        row.timestamp.ok_or_else(|| cursor.damaged("cell shares a timestamp the row lacks"))?
    } else {
        bases.timestamp(cursor)?
    };
    let (mut deletion_time, mut ttl) = (0, 0);
    if bits & flags::USE_ROW_TTL != 0 {
        let shared = row.expiry.ok_or_else(|| cursor.damaged("cell shares a ttl the row lacks"))?;
        (deletion_time, ttl) = shared;
    } else {
        if deleted || expiring {
            deletion_time = bases.deletion_time(cursor)?;
        }
        if expiring {
            ttl = bases.ttl(cursor)?;
        }
    }
    if deletion_time < 0 || ttl < 0 {
        return Err(cursor.damaged("negative deletion time or ttl"));
    }
    let path = match column.complex {
        true => cursor.vint_bytes("cell path cut short")?,
        false => &[],
    };
    let value: &[u8] = match column.fixed {
        _ if bits & flags::HAS_EMPTY_VALUE != 0 => &[],
        Some(length) => cursor.take(length, "cell value cut short")?,
        None => cursor.vint_bytes("cell value cut short")?,
    };
    let state = if deleted {
        CellState::Dead { deletion_time }
    } else if expiring {
        CellState::Expiring { value, expiry: deletion_time, ttl }
    } else if column.counter {
        CellState::Counter { shards: value }
    } else {
        CellState::Live { value }
    };
    Ok((path, Cell { timestamp, state }))
}

/// Puts the shards of a counter as it stands on disk into `out`, in the form and order of memory.
pub fn counter_shards(value: &[u8], out: &mut Vec<u8>) -> Result<(), Damaged> {
    let mut cursor = Cursor::new(value);
    let count = cursor.u16("counter header cut short")?;
    for _ in 0..count {
        if cursor.u16("counter header cut short")? < 0x8000 {
            return Err(cursor.damaged("a local counter shard"));
        }
    }
    if cursor.remaining() != count as usize * SHARD_BYTES {
        return Err(cursor.damaged("remote counter shards, or a counter cut short"));
    }
    out.clear();
    out.put_u16(count);
    let ids = || cursor.rest().chunks_exact(SHARD_BYTES).map(|shard| &shard[..16]);
    if ids().is_sorted() {
        out.put(cursor.rest());
    } else {
        let mut shards: Vec<&[u8]> = cursor.rest().chunks_exact(SHARD_BYTES).collect();
        shards.sort();
        shards.iter().for_each(|shard| out.put(shard));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Type;

    fn column(ty: Type) -> FileColumn {
        FileColumn {
            name: "c".into(),
            id: None,
            dropped_at: None,
            fixed: match ty {
                Type::Int => Some(4),
                _ => None,
            },
            complex: false,
            counter: ty == Type::Counter,
            ty,
        }
    }

    fn check(cell: Cell<'_>, ty: Type, row: RowTimes, expected: &[u8]) {
        let column = column(ty);
        let bases = Bases::EPOCH;
        let mut out = Vec::new();
        put_cell(cell, None, &column, &row, &bases, &mut out);
        assert_eq!(out, expected);
        let mut cursor = Cursor::new(&out);
        let (path, back) = read_cell(&mut cursor, &column, &row, &bases).unwrap();
        assert!(cursor.is_empty() && path.is_empty());
        if !column.counter {
            assert_eq!(back, cell);
        }
        for cut in 0..out.len() {
            assert!(read_cell(&mut Cursor::new(&out[..cut]), &column, &row, &bases).is_err());
        }
    }

    #[test]
    fn golden_cells() {
        let ts = Bases::EPOCH.timestamp + 1;
        let row = RowTimes { timestamp: Some(ts), expiry: Some((1_442_880_100, 60)) };
        let live = Cell { timestamp: ts, state: CellState::Live { value: &[0, 0, 3, 0xe9] } };
        check(live, Type::Int, row, &[0x08, 0, 0, 3, 0xe9]);
        check(live, Type::Int, RowTimes::default(), &[0, 1, 0, 0, 3, 0xe9]);
        let empty = Cell { timestamp: ts, state: CellState::Live { value: &[] } };
        check(empty, Type::Int, row, &[0x0c]);
        let text = Cell { timestamp: ts, state: CellState::Live { value: b"ab" } };
        check(text, Type::Text, row, &[0x08, 2, b'a', b'b']);
        let dead = CellState::Dead { deletion_time: 1_442_880_005 };
        check(Cell { timestamp: ts + 1, state: dead }, Type::Int, row, &[0x05, 2, 5]);
        let expiring = CellState::Expiring { value: b"a", expiry: 1_442_880_100, ttl: 60 };
        check(Cell { timestamp: ts, state: expiring }, Type::Text, row, &[0x1a, 1, b'a']);
        let bare = RowTimes::default();
        let cell = Cell { timestamp: ts, state: expiring };
        check(cell, Type::Text, bare, &[0x02, 1, 100, 60, 1, b'a']);
    }

    #[test]
    fn counters_gain_and_lose_their_index_and_are_sorted() {
        let shard = |id: u8| [[id; 16].as_slice(), &[0; 15], &[7]].concat();
        let shards = [[0, 2].as_slice(), &shard(1), &shard(2)].concat();
        let state = CellState::Counter { shards: &shards };
        let row = RowTimes { timestamp: None, expiry: None };
        let disk = [[0, 2, 0x80, 0, 0x80, 1].as_slice(), &shards[2..]].concat();
        let expected = [[0u8, 0, 70].as_slice(), &disk].concat();
        check(Cell { timestamp: Bases::EPOCH.timestamp, state }, Type::Counter, row, &expected);
        let mut back = Vec::new();
        counter_shards(&disk, &mut back).unwrap();
        assert_eq!(back, shards);
        let wrong = [[0, 2, 0x80, 0, 0x80, 1].as_slice(), &shard(2), &shard(1)].concat();
        counter_shards(&wrong, &mut back).unwrap();
        assert_eq!(back, shards);
        assert!(counter_shards(&disk[..disk.len() - 1], &mut back).is_err());
    }
}
