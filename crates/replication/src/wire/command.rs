//! A read, as a replica is asked for it.
//!
//! ```text
//! command := table:16 partitions ranges:be16 range* reversed:u8
//!            columns:be16 (id:be32 form:u8)* static_count:be16
//!            row_limit per_partition_limit partition_limit bytes_max tombstone_limit now
//!                                                                       be64 each
//!            static_only_rows:u8 bypass_cache:u8 resume
//! partitions := 0 key:be32_bytes | 1 bound bound
//! bound      := token:be64 after:u8 has_key:u8 [key:be32_bytes]
//! range      := place place
//! place      := prefix:be32_bytes weight:u8        0 before, 1 at, 2 after
//! ```
//! The shape of the rows does not travel: a replica answers whole ones.

use super::{end, flag, put_resume, resume};
use model::key::KEY_BYTES_MAX;
use model::{ColumnId, TableId, Token};
use mutation::page::{ColumnForm, Partitions, ReadCommand, RingBound, RowShape, SendRange};
use stdx::{Cursor, Damaged, Put};

const FORMS: [ColumnForm; 4] =
    [ColumnForm::Value, ColumnForm::ValueWithTimes, ColumnForm::Blob, ColumnForm::Liveness];

/// As few bytes as a range and a column take.
const RANGE_BYTES_MIN: usize = 10;
const COLUMN_BYTES: usize = 5;
/// The id of a table.
const TABLE_BYTES: usize = 16;

/// The bytes of a command for whole rows.
pub fn encode(command: &ReadCommand) -> Vec<u8> {
    assert!(command.shape == RowShape::Whole, "one-form: a replica is asked for pieces of rows");
    let mut out = Vec::with_capacity(192);
    out.put(command.table.as_bytes());
    match &command.partitions {
        Partitions::Key(key) => {
            out.put_u8(0);
            out.put_u32_bytes(key);
        }
        Partitions::Range { start, end } => {
            out.put_u8(1);
            put_bound(&mut out, start);
            put_bound(&mut out, end);
        }
    }
    put_ranges(&mut out, &command.ranges);
    out.put_u8(command.reversed.into());
    out.put_u16(count(command.columns.len()));
    for (id, form) in &command.columns {
        let mut column = [code_of(*form); COLUMN_BYTES];
        column[..4].copy_from_slice(&id.0.to_be_bytes());
        out.put(&column);
    }
    out.put_u16(count(command.static_count));
    let numbers = [
        command.row_limit,
        command.per_partition_limit,
        command.partition_limit,
        command.bytes_max as u64,
        command.tombstone_limit,
        command.now as u64,
    ];
    // In one piece: six are more than a copy of them.
    let mut bytes = [0; 50];
    for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    bytes[48..].copy_from_slice(&[command.static_only_rows.into(), command.bypass_cache.into()]);
    out.put(&bytes);
    put_resume(&mut out, command.resume.as_ref());
    out
}

fn code_of(form: ColumnForm) -> u8 {
    let code = FORMS.iter().position(|known| *known == form);
    code.expect("all forms have a code") as u8
}

/// Whether a command can be sent: a statement with more ranges or columns goes nowhere.
pub fn fits(command: &ReadCommand) -> bool {
    let most = usize::from(u16::MAX);
    command.ranges.len() <= most && command.columns.len() <= most
}

fn count(many: usize) -> u16 {
    u16::try_from(many).expect("the sender asked whether it fits")
}

fn put_bound(out: &mut Vec<u8>, bound: &RingBound) {
    out.put_i64(bound.token.0);
    out.put_u8(bound.after.into());
    out.put_u8(bound.key.is_some().into());
    if let Some(key) = &bound.key {
        out.put_u32_bytes(key);
    }
}

pub(super) fn put_ranges(out: &mut Vec<u8>, ranges: &[SendRange]) {
    out.put_u16(count(ranges.len()));
    for range in ranges {
        put_place(out, &range.start);
        put_place(out, &range.end);
    }
}

fn put_place(out: &mut Vec<u8>, (prefix, weight): &(Vec<u8>, i8)) {
    out.put_u32_bytes(prefix);
    assert!((-1..=1).contains(weight), "one-form: a place of weight {weight}");
    out.put_u8((weight + 1) as u8);
}

/// A command: statics first, a resumption within its partitions, keys that are short enough. What
/// needs the schema is for [`crate::range::check_ranges`].
pub fn decode(bytes: &[u8]) -> Result<ReadCommand, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let table = TableId::from_bytes(cursor.array("table of a read")?);
    let partitions = match cursor.u8("partitions of a read")? {
        0 => Partitions::Key(key(&mut cursor)?),
        1 => Partitions::Range { start: bound(&mut cursor)?, end: bound(&mut cursor)? },
        _ => return Err(cursor.damaged("partitions of a read")),
    };
    let ranges = ranges(&mut cursor)?;
    let reversed = flag(&mut cursor, "direction of a read")?;
    let columns = columns(&mut cursor)?;
    let static_count = usize::from(cursor.u16("static columns of a read")?);
    if columns.len() < static_count {
        return Err(cursor.damaged("more static columns than columns"));
    }
    let row_limit = cursor.u64("row limit")?;
    let per_partition_limit = cursor.u64("limit of a partition")?;
    let partition_limit = cursor.u64("limit of partitions")?;
    let bytes_max = usize::try_from(cursor.u64("limit of bytes")?);
    let bytes_max = bytes_max.map_err(|_| cursor.damaged("limit of bytes"))?;
    let tombstone_limit = cursor.u64("limit of tombstones")?;
    let now = cursor.i64("time of a read")?;
    let static_only_rows = flag(&mut cursor, "whether static rows count")?;
    let bypass_cache = flag(&mut cursor, "whether caches are asked")?;
    let resume = resume(&mut cursor)?;
    end(&cursor)?;
    let command = ReadCommand {
        table,
        partitions,
        ranges,
        reversed,
        columns,
        static_count,
        row_limit,
        per_partition_limit,
        partition_limit,
        bytes_max,
        static_only_rows,
        tombstone_limit,
        now,
        bypass_cache,
        shape: RowShape::Whole,
        resume,
    };
    match resumes_within(&command) {
        true => Ok(command),
        false => Err(cursor.damaged("a read goes on outside of its partitions")),
    }
}

