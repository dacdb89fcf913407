//! What of a table a query is about: one partition, and a range of it.
//!
//! Invariants
//!  - *hash-is-whole*: each attribute of the hash key is compared with `=`, once.
//!  - *left-to-right*: those of the range key have conditions from the first one on, once each at
//!    most, and with `=` all but the last.

use crate::error::Error;
use crate::expression::{Comparison, Condition, Operand, Path, Placeholders, condition};
use crate::json::Json;
use crate::key::{component, plain_component};
use crate::legacy::check_values;
use crate::paths;
use crate::request::Request;
use crate::table::Table;
use crate::value::Value;
use model::Column;
use model::key::{compose_partition_key, push_clustering};
use mutation::page::SendRange;

const WHAT: &str = "KeyConditionExpression";

/// The bytes of a key that is compared with a value.
pub(crate) fn compared(column: &Column, value: &Value) -> Result<Vec<u8>, Error> {
    component(column, value).map_err(|error| Error {
        message: format!("{} (Condition parameter type does not match schema type)", error.message),
        ..error
    })
}

/// A partition and what is wanted of it; no range: no row can be meant.
#[derive(Debug)]
pub(crate) struct KeyCondition {
    pub(crate) partition: Vec<u8>,
    pub(crate) ranges: Vec<SendRange>,
}

/// How a key attribute is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Compare(Comparison, Value),
    Between(Value, Value),
    BeginsWith(Value),
}

/// Of an expression.
pub(crate) fn of_expression(
    text: &str,
    table: &Table,
    known: &Placeholders<'_>,
) -> Result<KeyCondition, Error> {
    let condition = condition(text, WHAT, known)?;
    let mut tests = Vec::new();
    flatten(condition, &mut tests)?;
    build(table, tests)
}

/// Of `KeyConditions`.
pub(crate) fn of_old(json: Option<Json<'_>>, table: &Table) -> Result<KeyCondition, Error> {
    let missing = || {
        Error::validation(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the \
             request.",
        )
    };
    let mut tests = Vec::new();
    for (name, json) in json.ok_or_else(missing)?.members() {
        let test = Request::of(json, "KeyConditions")?;
        let operator = test.need_string("ComparisonOperator")?;
        let list = test.list("AttributeValueList")?;
        let values = list.into_iter().flat_map(|list| list.elements()).map(Value::parse);
        let values = values.collect::<Result<Vec<_>, _>>()?;
        tests.push((name.into_owned(), old_test(&operator, values)?));
    }
    build(table, tests)
}

fn old_test(operator: &str, values: Vec<Value>) -> Result<Test, Error> {
    check_values(operator, &values)?;
    let comparison = match operator {
        "EQ" => Some(Comparison::Equal),
        "LT" => Some(Comparison::Less),
        "LE" => Some(Comparison::LessOrEqual),
        "GT" => Some(Comparison::Greater),
        "GE" => Some(Comparison::GreaterOrEqual),
        "BEGINS_WITH" | "BETWEEN" => None,
        other => {
            return Err(Error::validation(format!(
                "Attempted conditional constraint is not an indexable operation: comparison \
                 operator {other} is not supported for keys"
            )));
        }
    };
    let mut values = values.into_iter();
    let none = || Error::internal("an operator without its value");
    let first = values.next().ok_or_else(none)?;
    Ok(match comparison {
        Some(comparison) => Test::Compare(comparison, first),
        None if operator == "BETWEEN" => Test::Between(first, values.next().ok_or_else(none)?),
        None => Test::BeginsWith(first),
    })
}

fn unsupported(what: &str) -> Error {
    Error::validation(format!("Invalid {WHAT}: Invalid operator used in {WHAT}: {what}"))
}

