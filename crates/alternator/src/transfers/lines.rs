//! From the bytes of a file to its records: lines, or records of CSV, whose quotes may have line
//! ends within. Pure.
//!
//! The CSV is that of RFC 4180: a field that begins with a quote ends with one, and has two where
//! one is meant.
//!
//! Invariants
//!  - *cut-anywhere*: records do not depend on the pieces in which the bytes come.
//!  - *bounded*: a record has so many bytes at most; one that has more is told as such, and what
//!    follows its next line end is looked at again.

use std::borrow::Cow;

/// Where in a record a byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// A field begins here.
    Start,
    Plain,
    Quoted,
    /// After a quote within quotes: the end of them, or half of a quote.
    Closing,
}

impl At {
    /// After a byte; `None`: it ends the record.
    fn after(self, byte: u8, delimiter: u8) -> Option<At> {
        Some(match (self, byte) {
            (At::Start, b'"') | (At::Closing, b'"') => At::Quoted,
            (At::Quoted, b'"') => At::Closing,
            (At::Quoted, _) => At::Quoted,
            (_, b'\n') => return None,
            (_, byte) if byte == delimiter => At::Start,
            _ => At::Plain,
        })
    }
}

/// A record, or that there was one that is too long; and the number of the line it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'r> {
    Whole(&'r [u8], u64),
    TooLong(u64),
}

/// Cuts bytes into records.
pub struct Records {
    /// The delimiter of CSV; `None`: lines.
    delimiter: Option<u8>,
    bytes_max: usize,
    pending: Vec<u8>,
    /// Where the record begins, and how far it was looked at.
    start: usize,
    looked: usize,
    at: At,
    /// Within a record that is too long: up to the next line end.
    is_skipping: bool,
    line: u64,
    /// Line ends within the record so far.
    ends: u64,
}

impl Records {
    /// Of no bytes yet. `delimiter`: of CSV; `bytes_max`: of a record.
    pub fn new(delimiter: Option<u8>, bytes_max: usize) -> Records {
        Records {
            delimiter,
            bytes_max,
            pending: Vec::new(),
            start: 0,
            looked: 0,
            at: At::Start,
            is_skipping: false,
            line: 1,
            ends: 0,
        }
    }

    /// Where bytes are to be appended. What was told before is gone.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.pending.drain(..self.start);
        self.looked -= self.start;
        self.start = 0;
        &mut self.pending
    }

    /// The next record, without its line end; `None`: more bytes are needed, or all were told.
    /// `is_last`: no bytes follow those that are there.
    pub fn next(&mut self, is_last: bool) -> Option<Record<'_>> {
        while let Some(byte) = self.pending.get(self.looked).copied() {
            self.looked += 1;
            let after = match self.delimiter {
                Some(delimiter) if !self.is_skipping => self.at.after(byte, delimiter),
                _ => (byte != b'\n').then_some(At::Plain),
            };
            self.ends += u64::from(byte == b'\n');
            match after {
                None => {
                    let end = self.looked - 1;
                    if let Some((from, line)) = self.ended() {
                        return Some(Record::Whole(trimmed(&self.pending[from..end]), line));
                    }
                }
                Some(at) => {
                    self.at = at;
                    if self.bytes_max < self.looked - self.start && !self.is_skipping {
                        self.is_skipping = true;
                        return Some(Record::TooLong(self.line));
                    }
                    if self.is_skipping {
                        self.start = self.looked;
                    }
                }
            }
        }
        if is_last && self.start < self.looked {
            let end = self.looked;
            let (from, line) = self.ended()?;
            return Some(Record::Whole(trimmed(&self.pending[from..end]), line));
        }
        None
    }

    /// Goes on behind a record: where it began, and in which line; `None`: it was too long.
    fn ended(&mut self) -> Option<(usize, u64)> {
        let (from, line, was_skipping) = (self.start, self.line, self.is_skipping);
        self.start = self.looked;
        self.line += self.ends;
        (self.at, self.is_skipping, self.ends) = (At::Start, false, 0);
        (!was_skipping).then_some((from, line))
    }
}

/// Without what some write before the end of a line.
fn trimmed(record: &[u8]) -> &[u8] {
    record.strip_suffix(b"\r").unwrap_or(record)
}

