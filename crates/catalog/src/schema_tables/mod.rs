//! The schema as rows of `system_schema.*` and `system.tablets`, and back.
//!
//! Invariants
//!  - *round-trip*: what [`write`] stores, [`read`] gives back, equal in every part.
//!  - *dropped-forever*: a column id stays in `nereid_columns` after its column is dropped, so the
//!    next id is one more than the greatest there.
//!  - *later-timestamps*: each change of a statement is written two microseconds after the one
//!    before, and its deletions one before it, so that they spare what is written with them.
//!  - *told-when-known*: there are no rows of a table that earlier versions do not know before
//!    there is what they are about: nodes of such versions are given these rows, and could not take
//!    them.
//!
//! Types are stored as CQL text, as in Cassandra; user types by name, to be resolved in their
//! keyspace. `columns` and `dropped_columns` are for clients; ids make `nereid_columns` the truth
//! about which column a cell belongs to.
//!
//! From the ground up: [`stored`] (rows as they were read), `racks`, [`read`], [`write`],
//! [`offline`] (of files of a node that does not run).

pub mod offline;
mod racks;
pub mod read;
pub mod stored;
pub mod write;

pub use crate::rows::DamagedSchema;

use crate::schema::{Complete, Local, Schema, TabletsAfter};
use mutation::FrozenMutation;
use write::Writer;

/// The extension of a table in which ScyllaDB's drivers look for what it says of its log: a copy of
/// the option `cdc`, never read here.
const CDC_EXTENSION: &str = "cdc";

/// Microseconds between two changes of one statement.
pub const CHANGE_MICROS: i64 = 2;

/// The mutations of complete changes, the first after `timestamp`, the others later; and the
/// last timestamp used.
pub(crate) fn mutations<L: Local>(
    schema: &Schema<L>,
    complete: &Complete,
    timestamp: i64,
) -> (Vec<FrozenMutation>, i64) {
    let mut out = Vec::new();
    let mut timestamp = timestamp;
    let mut before = schema.clone();
    for (index, change) in complete.changes.iter().enumerate() {
        timestamp += CHANGE_MICROS;
        let mut writer = Writer::new(&before);
        writer.change(change, &complete.tablets, timestamp);
        let mut rows = writer.finish();
        assert!(!rows.is_empty(), "round-trip: a change that writes nothing: {change:?}");
        out.append(&mut rows);
        if index + 1 < complete.changes.len() {
            before.apply_one(change, &complete.tablets);
        }
    }
    let mut writer = Writer::new(schema);
    for (table, streams) in &complete.streams {
        writer.streams(*table, streams, timestamp);
    }
    out.append(&mut writer.finish());
    (out, timestamp)
}

/// Rows of some tablets of tables that are there.
pub(crate) fn tablet_rows<L: Local>(
    schema: &Schema<L>,
    all: &[TabletsAfter],
    timestamp: i64,
) -> Vec<FrozenMutation> {
    let mut writer = Writer::new(schema);
    for TabletsAfter { table, replicas, changed, resized } in all {
        if let Some(entry) = schema.table_by_id(*table) {
            match resized {
                false => writer.some_tablets(*table, replicas, changed, timestamp),
                true => writer.other_tablets(&entry.schema, replicas, timestamp),
            }
        }
    }
    writer.finish()
}

#[cfg(test)]
mod tests;
