//! Which rows of a partition a statement is about: prefixes of the clustering key, with at most
//! one slice after them.
//!
//! Invariants
//!  - *disjoint-in-order*: the ranges of a plan do not overlap and ascend in table order.

use super::values::{Bound, COMBINATIONS_MAX, InList, Nulls, Tuple, TupleList, Values, key_value};
use crate::error::Error;
use crate::term::{Env, Term};
use model::key::{check_clustering, clustering_components, push_clustering};
use model::{Column, TableSchema};
use mutation::page::SendRange;
use std::borrow::Cow;
use std::cmp::Ordering;

/// Steps along the clustering key.
#[derive(Clone, Debug)]
pub struct ClusteringPlan {
    pub(super) steps: Vec<Step>,
    pub(super) slice: Option<Slice>,
    /// The most prefixes of `IN` values.
    pub(super) combinations_max: usize,
}

impl Default for ClusteringPlan {
    fn default() -> ClusteringPlan {
        let (steps, slice) = (Vec::new(), None);
        ClusteringPlan { steps, slice, combinations_max: COMBINATIONS_MAX }
    }
}

/// What is said about the next column or columns.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Equal(Term),
    In(InList),
    EqualTuple(usize, Tuple),
    InTuples(usize, TupleList),
}

impl Step {
    /// How many columns it is about.
    fn column_count(&self) -> usize {
        match self {
            Step::Equal(_) | Step::In(_) => 1,
            Step::EqualTuple(count, _) | Step::InTuples(count, _) => *count,
        }
    }
}

/// Bounds on the column, or columns, after the steps.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) lower: Option<Bound<Tuple>>,
    pub(super) upper: Option<Bound<Tuple>>,
}

/// Bytes of a key's components together at most.
const KEY_BYTES_MAX: usize = 65_535;

/// Refuses a key whose components, each of a legal length, are too long together.
fn check_length(key: &[u8]) -> Result<(), Error> {
    let bytes: usize = clustering_components(key).map(<[u8]>::len).sum();
    if bytes <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Error::Invalid(format!("Key length of {bytes} is longer than maximum of {KEY_BYTES_MAX}")))
}

impl ClusteringPlan {
    /// How many leading columns have one value.
    #[inline]
    pub fn single_count(&self) -> usize {
        let is_single = |step: &&Step| match step {
            Step::Equal(_) | Step::EqualTuple(..) => true,
            Step::In(InList::Terms(terms)) => terms.len() == 1,
            Step::InTuples(_, TupleList::Tuples(tuples)) => tuples.len() == 1,
            Step::In(InList::Whole(_)) | Step::InTuples(_, TupleList::Whole(_)) => false,
        };
        self.steps.iter().take_while(is_single).map(Step::column_count).sum()
    }

    /// How many leading columns have a value or several.
    #[inline]
    pub fn fixed_count(&self) -> usize {
        self.steps.iter().map(Step::column_count).sum()
    }

