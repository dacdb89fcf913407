//! What a proxy says of a client: any bytes are a header, the beginning of one, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use native::proxy::{HEADER_BYTES_MAX, Parsed, parse};

fuzz_target!(|bytes: &[u8]| {
    match parse(bytes) {
        Ok(Parsed::Needs(more)) => assert!(bytes.len() < more && more <= HEADER_BYTES_MAX),
        Ok(Parsed::Header { bytes: used, client }) => {
            assert!(used <= bytes.len() && used <= HEADER_BYTES_MAX);
            // What follows the header is not looked at, and without its end it is none.
            assert_eq!(parse(&bytes[..used]), Ok(Parsed::Header { bytes: used, client }));
            assert!(matches!(parse(&bytes[..used - 1]), Ok(Parsed::Needs(_))));
        }
        Err(_) => {}
    }
});
