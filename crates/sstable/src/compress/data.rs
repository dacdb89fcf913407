//! Reading Data.db and Index.db: ranges of the uncompressed bytes, each chunk *verified*.
//!
//! Invariants
//!  - *within-file*: nobody asks for what lies behind the uncompressed data.
//!  - *once*: of one read no chunk is read twice, and each byte is filled in once.

use crate::compress::guard::Guard;
use crate::compress::{CHUNK_CRC_BYTES, Chunks};
use crate::spares::Spares;
use reader::ReadError;
use runtime::io::{AlignedBuf, DmaBuf, File, IoClass};
use std::ops::{Deref, Range};
use std::path::Path;
use std::rc::Rc;
use stdx::Damaged;
use stdx::checksum::crc32;

/// Bytes that a check of a whole file reads at once.
const SCAN_BYTES: u64 = 128 << 10;
/// Chunks that one read of compressed data takes at most.
const CHUNK_READ_BYTES_MAX: u64 = 1 << 20;

/// What a read brought, in the memory that it came in.
#[derive(Debug)]
pub enum Loaded {
    /// As it came from the disk.
    Direct(DmaBuf),
    /// Decompressed, or put together: what is behind so many bytes.
    Own(Vec<u8>, usize),
}

impl Loaded {
    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Loaded::Direct(buf) => {
                (buf.room() + buf.len()).next_multiple_of(runtime::io::ALIGNMENT)
            }
            Loaded::Own(bytes, _) => bytes.capacity(),
        }
    }

    /// Bytes of memory before these that [`Loaded::prepend`] can use.
    pub fn room(&self) -> usize {
        match self {
            Loaded::Direct(buf) => buf.room(),
            Loaded::Own(_, start) => *start,
        }
    }

    /// Puts bytes before these. Panics where they are more than there is [room](Loaded::room) for.
    pub fn prepend(&mut self, before: &[u8]) {
        debug_assert!(before.len() <= self.room(), "room for {} of {}", self.room(), before.len());
        match self {
            Loaded::Direct(buf) => buf.prepend(before),
            Loaded::Own(bytes, start) => {
                let end = *start;
                *start = end.checked_sub(before.len()).expect("no room before what was loaded");
                bytes[*start..end].copy_from_slice(before);
            }
        }
    }
}

impl Deref for Loaded {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Loaded::Direct(buf) => buf,
            Loaded::Own(bytes, start) => &bytes[*start..],
        }
    }
}

/// Memory for a read, used again.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// For requests of the disk.
    pub(crate) block: AlignedBuf,
    /// For what is decompressed: written over.
    pub(crate) chunk: Vec<u8>,
    /// Bytes of [room](Loaded::room) that are wanted: a multiple of [`runtime::io::ALIGNMENT`].
    pub(crate) room: usize,
}

/// A file that ranges are read of, compressed or not.
#[derive(Debug)]
pub struct ReadFile {
    file: File,
    file_bytes: u64,
    chunks: Option<Rc<Chunks>>,
    guard: Option<Guard>,
}

impl ReadFile {
    /// A file of `file_bytes`, whose content is compressed if there are chunks.
    pub fn new(file: File, file_bytes: u64, chunks: Option<Chunks>) -> ReadFile {
        let within = |chunks: &Chunks| chunks.offsets.last().is_none_or(|at| *at <= file_bytes);
        debug_assert!(chunks.as_ref().is_none_or(within), "within-file: chunks past the end");
        ReadFile { file, file_bytes, chunks: chunks.map(Rc::new), guard: None }
    }

