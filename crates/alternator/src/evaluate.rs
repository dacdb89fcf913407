//! Whether a condition holds of an item, and what operands are. Pure.
//!
//! Invariants
//!  - *missing-is-false*: a comparison with what an item lacks does not hold, but for `<>`.

use crate::error::Error;
use crate::expression::{Comparison, Condition, Operand, Path, Step};
use crate::number::Number;
use crate::value::{Map, Value, order};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Whether it holds.
pub fn holds(condition: &Condition, item: &Map) -> Result<bool, Error> {
    Ok(match condition {
        Condition::And(all) => {
            for part in all {
                if !holds(part, item)? {
                    return Ok(false);
                }
            }
            true
        }
        Condition::Or(all) => {
            for part in all {
                if holds(part, item)? {
                    return Ok(true);
                }
            }
            false
        }
        Condition::Not(inner) => !holds(inner, item)?,
        Condition::Compare(comparison, left, right) => {
            let (left, right) = (operand(left, item)?, operand(right, item)?);
            compare(*comparison, left.as_deref(), right.as_deref())
        }
        Condition::Between { value, low, high } => {
            let value = operand(value, item)?;
            let (low, high) = (operand(low, item)?, operand(high, item)?);
            compare(Comparison::GreaterOrEqual, value.as_deref(), low.as_deref())
                && compare(Comparison::LessOrEqual, value.as_deref(), high.as_deref())
        }
        Condition::In(value, all) => {
            let Some(value) = operand(value, item)? else { return Ok(false) };
            for one in all {
                if operand(one, item)?.as_ref() == Some(&value) {
                    return Ok(true);
                }
            }
            false
        }
        Condition::Exists(path) => find(path, item).is_some(),
        Condition::NotExists(path) => find(path, item).is_none(),
        Condition::Type(value, name) => {
            operand(value, item)?.is_some_and(|value| value.type_name() == name)
        }
        Condition::BeginsWith(value, prefix) => {
            let (value, prefix) = (operand(value, item)?, operand(prefix, item)?);
            value.zip(prefix).is_some_and(|(value, prefix)| begins_with(&value, &prefix))
        }
        Condition::Contains(value, part) => {
            let (value, part) = (operand(value, item)?, operand(part, item)?);
            value.zip(part).is_some_and(|(value, part)| contains(&value, &part))
        }
    })
}

/// The value at a path.
pub fn find<'i>(path: &Path, item: &'i Map) -> Option<&'i Value> {
    let mut value = item.get(&path.root)?;
    for step in &path.steps {
        value = match (step, value) {
            (Step::Name(name), Value::M(map)) => map.get(name)?,
            (Step::Index(index), Value::L(list)) => list.get(*index)?,
            _ => return None,
        };
    }
    Some(value)
}

/// The value of an operand, if it has any.
pub fn operand<'v>(operand: &'v Operand, item: &'v Map) -> Result<Option<Cow<'v, Value>>, Error> {
    let evaluate = |inner: &'v Operand| self::operand(inner, item);
    Ok(match operand {
        Operand::Path(path) => find(path, item).map(Cow::Borrowed),
        Operand::Value(value) => Some(Cow::Borrowed(value)),
        Operand::Size(inner) => {
            let size = evaluate(inner)?.and_then(|value| size(&value));
            size.map(|size| Cow::Owned(Value::N(Number::of(size as i64))))
        }
        Operand::IfNotExists(path, default) => match find(path, item) {
            Some(value) => Some(Cow::Borrowed(value)),
            None => evaluate(default)?,
        },
        Operand::ListAppend(a, b) => match (needed(evaluate(a)?)?, needed(evaluate(b)?)?) {
            (Value::L(mut a), Value::L(b)) => {
                a.extend(b);
                Some(Cow::Owned(Value::L(a)))
            }
            _ => return Err(wrong_type()),
        },
        Operand::Plus(a, b) => {
            let (a, b) = (number(evaluate(a)?)?, number(evaluate(b)?)?);
            Some(Cow::Owned(Value::N(a.plus(b)?)))
        }
        Operand::Minus(a, b) => {
            let (a, b) = (number(evaluate(a)?)?, number(evaluate(b)?)?);
            Some(Cow::Owned(Value::N(a.minus(b)?)))
        }
    })
}

/// An error for what an update needs and an item lacks.
pub fn missing() -> Error {
    Error::validation(
        "The provided expression refers to an attribute that does not exist in the item",
    )
}

/// An error for a value of another type than an update needs.
pub fn wrong_type() -> Error {
    Error::validation(
        "An operand in the update expression has an incorrect data type: operand type mismatch",
    )
}

fn needed(value: Option<Cow<'_, Value>>) -> Result<Value, Error> {
    value.map(Cow::into_owned).ok_or_else(missing)
}

fn number(value: Option<Cow<'_, Value>>) -> Result<Number, Error> {
    match value.ok_or_else(missing)?.as_ref() {
        Value::N(number) => Ok(*number),
        _ => Err(wrong_type()),
    }
}

/// *missing-is-false*
fn compare(comparison: Comparison, left: Option<&Value>, right: Option<&Value>) -> bool {
    let (left, right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        _ => return comparison == Comparison::Unequal,
    };
    let is = |fits: fn(Ordering) -> bool| order(left, right).is_some_and(fits);
    match comparison {
        Comparison::Equal => left == right,
        Comparison::Unequal => left != right,
        Comparison::Less => is(Ordering::is_lt),
        Comparison::LessOrEqual => is(Ordering::is_le),
        Comparison::Greater => is(Ordering::is_gt),
        Comparison::GreaterOrEqual => is(Ordering::is_ge),
    }
}

fn begins_with(value: &Value, prefix: &Value) -> bool {
    match (value, prefix) {
        (Value::S(value), Value::S(prefix)) => value.starts_with(prefix.as_str()),
        (Value::B(value), Value::B(prefix)) => value.starts_with(prefix),
        _ => false,
    }
}

fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::S(value), Value::S(part)) => value.contains(part.as_str()),
        (Value::B(value), Value::B(part)) => {
            part.is_empty() || value.windows(part.len()).any(|window| window == part)
        }
        (Value::SS(set), Value::S(part)) => set.binary_search(part).is_ok(),
        (Value::NS(set), Value::N(part)) => set.binary_search(part).is_ok(),
        (Value::BS(set), Value::B(part)) => set.binary_search(part).is_ok(),
        (Value::L(list), part) => list.contains(part),
        _ => false,
    }
}

/// What `size` says: bytes, elements of a collection, and of a text its code units in UTF-16, as
/// the service counts them; nothing of a number or a flag.
fn size(value: &Value) -> Option<usize> {
    match value {
        Value::S(text) => Some(text.encode_utf16().count()),
        Value::B(bytes) => Some(bytes.len()),
        Value::M(map) => Some(map.len()),
        Value::L(list) => Some(list.len()),
        Value::SS(set) => Some(set.len()),
        Value::NS(set) => Some(set.len()),
        Value::BS(set) => Some(set.len()),
        Value::N(_) | Value::Bool(_) | Value::Null => None,
    }
}
