//! `CREATE` and `DROP INDEX`.

use super::super::properties::{Options, Properties};
use super::super::table::need_table;
use super::super::{Context, Decision, named_keyspace, need_keyspace, refuse_system};
use super::columns::Layout;
use super::target::{Target, resolve};
use super::{indexed, refuse, rules};
use crate::error::Error;
use cluster::{Schema, SchemaChange};
use model::schema::{Computed, Index, IndexTarget, View};
use model::{ColumnKind, TableSchema, Type};
use syntax::ast::{CreateIndex, Drop, PropertyValue, TableProperties};

/// Classes of indexes that another mechanism answers.
const LATER: [&str; 2] = ["vector_index", "fulltext_index"];
/// Names of Cassandra's storage-attached index; any case of the short ones.
const ATTACHED: [&str; 2] = ["sai", "storageattachedindex"];
const ATTACHED_IN_FULL: &str = "org.apache.cassandra.index.sai.StorageAttachedIndex";
/// Options that an index has without being given them.
const RESERVED: [&str; 2] = ["class_name", "index_version"];
/// Properties that only tables have.
const OF_TABLES: [&str; 5] = [
    "index_interval",
    "replicate_on_write",
    "populate_io_cache_on_flush",
    "read_repair_chance",
    "dclocal_read_repair_chance",
];

/// The changes of a `CREATE INDEX`.
pub(in crate::ddl) fn create(schema: &Schema, it: &CreateIndex, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.table, context)?;
    refuse_system(keyspace)?;
    let base = &need_table(schema, &it.table, context)?.schema;
    let named = it.name.as_ref().and_then(|name| name.keyspace.as_ref());
    if let Some(other) = named.filter(|named| named.text != keyspace) {
        return refuse(format!(
            "Keyspace name doesn't match index name: '{}' != '{keyspace}'",
            other.text
        ));
    }
    check_base(base)?;
    let (properties, options) = class_and_options(it)?;
    rules::check_place(schema, keyspace, context)?;
    let class = it.class.as_ref();
    let target = resolve(base, &it.targets, class.is_some())?;
    if class.is_some() && matches!(target.column.ty, Type::Vector { .. }) {
        return later("An index of vectors");
    }
    let name = match &it.name {
        Some(name) => name.name.text.clone(),
        None => free_name(schema, base, target.column.name.as_str()),
    };
    rules::check_name(&name, "index")?;
    let same = |index: &&Index| {
        let on = (&index.column, index.target, index.is_local);
        on == (&target.column.name, target.target, target.is_local)
    };
    if let Some(known) = indexed(schema, keyspace, &name) {
        // Who wants an index that cannot be made under this name is to hear of it.
        let is_it =
            known.schema.id == base.id && base.index_named(&name).is_some_and(|it| same(&it));
        return match it.if_not_exists && is_it {
            true => Ok(Vec::new()),
            false => refuse("Index already exists"),
        };
    }
    if let Some(same) = base.indexes.iter().find(same) {
        return match it.if_not_exists {
            true => Ok(Vec::new()),
            false => refuse(format!("Index {name} is a duplicate of existing index {}", same.name)),
        };
    }
    let index = Index {
        name,
        column: target.column.name.clone(),
        target: target.target,
        is_local: target.is_local,
        class: class.cloned(),
        options,
    };
    let view_name = index.view_name();
    if schema.table(keyspace, &view_name).is_some() {
        return refuse(format!(
            "Index {} cannot be created, because table {view_name} already exists",
            index.name
        ));
    }
    let view = view_of(schema, base, &target, &view_name, (&properties, context))?;
    let indexes = base.indexes.iter().cloned().chain([index]).collect();
    let table = with_indexes(base, indexes)?;
    Ok(vec![SchemaChange::AlterTable(table), SchemaChange::CreateTable(view)])
}

fn later<T>(what: &str) -> Result<T, Error> {
    refuse(format!("{what} is not supported yet"))
}

fn with_indexes(base: &TableSchema, indexes: Vec<Index>) -> Result<TableSchema, Error> {
    let built = base.edit().indexes(indexes).version(base.version).build();
    built.map_err(|invalid| Error::Invalid(invalid.0))
}

