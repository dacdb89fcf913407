//! Rows.db: for each partition of two blocks or more, a trie of separators between its blocks, and
//! behind it a header that Partitions.db points to.
//!
//! A separator is greater than every position of the blocks before it, and not greater than any of
//! the blocks behind it. The first one is empty; the last one leads to the end of the rows, where
//! the end-of-partition byte stands.
//!
//! Invariants
//!  - *separated*: what lies at or after a position starts in the block of the greatest separator
//!    that is not greater, and what lies before it ends at the least one that is not less.
//!  - *blocks-ascend*: offsets and separators of blocks ascend, up to the end of the rows.

use super::build::Builder;
use super::node::Payload;
use super::walk::{Passed, Place, Walk};
use crate::index::block::{Block, Skip};
use crate::index::pages::{Pages, Stop};
use crate::mx::layout::DeletionForm;
use mutation::Tombstone;
use stdx::{Cursor, Damaged, Put, vint};

/// An open range tombstone follows the offset.
const HAS_OPEN: u8 = 8;
/// The longest separator that is written: blocks that share more are not told apart, so that what
/// the builder holds is bounded whatever the keys are.
const SEPARATOR_BYTES_MAX: usize = 1 << 18;
/// Greater than every position.
const BEHIND_ALL: u8 = 0x61;
/// What files of ScyllaDB end with, so that none is empty; no reader needs it.
const TRAILER: [u8; 4] = [0x13, 0x37, 0x13, 0x37];
/// The most bytes of a header beside its key.
const HEADER_BYTES_MAX: usize = 2 + 3 * vint::SIZE_MAX + 13;

/// Where the index of a partition's rows is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsAt {
    /// The root of its trie, in Rows.db.
    pub root: u64,
    /// How many blocks there are.
    pub blocks: u64,
    /// Of the partition.
    pub tombstone: Tombstone,
}

/// What stands behind the trie of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsHeader<'a> {
    /// The partition key.
    pub key: &'a [u8],
    /// Where the partition starts in the uncompressed data.
    pub position: u64,
    /// Its index.
    pub rows: RowsAt,
}

impl<'a> RowsHeader<'a> {
    /// The most bytes that a header takes.
    pub const BYTES_MAX: usize = HEADER_BYTES_MAX + u16::MAX as usize;

