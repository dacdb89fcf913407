//! From a plan and its values to the changes of a mutation.
//!
//! A write of one row by its whole key costs an allocation for each of partition key and
//! clustering key, and one for the mutation: its row is written in place, collections included.

use crate::error::CqlError;
use crate::request::Request;
use model::key::clustering_components;
use model::value;
use model::{ColumnId, TableSchema, Type};
use mutation::collection::ValueElements;
use mutation::range::RangeTombstone;
use mutation::{Cell, CellState, CollectionWriter, Marker, MutationBuilder, RowBuilder, Tombstone};
use plan::modify::sum;
use plan::modify::{Action, Operation};
use plan::modify::{ModifyPlan, Whole};
use plan::restrictions::{Keys, Nulls, keys};
use plan::term::{Env, Evaluated, Term};

/// When a write happens and how long it lasts.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    /// Microseconds.
    pub(crate) timestamp: i64,
    /// Seconds; 0: for ever.
    pub(crate) ttl: i32,
    /// Seconds since the epoch.
    pub(crate) now_secs: i64,
    pub(crate) env: Env<'a>,
}

impl<'a> Write<'a> {
    /// What `plan` says, else the request, else the clock.
    pub(crate) fn of(
        plan: &ModifyPlan,
        request: &Request<'a>,
        default_timestamp: i64,
    ) -> Result<Write<'a>, CqlError> {
        let env = request.env();
        let timestamp = plan.using.timestamp(&env)?.unwrap_or(default_timestamp);
        let default_ttl = plan.table.schema.options.default_time_to_live;
        let ttl = plan.using.ttl(default_ttl, &env)?;
        let ttl = if plan.is_counter() { 0 } else { ttl };
        Ok(Write { timestamp, ttl, now_secs: env.now_secs(), env })
    }

    fn cell<'v>(&self, value: &'v [u8]) -> Cell<'v> {
        match self.ttl {
            0 => Cell::live(self.timestamp, value),
            ttl => Cell::expiring(self.timestamp, value, self.now_secs + ttl as i64, ttl),
        }
    }

    /// The deletion of what a collection held before it is set as a whole: what is written with it
    /// must not be covered.
    fn overwritten(&self) -> Tombstone {
        Tombstone::new(self.timestamp.saturating_sub(1), self.now_secs)
    }

    fn dead(&self) -> Cell<'static> {
        Cell::dead(self.timestamp, self.now_secs)
    }

    fn tombstone(&self) -> Tombstone {
        Tombstone::new(self.timestamp, self.now_secs)
    }

    fn marker(&self) -> Marker {
        match self.ttl {
            0 => Marker::Live { timestamp: self.timestamp },
            ttl => Marker::Expiring {
                timestamp: self.timestamp,
                expiry: self.now_secs + ttl as i64,
                ttl,
            },
        }
    }
}

/// What a row has, where a write depends on it.
#[derive(Debug, Default)]
pub(crate) struct Existing {
    /// Per column the timeuuids and values, in order.
    pub(super) lists: Vec<(ColumnId, ListElements)>,
    /// Per atomic column the value.
    pub(super) values: Vec<(ColumnId, Option<Vec<u8>>)>,
}

pub(super) type ListElements = Vec<(Vec<u8>, Vec<u8>)>;

impl Existing {
    fn value(&self, column: ColumnId) -> Option<&[u8]> {
        let (_, value) = self.values.iter().find(|(id, _)| *id == column)?;
        value.as_deref()
    }

    fn list(&self, column: ColumnId) -> &[(Vec<u8>, Vec<u8>)] {
        self.lists.iter().find(|(id, _)| *id == column).map_or(&[], |(_, list)| list)
    }
}

/// The partitions that a write is for.
pub(crate) fn partition_keys(plan: &ModifyPlan, env: &Env<'_>) -> Result<Keys, CqlError> {
    Ok(keys(&plan.partition, &plan.table.schema, Nulls::Refused, env)?)
}

