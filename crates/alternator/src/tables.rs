//! Operations on tables: made, described, listed, removed.
//!
//! A table gets a keyspace of its own, with as many copies as a keyspace of CQL would get that says
//! none: three where there are nodes for them, else one.

use crate::error::{Error, Kind};
use crate::extent::Extent;
use crate::index;
use crate::index_operations::{
    change_indexes, check_views, definitions, indexes, keys, with_indexes,
};
use crate::json::{Object, write_list, write_string};
use crate::node::{Caller, Node, changed};
use crate::properties::{self, Properties};
use crate::request::Request;
use crate::restored::{self, Restored};
use crate::seen::Seen;
use crate::streams::{self, Specification};
use crate::table::{ATTRIBUTES, KEYSPACE_PREFIX, Table, check_name};
use crate::table_facts::{arn, arn_of, context};
use crate::tag_operations::{change_tags, given_tags, kept};
use crate::tags::{self, Tags};
use crate::throughput;
use auth::{Permission, Resource};
use cluster::{Cluster, Schema, SchemaChange};
use model::schema::TableOptions;
use model::{Keyspace, TableId, TableSchema, Type};
use plan::ddl::{decide, table_defaults};
use syntax::Position;
use syntax::ast::{
    CreateKeyspace, Literal, LiteralKind, Name, Property, PropertyValue, SchemaStatement,
};

/// Copies of each item, where there are nodes enough.
const COPIES: usize = 3;
/// Names that are listed at once.
const NAMES_MAX: usize = 100;

/// The tag that says with how many tablets a table begins; what is no number means none.
const TABLETS_TAG: &str = "system:initial_tablets";

/// What a table is to be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    name: String,
    /// Names and types: hash, then range.
    keys: Vec<(String, Type)>,
    tags: Tags,
    stream: Option<Specification>,
    indexes: Vec<index::Wanted>,
    /// The backup that its items are of.
    pub(crate) restored: Option<Restored>,
    /// The import that its items are of, and the id that the table gets.
    pub(crate) import: Option<(String, TableId)>,
}

