//! Chunk compression (storage-format reference, section 9).
//!
//! In reading order: this file (what a table asks for), [`algorithm`], [`dictionary`], [`info`]
//! (CompressionInfo.db), [`output`] writes Data.db, [`guard`] compares it with its checksums,
//! [`data`] reads it.

pub mod algorithm;
pub mod data;
pub mod dictionary;
pub mod guard;
pub mod info;
pub mod output;

pub use algorithm::{Algorithm, Compressor};
pub use dictionary::Dictionary;
pub use info::{Chunks, ChunksError};

use algorithm::ZSTD_LEVELS;

/// Longer chunks are taken for damage: a reader holds one in memory.
const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// Bytes of the checksum behind each compressed chunk.
pub const CHUNK_CRC_BYTES: u64 = 4;

const _: () = assert!(CHUNK_BYTES_MAX.is_power_of_two());
const _: () = assert!(CHUNK_CRC_BYTES == size_of::<u32>() as u64);

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
        let algorithm = match get("compression_level") {
            None => algorithm,
            Some(level) => {
                let number = level.parse().ok().filter(|level| ZSTD_LEVELS.contains(level));
                algorithm.with_level(number.ok_or_else(|| {
                    format!("the compression level {level} is not in {ZSTD_LEVELS:?}")
                })?)
            }
        };
        let kib = get("chunk_length_in_kb").or(get("chunk_length_kb")).unwrap_or("4");
        let kib: u32 = kib.parse().map_err(|_| format!("the chunk length {kib} is no number"))?;
        let chunk_bytes = kib.saturating_mul(1024);
        if !chunk_bytes.is_power_of_two() || CHUNK_BYTES_MAX < chunk_bytes {
            return Err(format!("the chunk length {kib} KiB is not a power of two"));
        }
        Ok(Compression::Chunks { algorithm, chunk_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let zstd = ("class", "ZstdCompressor");
        let nineteen =
            Compression::Chunks { algorithm: Algorithm::Zstd { level: 19 }, chunk_bytes: 4096 };
        assert_eq!(options(&[zstd, ("compression_level", "19")]), Ok(nineteen));
        for bad in ["23", "-200000", "x"] {
            assert!(options(&[zstd, ("compression_level", bad)]).is_err());
        }
        assert!(options(&[lz4, ("chunk_length_in_kb", "3")]).is_err());
        assert!(options(&[("class", "BrotliCompressor")]).is_err());
    }
}
