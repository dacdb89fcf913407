//! `SELECT`: a query of the partitions that its condition names, or a scan.
//!
//! ```text
//! NextToken := base64 of (digest:16 key)     digest: of statement and parameters; key: JSON
//! ```
//!
//! Invariants
//!  - *bound-token*: as of [`super`].

use super::keys::{Reads, all_of, conjuncts, reads, whole_key};
use super::meaning::Meaning;
use super::tree::Select;
use crate::capacity::Capacity;
use crate::error::Error;
use crate::expression::{Path, Selection, Step};
use crate::filter::{Columns, Filter};
use crate::json::Json;
use crate::key::Key;
use crate::node::{Caller, Node};
use crate::query::{Ask, Page, projected, read, resume_after, start_key};
use crate::row::command;
use crate::table::Table;
use crate::value::{Map, attributes_json};
use auth::Permission;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Column, Token};
use mutation::page::{Partitions, RingBound, SendRange};
use ring::digest;

/// Bytes of a digest in a token.
const DIGEST_BYTES: usize = 16;

/// A page of a statement, as it is asked for.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) limit: u64,
    pub(super) consistent: bool,
    pub(super) capacity: Capacity,
    pub(super) token: Option<&'a str>,
    /// What tells the statement and its parameters from others.
    pub(super) of: [&'a str; 2],
}

/// A page of items, and the token of the next one.
pub(super) async fn page(
    node: &Node,
    caller: &Caller,
    (select, meaning): (&Select, Meaning<'_>),
    wanted: &Wanted<'_>,
) -> Result<(Page, Option<String>, Table), Error> {
    let base = node.table(&select.source.table)?;
    let table = source(node, select, &base, wanted.consistent)?;
    let condition = select.test.as_ref().map(|test| meaning.condition(test)).transpose()?;
    let (reads, rest) = reads(&table, conjuncts(condition))?;
    let order = ordered(&table, select, reads.is_some())?;
    let (columns, roots) = columns_of(select)?;
    let projected = projected(&table, "", roots.as_ref())?;
    let filter = Filter { condition: all_of(rest), selection: None, columns };
    let start = wanted.token.map(|token| started(token, wanted.of, &table)).transpose()?;
    let plan = plan(reads, order, start)?;
    node.check_part(caller, Permission::Select, (&base, &table.entry.schema))?;
    let mut command = command(&table, plan.partitions, plan.ranges);
    command.reversed = order.rows_down;
    command.static_only_rows = table.attributes.is_none() && plan.is_scan;
    let is_over = plan.start.as_ref().is_some_and(|key| key.clustering.is_empty()) && !plan.is_scan;
    command.resume = plan.start.map(|key| resume_after(key, order.rows_down));
    let nothing = is_over || command.ranges.is_empty();
    let mut ask = Ask {
        table,
        projected,
        base,
        token: plan.token,
        command,
        later: plan.later,
        filter,
        limit: wanted.limit,
        consistent: wanted.consistent,
        counts_only: false,
        capacity: wanted.capacity,
    };
    let page = read((node, caller), &mut ask, nothing).await?;
    let next = page.last.as_ref().map(|last| token(last, wanted.of));
    Ok((page, next, ask.base))
}

/// The key of the one item that a statement is about; `None`: it may be about several.
pub(super) fn key_of(
    table: &Table,
    select: &Select,
    meaning: Meaning<'_>,
) -> Result<Option<(Map, bool)>, Error> {
    if select.source.index.is_some() {
        return Ok(None);
    }
    let condition = select.test.as_ref().map(|test| meaning.condition(test)).transpose()?;
    let found = whole_key(table, conjuncts(condition))?;
    Ok(found.map(|(key, rest)| (key, rest.is_empty())))
}

/// What is shown of items, and the attributes that this takes; `None`: all.
pub(super) fn columns_of(select: &Select) -> Result<(Option<Columns>, Option<Selection>), Error> {
    let Some(paths) = &select.columns else { return Ok((None, None)) };
    let mut columns: Vec<(String, Path)> = Vec::with_capacity(paths.len());
    for path in paths {
        let name = shown_as(path);
        if columns.iter().any(|(known, _)| *known == name) {
            return Err(Error::validation(format!(
                "Duplicate identifiers in select clause: {name}"
            )));
        }
        columns.push((name, path.clone()));
    }
    Selection::of(paths.iter(), "SELECT clause")?;
    let roots = Selection::of_names(paths.iter().map(|path| path.root.clone()));
    Ok((Some(Columns(columns)), Some(roots)))
}

/// The last name of a path, with the places in lists after it.
fn shown_as(path: &Path) -> String {
    let mut name = path.root.clone();
    for step in &path.steps {
        match step {
            Step::Name(inner) => inner.clone_into(&mut name),
            Step::Index(index) => name.push_str(&format!("[{index}]")),
        }
    }
    name
}

fn source(node: &Node, select: &Select, base: &Table, consistent: bool) -> Result<Table, Error> {
    let Some(name) = &select.source.index else { return Ok(base.clone()) };
    let found = base.index(&node.schema(), name)?;
    let is_global = found.index.as_ref().is_some_and(|index| !index.is_local);
    match is_global && consistent {
        false => Ok(found),
        true => Err(Error::validation(format!(
            "Consistent reads are not supported on global secondary indexes: ConsistentRead of \
             {name}"
        ))),
    }
}

/// Which partitions and which rows are first.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    partitions_down: bool,
    rows_down: bool,
}

