//! What transactions do in one partition, on the shard that owns it, of the node that leads its
//! rounds.
//!
//! ```text
//! request := 1 16 transaction:16 items       hold; items: JSON, as of TransactWriteItems
//!          | 1 17 items                      look; items: JSON, as of TransactGetItems
//!          | 1 18 transaction:16 items       look, and hold
//! held    := 0 part | 1 (result:be32_bytes)* | 2     (2: by somebody else, or nobody knows)
//! looked  := 0 (part:be32_bytes) (version:32 item:be32_bytes)*
//!                                           (part: empty where nothing is held; item: JSON, empty
//!                                           where there is none)
//! failed  := 3 result
//! result  := as in [`crate::owner`]
//! ```
//!
//! Invariants
//!  - *judged-as-held*: what a part makes of its partition depends on what was read in the round in
//!    which the partition was held.
//!  - *as-it-was*: equal versions are of the same writes, and so of the same items.

use crate::error::{Error, Kind};
use crate::json::Json;
use crate::key::Key;
use crate::led::{decode_result, encode_result, item_of};
use crate::node::Node;
use crate::request::Request;
use crate::row::{Moment, Row, command_of_item, joined, mutation};
use crate::table::Table;
use crate::write::{Operation, Write};
use cluster::Cluster;
use model::Token;
use mutation::page::{ColumnForm, PageView, ReadCommand};
use mutation::{FrozenMutation, MutationBuilder};
use query::Processor;
use replication::transactions::Part;
use replication::{Language, Owner, Proposed, TransactionId, WriteKind};
use ring::digest;
use stdx::{Cursor, Damaged, Put};

const HOLD: u8 = 16;
const LOOK: u8 = 17;
const LOOK_AND_HOLD: u8 = 18;

/// The operations of a transaction that writes.
pub(crate) const WRITES: &[&str] = &["Put", "Update", "Delete", "ConditionCheck"];
pub(crate) const READS: &[&str] = &["Get"];

/// Items of a transaction.
const ITEMS_MAX: usize = 100;

/// The parts of a request, each with the name of what is to be done: objects of one member.
pub(crate) fn items<'a>(
    request: &Request<'a>,
    names: &'static [&'static str],
) -> Result<Vec<(&'static str, Request<'a>, Json<'a>)>, Error> {
    let list =
        request.list("TransactItems")?.ok_or_else(|| length("greater than or equal to 1"))?;
    let mut found = Vec::new();
    for json in list.elements() {
        if found.len() == ITEMS_MAX {
            return Err(length("less than or equal to 100"));
        }
        let mut members = json.members();
        let unknown = || {
            let names = names.join(", ");
            Error::validation(format!("TransactItems can only contain one of {names} each"))
        };
        let (name, inner) = members.next().ok_or_else(unknown)?;
        let name = names.iter().find(|known| **known == name).ok_or_else(unknown)?;
        if members.next().is_some() {
            return Err(unknown());
        }
        found.push((*name, Request::of(inner, name)?, json));
    }
    match found.is_empty() {
        true => Err(length("greater than or equal to 1")),
        false => Ok(found),
    }
}

fn length(bound: &str) -> Error {
    Error::validation(format!(
        "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: \
         Member must have length {bound}"
    ))
}

/// Why a part was not done; `None`: it would have been.
pub(crate) type Reason = Option<Error>;

/// By the name that it has in a transaction.
pub(crate) fn operation(name: &str) -> Operation {
    match name {
        "Put" => Operation::Put,
        "Update" => Operation::Update,
        "Delete" => Operation::Delete,
        _ => Operation::Check,
    }
}

/// What has come of the wish to hold a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Part(Part),
    /// Some item is not to be written so: why each is not.
    Refused(Vec<Reason>),
    /// Another transaction has it; or it may be held, and nobody knows.
    Not,
}

/// An item as it was, as JSON, and by which writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: [u8; 32],
    pub(crate) item: Option<String>,
}

/// What a transaction wants to make of some items of a partition: the writes, and their JSON for
/// the node that leads the rounds of the partition.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) id: TransactionId,
    pub(crate) writes: Vec<Write>,
    pub(crate) parts: &'a [Json<'a>],
}

/// Holds the partition of some items, for a transaction.
pub(crate) async fn hold(
    node: &Node,
    table: &Table,
    key: &Key,
    Wish { id, writes, parts }: Wish<'_>,
) -> Result<Held, Error> {
    debug_assert!(writes.len() == parts.len(), "judged-as-held: others than are judged");
    if !node.coordinator.is_spread(&table.entry) {
        let run = move |owner: Owner| async move { hold_writes(&owner, id, &writes).await };
        let (token, options) = (key.token(), node.write_options(WriteKind::Cas));
        let held = node.coordinator.on_owner(&table.entry, token, &key.partition, &options, run);
        return held.await?;
    }
    let mut request = vec![Language::Items as u8, HOLD];
    request.put(&id.to_bytes());
    request.put(wrapped(parts).as_bytes());
    let answer = ask(node, table, key, request).await?;
    decode_held(&answer)
        .map_err(|damaged| Error::internal(format!("a leader's answer: {damaged}")))?
}

