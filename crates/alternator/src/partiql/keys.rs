//! Which key a condition names, and which keys it lets through.
//!
//! Invariants
//!  - *filter-or-range*: as of [`super`].

use crate::error::Error;
use crate::expression::{Comparison, Condition, Operand};
use crate::key_condition::{Test, compared, ranges};
use crate::table::{Table, key_type_name};
use crate::value::{Map, Value, order};
use model::Column;
use model::key::{compose_partition_key, push_clustering};
use mutation::page::SendRange;
use std::cmp::Ordering;

/// The parts of a condition that all have to hold.
pub(super) fn conjuncts(condition: Option<Condition>) -> Vec<Condition> {
    match condition {
        None => Vec::new(),
        Some(Condition::And(all)) => all.into_iter().flat_map(|one| conjuncts(Some(one))).collect(),
        Some(one) => vec![one],
    }
}

/// All of them again.
pub(super) fn all_of(mut parts: Vec<Condition>) -> Option<Condition> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Condition::And(parts)),
    }
}

/// The key that a condition is of, and what else it says.
pub(super) fn whole_key(
    table: &Table,
    mut parts: Vec<Condition>,
) -> Result<Option<(Map, Vec<Condition>)>, Error> {
    let mut key = Map::new();
    for column in table.key_columns() {
        let found = parts.iter().position(|part| equal(part, &column.name).is_some());
        let Some(at) = found else { return Ok(None) };
        if let Some(value) = equal(&parts.remove(at), &column.name) {
            check_type(table, column, value)?;
            key.insert(column.name.clone(), value.clone());
        }
    }
    Ok(Some((key, parts)))
}

/// The error of a write whose condition names no key.
pub(super) fn no_key() -> Error {
    Error::validation("Where clause does not contain a mandatory equality on all key attributes")
}

/// What is read of a table: of these partitions, in their order, these ranges of rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) partitions: Vec<Vec<u8>>,
    pub(super) ranges: Vec<SendRange>,
}

/// What is to be read so that nothing that a condition lets through is missed, and what of it is
/// left to be filtered by. No reads: of the whole table. (*filter-or-range*)
pub(super) fn reads(
    table: &Table,
    mut parts: Vec<Condition>,
) -> Result<(Option<Reads>, Vec<Condition>), Error> {
    let Some(partitions) = partitions(table, &mut parts)? else { return Ok((None, parts)) };
    let mut begin = Vec::new();
    let mut columns = table.ranges();
    // Attributes that are given by equality say where the rest of the key begins.
    while let [column, _, ..] = columns
        && table.attributes.is_some()
        && let Some(at) = parts.iter().position(|part| equal(part, &column.name).is_some())
        && let Some(value) = equal(&parts.remove(at), &column.name)
    {
        check_type(table, column, value)?;
        push_clustering(&compared(column, value)?, &mut begin);
        columns = &columns[1..];
    }
    let ranges = match columns.first() {
        Some(column) => taken((table, column), &begin, &mut parts)?,
        None => vec![SendRange::full()],
    };
    Ok((Some(Reads { partitions, ranges }), parts))
}

/// The partitions that some parts name, which are taken out; `None`: they do not say all of a hash
/// key.
fn partitions(table: &Table, parts: &mut Vec<Condition>) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let hashes = table.entry.schema.partition_key();
    if let [hash] = hashes {
        let found = parts.iter().position(|part| alternatives(part, &hash.name).is_some());
        let Some(at) = found else { return Ok(None) };
        let values = alternatives(&parts.remove(at), &hash.name).unwrap_or_default();
        let mut partitions = Vec::with_capacity(values.len());
        for value in &sorted(table, hash, values)? {
            let partition = compared(hash, value)?;
            if !partitions.contains(&partition) {
                partitions.push(partition);
            }
        }
        return Ok(Some(partitions));
    }
    let is_named = |hash: &Column| parts.iter().any(|part| equal(part, &hash.name).is_some());
    if !hashes.iter().all(is_named) {
        return Ok(None);
    }
    let mut all = Vec::with_capacity(hashes.len());
    for hash in hashes {
        let found = parts.iter().position(|part| equal(part, &hash.name).is_some());
        let Some(at) = found else { return Ok(None) };
        if let Some(value) = equal(&parts.remove(at), &hash.name) {
            check_type(table, hash, value)?;
            all.push(compared(hash, value)?);
        }
    }
    let mut partition = Vec::new();
    compose_partition_key(all.iter().map(Vec::as_slice), &mut partition);
    Ok(Some(vec![partition]))
}