    /// The same file, whose reads are compared with its checksums as well.
    pub fn guarded(&self, guard: Guard) -> ReadFile {
        let (file, chunks) = (self.file.clone(), self.chunks.clone());
        ReadFile { file, file_bytes: self.file_bytes, chunks, guard: Some(guard) }
    }
    /// Whether it is one of these.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Uncompressed bytes.
    pub fn len(&self) -> u64 {
        self.chunks.as_ref().map_or(self.file_bytes, |chunks| chunks.data_bytes)
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes on the disk.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
    /// How it is compressed.
    pub fn chunks(&self) -> Option<&Chunks> {
        self.chunks.as_deref()
    }

    /// Bytes of what is checked or decompressed as one.
    pub(crate) fn unit_bytes(&self) -> Option<u64> {
        match &self.chunks {
            Some(chunks) => Some(chunks.chunk_bytes as u64),
            None => self.guard.as_ref().and_then(Guard::chunk_bytes),
        }
    }

    /// Where on the disk an uncompressed position is, about.
    pub fn disk_position(&self, position: u64) -> u64 {
        let Some(chunks) = &self.chunks else { return position };
        let index = (position / chunks.chunk_bytes as u64) as usize;
        chunks.offsets.get(index).copied().unwrap_or(self.file_bytes)
    }

    /// The least end of a read at or after `end` that decompresses no chunk in vain.
    pub fn round_up(&self, end: u64) -> u64 {
        let Some(unit) = self.unit_bytes() else { return end };
        debug_assert!(0 < unit, "units of no byte");
        end.div_ceil(unit).saturating_mul(unit)
    }

    /// The range that a read of `range` decompresses or checks, within the file.
    pub fn rounded(&self, range: Range<u64>) -> Range<u64> {
        let Some(unit) = self.unit_bytes() else { return range };
        debug_assert!(range.end <= self.len(), "within-file: {range:?} of {}", self.len());
        let start = range.start - range.start % unit;
        start..self.round_up(range.end).min(self.len())
    }

    /// The uncompressed bytes of a range that lies within the file: where they are not compressed,
    /// into memory for requests, without a copy.
    pub(crate) async fn load(
        &self,
        class: IoClass,
        range: Range<u64>,
        memory: Memory,
        spares: &Spares,
    ) -> Result<Loaded, ReadError> {
        let Memory { block: mut memory, chunk, room } = memory;
        assert!(range.start <= range.end && range.end <= self.len(), "within-file: {range:?}");
        if self.chunks.is_some() || self.rounded(range.clone()) != range {
            let mut bytes = if chunk.capacity() == 0 { spares.chunk() } else { chunk };
            // What another read left there is written over.
            bytes.resize(room + (range.end - range.start) as usize, 0);
            self.read_by(class, range, &mut memory, &mut bytes[room..]).await?;
            spares.keep_block(memory);
            return Ok(Loaded::Own(bytes, room));
        }
        let length = (range.end - range.start) as usize;
        let bytes = self.file.read_behind(class, range.start, length, (memory, room)).await;
        let bytes = bytes.map_err(ReadError::Io)?;
        if bytes.len() < length {
            return Err(self.damaged("the file is shorter than it was", range.start));
        }
        debug_assert!(bytes.len() == length && room <= bytes.room(), "once: {} bytes", bytes.len());
        self.check(range.start, &bytes)?;
        Ok(Loaded::Direct(bytes))
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Appends the uncompressed bytes of a range that lies within the file.
    pub async fn read(
        &self,
        class: IoClass,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        assert!(range.start <= range.end && range.end <= self.len(), "a read past the end");
        let start = out.len();
        out.resize(start + (range.end - range.start) as usize, 0);
        let read = self.read_by(class, range, &mut AlignedBuf::new(), &mut out[start..]).await;
        if read.is_err() {
            out.truncate(start);
        }
        read
    }

    /// Reads a range into memory of its length, with requests into that other memory.
    async fn read_by(
        &self,
        class: IoClass,
        range: Range<u64>,
        memory: &mut AlignedBuf,
        into: &mut [u8],
    ) -> Result<(), ReadError> {
        assert!(range.start <= range.end && range.end <= self.len(), "a read past the end");
        debug_assert!(into.len() as u64 == range.end - range.start, "once: {} bytes", into.len());
        if range.is_empty() {
            return Ok(());
        }
        let Some(chunks) = &self.chunks else {
            let outer = self.rounded(range.clone());
            let length = (outer.end - outer.start) as usize;
            let taken = std::mem::take(memory);
            let bytes = self.file.read_into(class, outer.start, length, taken).await;
            let bytes = bytes.map_err(ReadError::Io)?;
            if bytes.len() < length {
                return Err(self.damaged("the file is shorter than it was", range.start));
            }
            self.check(outer.start, &bytes)?;
            let (start, end) = (range.start - outer.start, range.end - outer.start);
            into.copy_from_slice(&bytes[start as usize..end as usize]);
            *memory = bytes.into_buffer();
            return Ok(());
        };
        let chunk_bytes = chunks.chunk_bytes as u64;
        let end = range.end.div_ceil(chunk_bytes) as usize;
        let mut next = (range.start / chunk_bytes) as usize;
        while next < end {
            let start = chunks.offsets[next];
            let mut last = next;
            while last + 1 < end
                && chunks.end_of(last + 1, self.file_bytes) - start <= CHUNK_READ_BYTES_MAX
            {
                last += 1;
            }
            self.read_chunks(class, next..last + 1, &range, (memory, into)).await?;
            next = last + 1;
        }
        Ok(())
    }

    /// Reads chunks by one request, and into memory of the length of `wanted` what they have of it.
    async fn read_chunks(
        &self,
        class: IoClass,
        indices: Range<usize>,
        wanted: &Range<u64>,
        (memory, into): (&mut AlignedBuf, &mut [u8]),
    ) -> Result<(), ReadError> {
        let Some(chunks) = &self.chunks else { unreachable!("the file is compressed") };
        debug_assert!(!indices.is_empty() && indices.end <= chunks.offsets.len(), "{indices:?}");
        let base = chunks.offsets[indices.start];
        let length = (chunks.end_of(indices.end - 1, self.file_bytes) - base) as usize;
        let taken = std::mem::take(memory);
        let bytes = self.file.read_into(class, base, length, taken).await;
        let bytes = bytes.map_err(ReadError::Io)?;
        self.check(base, &bytes)?;
        for index in indices {
            let start = chunks.offsets[index];
            let end = chunks.end_of(index, self.file_bytes);
            let chunk = bytes.get((start - base) as usize..(end - base) as usize);
            let chunk =
                chunk.ok_or_else(|| self.damaged("the file is shorter than it was", start))?;
            let (body, crc) = chunk
                .split_last_chunk::<{ CHUNK_CRC_BYTES as usize }>()
                .ok_or_else(|| self.damaged("chunk without its checksum", start))?;
            if crc32(body) != u32::from_be_bytes(*crc) {
                return Err(self.damaged("checksum of a chunk does not match", start));
            }
            let restored = restore(chunks, (body, index), wanted, into);
            restored.map_err(|error| self.damaged(error.what, start))?;
        }
        *memory = bytes.into_buffer();
        Ok(())
    }

    /// Damage of this file.
    pub fn damaged(&self, what: &str, at: u64) -> ReadError {
        ReadError::Damaged {
            file: self.file.path().display().to_string(),
            what: what.to_string(),
            at,
        }
    }

    /// Compares bytes as they stand in the file.
    fn check(&self, start: u64, bytes: &[u8]) -> Result<(), ReadError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        guard.check(start, bytes).map_err(|error| self.damaged(error.what, error.at))
    }

    /// Compares the digest, if all of the file was read in order.
    pub fn finish(&self) -> Result<(), ReadError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        guard.finish(self.file_bytes).map_err(|error| self.damaged(error.what, error.at))
    }

