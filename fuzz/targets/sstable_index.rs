//! Entries of Index.db with their promoted indexes: any bytes are parsed or refused.
//! The first byte chooses the version.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sstable::Version;
use sstable::testing::{ComponentKind, parse_component};

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let version = Version::ALL[*first as usize % Version::ALL.len()];
    let _ = parse_component(ComponentKind::Index, version, bytes);
});
