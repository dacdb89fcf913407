//! `SELECT` without `FROM`: one row of values.

use super::naming::name_of;
use crate::error::CqlError;
use crate::markers::Markers;
use crate::response::{ColumnSpec, ResultMetadata, Rows};
use crate::syntax::ast;
use crate::syntax::ast::Selection;
use crate::term::{Env, Preparer, Term};
use cluster::Schema;
use std::rc::Rc;
use stdx::Put;

/// Values to be evaluated.
#[derive(Debug)]
pub(crate) struct ValuesPlan {
    outputs: Vec<Term>,
    pub(crate) metadata: Rc<ResultMetadata>,
}

/// Plans a `SELECT` of values.
pub(crate) fn prepare_values(
    schema: &Schema,
    keyspace: Option<&str>,
    select: &ast::Select,
    markers: &mut Markers,
) -> Result<ValuesPlan, CqlError> {
    let Selection::Items(items) = &select.selection else {
        return Err(CqlError::invalid("SELECT * needs a table"));
    };
    let keyspace = keyspace.unwrap_or("system");
    let mut preparer =
        Preparer { schema, keyspace, table: None, markers, row: None, aggregates: None };
    let (mut outputs, mut columns) = (Vec::new(), Vec::new());
    for item in items {
        let (term, ty) = preparer.select(&item.expr)?;
        outputs.push(term);
        let name = item.alias.as_ref().map_or_else(|| name_of(&item.expr), |a| a.text.clone());
        columns.push(ColumnSpec {
            keyspace: Rc::from("system"),
            table: Rc::from("one_row"),
            name: Rc::from(name),
            ty,
        });
    }
    Ok(ValuesPlan { outputs, metadata: Rc::new(ResultMetadata::new(columns)) })
}

impl ValuesPlan {
    /// The row.
    pub(crate) fn evaluate(&self, env: &Env<'_>) -> Result<Rows, CqlError> {
        let mut body = Vec::new();
        for output in &self.outputs {
            match output.evaluate(env)?.bytes() {
                None => body.put_i32(-1),
                Some(bytes) => body.put_u32_bytes(bytes),
            }
        }
        let metadata = self.metadata.clone();
        Ok(Rows { metadata, row_count: 1, body, paging_state: None })
    }
}
