//! What views show: by a scan of all that was ever written, and as they are read.

use super::replica::Replica;
use super::world::World;
use super::writes::{Fact, Of, Owned, Write, seen, tombstone};
use model::key::{compose_partition_key, push_clustering, split_partition_key};
use model::schema::{Column, ColumnKind, Computed, ViewCondition, ViewOperator};
use model::{ColumnId, TableSchema, Token, Type, key, value};
use mutation::{Cell, ColumnData, RowView, Tombstone, cell, row};
use std::collections::{BTreeMap, BTreeSet};

/// All that was written, by partition.
#[derive(Default)]
pub(super) struct Facts {
    partitions: BTreeMap<Vec<u8>, Vec<Fact>>,
}

type Key = (usize, Vec<u8>, Vec<u8>);
type Seen = (i64, Option<i64>, Vec<u8>);
/// The marker, and cells by the column's name and the element's key.
type SeenRow = (Option<Seen>, BTreeMap<(String, Vec<u8>), Seen>);

/// What views show: rows by view, partition and clustering key.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Shown(BTreeMap<Key, SeenRow>);

impl Facts {
    pub(super) fn add(&mut self, write: &Write) {
        let facts = self.partitions.entry(write.key.clone()).or_default();
        facts.extend(write.facts.iter().cloned());
    }
}

/// One row of the base table, seen at a second.
struct BaseRow<'f> {
    base: &'f TableSchema,
    facts: &'f [Fact],
    of: Of,
    cover: Tombstone,
    now: i64,
}

impl<'f> BaseRow<'f> {
    fn new(base: &'f TableSchema, facts: &'f [Fact], of: Of, now: i64) -> BaseRow<'f> {
        let mut cover = Tombstone::NONE;
        for fact in facts {
            let holds = match (fact, &of) {
                (Fact::PartitionDeleted(_), _) => true,
                (Fact::RowDeleted(key, _), Some(of)) => key == of,
                (Fact::RangeDeleted(range, _), Some(of)) => range.contains(&base.order, (of, 0)),
                _ => false,
            };
            let (Fact::PartitionDeleted(at) | Fact::RowDeleted(_, at) | Fact::RangeDeleted(_, at)) =
                fact
            else {
                continue;
            };
            if holds {
                cover = cover.merge(tombstone(*at));
            }
        }
        BaseRow { base, facts, of, cover, now }
    }

    fn live(&self, cells: impl Iterator<Item = &'f Owned>, cover: Tombstone) -> Option<Cell<'f>> {
        let left = cells.map(Owned::view).filter(|cell| !cover.covers(cell.timestamp));
        left.max_by(cell::compare).filter(|cell| cell.is_live(self.now))
    }

    fn marker(&self) -> Option<Cell<'f>> {
        let markers = self.facts.iter().filter_map(|fact| match fact {
            Fact::Marker(key, cell) if Some(key) == self.of.as_ref() => Some(cell),
            _ => None,
        });
        self.live(markers, self.cover)
    }

    fn cell(&self, column: ColumnId) -> Option<Cell<'f>> {
        let cells = self.facts.iter().filter_map(|fact| match fact {
            Fact::Cell(of, id, cell) if (of, *id) == (&self.of, column) => Some(cell),
            _ => None,
        });
        self.live(cells, self.cover)
    }

    /// By their keys, in bytes.
    fn elements(&self, column: ColumnId) -> BTreeMap<Vec<u8>, Cell<'f>> {
        let mut cover = self.cover;
        let mut cells: BTreeMap<&Vec<u8>, Vec<&'f Owned>> = BTreeMap::new();
        for fact in self.facts {
            match fact {
                Fact::Cleared(of, id, at) if (of, *id) == (&self.of, column) => {
                    cover = cover.merge(tombstone(*at));
                }
                Fact::Element(of, id, path, cell) if (of, *id) == (&self.of, column) => {
                    cells.entry(path).or_default().push(cell);
                }
                _ => {}
            }
        }
        let live = cells
            .into_iter()
            .filter_map(|(path, cells)| Some((path.clone(), self.live(cells.into_iter(), cover)?)));
        live.collect()
    }

    fn is_live(&self) -> bool {
        self.marker().is_some()
            || self.base.regulars().iter().any(|column| {
                self.cell(column.id).is_some() || !self.elements(column.id).is_empty()
            })
    }

    /// The cells of the columns that a view has and shows.
    fn cells(&self, view: &TableSchema) -> BTreeMap<(String, Vec<u8>), Seen> {
        let mut cells = BTreeMap::new();
        for column in view.regulars().iter().filter(|column| !view.is_hidden(column.id)) {
            let id = self.base.column(&column.name).expect("a column of the base").id;
            if let Some(cell) = self.cell(id) {
                cells.insert((column.name.clone(), Vec::new()), seen(cell));
            }
            for (path, cell) in self.elements(id) {
                cells.insert((column.name.clone(), path), seen(cell));
            }
        }
        cells
    }
}

