//! The paging state: where the next page starts, opaque to clients.
//!
//! ```text
//! version:u8=1 table:16 rows_left:be64 rows_in_partition:be64 key:be32_bytes
//! after:u8 [weight:u8 prefix:be32_bytes] crc32:be32       (of all before it)
//! ```
//!
//! Invariants
//!  - *ours-or-refused*: bytes that this module has not written for this table are a protocol
//!    error, never a panic or another table's rows.

use crate::error::CqlError;
use model::TableId;
use mutation::page::Resume;
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, Put};

const VERSION: u8 = 1;

/// Where a query goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PagingState {
    /// Rows that `LIMIT` still allows.
    pub(crate) rows_left: u64,
    pub(crate) resume: Resume,
}

impl PagingState {
    /// The bytes for the client.
    pub(crate) fn encode(&self, table: TableId) -> Vec<u8> {
        let prefix_bytes = self.resume.after.as_ref().map_or(0, |(prefix, _)| prefix.len() + 5);
        let mut out = Vec::with_capacity(46 + self.resume.key.len() + prefix_bytes);
        out.put_u8(VERSION);
        out.put(table.as_bytes());
        out.put_u64(self.rows_left);
        out.put_u64(self.resume.rows_in_partition);
        out.put_u32_bytes(&self.resume.key);
        match &self.resume.after {
            None => out.put_u8(0),
            Some((prefix, weight)) => {
                out.put_u8(1);
                out.put_u8(*weight as u8);
                out.put_u32_bytes(prefix);
            }
        }
        let sum = crc32(&out);
        out.put_u32(sum);
        out
    }

    /// Reads what [`PagingState::encode`] has written for `table`.
    pub(crate) fn decode(bytes: &[u8], table: TableId) -> Result<PagingState, CqlError> {
        let state = read(bytes, table).map_err(|_| PagingState::refused())?;
        state.ok_or_else(PagingState::refused)
    }

    /// Whether the bytes are a state of some query, on whatever node.
    pub(super) fn is_whole(bytes: &[u8]) -> bool {
        bytes
            .split_last_chunk::<4>()
            .is_some_and(|(body, sum)| crc32(body) == u32::from_be_bytes(*sum))
    }

    /// The error for a paging state that is not of this query.
    pub(super) fn refused() -> CqlError {
        CqlError::Protocol("Invalid value for the paging state".to_owned())
    }
}

fn read(bytes: &[u8], table: TableId) -> Result<Option<PagingState>, Damaged> {
    let Some((body, sum)) = bytes.split_last_chunk::<4>() else { return Ok(None) };
    if crc32(body) != u32::from_be_bytes(*sum) {
        return Ok(None);
    }
    let mut cursor = Cursor::new(body);
    let version = cursor.u8("version")?;
    let of_table = cursor.array::<16>("table")?;
    if version != VERSION || of_table != *table.as_bytes() {
        return Ok(None);
    }
    let rows_left = cursor.u64("rows left")?;
    let rows_in_partition = cursor.u64("rows in partition")?;
    let key = cursor.u32_bytes("key")?.to_vec();
    let after = match cursor.u8("position")? {
        0 => None,
        _ => {
            let weight = cursor.u8("weight")? as i8;
            let prefix = cursor.u32_bytes("prefix")?.to_vec();
            if weight.abs() != 1 {
                return Ok(None);
            }
            Some((prefix, weight))
        }
    };
    let resume = Resume { key, after, rows_in_partition };
    Ok(cursor.is_empty().then_some(PagingState { rows_left, resume }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Uuid;

    #[test]
    fn round_trips_and_refuses_all_else() {
        let table = Uuid::from_u128(7);
        for after in [None, Some((b"\0\x01a".to_vec(), -1)), Some((Vec::new(), 1))] {
            let resume = Resume { key: b"key".to_vec(), after, rows_in_partition: 3 };
            let state = PagingState { rows_left: u64::MAX, resume };
            let bytes = state.encode(table);
            assert_eq!(PagingState::decode(&bytes, table), Ok(state));
            assert!(PagingState::decode(&bytes, Uuid::from_u128(8)).is_err());
            for at in 0..bytes.len() {
                assert!(PagingState::decode(&bytes[..at], table).is_err());
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                assert!(PagingState::decode(&damaged, table).is_err());
            }
        }
        let error = PagingState::decode(b"", table).unwrap_err();
        assert_eq!((error.code(), error.message().contains("paging state")), (0x000a, true));
    }
}
