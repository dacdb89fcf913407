//! Components of SSTables: any bytes are parsed or refused. The first byte chooses the component.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sstable::testing::{ComponentKind, parse_component};

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let kind = ComponentKind::ALL[*first as usize % ComponentKind::ALL.len()];
    let _ = parse_component(kind, bytes);
});
