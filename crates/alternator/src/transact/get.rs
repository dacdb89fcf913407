//! `TransactGetItems`: items are read until none has changed since; those that change all the time
//! are held while they are read.

use super::{cancelled, conflict, make_outcomes, twice};
use crate::capacity::{Capacity, write_consumed};
use crate::error::Error;
use crate::expression::Selection;
use crate::filter::selection_of;
use crate::json::{Json, Object, write_list};
use crate::key::Key;
use crate::node::{Caller, Node};
use crate::part::{READS, Seen, items, look, place};
use crate::paths;
use crate::request::Request;
use crate::table::Table;
use crate::value::{attributes, write_attributes};
use auth::Permission;
use replication::TransactionId;
use replication::transactions::{Decided, Part};
use runtime::task::join_all;
use runtime::time::sleep;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often items are read before they are held.
const READS_MAX: usize = 4;
/// How often it is tried to hold them.
const HOLDS_MAX: u32 = 8;
/// Between two tries, a random time up to this.
const PAUSE: Duration = Duration::from_millis(20);

struct Wanted<'a> {
    table: Table,
    key: Key,
    selection: Option<Selection>,
    json: Json<'a>,
}

/// `TransactGetItems`
pub(crate) async fn get(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let capacity = Capacity::of(&request)?;
    let mut wanted = Vec::new();
    for (_, inner, json) in items(&request, READS)? {
        let table = node.table(&inner.need_string("TableName")?)?;
        table.writable()?;
        node.check(caller, Permission::Select, &table)?;
        let known = inner.placeholders(&node.programs)?;
        let selection = selection_of(&inner, &known)?;
        known.check_used()?;
        paths::check_read(&table, selection.as_ref(), None)?;
        let (key, _) = Key::of_parameter(&table, inner.need_object("Key")?)?;
        let is_same = |other: &Wanted<'_>| {
            other.key == key && other.table.entry.schema.id == table.entry.schema.id
        };
        if wanted.iter().any(is_same) {
            return Err(twice());
        }
        wanted.push(Wanted { table, key, selection, json });
    }
    let mut last: Option<Vec<Seen>> = None;
    for _ in 0..READS_MAX {
        let (seen, _) = look_at_all(node, &wanted, None).await?.unwrap_or_default();
        if wanted.len() == 1 || last.as_ref() == Some(&seen) {
            return answer(&wanted, &seen, capacity);
        }
        last = Some(seen);
    }
    for _ in 0..HOLDS_MAX {
        if let Some(seen) = hold_all(node, &wanted).await? {
            return answer(&wanted, &seen, capacity);
        }
        let micros = runtime::random_u64() % PAUSE.as_micros() as u64;
        sleep(Duration::from_micros(micros)).await;
    }
    Err(cancelled(&vec![Some(conflict()); wanted.len()]))
}

/// The items, as they all were when their transaction was decided. `None`: others have come
/// between.
async fn hold_all(node: &Node, wanted: &[Wanted<'_>]) -> Result<Option<Vec<Seen>>, Error> {
    let bucket = runtime::random_u64() as u32;
    let id = TransactionId::new(runtime::time::wall_micros(), bucket, runtime::random_u64());
    make_outcomes(node).await?;
    let looked = look_at_all(node, wanted, Some(id)).await;
    let Ok(Some((seen, parts))) = looked else {
        let places = wanted.iter().map(|one| place(&one.table, &one.key)).collect();
        node.coordinator.abort(id, places).await;
        return looked.map(|_| None);
    };
    let decided = node.coordinator.commit(id, parts, (node.options.timeout(), None)).await?;
    Ok((decided == Decided::Committed).then_some(seen))
}

/// All items, and their partitions, if they are to be held. `None`: some are not.
async fn look_at_all(
    node: &Node,
    wanted: &[Wanted<'_>],
    id: Option<TransactionId>,
) -> Result<Option<(Vec<Seen>, Vec<Part>)>, Error> {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, one) in wanted.iter().enumerate() {
        groups.entry(place(&one.table, &one.key)).or_default().push(at);
    }
    let looks = groups.values().map(async |group| {
        let first = &wanted[group[0]];
        let parts: Vec<Json<'_>> = group.iter().map(|at| wanted[*at].json).collect();
        look(node, &first.table, &first.key, (id, &parts)).await
    });
    let found = join_all(looks).await;
    let mut all: Vec<Option<Seen>> = vec![None; wanted.len()];
    let mut parts = Vec::new();
    for (group, found) in groups.values().zip(found) {
        let (part, seen) = found?;
        if id.is_some() && part.is_none() {
            return Ok(None);
        }
        parts.extend(part);
        group.iter().zip(seen).for_each(|(at, seen)| all[*at] = Some(seen));
    }
    let missing = || Error::internal("an item was not looked at");
    let all = all.into_iter().collect::<Option<_>>().ok_or_else(missing)?;
    Ok(Some((all, parts)))
}

fn answer(wanted: &[Wanted<'_>], seen: &[Seen], capacity: Capacity) -> Result<String, Error> {
    let mut consumed = BTreeMap::<String, usize>::new();
    let (mut out, mut failed) = (String::new(), None);
    let mut object = Object::open(&mut out);
    let both = wanted.iter().zip(seen);
    write_list(both, object.member("Responses"), |(wanted, seen), out| {
        let bytes = seen.item.as_ref().map_or(0, String::len);
        let halves = 2 * Capacity::of_read(bytes, true);
        *consumed.entry(wanted.table.name.clone()).or_default() += halves;
        let mut one = Object::open(out);
        match (&seen.item, &wanted.selection) {
            (None, _) => {}
            (Some(item), None) => {
                one.json("Item", item);
            }
            (Some(item), Some(selection)) => {
                let item = Json::parse(item).and_then(attributes);
                match item {
                    Ok(item) => write_attributes(&selection.of_item(&item), one.member("Item")),
                    Err(error) => failed = Some(error),
                }
            }
        }
        one.close();
    });
    write_consumed(capacity, &consumed, &mut object);
    object.close();
    failed.map_or(Ok(out), Err)
}
