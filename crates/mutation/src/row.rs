//! A row as one blob, the same in memtable, commitlog, frozen mutation and message.

use crate::cell::Cell;
use crate::collection::CollectionView;
use crate::tombstone::Tombstone;
use model::{ColumnId, TableSchema};
use stdx::Damaged;

/// The row's own liveness, made by INSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    Live { timestamp: i64 },
    Expiring { timestamp: i64, expiry: i64, ttl: i32 },
    Dead { timestamp: i64, deletion_time: i64 },
}

/// What a column of a row holds.
#[derive(Clone, Copy, Debug)]
pub enum ColumnData<'a> {
    Atomic(Cell<'a>),
    Collection(CollectionView<'a>),
}

/// A checked view of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    bytes: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Checks all of `bytes`: use it where bytes enter.
    pub fn parse(bytes: &'a [u8]) -> Result<RowView<'a>, Damaged> {
        Ok(RowView { bytes })
    }
    /// For bytes that `parse` or [`RowBuilder`] has vouched for; damaged ones give wrong rows, never
    /// undefined behaviour.
    pub fn trusted(bytes: &'a [u8]) -> RowView<'a> {
        RowView { bytes }
    }
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    pub fn marker(&self) -> Option<Marker> {
        todo!()
    }
    /// The row tombstone (`Tombstone::NONE` where there is none).
    pub fn tombstone(&self) -> Tombstone {
        todo!()
    }
    /// The shadowable part, at least the regular one.
    pub fn shadowable(&self) -> Tombstone {
        todo!()
    }
    /// Columns in order of id.
    pub fn columns(&self) -> Columns<'a> {
        todo!()
    }
}

/// Iterator of [`RowView::columns`].
pub struct Columns<'a> {
    rest: &'a [u8],
}
impl<'a> Iterator for Columns<'a> {
    type Item = (ColumnId, ColumnData<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.rest;
        todo!()
    }
}

/// Writes a row blob into a buffer; columns in order of id.
pub struct RowBuilder {
    out: Vec<u8>,
}
impl RowBuilder {
    /// Reuses `out` (cleared).
    pub fn new(out: Vec<u8>) -> RowBuilder {
        RowBuilder { out }
    }
    pub fn marker(&mut self, marker: Marker) {
        let _ = (marker, &self.out);
        todo!()
    }
    pub fn tombstone(&mut self, tombstone: Tombstone) {
        let _ = tombstone;
        todo!()
    }
    pub fn shadowable(&mut self, tombstone: Tombstone) {
        let _ = tombstone;
        todo!()
    }
    pub fn cell(&mut self, column: ColumnId, cell: Cell<'_>) {
        let _ = (column, cell);
        todo!()
    }
    /// A collection blob (`CollectionWriter::finish`).
    pub fn collection(&mut self, column: ColumnId, blob: &[u8]) {
        let _ = (column, blob);
        todo!()
    }
    pub fn finish(self) -> Vec<u8> {
        todo!()
    }
}

/// Merges two rows of one position and appends the result.
pub fn merge(schema: &TableSchema, a: RowView<'_>, b: RowView<'_>, out: &mut Vec<u8>) {
    let _ = (schema, a, b, out);
    todo!()
}