    /// Reads the header that stands at position `at` of the file.
    pub fn parse(cursor: &mut Cursor<'a>, at: u64) -> Result<RowsHeader<'a>, Damaged> {
        let cut = "header of a row index cut short";
        let key = cursor.u16_bytes(cut)?;
        // The distance to the root counts from here.
        let base = at.saturating_add(cursor.offset() as u64);
        let position = cursor.vint(cut)?;
        let distance = cursor.svint(cut)?;
        let blocks = cursor.vint(cut)?;
        let root = base.checked_add_signed(distance).filter(|root| *root < at);
        let root = root.ok_or_else(|| cursor.damaged("root of a row index behind its header"))?;
        let tombstone = DeletionForm::Flagged.read(cursor)?;
        Ok(RowsHeader { key, position, rows: RowsAt { root, blocks, tombstone } })
    }

    /// Appends the header, which will stand at position `at`.
    pub fn put(&self, at: u64, out: &mut Vec<u8>) {
        let start = out.len();
        debug_assert!(self.rows.root < at, "backwards: a root at {} of {at}", self.rows.root);
        out.put_u16_bytes(self.key);
        let base = at + (out.len() - start) as u64;
        out.put_vint(self.position);
        out.put_svint(self.rows.root.wrapping_sub(base) as i64);
        out.put_vint(self.rows.blocks);
        DeletionForm::Flagged.put(self.rows.tombstone, out);
        let beside = out.len() - start - self.key.len();
        debug_assert!(beside <= HEADER_BYTES_MAX, "a header of {beside} bytes beside its key");
    }
}

/// Where a block starts, or the rows end: offset from the start of the partition, and the range
/// tombstone that is open there.
fn payload_of(offset: u64, open: Tombstone) -> Payload {
    // As a signed number, so that it reads the same with and without a sign.
    let width = (65 - offset.leading_zeros() as usize).div_ceil(8);
    assert!(width < 8, "a partition of an impossible length");
    let mut bytes = Vec::with_capacity(Payload::BYTES_MAX);
    bytes.put(&offset.to_be_bytes()[8 - width..]);
    if open.is_none() {
        return Payload::new(width as u8, &bytes);
    }
    DeletionForm::Flagged.put(open, &mut bytes);
    Payload::new(width as u8 | HAS_OPEN, &bytes)
}

fn read_payload(passed: &Passed) -> Result<Skip, Damaged> {
    let mut cursor = Cursor::new(passed.bytes());
    let width = (passed.bits & !HAS_OPEN) as usize;
    if width == 0 {
        return Err(cursor.damaged("block without an offset in a row index"));
    }
    let bytes = cursor.take(width, "block offset cut short")?;
    let offset = bytes.iter().fold(0, |offset, byte| offset << 8 | *byte as u64);
    let open = match passed.bits & HAS_OPEN {
        0 => Tombstone::NONE,
        _ => DeletionForm::Flagged.read(&mut cursor)?,
    };
    Ok(Skip { offset, open })
}

/// Builds the row indexes of one partition after the other.
#[derive(Debug)]
pub struct RowsBuilder {
    trie: Builder,
    /// Blocks of the present partition, and about how many bytes they take in the trie.
    blocks: u64,
    bytes: usize,
    /// Where the latest block starts.
    latest: u64,
    /// The first block, until there is a second.
    first: Option<Skip>,
    /// Where the latest block ends, and the separator before it.
    last: Vec<u8>,
    separator: Vec<u8>,
    header: Vec<u8>,
}

impl Default for RowsBuilder {
    fn default() -> RowsBuilder {
        RowsBuilder {
            trie: Builder::new(0),
            blocks: 0,
            bytes: 0,
            latest: 0,
            first: None,
            last: Vec::new(),
            separator: Vec::new(),
            header: Vec::new(),
        }
    }
}

impl RowsBuilder {
    /// Blocks of the present partition so far.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// About how many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that were written since they were taken.
    pub fn written(&self) -> usize {
        self.trie.written()
    }

    /// What was written since this was called last.
    pub fn take(&mut self, put: impl FnOnce(&[u8])) {
        self.trie.take(put);
    }

    /// Adds a block: the encoded positions of its first and last element, and where it starts. A
    /// block that no separator parts from the one before (their encodings do not ascend) becomes
    /// part of that.
    pub fn push(&mut self, first: &[u8], last: &[u8], start: Skip) {
        let behind = self.blocks == 0 || self.latest < start.offset;
        debug_assert!(behind, "blocks-ascend: {start:?}");
        self.latest = start.offset;
        if self.blocks == 0 {
            self.first = Some(start);
            self.blocks = 1;
        } else if separate(&self.last, first, &mut self.separator) {
            if let Some(first) = self.first.take() {
                self.trie.add(&[], payload_of(first.offset, first.open));
            }
            let payload = payload_of(start.offset, start.open);
            self.trie.add(&self.separator, payload);
            self.bytes += 2 + self.separator.len() + payload.bytes().len();
            self.blocks += 1;
        }
        self.last.clear();
        self.last.extend_from_slice(last);
    }

    /// Ends a partition whose rows end at offset `end`. Answers where its header stands; `None`
    /// if it has fewer than two blocks.
    pub fn finish(
        &mut self,
        end: u64,
        key: &[u8],
        position: u64,
        tombstone: Tombstone,
    ) -> Option<u64> {
        let blocks = std::mem::take(&mut self.blocks);
        let latest = std::mem::take(&mut self.latest);
        debug_assert!(blocks == 0 || latest < end, "blocks-ascend: the rows end at {end}");
        self.bytes = 0;
        self.first = None;
        if blocks < 2 {
            return None;
        }
        nudge(&self.last, &mut self.separator);
        self.trie.add(&self.separator, payload_of(end, Tombstone::NONE));
        let root = self.trie.finish(HEADER_BYTES_MAX + key.len());
        let at = self.trie.position();
        let rows = RowsAt { root, blocks, tombstone };
        self.header.clear();
        RowsHeader { key, position, rows }.put(at, &mut self.header);
        self.trie.put_raw(&self.header);
        Some(at)
    }

