//! What the audit log is told of a request: of which kind it is, which tables it is about, and its
//! text. What is written down is decided by [`auth::audit`]. Pure, but for [`note`] and
//! [`told_to`].
//!
//! Invariants
//!  - *covered-alone*: of a request about several tables an event has those that are written down
//!    where it goes, and the text those parts alone that are about them.
//!  - *no-table-always*: a request about no table is written down whenever its kind is.

use crate::json::{Json, Object, write_list, write_string};
use crate::node::{Caller, Node};
use crate::partiql;
use crate::request::Request;
use crate::streams;
use crate::table::{KEYSPACE_PREFIX, OTHERS_PREFIX, name_of};
use auth::audit::rules::{Sinks, Subject};
use auth::audit::{Category, Event, kept};
use query::Audit;
use query::audit::ANONYMOUS;
use std::borrow::Cow;

/// The keyspace by which `audit_tables` may name any table of the API.
const ANY_KEYSPACE: &str = "alternator";

/// Tells the audit log what a client has asked for, whatever came of it.
pub(crate) fn note(node: &Node, caller: &Caller, (name, body): (&str, &str), is_error: bool) {
    let Some(audit) = node.processor.audit() else { return };
    if ![Category::Query, Category::Dml, Category::Ddl].iter().any(|it| audit.has(*it)) {
        return;
    }
    // Of what is no JSON nobody knows what it is about.
    let Ok(json) = Json::parse(body) else { return };
    let role = caller.role.as_deref().unwrap_or(ANONYMOUS);
    for (told, sinks) in told_to(audit, role, (name, json)) {
        let event = Event {
            at_micros: runtime::time::wall_micros(),
            category: told.category,
            consistency: told.consistency,
            keyspace: told.keyspace,
            table: told.table,
            operation: kept(&told.text, Cow::Borrowed),
            client: caller.client,
            user: role.to_owned(),
            is_error,
        };
        audit.record(event, sinks);
    }
}

