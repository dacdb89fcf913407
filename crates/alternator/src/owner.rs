//! Writes that read before: by rounds, on the shard that owns the partition; of a table on several
//! nodes, on the node that leads its rounds.
//!
//! ```text
//! request := 1 operation:u8 parameters       (1: whose request it is; parameters: JSON)
//! result  := 0 answer | 1 kind:u8 item:u8 [item:be32_bytes] message
//! ```
//!
//! Invariants
//!  - *judged-as-chosen*: what is written depends on what was read in the same round.
//!  - *foreign-is-damaged*: no bytes make a decoder panic.

use crate::error::{Error, Kind};
use crate::key::Key;
use crate::node::Node;
use crate::options::Isolation;
use crate::request::Request;
use crate::row::{Moment, Row, command_of_item, mutation};
use crate::table::Table;
use crate::value::Map;
use crate::write::{Operation, Write};
use cluster::Cluster;
use mutation::page::{Page, PageView, ReadCommand};
use query::Processor;
use replication::{
    Consistency, Coordinator, Executor, Language, LocalFuture, Owner, Proposed, WriteKind,
};
use std::rc::Rc;
use stdx::{Cursor, Damaged, Put};

/// Makes a write, as its table wants it: the answer. `parameters`: the JSON that it was made of.
pub(crate) async fn execute(
    node: &Node,
    table: &Table,
    (operation, write): (Operation, Write),
    parameters: &str,
) -> Result<String, Error> {
    let isolation = node.isolation(table);
    match isolation {
        Isolation::Always => by_rounds(node, table, (operation, write), parameters).await,
        Isolation::OnlyReading if write.reads() => {
            by_rounds(node, table, (operation, write), parameters).await
        }
        Isolation::Forbidden if write.reads() => Err(Error::validation(
            "Read-modify-write operations are disabled by 'forbid_rmw' write isolation policy. \
             Refer to the documentation of the API for details",
        )),
        Isolation::Unsafe if write.reads() => unsafely(node, table, &write).await,
        _ => {
            let decision = write.decide(None)?;
            let moment = Moment::of(node.timestamp());
            if let Some(mutation) = mutation(table, &write.key, &decision.change, moment)? {
                let options = node.write_options(WriteKind::Simple);
                let token = write.key.token();
                node.coordinator.write(&table.entry, token, mutation, &options).await?;
            }
            Ok(write.answer(table, &decision))
        }
    }
}

async fn unsafely(node: &Node, table: &Table, write: &Write) -> Result<String, Error> {
    let (token, command) = (write.key.token(), command_of_item(table, &write.key));
    let page = node.read(table, token, &command, true).await?;
    let decision = write.decide(item_of(table, &command, &page)?.as_ref())?;
    let moment = Moment::of(node.timestamp());
    if let Some(mutation) = mutation(table, &write.key, &decision.change, moment)? {
        let options = node.write_options(WriteKind::Simple);
        node.coordinator.write(&table.entry, token, mutation, &options).await?;
    }
    Ok(write.answer(table, &decision))
}

async fn by_rounds(
    node: &Node,
    table: &Table,
    (operation, write): (Operation, Write),
    parameters: &str,
) -> Result<String, Error> {
    let options = node.write_options(WriteKind::Cas);
    let key = write.key.partition.clone();
    if node.coordinator.is_spread(&table.entry) {
        let mut request = vec![Language::Items as u8, operation as u8];
        request.put(parameters.as_bytes());
        let led = node.coordinator.lead(&table.entry, &key, &options, request).await?;
        let result = decode_result(&led);
        return result
            .map_err(|damaged| Error::internal(format!("the leader's answer: {damaged}")))?;
    }
    let token = write.key.token();
    let change = move |owner: Owner| async move { run(owner, write).await };
    node.coordinator.on_owner(&table.entry, token, &key, &options, change).await?
}

/// *judged-as-chosen*
async fn run(owner: Owner, write: Write) -> Result<String, Error> {
    let stops = || Error::internal("the node stops");
    let processor = runtime::local::try_get::<Processor>().ok_or_else(stops)?;
    let schema = processor.cluster().schema();
    let gone = || Error::new(Kind::ResourceNotFound, "the table is gone");
    let entry = schema.table_by_id(owner.schema().id).ok_or_else(gone)?;
    let table = Table::of(entry).ok_or_else(gone)?;
    let command = command_of_item(&table, &write.key);
    loop {
        let round = owner.begin(processor.timestamp()).await?;
        let page = owner.read(&command).await?;
        let decided = item_of(&table, &command, &page).and_then(|it| write.decide(it.as_ref()));
        let moment = Moment::of(round.timestamp());
        let made = decided.and_then(|decision| {
            Ok((mutation(&table, &write.key, &decision.change, moment)?, decision))
        });
        let (proposed, answer) = match made {
            Ok((Some(mutation), decision)) => {
                let proposed = owner.propose(round, mutation, Consistency::LocalQuorum).await?;
                (proposed, Ok(write.answer(&table, &decision)))
            }
            Ok((None, decision)) => {
                (owner.finish(round).await?, Ok(write.answer(&table, &decision)))
            }
            // A condition that does not hold was so at one moment, too.
            Err(error) => (owner.finish(round).await?, Err(error)),
        };
        if proposed == Proposed::Chosen {
            return answer;
        }
    }
}

