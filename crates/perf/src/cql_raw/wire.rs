//! Just enough of protocol version 4 to ask much of a node at little cost: requests are copies of
//! a template with another key and stream, of answers only the header is read.

use super::options::{SLICE_ROWS, SLICED_ROWS, Workload};

pub(super) const KEYSPACE: &str = "ks";
const HEADER_BYTES: usize = 9;
const KEY_BYTES: usize = 8;
const COLUMNS: usize = 5;
/// Of the only column beside the key of a row that slices are made of.
const SLICED_VALUE_BYTES: usize = 64;

pub(super) mod opcode {
    pub(in super::super) const ERROR: u8 = 0x00;
    pub(in super::super) const STARTUP: u8 = 0x01;
    pub(in super::super) const QUERY: u8 = 0x07;
    pub(in super::super) const PREPARE: u8 = 0x09;
    pub(in super::super) const EXECUTE: u8 = 0x0a;
}

/// A frame with a body.
pub(super) fn frame(stream: u16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![4, 0];
    out.extend(stream.to_be_bytes());
    out.push(opcode);
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(body);
    out
}

pub(super) fn startup() -> Vec<u8> {
    let mut body = vec![0, 1];
    for text in ["CQL_VERSION", "3.0.0"] {
        body.extend((text.len() as u16).to_be_bytes());
        body.extend(text.as_bytes());
    }
    frame(0, opcode::STARTUP, &body)
}

fn long_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_be_bytes());
    out.extend(text.as_bytes());
}

/// A statement without values, at consistency ONE.
pub(super) fn query(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    long_string(&mut body, text);
    body.extend([0, 1, 0]);
    frame(0, opcode::QUERY, &body)
}

pub(super) fn prepare(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    long_string(&mut body, text);
    frame(0, opcode::PREPARE, &body)
}

/// The id in the body of a PREPARED result.
pub(super) fn prepared_id(body: &[u8]) -> Option<&[u8]> {
    const PREPARED: [u8; 4] = [0, 0, 0, 4];
    let rest = body.strip_prefix(&PREPARED)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    rest.get(..u16::from_be_bytes(*length) as usize)
}

/// What is done to the tables of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Ask,
    /// A row is written.
    Fill,
}

/// The statement of a workload on one table.
pub(super) fn statement(workload: Workload, verb: Verb, table: u64) -> String {
    match (workload, verb) {
        (Workload::Slice, Verb::Fill) => {
            format!("INSERT INTO {KEYSPACE}.sl{table} (\"KEY\", \"CK\", \"C0\") VALUES (?, ?, ?)")
        }
        (Workload::Slice, Verb::Ask) => format!(
            "SELECT \"CK\", \"C0\" FROM {KEYSPACE}.sl{table} WHERE \"KEY\" = ? AND \"CK\" >= ? \
             LIMIT {SLICE_ROWS}"
        ),
        (Workload::Write, _) | (_, Verb::Fill) => format!(
            "INSERT INTO {KEYSPACE}.cf{table} (\"KEY\", \"C0\", \"C1\", \"C2\", \"C3\", \"C4\") \
             VALUES (?, ?, ?, ?, ?, ?)"
        ),
        _ => format!(
            "SELECT \"C0\", \"C1\", \"C2\", \"C3\", \"C4\" FROM {KEYSPACE}.cf{table} WHERE \
             \"KEY\" = ?"
        ),
    }
}

/// What makes the tables.
pub(super) fn schema(tables: u64, copies: u64, compressed: bool) -> Vec<String> {
    let columns: String = (0..COLUMNS).map(|n| format!(", \"C{n}\" blob")).collect();
    let keyspace = format!(
        "CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {{'class': \
         'NetworkTopologyStrategy', 'replication_factor': {copies}}} AND tablets = {{'enabled': \
         false}}"
    );
    let compression = match compressed {
        true => "",
        false => " WITH compression = {'sstable_compression': ''}",
    };
    let tables = (0..tables).flat_map(|table| {
        [
            format!(
                "CREATE TABLE IF NOT EXISTS {KEYSPACE}.cf{table} (\"KEY\" blob PRIMARY \
                 KEY{columns}){compression}"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {KEYSPACE}.sl{table} (\"KEY\" blob, \"CK\" bigint, \
                 \"C0\" blob, PRIMARY KEY (\"KEY\", \"CK\")){compression}"
            ),
        ]
    });
    std::iter::once(keyspace).chain(tables).collect()
}

/// A request in which the row and the stream are still to be put.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    key_at: usize,
    /// Where the number of the row in its partition is, and how many numbers there are.
    row_at: Option<(usize, u64)>,
}

