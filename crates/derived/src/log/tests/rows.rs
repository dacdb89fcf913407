//! Rows of the log, read strictly, and as facts again.

use super::facts::{Fact, Of, Said, elements_of};
use super::world::World;
use crate::log::LogPlan;
use model::key::{check_clustering_prefix, clustering_components, push_clustering};
use model::schema::cdc::{self, Delta};
use model::schema::{Column, ColumnKind};
use model::{ColumnId, Type, value};
use mutation::{
    Cell, ClusteringPosition, ClusteringRange, ColumnData, FrozenMutation, Marker, RowView,
    Tombstone,
};
use std::collections::{BTreeMap, BTreeSet};

/// A row of the log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogRow {
    pub(super) stream: Vec<u8>,
    /// Microseconds.
    pub(super) time: i64,
    pub(super) number: i32,
    pub(super) operation: i8,
    pub(super) ttl: Option<i64>,
    pub(super) ends: bool,
    /// A key, or a prefix of one.
    pub(super) clustering: Vec<u8>,
    /// By ids in the base table.
    pub(super) values: BTreeMap<ColumnId, Vec<u8>>,
    pub(super) deleted: BTreeSet<ColumnId>,
    pub(super) elements: BTreeMap<ColumnId, Vec<Vec<u8>>>,
}

/// The cells of a row by their names; which must all be as the plan says.
fn cells_of(
    plan: &LogPlan,
    row: RowView<'_>,
    time: i64,
    now: i64,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let stamp = |value| match plan.options.ttl_secs {
        0 => Cell::live(time, value),
        ttl => Cell::expiring(time, value, now + i64::from(ttl), ttl as i32),
    };
    if row.marker() != Some(Marker::of_cell(stamp(&[]))) {
        return Err(format!("marker {:?}", row.marker()));
    }
    if !row.tombstone().is_none() || !row.shadowable().is_none() {
        return Err("a deletion".to_owned());
    }
    let mut cells = BTreeMap::new();
    for (id, data) in row.columns() {
        let column = plan.log.column_by_id(id).ok_or("an unknown column")?;
        let ColumnData::Atomic(cell) = data else {
            return Err(format!("cells in {}", column.name));
        };
        let bytes = cell.value().ok_or("a dead cell")?;
        if cell != stamp(bytes) {
            return Err(format!("{} is {cell:?}", column.name));
        }
        value::validate(&column.ty, bytes)
            .map_err(|what| format!("{}: {}", column.name, what.0))?;
        cells.insert(column.name.clone(), bytes.to_vec());
    }
    Ok(cells)
}

