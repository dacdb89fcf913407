//! The bytes of a segment.
//!
//! ```text
//! block  := data:4084 segment_id:be64 crc32:be32(the 4092 bytes before)
//! data of all blocks, joined:
//! file   := header chunk* [termination]
//! header := magic:be32 version:be32 id:be64 alignment:be32 crc32:be32(version, id low, id high,
//!           alignment)                                                          24 bytes
//! chunk  := next:be32 crc32:be32(id low, id high, offset of this header) item* 0*
//!           at a block's start (the first one after the file header); `next` is the offset of
//!           the chunk after it
//! item   := size:be32 crc32:be32(size) payload          size counts its own 8 bytes too
//!         | FFFFFFFF total:be32 crc32:be32(FFFFFFFF, total) entry*     total counts all of it
//!         | FFFFFFFE size:be32 segment:be64 at:be32 offset:be32 total:be32 crc32:be32(the 28 bytes
//!           before) data         a piece of an item of `total` bytes: those from `offset` on. The
//!           first piece lies in `segment` at `at`; `size` counts the 32 bytes of the header too
//! termination := a block whose chunk header is zero
//! ```
//!
//! Invariants
//!  - *trailers-left-free*: data never lies where the trailer of a block comes.
//!  - *sizes-are-no-marks*: no size of an entry is one of the marks of groups and pieces.
//!
//! A payload is one frozen mutation. Refers to columns by their ids for life, so it needs no
//! schema to be read later.

use super::position::{ReplayPosition, SegmentId};
use runtime::io::AlignedBuf;
use stdx::checksum::{crc32, crc32_append};
use stdx::{Cursor, Damaged, Put};

/// The version of the format, in file names and headers.
pub const VERSION: u32 = 1;
/// "NCLG".
pub(crate) const MAGIC: u32 = 0x4e43_4c47;
/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;
/// Data bytes of a block.
pub(crate) const BLOCK_DATA: usize = BLOCK - 12;
pub(crate) const FILE_HEADER: usize = 24;
pub(crate) const CHUNK_HEADER: usize = 8;
pub(crate) const ENTRY_HEADER: usize = 8;
pub(crate) const MULTI_HEADER: usize = 12;
/// The size field that starts a group of entries.
pub(crate) const MULTI: u32 = u32::MAX;
/// The size field that starts a piece of an item.
pub(crate) const FRAGMENT: u32 = u32::MAX - 1;
pub(crate) const FRAGMENT_HEADER: usize = 32;

const _: () = assert!(runtime::io::ALIGNMENT == BLOCK);
/// A trailer has an id and a checksum.
const _: () = assert!(BLOCK_DATA + size_of::<u64>() + size_of::<u32>() == BLOCK);
/// Headers of file and chunk lie in the first block.
const _: () = assert!(FILE_HEADER + CHUNK_HEADER < BLOCK_DATA);
/// Marks are told apart, and from what is padding.
const _: () = assert!(FRAGMENT != MULTI && FRAGMENT != 0 && MULTI != 0);
/// The largest segment: offsets are of 32 bits.
const SEGMENT_BYTES_MAX: usize = 1 << 31;

/// The file header.
pub(crate) fn file_header(id: SegmentId) -> [u8; FILE_HEADER] {
    let mut out = Vec::with_capacity(FILE_HEADER);
    out.put_u32(MAGIC);
    out.put_u32(VERSION);
    out.put_u64(id.0);
    out.put_u32(BLOCK as u32);
    out.put_u32(file_header_crc(VERSION, id, BLOCK as u32));
    out.try_into().expect("24 bytes were put")
}

pub(crate) fn file_header_crc(version: u32, id: SegmentId, alignment: u32) -> u32 {
    let crc = crc32(&version.to_be_bytes());
    let crc = crc32_append(crc, &(id.0 as u32).to_be_bytes());
    let crc = crc32_append(crc, &((id.0 >> 32) as u32).to_be_bytes());
    crc32_append(crc, &alignment.to_be_bytes())
}

