//! Reading a segment's bytes back. Pure.
//!
//! Rules
//!  - *whole-or-nothing*: an entry (a group) is delivered only when all blocks it lies in are
//!    valid: their checksum holds and their trailer names this segment.
//!  - *resync*: after bytes that cannot be read, reading goes on at the next valid block that
//!    starts a chunk. What lies between is *corrupt*; without such a block it is a *torn tail*,
//!    the normal end of a segment after a crash.
//!  - *old-is-end*: blocks of another segment (a recycled file's past) are never delivered.
//!  - *put-together*: an item in pieces is delivered with its last piece, at its place, when all of
//!    it was read in order; what is left of another one is forgotten without a word: it was never
//!    logged, or its memtable is durable and a segment with pieces of it is gone.
//!  - *goes-on*: each step takes a block at least, and each item its size.
//!  - *lost-once*: no byte is counted twice as lost; at most a block that the file cuts off counts
//!    whole.
//!
//! Never panics, whatever the bytes are; allocates at most the size of the input.

use super::layout::*;
use super::position::{ReplayPosition, SegmentId};
use stdx::checksum::crc32;
use stdx::{Cursor, Damaged, HashMap};

/// What a file was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// All zeros where data would start: allocated, never written.
    Unused,
    /// Ends without a termination: it was being written.
    Open,
    /// Ends with its termination.
    Closed,
    /// Not a segment of this id and version.
    Broken,
}

/// What a file held besides its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    pub state: SegmentState,
    /// Entries delivered.
    pub entries: u64,
    /// Unreadable bytes with readable ones after them.
    pub corrupt_bytes: u64,
    /// Unreadable bytes at the end.
    pub torn_bytes: u64,
    /// The first broken rule and its offset in the file.
    pub damage: Option<Damaged>,
}

/// The id that the file header names, unchecked: for tools, and for tests on arbitrary bytes.
pub fn id_in_header(bytes: &[u8]) -> Option<SegmentId> {
    let mut cursor = Cursor::new(bytes.get(8..)?);
    cursor.u64("id").ok().map(SegmentId)
}

/// Delivers the payload of each entry of segment `id`, in order. Of what is in pieces that alone
/// which is all in this segment.
pub fn parse_segment(
    id: SegmentId,
    bytes: &[u8],
    each: &mut dyn FnMut(ReplayPosition, &[u8]),
) -> SegmentReport {
    let mut unfinished = Unfinished::default();
    let mut parser = Parser::new(id, bytes, &mut unfinished);
    while parser.step(each) {}
    parser.report
}

const NEW_REPORT: SegmentReport = SegmentReport {
    state: SegmentState::Open,
    entries: 0,
    corrupt_bytes: 0,
    torn_bytes: 0,
    damage: None,
};

/// Items in pieces of which the last one was not read yet: one for each shard at most.
#[derive(Debug, Default)]
pub struct Unfinished(HashMap<u16, Item>);

/// An item in pieces.
#[derive(Debug)]
struct Item {
    first: ReplayPosition,
    total: u32,
    data: Vec<u8>,
}

/// Reads one segment, chunk by chunk.
pub(crate) struct Parser<'a> {
    id: SegmentId,
    bytes: &'a [u8],
    unfinished: &'a mut Unfinished,
    /// The block that is next.
    at: usize,
    /// Whether a chunk was read.
    seen: bool,
    /// The joined data of a chunk's valid blocks.
    data: Vec<u8>,
    /// Unreadable bytes so far that are corrupt or torn, depending on what follows.
    pending: u64,
    pub(crate) report: SegmentReport,
}

/// What stands at the start of a block.
enum ChunkStart {
    /// A chunk that ends before this block.
    Chunk {
        next: usize,
    },
    Termination,
    None,
}

