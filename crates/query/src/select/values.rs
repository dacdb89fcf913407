//! `SELECT` without `FROM`: from a table of one row that no keyspace has.
//!
//! The row's only column is `system$dummy`, the partition key; its value is the empty text.

use super::execute::{limit, rows};
use super::output::Output;
use super::plan::{SelectPlan, prepare};
use super::row::RowCells;
use crate::error::CqlError;
use crate::markers::Markers;
use crate::response::{ResultMetadata, Rows};
use crate::restrictions::{KeyValue, Nulls, PartitionPlan, key_value};
use crate::term::{Env, Term};
use cluster::{Schema, TableEntry};
use model::{TableSchema, Type, Uuid};
use std::rc::Rc;
use syntax::ast;
use syntax::ast::Selection;

/// The column of the one row.
const COLUMN: &str = "system$dummy";

/// Values to be evaluated.
#[derive(Debug)]
pub(crate) struct ValuesPlan {
    plan: SelectPlan,
}

/// Plans a `SELECT` of values.
pub(crate) fn prepare_values(
    schema: &Schema,
    keyspace: Option<&str>,
    select: &ast::Select,
    markers: &mut Markers,
) -> Result<ValuesPlan, CqlError> {
    if let Selection::All(_) = select.selection {
        return Err(CqlError::invalid("SELECT * requires a FROM clause"));
    }
    if !select.order_by.is_empty() {
        return Err(CqlError::invalid("ORDER BY is not supported without a FROM clause"));
    }
    let table = TableSchema::builder(keyspace.unwrap_or("system"), "one_row", Uuid::nil());
    let table = table.partition_key(COLUMN, Type::Text).build();
    let table = table.map_err(|invalid| CqlError::Server(invalid.0))?;
    let local = schema.table("system", "local");
    let local = local.ok_or_else(|| CqlError::invalid("This SELECT requires a FROM clause"))?;
    let entry = Rc::new(TableEntry { schema: Rc::new(table), ..(**local).clone() });
    let select = ast::Select { allow_filtering: true, ..select.clone() };
    Ok(ValuesPlan { plan: prepare(schema, &entry, &select, markers)? })
}

impl ValuesPlan {
    /// The columns of the result.
    pub(crate) fn metadata(&self) -> &Rc<ResultMetadata> {
        &self.plan.metadata
    }

    /// `USING TIMEOUT`
    pub(crate) fn timeout(&self) -> Option<&Term> {
        self.plan.timeout.as_ref()
    }

    /// The row, if it passes.
    pub(crate) fn evaluate(&self, env: &Env<'_>) -> Result<Rows, CqlError> {
        let plan = &self.plan;
        limit(&plan.per_partition_limit, "PER PARTITION LIMIT", env)?;
        limit(&plan.limit, "LIMIT", env)?;
        let mut output = Output::new(plan, false);
        let mut cells = RowCells::new(&plan.inputs, &plan.column_inputs, 0, 1);
        cells.partition(b"", None);
        let of_row = env.with_row(&cells.cells);
        if self.names_the_row(env)? && plan.restrictions.pass(&of_row)? {
            output.add(b"", b"", &of_row)?;
        }
        output.finish(env, u64::MAX)?;
        Ok(rows(plan, &mut output, None))
    }

    fn names_the_row(&self, env: &Env<'_>) -> Result<bool, CqlError> {
        let PartitionPlan::Keys(values) = &self.plan.restrictions.partition else {
            return Ok(true);
        };
        for value in values {
            let found = match value {
                KeyValue::One(term) => {
                    key_value(term, COLUMN, Nulls::NoRows, env)?.is_some_and(|key| key.is_empty())
                }
                KeyValue::Many(list) => {
                    let keys = list.evaluate(COLUMN, Nulls::NoRows, env)?;
                    keys.iter().any(|key| key.is_empty())
                }
            };
            if !found {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
