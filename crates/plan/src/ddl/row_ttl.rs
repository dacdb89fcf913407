//! The TTL column of a table: `CREATE TABLE .. (c bigint TTL)`, `ALTER TABLE .. TTL`.

use crate::error::Error;
use model::schema::TableOptions;
use model::{Column, ColumnKind, TableSchema, Type};
use syntax::ast::{CreateTable, Name};

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Invalid(text))
}

/// The options of a new table, where one of its columns is marked.
pub(super) fn created(
    it: &CreateTable,
    table: &TableSchema,
) -> Result<Option<TableOptions>, Error> {
    let mut marked = it.columns.iter().filter(|column| column.row_ttl);
    let Some(column) = marked.next() else { return Ok(None) };
    if marked.next().is_some() {
        return refuse("A table cannot have more than one TTL column".to_owned());
    }
    let name = column.name.text.as_str();
    let Some(column) = table.column(name) else { return Ok(None) };
    if column.kind != ColumnKind::Regular {
        return refuse(format!("TTL column {name} must be a regular column"));
    }
    check_type(column)?;
    let mut options = table.options.clone();
    options.set_extension(TableOptions::ROW_TTL_COLUMN, Some(name));
    Ok(Some(options))
}

/// The options of a table after `TTL column` or, without one, `TTL NULL`.
pub(super) fn altered(table: &TableSchema, column: Option<&Name>) -> Result<TableOptions, Error> {
    let mut options = table.options.clone();
    let present = options.extension(TableOptions::ROW_TTL_COLUMN).map(str::to_owned);
    let Some(name) = column.map(|name| name.text.as_str()) else {
        if present.is_none() {
            return refuse(format!("Table {} does not have a TTL column", table.name));
        }
        options.set_extension(TableOptions::ROW_TTL_COLUMN, None);
        return Ok(options);
    };
    if let Some(present) = present {
        let table = &table.name;
        return refuse(format!("Table {table} already has a TTL column: {present}"));
    }
    let Some(column) = table.column(name) else {
        return refuse(format!("Column {name} does not exist in table {}", table.name));
    };
    match column.kind {
        ColumnKind::Regular => {}
        ColumnKind::Static => {
            return refuse(format!("Cannot use a static column {name} as a TTL column"));
        }
        _ => return refuse(format!("Cannot use a primary key column {name} as a TTL column")),
    }
    check_type(column)?;
    options.set_extension(TableOptions::ROW_TTL_COLUMN, Some(name));
    Ok(options)
}

/// The options of a table that loses these columns.
pub(super) fn dropped(table: &TableSchema, columns: &[Name]) -> Option<TableOptions> {
    let present = table.options.extension(TableOptions::ROW_TTL_COLUMN)?;
    columns.iter().find(|name| name.text == present)?;
    let mut options = table.options.clone();
    options.set_extension(TableOptions::ROW_TTL_COLUMN, None);
    Some(options)
}

fn check_type(column: &Column) -> Result<(), Error> {
    match column.ty {
        Type::Timestamp | Type::BigInt | Type::Int => Ok(()),
        _ => refuse(format!("TTL column {} must be of type timestamp, bigint or int", column.name)),
    }
}
