//! A large collection in parts, each a blob of neighbouring elements: what changes a few elements
//! need not touch the others.

use super::merge::PathOrder;
use super::{CollectionView, CollectionWriter, SinkState};
use crate::tombstone::Tombstone;
use model::Type;
use std::cmp::Ordering;

/// How two paths of a column of that type compare (`None`: a column that nobody knows any more).
pub fn compare_paths(ty: Option<&Type>, a: &[u8], b: &[u8]) -> Ordering {
    PathOrder::of(ty).compare(a, b)
}

/// Cuts the elements of a blob into blobs of about equal size, none much over `bytes_max` unless
/// one element is; calls `each` with the first path and the blob of each, in order. The tombstone
/// is in none of them.
pub fn split(view: CollectionView<'_>, bytes_max: usize, mut each: impl FnMut(&[u8], &[u8])) {
    let pieces = view.bytes().len().div_ceil(bytes_max.max(1)).max(1);
    let target = view.bytes().len().div_ceil(pieces);
    let mut open: Option<(&[u8], CollectionWriter, usize)> = None;
    for (path, cell) in view.iter() {
        let bytes = 8 + path.len() + cell.blob_bytes();
        if let Some((first, piece, _)) =
            open.take_if(|(_, _, filled)| 0 < *filled && target < *filled + bytes)
        {
            each(first, &piece.finish());
        }
        let (_, piece, filled) =
            open.get_or_insert_with(|| (path, CollectionWriter::new(Tombstone::NONE), 0));
        piece.push(path, cell);
        *filled += bytes;
    }
    if let Some((first, piece, _)) = open {
        each(first, &piece.finish());
    }
}

/// How many elements of a blob a deletion does not cover, and the bytes that they take.
pub fn uncovered(view: CollectionView<'_>, tomb: Tombstone) -> (u32, usize) {
    if tomb.is_none() {
        return (view.count, view.elements.len());
    }
    let left = view.raw().filter(|element| !element.is_covered(tomb));
    left.fold((0, 0), |(count, bytes), element| (count + 1, bytes + element.end - element.start))
}

/// Copies the elements of a blob that a deletion does not cover to where `out` begins; how many
/// bytes they take. Panics if there is no room for them.
pub fn copy_uncovered(view: CollectionView<'_>, tomb: Tombstone, out: &mut [u8]) -> usize {
    if tomb.is_none() {
        out[..view.elements.len()].copy_from_slice(view.elements);
        return view.elements.len();
    }
    let mut filled = 0;
    for element in view.raw().filter(|element| !element.is_covered(tomb)) {
        let bytes = &view.elements[element.start..element.end];
        out[filled..filled + bytes.len()].copy_from_slice(bytes);
        filled += bytes.len();
    }
    filled
}

/// What stands before the elements of a blob of so many.
pub fn head(tomb: Tombstone, count: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let sink = SinkState { count, ..SinkState::begin(&mut out, tomb) };
    sink.finish(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Cell, CellState};

    /// One blob of parts that follow each other, without what `tomb` covers.
    fn join(tomb: Tombstone, parts: &[Vec<u8>]) -> Vec<u8> {
        let views = || parts.iter().map(|part| CollectionView::trusted(part));
        let count = views().map(|view| uncovered(view, tomb).0).sum();
        let mut out = head(tomb, count);
        for view in views() {
            let (start, (_, bytes)) = (out.len(), uncovered(view, tomb));
            out.resize(start + bytes, 0);
            assert_eq!(copy_uncovered(view, tomb, &mut out[start..]), bytes);
        }
        out
    }

    #[test]
    fn parts_make_the_blob_that_they_were_cut_of() {
        for (count, bytes_max) in [(0u32, 100), (1, 100), (1, 1), (50, 100), (50, 1000), (50, 1)] {
            let mut whole = CollectionWriter::new(Tombstone::NONE);
            for path in 0..count {
                let value = vec![7; path as usize];
                let state = CellState::Live { value: &value };
                whole.push(&path.to_be_bytes(), Cell { timestamp: path as i64, state });
            }
            let whole = whole.finish();
            let view = CollectionView::parse(&whole).unwrap();
            let mut parts = Vec::new();
            split(view, bytes_max, |first, blob| {
                let part = CollectionView::parse(blob).unwrap();
                assert_eq!(part.iter().next().unwrap().0, first);
                assert!(part.len() == 1 || blob.len() <= bytes_max + 5);
                parts.push(blob.to_vec());
            });
            assert_eq!(join(Tombstone::NONE, &parts), whole, "{count} by {bytes_max}");
            let joined = join(Tombstone::new(9, 1), &parts);
            let left = CollectionView::parse(&joined).unwrap();
            assert_eq!(left.len() as u32, count.saturating_sub(10));
        }
    }
}
