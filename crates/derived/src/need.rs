//! What has to be read of a partition before a write of it, so that one can derive from the write.
//!
//! Invariants
//!  - *no-vain-read*: what changes nothing in any view, or is to be had from the write alone, is
//!    not asked for.

use crate::place::{Partition, Place};
use crate::plan::{Kind, ViewPlan};
use model::TableSchema;
use mutation::{
    ClusteringPosition, ClusteringRange, FrozenView, RangeTombstone, RangeTombstoneList, RowView,
    Tombstone,
};
use smallvec::{SmallVec, smallvec};
use stdx::Bytes;

/// What has to be read of the partition, as it is stored: with its tombstones, and its dead cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// The static row.
    pub statics: bool,
    /// Ascending and disjoint. The deletion of the partition and those of ranges are wanted of
    /// these even where there is no row.
    pub ranges: SmallVec<[ClusteringRange; 1]>,
    /// `Some`: of all that only deletions of ranges and of the partition are wanted, those with
    /// this timestamp or a greater one. Who knows that there is none need not read.
    pub deletions_from: Option<i64>,
}

impl Need {
    /// Whether nothing has to be read.
    pub fn is_nothing(&self) -> bool {
        !self.statics && self.ranges.is_empty()
    }
}

/// How much of a row is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Nothing,
    Deletions,
    Row,
}

/// What a deriver for these plans needs to know of the partition before `write`.
pub fn need(base: &TableSchema, plans: &[ViewPlan], write: FrozenView<'_>) -> Need {
    debug_assert!(write.table() == base.id, "a write of another table");
    let partition = Partition::new(write.key(), base.partition_key_count, false);
    let place = Place::new(&partition, &[]);
    let has = |plan: &&ViewPlan| plan.filter.has_partition(&place);
    let of_statics = || plans.iter().filter(has).filter(|plan| plan.is_of_statics());
    let of_rows = || plans.iter().filter(has).filter(|plan| !plan.is_of_statics());
    let deletes_rows = !write.tombstone().is_none();
    let statics = match write.static_row() {
        None => deletes_rows && of_statics().next().is_some(),
        Some(row) => of_statics().any(|plan| deletes_rows || touches(plan, row)),
    };
    if of_rows().next().is_none() {
        return Need { statics, ..Need::default() };
    }
    if deletes_rows && of_rows().any(|plan| !plan.keeps_partitions) {
        return Need { statics, ranges: smallvec![ClusteringRange::full()], deletions_from: None };
    }
    let mut wanted = Wanted::new(base, write);
    for (key, row) in write.rows() {
        let place = Place { clustering: key, ..place };
        let most = of_rows().map(|plan| part_of(plan, &place, row)).max();
        wanted.row(key, row, most.unwrap_or(Part::Nothing));
    }
    wanted.finish(statics)
}

/// How much a view needs of a row that is written.
fn part_of(plan: &ViewPlan, place: &Place<'_>, row: RowView<'_>) -> Part {
    if !plan.filter.has_row(place) {
        return Part::Nothing;
    }
    match plan.is_mirror() {
        true => Part::Deletions,
        false if touches(plan, row) => Part::Row,
        false => Part::Nothing,
    }
}

/// Whether what is written may change something in a view that is no mirror.
fn touches(plan: &ViewPlan, row: RowView<'_>) -> bool {
    let column = match &plan.kind {
        Kind::Mirror => return true,
        Kind::Keyed { column, .. }
        | Kind::Elements { column, .. }
        | Kind::Attributes { column, .. } => *column,
    };
    let is_projected = |id| plan.columns.iter().any(|projected| projected.base == id);
    !row.tombstone().is_none() || row.has_column(|id| id == column || is_projected(id))
}

/// Gathers what is wanted of rows.
struct Wanted<'b> {
    base: &'b TableSchema,
    ranges: RangeTombstoneList,
    rows: SmallVec<[ClusteringRange; 1]>,
    most: Part,
    oldest: i64,
}

/// What stands for being wanted in a list of ranges.
const WANTED: Tombstone = Tombstone::new(0, 0);

impl<'b> Wanted<'b> {
    fn new(base: &'b TableSchema, write: FrozenView<'_>) -> Wanted<'b> {
        let mut ranges = RangeTombstoneList::new();
        for RangeTombstone { range, .. } in write.ranges() {
            ranges.insert(&base.order, RangeTombstone { range, tombstone: WANTED });
        }
        let most = if ranges.is_empty() { Part::Nothing } else { Part::Row };
        Wanted { base, ranges, rows: SmallVec::new(), most, oldest: i64::MAX }
    }

    fn row(&mut self, key: &[u8], row: RowView<'_>, part: Part) {
        if part == Part::Nothing {
            return;
        }
        if part == Part::Deletions {
            let oldest = row.oldest_live();
            // A deletion ends what it ends, whatever else was deleted.
            if oldest == i64::MAX {
                return;
            }
            self.oldest = self.oldest.min(oldest);
        }
        self.most = self.most.max(part);
        let key = Bytes::copy_from(key);
        let range = ClusteringRange {
            start: ClusteringPosition::before(key.clone()),
            end: ClusteringPosition::after(key),
        };
        match self.ranges.is_empty() {
            true => self.rows.push(range),
            false => {
                self.ranges.insert(&self.base.order, RangeTombstone { range, tombstone: WANTED })
            }
        }
    }

    fn finish(self, statics: bool) -> Need {
        let ranges = match self.ranges.is_empty() {
            true => self.rows,
            false => self.ranges.iter().map(|range| range.range.clone()).collect(),
        };
        let only_deletions = self.most == Part::Deletions && !statics;
        Need { statics, ranges, deletions_from: only_deletions.then_some(self.oldest) }
    }
}
