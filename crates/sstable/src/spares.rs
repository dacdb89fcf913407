//! Memory that the reads of a shard hand on from one to the next, so that one that needs some for
//! its keys, its row and its data allocates none.
//!
//! Invariants
//!  - *bounded*: at most [`BUFFERS_MAX`] buffers of [`BUFFER_BYTES_MAX`] bytes are kept, and
//!    [`BLOCKS_MAX`] of [`BLOCK_BYTES_MAX`] for requests and as many for what is decompressed; what
//!    is larger is freed.

use runtime::io::AlignedBuf;
use std::cell::RefCell;
use std::fmt;

/// Buffers that are kept: what the reads need that are under way at once.
const BUFFERS_MAX: usize = 128;
/// The largest buffer that is kept.
const BUFFER_BYTES_MAX: usize = 4 << 10;
/// What a new buffer has room for: a key or a short row.
const BUFFER_BYTES: usize = 128;
/// Memory for requests of the disk, and for what they bring decompressed, that is kept: what the
/// reads need that are under way at once. Each takes both before it waits.
const BLOCKS_MAX: usize = 128;
/// The largest piece of these that is kept.
const BLOCK_BYTES_MAX: usize = 8 << 10;

/// See the module.
#[derive(Default)]
pub(crate) struct Spares {
    buffers: RefCell<Vec<Vec<u8>>>,
    blocks: RefCell<Vec<AlignedBuf>>,
    chunks: RefCell<Vec<Vec<u8>>>,
}

impl Spares {
    /// An empty buffer.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        let spare = self.buffers.borrow_mut().pop();
        debug_assert!(spare.as_ref().is_none_or(Vec::is_empty), "a buffer with another's bytes");
        spare.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// A buffer is not needed any more.
    pub(crate) fn keep_buffer(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.buffers.borrow_mut();
        let fits = (BUFFER_BYTES..=BUFFER_BYTES_MAX).contains(&buffer.capacity());
        if fits && buffers.len() < BUFFERS_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
        debug_assert!(buffers.len() <= BUFFERS_MAX, "bounded: {} buffers", buffers.len());
    }

    /// Memory for a request of the disk, of any size.
    pub(crate) fn block(&self) -> AlignedBuf {
        self.blocks.borrow_mut().pop().unwrap_or_default()
    }

    /// Memory for requests is not needed any more.
    pub(crate) fn keep_block(&self, mut block: AlignedBuf) {
        let mut blocks = self.blocks.borrow_mut();
        let fits = (1..=BLOCK_BYTES_MAX).contains(&block.capacity());
        if fits && blocks.len() < BLOCKS_MAX {
            block.clear();
            blocks.push(block);
        }
        debug_assert!(blocks.len() <= BLOCKS_MAX, "bounded: {} blocks", blocks.len());
    }

    /// Memory for what is decompressed. What another read left there is to be written over: so
    /// memory of the right length need not be cleared.
    pub(crate) fn chunk(&self) -> Vec<u8> {
        self.chunks.borrow_mut().pop().unwrap_or_default()
    }

    /// Memory for what is decompressed is not needed any more.
    pub(crate) fn keep_chunk(&self, chunk: Vec<u8>) {
        let mut chunks = self.chunks.borrow_mut();
        let fits = (1..=BLOCK_BYTES_MAX).contains(&chunk.capacity());
        if fits && chunks.len() < BLOCKS_MAX {
            chunks.push(chunk);
        }
        debug_assert!(chunks.len() <= BLOCKS_MAX, "bounded: {} chunks", chunks.len());
    }
}

impl fmt::Debug for Spares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (buffers, blocks) = (self.buffers.borrow().len(), self.blocks.borrow().len());
        let chunks = self.chunks.borrow().len();
        write!(f, "Spares({buffers} buffers, {blocks} blocks, {chunks} chunks)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_on_is_bounded() {
        let spares = Spares::default();
        let mut buffer = spares.buffer();
        buffer.extend_from_slice(&[1; 1000]);
        let (address, capacity) = (buffer.as_ptr(), buffer.capacity());
        spares.keep_buffer(buffer);
        let again = spares.buffer();
        assert_eq!((again.as_ptr(), again.capacity(), again.len()), (address, capacity, 0));
        (0..2 * BUFFERS_MAX).for_each(|_| spares.keep_buffer(Vec::with_capacity(BUFFER_BYTES)));
        spares.keep_buffer(Vec::with_capacity(BUFFER_BYTES_MAX + 1));
        spares.keep_buffer(Vec::new());
        let mut block = spares.block();
        block.extend_from_slice(&[1; 5000]);
        let capacity = block.capacity();
        spares.keep_block(block);
        let again = spares.block();
        assert_eq!((again.capacity(), again.len()), (capacity, 0));
        (0..2 * BLOCKS_MAX).for_each(|_| spares.keep_block(AlignedBuf::with_capacity(1)));
        spares.keep_block(AlignedBuf::with_capacity(BLOCK_BYTES_MAX + 1));
        spares.keep_block(AlignedBuf::new());
        (0..2 * BLOCKS_MAX).for_each(|_| spares.keep_chunk(vec![1; 100]));
        spares.keep_chunk(Vec::with_capacity(BLOCK_BYTES_MAX + 1));
        assert_eq!(spares.chunk(), [1; 100], "as it was left");
        assert_eq!(spares.chunks.borrow().len(), BLOCKS_MAX - 1);
        assert!(spares.chunks.borrow().iter().all(|one| one.capacity() <= BLOCK_BYTES_MAX));
        assert_eq!(spares.buffers.borrow().len(), BUFFERS_MAX);
        assert!(spares.buffers.borrow().iter().all(|one| one.capacity() <= BUFFER_BYTES_MAX));
        assert_eq!(spares.blocks.borrow().len(), BLOCKS_MAX);
        assert!(spares.blocks.borrow().iter().all(|one| one.capacity() <= BLOCK_BYTES_MAX));
    }
}