fn ordered(table: &Table, select: &Select, has_partitions: bool) -> Result<Order, Error> {
    let mut order = Order::default();
    if select.order.is_empty() {
        return Ok(order);
    }
    if select.test.is_none() {
        return Err(Error::validation(
            "Must have WHERE clause in the statement when using ORDER BY clause.",
        ));
    }
    if !has_partitions {
        return Err(Error::validation(
            "Must have at least one non-optional hash key condition in WHERE clause when using \
             ORDER BY clause.",
        ));
    }
    let mut of_rows = None;
    for (name, is_down) in &select.order {
        let is_of = |all: &[Column]| all.iter().any(|column| *name == column.name);
        if is_of(table.entry.schema.partition_key()) {
            order.partitions_down = *is_down;
        } else if is_of(table.ranges()) {
            order.rows_down = *is_down;
            if of_rows.replace(*is_down).is_some_and(|other| other != *is_down) {
                return Err(Error::validation(
                    "The ORDER BY clause has range keys both in ascending and descending order",
                ));
            }
        } else {
            return Err(Error::validation(format!(
                "Variable reference {name} in ORDER BY clause must be part of the primary key"
            )));
        }
    }
    Ok(order)
}

/// Where a page begins, and what comes after its first partition.
struct Plan {
    partitions: Partitions,
    token: Token,
    ranges: Vec<SendRange>,
    later: Vec<Vec<u8>>,
    start: Option<Key>,
    is_scan: bool,
}

fn plan(reads: Option<Reads>, order: Order, start: Option<Key>) -> Result<Plan, Error> {
    let Some(Reads { mut partitions, ranges }) = reads else {
        let bound = |token, after| RingBound { token, key: None, after };
        let (start_bound, end) = (bound(Token::MIN, false), bound(Token::MAX, true));
        let partitions = Partitions::Range { start: start_bound, end };
        let ranges = vec![SendRange::full()];
        let (token, later) = (Token::MIN, Vec::new());
        return Ok(Plan { partitions, token, ranges, later, start, is_scan: true });
    };
    // The last one first.
    if !order.partitions_down {
        partitions.reverse();
    }
    if let Some(start) = &start {
        let at = partitions.iter().position(|partition| *partition == start.partition);
        partitions.truncate(1 + at.ok_or_else(wrong_token)?);
    }
    let none = || Error::internal("no partition is read");
    let first = partitions.pop().ok_or_else(none)?;
    let later = if ranges.is_empty() { Vec::new() } else { partitions };
    let token = Token::of(&first);
    Ok(Plan { partitions: Partitions::Key(first), token, ranges, later, start, is_scan: false })
}

fn wrong_token() -> Error {
    Error::validation("Invalid NextToken: it is of another statement, or of none")
}

fn digest_of(of: [&str; 2]) -> Vec<u8> {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in of {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    context.finish().as_ref().iter().take(DIGEST_BYTES).copied().collect()
}

/// *bound-token*
fn token(last: &Map, of: [&str; 2]) -> String {
    let mut bytes = digest_of(of);
    bytes.extend_from_slice(attributes_json(last).as_bytes());
    STANDARD.encode(bytes)
}

/// The key after which a page begins. (*bound-token*)
fn started(token: &str, of: [&str; 2], table: &Table) -> Result<Key, Error> {
    let bytes = STANDARD.decode(token).map_err(|_| wrong_token())?;
    let (digest, key) = bytes.split_at_checked(DIGEST_BYTES).ok_or_else(wrong_token)?;
    if digest != digest_of(of) {
        return Err(wrong_token());
    }
    let json = Json::parse_bytes(key).map_err(|_| wrong_token())?;
    if json.kind() != crate::json::Kind::Object {
        return Err(wrong_token());
    }
    start_key(json, table).map_err(|_| wrong_token())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_last_names_of_their_paths() {
        let columns = |text: &str| match super::super::parse(text).unwrap().0 {
            super::super::tree::Statement::Select(select) => columns_of(&select),
            other => panic!("{other:?}"),
        };
        let names = |text: &str| {
            let columns = columns(text).unwrap().0.unwrap();
            columns.0.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names("SELECT a, m.x, l[0][1], m.l[2].b FROM ttt"), ["a", "x", "l[0][1]", "b"]);
        let refused = |text: &str| columns(text).unwrap_err().message;
        assert!(refused("SELECT a.x, x FROM ttt").contains("Duplicate identifiers"));
        assert!(refused("SELECT a, a.x FROM ttt").contains("overlap"));
    }

    #[test]
    fn a_token_is_of_its_statement() {
        let last = Map::from([("p".to_owned(), crate::value::Value::S("a".to_owned()))]);
        assert_ne!(token(&last, ["a", "b"]), token(&last, ["ab", ""]));
    }
}
