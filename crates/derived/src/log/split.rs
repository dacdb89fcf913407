//! A write as the changes that the log tells of, in its order.
//!
//! Most writes are one change, of one row; they are seen through once. A write that is one set with
//! one lifetime keeps the order of its rows. Another is *split*: by times, and within one by kinds,
//! such that what deletes with a time comes after what is written with it.

use mutation::{
    Cell, CellState, ClusteringRange, CollectionView, ColumnData, FrozenView, Marker, RowView,
    Tombstone,
};
use smallvec::SmallVec;

/// What is written or deleted at once.
#[derive(Clone, Debug)]
pub(super) struct Change<'w> {
    /// Microseconds.
    pub(super) time: i64,
    pub(super) deed: Deed<'w>,
}

/// In the order of a set.
#[derive(Clone, Debug)]
pub(super) enum Deed<'w> {
    Static(Cells<'w>),
    /// Of a row, by its clustering key.
    Insert(&'w [u8], Cells<'w>),
    Update(&'w [u8], Cells<'w>),
    DeleteRow(&'w [u8]),
    DeleteRange(ClusteringRange),
    DeletePartition,
}

/// The cells of a row that belong to a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells<'w> {
    pub(super) row: RowView<'w>,
    /// Seconds; 0: they live for ever, or are deletions.
    pub(super) ttl: i32,
    pub(super) part: Part,
    /// Whether the row has nothing but values of one time, which live for ever.
    pub(super) is_plain: bool,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All.
    Whole,
    /// Those with the time and the lifetime of the change.
    Atomics,
    Collections,
    Both,
}

impl Deed<'_> {
    fn rank(&self) -> u8 {
        match self {
            Deed::Static(_) => 0,
            Deed::Insert(..) => 1,
            Deed::Update(..) => 2,
            Deed::DeleteRow(_) => 3,
            Deed::DeleteRange(_) => 4,
            Deed::DeletePartition => 5,
        }
    }
}

impl<'w> Deed<'w> {
    /// The row that it writes or deletes.
    pub(super) fn row(&self) -> Option<&'w [u8]> {
        match self {
            Deed::Insert(key, _) | Deed::Update(key, _) | Deed::DeleteRow(key) => Some(key),
            _ => None,
        }
    }
}

/// The time of what an overwrite of a collection deletes: one less than that of what it writes.
pub(super) fn time_of_deletion(tomb: Tombstone) -> i64 {
    tomb.timestamp.saturating_add(1)
}

/// The marker of a row that is inserted.
pub(super) fn marker_of(row: RowView<'_>) -> Option<Marker> {
    row.marker().filter(|marker| !matches!(marker, Marker::Dead { .. }))
}

/// How long a cell lives.
pub(super) fn ttl_of(cell: &Cell<'_>) -> i32 {
    match cell.state {
        CellState::Expiring { ttl, .. } => ttl,
        _ => 0,
    }
}

impl<'w> Cells<'w> {
    /// Whether the marker is of them.
    pub(super) fn has_marker(&self, time: i64) -> bool {
        let is_it = |cell: &Cell<'_>| cell.timestamp == time && ttl_of(cell) == self.ttl;
        let marker = marker_of(self.row).filter(|_| self.part != Part::Collections);
        marker.is_some_and(|marker| self.part == Part::Whole || is_it(&marker.cell()))
    }

    /// Whether a cell is of them.
    pub(super) fn has(&self, time: i64, cell: &Cell<'_>) -> bool {
        self.part == Part::Whole || (cell.timestamp == time && ttl_of(cell) == self.ttl)
    }

    /// Whether the deletion of a collection is of them.
    pub(super) fn has_deletion(&self, time: i64, tomb: Tombstone) -> bool {
        let is_it = self.ttl == 0 && time_of_deletion(tomb) == time;
        !tomb.is_none() && (self.part == Part::Whole || is_it)
    }

    /// Whether they have cells of columns with one cell, or of collections.
    pub(super) fn takes(&self, data: &ColumnData<'_>) -> bool {
        match data {
            ColumnData::Atomic(_) => self.part != Part::Collections,
            ColumnData::Collection(_) => self.part != Part::Atomics,
        }
    }
}

/// The changes of a write, set by set in order of time.
pub(super) fn split(write: FrozenView<'_>) -> SmallVec<[Change<'_>; 1]> {
    let survey = Survey::of(write);
    let mut out = SmallVec::new();
    if let Some(row) = write.static_row() {
        survey.upserts(row, &mut out, |_, cells| Deed::Static(cells));
    }
    for (key, row) in write.rows() {
        survey.upserts(row, &mut out, |is_insert, cells| match is_insert {
            true => Deed::Insert(key, cells),
            false => Deed::Update(key, cells),
        });
        if !row.tombstone().is_none() {
            let time = row.tombstone().timestamp;
            out.push(Change { time, deed: Deed::DeleteRow(key) });
        }
    }
    if 0 < write.range_count() {
        out.extend(write.ranges().map(|deletion| Change {
            time: deletion.tombstone.timestamp,
            deed: Deed::DeleteRange(deletion.range),
        }));
    }
    if !write.tombstone().is_none() {
        let time = write.tombstone().timestamp;
        out.push(Change { time, deed: Deed::DeletePartition });
    }
    if survey.is_split {
        out.sort_by_key(|change| (change.time, change.deed.rank()));
    }
    out
}

