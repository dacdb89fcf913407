//! CSV and the values in it: any bytes are records, whose fields are within them; values are read
//! or refused, and what is read is printed as text that gives the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Type;
use transfer::csv::{Dialect, Fields};
use transfer::values::{Formats, print, put};

fuzz_target!(|input: &[u8]| {
    let [options, kind, bytes @ ..] = input else { return };
    let quote = (options & 1 == 0).then_some(b'"');
    let escape = (options & 2 == 0).then_some(if options & 4 == 0 { b'\\' } else { b'"' });
    let dialect = Dialect::new(if options & 8 == 0 { b',' } else { b'\t' }, quote, escape);
    let types = ["int", "list<text>", "map<text, set<int>>", "tuple<int, timestamp, inet>", "date"];
    let ty = Type::from_cql(types[*kind as usize % types.len()], &|_| None).expect("a type");
    let (mut rest, mut fields) = (bytes, Fields::default());
    while !rest.is_empty() {
        let end = dialect.end(rest, true).expect("a last record ends");
        assert!(0 < end.bytes_with_end && end.bytes <= end.bytes_with_end);
        let record = &rest[..end.bytes];
        dialect.fields(record, &mut fields);
        (0..fields.count()).for_each(|index| {
            let field = fields.get(record, index).expect("as many as were counted");
            check(&ty, field.bytes);
        });
        rest = &rest[end.bytes_with_end..];
    }
});

fn check(ty: &Type, text: &[u8]) {
    let formats = Formats::default();
    let mut value = Vec::new();
    if put(ty, text, &formats, &mut value).is_err() {
        return;
    }
    let mut printed = String::new();
    print(ty, &value[4..], &formats, &mut printed);
    let mut again = Vec::new();
    if !printed.is_empty() && !printed.contains("''") {
        put(ty, printed.as_bytes(), &formats, &mut again).expect("what is printed is read");
        assert_eq!(again, value, "{printed}");
    }
}
