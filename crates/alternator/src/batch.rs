//! `BatchGetItem` and `BatchWriteItem`.
//!
//! Invariants
//!  - *each-alone*: the writes of a batch are independent of each other: some may be made and
//!    others not, and then the batch is an error and may be tried again.
//!  - *no-item-twice*: a batch that names an item twice is refused.

use crate::capacity::{Capacity, write_consumed};
use crate::error::Error;
use crate::filter::{Filter, selection_of};
use crate::json::{Cursor, Json, Kind, Object};
use crate::key::Key;
use crate::led::item_of;
use crate::met::Op;
use crate::node::{Caller, Node};
use crate::options::Isolation;
use crate::owner::execute;
use crate::paths;
use crate::request::{self, Request};
use crate::row::{Moment, Row, command_of_item, mutation};
use crate::table::Table;
use crate::traced;
use crate::value::{Map, item_size, take_attributes, write_attributes};
use crate::write::{Operation, Write};
use auth::Permission;
use mutation::page::PageView;
use replication::{BatchEntry, BatchKind, WriteKind};
use runtime::task::join_all;
use std::collections::BTreeMap;
use stdx::HashSet;

/// Items of a read.
const KEYS_MAX: usize = 100;
/// Partitions that are read at the same time.
const READS_AT_ONCE: usize = 16;

/// A write of a batch.
struct Part<'a> {
    table: Table,
    operation: Operation,
    counts_as: Op,
    key: Key,
    /// Bytes of the item that the request has, and of the part of the request that it comes from.
    bytes: usize,
    text_bytes: usize,
    made: Made<'a>,
}

/// What is done for a part.
enum Made<'a> {
    /// It is decided, without the item as it is, and is written with the others; `None`: nothing.
    Plain(Option<BatchEntry>),
    /// It is a round of its own, which is told the parameters.
    Round(Box<Write>, Json<'a>),
}

/// `BatchWriteItem`
pub(crate) async fn write(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let capacity = Capacity::of(&request)?;
    let parts = parts(node, caller, &request)?;
    let before = match node.options.force_read_before_write.get() {
        true => Some(sizes_before(node, &parts).await?),
        false => None,
    };
    let consumed = count(node, &parts, before.as_deref());
    let mut plain = Vec::with_capacity(parts.len());
    for Part { table, operation, made, .. } in parts {
        match made {
            Made::Plain(entry) => plain.extend(entry),
            Made::Round(write, parameters) => {
                execute((node, caller), &table, (operation, *write), parameters.text()).await?;
            }
        }
    }
    if !plain.is_empty() {
        write_plainly(node, plain).await?;
        caller.tell(node, || traced::HAS_WRITTEN.to_owned());
    }
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.json("UnprocessedItems", "{}");
    write_consumed(capacity, &consumed, &mut object);
    object.close();
    Ok(out)
}

/// Puts items into a table, each at its moment, whatever the table's isolation says.
pub(crate) async fn put<'w>(
    node: &Node,
    table: &Table,
    writes: impl Iterator<Item = (&'w Write, Moment)>,
) -> Result<(), Error> {
    let mut plain = Vec::new();
    for (write, moment) in writes {
        plain.extend(entry(table, write, moment)?);
    }
    write_plainly(node, plain).await
}

/// A write that does not read, as part of a batch of the replicas.
fn entry(table: &Table, write: &Write, moment: Moment) -> Result<Option<BatchEntry>, Error> {
    let decision = write.decide(None)?;
    let mutation = mutation(table, &write.key, &decision.change, moment)?;
    let (table, token) = (&table.entry, write.key.token());
    Ok(mutation.map(|mutation| BatchEntry { table: table.clone(), token, mutation }))
}

/// *each-alone*
async fn write_plainly(node: &Node, entries: Vec<BatchEntry>) -> Result<(), Error> {
    let options = node.write_options(WriteKind::UnloggedBatch);
    Ok(node.coordinator.write_batch(BatchKind::Unlogged, entries, &options).await?)
}

