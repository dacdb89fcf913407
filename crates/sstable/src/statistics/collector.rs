//! What a writer learns about the data that passes through it.
//!
//! Invariants
//!  - *min-max*: a least value is not above the greatest.
//!  - *row-by-row*: what is counted of a row's cells goes to that row, and of a partition's rows to
//!    that partition.
//!  - *few-records*: of each kind at most [`RECORDS_MAX`] by bytes and as many by elements.

use crate::mx::layout::{NO_DELETION_TIME, cap_deletion_time};
use crate::scylla::{LargeData, LargeRecord};
use crate::statistics::{EstimatedHistogram, TombstoneHistogram};
use model::key::clustering_components;
use model::{TableSchema, value};
use mutation::cell::CellState;
use mutation::{Cell, Tombstone};
use std::cmp::{Ordering, Reverse};

/// Bounds of the histograms, as other implementations have them.
const PARTITION_SIZE_BOUNDS: usize = 150;
const CELL_COUNT_BOUNDS: usize = 114;

/// A running minimum and maximum; nothing at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinMax<T> {
    range: Option<(T, T)>,
}

impl<T: Ord + Copy> MinMax<T> {
    /// Includes a value.
    pub fn add(&mut self, value: T) {
        self.range = Some(match self.range {
            None => (value, value),
            Some((min, max)) => (min.min(value), max.max(value)),
        });
        debug_assert!(self.range.is_some_and(|(min, max)| min <= max), "min-max");
    }
    /// The least value, or `other` where there was none.
    pub fn min_or(&self, other: T) -> T {
        self.range.map_or(other, |(min, _)| min)
    }
    /// The greatest value, or `other` where there was none.
    pub fn max_or(&self, other: T) -> T {
        self.range.map_or(other, |(_, max)| max)
    }
}

/// From which on what is written counts as large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeLimits {
    pub partition_bytes: u64,
    pub row_bytes: u64,
    pub cell_bytes: u64,
    /// In a partition.
    pub rows: u64,
    /// In a collection.
    pub elements: u64,
}

impl LargeLimits {
    /// Those of a node that was told nothing.
    pub const USUAL: LargeLimits = LargeLimits {
        partition_bytes: 1000 << 20,
        row_bytes: 10 << 20,
        cell_bytes: 1 << 20,
        rows: 100_000,
        elements: 10_000,
    };
}

/// Records of one kind in a file at most: the largest by bytes stay, and the largest by elements.
const RECORDS_MAX: usize = 10;

/// Collected while a file is written.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Of partitions, by bytes.
    pub partition_sizes: EstimatedHistogram,
    /// Of partitions, by cells.
    pub cell_counts: EstimatedHistogram,
    /// Microseconds.
    pub timestamps: MinMax<i64>,
    /// Seconds; [`NO_DELETION_TIME`] for what lives on.
    pub deletion_times: MinMax<i32>,
    /// Seconds.
    pub ttls: MinMax<i32>,
    /// When tombstones can be dropped.
    pub tombstones: TombstoneHistogram,
    /// Cells.
    pub cells: u64,
    /// Rows and range tombstone markers.
    pub rows: u64,
    /// Timestamps of live data.
    pub live_timestamps: MinMax<i64>,
    /// Timestamps of live row markers.
    pub marker_timestamps: MinMax<i64>,
    /// Bytes.
    pub large_partition: LargeData,
    /// Bytes.
    pub large_row: LargeData,
    /// Bytes.
    pub large_cell: LargeData,
    /// Rows.
    pub many_rows: LargeData,
    /// Elements.
    pub many_elements: LargeData,
    clustering: ClusteringBounds,
    partition_cells: u64,
    partition_rows: u64,
    partition_tombstones: u64,
    /// Of each kind what is largest, by bytes and by elements [`RECORDS_MAX`] at most.
    records: Vec<LargeRecord>,
    /// Cells of the row that is written, whose key is not known yet.
    cells_of_row: Vec<LargeRecord>,
}

impl Collector {
    /// Nothing collected yet.
    pub fn new() -> Collector {
        Collector::with(LargeLimits::USUAL)
    }

    /// Nothing collected yet; what counts as large is told.
    pub fn with(large: LargeLimits) -> Collector {
        Collector {
            partition_sizes: EstimatedHistogram::new(PARTITION_SIZE_BOUNDS),
            cell_counts: EstimatedHistogram::new(CELL_COUNT_BOUNDS),
            timestamps: MinMax::default(),
            deletion_times: MinMax::default(),
            ttls: MinMax::default(),
            tombstones: TombstoneHistogram::default(),
            cells: 0,
            rows: 0,
            live_timestamps: MinMax::default(),
            marker_timestamps: MinMax::default(),
            large_partition: LargeData::over(large.partition_bytes),
            large_row: LargeData::over(large.row_bytes),
            large_cell: LargeData::over(large.cell_bytes),
            many_rows: LargeData::over(large.rows),
            many_elements: LargeData::over(large.elements),
            clustering: ClusteringBounds::default(),
            partition_cells: 0,
            partition_rows: 0,
            partition_tombstones: 0,
            records: Vec::new(),
            cells_of_row: Vec::new(),
        }
    }