/// Adds the changes of a write to the mutation of one of its partitions.
pub(crate) fn add_to(
    builder: &mut MutationBuilder<'_>,
    plan: &ModifyPlan,
    write: &Write<'_>,
    existing: &Existing,
) -> Result<(), CqlError> {
    let table = &*plan.table.schema;
    if !plan.static_operations.is_empty() {
        let mut row = RowBuilder::new(Vec::new());
        add_columns(&mut row, &plan.static_operations, write, existing)?;
        builder.static_row(row.finish());
    }
    if plan.whole == Whole::Delete {
        if plan.clustering.is_full() {
            builder.delete_partition(write.tombstone());
        } else if plan.clustering.names_rows(table) {
            for key in plan.clustering.prefixes(table, Nulls::Refused, &write.env)? {
                builder.row_with(&key, |row| {
                    row.tombstone(write.tombstone());
                    Ok::<(), CqlError>(())
                })?;
            }
        } else {
            for range in plan.clustering.ranges(table, Nulls::Refused, &write.env)? {
                let tombstone = write.tombstone();
                builder.delete_range(RangeTombstone { range: range.range(), tombstone });
            }
        }
    }
    if plan.whole != Whole::Mark && plan.row_operations.is_empty() {
        return Ok(());
    }
    let fill = |row: &mut RowBuilder| {
        if plan.whole == Whole::Mark {
            row.marker(write.marker());
        }
        add_columns(row, &plan.row_operations, write, existing)
    };
    if table.clustering_count == 0 {
        return builder.row_with(&[], fill);
    }
    for key in plan.clustering.prefixes(table, Nulls::Refused, &write.env)? {
        if table.compact_storage {
            check_compact_key(table, &key)?;
        }
        builder.row_with(&key, fill)?;
    }
    Ok(())
}

/// In a dense table of one clustering column its value is the whole name of a cell, which has one.
fn check_compact_key(table: &TableSchema, key: &[u8]) -> Result<(), CqlError> {
    if table.clustering_count == 1 && clustering_components(key).all(<[u8]>::is_empty) {
        let name = &table.clustering()[0].name;
        return Err(CqlError::Invalid(format!("Missing PRIMARY KEY part {name}")));
    }
    Ok(())
}

fn add_columns(
    row: &mut RowBuilder,
    operations: &[Operation],
    write: &Write<'_>,
    existing: &Existing,
) -> Result<(), CqlError> {
    for group in operations.chunk_by(|a, b| a.column == b.column) {
        let first = &group[0];
        if !first.ty.is_multi_cell() {
            add_cell(row, first, write, existing)?;
            continue;
        }
        if group.len() == 1 && add_value(row, first, write)? {
            continue;
        }
        let mut elements = Elements::new(&first.ty, write);
        for operation in group {
            elements.change(operation, existing.list(operation.column))?;
        }
        if let Some(blob) = elements.finish() {
            row.collection(first.column, &blob);
        }
    }
    Ok(())
}

/// Writes a whole value of a multi-cell column, or one that is added to it, without a look at its
/// elements one by one; whether that could be done.
fn add_value(
    row: &mut RowBuilder,
    operation: &Operation,
    write: &Write<'_>,
) -> Result<bool, CqlError> {
    let (term, tombstone) = match &operation.action {
        Action::Set(term) => (term, write.overwritten()),
        Action::Add(term) => (term, Tombstone::NONE),
        _ => return Ok(false),
    };
    let Evaluated::Value(bytes) = term.evaluate(&write.env)? else { return Ok(false) };
    let elements = ValueElements::new(&operation.ty, &bytes, tombstone, write.cell(&[]));
    let Some(elements) = elements else { return Ok(false) };
    let (uuids, now) = (write.env.uuids, write.env.now_micros);
    row.elements(operation.column, &elements, || uuids.timeuuid(now).into_bytes());
    Ok(true)
}