impl<'a> Parser<'a> {
    /// A parser of segment `id`, which goes on with what earlier segments left unfinished.
    pub(crate) fn new(
        id: SegmentId,
        bytes: &'a [u8],
        unfinished: &'a mut Unfinished,
    ) -> Parser<'a> {
        let (at, seen, data, pending, report) = (0, false, Vec::new(), 0, NEW_REPORT);
        Parser { id, bytes, unfinished, at, seen, data, pending, report }
    }

    /// Delivers the next chunk; whether there may be more. `report` is true at the end.
    pub(crate) fn step(&mut self, each: &mut dyn FnMut(ReplayPosition, &[u8])) -> bool {
        if self.at == 0
            && let Some(damage) = self.foreign()
        {
            self.report.state = SegmentState::Broken;
            self.report.damage = Some(damage);
            return false;
        }
        let (at, blocks) = (self.at, self.bytes.len() / BLOCK);
        debug_assert!(self.at == 0 || self.seen || 0 < self.pending, "goes-on: block {at}");
        if at < blocks {
            match self.chunk_start(at) {
                ChunkStart::Chunk { next } => {
                    assert!(at < next, "a chunk of no blocks at {at}");
                    self.settle();
                    self.seen = true;
                    self.chunk(at, next, each);
                    self.at = next;
                    return true;
                }
                ChunkStart::Termination => {
                    self.settle();
                    self.report.state = SegmentState::Closed;
                    return false;
                }
                ChunkStart::None => {
                    let next = (at + 1..blocks)
                        .find(|next| !matches!(self.chunk_start(*next), ChunkStart::None));
                    if let Some(next) = next {
                        self.damaged("unreadable block", at * BLOCK);
                        self.pending += ((next - at) * BLOCK) as u64;
                        self.at = next;
                        return true;
                    }
                }
            }
        }
        self.end(at, self.seen);
        false
    }

    /// What follows was read, so what could not be read before it is corrupt.
    fn settle(&mut self) {
        self.report.corrupt_bytes += std::mem::take(&mut self.pending);
    }

    /// Nothing readable follows block `at`.
    fn end(&mut self, at: usize, seen: bool) {
        let rest = self.bytes.get(at * BLOCK..).unwrap_or_default();
        let block = &rest[..rest.len().min(BLOCK)];
        let stale = block.len() == BLOCK && crc_holds(block);
        if !stale && block.iter().any(|byte| *byte != 0) {
            self.damaged("torn block", at * BLOCK);
            self.pending += block.len() as u64;
        }
        debug_assert!(self.report.torn_bytes == 0, "goes-on: a segment ends once");
        self.report.torn_bytes = std::mem::take(&mut self.pending);
        debug_assert!(
            self.report.corrupt_bytes + self.report.torn_bytes
                <= ((self.bytes.len() / BLOCK + 1) * BLOCK) as u64,
            "lost-once: {:?}",
            self.report
        );
        if !seen && self.report.torn_bytes == 0 {
            self.report.state = SegmentState::Unused;
        }
    }

    /// Why the file is not a segment of this id, where its first block says so.
    fn foreign(&self) -> Option<Damaged> {
        let mut header = Cursor::new(self.bytes.get(..FILE_HEADER)?);
        let magic = header.u32("magic").ok()?;
        if magic == 0 {
            return None;
        }
        if magic != MAGIC {
            return Some(Damaged::new("bad magic in the file header", 0));
        }
        if !self.bytes.get(..BLOCK).is_some_and(crc_holds) {
            return None;
        }
        let version = header.u32("version").ok()?;
        let id = SegmentId(header.u64("id").ok()?);
        let alignment = header.u32("alignment").ok()?;
        if header.u32("crc").ok()? != file_header_crc(version, id, alignment) {
            return Some(Damaged::new("bad checksum of the file header", 20));
        }
        if version != VERSION || alignment != BLOCK as u32 {
            return Some(Damaged::new("file of another version or block size", 4));
        }
        (id != self.id).then_some(Damaged::new("the file header names another segment", 8))
    }

    fn damaged(&mut self, what: &'static str, at: usize) {
        self.report.damage.get_or_insert(Damaged::new(what, at as u64));
    }

    /// Block `index`, if it is whole, valid and of this segment.
    fn block(&self, index: usize) -> Option<&[u8]> {
        let block = self.bytes.get(index * BLOCK..)?.get(..BLOCK)?;
        let ours = block[BLOCK_DATA..BLOCK - 4] == self.id.0.to_be_bytes();
        (ours && crc_holds(block)).then_some(&block[..BLOCK_DATA])
    }

    fn chunk_start(&self, index: usize) -> ChunkStart {
        let Some(block) = self.block(index) else { return ChunkStart::None };
        let head = if index == 0 { FILE_HEADER } else { 0 };
        let mut cursor = Cursor::new(&block[head..]);
        let (Ok(next), Ok(crc)) = (cursor.u32("next"), cursor.u32("crc")) else {
            return ChunkStart::None;
        };
        if next == 0 && crc == 0 {
            return match block.iter().all(|byte| *byte == 0) {
                true => ChunkStart::Termination,
                false => ChunkStart::None,
            };
        }
        let sound = crc == chunk_crc(self.id, (index * BLOCK + head) as u32)
            && (next as usize).is_multiple_of(BLOCK)
            && index < next as usize / BLOCK;
        if sound { ChunkStart::Chunk { next: next as usize / BLOCK } } else { ChunkStart::None }
    }

    /// Delivers what can be read of the chunk in blocks `from..to`.
    fn chunk(&mut self, from: usize, to: usize, each: &mut dyn FnMut(ReplayPosition, &[u8])) {
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        let mut valid = from;
        while valid < to
            && let Some(block) = self.block(valid)
        {
            data.extend_from_slice(block);
            valid += 1;
        }
        debug_assert!(from < valid, "old-is-end: block {from} is not of {:?}", self.id);
        if valid < to {
            let what = if self.bytes.len() / BLOCK <= valid {
                "the file ends inside a chunk"
            } else {
                "unreadable block"
            };
            self.damaged(what, valid * BLOCK);
            // A chunk that claims to go on past the file misses no more than what is there.
            let lost = to.min(self.bytes.len() / BLOCK).max(valid + 1) - valid;
            self.pending += (lost * BLOCK) as u64;
        }
        debug_assert_eq!(data.len(), (valid - from) * BLOCK_DATA, "blocks are joined whole");
        let head = CHUNK_HEADER + if from == 0 { FILE_HEADER } else { 0 };
        let place = Place::InChunk { start: from * BLOCK };
        let mut items = Items { id: self.id, place, data: &data, at: head };
        let whole = valid == to;
        match items.deliver(self.unfinished, &mut self.report.entries, each) {
            Err(damage) if whole => {
                self.damaged(damage.what, damage.at as usize);
                self.pending += (data.len() - items.at) as u64;
            }
            // The last entry goes on in the blocks that could not be read.
            Err(_) => self.pending += (data.len() - items.at) as u64,
            Ok(()) => {}
        }
        self.data = data;
    }
}