/// The item of a page that has one at most.
pub(crate) fn item_of(
    table: &Table,
    command: &ReadCommand,
    page: &Page,
) -> Result<Option<Map>, Error> {
    let view = PageView::trusted(&page.bytes, command.layout());
    let Some(partition) = view.partitions().next() else { return Ok(None) };
    let Some(row) = partition.rows().next() else { return Ok(None) };
    Row::new(table, &partition, &row).item().map(Some)
}

/// Executes writes that other nodes have sent.
struct Executes;

impl Executor for Executes {
    fn execute(&self, owner: Owner, request: Vec<u8>) -> LocalFuture<'static, Vec<u8>> {
        Box::pin(async move {
            let result = match sent(&owner, &request) {
                Ok(write) => run(owner, write).await,
                Err(error) => Err(error),
            };
            encode_result(&result)
        })
    }
}

/// The write of a request of another node, of the partition that is held.
fn sent(owner: &Owner, request: &[u8]) -> Result<Write, Error> {
    let damaged = || Error::internal("a damaged request of another node");
    let (head, parameters) = request.split_at_checked(2).ok_or_else(damaged)?;
    let operation = Operation::of_byte(head[1]).ok_or_else(damaged)?;
    let cluster = runtime::local::get::<Cluster>();
    let schema = cluster.schema();
    let entry = schema.table_by_id(owner.schema().id).ok_or_else(damaged)?;
    let table = Table::of(entry).ok_or_else(damaged)?;
    let write = Write::of(operation, &Request::parse(parameters)?, &table)?;
    let Key { partition, .. } = &write.key;
    if partition == owner.key() { Ok(write) } else { Err(damaged()) }
}

/// From now on this shard executes writes that other nodes send.
pub(crate) fn execute_for_others() {
    if let Some(coordinator) = runtime::local::try_get::<Coordinator>() {
        coordinator.set_executor(Language::Items, Rc::new(Executes));
    }
}

/// The kinds of errors, by their places among them.
const KINDS: [Kind; 8] = [
    Kind::ConditionalCheckFailed,
    Kind::Validation,
    Kind::InternalServer,
    Kind::RequestLimitExceeded,
    Kind::ResourceNotFound,
    Kind::Serialization,
    Kind::AccessDenied,
    Kind::LimitExceeded,
];

fn encode_result(result: &Result<String, Error>) -> Vec<u8> {
    let mut out = Vec::new();
    match result {
        Ok(answer) => {
            out.put_u8(0);
            out.put(answer.as_bytes());
        }
        Err(Error { kind, message, item }) => {
            let place = KINDS.iter().position(|known| known == kind).unwrap_or(2);
            out.put(&[1, place as u8, item.is_some().into()]);
            item.iter().for_each(|item| out.put_u32_bytes(item.as_bytes()));
            out.put(message.as_bytes());
        }
    }
    out
}

fn decode_result(bytes: &[u8]) -> Result<Result<String, Error>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if cursor.u8("a result")? == 0 {
        return Ok(Ok(text(&bytes[1..])));
    }
    let kind = KINDS.get(usize::from(cursor.u8("kind of an error")?)).copied();
    let kind = kind.ok_or_else(|| cursor.damaged("kind of an error"))?;
    let item = match cursor.u8("flag of an item")? {
        0 => None,
        _ => Some(text(cursor.u32_bytes("an item")?)),
    };
    let message = text(&bytes[cursor.offset()..]);
    Ok(Err(Error { kind, message, item }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn results_go_both_ways(place in 0..KINDS.len(), message: String, item: Option<String>) {
            let failed = Err(Error { kind: KINDS[place], message: message.clone(), item });
            for result in [failed, Ok(message)] {
                prop_assert_eq!(decode_result(&encode_result(&result)).unwrap(), result);
            }
        }

        #[test]
        fn foreign_results_do_not_panic(bytes: Vec<u8>) {
            let _ = decode_result(&bytes);
        }
    }
}
