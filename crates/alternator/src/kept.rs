//! What the nodes keep of backups, imports and exports: an item each of a table of their own, in
//! the form that tables of the API have, made with the first of them.
//!
//! They are rows and no part of the catalog: the catalog is in the memory of each shard of each
//! node, a change of it is shown on all of them before anything goes on, and these grow in number
//! without a bound and are looked at rarely. All of a kind are one partition, so that what changes
//! one is a round of that partition, and a list is a read in order of time.
//!
//! Invariants
//!  - *one-step*: an item goes from one status to the next by a conditional write. Who finds
//!    another status than he thought leaves it as it is.

use crate::error::{Error, Kind as ErrorKind};
use crate::json::{Object, write_string};
use crate::key::Key;
use crate::led::item_of;
use crate::node::{Caller, Node, changed};
use crate::options::ISOLATION_TAG;
use crate::owner::execute;
use crate::query::resume_after;
use crate::request::Request;
use crate::row::{Row, command, command_of_item};
use crate::table::{ATTRIBUTES, Table};
use crate::tables::keyspace;
use crate::tags::{self, Tags};
use crate::value::{Map, Value, write_attributes};
use crate::write::{Operation, Write};
use cluster::system_tables::BACKUPS;
use cluster::{Cluster, Schema, SchemaChange};
use model::schema::TableOptions;
use model::{Keyspace, TableId, TableSchema, Type};
use mutation::page::{PageView, Partitions, SendRange};

/// The table's name.
const TABLE: &str = "backups";
/// Its hash key.
const KIND: &str = "kind";
/// Its range key.
const ID: &str = "id";

/// What an item is of: the value of the hash key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Backup,
    /// A backup that nobody has asked for, of a table that can be recovered to points in time.
    Base,
    /// A table that is being restored.
    Restore,
    Import,
    Export,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Backup => "backup",
            Kind::Base => "base",
            Kind::Restore => "restore",
            Kind::Import => "import",
            Kind::Export => "export",
        }
    }
}

/// What has to be so before an item is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// There is none of its id.
    Absent,
    /// Its attribute `status` is this.
    Was(&'static str),
}

/// The table, if there was ever anything to keep.
fn table(node: &Node) -> Option<Table> {
    let schema = node.schema();
    schema.table(BACKUPS, TABLE).and_then(Table::of_nodes)
}

/// Makes the table, if it is not there yet.
pub(crate) async fn make_table(node: &Node) -> Result<(), Error> {
    if table(node).is_some() {
        return Ok(());
    }
    let backups = Keyspace { name: BACKUPS.to_owned(), ..keyspace(node, BACKUPS)? };
    let id = Cluster::new_table_id();
    let change = move |schema: &Schema| {
        let mut changes = Vec::new();
        if schema.keyspace(BACKUPS).is_none() {
            changes.push(SchemaChange::CreateKeyspace(backups.clone()));
        }
        if schema.table(BACKUPS, TABLE).is_none() {
            changes.push(SchemaChange::CreateTable(schema_of(id)?));
        }
        Ok::<_, Error>(changes)
    };
    changed(node.cluster.change_schema(change).await).map(drop)
}

fn schema_of(id: TableId) -> Result<TableSchema, Error> {
    let (key, value) = (Box::new(Type::Text), Box::new(Type::Blob));
    let map = Type::Map { key, value, frozen: false };
    let mut options = TableOptions::new();
    // *one-step*, whatever the option of the API says.
    tags::set(&mut options, &Tags::from([(ISOLATION_TAG.to_owned(), "always_use_lwt".to_owned())]));
    options.comment = "Backups of the DynamoDB API".to_owned();
    let builder = TableSchema::builder(BACKUPS, TABLE, id).partition_key(KIND, Type::Text);
    let builder = builder.clustering(ID, Type::Text).regular(ATTRIBUTES, map).options(options);
    builder.build().map_err(|invalid| Error::internal(invalid.to_string()))
}

fn key((kind, id): (Kind, &str)) -> Map {
    let text = |text: &str| Value::S(text.to_owned());
    Map::from([(KIND.to_owned(), text(kind.name())), (ID.to_owned(), text(id))])
}

/// Writes an item down, if what is there is as it should be; whether it is. (*one-step*)
/// `attributes`: all but the key.
pub(crate) async fn put(
    node: &Node,
    place: (Kind, &str),
    attributes: Map,
    before: Before,
) -> Result<bool, Error> {
    let mut item = attributes;
    item.extend(key(place));
    let mut body = String::new();
    let mut object = Object::open(&mut body);
    write_attributes(&item, object.member("Item"));
    add_condition(before, &mut object);
    object.close();
    make(node, Operation::Put, &body).await
}

