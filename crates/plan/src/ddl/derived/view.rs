//! `CREATE`, `ALTER` and `DROP MATERIALIZED VIEW`.

use super::super::table::need_table;
use super::super::{Context, Decision, named_keyspace, need_keyspace, refuse_system};
use super::columns::{Layout, of_base};
use super::filter::{self, Filter};
use super::{is_of_index, refuse, rules};
use crate::error::Error;
use cluster::{Schema, SchemaChange, TableEntry};
use model::schema::View;
use model::{Column, ColumnKind, TableSchema, Type};
use std::rc::Rc;
use syntax::ast::{
    AlterView, CreateView, Direction, Drop, ExprKind, Name, QualifiedName, Selection,
};

/// The changes of a `CREATE MATERIALIZED VIEW`.
pub(in crate::ddl) fn create(schema: &Schema, it: &CreateView, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    let name = it.name.name.text.as_str();
    refuse_system(keyspace)?;
    let options = rules::created(schema, &it.properties, context)?;
    if let Some(of_base) = it.base.keyspace.as_ref().filter(|base| base.text != keyspace) {
        return refuse(format!(
            "Cannot create a materialized view on a table in a separate keyspace \
             ('{keyspace}' != '{}')",
            of_base.text
        ));
    }
    need_keyspace(schema, keyspace)?;
    rules::check_name(name, "materialized view")?;
    rules::check_place(schema, keyspace, context)?;
    let base = need_table(schema, &of_keyspace(&it.base, keyspace), context)?;
    check_base(name, &base.schema)?;
    let base = &*base.schema;
    let selected = selected(it, base)?;
    let filter = filter::read(schema, base, &it.filter)?;
    let key = Key::resolve(it, base, &filter)?;
    check_statics(&selected, base)?;
    key.check_base_key(name, base)?;
    let reversed = key.order(it)?;
    check_restricted(name, base, &key, &filter)?;
    rules::check_not_null(&filter::needless_not_null(it), &context.rules)?;

    let builder = TableSchema::builder(keyspace, name, options.id).options(options.table);
    let mut layout = Layout::new(builder);
    for column in &key.partition {
        let ty = column.ty.clone();
        layout.change(|builder| builder.partition_key(&column.name, ty));
    }
    for (column, reversed) in key.clustering.iter().zip(reversed) {
        layout.clustering(column, reversed);
    }
    for column in base.regulars().iter().filter(|column| !key.has(&column.name)) {
        if selected.has(&column.name) {
            let ty = column.ty.clone();
            layout.change(|builder| builder.regular(&column.name, ty));
        } else if key.promoted.is_none() {
            layout.hide(column);
        }
    }
    let made = layout.build(
        base,
        View {
            base: base.id,
            base_name: base.name.clone(),
            where_clause: filter::text_of(&it.filter),
            includes_all: matches!(it.selection, Selection::All(_)),
            filter: filter.conditions,
            synchronous: options.synchronous,
            ..View::default()
        },
    )?;
    match schema.table(keyspace, name) {
        None => Ok(vec![SchemaChange::CreateTable(made)]),
        Some(_) if it.if_not_exists => Ok(Vec::new()),
        Some(_) => {
            let (keyspace, table) = (keyspace.to_owned(), name.to_owned());
            Err(Error::AlreadyExists { keyspace, table })
        }
    }
}

/// The name of the base, which is in the keyspace of its view.
fn of_keyspace(base: &QualifiedName, keyspace: &str) -> QualifiedName {
    let at = base.name.at;
    let keyspace = Some(Name { text: keyspace.to_owned(), at });
    QualifiedName { keyspace, name: base.name.clone() }
}

/// Says why a table has no views.
fn check_base(name: &str, base: &TableSchema) -> Result<(), Error> {
    if base.is_counter() {
        return refuse("Materialized views are not supported on counter tables");
    }
    if base.view.is_some() {
        return refuse("Materialized views cannot be created against other materialized views");
    }
    if base.log.is_some() {
        return refuse("Materialized views are not supported on CDC log tables");
    }
    if base.options.gc_grace_seconds == 0 {
        return refuse(format!(
            "Cannot create materialized view '{name}' for base table '{}' with gc_grace_seconds \
             of 0, since what is deleted has to be remembered until the view knows it",
            base.name
        ));
    }
    Ok(())
}

