//! What changes of tables mean for their logs.
//!
//! Invariants: *same-columns* and *as-asked* of [`super`].

use super::super::{Context, Decision};
use super::rules::{check_base, check_options, known_log};
use crate::error::Error;
use cluster::{Schema, SchemaChange, TableEntry};
use model::TableSchema;
use model::schema::cdc::{AHEAD_MICROS, CdcOptions, log_after, log_options, log_schema};

/// The changes of a statement, and those of logs that follow.
pub(in crate::ddl) fn follow(
    schema: &Schema,
    changes: Vec<SchemaChange>,
    context: &Context,
) -> Decision {
    let mut all = Vec::with_capacity(changes.len());
    for change in changes {
        let follower = match &change {
            SchemaChange::CreateTable(made) => match CdcOptions::of(&made.options) {
                Some(options) => Some(switched_on(schema, made, options, context)?),
                None => None,
            },
            SchemaChange::AlterTable(after) => match schema.table_by_id(after.id) {
                Some(before) => of_alteration(schema, before, after, context)?,
                None => None,
            },
            SchemaChange::DropTable { keyspace, name } => {
                let base = schema.table(keyspace, name);
                base.and_then(|base| of_drop(schema, &base.schema))
            }
            _ => None,
        };
        all.push(change);
        all.extend(follower);
    }
    Ok(all)
}

fn invalid(invalid: model::value::Invalid) -> Error {
    Error::Invalid(invalid.0)
}

/// A log goes with its base.
fn of_drop(schema: &Schema, base: &TableSchema) -> Option<SchemaChange> {
    let log = known_log(schema, base).ok().flatten()?;
    let TableSchema { keyspace, name, .. } = &*log.schema;
    Some(SchemaChange::DropTable { keyspace: keyspace.clone(), name: name.clone() })
}

/// A new log, or the one that was there before.
fn switched_on(
    schema: &Schema,
    base: &TableSchema,
    options: CdcOptions,
    context: &Context,
) -> Result<SchemaChange, Error> {
    check_base(schema, base, context)?;
    let Some(known) = known_log(schema, base)? else {
        let id = context.log_id;
        let is_new = id != base.id && schema.table_by_id(id).is_none();
        assert!(is_new, "ids-for-life: the id {id} of a log is given");
        return Ok(SchemaChange::CreateTable(log_schema(base, options, id).map_err(invalid)?));
    };
    let mut log = changed(base, &known.schema, &[], context)?;
    if let Some(of) = &mut log.log {
        of.attached = true;
    }
    Ok(SchemaChange::AlterTable(log))
}

fn of_alteration(
    schema: &Schema,
    before: &TableEntry,
    after: &TableSchema,
    context: &Context,
) -> Result<Option<SchemaChange>, Error> {
    if after.log.is_some() {
        check_options(after)?;
        if CdcOptions::of(&after.options).is_some() {
            check_base(schema, after, context)?;
        }
        return Ok(None);
    }
    let log = before.log.and_then(|log| schema.table_by_id(log));
    let next = match (CdcOptions::of(&after.options), log) {
        (None, None) => None,
        (Some(options), None) => return switched_on(schema, after, options, context).map(Some),
        (None, Some(log)) => {
            let mut log = (*log.schema).clone();
            if let Some(of) = &mut log.log {
                of.attached = false;
            }
            Some(log)
        }
        (Some(_), Some(log)) => {
            check_base(schema, after, context)?;
            let renamed = renamed(&before.schema, after);
            let mut next = changed(after, &log.schema, &renamed, context)?;
            follow_options(&before.schema, after, &mut next);
            (next != *log.schema).then_some(next)
        }
    };
    Ok(next.map(SchemaChange::AlterTable))
}

/// Old and new names of columns.
fn renamed<'a>(before: &'a TableSchema, after: &'a TableSchema) -> Vec<(&'a str, &'a str)> {
    let both = before.columns.iter().filter_map(|old| Some((old, after.column_by_id(old.id)?)));
    let names = both.map(|(old, new)| (old.name.as_str(), new.name.as_str()));
    names.filter(|(old, new)| old != new).collect()
}

/// The log of a table that is so now.
fn changed(
    base: &TableSchema,
    log: &TableSchema,
    renamed: &[(&str, &str)],
    context: &Context,
) -> Result<TableSchema, Error> {
    let now = context.now_micros;
    let next = log_after(base, log, renamed, now).map_err(invalid)?;
    let mut added: Vec<_> =
        next.columns.iter().filter(|it| log.column_by_id(it.id).is_none()).collect();
    // The column of the base itself is the first of each.
    added.sort_by_key(|column| column.id);
    for column in added {
        // Its cells would be taken for those of the column that was there.
        let mut dropped = log.dropped.iter().filter(|it| it.name == column.name);
        if let Some(dropped) = dropped.find(|it| now < it.dropped_at) {
            let secs = (dropped.dropped_at - now).min(AHEAD_MICROS) / 1_000_000 + 1;
            return Err(Error::Invalid(format!(
                "Cannot add column {} because a column with the same name was dropped too \
                 recently. Please retry after {secs} seconds",
                column.name
            )));
        }
    }
    Ok(next)
}

/// What a log has as its base had it made follows the base: its windows, for as long as it is to
/// keep its rows. What somebody set stays.
fn follow_options(before: &TableSchema, after: &TableSchema, log: &mut TableSchema) {
    let (Some(old), Some(new)) = (CdcOptions::of(&before.options), CdcOptions::of(&after.options))
    else {
        return;
    };
    let sorted = |mut map: Vec<(String, String)>| {
        map.sort();
        map
    };
    let (old, new) = (log_options(before, old), log_options(after, new));
    if sorted(log.options.compaction.clone()) == sorted(old.compaction) {
        log.options.compaction = sorted(new.compaction);
    }
    if log.options.gc_grace_seconds == old.gc_grace_seconds {
        log.options.gc_grace_seconds = new.gc_grace_seconds;
    }
}