    /// Whether it says nothing: all rows.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.steps.is_empty() && self.slice.is_none()
    }

    /// What it says about columns before `column` alone.
    pub(super) fn before(&self, column: usize) -> ClusteringPlan {
        let mut at = 0;
        let ends_before = |step: &&Step| {
            at += step.column_count();
            at <= column
        };
        let steps: Vec<Step> = self.steps.iter().take_while(ends_before).cloned().collect();
        let fixed: usize = steps.iter().map(Step::column_count).sum();
        let is_whole = steps.len() == self.steps.len() && fixed < column;
        // The bounds of several columns may reach further.
        let single = |bound: &Option<Bound<Tuple>>| {
            bound.as_ref().is_none_or(|bound| matches!(bound.value, Tuple::One(_)))
        };
        let slice =
            self.slice.as_ref().filter(|it| is_whole && single(&it.lower) && single(&it.upper));
        ClusteringPlan { steps, slice: slice.cloned(), combinations_max: self.combinations_max }
    }

    /// Whether there is no range of rows in it, but rows by their whole keys.
    #[inline]
    pub fn names_rows(&self, table: &TableSchema) -> bool {
        self.slice.is_none() && self.fixed_count() == table.clustering_count
    }

    /// The row with these values.
    pub fn of_values(values: Vec<Term>) -> ClusteringPlan {
        let steps = values.into_iter().map(Step::Equal).collect();
        ClusteringPlan { steps, ..ClusteringPlan::default() }
    }

    /// Whether it has bounds.
    #[inline]
    pub fn has_slice(&self) -> bool {
        self.slice.is_some()
    }

    /// Whether some step has several values.
    pub fn has_in(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::In(_) | Step::InTuples(..)))
    }

    /// The prefixes of the steps, in table order, each once.
    pub fn prefixes(
        &self,
        table: &TableSchema,
        nulls: Nulls,
        env: &Env<'_>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let columns = table.clustering();
        let mut prefixes = vec![Vec::new()];
        let mut at = 0;
        for step in &self.steps {
            let count = step.column_count();
            let choices = step.choices(&columns[at..at + count], nulls, env)?;
            at += count;
            if let [choice] = &choices[..] {
                for prefix in &mut prefixes {
                    choice.iter().try_for_each(|value| push(value, prefix))?;
                }
                continue;
            }
            let combinations = prefixes.len().saturating_mul(choices.len());
            let max = self.combinations_max;
            if max < combinations {
                return Err(Error::Invalid(format!(
                    "clustering key cartesian product size {combinations} is greater than \
                     maximum {max}"
                )));
            }
            let mut next = Vec::with_capacity(combinations);
            for prefix in &prefixes {
                for choice in &choices {
                    let mut longer = prefix.clone();
                    choice.iter().try_for_each(|value| push(value, &mut longer))?;
                    next.push(longer);
                }
            }
            prefixes = next;
        }
        if let Some(long) = prefixes.iter().find(|prefix| KEY_BYTES_MAX < prefix.len()) {
            check_length(long)?;
        }
        if 1 < prefixes.len() {
            let order = &table.order;
            prefixes.sort_by(|a, b| order.compare((a, -1), (b, -1)));
            prefixes.dedup_by(|a, b| order.compare((a, -1), (b, -1)).is_eq());
        }
        Ok(prefixes)
    }

    /// The ranges (*disjoint-in-order*); none: no row.
    pub fn ranges(
        &self,
        table: &TableSchema,
        nulls: Nulls,
        env: &Env<'_>,
    ) -> Result<Vec<SendRange>, Error> {
        if self.is_full() {
            return Ok(vec![SendRange::full()]);
        }
        let prefixes = self.prefixes(table, nulls, env)?;
        let Some(slice) = &self.slice else {
            let range =
                |prefix: Vec<u8>| SendRange { start: (prefix.clone(), -1), end: (prefix, 1) };
            return Ok(prefixes.into_iter().map(range).collect());
        };
        let columns = &table.clustering()[self.fixed_count()..];
        let name = columns.first().map_or("", |column| &column.name);
        let (Some(lower), Some(upper)) =
            (limit(&slice.lower, name, nulls, env)?, limit(&slice.upper, name, nulls, env)?)
        else {
            return Ok(Vec::new());
        };
        let mut out = Vec::new();
        for prefix in &prefixes {
            let from = bounded(prefix, columns, lower.as_ref(), Side::Lower)?;
            let to = bounded(prefix, columns, upper.as_ref(), Side::Upper)?;
            intersect(table, &from, &to, &mut out);
        }
        out.sort_by(|a, b| compare(table, &a.start, &b.start));
        Ok(out)
    }
}

/// The values of a bound, if there is one; the outer `None`: a null among them.
#[allow(clippy::type_complexity)]
fn limit<'a>(
    bound: &'a Option<Bound<Tuple>>,
    name: &str,
    nulls: Nulls,
    env: &Env<'a>,
) -> Result<Option<Option<(Values<'a>, bool)>>, Error> {
    match bound {
        None => Ok(Some(None)),
        Some(Bound { value, inclusive }) => {
            let values = value.values(name, nulls, env)?;
            Ok(values.map(|values| Some((values, *inclusive))))
        }
    }
}