    /// All cells of a column of the row that is written, and their bytes on disk.
    pub fn column(&mut self, name: &str, bytes: u64, elements: u64) {
        if self.large_cell.threshold < bytes || self.many_elements.threshold < elements {
            self.cells_of_row.push(LargeRecord {
                kind: LargeRecord::CELL,
                column: name.as_bytes().to_vec(),
                value: bytes,
                elements,
                ..LargeRecord::default()
            });
        }
    }

    /// What is recorded of the file, the largest first.
    pub fn large_records(&self) -> Vec<LargeRecord> {
        debug_assert!(self.cells_of_row.is_empty(), "row-by-row: cells of no row");
        let mut records = self.records.clone();
        records.sort_by_key(|it| (it.kind, Reverse(it.value), Reverse(it.elements)));
        records
    }

    /// Keeps a record, if it is among the largest of its kind.
    fn record(&mut self, record: LargeRecord) {
        let kind = record.kind;
        self.records.push(record);
        let same = |at: &usize| self.records[*at].kind == kind;
        let mut by_bytes: Vec<usize> = (0..self.records.len()).filter(same).collect();
        if by_bytes.len() <= RECORDS_MAX {
            return;
        }
        let mut by_elements = by_bytes.clone();
        by_bytes.sort_by_key(|at| Reverse(self.records[*at].value));
        by_elements.sort_by_key(|at| Reverse(self.records[*at].elements));
        let counts = |at: &usize| 0 < self.records[*at].elements;
        let counted = by_elements.iter().take(RECORDS_MAX).filter(|at| counts(at));
        let stay: Vec<usize> = by_bytes.iter().take(RECORDS_MAX).chain(counted).copied().collect();
        if let Some(least) = by_bytes.iter().find(|at| !stay.contains(at)) {
            self.records.swap_remove(*least);
        }
        let left = self.records.iter().filter(|one| one.kind == kind).count();
        debug_assert!(left <= 2 * RECORDS_MAX, "few-records: {left} of kind {kind}");
    }

    /// The row whose columns were written has this key, and these bytes.
    fn row_is_done(&mut self, key: &[u8], prefix: &[u8], bytes: u64) {
        let (partition_key, clustering_key) = (key, prefix);
        if self.large_row.threshold < bytes {
            self.record(LargeRecord {
                kind: LargeRecord::ROW,
                partition_key: partition_key.to_vec(),
                clustering_key: clustering_key.to_vec(),
                value: bytes,
                ..LargeRecord::default()
            });
        }
        for cell in std::mem::take(&mut self.cells_of_row) {
            let (partition_key, clustering_key) = (key.to_vec(), prefix.to_vec());
            self.record(LargeRecord { partition_key, clustering_key, ..cell });
        }
    }

    /// A cell.
    pub fn cell(&mut self, cell: &Cell<'_>) {
        self.cells += 1;
        self.partition_cells += 1;
        match cell.state {
            CellState::Live { value } => {
                self.live(cell.timestamp);
                self.large_cell.add(value.len() as u64);
            }
            CellState::Counter { .. } | CellState::CounterUpdate { .. } => {
                self.live(cell.timestamp);
            }
            CellState::Expiring { value, expiry, ttl } => {
                self.expiring(cell.timestamp, cap_deletion_time(expiry), ttl);
                self.large_cell.add(value.len() as u64);
            }
            CellState::Dead { deletion_time } => {
                self.dead(cell.timestamp, cap_deletion_time(deletion_time));
            }
        }
    }

    /// Whether the values of a column are large at so many bytes on disk.
    #[inline]
    pub fn is_large_cell(&self, bytes: usize) -> bool {
        self.large_cell.threshold < bytes as u64
    }

    /// A live row marker, and so many live cells of its time, none of which is large, and the most
    /// bytes of a value.
    pub fn live_row(&mut self, timestamp: i64, count: usize, bytes_max: usize) {
        debug_assert!(!self.is_large_cell(bytes_max), "row-by-row: a large cell as a small one");
        self.cells += count as u64;
        self.partition_cells += count as u64;
        self.large_cell.add(bytes_max as u64);
        self.live_marker(timestamp);
    }

