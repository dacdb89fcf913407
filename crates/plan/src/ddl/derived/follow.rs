//! What changes of tables mean for their views and indexes.
//!
//! Invariants
//!  - *same-columns* and *hidden-where-needed* of [`super`].

use super::super::{Context, Decision, named_keyspace};
use super::columns::hidden_type;
use super::{filter, is_of_index, refuse};
use crate::error::Error;
use cluster::{Schema, SchemaChange, TableEntry};
use model::schema::{Index, TableBuilder};
use model::{Column, ColumnKind, TableSchema};
use std::rc::Rc;
use syntax::ast::QualifiedName;

/// An error for a statement about tables that names a view.
pub(in crate::ddl) fn refuse_view(
    schema: &Schema,
    name: &QualifiedName,
    what: &str,
    context: &Context,
) -> Result<(), Error> {
    let keyspace = named_keyspace(name, context)?;
    let table = schema.table(keyspace, &name.name.text);
    if table.is_some_and(|table| table.schema.view.is_some()) {
        return refuse(format!(
            "Cannot use {what} TABLE on Materialized View. (Did you mean {what} MATERIALIZED \
             VIEW)?"
        ));
    }
    Ok(())
}

/// The changes of a statement about tables, and those of their views that follow.
pub(in crate::ddl) fn follow(schema: &Schema, changes: Vec<SchemaChange>) -> Decision {
    let mut all = Vec::with_capacity(changes.len());
    for change in changes {
        let mut followers = match &change {
            SchemaChange::AlterTable(after) => match schema.table_by_id(after.id) {
                Some(before) => of_alteration(schema, before, after)?,
                None => Vec::new(),
            },
            SchemaChange::DropTable { keyspace, name } => match schema.table(keyspace, name) {
                Some(table) => of_drop(schema, table)?,
                None => Vec::new(),
            },
            _ => Vec::new(),
        };
        all.push(change);
        all.append(&mut followers);
    }
    Ok(all)
}

fn views<'s>(schema: &'s Schema, base: &TableEntry) -> Vec<&'s Rc<TableEntry>> {
    base.views.iter().filter_map(|view| schema.table_by_id(*view)).collect()
}

/// The views of indexes go with their table.
fn of_drop(schema: &Schema, base: &TableEntry) -> Decision {
    let (of_indexes, others): (Vec<_>, Vec<_>) =
        views(schema, base).into_iter().partition(|view| is_of_index(schema, view));
    if !others.is_empty() {
        let mut names: Vec<&str> = others.iter().map(|view| view.schema.name.as_str()).collect();
        names.sort_unstable();
        return refuse(format!(
            "Cannot drop table when materialized views still depend on it ({}.{{{}}})",
            base.schema.keyspace,
            names.join(", ")
        ));
    }
    let drop = |view: &Rc<TableEntry>| SchemaChange::DropTable {
        keyspace: view.schema.keyspace.clone(),
        name: view.schema.name.clone(),
    };
    Ok(of_indexes.into_iter().map(drop).collect())
}

/// What an alteration does to the columns of a table.
#[derive(Debug)]
struct Difference<'a> {
    added: Vec<&'a Column>,
    dropped: Vec<&'a Column>,
    /// Old and new.
    renamed: Vec<(&'a str, &'a str)>,
    /// With their new types.
    retyped: Vec<(&'a Column, &'a Column)>,
}

impl<'a> Difference<'a> {
    fn between(before: &'a TableSchema, after: &'a TableSchema) -> Difference<'a> {
        let missing = |columns: &'a [Column], other: &TableSchema| -> Vec<&'a Column> {
            columns.iter().filter(|column| other.column_by_id(column.id).is_none()).collect()
        };
        let kept: Vec<(&Column, &Column)> = before
            .columns
            .iter()
            .filter_map(|column| Some((column, after.column_by_id(column.id)?)))
            .collect();
        let is_renamed = |(old, new): &&(&'a Column, &'a Column)| old.name != new.name;
        let renamed = kept.iter().filter(is_renamed);
        Difference {
            added: missing(&after.columns, before),
            dropped: missing(&before.columns, after),
            renamed: renamed.map(|(old, new)| (&old.name[..], &new.name[..])).collect(),
            retyped: kept.iter().filter(|(old, new)| old.ty != new.ty).copied().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.dropped.is_empty()
            && self.renamed.is_empty()
            && self.retyped.is_empty()
    }
}

