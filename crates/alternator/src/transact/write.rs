//! `TransactWriteItems`.

use super::{cancelled, conflict, make_outcomes, twice};
use crate::capacity::{Capacity, write_consumed};
use crate::error::{Error, Kind};
use crate::json::{Json, Object};
use crate::key::Key;
use crate::node::{Caller, Node};
use crate::options::Isolation;
use crate::part::{Held, Reason, WRITES, Wish, hold, items, operation, place};
use crate::request::Request;
use crate::table::Table;
use crate::value::attributes;
use crate::write::{Operation, Write};
use auth::Permission;
use replication::TransactionId;
use replication::transactions::{self, Decided};
use ring::digest;
use runtime::task::join_all;
use std::collections::BTreeMap;

/// Bytes of all items.
const BYTES_MAX: usize = 4 << 20;
const TOKEN_CHARS_MAX: usize = 36;

/// A part of a request.
struct Wanted<'a> {
    table: Table,
    key: Key,
    json: Json<'a>,
    write: Write,
}

/// The parts of a partition, by their places in the request.
struct Group<'a> {
    table: Table,
    key: Key,
    at: Vec<usize>,
    parts: Vec<Json<'a>>,
    /// What they are, until it is held.
    writes: Vec<Write>,
}

/// `TransactWriteItems`
pub(crate) async fn write(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let capacity = Capacity::of(&request)?;
    let again = again(caller, &request)?;
    let wanted = wanted(node, caller, &request)?;
    let mut consumed = BTreeMap::<String, usize>::new();
    for one in &wanted {
        let halves = 2 * Capacity::of_write(one.json.text().len());
        *consumed.entry(one.table.name.clone()).or_default() += halves;
    }
    make_outcomes(node).await?;
    let timeout = node.options.timeout();
    let done = match again {
        Some(again) => node.coordinator.done_before(again, timeout).await?,
        None => None,
    };
    let decided = match done {
        Some(decided) => decided,
        None => transact(node, groups(wanted), again).await?,
    };
    if decided == Decided::Differs {
        return Err(Error::new(
            Kind::IdempotentParameterMismatch,
            "The request uses the same client token as a previous, but non-identical request. Do \
             not reuse a client token with different requests, unless the requests are identical",
        ));
    }
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write_consumed(capacity, &consumed, &mut object);
    object.close();
    Ok(out)
}

/// By what a client that asks again is known.
fn again(caller: &Caller, request: &Request<'_>) -> Result<Option<transactions::Request>, Error> {
    let Some(token) = request.string("ClientRequestToken")? else { return Ok(None) };
    if !(1..=TOKEN_CHARS_MAX).contains(&token.chars().count()) {
        return Err(Error::validation(format!(
            "1 validation error detected: Value '{token}' at 'clientRequestToken' failed to \
             satisfy constraint: Member must have length between 1 and {TOKEN_CHARS_MAX}"
        )));
    }
    let digest_of = |parts: &[&str]| -> [u8; 32] {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        context.finish().as_ref().try_into().unwrap_or_default()
    };
    let role = caller.role.as_deref().unwrap_or_default();
    // Clients that keep names in no order may say the same in another one.
    let mut body = String::new();
    request.get("TransactItems").into_iter().for_each(|json| json.write_ordered(&mut body));
    Ok(Some(transactions::Request { token: digest_of(&[role, &token]), body: digest_of(&[&body]) }))
}

