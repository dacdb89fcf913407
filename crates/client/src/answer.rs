//! The bodies of answers, from foreign bytes (*checked*).

use crate::types;
use model::Type;
use stdx::{Cursor, Damaged, HashMap};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 9;
/// No answer that is asked for is longer.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;

const FLAG_TRACING: u8 = 0x02;
const FLAG_PAYLOAD: u8 = 0x04;
const FLAG_WARNING: u8 = 0x08;

const KIND_ROWS: i32 = 2;
const KIND_PREPARED: i32 = 4;

const GLOBAL_TABLE: u32 = 0x01;
const MORE_PAGES: u32 = 0x02;
const NO_METADATA: u32 = 0x04;

/// The header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flags: u8,
    pub(crate) stream: i16,
    pub(crate) opcode: u8,
    pub(crate) body_bytes: usize,
}

impl Header {
    /// The header at the start of `bytes`; `None`: not all of it is there yet.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Header>, Damaged> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let damaged = |what| Damaged { what, at: 0 };
        let &[version, flags, s0, s1, opcode, l0, l1, l2, l3] = header;
        if version != 0x84 {
            return Err(damaged("an answer of another protocol version"));
        }
        let body_bytes = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if ANSWER_BYTES_MAX < body_bytes {
            return Err(damaged("an answer that is too long"));
        }
        let stream = i16::from_be_bytes([s0, s1]);
        Ok(Some(Header { flags, stream, opcode, body_bytes }))
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub opcode: u8,
    pub warnings: Vec<String>,
    /// What follows tracing, warnings and payload.
    pub body: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(header: Header, body: &[u8]) -> Result<Answer, Damaged> {
        let mut cursor = Cursor::new(body);
        let mut warnings = Vec::new();
        if header.flags & FLAG_TRACING != 0 {
            cursor.take(16, "id of a trace")?;
        }
        if header.flags & FLAG_WARNING != 0 {
            for _ in 0..cursor.u16("warnings")? {
                warnings.push(types::string(&mut cursor, "warning")?);
            }
        }
        if header.flags & FLAG_PAYLOAD != 0 {
            for _ in 0..cursor.u16("payload")? {
                cursor.u16_bytes("key of a payload")?;
                if let 1.. = cursor.i32("value of a payload")? {
                    return Err(cursor.damaged("a payload that nobody asked for"));
                }
            }
        }
        Ok(Answer { opcode: header.opcode, warnings, body: cursor.rest().to_vec() })
    }
}

/// An error of the server: its code and its text.
pub(crate) fn error(body: &[u8]) -> Result<(u32, String), Damaged> {
    let mut cursor = Cursor::new(body);
    Ok((cursor.u32("code of an error")?, types::string(&mut cursor, "text of an error")?))
}

/// The entries of SUPPORTED, each with its first value.
pub(crate) fn supported(body: &[u8]) -> Result<HashMap<String, String>, Damaged> {
    let mut cursor = Cursor::new(body);
    let mut entries = HashMap::default();
    for _ in 0..cursor.u16("options")? {
        let key = types::string(&mut cursor, "name of an option")?;
        let mut first = None;
        for _ in 0..cursor.u16("values of an option")? {
            let value = types::string(&mut cursor, "value of an option")?;
            first.get_or_insert(value);
        }
        entries.insert(key, first.unwrap_or_default());
    }
    Ok(entries)
}

/// A column of a result, or a marker of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub ty: Type,
}

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub id: Vec<u8>,
    pub markers: Vec<Column>,
    /// Which markers are the components of the partition key, in their order.
    pub key: Vec<u16>,
    /// The columns of its result.
    pub columns: Vec<Column>,
}

impl Prepared {
    pub(crate) fn read(body: &[u8]) -> Result<Prepared, Damaged> {
        let mut cursor = Cursor::new(body);
        if cursor.i32("kind of a result")? != KIND_PREPARED {
            return Err(cursor.damaged("a result that is not a prepared statement"));
        }
        let id = cursor.u16_bytes("id of a statement")?.to_vec();
        let flags = cursor.u32("flags of markers")?;
        let count = cursor.u32("number of markers")?;
        let mut key = Vec::new();
        for _ in 0..cursor.u32("number of key columns")? {
            key.push(cursor.u16("key column")?);
        }
        let markers = columns(&mut cursor, flags, count)?;
        if key.iter().any(|index| markers.len() <= usize::from(*index)) {
            return Err(cursor.damaged("key column without a marker"));
        }
        let flags = cursor.u32("flags of columns")?;
        let count = cursor.u32("number of columns")?;
        let columns = match flags & NO_METADATA {
            0 => columns(&mut cursor, flags, count)?,
            _ => Vec::new(),
        };
        Ok(Prepared { id, markers, key, columns })
    }
}

