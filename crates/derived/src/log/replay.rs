//! Rows of the log as writes again: what a table with the columns of the base table has to be
//! written, so that it holds what the writes of the base table made. Images are passed over.
//!
//! Invariants
//!  - *replayable* of [`super`]: the writes have the times of what they tell of, so they may be
//!    applied in any order, and twice.
//!  - *whole-ranges*: the bounds of a range follow each other in their stream. Who reads a log in
//!    pieces gives all of a stream to one [`Replay`], in order; a bound alone is damage.
//!  - *foreign-never-panics*: whoever may write to the log may have written anything.
//!
//! What is not as it was: a lifetime is counted from the time of the write, where the write counted
//! it from the clock of whoever coordinated it.

use super::record::{
    DELETE_PARTITION, DELETE_ROW, EXPIRE_PARTITION, EXPIRE_ROW, FROM, FROM_AFTER, INSERT, UP_TO,
    UP_TO_BEFORE, UPDATE,
};
use model::key::{
    check_clustering, check_partition_key, clustering_components, compose_partition_key,
    push_clustering,
};
use model::schema::{Column, ColumnKind, cdc};
use model::{ColumnId, TableSchema, Type, value};
use mutation::page::{ColumnForm, PageLayout, PageRow, PageView};
use mutation::{
    Cell, ClusteringPosition, ClusteringRange, CollectionWriter, FrozenMutation, Marker,
    MutationBuilder, RangeTombstone, RowBuilder, Tombstone, collection,
};
use std::collections::BTreeMap;
use stdx::Damaged;

/// How the rows of a log are replayed into a table, and how far one stream of it is.
#[derive(Clone, Debug)]
pub struct Replay {
    into: TableSchema,
    /// What is read of a row, and what each of it tells.
    columns: Vec<(ColumnId, ColumnForm)>,
    parts: Vec<Part>,
    /// The partition and the start of a range whose end comes next.
    start: Option<(Vec<u8>, ClusteringPosition)>,
}

/// What a column of a log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Operation,
    Ttl,
    Partition(usize),
    Clustering(usize),
    /// Of a column of the table, by its id there.
    Value(ColumnId),
    Deleted(ColumnId),
    Elements(ColumnId),
}

/// What a row of a log tells.
#[derive(Debug, Default)]
struct Told<'p> {
    operation: Option<i8>,
    ttl: i32,
    partition: Vec<&'p [u8]>,
    clustering: Vec<&'p [u8]>,
    columns: BTreeMap<ColumnId, Cells<'p>>,
}

/// What it tells of a column.
#[derive(Debug, Default)]
struct Cells<'p> {
    value: Option<&'p [u8]>,
    is_deleted: bool,
    elements: Option<&'p [u8]>,
}

fn damaged(what: &'static str) -> Damaged {
    Damaged::new(what, 0)
}

impl Replay {
    /// How `log`, of a table that has the columns of `into`, is replayed into that. Says what is
    /// wrong with schemas that do not fit.
    pub fn new(log: &TableSchema, into: &TableSchema) -> Result<Replay, String> {
        let parts = parts_of(into);
        let (mut columns, mut found) = (Vec::new(), Vec::new());
        for column in log.regulars() {
            let Some((_, ty, part)) = parts.iter().find(|(name, ..)| *name == column.name) else {
                continue;
            };
            if column.ty != *ty {
                return Err(format!("{}.{} is a {}", log.name, column.name, column.ty.to_cql()));
            }
            columns.push((column.id, ColumnForm::Value));
            found.push(*part);
        }
        match parts.iter().find(|(.., part)| !found.contains(part)) {
            Some((name, ..)) => Err(format!("{} has no column {name}", log.name)),
            None => Ok(Replay { into: into.clone(), columns, parts: found, start: None }),
        }
    }

    /// The columns of the log that are read.
    pub fn columns(&self) -> &[(ColumnId, ColumnForm)] {
        &self.columns
    }

    /// The writes that a page of the log tells of, which has [`Replay::columns`].
    pub fn writes(&mut self, page: &[u8]) -> Result<Vec<FrozenMutation>, Damaged> {
        let columns = std::mem::take(&mut self.columns);
        let view = PageView::trusted(page, PageLayout::new(&columns, 0));
        let mut writes = Vec::new();
        let mut all = view.partitions().flat_map(|partition| partition.rows());
        let read = all.try_for_each(|row| {
            writes.extend(self.write_of(&row)?);
            Ok(())
        });
        self.columns = columns;
        read.map(|()| writes)
    }

    /// Whether a range was begun whose end has not come. (*whole-ranges*)
    pub fn is_within_range(&self) -> bool {
        self.start.is_some()
    }

