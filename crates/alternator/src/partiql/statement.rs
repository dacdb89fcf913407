//! `ExecuteStatement`, and what the operations on statements have in common.

use super::equal::{Equal, Wishes, Writing};
use super::meaning::{Meaning, unequal};
use super::parse;
use super::select::{self, Wanted};
use super::tree::{Source, Statement};
use crate::capacity::Capacity;
use crate::error::{Error, Kind};
use crate::json::{Json, Object};
use crate::node::{Caller, Node};
use crate::owner::execute;
use crate::request::Request;
use crate::table::Table;
use crate::value::Value;
use crate::write::{Operation, Write};
use auth::Permission;
use std::borrow::Cow;

/// A statement of a request, with its parameters.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub(super) statement: Statement,
    pub(super) parameters: Vec<Value>,
    /// As they came.
    text: Cow<'a, str>,
    json: &'a str,
    pub(super) consistent: bool,
    pub(super) shows_failed: bool,
}

impl<'a> Given<'a> {
    /// *all-parameters*
    pub(super) fn of(request: &Request<'a>) -> Result<Given<'a>, Error> {
        let text = request.need_string("Statement")?;
        let (statement, count) = parse(&text)?;
        let list = request.list("Parameters")?;
        let parameters = list.into_iter().flat_map(Json::elements).map(Value::parse);
        let parameters = parameters.collect::<Result<Vec<_>, _>>()?;
        if parameters.len() != count {
            return Err(unequal());
        }
        let shows = request.word("ReturnValuesOnConditionCheckFailure", &["NONE", "ALL_OLD"])?;
        Ok(Given {
            statement,
            parameters,
            text,
            json: list.map_or("", Json::text),
            consistent: request.bool("ConsistentRead")?.unwrap_or(false),
            shows_failed: shows == "ALL_OLD",
        })
    }

    pub(super) fn meaning(&self) -> Meaning<'_> {
        Meaning(&self.parameters)
    }

    pub(super) fn is_read(&self) -> bool {
        matches!(self.statement, Statement::Select(_))
    }

    /// Whether it asks for what was changed.
    pub(super) fn returns(&self) -> bool {
        match &self.statement {
            Statement::Update { returning, .. } | Statement::Delete { returning, .. } => {
                returning.is_some()
            }
            _ => false,
        }
    }

    /// The table that it is of.
    pub(super) fn source(&self) -> &Source {
        match &self.statement {
            Statement::Select(select) | Statement::Exists(select) => &select.source,
            Statement::Insert { source, .. }
            | Statement::Update { source, .. }
            | Statement::Delete { source, .. } => source,
        }
    }

    /// The table of a statement that is about one item of it.
    pub(super) fn table(&self, node: &Node) -> Result<Table, Error> {
        let Source { table, index } = self.source();
        match index {
            None => node.table(table),
            Some(_) => Err(Error::validation("This operation is not supported on an index")),
        }
    }

    /// What it wants written. `capacity`: what is to be told of what it consumes.
    pub(super) fn equal(
        &self,
        table: &Table,
        capacity: Option<&'static str>,
    ) -> Result<Equal, Error> {
        table.writable()?;
        let wishes = Wishes { shows_failed: self.shows_failed, capacity };
        let writing = Writing { table, meaning: self.meaning(), wishes };
        match &self.statement {
            Statement::Insert { item, .. } => writing.insert(item),
            Statement::Update { changes, test, returning, .. } => {
                writing.update(changes, test.as_ref(), *returning)
            }
            Statement::Delete { test, returning, .. } => writing.delete(test.as_ref(), *returning),
            Statement::Exists(select) => writing.check(select.test.as_ref()),
            Statement::Select(_) => Err(Error::internal("a read is executed as a write")),
        }
    }

    pub(super) fn wanted<'w>(
        &'w self,
        (limit, capacity): (u64, Capacity),
        token: Option<&'w str>,
    ) -> Wanted<'w> {
        let of = [&*self.text, self.json];
        Wanted { limit, consistent: self.consistent, capacity, token, of }
    }
}

/// That `EXISTS` stands alone.
pub(super) fn misplaced() -> Error {
    Error::validation("EXISTS can only be used in ExecuteTransaction write requests.")
}

/// `ExecuteStatement`
pub(crate) async fn execute_statement(
    node: &Node,
    caller: &Caller,
    body: &str,
) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let given = Given::of(&request)?;
    let capacity = Capacity::of(&request)?;
    let limit = limit(&request)?;
    match &given.statement {
        Statement::Select(select) => {
            let token = request.string("NextToken")?;
            let wanted = given.wanted((limit, capacity), token.as_deref());
            let meaning = given.meaning();
            let (page, next, table) =
                select::page(node, caller, (select, meaning), &wanted).await?;
            let mut out = String::with_capacity(page.items.len() + 128);
            let mut object = Object::open(&mut out);
            object.json("Items", &format!("[{}]", page.items));
            if let Some(next) = next {
                object.string("NextToken", &next);
            }
            capacity.write(&mut object, &table.name, page.halves);
            object.close();
            Ok(out)
        }
        Statement::Exists(_) => Err(misplaced()),
        _ => {
            let table = given.table(node)?;
            let words = request.word("ReturnConsumedCapacity", &["NONE", "TOTAL", "INDEXES"])?;
            let equal = given.equal(&table, Some(words))?;
            let answer = write(node, caller, &table, &equal).await?;
            let answer = Request::parse(&answer)?;
            let mut out = String::new();
            let mut object = Object::open(&mut out);
            let item = answer.get("Attributes").map_or("", Json::text);
            object.json("Items", &format!("[{item}]"));
            if let Some(consumed) = answer.get("ConsumedCapacity") {
                object.json("ConsumedCapacity", consumed.text());
            }
            object.close();
            Ok(out)
        }
    }
}

fn limit(request: &Request<'_>) -> Result<u64, Error> {
    match request.integer("Limit")? {
        None => Ok(u64::MAX),
        Some(limit @ 1..=0x7fff_ffff) => Ok(limit as u64),
        Some(limit) => Err(Error::validation(format!(
            "1 validation error detected: Value '{limit}' at 'limit' failed to satisfy constraint: \
             Member must have value greater than or equal to 1"
        ))),
    }
}

/// Makes a write: the answer of the operation that it is equal to. (*same-as-equal*)
pub(super) async fn write(
    node: &Node,
    caller: &Caller,
    table: &Table,
    equal: &Equal,
) -> Result<String, Error> {
    let Equal { operation, parameters, .. } = equal;
    let request = Request::parse(parameters)?;
    let write = Write::of(*operation, &request, table, &node.programs)?;
    node.check(caller, Permission::Modify, table)?;
    let answer = execute((node, caller), table, (*operation, write), parameters).await;
    answer.map_err(|error| match (operation, error.kind) {
        (Operation::Put, Kind::ConditionalCheckFailed) => duplicate(),
        _ => error,
    })
}

/// That there is an item where one is inserted.
pub(super) fn duplicate() -> Error {
    Error::new(Kind::DuplicateItem, "Duplicate primary key exists in table")
}
