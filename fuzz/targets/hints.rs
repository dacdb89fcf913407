//! Hints as they are read back from the disk, and sync points as operators hand them back: any
//! bytes are damage or have one form, that which they came in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Uuid;
use replication::hints::form::{self, Step};
use replication::hints::point::Point;

fuzz_target!(|bytes: &[u8]| {
    let _ = form::check_header(bytes, Uuid::from_u128(1));
    if let Ok(point) = Point::decode(bytes) {
        assert_eq!(point.encode(), bytes);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        let used = match form::step(rest) {
            Step::Hint(hint, used) => {
                assert_eq!(hint.encode(), rest[..used]);
                used
            }
            Step::Skip(_, used) => used,
            Step::Short(needed) => {
                assert!(rest.len() < needed);
                return;
            }
            Step::Lost(_) => return,
        };
        assert!(0 < used);
        rest = &rest[used..];
    }
});
