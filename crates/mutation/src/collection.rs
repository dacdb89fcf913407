//! A non-frozen collection or user type: never anything but its blob
//! (mutation-model reference, section 4), read in place.

use crate::cell::Cell;
use crate::tombstone::Tombstone;
use model::Type;
use stdx::Damaged;

/// A checked view: `tomb()`, `len()`, `iter()`; allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct CollectionView<'a> {
    bytes: &'a [u8],
}

impl<'a> CollectionView<'a> {
    /// Checks all of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<CollectionView<'a>, Damaged> {
        Ok(CollectionView { bytes })
    }
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    pub fn tomb(&self) -> Tombstone {
        todo!()
    }
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Elements as (path, cell), in path order.
    pub fn iter(&self) -> CollectionIter<'a> {
        todo!()
    }
}

/// Iterator of [`CollectionView::iter`].
pub struct CollectionIter<'a> {
    rest: &'a [u8],
}
impl<'a> Iterator for CollectionIter<'a> {
    type Item = (&'a [u8], Cell<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.rest;
        todo!()
    }
}

/// Builds a blob; elements must come in path order.
pub struct CollectionWriter {
    out: Vec<u8>,
}
impl CollectionWriter {
    pub fn new(tomb: Tombstone) -> CollectionWriter {
        let _ = tomb;
        todo!()
    }
    pub fn push(&mut self, path: &[u8], cell: Cell<'_>) {
        let _ = (path, cell, &self.out);
        todo!()
    }
    pub fn finish(self) -> Vec<u8> {
        todo!()
    }
}

/// Merges two blobs of a column of type `ty` and appends the result.
pub fn merge(ty: &Type, a: CollectionView<'_>, b: CollectionView<'_>, out: &mut Vec<u8>) {
    let _ = (ty, a, b, out);
    todo!()
}
