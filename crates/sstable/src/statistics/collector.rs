//! What a writer learns about the data that passes through it.

use crate::mx::layout::{NO_DELETION_TIME, cap_deletion_time};
use crate::statistics::{EstimatedHistogram, TombstoneHistogram};
use model::key::clustering_components;
use model::{TableSchema, value};
use mutation::cell::CellState;
use mutation::{Cell, Tombstone};
use std::cmp::Ordering;

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

/// The most of something: the greatest, and how often a threshold was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// The greatest value.
    pub max: u64,
    /// From which on a value counts as large.
    pub threshold: u64,
    /// How many were above the threshold.
    pub above: u32,
}

impl Large {
    const fn over(threshold: u64) -> Large {
        Large { max: 0, threshold, above: 0 }
    }
    /// Includes a value.
    pub fn add(&mut self, value: u64) {
        self.max = self.max.max(value);
        self.above += (self.threshold < value) as u32;
    }
}

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
    pub large_partition: Large,
    /// Bytes.
    pub large_row: Large,
    /// Bytes.
    pub large_cell: Large,
    /// Rows.
    pub many_rows: Large,
    /// Elements.
    pub many_elements: Large,
    clustering: ClusteringBounds,
    partition_cells: u64,
    partition_rows: u64,
}

impl Collector {
    /// Nothing collected yet.
    pub fn new() -> Collector {
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
            large_partition: Large::over(1000 << 20),
            large_row: Large::over(10 << 20),
            large_cell: Large::over(1 << 20),
            many_rows: Large::over(100_000),
            many_elements: Large::over(10_000),
            clustering: ClusteringBounds::default(),
            partition_cells: 0,
            partition_rows: 0,
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
        self.timestamps.add(timestamp);
        self.live_timestamps.add(timestamp);
        self.deletion_times.add(expiry);
        self.ttls.add(ttl);
        self.tombstones.add(expiry);
    }

    /// Something dead.
    pub fn dead(&mut self, timestamp: i64, deletion_time: i32) {
        self.timestamps.add(timestamp);
        self.deletion_times.add(deletion_time);
        self.tombstones.add(deletion_time);
    }

    /// A tombstone, which is not none.
    pub fn tombstone(&mut self, tombstone: Tombstone) {
        self.dead(tombstone.timestamp, cap_deletion_time(tombstone.deletion_time));
    }

    /// A collection of that many elements.
    pub fn collection(&mut self, elements: u64) {
        self.many_elements.add(elements);
    }

    /// A row or the bound of a range tombstone, and its bytes on disk.
    pub fn row(&mut self, schema: &TableSchema, prefix: &[u8], bytes: u64) {
        self.rows += 1;
        self.partition_rows += 1;
        self.large_row.add(bytes);
        self.clustering.add(schema, prefix);
    }

    /// A static row and its bytes on disk.
    pub fn static_row(&mut self, bytes: u64) {
        self.large_row.add(bytes);
    }

    /// A partition tombstone: clustering keys have no bounds any more.
    pub fn partition_tombstone(&mut self, tombstone: Tombstone) {
        self.tombstone(tombstone);
        self.clustering.unbounded = true;
    }

    /// The end of a partition of that many bytes.
    pub fn partition_end(&mut self, bytes: u64) {
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
