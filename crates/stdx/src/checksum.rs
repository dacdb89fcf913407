//! Checksums of files and frames.

use crc32fast::Hasher;
use std::sync::LazyLock;

/// What each checksum begins with. A new one would look each time for what the processor can do,
/// which costs more than the checksum of a frame's header.
static BEGUN: LazyLock<Hasher> = LazyLock::new(Hasher::new);

/// CRC32 (IEEE, as zlib's), of all m-format SSTable components, commitlog blocks and v5 payloads.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32_of(&[bytes])
}

/// CRC32 of parts that follow one another.
pub fn crc32_of(parts: &[&[u8]]) -> u32 {
    let mut hasher = BEGUN.clone();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// CRC32 of `head || tail`, given the CRC32 of `head`.
pub fn crc32_append(head: u32, tail: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(head);
    hasher.update(tail);
    hasher.finalize()
}

/// CRC32 of `head || tail`, given the CRC32 of each and the bytes of `tail`.
pub fn crc32_join(head: u32, tail: u32, tail_bytes: u64) -> u32 {
    let mut hasher = Hasher::new_with_initial(head);
    hasher.combine(&Hasher::new_with_initial_len(tail, tail_bytes));
    hasher.finalize()
}

/// CRC24 of a native protocol v5 segment header: polynomial 0x1974F0B, initial 0x875060, taken
/// over the `len` low bytes of `header`, least significant byte first.
pub fn crc24(header: u64, len: usize) -> u32 {
    let mut crc = 0x0087_5060u32;
    let mut rest = header;
    for _ in 0..len {
        crc ^= ((rest & 0xff) as u32) << 16;
        rest >>= 8;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0197_4f0b;
            }
        }
    }
    crc & 0x00ff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_is_the_one_of_zlib_and_appends() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32_append(crc32(b"1234"), b"56789"), 0xcbf4_3926);
        assert_eq!(crc32_of(&[b"12", b"", b"3456789"]), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32_join(crc32(b"1234"), crc32(b"56789"), 5), 0xcbf4_3926);
        assert_eq!(crc32_join(crc32(b""), crc32(b"123456789"), 9), 0xcbf4_3926);
    }

    #[test]
    fn crc24_depends_on_each_byte() {
        assert_ne!(crc24(0x01_0000, 3), crc24(0x01_0001, 3));
        assert_ne!(crc24(0x01_0000, 3), crc24(0x02_0000, 3));
        assert!(crc24(u64::MAX, 5) <= 0x00ff_ffff);
    }
}
