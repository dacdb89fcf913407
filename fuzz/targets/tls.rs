//! What a client of TLS sends, in pieces: any bytes give an answer or an alert.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

static SERVER: LazyLock<Arc<tls::testing::Config>> = LazyLock::new(tls::testing::server);

fuzz_target!(|bytes: &[u8]| {
    tls::testing::feed(&SERVER, bytes);
});