/// The checksum of a chunk header that lies at `offset`.
pub(crate) fn chunk_crc(id: SegmentId, offset: u32) -> u32 {
    let crc = crc32(&(id.0 as u32).to_be_bytes());
    let crc = crc32_append(crc, &((id.0 >> 32) as u32).to_be_bytes());
    crc32_append(crc, &offset.to_be_bytes())
}

/// The checksum of a group's header.
pub(crate) fn multi_crc(total: u32) -> u32 {
    crc32_append(crc32(&MULTI.to_be_bytes()), &total.to_be_bytes())
}

/// The header of an entry.
pub(crate) fn entry_header(payload: &[u8]) -> [u8; ENTRY_HEADER] {
    debug_assert!(payload.len() < SEGMENT_BYTES_MAX, "sizes-are-no-marks: {}", payload.len());
    let size = ((payload.len() + ENTRY_HEADER) as u32).to_be_bytes();
    let mut header = [0; ENTRY_HEADER];
    header[..4].copy_from_slice(&size);
    header[4..].copy_from_slice(&crc32(&size).to_be_bytes());
    header
}

/// The header of a group of `total` bytes.
pub(crate) fn multi_header(total: u32) -> [u8; MULTI_HEADER] {
    debug_assert!(MULTI_HEADER + 2 * ENTRY_HEADER <= total as usize, "a group of {total} bytes");
    let mut header = [0; MULTI_HEADER];
    header[..4].copy_from_slice(&MULTI.to_be_bytes());
    header[4..8].copy_from_slice(&total.to_be_bytes());
    header[8..].copy_from_slice(&multi_crc(total).to_be_bytes());
    header
}

/// Which piece of which item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentHead {
    /// Where the item's first piece is.
    pub(crate) first: ReplayPosition,
    /// Bytes of the item before this piece, and in all.
    pub(crate) offset: u32,
    pub(crate) total: u32,
}

impl FragmentHead {
    /// Of a piece that takes `size` bytes with its header.
    pub(crate) fn to_bytes(self, size: u32) -> [u8; FRAGMENT_HEADER] {
        let mut out = Vec::with_capacity(FRAGMENT_HEADER);
        out.put_u32(FRAGMENT);
        out.put_u32(size);
        out.put_u64(self.first.segment.0);
        out.put_u32(self.first.offset);
        out.put_u32(self.offset);
        out.put_u32(self.total);
        out.put_u32(crc32(&out));
        out.try_into().expect("32 bytes were put")
    }

    /// Reads a header, which begins at `bytes`; and the size of the piece, which is not checked.
    pub(crate) fn read(bytes: &[u8]) -> Result<(FragmentHead, u32), Damaged> {
        let mut cursor = Cursor::new(bytes);
        cursor.u32("mark of a piece")?;
        let size = cursor.u32("size of a piece")?;
        let segment = SegmentId(cursor.u64("segment of a piece")?);
        let at = cursor.u32("place of a piece")?;
        let (offset, total) = (cursor.u32("offset of a piece")?, cursor.u32("total of pieces")?);
        let crc = cursor.u32("checksum of a piece")?;
        if bytes.get(..FRAGMENT_HEADER - 4).is_none_or(|head| crc32(head) != crc) {
            return Err(Damaged::new("bad checksum of the header of a piece", 0));
        }
        let first = ReplayPosition { segment, offset: at };
        Ok((FragmentHead { first, offset, total }, size))
    }
}

/// Data bytes among the first `physical` bytes of a file.
fn logical(physical: usize) -> usize {
    physical / BLOCK * BLOCK_DATA + (physical % BLOCK).min(BLOCK_DATA)
}

/// The chunk that is being filled. Positions are physical: they count the trailers.
pub(crate) struct ChunkBuffer {
    buf: AlignedBuf,
    /// Where the chunk starts in the file: a multiple of [`BLOCK`].
    start: u32,
    /// Bytes before the first item.
    head: usize,
}

