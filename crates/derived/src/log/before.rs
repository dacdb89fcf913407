//! What has to be read for the images of a write, and what was read.
//!
//! Cells are read with their times, as blobs: so an image can tell what wins, and a list's elements
//! by their keys.

use super::plan::{LogPlan, Mirror};
use model::schema::cdc::Images;
use model::{ClusteringOrder, ColumnId};
use mutation::page::{PageColumns, PageView};
use mutation::{
    Cell, CollectionView, ColumnForm, FrozenView, Marker, Partitions, ReadCommand, RowBuilder,
    RowShape, RowView, SendRange,
};
use smallvec::SmallVec;
use stdx::Damaged;

/// The marker of a row that was there, whatever keeps it: older than all that is written.
const WAS_THERE: Marker = Marker::Live { timestamp: i64::MIN + 1 };

/// What was there of the rows that a write changes.
#[derive(Clone, Debug, Default)]
pub struct Before {
    statics: Option<Vec<u8>>,
    /// By clustering key, in the order of the table.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What is wanted of a partition.
#[derive(Default)]
struct Wanted {
    statics: bool,
    ranges: Vec<SendRange>,
    /// Whether regular columns beyond `columns` are shown.
    all: bool,
    columns: Vec<ColumnId>,
}

impl LogPlan {
    /// What has to be read before `write` at second `now`; `None`: nothing. All of its answer goes
    /// to [`Before::take`].
    pub fn read(&self, write: FrozenView<'_>, now: i64) -> Option<ReadCommand> {
        debug_assert!(write.table() == self.base.id, "a write of another table");
        let wanted = self.wanted(write);
        if !wanted.statics && wanted.ranges.is_empty() {
            return None;
        }
        let is_wanted = |column: &&Mirror| match column.is_static {
            true => wanted.statics,
            false => {
                !wanted.ranges.is_empty()
                    && (wanted.all || wanted.columns.binary_search(&column.base).is_ok())
            }
        };
        let (statics, regulars): (Vec<&Mirror>, Vec<&Mirror>) =
            self.columns.iter().filter(is_wanted).partition(|column| column.is_static);
        let columns = statics.iter().chain(&regulars);
        // Of no row: the first one tells of the static row as well as any, and ends the answer.
        let (ranges, per_partition_limit) = match wanted.ranges.is_empty() {
            true => (vec![SendRange::full()], 1),
            false => (wanted.ranges, u64::MAX),
        };
        Some(ReadCommand {
            table: self.base.id,
            partitions: Partitions::Key(write.key().to_vec()),
            ranges,
            reversed: false,
            columns: columns.map(|column| (column.base, ColumnForm::Blob)).collect(),
            static_count: statics.len(),
            row_limit: u64::MAX,
            per_partition_limit,
            partition_limit: u64::MAX,
            bytes_max: usize::MAX,
            static_only_rows: wanted.statics,
            tombstone_limit: u64::MAX,
            now,
            bypass_cache: false,
            shape: RowShape::Whole,
            resume: None,
        })
    }

    /// The row that is deleted with its partition, where that has no other, and the write does not
    /// name it.
    pub(super) fn row_of_partition(&self, write: FrozenView<'_>) -> Option<&'static [u8]> {
        let is_only = self.base.clustering_count == 0 && write.row_count() == 0;
        (is_only && !write.tombstone().is_none()).then_some(&[])
    }

    fn wanted(&self, write: FrozenView<'_>) -> Wanted {
        let mut wanted = Wanted::default();
        if !self.has_images() {
            return wanted;
        }
        // Whether there is a static row only all of its columns tell.
        wanted.statics = write.static_row().is_some();
        wanted.all = self.options.postimage || self.options.preimage == Images::Full;
        // And whether a row outlives a deletion of an earlier set.
        wanted.all |= 0 < write.range_count() || !write.tombstone().is_none();
        for (key, row) in write.rows() {
            let is_deleted = !row.tombstone().is_none();
            let is_written = row.marker().is_some() || row.columns().next().is_some();
            if !is_written && self.options.preimage == Images::None {
                continue;
            }
            wanted.ranges.push(SendRange::of_prefix(key));
            wanted.all |= is_deleted;
            if !wanted.all {
                wanted.columns.extend(row.columns().map(|(id, _)| id));
            }
        }
        if self.options.preimage != Images::None
            && let Some(key) = self.row_of_partition(write)
        {
            wanted.ranges.push(SendRange::of_prefix(key));
        }
        wanted.columns.sort_unstable();
        wanted.columns.dedup();
        wanted
    }
}

impl Before {
    /// Where nothing was read, or nothing was there.
    pub const fn nothing() -> Before {
        Before { statics: None, rows: Vec::new() }
    }

    /// Takes a page of the answer to `command`, which asks for columns of `plan`'s table as
    /// [`ColumnForm::Blob`]; pages come in their order.
    pub fn take(
        &mut self,
        plan: &LogPlan,
        command: &ReadCommand,
        page: &[u8],
    ) -> Result<(), Damaged> {
        assert!(command.table == plan.base.id, "a read of another table");
        let layout = command.layout();
        for partition in PageView::parse(page, layout)?.partitions() {
            if let Some(columns) = partition.statics() {
                let ids = layout.statics().iter().map(|(id, _)| *id);
                self.statics = Some(row_of(plan, None, ids, columns)?);
            }
            for row in partition.rows() {
                let ids = layout.regulars().iter().map(|(id, _)| *id);
                let blob = row_of(plan, Some(WAS_THERE), ids, row.columns())?;
                let order = &plan.base.order;
                let last = self.rows.last().map(|(key, _)| key);
                if last.is_some_and(|last| order.compare_rows(last, row.clustering()).is_ge()) {
                    return Err(Damaged::new("rows of a page out of order", 0));
                }
                self.rows.push((row.clustering().to_vec(), blob));
            }
        }
        Ok(())
    }

    /// The static row.
    pub(super) fn statics(&self) -> Option<&[u8]> {
        self.statics.as_deref()
    }

    /// The row of that clustering key, with a marker if it was there.
    pub(super) fn row(&self, order: &ClusteringOrder, key: &[u8]) -> Option<&[u8]> {
        let found = self.rows.binary_search_by(|(own, _)| order.compare_rows(own, key));
        found.ok().map(|index| &self.rows[index].1[..])
    }
}

/// A row of what a page has of it.
fn row_of(
    plan: &LogPlan,
    marker: Option<Marker>,
    ids: impl Iterator<Item = ColumnId>,
    columns: PageColumns<'_>,
) -> Result<Vec<u8>, Damaged> {
    let with_ids = ids.zip(columns).filter_map(|(id, column)| Some((id, column.value?)));
    let mut blobs: SmallVec<[(ColumnId, &[u8]); 8]> = with_ids.collect();
    blobs.sort_unstable_by_key(|(id, _)| *id);
    blobs.dedup_by_key(|(id, _)| *id);
    let mut row = RowBuilder::new(Vec::new());
    if let Some(marker) = marker {
        row.marker(marker);
    }
    for (id, blob) in blobs {
        match plan.column(id) {
            None => {}
            Some(column) if column.is_multi_cell => {
                row.collection(id, CollectionView::parse(blob)?.bytes());
            }
            Some(_) => row.cell(id, Cell::parse(blob)?),
        }
    }
    let row = row.finish();
    debug_assert!(RowView::parse(&row).is_ok(), "a row that was built");
    Ok(row)
}