/// The columns of the base that a view is asked to have.
#[derive(Debug)]
enum Selected<'a> {
    All,
    Some(Vec<&'a str>),
}

impl Selected<'_> {
    fn has(&self, column: &str) -> bool {
        match self {
            Selected::All => true,
            Selected::Some(names) => names.contains(&column),
        }
    }
}

fn selected<'a>(it: &'a CreateView, base: &TableSchema) -> Result<Selected<'a>, Error> {
    let mut names = Vec::new();
    let selected = match &it.selection {
        Selection::All(_) => Selected::All,
        Selection::Items(items) => {
            for item in items {
                if item.alias.is_some() {
                    return refuse("Cannot use alias when defining a materialized view");
                }
                let ExprKind::Column(name) = &item.expr.kind else {
                    return refuse(
                        "Cannot use general expressions when defining a materialized view",
                    );
                };
                names.push(of_base(base, &name.text).map(|_| name.text.as_str())?);
            }
            Selected::Some(names)
        }
    };
    Ok(selected)
}

/// The primary key of a view.
#[derive(Debug)]
struct Key<'a> {
    partition: Vec<&'a Column>,
    clustering: Vec<&'a Column>,
    /// The column that is not in the base's key.
    promoted: Option<&'a Column>,
}

impl<'a> Key<'a> {
    fn resolve(
        it: &CreateView,
        base: &'a TableSchema,
        filter: &Filter<'_>,
    ) -> Result<Key<'a>, Error> {
        let mut key = Key { partition: Vec::new(), clustering: Vec::new(), promoted: None };
        let names = &it.primary_key;
        let partition = names.partition.iter().map(|name| (name, true));
        let clustering = names.clustering.iter().map(|name| (name, false));
        for (name, is_partition) in partition.chain(clustering) {
            let name = name.text.as_str();
            if key.has(name) {
                return refuse(format!("Duplicate entry found in PRIMARY KEY: {name}"));
            }
            let column = of_base(base, name)?;
            key.check(column, base, filter)?;
            if ColumnKind::Static <= column.kind {
                key.promoted = Some(column);
            }
            match is_partition {
                true => key.partition.push(column),
                false => key.clustering.push(column),
            }
        }
        Ok(key)
    }

    fn has(&self, name: &str) -> bool {
        self.partition.iter().chain(&self.clustering).any(|column| column.name == name)
    }

    /// Says why a column cannot be in the key.
    fn check(&self, column: &Column, base: &TableSchema, filter: &Filter<'_>) -> Result<(), Error> {
        let name = &column.name;
        let what = match column {
            it if it.ty.is_multi_cell() => Some("MultiCell"),
            it if it.ty == Type::Duration || it.ty.mentions_duration() => Some("Duration"),
            it if it.kind == ColumnKind::Static => Some("Static"),
            _ => None,
        };
        if let Some(what) = what {
            return refuse(format!(
                "Cannot use {what} column '{name}' in PRIMARY KEY of materialized view"
            ));
        }
        if column.kind == ColumnKind::Regular && self.promoted.is_some() {
            return refuse(format!(
                "Cannot include more than one non-primary key column '{name}' in materialized \
                 view primary key"
            ));
        }
        let is_whole = column.kind == ColumnKind::PartitionKey && base.partition_key_count == 1;
        if !is_whole && !filter.restricts(name) {
            return refuse(format!(
                "Primary key column '{name}' is required to be filtered by 'IS NOT NULL'"
            ));
        }
        Ok(())
    }

    /// *whole-key*.
    fn check_base_key(&self, view: &str, base: &TableSchema) -> Result<(), Error> {
        let of_base = base.partition_key().iter().chain(base.clustering());
        let missing = of_base.filter(|column| !self.has(&column.name));
        let missing: Vec<&str> = missing.map(|column| column.name.as_str()).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => refuse(format!(
                "Cannot create Materialized View {view} without primary key columns from base {} \
                 ({})",
                base.name,
                missing.join(", ")
            )),
        }
    }

    /// The direction that is said of each clustering column.
    fn order(&self, it: &CreateView) -> Result<Vec<Option<bool>>, Error> {
        let order = &it.properties.clustering_order;
        let is_clustering = |name: &Name| self.clustering.iter().any(|it| it.name == name.text);
        if let Some((name, _)) = order.iter().find(|(name, _)| !is_clustering(name)) {
            return refuse(format!(
                "CLUSTERING ORDER BY lists {name} which is not a clustering column in the view"
            ));
        }
        let said = |column: &&Column| {
            let said = order.iter().find(|(name, _)| name.text == column.name);
            said.map(|(_, direction)| *direction == Direction::Descending)
        };
        Ok(self.clustering.iter().map(said).collect())
    }
}

