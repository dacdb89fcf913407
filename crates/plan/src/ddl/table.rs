//! `CREATE TABLE` and `DROP TABLE`, and the rules for columns that ALTER shares.

use super::properties::Properties;
use super::types;
use super::{
    Context, Decision, NAME_CHARS_MAX, Rules, is_plain_name, named_keyspace, need_keyspace,
    options, racks, refuse_system, row_ttl,
};
use crate::compression::compression;
use crate::error::Error;
use crate::paxos_state;
use crate::speculative_retry::speculative_retry;
use cluster::{Schema, SchemaChange, TableEntry};
use model::schema::{TableBuilder, TableOptions};
use model::{TableSchema, Type};
use std::borrow::Cow;
use std::rc::Rc;
use syntax::ast::{CreateTable, Direction, Drop, Name, PrimaryKey, QualifiedName, TableProperties};

fn refuse<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid(text.into()))
}

pub(super) fn create(schema: &Schema, it: &CreateTable, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    let name = it.name.name.text.as_str();
    refuse_system(keyspace)?;
    need_keyspace(schema, keyspace)?;
    check_name(name)?;
    let properties = Properties(&it.properties.properties);
    let options = options::apply(of_keyspace(schema, keyspace, &context.rules), &properties)?;
    check_tablets(schema, keyspace, &options)?;
    racks::check_owners(schema, keyspace, &context.data_centers)?;
    context.rules.check_windows(&options)?;
    let id = options::table_id(&properties)?.unwrap_or(context.table_id);
    let compact = it.properties.compact_storage.is_some();
    if compact && !context.rules.compact_storage {
        return refuse(
            "Support for the deprecated feature of 'CREATE TABLE WITH COMPACT STORAGE' is disabled \
             and will eventually be removed in a future version.",
        );
    }
    let columns = Columns::resolve(schema, keyspace, it)?;
    if compact {
        columns.check_compact()?;
    }
    let has_counters = columns.check_counters()?;
    if has_counters && options.default_time_to_live != 0 {
        return refuse("Cannot set default_time_to_live on a table with counters");
    }
    let builder =
        TableSchema::builder(keyspace, name, id).options(options).compact_storage(compact);
    let mut table = columns.add_to(builder, &it.properties)?;
    if let Some(options) = row_ttl::created(it, &table)? {
        let built = table.edit().options(options).build();
        table = built.map_err(|invalid| Error::Invalid(invalid.0))?;
    }
    match schema.table(keyspace, name) {
        None => Ok(vec![SchemaChange::CreateTable(table)]),
        Some(_) if it.if_not_exists => Ok(Vec::new()),
        Some(_) => {
            let (keyspace, table) = (keyspace.to_owned(), name.to_owned());
            Err(Error::AlreadyExists { keyspace, table })
        }
    }
}

/// The options of a new table of a keyspace, where nothing is said of them: tables with tablets go
/// by repairs in what they forget, as nodes have them by themselves.
fn of_keyspace(schema: &Schema, keyspace: &str, rules: &Rules) -> TableOptions {
    let mut defaults = defaults(rules);
    let entry = schema.keyspace(keyspace);
    if entry.is_some_and(|entry| entry.keyspace.initial_tablets.is_some()) {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        defaults.tombstone_gc =
            vec![pair("mode", "repair"), pair("propagation_delay_in_seconds", "3600")];
    }
    defaults
}

/// The options of a new table of which nothing is said.
pub fn defaults(rules: &Rules) -> TableOptions {
    let mut defaults = TableOptions::new();
    // What an operator wrote and is none: as if it were not there.
    if let Ok(retry) = speculative_retry(&rules.speculative_retry) {
        defaults.speculative_retry = retry;
    }
    if let Ok(compression) = compression(rules.compression.clone())
        && !rules.compression.is_empty()
    {
        defaults.compression = compression;
    }
    defaults
}

pub(super) fn drop(schema: &Schema, it: &Drop, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    let name = it.name.name.text.as_str();
    refuse_system(keyspace)?;
    if schema.table(keyspace, name).is_some() {
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        return Ok(vec![SchemaChange::DropTable { keyspace, name }]);
    }
    if let Some(base) = paxos_state::base(schema, Some(keyspace), name) {
        return Err(paxos_state::refusal(&base.schema));
    }
    if it.if_exists {
        return Ok(Vec::new());
    }
    need_keyspace(schema, keyspace)?;
    refuse(format!(
        "Cannot drop non existing table '{name}' in keyspace '{keyspace}': unconfigured table \
         {name}"
    ))
}

