//! The algorithms: one chunk into its compressed form and back.
//!
//! Invariants
//!  - *as-long-as-said*: a chunk decompresses to exactly the length that is asked for, into memory
//!    of that length.

use crate::compress::CHUNK_BYTES_MAX;
use crate::compress::dictionary::Dictionary;
use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use lz4_flex::block::CompressTable;
use std::cell::RefCell;
use std::fmt;
use stdx::Damaged;
use zstd::zstd_safe::{self, CCtx, CDict, DCtx};

/// Level of Zstandard where none is asked for.
pub const ZSTD_LEVEL: i32 = 3;
/// Levels that Zstandard has.
pub const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = -(1 << 17)..=22;
const _: () = assert!(*ZSTD_LEVELS.start() <= ZSTD_LEVEL && ZSTD_LEVEL <= *ZSTD_LEVELS.end());
/// Level of Deflate: zlib's own default.
const DEFLATE_LEVEL: u32 = 6;

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `LZ4Compressor`: the uncompressed length (32 bits, little-endian), then an LZ4 block.
    Lz4,
    /// `SnappyCompressor`: raw snappy.
    Snappy,
    /// `DeflateCompressor`: a zlib stream.
    Deflate,
    /// `ZstdCompressor`: a Zstandard frame.
    Zstd {
        /// How hard it is tried when writing.
        level: i32,
    },
    /// `NoopCompressor`: the bytes as they are, with the checksums of chunks.
    Noop,
    /// `LZ4WithDictsCompressor`: as LZ4, with a dictionary where there is one.
    Lz4WithDicts,
    /// `ZstdWithDictsCompressor`: as Zstandard, with a dictionary where there is one.
    ZstdWithDicts {
        /// How hard it is tried when writing.
        level: i32,
    },
}

impl Algorithm {
    /// Zstandard at its usual level.
    pub const ZSTD: Algorithm = Algorithm::Zstd { level: ZSTD_LEVEL };

    /// All of them, at usual levels.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::Lz4,
        Algorithm::Snappy,
        Algorithm::Deflate,
        Algorithm::ZSTD,
        Algorithm::Noop,
        Algorithm::Lz4WithDicts,
        Algorithm::ZstdWithDicts { level: ZSTD_LEVEL },
    ];

    /// The class name in CompressionInfo.db.
    pub fn class_name(self) -> &'static str {
        match self {
            Algorithm::Lz4 => "LZ4Compressor",
            Algorithm::Snappy => "SnappyCompressor",
            Algorithm::Deflate => "DeflateCompressor",
            Algorithm::Zstd { .. } => "ZstdCompressor",
            Algorithm::Noop => "NoopCompressor",
            Algorithm::Lz4WithDicts => "LZ4WithDictsCompressor",
            Algorithm::ZstdWithDicts { .. } => "ZstdWithDictsCompressor",
        }
    }

    /// The algorithm of a class name, with or without its package, at its usual level.
    pub fn of_class_name(name: &str) -> Option<Algorithm> {
        let name = name.rsplit('.').next()?;
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.class_name() == name)
    }

    /// The level, of algorithms that have one.
    pub fn level(self) -> Option<i32> {
        match self {
            Algorithm::Zstd { level } | Algorithm::ZstdWithDicts { level } => Some(level),
            _ => None,
        }
    }

    /// The same at another level, where it has levels.
    pub fn with_level(self, level: i32) -> Algorithm {
        match self {
            Algorithm::Zstd { .. } => Algorithm::Zstd { level },
            Algorithm::ZstdWithDicts { .. } => Algorithm::ZstdWithDicts { level },
            other => other,
        }
    }

    /// Whether it can make use of a dictionary.
    pub fn takes_dictionary(self) -> bool {
        matches!(self, Algorithm::Lz4WithDicts | Algorithm::ZstdWithDicts { .. })
    }

    /// What it is without a dictionary: files that have none name the plain algorithm.
    pub fn without_dictionary(self) -> Algorithm {
        match self {
            Algorithm::Lz4WithDicts => Algorithm::Lz4,
            Algorithm::ZstdWithDicts { level } => Algorithm::Zstd { level },
            other => other,
        }
    }

    /// Restores the chunk that `bytes` was compressed from; it must be as long as `into`.
    pub fn decompress(
        self,
        bytes: &[u8],
        dictionary: Option<&Dictionary>,
        contexts: &Contexts,
        into: &mut [u8],
    ) -> Result<(), Damaged> {
        let length = into.len();
        debug_assert!(length <= CHUNK_BYTES_MAX as usize, "a chunk of {length} bytes");
        let size = match self {
            Algorithm::Lz4 => decompress_lz4(bytes, into, None),
            Algorithm::Lz4WithDicts => decompress_lz4(bytes, into, dictionary),
            Algorithm::Snappy => snap::raw::Decoder::new().decompress(bytes, into).ok(),
            Algorithm::Deflate => contexts.inflate(bytes, into),
            Algorithm::Zstd { .. } => contexts.zstd(bytes, into, None),
            Algorithm::ZstdWithDicts { .. } => contexts.zstd(bytes, into, dictionary),
            Algorithm::Noop => copy(bytes, into),
        };
        match size {
            Some(size) if size == length => Ok(()),
            Some(_) => Err(Damaged::new("chunk decompresses to another length", 0)),
            None => Err(Damaged::new("chunk does not decompress", 0)),
        }
    }
}