impl Template {
    /// With `id` an EXECUTE, without it a QUERY with the statement's text.
    pub(super) fn new(
        workload: Workload,
        verb: Verb,
        table: u64,
        id: Option<&[u8]>,
        (consistency, value_bytes): (u16, usize),
    ) -> Template {
        const SKIP_METADATA: u8 = 0x02;
        const VALUES: u8 = 0x01;
        let mut body = Vec::new();
        let opcode = match id {
            Some(id) => {
                body.extend((id.len() as u16).to_be_bytes());
                body.extend(id);
                opcode::EXECUTE
            }
            None => {
                long_string(&mut body, &statement(workload, verb, table));
                opcode::QUERY
            }
        };
        body.extend(consistency.to_be_bytes());
        body.push(VALUES | SKIP_METADATA);
        let own = [value_bytes; COLUMNS];
        let (rows, values): (_, &[usize]) = match (workload, verb) {
            (Workload::Slice, Verb::Ask) => (Some(SLICED_ROWS - SLICE_ROWS), &[]),
            (Workload::Slice, Verb::Fill) => (Some(SLICED_ROWS), &[SLICED_VALUE_BYTES]),
            (Workload::Write, _) | (_, Verb::Fill) => (None, &own),
            _ => (None, &[]),
        };
        let count = 1 + usize::from(rows.is_some()) + values.len();
        body.extend((count as u16).to_be_bytes());
        let mut number = || {
            body.extend((KEY_BYTES as u32).to_be_bytes());
            body.extend([0; KEY_BYTES]);
            HEADER_BYTES + body.len() - KEY_BYTES
        };
        let key_at = number();
        let row_at = rows.map(|rows| (number(), rows));
        for (column, bytes) in values.iter().enumerate() {
            body.extend((*bytes as u32).to_be_bytes());
            body.extend((0..*bytes).map(|n| (n * 37 + (column + 1) * 101) as u8));
        }
        Template { bytes: frame(0, opcode, &body), key_at, row_at }
    }

    /// How many rows a partition has, or how many of them one may ask for.
    pub(super) fn rows(&self) -> u64 {
        self.row_at.map_or(1, |(_, rows)| rows)
    }

    /// Appends a request for a row: those of a partition have one number after the other.
    pub(super) fn put(&self, out: &mut Vec<u8>, stream: u16, row: u64) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        out[start + 2..start + 4].copy_from_slice(&stream.to_be_bytes());
        let mut number = |at: usize, number: u64| {
            out[start + at..start + at + KEY_BYTES].copy_from_slice(&number.to_be_bytes());
        };
        number(self.key_at, row / self.rows());
        if let Some((at, rows)) = self.row_at {
            number(at, row % rows);
        }
    }
}

/// The header of an answer, and the code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) stream: u16,
    pub(super) opcode: u8,
    pub(super) error: Option<u32>,
    /// With its header.
    pub(super) bytes: usize,
}

/// The answer at the start of the input, once it is there as a whole.
pub(super) fn answer(input: &[u8]) -> Option<Answer> {
    let (&[_, _, s0, s1, opcode, l0, l1, l2, l3], rest) = input.split_first_chunk()?;
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let body = rest.get(..length)?;
    let code = || body.first_chunk().map_or(0, |code| u32::from_be_bytes(*code));
    Some(Answer {
        stream: u16::from_be_bytes([s0, s1]),
        opcode,
        error: (opcode == opcode::ERROR).then(code),
        bytes: HEADER_BYTES + length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cql_raw::options::VALUE_BYTES;

    #[test]
    fn a_template_becomes_requests() {
        for (id, workload) in [(Some(&[7u8; 16][..]), Workload::Read), (None, Workload::Write)] {
            let template = Template::new(workload, Verb::Ask, 0, id, (1, VALUE_BYTES));
            let mut out = Vec::new();
            template.put(&mut out, 0x0102, 0x1122334455667788);
            template.put(&mut out, 3, 4);
            let whole = out.len() / 2;
            assert_eq!(&out[..4], [4, 0, 1, 2]);
            assert_eq!(&out[whole..whole + 4], [4, 0, 0, 3]);
            let length = u32::from_be_bytes(out[5..9].try_into().unwrap()) as usize;
            assert_eq!(HEADER_BYTES + length, whole);
            let key = 0x1122334455667788u64.to_be_bytes();
            assert!(out[..whole].windows(8).any(|part| part == key));
        }
    }

    #[test]
    fn a_row_is_a_key_and_a_number() {
        let template = Template::new(Workload::Slice, Verb::Fill, 0, None, (1, VALUE_BYTES));
        let mut out = Vec::new();
        template.put(&mut out, 0, 7 * SLICED_ROWS + 5);
        let mut expected = vec![0, 3, 0, 0, 0, 8];
        expected.extend(7u64.to_be_bytes());
        expected.extend([0, 0, 0, 8]);
        expected.extend(5u64.to_be_bytes());
        assert!(out.windows(expected.len()).any(|part| part == expected));
    }

    #[test]
    fn answers_are_found_when_they_are_whole() {
        let error = frame(5, opcode::ERROR, &[0, 0, 0x10, 1, 0, 0]);
        let expected = Answer { stream: 5, opcode: opcode::ERROR, error: Some(0x1001), bytes: 15 };
        assert_eq!(answer(&error), Some(expected));
        (0..error.len()).for_each(|cut| assert_eq!(answer(&error[..cut]), None, "{cut}"));
        assert_eq!(prepared_id(&[0, 0, 0, 4, 0, 2, 8, 9, 1]), Some(&[8, 9][..]));
        assert_eq!(prepared_id(&[0, 0, 0, 4, 0, 2, 8]), None);
    }
}
