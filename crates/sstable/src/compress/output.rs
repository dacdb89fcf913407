//! Writing Data.db: compressed chunk by chunk, or plain with checksums beside it
//! (storage-format reference, sections 9 and 10).
//!
//! Invariants
//!  - *whole-chunks*: every chunk but the last has the length that was chosen; there are as many
//!    as the data needs, and each starts behind the one before it with its checksum.
//!  - *all-summed*: every byte of the file is in its digest, and of a plain one in a checksum.

use crate::compress::{CHUNK_BYTES_MAX, Chunks, Compression, Compressor, Dictionary};
use crate::store::output::Output;
use runtime::io::{IoClass, IoError};
use std::path::Path;
use stdx::Put;
use stdx::checksum::crc32;

/// Bytes of Data.db per checksum in CRC.db.
pub const CRC_CHUNK_BYTES: usize = 64 << 10;

/// Data.db while it is written.
#[derive(Debug)]
pub struct DataOutput {
    output: Output,
    form: Form,
    /// Uncompressed bytes put.
    len: u64,
}

#[derive(Debug)]
enum Form {
    Plain,
    Chunked { compressor: Box<Compressor>, chunk: Vec<u8>, chunk_bytes: usize, offsets: Vec<u64> },
}

/// What is known of a finished Data.db.
#[derive(Debug)]
pub struct DataSummary {
    /// CRC32 of the whole file.
    pub digest: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Uncompressed bytes.
    pub data_bytes: u64,
    /// What goes to CompressionInfo.db, or the checksums that go to CRC.db.
    pub side: Result<Chunks, Vec<u32>>,
}

impl DataOutput {
    /// Creates the file. Algorithms that take a dictionary use it if there is one.
    pub async fn create(
        path: &Path,
        compression: Compression,
        dictionary: Option<Dictionary>,
        class: IoClass,
    ) -> Result<DataOutput, IoError> {
        if let Compression::Chunks { chunk_bytes, .. } = compression {
            let fits = chunk_bytes.is_power_of_two() && chunk_bytes <= CHUNK_BYTES_MAX;
            assert!(fits, "whole-chunks: of {chunk_bytes} bytes");
        }
        let output = match compression {
            Compression::None => Output::create_in_pieces(path, class, CRC_CHUNK_BYTES).await?,
            Compression::Chunks { .. } => Output::create(path, class).await?,
        };
        let form = match compression {
            Compression::None => Form::Plain,
            Compression::Chunks { algorithm, chunk_bytes } => Form::Chunked {
                compressor: Box::new(Compressor::new(algorithm, dictionary)),
                chunk: Vec::with_capacity(chunk_bytes as usize),
                chunk_bytes: chunk_bytes as usize,
                offsets: Vec::new(),
            },
        };
        Ok(DataOutput { output, form, len: 0 })
    }

    /// Uncompressed bytes put so far: where the next byte stands.
    pub fn position(&self) -> u64 {
        self.len
    }

    /// Bytes of the file so far.
    pub fn disk_len(&self) -> u64 {
        self.output.position()
    }

    /// Whether [`DataOutput::flush`] has anything to do.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.output.is_due()
    }

    /// Writes out what is gathered, if it is much. To be called between puts.
    pub async fn flush(&mut self) -> Result<(), IoError> {
        self.output.flush().await
    }

    fn put_chunked(&mut self, mut bytes: &[u8]) {
        let Form::Chunked { chunk, chunk_bytes, .. } = &mut self.form else { return };
        let chunk_bytes = *chunk_bytes;
        debug_assert!(chunk.len() < chunk_bytes, "whole-chunks: {} gathered", chunk.len());
        let mut room = chunk_bytes - chunk.len();
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            let Form::Chunked { chunk, .. } = &mut self.form else { return };
            chunk.extend_from_slice(now);
            if chunk.len() == chunk_bytes {
                self.end_chunk();
            }
            room = chunk_bytes;
            bytes = rest;
        }
    }

    fn end_chunk(&mut self) {
        let Form::Chunked { compressor, chunk, offsets, chunk_bytes } = &mut self.form else {
            return;
        };
        if chunk.is_empty() {
            return;
        }
        assert!(chunk.len() <= *chunk_bytes, "whole-chunks: {} bytes", chunk.len());
        let behind = offsets.last().is_none_or(|last| *last < self.output.position());
        assert!(behind, "whole-chunks: two at {}", self.output.position());
        offsets.push(self.output.position());
        let compressed = compressor.compress(chunk);
        self.output.put(compressed);
        self.output.put_u32(crc32(compressed));
        chunk.clear();
    }

    /// Writes out the rest and makes the file durable.
    pub async fn finish(mut self) -> Result<DataSummary, IoError> {
        self.end_chunk();
        let (digest, checksums) = (self.output.crc(), self.output.piece_crcs());
        let file_bytes = self.output.position();
        let data_bytes = self.len;
        self.output.finish().await?;
        match &self.form {
            Form::Plain => {
                let needed = file_bytes.div_ceil(CRC_CHUNK_BYTES as u64);
                assert!(file_bytes == data_bytes, "all-summed: {file_bytes} of {data_bytes}");
                assert!(checksums.len() as u64 == needed, "all-summed: {needed} checksums");
            }
            Form::Chunked { chunk, chunk_bytes, offsets, .. } => {
                let needed = data_bytes.div_ceil(*chunk_bytes as u64);
                assert!(chunk.is_empty(), "whole-chunks: {} bytes are left", chunk.len());
                assert!(offsets.len() as u64 == needed, "whole-chunks: {needed} for {data_bytes}");
            }
        }
        let side = match self.form {
            Form::Plain => Err(checksums),
            Form::Chunked { compressor, chunk_bytes, offsets, .. } => Ok(Chunks {
                algorithm: compressor.algorithm(),
                dictionary: compressor.dictionary().cloned(),
                chunk_bytes: chunk_bytes as u32,
                compressed_bytes_max: u32::MAX,
                data_bytes,
                offsets,
            }),
        };
        Ok(DataSummary { digest, file_bytes, data_bytes, side })
    }
}

impl Put for DataOutput {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        match self.form {
            Form::Plain => self.output.put(bytes),
            Form::Chunked { .. } => self.put_chunked(bytes),
        }
    }
}

/// The content of CRC.db.
pub fn crc_file(checksums: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + checksums.len() * 4);
    out.put_u32(CRC_CHUNK_BYTES as u32);
    checksums.iter().for_each(|checksum| out.put_u32(*checksum));
    debug_assert!(out.len() == 4 + 4 * checksums.len(), "all-summed: {} bytes", out.len());
    out
}
