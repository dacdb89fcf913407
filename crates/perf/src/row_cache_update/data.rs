//! The data of a case: what is in the cache, and what in the memtables that are merged into it, all
//! from row numbers.

use super::cases::{Case, Shape};
use super::options::Options;
use crate::offline;
use model::TableSchema;
use mutation::range::RangeTombstone;
use mutation::{
    Cell, ClusteringPosition, ClusteringRange, FrozenMutation, MutationBuilder, RowBuilder,
    Tombstone,
};
use std::rc::Rc;
use stdx::{Bytes, Prng};
use storage::memtable::Memtable;

/// Mutations between two looks at the clock.
const BATCH: u64 = 32;
/// Rows that each of many range tombstones covers.
const COVERED: u64 = 8;

/// The data of a case.
pub(super) struct Data<'d> {
    pub(super) schema: Rc<TableSchema>,
    options: &'d Options,
    shape: Shape,
}

impl Data<'_> {
    pub(super) fn of<'d>(case: &Case, options: &'d Options) -> Result<Data<'d>, String> {
        let text = "CREATE TABLE ks.cache (pk bigint, ck bigint, v blob, PRIMARY KEY (pk, ck))";
        let schema = offline::table(text)?;
        Ok(Data { schema, options, shape: case.shape })
    }

    /// Whether memtables are merged until the cache is full before anything is measured.
    pub(super) fn fills(&self) -> bool {
        matches!(self.shape, Shape::Small(_))
    }

    /// Whether what is merged takes away what was there, so that it has to be put there again.
    pub(super) fn empties(&self) -> bool {
        self.shape == Shape::Tombstone
    }

    /// What the cache knows before memtable `number`: of a large partition, the even rows.
    pub(super) async fn base(&self, number: u64) -> Rc<Memtable> {
        match self.shape {
            Shape::Small(_) => self.memtable(number).await,
            _ => {
                let make = |row| self.row(0, &[2 * row], 2 * number as i64);
                self.filled(self.options.rows, make).await
            }
        }
    }

    /// Memtable `number`, counted from 1.
    pub(super) async fn memtable(&self, number: u64) -> Rc<Memtable> {
        let count = self.options.memtable_rows;
        let timestamp = 2 * number as i64 + 1;
        // So that the rows of a memtable lie as far apart as they can.
        let step = (2 * self.options.rows / count).max(1);
        match self.shape {
            Shape::Small(rows) => {
                let partitions = (count / rows).max(1);
                let first = partitions / 2 * number;
                let rows: Vec<u64> = (0..rows).collect();
                let make = |n| self.row(first + n, &rows, timestamp);
                self.filled(partitions, make).await
            }
            Shape::Large => {
                let make = |n: u64| self.row(0, &[n * step + n % 2], timestamp);
                self.filled(count, make).await
            }
            Shape::Tombstone => self.filled(1, |_| self.deletion(None, timestamp)).await,
            Shape::Tombstones => {
                let make = |n: u64| self.deletion(Some(n * step), timestamp);
                self.filled(count, make).await
            }
        }
    }

    /// How many rows a merge goes through, of the memtable or of the cache.
    pub(super) fn rows(&self) -> u64 {
        match self.shape {
            Shape::Tombstone => self.options.rows,
            Shape::Small(rows) => (self.options.memtable_rows / rows).max(1) * rows,
            Shape::Large | Shape::Tombstones => self.options.memtable_rows,
        }
    }

    async fn filled(&self, count: u64, make: impl Fn(u64) -> FrozenMutation) -> Rc<Memtable> {
        let memtable = offline::memtable(&self.schema);
        for number in 0..count {
            offline::apply(&memtable, &self.schema, &make(number));
            if number % BATCH == 0 {
                runtime::task::yield_if_needed().await;
            }
        }
        memtable
    }

    /// Writes rows of a partition.
    fn row(&self, partition: u64, rows: &[u64], timestamp: i64) -> FrozenMutation {
        let mut builder = MutationBuilder::new(&self.schema, &partition.to_be_bytes());
        let column = self.schema.column("v").expect("the table has its value column");
        let mut value = vec![0; self.options.value_bytes];
        Prng::from_seed(partition ^ timestamp as u64).fill(&mut value);
        for row in rows {
            let mut cells = RowBuilder::new(Vec::new());
            cells.cell(column.id, Cell::live(timestamp, &value));
            builder.row(&clustering(*row), &cells.finish());
        }
        builder.freeze()
    }

    /// Deletes some rows of the large partition from one on, or all.
    fn deletion(&self, from: Option<u64>, timestamp: i64) -> FrozenMutation {
        let mut builder = MutationBuilder::new(&self.schema, &0u64.to_be_bytes());
        let tombstone = Tombstone { timestamp, deletion_time: 1_700_000_000 };
        let before = |row| ClusteringPosition::before(Bytes::from(clustering(row)));
        let range = match from {
            // Not a tombstone of the partition: the rows have to be gone through.
            None => ClusteringRange { start: before(0), end: before(2 * self.options.rows) },
            Some(row) => ClusteringRange { start: before(row), end: before(row + COVERED) },
        };
        builder.delete_range(RangeTombstone { range, tombstone });
        builder.freeze()
    }
}

fn clustering(row: u64) -> Vec<u8> {
    let mut key = Vec::new();
    model::key::push_clustering(&row.to_be_bytes(), &mut key);
    key
}
