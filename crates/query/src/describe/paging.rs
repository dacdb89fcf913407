//! The paging state of `DESCRIBE`: which entry is next, and of which schema.
//!
//! ```text
//! mark:u8=0xd5 schema version:16 next entry:be64 crc32:be32       (of all before it)
//! ```
//!
//! Invariants
//!  - *one-schema*: all pages are of one version of the schema; if it changes meanwhile the rest is
//!    refused, for entries may have moved.
//!  - *ours-or-refused*: other bytes are a protocol error.

use crate::error::CqlError;
use model::Uuid;
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, Put};

/// No paging state of a table begins so.
const MARK: u8 = 0xd5;

/// The bytes for the client.
pub(super) fn encode(version: Uuid, next: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(29);
    out.put_u8(MARK);
    out.put(version.as_bytes());
    out.put_u64(next as u64);
    let sum = crc32(&out);
    out.put_u32(sum);
    out
}

/// Where the page begins that a client asks for.
pub(super) fn decode(bytes: &[u8], version: Uuid) -> Result<usize, CqlError> {
    let Ok(Some((of_version, next))) = read(bytes) else {
        return Err(CqlError::Protocol("Invalid value for the paging state".to_owned()));
    };
    if of_version != *version.as_bytes() {
        return Err(CqlError::invalid(
            "The schema has changed since the previous page of the DESCRIBE statement result. \
             Please retry the DESCRIBE statement.",
        ));
    }
    Ok(usize::try_from(next).unwrap_or(usize::MAX))
}

fn read(bytes: &[u8]) -> Result<Option<([u8; 16], u64)>, Damaged> {
    let Some((body, sum)) = bytes.split_last_chunk::<4>() else { return Ok(None) };
    let mut cursor = Cursor::new(body);
    if crc32(body) != u32::from_be_bytes(*sum) || cursor.u8("mark")? != MARK {
        return Ok(None);
    }
    let found = (cursor.array::<16>("schema version")?, cursor.u64("next entry")?);
    Ok(cursor.is_empty().then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_all_else() {
        let version = Uuid::from_u128(7);
        for next in [0, 5, usize::MAX] {
            let bytes = encode(version, next);
            assert_eq!(decode(&bytes, version), Ok(next));
            let changed = decode(&bytes, Uuid::from_u128(8)).unwrap_err();
            assert_eq!((changed.code(), changed.message().contains("has changed")), (0x2200, true));
            for at in 0..bytes.len() {
                assert_eq!(decode(&bytes[..at], version).unwrap_err().code(), 0x000a);
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                assert_eq!(decode(&damaged, version).unwrap_err().code(), 0x000a);
            }
        }
    }
}