/// What is written down of a request, and where: rules may want of one that is about several tables
/// some in one place and some in another.
fn told_to(audit: &Audit, role: &str, (name, json): (&str, Json<'_>)) -> Vec<(Told, Sinks)> {
    let mut found: Vec<(Told, Sinks)> = Vec::new();
    for sink in audit.sinks().each() {
        let covers = |category, keyspace: &str, table: &str| {
            let is_named = match table {
                "" => audit.names(category),
                _ => {
                    [keyspace, ANY_KEYSPACE].iter().any(|it| audit.names_table(category, it, table))
                }
            };
            let subject = Subject { category, keyspace, table, role };
            is_named || !(audit.ruled(&subject) & sink).is_empty()
        };
        let Some(told) = told(name, json, &covers) else { continue };
        match found.iter_mut().find(|(known, _)| *known == told) {
            Some((_, sinks)) => *sinks = *sinks | sink,
            None => found.push((told, sink)),
        }
    }
    found
}

/// The kind of an operation; statements write if one of them does: others may only check.
fn category(name: &str, request: &Request<'_>) -> Category {
    match name {
        "ExecuteStatement" | "BatchExecuteStatement" | "ExecuteTransaction" => {
            match statements(request).iter().all(|(_, is_read)| *is_read) {
                true => Category::Query,
                false => Category::Dml,
            }
        }
        "PutItem" | "UpdateItem" | "DeleteItem" | "BatchWriteItem" | "TransactWriteItems" => {
            Category::Dml
        }
        "CreateTable"
        | "DeleteTable"
        | "UpdateTable"
        | "TagResource"
        | "UntagResource"
        | "UpdateTimeToLive"
        | "CreateBackup"
        | "DeleteBackup"
        | "RestoreTableFromBackup"
        | "RestoreTableToPointInTime"
        | "UpdateContinuousBackups"
        | "UpdateContributorInsights"
        | "ImportTable" => Category::Ddl,
        _ => Category::Query,
    }
}

/// The level at which data are read or written; none: they are not.
fn consistency(name: &str, request: &Request<'_>) -> &'static str {
    match name {
        "PutItem" | "UpdateItem" | "DeleteItem" | "BatchWriteItem" | "GetRecords" => "LOCAL_QUORUM",
        "GetItem" | "Query" | "Scan" => match request.bool("ConsistentRead") {
            Ok(Some(true)) => "LOCAL_QUORUM",
            _ => "LOCAL_ONE",
        },
        "TransactWriteItems" | "TransactGetItems" | "ExecuteTransaction" => "SERIAL",
        "ExecuteStatement" => match statements(request).first() {
            Some((_, false)) => "LOCAL_QUORUM",
            Some(_) if request.bool("ConsistentRead") == Ok(Some(true)) => "LOCAL_QUORUM",
            _ => "LOCAL_ONE",
        },
        // Each of its tables has its own.
        "BatchGetItem" | "BatchExecuteStatement" => "ANY",
        "DescribeStream" => "ONE",
        _ => "",
    }
}

/// What an event says of a request.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    category: Category,
    consistency: &'static str,
    keyspace: String,
    /// Several are separated by `|`.
    table: String,
    text: String,
}

/// What is written down is what `covers` says, of a keyspace and a table; `None`: nothing is.
fn told(name: &str, json: Json<'_>, covers: &dyn Fn(Category, &str, &str) -> bool) -> Option<Told> {
    let request = Request::of(json, "the request").ok()?;
    let (category, consistency) = (category(name, &request), consistency(name, &request));
    let is_covered = |given: &str| {
        let (keyspace, table) = place(given);
        covers(category, &keyspace, table)
    };
    let text = |body: &str| format!("{name} {body}");
    let whole = |keyspace: String, table: String| {
        let text = text(json.text());
        Some(Told { category, consistency, keyspace, table, text })
    };
    match name {
        "ExecuteStatement" => {
            let (table, _) = statements(&request).into_iter().next()?;
            let (keyspace, _) = place(&table);
            is_covered(&table).then_some(())?;
            whole(keyspace.into_owned(), place(&table).1.to_owned())
        }
        "BatchGetItem"
        | "BatchWriteItem"
        | "TransactWriteItems"
        | "TransactGetItems"
        | "BatchExecuteStatement"
        | "ExecuteTransaction" => {
            let (table, body) = covered(&request, &is_covered)?;
            let text = text(&body);
            Some(Told { category, consistency, keyspace: String::new(), table, text })
        }
        "DescribeStream" | "GetShardIterator" | "GetRecords" => {
            let field = if name == "GetRecords" { "ShardIterator" } else { "StreamArn" };
            let given = request.string(field).ok()??;
            let of = streams::table_of(&given)?;
            let (keyspace, table) = place(of);
            is_covered(of).then_some(())?;
            let log = model::schema::cdc::log_name(table);
            whole(keyspace.into_owned(), format!("{table}|{log}"))
        }
        _ => {
            let field = match name {
                "TagResource" | "UntagResource" | "ListTagsOfResource" | "GetResourcePolicy" => {
                    "ResourceArn"
                }
                "ExportTableToPointInTime" => "TableArn",
                "RestoreTableFromBackup" | "RestoreTableToPointInTime" => "TargetTableName",
                "DescribeBackup" | "DeleteBackup" => "BackupArn",
                "DescribeImport" => "ImportArn",
                "DescribeExport" => "ExportArn",
                "ListImports" | "ListExports" => "TableArn",
                _ => "TableName",
            };
            let given = match name {
                "ImportTable" => imported(&request),
                _ => request.string(field).ok()?,
            };
            let Some(given) = given else {
                // *no-table-always*
                let is_asked = covers(category, "", "");
                return is_asked.then(|| whole(String::new(), String::new()))?;
            };
            // The name of a backup, and its like, goes on after that of its table.
            let ends = ["/backup/", "/import/", "/export/"];
            let of = ends.iter().find_map(|end| given.split_once(end));
            let of = of.map_or(&*given, |(table, _)| table);
            let (keyspace, table) = place(of);
            is_covered(of).then_some(())?;
            whole(keyspace.into_owned(), table.to_owned())
        }
    }
}

/// The table that an import is to make.
fn imported<'a>(request: &Request<'a>) -> Option<Cow<'a, str>> {
    request.get("TableCreationParameters")?.member("TableName")?.string()
}

/// The lists of requests of several statements.
const LISTS: [&str; 2] = ["Statements", "TransactStatements"];

/// The table of a request's statement, or of each of them, and whether it is only read. One that
/// is no statement is about none.
fn statements(request: &Request<'_>) -> Vec<(String, bool)> {
    let of = |text: &str| {
        let (statement, _) = partiql::parse(text).ok()?;
        Some((statement.source().table.clone(), statement.reads()))
    };
    if let Ok(Some(text)) = request.string("Statement") {
        return of(&text).into_iter().collect();
    }
    let lists = LISTS.iter().filter_map(|list| request.get(list));
    let all = lists.flat_map(|list| list.elements());
    all.filter_map(|item| of(&item.member("Statement")?.string()?)).collect()
}

