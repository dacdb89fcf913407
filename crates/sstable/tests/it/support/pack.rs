//! Files of other implementations that the project has: a tar archive per version, compressed.

use std::path::{Path, PathBuf};

/// The regular files of `<name>.tar.zst` in this crate's tests: path and content.
#[allow(clippy::disallowed_methods)] // The archive is on the disk of the machine.
pub(crate) fn files(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    // Tests of another crate use this file too.
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sstable/tests/it");
    let path = tests.join(format!("{name}.tar.zst"));
    let archive = zstd::stream::decode_all(std::fs::File::open(&path).unwrap()).unwrap();
    let mut rest = archive.as_slice();
    let mut files = Vec::new();
    // A block of zeros ends an archive.
    while let Some((head, body)) = rest.split_at_checked(512).filter(|(head, _)| head[0] != 0) {
        let text = |range: std::ops::Range<usize>| {
            let bytes = head[range].split(|byte| *byte == 0).next().unwrap();
            std::str::from_utf8(bytes).unwrap().trim()
        };
        let length = usize::from_str_radix(text(124..136), 8).unwrap();
        if head[156] == b'0' {
            files.push((PathBuf::from(text(0..100)), body[..length].to_vec()));
        }
        rest = &body[length.next_multiple_of(512)..];
    }
    files
}