/// The table that a statement names.
pub(super) fn need_table<'a>(
    schema: &'a Schema,
    name: &QualifiedName,
    context: &Context,
) -> Result<&'a Rc<TableEntry>, Error> {
    let keyspace = named_keyspace(name, context)?;
    need_keyspace(schema, keyspace)?;
    let name = &name.name.text;
    let unknown = || match paxos_state::base(schema, Some(keyspace), name) {
        Some(base) => paxos_state::refusal(&base.schema),
        None => Error::invalid(format!("unconfigured table {name}")),
    };
    schema.table(keyspace, name).ok_or_else(unknown)
}

/// Tables have hints of their tablets only where they have tablets.
pub(super) fn check_tablets(
    schema: &Schema,
    keyspace: &str,
    options: &TableOptions,
) -> Result<(), Error> {
    let has_tablets = schema.keyspace(keyspace).is_some_and(|entry| {
        let keyspace = &entry.keyspace;
        keyspace.initial_tablets.is_some()
    });
    if !options.tablets.is_empty() && !has_tablets {
        return Err(Error::Config(
            "tablet options cannot be used when tablets are disabled for the keyspace".to_owned(),
        ));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Error> {
    if !is_plain_name(name) {
        return refuse(format!(
            "\"{name}\" is not a valid table name (must be alphanumeric character or underscore \
             only: [a-zA-Z_0-9]+)"
        ));
    }
    if NAME_CHARS_MAX < name.len() {
        return refuse(format!(
            "Table names shouldn't be more than {NAME_CHARS_MAX} characters long (got \"{name}\")"
        ));
    }
    Ok(())
}

/// The columns of a new table with their types, in order of writing, and its primary key.
#[derive(Debug)]
struct Columns<'a> {
    defined: Vec<Defined<'a>>,
    primary_key: Cow<'a, PrimaryKey>,
}

#[derive(Debug)]
struct Defined<'a> {
    name: &'a str,
    ty: Type,
    is_static: bool,
}

impl<'a> Columns<'a> {
    fn resolve(schema: &Schema, keyspace: &str, it: &'a CreateTable) -> Result<Columns<'a>, Error> {
        let mut defined: Vec<Defined<'_>> = Vec::with_capacity(it.columns.len());
        let mut names = stdx::HashSet::default();
        for column in &it.columns {
            let name = column.name.text.as_str();
            if !names.insert(name) {
                return refuse(format!("Multiple definition of identifier {name}"));
            }
            let ty = types::resolve(schema, keyspace, &column.ty)?;
            check_column_type(name, &ty)?;
            defined.push(Defined { name, ty, is_static: column.is_static });
        }
        Ok(Columns { defined, primary_key: primary_key(it)? })
    }

    /// Whether the columns outside of the key are counters: all of them or none.
    fn check_counters(&self) -> Result<bool, Error> {
        let key = self.key_names();
        let mut others = self.defined.iter().filter(|column| !key.contains(&column.name));
        let Some(first) = others.next() else { return Ok(false) };
        let counters = first.ty == Type::Counter;
        if others.any(|column| (column.ty == Type::Counter) != counters) {
            return refuse("Cannot mix counter and non counter columns in the same table");
        }
        Ok(counters)
    }

    /// What a compact table cannot have: a dense one, with clustering columns, has one other column
    /// at most; the others have at least one.
    fn check_compact(&self) -> Result<(), Error> {
        let key = self.key_names();
        let others = || self.defined.iter().filter(|column| !key.contains(&column.name));
        if others().any(|column| column.ty.is_multi_cell()) {
            return refuse(
                "Non-frozen collection and user-defined types are not supported with COMPACT \
                 STORAGE",
            );
        }
        if self.defined.iter().any(|column| column.is_static) {
            return refuse("Static columns are not supported in COMPACT STORAGE tables");
        }
        match (self.primary_key.clustering.is_empty(), others().count()) {
            (true, 0) => refuse(
                "COMPACT STORAGE with non-composite PRIMARY KEY require one column not part of \
                 the PRIMARY KEY, none given",
            ),
            (false, 2..) => {
                let names: Vec<&str> = others().map(|column| column.name).collect();
                refuse(format!(
                    "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column \
                     not part of the PRIMARY KEY (got: {})",
                    names.join(", ")
                ))
            }
            _ => Ok(()),
        }
    }

    fn key_names(&self) -> Vec<&str> {
        let key = self.primary_key.partition.iter().chain(&self.primary_key.clustering);
        key.map(|name| name.text.as_str()).collect()
    }

    /// The column that the primary key names.
    fn key_column(&self, name: &Name) -> Result<&Defined<'a>, Error> {
        let name = name.text.as_str();
        let Some(column) = self.defined.iter().find(|column| column.name == name) else {
            return refuse(format!("Unknown definition {name} referenced in PRIMARY KEY"));
        };
        if column.is_static {
            return refuse(format!("Static column {name} cannot be part of the PRIMARY KEY"));
        }
        check_key_type(name, &column.ty)?;
        Ok(column)
    }

