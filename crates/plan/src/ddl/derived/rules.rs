//! Where there can be views and indexes, and which options they have.

use super::super::NAME_CHARS_MAX;
use super::super::properties::Properties;
use super::super::{Context, Decision, Rules, cdc, is_plain_name, options, table};
use super::{filter, refuse};
use crate::error::Error;
use cluster::{Restriction, Schema, SchemaChange, centers, features};
use model::Uuid;
use model::schema::TableOptions;
use syntax::ast::{Name, QualifiedName, SchemaStatement, TableProperties};

/// What the properties of a new view, or of the view of an index, say.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) table: TableOptions,
    pub(super) synchronous: Option<bool>,
    pub(super) id: Uuid,
}

/// Says why a keyspace can have no views.
pub(super) fn check_place(schema: &Schema, keyspace: &str, context: &Context) -> Result<(), Error> {
    if !context.has_views {
        return refuse(format!(
            "Not all nodes of the cluster can have views and indexes ({}): upgrade them first",
            features::VIEWS
        ));
    }
    let ill = centers::ill_racked(schema, &context.data_centers);
    match ill.into_iter().find(|ill| ill.keyspace == keyspace) {
        None => Ok(()),
        Some(ill) => refuse(format!(
            "Materialized views and secondary indexes are not supported on the keyspace \
             '{keyspace}': {ill}"
        )),
    }
}

/// Changes of keyspaces, where those that have views stay such that they can have some.
pub(in crate::ddl) fn check_keyspaces(
    schema: &Schema,
    changes: Vec<SchemaChange>,
    context: &Context,
) -> Decision {
    for change in &changes {
        let SchemaChange::AlterKeyspace(keyspace) = change else { continue };
        let tables = schema.keyspace(&keyspace.name).into_iter().flat_map(|it| it.tables.values());
        let mut views = tables.filter(|table| table.schema.view.is_some());
        let next = match views.next() {
            Some(_) => schema.after(vec![change.clone()], context.now_micros, 1),
            None => continue,
        };
        let next = next.map_err(Error::Config)?;
        check_place(&next, &keyspace.name, context)?;
    }
    Ok(changes)
}

/// `what` is how messages call it.
pub(super) fn check_name(name: &str, what: &str) -> Result<(), Error> {
    if !is_plain_name(name) {
        return refuse(format!(
            "\"{name}\" is not a valid {what} name (must contain alphanumeric character only: \
             [a-zA-Z_0-9]+)"
        ));
    }
    if NAME_CHARS_MAX < name.len() {
        return refuse(format!(
            "{what} names shouldn't be more than {NAME_CHARS_MAX} characters long (got \"{name}\")"
        ));
    }
    Ok(())
}

/// The options of a new view.
pub(super) fn created(
    schema: &Schema,
    properties: &TableProperties,
    context: &Context,
) -> Result<Options, Error> {
    if properties.compact_storage.is_some() {
        return refuse("Cannot use 'COMPACT STORAGE' when defining a materialized view");
    }
    let properties = Properties(&properties.properties);
    check_cdc(&properties)?;
    let id = options::table_id(&properties)?;
    if let Some(known) = id.and_then(|id| schema.table_by_id(id)) {
        let known = &known.schema;
        let (id, keyspace, name) = (known.id, &known.keyspace, &known.name);
        return refuse(format!("Table with ID {id} already exists: {keyspace}.{name}"));
    }
    let mut table = options::of_view(table::defaults(&context.rules), &properties)?;
    if properties.get("tombstone_gc").is_none() {
        // What is the case anyway: who describes a view sees it.
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        table.tombstone_gc =
            vec![pair("mode", "timeout"), pair("propagation_delay_in_seconds", "3600")];
    }
    check_ttl(&properties)?;
    let synchronous = properties.boolean("synchronous_updates")?;
    Ok(Options { table, synchronous, id: id.unwrap_or(context.table_id) })
}

/// The options of a view that had `before`, and whether it is synchronous now, if that is said.
pub(super) fn altered(
    before: &TableOptions,
    properties: &TableProperties,
) -> Result<(TableOptions, Option<bool>), Error> {
    if properties.compact_storage.is_some() || !properties.clustering_order.is_empty() {
        return refuse("Cannot alter clustering order or storage of a materialized view");
    }
    let properties = Properties(&properties.properties);
    if properties.0.is_empty() {
        return refuse("ALTER MATERIALIZED VIEW WITH invoked, but no parameters found");
    }
    check_cdc(&properties)?;
    if options::table_id(&properties)?.is_some() {
        return Err(Error::Config("Cannot alter table id.".to_owned()));
    }
    let after = options::of_view(before.clone(), &properties)?;
    if properties.get("gc_grace_seconds").is_some() && after.gc_grace_seconds == 0 {
        return refuse(
            "Cannot alter gc_grace_seconds of a materialized view to 0, since what is deleted in \
             it has to be remembered until all of its replicas know it",
        );
    }
    check_ttl(&properties)?;
    Ok((after, properties.boolean("synchronous_updates")?))
}

fn check_cdc(properties: &Properties<'_>) -> Result<(), Error> {
    match cdc::is_switched_on(properties)? {
        true => refuse("Cannot enable CDC for a materialized view"),
        false => Ok(()),
    }
}

fn check_ttl(properties: &Properties<'_>) -> Result<(), Error> {
    match properties.int("default_time_to_live")? {
        None | Some(0) => Ok(()),
        Some(_) => refuse(
            "Cannot set or alter default_time_to_live for a materialized view. Data in a \
             materialized view always expire at the same time than the corresponding data in the \
             parent table.",
        ),
    }
}

/// What a statement that made a view or an index warns of.
pub(in crate::ddl) fn warnings(
    schema: &Schema,
    statement: &SchemaStatement,
    rules: &Rules,
    keyspace: Option<&str>,
) -> Vec<String> {
    let of_keyspace = |name: &QualifiedName, what: &str| {
        let keyspace = name.keyspace.as_ref().map(|name| name.text.as_str()).or(keyspace)?;
        let entry = schema.keyspace(keyspace)?;
        entry.keyspace.initial_tablets.map(|_| {
            format!(
                "Creating {what} in a keyspace that uses tablets requires the keyspace to remain \
                 RF-rack-valid while it has any: its replication factors cannot become larger \
                 than 1 and unlike the number of racks"
            )
        })
    };
    match statement {
        SchemaStatement::CreateView(it) => {
            let needless = match rules.not_null {
                Restriction::Warned => filter::needless_not_null(it),
                Restriction::Allowed | Restriction::Refused => Vec::new(),
            };
            let needless = needless.iter().map(|name| name.text.as_str());
            let needless = not_null_text(needless.collect());
            of_keyspace(&it.name, "a materialized view").into_iter().chain(needless).collect()
        }
        SchemaStatement::CreateIndex(it) => {
            of_keyspace(&it.table, "an index").into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// An error for IS NOT NULL of columns that are not in the view's key, where the node wants that.
pub(super) fn check_not_null(needless: &[&Name], rules: &Rules) -> Result<(), Error> {
    let names = needless.iter().map(|name| name.text.as_str()).collect();
    match (rules.not_null, not_null_text(names)) {
        (Restriction::Refused, Some(text)) => Err(Error::Invalid(text)),
        _ => Ok(()),
    }
}

fn not_null_text(names: Vec<&str>) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "The IS NOT NULL restriction is allowed only columns which are part of the view's \
             primary key, found columns: {}. It says nothing of others (see \
             strict_is_not_null_in_views)",
            names.join(", ")
        )
    })
}
