//! The promoted index: where blocks of rows start within a large partition (storage-format
//! reference, section 5).
//!
//! Invariants
//!  - *relative*: offsets of blocks count from the start of the partition; widths are written as
//!    the difference to 64 KiB.
//!  - *contiguous-blocks*: each block starts where the one before ends, the first behind the
//!    header.
//!  - *in-pieces*: offsets are of blocks in all pieces, one behind the other.

use crate::mx::clustering::{BoundKind, put_position, read_position};
use crate::mx::layout::{DeletionForm, put_deletion};
use model::ClusteringOrder;
use mutation::Tombstone;
use std::cmp::Ordering;
use stdx::{Cursor, Damaged, Put};

/// What widths are written relative to, whatever the block size.
const WIDTH_BASE: i64 = 65536;

/// Blocks are gathered in pieces of about so many bytes: no step moves all of a large index.
const PIECE_BYTES: usize = 64 << 10;

/// Builds the promoted index of one partition at a time.
#[derive(Debug, Default)]
pub struct PromotedBuilder {
    /// Blocks, one after the other; a piece that has [`PIECE_BYTES`] gets no more.
    pieces: Vec<Vec<u8>>,
    /// Bytes of all pieces.
    bytes: usize,
    offsets: Vec<u32>,
    /// Where the first block starts and the latest ends, from the start of the partition.
    rows: (u64, u64),
}

/// A position as the row format has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockBound {
    /// Row or kind of bound.
    pub kind: BoundKind,
    /// The clustering prefix.
    pub prefix: Vec<u8>,
}

impl PromotedBuilder {
    /// Adds a block.
    pub fn push(
        &mut self,
        first: &BlockBound,
        last: &BlockBound,
        (offset, width): (u64, u64),
        open: Tombstone,
        fixed: &[Option<usize>],
    ) {
        let starts = self.offsets.is_empty() || self.rows.1 == offset;
        assert!(starts, "contiguous-blocks: {offset} after {}", self.rows.1);
        assert!(self.bytes <= u32::MAX as usize, "in-pieces: {} bytes of blocks", self.bytes);
        self.rows = (if self.offsets.is_empty() { offset } else { self.rows.0 }, offset + width);
        self.offsets.push(self.bytes as u32);
        let mut out = self.pieces.pop_if(|piece| piece.len() < PIECE_BYTES).unwrap_or_default();
        let before = out.len();
        put_position(first.kind, &first.prefix, fixed, &mut out);
        put_position(last.kind, &last.prefix, fixed, &mut out);
        out.put_vint(offset);
        out.put_svint(width as i64 - WIDTH_BASE);
        out.put_u8(!open.is_none() as u8);
        if !open.is_none() {
            put_deletion(open, &mut out);
        }
        self.bytes += out.len() - before;
        self.pieces.push(out);
    }

    /// How many blocks there are.
    pub fn block_count(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of the blocks.
    pub fn block_bytes(&self) -> usize {
        self.bytes
    }

    /// The promoted index, unless there are fewer than two blocks, in pieces of a moderate size;
    /// forgets the blocks.
    pub fn finish(&mut self, header_bytes: u64, tombstone: Tombstone) -> Vec<Vec<u8>> {
        let (blocks, offsets) =
            (std::mem::take(&mut self.pieces), std::mem::take(&mut self.offsets));
        let pieces: usize = blocks.iter().map(Vec::len).sum();
        assert!(pieces == self.bytes, "in-pieces: {pieces} of {} bytes", self.bytes);
        self.bytes = 0;
        if offsets.len() < 2 {
            return Vec::new();
        }
        assert!(self.rows.0 == header_bytes, "contiguous-blocks: from {} on", self.rows.0);
        debug_assert!(offsets.is_sorted_by(|a, b| a < b), "in-pieces: offsets");
        let mut head = Vec::new();
        head.put_vint(header_bytes);
        put_deletion(tombstone, &mut head);
        head.put_vint(offsets.len() as u64);
        let map = offsets.chunks(PIECE_BYTES / size_of::<u32>()).map(|some| {
            let mut piece = Vec::with_capacity(size_of_val(some));
            some.iter().for_each(|offset| piece.put_u32(*offset));
            piece
        });
        std::iter::once(head).chain(blocks).chain(map).collect()
    }
}

/// What of a block follows its first and last positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTail {
    /// Weight of the last position.
    pub last_weight: i8,
    /// From the start of the partition, in bytes.
    pub offset: u64,
    /// Bytes. `offset + width` does not overflow.
    pub width: u64,
    /// The range tombstone that is open behind the last element.
    pub open: Tombstone,
}