/// Counts the writes of a batch: the half units that they take, by table. `before`: the sizes of
/// their items as they were, where these were read.
fn count(node: &Node, parts: &[Part<'_>], before: Option<&[usize]>) -> BTreeMap<String, usize> {
    let mut consumed = BTreeMap::<String, usize>::new();
    let id = |part: &Part<'_>| part.table.entry.schema.id;
    let mut at = 0;
    for of_table in parts.chunk_by(|a, b| id(a) == id(b)) {
        let name = &of_table[0].table.name;
        let counted = node.met.of_table(id(&of_table[0]), name);
        counted.batch(Op::BATCH_WRITE, of_table.len());
        let mut of_all = 0;
        for part in of_table {
            let larger = before.map(|before| part.bytes.max(before[at]));
            at += 1;
            of_all += Capacity::of_write(larger.unwrap_or(part.text_bytes));
            // Those by rounds are counted when they are judged.
            if let Made::Plain(_) = part.made {
                let larger = larger.unwrap_or(part.bytes);
                for counted in [&node.met.all, &*counted] {
                    counted.written(part.operation.op(), Capacity::of_write(larger));
                    counted.sized(part.counts_as, larger);
                }
            }
        }
        *consumed.entry(name.clone()).or_default() += of_all;
    }
    node.met.all.batch(Op::BATCH_WRITE, parts.len());
    consumed
}

/// The sizes of the items that a batch writes, as they are.
async fn sizes_before(node: &Node, parts: &[Part<'_>]) -> Result<Vec<usize>, Error> {
    let mut sizes = Vec::with_capacity(parts.len());
    for some in parts.chunks(READS_AT_ONCE) {
        let reads = some.iter().map(|Part { table, key, .. }| async move {
            let command = command_of_item(table, key);
            let page = node.read(table, key.token(), &command, true).await?;
            Ok::<_, Error>(item_of(table, &command, &page)?.as_ref().map_or(0, item_size))
        });
        for size in join_all(reads).await {
            sizes.push(size?);
        }
    }
    Ok(sizes)
}

fn no_items() -> Error {
    Error::validation(
        "1 validation error detected: Value '{}' at 'requestItems' failed to satisfy constraint: \
         Member must have length greater than or equal to 1",
    )
}

/// The writes of a request. (*no-item-twice*)
fn parts<'a>(node: &Node, caller: &Caller, request: &Request<'a>) -> Result<Vec<Part<'a>>, Error> {
    let mut parts = Vec::new();
    let most = node.options.batch_items_max();
    let mut json = request.need_object("RequestItems")?.cursor();
    json.open();
    while let Some(name) = json.member() {
        let table = node.table(&name)?;
        node.check(caller, Permission::Modify, &table)?;
        let before = parts.len();
        if json.kind() == Kind::Array {
            json.open();
            while json.element() {
                let part = part(node, &table, &mut json)?;
                if parts.len() == most {
                    return Err(Error::validation(format!(
                        "Invalid length of BatchWriteItem command, got more items than the maximum \
                         {most} (from configuration variable alternator_max_items_in_batch_write)"
                    )));
                }
                parts.push(part);
            }
        } else {
            json.value();
        }
        if parts.len() == before {
            return Err(no_items());
        }
    }
    match has_twice(&parts) {
        _ if parts.is_empty() => Err(no_items()),
        true => Err(Error::validation("Provided list of item keys contains duplicates")),
        false => Ok(parts),
    }
}

fn has_twice(parts: &[Part<'_>]) -> bool {
    let mut seen = HashSet::default();
    let places = parts.iter().map(|part| {
        let Key { partition, clustering } = &part.key;
        (part.table.entry.schema.id, partition, clustering)
    });
    !places.into_iter().all(|place| seen.insert(place))
}

/// The write that is taken next. Each byte of it is looked at once.
fn part<'a>(node: &Node, table: &Table, json: &mut Cursor<'a>) -> Result<Part<'a>, Error> {
    let unknown = || {
        Error::validation("Supplied WriteRequest is empty or unknown: PutRequest or DeleteRequest")
    };
    if json.kind() != Kind::Object {
        return Err(unknown());
    }
    json.open();
    let name = json.member().ok_or_else(unknown)?;
    let (operation, what) = match &*name {
        "PutRequest" => (Operation::Put, "Item"),
        "DeleteRequest" => (Operation::Delete, "Key"),
        _ => return Err(unknown()),
    };
    let start = json.clone();
    let given = parameter(json, &name, what)?;
    let parameters = json.since(&start);
    if json.member().is_some() {
        return Err(Error::validation(
            "Supplied AttributeValue has more than one datatypes set: a WriteRequest is one \
             PutRequest or one DeleteRequest",
        ));
    }
    let write = match operation {
        Operation::Put => Write::put(table, given)?,
        _ => Write::delete(table, given)?,
    };
    let (bytes, counts_as, key) = (write.bytes(), write.counts_as, write.key.clone());
    let made = match node.isolation(table) {
        Isolation::Always => Made::Round(Box::new(write), parameters),
        _ => Made::Plain(entry(table, &write, Moment::of(node.timestamp()))?),
    };
    let text_bytes = parameters.text().len();
    Ok(Part { table: table.clone(), operation, counts_as, key, bytes, text_bytes, made })
}

