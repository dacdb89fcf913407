//! `SELECT` without `FROM`: from a table of one row that no keyspace has.
//!
//! The row's only column is `system$dummy`, the partition key; its value is the empty text.

use super::plan::{SelectPlan, prepare};
use crate::error::Error;
use crate::markers::Markers;
use crate::metadata::ResultMetadata;
use crate::term::Term;
use cluster::{Schema, TableEntry};
use model::{TableSchema, Type, Uuid};
use std::rc::Rc;
use syntax::ast::{self, Selection};

/// The column of the one row.
pub const COLUMN: &str = "system$dummy";

/// Values to be evaluated.
#[derive(Debug)]
pub struct ValuesPlan {
    pub plan: SelectPlan,
}

/// Plans a `SELECT` of values.
pub fn prepare_values(
    schema: &Schema,
    keyspace: Option<&str>,
    select: &ast::Select,
    markers: &mut Markers,
) -> Result<ValuesPlan, Error> {
    if let Selection::All(_) = select.selection {
        return Err(Error::invalid("SELECT * requires a FROM clause"));
    }
    if !select.order_by.is_empty() {
        return Err(Error::invalid("ORDER BY is not supported without a FROM clause"));
    }
    let table = TableSchema::builder(keyspace.unwrap_or("system"), "one_row", Uuid::nil());
    let table = table.partition_key(COLUMN, Type::Text).build();
    let table = table.map_err(|invalid| Error::Server(invalid.0))?;
    let local = schema.table("system", "local");
    let local = local.ok_or_else(|| Error::invalid("This SELECT requires a FROM clause"))?;
    let entry = Rc::new(TableEntry { schema: Rc::new(table), ..(**local).clone() });
    let select = ast::Select { allow_filtering: true, ..select.clone() };
    Ok(ValuesPlan { plan: prepare(schema, &entry, &select, markers)? })
}

impl ValuesPlan {
    /// The columns of the result.
    pub fn metadata(&self) -> &Rc<ResultMetadata> {
        &self.plan.metadata
    }

    /// `USING TIMEOUT`
    pub fn timeout(&self) -> Option<&Term> {
        self.plan.timeout.as_ref()
    }
}
