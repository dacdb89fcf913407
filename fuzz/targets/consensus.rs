//! Messages between members of a group, entries and cuts of logs, commands at most once: any bytes
//! are damage or have one form, that which they came in.
#![no_main]

use consensus::entry::{Cut, Entry};
use consensus::once::Command;
use libfuzzer_sys::fuzz_target;
use stdx::Cursor;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(again) = consensus::reencoded(bytes) {
        assert_eq!(again, bytes);
        assert!(consensus::describe(bytes).is_ok());
    }
    if let Ok(command) = Command::decode(bytes) {
        assert_eq!(command.encode(), bytes);
    }
    let mut cursor = Cursor::new(bytes);
    if let Ok(entry) = Entry::decode(&mut cursor) {
        let mut again = Vec::new();
        entry.encode(&mut again);
        assert_eq!(again, &bytes[..cursor.offset()]);
    }
    let mut cursor = Cursor::new(bytes);
    if let Ok(cut) = Cut::decode(&mut cursor) {
        let mut again = Vec::new();
        cut.encode(&mut again);
        assert_eq!(again, &bytes[..cursor.offset()]);
    }
});