/// Reads what follows the positions of a block.
pub fn read_tail(
    cursor: &mut Cursor<'_>,
    last_weight: i8,
    form: DeletionForm,
) -> Result<BlockTail, Damaged> {
    let offset = cursor.vint("block offset cut short")?;
    let width = cursor.svint("block width cut short")?.checked_add(WIDTH_BASE);
    let width = width.and_then(|width| u64::try_from(width).ok());
    let width = width.filter(|width| offset.checked_add(*width).is_some());
    let width = width.ok_or_else(|| cursor.damaged("impossible width of a block"))?;
    let open = match cursor.u8("open marker cut short")? {
        0 => Tombstone::NONE,
        _ => form.read(cursor)?,
    };
    debug_assert!(offset.checked_add(width).is_some(), "relative: {width} bytes at {offset}");
    Ok(BlockTail { last_weight, offset, width, open })
}

/// The promoted index of a partition, in memory as on disk; blocks are parsed as needed.
#[derive(Clone, Debug)]
pub struct PromotedIndex {
    bytes: Vec<u8>,
    form: DeletionForm,
    /// Bytes of the partition's key, deletion time and static row.
    pub header_bytes: u64,
    /// Of the partition.
    pub tombstone: Tombstone,
    /// Where the blocks start in `bytes`.
    blocks_at: usize,
    /// Where the map of their offsets starts.
    map_at: usize,
    count: usize,
}

/// A parsed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Prefix and weight of the first element.
    pub first: (Vec<u8>, i8),
    /// Prefix and weight of the last element.
    pub last: (Vec<u8>, i8),
    /// From the start of the partition, in bytes.
    pub offset: u64,
    /// Bytes.
    pub width: u64,
    /// The range tombstone that is open behind the last element.
    pub open: Tombstone,
}

impl PromotedIndex {
    /// Takes the bytes of a promoted index.
    pub fn parse(bytes: Vec<u8>, form: DeletionForm) -> Result<PromotedIndex, Damaged> {
        let mut cursor = Cursor::new(&bytes);
        let header_bytes = cursor.vint("promoted index cut short")?;
        let tombstone = form.read(&mut cursor)?;
        let count = cursor.vint("promoted index cut short")?;
        let blocks_at = cursor.offset();
        if cursor.remaining() as u64 / 4 < count || count == 0 {
            return Err(cursor.damaged("promoted index with no or too many blocks"));
        }
        let count = count as usize;
        let map_at = bytes.len() - 4 * count;
        debug_assert!(blocks_at <= map_at, "in-pieces: blocks at {blocks_at}, map at {map_at}");
        Ok(PromotedIndex { bytes, form, header_bytes, tombstone, blocks_at, map_at, count })
    }

    /// How many blocks there are: at least one.
    pub fn count(&self) -> usize {
        self.count
    }

    fn block_cursor(&self, index: usize) -> Result<Cursor<'_>, Damaged> {
        assert!(index < self.count, "a block past the last");
        let map = &self.bytes[self.map_at + 4 * index..];
        let offset = Cursor::new(map).u32("offset of a block cut short")? as usize;
        let block = self.bytes[self.blocks_at..self.map_at].get(offset..);
        let at = (self.map_at + 4 * index) as u64;
        Ok(Cursor::new(block.ok_or(Damaged::new("offset of a block past the blocks", at))?))
    }

    /// Parses a block.
    pub fn block(&self, index: usize, fixed: &[Option<usize>]) -> Result<Block, Damaged> {
        let mut cursor = self.block_cursor(index)?;
        let cursor = &mut cursor;
        let mut first = (Vec::new(), 0);
        let mut last = (Vec::new(), 0);
        first.1 = read_position(cursor, fixed, &mut first.0)?;
        last.1 = read_position(cursor, fixed, &mut last.0)?;
        let BlockTail { last_weight, offset, width, open } = read_tail(cursor, last.1, self.form)?;
        last.1 = last_weight;
        Ok(Block { first, last, offset, width, open })
    }

    /// How many blocks start before (or, with `or_at`, at) a position.
    pub fn blocks_before(
        &self,
        order: &ClusteringOrder,
        fixed: &[Option<usize>],
        position: (&[u8], i8),
        or_at: bool,
    ) -> Result<usize, Damaged> {
        let (mut low, mut high) = (0, self.count);
        let mut prefix = Vec::new();
        while low < high {
            let middle = low + (high - low) / 2;
            prefix.clear();
            let weight = read_position(&mut self.block_cursor(middle)?, fixed, &mut prefix)?;
            let before = match order.compare((&prefix, weight), position) {
                Ordering::Less => true,
                Ordering::Equal => or_at,
                Ordering::Greater => false,
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
            debug_assert!(low <= high && high <= self.count, "progress: {low} to {high}");
        }
        Ok(low)
    }
}
