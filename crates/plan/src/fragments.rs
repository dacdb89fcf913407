//! `SELECT .. FROM MUTATION_FRAGMENTS(t)`: what is stored of a table, as a table of its own.
//!
//! The plan is that of a `SELECT` from the table that `model::schema::fragments` tells, so all that
//! a `SELECT` may say holds for it but `ORDER BY`; only its pages come another way.

use crate::error::Error;
use crate::markers::Markers;
use crate::select::{self, SelectPlan};
use cluster::{Schema, TableEntry};
use model::schema::fragments::output_schema;
use std::rc::Rc;
use syntax::ast;

/// Plans a `SELECT` of the fragments of `base`.
pub(crate) fn prepare(
    schema: &Schema,
    base: &Rc<TableEntry>,
    select: &ast::Select,
    markers: &mut Markers,
) -> Result<SelectPlan, Error> {
    if !select.order_by.is_empty() {
        return Err(Error::invalid(
            "ORDER BY is not supported in SELECT FROM MUTATION_FRAGMENTS() statements",
        ));
    }
    let table = Rc::new(output_schema(&base.schema).map_err(Error::Invalid)?);
    let entry = Rc::new(TableEntry { schema: table, ..(**base).clone() });
    let mut plan = select::prepare(schema, &entry, select, markers)?;
    plan.fragments_of = Some(base.clone());
    Ok(plan)
}