/// The keyspace and the name of a table as requests name it.
fn place(given: &str) -> (Cow<'_, str>, &str) {
    let name = name_of(given);
    match name.strip_prefix(OTHERS_PREFIX).and_then(|rest| rest.split_once('.')) {
        Some((keyspace, table)) => (Cow::Borrowed(keyspace), table),
        None => (Cow::Owned(format!("{KEYSPACE_PREFIX}{name}")), name),
    }
}

/// The tables of a request about several that are covered, and what of its body is about them.
/// (*covered-alone*)
fn covered(request: &Request<'_>, is_covered: &dyn Fn(&str) -> bool) -> Option<(String, String)> {
    let mut tables: Vec<String> = Vec::new();
    let mut add = |given: &str| {
        let table = place(given).1;
        if !tables.iter().any(|known| known == table) {
            tables.push(table.to_owned());
        }
    };
    let mut body = String::new();
    let mut object = Object::open(&mut body);
    if let Some(items) = request.get("RequestItems") {
        let all: Vec<_> = items.members().filter(|(table, _)| is_covered(table)).collect();
        all.iter().for_each(|(table, _)| add(table));
        let out = object.member("RequestItems");
        out.push('{');
        for (at, (table, json)) in all.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            write_string(table, out);
            out.push(':');
            out.push_str(json.text());
        }
        out.push('}');
    } else {
        let table_of = |item: &Json<'_>| {
            if let Some(text) = item.member("Statement") {
                let (statement, _) = partiql::parse(&text.string()?).ok()?;
                return Some(statement.source().table.clone());
            }
            let (_, part) = item.members().next()?;
            Request::of(part, "an item").ok()?.string("TableName").ok()?.map(Cow::into_owned)
        };
        let lists = ["TransactItems", LISTS[0], LISTS[1]];
        let (list, items) = lists.iter().find_map(|list| Some((*list, request.get(list)?)))?;
        let all = items.elements().filter_map(|item| Some((table_of(&item)?, item)));
        let all: Vec<_> = all.filter(|(table, _)| is_covered(table)).collect();
        all.iter().for_each(|(table, _)| add(table));
        let out = object.member(list);
        write_list(all, out, |(_, item), out| out.push_str(item.text()));
    }
    object.close();
    (!tables.is_empty()).then(|| (tables.join("|"), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told where `a` is covered by its keyspace, and `b` by its name.
    fn told_of(name: &str, body: &str) -> Option<(String, String, &'static str, String)> {
        let covers = |_: Category, keyspace: &str, table: &str| {
            table.is_empty()
                || keyspace == "alternator_a"
                || (keyspace, table) == ("alternator_b", "b")
        };
        let told = told(name, Json::parse(body).expect("JSON"), &covers)?;
        Some((told.keyspace, told.table, told.consistency, told.text))
    }

    #[test]
    fn tables_are_found() {
        let check = |name: &str, body: &str, expected: Option<(&str, &str, &str)>| {
            let told = told_of(name, body);
            let found = told.as_ref().map(|it| (it.0.as_str(), it.1.as_str(), it.2));
            assert_eq!(found, expected, "{name} {body}");
            if let Some(told) = told {
                assert_eq!(told.3, format!("{name} {body}"));
            }
        };
        check("PutItem", r#"{"TableName":"a"}"#, Some(("alternator_a", "a", "LOCAL_QUORUM")));
        check("GetItem", r#"{"TableName":"b"}"#, Some(("alternator_b", "b", "LOCAL_ONE")));
        let body = r#"{"TableName":"a","ConsistentRead":true}"#;
        check("Query", body, Some(("alternator_a", "a", "LOCAL_QUORUM")));
        check("PutItem", r#"{"TableName":"c"}"#, None);
        check("ListTables", "{}", Some(("", "", "")));
        check("ListStreams", "{}", Some(("", "", "")));
        let body = r#"{"ResourceArn":"arn:x:y:table/a"}"#;
        check("TagResource", body, Some(("alternator_a", "a", "")));
        check("TagResource", r#"{"ResourceArn":"arn:x:y:table/c"}"#, None);
        let both = "a|a_scylla_cdc_log";
        let body = r#"{"StreamArn":"arn:x:table/a/stream/1"}"#;
        check("DescribeStream", body, Some(("alternator_a", both, "ONE")));
        let body = r#"{"ShardIterator":"arn:x:table/a/stream/1|s|7"}"#;
        check("GetRecords", body, Some(("alternator_a", both, "LOCAL_QUORUM")));
        check("GetRecords", r#"{"ShardIterator":"nothing"}"#, None);
        check("CreateBackup", r#"{"TableName":"a"}"#, Some(("alternator_a", "a", "")));
        let body = r#"{"BackupArn":"arn:x:table/a/backup/017-ab"}"#;
        check("DeleteBackup", body, Some(("alternator_a", "a", "")));
        check("DeleteBackup", r#"{"BackupArn":"arn:x:table/c/backup/017-ab"}"#, None);
        let body = r#"{"TargetTableName":"a","BackupArn":"arn:x:table/c/backup/017-ab"}"#;
        check("RestoreTableFromBackup", body, Some(("alternator_a", "a", "")));
        let body = r#"{"TableCreationParameters":{"TableName":"a"}}"#;
        check("ImportTable", body, Some(("alternator_a", "a", "")));
        check("DescribeImport", r#"{"ImportArn":"arn:x:table/c/import/017-ab"}"#, None);
        check("ListBackups", "{}", Some(("", "", "")));
        check("Scan", r#"{"TableName":7}"#, None);
        check("Scan", "[]", None);
    }

    #[test]
    fn of_several_tables_those_that_are_covered() {
        let body = r#"{"RequestItems":{"c":[1],"a":[2],"b":[3]},"Other":4}"#;
        let told = told_of("BatchWriteItem", body).expect("some are covered");
        assert_eq!(told.1, "a|b");
        assert_eq!(told.3, r#"BatchWriteItem {"RequestItems":{"a":[2],"b":[3]}}"#);
        assert_eq!(told_of("BatchGetItem", r#"{"RequestItems":{"c":[1]}}"#), None);
        let put = |table: &str| format!(r#"{{"Put":{{"TableName":"{table}"}}}}"#);
        let body = format!(r#"{{"TransactItems":[{},{},{}]}}"#, put("c"), put("a"), put("a"));
        let told = told_of("TransactWriteItems", &body).expect("one is covered");
        assert_eq!((told.1.as_str(), told.2), ("a", "SERIAL"));
        let two = [put("a"), put("a")].join(",");
        assert_eq!(told.3, format!(r#"TransactWriteItems {{"TransactItems":[{two}]}}"#));
        assert_eq!(told_of("TransactGetItems", "{}"), None);
    }

    #[test]
    fn of_statements_those_that_are_covered() {
        let category = |body: &str| {
            let covers = |_: Category, _: &str, _: &str| true;
            let json = Json::parse(body).expect("JSON");
            told("ExecuteStatement", json, &covers).map(|told| (told.category, told.consistency))
        };
        let insert = r#"{"Statement":"INSERT INTO \"a\" VALUE {'p':'x'}"}"#;
        assert_eq!(category(insert), Some((Category::Dml, "LOCAL_QUORUM")));
        let select = r#"{"Statement":"SELECT * FROM \"a\""}"#;
        assert_eq!(category(select), Some((Category::Query, "LOCAL_ONE")));
        assert_eq!(category(r#"{"Statement":"SELECT"}"#), None);
        let told = told_of("ExecuteStatement", insert).expect("it is covered");
        assert_eq!((told.0.as_str(), told.1.as_str()), ("alternator_a", "a"));
        assert_eq!(told_of("ExecuteStatement", &insert.replace("\"a", "\"c")), None);
        let check = r#"{"Statement":"EXISTS(SELECT * FROM \"a\" WHERE p = 'x')"}"#;
        let body = format!(r#"{{"TransactStatements":[{check},{insert}]}}"#);
        let covers = |_: Category, _: &str, _: &str| true;
        let json = Json::parse(&body).expect("JSON");
        let found = super::told("ExecuteTransaction", json, &covers).expect("it is covered");
        assert_eq!((found.category, found.consistency), (Category::Dml, "SERIAL"));
        let several = format!(r#"{{"Statements":[{},{}]}}"#, insert.replace("\"a", "\"c"), select);
        let told = told_of("BatchExecuteStatement", &several).expect("one is covered");
        assert_eq!((told.0.as_str(), told.1.as_str(), told.2), ("", "a", "ANY"));
        assert_eq!(told.3, format!(r#"BatchExecuteStatement {{"Statements":[{select}]}}"#));
    }
}