/// The fields of a record of CSV; the error says what is wrong.
pub fn fields(record: &str, delimiter: u8) -> Result<Vec<Cow<'_, str>>, &'static str> {
    let bytes = record.as_bytes();
    let (mut all, mut start, mut at) = (Vec::new(), 0, At::Start);
    for end in 0..=bytes.len() {
        let is_end = end == bytes.len();
        let after = match bytes.get(end) {
            None => At::Start,
            // Only a quote that follows one within quotes, or a line end within them, is none.
            Some(byte) => at.after(*byte, delimiter).unwrap_or(At::Plain),
        };
        if at == At::Closing && after == At::Plain {
            return Err("a quote is followed by something else than a delimiter");
        }
        let is_delimiter = !is_end && after == At::Start;
        if is_end && at == At::Quoted {
            return Err("a quote is not closed");
        }
        if is_end || is_delimiter {
            let text = &record[start..end];
            let inner = match at {
                At::Closing => text.get(1..text.len() - 1),
                _ => None,
            };
            all.push(match inner {
                Some(inner) if inner.contains('"') => Cow::Owned(inner.replace("\"\"", "\"")),
                Some(inner) => Cow::Borrowed(inner),
                None => Cow::Borrowed(text),
            });
            start = end + 1;
        }
        at = after;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What becomes of bytes that come in pieces: each record as text with its line.
    fn cut(bytes: &[u8], delimiter: Option<u8>, most: usize, piece: usize) -> Vec<(String, u64)> {
        let mut records = Records::new(delimiter, most);
        let mut found = Vec::new();
        let mut take = |records: &mut Records, is_last| {
            while let Some(record) = records.next(is_last) {
                found.push(match record {
                    Record::Whole(bytes, line) => {
                        (String::from_utf8_lossy(bytes).into_owned(), line)
                    }
                    Record::TooLong(line) => ("...".to_owned(), line),
                });
            }
        };
        for piece in bytes.chunks(piece.max(1)) {
            records.room().extend_from_slice(piece);
            take(&mut records, false);
        }
        take(&mut records, true);
        found
    }

    fn texts(bytes: &str, delimiter: Option<u8>, most: usize) -> Vec<String> {
        let found = cut(bytes.as_bytes(), delimiter, most, 1);
        assert_eq!(cut(bytes.as_bytes(), delimiter, most, 1000), found);
        found.into_iter().map(|(text, line)| format!("{line}:{text}")).collect()
    }

    #[test]
    fn lines_end_where_they_end() {
        assert_eq!(texts("a\nb\r\n\nc", None, 9), ["1:a", "2:b", "3:", "4:c"]);
        assert_eq!(texts("\"a\nb\"\n", None, 9), ["1:\"a", "2:b\""]);
        assert_eq!(texts("", None, 9), [""; 0]);
    }

    #[test]
    fn quotes_have_line_ends_within() {
        let comma = Some(b',');
        assert_eq!(texts("a,\"b\nc\"\nd\n", comma, 99), ["1:a,\"b\nc\"", "3:d"]);
        assert_eq!(texts("5\" a\nb\"\n", comma, 99), ["1:5\" a", "2:b\""]);
        assert_eq!(texts("\"a\"\"\nb\"\nc", comma, 99), ["1:\"a\"\"\nb\"", "3:c"]);
        assert_eq!(texts("\"a\nb", comma, 99), ["1:\"a\nb"]);
    }

    /// *bounded*
    #[test]
    fn what_is_too_long_is_told_once() {
        assert_eq!(texts("abc\nabcd\nab\n", None, 3), ["1:abc", "2:...", "3:ab"]);
        assert_eq!(texts("\"abcdefg\nx\n", Some(b','), 3), ["1:...", "2:x"]);
        assert_eq!(texts("ab\nabcdef", None, 3), ["1:ab", "2:..."]);
    }

    #[test]
    fn fields_are_what_is_between_delimiters() {
        let check = |record: &str, expected: Result<&[&str], &str>| {
            let found = fields(record, b',');
            match expected {
                Ok(expected) => assert_eq!(found.expect(record), expected),
                Err(words) => assert!(found.expect_err(record).contains(words), "{record}"),
            }
        };
        check("", Ok(&[""]));
        check("a,b", Ok(&["a", "b"]));
        check(",", Ok(&["", ""]));
        check("\"a,b\",\"c\"\"d\",e\"f", Ok(&["a,b", "c\"d", "e\"f"]));
        check("\"\",\"x\ny\"", Ok(&["", "x\ny"]));
        check("\"a\"b", Err("followed by"));
        check("\"a", Err("not closed"));
        check("\"", Err("not closed"));
    }

    fn written(fields: &[String], delimiter: char) -> String {
        let one = |field: &String| {
            let is_special = |c: char| c == delimiter || matches!(c, '"' | '\n' | '\r');
            match field.contains(is_special) {
                true => format!("\"{}\"", field.replace('"', "\"\"")),
                false => field.clone(),
            }
        };
        fields.iter().map(one).collect::<Vec<_>>().join(&delimiter.to_string())
    }

    proptest! {
        #[test]
        fn what_was_written_comes_back(
            all in prop::collection::vec(
                prop::collection::vec("[a,;\"\n\r \u{e4}]{0,5}", 1..4),
                0..6,
            ),
            delimiter in prop::sample::select(vec![',', ';', ' ', '|']),
            piece in 1usize..9,
        ) {
            let text: String =
                all.iter().map(|fields| written(fields, delimiter) + "\n").collect();
            let found = cut(text.as_bytes(), Some(delimiter as u8), 999, piece);
            prop_assert_eq!(found.len(), all.len());
            for ((record, _), expected) in found.iter().zip(&all) {
                prop_assert_eq!(&fields(record, delimiter as u8).unwrap(), expected);
            }
        }

        /// *cut-anywhere*, *bounded*
        #[test]
        fn pieces_do_not_matter(
            bytes in "[ab,\"\n\r]{0,40}", most in 1usize..9, piece in 1usize..9, is_csv: bool,
        ) {
            let delimiter = is_csv.then_some(b',');
            let found = cut(bytes.as_bytes(), delimiter, most, piece);
            prop_assert_eq!(&found, &cut(bytes.as_bytes(), delimiter, most, 1000));
            prop_assert!(found.iter().all(|(text, _)| text == "..." || text.len() <= most));
        }

        #[test]
        fn foreign_bytes_do_not_panic(bytes: Vec<u8>, text: String, piece in 1usize..9) {
            let _ = cut(&bytes, Some(b','), 20, piece);
            let _ = fields(&text, b',');
        }
    }
}
