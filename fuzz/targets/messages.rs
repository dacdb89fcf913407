//! What another node sends: no bytes of greetings or frames may panic, loop, or make this one
//! reserve much memory. The first byte says what is expected.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    messaging::testing::read_foreign(bytes);
});
