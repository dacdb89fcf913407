//! `ALTER TABLE`.

use super::properties::Properties;
use super::table::{check_column_type, need_table};
use super::{Context, Decision, cdc, named_keyspace, options, refuse_system, row_ttl, types};
use crate::error::Error;
use cluster::{Schema, SchemaChange};
use model::schema::TableBuilder;
use model::{Column, ColumnKind, TableSchema, Type};
use syntax::ast::{
    AlterTable, AlterTableAction, ColumnDefinition, Expr, ExprKind, Name, TableProperties,
};

fn refuse<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(text.into()))
}

/// The changes of an `ALTER TABLE`.
pub(super) fn decide(schema: &Schema, it: &AlterTable, context: &Context) -> Decision {
    if !changes_only_flushes(&it.action) {
        refuse_system(named_keyspace(&it.name, context)?)?;
    }
    let table = match need_table(schema, &it.name, context) {
        Ok(entry) => &entry.schema,
        Err(_) if it.if_exists => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let builder = match &it.action {
        AlterTableAction::Add { if_not_exists, columns } => {
            add(schema, table, columns, *if_not_exists)?
        }
        AlterTableAction::Drop { if_exists, columns, timestamp } => {
            let at = dropped_at(timestamp.as_ref(), context)?;
            drop(table, columns, at, *if_exists)?
        }
        AlterTableAction::ChangeType { if_exists, column, ty } => {
            let unknown = table.column(&column.text).is_none();
            if *if_exists && unknown {
                return Ok(Vec::new());
            }
            let ty = types::resolve(schema, &table.keyspace, ty)?;
            change_type(table, &column.text, ty)?
        }
        AlterTableAction::Rename { if_exists, columns } => rename(table, columns, *if_exists)?,
        AlterTableAction::With(properties) => with(schema, table, properties, context)?,
        AlterTableAction::RowTtl(column) => {
            table.edit().options(row_ttl::altered(table, column.as_ref())?)
        }
        AlterTableAction::DropCompactStorage if !table.compact_storage => {
            return refuse("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
        }
        AlterTableAction::DropCompactStorage => table.edit().compact_storage(false),
    };
    let changed =
        builder.version(table.version).build().map_err(|invalid| Error::Invalid(invalid.0))?;
    if changed == **table {
        return Ok(Vec::new());
    }
    Ok(vec![SchemaChange::AlterTable(changed)])
}

/// Whether a statement sets nothing but what may be set of the system's tables too: when they are
/// flushed.
fn changes_only_flushes(action: &AlterTableAction) -> bool {
    let AlterTableAction::With(with) = action else { return false };
    let mut names = with.properties.iter().map(|it| it.name.text.as_str());
    with.compact_storage.is_none()
        && with.clustering_order.is_empty()
        && names.all(|name| name == "memtable_flush_period_in_ms")
}

fn add(
    schema: &Schema,
    table: &TableSchema,
    columns: &[ColumnDefinition],
    if_not_exists: bool,
) -> Result<TableBuilder, Error> {
    let mut builder = table.edit();
    let mut added: Vec<&str> = Vec::new();
    for column in columns {
        let name = column.name.text.as_str();
        if table.column(name).is_some() || added.contains(&name) {
            if if_not_exists {
                continue;
            }
            return refuse(format!(
                "Invalid column name {name} because it conflicts with an existing column"
            ));
        }
        let ty = types::resolve(schema, &table.keyspace, &column.ty)?;
        check_new_column(table, name, &ty, column.is_static)?;
        builder = match column.is_static {
            true => builder.static_column(name, ty),
            false => builder.regular(name, ty),
        };
        added.push(name);
    }
    Ok(builder)
}

fn check_new_column(
    table: &TableSchema,
    name: &str,
    ty: &Type,
    is_static: bool,
) -> Result<(), Error> {
    check_column_type(name, ty)?;
    if table.is_dense() {
        return refuse("Cannot add new column to a COMPACT STORAGE table");
    }
    if table.compact_storage && is_static {
        return refuse("Static columns are not allowed in COMPACT STORAGE tables");
    }
    if table.compact_storage && ty.is_multi_cell() {
        return refuse(format!(
            "Cannot use non-frozen collections or user types in a COMPACT STORAGE table: {name}"
        ));
    }
    if is_static && table.clustering_count == 0 {
        return refuse(
            "Static columns are only useful (and thus allowed) if the table has at least one \
             clustering column",
        );
    }
    let others = table.statics().len() + table.regulars().len();
    match (*ty == Type::Counter, table.is_counter()) {
        (true, false) if others != 0 => {
            return refuse(format!(
                "Cannot add a counter column ({name}) in a non counter column family"
            ));
        }
        (false, true) => {
            return refuse(format!(
                "Cannot add a non counter column ({name}) in a counter column family"
            ));
        }
        _ => {}
    }
    check_added_again(table, name, ty, is_static)
}

/// SSTables may hold cells of a dropped column of this name: they must stay readable.
fn check_added_again(
    table: &TableSchema,
    name: &str,
    ty: &Type,
    is_static: bool,
) -> Result<(), Error> {
    for dropped in table.dropped.iter().filter(|dropped| dropped.name == name) {
        if dropped.ty == Type::Counter {
            return refuse(format!("Cannot re-add previously dropped counter column {name}"));
        }
        if (dropped.kind == ColumnKind::Static) != is_static {
            let kind = |is_static: bool| if is_static { "STATIC" } else { "REGULAR" };
            return refuse(format!(
                "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with \
                 previous kind {}",
                kind(is_static),
                kind(!is_static)
            ));
        }
        if !ty.is_value_compatible_with(&dropped.ty) {
            let (new, old) = (ty.to_cql(), dropped.ty.to_cql());
            return refuse(format!(
                "Cannot re-add previously dropped column '{name}' of type {new}, incompatible with \
                 previous type {old}"
            ));
        }
    }
    Ok(())
}

/// The time that `USING TIMESTAMP` gives, or now.
fn dropped_at(timestamp: Option<&Expr>, context: &Context) -> Result<i64, Error> {
    match timestamp.map(|expr| &expr.kind) {
        None => Ok(context.now_micros),
        Some(_) if context.timestamp.is_some() => Ok(context.timestamp.unwrap_or_default()),
        Some(ExprKind::Literal(literal)) => literal
            .text
            .parse()
            .map_err(|_| Error::invalid(format!("Invalid timestamp value: {}", literal.text))),
        Some(_) => refuse("Invalid null value of timestamp"),
    }
}

fn unknown_column<T>(table: &TableSchema, name: &str) -> Result<T, Error> {
    refuse(format!("Column {name} was not found in table {}", table.name))
}

fn drop(
    table: &TableSchema,
    columns: &[Name],
    at: i64,
    if_exists: bool,
) -> Result<TableBuilder, Error> {
    let mut builder = table.edit();
    if let Some(options) = row_ttl::dropped(table, columns) {
        builder = builder.options(options);
    }
    let mut gone: Vec<&str> = Vec::new();
    for name in columns {
        let name = name.text.as_str();
        match table.column(name) {
            _ if gone.contains(&name) => {
                return refuse(format!("Column {name} is dropped more than once"));
            }
            None if if_exists => continue,
            None => return unknown_column(table, name),
            Some(column) if column.kind < ColumnKind::Static => {
                return refuse(format!("Cannot drop PRIMARY KEY part {name}"));
            }
            Some(_) if table.compact_storage => {
                return refuse("Cannot drop columns from a COMPACT STORAGE table");
            }
            Some(_) => builder = builder.drop_column(name, at),
        }
        gone.push(name);
    }
    Ok(builder)
}

fn change_type(table: &TableSchema, name: &str, ty: Type) -> Result<TableBuilder, Error> {
    let Some(column) = table.column(name) else { return unknown_column(table, name) };
    check_column_type(name, &ty)?;
    if column.kind < ColumnKind::Static {
        super::table::check_key_type(name, &ty)?;
    }
    let counters = (ty == Type::Counter) != (column.ty == Type::Counter);
    let why = match column {
        _ if counters => Some("types are incompatible"),
        Column { kind: ColumnKind::Clustering, ty: before, .. }
            if !ty.is_order_compatible_with(before) =>
        {
            Some("types are not order-compatible")
        }
        Column { ty: before, .. } if !ty.is_value_compatible_with(before) => {
            Some("types are incompatible")
        }
        _ => None,
    };
    match why {
        None => Ok(table.edit().change_type(name, ty)),
        Some(why) => refuse(format!(
            "Cannot change {name} from type {} to type {}: {why}.",
            column.ty.to_cql(),
            ty.to_cql()
        )),
    }
}

fn rename(
    table: &TableSchema,
    columns: &[(Name, Name)],
    if_exists: bool,
) -> Result<TableBuilder, Error> {
    let mut changed = table.clone();
    for (from, to) in columns {
        let (from, to) = (from.text.as_str(), to.text.as_str());
        let Some(column) = changed.column(from) else {
            if if_exists {
                continue;
            }
            return refuse(format!("Cannot rename unknown column {from} in table {}", table.name));
        };
        if changed.column(to).is_some() {
            return refuse(format!(
                "Cannot rename column {from} to {to} in table {}; another column of that name \
                 already exist",
                table.name
            ));
        }
        if ColumnKind::Static <= column.kind {
            return refuse(format!("Cannot rename non PRIMARY KEY part {from}"));
        }
        let renamed = changed.edit().rename_column(from, to).build();
        changed = renamed.map_err(|invalid| Error::Invalid(invalid.0))?;
    }
    Ok(changed.edit())
}

fn with(
    schema: &Schema,
    table: &TableSchema,
    with: &TableProperties,
    context: &Context,
) -> Result<TableBuilder, Error> {
    if with.compact_storage.is_some() || !with.clustering_order.is_empty() {
        return refuse("Cannot alter clustering order or storage of a table");
    }
    let properties = Properties(&with.properties);
    if options::table_id(&properties)?.is_some() {
        return Err(Error::Config("Cannot alter table id.".to_owned()));
    }
    if let Some((None, _)) = cdc::asked(&properties)? {
        return refuse("Altering CDC options requires specifying \"enabled\" flag");
    }
    let options = options::apply(table.options.clone(), &properties)?;
    if properties.get("tablets").is_some() {
        super::table::check_tablets(schema, &table.keyspace, &options)?;
    }
    if properties.get("compaction").is_some() || properties.get("default_time_to_live").is_some() {
        context.rules.check_windows(&options)?;
    }
    if table.is_counter() && options.default_time_to_live != 0 {
        return refuse("Cannot set default_time_to_live on a table with counters");
    }
    Ok(table.edit().options(options))
}
