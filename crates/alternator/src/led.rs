//! What the node that leads the rounds of a partition has read, and what it answers.
//!
//! ```text
//! result := 0 answer | 1 kind:u8 item:u8 [item:be32_bytes] message
//! ```
//!
//! Invariants
//!  - *foreign-is-damaged*: no bytes make a decoder panic.

use crate::error::{Error, Kind};
use crate::row::Row;
use crate::table::Table;
use crate::value::Map;
use mutation::page::{Page, PageView, ReadCommand};
use stdx::{Cursor, Damaged, Put};

/// The item of a page that has one at most.
pub(crate) fn item_of(
    table: &Table,
    command: &ReadCommand,
    page: &Page,
) -> Result<Option<Map>, Error> {
    let view = PageView::trusted(&page.bytes, command.layout());
    let Some(partition) = view.partitions().next() else { return Ok(None) };
    let Some(row) = partition.rows().next() else { return Ok(None) };
    Row::new(table, &partition, &row).item().map(Some)
}

/// The kinds of errors, by their places among them.
const KINDS: [Kind; 8] = [
    Kind::ConditionalCheckFailed,
    Kind::Validation,
    Kind::InternalServer,
    Kind::RequestLimitExceeded,
    Kind::ResourceNotFound,
    Kind::Serialization,
    Kind::AccessDenied,
    Kind::LimitExceeded,
];

pub(crate) fn encode_result(result: &Result<String, Error>) -> Vec<u8> {
    let mut out = Vec::new();
    match result {
        Ok(answer) => {
            out.put_u8(0);
            out.put(answer.as_bytes());
        }
        Err(Error { kind, message, item, .. }) => {
            let place = KINDS.iter().position(|known| known == kind).unwrap_or(2);
            out.put(&[1, place as u8, item.is_some().into()]);
            item.iter().for_each(|item| out.put_u32_bytes(item.as_bytes()));
            out.put(message.as_bytes());
        }
    }
    out
}

pub(crate) fn decode_result(bytes: &[u8]) -> Result<Result<String, Error>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if cursor.u8("a result")? == 0 {
        return Ok(Ok(text(&bytes[1..])));
    }
    let kind = KINDS.get(usize::from(cursor.u8("kind of an error")?)).copied();
    let kind = kind.ok_or_else(|| cursor.damaged("kind of an error"))?;
    let item = match cursor.u8("flag of an item")? {
        0 => None,
        _ => Some(text(cursor.u32_bytes("an item")?)),
    };
    let message = text(&bytes[cursor.offset()..]);
    Ok(Err(Error { kind, message, item, reasons: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn results_go_both_ways(place in 0..KINDS.len(), message: String, item: Option<String>) {
            let failed = Err(Error { item, ..Error::new(KINDS[place], message.clone()) });
            for result in [failed, Ok(message)] {
                prop_assert_eq!(decode_result(&encode_result(&result)).unwrap(), result);
            }
        }

        #[test]
        fn foreign_results_do_not_panic(bytes: Vec<u8>) {
            let _ = decode_result(&bytes);
        }
    }
}