/// The tests of a conjunction.
fn flatten(condition: Condition, tests: &mut Vec<(String, Test)>) -> Result<(), Error> {
    let test = match condition {
        Condition::And(all) => return all.into_iter().try_for_each(|one| flatten(one, tests)),
        Condition::Or(_) => return Err(unsupported("OR is not supported")),
        Condition::Not(_) => return Err(unsupported("NOT is not supported")),
        Condition::Compare(Comparison::Unequal, ..) => {
            return Err(unsupported("<> is not supported"));
        }
        Condition::Compare(how, Operand::Path(path), Operand::Value(value)) => {
            (name(path)?, Test::Compare(how, value))
        }
        Condition::Compare(how, Operand::Value(value), Operand::Path(path)) => {
            (name(path)?, Test::Compare(how.mirrored(), value))
        }
        Condition::Between {
            value: Operand::Path(path),
            low: Operand::Value(low),
            high: Operand::Value(high),
        } => (name(path)?, Test::Between(low, high)),
        Condition::BeginsWith(Operand::Path(path), Operand::Value(prefix)) => {
            (name(path)?, Test::BeginsWith(prefix))
        }
        Condition::In(..) => return Err(unsupported("IN is not supported")),
        Condition::Exists(_)
        | Condition::NotExists(_)
        | Condition::Type(..)
        | Condition::Contains(..) => {
            return Err(unsupported("only the function begins_with is supported"));
        }
        _ => {
            return Err(unsupported(
                "each condition compares one key attribute with a value: an operand is not one",
            ));
        }
    };
    tests.push(test);
    Ok(())
}

fn name(path: Path) -> Result<String, Error> {
    match path.steps.is_empty() {
        true => Ok(path.root),
        false => Err(Error::validation(format!(
            "Key conditions cannot have conditions on nested attributes: {path} in {WHAT} is nested"
        ))),
    }
}

/// *hash-is-whole*, *left-to-right*
fn build(table: &Table, mut tests: Vec<(String, Test)>) -> Result<KeyCondition, Error> {
    let mut of = |column: &Column| {
        let mut found = None;
        for (name, test) in tests.extract_if(.., |(name, _)| *name == column.name) {
            if found.replace(test).is_some() {
                return Err(Error::validation(format!(
                    "{WHAT}s must only contain one condition per key: {name} has two"
                )));
            }
        }
        Ok(found)
    };
    let (hashes, ranges) = (table.entry.schema.partition_key(), table.ranges());
    let hash_tests = hashes.iter().map(&mut of).collect::<Result<Vec<_>, _>>()?;
    let range_tests = ranges.iter().map(&mut of).collect::<Result<Vec<_>, _>>()?;
    if let Some((name, _)) = tests.first() {
        let missing = ranges.iter().zip(&range_tests).find(|(_, test)| test.is_none());
        let missing = missing.map_or(&hashes[0], |(column, _)| column);
        return Err(Error::validation(format!(
            "Query condition missed key schema element: {} misses, and {name} is no key (each key \
             condition is on a key attribute; KeyConditions has one for each at most)",
            missing.name
        )));
    }
    let hash = hashes.iter().zip(hash_tests).map(|(column, test)| hash_value(column, test));
    let hash = hash.collect::<Result<Vec<_>, _>>()?;
    let mut partition = Vec::new();
    compose_partition_key(hash.iter().map(Vec::as_slice), &mut partition);
    let mut begin = Vec::new();
    let mut tests = ranges.iter().zip(range_tests);
    let mut found = vec![SendRange::full()];
    while let Some((column, Some(test))) = tests.next() {
        found = self::ranges(column, test.clone(), &begin)?;
        let Some((next, Some(_))) = tests.clone().next() else { break };
        let Test::Compare(Comparison::Equal, value) = test else {
            return Err(not_in_order(&column.name, &next.name));
        };
        push_clustering(&compared(column, &value)?, &mut begin);
    }
    if let Some((column, _)) = tests.find(|(_, test)| test.is_some()) {
        return Err(not_in_order(&column.name, &column.name));
    }
    Ok(KeyCondition { partition, ranges: found })
}