fn add_cell(
    row: &mut RowBuilder,
    operation: &Operation,
    write: &Write<'_>,
    existing: &Existing,
) -> Result<(), CqlError> {
    let column = operation.column;
    match &operation.action {
        Action::Set(term) => match term.evaluate(&write.env)? {
            Evaluated::Value(bytes) => row.cell(column, write.cell(&bytes)),
            Evaluated::Null => row.cell(column, write.dead()),
            Evaluated::Unset => {}
        },
        Action::Increment(term) | Action::Decrement(term) => {
            let value = term.evaluate(&write.env)?;
            let delta = match &value {
                Evaluated::Unset => return Ok(()),
                value => value.bytes().and_then(value::decode_i64),
            };
            let invalid = || CqlError::invalid("Invalid null value for counter increment");
            let delta = delta.ok_or_else(invalid)?;
            let delta = match operation.action {
                Action::Increment(_) => delta,
                _ => delta.checked_neg().ok_or_else(|| {
                    CqlError::Invalid(format!(
                        "The negation of {delta} overflows supported counter precision (signed 8 \
                         bytes integer)"
                    ))
                })?,
            };
            let state = CellState::CounterUpdate { delta };
            row.cell(column, Cell { timestamp: write.timestamp, state });
        }
        Action::AddNumber(sign, term) => {
            let more = term.evaluate(&write.env)?;
            let (Some(present), Some(more)) = (existing.value(column), more.bytes()) else {
                return Ok(());
            };
            if let Some(bytes) = sum(&operation.ty, present, *sign, more)? {
                row.cell(column, write.cell(&bytes));
            }
        }
        _ => row.cell(column, write.dead()),
    }
    Ok(())
}