    fn add_to(
        &self,
        mut builder: TableBuilder,
        properties: &TableProperties,
    ) -> Result<TableSchema, Error> {
        let key = self.key_names();
        let mut seen = stdx::HashSet::default();
        if let Some(twice) = key.iter().find(|name| !seen.insert(**name)) {
            return refuse(format!(
                "Multiple definition of identifier {twice} referenced in PRIMARY KEY"
            ));
        }
        let order = clustering_order(&self.primary_key, properties)?;
        for name in &self.primary_key.partition {
            builder = builder.partition_key(&name.text, self.key_column(name)?.ty.clone());
        }
        for (name, direction) in self.primary_key.clustering.iter().zip(order) {
            let ty = self.key_column(name)?.ty.clone();
            builder = match direction {
                Direction::Ascending => builder.clustering(&name.text, ty),
                Direction::Descending => builder.clustering_descending(&name.text, ty),
            };
        }
        for column in self.defined.iter().filter(|column| !key.contains(&column.name)) {
            let ty = column.ty.clone();
            builder = match column.is_static {
                true => builder.static_column(column.name, ty),
                false => builder.regular(column.name, ty),
            };
        }
        builder.build().map_err(|invalid| Error::Invalid(invalid.0))
    }
}

/// The one primary key of a table.
fn primary_key(it: &CreateTable) -> Result<Cow<'_, PrimaryKey>, Error> {
    let mut inline = it.columns.iter().filter(|column| column.primary_key);
    match (it.primary_keys.as_slice(), inline.next(), inline.next()) {
        ([key], None, _) => Ok(Cow::Borrowed(key)),
        ([], Some(column), None) => Ok(Cow::Owned(PrimaryKey {
            partition: vec![column.name.clone()],
            clustering: Vec::new(),
            at: column.name.at,
        })),
        ([], None, _) => refuse("No PRIMARY KEY specified (exactly one required)"),
        _ => refuse("Multiple PRIMARY KEYs specified (exactly one required)"),
    }
}

/// The direction of each clustering column.
fn clustering_order(
    key: &PrimaryKey,
    properties: &TableProperties,
) -> Result<Vec<Direction>, Error> {
    let order = &properties.clustering_order;
    if order.is_empty() {
        return Ok(vec![Direction::Ascending; key.clustering.len()]);
    }
    let in_key = |name: &Name| key.clustering.iter().any(|column| column.text == name.text);
    if order.iter().any(|(name, _)| !in_key(name)) || key.clustering.len() < order.len() {
        return refuse("Only clustering key columns can be defined in CLUSTERING ORDER directive");
    }
    for (index, column) in key.clustering.iter().enumerate() {
        match order.get(index) {
            // Those that are not named ascend.
            None => break,
            Some((name, _)) if name.text != column.text => {
                return refuse(format!(
                    "The order of columns in the CLUSTERING ORDER directive must be the one of the \
                     clustering key ({} must appear before {})",
                    column.text, name.text
                ));
            }
            Some(_) => {}
        }
    }
    let ascending = std::iter::repeat(Direction::Ascending);
    let said = order.iter().map(|(_, direction)| *direction);
    Ok(said.chain(ascending).take(key.clustering.len()).collect())
}

/// What holds for the type of any column.
pub(super) fn check_column_type(name: &str, ty: &Type) -> Result<(), Error> {
    let nested = |user: &model::types::UserTypeRef| {
        !user.frozen && user.fields.iter().any(|(_, ty)| ty.is_multi_cell())
    };
    match ty {
        Type::User(user) if nested(user) => refuse(format!(
            "Non-frozen UDTs with nested non-frozen collections are not supported for column {name}"
        )),
        Type::Empty => refuse(format!("The type empty cannot be the type of column {name}")),
        _ => Ok(()),
    }
}

/// What holds besides for a column of the primary key.
pub(super) fn check_key_type(name: &str, ty: &Type) -> Result<(), Error> {
    if *ty == Type::Counter {
        return refuse(format!("counter type is not supported for PRIMARY KEY part {name}"));
    }
    if ty.mentions_duration() {
        return refuse(format!("duration type is not supported for PRIMARY KEY part {name}"));
    }
    if ty.is_multi_cell() {
        let what = if ty.is_collection() { "collection" } else { "user-defined" };
        return refuse(format!("Invalid non-frozen {what} type for PRIMARY KEY component {name}"));
    }
    Ok(())
}
