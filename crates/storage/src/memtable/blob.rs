//! Row blobs, and what merging them needs.

use super::footprint::{Grown, blob_bytes};
use super::tree::Node;
use model::ColumnId;
use mutation::RowView;
use mutation::row::ColumnData;
use std::rc::Rc;

/// The node of a tree of parts.
pub(super) type PartNode = Node<Rc<[u8]>>;

/// What merges use, and what they leave to be freed.
#[derive(Default)]
pub(super) struct Scratch {
    /// Merged rows are put together here.
    pub(super) bytes: Vec<u8>,
    /// Collections that are deleted, and what they take. They are large: whoever merges frees them
    /// piece by piece.
    pub(super) litter: Vec<(Rc<PartNode>, usize)>,
    /// Whether a row has become one that is put together in steps, or is one.
    pub(super) is_huge: bool,
}

/// The collections of a row blob, and their elements.
pub(super) fn collections(row: RowView<'_>) -> impl Iterator<Item = (ColumnId, u64)> {
    row.columns().filter_map(|(id, data)| match data {
        ColumnData::Collection(view) => Some((id, view.len() as u64)),
        ColumnData::Atomic(_) => None,
    })
}

/// Makes `blob` those bytes: in place if nobody else holds it and the length is the same.
pub(super) fn put(blob: &mut Rc<[u8]>, bytes: &[u8], grown: &mut Grown) {
    if blob.len() == bytes.len() {
        if let Some(own) = Rc::get_mut(blob) {
            own.copy_from_slice(bytes);
            return;
        }
        if **blob == *bytes {
            return;
        }
    }
    debug_assert!(**blob != *bytes, "what is the same is not copied");
    grown.change(blob_bytes(blob.len()), blob_bytes(bytes.len()));
    *blob = Rc::from(bytes);
}
