//! Rows of the log, made of what they tell.

use super::plan::{LogPlan, Mirror};
use super::split::{Cells, Deed, Part};
use super::{LogWrite, Origin};
use model::ColumnId;
use model::key::{clustering_components, partition_key_component};
use model::schema::cdc::Delta;
use mutation::collection::to_cql;
use mutation::{
    Cell, CellState, ClusteringRange, CollectionView, CollectionWriter, ColumnData, Marker,
    RowBuilder, RowView, Tombstone,
};
use smallvec::SmallVec;
use stdx::Put;

/// Operations, as `cdc$operation` has them.
pub(super) const BEFORE: i8 = 0;
pub(super) const UPDATE: i8 = 1;
pub(super) const INSERT: i8 = 2;
pub(super) const DELETE_ROW: i8 = 3;
pub(super) const DELETE_PARTITION: i8 = 4;
pub(super) const FROM: i8 = 5;
pub(super) const FROM_AFTER: i8 = 6;
pub(super) const UP_TO: i8 = 7;
pub(super) const UP_TO_BEFORE: i8 = 8;
pub(super) const AFTER: i8 = 9;
pub(super) const EXPIRE_ROW: i8 = -3;
pub(super) const EXPIRE_PARTITION: i8 = -4;

const TRUE: &[u8] = &[1];

/// What a mutation of the log takes beyond the write that it tells of, about.
const BEYOND_BYTES: usize = 128;
/// Room is made for so much at most at once: a log of keys has little of a large write.
const ROOM_BYTES_MAX: usize = 4096;

/// What a row of the log tells.
#[derive(Clone, Debug)]
pub(super) struct Record<'r> {
    pub(super) operation: i8,
    /// Seconds; 0: there is none.
    pub(super) ttl: i32,
    /// A key, a prefix of one or nothing.
    pub(super) clustering: &'r [u8],
    pub(super) body: Body<'r>,
}

#[derive(Clone, Debug)]
pub(super) enum Body<'r> {
    /// Nothing more.
    Keys,
    Cells(&'r Cells<'r>),
    Image(Image),
}

/// A state of a row, to be told.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) row: Vec<u8>,
    pub(super) is_static: bool,
    /// Whether a column that is null is told of.
    pub(super) tells_nulls: bool,
    pub(super) shown: Shown,
}

/// Columns of an image.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    All,
    These(SmallVec<[ColumnId; 8]>),
}

impl Shown {
    pub(super) fn has(&self, id: ColumnId) -> bool {
        match self {
            Shown::All => true,
            Shown::These(ids) => ids.contains(&id),
        }
    }

