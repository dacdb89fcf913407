//! The partitions that a statement names.

use super::values::{Bound, COMBINATIONS_MAX, InList, Nulls, key_value};
use crate::error::Error;
use crate::term::{Env, Term};
use model::key::{check_partition_key, compose_partition_key};
use model::value;
use model::{TableSchema, Token};
use mutation::page::RingBound;
use std::borrow::Cow;

/// Which partitions.
#[derive(Clone, Debug)]
pub enum PartitionPlan {
    /// Those with these values of the key's columns, in the order of the columns.
    Keys(Vec<KeyValue>),
    /// Those with tokens in a range.
    Tokens { lower: Option<Bound<Term>>, upper: Option<Bound<Term>> },
    /// All.
    All,
}

/// The value or values of a key column.
#[derive(Clone, Debug)]
pub enum KeyValue {
    One(Term),
    Many(InList),
}

/// The keys that a plan has named.
#[derive(Clone, Debug)]
pub enum Keys {
    One(Vec<u8>),
    /// In the order of their values, each once; with their tokens.
    Many(Vec<(Token, Vec<u8>)>),
}

/// A part of the ring.
#[derive(Clone, Debug)]
pub struct RingRange {
    pub start: RingBound,
    pub end: RingBound,
}

/// The keys of `values` for a write.
pub fn keys(
    values: &[KeyValue],
    table: &TableSchema,
    nulls: Nulls,
    env: &Env<'_>,
) -> Result<Keys, Error> {
    keys_up_to(COMBINATIONS_MAX, values, table, nulls, env)
}

/// The keys of `values`, `max` at most. One value per column costs one allocation.
pub fn keys_up_to(
    max: usize,
    values: &[KeyValue],
    table: &TableSchema,
    nulls: Nulls,
    env: &Env<'_>,
) -> Result<Keys, Error> {
    let columns = table.partition_key();
    if let ([KeyValue::One(term)], [column]) = (values, columns) {
        let Some(value) = key_value(term, &column.name, nulls, env)? else {
            return Ok(Keys::Many(Vec::new()));
        };
        check(&[&value], table)?;
        return Ok(Keys::One(value.into_owned()));
    }
    let mut lists: Vec<Vec<Cow<'_, [u8]>>> = Vec::with_capacity(values.len());
    for (value, column) in values.iter().zip(columns) {
        lists.push(match value {
            KeyValue::One(term) => key_value(term, &column.name, nulls, env)?.into_iter().collect(),
            KeyValue::Many(list) => {
                let mut list = list.evaluate(&column.name, nulls, env)?;
                list.sort_by(|a, b| value::compare(&column.ty, a, b));
                list.dedup_by(|a, b| value::compare(&column.ty, a, b).is_eq());
                list
            }
        });
    }
    let combinations =
        lists.iter().fold(1usize, |product, list| product.saturating_mul(list.len()));
    if max < combinations {
        return Err(Error::Invalid(format!(
            "partition key cartesian product size {combinations} is greater than maximum {max}"
        )));
    }
    let mut out = Vec::with_capacity(combinations);
    for index in 0..combinations {
        let components = pick(&lists, index);
        check(&components, table)?;
        let mut key = Vec::new();
        compose_partition_key(components.iter().copied(), &mut key);
        out.push((Token::of(&key), key));
    }
    if values.iter().all(|value| matches!(value, KeyValue::One(_)))
        && let Some((_, key)) = out.pop()
    {
        return Ok(Keys::One(key));
    }
    Ok(Keys::Many(out))
}

/// Combination `index` of one value from each list, the last list running fastest.
pub(super) fn pick<'l>(lists: &'l [Vec<Cow<'_, [u8]>>], mut index: usize) -> Vec<&'l [u8]> {
    let mut out = vec![&[][..]; lists.len()];
    for (slot, list) in out.iter_mut().zip(lists).rev() {
        *slot = &list[index % list.len()];
        index /= list.len();
    }
    out
}

fn check(components: &[&[u8]], table: &TableSchema) -> Result<(), Error> {
    match check_partition_key(components.iter().copied()) {
        Ok(()) => Ok(()),
        // An empty value of its base table is a key of a view.
        Err(_) if table.view.is_some() && components.iter().all(|it| it.is_empty()) => Ok(()),
        Err(invalid) => Err(Error::Invalid(invalid.0)),
    }
}

/// The ring between two token bounds; `None` when there is nothing between them.
pub fn ring(
    lower: &Option<Bound<Term>>,
    upper: &Option<Bound<Term>>,
    env: &Env<'_>,
) -> Result<Option<RingRange>, Error> {
    let token = |bound: &Bound<Term>| -> Result<Option<Token>, Error> {
        let value = key_value(&bound.value, "partition key token", Nulls::NoRows, env)?;
        Ok(value.and_then(|value| value::decode_i64(&value)).map(Token))
    };
    let mut start = RingBound { token: Token::MIN, key: None, after: false };
    let mut end = RingBound { token: Token::MAX, key: None, after: true };
    if let Some(bound) = lower {
        let Some(token) = token(bound)? else { return Ok(None) };
        start = RingBound { token, key: None, after: !bound.inclusive };
    }
    if let Some(bound) = upper {
        let Some(token) = token(bound)? else { return Ok(None) };
        // The least token as an upper bound means the end of the ring.
        if token != Token::MIN {
            end = RingBound { token, key: None, after: bound.inclusive };
        }
    }
    let empty = (end.token, end.after) <= (start.token, start.after);
    Ok((!empty).then_some(RingRange { start, end }))
}