    /// The write that a row tells of; none where it is an image, or the first bound of a range.
    fn write_of(&mut self, row: &PageRow<'_>) -> Result<Option<FrozenMutation>, Damaged> {
        let time = time_of(row)?;
        let told = self.told(row)?;
        let mut key = Vec::new();
        compose_partition_key(told.partition.iter().copied(), &mut key);
        let mut clustering = Vec::new();
        told.clustering.iter().for_each(|part| push_clustering(part, &mut clustering));
        let is_whole = told.clustering.len() == self.into.clustering_count;
        let operation = told.operation.ok_or_else(|| damaged("a row of a log does nothing"))?;
        let is_end = matches!(operation, UP_TO | UP_TO_BEFORE);
        if self.start.is_some() != is_end {
            return Err(damaged("a range of a log has one bound"));
        }
        let tombstone = Tombstone::new(time, seconds(time));
        let mut out = MutationBuilder::new(&self.into, &key);
        match operation {
            UPDATE | INSERT => self.write(&told, (time, &clustering, is_whole), &mut out)?,
            DELETE_ROW | EXPIRE_ROW if is_whole => {
                let mut row = RowBuilder::new(Vec::new());
                row.tombstone(tombstone);
                out.row(&clustering, &row.finish());
            }
            DELETE_PARTITION | EXPIRE_PARTITION => out.delete_partition(tombstone),
            FROM | FROM_AFTER => {
                let weight = if operation == FROM { -1 } else { 1 };
                let start = ClusteringPosition { prefix: clustering.into(), weight };
                self.start = Some((key, start));
                return Ok(None);
            }
            UP_TO | UP_TO_BEFORE => {
                let begun = self.start.take().filter(|(partition, _)| *partition == key);
                let (_, start) = begun.ok_or_else(|| damaged("a range of a log has one bound"))?;
                let weight = if operation == UP_TO { 1 } else { -1 };
                let end = ClusteringPosition { prefix: clustering.into(), weight };
                let range = ClusteringRange { start, end };
                if range.is_empty(&self.into.order) {
                    return Err(damaged("a range of a log ends before it starts"));
                }
                out.delete_range(RangeTombstone { range, tombstone });
            }
            super::record::BEFORE | super::record::AFTER => return Ok(None),
            _ => return Err(damaged("a row of a log does what is not known")),
        }
        Ok(Some(out.freeze()))
    }

    fn told<'p>(&self, row: &PageRow<'p>) -> Result<Told<'p>, Damaged> {
        let mut told = Told::default();
        // Parts of the key come in any order.
        let mut keys: BTreeMap<(bool, usize), &'p [u8]> = BTreeMap::new();
        for (part, found) in self.parts.iter().zip(row.columns()) {
            let Some(bytes) = found.value else { continue };
            match *part {
                Part::Operation => told.operation = value::decode_i8(bytes),
                Part::Ttl => {
                    let ttl = value::decode_i64(bytes).and_then(|ttl| i32::try_from(ttl).ok());
                    told.ttl = ttl.ok_or_else(|| damaged("a lifetime of a log is too long"))?;
                }
                Part::Partition(at) => drop(keys.insert((false, at), bytes)),
                Part::Clustering(at) => drop(keys.insert((true, at), bytes)),
                Part::Value(id) => told.columns.entry(id).or_default().value = Some(bytes),
                Part::Deleted(id) => told.columns.entry(id).or_default().is_deleted = true,
                Part::Elements(id) => told.columns.entry(id).or_default().elements = Some(bytes),
            }
        }
        for (at, ((is_clustering, part), bytes)) in keys.into_iter().enumerate() {
            let (list, first) = match is_clustering {
                false => (&mut told.partition, 0),
                true => (&mut told.clustering, self.into.partition_key_count),
            };
            if part + first != at {
                return Err(damaged("a key of a log has a gap"));
            }
            list.push(bytes);
        }
        if told.partition.len() != self.into.partition_key_count {
            return Err(damaged("a row of a log has no key"));
        }
        let partition = check_partition_key(told.partition.iter().copied());
        let clustering = check_clustering(told.clustering.iter().copied());
        match partition.and(clustering) {
            Ok(()) => Ok(told),
            Err(_) => Err(damaged("a key of a log is too long, or empty")),
        }
    }

    /// Writes the cells of a row, or of the static row.
    fn write(
        &self,
        told: &Told<'_>,
        (time, clustering, is_whole): (i64, &[u8], bool),
        out: &mut MutationBuilder<'_>,
    ) -> Result<(), Damaged> {
        let cell = |bytes| match told.ttl {
            0 => Cell::live(time, bytes),
            ttl => Cell::expiring(time, bytes, seconds(time) + i64::from(ttl), ttl),
        };
        let dead = Cell::dead(time, seconds(time));
        let mut row = RowBuilder::new(Vec::new());
        if told.operation == Some(INSERT) {
            row.marker(Marker::of_cell(cell(&[])));
        }
        let mut is_static = false;
        for (id, cells) in &told.columns {
            let column = self.into.column_by_id(*id);
            let column = column.ok_or_else(|| damaged("a column of a log is not known"))?;
            is_static |= column.kind == ColumnKind::Static;
            if !column.ty.is_multi_cell() {
                match (cells.value, cells.is_deleted) {
                    (Some(bytes), _) => row.cell(*id, cell(bytes)),
                    (None, true) => row.cell(*id, dead),
                    (None, false) => {}
                }
                continue;
            }
            // An overwrite deletes what was there before it (*replayable*).
            let cleared = Tombstone::new(time - 1, seconds(time));
            let cleared = if cells.is_deleted { cleared } else { Tombstone::NONE };
            let mut writer = CollectionWriter::new(cleared);
            for (path, value) in elements_of(column, cells)? {
                writer.push(&path, value.map_or(dead, cell));
            }
            row.collection(*id, &writer.finish());
        }
        match (is_static, is_whole) {
            (true, _) => out.static_row(row.finish()),
            (false, true) => out.row(clustering, &row.finish()),
            (false, false) => return Err(damaged("a row of a log has half a key")),
        }
        Ok(())
    }
}

