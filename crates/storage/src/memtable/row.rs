//! One row of a memtable: one blob, which readers share; or, with a large collection, a head and
//! parts.

use super::assembly::Assembly;
use super::blob::{Scratch, collections, put};
use super::footprint::{Grown, blob_bytes};
use super::large::LargeRow;
use model::{ColumnId, TableSchema};
use mutation::RowView;
use std::rc::Rc;
use stdx::Bytes;

/// Rows in pieces of more bytes are put together in steps.
const ROW_BYTES_AT_ONCE: usize = 64 << 10;

/// What was written to a row, merged.
#[derive(Clone)]
pub(super) enum Row {
    Blob(Rc<[u8]>),
    Large(Rc<LargeRow>),
}

impl Row {
    /// As it was written first.
    pub(super) fn new(row: RowView<'_>, grown: &mut Grown) -> Row {
        debug_assert!(!row.bytes().is_empty(), "a row is a blob");
        grown.add(blob_bytes(row.bytes().len()));
        Row::Blob(Rc::from(row.bytes()))
    }

    /// Makes it the merge of itself and `row`.
    pub(super) fn merge(
        &mut self,
        schema: &TableSchema,
        row: RowView<'_>,
        scratch: &mut Scratch,
        grown: &mut Grown,
    ) {
        let blob = match self {
            Row::Blob(blob) => blob,
            Row::Large(large) => {
                let large = Rc::make_mut(large);
                large.merge(schema, row, scratch, grown);
                scratch.is_huge |= is_huge(large);
                return;
            }
        };
        let merged = &mut scratch.bytes;
        merged.clear();
        mutation::row::merge(schema, RowView::trusted(blob), row, merged);
        match LargeRow::of(RowView::trusted(merged), grown) {
            None => put(blob, merged, grown),
            Some(large) => {
                debug_assert!(!large.collections().is_empty(), "a large row of one blob");
                debug_assert!(
                    Assembly::at_once(Rc::new(large.clone()))[..] == merged[..],
                    "same-row: what lies in parts is another row"
                );
                scratch.is_huge |= is_huge(&large);
                grown.change(blob_bytes(blob.len()), 0);
                *self = Row::Large(Rc::new(large));
            }
        }
    }

    /// Whether both are the same where they lie.
    pub(super) fn is(&self, other: &Row) -> bool {
        match (self, other) {
            (Row::Blob(own), Row::Blob(other)) => Rc::ptr_eq(own, other),
            (Row::Large(own), Row::Large(other)) => Rc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// The blob that it is, unless it lies in parts.
    pub(super) fn blob(&self) -> Option<&[u8]> {
        match self {
            Row::Blob(blob) => Some(blob),
            Row::Large(_) => None,
        }
    }

    /// About how many bytes it has.
    pub(super) fn len(&self) -> usize {
        match self {
            Row::Blob(blob) => blob.len(),
            Row::Large(large) => large.len(),
        }
    }

    /// Its collections with how many elements they have, dead ones included.
    pub(super) fn collections(&self) -> Vec<(ColumnId, u64)> {
        match self {
            Row::Blob(blob) => collections(RowView::trusted(blob)).collect(),
            Row::Large(large) => large.elements(),
        }
    }

    /// All of it.
    pub(super) fn bytes(&self) -> Bytes {
        match self {
            Row::Blob(blob) => Bytes::from(blob.clone()),
            Row::Large(large) => Assembly::at_once(large.clone()),
        }
    }

    /// All of it, to be put together in steps, if that takes long.
    pub(super) fn slowly(&self) -> Option<Assembly> {
        match self {
            Row::Large(large) if is_huge(large) => Some(Assembly::new(large.clone())),
            _ => None,
        }
    }
}

fn is_huge(large: &LargeRow) -> bool {
    ROW_BYTES_AT_ONCE < large.len()
}
