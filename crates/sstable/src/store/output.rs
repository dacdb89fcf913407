//! Writing a file through an aligned buffer, with a running checksum.
//!
//! Invariants
//!  - *in-order*: the file is written front to back, whole blocks at a time until its end.
//!  - *all-summed*: the checksum is of all bytes, once; so are those of pieces.

use runtime::Erased;
use runtime::io::{AlignedBuf, File, IoClass, IoError, OpenOptions};
use std::path::Path;
use stdx::Put;
use stdx::checksum::{crc32, crc32_append, crc32_join};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 128 * 1024;

const _: () = assert!(BUFFER_BYTES.is_multiple_of(runtime::io::ALIGNMENT));

/// A file that is written once, front to back.
#[derive(Debug)]
pub struct Output {
    file: File,
    class: IoClass,
    buf: AlignedBuf,
    /// Bytes of the file that are written.
    written: u64,
    /// Of what is written.
    crc: u32,
    /// Of each piece of so many bytes that is written, if they are wanted.
    piece_bytes: Option<usize>,
    piece_crcs: Vec<u32>,
}

impl Output {
    /// Creates the file, which must not exist.
    pub async fn create(path: &Path, class: IoClass) -> Result<Output, IoError> {
        let file = File::open(path, OpenOptions::create_new()).await?;
        let buf = AlignedBuf::with_capacity(BUFFER_BYTES);
        Ok(Output {
            file,
            class,
            buf,
            written: 0,
            crc: 0,
            piece_bytes: None,
            piece_crcs: Vec::new(),
        })
    }

    /// As [`Output::create`], with a checksum of each piece of so many bytes, too. Panics where
    /// [`Output::flush`] does not write whole pieces.
    pub async fn create_in_pieces(
        path: &Path,
        class: IoClass,
        piece_bytes: usize,
    ) -> Result<Output, IoError> {
        assert!(BUFFER_BYTES.is_multiple_of(piece_bytes), "all-summed: a flush cuts pieces");
        Ok(Output { piece_bytes: Some(piece_bytes), ..Output::create(path, class).await? })
    }

    /// How many bytes were put.
    pub fn position(&self) -> u64 {
        self.written + self.buf.len() as u64
    }

    /// CRC32 of all bytes put so far.
    pub fn crc(&self) -> u32 {
        crc32_append(self.crc, &self.buf)
    }

    /// CRC32 of each piece of all bytes put so far, the last of which may be short.
    pub fn piece_crcs(&self) -> Vec<u32> {
        let summed = self.piece_bytes.map_or(0, |bytes| bytes * self.piece_crcs.len()) as u64;
        debug_assert!(summed == self.written || self.piece_bytes.is_none(), "all-summed: {summed}");
        let tail = self.piece_bytes.map(|bytes| self.buf.chunks(bytes).map(crc32));
        self.piece_crcs.iter().copied().chain(tail.into_iter().flatten()).collect()
    }

    /// Whether [`Output::flush`] has anything to do.
    #[inline]
    pub fn is_due(&self) -> bool {
        BUFFER_BYTES <= self.buf.len()
    }

    /// Writes out whole blocks if many bytes are gathered. To be called between puts.
    pub async fn flush(&mut self) -> Result<(), IoError> {
        if !self.is_due() {
            return Ok(());
        }
        let whole = self.buf.len() - self.buf.len() % BUFFER_BYTES;
        assert!(0 < whole && whole.is_multiple_of(BUFFER_BYTES), "in-order: {whole} bytes");
        assert!(self.written.is_multiple_of(BUFFER_BYTES as u64), "in-order: {}", self.written);
        // Checksums are taken of much at once: of a few bytes they cost as much as of a hundred.
        // What is summed in pieces is not summed once more.
        match self.piece_bytes {
            None => self.crc = crc32_append(self.crc, &self.buf[..whole]),
            Some(bytes) => {
                for piece in self.buf[..whole].chunks(bytes) {
                    let crc = crc32(piece);
                    self.piece_crcs.push(crc);
                    self.crc = crc32_join(self.crc, crc, piece.len() as u64);
                }
            }
        }
        let rest = self.buf[whole..].to_vec();
        let mut buf = std::mem::take(&mut self.buf);
        buf.truncate(whole);
        let mut buf = self.file.write_at(self.class, self.written, buf).await?;
        self.written += whole as u64;
        debug_assert!(buf.len() == whole, "in-order: {} of {whole} bytes", buf.len());
        buf.clear();
        buf.extend_from_slice(&rest);
        self.buf = buf;
        debug_assert!(!self.is_due(), "in-order: {} bytes are left", self.buf.len());
        Ok(())
    }

    /// Writes out the rest and makes the file durable.
    pub async fn finish(mut self) -> Result<(), IoError> {
        let buf = std::mem::take(&mut self.buf);
        assert!(self.written.is_multiple_of(BUFFER_BYTES as u64), "in-order: {}", self.written);
        self.file.write_tail(self.class, self.written, buf).await?;
        self.file.fdatasync(self.class).await?;
        self.file.close().await
    }
}

impl Put for Output {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }
}

/// Copies a file, which may be large, and makes the copy durable. `to` must not exist.
pub fn copy_file<'a>(
    from: &'a Path,
    to: &'a Path,
    class: IoClass,
) -> Erased<'a, Result<(), IoError>> {
    Erased::new(move || async move {
        let source = File::open(from, OpenOptions::read_only().buffered()).await?;
        let mut output = Output::create(to, class).await?;
        loop {
            let part = source.read_at(class, output.position(), BUFFER_BYTES).await?;
            if part.is_empty() {
                break;
            }
            output.put(&part);
            output.flush().await?;
        }
        source.close().await?;
        output.finish().await
    })
}

/// Writes a whole small file and makes it durable.
pub fn write_whole<'a>(
    path: &'a Path,
    bytes: &'a [u8],
    class: IoClass,
) -> Erased<'a, Result<(), IoError>> {
    Erased::new(move || async move {
        let mut output = Output::create(path, class).await?;
        output.put(bytes);
        output.flush().await?;
        output.finish().await
    })
}