impl LogRow {
    fn of(
        world: &World,
        (stream, key, row): (&[u8], &[u8], RowView<'_>),
        now: i64,
    ) -> Result<LogRow, String> {
        let base = &world.base;
        let key: Vec<&[u8]> = clustering_components(key).collect();
        let [time, number] = key[..] else { return Err("a key of another length".to_owned()) };
        let ticks = value::decode_uuid(time).and_then(|uuid| value::timeuuid_ticks(&uuid));
        let time = ticks.ok_or("no time")?.div_euclid(10);
        let mut cells = cells_of(&world.plan, row, time, now)?;
        let mut parts = Vec::new();
        for column in base.partition_key() {
            parts.push(cells.remove(&column.name).ok_or("a part of the key is missing")?);
        }
        let mut partition = Vec::new();
        model::key::compose_partition_key(parts.iter().map(Vec::as_slice), &mut partition);
        if partition != world.key {
            return Err("another partition".to_owned());
        }
        let mut clustering = Vec::new();
        for (at, column) in base.clustering().iter().enumerate() {
            if let Some(part) = cells.remove(&column.name) {
                push_clustering(&part, &mut clustering);
                let count = check_clustering_prefix(&clustering, base.clustering_count);
                if count != Ok(at + 1) {
                    return Err("a key with a gap".to_owned());
                }
            }
        }
        let operation = cells.remove(cdc::OPERATION).ok_or("no operation")?;
        let ends = cells.remove(cdc::END_OF_BATCH);
        if ends.as_ref().is_some_and(|ends| ends != &[1]) {
            return Err("an end that is none".to_owned());
        }
        let mut log = LogRow {
            stream: stream.to_vec(),
            time,
            number: value::decode_i32(number).ok_or("no number")?,
            operation: value::decode_i8(&operation).ok_or("no operation")?,
            ttl: cells.remove(cdc::TTL).and_then(|ttl| value::decode_i64(&ttl)),
            ends: ends.is_some(),
            clustering,
            values: BTreeMap::new(),
            deleted: BTreeSet::new(),
            elements: BTreeMap::new(),
        };
        for column in base.statics().iter().chain(base.regulars()) {
            log.take_column(column, &mut cells)?;
        }
        if let Some(name) = cells.keys().next() {
            return Err(format!("a column too many: {name}"));
        }
        log.check(world)?;
        Ok(log)
    }

    fn take_column(
        &mut self,
        column: &Column,
        cells: &mut BTreeMap<String, Vec<u8>>,
    ) -> Result<(), String> {
        if let Some(bytes) = cells.remove(&column.name) {
            self.values.insert(column.id, bytes);
        }
        if let Some(bytes) = cells.remove(&cdc::deleted(&column.name)) {
            if bytes != [1] {
                return Err(format!("{} is not deleted", column.name));
            }
            self.deleted.insert(column.id);
        }
        if let Some(bytes) = cells.remove(&cdc::deleted_elements(&column.name)) {
            let parts = value::list_elements(&bytes).map(|part| part.ok().flatten());
            let parts: Option<Vec<Vec<u8>>> = parts.map(|part| Some(part?.to_vec())).collect();
            let parts = parts.filter(|parts| !parts.is_empty()).ok_or("elements that are none")?;
            self.elements.insert(column.id, parts);
        }
        Ok(())
    }

    /// What a row of its operation may have.
    fn check(&self, world: &World) -> Result<(), String> {
        let base = &world.base;
        let has_key = clustering_components(&self.clustering).count() == base.clustering_count;
        let columns = self.values.keys().chain(&self.deleted).chain(self.elements.keys());
        let columns: Vec<&Column> = columns.filter_map(|id| base.column_by_id(*id)).collect();
        let is_static = columns.iter().any(|column| column.kind == ColumnKind::Static);
        let is_regular = columns.iter().any(|column| column.kind == ColumnKind::Regular);
        let has_cells = columns.iter().any(|column| column.ty.is_multi_cell());
        let is_image = matches!(self.operation, 0 | 9);
        let is_bare = columns.is_empty() && self.ttl.is_none();
        let is_keys = world.plan.options.delta == Delta::Keys;
        let fits = match self.operation {
            -3 | 3 => has_key && is_bare,
            -4 | 4 => self.clustering.is_empty() && is_bare,
            5..=8 => is_bare,
            0 | 9 => self.elements.is_empty() && self.ttl.is_none(),
            1 => is_keys || !columns.is_empty(),
            2 => has_key && !has_cells,
            _ => false,
        };
        let is_whole = match (is_static, is_regular) {
            (true, true) => false,
            (true, false) => self.clustering.is_empty() && 0 < base.clustering_count,
            (false, true) => has_key,
            (false, false) => true,
        };
        let nulls = self.operation != 9 || self.deleted.is_empty();
        let only_keys = is_image || !is_keys || columns.is_empty();
        let ttl = self.ttl.is_none_or(|ttl| 0 < ttl);
        match fits && is_whole && nulls && only_keys && ttl {
            true => Ok(()),
            false => Err("what no row of this operation has".to_owned()),
        }
    }

    pub(super) fn is_image(&self) -> bool {
        matches!(self.operation, 0 | 9)
    }

    pub(super) fn of_row(&self, world: &World) -> Of {
        let mut columns = self.values.keys().chain(&self.deleted).chain(self.elements.keys());
        let is_static = columns.any(|id| world.base.statics().iter().any(|own| own.id == *id));
        (!is_static).then(|| self.clustering.clone())
    }
}

/// The rows of mutations of the log, in order of time and number.
pub(super) fn decode(
    world: &World,
    mutations: &[FrozenMutation],
    now: i64,
) -> Result<Vec<LogRow>, String> {
    let mut rows = Vec::new();
    let mut streams = BTreeSet::new();
    for mutation in mutations {
        let view = mutation.view().map_err(|what| format!("{what:?}"))?;
        view.check_order(&world.plan.log.order).map_err(|what| format!("{what:?}"))?;
        let is_plain = view.static_row().is_none() && view.range_count() == 0;
        if !is_plain || view.tombstone() != Tombstone::NONE || view.row_count() == 0 {
            return Err("a mutation with more than rows".to_owned());
        }
        if view.table() != world.plan.log_table() || !streams.insert(view.key().to_vec()) {
            return Err("a mutation of another table, or two of one stream".to_owned());
        }
        for (key, row) in view.rows() {
            let row = LogRow::of(world, (view.key(), key, row), now)
                .map_err(|what| format!("{what}: {row:?}"))?;
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| (row.time, row.number));
    Ok(rows)
}

/// What rows of the log say, as they come; `at` gives what is written at a time, and what an
/// overwrite deletes.
pub(super) fn replay(
    world: &World,
    rows: &[LogRow],
    since: i64,
    at: impl Fn(usize, &LogRow) -> (i64, i64),
) -> Result<Vec<Fact>, String> {
    let mut facts = Vec::new();
    let mut start: Option<ClusteringPosition> = None;
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_image()) {
        let (at, before) = at(index, row);
        let key = row.clustering.clone();
        let bound = |weight| ClusteringPosition { prefix: key.clone().into(), weight };
        if start.is_some() != matches!(row.operation, 7 | 8) {
            return Err("a bound alone".to_owned());
        }
        match row.operation {
            3 => facts.push(Fact::RowDeleted(key, at)),
            4 => facts.push(Fact::PartitionDeleted(at)),
            5 => start = Some(bound(-1)),
            6 => start = Some(bound(1)),
            7 | 8 => {
                let end = bound(if row.operation == 7 { 1 } else { -1 });
                let range = start.take().map(|start| ClusteringRange { start, end });
                facts.extend(range.map(|range| Fact::RangeDeleted(range, at)));
            }
            _ => {
                let ttl = row.ttl.unwrap_or(0) as i32;
                let said = Said { at, ttl, since, value: Some(Vec::new()) };
                if row.operation == 2 {
                    facts.push(Fact::Marker(key, said.clone()));
                }
                replay_columns(world, row, &said, before, &mut facts);
            }
        }
    }
    match start {
        None => Ok(facts),
        Some(_) => Err("a range without an end".to_owned()),
    }
}

fn replay_columns(world: &World, row: &LogRow, said: &Said, before: i64, facts: &mut Vec<Fact>) {
    let of = row.of_row(world);
    let dead = || Said { value: None, ttl: 0, ..said.clone() };
    for column in world.columns_of(of.is_none()) {
        let (id, of) = (column.id, of.clone());
        let is_atomic = !column.ty.is_multi_cell();
        if row.deleted.contains(&id) {
            facts.push(match is_atomic {
                true => Fact::Cell(of.clone(), id, dead()),
                false => Fact::Cleared(of.clone(), id, before),
            });
        }
        for path in row.elements.get(&id).into_iter().flatten() {
            facts.push(Fact::Element(of.clone(), id, path.clone(), dead()));
        }
        for (path, value) in row.values.get(&id).map_or(vec![], |it| elements_of(&column.ty, it)) {
            let said = Said { value: Some(value), ..said.clone() };
            facts.push(match is_atomic {
                true => Fact::Cell(of.clone(), id, said),
                false => Fact::Element(of.clone(), id, path, said),
            });
        }
    }
}

/// The type of a column of the table, for what its values are compared by.
pub(super) fn type_of(world: &World, id: ColumnId) -> &Type {
    &world.base.column_by_id(id).expect("a column of the table").ty
}
