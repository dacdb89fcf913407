//! Writes as facts: each says one thing; and what many of them say together, by a naive model.

use super::world::World;
use model::{ColumnId, Type};
use mutation::{
    Cell, CellState, ClusteringRange, CollectionWriter, ColumnData, FrozenMutation, FrozenView,
    Marker, MutationBuilder, RangeTombstone, RowBuilder, RowView, Tombstone,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Of a row, by its clustering key; of the static row without one.
pub(super) type Of = Option<Vec<u8>>;

/// What stands somewhere: a value, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) at: i64,
    /// Seconds; 0: for ever.
    pub(super) ttl: i32,
    /// When it was written, in seconds: it expires after `ttl` of them.
    pub(super) since: i64,
    pub(super) value: Option<Vec<u8>>,
}

impl Said {
    fn rank(&self) -> (i64, bool, bool, i64, Reverse<i32>, Option<&[u8]>) {
        let is_dead = self.value.is_none();
        let expires = !is_dead && 0 < self.ttl;
        let expiry = if expires { self.since + i64::from(self.ttl) } else { 0 };
        (self.at, is_dead, expires, expiry, Reverse(self.ttl), self.value.as_deref())
    }

    fn is_live(&self, now: i64) -> bool {
        self.value.is_some() && (self.ttl == 0 || now < self.since + i64::from(self.ttl))
    }

    fn cell(&self) -> Cell<'_> {
        match (&self.value, self.ttl) {
            (None, _) => Cell::dead(self.at, self.since),
            (Some(value), 0) => Cell::live(self.at, value),
            (Some(value), ttl) => Cell::expiring(self.at, value, self.since + i64::from(ttl), ttl),
        }
    }

    fn of(cell: Cell<'_>) -> Said {
        let (at, value) = (cell.timestamp, cell.value().map(<[u8]>::to_vec));
        match cell.state {
            CellState::Expiring { expiry, ttl, .. } => {
                Said { at, ttl, since: expiry - i64::from(ttl), value }
            }
            _ => Said { at, ttl: 0, since: 0, value },
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Fact {
    Marker(Vec<u8>, Said),
    Cell(Of, ColumnId, Said),
    Element(Of, ColumnId, Vec<u8>, Said),
    /// What a collection held up to that time is gone.
    Cleared(Of, ColumnId, i64),
    RowDeleted(Vec<u8>, i64),
    RangeDeleted(ClusteringRange, i64),
    PartitionDeleted(i64),
}

impl Fact {
    /// The time of its set.
    pub(super) fn time(&self) -> i64 {
        match self {
            Fact::Marker(_, said) | Fact::Cell(_, _, said) | Fact::Element(_, _, _, said) => {
                said.at
            }
            Fact::Cleared(_, _, at) => at + 1,
            Fact::RowDeleted(_, at) | Fact::RangeDeleted(_, at) | Fact::PartitionDeleted(at) => *at,
        }
    }

    fn put(&self, out: &mut MutationBuilder<'_>) {
        let mut row = RowBuilder::new(Vec::new());
        let of = match self {
            Fact::PartitionDeleted(at) => return out.delete_partition(Tombstone::new(*at, 0)),
            Fact::RangeDeleted(range, at) => {
                let (range, tombstone) = (range.clone(), Tombstone::new(*at, 0));
                return out.delete_range(RangeTombstone { range, tombstone });
            }
            Fact::Marker(key, said) => {
                row.marker(Marker::of_cell(said.cell()));
                Some(key)
            }
            Fact::RowDeleted(key, at) => {
                row.tombstone(Tombstone::new(*at, 0));
                Some(key)
            }
            Fact::Cell(of, column, said) => {
                row.cell(*column, said.cell());
                of.as_ref()
            }
            Fact::Element(of, column, path, said) => {
                let mut writer = CollectionWriter::new(Tombstone::NONE);
                writer.push(path, said.cell());
                row.collection(*column, &writer.finish());
                of.as_ref()
            }
            Fact::Cleared(of, column, at) => {
                let writer = CollectionWriter::new(Tombstone::new(*at, 0));
                row.collection(*column, &writer.finish());
                of.as_ref()
            }
        };
        let row = row.finish();
        match of {
            Some(key) => out.row(key, &row),
            None => out.static_row(row),
        }
    }
}

pub(super) fn freeze(world: &World, facts: &[Fact]) -> FrozenMutation {
    let mut out = MutationBuilder::new(&world.base, &world.key);
    facts.iter().for_each(|fact| fact.put(&mut out));
    out.freeze()
}

/// What a mutation says: without what it covers itself.
pub(super) fn facts_of(view: FrozenView<'_>) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(row) = view.static_row() {
        facts_of_row(None, row, &mut facts);
    }
    for (key, row) in view.rows() {
        facts_of_row(Some(key.to_vec()), row, &mut facts);
    }
    let ranges = view.ranges();
    facts.extend(ranges.map(|it| Fact::RangeDeleted(it.range, it.tombstone.timestamp)));
    if !view.tombstone().is_none() {
        facts.push(Fact::PartitionDeleted(view.tombstone().timestamp));
    }
    facts
}

fn facts_of_row(of: Of, row: RowView<'_>, facts: &mut Vec<Fact>) {
    if let (Some(key), Some(marker)) = (&of, row.marker()) {
        facts.push(Fact::Marker(key.clone(), Said::of(marker.cell())));
    }
    if let Some(key) = of.as_ref().filter(|_| !row.tombstone().is_none()) {
        facts.push(Fact::RowDeleted(key.clone(), row.tombstone().timestamp));
    }
    for (id, data) in row.columns() {
        match data {
            ColumnData::Atomic(cell) => facts.push(Fact::Cell(of.clone(), id, Said::of(cell))),
            ColumnData::Collection(view) => {
                if !view.tomb().is_none() {
                    facts.push(Fact::Cleared(of.clone(), id, view.tomb().timestamp));
                }
                facts.extend(view.iter().map(|(path, cell)| {
                    Fact::Element(of.clone(), id, path.to_vec(), Said::of(cell))
                }));
            }
        }
    }
}

/// All that facts say together of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    partition: Option<i64>,
    ranges: Vec<(ClusteringRange, i64)>,
    deleted: BTreeMap<Vec<u8>, i64>,
    markers: BTreeMap<Vec<u8>, Said>,
    cells: BTreeMap<(Of, ColumnId), Said>,
    elements: BTreeMap<(Of, ColumnId, Vec<u8>), Said>,
    cleared: BTreeMap<(Of, ColumnId), i64>,
}

