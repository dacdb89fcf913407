//! What makes a table the log of another one, and the streams that its rows are in.

use super::super::stored::{Read, Reader, Stored, damaged};
use crate::schema::{Local, Schema};
use crate::streams::{StreamId, StreamSet, Streams};
use model::schema::cdc::CdcLog;
use model::{TableSchema, Token, Uuid};

/// Makes a table the log that `row` of `nereid_logs` says.
pub(super) fn read_log<L: Local>(
    schema: &Schema<L>,
    row: &Reader<'_>,
    table: &mut TableSchema,
) -> Read<()> {
    let TableSchema { keyspace, name, .. } = &*table;
    let base = row.uuid("base_id")?;
    let log = CdcLog { base, base_name: row.text("base_name")?, attached: row.boolean("attached") };
    let Some(entry) = schema.table_by_id(base).filter(|it| it.schema.keyspace == *keyspace) else {
        return Err(row.damaged(format!("{keyspace}.{name} is the log of {base}, not there")));
    };
    if entry.schema.is_derived() || (log.attached && entry.log.is_some()) {
        let base = &entry.schema.name;
        return Err(row.damaged(format!("{keyspace}.{name} is one log too many of {base}")));
    }
    table.log = Some(Box::new(log));
    Ok(())
}

/// Ranges of tokens up to their last ones, and the streams of each.
type Ranges = Vec<(Token, Vec<StreamId>)>;

/// The stored streams of a table; `None` when it has none.
pub(super) fn read_streams(stored: &Stored, id: Uuid) -> Read<Option<Streams>> {
    let table = "nereid_streams";
    let mut sets: Vec<(i64, Ranges)> = Vec::new();
    for row in stored.of(table, id.as_bytes(), "") {
        let (since, last) = (row.bigint("since")?, Token(row.bigint("last_token")?));
        let streams = row.blobs("streams")?.into_iter().map(|name| {
            let bytes = <[u8; 16]>::try_from(name);
            bytes.map(StreamId).map_err(|_| row.damaged("a stream that is none".to_owned()))
        });
        let streams = streams.collect::<Read<Vec<StreamId>>>()?;
        if streams.is_empty() || usize::from(u16::MAX) < streams.len() {
            let count = streams.len();
            return Err(row.damaged(format!("a range of table {id} has {count} streams")));
        }
        match sets.last_mut() {
            Some((known, ranges)) if *known == since => ranges.push((last, streams)),
            _ => sets.push((since, vec![(last, streams)])),
        }
    }
    if sets.is_empty() {
        return Ok(None);
    }
    let in_order = sets.iter().all(|(_, ranges)| ranges.is_sorted_by(|a, b| a.0 < b.0));
    let sets = sets.into_iter();
    debug_assert!(sets.len() != 0, "round-trip: no streams of {id}");
    let made = in_order
        .then(|| sets.map(|(since, ranges)| StreamSet::new(since, ranges)).collect::<Vec<_>>());
    let streams = made.and_then(Streams::of_sets);
    let wrong = || damaged(table, format!("the streams of table {id} are out of order"));
    streams.map(Some).ok_or_else(wrong)
}
