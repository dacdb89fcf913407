//! `ExecuteTransaction`: statements of one item each, all reads or all writes, as the transaction
//! that they are equal to.

use super::batch::statements;
use super::select::{columns_of, key_of};
use super::statement::{Given, duplicate};
use super::tree::Statement;
use crate::error::Error;
use crate::filter::Columns;
use crate::json::{Json, Object, write_list};
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::transact;
use crate::value::{attributes, write_attributes};
use crate::write::Operation;

/// Statements of a transaction.
const STATEMENTS_MAX: usize = 100;

/// `ExecuteTransaction`
pub(crate) async fn execute_transaction(
    node: &Node,
    caller: &Caller,
    body: &str,
) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let all = statements(&request, "TransactStatements", STATEMENTS_MAX)?;
    let all: Vec<Given<'_>> =
        all.into_iter().enumerate().map(|(at, one)| placed(at, one)).collect::<Result<_, _>>()?;
    match all.iter().filter(|one| one.is_read()).count() {
        0 => writes(node, caller, &request, &all).await,
        count if count == all.len() => reads(node, caller, &request, &all).await,
        _ => Err(Error::validation(
            "ExecuteTransaction API does not support both read and write operations in the same \
             request.",
        )),
    }
}

/// Says which statement is wrong.
fn placed<T>(at: usize, result: Result<T, Error>) -> Result<T, Error> {
    result.map_err(|error| {
        let message = format!("Validation failed in TransactStatements[{at}]: {}", error.message);
        if error.kind == crate::error::Kind::Validation {
            Error { message, ..error }
        } else {
            error
        }
    })
}

/// The parameters of the transaction of items. `items`: JSON.
fn transaction(request: &Request<'_>, items: &[String]) -> String {
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.json("TransactItems", &format!("[{}]", items.join(",")));
    for name in ["ReturnConsumedCapacity", "ClientRequestToken"] {
        if let Some(json) = request.get(name) {
            object.json(name, json.text());
        }
    }
    object.close();
    out
}

async fn writes(
    node: &Node,
    caller: &Caller,
    request: &Request<'_>,
    all: &[Given<'_>],
) -> Result<String, Error> {
    let (mut items, mut inserts) = (Vec::new(), Vec::new());
    for (at, given) in all.iter().enumerate() {
        let (operation, item) = placed(at, item(node, given))?;
        inserts.push(operation == Operation::Put);
        items.push(item);
    }
    let body = transaction(request, &items);
    let answer = transact::write(node, caller, &body).await;
    let answer = answer.map_err(|error| told(error, &inserts))?;
    let answer = Request::parse(&answer)?;
    Ok(answered("[]", &answer))
}

/// A part of a transaction that writes.
fn item(node: &Node, given: &Given<'_>) -> Result<(Operation, String), Error> {
    if given.returns() {
        return Err(Error::validation("RETURNING clause is not supported in ExecuteTransaction."));
    }
    let equal = given.equal(&given.table(node)?, None)?;
    let name = match equal.operation {
        Operation::Put => "Put",
        Operation::Update => "Update",
        Operation::Delete => "Delete",
        Operation::Check => "ConditionCheck",
    };
    Ok((equal.operation, format!("{{\"{name}\":{}}}", equal.parameters)))
}

fn answered(responses: &str, answer: &Request<'_>) -> String {
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.json("Responses", responses);
    if let Some(consumed) = answer.get("ConsumedCapacity") {
        object.json("ConsumedCapacity", consumed.text());
    }
    object.close();
    out
}

/// The error of a transaction, whose conditions of inserts nobody has stated.
fn told(error: Error, inserts: &[bool]) -> Error {
    let Some(reasons) = &error.reasons else { return error };
    let Ok(reasons) = Json::parse(reasons) else { return error };
    let (mut codes, mut out) = (Vec::new(), String::new());
    write_list(reasons.elements().zip(inserts), &mut out, |(reason, is_insert), out| {
        let code = reason.member("Code").and_then(Json::string).unwrap_or_default();
        if *is_insert && code == "ConditionalCheckFailed" {
            codes.push("DuplicateItem".to_owned());
            let mut object = Object::open(out);
            object.string("Code", "DuplicateItem").string("Message", &duplicate().message);
            object.close();
        } else {
            codes.push(code.into_owned());
            out.push_str(reason.text());
        }
    });
    Error { message: transact::cancelled_text(&codes), reasons: Some(out), ..error }
}

async fn reads(
    node: &Node,
    caller: &Caller,
    request: &Request<'_>,
    all: &[Given<'_>],
) -> Result<String, Error> {
    let (mut items, mut columns) = (Vec::new(), Vec::new());
    for (at, given) in all.iter().enumerate() {
        let (item, shown) = placed(at, read(node, given))?;
        items.push(item);
        columns.push(shown);
    }
    let body = transaction(request, &items);
    let answer = transact::get(node, caller, &body).await?;
    let answer = Request::parse(&answer)?;
    let seen = answer.list("Responses")?.map(|list| list.elements().collect::<Vec<_>>());
    let (mut out, mut failed) = (String::new(), None);
    write_list(seen.unwrap_or_default().iter().zip(&columns), &mut out, |(seen, columns), out| {
        match (seen.member("Item"), columns) {
            (Some(item), Some(columns)) => match attributes(item) {
                Ok(item) => {
                    let mut one = Object::open(out);
                    write_attributes(&columns.of_item(&item), one.member("Item"));
                    one.close();
                }
                Err(error) => failed = Some(error),
            },
            _ => out.push_str(seen.text()),
        }
    });
    failed.map_or(Ok(answered(&out, &answer)), Err)
}

/// A part of a transaction that reads, and what is shown of its item.
fn read(node: &Node, given: &Given<'_>) -> Result<(String, Option<Columns>), Error> {
    let Statement::Select(select) = &given.statement else {
        return Err(Error::internal("a write is executed as a read"));
    };
    if select.source.index.is_some() {
        return Err(Error::validation("Reads on indices are not supported within transactions."));
    }
    let table = given.table(node)?;
    let key = key_of(&table, select, given.meaning())?.filter(|(_, is_all)| *is_all);
    let (key, _) = key.ok_or_else(|| {
        Error::validation(
            "Select statements within ExecuteTransaction must specify the primary key in the where \
             clause.",
        )
    })?;
    let (columns, _) = columns_of(select)?;
    let mut out = String::from("{\"Get\":");
    let mut object = Object::open(&mut out);
    object.string("TableName", &table.name);
    write_attributes(&key, object.member("Key"));
    object.close();
    out.push('}');
    Ok((out, columns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn inserts_fail_for_what_is_there() {
        let reasons = r#"[{"Code":"None"},{"Code":"ConditionalCheckFailed","Message":"x"},
            {"Code":"ConditionalCheckFailed","Message":"The conditional request failed"}]"#;
        let error = Error::new(Kind::TransactionCanceled, "cancelled");
        let error = Error { reasons: Some(reasons.to_owned()), ..error };
        let told = told(error, &[true, false, true]);
        assert!(told.message.ends_with("[None, ConditionalCheckFailed, DuplicateItem]"));
        let reasons = told.reasons.unwrap();
        assert!(reasons.starts_with(r#"[{"Code":"None"},{"Code":"ConditionalCheckFailed","#));
        assert!(reasons.ends_with(
            r#"{"Code":"DuplicateItem","Message":"Duplicate primary key exists in table"}]"#
        ));
    }
}
