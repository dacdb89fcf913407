//! Entries that are too large for one step, or for one segment: they are logged in pieces.
//!
//! What is cut is the item as it would stand in a segment, an entry or a whole group. Its pieces
//! lie between the entries of others, in as many segments as they need.
//!
//! Invariants
//!  - *one-cut-at-a-time*: the pieces of an item are not mixed with those of another one, so who
//!    reads them back keeps one unfinished item for each shard that wrote, no more.
//!  - *last-piece-logs*: the item is where its last piece is. It is applied in the step in which
//!    that is appended; an item without its last piece was never logged.
//!  - *all-pieces-held*: each segment with a piece counts the item's entries until they are durable
//!    elsewhere, or until the item is given up.
//!  - *pieces-add-up*: the pieces of an item are all of it, each byte once, in order.

use super::layout::multi_header;
use super::layout::{ENTRY_HEADER, FRAGMENT_HEADER, FragmentHead, MULTI_HEADER, entry_header};
use super::position::{HeldEntries, ReplayPosition, SegmentId};
use super::writer::{
    Appended, Commitlog, Refusal, SEGMENT_BYTES_MIN, WHOLE_BYTES_MAX, group_bytes,
};
use crate::error::WriteError;
use model::TableId;
use runtime::sync::Permit;
use runtime::task::yield_if_needed;
use runtime::time::{Instant, timeout};

/// The smallest log has room for some data in a piece.
const _: () = assert!(FRAGMENT_HEADER < SEGMENT_BYTES_MIN / 2 && FRAGMENT_HEADER < WHOLE_BYTES_MAX);

/// An item whose pieces are in the log.
pub(crate) struct Pieces<'l> {
    log: &'l Commitlog,
    /// Of its entries.
    tables: Vec<TableId>,
    /// Segments with a piece: each counts every entry once (*all-pieces-held*).
    segments: Vec<SegmentId>,
    /// The first chunk with a piece.
    first_chunk: u64,
    last: Option<Appended>,
    _turn: Permit,
}

impl Commitlog {
    /// Whether an item of so many bytes goes into the log in pieces.
    pub(crate) fn cuts(&self, bytes: usize) -> bool {
        self.whole_bytes_max() < bytes
    }

    /// The largest item that is logged whole.
    pub(super) fn whole_bytes_max(&self) -> usize {
        WHOLE_BYTES_MAX.min(self.config.segment_bytes / 2)
    }

    /// Waits for the turn to log an item in pieces (*one-cut-at-a-time*).
    pub(crate) async fn turn_to_cut(&self, deadline: Instant) -> Result<Permit, WriteError> {
        let turn = timeout(deadline - Instant::now(), self.cutting.acquire(1)).await;
        turn.ok().and_then(Result::ok).ok_or(WriteError::Overloaded("other large writes"))
    }

    /// Logs entries, as one group if there are several, in pieces, waiting for room before each.
    /// When it returns, the last piece was appended in the same step.
    pub(crate) async fn append_in_pieces(
        &self,
        entries: &[(TableId, &[u8])],
        turn: Permit,
        deadline: Instant,
    ) -> Result<Pieces<'_>, WriteError> {
        let total = group_bytes(entries);
        if self.entry_bytes_max() < total {
            let bytes_max = self.entry_bytes_max();
            return Err(WriteError::TooLarge { bytes: total, bytes_max });
        }
        let headers = Headers::of(entries, total);
        let mut left = Left { parts: headers.parts(entries), at: 0, bytes: total };
        let parts: usize = left.parts.iter().map(|part| part.len()).sum();
        assert!(parts == total, "pieces-add-up: {parts} of {total}");
        assert!(self.cutting.available() == 0, "one-cut-at-a-time");
        let tables = entries.iter().map(|(table, _)| *table).collect();
        let (segments, first_chunk) = (Vec::new(), 0);
        let mut pieces =
            Pieces { log: self, tables, segments, first_chunk, last: None, _turn: turn };
        let mut first = None;
        loop {
            match self.append_piece(&mut pieces, &mut left, &mut first, total) {
                Ok(()) if left.bytes == 0 => return Ok(pieces),
                Ok(()) => yield_if_needed().await,
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Full(what)) => {
                    let waited = timeout(deadline - Instant::now(), self.room_made()).await;
                    waited.map_err(|_| WriteError::Overloaded(what))?;
                }
            }
        }
    }

    /// Puts the next piece into the buffer.
    fn append_piece(
        &self,
        pieces: &mut Pieces<'_>,
        left: &mut Left<'_>,
        first: &mut Option<ReplayPosition>,
        total: usize,
    ) -> Result<(), Refusal> {
        let data = left.bytes.min(self.whole_bytes_max() - FRAGMENT_HEADER);
        let bytes = data + FRAGMENT_HEADER;
        assert!(0 < data, "pieces-add-up: nothing is left");
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let (position, chunk) = self.put_item(state, bytes, |active| {
            let position = active.position();
            let head = FragmentHead {
                first: *first.get_or_insert(position),
                offset: (total - left.bytes) as u32,
                total: total as u32,
            };
            let end = head.offset as usize + data;
            assert!(end <= total, "pieces-add-up: {end} of {total}");
            active.chunk.put(&head.to_bytes(bytes as u32));
            left.take(data, |part| active.chunk.put(part));
            if pieces.segments.last() != Some(&position.segment) {
                pieces.segments.push(position.segment);
                pieces.tables.iter().for_each(|table| active.count(*table));
            }
            position
        })?;
        let before = pieces.last.map(|last| last.position);
        assert!(before < Some(position), "positions-grow: {position} after {before:?}");
        assert!(pieces.segments.is_sorted_by(|a, b| a < b), "all-pieces-held: a segment twice");
        if pieces.last.is_none() {
            pieces.first_chunk = chunk;
        }
        pieces.last = Some(Appended { position, first_chunk: pieces.first_chunk, chunk });
        Ok(())
    }
}