impl Unfinished {
    /// The first segment that has a piece of one of them.
    pub(crate) fn first_segment(&self) -> Option<SegmentId> {
        self.0.values().map(|item| item.first.segment).min_by_key(|id| (id.base(), id.shard()))
    }

    /// Adds a piece that lies at `at`: the item, if that was its last one.
    fn add(
        &mut self,
        at: ReplayPosition,
        head: FragmentHead,
        data: &[u8],
    ) -> Result<Option<Vec<u8>>, Damaged> {
        let FragmentHead { first, offset, total } = head;
        let end = (offset as usize).checked_add(data.len()).filter(|end| *end <= total as usize);
        if end.is_none() || data.is_empty() || (offset == 0) != (first == at) {
            return Err(Damaged::new("piece of an item that cannot be", at.offset as u64));
        }
        let shard = at.segment.shard();
        if offset == 0 {
            self.0.insert(shard, Item { first, total, data: Vec::new() });
        }
        let Some(item) = self.0.get_mut(&shard) else { return Ok(None) };
        let follows = (item.first, item.total, item.data.len()) == (first, total, offset as usize);
        if !follows {
            return Ok(None);
        }
        item.data.extend_from_slice(data);
        assert!(item.data.len() <= item.total as usize, "pieces-add-up: {}", item.data.len());
        if item.data.len() < total as usize {
            return Ok(None);
        }
        assert!(head.first.segment.shard() == shard, "pieces-add-up: of another shard");
        Ok(self.0.remove(&shard).map(|item| item.data))
    }
}

fn crc_holds(block: &[u8]) -> bool {
    match block.split_last_chunk::<4>() {
        Some((head, crc)) => crc32(head) == u32::from_be_bytes(*crc),
        None => false,
    }
}

/// Where items are said to be.
#[derive(Clone, Copy)]
enum Place {
    /// In the chunk at this offset in the file.
    InChunk { start: usize },
    /// All where the last piece of it is.
    At(ReplayPosition),
}

/// The items of one chunk, or one item that was in pieces.
struct Items<'a> {
    id: SegmentId,
    place: Place,
    data: &'a [u8],
    /// Up to where `data` was delivered.
    at: usize,
}

