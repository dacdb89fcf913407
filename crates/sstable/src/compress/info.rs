//! CompressionInfo.db: how Data.db is compressed, and where its chunks are.
//!
//! Invariants
//!  - *whole-chunks*: there are as many offsets as the data needs (of old writers one more), and
//!    they ascend by a checksum at least.

use crate::compress::algorithm::{Algorithm, Contexts};
use crate::compress::dictionary::Dictionary;
use crate::compress::{CHUNK_BYTES_MAX, CHUNK_CRC_BYTES};
use crate::store::Version;
use stdx::{Cursor, Damaged, Put};

/// The option that has the level.
const LEVEL: &str = "compression_level";
const OPTIONS_CUT: &str = "compressor options cut short";

/// CompressionInfo.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// How chunks are compressed.
    pub algorithm: Algorithm,
    /// What chunks are compressed with.
    pub dictionary: Option<Dictionary>,
    /// Uncompressed bytes of every chunk but the last.
    pub chunk_bytes: u32,
    /// A chunk of so many bytes or more on the disk is not compressed; `u32::MAX` where the
    /// version has no such limit.
    pub compressed_bytes_max: u32,
    /// Uncompressed bytes of Data.db.
    pub data_bytes: u64,
    /// Where each chunk starts in Data.db.
    pub offsets: Vec<u64>,
}

impl Chunks {
    /// Appends the serialized form of version `me`.
    pub fn put(&self, out: &mut Vec<u8>) {
        let needed = self.data_bytes.div_ceil(self.chunk_bytes as u64);
        debug_assert!(needed <= self.offsets.len() as u64, "whole-chunks: {needed} are needed");
        debug_assert!(self.offsets.is_sorted_by(|a, b| a < b), "whole-chunks: offsets ascend");
        out.put_u16_bytes(self.algorithm.class_name().as_bytes());
        let level = self.algorithm.level().map(|level| level.to_string());
        let parts = self.dictionary.iter().flat_map(Dictionary::options);
        let parts: Vec<_> = parts.collect();
        out.put_u32((parts.len() + level.is_some() as usize) as u32);
        for (name, part) in &parts {
            out.put_u16_bytes(name.as_bytes());
            out.put_u16_bytes(part);
        }
        if let Some(level) = level {
            out.put_u16_bytes(LEVEL.as_bytes());
            out.put_u16_bytes(level.as_bytes());
        }
        out.put_u32(self.chunk_bytes);
        out.put_u64(self.data_bytes);
        out.put_u32(self.offsets.len() as u32);
        self.offsets.iter().for_each(|offset| out.put_u64(*offset));
    }

    /// Reads the serialized form; `file_bytes` is the length of Data.db. The error is a rule or
    /// the name of a compressor that is not supported.
    pub fn parse(bytes: &[u8], file_bytes: u64, version: Version) -> Result<Chunks, ChunksError> {
        let (mut chunks, mut rest) = Chunks::begin(bytes, file_bytes, version)?;
        while rest.step(&mut chunks.offsets, usize::MAX)? {}
        Ok(chunks)
    }

    /// Reads what stands before the offsets; these are to be read in steps.
    pub fn begin(
        bytes: &[u8],
        file_bytes: u64,
        version: Version,
    ) -> Result<(Chunks, Offsets<'_>), ChunksError> {
        let mut cursor = Cursor::new(bytes);
        let name = cursor.u16_bytes("compressor name cut short")?;
        let name = String::from_utf8_lossy(name);
        let algorithm = Algorithm::of_class_name(&name)
            .ok_or_else(|| ChunksError::Unsupported(name.into_owned()))?;
        let mut options: Vec<(&[u8], &[u8])> = Vec::new();
        for _ in 0..cursor.u32(OPTIONS_CUT)? {
            options.push((cursor.u16_bytes(OPTIONS_CUT)?, cursor.u16_bytes(OPTIONS_CUT)?));
        }
        let dictionary = Dictionary::of_options(&options).map_err(|what| cursor.damaged(what))?;
        let level = options.iter().find(|(name, _)| *name == LEVEL.as_bytes());
        let level = level.and_then(|(_, text)| std::str::from_utf8(text).ok()?.parse().ok());
        let algorithm = level.map_or(algorithm, |level| algorithm.with_level(level));
        let chunk_bytes = cursor.u32("chunk length cut short")?;
        if chunk_bytes == 0 || CHUNK_BYTES_MAX < chunk_bytes {
            return Err(cursor.damaged("impossible chunk length").into());
        }
        let compressed_bytes_max = match version.has_compressed_length_max() {
            true => cursor.u32("greatest compressed length cut short")?,
            false => u32::MAX,
        };
        let data_bytes = cursor.u64("data length cut short")?;
        let count = cursor.u32("chunk count cut short")? as u64;
        // Old writers count an empty chunk at the end.
        let needed = data_bytes.div_ceil(chunk_bytes as u64);
        if count != needed && count != needed.saturating_add(1) {
            return Err(cursor.damaged("another number of chunks than the data needs").into());
        }
        if cursor.remaining() as u64 != count * 8 {
            return Err(cursor.damaged("another number of chunk offsets than it says").into());
        }
        let offsets = Vec::with_capacity(count as usize);
        let rest = Offsets { cursor, left: count, needed, next: 0, file_bytes };
        let chunks = Chunks {
            algorithm,
            dictionary,
            chunk_bytes,
            compressed_bytes_max,
            data_bytes,
            offsets,
        };
        Ok((chunks, rest))
    }