/// The attributes that the object which is taken next has under a name.
fn parameter(json: &mut Cursor<'_>, of: &str, name: &str) -> Result<Map, Error> {
    request::check_object(json.kind(), of)?;
    let mut found = None;
    json.open();
    while let Some(known) = json.member() {
        match found.is_none() && known == name && json.kind() != Kind::Null {
            true if json.kind() == Kind::Object => found = Some(take_attributes(json, 1)?),
            true => return Err(request::wrong(name, json.value(), "an object")),
            false => drop(json.value()),
        }
    }
    found.ok_or_else(|| request::missing(name))
}

/// What is read of a table.
struct Wanted {
    table: Table,
    keys: Vec<Key>,
    filter: Filter,
    consistent: bool,
}

/// `BatchGetItem`
pub(crate) async fn get(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let capacity = Capacity::of(&request)?;
    let mut count = 0;
    let mut all = Vec::new();
    for (name, json) in request.need_object("RequestItems")?.members() {
        let wanted = wanted(node, &name, json)?;
        node.check(caller, Permission::Select, &wanted.table)?;
        count += wanted.keys.len();
        if KEYS_MAX < count {
            return Err(Error::validation(format!(
                "Too many items requested for the BatchGetItem call: the length of the list is \
                 {KEYS_MAX} at most"
            )));
        }
        all.push(wanted);
    }
    if count == 0 {
        return Err(no_items());
    }
    let mut consumed = BTreeMap::new();
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    node.met.all.batch(Op::BATCH_GET, count);
    let mut tables = Object::open(object.member("Responses"));
    for wanted in &all {
        caller.tell(node, || traced::READING.to_owned());
        let (items, halves) = read(node, wanted).await?;
        caller.tell(node, || traced::HAS_READ.to_owned());
        tables.json(&wanted.table.name, &format!("[{}]", items.join(",")));
        consumed.insert(wanted.table.name.clone(), halves);
    }
    tables.close();
    object.json("UnprocessedKeys", "{}");
    write_consumed(capacity, &consumed, &mut object);
    object.close();
    Ok(out)
}

fn wanted(node: &Node, name: &str, json: Json<'_>) -> Result<Wanted, Error> {
    let table = node.table(name)?;
    let request = Request::of(json, "RequestItems")?;
    request.check_styles(&["AttributesToGet"], &["ProjectionExpression"])?;
    let known = request.placeholders(&node.programs)?;
    let filter = Filter { selection: selection_of(&request, &known)?, ..Filter::default() };
    known.check_used()?;
    paths::check_read(&table, filter.selection.as_ref(), None)?;
    let consistent = request.bool("ConsistentRead")?.unwrap_or(false);
    let list = request.list("Keys")?.ok_or_else(no_items)?;
    let mut keys = Vec::new();
    for json in list.elements() {
        let (key, _) = Key::of_parameter(&table, json)?;
        if keys.contains(&key) {
            return Err(Error::validation("Provided list of item keys contains duplicates"));
        }
        keys.push(key);
    }
    if keys.is_empty() { Err(no_items()) } else { Ok(Wanted { table, keys, filter, consistent }) }
}

/// The items that are there, as JSON, and the half units that they take.
async fn read(node: &Node, wanted: &Wanted) -> Result<(Vec<String>, usize), Error> {
    let (mut items, mut halves) = (Vec::new(), 0);
    let of_table = node.met.of_table(wanted.table.entry.schema.id, &wanted.table.name);
    of_table.batch(Op::BATCH_GET, wanted.keys.len());
    let both = [&node.met.all, &*of_table];
    for keys in wanted.keys.chunks(READS_AT_ONCE) {
        let reads = keys.iter().map(|key| read_one(node, wanted, key));
        for found in join_all(reads).await {
            let (item, bytes) = found?;
            halves += Capacity::of_read(bytes, wanted.consistent);
            both.iter().for_each(|counted| counted.sized(Op::BATCH_GET, bytes));
            items.extend(item);
        }
    }
    both.iter().for_each(|counted| counted.read(halves));
    Ok((items, halves))
}

async fn read_one(
    node: &Node,
    wanted: &Wanted,
    key: &Key,
) -> Result<(Option<String>, usize), Error> {
    let Wanted { table, filter, consistent, .. } = wanted;
    let command = command_of_item(table, key);
    let page = node.read(table, key.token(), &command, *consistent).await?;
    let view = PageView::trusted(&page.bytes, command.layout());
    let Some(partition) = view.partitions().next() else { return Ok((None, 0)) };
    let Some(row) = partition.rows().next() else { return Ok((None, 0)) };
    let row = Row::new(table, &partition, &row);
    let mut out = String::new();
    match &filter.selection {
        None => row.write(&mut out)?,
        Some(selection) => write_attributes(&selection.of_item(&row.item()?), &mut out),
    }
    Ok((Some(out), row.size()))
}