impl Pieces<'_> {
    /// The segments that each of its memtables holds an entry of, once the item is applied.
    pub(crate) fn segments(&self) -> &[SegmentId] {
        &self.segments
    }

    /// The item was applied: memtables hold its segments now.
    pub(crate) fn applied(mut self) -> Appended {
        assert!(!self.segments.is_empty(), "last-piece-logs: nothing is");
        self.segments.clear();
        self.last.expect("an item has at least one piece")
    }
}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        let mut held = HeldEntries::default();
        self.segments.iter().for_each(|id| held.add(*id, 1));
        self.tables.iter().for_each(|table| self.log.discard(*table, &held, i64::MIN));
    }
}

/// The headers of an item: one for each entry, before the first that of the group.
struct Headers {
    bytes: Vec<u8>,
    group: usize,
}

impl Headers {
    fn of(entries: &[(TableId, &[u8])], total: usize) -> Headers {
        let mut bytes = Vec::with_capacity(MULTI_HEADER + entries.len() * ENTRY_HEADER);
        let group = if 1 < entries.len() { MULTI_HEADER } else { 0 };
        if 0 < group {
            bytes.extend_from_slice(&multi_header(total as u32));
        }
        entries.iter().for_each(|(_, payload)| bytes.extend_from_slice(&entry_header(payload)));
        debug_assert_eq!(bytes.len(), group + entries.len() * ENTRY_HEADER, "pieces-add-up");
        Headers { bytes, group }
    }

    fn parts<'p>(&'p self, entries: &[(TableId, &'p [u8])]) -> Vec<&'p [u8]> {
        let (group, rest) = self.bytes.split_at(self.group);
        let mut parts = vec![group];
        for (header, (_, payload)) in rest.chunks(ENTRY_HEADER).zip(entries) {
            parts.extend([header, payload]);
        }
        parts
    }
}

/// What of an item is not logged yet.
struct Left<'p> {
    parts: Vec<&'p [u8]>,
    /// The first of `parts` that has something left; of those before nothing is.
    at: usize,
    bytes: usize,
}

impl Left<'_> {
    /// Takes the next `bytes`, of which there are so many.
    fn take(&mut self, mut bytes: usize, mut each: impl FnMut(&[u8])) {
        assert!(bytes <= self.bytes, "pieces-add-up: {bytes} of {}", self.bytes);
        self.bytes -= bytes;
        while 0 < bytes {
            let part = &mut self.parts[self.at];
            let (now, later) = part.split_at(bytes.min(part.len()));
            each(now);
            bytes -= now.len();
            *part = later;
            self.at += later.is_empty() as usize;
        }
        let rest = self.parts.get(self.at..).unwrap_or_default();
        debug_assert!(
            rest.iter().map(|part| part.len()).sum::<usize>() == self.bytes,
            "pieces-add-up: {} are left",
            self.bytes
        );
    }
}
