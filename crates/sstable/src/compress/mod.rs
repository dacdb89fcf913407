//! Chunk compression: CompressionInfo.db and the algorithms (storage-format reference,
//! section 9). [`output`] writes Data.db, [`data`] reads it.

pub mod data;
pub mod output;

use crate::store::Version;
use stdx::{Cursor, Damaged, Put};

/// Longer chunks are taken for damage: a reader holds one in memory.
const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// Bytes of the checksum behind each compressed chunk.
pub const CHUNK_CRC_BYTES: u64 = 4;

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `LZ4Compressor`: the uncompressed length (32 bits, little-endian), then an LZ4 block.
    Lz4,
    /// `SnappyCompressor`: raw snappy.
    Snappy,
}

impl Algorithm {
    /// The class name in CompressionInfo.db.
    pub fn class_name(self) -> &'static str {
        match self {
            Algorithm::Lz4 => "LZ4Compressor",
            Algorithm::Snappy => "SnappyCompressor",
        }
    }

    /// The algorithm of a class name, with or without its package.
    pub fn of_class_name(name: &str) -> Option<Algorithm> {
        match name.rsplit('.').next() {
            Some("LZ4Compressor") => Some(Algorithm::Lz4),
            Some("SnappyCompressor") => Some(Algorithm::Snappy),
            _ => None,
        }
    }

    /// Appends the compressed form of a chunk.
    pub fn compress(self, chunk: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Algorithm::Lz4 => {
                out.put(&(chunk.len() as u32).to_le_bytes());
                let bound = lz4_flex::block::get_maximum_output_size(chunk.len());
                out.resize(start + 4 + bound, 0);
                let size = lz4_flex::block::compress_into(chunk, &mut out[start + 4..])
                    .expect("the buffer has room for the worst case");
                out.truncate(start + 4 + size);
            }
            Algorithm::Snappy => {
                out.resize(start + snap::raw::max_compress_len(chunk.len()), 0);
                let size = snap::raw::Encoder::new()
                    .compress(chunk, &mut out[start..])
                    .expect("the buffer has room for the worst case");
                out.truncate(start + size);
            }
        }
    }

    /// Appends the chunk that `bytes` was compressed from; it must have `length` bytes.
    pub fn decompress(self, bytes: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), Damaged> {
        let wrong = Damaged::new("chunk does not decompress", 0);
        let start = out.len();
        out.resize(start + length, 0);
        let into = &mut out[start..];
        let size = match self {
            Algorithm::Lz4 => {
                let (prefix, block) = bytes.split_first_chunk::<4>().ok_or(wrong)?;
                if u32::from_le_bytes(*prefix) as usize != length {
                    return Err(Damaged::new("chunk of another length than it says", 0));
                }
                lz4_flex::block::decompress_into(block, into).map_err(|_| wrong)?
            }
            Algorithm::Snappy => {
                snap::raw::Decoder::new().decompress(bytes, into).map_err(|_| wrong)?
            }
        };
        match size == length {
            true => Ok(()),
            false => Err(Damaged::new("chunk decompresses to another length", 0)),
        }
    }
}

/// What is done to Data.db as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing; checksums go to CRC.db.
    None,
    /// Chunks of `chunk_bytes`, a power of two, are compressed.
    Chunks {
        /// How.
        algorithm: Algorithm,
        /// Uncompressed bytes of a chunk.
        chunk_bytes: u32,
    },
}

impl Compression {
    /// The default: LZ4 in chunks of 4 KiB.
    pub const LZ4: Compression =
        Compression::Chunks { algorithm: Algorithm::Lz4, chunk_bytes: 4096 };

    /// The compression that a table's options ask for. The error names what is not supported.
    pub fn of_options(options: &[(String, String)]) -> Result<Compression, String> {
        let get = |name: &str| {
            options.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
        };
        let class = get("sstable_compression").or(get("class")).unwrap_or_default();
        if class.is_empty() || get("enabled") == Some("false") {
            return Ok(Compression::None);
        }
        let algorithm = Algorithm::of_class_name(class)
            .ok_or_else(|| format!("the compressor {class} is not supported"))?;
        let kib = get("chunk_length_in_kb").or(get("chunk_length_kb")).unwrap_or("4");
        let kib: u32 = kib.parse().map_err(|_| format!("the chunk length {kib} is no number"))?;
        let chunk_bytes = kib.saturating_mul(1024);
        if !chunk_bytes.is_power_of_two() || CHUNK_BYTES_MAX < chunk_bytes {
            return Err(format!("the chunk length {kib} KiB is not a power of two"));
        }
        Ok(Compression::Chunks { algorithm, chunk_bytes })
    }
}

