//! What an index has for its values, and how its places and those of its base table are one.
//!
//! An index is asked as a table: the view that keeps it. For each value looked up it has one
//! partition of that view, or within a partition of the base table one slice. Its rows are in the
//! order of the base table, so a place of the base table is a place of the index.
//!
//! Invariants
//!  - *in-base-order*: the columns of a view behind an index are the token, the partition key and
//!    the clustering key of its base, in this order and direction, but the one that is looked up.
//!    A view of another form is refused.
//!  - *places-are-the-base's*: where a page ends is said as a place of the base table. So pages go
//!    on with another index, or with none, after one was made or dropped.
//!  - *nothing-skipped*: the place in the index for a place of the base table is before all rows
//!    that come after that.

use super::clustering::ClusteringPlan;
use super::lookup::Lookup;
use super::partition::{Keys, PartitionPlan, RingRange, keys_up_to, ring};
use super::values::{Nulls, key_value};
use crate::error::Error;
use crate::term::Env;
use cluster::TableEntry;
use model::key::{
    clustering_components, compose_partition_key, partition_key_component, push_clustering,
};
use model::schema::{Computed, View};
use model::{Column, ColumnKind, TableSchema, Token, value};
use mutation::page::{Resume, RingBound, SendRange};
use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;
use std::rc::Rc;
use stdx::Put;

/// Longer values are in no index, and writes of them are refused where there is one. What was
/// written before is not looked for in vain.
const VALUE_BYTES_MAX: usize = 65_535;

/// An index, and what is asked of it.
#[derive(Clone, Debug)]
pub struct IndexPlan {
    pub name: String,
    /// The table that keeps it.
    pub view: Rc<TableEntry>,
    /// Whether what it leads to is read as whole partitions, or as the same ranges of each:
    /// otherwise as single rows.
    pub reads_partitions: bool,
    is_local: bool,
    /// Whether it is of the storage-attached class.
    is_attached: bool,
    /// The name of the column, for errors.
    column: String,
    lookup: Lookup,
    /// Of the clustering columns of the view, in their order.
    parts: Vec<Part>,
    /// Where the value stands in the keys of the base, if it does.
    place: Option<KeyPlace>,
    clustering_count: usize,
    key_count: usize,
}

/// What a clustering column of the view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Token,
    /// What is looked up.
    Value,
    PartitionKey(usize),
    Clustering(usize),
    /// Which element has the value.
    Element,
}

/// A column of a key of the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyPlace {
    PartitionKey(usize),
    Clustering(usize),
}

/// What is read of the view for one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRead {
    pub value: Vec<u8>,
    pub token: Token,
    /// The partition of the view, where it is not that of the value.
    pub other_key: Option<Vec<u8>>,
    pub ranges: Vec<SendRange>,
    /// Where it goes on.
    pub resume: Option<Resume>,
}

impl IndexRead {
    /// The partition of the view.
    pub fn key(&self) -> &[u8] {
        self.other_key.as_ref().unwrap_or(&self.value)
    }

    /// The same, to be taken out meanwhile: nobody asks for the value then.
    pub fn key_mut(&mut self) -> &mut Vec<u8> {
        self.other_key.as_mut().unwrap_or(&mut self.value)
    }
}

/// What is read of the view for several values, merged. Mostly it is one.
pub type IndexPart = SmallVec<[IndexRead; 1]>;

/// Values that are looked up.
type Values = SmallVec<[Vec<u8>; 1]>;

/// A row of the base that an index leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseRow {
    pub key: Vec<u8>,
    /// As far as the index knows it: of an index on a static column nothing.
    pub clustering: Vec<u8>,
}

/// Which index.
pub(super) struct Choice<'a> {
    pub(super) index: &'a model::schema::Index,
    pub(super) column: &'a Column,
    pub(super) lookup: Lookup,
}