impl Wanted {
    /// What the table is to be called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// `CreateTable`
pub(crate) async fn create(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = make(node, caller, wanted(&request)?).await?;
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.json("TableDescription", &description(node, &table).await);
    object.close();
    Ok(out)
}

/// What DescribeTable tells of a table.
pub(crate) async fn description(node: &Node, table: &Table) -> String {
    let mut out = String::new();
    let seen = Seen::of(node, table).await;
    describe(node, table, ("ACTIVE", &seen), &mut out);
    out
}

/// Makes a table, for who may.
pub(crate) async fn make(node: &Node, caller: &Caller, wanted: Wanted) -> Result<Table, Error> {
    node.check_on(caller, Permission::Create, Resource::AllKeyspaces)?;
    node.cluster.formed().await;
    let mut keyspace = keyspace(node, &wanted.name)?;
    let said = wanted.tags.get(TABLETS_TAG);
    if let Some(said) = said {
        keyspace.initial_tablets = said.parse().ok();
    }
    let id = wanted.import.as_ref().map_or_else(Cluster::new_table_id, |(_, id)| *id);
    if !wanted.indexes.is_empty() {
        check_views(node)?;
        keyspace = with_indexes(node, keyspace, said.is_some())?;
    }
    let view_ids: Vec<_> = wanted.indexes.iter().map(|_| Cluster::new_table_id()).collect();
    let is_restored = wanted.restored.is_some();
    let exists = move |name: &str| {
        let kind = if is_restored { Kind::TableAlreadyExists } else { Kind::ResourceInUse };
        Error::new(kind, format!("Table {name} already exists: Table already exists: {name}"))
    };
    let asked = wanted.clone();
    let mut context = context(node);
    context.has_streams |= keyspace.initial_tablets.is_some();
    let options = table_defaults(&context.rules);
    let change = move |schema: &Schema| {
        if schema.keyspace(&keyspace.name).is_some() {
            return Err(exists(&asked.name));
        }
        let mut table = schema_of(&asked, (&keyspace.name, id), options.clone())?;
        if let Some(stream) = asked.stream {
            stream.apply(&mut table, runtime::time::wall_micros().div_euclid(1000))?;
        }
        let views = asked.indexes.iter().zip(&view_ids);
        let views =
            views.map(|(index, id)| Ok(SchemaChange::CreateTable(index.view(&table, *id)?)));
        let views = views.collect::<Result<Vec<_>, Error>>()?;
        let tables = std::iter::once(SchemaChange::CreateTable(table)).chain(views).collect();
        let tables = plan::ddl::with_logs(schema, tables, &context);
        let mut changes = vec![SchemaChange::CreateKeyspace(keyspace.clone())];
        changes.extend(tables.map_err(|error| Error::validation(error.to_string()))?);
        Ok(changes)
    };
    changed(node.cluster.change_schema_for(node.creator(caller), change).await)?;
    node.any_table(&wanted.name)
}

/// What a CreateTable wants.
pub(crate) fn wanted(request: &Request<'_>) -> Result<Wanted, Error> {
    let name = request.need_string("TableName")?.into_owned();
    check_name(&name)?;
    let definitions = definitions(request)?;
    let keys = keys(request, &definitions)?.all;
    if request.list("VectorIndexes")?.is_some_and(|list| list.elements().next().is_some()) {
        return Err(Error::validation("VectorIndexes are not supported yet"));
    }
    let indexes = indexes(request, (&name, &keys), &definitions)?;
    let of_indexes = indexes.iter().flat_map(|index| &index.keys.all);
    let used: Vec<&String> = keys.iter().chain(of_indexes).map(|(key, _)| key).collect();
    if let Some((name, _)) = definitions.iter().find(|(name, _)| !used.contains(&name)) {
        return Err(Error::validation(format!(
            "One or more parameter values were invalid: Some AttributeDefinitions are not used: \
             {name} is no key: number of attributes in KeySchema does not match"
        )));
    }
    refuse_enabled(request, "SSESpecification", "Enabled")?;
    let mut tags = match request.list("Tags")? {
        Some(list) => given_tags(list)?,
        None => Tags::new(),
    };
    kept(&tags)?;
    if let Some(throughput) = throughput::of(request)? {
        tags.insert(tags::THROUGHPUT.to_owned(), throughput);
    }
    let now = runtime::time::wall_micros().div_euclid(1000);
    Properties::asked(request)?.put(now, &mut tags);
    tags.insert(tags::CREATED.to_owned(), now.to_string());
    // No stream is what a table has anyway.
    let stream = streams::asked(request)?.filter(|it| *it != Specification::Close);
    Ok(Wanted { name, keys, tags, stream, indexes, restored: None, import: None })
}

/// What is there in ScyllaDB or in the service, and not here yet.
fn refuse_enabled(request: &Request<'_>, name: &str, flag: &str) -> Result<(), Error> {
    let Some(json) = request.object(name)? else { return Ok(()) };
    match Request::of(json, name)?.bool(flag)? {
        Some(true) => Err(Error::validation(format!("{name}: {flag} is not supported yet"))),
        _ => Ok(()),
    }
}

/// The keyspace of a table, decided as one of CQL is that says nothing but its copies.
pub(crate) fn keyspace(node: &Node, table: &str) -> Result<Keyspace, Error> {
    let cluster = &node.cluster;
    let context = context(node);
    let owners = context.data_centers.iter().map(|center| center.owners);
    let least = owners.filter(|owners| 0 < *owners).min();
    let copies = if COPIES <= least.unwrap_or(1) { COPIES } else { 1 };
    // A name that keyspaces of CQL may have; the true one has other letters, too.
    let text = format!("alternator{}", Cluster::new_table_id().simple());
    let statement = SchemaStatement::CreateKeyspace(CreateKeyspace {
        name: named(&text),
        if_not_exists: false,
        properties: vec![replication(copies)],
    });
    let changes = decide(&cluster.schema(), &statement, &context);
    let changes = changes.map_err(|error| Error::validation(error.to_string()))?;
    match changes.into_iter().next() {
        Some(SchemaChange::CreateKeyspace(keyspace)) => {
            Ok(Keyspace { name: format!("{KEYSPACE_PREFIX}{table}"), ..keyspace })
        }
        _ => Err(Error::internal("no keyspace was decided")),
    }
}

fn named(text: &str) -> Name {
    Name { text: text.to_owned(), at: Position::default() }
}

/// So many copies in each data centre.
fn replication(copies: usize) -> Property {
    let word = |text: &str| Literal { kind: LiteralKind::String, text: text.to_owned() };
    let pairs = vec![
        (word("class"), PropertyValue::Scalar(word("NetworkTopologyStrategy"))),
        (word("replication_factor"), PropertyValue::Scalar(word(&copies.to_string()))),
    ];
    Property { name: named("replication"), value: PropertyValue::Map(pairs) }
}

/// `options`: of tables of which nothing is said.
fn schema_of(
    wanted: &Wanted,
    (keyspace, id): (&str, TableId),
    mut options: TableOptions,
) -> Result<TableSchema, Error> {
    let mut builder = TableSchema::builder(keyspace, &wanted.name, id);
    let mut keys = wanted.keys.iter();
    if let Some((name, ty)) = keys.next() {
        builder = builder.partition_key(name, ty.clone());
    }
    for (name, ty) in keys {
        builder = builder.clustering(name, ty.clone());
    }
    let (key, value) = (Box::new(Type::Text), Box::new(Type::Blob));
    let map = Type::Map { key, value, frozen: false };
    let mut tags = wanted.tags.clone();
    if let Some(restored) = &wanted.restored {
        restored.put(&mut tags);
        restored::begin(&mut options);
    }
    if let Some((import, _)) = &wanted.import {
        restored::put_import(import, &mut tags);
        restored::begin(&mut options);
    }
    tags::set(&mut options, &tags);
    let built = builder.regular(ATTRIBUTES, map).options(options).build();
    built.map_err(|invalid| Error::validation(invalid.to_string()))
}

/// `UpdateTable`: how it is paid for, its properties, its stream, and its global indexes.
pub(crate) async fn update(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = node.settled_table(&request.need_string("TableName")?)?;
    table.writable()?;
    node.check(caller, Permission::Alter, &table)?;
    let others = ["SSESpecification", "ReplicaUpdates"];
    if let Some(name) = others.into_iter().find(|name| request.get(name).is_some()) {
        return Err(Error::validation(format!("UpdateTable: {name} is not supported yet")));
    }
    let is_paid = request.get("BillingMode").or(request.get("ProvisionedThroughput")).is_some();
    let throughput = if is_paid { Some(throughput::of(&request)?) } else { None };
    let properties = Properties::asked(&request)?;
    let stream = streams::asked(&request)?;
    let is_kept = is_paid || properties.is_any();
    let is_indexed = change_indexes(node, caller, (&table, &request)).await?;
    if !is_indexed && !is_kept && stream.is_none() {
        return Err(Error::validation(
            "UpdateTable: At least one of BillingMode, ProvisionedThroughput, StreamSpecification, \
             GlobalSecondaryIndexUpdates, DeletionProtectionEnabled and TableClass is required",
        ));
    }
    if is_kept {
        let now = runtime::time::wall_micros().div_euclid(1000);
        let change = move |tags: &mut Tags| {
            if let Some(throughput) = &throughput {
                tags.remove(tags::THROUGHPUT);
                tags.extend(throughput.clone().map(|units| (tags::THROUGHPUT.to_owned(), units)));
            }
            properties.put(now, tags);
        };
        change_tags(node, &table, change).await?;
    }
    if let Some(stream) = stream {
        streams::change(node, &table, stream).await?;
    }
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let table = node.table(&table.name)?;
    let seen = Seen::of(node, &table).await;
    describe(node, &table, ("ACTIVE", &seen), object.member("TableDescription"));
    object.close();
    Ok(out)
}

/// `DeleteTable`
pub(crate) async fn delete(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = node.any_table(&request.need_string("TableName")?)?;
    table.writable()?;
    node.check(caller, Permission::Drop, &table)?;
    properties::check_deletable(&table.entry.schema)?;
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    describe(node, &table, ("DELETING", &Seen::default()), object.member("TableDescription"));
    object.close();
    let (keyspace, id) = (table.entry.schema.keyspace.clone(), table.entry.schema.id);
    let name = table.name.clone();
    let change = move |schema: &Schema| {
        let gone = || Error::new(Kind::ResourceNotFound, format!("Table: {name} not found"));
        let entry = schema.table_by_id(id).ok_or_else(gone)?;
        properties::check_deletable(&entry.schema)?;
        Ok(vec![SchemaChange::DropKeyspace(keyspace.clone())])
    };
    changed(node.cluster.change_schema(change).await)?;
    Ok(out)
}

/// `DescribeTable`
pub(crate) async fn describe_one(
    node: &Node,
    caller: &Caller,
    body: &str,
) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = node.any_table(&request.need_string("TableName")?)?;
    let _ = caller;
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.json("Table", &description(node, &table).await);
    object.close();
    Ok(out)
}