fn decompress_lz4(bytes: &[u8], into: &mut [u8], dictionary: Option<&Dictionary>) -> Option<usize> {
    let (prefix, block) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*prefix) as usize != into.len() {
        return Some(u32::from_le_bytes(*prefix) as usize);
    }
    match dictionary {
        None => lz4_flex::block::decompress_into(block, into).ok(),
        Some(dictionary) => {
            lz4_flex::block::decompress_into_with_dict(block, into, dictionary.lz4_window()).ok()
        }
    }
}

fn copy(bytes: &[u8], into: &mut [u8]) -> Option<usize> {
    into.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(bytes.len())
}

/// Memory of decompressors that keep some: one for each shard.
#[derive(Default)]
pub struct Contexts {
    zstd: RefCell<Option<DCtx<'static>>>,
    inflate: RefCell<Option<Decompress>>,
}

impl fmt::Debug for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contexts")
    }
}

impl Contexts {
    fn zstd(
        &self,
        bytes: &[u8],
        into: &mut [u8],
        dictionary: Option<&Dictionary>,
    ) -> Option<usize> {
        let mut context = self.zstd.borrow_mut();
        let context = context.get_or_insert_with(DCtx::create);
        match dictionary {
            None => context.decompress(into, bytes).ok(),
            Some(dictionary) => context.decompress_using_ddict(into, bytes, dictionary.zstd()).ok(),
        }
    }

    fn inflate(&self, bytes: &[u8], into: &mut [u8]) -> Option<usize> {
        let mut context = self.inflate.borrow_mut();
        let context = context.get_or_insert_with(|| Decompress::new(true));
        context.reset(true);
        match context.decompress(bytes, into, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => usize::try_from(context.total_out()).ok(),
            _ => None,
        }
    }
}

/// Compresses the chunks of one file; keeps its memory between them.
pub struct Compressor {
    algorithm: Algorithm,
    dictionary: Option<Dictionary>,
    state: State,
    /// The chunk compressed last, and what was there before it.
    out: Vec<u8>,
}

enum State {
    Lz4(CompressTable),
    Snappy(Box<snap::raw::Encoder>),
    Deflate(Box<Compress>),
    Zstd(CCtx<'static>, Option<CDict<'static>>),
    Noop,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compressor({:?})", self.algorithm)
    }
}

impl Compressor {
    /// A compressor; without a dictionary it is one of the plain algorithm.
    pub fn new(algorithm: Algorithm, dictionary: Option<Dictionary>) -> Compressor {
        let dictionary = dictionary.filter(|_| algorithm.takes_dictionary());
        let algorithm = match dictionary {
            Some(_) => algorithm,
            None => algorithm.without_dictionary(),
        };
        let state = match algorithm {
            Algorithm::Lz4 | Algorithm::Lz4WithDicts => State::Lz4(CompressTable::small()),
            Algorithm::Snappy => State::Snappy(Box::new(snap::raw::Encoder::new())),
            Algorithm::Deflate => {
                let level = flate2::Compression::new(DEFLATE_LEVEL);
                State::Deflate(Box::new(Compress::new(level, true)))
            }
            Algorithm::Zstd { level } | Algorithm::ZstdWithDicts { level } => {
                debug_assert!(ZSTD_LEVELS.contains(&level), "level {level} was not asked for");
                let digested = dictionary.as_ref().map(|one| CDict::create(one.bytes(), level));
                State::Zstd(CCtx::create(), digested)
            }
            Algorithm::Noop => State::Noop,
        };
        Compressor { algorithm, dictionary, state, out: Vec::new() }
    }

    /// The algorithm as CompressionInfo.db names it.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The dictionary that chunks are compressed with.
    pub fn dictionary(&self) -> Option<&Dictionary> {
        self.dictionary.as_ref()
    }

    /// The compressed form of a chunk.
    pub fn compress(&mut self, chunk: &[u8]) -> &[u8] {
        debug_assert!(!chunk.is_empty(), "as-long-as-said: a chunk of no byte");
        let bound = self.bound(chunk.len());
        if self.out.len() < bound {
            self.out.resize(bound, 0);
        }
        let into = &mut self.out[..];
        let size = match &mut self.state {
            State::Lz4(table) => compress_lz4(chunk, into, self.dictionary.as_ref(), table),
            State::Snappy(encoder) => encoder.compress(chunk, into).ok(),
            State::Deflate(context) => {
                context.reset();
                match context.compress(chunk, into, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => usize::try_from(context.total_out()).ok(),
                    _ => None,
                }
            }
            State::Zstd(context, Some(dictionary)) => {
                context.compress_using_cdict(into, chunk, dictionary).ok()
            }
            State::Zstd(context, None) => {
                let level = self.algorithm.level().unwrap_or(ZSTD_LEVEL);
                context.compress(into, chunk, level).ok()
            }
            State::Noop => copy(chunk, into),
        };
        let size = size.expect("the buffer has room for the worst case");
        debug_assert!(0 < size && size <= bound, "as-long-as-said: {size} of {bound} bytes");
        &self.out[..size]
    }

