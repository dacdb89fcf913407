//! `BatchExecuteStatement`: statements of one item each, all reads or all writes.
//!
//! Invariants
//!  - *each-alone*: a statement that fails is told in its place, and the others are done.

use super::equal::Equal;
use super::select::{key_of, page};
use super::statement::{Given, misplaced, write};
use super::tree::Statement;
use crate::capacity::{Capacity, write_consumed};
use crate::error::{Error, Kind};
use crate::json::{Json, Object, write_list};
use crate::met::Op;
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::table::Table;
use crate::value::attributes_json;
use runtime::task::join_all;
use std::collections::BTreeMap;

/// Statements of a batch.
const STATEMENTS_MAX: usize = 25;

/// A statement that can be executed.
struct Ready<'a> {
    given: &'a Given<'a>,
    table: Table,
    /// The key of its item, as JSON.
    key: String,
    /// Of a write.
    equal: Option<Equal>,
}

/// The item of an answer, as JSON, and the half units that it took.
type Done = (Option<String>, usize);

/// `BatchExecuteStatement`
pub(crate) async fn batch_execute_statement(
    node: &Node,
    caller: &Caller,
    body: &str,
) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let capacity = Capacity::of(&request)?;
    let given = statements(&request, "Statements", STATEMENTS_MAX)?;
    let reads = given.iter().flatten().filter(|it| it.is_read()).count();
    if 0 < reads && given.iter().flatten().any(|it| !it.is_read()) {
        return Err(Error::validation(
            "Read and write requests together in the same batch is not supported.",
        ));
    }
    let ready: Vec<Result<Ready<'_>, Error>> = given
        .iter()
        .map(|given| given.as_ref().map_err(Error::clone))
        .map(|given| given.and_then(|given| ready(node, given, capacity)))
        .collect();
    check_distinct(&ready)?;
    count(node, &ready);
    let all = ready.iter().map(|one| async move {
        match one {
            Ok(one) => execute(node, caller, one, capacity).await,
            Err(error) => Err(error.clone()),
        }
    });
    let done = join_all(all).await;
    Ok(answer(&ready, &done, capacity))
}

/// The statements of a request: each as it was given, or what is wrong with it.
pub(super) fn statements<'a>(
    request: &Request<'a>,
    name: &str,
    most: usize,
) -> Result<Vec<Result<Given<'a>, Error>>, Error> {
    let list = request.list(name)?;
    let all: Vec<Json<'a>> =
        list.into_iter().flat_map(Json::elements).take(most.saturating_add(1)).collect();
    if !(1..=most).contains(&all.len()) {
        return Err(Error::validation(format!(
            "1 validation error detected: Value at '{name}' failed to satisfy constraint: Member \
             must have length greater than or equal to 1 and length less than or equal to {most}"
        )));
    }
    all.into_iter().map(|json| Ok(Given::of(&Request::of(json, "a statement")?))).collect()
}

fn ready<'a>(node: &Node, given: &'a Given<'a>, capacity: Capacity) -> Result<Ready<'a>, Error> {
    let single = || Error::validation("Only single item select is supported");
    match &given.statement {
        Statement::Select(select) => {
            let table = match &select.source.index {
                None => given.table(node)?,
                Some(_) => return Err(single()),
            };
            let key = key_of(&table, select, given.meaning())?;
            let (key, _) = key.filter(|(_, is_all)| *is_all).ok_or_else(single)?;
            Ok(Ready { given, table, key: attributes_json(&key), equal: None })
        }
        Statement::Exists(_) => Err(misplaced()),
        _ => {
            let table = given.table(node)?;
            let equal = given.equal(&table, capacity.is_told().then_some("TOTAL"))?;
            Ok(Ready { given, table, key: equal.key.clone(), equal: Some(equal) })
        }
    }
}

fn check_distinct(ready: &[Result<Ready<'_>, Error>]) -> Result<(), Error> {
    let mut seen: Vec<(model::TableId, &str)> =
        ready.iter().flatten().map(|one| (one.table.entry.schema.id, one.key.as_str())).collect();
    seen.sort_unstable();
    match seen.windows(2).any(|two| two[0] == two[1]) {
        false => Ok(()),
        true => Err(Error::validation("Provided list of item keys contains duplicates")),
    }
}

/// Counts statements that can be executed, all and those of each table.
fn count(node: &Node, ready: &[Result<Ready<'_>, Error>]) {
    let mut tables = BTreeMap::<model::TableId, (&Table, usize)>::new();
    for Ready { table, .. } in ready.iter().flatten() {
        tables.entry(table.entry.schema.id).or_insert((table, 0)).1 += 1;
    }
    for (id, (table, count)) in &tables {
        node.met.of_table(*id, &table.name).batch(Op::BATCH_EXECUTE, *count);
    }
    let all = tables.values().map(|(_, count)| count).sum();
    node.met.all.batch(Op::BATCH_EXECUTE, all);
}

async fn execute(
    node: &Node,
    caller: &Caller,
    ready: &Ready<'_>,
    capacity: Capacity,
) -> Result<Done, Error> {
    let Ready { given, table, equal, .. } = ready;
    if let Some(equal) = equal {
        let answer = write(node, caller, table, equal).await?;
        let answer = Request::parse(&answer)?;
        let item = answer.get("Attributes").map(|json| json.text().to_owned());
        let units = answer.object("ConsumedCapacity")?;
        let units = units.and_then(|json| json.member("CapacityUnits"));
        let units = units.and_then(|json| json.text().parse::<f64>().ok()).unwrap_or_default();
        return Ok((item, (2.0 * units) as usize));
    }
    let Statement::Select(select) = &given.statement else {
        return Err(Error::internal("a statement that neither reads nor writes"));
    };
    let wanted = given.wanted((u64::MAX, capacity), None);
    let (page, ..) = page(node, caller, (select, given.meaning()), &wanted).await?;
    Ok((Some(page.items).filter(|item| !item.is_empty()), page.halves))
}

/// *each-alone*
fn answer(
    ready: &[Result<Ready<'_>, Error>],
    done: &[Result<Done, Error>],
    capacity: Capacity,
) -> String {
    let mut consumed = BTreeMap::<String, usize>::new();
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let both = ready.iter().zip(done);
    write_list(both, object.member("Responses"), |(ready, done), out| {
        let mut one = Object::open(out);
        match done {
            Ok((item, halves)) => {
                if let Ok(ready) = ready {
                    *consumed.entry(ready.table.name.clone()).or_default() += halves;
                }
                item.iter().for_each(|item| {
                    one.json("Item", item);
                });
            }
            Err(error) => {
                let mut told = Object::open(one.member("Error"));
                told.string("Code", code(error.kind)).string("Message", &error.message);
                error.item.iter().for_each(|item| {
                    told.json("Item", item);
                });
                told.close();
            }
        }
        if let Ok(ready) = ready {
            one.string("TableName", &ready.table.name);
        }
        one.close();
    });
    write_consumed(capacity, &consumed, &mut object);
    object.close();
    out
}

/// As the errors of single statements are called.
fn code(kind: Kind) -> &'static str {
    match kind {
        Kind::AccessDenied => "AccessDenied",
        Kind::ConditionalCheckFailed => "ConditionalCheckFailed",
        Kind::DuplicateItem => "DuplicateItem",
        Kind::InternalServer => "InternalServerError",
        Kind::ItemCollectionSizeLimitExceeded => "ItemCollectionSizeLimitExceeded",
        Kind::LimitExceeded | Kind::RequestLimitExceeded => "RequestLimitExceeded",
        Kind::ResourceNotFound => "ResourceNotFound",
        _ => "ValidationError",
    }
}
