//! What coordinators and replicas send each other: any bytes are damage or have one form, that
//! which they came in. The first byte says what is expected.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    replication::wire::foreign::read_foreign(bytes);
});