/// Forgets an item that has the status, or that of any; whether it had.
pub(crate) async fn forget(
    node: &Node,
    place: (Kind, &str),
    was: Option<&'static str>,
) -> Result<bool, Error> {
    let mut body = String::new();
    let mut object = Object::open(&mut body);
    write_attributes(&key(place), object.member("Key"));
    if let Some(was) = was {
        add_condition(Before::Was(was), &mut object);
    }
    object.close();
    make(node, Operation::Delete, &body).await
}

fn add_condition(before: Before, object: &mut Object<'_>) {
    match before {
        Before::Absent => {
            object.string("ConditionExpression", "attribute_not_exists(id)");
        }
        Before::Was(status) => {
            object.string("ConditionExpression", "#s = :s");
            object.json("ExpressionAttributeNames", "{\"#s\":\"status\"}");
            let value = format!("{{\":s\":{{\"S\":{}}}}}", quoted(status));
            object.json("ExpressionAttributeValues", &value);
        }
    }
}

/// Adds a text to a set of texts, which is an attribute of an item.
pub(crate) async fn add(
    node: &Node,
    place: (Kind, &str),
    (attribute, text): (&str, String),
) -> Result<(), Error> {
    let mut body = String::new();
    let mut object = Object::open(&mut body);
    write_attributes(&key(place), object.member("Key"));
    object.string("UpdateExpression", "ADD #d :d");
    object.json("ExpressionAttributeNames", &format!("{{\"#d\":{}}}", quoted(attribute)));
    let set = Value::SS(vec![text]);
    write_attributes(
        &Map::from([(":d".to_owned(), set)]),
        object.member("ExpressionAttributeValues"),
    );
    object.close();
    make(node, Operation::Update, &body).await.map(drop)
}

async fn make(node: &Node, operation: Operation, body: &str) -> Result<bool, Error> {
    let table = table(node).ok_or_else(|| Error::internal("there is no table of backups"))?;
    let request = Request::parse(body)?;
    let write = Write::of(operation, &request, &table, &node.programs)?;
    match execute((node, &Caller::default()), &table, (operation, write), body).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind == ErrorKind::ConditionalCheckFailed => Ok(false),
        Err(error) => Err(error),
    }
}

/// The item of an id.
pub(crate) async fn find(node: &Node, place: (Kind, &str)) -> Result<Option<Map>, Error> {
    let Some(table) = table(node) else { return Ok(None) };
    let key = Key::of_key(&table, &key(place))?;
    let command = command_of_item(&table, &key);
    let page = node.read(&table, key.token(), &command, true).await?;
    item_of(&table, &command, &page)
}

/// What `take` makes of items of a kind behind an id, in order of ids, of so many at most; and
/// whether it makes something of more.
pub(crate) async fn list<T>(
    node: &Node,
    (kind, after): (Kind, Option<&str>),
    most: usize,
    take: impl Fn(&str, &Map) -> Option<T>,
) -> Result<(Vec<T>, bool), Error> {
    let mut found = Vec::new();
    let Some(table) = table(node) else { return Ok((found, false)) };
    let start = Key::of_key(&table, &key((kind, after.unwrap_or_default())));
    // No id is empty, and no key may be.
    let start = if after.is_some() { Some(start?) } else { None };
    let any = Key::of_key(&table, &key((kind, "0")))?;
    let partitions = Partitions::Key(any.partition.clone());
    let mut command = command(&table, partitions, vec![SendRange::full()]);
    command.tombstone_limit = u64::MAX;
    command.resume = start.map(|key| resume_after(key, false));
    loop {
        let page = node.read(&table, any.token(), &command, true).await?;
        let view = PageView::trusted(&page.bytes, command.layout());
        for partition in view.partitions() {
            for row in partition.rows() {
                let item = Row::new(&table, &partition, &row).item()?;
                let Some(Value::S(id)) = item.get(ID) else { continue };
                if let Some(taken) = take(id, &item) {
                    if found.len() == most {
                        return Ok((found, true));
                    }
                    found.push(taken);
                }
            }
        }
        command.resume = page.resume;
        if command.resume.is_none() {
            return Ok((found, false));
        }
    }
}

/// The text of a value of a request in which names of strings are told.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    write_string(text, &mut out);
    out
}