    /// The most bytes that a chunk of `length` takes.
    fn bound(&self, length: usize) -> usize {
        debug_assert!(length <= CHUNK_BYTES_MAX as usize, "a chunk of {length} bytes");
        match &self.state {
            State::Lz4(_) => 4 + lz4_flex::block::get_maximum_output_size(length),
            State::Snappy(_) => snap::raw::max_compress_len(length),
            // Stored blocks: 5 bytes each, and the head and checksum of the stream.
            State::Deflate(_) => length + length / 1000 * 5 + 128,
            State::Zstd(..) => zstd_safe::compress_bound(length),
            State::Noop => length,
        }
    }
}

fn compress_lz4(
    chunk: &[u8],
    into: &mut [u8],
    dictionary: Option<&Dictionary>,
    table: &mut CompressTable,
) -> Option<usize> {
    let (prefix, block) = into.split_first_chunk_mut::<4>()?;
    *prefix = (chunk.len() as u32).to_le_bytes();
    let size = match dictionary {
        None => lz4_flex::block::compress_into_with_table(chunk, block, table),
        Some(one) => lz4_flex::block::compress_into_with_dict(chunk, block, one.lz4_window()),
    };
    Some(4 + size.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunk_of(seed: u64, length: usize, spread: u64) -> Vec<u8> {
        let mut prng = stdx::Prng::from_seed(seed);
        (0..length).map(|_| prng.below(spread) as u8).collect()
    }

    proptest! {
        #[test]
        fn chunks_round_trip(seed: u64, length in 1usize..5000, spread in 1u64..256, with: bool) {
            let chunk = chunk_of(seed, length, spread);
            let dictionary = with.then(|| Dictionary::new(chunk_of(seed, 70_000, spread)));
            let contexts = Contexts::default();
            for algorithm in Algorithm::ALL {
                let mut compressor = Compressor::new(algorithm, dictionary.clone());
                let named = compressor.algorithm();
                prop_assert_eq!(named.takes_dictionary(), compressor.dictionary().is_some());
                for _ in 0..2 {
                    let small = compressor.compress(&chunk).to_vec();
                    // What stood there before is written over.
                    let mut back = vec![7; length + 1];
                    let decompress = |bytes: &[u8], into: &mut [u8]| {
                        named.decompress(bytes, compressor.dictionary(), &contexts, into)
                    };
                    prop_assert!(decompress(&small, &mut back).is_err());
                    decompress(&small, &mut back[..length]).unwrap();
                    prop_assert_eq!(&back[..length], &chunk[..]);
                }
            }
        }

        #[test]
        fn damaged_chunks_are_refused_or_other(
            seed: u64,
            flip: prop::sample::Index,
            bit in 0u8..8,
        ) {
            let chunk = chunk_of(seed, 900, 7);
            let contexts = Contexts::default();
            for algorithm in Algorithm::ALL {
                let mut small = Compressor::new(algorithm, None).compress(&chunk).to_vec();
                let at = flip.index(small.len());
                let mut out = [0; 900];
                let cut = &small[..at];
                prop_assert!(algorithm.decompress(cut, None, &contexts, &mut out).is_err());
                small[at] ^= 1 << bit;
                let _ = algorithm.decompress(&small, None, &contexts, &mut out);
            }
        }
    }

    #[test]
    fn names() {
        for algorithm in Algorithm::ALL {
            let name = algorithm.class_name();
            assert_eq!(Algorithm::of_class_name(name), Some(algorithm));
            let long = format!("org.apache.cassandra.io.compress.{name}");
            assert_eq!(Algorithm::of_class_name(&long), Some(algorithm));
        }
        assert_eq!(Algorithm::of_class_name("LZ5Compressor"), None);
    }

    #[test]
    fn a_dictionary_helps() {
        let text =
            |number: usize| format!("the {number}th of all rows that look the same").into_bytes();
        let samples: Vec<Vec<u8>> = (0..2000).map(text).collect();
        let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
        let dictionary = Dictionary::train(&samples, 4096).unwrap();
        assert!(dictionary.bytes().len() <= 4096);
        for algorithm in Algorithm::ALL.into_iter().filter(|one| one.takes_dictionary()) {
            let size =
                |dictionary| Compressor::new(algorithm, dictionary).compress(&text(777)).len();
            assert!(2 * size(Some(dictionary.clone())) < size(None), "{algorithm:?}");
        }
        assert!(Dictionary::train(&[], 4096).is_err());
    }
}