/// Time, lifetime, value.
type SaidOnce = (Option<i64>, i32, Option<Vec<u8>>);

/// What of it counts, to be compared.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counts {
    said: BTreeMap<String, SaidOnce>,
    covered: BTreeMap<String, i64>,
}

impl Counts {
    /// Where two differ.
    pub(super) fn differs(&self, other: &Counts) -> String {
        let mut out = String::new();
        let keys: BTreeSet<_> = self.said.keys().chain(other.said.keys()).collect();
        for key in keys {
            let (a, b) = (self.said.get(key), other.said.get(key));
            if a != b {
                out += &format!("{key}: {a:?}, not {b:?}\n");
            }
        }
        let keys: BTreeSet<_> = self.covered.keys().chain(other.covered.keys()).collect();
        for key in keys {
            let (a, b) = (self.covered.get(key), other.covered.get(key));
            if a != b {
                out += &format!("deleted of {key}: {a:?}, not {b:?}\n");
            }
        }
        out
    }
}

fn keep<K: Ord>(map: &mut BTreeMap<K, Said>, key: K, said: &Said) {
    match map.get_mut(&key) {
        Some(there) if there.rank() < said.rank() => *there = said.clone(),
        Some(_) => {}
        None => {
            map.insert(key, said.clone());
        }
    }
}

fn latest<K: Ord>(map: &mut BTreeMap<K, i64>, key: K, at: i64) {
    let there = map.entry(key).or_insert(at);
    *there = (*there).max(at);
}

impl State {
    pub(super) fn add(&mut self, fact: &Fact) {
        match fact.clone() {
            Fact::Marker(key, said) => keep(&mut self.markers, key, &said),
            Fact::Cell(of, id, said) => keep(&mut self.cells, (of, id), &said),
            Fact::Element(of, id, path, said) => keep(&mut self.elements, (of, id, path), &said),
            Fact::Cleared(of, id, at) => latest(&mut self.cleared, (of, id), at),
            Fact::RowDeleted(key, at) => latest(&mut self.deleted, key, at),
            Fact::RangeDeleted(range, at) => self.ranges.push((range, at)),
            Fact::PartitionDeleted(at) => self.partition = self.partition.max(Some(at)),
        }
    }

    /// Up to when a row is deleted.
    fn cover(&self, world: &World, of: &Of) -> i64 {
        let partition = self.partition.unwrap_or(i64::MIN);
        let Some(key) = of else { return partition };
        let order = &world.base.order;
        let over = self.ranges.iter().filter(|(range, _)| range.contains(order, (key, 0)));
        let ranges = over.map(|(_, at)| *at).max().unwrap_or(i64::MIN);
        let own = self.deleted.get(key).copied().unwrap_or(i64::MIN);
        ranges.max(own).max(partition)
    }

    /// Up to when what a column held is deleted.
    fn cleared(&self, world: &World, of: &Of, id: ColumnId) -> i64 {
        let own = self.cleared.get(&(of.clone(), id)).copied().unwrap_or(i64::MIN);
        own.max(self.cover(world, of))
    }