/// The changes of one multi-cell column.
struct Elements<'w, 'a> {
    ty: &'w Type,
    write: &'w Write<'a>,
    tombstone: Tombstone,
    /// Path and value; `None` deletes. Of equal paths the last counts.
    items: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl<'w, 'a> Elements<'w, 'a> {
    fn new(ty: &'w Type, write: &'w Write<'a>) -> Elements<'w, 'a> {
        Elements { ty, write, tombstone: Tombstone::NONE, items: Vec::new() }
    }

    fn change(
        &mut self,
        operation: &'w Operation,
        list: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<(), CqlError> {
        let name = &operation.name;
        match &operation.action {
            Action::Set(term) => {
                let value = self.evaluate(term)?;
                if value == Evaluated::Unset {
                    return Ok(());
                }
                self.tombstone = self.write.overwritten();
                if let Some(bytes) = value.bytes() {
                    self.add_all(bytes, End::Back);
                }
            }
            Action::Add(term) => {
                if let Some(bytes) = self.evaluate(term)?.bytes() {
                    self.add_all(bytes, End::Back);
                }
            }
            Action::Prepend(term) => {
                if let Some(bytes) = self.evaluate(term)?.bytes() {
                    self.add_all(bytes, End::Front);
                }
            }
            Action::Remove(term) => {
                if let Some(bytes) = self.evaluate(term)?.bytes() {
                    self.remove_all(bytes, list);
                }
            }
            Action::SetElement(key, value) => {
                let value = match self.evaluate(value)? {
                    Evaluated::Unset => return Ok(()),
                    value => value.bytes().map(<[u8]>::to_vec),
                };
                let path = self.path(key, name, list, "set an element on")?;
                self.items.extend(path.map(|path| (path, value)));
            }
            Action::SetField(index, value) => match self.evaluate(value)? {
                Evaluated::Unset => {}
                value => {
                    let value = value.bytes().map(<[u8]>::to_vec);
                    self.items.push((index.to_be_bytes().to_vec(), value));
                }
            },
            Action::Delete => self.tombstone = self.write.tombstone(),
            Action::DeleteElement(key)
                if matches!(self.ty, Type::List { .. })
                    && self.evaluate(key)? == Evaluated::Unset => {}
            Action::DeleteElement(key) => {
                let path = self.path(key, name, list, "delete an element from")?;
                self.items.extend(path.map(|path| (path, None)));
            }
            Action::DeleteField(index) => {
                self.items.push((index.to_be_bytes().to_vec(), None));
            }
            Action::Increment(_) | Action::Decrement(_) | Action::AddNumber(..) => {}
        }
        Ok(())
    }

    fn evaluate(&self, term: &'w Term) -> Result<Evaluated<'w>, CqlError>
    where
        'a: 'w,
    {
        Ok(term.evaluate(&self.write.env)?)
    }

    /// The path of the element that a key or an index names. Errors say what was attempted.
    fn path(
        &self,
        key: &'w Term,
        name: &str,
        list: &[(Vec<u8>, Vec<u8>)],
        attempt: &str,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        let is_list = matches!(self.ty, Type::List { .. });
        let key = match self.evaluate(key)? {
            Evaluated::Value(bytes) => bytes,
            Evaluated::Unset if is_list => {
                return Err(CqlError::Invalid(format!(
                    "Invalid unset value for list index {name}"
                )));
            }
            Evaluated::Unset => return Err(CqlError::invalid("Invalid unset map key")),
            Evaluated::Null if is_list => {
                return Err(CqlError::Invalid(format!(
                    "Invalid null value for list index of column {name}"
                )));
            }
            Evaluated::Null => return Err(CqlError::invalid("Invalid null map key")),
        };
        if !is_list {
            return Ok(Some(key.into_owned()));
        }
        let index = value::decode_i32(&key).unwrap_or(-1);
        if list.is_empty() {
            return Err(CqlError::Invalid(format!("Attempted to {attempt} a list which is null")));
        }
        match usize::try_from(index).ok().and_then(|index| list.get(index)) {
            Some((path, _)) => Ok(Some(path.clone())),
            None => Err(CqlError::Invalid(format!(
                "List index {index} out of bound, list has size {}",
                list.len()
            ))),
        }
    }

    fn add_all(&mut self, bytes: &[u8], end: End) {
        match self.ty {
            Type::Map { .. } => self.items.extend(
                value::map_entries(bytes).map(|(key, value)| (key.to_vec(), Some(value.to_vec()))),
            ),
            Type::Set { .. } => {
                let parts = value::list_elements(bytes).filter_map(|part| part.ok().flatten());
                self.items.extend(parts.map(|part| (part.to_vec(), Some(Vec::new()))));
            }
            Type::User(_) => {
                for (index, field) in value::fields(bytes).enumerate() {
                    if let Ok(Some(field)) = field {
                        let path = (index as u16).to_be_bytes().to_vec();
                        self.items.push((path, Some(field.to_vec())));
                    }
                }
            }
            _ => {
                let parts: Vec<&[u8]> =
                    value::list_elements(bytes).filter_map(|part| part.ok().flatten()).collect();
                let (uuids, now) = (self.write.env.uuids, self.write.env.now_micros);
                match end {
                    End::Back => self.items.extend(parts.into_iter().map(|part| {
                        (uuids.timeuuid(now).as_bytes().to_vec(), Some(part.to_vec()))
                    })),
                    // The last one first, so that the first one comes first.
                    End::Front => self.items.extend(parts.into_iter().rev().map(|part| {
                        (uuids.timeuuid_before(now).as_bytes().to_vec(), Some(part.to_vec()))
                    })),
                }
            }
        }
    }

    fn remove_all(&mut self, bytes: &[u8], list: &[(Vec<u8>, Vec<u8>)]) {
        let parts = value::list_elements(bytes).filter_map(|part| part.ok().flatten());
        match self.ty {
            Type::List { element, .. } => {
                let unwanted: Vec<&[u8]> = parts.collect();
                for (path, present) in list {
                    let same = |part: &&[u8]| value::compare(element, part, present).is_eq();
                    if unwanted.iter().any(same) {
                        self.items.push((path.clone(), None));
                    }
                }
            }
            _ => self.items.extend(parts.map(|part| (part.to_vec(), None))),
        }
    }

    /// The blob; `None` when nothing changes.
    fn finish(mut self) -> Option<Vec<u8>> {
        if self.items.is_empty() && self.tombstone.is_none() {
            return None;
        }
        let path_type = self.ty.path_type()?;
        self.items.sort_by(|(a, _), (b, _)| value::compare(&path_type, a, b));
        let mut writer = CollectionWriter::new(self.tombstone);
        for group in self.items.chunk_by(|(a, _), (b, _)| value::compare(&path_type, a, b).is_eq())
        {
            // Cells of one time: a deletion wins, else the greatest value.
            let rank = |value: &Option<Vec<u8>>| (value.is_none(), value.clone());
            let winner = group.iter().max_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)));
            let Some((path, value)) = winner else { continue };
            match value {
                Some(value) => writer.push(path, self.write.cell(value)),
                None => writer.push(path, self.write.dead()),
            }
        }
        Some(writer.finish())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}