    /// Where chunk `index` ends in a Data.db of `file_bytes`, its checksum included.
    pub fn end_of(&self, index: usize, file_bytes: u64) -> u64 {
        let end = self.offsets.get(index + 1).copied().unwrap_or(file_bytes);
        debug_assert!(self.offsets[index] <= end, "whole-chunks: chunk {index} ends at {end}");
        end
    }

    /// Restores chunk `index`, which stands on the disk as `body`, into memory of its length.
    pub fn decompress(&self, body: &[u8], index: usize, into: &mut [u8]) -> Result<(), Damaged> {
        let length = self.length_of(index);
        assert_eq!(into.len(), length, "memory of the length of the chunk");
        if body.len() < self.compressed_bytes_max as usize {
            let contexts = runtime::local::get_or_default::<Contexts>();
            let dictionary = self.dictionary.as_ref();
            return self.algorithm.decompress(body, dictionary, &contexts, into);
        }
        // A writer that finds a chunk not worth compressing may pad it.
        let body = body.get(..length);
        let body = body.ok_or(Damaged::new("uncompressed chunk of another length", 0))?;
        into.copy_from_slice(body);
        Ok(())
    }

    /// Uncompressed bytes of chunk `index`.
    pub fn length_of(&self, index: usize) -> usize {
        debug_assert!(index < self.offsets.len(), "whole-chunks: chunk {index}");
        let start = index as u64 * self.chunk_bytes as u64;
        self.data_bytes.saturating_sub(start).min(self.chunk_bytes as u64) as usize
    }
}

/// The offsets of a CompressionInfo.db that were not read yet.
#[derive(Debug)]
pub struct Offsets<'a> {
    cursor: Cursor<'a>,
    left: u64,
    /// So many chunks have data.
    needed: u64,
    /// The least that the next one may be.
    next: u64,
    file_bytes: u64,
}

impl Offsets<'_> {
    /// Reads so many offsets at most; whether there are more.
    pub fn step(&mut self, out: &mut Vec<u64>, at_most: usize) -> Result<bool, Damaged> {
        for _ in 0..self.left.min(at_most as u64) {
            let index = out.len() as u64;
            let offset = self.cursor.u64("chunk offset cut short")?;
            let in_order = if index == 0 { offset == 0 } else { self.next <= offset };
            let bytes_min = if index < self.needed { CHUNK_CRC_BYTES } else { 0 };
            if !in_order || self.file_bytes < offset.saturating_add(bytes_min) {
                return Err(self.cursor.damaged("chunk offset out of order"));
            }
            self.next = offset.saturating_add(CHUNK_CRC_BYTES);
            self.left -= 1;
            out.push(offset);
        }
        Ok(0 < self.left)
    }
}

/// What is wrong with a CompressionInfo.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunksError {
    /// It breaks its own rules.
    Damaged(Damaged),
    /// It names a compressor that is not supported.
    Unsupported(String),
}
impl From<Damaged> for ChunksError {
    fn from(damaged: Damaged) -> ChunksError {
        ChunksError::Damaged(damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offsets_are_checked() {
        let chunks = Chunks {
            algorithm: Algorithm::Lz4,
            dictionary: None,
            chunk_bytes: 4096,
            compressed_bytes_max: u32::MAX,
            data_bytes: 5000,
            offsets: vec![0, 300],
        };
        let mut out = Vec::new();
        chunks.put(&mut out);
        assert_eq!(Chunks::parse(&out, 400, Version::Me), Ok(chunks.clone()));
        assert!(Chunks::parse(&out, 303, Version::Me).is_err());
        for cut in 0..out.len() {
            assert!(Chunks::parse(&out[..cut], 400, Version::Me).is_err());
        }
        // No offset is too large to be compared, whatever the file is said to have.
        let far = Chunks { offsets: vec![0, 300, u64::MAX], ..chunks.clone() };
        let mut bytes = Vec::new();
        far.put(&mut bytes);
        assert_eq!(Chunks::parse(&bytes, u64::MAX, Version::Me), Ok(far));
        assert!(Chunks::parse(&bytes, 400, Version::Me).is_err());
        assert_eq!((chunks.end_of(0, 400), chunks.end_of(1, 400)), (300, 400));
        assert_eq!((chunks.length_of(0), chunks.length_of(1)), (4096, 904));
    }

    #[test]
    fn dictionaries_and_levels_round_trip() {
        let chunks = Chunks {
            algorithm: Algorithm::ZstdWithDicts { level: 7 },
            dictionary: Some(Dictionary::new(vec![5; 100_000])),
            chunk_bytes: 4096,
            compressed_bytes_max: u32::MAX,
            data_bytes: 10,
            offsets: vec![0],
        };
        let mut out = Vec::new();
        chunks.put(&mut out);
        assert_eq!(Chunks::parse(&out, 400, Version::Me), Ok(chunks));
    }

    #[test]
    fn chunks_that_were_not_worth_it_are_copied() {
        let chunks = Chunks {
            algorithm: Algorithm::Lz4,
            dictionary: None,
            chunk_bytes: 16,
            compressed_bytes_max: 14,
            data_bytes: 20,
            offsets: vec![0, 20],
        };
        let mut out = [0; 20];
        chunks.decompress(b"0123456789abcdef", 0, &mut out[..16]).unwrap();
        // The last chunk of a writer that pads.
        chunks.decompress(b"0123456789abcdef", 1, &mut out[16..]).unwrap();
        assert_eq!(&out, b"0123456789abcdef0123");
        assert!(chunks.decompress(b"0123456789abcde", 0, &mut out[..16]).is_err());
    }
}
