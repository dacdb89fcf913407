//! `SELECT` without `FROM`: the one row, if it passes.

use super::execute::{limit, rows};
use super::output::Output;
use super::row::RowCells;
use crate::error::CqlError;
use crate::response::Rows;
use plan::restrictions::{KeyValue, Nulls, PartitionPlan, key_value};
use plan::select::{COLUMN, SelectPlan, ValuesPlan};
use plan::term::Env;

/// The row, if it passes.
pub(crate) fn evaluate(plan: &ValuesPlan, env: &Env<'_>) -> Result<Rows, CqlError> {
    let plan = &plan.plan;
    limit(&plan.per_partition_limit, "PER PARTITION LIMIT", env)?;
    limit(&plan.limit, "LIMIT", env)?;
    let mut output = Output::new(plan, false);
    let mut cells = RowCells::new(&plan.inputs, &plan.column_inputs, 0, 1);
    cells.partition(b"", None);
    let of_row = env.with_row(&cells.cells);
    if names_the_row(plan, env)? && plan.restrictions.pass(&of_row)? {
        output.add(b"", b"", &of_row)?;
    }
    output.finish(env, u64::MAX)?;
    Ok(rows(plan, &mut output, None))
}

fn names_the_row(plan: &SelectPlan, env: &Env<'_>) -> Result<bool, CqlError> {
    let PartitionPlan::Keys(values) = &plan.restrictions.partition else {
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
