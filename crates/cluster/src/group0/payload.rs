//! What travels in a command of group 0, and in a snapshot of its machine, as bytes. Pure.
//!
//! A payload: a version (1), the latest timestamp, how many mutations, and each with its length.
//! Integers are big-endian.
//!
//! Invariants
//!  - *one-form*: bytes are a payload in its only form, or damage.

use mutation::FrozenMutation;
use stdx::{Cursor, Damaged, Put};

/// The only form so far.
const VERSION: u8 = 1;

/// Rows of the tables of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The latest of their timestamps.
    pub last: i64,
    pub rows: Vec<FrozenMutation>,
}

impl Payload {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.rows.len() <= u32::MAX as usize, "one-form: {} rows", self.rows.len());
        let bytes: usize = self.rows.iter().map(|row| 4 + row.size_bytes()).sum();
        let mut out = Vec::with_capacity(13 + bytes);
        out.put_u8(VERSION);
        out.put(&self.last.to_be_bytes());
        out.put(&(self.rows.len() as u32).to_be_bytes());
        for row in &self.rows {
            out.put(&(row.size_bytes() as u32).to_be_bytes());
            out.put(&row.0);
        }
        debug_assert!(out.len() == 13 + bytes, "one-form: {} bytes", out.len());
        out
    }

    /// From bytes. Each row is a mutation of some table.
    pub fn decode(bytes: &[u8]) -> Result<Payload, Damaged> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u8("the version of a payload")? != VERSION {
            return Err(Damaged::new("a payload of an unknown version", 0));
        }
        let last = i64::from_be_bytes(cursor.array("the timestamp of a payload")?);
        let count = u32::from_be_bytes(cursor.array("the rows of a payload")?);
        let mut rows = Vec::new();
        for _ in 0..count {
            let length = u32::from_be_bytes(cursor.array("the length of a row")?);
            let row = FrozenMutation(cursor.take(length as usize, "a row")?.into());
            row.view()?;
            rows.push(row);
        }
        if !cursor.rest().is_empty() {
            return Err(cursor.damaged("a payload with more than its rows"));
        }
        Ok(Payload { last, rows })
    }
}
