//! Text of PartiQL: any text gives a tree or an error; what is accepted prints as text that gives
//! the same tree again.
#![no_main]

use alternator::partiql::{BYTES_MAX, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok((statement, parameters)) = parse(text) else { return };
    let printed = statement.to_string();
    // Names get quotes, and numbers all their digits.
    if BYTES_MAX < printed.len() {
        return;
    }
    match parse(&printed) {
        Ok(again) => assert_eq!(again, (statement, parameters)),
        Err(error) => panic!("{error} of {printed:?}"),
    }
});