impl ChunkBuffer {
    /// An empty chunk at `start`; at 0 it carries the file header.
    pub(crate) fn new(id: SegmentId, start: u32, mut buf: AlignedBuf) -> ChunkBuffer {
        assert!(
            (start as usize).is_multiple_of(BLOCK),
            "a chunk begins at a block's start: {start}"
        );
        buf.clear();
        let mut head = CHUNK_HEADER;
        if start == 0 {
            buf.extend_from_slice(&file_header(id));
            head += FILE_HEADER;
        }
        buf.extend_from_slice(&[0; CHUNK_HEADER]);
        ChunkBuffer { buf, start, head }
    }

    /// Whether it holds no item.
    pub(crate) fn is_empty(&self) -> bool {
        self.buf.len() == self.head
    }
    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.buf.len()
    }
    pub(crate) fn start(&self) -> u32 {
        self.start
    }
    /// Bytes of data so far.
    pub(crate) fn data_bytes(&self) -> usize {
        logical(self.buf.len())
    }
    /// The offset in the file of the next byte put.
    pub(crate) fn position(&self) -> u32 {
        self.start + self.buf.len() as u32
    }
    /// The offset in the file of the chunk's end, were `more` data bytes put.
    pub(crate) fn end_with(&self, more: usize) -> usize {
        let blocks = (logical(self.buf.len()) + more).div_ceil(BLOCK_DATA);
        let end = self.start as usize + blocks * BLOCK;
        debug_assert!(self.position() as usize + more <= end, "fits-segment: {more} over {end}");
        end
    }

    /// Appends data, leaving room for trailers.
    pub(crate) fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK_DATA - self.buf.len() % BLOCK;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buf.extend_from_slice(now);
            if now.len() == room {
                self.buf.extend_from_slice(&[0; BLOCK - BLOCK_DATA]);
            }
            bytes = later;
        }
        debug_assert!(self.buf.len() % BLOCK < BLOCK_DATA, "trailers-left-free");
    }

    /// Appends one entry.
    pub(crate) fn put_entry(&mut self, payload: &[u8]) {
        self.put(&entry_header(payload));
        self.put(payload);
    }

    /// Appends the header of a group of `total` bytes.
    pub(crate) fn put_multi(&mut self, total: u32) {
        self.put(&multi_header(total));
    }

    /// Pads to whole blocks, fills header and trailers. Returns what is to be written at
    /// [`ChunkBuffer::start`] (nothing for a chunk without items) and the padding in it.
    pub(crate) fn seal(mut self, id: SegmentId) -> (AlignedBuf, usize) {
        if self.is_empty() && self.start != 0 {
            self.buf.clear();
            return (self.buf, 0);
        }
        let used = self.buf.len();
        let end = used.next_multiple_of(BLOCK);
        assert!(self.start as usize + end <= SEGMENT_BYTES_MAX, "fits-segment: {end} bytes");
        self.buf.resize(end, 0);
        let at = self.start + (self.head - CHUNK_HEADER) as u32;
        let header = &mut self.buf[self.head - CHUNK_HEADER..self.head];
        header[..4].copy_from_slice(&(self.start + end as u32).to_be_bytes());
        header[4..].copy_from_slice(&chunk_crc(id, at).to_be_bytes());
        self.buf.chunks_exact_mut(BLOCK).for_each(|block| seal_block(block, id));
        (self.buf, end - used)
    }
}

/// The block that ends a segment. It is written when all before it is synced, so that it never
/// stands behind a torn chunk.
pub(crate) fn termination(id: SegmentId) -> AlignedBuf {
    let mut block = AlignedBuf::with_capacity(BLOCK);
    block.resize(BLOCK, 0);
    seal_block(&mut block, id);
    block
}

fn seal_block(block: &mut [u8], id: SegmentId) {
    debug_assert_eq!(block.len(), BLOCK, "a trailer for each block");
    debug_assert!(block[BLOCK_DATA..].iter().all(|byte| *byte == 0), "trailers-left-free");
    block[BLOCK_DATA..BLOCK - 4].copy_from_slice(&id.0.to_be_bytes());
    let crc = crc32(&block[..BLOCK - 4]);
    block[BLOCK - 4..].copy_from_slice(&crc.to_be_bytes());
}

/// Whether a chunk is the last one of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminate {
    Yes,
    No,
}