fn is_true(condition: &ViewCondition, base: &TableSchema, values: &Values) -> bool {
    let name = &condition.columns[0];
    let ty = &base.column(name).expect("a column").ty;
    let Some(found) = values.get(name) else { return false };
    condition.values.iter().any(|wanted| {
        let order = value::compare(ty, found, &wanted[0]);
        match condition.operator {
            ViewOperator::Equal | ViewOperator::In => order.is_eq(),
            ViewOperator::Less => order.is_lt(),
            ViewOperator::LessOrEqual => order.is_le(),
            ViewOperator::Greater => order.is_gt(),
            ViewOperator::GreaterOrEqual => order.is_ge(),
        }
    })
}

/// The values of a row of a view's key, by their columns' names.
type Values = BTreeMap<String, Vec<u8>>;

impl Shown {
    pub(super) fn of_scan(world: &World, facts: &Facts, now: i64) -> Shown {
        let mut shown = Shown::default();
        for (key, facts) in &facts.partitions {
            let mut rows: BTreeSet<Of> = BTreeSet::from([None]);
            rows.extend(facts.iter().filter_map(|fact| match fact {
                Fact::Marker(key, _) => Some(Some(key.clone())),
                Fact::Cell(of, ..) | Fact::Element(of, ..) => Some(of.clone()),
                _ => None,
            }));
            for of in rows {
                let row = BaseRow::new(&world.base, facts, of, now);
                for (index, view) in world.views.iter().enumerate() {
                    shown.add_base_row(index, view, key, &row);
                }
            }
        }
        shown
    }

    fn add_base_row(&mut self, index: usize, view: &TableSchema, key: &[u8], row: &BaseRow<'_>) {
        let base = row.base;
        let mut values = Values::new();
        let parts = split_partition_key(key, base.partition_key_count).expect("a key");
        for (column, part) in base.partition_key().iter().zip(parts) {
            values.insert(column.name.clone(), part.to_vec());
        }
        let clustering = row.of.as_deref().unwrap_or(&[]);
        for (column, part) in base.clustering().iter().zip(key::clustering_components(clustering)) {
            values.insert(column.name.clone(), part.to_vec());
        }
        let properties = view.view.as_ref().expect("a view");
        let keys = &view.columns[..view.partition_key_count + view.clustering_count];
        let by = keys.iter().find(|column| match properties.computed(column.id) {
            Some(computed) => *computed != Computed::Token,
            None => ColumnKind::Static <= base.column(&column.name).expect("a column").kind,
        });
        let token = Token::of(key).0.to_be_bytes().to_vec();
        values.insert("idx_token".to_owned(), token);
        let kind = by.map_or(ColumnKind::Regular, |by| kind_of(base, view, by));
        if (kind == ColumnKind::Static) != row.of.is_none() {
            return;
        }
        let Some(by) = by else {
            if row.is_live() {
                let marker = row.marker().map(seen);
                self.put(index, (base, view), &values, (marker, row.cells(view)));
            }
            return;
        };
        match properties.computed(by.id) {
            Some(Computed::Attribute(name)) => {
                let map = base.column(name).expect("a map");
                let of = keys.iter().filter(|key| {
                    matches!(properties.computed(key.id), Some(Computed::Attribute(_)))
                });
                self.add_attributes((index, view), values, row, (map, of.collect()));
            }
            None => {
                let column = base.column(&by.name).expect("a column");
                if let Some(cell) = row.cell(column.id) {
                    values.insert(by.name.clone(), cell.value().expect("a value").to_vec());
                    let marker = Some(without_value(seen(cell)));
                    self.put(index, (base, view), &values, (marker, row.cells(view)));
                }
            }
            Some(_) => self.add_elements(index, view, values, row),
        }
    }

    /// A row, if each attribute is there and of its type.
    fn add_attributes(
        &mut self,
        (index, view): (usize, &TableSchema),
        mut values: Values,
        row: &BaseRow<'_>,
        (map, of): (&Column, Vec<&Column>),
    ) {
        let elements = row.elements(map.id);
        let mut marker: Option<Seen> = None;
        for key in of {
            let Some(cell) = elements.get(key.name.as_bytes()) else { return };
            let held = cell.value().expect("a value");
            let begin: &[u8] = match key.ty {
                Type::Text => &[0],
                Type::Blob => &[1],
                _ => &[3],
            };
            let Some(found) = held.strip_prefix(begin).filter(|it| !it.is_empty()) else { return };
            if key.ty == Type::Decimal && found.len() < 5 {
                return;
            }
            values.insert(key.name.clone(), found.to_vec());
            let (timestamp, expiry, _) = seen(*cell);
            let (before, first) = marker.map_or((0, None), |(at, until, _)| (at, until));
            let until = [first, expiry].into_iter().flatten().min();
            marker = Some((before.max(timestamp), until, Vec::new()));
        }
        self.put(index, (row.base, view), &values, (marker, row.cells(view)));
    }