/// A view has no static columns.
fn check_statics(selected: &Selected<'_>, base: &TableSchema) -> Result<(), Error> {
    match base.statics().iter().find(|column| selected.has(&column.name)) {
        None => Ok(()),
        Some(column) => refuse(format!(
            "Unable to include static column '{}' which would be included by Materialized View \
             SELECT * statement",
            column.name
        )),
    }
}

/// Conditions are on columns of the base's key, or on the one other column in the view's.
fn check_restricted(
    view: &str,
    base: &TableSchema,
    key: &Key<'_>,
    filter: &Filter<'_>,
) -> Result<(), Error> {
    let is_free = |name: &&String| {
        base.column(name).is_some_and(|column| ColumnKind::Static <= column.kind) && !key.has(name)
    };
    let named = filter.conditions.iter().flat_map(|condition| &condition.columns);
    let free: Vec<&str> = named.filter(is_free).map(String::as_str).collect();
    match free.is_empty() {
        true => Ok(()),
        false => refuse(format!(
            "Non-primary key columns cannot be restricted in the SELECT statement used for \
             materialized view {view} creation (got restrictions on: {})",
            free.join(", ")
        )),
    }
}

/// The view that a statement names; `None` where there is none and that is no error.
fn need_view<'s>(
    schema: &'s Schema,
    name: &QualifiedName,
    if_exists: bool,
    what: &str,
    context: &Context,
) -> Result<Option<&'s Rc<TableEntry>>, Error> {
    let keyspace = named_keyspace(name, context)?;
    refuse_system(keyspace)?;
    let name = name.name.text.as_str();
    match schema.table(keyspace, name) {
        Some(view) if view.schema.view.is_some() => Ok(Some(view)),
        Some(_) => refuse(format!(
            "Cannot use {what} MATERIALIZED VIEW on Table. (Did you mean {what} TABLE)?"
        )),
        None if if_exists => Ok(None),
        None => {
            need_keyspace(schema, keyspace)?;
            let what = what.to_ascii_lowercase();
            refuse(format!(
                "Cannot {what} non existing materialized view '{name}' in keyspace '{keyspace}': \
                 unconfigured table {name}"
            ))
        }
    }
}

/// The changes of an `ALTER MATERIALIZED VIEW`.
pub(in crate::ddl) fn alter(schema: &Schema, it: &AlterView, context: &Context) -> Decision {
    let Some(entry) = need_view(schema, &it.name, it.if_exists, "ALTER", context)? else {
        return Ok(Vec::new());
    };
    let before = &entry.schema;
    let (options, synchronous) = rules::altered(&before.options, &it.properties)?;
    let mut view = before.view.as_deref().cloned().unwrap_or_default();
    view.synchronous = synchronous.or(view.synchronous);
    let after = before.edit().options(options).view(view).version(before.version).build();
    let after = after.map_err(|invalid| Error::Invalid(invalid.0))?;
    match after == **before {
        true => Ok(Vec::new()),
        false => Ok(vec![SchemaChange::AlterTable(after)]),
    }
}

/// The changes of a `DROP MATERIALIZED VIEW`.
pub(in crate::ddl) fn drop(schema: &Schema, it: &Drop, context: &Context) -> Decision {
    let Some(entry) = need_view(schema, &it.name, it.if_exists, "DROP", context)? else {
        return Ok(Vec::new());
    };
    if is_of_index(schema, entry) {
        return refuse("Cannot use DROP MATERIALIZED VIEW on Index. (Did you mean DROP INDEX)?");
    }
    let (keyspace, name) = (entry.schema.keyspace.clone(), entry.schema.name.clone());
    Ok(vec![SchemaChange::DropTable { keyspace, name }])
}
