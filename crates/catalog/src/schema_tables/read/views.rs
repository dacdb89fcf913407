//! What makes a table a view, and the indexes of a table.

use super::super::stored::{Read, Reader, Stored};
use crate::schema::{Local, Schema};
use model::schema::{
    Computed, ComputedColumn, Index, IndexTarget, View, ViewCondition, ViewOperator,
};
use model::value::collection::{fields, list_elements};
use model::{Column, ColumnId, ColumnKind, TableSchema};

/// Makes a table with its columns the view that `row` of `views` says.
pub(super) fn read_view<L: Local>(
    schema: &Schema<L>,
    stored: &Stored,
    row: &Reader<'_>,
    table: &mut TableSchema,
) -> Read<()> {
    let TableSchema { keyspace, name, .. } = &*table;
    let base = row.uuid("base_table_id")?;
    let is_base = |it: &TableSchema| it.keyspace == *keyspace && it.view.is_none();
    if !schema.table_by_id(base).is_some_and(|entry| is_base(&entry.schema)) {
        return Err(row.damaged(format!("{keyspace}.{name} is a view of {base}, which is missing")));
    }
    let mut view = View {
        base,
        base_name: row.text("base_table_name")?,
        where_clause: row.text("where_clause")?,
        includes_all: row.boolean("include_all_columns"),
        ..View::default()
    };
    let of_view = |of| stored.of(of, keyspace.as_bytes(), name);
    for row in of_view("view_virtual_columns") {
        let hidden = row.text("column_name")?;
        let column = table.columns.iter().find(|column| column.name == hidden);
        match column.filter(|column| column.kind == ColumnKind::Regular) {
            Some(column) => view.hidden.push(column.id),
            None => {
                return Err(row.damaged(format!("{name} hides {hidden}, no regular column")));
            }
        }
    }
    for row in of_view("nereid_columns") {
        let Some(kind) = row.optional_text("computed")? else { continue };
        let id = ColumnId(row.int("column_id")? as u32);
        let of = row.optional_text("computed_of")?;
        let Some(computed) = Computed::from_parts(&kind, of.as_deref()) else {
            return Err(row.damaged(format!("a column of {name} is computed as {kind}")));
        };
        if table.columns.iter().any(|column| column.id == id) {
            view.computed.push(ComputedColumn { id, computed });
        }
    }
    for row in of_view("nereid_views") {
        let is_said = row.optional("is_synchronous").is_some();
        view.synchronous = is_said.then(|| row.boolean("is_synchronous"));
        view.filter = read_filter(&row)?;
    }
    if let Some(base) = schema.table_by_id(view.base) {
        let keys = table.columns.iter().take_while(|column| column.kind < ColumnKind::Static);
        let keys: Vec<Column> = keys.cloned().collect();
        view.lives_by_marker = View::must_live_by_marker(&base.schema, &keys, &view);
    }
    table.view = Some(Box::new(view));
    Ok(())
}

fn read_filter(row: &Reader<'_>) -> Read<Vec<ViewCondition>> {
    let Some(bytes) = row.optional("filter") else { return Ok(Vec::new()) };
    let conditions = list_elements(bytes).map(|tuple| read_condition(tuple.ok()??));
    let conditions = conditions.collect::<Option<Vec<_>>>();
    conditions.ok_or_else(|| row.damaged("filter is not a list of conditions".to_owned()))
}

/// `None` where it is none.
fn read_condition(tuple: &[u8]) -> Option<ViewCondition> {
    let mut parts = fields(tuple);
    let mut part = || parts.next()?.ok()?;
    let (columns, operator, values) = (part()?, part()?, part()?);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    let columns = elements(columns)?.into_iter().map(text).collect::<Option<Vec<String>>>()?;
    let operator = ViewOperator::from_name(std::str::from_utf8(operator).ok()?)?;
    let values = elements(values)?.iter().map(|of| elements(of)).collect::<Option<Vec<_>>>()?;
    let fits = !columns.is_empty() && values.iter().all(|of| of.len() == columns.len());
    let is_one = operator == ViewOperator::In || values.len() == 1;
    (fits && is_one).then_some(ViewCondition { columns, operator, values })
}

fn elements(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    list_elements(bytes).map(|element| Some(element.ok()??.to_vec())).collect()
}

/// Adds the indexes that rows of `nereid_indexes` say.
pub(super) fn read_indexes<'a>(
    rows: impl Iterator<Item = Reader<'a>>,
    table: &mut TableSchema,
) -> Read<()> {
    for row in rows {
        let target = row.text("target")?;
        let Some(target) = IndexTarget::from_name(&target) else {
            return Err(row.damaged(format!("an index of {} is on {target}", table.name)));
        };
        let index = Index {
            name: row.text("index_name")?,
            column: row.text("column_name")?,
            target,
            is_local: row.boolean("is_local"),
            class: row.optional_text("class")?,
            options: row.map("options")?,
        };
        if !table.columns.iter().any(|column| column.name == index.column) {
            let (name, column) = (&index.name, &index.column);
            return Err(row.damaged(format!("index {name} is on {column}, which is missing")));
        }
        table.indexes.push(index);
    }
    Ok(())
}