impl IndexPlan {
    /// Of an index of `base` that `view` keeps.
    pub(super) fn new(
        base: &TableSchema,
        view: &Rc<TableEntry>,
        choice: &Choice<'_>,
    ) -> Result<IndexPlan, Error> {
        let Choice { index, column, lookup } = choice;
        let (schema, of) = (&view.schema, &index.name);
        let Some(what) = schema.view.as_deref().filter(|view| view.base == base.id) else {
            return Err(unusable(base, of, "is no view of it"));
        };
        let place = match column.kind {
            ColumnKind::PartitionKey => Some(KeyPlace::PartitionKey(column.position.into())),
            ColumnKind::Clustering => Some(KeyPlace::Clustering(column.position.into())),
            ColumnKind::Static | ColumnKind::Regular => None,
        };
        let part = |it: &Column| part(base, what, column, it);
        let parts: Option<Vec<Part>> = schema.clustering().iter().map(part).collect();
        let parts = parts.ok_or_else(|| unusable(base, of, "has columns of no index"))?;
        let has_rows = column.kind != ColumnKind::Static;
        if parts != form(base, index.is_local, place, has_rows, parts.last()) {
            return Err(unusable(base, of, "has its columns in another order"));
        }
        let first = place == Some(KeyPlace::Clustering(0));
        let of_partitions = matches!(place, Some(KeyPlace::PartitionKey(_))) || !has_rows;
        Ok(IndexPlan {
            name: index.name.clone(),
            view: view.clone(),
            reads_partitions: first || of_partitions || base.clustering_count == 0,
            is_local: index.is_local,
            is_attached: index.class.is_some(),
            column: column.name.clone(),
            lookup: lookup.clone(),
            parts,
            place,
            clustering_count: base.clustering_count,
            key_count: base.partition_key_count,
        })
    }

    /// Whether it is asked within a partition of the base table.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    pub(super) fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// Whether it leads to partitions of which it does not know the rows.
    fn knows_no_rows(&self) -> bool {
        0 < self.clustering_count
            && self.place != Some(KeyPlace::Clustering(0))
            && !self.parts.iter().any(|part| matches!(part, Part::Clustering(_)))
    }

    /// The values looked up, each once, in the order of their bytes.
    fn values(&self, env: &Env<'_>) -> Result<Values, Error> {
        let one = |term| key_value(term, &self.column, Nulls::NoRows, env);
        let mut values: Values = match &self.lookup {
            Lookup::One(term) => one(term)?.into_iter().map(|value| value.into_owned()).collect(),
            Lookup::Many(list) => {
                let values = list.evaluate(&self.column, Nulls::NoRows, env)?;
                values.into_iter().map(|value| value.into_owned()).collect()
            }
            Lookup::Entry { key, value } => match (one(key)?, one(value)?) {
                (Some(key), Some(value)) => {
                    let mut entry = Vec::with_capacity(8 + key.len() + value.len());
                    entry.put_u32_bytes(&key);
                    entry.put_u32_bytes(&value);
                    smallvec![entry]
                }
                _ => Values::new(),
            },
        };
        if values.iter().any(|value| VALUE_BYTES_MAX < value.len()) {
            return Err(Error::invalid("Index expression values may not be larger than 64K"));
        }
        values.sort();
        values.dedup();
        Ok(values)
    }

    /// What is read of the view: of the rows of `base` that `partition` and `clustering` name, from
    /// the place `resume` on. What is read for one partition after the other stands in parts of its
    /// own; the reads of a part are merged. None: there is no such row.
    pub(super) fn reads(
        &self,
        base: &TableSchema,
        (partition, clustering): (&PartitionPlan, &ClusteringPlan),
        combinations_max: usize,
        env: &Env<'_>,
        resume: Option<&Resume>,
    ) -> Result<Vec<IndexPart>, Error> {
        let values = self.values(env)?;
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let named = match partition {
            PartitionPlan::All => {
                return Ok(vec![self.part(base, values, &SendRange::full(), resume)]);
            }
            PartitionPlan::Tokens { lower, upper } => {
                let range = ring(lower, upper, env)?;
                let part = |range| self.part(base, values, &of_tokens(&range), resume);
                return Ok(range.map(part).into_iter().collect());
            }
            PartitionPlan::Keys(named) => named,
        };
        let keys = match keys_up_to(combinations_max, named, base, Nulls::NoRows, env)? {
            Keys::One(key) => vec![key],
            Keys::Many(many) => many.into_iter().map(|(_, key)| key).collect(),
        };
        let begun = resume.and_then(|place| keys.iter().position(|key| *key == place.key));
        if resume.is_some() && begun.is_none() {
            return Err(Error::invalid("The paging state is of other values of the partition key"));
        }
        let narrow = match self.place {
            Some(KeyPlace::Clustering(at)) => clustering.before(at),
            _ => clustering.clone(),
        };
        let rows = match self.knows_no_rows() {
            true => vec![SendRange::full()],
            false => narrow.ranges(base, Nulls::NoRows, env)?,
        };
        let part = |key: &Vec<u8>| self.part_of_key(base, &values, key, &rows, resume);
        Ok(keys.iter().skip(begun.unwrap_or(0)).map(part).collect())
    }

    /// The reads of a part that is not of one partition of the base.
    fn part(
        &self,
        base: &TableSchema,
        values: Values,
        range: &SendRange,
        resume: Option<&Resume>,
    ) -> IndexPart {
        debug_assert!(!self.is_local, "an index of a partition is asked without one");
        let read = |value: Vec<u8>| {
            let resume = resume.map(|place| self.resume(base, &value, &value, place));
            let (token, ranges) = (Token::of(&value), vec![range.clone()]);
            IndexRead { value, token, other_key: None, ranges, resume }
        };
        values.into_iter().map(read).collect()
    }

