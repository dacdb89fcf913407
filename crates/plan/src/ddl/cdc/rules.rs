//! What may be done with a log, and which tables may have one.

use super::super::{Context, named_keyspace};
use crate::error::Error;
use auth::Resource;
use cluster::{Schema, TableEntry, features};
use model::TableSchema;
use model::schema::cdc::{CdcLog, log_name};
use std::rc::Rc;
use syntax::ast::{AlterTableAction, QualifiedName};

fn refuse<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(text.into()))
}

/// The log that a name names.
fn named<'s>(
    schema: &'s Schema,
    name: &QualifiedName,
    context: &Context,
) -> Result<Option<(&'s Rc<TableEntry>, &'s CdcLog)>, Error> {
    let table = schema.table(named_keyspace(name, context)?, &name.name.text);
    Ok(table.and_then(|table| Some((table, table.schema.log.as_deref()?))))
}

/// *by-its-base*
pub(in crate::ddl) fn check_altered(
    schema: &Schema,
    name: &QualifiedName,
    action: &AlterTableAction,
    context: &Context,
) -> Result<(), Error> {
    let Some((_, log)) = named(schema, name, context)? else { return Ok(()) };
    let directly = "You cannot modify the set of columns of a CDC log table directly.";
    let detached = "Although the base table has deactivated CDC, this table will continue being a \
                    CDC log table until it is dropped.";
    match (action, log.attached) {
        (AlterTableAction::With(_), _) => Ok(()),
        (AlterTableAction::Rename { .. }, true) => {
            refuse("Cannot rename a column of a CDC log table.")
        }
        (AlterTableAction::Rename { .. }, false) => {
            refuse(format!("You cannot rename a column of a CDC log table. {detached}"))
        }
        (_, true) => refuse(format!("{directly} Modify the base table instead.")),
        (_, false) => refuse(format!(
            "{directly} {detached} If you want to modify the columns in it, you can only do that \
             by reenabling CDC on the base table, which will reattach this log table. Then you \
             will be able to modify the columns in the base table, and that will have effect on \
             the log table too. Modifying the columns of a CDC log table directly is never allowed."
        )),
    }
}

/// A log that is attached is not dropped.
pub(in crate::ddl) fn check_dropped(
    schema: &Schema,
    name: &QualifiedName,
    context: &Context,
) -> Result<(), Error> {
    match named(schema, name, context)? {
        Some((table, log)) if log.attached => {
            let TableSchema { keyspace, name, .. } = &*table.schema;
            let resource = Resource::table(keyspace, name);
            Err(Error::Unauthorized(format!("Cannot DROP cdc log table {resource}")))
        }
        _ => Ok(()),
    }
}

/// The options of a log that are not as those of other tables.
pub(super) fn check_options(log: &TableSchema) -> Result<(), Error> {
    let repairs = |(name, value): &(String, String)| name == "mode" && value == "repair";
    match log.options.tombstone_gc.iter().any(repairs) {
        true => Err(Error::Config(
            "The 'repair' mode for tombstone_gc is not allowed on CDC log tables.".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Says why a table can have no log.
pub(super) fn check_base(
    schema: &Schema,
    base: &TableSchema,
    context: &Context,
) -> Result<(), Error> {
    let TableSchema { keyspace, name, .. } = base;
    if base.log.is_some() {
        return refuse(format!(
            "Cannot create a CDC log for a table {keyspace}.{name}, because creating nested CDC \
             logs is not allowed"
        ));
    }
    if base.is_counter() {
        return refuse(format!(
            "Cannot create CDC log for table {keyspace}.{name}. Counter support not implemented"
        ));
    }
    if !context.has_cdc {
        return refuse(format!(
            "Not all nodes of the cluster can have logs of changes ({}): upgrade them first",
            features::CDC
        ));
    }
    let known = schema.keyspace(keyspace);
    let has_tablets = known.is_some_and(|it| it.keyspace.initial_tablets.is_some());
    if !has_tablets && !context.has_streams {
        return refuse(format!(
            "Cannot create CDC log for table {keyspace}.{name}: the streams of the ring are being \
             made; try again in a moment"
        ));
    }
    Ok(())
}

/// The log that a table had before, if it is there still; an error if its name is taken.
pub(super) fn known_log<'s>(
    schema: &'s Schema,
    base: &TableSchema,
) -> Result<Option<&'s Rc<TableEntry>>, Error> {
    let TableSchema { keyspace, name, .. } = base;
    let log = log_name(name);
    let Some(known) = schema.table(keyspace, &log) else { return Ok(None) };
    match &known.schema.log {
        Some(of) if of.base == base.id => Ok(Some(known)),
        _ => refuse(format!(
            "Cannot create CDC log table for table {keyspace}.{name} because a table of name \
             {keyspace}.{log} already exists"
        )),
    }
}