fn columns(cursor: &mut Cursor<'_>, flags: u32, count: u32) -> Result<Vec<Column>, Damaged> {
    let is_global = flags & GLOBAL_TABLE != 0;
    if is_global && 0 < count {
        cursor.u16_bytes("keyspace of columns")?;
        cursor.u16_bytes("table of columns")?;
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        if !is_global {
            cursor.u16_bytes("keyspace of a column")?;
            cursor.u16_bytes("table of a column")?;
        }
        let name = types::string(cursor, "name of a column")?;
        columns.push(Column { name, ty: types::read(cursor)? });
    }
    Ok(columns)
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The columns, where the answer names them.
    pub columns: Vec<Column>,
    pub column_count: usize,
    /// What asks for the next page; `None`: this is the last.
    pub more: Option<Vec<u8>>,
    pub row_count: usize,
    cells: Vec<u8>,
}

/// A cell: `None` is null.
pub type Cell<'a> = Option<&'a [u8]>;

impl Rows {
    pub(crate) fn read(body: &[u8]) -> Result<Rows, Damaged> {
        let mut cursor = Cursor::new(body);
        if cursor.i32("kind of a result")? != KIND_ROWS {
            return Err(cursor.damaged("a result without rows"));
        }
        let flags = cursor.u32("flags of a result")?;
        let count = cursor.u32("number of columns")?;
        let more = match flags & MORE_PAGES {
            0 => None,
            _ => Some(cursor.u32_bytes("paging state")?.to_vec()),
        };
        let columns = match flags & NO_METADATA {
            0 => columns(&mut cursor, flags, count)?,
            _ => Vec::new(),
        };
        // Rows without columns would be any number of nothing.
        let row_count = match cursor.u32("number of rows")? {
            _ if count == 0 => 0,
            rows => rows as usize,
        };
        let cells = cursor.rest().to_vec();
        Ok(Rows { columns, column_count: count as usize, more, row_count, cells })
    }

    /// Calls `each` with the cells of every row, in order.
    pub fn for_each<E: From<Damaged>>(
        &self,
        mut each: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor = Cursor::new(&self.cells);
        let mut row: Vec<Cell<'_>> = Vec::new();
        for _ in 0..self.row_count {
            row.clear();
            for _ in 0..self.column_count {
                row.push(match usize::try_from(cursor.i32("length of a cell")?) {
                    Ok(length) => Some(cursor.take(length, "cell")?),
                    Err(_) => None,
                });
            }
            each(&row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers() {
        let bytes = [0x84, 8, 0, 5, 0x08, 0, 0, 0, 3, 1, 2, 3];
        let header = Header { flags: 8, stream: 5, opcode: 8, body_bytes: 3 };
        assert_eq!(Header::read(&bytes), Ok(Some(header)));
        assert_eq!(Header::read(&bytes[..8]), Ok(None));
        assert!(Header::read(&[4; 9]).is_err());
        assert!(Header::read(&[0x84, 0, 0, 0, 0, 0xff, 0, 0, 0]).is_err());
    }

    #[test]
    fn warnings_stand_before_the_body() {
        let header = Header { flags: FLAG_WARNING, stream: 0, opcode: 8, body_bytes: 0 };
        let answer = Answer::new(header, b"\0\x01\0\x02hm\0\0\0\x01").expect("an answer");
        assert_eq!(
            (&answer.warnings[..], &answer.body[..]),
            (&["hm".into()][..], &b"\0\0\0\x01"[..])
        );
    }

    #[test]
    fn rows_and_their_cells() {
        let mut body = b"\0\0\0\x02\0\0\0\x03\0\0\0\x02\0\0\0\x01p".to_vec();
        body.extend(b"\0\x01k\0\x01t\0\x01a\0\x09\0\x01b\0\x0d\0\0\0\x01");
        body.extend(b"\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff");
        let rows = Rows::read(&body).expect("rows");
        assert_eq!((rows.more.as_deref(), rows.row_count), (Some(&b"p"[..]), 1));
        assert_eq!(rows.columns[1], Column { name: "b".into(), ty: Type::Text });
        let mut seen = Vec::new();
        let walked: Result<(), Damaged> = rows.for_each(|row| {
            seen.push(row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect::<Vec<_>>());
            Ok(())
        });
        assert_eq!(walked, Ok(()));
        assert_eq!(seen, [[Some(vec![0, 0, 0, 7]), None]]);
    }

    #[test]
    fn prepared_statements() {
        let mut body = b"\0\0\0\x04\0\x01i\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0".to_vec();
        body.extend(b"\0\x01k\0\x01t\0\x01a\0\x09\0\0\0\x04\0\0\0\0");
        let prepared = Prepared::read(&body).expect("a statement");
        assert_eq!((&prepared.id[..], &prepared.key[..]), (&b"i"[..], &[0][..]));
        (0..body.len()).for_each(|cut| assert!(Prepared::read(&body[..cut]).is_err(), "{cut}"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(kind in 0i32..6, tail: Vec<u8>) {
            let body = [&kind.to_be_bytes()[..], &tail].concat();
            let _ = (Prepared::read(&body), error(&body), supported(&tail));
            if let Ok(rows) = Rows::read(&body) {
                let row_count = rows.row_count.min(100);
                let column_count = rows.column_count.min(10);
                let rows = Rows { row_count, column_count, ..rows };
                let _ = rows.for_each(|_| Ok::<(), Damaged>(()));
            }
        }
    }
}
