//! What an index is on: its column, and what of it.
//!
//! Invariants
//!  - *can-be-asked*: what is indexed has values that are equal where their bytes are.

use super::refuse;
use crate::error::Error;
use model::schema::IndexTarget;
use model::{Column, ColumnKind, TableSchema, Type};
use std::collections::BTreeSet;
use syntax::ast::{self, Name};

/// What an index is on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'b> {
    pub(super) column: &'b Column,
    pub(super) target: IndexTarget,
    pub(super) is_local: bool,
}

/// What the targets of a statement mean for that table.
pub(super) fn resolve<'b>(
    base: &'b TableSchema,
    targets: &[ast::IndexTarget],
    is_custom: bool,
) -> Result<Target<'b>, Error> {
    let (partition, target) = split(targets, is_custom)?;
    let (name, wanted) = wanted(target);
    let Some(column) = base.column(&name.text) else {
        return refuse(format!("No column definition found for column {name}"));
    };
    check_duration(&column.ty)?;
    check_place(base, column)?;
    let is_whole_key = column.kind == ColumnKind::PartitionKey && base.partition_key_count == 1;
    if partition.is_none() && is_whole_key {
        return refuse(format!(
            "Cannot create secondary index on partition key column {}",
            column.name
        ));
    }
    let target = of_type(column, wanted)?;
    if let Some(partition) = partition {
        check_local(base, partition, column)?;
    }
    Ok(Target { column, target, is_local: partition.is_some() })
}

/// The partition key of a local index, and the one other target.
fn split(
    targets: &[ast::IndexTarget],
    is_custom: bool,
) -> Result<(Option<&[Name]>, &ast::IndexTarget), Error> {
    let mut seen = BTreeSet::new();
    for target in targets.iter().filter(|it| !matches!(it, ast::IndexTarget::Partition(_))) {
        let name = &wanted(target).0.text;
        if !seen.insert(name) {
            return refuse(format!("Duplicate column {name} in index target list"));
        }
    }
    match targets {
        [] if is_custom => refuse("An index needs a column"),
        [] => refuse("Only CUSTOM indexes can be created without specifying a target column"),
        [ast::IndexTarget::Partition(_)] => {
            refuse("Local index definition must provide an indexed column, not just partition key")
        }
        [target] => Ok((None, target)),
        [ast::IndexTarget::Partition(_), ast::IndexTarget::Partition(_)] => {
            refuse("Multi-column index targets are currently only supported for partition key")
        }
        [ast::IndexTarget::Partition(names), target] => Ok((Some(names), target)),
        [_, ast::IndexTarget::Partition(_)] => {
            refuse("Multi-column index targets are currently only supported for partition key")
        }
        _ => refuse("Only CUSTOM indexes support multiple columns"),
    }
}

/// The column of a target, and what is wanted of it; `None` leaves that to its type.
fn wanted(target: &ast::IndexTarget) -> (&Name, Option<IndexTarget>) {
    match target {
        ast::IndexTarget::Column(name) => (name, None),
        ast::IndexTarget::Keys(name) => (name, Some(IndexTarget::Keys)),
        ast::IndexTarget::Values(name) => (name, Some(IndexTarget::ElementValues)),
        ast::IndexTarget::Entries(name) => (name, Some(IndexTarget::Entries)),
        ast::IndexTarget::Full(name) => (name, Some(IndexTarget::Full)),
        ast::IndexTarget::Partition(names) => (&names[0], None),
    }
}

fn check_duration(ty: &Type) -> Result<(), Error> {
    if !ty.mentions_duration() {
        return Ok(());
    }
    let what = match ty {
        Type::User(_) => "UDTs containing durations",
        Type::Tuple(_) => "tuples containing durations",
        ty if ty.is_collection() => "collections containing durations",
        _ => "duration columns",
    };
    refuse(format!("Secondary indexes are not supported on {what}"))
}

/// What compact tables cannot have.
fn check_place(base: &TableSchema, column: &Column) -> Result<(), Error> {
    let what = match (base.compact_storage, column.kind) {
        (false, _) => return Ok(()),
        (true, _) if 0 < base.clustering_count => {
            "COMPACT STORAGE tables that have clustering columns"
        }
        (true, ColumnKind::PartitionKey) => "PRIMARY KEY columns in COMPACT STORAGE tables",
        (true, _) => return Ok(()),
    };
    refuse(format!("Secondary indexes are not supported on {what}"))
}

/// What is indexed of a column where `wanted` is said.
fn of_type(column: &Column, wanted: Option<IndexTarget>) -> Result<IndexTarget, Error> {
    let Column { name, ty, .. } = column;
    let is_multi_cell = ty.is_multi_cell();
    let said = wanted.map_or("value", IndexTarget::name);
    match (ty, wanted) {
        (ty, Some(IndexTarget::Full)) if ty.is_collection() && !is_multi_cell => {
            Ok(IndexTarget::Full)
        }
        (_, Some(IndexTarget::Full)) => {
            refuse("full() indexes can only be created on frozen collections")
        }
        (ty, wanted) if ty.is_collection() && !is_multi_cell => {
            let said = if wanted.is_some() { format!("{said}()") } else { said.to_owned() };
            refuse(format!("Cannot create index on {said} of frozen collection column {name}"))
        }
        (ty, None) if !is_multi_cell || !ty.is_collection() => match is_multi_cell {
            true => refuse(format!("Cannot create secondary index on UDT column {name}")),
            false => Ok(IndexTarget::Values),
        },
        (ty, Some(_)) if !ty.is_collection() => refuse(format!(
            "Cannot create index on {said} of column {name}; only non-frozen collections support \
             {said} indexes"
        )),
        (Type::Map { .. }, wanted) => Ok(wanted.unwrap_or(IndexTarget::ElementValues)),
        (_, Some(IndexTarget::Keys | IndexTarget::Entries)) => refuse(format!(
            "Cannot create secondary index on {said} of column {name} with non-map type"
        )),
        // The elements of a set are the keys of its cells.
        (Type::Set { .. }, _) => Ok(IndexTarget::Keys),
        _ => Ok(IndexTarget::ElementValues),
    }
}

/// What holds for an index within partitions.
fn check_local(base: &TableSchema, partition: &[Name], column: &Column) -> Result<(), Error> {
    let full = "Local index definition must contain full partition key only.";
    let mut seen = BTreeSet::new();
    for name in partition {
        let name = name.text.as_str();
        if !seen.insert(name) {
            return refuse(format!("Duplicate column definition in local index: {name}"));
        }
        if base.column(name).is_none_or(|column| column.kind != ColumnKind::PartitionKey) {
            return refuse(format!("{full} Redundant column: {name}"));
        }
    }
    let missing = base.partition_key().iter().find(|it| !seen.contains(it.name.as_str()));
    if let Some(missing) = missing {
        return refuse(format!("{full} Missing column: {}", missing.name));
    }
    match column.kind {
        ColumnKind::PartitionKey => refuse(
            "Local indexing based on partition key column is not allowed, since it would find \
             what the partition key finds",
        ),
        ColumnKind::Static => refuse("Local indexes containing static columns are not supported."),
        _ if column.ty.is_multi_cell() => refuse(format!(
            "Local secondary index on collection column {} is not implemented yet.",
            column.name
        )),
        _ => Ok(()),
    }
}
