//! Where backups are known: an item each of a table of the nodes, in the form that tables of the
//! API have, made with the first backup.
//!
//! They are rows and no part of the catalog: the catalog is in the memory of each shard of each
//! node, a change of it is shown on all of them before anything goes on, and backups grow in number
//! without a bound and are looked at rarely. All of them are one partition, so that what changes
//! one is a round of that partition, and a list is a read in order of time. Another partition has
//! how far restores are, for whoever drives one next.
//!
//! Invariants
//!  - *one-step*: a backup goes from one status to the next by a conditional write. Who finds
//!    another status than he thought leaves it as it is.
//!  - *known-first*: a backup is written down before any node takes a part of it, and forgotten
//!    when no node has one. So a part that nobody knows of is nowhere.

use super::record::{Record, Status, quoted};
use crate::error::{Error, Kind};
use crate::json::Object;
use crate::key::Key;
use crate::led::item_of;
use crate::node::{Node, changed};
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
use model::{Keyspace, TableId, TableSchema, Type, Uuid};
use mutation::page::{PageView, Partitions, SendRange};

/// The table's name.
const TABLE: &str = "backups";
/// Its hash key, and the values that it has: of backups, and of tables that are being restored.
const KIND: &str = "kind";
const BACKUP: &str = "backup";
const RESTORE: &str = "restore";
/// Its range key.
const ID: &str = "id";
/// Of a table that is being restored: the parts that are in it, each as a node and a number.
const DONE: &str = "done";

/// What has to be so before a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// There is none of its id.
    Absent,
    Was(Status),
}

/// The table, if there was ever a backup.
fn table(node: &Node) -> Option<Table> {
    let schema = node.schema();
    schema.table(BACKUPS, TABLE).and_then(Table::of_nodes)
}

/// Makes the table, if it is not there yet.
pub(super) async fn make_table(node: &Node) -> Result<(), Error> {
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

fn key(id: &str) -> Map {
    key_of(BACKUP, id)
}

fn key_of(kind: &str, id: &str) -> Map {
    let text = |text: &str| Value::S(text.to_owned());
    Map::from([(KIND.to_owned(), text(kind)), (ID.to_owned(), text(id))])
}

/// Writes a record down, if what is there is as it should be; whether it is. (*one-step*)
pub(super) async fn write(node: &Node, record: &Record, before: Before) -> Result<bool, Error> {
    let mut item = record.attributes();
    item.extend(key(&record.id));
    let mut body = String::new();
    let mut object = Object::open(&mut body);
    write_attributes(&item, object.member("Item"));
    add_condition(before, &mut object);
    object.close();
    make(node, Operation::Put, &body).await
}

/// Forgets a record that has the status; whether it had.
pub(super) async fn forget(node: &Node, id: &str, was: Status) -> Result<bool, Error> {
    let mut body = String::new();
    let mut object = Object::open(&mut body);
    write_attributes(&key(id), object.member("Key"));
    add_condition(Before::Was(was), &mut object);
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
            let value = format!("{{\":s\":{{\"S\":{}}}}}", quoted(status.name()));
            object.json("ExpressionAttributeValues", &value);
        }
    }
}

async fn make(node: &Node, operation: Operation, body: &str) -> Result<bool, Error> {
    let table = table(node).ok_or_else(|| Error::internal("there is no table of backups"))?;
    let request = Request::parse(body.as_bytes())?;
    let write = Write::of(operation, &request, &table, &node.programs)?;
    match execute(node, &table, (operation, write), body).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind == Kind::ConditionalCheckFailed => Ok(false),
        Err(error) => Err(error),
    }
}

/// The record of an id.
pub(super) async fn find(node: &Node, id: &str) -> Result<Option<Record>, Error> {
    let Some(table) = table(node) else { return Ok(None) };
    let key = Key::of_key(&table, &key(id))?;
    let command = command_of_item(&table, &key);
    let page = node.read(&table, key.token(), &command, true).await?;
    let Some(item) = item_of(&table, &command, &page)? else { return Ok(None) };
    Record::of(id, &item).map(Some).ok_or_else(|| damaged(id))
}

/// Those that are admitted behind an id, in order of ids, so many at most; and whether there are
/// more.
pub(super) async fn list(
    node: &Node,
    after: Option<&str>,
    most: usize,
    admits: impl Fn(&Record) -> bool,
) -> Result<(Vec<Record>, bool), Error> {
    let mut found = Vec::new();
    let Some(table) = table(node) else { return Ok((found, false)) };
    let start = Key::of_key(&table, &key(after.unwrap_or_default()));
    // No id is empty, and no key may be.
    let start = if after.is_some() { Some(start?) } else { None };
    let any = Key::of_key(&table, &key("0"))?;
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
                let Some(record) = Record::of(id, &item) else {
                    tracing::warn!(target: "backups", "{}", damaged(id).message);
                    continue;
                };
                if admits(&record) {
                    if found.len() == most {
                        return Ok((found, true));
                    }
                    found.push(record);
                }
            }
        }
        command.resume = page.resume;
        if command.resume.is_none() {
            return Ok((found, false));
        }
    }
}

/// Writes down that what a node had in one part is in a table that is being restored.
pub(super) async fn note_done(
    node: &Node,
    table: TableId,
    (host, part): (Uuid, u8),
) -> Result<(), Error> {
    let mut body = String::new();
    let mut object = Object::open(&mut body);
    write_attributes(&key_of(RESTORE, &table.to_string()), object.member("Key"));
    object.string("UpdateExpression", "ADD #d :d");
    object.json("ExpressionAttributeNames", &format!("{{\"#d\":{}}}", quoted(DONE)));
    let set = Value::SS(vec![format!("{host} {part}")]);
    write_attributes(
        &Map::from([(":d".to_owned(), set)]),
        object.member("ExpressionAttributeValues"),
    );
    object.close();
    make(node, Operation::Update, &body).await.map(drop)
}

/// What was written down of a table; what is damaged was not.
pub(super) async fn done(node: &Node, id: TableId) -> Result<Vec<(Uuid, u8)>, Error> {
    let Some(table) = table(node) else { return Ok(Vec::new()) };
    let key = Key::of_key(&table, &key_of(RESTORE, &id.to_string()))?;
    let command = command_of_item(&table, &key);
    let page = node.read(&table, key.token(), &command, true).await?;
    let item = item_of(&table, &command, &page)?.unwrap_or_default();
    let Some(Value::SS(all)) = item.get(DONE) else { return Ok(Vec::new()) };
    let one = |text: &String| {
        let (host, part) = text.split_once(' ')?;
        Some((Uuid::parse_str(host).ok()?, part.parse().ok()?))
    };
    Ok(all.iter().filter_map(one).collect())
}

/// Forgets what was written down of a table.
pub(super) async fn forget_done(node: &Node, id: TableId) -> Result<(), Error> {
    let mut body = String::new();
    let mut object = Object::open(&mut body);
    write_attributes(&key_of(RESTORE, &id.to_string()), object.member("Key"));
    object.close();
    make(node, Operation::Delete, &body).await.map(drop)
}

fn damaged(id: &str) -> Error {
    Error::internal(format!("what is known of the backup {id} is damaged"))
}