/// The parts of a request, checked as far as they can be without their items. (*no-item-twice*)
fn wanted<'a>(
    node: &Node,
    caller: &Caller,
    request: &Request<'a>,
) -> Result<Vec<Wanted<'a>>, Error> {
    let parts = items(request, WRITES)?;
    let (count, mut bytes) = (parts.len(), 0);
    let mut wanted: Vec<Wanted<'_>> = Vec::with_capacity(count);
    for (at, (name, inner, json)) in parts.into_iter().enumerate() {
        let table = node.table(&inner.need_string("TableName")?)?;
        table.writable()?;
        let operation = operation(name);
        let permission = match operation {
            Operation::Check => Permission::Select,
            _ => Permission::Modify,
        };
        node.check(caller, permission, &table)?;
        if node.isolation(&table) == Isolation::Forbidden {
            return Err(Error::validation(
                "Read-modify-write operations are disabled by 'forbid_rmw' write isolation policy. \
                 Refer to the documentation of the API for details",
            ));
        }
        let needed = match operation {
            Operation::Check => Some("ConditionExpression"),
            Operation::Update => Some("UpdateExpression"),
            Operation::Put | Operation::Delete => None,
        };
        needed.map(|name| inner.need(name)).transpose()?;
        // What is wrong with a key is the reason of its part.
        let key = attributes(inner.need_object(key_name(operation))?);
        let key = key.and_then(|given| match operation {
            Operation::Put => Key::of_item(&table, &given),
            _ => Key::of_key(&table, &given),
        });
        let key = key.map_err(|error| match error.kind {
            Kind::Validation => {
                let mut reasons: Vec<Reason> = vec![None; count];
                reasons[at] = Some(error);
                cancelled(&reasons)
            }
            _ => error,
        })?;
        let write = Write::of(operation, &inner, &table, &node.programs)?;
        bytes += json.text().len();
        let is_same = |other: &Wanted<'_>| {
            other.key == key && other.table.entry.schema.id == table.entry.schema.id
        };
        if wanted.iter().any(is_same) {
            return Err(twice());
        }
        wanted.push(Wanted { table, key, json, write });
    }
    match bytes <= BYTES_MAX {
        true => Ok(wanted),
        false => Err(Error::validation(format!(
            "The size of all items of a transaction together: size cannot exceed {BYTES_MAX} bytes"
        ))),
    }
}

fn key_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Put => "Item",
        _ => "Key",
    }
}

fn groups(wanted: Vec<Wanted<'_>>) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<_, Group<'_>> = BTreeMap::new();
    for (at, Wanted { table, key, json, write }) in wanted.into_iter().enumerate() {
        let (table_id, partition) = place(&table, &key);
        let group = groups.entry((table_id, partition)).or_insert_with(|| {
            let (at, parts, writes) = (Vec::new(), Vec::new(), Vec::new());
            Group { table, key, at, parts, writes }
        });
        group.at.push(at);
        group.parts.push(json);
        group.writes.push(write);
    }
    groups.into_values().collect()
}

/// *all-or-none*
async fn transact(
    node: &Node,
    mut groups: Vec<Group<'_>>,
    again: Option<transactions::Request>,
) -> Result<Decided, Error> {
    let bucket = again.map_or_else(|| runtime::random_u64() as u32, |again| again.bucket());
    let now = runtime::time::wall_micros();
    let id = TransactionId::new(now, bucket, runtime::random_u64());
    let holds = groups.iter_mut().map(|group| {
        let wish = Wish { id, writes: std::mem::take(&mut group.writes), parts: &group.parts };
        hold(node, &group.table, &group.key, wish)
    });
    let held = join_all(holds).await;
    let count = groups.iter().map(|group| group.at.len()).sum();
    let (mut reasons, mut parts, mut failed): (Vec<Reason>, _, _) =
        (vec![None; count], Vec::new(), None);
    for (group, held) in groups.iter().zip(held) {
        match held {
            Ok(Held::Part(part)) => parts.push(part),
            Ok(Held::Not) => group.at.iter().for_each(|at| reasons[*at] = Some(conflict())),
            Ok(Held::Refused(refused)) => {
                group.at.iter().zip(refused).for_each(|(at, reason)| reasons[*at] = reason);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    let places = || groups.iter().map(|group| place(&group.table, &group.key)).collect();
    let is_cancelled = reasons.iter().any(Option::is_some);
    if is_cancelled || failed.is_some() {
        let all_refused = parts.is_empty() && failed.is_none() && !has_met(&reasons);
        if !all_refused {
            node.coordinator.abort(id, places()).await;
        }
        node.met.add(&node.met.cancelled);
        // What did not end is told where nothing else is known.
        return Err(if is_cancelled {
            cancelled(&reasons)
        } else {
            failed.unwrap_or_else(conflict)
        });
    }
    let timeout = node.options.timeout();
    let decided = node.coordinator.commit(id, parts, (timeout, again)).await?;
    let is_committed = decided == Decided::Committed;
    let counter = if is_committed { &node.met.committed } else { &node.met.cancelled };
    node.met.add(counter);
    match decided {
        // It took too long, or somebody could not wait.
        Decided::Aborted => Err(cancelled(&vec![Some(conflict()); count])),
        decided => Ok(decided),
    }
}

/// Whether another transaction has come in between.
fn has_met(reasons: &[Reason]) -> bool {
    reasons.iter().flatten().any(|error| error.kind == Kind::RequestLimitExceeded)
}
