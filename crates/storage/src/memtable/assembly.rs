//! A row in pieces is put together, a few parts at a time.
//!
//! Invariants
//!  - *known-length*: all parts are measured first; so what becomes of them is allocated once and
//!    written once, to where it stays.
//!  - *small-steps*: a step looks at no more parts than it is told to.

use super::large::{LargeRow, Parts, rebuild};
use mutation::collection::{self, CollectionView};
use mutation::{RowView, Tombstone};
use std::rc::Rc;
use stdx::Bytes;

/// A row that is being put together.
pub(super) struct Assembly {
    row: Rc<LargeRow>,
    collections: Vec<Collection>,
    /// The collection, and the part of it, that comes next: to be measured, or to be written.
    next: (usize, usize),
    written: Option<Written>,
}

/// A collection of it.
struct Collection {
    /// What covers elements.
    shadow: Tombstone,
    /// What the blob says of deletions.
    tomb: Tombstone,
    parts: Vec<Rc<[u8]>>,
    /// Of elements that are not covered.
    count: u32,
    bytes: usize,
    /// Where the blob goes among what the row has besides; `None`: it says nothing.
    at: Option<usize>,
}

/// What there is of it.
struct Written {
    /// All but the large collections.
    rest: Vec<u8>,
    bytes: Rc<[u8]>,
    filled: usize,
    rest_used: usize,
}

impl Assembly {
    pub(super) fn new(row: Rc<LargeRow>) -> Assembly {
        let tombstone = RowView::trusted(row.head()).tombstone();
        let collection = |parts: &Parts| Collection {
            shadow: tombstone.merge(parts.tomb),
            tomb: if tombstone.subsumes(parts.tomb) { Tombstone::NONE } else { parts.tomb },
            parts: parts.blobs(),
            count: 0,
            bytes: 0,
            at: None,
        };
        let collections = row.collections().iter().map(collection).collect();
        Assembly { row, collections, next: (0, 0), written: None }
    }

    /// Puts all of a row together.
    pub(super) fn at_once(row: Rc<LargeRow>) -> Bytes {
        let mut assembly = Assembly::new(row);
        loop {
            if let Some(bytes) = assembly.step(usize::MAX) {
                return bytes;
            }
        }
    }

    /// Goes on with at most so many parts; gives the row once it is whole.
    pub(super) fn step(&mut self, parts_max: usize) -> Option<Bytes> {
        let mut left = parts_max.max(1);
        while let Some(collection) = self.collections.get_mut(self.next.0) {
            if left == 0 {
                return None;
            }
            let shadow = collection.shadow;
            if let Some(written) = &mut self.written
                && self.next.1 == 0
            {
                written.begin(collection);
            }
            let last = collection.parts.len().min(self.next.1.saturating_add(left));
            for part in &collection.parts[self.next.1..last] {
                let view = CollectionView::trusted(part);
                match &mut self.written {
                    None => {
                        let (count, bytes) = collection::uncovered(view, shadow);
                        collection.count += count;
                        collection.bytes += bytes;
                    }
                    Some(written) => written.put(view, shadow),
                }
            }
            left -= last - self.next.1;
            self.next = match last == collection.parts.len() {
                true => (self.next.0 + 1, 0),
                false => (self.next.0, last),
            };
        }
        match self.written.take() {
            None => {
                self.begin_writing();
                None
            }
            Some(written) => Some(written.finish()),
        }
    }

    /// All is measured.
    fn begin_writing(&mut self) {
        let head = RowView::trusted(self.row.head());
        let columns = self.row.collections().iter().map(|parts| parts.column);
        let mut parts = columns.zip(&mut self.collections).peekable();
        let mut total = 0;
        let rest = rebuild(head, |builder, below| {
            while let Some((column, collection)) =
                parts.next_if(|(column, _)| below.is_none_or(|id| *column <= id))
            {
                if 0 < collection.count || !collection.tomb.is_none() {
                    let bytes = collection.head().len() + collection.bytes;
                    collection.at = Some(builder.collection_apart(column, bytes));
                    total += bytes;
                }
            }
            below.is_none_or(|id| !self.row.has_parts(id))
        });
        assert!(parts.peek().is_none(), "known-length: a collection without its place");
        debug_assert!(self.written.is_none(), "known-length: measured twice");
        let bytes = memory::zeroed(rest.len() + total);
        self.written = Some(Written { rest, bytes, filled: 0, rest_used: 0 });
        self.next = (0, 0);
    }
}

impl Collection {
    fn head(&self) -> Vec<u8> {
        collection::head(self.tomb, self.count)
    }
}

impl Written {
    /// What stands before the elements of a collection.
    fn begin(&mut self, collection: &Collection) {
        let Some(at) = collection.at else { return };
        assert!(self.rest_used <= at, "known-length: {at} is behind {}", self.rest_used);
        self.put_rest(at);
        let head = collection.head();
        self.room()[..head.len()].copy_from_slice(&head);
        self.filled += head.len();
    }

    fn put(&mut self, part: CollectionView<'_>, shadow: Tombstone) {
        let bytes = collection::copy_uncovered(part, shadow, self.room());
        debug_assert!(self.filled + bytes <= self.bytes.len(), "known-length: {bytes} more");
        self.filled += bytes;
    }

    fn put_rest(&mut self, up_to: usize) {
        let range = self.rest_used..up_to;
        debug_assert!(
            self.rest_used <= up_to && up_to <= self.rest.len(),
            "known-length: {range:?}"
        );
        let rest = std::mem::take(&mut self.rest);
        self.room()[..range.len()].copy_from_slice(&rest[range.clone()]);
        self.filled += range.len();
        (self.rest, self.rest_used) = (rest, up_to);
    }

    fn room(&mut self) -> &mut [u8] {
        let bytes = Rc::get_mut(&mut self.bytes).expect("nobody else has it before it is whole");
        &mut bytes[self.filled..]
    }

    fn finish(mut self) -> Bytes {
        self.put_rest(self.rest.len());
        assert!(self.filled == self.bytes.len(), "known-length");
        Bytes::from(self.bytes)
    }
}