/// The change of a write that is values of one row with one time, as most are.
pub(super) fn only_change<'w>(write: &FrozenView<'w>) -> Option<Change<'w>> {
    let is_row = write.row_count() == 1 && write.static_row().is_none();
    if !is_row || 0 < write.range_count() || !write.tombstone().is_none() {
        return None;
    }
    let (key, row) = write.rows().next()?;
    let (time, _) = row.values_of_one_time()?;
    let cells = Cells { row, ttl: 0, part: Part::Whole, is_plain: true };
    let deed = match row.marker() {
        Some(_) => Deed::Insert(key, cells),
        None => Deed::Update(key, cells),
    };
    Some(Change { time, deed })
}

/// What a row has of one time and lifetime.
#[derive(Clone, Copy, Debug)]
struct Layer {
    time: i64,
    ttl: i32,
    has_marker: bool,
    has_atomics: bool,
    has_collections: bool,
}

type Layers = SmallVec<[Layer; 2]>;

/// The layers of a row, in order.
fn layers(row: RowView<'_>) -> Layers {
    let mut out = Layers::new();
    if let Some(marker) = marker_of(row) {
        let cell = marker.cell();
        layer(&mut out, cell.timestamp, ttl_of(&cell)).has_marker = true;
    }
    for (_, data) in row.columns() {
        match data {
            ColumnData::Atomic(cell) => {
                layer(&mut out, cell.timestamp, ttl_of(&cell)).has_atomics = true;
            }
            ColumnData::Collection(view) => collection_layers(view, &mut out),
        }
    }
    if 1 < out.len() {
        out.sort_by_key(|layer| (layer.time, layer.ttl));
    }
    out
}

fn collection_layers(view: CollectionView<'_>, out: &mut Layers) {
    if !view.tomb().is_none() {
        layer(out, time_of_deletion(view.tomb()), 0).has_collections = true;
    }
    for (_, cell) in view.iter() {
        layer(out, cell.timestamp, ttl_of(&cell)).has_collections = true;
    }
}

#[inline]
fn layer(out: &mut Layers, time: i64, ttl: i32) -> &mut Layer {
    let index = match out.iter().rposition(|layer| layer.time == time && layer.ttl == ttl) {
        Some(index) => index,
        None => {
            let (has_marker, has_atomics, has_collections) = (false, false, false);
            out.push(Layer { time, ttl, has_marker, has_atomics, has_collections });
            out.len() - 1
        }
    };
    &mut out[index]
}

/// What decides whether a write is split.
#[derive(Default)]
struct Survey {
    is_split: bool,
    time: Option<i64>,
    ttl: Option<i32>,
    has_upserts: bool,
}

impl Survey {
    fn of(write: FrozenView<'_>) -> Survey {
        let mut survey = Survey::default();
        if let Some(row) = write.static_row() {
            survey.row(layers(row), Tombstone::NONE);
            survey.is_split |= 0 < write.row_count();
        }
        for (_, row) in write.rows() {
            survey.row(layers(row), row.tombstone());
        }
        let has_rows = 0 < write.row_count() || write.static_row().is_some();
        let (ranges, tombstone) = (write.range_count(), write.tombstone());
        if 0 < ranges {
            survey.is_split |= has_rows;
            write.ranges().for_each(|range| survey.time(range.tombstone.timestamp));
        }
        if !tombstone.is_none() {
            survey.is_split |= has_rows || 0 < ranges;
            survey.time(tombstone.timestamp);
        }
        survey
    }

    fn row(&mut self, layers: Layers, tombstone: Tombstone) {
        let has_marker = layers.iter().any(|layer| layer.has_marker);
        let has_collections = layers.iter().any(|layer| layer.has_collections);
        self.is_split |= has_marker && has_collections;
        for layer in &layers {
            self.time(layer.time);
            self.is_split |= *self.ttl.get_or_insert(layer.ttl) != layer.ttl;
        }
        self.has_upserts |= !layers.is_empty();
        if !tombstone.is_none() {
            self.is_split |= self.has_upserts;
            self.time(tombstone.timestamp);
        }
    }

    fn time(&mut self, time: i64) {
        self.is_split |= *self.time.get_or_insert(time) != time;
    }

    /// Adds what is written to a row.
    fn upserts<'w>(
        &self,
        row: RowView<'w>,
        out: &mut SmallVec<[Change<'w>; 1]>,
        deed: impl Fn(bool, Cells<'w>) -> Deed<'w>,
    ) {
        if !self.is_split {
            // One set with one lifetime: it was seen that this row has at most one layer.
            let is_insert = marker_of(row).is_some();
            let has_any = is_insert || row.columns().next().is_some();
            if let (true, Some(time), Some(ttl)) = (has_any, self.time, self.ttl) {
                let is_plain = row.values_of_one_time().is_some();
                let cells = Cells { row, ttl, part: Part::Whole, is_plain };
                out.push(Change { time, deed: deed(is_insert, cells) });
            }
            return;
        }
        for Layer { time, ttl, has_marker, has_atomics, has_collections } in layers(row) {
            let cells = |part| Cells { row, ttl, part, is_plain: false };
            if has_marker {
                out.push(Change { time, deed: deed(true, cells(Part::Atomics)) });
            }
            let part = match (has_atomics && !has_marker, has_collections) {
                (true, true) => Part::Both,
                (true, false) => Part::Atomics,
                (false, true) => Part::Collections,
                (false, false) => continue,
            };
            out.push(Change { time, deed: deed(false, cells(part)) });
        }
    }
}