    /// What counts of it, with times or without.
    pub(super) fn counts(&self, world: &World, with_times: bool) -> Counts {
        let mut out = Counts::default();
        let mut put = |name: String, said: &Said, cover: i64| {
            // Without times nobody knows of what is not there.
            if cover < said.at && (with_times || said.value.is_some()) {
                let at = with_times.then_some(said.at);
                let (ttl, value) = (said.ttl, said.value.clone());
                out.said.insert(name, (at, if value.is_some() { ttl } else { 0 }, value));
            }
        };
        for (key, said) in &self.markers {
            put(format!("marker {key:?}"), said, self.cover(world, &Some(key.clone())));
        }
        for ((of, id), said) in &self.cells {
            put(format!("{of:?} {id:?}"), said, self.cover(world, of));
        }
        for ((of, id, path), said) in &self.elements {
            put(format!("{of:?} {id:?} {path:?}"), said, self.cleared(world, of, *id));
        }
        if with_times {
            for of in world.keys().into_iter().map(Some).chain([None]) {
                out.covered.insert(format!("{of:?}"), self.cover(world, &of));
                for id in world.columns_of(of.is_none()).filter(|it| it.ty.is_multi_cell()) {
                    let (name, at) = (format!("{of:?} {id:?}"), self.cleared(world, &of, id.id));
                    out.covered.insert(name, at);
                }
            }
        }
        out
    }

    /// What a read at that second shows of a column, by element.
    pub(super) fn shown(&self, world: &World, of: &Of, id: ColumnId, now: i64) -> Shown {
        let cover = self.cover(world, of);
        let cell = self.cells.get(&(of.clone(), id));
        if let Some(said) = cell.filter(|said| cover < said.at && said.is_live(now)) {
            return Some(vec![(Vec::new(), said.value.clone().unwrap_or_default())]);
        }
        let cleared = self.cleared(world, of, id);
        let own = self.elements.iter().filter(|((row, column, _), _)| row == of && *column == id);
        let live = own.filter(|(_, said)| cleared < said.at && said.is_live(now));
        let shown: Vec<_> = live
            .map(|((_, _, path), said)| (path.clone(), said.value.clone().unwrap_or_default()))
            .collect();
        (!shown.is_empty()).then_some(shown)
    }

    /// Whether a read shows the row.
    pub(super) fn is_there(&self, world: &World, of: &Of, now: i64) -> bool {
        let marker = of.as_ref().and_then(|key| self.markers.get(key));
        let cover = self.cover(world, of);
        marker.is_some_and(|said| cover < said.at && said.is_live(now))
            || world
                .columns_of(of.is_none())
                .any(|column| self.shown(world, of, column.id, now).is_some())
    }

    /// As much of it as a read tells at that second.
    pub(super) fn as_read(&self, world: &World, now: i64) -> State {
        let mut out = State::default();
        let there = Said { at: 1, ttl: 0, since: 0, value: Some(Vec::new()) };
        for key in world.keys() {
            if self.is_there(world, &Some(key.clone()), now) {
                out.markers.insert(key, Said { at: i64::MIN + 1, ..there.clone() });
            }
        }
        let is_live = |said: &Said, cover| cover < said.at && said.is_live(now);
        let cells =
            self.cells.iter().filter(|((of, _), said)| is_live(said, self.cover(world, of)));
        out.cells.extend(cells.map(|(key, said)| (key.clone(), said.clone())));
        let elements = self.elements.iter();
        let elements =
            elements.filter(|((of, id, _), said)| is_live(said, self.cleared(world, of, *id)));
        out.elements.extend(elements.map(|(key, said)| (key.clone(), said.clone())));
        out
    }
}

/// A value by its elements; of what is atomic one without a key.
pub(super) type Shown = Option<Vec<(Vec<u8>, Vec<u8>)>>;

/// A value as the log has it, by its elements.
pub(super) fn elements_of(ty: &Type, bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    use model::value::{fields, list_elements, map_entries};
    if !ty.is_multi_cell() {
        return vec![(Vec::new(), bytes.to_vec())];
    }
    match ty {
        Type::Set { .. } => {
            let parts = list_elements(bytes).map(|part| part.expect("a part").expect("an element"));
            parts.map(|part| (part.to_vec(), Vec::new())).collect()
        }
        Type::User(_) => {
            let parts = fields(bytes).map(|part| part.expect("a field")).enumerate();
            let there = parts.filter_map(|(index, part)| Some((index as u16, part?)));
            there.map(|(index, part)| (index.to_be_bytes().to_vec(), part.to_vec())).collect()
        }
        _ => map_entries(bytes).map(|(key, value)| (key.to_vec(), value.to_vec())).collect(),
    }
}