    /// Those of rows of one partition.
    fn part_of_key(
        &self,
        base: &TableSchema,
        values: &[Vec<u8>],
        key: &[u8],
        rows: &[SendRange],
        resume: Option<&Resume>,
    ) -> IndexPart {
        let read = |value: &Vec<u8>| {
            let prefix = self.prefix(value, key, b"");
            let under = |(more, weight): &(Vec<u8>, i8)| ([&prefix, &more[..]].concat(), *weight);
            let range = |it: &SendRange| SendRange { start: under(&it.start), end: under(&it.end) };
            let ranges = rows.iter().map(range).collect();
            let view_key = if self.is_local { key } else { &value[..] };
            let resume = resume.filter(|place| place.key == key);
            let resume = resume.map(|place| self.resume(base, value, view_key, place));
            let (token, other_key) = (Token::of(view_key), self.is_local.then(|| key.to_vec()));
            IndexRead { value: value.clone(), token, other_key, ranges, resume }
        };
        values.iter().map(read).collect()
    }

    /// The prefix in the view of rows of `key` that begin with `clustering`, which has nothing of
    /// the column that is looked up.
    fn prefix(&self, value: &[u8], key: &[u8], clustering: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.parts {
            match part {
                Part::Token => push_clustering(&Token::of(key).0.to_be_bytes(), &mut out),
                Part::Value => push_clustering(value, &mut out),
                Part::PartitionKey(at) => {
                    let component = partition_key_component(key, self.key_count, *at);
                    push_clustering(component.unwrap_or_default(), &mut out);
                }
                Part::Clustering(_) | Part::Element => break,
            }
        }
        out.extend_from_slice(clustering);
        out
    }

    /// Where a read of the view goes on for a place of the base (*nothing-skipped*).
    fn resume(&self, base: &TableSchema, value: &[u8], view_key: &[u8], at: &Resume) -> Resume {
        let after = match &at.after {
            // The same partition is found again, for its other rows.
            Some(_) if self.knows_no_rows() => (self.prefix(value, &at.key, b""), -1),
            None => (self.prefix(value, &at.key, b""), 1),
            Some((place, weight)) => {
                let (clustering, weight) = self.without_value(base, value, place, *weight);
                (self.prefix(value, &at.key, &clustering), weight)
            }
        };
        Resume { key: view_key.to_vec(), after: Some(after), rows_in_partition: 0 }
    }

    /// A place among the rows of a partition, as one among those with the value.
    fn without_value(
        &self,
        base: &TableSchema,
        value: &[u8],
        place: &[u8],
        weight: i8,
    ) -> (Vec<u8>, i8) {
        let Some(KeyPlace::Clustering(at)) = self.place else { return (place.to_vec(), weight) };
        let mut out = Vec::new();
        for (index, component) in clustering_components(place).enumerate() {
            if index != at {
                push_clustering(component, &mut out);
                continue;
            }
            let column = &base.clustering()[at];
            let order = value::compare(&column.ty, component, value);
            match if column.reversed { order.reverse() } else { order } {
                Ordering::Less => return (out, -1),
                Ordering::Greater => return (out, 1),
                Ordering::Equal => {}
            }
        }
        (out, weight)
    }

    /// Where reads of the view go on behind the partition `key` of the base.
    pub fn after_partition(&self, read: &IndexRead, key: &[u8]) -> Resume {
        let after = Some((self.prefix(&read.value, key, b""), 1));
        Resume { key: read.key().to_vec(), after, rows_in_partition: 0 }
    }

    /// The row of the base that a row of the view is for; `None` for a row of no such form.
    pub fn base_row(&self, read: &IndexRead, clustering: &[u8]) -> Option<BaseRow> {
        let (row, is_whole) = self.base_place(read, clustering)?;
        is_whole.then_some(row)
    }