/// *hash-is-whole*
fn hash_value(column: &Column, test: Option<Test>) -> Result<Vec<u8>, Error> {
    let name = &column.name;
    match test {
        Some(Test::Compare(Comparison::Equal, value)) => compared(column, &value),
        Some(_) => Err(Error::validation(format!(
            "Query key condition not supported: the HASH key {name} is compared by equality (=, EQ)"
        ))),
        None => Err(Error::validation(format!(
            "Query condition missed key schema element: {name} is missing: each HASH key is \
             compared by equality"
        ))),
    }
}

/// *left-to-right*
fn not_in_order(name: &str, next: &str) -> Error {
    let which = match name == next {
        true => format!("one before {name} has no condition"),
        false => format!("{name} is compared otherwise, and {next} has a condition"),
    };
    Error::validation(format!(
        "Query key condition not supported: RANGE keys have conditions from left to right, by \
         equality all but the last: {which}"
    ))
}

/// The rows that a test lets through, of those that begin with these components.
pub(crate) fn ranges(column: &Column, test: Test, begin: &[u8]) -> Result<Vec<SendRange>, Error> {
    let with = |bytes: &[u8]| {
        let mut out = begin.to_vec();
        push_clustering(bytes, &mut out);
        out
    };
    let prefix = |value: &Value| Ok::<_, Error>(with(&compared(column, value)?));
    let (first, last) = ((begin.to_vec(), -1), (begin.to_vec(), 1));
    let range = match test {
        Test::Compare(how, value) => {
            let prefix = prefix(&value)?;
            match how {
                Comparison::Less => SendRange { start: first, end: (prefix, -1) },
                Comparison::LessOrEqual => SendRange { start: first, end: (prefix, 1) },
                Comparison::Greater => SendRange { start: (prefix, 1), end: last },
                Comparison::GreaterOrEqual => SendRange { start: (prefix, -1), end: last },
                Comparison::Equal | Comparison::Unequal => SendRange::of_prefix(&prefix),
            }
        }
        Test::Between(low, high) => {
            let (a, b) = (prefix(&low)?, prefix(&high)?);
            if crate::value::order(&low, &high).is_some_and(|order| order.is_gt()) {
                return Err(Error::validation(
                    "The BETWEEN condition was provided a range where the lower bound is greater \
                     than the upper bound",
                ));
            }
            SendRange { start: (a, -1), end: (b, 1) }
        }
        Test::BeginsWith(value) => {
            if let Value::N(_) = value {
                return Err(Error::validation(format!(
                    "Invalid {WHAT}: Incorrect operand type for operator or function; operator or \
                     function: begins_with (BEGINS_WITH), operand type: N"
                )));
            }
            let bytes = plain_component(column, &value)?;
            let low = with(&bytes);
            let end = successor(bytes).map_or(last, |next| (with(&next), -1));
            SendRange { start: (low, -1), end }
        }
    };
    Ok(vec![if column.reversed { mirrored(range) } else { range }])
}

/// The same rows where the column's values are in descending order, as tables of CQL may have them.
fn mirrored(range: SendRange) -> SendRange {
    let mirror = |(prefix, weight): (Vec<u8>, i8)| (prefix, -weight);
    SendRange { start: mirror(range.end), end: mirror(range.start) }
}

/// The first bytes after all that begin with these; `None`: there are none.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

/// A filter is about what the key does not say.
pub(crate) fn refuse_keys_in_filter(
    filter: Option<&Condition>,
    table: &Table,
) -> Result<(), Error> {
    let mut named = None;
    let mut see = |path: &Path| {
        if named.is_none() && table.is_key(&path.root) {
            named = Some(path.root.clone());
        }
    };
    filter.into_iter().for_each(|filter| paths::each(filter, &mut see));
    match named {
        None => Ok(()),
        Some(name) => Err(Error::validation(format!(
            "Filter Expression can only contain non-primary key attributes: Primary key \
             attribute: key {name}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_before_the_next() {
        assert_eq!(successor(b"ab".to_vec()), Some(b"ac".to_vec()));
        assert_eq!(successor(vec![1, 255, 255]), Some(vec![2]));
        assert_eq!(successor(vec![255, 255]), None);
        assert_eq!(successor(Vec::new()), None);
    }
}