    /// So many cells that expire with the marker of their row, which is counted already, none of
    /// which is large, and the most bytes of a value.
    pub fn expiring_cells(&mut self, expiry: i32, count: u32, bytes_max: usize) {
        debug_assert!(!self.is_large_cell(bytes_max), "row-by-row: a large cell as a small one");
        debug_assert!(
            self.deletion_times.min_or(expiry) <= expiry,
            "min-max: a marker at {expiry} is not counted"
        );
        self.cells += u64::from(count);
        self.partition_cells += u64::from(count);
        self.large_cell.add(bytes_max as u64);
        self.tombstones.add_many(expiry, count.into());
    }

    /// A live row marker.
    pub fn live_marker(&mut self, timestamp: i64) {
        self.live(timestamp);
        self.marker_timestamps.add(timestamp);
    }

    fn live(&mut self, timestamp: i64) {
        self.timestamps.add(timestamp);
        self.live_timestamps.add(timestamp);
        self.deletion_times.add(NO_DELETION_TIME);
        self.ttls.add(0);
    }

    /// Something that expires.
    pub fn expiring(&mut self, timestamp: i64, expiry: i32, ttl: i32) {
        debug_assert!((0..NO_DELETION_TIME).contains(&expiry), "min-max: it expires at {expiry}");
        self.timestamps.add(timestamp);
        self.live_timestamps.add(timestamp);
        self.deletion_times.add(expiry);
        self.ttls.add(ttl);
        self.tombstones.add(expiry);
    }

    /// Something dead.
    pub fn dead(&mut self, timestamp: i64, deletion_time: i32) {
        debug_assert!((0..NO_DELETION_TIME).contains(&deletion_time), "min-max: {deletion_time}");
        self.timestamps.add(timestamp);
        self.deletion_times.add(deletion_time);
        self.tombstones.add(deletion_time);
    }

    /// A tombstone, which is not none.
    pub fn tombstone(&mut self, tombstone: Tombstone) {
        debug_assert!(!tombstone.is_none(), "min-max: the time of no tombstone");
        self.dead(tombstone.timestamp, cap_deletion_time(tombstone.deletion_time));
    }

    /// A bound of a range tombstone.
    pub fn range_tombstone(&mut self) {
        self.partition_tombstones += 1;
    }

    /// A collection of that many elements.
    pub fn collection(&mut self, elements: u64) {
        self.many_elements.add(elements);
    }

    /// A row or the bound of a range tombstone of the partition `key`, and its bytes on disk.
    pub fn row(&mut self, key: &[u8], prefix: &[u8], bytes: u64) {
        if self.large_row.threshold < bytes || !self.cells_of_row.is_empty() {
            self.row_is_done(key, prefix, bytes);
        }
        self.rows += 1;
        self.partition_rows += 1;
        debug_assert!(self.cells_of_row.is_empty(), "row-by-row: cells of another row");
        debug_assert!(self.partition_rows <= self.rows, "row-by-row: {} rows", self.rows);
        self.large_row.add(bytes);
    }

    /// The clustering prefix of a row or bound. Those between the least and the greatest value of
    /// each column, which are told as well, need not be told.
    pub fn clustering(&mut self, schema: &TableSchema, prefix: &[u8]) {
        self.clustering.add(schema, prefix);
    }

    /// Rows and bounds of range tombstones of the partition so far.
    pub fn rows_of_partition(&self) -> u64 {
        self.partition_rows
    }

    /// A static row and its bytes on disk.
    pub fn static_row(&mut self, key: &[u8], bytes: u64) {
        if self.large_row.threshold < bytes || !self.cells_of_row.is_empty() {
            self.row_is_done(key, &[], bytes);
        }
        debug_assert!(self.cells_of_row.is_empty(), "row-by-row: cells of a static row");
        self.large_row.add(bytes);
    }

    /// A partition tombstone: clustering keys have no bounds any more.
    pub fn partition_tombstone(&mut self, tombstone: Tombstone) {
        self.tombstone(tombstone);
        debug_assert!(self.partition_rows == 0, "row-by-row: rows before their partition");
        self.clustering.unbounded = true;
    }