    pub(super) fn add(&mut self, cells: &Cells<'_>, time: i64) {
        let Shown::These(ids) = self else { return };
        for (id, data) in cells.row.columns() {
            let is_touched = cells.takes(&data)
                && match data {
                    ColumnData::Atomic(cell) => cells.has(time, &cell),
                    ColumnData::Collection(view) => {
                        cells.has_deletion(time, view.tomb())
                            || view.iter().any(|(_, cell)| cells.has(time, &cell))
                    }
                };
            if is_touched && !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
}

/// The operation of what has one row in the log.
pub(super) fn operation(deed: &Deed<'_>, origin: Origin) -> i8 {
    match (deed, origin) {
        (Deed::Static(_) | Deed::Update(..), _) => UPDATE,
        (Deed::Insert(..), _) => INSERT,
        (Deed::DeleteRow(_), Origin::Client) => DELETE_ROW,
        (Deed::DeleteRow(_), Origin::RowTtl) => EXPIRE_ROW,
        (Deed::DeletePartition, Origin::Client) => DELETE_PARTITION,
        (Deed::DeletePartition, Origin::RowTtl) => EXPIRE_PARTITION,
        (Deed::DeleteRange(range), _) => bound_operations(range).0,
    }
}

/// Those of a range's start and end.
pub(super) fn bound_operations(range: &ClusteringRange) -> (i8, i8) {
    let start = if range.start.weight < 0 { FROM } else { FROM_AFTER };
    let end = if range.end.weight < 0 { UP_TO_BEFORE } else { UP_TO };
    (start, end)
}

/// The clustering key of a row of the log.
pub(super) fn clustering(time: [u8; 16], number: usize) -> [u8; 24] {
    let number = i32::try_from(number).expect("a mutation of less than 2^31 changes");
    let mut key = [0; 24];
    key[1] = 16;
    key[2..18].copy_from_slice(&time);
    key[19] = 4;
    key[20..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Writes the rows that tell of one write.
pub(super) struct Scribe<'a> {
    plan: &'a LogPlan,
    /// The partition key's columns, as they stand in each row.
    partition: SmallVec<[(ColumnId, &'a [u8]); 4]>,
    now: i64,
    ttl: i32,
    write_bytes: usize,
}

impl<'a> Scribe<'a> {
    pub(super) fn new(plan: &'a LogPlan, what: &LogWrite<'a>) -> Scribe<'a> {
        let (key, count) = (what.write.key(), plan.partition.len());
        let part = |(index, id): (usize, &ColumnId)| {
            Some((*id, partition_key_component(key, count, index)?))
        };
        Scribe {
            plan,
            partition: plan.partition.iter().enumerate().filter_map(part).collect(),
            now: what.now,
            ttl: i32::try_from(plan.options.ttl_secs).unwrap_or(i32::MAX),
            write_bytes: what.write.bytes().len(),
        }
    }

    /// How long what tells of the write becomes, about.
    pub(super) fn room(&self) -> usize {
        BEYOND_BYTES + self.write_bytes.min(ROOM_BYTES_MAX)
    }

    /// Writes a row, `is_last` of its set.
    pub(super) fn write(
        &self,
        record: &Record<'_>,
        time: i64,
        is_last: bool,
        row: &mut RowBuilder,
    ) {
        row.marker(match self.ttl {
            0 => Marker::Live { timestamp: time },
            ttl => {
                let expiry = self.now.saturating_add(i64::from(ttl));
                Marker::Expiring { timestamp: time, expiry, ttl }
            }
        });
        if self.plan.is_in_order
            && let Body::Cells(Cells { row: cells, is_plain: true, .. }) = &record.body
            && self.plan.options.delta == Delta::Full
        {
            // As nearly all are.
            let (_, values) = cells.first_values();
            let mut row = row.as_marker();
            self.head(record, is_last, |id, value| row.put(id, value));
            let mut columns = self.plan.columns.iter().peekable();
            for (id, value) in values {
                while columns.next_if(|column| column.base < id).is_some() {}
                if let Some(column) = columns.next_if(|column| column.base == id) {
                    row.put(column.value, value);
                }
            }
            return;
        }
        self.any(record, time, is_last, row);
    }

    /// What a row has whatever it tells of.
    #[inline]
    fn head(&self, record: &Record<'_>, is_last: bool, mut put: impl FnMut(ColumnId, &[u8])) {
        put(self.plan.operation, &record.operation.to_be_bytes());
        if 0 < record.ttl {
            put(self.plan.ttl, &i64::from(record.ttl).to_be_bytes());
        }
        if is_last {
            put(self.plan.end_of_batch, TRUE);
        }
        self.partition.iter().for_each(|(id, part)| put(*id, part));
        let parts = clustering_components(record.clustering);
        self.plan.clustering.iter().zip(parts).for_each(|(id, part)| put(*id, part));
    }

    /// The columns of any row.
    fn any(&self, record: &Record<'_>, time: i64, is_last: bool, row: &mut RowBuilder) {
        let mut scratch = Vec::new();
        let mut fields = Fields { list: SmallVec::new(), scratch: &mut scratch };
        self.head(record, is_last, |id, value| {
            fields.made(id, |out| {
                out.put(value);
                true
            });
        });
        match &record.body {
            Body::Keys => {}
            Body::Cells(cells) if self.plan.options.delta == Delta::Full => {
                cells_of(self.plan, cells, time, &mut fields);
            }
            Body::Cells(_) => {}
            Body::Image(image) => image_of(self.plan, image, self.now, &mut fields),
        }
        let mut list = fields.list;
        list.sort_unstable_by_key(|(id, _)| *id);
        let mut row = row.as_marker();
        for (id, value) in &list {
            let value = match value {
                Value::At(bytes) => bytes,
                Value::Made(start, end) => &scratch[*start..*end],
            };
            row.put(*id, value);
        }
    }
}

/// The columns of a row of the log.
struct Fields<'v, 's> {
    list: SmallVec<[(ColumnId, Value<'v>); 12]>,
    scratch: &'s mut Vec<u8>,
}

#[derive(Clone, Copy)]
enum Value<'v> {
    /// It stands somewhere already.
    At(&'v [u8]),
    /// In what was made for the row, from and up to.
    Made(usize, usize),
}

impl<'v> Fields<'v, '_> {
    fn at(&mut self, id: ColumnId, value: &'v [u8]) {
        self.list.push((id, Value::At(value)));
    }

    /// A column with what `make` appends, if that says so; whether it does.
    fn made(&mut self, id: ColumnId, make: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let start = self.scratch.len();
        let is_made = make(self.scratch);
        if is_made {
            self.list.push((id, Value::Made(start, self.scratch.len())));
        }
        is_made
    }
}

/// The columns that tell what cells were written.
fn cells_of<'v>(plan: &LogPlan, cells: &'v Cells<'v>, time: i64, fields: &mut Fields<'v, '_>) {
    for (id, data) in cells.row.columns() {
        let Some(column) = plan.column(id).filter(|_| cells.takes(&data)) else { continue };
        match data {
            ColumnData::Atomic(cell) if cells.has(time, &cell) => match cell.value() {
                Some(value) => fields.at(column.value, value),
                None => fields.at(column.deleted, TRUE),
            },
            ColumnData::Atomic(_) => {}
            ColumnData::Collection(view) => {
                collection_of(column, view, cells, time, fields);
            }
        }
    }
}

fn collection_of<'v>(
    column: &Mirror,
    view: CollectionView<'v>,
    cells: &Cells<'_>,
    time: i64,
    fields: &mut Fields<'v, '_>,
) {
    if cells.has_deletion(time, view.tomb()) {
        fields.at(column.deleted, TRUE);
    }
    let mut own = Vec::new();
    let view = match cells.part {
        Part::Whole => view,
        _ => {
            let mut writer = CollectionWriter::append_to(own, Tombstone::NONE);
            let elements = view.iter().filter(|(_, cell)| cells.has(time, cell));
            elements.for_each(|(path, cell)| writer.push(path, cell));
            own = writer.finish();
            CollectionView::trusted(&own)
        }
    };
    // As it was written: whether it has expired by now is for who reads the log.
    let none = Tombstone::NONE;
    fields.made(column.value, |out| to_cql(&column.ty, view, none, i64::MIN, out));
    if let Some(elements) = column.elements {
        fields.made(elements, |out| deleted_paths(view, out));
    }
}

/// Appends the keys of deleted elements as a set; whether there are any.
fn deleted_paths(view: CollectionView<'_>, out: &mut Vec<u8>) -> bool {
    let is_dead = |cell: &Cell<'_>| matches!(cell.state, CellState::Dead { .. });
    let start = out.len();
    let mut count = 0;
    for (path, _) in view.iter().filter(|(_, cell)| is_dead(cell)) {
        if count == 0 {
            out.put_u32(0);
        }
        out.put_u32_bytes(path);
        count += 1;
    }
    if 0 < count {
        out[start..start + 4].copy_from_slice(&u32::to_be_bytes(count));
    }
    0 < count
}

/// The columns of an image.
fn image_of<'v>(plan: &LogPlan, image: &'v Image, now: i64, fields: &mut Fields<'v, '_>) {
    let row = RowView::trusted(&image.row);
    let columns = plan.columns.iter().filter(|column| column.is_static == image.is_static);
    for column in columns.filter(|column| image.shown.has(column.base)) {
        let is_there = match row.column(column.base) {
            Some(ColumnData::Atomic(cell)) => match cell.value().filter(|_| cell.is_live(now)) {
                Some(value) => {
                    fields.at(column.value, value);
                    true
                }
                None => false,
            },
            Some(ColumnData::Collection(view)) => {
                fields.made(column.value, |out| to_cql(&column.ty, view, Tombstone::NONE, now, out))
            }
            None => false,
        };
        if !is_there && image.tells_nulls {
            fields.at(column.deleted, TRUE);
        }
    }
}