/// CompressionInfo.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// How chunks are compressed.
    pub algorithm: Algorithm,
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
    /// Appends the serialized form.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u16_bytes(self.algorithm.class_name().as_bytes());
        out.put_u32(0);
        // Cassandra 4 and later have another field here, but only in versions after `me`.
        out.put_u32(self.chunk_bytes);
        out.put_u64(self.data_bytes);
        out.put_u32(self.offsets.len() as u32);
        self.offsets.iter().for_each(|offset| out.put_u64(*offset));
    }

    /// Reads the serialized form; `file_bytes` is the length of Data.db. The error is a rule or
    /// the name of a compressor that is not supported.
    pub fn parse(bytes: &[u8], file_bytes: u64, version: Version) -> Result<Chunks, ChunksError> {
        let mut cursor = Cursor::new(bytes);
        let name = cursor.u16_bytes("compressor name cut short")?;
        let name = String::from_utf8_lossy(name);
        let algorithm = Algorithm::of_class_name(&name)
            .ok_or_else(|| ChunksError::Unsupported(name.into_owned()))?;
        let options = cursor.u32("compressor options cut short")?;
        for _ in 0..options {
            cursor.u16_bytes("compressor options cut short")?;
            cursor.u16_bytes("compressor options cut short")?;
        }
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
        let mut offsets = Vec::with_capacity(count as usize);
        let mut next = 0;
        for index in 0..count {
            let offset = cursor.u64("chunk offset cut short")?;
            let in_order = if index == 0 { offset == 0 } else { next <= offset };
            let bytes_min = if index < needed { CHUNK_CRC_BYTES } else { 0 };
            if !in_order || file_bytes < offset.saturating_add(bytes_min) {
                return Err(cursor.damaged("chunk offset out of order").into());
            }
            next = offset + CHUNK_CRC_BYTES;
            offsets.push(offset);
        }
        Ok(Chunks { algorithm, chunk_bytes, compressed_bytes_max, data_bytes, offsets })
    }

    /// Where chunk `index` ends in a Data.db of `file_bytes`, its checksum included.
    pub fn end_of(&self, index: usize, file_bytes: u64) -> u64 {
        self.offsets.get(index + 1).copied().unwrap_or(file_bytes)
    }

    /// Appends chunk `index`, which stands on the disk as `body`.
    pub fn decompress(&self, body: &[u8], index: usize, out: &mut Vec<u8>) -> Result<(), Damaged> {
        let length = self.length_of(index);
        if body.len() < self.compressed_bytes_max as usize {
            return self.algorithm.decompress(body, length, out);
        }
        // A writer that finds a chunk not worth compressing may pad it.
        let body = body.get(..length);
        let body = body.ok_or(Damaged::new("uncompressed chunk of another length", 0))?;
        out.extend_from_slice(body);
        Ok(())
    }

    /// Uncompressed bytes of chunk `index`.
    pub fn length_of(&self, index: usize) -> usize {
        let start = index as u64 * self.chunk_bytes as u64;
        self.data_bytes.saturating_sub(start).min(self.chunk_bytes as u64) as usize
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_round_trip(seed: u64, len in 0usize..5000, spread in 1u64..256) {
            let mut prng = stdx::Prng::from_seed(seed);
            let chunk: Vec<u8> = (0..len).map(|_| prng.below(spread) as u8).collect();
            for algorithm in [Algorithm::Lz4, Algorithm::Snappy] {
                let mut small = vec![9];
                algorithm.compress(&chunk, &mut small);
                let mut back = vec![1, 2];
                algorithm.decompress(&small[1..], len, &mut back).unwrap();
                prop_assert_eq!(&back[2..], &chunk[..]);
                prop_assert!(algorithm.decompress(&small[1..], len + 1, &mut back).is_err());
            }
        }
    }

    #[test]
    fn the_offsets_are_checked() {
        let chunks = Chunks {
            algorithm: Algorithm::Lz4,
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
        assert_eq!((chunks.end_of(0, 400), chunks.end_of(1, 400)), (300, 400));
        assert_eq!((chunks.length_of(0), chunks.length_of(1)), (4096, 904));
    }

    #[test]
    fn options_of_tables() {
        let options = |list: &[(&str, &str)]| -> Result<Compression, String> {
            let list = list.iter().map(|(k, v)| (k.to_string(), v.to_string()));
            Compression::of_options(&list.collect::<Vec<_>>())
        };
        assert_eq!(options(&[]), Ok(Compression::None));
        let lz4 = ("sstable_compression", "org.apache.cassandra.io.compress.LZ4Compressor");
        assert_eq!(options(&[lz4]), Ok(Compression::LZ4));
        let sixteen = Compression::Chunks { algorithm: Algorithm::Lz4, chunk_bytes: 16384 };
        assert_eq!(options(&[lz4, ("chunk_length_in_kb", "16")]), Ok(sixteen));
        assert!(options(&[("class", "ZstdCompressor")]).is_err());
    }
}