    /// Ends the file.
    pub fn end_file(&mut self) {
        self.trie.put_raw(&TRAILER);
    }
}

/// The shortest separator of two encoded positions, as near to the first as that allows; whether
/// there is one.
fn separate(before: &[u8], after: &[u8], out: &mut Vec<u8>) -> bool {
    let shared = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    match (before.get(shared), after.get(shared)) {
        (Some(low), Some(high)) if low < high && shared < SEPARATOR_BYTES_MAX => {
            out.clear();
            out.extend_from_slice(&before[..shared]);
            out.push(low + 1);
            debug_assert!(before < &out[..] && &out[..] <= after, "separated: {out:x?}");
            true
        }
        _ => false,
    }
}

/// From the latest separator makes one that is greater than the last position, and about as long.
fn nudge(last: &[u8], separator: &mut Vec<u8>) {
    let shared = last.iter().zip(&**separator).take_while(|(a, b)| a == b).count();
    let from = shared.min(last.len() - 1);
    let at = (from..last.len()).find(|at| last[*at] < 0xff);
    let at = at.expect("the terminator can be incremented");
    separator.clear();
    if SEPARATOR_BYTES_MAX <= at {
        return separator.push(BEHIND_ALL);
    }
    separator.extend_from_slice(&last[..at]);
    separator.push(last[at] + 1);
    debug_assert!(last < &separator[..], "separated: {separator:x?} behind all");
}

/// Finds blocks of one partition. Positions are encoded.
#[derive(Debug)]
pub(crate) struct RowsSearch<P: Pages> {
    /// The pages it holds.
    pub(crate) walk: Walk<P>,
    root: u64,
    /// Whether the last separator leads to the end of the rows; it may lie behind it.
    exact_end: bool,
    /// Before the block that was answered last, backwards, and where that starts.
    back: Option<(Place, u64)>,
    place: Place,
    scratch: Place,
    /// The offset of the last separator, once it was seen.
    end: Option<u64>,
}

impl<P: Pages> RowsSearch<P> {
    /// A search in the trie of a partition.
    pub(crate) fn new(pages: P, rows: RowsAt, exact_end: bool) -> RowsSearch<P> {
        RowsSearch {
            walk: Walk::new(pages),
            root: rows.root,
            exact_end,
            back: None,
            place: Place::new(),
            scratch: Place::new(),
            end: None,
        }
    }

    /// The offset where the rows end, if it was seen.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end.filter(|_| self.exact_end)
    }

    /// The offset of the first block.
    pub(crate) fn start(&mut self) -> Result<u64, Stop> {
        let root = self.walk.payload(self.root)?;
        self.read(&root.ok_or(self.no_first())?).map(|skip| skip.offset)
    }

    /// Where everything at or after a position starts. When it was found, the block's end is at
    /// hand too.
    pub(crate) fn advance(&mut self, position: &[u8]) -> Result<Skip, Stop> {
        self.walk.seek(self.root, position, true, &mut self.place)?;
        let next = self.walk.next(&self.place, &mut self.scratch)?;
        let floor = self.walk.previous(&self.place, &mut self.scratch)?;
        let floor = self.read(&floor.ok_or(self.no_first())?)?;
        if next.is_none() {
            self.end = Some(floor.offset);
        }
        Ok(floor)
    }

