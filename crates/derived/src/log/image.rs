//! The rows that a write changes, as they are before and after each of its sets.
//!
//! What is written is merged with what was there as in the table itself.

use super::plan::LogPlan;
use super::record::{AFTER, BEFORE, Body, Image, Record, Shown};
use super::split::{Cells, Change, Deed, Part};
use super::{LogWrite, Records};
use model::schema::cdc::Images;
use mutation::{CollectionWriter, ColumnData, RowBuilder, RowView, Tombstone, row};
use smallvec::SmallVec;

/// A row that says nothing.
const NOTHING: &[u8] = &[0];

/// What a set does to a row.
struct Touched {
    /// Among the states.
    index: usize,
    is_written: bool,
    shown: Shown,
}

/// The rows of a write.
pub(super) struct States<'a> {
    plan: &'a LogPlan,
    now: i64,
    statics: Vec<u8>,
    /// By their clustering keys, in the order of the table.
    rows: Vec<(&'a [u8], Vec<u8>)>,
}

impl<'a> States<'a> {
    /// As they were before the write.
    pub(super) fn of(plan: &'a LogPlan, what: &LogWrite<'a>) -> States<'a> {
        // The one row of a partition without clustering keys may be deleted with it.
        let only = plan.row_of_partition(what.write);
        let keys = what.write.rows().map(|(key, _)| key).chain(only);
        let rows = keys.map(|key| {
            let row = what.before.row(&plan.base.order, key).unwrap_or(NOTHING);
            (key, row.to_vec())
        });
        let statics = what.before.statics().unwrap_or(NOTHING).to_vec();
        States { plan, now: what.now, statics, rows: rows.collect() }
    }

    /// The images before a set.
    pub(super) fn before(&self, set: &[Change<'_>]) -> Records<'a> {
        let shown = match self.plan.options.preimage {
            Images::None => return Records::new(),
            Images::Touched => Shown::These(SmallVec::new()),
            Images::Full => Shown::All,
        };
        let mut records = Records::new();
        records.extend(self.image_of_statics(set, &shown, true));
        for touched in self.touched(set, &shown) {
            records.extend(self.image(touched, true));
        }
        records
    }

    /// The images after a set, which was applied.
    pub(super) fn after(&self, set: &[Change<'_>]) -> Records<'a> {
        let mut records = Records::new();
        if !self.plan.options.postimage {
            return records;
        }
        records.extend(self.image_of_statics(set, &Shown::All, false));
        for touched in self.touched(set, &Shown::All).into_iter().filter(|it| it.is_written) {
            records.extend(self.image(touched, false));
        }
        records
    }

    /// Applies a set.
    pub(super) fn apply(&mut self, set: &[Change<'_>]) {
        for change in set {
            let time = change.time;
            match &change.deed {
                Deed::Static(cells) => merge(self.plan, &mut self.statics, &piece(cells, time)),
                Deed::Insert(key, cells) | Deed::Update(key, cells) => {
                    self.merge(key, &piece(cells, time));
                }
                Deed::DeleteRow(key) => self.merge(key, &deletion(time)),
                Deed::DeleteRange(range) => {
                    let (plan, order) = (self.plan, &self.plan.base.order);
                    for (key, row) in &mut self.rows {
                        if range.contains(order, (key, 0)) {
                            merge(plan, row, &deletion(time));
                        }
                    }
                }
                Deed::DeletePartition => {
                    merge(self.plan, &mut self.statics, &deletion(time));
                    for (_, row) in &mut self.rows {
                        merge(self.plan, row, &deletion(time));
                    }
                }
            }
        }
    }

    fn merge(&mut self, key: &[u8], piece: &[u8]) {
        let index = self.index(key);
        merge(self.plan, &mut self.rows[index].1, piece);
    }

    fn index(&self, key: &[u8]) -> usize {
        let order = &self.plan.base.order;
        let found = self.rows.binary_search_by(|(own, _)| order.compare_rows(own, key));
        found.expect("a row of the write")
    }

    /// The rows that a set writes or deletes by their keys, in the order of the table.
    fn touched(&self, set: &[Change<'_>], shown: &Shown) -> SmallVec<[Touched; 1]> {
        let mut all: SmallVec<[Touched; 1]> = SmallVec::new();
        for change in set {
            let key = match change.deed {
                Deed::DeletePartition if self.plan.base.clustering_count == 0 => Some(&[][..]),
                _ => change.deed.row(),
            };
            let Some(key) = key else { continue };
            let index = self.index(key);
            let place = all.binary_search_by_key(&index, |touched| touched.index);
            let place = place.unwrap_or_else(|place| {
                all.insert(place, Touched { index, is_written: false, shown: shown.clone() });
                place
            });
            let touched = &mut all[place];
            match &change.deed {
                Deed::Insert(_, cells) | Deed::Update(_, cells) => {
                    touched.is_written = true;
                    touched.shown.add(cells, change.time);
                }
                _ => touched.shown = Shown::All,
            }
        }
        all
    }

    /// Of a row, if it is there.
    fn image(&self, touched: Touched, tells_nulls: bool) -> Option<Record<'a>> {
        let Touched { index, shown, .. } = touched;
        let (key, row) = &self.rows[index];
        let image = || Image { row: row.clone(), is_static: false, tells_nulls, shown };
        self.is_there(row).then(|| record_of(key, image()))
    }

    /// Of the static row, if a set writes it and it is there.
    fn image_of_statics(
        &self,
        set: &[Change<'_>],
        shown: &Shown,
        tells_nulls: bool,
    ) -> Option<Record<'a>> {
        let mut shown = shown.clone();
        let mut is_written = false;
        for change in set {
            if let Deed::Static(cells) = &change.deed {
                is_written = true;
                shown.add(cells, change.time);
            }
        }
        (is_written && self.is_there(&self.statics)).then(|| {
            let image = Image { row: self.statics.clone(), is_static: true, tells_nulls, shown };
            record_of(&[], image)
        })
    }

    fn is_there(&self, row: &[u8]) -> bool {
        row::is_live(&self.plan.base, RowView::trusted(row), Tombstone::NONE, self.now)
    }
}

fn record_of(clustering: &[u8], image: Image) -> Record<'_> {
    let operation = if image.tells_nulls { BEFORE } else { AFTER };
    Record { operation, ttl: 0, clustering, body: Body::Image(image) }
}

fn merge(plan: &LogPlan, row: &mut Vec<u8>, piece: &[u8]) {
    let mut merged = Vec::with_capacity(row.len() + piece.len());
    row::merge(&plan.base, RowView::trusted(row), RowView::trusted(piece), &mut merged);
    *row = merged;
}

fn deletion(time: i64) -> Vec<u8> {
    let mut row = RowBuilder::new(Vec::new());
    // When it was made counts for nobody here.
    row.tombstone(Tombstone::new(time, 0));
    row.finish()
}

/// The cells of a change as a row.
fn piece(cells: &Cells<'_>, time: i64) -> Vec<u8> {
    if cells.part == Part::Whole {
        return cells.row.bytes().to_vec();
    }
    let mut row = RowBuilder::new(Vec::new());
    if let Some(marker) = cells.row.marker().filter(|_| cells.has_marker(time)) {
        row.marker(marker);
    }
    for (id, data) in cells.row.columns().filter(|(_, data)| cells.takes(data)) {
        match data {
            ColumnData::Atomic(cell) if cells.has(time, &cell) => row.cell(id, cell),
            ColumnData::Atomic(_) => {}
            ColumnData::Collection(view) => {
                let has_deletion = cells.has_deletion(time, view.tomb());
                let tomb = if has_deletion { view.tomb() } else { Tombstone::NONE };
                let mut writer = CollectionWriter::new(tomb);
                let own = view.iter().filter(|(_, cell)| cells.has(time, cell));
                own.for_each(|(path, cell)| writer.push(path, cell));
                row.collection(id, &writer.finish());
            }
        }
    }
    row.finish()
}