    fn add_elements(
        &mut self,
        index: usize,
        view: &TableSchema,
        mut values: Values,
        row: &BaseRow<'_>,
    ) {
        let properties = view.view.as_ref().expect("a view");
        let computed = properties.computed.iter().map(|column| &column.computed);
        let (name, computed) = computed
            .filter_map(|computed| match computed {
                Computed::ElementKey(name)
                | Computed::ElementValue(name)
                | Computed::ElementEntry(name) => Some((name, computed)),
                _ => None,
            })
            .next()
            .expect("an element");
        let column = row.base.column(name).expect("a collection");
        for (path, cell) in row.elements(column.id) {
            let held = cell.value().expect("a value");
            let found = match computed {
                Computed::ElementKey(_) => path.clone(),
                Computed::ElementValue(_) => held.to_vec(),
                _ => {
                    let length = |bytes: &[u8]| (bytes.len() as u32).to_be_bytes();
                    [&length(&path)[..], &path, &length(held), held].concat()
                }
            };
            values.insert("coll_value".to_owned(), found);
            values.insert("keys_for_values_idx".to_owned(), path);
            let marker = Some(without_value(seen(cell)));
            self.put(index, (row.base, view), &values, (marker, BTreeMap::new()));
        }
    }

    fn put(
        &mut self,
        index: usize,
        (base, view): (&TableSchema, &TableSchema),
        values: &Values,
        row: SeenRow,
    ) {
        let filter = &view.view.as_ref().expect("a view").filter;
        if !filter.iter().all(|condition| is_true(condition, base, values)) {
            return;
        }
        let part = |column: &Column| values[&column.name].as_slice();
        let (mut key, mut clustering) = (Vec::new(), Vec::new());
        compose_partition_key(view.partition_key().iter().map(part), &mut key);
        let components = view.clustering().iter().map(part);
        components.for_each(|component| push_clustering(component, &mut clustering));
        let before = self.0.insert((index, key, clustering), row);
        assert!(before.is_none(), "two rows of the base table meet in the view {}", view.name);
    }

    pub(super) fn of_views(world: &World, replicas: &[&Replica], now: i64) -> Shown {
        let mut shown = Shown::default();
        for ((index, key), partition) in Replica::views(world, replicas) {
            let view = &world.views[index];
            let partition = partition.view().expect("a mutation");
            for (clustering, row) in partition.rows() {
                if row::is_live(view, row, partition.tombstone(), now) {
                    let cover = partition.tombstone().merge(row.deletion());
                    let read = read(view, row, cover, now);
                    shown.0.insert((index, key.clone(), clustering.to_vec()), read);
                }
            }
        }
        shown
    }

    /// Without the rows that are not expected, where views may have some.
    pub(super) fn of_those(mut self, expected: &Shown, world: &World) -> Shown {
        self.0.retain(|key, _| !world.may_have_more || expected.0.contains_key(key));
        self
    }

    /// What is wrong with it.
    pub(super) fn differs(&self, expected: &Shown, world: &World) -> String {
        let mut out = String::new();
        let keys: BTreeSet<&Key> = self.0.keys().chain(expected.0.keys()).collect();
        for key in keys.into_iter().filter(|key| self.0.get(key) != expected.0.get(key)) {
            let (shown, wanted) = (self.0.get(key), expected.0.get(key));
            let view = &world.views[key.0].name;
            out += &format!("{view} {key:?}\n  shows {shown:?}\n  and not {wanted:?}\n");
        }
        out
    }
}

fn without_value((timestamp, expiry, _): Seen) -> Seen {
    (timestamp, expiry, Vec::new())
}

fn kind_of(base: &TableSchema, view: &TableSchema, by: &Column) -> ColumnKind {
    let name = match view.view.as_ref().expect("a view").computed(by.id) {
        Some(
            Computed::ElementKey(name)
            | Computed::ElementValue(name)
            | Computed::ElementEntry(name)
            | Computed::KeyOfValue(name)
            | Computed::Attribute(name),
        ) => name,
        _ => &by.name,
    };
    base.column(name).expect("a column").kind
}

fn read(view: &TableSchema, row: RowView<'_>, cover: Tombstone, now: i64) -> SeenRow {
    let sees = |cell: &Cell<'_>| !cover.covers(cell.timestamp) && cell.is_live(now);
    let marker = row.marker().map(|marker| marker.cell()).filter(|cell| sees(cell)).map(seen);
    let mut cells = BTreeMap::new();
    for (id, data) in row.columns().filter(|(id, _)| !view.is_hidden(*id)) {
        let name = &view.column_by_id(id).expect("a column of the view").name;
        match data {
            ColumnData::Atomic(cell) => {
                if sees(&cell) {
                    cells.insert((name.clone(), Vec::new()), seen(cell));
                }
            }
            ColumnData::Collection(collection) => {
                let tomb = collection.tomb();
                let live = collection.iter().filter(|(_, cell)| sees(cell));
                for (path, cell) in live.filter(|(_, cell)| !tomb.covers(cell.timestamp)) {
                    cells.insert((name.clone(), path.to_vec()), seen(cell));
                }
            }
        }
    }
    (marker, cells)
}