impl Items<'_> {
    fn position(&self, at: usize) -> ReplayPosition {
        match self.place {
            Place::At(position) => position,
            Place::InChunk { start } => {
                let offset = start + at / BLOCK_DATA * BLOCK + at % BLOCK_DATA;
                ReplayPosition { segment: self.id, offset: offset as u32 }
            }
        }
    }

    /// Delivers items up to the padding; stops at the first that is not whole.
    fn deliver(
        &mut self,
        unfinished: &mut Unfinished,
        count: &mut u64,
        each: &mut dyn FnMut(ReplayPosition, &[u8]),
    ) -> Result<(), Damaged> {
        while ENTRY_HEADER <= self.data.len() - self.at {
            let before = self.at;
            let mut cursor = Cursor::new(&self.data[self.at..]);
            match cursor.u32("size")? {
                0 => return Ok(()),
                MULTI => {
                    let end = self.at + self.group(&mut cursor)?;
                    let mut inner = self.at + MULTI_HEADER;
                    while inner < end {
                        inner = self.entry(inner, count, each)?;
                    }
                    debug_assert_eq!(inner, end, "whole-or-nothing: entries of another size");
                    self.at = end;
                }
                FRAGMENT if matches!(self.place, Place::InChunk { .. }) => {
                    let (size, whole) = self.fragment(unfinished)?;
                    if let Some(whole) = whole {
                        let place = Place::At(self.position(self.at));
                        let mut items = Items { id: self.id, place, data: &whole, at: 0 };
                        items.deliver(unfinished, count, each)?;
                    }
                    self.at += size;
                }
                _ => self.at = self.entry(self.at, count, each)?,
            }
            assert!(
                before < self.at && self.at <= self.data.len(),
                "goes-on: {before} {}",
                self.at
            );
        }
        Ok(())
    }

    /// Takes the piece at hand: its size, and the item if that was its last piece.
    fn fragment(&self, unfinished: &mut Unfinished) -> Result<(usize, Option<Vec<u8>>), Damaged> {
        let at = self.position(self.at);
        let rest = self.data.get(self.at..).unwrap_or_default();
        let (head, size) = FragmentHead::read(rest)
            .map_err(|damage| Damaged::new(damage.what, at.offset as u64))?;
        let data = rest.get(FRAGMENT_HEADER..size as usize);
        let data = data.ok_or(Damaged::new("piece past its chunk", at.offset as u64))?;
        Ok((size as usize, unfinished.add(at, head, data)?))
    }

    /// Checks a whole group behind its marker; its total size.
    fn group(&self, cursor: &mut Cursor<'_>) -> Result<usize, Damaged> {
        let place = self.position(self.at).offset as u64;
        let broken = Damaged::new("broken group of entries", place);
        let total = cursor.u32("total")?;
        if cursor.u32("crc")? != multi_crc(total) {
            return Err(broken);
        }
        let end = self.at.checked_add(total as usize).filter(|end| *end <= self.data.len());
        let end = end.ok_or(Damaged::new("group past its chunk", place))?;
        let mut inner = self.at + MULTI_HEADER;
        while inner < end {
            inner += self.size(inner)?;
        }
        if inner == end { Ok(total as usize) } else { Err(broken) }
    }

    /// The checked size of the entry at `at`, which is all there.
    fn size(&self, at: usize) -> Result<usize, Damaged> {
        let place = self.position(at).offset as u64;
        let mut cursor = Cursor::new(self.data.get(at..).unwrap_or_default());
        let size = cursor.u32("size")?;
        if cursor.u32("crc")? != crc32(&size.to_be_bytes()) {
            return Err(Damaged::new("bad checksum of an entry's size", place));
        }
        if size == FRAGMENT {
            return Err(Damaged::new("a piece inside of an item", place));
        }
        let size = size as usize;
        if size < ENTRY_HEADER || self.data.len() - at < size {
            return Err(Damaged::new("entry past its chunk", place));
        }
        Ok(size)
    }

    fn entry(
        &self,
        at: usize,
        count: &mut u64,
        each: &mut dyn FnMut(ReplayPosition, &[u8]),
    ) -> Result<usize, Damaged> {
        let size = self.size(at)?;
        *count += 1;
        each(self.position(at), &self.data[at + ENTRY_HEADER..at + size]);
        Ok(at + size)
    }
}

#[cfg(test)]
mod tests;
