//! Files of imports of the DynamoDB API: any bytes are items, or are told to be none; whatever the
//! pieces in which they come, and an item is written as what is read as the same.
#![no_main]

use alternator::json::Json;
use alternator::transfers::format::{Format, Read, Reader};
use alternator::transfers::lines::{Record, Records};
use alternator::value::{attributes, attributes_json};
use libfuzzer_sys::fuzz_target;
use model::Type;
use std::collections::BTreeMap;

fuzz_target!(|bytes: &[u8]| {
    let [kind, most, piece, file @ ..] = bytes else { return };
    let header = ["p", "x"].map(str::to_owned).to_vec();
    let format = match kind % 4 {
        0 => Format::Json,
        1 => Format::Csv { delimiter: b',', header: None },
        2 => Format::Csv { delimiter: b'|', header: Some(header) },
        _ => Format::Csv { delimiter: b' ', header: None },
    };
    let most = 4 << (most % 12);
    let found = read(&format, file, most, file.len());
    let in_pieces = read(&format, file, most, (*piece).into());
    assert_eq!(found, in_pieces, "cut-anywhere: pieces of {piece}");
    assert!(found.is_sorted_by_key(|(line, _)| *line), "lines ascend");
    for (_, read) in found {
        let Some(Read::Item(item)) = read else { continue };
        let text = attributes_json(&item);
        assert_eq!(attributes(Json::parse(&text).expect("our JSON")), Ok(item));
    }
});

/// What each record is, with its line; `None`: too long.
fn read(format: &Format, file: &[u8], most: usize, piece: usize) -> Vec<(u64, Option<Read>)> {
    let keys = [("p", Type::Text), ("n", Type::Decimal), ("b", Type::Blob)];
    let keys: BTreeMap<String, Type> =
        keys.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect();
    let mut reader = Reader::new(format, &keys);
    let mut records = Records::new(format.delimiter(), most);
    let mut found = Vec::new();
    let mut pieces = file.chunks(piece.max(1));
    loop {
        let piece = pieces.next();
        records.room().extend_from_slice(piece.unwrap_or_default());
        while let Some(record) = records.next(piece.is_none()) {
            found.push(match record {
                Record::Whole(bytes, line) => {
                    assert!(bytes.len() <= most, "bounded: {} bytes", bytes.len());
                    (line, Some(reader.read(bytes)))
                }
                Record::TooLong(line) => (line, None),
            });
        }
        if piece.is_none() {
            return found;
        }
    }
}