/// Appends the description of a table: what it does, and what was seen of it.
fn describe(node: &Node, table: &Table, (status, seen): (&str, &Seen), out: &mut String) {
    let schema = &table.entry.schema;
    let tags = tags::of(schema);
    let mut object = Object::open(out);
    let status = restored::status(schema, status);
    object.string("TableName", &table.name).string("TableStatus", status);
    object.string("TableId", &schema.id.to_string()).string("TableArn", &arn(node, table));
    let is_going = status == "DELETING";
    let created = tags.get(tags::CREATED).and_then(|millis| millis.parse::<i64>().ok());
    let created = created.unwrap_or(0);
    let seconds = format!("{}.{:03}", created.div_euclid(1000), created.rem_euclid(1000));
    throughput::write(tags.get(tags::THROUGHPUT).map(String::as_str), created, &mut object);
    if is_going {
        return object.close();
    }
    object.json("CreationDateTime", &seconds);
    properties::write(&tags, &mut object);
    restored::describe(schema, &tags, |name| arn_of(node, name), &mut object);
    index::write_keys(table.key_columns(), object.member("KeySchema"));
    let keys = table.key_columns().iter().chain(&*table.indexed);
    index::write_definitions(keys, object.member("AttributeDefinitions"));
    streams::write_latest(node, table, &mut object);
    let catalog = node.schema();
    let all: Vec<_> = index::all(&catalog, schema, &table.entry.views).collect();
    for (list, is_local) in [("GlobalSecondaryIndexes", false), ("LocalSecondaryIndexes", true)] {
        let those = || all.iter().filter(|(index, _)| index.is_local == is_local);
        if those().next().is_some() {
            write_list(those(), object.member(list), |(index, view), out| {
                let id = view.schema.id;
                let seen = (seen.is_built(id), seen.extent(id));
                index.describe(&view.schema, &arn(node, table), seen, out);
            });
        }
    }
    let Extent { items, bytes } = seen.extent(schema.id);
    object.json("ItemCount", &items.to_string()).json("TableSizeBytes", &bytes.to_string());
    object.close();
}

/// `ListTables`
pub(crate) fn list(node: &Node, _: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let limit = request.limit(NAMES_MAX)?;
    let start = request.string("ExclusiveStartTableName")?;
    let schema = node.schema();
    let tables = schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
    let mut names: Vec<String> =
        tables.filter_map(|entry| Table::of(&schema, entry)).map(|table| table.name).collect();
    names.sort_unstable();
    names.retain(|name| start.as_deref().is_none_or(|start| start < name.as_str()));
    let more = (limit) < names.len();
    names.truncate(limit);
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write_list(&names, object.member("TableNames"), |name, out| write_string(name, out));
    if let (true, Some(last)) = (more, names.last()) {
        object.string("LastEvaluatedTableName", last);
    }
    object.close();
    Ok(out)
}
