//! What a client sends: no bytes may panic, loop, or make the server reserve much memory. The first
//! byte chooses the carriage.
#![no_main]

use libfuzzer_sys::fuzz_target;
use native::testing::{Carriage, parse_requests};

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let carriage = Carriage::ALL[*first as usize % Carriage::ALL.len()];
    parse_requests(carriage, bytes);
});