/// Says why a table has no indexes.
fn check_base(base: &TableSchema) -> Result<(), Error> {
    let what = if base.is_counter() {
        "counter tables"
    } else if base.view.is_some() {
        "materialized views"
    } else if base.log.is_some() {
        "CDC log tables"
    } else {
        return Ok(());
    };
    refuse(format!("Secondary indexes are not supported on {what}"))
}

/// The properties of the view, and the options that the index was given for its class.
fn class_and_options(it: &CreateIndex) -> Result<(TableProperties, Options), Error> {
    let mut properties = it.properties.clone();
    let of_class = properties.properties.iter().position(|it| it.name.text == "options");
    let given = of_class.map(|at| properties.properties.remove(at));
    let class = it.class.as_deref();
    let lower = class.unwrap_or_default().to_ascii_lowercase();
    match class {
        None if it.custom => return refuse("CUSTOM index requires specifying the index class"),
        None if given.is_some() => {
            return refuse("Cannot specify options for a non-CUSTOM index");
        }
        None => {}
        Some(_) if LATER.contains(&lower.as_str()) && !properties.properties.is_empty() => {
            return refuse(format!("You cannot use view properties with a {lower}"));
        }
        Some(_) if LATER.contains(&lower.as_str()) => return later(&format!("A {lower}")),
        Some(class) if ATTACHED.contains(&lower.as_str()) || class == ATTACHED_IN_FULL => {}
        Some(class) => return refuse(format!("Non-supported custom class '{class}' provided")),
    }
    let mut options = Options::new();
    if let Some(given) = given {
        if matches!(given.value, PropertyValue::Scalar(_)) {
            return Err(Error::Syntax(
                "Invalid value for property 'options'. It should be a map".to_owned(),
            ));
        }
        let of_class = [given];
        options = Properties(&of_class).map("options")?.unwrap_or_default();
    }
    if let Some(reserved) = RESERVED.iter().find(|it| options.iter().any(|(name, _)| name == *it)) {
        return refuse(format!("Cannot specify {reserved} as a CUSTOM option"));
    }
    let names = || properties.properties.iter().map(|it| it.name.text.as_str());
    if let Some(unknown) = names().find(|name| OF_TABLES.contains(name)) {
        return Err(Error::Syntax(format!("Unknown property '{unknown}'")));
    }
    if !properties.clustering_order.is_empty() {
        return refuse("Indexes do not allow for specifying the clustering order");
    }
    options.sort();
    Ok((properties, options))
}