fn of_alteration(schema: &Schema, base: &TableEntry, after: &TableSchema) -> Decision {
    let before = &base.schema;
    let views = views(schema, base);
    let had_grace = before.options.gc_grace_seconds != 0;
    if !views.is_empty() && had_grace && after.options.gc_grace_seconds == 0 {
        return refuse(
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since \
             what is deleted has to be remembered until all views know it",
        );
    }
    let difference = Difference::between(before, after);
    if difference.is_empty() {
        return Ok(Vec::new());
    }
    for (from, _) in &difference.renamed {
        let on = |index: &&Index| index.column == *from;
        let names: Vec<&str> =
            before.indexes.iter().filter(on).map(|index| index.name.as_str()).collect();
        if !names.is_empty() {
            return refuse(format!(
                "Cannot rename column {from} because it has dependent secondary indexes ({})",
                names.join(", ")
            ));
        }
    }
    let mut changes = Vec::new();
    for view in views {
        let changed = after_base(before, &view.schema, &difference)?;
        if changed != *view.schema {
            changes.push(SchemaChange::AlterTable(changed));
        }
    }
    Ok(changes)
}

/// A view after its base has changed.
fn after_base(
    base: &TableSchema,
    view: &TableSchema,
    difference: &Difference<'_>,
) -> Result<TableSchema, Error> {
    for column in &difference.dropped {
        if needs(view, &column.name) {
            return refuse(format!(
                "Cannot drop column {} from base table {}.{}: materialized view {} needs this \
                 column",
                column.name, base.keyspace, base.name, view.name
            ));
        }
    }
    let is_computed = |name: &str| {
        let column = view.column(name);
        column.is_some_and(|it| view.view.as_ref().is_some_and(|of| of.computed(it.id).is_some()))
    };
    let new_names = difference.added.iter().map(|column| column.name.as_str());
    let mut new_names = new_names.chain(difference.renamed.iter().map(|(_, to)| *to));
    if let Some(taken) = new_names.find(|name| is_computed(name)) {
        return refuse(format!(
            "Cannot use column name {taken}: {} has a computed column of that name",
            view.name
        ));
    }
    let mut builder = view.edit();
    let mut of_view = view.view.as_deref().cloned().unwrap_or_default();
    for (old, new) in &difference.retyped {
        if view.column(&old.name).is_some() && !is_computed(&old.name) {
            builder = retyped(view, builder, old, new)?;
        }
    }
    for (from, to) in &difference.renamed {
        if view.column(from).is_some() {
            builder = builder.rename_column(from, to);
        }
    }
    if !difference.renamed.is_empty() {
        of_view.where_clause = filter::renamed(&of_view.where_clause, &difference.renamed)?;
        let named = of_view.filter.iter_mut().flat_map(|condition| &mut condition.columns);
        for name in named {
            let renamed = difference.renamed.iter().find(|(from, _)| from == name);
            *name = renamed.map_or_else(|| name.clone(), |(_, to)| (*to).to_owned());
        }
    }
    let hides = !of_view.lives_by_marker;
    let mut next = view.next_column_id;
    for column in difference.added.iter().filter(|it| it.kind == ColumnKind::Regular) {
        if of_view.includes_all {
            builder = builder.regular(&column.name, column.ty.clone());
        } else if hides {
            builder = builder.regular(&column.name, hidden_type(&column.ty));
            of_view.hidden.push(model::ColumnId(next));
        } else {
            continue;
        }
        next += 1;
    }
    let built = builder.view(of_view).version(view.version).build();
    built.map_err(|invalid| Error::Invalid(invalid.0))
}

/// Whether a view has that column of its base, or computes one of it.
fn needs(view: &TableSchema, column: &str) -> bool {
    let of_view = view.view.as_deref();
    let computed = of_view.into_iter().flat_map(|it| &it.computed);
    let mut of = computed.filter_map(|it| it.computed.parts().1);
    of.any(|of| of == column) || view.column(column).is_some()
}

fn retyped(
    view: &TableSchema,
    builder: TableBuilder,
    old: &Column,
    new: &Column,
) -> Result<TableBuilder, Error> {
    let name = &old.name;
    let Some(column) = view.column(name) else { return Ok(builder) };
    let is_clustering = column.kind == ColumnKind::Clustering;
    if is_clustering && !new.ty.is_order_compatible_with(&old.ty) {
        return refuse(format!(
            "Cannot change {name} from type {} to type {}: types are not order-compatible, and \
             materialized view {} is ordered by it.",
            old.ty.to_cql(),
            new.ty.to_cql(),
            view.name
        ));
    }
    let ty = match view.is_hidden(column.id) {
        true => hidden_type(&new.ty),
        false => new.ty.clone(),
    };
    Ok(builder.change_type(name, ty))
}