    /// Reads the whole file, which decompresses and compares all there is to compare.
    pub async fn verify(&self, class: IoClass) -> Result<(), ReadError> {
        let (mut at, mut bytes) = (0, Vec::new());
        while at < self.len() {
            let range = self.rounded(at..(at + SCAN_BYTES).min(self.len()));
            assert!(range.start == at && at < range.end, "once: {range:?} at {at}");
            at = range.end;
            bytes.clear();
            self.read(class, range, &mut bytes).await?;
            runtime::task::yield_if_needed().await;
        }
        self.finish()
    }
}

/// Decompresses a chunk, and into memory of the length of `wanted` what it has of that.
fn restore(
    chunks: &Chunks,
    (body, index): (&[u8], usize),
    wanted: &Range<u64>,
    into: &mut [u8],
) -> Result<(), Damaged> {
    let (position, length) = (index as u64 * chunks.chunk_bytes as u64, chunks.length_of(index));
    let start = wanted.start.max(position);
    let end = wanted.end.min(position + length as u64);
    debug_assert!(start < end, "once: nothing of {wanted:?} in chunk {index}");
    let within = |base: u64| (start - base) as usize..(end - base) as usize;
    let into = &mut into[within(wanted.start)];
    if into.len() == length {
        return chunks.decompress(body, index, into);
    }
    let mut whole = vec![0; length];
    chunks.decompress(body, index, &mut whole)?;
    into.copy_from_slice(&whole[within(position)]);
    Ok(())
}
