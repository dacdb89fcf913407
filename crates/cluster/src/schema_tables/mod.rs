//! The schema as rows of `system_schema.*` and `system.tablets`, and back.
//!
//! Invariants
//!  - *round-trip*: what [`write`] stores, [`read`] gives back, equal in every part.
//!  - *dropped-forever*: a column id stays in `nereid_columns` after its column is dropped, so the
//!    next id is one more than the greatest there.
//!
//! Types are stored as CQL text, as in Cassandra; user types by name, to be resolved in their
//! keyspace. `columns` and `dropped_columns` are for clients; ids make `nereid_columns` the truth
//! about which column a cell belongs to.

mod functions;
pub mod offline;
pub(crate) mod partition;
mod racks;
pub(crate) mod read;
pub(crate) mod rows;
pub(crate) mod write;

pub use read::DamagedSchema;

use crate::schema::{Schema, SchemaChange};
use mutation::FrozenMutation;
use write::{Owner, Writer};

/// The mutations of complete changes, the first after `timestamp`, the others later; and the
/// last timestamp used.
pub(crate) fn mutations(
    schema: &Schema,
    changes: &[SchemaChange],
    owner: Owner,
    timestamp: i64,
) -> (Vec<FrozenMutation>, i64) {
    let mut out = Vec::new();
    let mut timestamp = timestamp;
    let mut before = schema.clone();
    for (index, change) in changes.iter().enumerate() {
        timestamp += 2;
        let mut writer = Writer::new(&before, owner);
        writer.change(change, timestamp);
        out.append(&mut writer.finish());
        if index + 1 < changes.len() {
            before = before.apply(std::slice::from_ref(change), before.version, owner.shards);
        }
    }
    (out, timestamp)
}

#[cfg(test)]
mod tests;