    /// The same of the beginning of a row, and whether all is there that the view knows of a row.
    fn base_place(&self, read: &IndexRead, prefix: &[u8]) -> Option<(BaseRow, bool)> {
        let mut keys: SmallVec<[&[u8]; 4]> = smallvec![&[][..]; self.key_count];
        let mut missing = self.parts.iter();
        let (mut rows, mut key_parts) = (SmallVec::<[&[u8]; 4]>::new(), 0);
        for (component, part) in clustering_components(prefix).zip(&mut missing) {
            match part {
                Part::PartitionKey(at) => {
                    *keys.get_mut(*at)? = component;
                    key_parts += 1;
                }
                Part::Clustering(_) => rows.push(component),
                Part::Token | Part::Value | Part::Element => {}
            }
        }
        if let Some(KeyPlace::PartitionKey(at)) = self.place {
            *keys.get_mut(at)? = &read.value;
            key_parts += 1;
        }
        let key = match self.is_local {
            true => read.key().to_vec(),
            false if key_parts < self.key_count => return None,
            false => {
                let mut key = Vec::with_capacity(prefix.len());
                compose_partition_key(keys.into_iter(), &mut key);
                key
            }
        };
        let is_whole = missing.all(|part| *part == Part::Element);
        let rows = rows.into_iter();
        let mut clustering = Vec::new();
        let mut push = |component: &[u8]| push_clustering(component, &mut clustering);
        match self.place {
            Some(KeyPlace::Clustering(at)) => {
                let mut rows = rows.peekable();
                (&mut rows).take(at).for_each(&mut push);
                // Of a beginning it is not known whether it reaches there.
                if is_whole || rows.peek().is_some() {
                    push(&read.value);
                }
                rows.for_each(&mut push);
            }
            _ => rows.for_each(&mut push),
        }
        Some((BaseRow { key, clustering }, is_whole))
    }

    /// The place of the base for one in the view, where that is a place of it: for the end of a
    /// page without rows.
    pub fn place(&self, read: &IndexRead, (prefix, weight): (&[u8], i8)) -> Option<Resume> {
        let (BaseRow { key, clustering }, is_whole) = self.base_place(read, prefix)?;
        if self.clustering_count == 0 || self.knows_no_rows() {
            let done = Resume { key, after: None, rows_in_partition: 0 };
            return (is_whole && weight == 1).then_some(done);
        }
        // The row may have the value in another element.
        let weight = if self.parts.last() == Some(&Part::Element) { -1 } else { weight };
        Some(Resume { key, after: Some((clustering, weight)), rows_in_partition: 0 })
    }
}

/// The rows of an index for partitions in a part of the ring.
fn of_tokens(range: &RingRange) -> SendRange {
    let bound = |at: &RingBound| {
        let mut prefix = Vec::new();
        push_clustering(&at.token.0.to_be_bytes(), &mut prefix);
        (prefix, if at.after { 1 } else { -1 })
    };
    SendRange { start: bound(&range.start), end: bound(&range.end) }
}

fn unusable(base: &TableSchema, index: &str, why: &str) -> Error {
    let TableSchema { keyspace, name, .. } = base;
    let view = format!("{index}_index");
    Error::Invalid(format!(
        "Index {index} of {keyspace}.{name} cannot be used: the table {keyspace}.{view} {why}"
    ))
}

/// The view that keeps an index; a clear error where it is not there.
pub(super) fn view_of<'s>(
    schema: &'s cluster::Schema,
    base: &TableSchema,
    index: &model::schema::Index,
) -> Result<&'s Rc<TableEntry>, Error> {
    let view = schema.table(&base.keyspace, &index.view_name());
    view.ok_or_else(|| unusable(base, &index.name, "does not exist"))
}

fn part(base: &TableSchema, view: &View, indexed: &Column, column: &Column) -> Option<Part> {
    match view.computed(column.id) {
        Some(Computed::Token) => return Some(Part::Token),
        Some(Computed::KeyOfValue(_)) => return Some(Part::Element),
        Some(_) => return Some(Part::Value),
        None if column.name == indexed.name => return Some(Part::Value),
        None => {}
    }
    let found = base.column(&column.name)?;
    match found.kind {
        ColumnKind::PartitionKey => Some(Part::PartitionKey(found.position.into())),
        // Another direction would be another order.
        ColumnKind::Clustering if found.reversed != column.reversed => None,
        ColumnKind::Clustering => Some(Part::Clustering(found.position.into())),
        ColumnKind::Static | ColumnKind::Regular => None,
    }
}

/// The parts that the view of an index has (*in-base-order*).
fn form(
    base: &TableSchema,
    is_local: bool,
    value: Option<KeyPlace>,
    has_rows: bool,
    last: Option<&Part>,
) -> Vec<Part> {
    let mut parts = Vec::new();
    if is_local {
        parts.push(Part::Value);
    } else {
        parts.push(Part::Token);
        let keys = 0..base.partition_key_count;
        let others = keys.filter(|at| value != Some(KeyPlace::PartitionKey(*at)));
        parts.extend(others.map(Part::PartitionKey));
    }
    if has_rows {
        let rows = 0..base.clustering_count;
        let others = rows.filter(|at| value != Some(KeyPlace::Clustering(*at)));
        parts.extend(others.map(Part::Clustering));
    }
    parts.extend(last.filter(|part| **part == Part::Element));
    parts
}
