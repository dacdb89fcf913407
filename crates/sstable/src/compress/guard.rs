//! What a full read of a file compares as it goes: the checksums of CRC.db, and the digest of the
//! whole.
//!
//! Invariants
//!  - *checked-before-use*: bytes that CRC.db covers are compared before anybody gets them.
//!  - *digest-in-order*: the digest is compared when all bytes of the file passed in order; a read
//!    that left something out compares chunks alone.

use crate::compress::output::CRC_CHUNK_BYTES;
use std::cell::Cell;
use stdx::checksum::{crc32, crc32_append, crc32_join};
use stdx::{Cursor, Damaged};

/// Checksums of one file, and how far a read has come in comparing them.
#[derive(Debug)]
pub struct Guard {
    chunks: Option<Checksums>,
    digest: Option<u32>,
    /// So many bytes passed in order from the start on, and their CRC32.
    passed: Cell<(u64, u32)>,
}

impl Guard {
    /// Of the content of CRC.db and the digest, as far as there are any.
    pub fn new(checksums: Option<&[u8]>, digest: Option<u32>) -> Result<Guard, Damaged> {
        let chunks = checksums.map(Checksums::parse).transpose()?;
        Ok(Guard { chunks, digest, passed: Cell::new((0, 0)) })
    }

    /// Bytes of a chunk of CRC.db: reads start and end at multiples of it.
    pub fn chunk_bytes(&self) -> Option<u64> {
        self.chunks.as_ref().map(|chunks| chunks.chunk_bytes)
    }

    /// Compares bytes of the file that start at a multiple of the chunk length and end at one, or
    /// at the end of the file.
    pub fn check(&self, start: u64, bytes: &[u8]) -> Result<(), Damaged> {
        let (passed, crc) = self.passed.get();
        let in_order = self.digest.is_some() && start == passed;
        let crc = match &self.chunks {
            // What is summed in chunks is not summed once more.
            Some(chunks) => chunks.check(start, bytes, crc, in_order)?,
            None if in_order => crc32_append(crc, bytes),
            None => crc,
        };
        if in_order {
            self.passed.set((start + bytes.len() as u64, crc));
        }
        Ok(())
    }

    /// Compares the digest, if all of the file passed.
    pub fn finish(&self, file_bytes: u64) -> Result<(), Damaged> {
        let (passed, crc) = self.passed.get();
        debug_assert!(passed <= file_bytes, "digest-in-order: {passed} of {file_bytes} bytes");
        match self.digest {
            Some(digest) if passed == file_bytes && digest != crc => {
                Err(Damaged::new("the digest of the file does not match", 0))
            }
            _ => Ok(()),
        }
    }
}

/// CRC.db.
#[derive(Debug)]
struct Checksums {
    chunk_bytes: u64,
    words: Vec<[u8; 4]>,
}

impl Checksums {
    fn parse(bytes: &[u8]) -> Result<Checksums, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let chunk_bytes = cursor.u32("CRC.db cut short")?;
        if chunk_bytes == 0 || 256 * CRC_CHUNK_BYTES < chunk_bytes as usize {
            return Err(cursor.damaged("impossible chunk length of CRC.db"));
        }
        let words = cursor.rest().as_chunks::<4>().0.to_vec();
        Ok(Checksums { chunk_bytes: chunk_bytes as u64, words })
    }

    /// Compares bytes that start there; the checksum of them behind those of checksum `crc`, if
    /// that is wanted.
    fn check(&self, start: u64, bytes: &[u8], crc: u32, wanted: bool) -> Result<u32, Damaged> {
        assert!(start.is_multiple_of(self.chunk_bytes), "a read that starts within a chunk");
        debug_assert!(!bytes.is_empty(), "checked-before-use: nothing at {start}");
        let mut joined = crc;
        for (number, chunk) in bytes.chunks(self.chunk_bytes as usize).enumerate() {
            let at = start + number as u64 * self.chunk_bytes;
            let word = self.words.get((at / self.chunk_bytes) as usize);
            let of_chunk = crc32(chunk);
            if word.map(|word| u32::from_be_bytes(*word)) != Some(of_chunk) {
                return Err(Damaged::new("checksum of CRC.db does not match", at));
            }
            if wanted {
                joined = crc32_join(joined, of_chunk, chunk.len() as u64);
            }
        }
        Ok(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc_file(chunk_bytes: u32, content: &[u8]) -> Vec<u8> {
        let mut out = chunk_bytes.to_be_bytes().to_vec();
        for chunk in content.chunks(chunk_bytes as usize) {
            out.extend_from_slice(&crc32(chunk).to_be_bytes());
        }
        out
    }

    #[test]
    fn what_passes_in_order_is_compared_with_the_digest() {
        let content: Vec<u8> = (0..=250).collect();
        let file = crc_file(100, &content);
        let guard = |digest| Guard::new(Some(&file), Some(digest)).unwrap();
        let pass = |guard: &Guard, steps: &[std::ops::Range<usize>]| {
            steps.iter().try_for_each(|step| guard.check(step.start as u64, &content[step.clone()]))
        };
        let (right, wrong) = (crc32(&content), crc32(&content) ^ 1);
        let check = |digest, steps: &[std::ops::Range<usize>], fine: bool| {
            let guard = guard(digest);
            assert_eq!(pass(&guard, steps), Ok(()));
            assert_eq!(guard.finish(content.len() as u64).is_ok(), fine, "{steps:?}");
        };
        check(right, &[0..100, 100..251], true);
        check(wrong, std::slice::from_ref(&(0..251)), false);
        check(wrong, &[0..200, 200..251], false);
        // What was left out, or came out of order, cannot be told.
        check(wrong, &[0..100, 200..251], true);
        check(wrong, &[100..251, 0..100], true);
    }

    #[test]
    fn a_flipped_bit_of_a_chunk_is_named_where_the_chunk_starts() {
        let mut content = vec![7; 450];
        let file = crc_file(100, &content);
        content[320] ^= 1;
        let guard = Guard::new(Some(&file), None).unwrap();
        assert_eq!(guard.check(0, &content[..300]), Ok(()));
        assert_eq!(guard.check(200, &content[200..]).unwrap_err().at, 300);
        assert_eq!(guard.check(400, &content[400..]), Ok(()));
        // More data than CRC.db knows.
        assert_eq!(guard.check(400, &[7; 200]).unwrap_err().at, 400);
        assert!(Guard::new(Some(&[0, 0, 0, 0]), None).is_err());
        assert!(Guard::new(Some(&[0, 0]), None).is_err());
    }
}