/// Items of a partition, and the partition, if it is held.
pub(crate) type Looked = (Option<Part>, Vec<Seen>);

/// Reads items of a partition. `id`: the partition is to be held for that transaction, so that they
/// stay as they are until it is decided; an answer without a part says that it is not.
pub(crate) async fn look(
    node: &Node,
    table: &Table,
    key: &Key,
    (id, parts): (Option<TransactionId>, &[Json<'_>]),
) -> Result<Looked, Error> {
    let mut request = vec![Language::Items as u8];
    match id {
        None => request.put_u8(LOOK),
        Some(id) => {
            request.put_u8(LOOK_AND_HOLD);
            request.put(&id.to_bytes());
        }
    }
    request.put(wrapped(parts).as_bytes());
    let answer = ask(node, table, key, request).await?;
    let looked = decode_looked(&answer);
    let looked =
        looked.map_err(|damaged| Error::internal(format!("a leader's answer: {damaged}")))??;
    match looked.1.is_empty() || looked.1.len() == parts.len() {
        true => Ok(looked),
        false => Err(Error::internal("a leader's answer has other items")),
    }
}

fn wrapped(parts: &[Json<'_>]) -> String {
    let parts: Vec<&str> = parts.iter().map(|part| part.text()).collect();
    format!("{{\"TransactItems\":[{}]}}", parts.join(","))
}

async fn ask(node: &Node, table: &Table, key: &Key, request: Vec<u8>) -> Result<Vec<u8>, Error> {
    let options = node.write_options(WriteKind::Cas);
    let partition = key.partition.clone();
    if node.coordinator.is_spread(&table.entry) {
        return Ok(node.coordinator.lead(&table.entry, &partition, &options, request).await?);
    }
    let run = move |owner: Owner| async move {
        let answer = execute(&owner, &request).await;
        answer.expect("judged-as-held: it is a request of a transaction")
    };
    let entry = &table.entry;
    Ok(node.coordinator.on_owner(entry, key.token(), &partition, &options, run).await?)
}

/// Does what a request of a transaction says; `None`: it is another one.
pub(crate) async fn execute(owner: &Owner, request: &[u8]) -> Option<Vec<u8>> {
    let answer = match *request.get(1)? {
        HOLD => hold_here(owner, &request[2..]).await.map(|held| encode_held(&held)),
        LOOK => look_here(owner, None, &request[2..]).await.map(|it| encode_looked(&it)),
        LOOK_AND_HOLD => look_and_hold(owner, &request[2..]).await.map(|it| encode_looked(&it)),
        _ => return None,
    };
    Some(answer.unwrap_or_else(|error| [&[3][..], &encode_result(&Err(error))].concat()))
}

fn table_of(owner: &Owner) -> Result<Table, Error> {
    let gone = || Error::new(Kind::ResourceNotFound, "the table is gone");
    let stops = || Error::internal("the node stops");
    let cluster = runtime::local::try_get::<Cluster>().ok_or_else(stops)?;
    let schema = cluster.schema();
    let entry = schema.table_by_id(owner.schema().id).ok_or_else(gone)?;
    Table::of(&schema, entry).ok_or_else(gone)
}

fn timestamp() -> Result<i64, Error> {
    let stops = || Error::internal("the node stops");
    Ok(runtime::local::try_get::<Processor>().ok_or_else(stops)?.timestamp())
}

fn elsewhere() -> Error {
    Error::internal("an item of another partition")
}

/// *judged-as-held*
async fn hold_here(owner: &Owner, request: &[u8]) -> Result<Held, Error> {
    let damaged = || Error::internal("a damaged request of another node");
    let (id, body) = request.split_at_checked(16).ok_or_else(damaged)?;
    let id = TransactionId::of_bytes(id).ok_or_else(damaged)?;
    let table = table_of(owner)?;
    let (mut writes, programs) = (Vec::new(), runtime::local::get_or_default());
    for (name, inner, _) in items(&Request::parse_bytes(body)?, WRITES)? {
        writes.push(Write::of(operation(name), &inner, &table, &programs)?);
    }
    hold_writes(owner, id, &writes).await
}

async fn hold_writes(owner: &Owner, id: TransactionId, writes: &[Write]) -> Result<Held, Error> {
    let table = table_of(owner)?;
    if writes.iter().any(|write| write.key.partition != owner.key()) {
        return Err(elsewhere());
    }
    loop {
        let Some(round) = owner.begin_to_hold(timestamp()?).await? else { return Ok(Held::Not) };
        let moment = Moment::of(round.timestamp());
        let judged = judge(owner, &table, writes, moment).await;
        let reasons = match judged {
            Ok(Ok(mutation)) => {
                let held = owner.hold(round, id, mutation).await?;
                return Ok(held.map_or(Held::Not, Held::Part));
            }
            Ok(Err(reasons)) => Ok(Held::Refused(reasons)),
            Err(error) => Err(error),
        };
        if owner.finish(round).await? == Proposed::Chosen {
            return reasons;
        }
    }
}

/// What all writes of a partition make of it, or why some do not.
async fn judge(
    owner: &Owner,
    table: &Table,
    writes: &[Write],
    moment: Moment,
) -> Result<Result<FrozenMutation, Vec<Reason>>, Error> {
    let schema = &*table.entry.schema;
    let mut whole: Option<FrozenMutation> = None;
    let mut reasons = Vec::new();
    for write in writes {
        let item = match write.reads() {
            true => {
                let command = command_of_item(table, &write.key);
                let page = owner.read(&command).await?;
                item_of(table, &command, &page)?
            }
            false => None,
        };
        let made = write
            .decide(item.as_ref())
            .and_then(|decision| mutation(table, &write.key, &decision.change, moment));
        match made {
            Ok(made) => {
                reasons.push(None);
                let Some(made) = made else { continue };
                whole = Some(match whole {
                    None => made,
                    Some(before) => joined(table, &before, &made)?,
                });
            }
            Err(error) => reasons.push(Some(error)),
        }
    }
    if reasons.iter().any(Option::is_some) {
        return Ok(Err(reasons));
    }
    Ok(Ok(whole.unwrap_or_else(|| MutationBuilder::new(schema, owner.key()).freeze())))
}

async fn look_and_hold(owner: &Owner, request: &[u8]) -> Result<Looked, Error> {
    let damaged = || Error::internal("a damaged request of another node");
    let (id, body) = request.split_at_checked(16).ok_or_else(damaged)?;
    let id = TransactionId::of_bytes(id).ok_or_else(damaged)?;
    look_here(owner, Some(id), body).await
}

async fn look_here(owner: &Owner, id: Option<TransactionId>, body: &[u8]) -> Result<Looked, Error> {
    let table = table_of(owner)?;
    let mut keys = Vec::new();
    for (_, inner, _) in items(&Request::parse_bytes(body)?, READS)? {
        keys.push(Key::of_parameter(&table, inner.need_object("Key")?)?.0);
    }
    if keys.iter().any(|key| key.partition != owner.key()) {
        return Err(elsewhere());
    }
    loop {
        let round = match id {
            None => Some(owner.begin(timestamp()?).await?),
            Some(_) => owner.begin_to_hold(timestamp()?).await?,
        };
        let Some(round) = round else { return Ok((None, Vec::new())) };
        let mut seen = Vec::new();
        for key in &keys {
            seen.push(see(owner, &table, key).await?);
        }
        if let Some(id) = id {
            let nothing = MutationBuilder::new(&table.entry.schema, owner.key()).freeze();
            return Ok((owner.hold(round, id, nothing).await?, seen));
        }
        if owner.finish(round).await? == Proposed::Chosen {
            return Ok((None, seen));
        }
    }
}

/// *as-it-was*: the version is read after the item, so that an item between two equal versions is
/// of them.
async fn see(owner: &Owner, table: &Table, key: &Key) -> Result<Seen, Error> {
    let command = command_of_item(table, key);
    let page = owner.read(&command).await?;
    let view = PageView::trusted(&page.bytes, command.layout());
    let mut item = None;
    if let Some(partition) = view.partitions().next()
        && let Some(row) = partition.rows().next()
    {
        let mut out = String::new();
        Row::new(table, &partition, &row).write(&mut out)?;
        item = Some(out);
    }
    // Cells with their times.
    let columns = command.columns.iter().map(|(id, _)| (*id, ColumnForm::Blob)).collect();
    let command = ReadCommand { columns, ..command };
    let page = owner.read(&command).await?;
    let version = digest::digest(&digest::SHA256, &page.bytes);
    let version = version.as_ref().try_into().map_err(|_| elsewhere())?;
    Ok(Seen { version, item })
}

/// Where the partition of a key is.
pub(crate) fn place(table: &Table, key: &Key) -> (model::TableId, Vec<u8>) {
    debug_assert!(Token::of(&key.partition) == key.token(), "judged-as-held: another partition");
    (table.entry.schema.id, key.partition.clone())
}

fn encode_held(held: &Held) -> Vec<u8> {
    let mut out = Vec::new();
    match held {
        Held::Part(part) => {
            out.put_u8(0);
            out.put(&part.to_bytes());
        }
        Held::Refused(reasons) => {
            out.put_u8(1);
            for reason in reasons {
                let result = reason.clone().map_or(Ok(String::new()), Err);
                out.put_u32_bytes(&encode_result(&result));
            }
        }
        Held::Not => out.put_u8(2),
    }
    out
}

fn decode_held(bytes: &[u8]) -> Result<Result<Held, Error>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    match cursor.u8("what has become of a part")? {
        0 => Ok(Ok(Held::Part(Part::of_bytes(cursor.rest())?))),
        1 => {
            let mut reasons = Vec::new();
            while cursor.offset() < bytes.len() {
                reasons.push(decode_result(cursor.u32_bytes("a reason")?)?.err());
            }
            Ok(Ok(Held::Refused(reasons)))
        }
        2 => Ok(Ok(Held::Not)),
        3 => failed(&mut cursor),
        _ => Err(cursor.damaged("what has become of a part")),
    }
}

fn failed<T>(cursor: &mut Cursor<'_>) -> Result<Result<T, Error>, Damaged> {
    match decode_result(cursor.rest())? {
        Err(error) => Ok(Err(error)),
        Ok(_) => Err(cursor.damaged("an error")),
    }
}

fn encode_looked((part, seen): &Looked) -> Vec<u8> {
    let mut out = vec![0];
    out.put_u32_bytes(&part.as_ref().map_or_else(Vec::new, Part::to_bytes));
    for Seen { version, item } in seen {
        out.put(version);
        out.put_u32_bytes(item.as_deref().unwrap_or_default().as_bytes());
    }
    out
}

fn decode_looked(bytes: &[u8]) -> Result<Result<Looked, Error>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    match cursor.u8("what was seen")? {
        0 => {}
        3 => return failed(&mut cursor),
        _ => return Err(cursor.damaged("what was seen")),
    }
    let part = match cursor.u32_bytes("a part")? {
        [] => None,
        bytes => Some(Part::of_bytes(bytes)?),
    };
    let mut seen = Vec::new();
    while cursor.offset() < bytes.len() {
        let version = cursor.array("a version")?;
        let item = String::from_utf8_lossy(cursor.u32_bytes("an item")?).into_owned();
        seen.push(Seen { version, item: Some(item).filter(|item| !item.is_empty()) });
    }
    Ok(Ok((part, seen)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_go_both_ways() {
        let refused = Held::Refused(vec![None, Some(Error::validation("no")), None]);
        for held in [Held::Not, refused, Held::Refused(vec![])] {
            assert_eq!(decode_held(&encode_held(&held)), Ok(Ok(held)));
        }
        let seen =
            |byte, item: Option<&str>| Seen { version: [byte; 32], item: item.map(str::to_owned) };
        for all in [vec![], vec![seen(1, None), seen(2, Some("{}"))]] {
            let looked = (None, all);
            assert_eq!(decode_looked(&encode_looked(&looked)), Ok(Ok(looked)));
        }
        let error = Error::internal("it failed");
        let failed = [&[3][..], &encode_result(&Err(error.clone()))].concat();
        assert_eq!(decode_held(&failed), Ok(Err(error.clone())));
        assert_eq!(decode_looked(&failed), Ok(Err(error)));
    }

    #[test]
    fn a_part_is_one_thing() {
        let names = &["Put", "Delete"];
        let check = |body: &str, expected: Result<usize, &str>| {
            let request = Request::parse(body).unwrap();
            match (items(&request, names), expected) {
                (Ok(found), Ok(count)) => assert_eq!(found.len(), count),
                (Err(error), Err(text)) => assert!(error.message.contains(text), "{error}"),
                (found, _) => panic!("{body}: {found:?}"),
            }
        };
        check(r#"{"TransactItems":[{"Put":{}},{"Delete":{}}]}"#, Ok(2));
        check(r#"{"TransactItems":[]}"#, Err("greater than or equal to 1"));
        check("{}", Err("greater than or equal to 1"));
        check(r#"{"TransactItems":[{"Get":{}}]}"#, Err("one of Put, Delete"));
        check(r#"{"TransactItems":[{"Put":{},"Delete":{}}]}"#, Err("one of Put, Delete"));
        let many = format!(r#"{{"TransactItems":[{}]}}"#, [r#"{"Put":{}}"#; 101].join(","));
        check(&many, Err("less than or equal to 100"));
    }

    proptest! {
        #[test]
        fn foreign_answers_do_not_panic(bytes: Vec<u8>) {
            let _ = (decode_held(&bytes), decode_looked(&bytes));
        }
    }
}