    /// Where what lies before a position ends, at the latest; `None` where that is the end of the
    /// partition.
    pub(crate) fn find_end(&mut self, position: &[u8]) -> Result<Option<u64>, Stop> {
        self.walk.seek(self.root, position, false, &mut self.place)?;
        let Some(next) = self.walk.next(&self.place, &mut self.scratch)? else {
            let last = self.walk.previous(&self.place, &mut self.scratch)?;
            let last = last.ok_or(self.no_first())?;
            self.end = Some(self.read(&last)?.offset);
            return Ok(self.end());
        };
        let offset = self.read(&next)?.offset;
        if self.exact_end {
            return Ok(Some(offset));
        }
        // The last one of all does not tell where the rows end. It is known without another page:
        // nothing stands behind it in the nodes above.
        std::mem::swap(&mut self.place, &mut self.scratch);
        match self.walk.next(&self.place, &mut self.scratch) {
            Ok(None) => Ok(None),
            Ok(Some(_)) | Err(Stop::Need(_)) => Ok(Some(offset)),
            Err(damaged) => Err(damaged),
        }
    }

    /// As [`RowsSearch::find_end`], if the pages at hand tell.
    pub(crate) fn probe_end(&mut self, position: &[u8]) -> Option<u64> {
        self.find_end(position).ok().flatten()
    }

    /// The last block that starts before a position and may have something at or after `lower`;
    /// an empty one if the rows end before `lower`.
    pub(crate) fn last_before(&mut self, position: &[u8], lower: &[u8]) -> Result<Block, Stop> {
        let floor = self.floor(lower)?;
        self.walk.seek(self.root, position, false, &mut self.place)?;
        let end = match self.walk.next(&self.place, &mut self.scratch)? {
            Some(next) => self.read(&next)?.offset,
            None => {
                // Behind the last separator, which starts no block.
                let last = self.walk.previous(&self.place, &mut self.scratch)?;
                let end = self.read(&last.ok_or(self.no_first())?)?.offset;
                std::mem::swap(&mut self.place, &mut self.scratch);
                self.end = Some(end);
                if end <= floor {
                    self.back = None;
                    return Ok(Block { start: end, end, open: Tombstone::NONE });
                }
                end
            }
        };
        self.block_before(end)
    }

    /// The block before the one that was answered last, if it may have something at or after
    /// `lower`.
    pub(crate) fn previous(&mut self, lower: &[u8]) -> Result<Option<Block>, Stop> {
        let floor = self.floor(lower)?;
        let Some((place, end)) = &self.back else { return Ok(None) };
        let end = *end;
        if end <= floor {
            return Ok(None);
        }
        self.place.set(place);
        self.block_before(end).map(Some)
    }

    /// The offset before which everything is before a position.
    fn floor(&mut self, position: &[u8]) -> Result<u64, Stop> {
        self.walk.seek(self.root, position, true, &mut self.place)?;
        let floor = self.walk.previous(&self.place, &mut self.scratch)?;
        self.read(&floor.ok_or(self.no_first())?).map(|skip| skip.offset)
    }

    /// The block whose separator is before `self.place`, and which ends at `end`.
    fn block_before(&mut self, end: u64) -> Result<Block, Stop> {
        let found = self.walk.previous(&self.place, &mut self.scratch)?;
        let Skip { offset, open } = self.read(&found.ok_or(self.no_first())?)?;
        if end <= offset {
            let what = "blocks of a row index out of order";
            return Err(Stop::Damaged(Damaged::new(what, self.root)));
        }
        debug_assert!(offset < end, "blocks-ascend: {offset} to {end}");
        self.back = Some((self.scratch.clone(), offset));
        Ok(Block { start: offset, end, open })
    }

    fn no_first(&self) -> Stop {
        Stop::Damaged(Damaged::new("row index without its first block", self.root))
    }

    fn read(&self, passed: &Passed) -> Result<Skip, Stop> {
        // Where in the file it stands is not known any more: the root names the trie.
        read_payload(passed).map_err(|error| Stop::Damaged(Damaged::new(error.what, self.root)))
    }
}

#[cfg(test)]
mod tests;