/// The ranges of rows that some parts let through, which are taken out. Types of CQL have orders
/// of their own: of these only equality is one of keys. `begin`: what comes before the column.
fn taken(
    (table, column): (&Table, &Column),
    begin: &[u8],
    parts: &mut Vec<Condition>,
) -> Result<Vec<SendRange>, Error> {
    let name = &column.name;
    if table.attributes.is_none() {
        let found = parts.iter().position(|part| equal(part, name).is_some());
        let Some(at) = found else { return Ok(vec![SendRange::full()]) };
        let values = alternatives(&parts.remove(at), name).unwrap_or_default();
        let test = |value| Test::Compare(Comparison::Equal, value);
        return values
            .into_iter()
            .next()
            .map_or(Ok(Vec::new()), |one| ranges(column, test(one), begin));
    }
    if let Some(at) = parts.iter().position(|part| alternatives(part, name).is_some()) {
        let values = alternatives(&parts.remove(at), name).unwrap_or_default();
        let mut all = Vec::with_capacity(values.len());
        for value in sorted(table, column, values)? {
            all.extend(ranges(column, Test::Compare(Comparison::Equal, value), begin)?);
        }
        return Ok(all);
    }
    if let Some(at) = parts.iter().position(|part| span(part, name).is_some())
        && let Some(test) = span(&parts.remove(at), name)
    {
        let (Test::Between(value, _) | Test::BeginsWith(value) | Test::Compare(_, value)) = &test;
        check_type(table, column, value)?;
        return ranges(column, test, begin);
    }
    let mut bound = |is_low: bool| -> Result<Option<(Comparison, Value)>, Error> {
        let fits = |part: &Condition| {
            bound(part, name).filter(|(how, _)| {
                is_low == matches!(how, Comparison::Greater | Comparison::GreaterOrEqual)
            })
        };
        let Some(at) = parts.iter().position(|part| fits(part).is_some()) else { return Ok(None) };
        let found = fits(&parts.remove(at));
        found.iter().try_for_each(|(_, value)| check_type(table, column, value))?;
        Ok(found)
    };
    let (low, high) = (bound(true)?, bound(false)?);
    between((column, begin), low, high)
}

/// The rows between two bounds.
fn between(
    (column, begin): (&Column, &[u8]),
    low: Option<(Comparison, Value)>,
    high: Option<(Comparison, Value)>,
) -> Result<Vec<SendRange>, Error> {
    if let (Some((low_how, low)), Some((high_how, high))) = (&low, &high) {
        let both_included =
            *low_how == Comparison::GreaterOrEqual && *high_how == Comparison::LessOrEqual;
        match order(low, high) {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) if both_included => {}
            // Nothing is between them.
            _ => return Ok(Vec::new()),
        }
    }
    let mut range = SendRange::of_prefix(begin);
    if let Some((how, value)) = low
        && let Some(found) = ranges(column, Test::Compare(how, value), begin)?.pop()
    {
        range.start = found.start;
    }
    if let Some((how, value)) = high
        && let Some(found) = ranges(column, Test::Compare(how, value), begin)?.pop()
    {
        range.end = found.end;
    }
    Ok(vec![range])
}

fn is_name(operand: &Operand, name: &str) -> bool {
    matches!(operand, Operand::Path(path) if path.root == name && path.steps.is_empty())
}

/// The value that an attribute is to be equal to.
fn equal<'c>(part: &'c Condition, name: &str) -> Option<&'c Value> {
    match part {
        Condition::Compare(Comparison::Equal, left, Operand::Value(value))
            if is_name(left, name) =>
        {
            Some(value)
        }
        Condition::Compare(Comparison::Equal, Operand::Value(value), right)
            if is_name(right, name) =>
        {
            Some(value)
        }
        _ => None,
    }
}

/// The values one of which an attribute is to be equal to.
fn alternatives(part: &Condition, name: &str) -> Option<Vec<Value>> {
    if let Some(value) = equal(part, name) {
        return Some(vec![value.clone()]);
    }
    let Condition::In(operand, all) = part else { return None };
    let value = |one: &Operand| match one {
        Operand::Value(value) => Some(value.clone()),
        _ => None,
    };
    if is_name(operand, name) { all.iter().map(value).collect() } else { None }
}

/// Values of a key, those of the API in order, each once.
fn sorted(table: &Table, column: &Column, mut values: Vec<Value>) -> Result<Vec<Value>, Error> {
    values.iter().try_for_each(|value| check_type(table, column, value))?;
    if table.attributes.is_some() {
        // All are of one type, which has an order.
        values.sort_by(|a, b| order(a, b).unwrap_or(Ordering::Equal));
        values.dedup();
    }
    Ok(values)
}

/// A test of an attribute that is a range of keys on its own.
fn span(part: &Condition, name: &str) -> Option<Test> {
    match part {
        Condition::Between { value, low: Operand::Value(low), high: Operand::Value(high) }
            if is_name(value, name) =>
        {
            Some(Test::Between(low.clone(), high.clone()))
        }
        Condition::BeginsWith(value, Operand::Value(prefix)) if is_name(value, name) => {
            Some(Test::BeginsWith(prefix.clone()))
        }
        _ => None,
    }
}

/// The bound that a part sets.
fn bound(part: &Condition, name: &str) -> Option<(Comparison, Value)> {
    let (how, value) = match part {
        Condition::Compare(how, left, Operand::Value(value)) if is_name(left, name) => {
            (*how, value)
        }
        Condition::Compare(how, Operand::Value(value), right) if is_name(right, name) => {
            (how.mirrored(), value)
        }
        _ => return None,
    };
    let is_bound = !matches!(how, Comparison::Equal | Comparison::Unequal);
    is_bound.then(|| (how, value.clone()))
}

/// Refuses a value that the key cannot have. Columns of CQL have types of their own, of which
/// texts are read.
fn check_type(table: &Table, column: &Column, value: &Value) -> Result<(), Error> {
    let expected = key_type_name(&column.ty);
    match table.attributes.is_none() || value.type_name() == expected {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "Key attribute's data type should match its data type in table's schema: Key {}: \
             expected: {expected} actual: {}",
            column.name,
            value.type_name()
        ))),
    }
}
