//! Tables whose rows are computed when they are read, and those of them that can be written: what
//! provides them, on one shard.
//!
//! Invariants
//!  - *by-column*: a row has one value, or null, per column of its schema, in the schema's order.
//!  - *virtual-only*: only tables of kind [`TableKind::Virtual`] are provided.

use crate::schema::Schema;
use catalog::TableKind;
use catalog::rows::{Row, page};
use model::{TableId, TableSchema};
use mutation::FrozenMutation;
use mutation::compact::{QueryCompactor, Step};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use stdx::HashMap;

/// A row: one value (`None`: null) per column of the schema, in the schema's order.
pub type VirtualRow = Vec<Option<Vec<u8>>>;

/// Rows on their way; they may ask other shards.
pub type VirtualFuture = Pin<Box<dyn Future<Output = Vec<VirtualRow>>>>;

/// Computes all rows of a table, in any order.
pub type VirtualRows = Rc<dyn Fn() -> VirtualFuture>;

/// Carries out a written row, given by column names: keys, and what is written of other columns.
/// The error says why it was not done.
pub type VirtualWriter =
    Rc<dyn Fn(BTreeMap<String, Vec<u8>>) -> Pin<Box<dyn Future<Output = Result<(), String>>>>>;

/// What computed tables say to writes.
const READ_ONLY: &str = "this virtual table doesn't allow updates";

/// A row by column names; what is not named is null. Panics on a name that the table lacks: names
/// are literals of this program.
pub fn row(schema: &TableSchema, values: Vec<(&str, Vec<u8>)>) -> VirtualRow {
    let mut row: VirtualRow = vec![None; schema.columns.len()];
    for (name, value) in values {
        let index = schema.columns.iter().position(|column| column.name == name);
        let Some(index) = index else { panic!("no column {name} in {}", schema.name) };
        assert!(row[index].is_none(), "by-column: {name} of {} has two values", schema.name);
        row[index] = Some(value);
    }
    row
}

/// Who provides which table, on one shard.
#[derive(Default)]
pub(crate) struct Providers {
    rows: RefCell<HashMap<TableId, VirtualRows>>,
    writers: RefCell<HashMap<TableId, VirtualWriter>>,
}

impl Providers {
    /// Gives a table of that keyspace its rows. Panics when there is no such virtual table.
    pub(crate) fn provide(
        &self,
        schema: &Schema,
        (keyspace, name): (&str, &str),
        rows: VirtualRows,
    ) {
        let before = self.rows.borrow_mut().insert(id_of(schema, keyspace, name), rows);
        assert!(before.is_none(), "virtual-only: {keyspace}.{name} has two providers");
    }

    /// Lets `system.name` be written. Panics when there is no such virtual table.
    pub(crate) fn provide_writer(&self, schema: &Schema, name: &str, writer: VirtualWriter) {
        let id = id_of(schema, "system", name);
        assert!(self.rows.borrow().contains_key(&id), "system.{name} is written but not read");
        self.writers.borrow_mut().insert(id, writer);
    }

    /// What computes the rows of a table; `None`: it has no rows.
    pub(crate) fn rows(&self, id: TableId) -> Option<VirtualRows> {
        self.rows.borrow().get(&id).cloned()
    }

    /// Writes into a table. The error says why that was not done.
    pub(crate) async fn write(
        &self,
        schema: &TableSchema,
        mutation: &FrozenMutation,
    ) -> Result<(), String> {
        let writer = self.writers.borrow().get(&schema.id).cloned();
        let writer = writer.ok_or_else(|| READ_ONLY.to_owned())?;
        assert!(self.rows(schema.id).is_some(), "virtual-only: {} is written alone", schema.name);
        let rows = live_rows(schema, mutation).ok_or_else(|| "a malformed mutation".to_owned())?;
        if rows.is_empty() {
            return Err(READ_ONLY.to_owned());
        }
        for row in rows {
            writer(row).await?;
        }
        Ok(())
    }
}

fn id_of(schema: &Schema, keyspace: &str, name: &str) -> TableId {
    match schema.table(keyspace, name) {
        Some(entry) if entry.kind == TableKind::Virtual => entry.schema.id,
        _ => panic!("virtual-only: no virtual table {keyspace}.{name}"),
    }
}

/// The rows that a mutation writes.
fn live_rows(schema: &TableSchema, mutation: &FrozenMutation) -> Option<Vec<Row>> {
    let view = mutation.view().ok()?;
    debug_assert!(view.table() == schema.id, "virtual-only: a write to another table");
    let command = page::read_all(schema, 1);
    let mut compactor = QueryCompactor::new(schema, &command);
    for fragment in view.fragments(&schema.order) {
        if compactor.consume(&fragment) != Step::Continue {
            break;
        }
    }
    let mut out = Vec::new();
    page::decode(schema, &command, &compactor.finish(), &mut out).ok()?;
    Some(out)
}
