//! A non-frozen collection or user type: never anything but its blob, read in place
//! (mutation-model reference, section 4).
//!
//! ```text
//! blob := has_tomb:u8 [ts:be64 deletion_time:be64] count:be32
//!         (path_len:be32 path cell_len:be32 cell)*        by path, unique
//! ```
//! The path is the map key, the set element, the list's timeuuid, or the 16-bit index of a user
//! type's field; the cell as in [`crate::cell`] (empty value for sets).
//!
//! Invariants
//!  - *path-order*: elements ascend by path, in the order of the path's type.
//!  - *uncovered*: no element is covered by the blob's own tombstone; writers drop such.
//!  - *no-intermediate*: every operation reads blobs and appends a blob or a value; no element is
//!    ever owned.

mod compact;
mod cql;
mod elements;
mod merge;
mod parts;
#[cfg(test)]
mod tests;

pub use compact::{compact, is_any_live, last_update, live_elements};
pub use cql::{ToCql, to_cql};
pub use elements::ValueElements;
pub use merge::{difference, merge};
pub use parts::{compare_paths, copy_uncovered, head, split, uncovered};

use crate::cell::{self, Cell};
use crate::tombstone::Tombstone;
use stdx::{Cursor, Damaged, Put};

/// A checked view: `tomb()`, `len()`, `iter()`; allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct CollectionView<'a> {
    bytes: &'a [u8],
    tomb: Tombstone,
    count: u32,
    elements: &'a [u8],
}

impl<'a> CollectionView<'a> {
    /// Checks all of `bytes` but the order of paths, for which the type is needed.
    pub fn parse(bytes: &'a [u8]) -> Result<CollectionView<'a>, Damaged> {
        let view = CollectionView::parse_head(bytes)?;
        let base = (bytes.len() - view.elements.len()) as u64;
        let mut cursor = Cursor::new(view.elements);
        for _ in 0..view.count {
            cursor.u32_bytes("collection path").map_err(|damage| damage.from_base(base))?;
            let cell = cursor.u32_bytes("collection cell");
            let cell = cell.map_err(|damage| damage.from_base(base))?;
            let at = base + (cursor.offset() - cell.len()) as u64;
            let cell = Cell::parse(cell).map_err(|damage| damage.from_base(at))?;
            if view.tomb.covers(cell.timestamp) {
                return Err(Damaged::new("collection element under its tombstone", at));
            }
        }
        if !cursor.is_empty() {
            let damage = cursor.damaged("bytes after the last collection element");
            return Err(damage.from_base(base));
        }
        Ok(view)
    }

    /// For bytes that `parse` or [`CollectionWriter`] has vouched for. Damaged ones give fewer
    /// elements, never a panic.
    pub fn trusted(bytes: &'a [u8]) -> CollectionView<'a> {
        CollectionView::parse_head(bytes).unwrap_or(CollectionView {
            bytes: &[],
            tomb: Tombstone::NONE,
            count: 0,
            elements: &[],
        })
    }

    fn parse_head(bytes: &'a [u8]) -> Result<CollectionView<'a>, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let tomb = match cursor.u8("collection tombstone flag")? {
            0 => Tombstone::NONE,
            1 => Tombstone {
                timestamp: cursor.i64("collection tombstone timestamp")?,
                deletion_time: cursor.i64("collection deletion time")?,
            },
            _ => return Err(Damaged::new("collection tombstone flag above 1", 0)),
        };
        let count = cursor.u32("collection element count")?;
        Ok(CollectionView { bytes, tomb, count, elements: cursor.rest() })
    }

    /// The blob.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    /// The deletion of what was there before (an overwrite or a `DELETE`).
    pub fn tomb(&self) -> Tombstone {
        self.tomb
    }
    /// How many elements there are, dead ones included.
    pub fn len(&self) -> usize {
        self.count as usize
    }
    /// Whether there is no element (there may be a tombstone).
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// Whether the blob says nothing at all.
    pub fn is_void(&self) -> bool {
        self.count == 0 && self.tomb.is_none()
    }
    /// ValueElements as (path, cell), in path order.
    pub fn iter(&self) -> CollectionIter<'a> {
        CollectionIter { raw: self.raw() }
    }
    fn raw(&self) -> RawIter<'a> {
        RawIter { elements: self.elements, at: 0, left: self.count }
    }
}

/// Iterator of [`CollectionView::iter`].
#[derive(Clone, Debug)]
pub struct CollectionIter<'a> {
    raw: RawIter<'a>,
}
impl<'a> Iterator for CollectionIter<'a> {
    type Item = (&'a [u8], Cell<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        let element = self.raw.next()?;
        Some((element.path, element.cell()?))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.raw.left as usize))
    }
}

/// An element with its place among the elements' bytes, so that runs can be copied at once. Its
/// cell is not decoded until asked for: most elements of a merge are only copied.
#[derive(Clone, Copy, Debug)]
struct RawElement<'a> {
    path: &'a [u8],
    blob: &'a [u8],
    start: usize,
    end: usize,
}

impl<'a> RawElement<'a> {
    /// `None`: the bytes were not checked and are damaged.
    fn cell(&self) -> Option<Cell<'a>> {
        Cell::parse(self.blob).ok()
    }
    fn is_covered(&self, tombstone: Tombstone) -> bool {
        let covered = |timestamp| tombstone.covers(timestamp);
        !tombstone.is_none() && cell::timestamp_of(self.blob).is_none_or(covered)
    }
}