    /// The end of the partition `key` of that many bytes.
    pub fn partition_end(&mut self, key: &[u8], bytes: u64) {
        let rows = self.partition_rows;
        debug_assert!(self.partition_tombstones <= rows, "row-by-row: {rows} rows and bounds");
        debug_assert!(self.partition_cells <= self.cells, "row-by-row: {} cells", self.cells);
        if self.large_partition.threshold < bytes || self.many_rows.threshold < rows {
            self.record(LargeRecord {
                kind: LargeRecord::PARTITION,
                partition_key: key.to_vec(),
                value: bytes,
                elements: rows,
                range_tombstones: self.partition_tombstones,
                ..LargeRecord::default()
            });
        }
        debug_assert!(self.cells_of_row.is_empty(), "row-by-row: cells of no row");
        self.partition_tombstones = 0;
        self.partition_sizes.add(bytes);
        self.cell_counts.add(self.partition_cells);
        self.large_partition.add(bytes);
        self.many_rows.add(self.partition_rows);
        self.partition_cells = 0;
        self.partition_rows = 0;
    }

    /// Per clustering column the least and the greatest value; nothing where there is no bound.
    pub fn clustering_bounds(&self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        match self.clustering.unbounded {
            true => Default::default(),
            false => self.clustering.values.iter().cloned().unzip(),
        }
    }
}

impl Default for Collector {
    fn default() -> Self {
        Collector::new()
    }
}

/// The least and the greatest value of each clustering column, as far as every prefix has it.
#[derive(Clone, Debug, Default)]
struct ClusteringBounds {
    values: Vec<(Vec<u8>, Vec<u8>)>,
    started: bool,
    unbounded: bool,
}

impl ClusteringBounds {
    fn add(&mut self, schema: &TableSchema, prefix: &[u8]) {
        if self.unbounded {
            return;
        }
        if !self.started {
            self.started = true;
            let values = clustering_components(prefix);
            self.values = values.map(|value| (value.to_vec(), value.to_vec())).collect();
            return;
        }
        let mut count = 0;
        let bounds = self.values.iter_mut().zip(schema.clustering());
        for ((bounds, column), value) in bounds.zip(clustering_components(prefix)) {
            count += 1;
            let order = |a: &[u8]| match value::compare(&column.ty, value, a) {
                order if column.reversed => order.reverse(),
                order => order,
            };
            if order(&bounds.0) == Ordering::Less {
                bounds.0.clear();
                bounds.0.extend_from_slice(value);
            } else if order(&bounds.1) == Ordering::Greater {
                bounds.1.clear();
                bounds.1.extend_from_slice(value);
            }
        }
        // A shorter prefix stands for every value of the columns that it does not have.
        self.values.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, clustering key, column, value and elements of each record.
    type Shown = Vec<(u32, Vec<u8>, String, u64, u64)>;

    fn shown(collector: &Collector) -> Shown {
        let record = |it: LargeRecord| {
            assert_eq!(it.partition_key, b"key");
            let column = String::from_utf8(it.column).unwrap();
            (it.kind, it.clustering_key, column, it.value, it.elements)
        };
        collector.large_records().into_iter().map(record).collect()
    }

    #[test]
    fn what_is_over_a_limit_is_recorded_with_its_key() {
        let (partition_bytes, row_bytes, cell_bytes) = (1000, 100, 10);
        let limits =
            LargeLimits { partition_bytes, row_bytes, cell_bytes, rows: 1000, elements: 5 };
        let mut collector = Collector::with(limits);
        collector.column("a", 10, 0);
        collector.column("s", 11, 0);
        collector.static_row(b"key", 100);
        collector.column("m", 3, 6);
        collector.static_row(b"key", 101);
        collector.partition_end(b"key", 1000);
        let row = (2, vec![], String::new(), 101, 0);
        let cells = [(3, vec![], "s".to_string(), 11, 0), (3, vec![], "m".to_string(), 3, 6)];
        assert_eq!(shown(&collector), [vec![row.clone()], cells.to_vec()].concat());
        // Of each kind the largest stay.
        (0..100).for_each(|bytes| collector.static_row(b"key", 200 + bytes));
        let rows: Vec<u64> =
            shown(&collector).iter().filter(|it| it.0 == 2).map(|it| it.3).collect();
        assert_eq!(rows, (290..300).rev().collect::<Vec<u64>>());
        collector.partition_end(b"key", 1001);
        assert_eq!(shown(&collector)[0], (1, vec![], String::new(), 1001, 0));
        // A collection of many small elements stays beside large cells.
        collector.column("l", 3, 7);
        (0..30).for_each(|bytes| collector.column("b", 50 + bytes, 0));
        collector.static_row(b"key", 1);
        let cells = shown(&collector).into_iter().filter(|it| it.0 == 3);
        let cells: Vec<(String, u64, u64)> = cells.map(|it| (it.2, it.3, it.4)).collect();
        let largest = (0..10).map(|less| ("b".to_string(), 79 - less, 0));
        let counted = [("l", 7), ("m", 6)].map(|(name, count)| (name.to_string(), 3, count));
        assert_eq!(cells, largest.chain(counted).collect::<Vec<_>>());
    }
}
