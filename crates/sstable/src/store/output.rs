//! Writing a file through an aligned buffer, with a running checksum.

use runtime::io::{AlignedBuf, File, IoClass, IoError, OpenOptions};
use std::path::Path;
use stdx::Put;
use stdx::checksum::crc32_append;

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
    crc: u32,
}

impl Output {
    /// Creates the file, which must not exist.
    pub async fn create(path: &Path, class: IoClass) -> Result<Output, IoError> {
        let file = File::open(path, OpenOptions::create_new()).await?;
        let buf = AlignedBuf::with_capacity(BUFFER_BYTES);
        Ok(Output { file, class, buf, written: 0, crc: 0 })
    }

    /// How many bytes were put.
    pub fn position(&self) -> u64 {
        self.written + self.buf.len() as u64
    }

    /// CRC32 of all bytes put so far.
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// Writes out whole blocks if many bytes are gathered. To be called between puts.
    pub async fn flush(&mut self) -> Result<(), IoError> {
        if self.buf.len() < BUFFER_BYTES {
            return Ok(());
        }
        let whole = self.buf.len() - self.buf.len() % BUFFER_BYTES;
        let rest = self.buf[whole..].to_vec();
        let mut buf = std::mem::take(&mut self.buf);
        buf.truncate(whole);
        let mut buf = self.file.write_at(self.class, self.written, buf).await?;
        self.written += whole as u64;
        buf.clear();
        buf.extend_from_slice(&rest);
        self.buf = buf;
        Ok(())
    }

    /// Writes out the rest and makes the file durable.
    pub async fn finish(mut self) -> Result<(), IoError> {
        let buf = std::mem::take(&mut self.buf);
        self.file.write_tail(self.class, self.written, buf).await?;
        self.file.fdatasync(self.class).await?;
        self.file.close().await
    }
}

impl Put for Output {
    fn put(&mut self, bytes: &[u8]) {
        self.crc = crc32_append(self.crc, bytes);
        self.buf.extend_from_slice(bytes);
    }
}

/// Writes a whole small file and makes it durable.
pub async fn write_whole(path: &Path, bytes: &[u8], class: IoClass) -> Result<(), IoError> {
    let mut output = Output::create(path, class).await?;
    output.put(bytes);
    output.flush().await?;
    output.finish().await
}