#[derive(Clone, Debug)]
struct RawIter<'a> {
    elements: &'a [u8],
    at: usize,
    left: u32,
}
impl<'a> Iterator for RawIter<'a> {
    type Item = RawElement<'a>;
    fn next(&mut self) -> Option<RawElement<'a>> {
        if self.left == 0 {
            return None;
        }
        let mut cursor = Cursor::new(self.elements.get(self.at..)?);
        let path = cursor.u32_bytes("path").ok()?;
        let blob = cursor.u32_bytes("cell").ok()?;
        let start = self.at;
        self.at += cursor.offset();
        self.left -= 1;
        Some(RawElement { path, blob, start, end: self.at })
    }
}

/// Builds a blob; elements must come in path order. ValueElements that the tombstone covers are
/// dropped.
#[derive(Debug)]
pub struct CollectionWriter {
    out: Vec<u8>,
    sink: SinkState,
}

impl CollectionWriter {
    /// A new blob.
    pub fn new(tomb: Tombstone) -> CollectionWriter {
        CollectionWriter::append_to(Vec::new(), tomb)
    }
    /// Appends the blob to what `out` holds; `finish` gives it back.
    pub fn append_to(mut out: Vec<u8>, tomb: Tombstone) -> CollectionWriter {
        let sink = SinkState::begin(&mut out, tomb);
        CollectionWriter { out, sink }
    }
    /// Appends an element. Panics over 4 GiB.
    pub fn push(&mut self, path: &[u8], cell: Cell<'_>) {
        self.sink.push(&mut self.out, path, &cell);
    }
    /// The blob: of an empty writer the canonical `00 00000000`.
    pub fn finish(mut self) -> Vec<u8> {
        self.sink.finish(&mut self.out);
        self.out
    }
}

/// A blob being appended: where its count goes and how far it is.
#[derive(Clone, Copy, Debug)]
struct SinkState {
    start: usize,
    tomb: Tombstone,
    count_at: usize,
    count: u32,
}

impl SinkState {
    fn begin(out: &mut Vec<u8>, tomb: Tombstone) -> SinkState {
        let start = out.len();
        if tomb.is_none() {
            out.put_u8(0);
        } else {
            out.put_u8(1);
            out.put_i64(tomb.timestamp);
            out.put_i64(tomb.deletion_time);
        }
        let count_at = out.len();
        out.put_u32(0);
        SinkState { start, tomb, count_at, count: 0 }
    }

    fn push(&mut self, out: &mut Vec<u8>, path: &[u8], cell: &Cell<'_>) {
        if self.tomb.covers(cell.timestamp) {
            return;
        }
        out.put_u32_bytes(path);
        let cell_bytes = u32::try_from(cell.blob_bytes()).expect("a cell is under 4 GiB");
        out.put_u32(cell_bytes);
        cell.write(out);
        self.count += 1;
    }

    fn finish(&self, out: &mut [u8]) {
        out[self.count_at..self.count_at + 4].copy_from_slice(&self.count.to_be_bytes());
    }

    /// Finishes; takes a blob that says nothing back out. Whether anything is left.
    fn finish_or_retract(&self, out: &mut Vec<u8>) -> bool {
        if self.count == 0 && self.tomb.is_none() {
            out.truncate(self.start);
            return false;
        }
        self.finish(out);
        true
    }
}

/// Appends elements to a blob, copying neighbours of one source at once.
struct RunSink<'a, 'o> {
    out: &'o mut Vec<u8>,
    state: SinkState,
    run: Option<(&'a [u8], usize, usize)>,
}

impl<'a, 'o> RunSink<'a, 'o> {
    fn begin(out: &'o mut Vec<u8>, tomb: Tombstone) -> RunSink<'a, 'o> {
        let state = SinkState::begin(out, tomb);
        RunSink { out, state, run: None }
    }

    /// Takes an element over as it stands in `source`, unless the tombstone covers it.
    fn copy(&mut self, source: CollectionView<'a>, element: &RawElement<'a>) {
        if element.is_covered(self.state.tomb) {
            return;
        }
        self.state.count += 1;
        match &mut self.run {
            Some((elements, _, end))
                if *end == element.start && std::ptr::eq(*elements, source.elements) =>
            {
                *end = element.end;
            }
            _ => {
                self.flush();
                self.run = Some((source.elements, element.start, element.end));
            }
        }
    }

    /// Takes over an element of `source` and all that follow it, none of which the tombstone
    /// covers.
    fn copy_rest(&mut self, source: CollectionView<'a>, first: &RawElement<'a>, count: u32) {
        self.flush();
        self.state.count += count;
        self.out.put(&source.elements[first.start..]);
    }

    fn push(&mut self, path: &[u8], cell: &Cell<'_>) {
        self.flush();
        self.state.push(self.out, path, cell);
    }

    fn flush(&mut self) {
        if let Some((elements, start, end)) = self.run.take() {
            self.out.put(&elements[start..end]);
        }
    }

    fn finish(mut self) {
        self.flush();
        self.state.finish(self.out);
    }

    fn finish_or_retract(mut self) -> bool {
        self.flush();
        self.state.finish_or_retract(self.out)
    }
}