/// What a log has for a table with these columns: names, types, and what each tells.
fn parts_of(table: &TableSchema) -> Vec<(String, Type, Part)> {
    let mut parts = vec![
        (cdc::OPERATION.to_owned(), Type::TinyInt, Part::Operation),
        (cdc::TTL.to_owned(), Type::BigInt, Part::Ttl),
    ];
    let keys = |columns: &[Column], part: fn(usize) -> Part| {
        let each = columns.iter().enumerate();
        each.map(move |(at, it)| (it.name.clone(), it.ty.clone(), part(at))).collect::<Vec<_>>()
    };
    parts.extend(keys(table.partition_key(), Part::Partition));
    parts.extend(keys(table.clustering(), Part::Clustering));
    for Column { id, name, ty, .. } in table.statics().iter().chain(table.regulars()) {
        parts.push((name.clone(), cdc::value_type(ty), Part::Value(*id)));
        parts.push((cdc::deleted(name), Type::Boolean, Part::Deleted(*id)));
        let elements = cdc::deleted_elements_type(ty);
        let named = |ty| (cdc::deleted_elements(name), ty, Part::Elements(*id));
        parts.extend(elements.map(named));
    }
    parts
}

/// When what a row tells of was written, microseconds.
fn time_of(row: &PageRow<'_>) -> Result<i64, Damaged> {
    let time = clustering_components(row.clustering()).next().and_then(value::decode_uuid);
    let ticks = time.and_then(|uuid| value::timeuuid_ticks(&uuid));
    ticks.map(|ticks| ticks.div_euclid(10)).ok_or_else(|| damaged("a row of a log has no time"))
}

fn seconds(micros: i64) -> i64 {
    micros.div_euclid(1_000_000)
}

/// The elements of a collection that were written, and those that were deleted (`None`), in the
/// order of the collection.
#[expect(clippy::type_complexity, reason = "a path, and a value if there is one")]
fn elements_of<'p>(
    column: &Column,
    cells: &Cells<'p>,
) -> Result<Vec<(Vec<u8>, Option<&'p [u8]>)>, Damaged> {
    let mut all = Vec::new();
    let written = cells.value.unwrap_or_default();
    match &column.ty {
        _ if written.is_empty() => {}
        Type::Set { .. } => {
            for element in value::list_elements(written) {
                let element = element?.ok_or_else(|| damaged("an element of a log is null"))?;
                all.push((element.to_vec(), Some(&[][..])));
            }
        }
        Type::User(_) => {
            for (at, field) in value::fields(written).enumerate() {
                let path = (at as u16).to_be_bytes().to_vec();
                all.extend(field?.map(|field| (path, Some(field))));
            }
        }
        _ => {
            let entries = value::map_entries(written);
            all.extend(entries.map(|(key, value)| (key.to_vec(), Some(value))));
        }
    }
    for path in value::list_elements(cells.elements.unwrap_or(&[0; 4])) {
        let path = path?.ok_or_else(|| damaged("an element of a log is null"))?;
        all.push((path.to_vec(), None));
    }
    all.sort_by(|a, b| collection::compare_paths(Some(&column.ty), &a.0, &b.0));
    all.dedup_by(|later, first| later.0 == first.0);
    Ok(all)
}
