//! Text of statements: any text gives a tree or an error with a place in the text; what is accepted
//! prints as text that gives the same tree again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syntax::{parse, parse_filter, parse_term, parse_type};

fuzz_target!(|text: &str| {
    let _ = (parse_type(text), parse_term(text), parse_filter(text));
    match parse(text) {
        Err(error) => {
            let offset = error.at.offset as usize;
            assert!(text.is_char_boundary(offset), "an error outside of the text");
        }
        Ok(parsed) => {
            let printed = parsed.statement.to_string();
            let again = match parse(&printed) {
                Ok(again) => again,
                Err(error) => panic!("{error:?} of {printed:?}"),
            };
            assert_eq!(again.statement.to_string(), printed);
            assert_eq!(again.markers.len(), parsed.markers.len());
        }
    }
});
