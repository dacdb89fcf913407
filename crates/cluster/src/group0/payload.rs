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

    /// The latest timestamp of a payload of which there is the begin at least.
    pub(super) fn last_of(bytes: &[u8]) -> Option<i64> {
        let (head, _) = bytes.split_first_chunk::<9>()?;
        let [version, last @ ..] = *head;
        (version == VERSION).then(|| i64::from_be_bytes(last))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use catalog::facts;
    use model::Uuid;
    use proptest::prelude::*;

    fn payload(names: Vec<String>) -> Payload {
        let schema = Schema::of_system(Uuid::from_u128(1), 1);
        let rows = names.iter().map(|name| facts::fact(&schema, name, "value", 7)).collect();
        Payload { last: 7, rows }
    }

    proptest! {
        #[test]
        fn bytes_are_a_payload_or_damage(
            names in proptest::collection::vec("[a-z]{1,9}", 0..4),
            at in any::<prop::sample::Index>(),
            flipped: u8,
        ) {
            let payload = payload(names);
            let bytes = payload.encode();
            prop_assert_eq!(Payload::decode(&bytes), Ok(payload));
            prop_assert!(Payload::decode(&bytes[..at.index(bytes.len())]).is_err());
            prop_assert!(Payload::decode(&[&bytes[..], &[0]].concat()).is_err());
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= flipped;
            if let Ok(other) = Payload::decode(&changed) {
                prop_assert_eq!(other.encode(), changed);
            }
        }
    }
}