impl Step {
    fn choices<'a>(
        &'a self,
        columns: &[Column],
        nulls: Nulls,
        env: &Env<'a>,
    ) -> Result<Vec<Values<'a>>, Error> {
        let name = columns.first().map_or("", |column| &column.name);
        Ok(match self {
            Step::Equal(term) => {
                key_value(term, name, nulls, env)?.map(|value| vec![value]).into_iter().collect()
            }
            Step::In(list) => {
                list.evaluate(name, nulls, env)?.into_iter().map(|value| vec![value]).collect()
            }
            Step::EqualTuple(_, tuple) => tuple.values(name, nulls, env)?.into_iter().collect(),
            Step::InTuples(_, list) => list.values(name, nulls, env)?,
        })
    }
}

fn push(value: &[u8], prefix: &mut Vec<u8>) -> Result<(), Error> {
    let checked = check_clustering([value].into_iter());
    checked.map_err(|invalid| Error::Invalid(invalid.0))?;
    push_clustering(value, prefix);
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Lower,
    Upper,
}

/// The ranges under `prefix` of all that is on the right side of a bound. One, where all columns
/// of the bound run in one direction.
fn bounded(
    prefix: &[u8],
    columns: &[Column],
    bound: Option<&(Values<'_>, bool)>,
    side: Side,
) -> Result<Vec<SendRange>, Error> {
    let Some((values, inclusive)) = bound else {
        return Ok(vec![SendRange::of_prefix(prefix)]);
    };
    let columns = &columns[..values.len().min(columns.len())];
    let mixed = columns.windows(2).any(|pair| pair[0].reversed != pair[1].reversed);
    if !mixed {
        let reversed = columns.first().is_some_and(|column| column.reversed);
        return Ok(vec![beyond(prefix, prefix, values, *inclusive, side, reversed)?]);
    }
    // (a, b) > (x, y) is a > x, or a = x and b > y.
    let mut out = Vec::new();
    let mut equal = prefix.to_vec();
    for (index, column) in columns.iter().enumerate() {
        let inclusive = *inclusive && index + 1 == columns.len();
        let value = &values[index..=index];
        out.push(beyond(&equal, &equal, value, inclusive, side, column.reversed)?);
        push(&values[index], &mut equal)?;
    }
    Ok(out)
}

/// What is under `within`, beyond `prefix` extended by `values`.
fn beyond(
    within: &[u8],
    prefix: &[u8],
    values: &[Cow<'_, [u8]>],
    inclusive: bool,
    side: Side,
    reversed: bool,
) -> Result<SendRange, Error> {
    let mut limit = prefix.to_vec();
    values.iter().try_for_each(|value| push(value, &mut limit))?;
    let from_limit = (side == Side::Lower) != reversed;
    Ok(if from_limit {
        SendRange { start: (limit, if inclusive { -1 } else { 1 }), end: (within.to_vec(), 1) }
    } else {
        SendRange { start: (within.to_vec(), -1), end: (limit, if inclusive { 1 } else { -1 }) }
    })
}

fn compare(table: &TableSchema, a: &(Vec<u8>, i8), b: &(Vec<u8>, i8)) -> Ordering {
    table.order.compare((&a.0, a.1), (&b.0, b.1))
}

fn intersect(table: &TableSchema, a: &[SendRange], b: &[SendRange], out: &mut Vec<SendRange>) {
    for left in a {
        for right in b {
            let start = match compare(table, &left.start, &right.start) {
                Ordering::Less => &right.start,
                _ => &left.start,
            };
            let end = match compare(table, &left.end, &right.end) {
                Ordering::Greater => &right.end,
                _ => &left.end,
            };
            if compare(table, start, end).is_lt() {
                out.push(SendRange { start: start.clone(), end: end.clone() });
            }
        }
    }
}
