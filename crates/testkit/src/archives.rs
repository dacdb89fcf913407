//! Files of other implementations that the project has: `archives/<name>.tar.zst` of this crate.
//! `archives/cassandra/load.cql` is what those of Cassandra were made of.

use std::path::{Path, PathBuf};

/// The regular files of an archive, such as `cassandra/da`: path and content.
#[allow(clippy::disallowed_methods, reason = "the archive is on the disk of the machine")]
pub fn files(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let archives = Path::new(env!("CARGO_MANIFEST_DIR")).join("archives");
    let path = archives.join(format!("{name}.tar.zst"));
    let archive = zstd::stream::decode_all(std::fs::File::open(&path).expect("the archive"));
    let archive = archive.expect("Zstandard");
    let mut rest = archive.as_slice();
    let mut files = Vec::new();
    // A block of zeros ends an archive.
    while let Some((head, body)) = rest.split_at_checked(512).filter(|(head, _)| head[0] != 0) {
        let text = |range: std::ops::Range<usize>| {
            let bytes = head[range].split(|byte| *byte == 0).next().unwrap_or_default();
            std::str::from_utf8(bytes).expect("text").trim()
        };
        let length = usize::from_str_radix(text(124..136), 8).expect("a length");
        if head[156] == b'0' {
            files.push((PathBuf::from(text(0..100)), body[..length].to_vec()));
        }
        rest = &body[length.next_multiple_of(512)..];
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_all_files_of_its_tables() {
        for name in ["cassandra/nb", "cassandra/oa", "cassandra/da", "cassandra/trie"] {
            let files = files(name);
            let count = |end: &str| {
                files.iter().filter(|(path, _)| path.to_string_lossy().ends_with(end)).count()
            };
            assert!(0 < count("-Data.db"), "{name}");
            assert_eq!(count("-Data.db"), count("-TOC.txt"), "{name}");
        }
    }
}