/// Decodes commands that came together, most of which differ by their keys alone.
#[derive(Debug, Default)]
pub(crate) struct Decoder<'b> {
    /// The one before, and its bytes but for the key.
    last: Option<(ReadCommand, [&'b [u8]; 2])>,
}

impl<'b> Decoder<'b> {
    /// As [`decode`], of the next one.
    pub(crate) fn decode(&mut self, bytes: &'b [u8]) -> Result<&ReadCommand, Damaged> {
        let cut = around_key(bytes);
        let is_like = |(_, around): &(ReadCommand, [&[u8]; 2])| {
            cut.is_some_and(|(head, _, rest)| *around == [head, rest])
        };
        if !self.last.as_ref().is_some_and(is_like) {
            let command = decode(bytes)?;
            // Where one goes on within its key, what follows the key depends on it.
            let (head, rest) = match (cut, &command.resume) {
                (Some((head, _, rest)), None) => (head, rest),
                _ => (&[][..], &[][..]),
            };
            return Ok(&self.last.insert((command, [head, rest])).0);
        }
        let (Some((command, _)), Some((_, next, _))) = (&mut self.last, cut) else {
            unreachable!("one-form: it is like the one before");
        };
        if let Partitions::Key(key) = &mut command.partitions {
            key.clear();
            key.extend_from_slice(next);
        }
        debug_assert_eq!(decode(bytes).as_ref(), Ok(&*command), "one-form: by the one before");
        Ok(command)
    }
}

/// The bytes of a command of one key: before it, it, and behind it.
fn around_key(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(TABLE_BYTES + 1)?;
    let mut cursor = Cursor::new(rest);
    let key = cursor.u32_bytes("key of a read").ok()?;
    let is_key = head[TABLE_BYTES] == 0 && key.len() <= KEY_BYTES_MAX;
    is_key.then(|| (head, key, cursor.rest()))
}

fn resumes_within(command: &ReadCommand) -> bool {
    let Some(resume) = &command.resume else { return true };
    match &command.partitions {
        Partitions::Key(key) => *key == resume.key,
        Partitions::Range { start, end } => {
            let token = Token::of(&resume.key);
            start.token <= token && token <= end.token
        }
    }
}

pub(super) fn key(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Damaged> {
    let key = cursor.u32_bytes("key of a read")?;
    match key.len() <= KEY_BYTES_MAX {
        true => Ok(key.to_vec()),
        false => Err(cursor.damaged("key of a read is too long")),
    }
}

fn bound(cursor: &mut Cursor<'_>) -> Result<RingBound, Damaged> {
    let token = Token(cursor.i64("token of a bound")?);
    let after = flag(cursor, "side of a bound")?;
    let key = match flag(cursor, "whether a bound has a key")? {
        true => Some(key(cursor)?),
        false => None,
    };
    Ok(RingBound { token, key, after })
}

pub(super) fn ranges(cursor: &mut Cursor<'_>) -> Result<Vec<SendRange>, Damaged> {
    let count = usize::from(cursor.u16("ranges of a read")?);
    let mut ranges = Vec::with_capacity(count.min(cursor.remaining() / RANGE_BYTES_MIN));
    for _ in 0..count {
        ranges.push(SendRange { start: place(cursor)?, end: place(cursor)? });
    }
    Ok(ranges)
}

fn place(cursor: &mut Cursor<'_>) -> Result<(Vec<u8>, i8), Damaged> {
    let prefix = cursor.u32_bytes("prefix of a range")?.to_vec();
    match cursor.u8("weight of a range")? {
        weight @ 0..=2 => Ok((prefix, weight as i8 - 1)),
        _ => Err(cursor.damaged("weight of a range")),
    }
}

fn columns(cursor: &mut Cursor<'_>) -> Result<Vec<(ColumnId, ColumnForm)>, Damaged> {
    let count = usize::from(cursor.u16("columns of a read")?);
    let mut columns = Vec::with_capacity(count.min(cursor.remaining() / COLUMN_BYTES));
    for _ in 0..count {
        let id = ColumnId(cursor.u32("column of a read")?);
        let form = FORMS.get(usize::from(cursor.u8("form of a column")?));
        columns.push((id, *form.ok_or(cursor.damaged("form of a column"))?));
    }
    Ok(columns)
}