/// A name for an index that has none: of table and column, and a number where that is taken.
fn free_name(schema: &Schema, base: &TableSchema, column: &str) -> String {
    let column = column.chars().filter(|it| it.is_ascii_alphanumeric() || *it == '_');
    let name = format!("{}_{}_idx", base.name, column.collect::<String>());
    let is_free = |name: &String| {
        let view = format!("{name}_index");
        indexed(schema, &base.keyspace, name).is_none()
            && schema.table(&base.keyspace, &view).is_none()
    };
    let numbered = (1..).map(|number: u64| format!("{name}_{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(is_free).expect("there are more numbers than indexes")
}

/// The view that answers an index.
fn view_of(
    schema: &Schema,
    base: &TableSchema,
    target: &Target<'_>,
    name: &str,
    (properties, context): (&TableProperties, &Context),
) -> Result<TableSchema, Error> {
    let options = rules::created(schema, properties, context)?;
    let builder = TableSchema::builder(&base.keyspace, name, options.id).options(options.table);
    let mut layout = Layout::new(builder);
    let column = target.column;
    let others = |columns: &[model::Column]| -> Vec<model::Column> {
        columns.iter().filter(|other| other.id != column.id).cloned().collect()
    };
    if target.is_local {
        for column in base.partition_key() {
            let ty = column.ty.clone();
            layout.change(|builder| builder.partition_key(&column.name, ty));
        }
        layout.clustering(column, Some(false));
    } else {
        add_indexed(&mut layout, base, target);
        let token = free_column(base, "idx_token");
        layout.computed(ColumnKind::Clustering, &token, Type::BigInt, Computed::Token);
        others(base.partition_key()).iter().for_each(|it| layout.clustering(it, None));
    }
    if column.kind != ColumnKind::Static {
        others(base.clustering()).iter().for_each(|it| layout.clustering(it, None));
    }
    if target.target == IndexTarget::ElementValues {
        let name = free_column(base, "keys_for_values_idx");
        let computed = Computed::KeyOfValue(column.name.clone());
        layout.computed(ColumnKind::Clustering, &name, key_type(&column.ty), computed);
    }
    if column.kind < ColumnKind::Static {
        base.regulars().iter().for_each(|column| layout.hide(column));
    }
    let where_clause = match target.target {
        IndexTarget::Values | IndexTarget::Full => {
            format!("\"{}\" IS NOT NULL", column.name.replace('"', "\"\""))
        }
        IndexTarget::Keys | IndexTarget::Entries | IndexTarget::ElementValues => String::new(),
    };
    layout.build(
        base,
        View {
            base: base.id,
            base_name: base.name.clone(),
            where_clause,
            synchronous: options.synchronous.or(target.is_local.then_some(true)),
            ..View::default()
        },
    )
}

/// Adds what is indexed, as the partition key of a view.
fn add_indexed(layout: &mut Layout, base: &TableSchema, target: &Target<'_>) {
    let Target { column, target, .. } = *target;
    let of = column.name.clone();
    let (ty, computed) = match target {
        IndexTarget::Values | IndexTarget::Full => {
            let ty = column.ty.clone();
            layout.change(|builder| builder.partition_key(&column.name, ty));
            return;
        }
        IndexTarget::Keys => (key_type(&column.ty), Computed::ElementKey(of)),
        IndexTarget::ElementValues => (value_type(&column.ty), Computed::ElementValue(of)),
        IndexTarget::Entries => {
            let parts = vec![key_type(&column.ty), value_type(&column.ty)];
            (Type::Tuple(parts), Computed::ElementEntry(of))
        }
    };
    let name = free_column(base, "coll_value");
    layout.computed(ColumnKind::PartitionKey, &name, ty, computed);
}

/// The type of the keys of a collection's cells.
fn key_type(ty: &Type) -> Type {
    match ty {
        Type::Set { element, .. } => (**element).clone(),
        Type::Map { key, .. } => (**key).clone(),
        _ => Type::TimeUuid,
    }
}

fn value_type(ty: &Type) -> Type {
    match ty {
        Type::List { element, .. } => (**element).clone(),
        Type::Map { value, .. } => (**value).clone(),
        other => other.clone(),
    }
}

/// A name like that which no column of the table has.
fn free_column(base: &TableSchema, name: &str) -> String {
    let numbered = (1..).map(|number: u32| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| base.column(name).is_none()).expect("there are more numbers than columns")
}

/// The changes of a `DROP INDEX`.
pub(in crate::ddl) fn drop(schema: &Schema, it: &Drop, context: &Context) -> Decision {
    let keyspace = named_keyspace(&it.name, context)?;
    refuse_system(keyspace)?;
    let name = it.name.name.text.as_str();
    let Some(base) = indexed(schema, keyspace, name).map(|entry| &entry.schema) else {
        if it.if_exists {
            return Ok(Vec::new());
        }
        need_keyspace(schema, keyspace)?;
        return refuse(format!(
            "Index '{name}' could not be found in any of the tables of keyspace '{keyspace}'"
        ));
    };
    let (gone, kept): (Vec<Index>, Vec<Index>) =
        base.indexes.iter().cloned().partition(|index| index.name == name);
    let mut changes = vec![SchemaChange::AlterTable(with_indexes(base, kept)?)];
    for view in gone.iter().map(Index::view_name) {
        let view = schema.table(keyspace, &view).map(|entry| &entry.schema);
        let is_its_own = |it: &&std::rc::Rc<TableSchema>| {
            it.view.as_ref().is_some_and(|view| view.base == base.id)
        };
        changes.extend(view.filter(is_its_own).map(|view| SchemaChange::DropTable {
            keyspace: view.keyspace.clone(),
            name: view.name.clone(),
        }));
    }
    Ok(changes)
}
