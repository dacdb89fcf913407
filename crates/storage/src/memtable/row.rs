//! One row of a memtable: one blob, which readers share.

use super::footprint::{Grown, blob_bytes};
use model::TableSchema;
use mutation::RowView;
use std::rc::Rc;
use stdx::Bytes;

/// What was written to a row, merged.
#[derive(Clone)]
pub(super) struct Row {
    blob: Rc<[u8]>,
}

impl Row {
    /// As it was written first.
    pub(super) fn new(row: RowView<'_>, grown: &mut Grown) -> Row {
        grown.add(blob_bytes(row.bytes().len()));
        Row { blob: Rc::from(row.bytes()) }
    }

    /// Makes it the merge of itself and `row`.
    pub(super) fn merge(
        &mut self,
        schema: &TableSchema,
        row: RowView<'_>,
        scratch: &mut Vec<u8>,
        grown: &mut Grown,
    ) {
        scratch.clear();
        mutation::row::merge(schema, RowView::trusted(&self.blob), row, scratch);
        put(&mut self.blob, scratch, grown);
    }

    /// All of it.
    pub(super) fn bytes(&self) -> Bytes {
        Bytes::from(self.blob.clone())
    }
}

/// Makes `blob` those bytes: in place if nobody else holds it and the length is the same.
fn put(blob: &mut Rc<[u8]>, bytes: &[u8], grown: &mut Grown) {
    if blob.len() == bytes.len() {
        if let Some(own) = Rc::get_mut(blob) {
            own.copy_from_slice(bytes);
            return;
        }
        if **blob == *bytes {
            return;
        }
    }
    grown.change(blob_bytes(blob.len()), blob_bytes(bytes.len()));
    *blob = Rc::from(bytes);
}
