//! Logged batches: batches that must be applied entirely or not at all, although several shards
//! hold them.
//!
//! Such a batch is first written as one row of `system.batchlog`, which is durable before any
//! part of it is applied, and removed only when all of it is durable. Those that are left are
//! replayed: with their own timestamps, so replaying twice does no harm.
//!
//! The timestamps of a row are those of who coordinates the batch, also where another node keeps
//! it; its column `written_at` is when it was kept, by the clock of the node that keeps it. So a
//! batch is as old as that node's own clock says, which also says when tables were truncated.
//!
//! Invariants
//!  - *complete*: the blob of a batch has all its mutations, in their order.
//!  - *removed-by-its-time*: the removal of a row has the row's own timestamp: a row that comes
//!    after its removal is covered by it.
//!
//! The blob of a batch: version u8 = 1, then per mutation a vint length and its bytes.

use cluster::TableEntry;
use model::{TableSchema, Uuid};
use mutation::cell::CellState;
use mutation::{Cell, FrozenMutation, Marker, MutationBuilder, RowBuilder, Tombstone};
use std::rc::Rc;
use stdx::{Cursor, Damaged, Put};

const VERSION: u8 = 1;

/// A batch on its way to several shards or nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) id: Uuid,
    /// Microseconds, by the clock of who coordinates it; after 1970.
    pub(crate) written_at: i64,
}

impl Logged {
    /// A new one, of this moment.
    pub(crate) fn new() -> Logged {
        let written_at = runtime::time::wall_micros().max(1);
        Logged { id: cluster::uuids::random_uuid(), written_at }
    }

    /// The row that remembers `mutations` from `kept_at` on, microseconds by this node's clock.
    pub(crate) fn row(
        &self,
        table: &TableSchema,
        mutations: &[FrozenMutation],
        kept_at: i64,
    ) -> FrozenMutation {
        let mut data = Vec::with_capacity(mutations.iter().map(|it| it.0.len() + 9).sum());
        data.put_u8(VERSION);
        mutations.iter().for_each(|mutation| data.put_vint_bytes(&mutation.0));
        if cfg!(debug_assertions) {
            let read = self::mutations(&data);
            debug_assert!(read.as_deref() == Ok(mutations), "complete: {read:?}");
        }
        let values: [(&str, Vec<u8>); 3] = [
            ("data", data),
            ("version", (VERSION as i32).to_be_bytes().to_vec()),
            ("written_at", kept_at.div_euclid(1000).to_be_bytes().to_vec()),
        ];
        let mut cells: Vec<_> = values
            .iter()
            .map(|(name, value)| {
                let column = table.column(name).expect("a column of system.batchlog");
                (column.id, value.as_slice())
            })
            .collect();
        cells.sort_by_key(|(id, _)| *id);
        debug_assert!(cells.is_sorted_by(|a, b| a.0 < b.0), "a batch has a column twice");
        let mut row = RowBuilder::new(Vec::new());
        row.marker(Marker::Live { timestamp: self.written_at });
        for (id, value) in cells {
            row.cell(id, Cell { timestamp: self.written_at, state: CellState::Live { value } });
        }
        let mut builder = MutationBuilder::new(table, self.id.as_bytes());
        builder.row(&[], &row.finish());
        builder.freeze()
    }

    /// The removal of the row.
    pub(crate) fn removal(&self, table: &TableSchema) -> FrozenMutation {
        let mut builder = MutationBuilder::new(table, self.id.as_bytes());
        let deletion_time = self.written_at.div_euclid(1_000_000);
        let tombstone = Tombstone { timestamp: self.written_at, deletion_time };
        debug_assert!(tombstone.covers(self.written_at), "removed-by-its-time: {tombstone:?}");
        builder.delete_partition(tombstone);
        builder.freeze()
    }
}

/// The mutations of a batch's blob.
pub(crate) fn mutations(data: &[u8]) -> Result<Vec<FrozenMutation>, Damaged> {
    let mut cursor = Cursor::new(data);
    if cursor.u8("version of a batch")? != VERSION {
        return Err(Damaged::new("unknown version of a batch", 0));
    }
    let mut mutations = Vec::new();
    while !cursor.is_empty() {
        let at = cursor.offset() as u64;
        let mutation = FrozenMutation(cursor.vint_bytes("mutation of a batch")?.into());
        mutation.view().map_err(|damaged| damaged.from_base(at))?;
        mutations.push(mutation);
    }
    Ok(mutations)
}

/// When a row says that its batch was kept, in microseconds.
pub(crate) fn kept_at(value: &[u8]) -> Option<i64> {
    let millis = i64::from_be_bytes(value.try_into().ok()?);
    Some(millis.saturating_mul(1000))
}

/// The table of the batches.
pub(crate) fn table(schema: &cluster::Schema) -> Rc<TableEntry> {
    schema.table("system", "batchlog").cloned().expect("system.batchlog is a system table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_back_and_damage_is_found() {
        let table = cluster::system_tables::table("system", "batchlog");
        let logged = Logged { id: Uuid::from_u128(5), written_at: 1_000_000 };
        let inner = vec![logged.removal(&table), logged.row(&table, &[], 0)];
        let row = logged.row(&table, &inner, 7_000);
        let view = row.view().unwrap();
        let data = table.column("data").unwrap().id;
        let cell = view.rows().next().unwrap().1.column(data);
        let Some(mutation::ColumnData::Atomic(cell)) = cell else { panic!("no data") };
        let data = cell.value().unwrap();
        assert_eq!(mutations(data), Ok(inner));
        let kept = view.rows().next().unwrap().1.column(table.column("written_at").unwrap().id);
        let Some(mutation::ColumnData::Atomic(kept)) = kept else { panic!("no time") };
        assert_eq!(kept_at(kept.value().unwrap()), Some(7_000));
        for cut in 0..data.len() {
            if let Ok(mutations) = mutations(&data[..cut]) {
                assert!(mutations.len() < 2);
            }
        }
        let merged = mutation::frozen::merge(&table, view, logged.removal(&table).view().unwrap());
        assert!(merged.view().unwrap().tombstone().covers(logged.written_at));
    }
}
