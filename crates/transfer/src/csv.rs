//! Comma-separated values: where records end, the fields of a record, and their way out.
//!
//! The dialect is the one of cqlsh's COPY, which a library does not read: an escape character
//! counts outside of quotes too. Files of RFC 4180, where a quote inside of a quoted field is
//! written twice, are read as well.
//!
//! Invariants
//!  - *one-scanner*: where a record ends and what its fields are is found by the same rules, so
//!    that a file that was cut into chunks holds the records of the whole file.
//!  - *round-trip*: the fields of what [`Dialect::write`] wrote are those that it was given,
//!    quotes of empty ones included.

/// Quotes and separators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub delimiter: u8,
    pub quote: Option<u8>,
    /// Stands before a character that is meant as it is; `None` where it is the quote.
    pub escape: Option<u8>,
    /// Bytes that mean something outside of quotes.
    special: Box<[bool; 256]>,
}

/// The end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Bytes of the record without its line end, and with it.
    pub bytes: usize,
    pub bytes_with_end: usize,
    /// Line ends in it, its own included.
    pub lines: u32,
    /// Whether a quoted field was still open, at the end of the file.
    pub is_open: bool,
}

/// The fields of one record, in memory that is used again.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    places: Vec<Place>,
    /// Fields that had to be copied: those with escapes.
    copied: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where it is in the record, with quotes and escapes.
    at: usize,
    raw_end: usize,
    start: usize,
    end: usize,
    is_copied: bool,
    is_quoted: bool,
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub bytes: &'a [u8],
    /// With its quotes and escapes.
    pub raw: &'a [u8],
    /// Whether it began with a quote: an empty one that did is an empty text and not a null.
    pub is_quoted: bool,
    /// Where it begins in the record.
    pub at: usize,
}

impl Dialect {
    /// An escape that is the quote itself stands for none: a quote is written twice then.
    pub fn new(delimiter: u8, quote: Option<u8>, escape: Option<u8>) -> Dialect {
        let escape = escape.filter(|escape| Some(*escape) != quote);
        let mut special = Box::new([false; 256]);
        special[usize::from(b'\n')] = true;
        special[usize::from(delimiter)] = true;
        if let Some(escape) = escape {
            special[usize::from(escape)] = true;
        }
        Dialect { delimiter, quote, escape, special }
    }

    /// The record at the start of `bytes`; `None`: its end is not there, and `is_last` says that
    /// more is to come.
    pub fn end(&self, bytes: &[u8], is_last: bool) -> Option<End> {
        let (mut at, mut lines) = (0, 0);
        let unended = |at, lines, is_open| End { bytes: at, bytes_with_end: at, lines, is_open };
        loop {
            let is_quoted = self.quote.is_some() && bytes.get(at).copied() == self.quote;
            if is_quoted {
                match self.close(bytes, at + 1, &mut lines) {
                    Some(after) => at = after,
                    None if is_last => return Some(unended(bytes.len(), lines, true)),
                    None => return None,
                }
            }
            at = self.plain(bytes, at, &mut lines);
            match bytes.get(at) {
                Some(b'\n') => {
                    let has_return = at.checked_sub(1).is_some_and(|last| bytes[last] == b'\r');
                    let (bytes, bytes_with_end) = (at - usize::from(has_return), at + 1);
                    return Some(End { bytes, bytes_with_end, lines: lines + 1, is_open: false });
                }
                Some(_) => at += 1,
                None if is_last => return Some(unended(bytes.len(), lines, false)),
                None => return None,
            }
        }
    }

    /// The end of what is not quoted: a delimiter, a line end, or the end of the bytes.
    fn plain(&self, bytes: &[u8], mut at: usize, lines: &mut u32) -> usize {
        loop {
            while at < bytes.len() && !self.special[usize::from(bytes[at])] {
                at += 1;
            }
            match bytes.get(at) {
                Some(byte) if Some(*byte) == self.escape => {
                    *lines += u32::from(bytes.get(at + 1) == Some(&b'\n'));
                    at = (at + 2).min(bytes.len());
                }
                _ => return at,
            }
        }
    }

    /// What follows the quote that closes a field whose content begins at `at`.
    fn close(&self, bytes: &[u8], mut at: usize, lines: &mut u32) -> Option<usize> {
        loop {
            let byte = *bytes.get(at)?;
            *lines += u32::from(byte == b'\n');
            at += 1;
            if Some(byte) == self.escape {
                *lines += u32::from(bytes.get(at) == Some(&b'\n'));
                at += 1;
            } else if Some(byte) == self.quote {
                if bytes.get(at).copied() != self.quote {
                    // The end of the bytes may hide another quote.
                    return Some(at);
                }
                at += 1;
            }
        }
    }

    /// Finds the fields of a record, without its line end.
    pub fn fields(&self, record: &[u8], fields: &mut Fields) {
        fields.places.clear();
        fields.copied.clear();
        let mut at = 0;
        loop {
            let start = at;
            let is_quoted = self.quote.is_some() && record.get(at).copied() == self.quote;
            let mut ignored = 0;
            let place =
                Place { at: start, raw_end: 0, start, end: start, is_copied: false, is_quoted };
            if is_quoted {
                at = self.close(record, at + 1, &mut ignored).unwrap_or(record.len());
                let inside = start + 1..at.saturating_sub(1).max(start + 1);
                let is_plain = record[inside.clone()]
                    .iter()
                    .all(|byte| Some(*byte) != self.escape && Some(*byte) != self.quote);
                let end = self.plain(record, at, &mut ignored);
                if is_plain && end == at {
                    fields.places.push(Place { start: inside.start, end: inside.end, ..place });
                } else {
                    fields.copy(self, &record[start..end], place);
                }
                at = end;
            } else {
                at = self.plain(record, at, &mut ignored);
                let has_escape =
                    self.escape.is_some_and(|escape| record[start..at].contains(&escape));
                match has_escape {
                    false => fields.places.push(Place { end: at, ..place }),
                    true => fields.copy(self, &record[start..at], place),
                }
            }
            if let Some(last) = fields.places.last_mut() {
                last.raw_end = at;
            }
            match record.get(at) {
                Some(byte) if *byte == self.delimiter => at += 1,
                // A line end within a record was escaped or quoted: none is left here.
                _ => return,
            }
        }
    }

    /// Appends a field, quoted and escaped where it has to be, or where it would be a null else.
    pub fn write(&self, text: &[u8], looks_null: bool, out: &mut Vec<u8>) {
        let Some(quote) = self.quote else {
            return self.escaped(text, |byte| self.special[usize::from(byte)], out);
        };
        let needs_quotes =
            |byte: &u8| *byte == self.delimiter || matches!(byte, b'\n' | b'\r') || *byte == quote;
        let is_quoted = looks_null || text.iter().any(needs_quotes);
        if !is_quoted {
            return self.escaped(text, |byte| Some(byte) == self.escape, out);
        }
        out.push(quote);
        self.escaped(text, |byte| byte == quote || Some(byte) == self.escape, out);
        out.push(quote);
    }

    fn escaped(&self, text: &[u8], special: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
        for byte in text {
            if special(*byte) {
                out.extend(self.escape.or(self.quote));
            }
            out.push(*byte);
        }
    }
}

impl Fields {
    /// Takes a field with its quotes and escapes, and keeps what it means.
    fn copy(&mut self, dialect: &Dialect, raw: &[u8], place: Place) {
        let start = self.copied.len();
        let (mut at, mut is_inside) = (usize::from(place.is_quoted), place.is_quoted);
        while let Some(byte) = raw.get(at).copied() {
            at += 1;
            if Some(byte) == dialect.escape {
                // An escape at the very end means itself.
                self.copied.push(raw.get(at).copied().unwrap_or(byte));
                at += 1;
            } else if is_inside && Some(byte) == dialect.quote {
                match raw.get(at).copied() == dialect.quote {
                    true => {
                        self.copied.push(byte);
                        at += 1;
                    }
                    false => is_inside = false,
                }
            } else {
                self.copied.push(byte);
            }
        }
        self.places.push(Place { start, end: self.copied.len(), is_copied: true, ..place });
    }

    /// The number of fields.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The field at `index` of the `record` that these were found in.
    pub fn get<'a>(&'a self, record: &'a [u8], index: usize) -> Option<Field<'a>> {
        let place = self.places.get(index)?;
        let from = if place.is_copied { &self.copied[..] } else { record };
        let bytes = &from[place.start..place.end];
        let raw = &record[place.at..place.raw_end];
        Some(Field { bytes, raw, is_quoted: place.is_quoted, at: place.at })
    }

    /// All of them, as text.
    pub fn texts(&self, record: &[u8]) -> Vec<String> {
        let field = |index| self.get(record, index).map_or(&b""[..], |field| field.bytes);
        (0..self.count()).map(|index| String::from_utf8_lossy(field(index)).into_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn copy() -> Dialect {
        Dialect::new(b',', Some(b'"'), Some(b'\\'))
    }

    fn rfc() -> Dialect {
        Dialect::new(b',', Some(b'"'), Some(b'"'))
    }

    fn records(dialect: &Dialect, text: &[u8]) -> Vec<Vec<String>> {
        let (mut rest, mut found, mut fields) = (text, Vec::new(), Fields::default());
        while !rest.is_empty() {
            let end = dialect.end(rest, true).expect("a last record ends");
            dialect.fields(&rest[..end.bytes], &mut fields);
            found.push(fields.texts(&rest[..end.bytes]));
            rest = &rest[end.bytes_with_end..];
        }
        found
    }

    fn check(dialect: &Dialect, text: &str, expected: &[&[&str]]) {
        assert_eq!(records(dialect, text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn records_and_fields() {
        check(&copy(), "a,b\nc,d\r\n", &[&["a", "b"], &["c", "d"]]);
        check(&copy(), "a,\n,\n", &[&["a", ""], &["", ""]]);
        check(&copy(), "\"a,b\",\"c\nd\"\n", &[&["a,b", "c\nd"]]);
        check(&copy(), "5\" pipe,x\n", &[&["5\" pipe", "x"]]);
        check(&copy(), "\"a\"b,c", &[&["ab", "c"]]);
        check(&copy(), "", &[]);
        check(&copy(), "\n", &[&[""]]);
    }

    #[test]
    fn escapes_count_in_and_out_of_quotes() {
        check(&copy(), r#"a\"b,"c\"d",\,,e\\"#, &[&["a\"b", "c\"d", ",", "e\\"]]);
        check(&copy(), "a\\\nb,c\n", &[&["a\nb", "c"]]);
        check(&copy(), "\"a\"\"b\",c\n", &[&["a\"b", "c"]]);
        check(&rfc(), "\"a\"\"b\",C:\\x\n", &[&["a\"b", "C:\\x"]]);
        check(&rfc(), "\"\"\"\"\n", &[&["\""]]);
        let tabs = Dialect::new(b'\t', None, Some(b'\\'));
        check(&tabs, "\"a\tb\\\tc\n", &[&["\"a", "b\tc"]]);
    }

    #[test]
    fn the_end_of_a_record_may_not_be_there_yet() {
        let text = b"a,\"b\nc\"\nd";
        let end = End { bytes: 7, bytes_with_end: 8, lines: 2, is_open: false };
        assert_eq!(copy().end(text, false), Some(end));
        (0..8).for_each(|cut| assert_eq!(copy().end(&text[..cut], false), None, "{cut}"));
        let open = copy().end(b"a,\"b", true).expect("a last record ends");
        assert!(open.is_open);
    }

    #[test]
    fn quoted_nothing_is_told_from_nothing() {
        let mut fields = Fields::default();
        copy().fields(b"\"\",", &mut fields);
        let quoted: Vec<_> =
            (0..2).map(|n| fields.get(b"\"\",", n).map(|field| field.is_quoted)).collect();
        assert_eq!(quoted, [Some(true), Some(false)]);
    }

    fn row() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[a,;\t\"\\\\\r\n ]{0,6}", 1..4)
    }

    fn dialects() -> impl Strategy<Value = Dialect> {
        let delimiter = prop_oneof![Just(b','), Just(b'\t'), Just(b';')];
        let escape = prop_oneof![Just(b'\\'), Just(b'"')];
        (delimiter, escape)
            .prop_map(|(delimiter, escape)| Dialect::new(delimiter, Some(b'"'), Some(escape)))
    }

    proptest! {
        #[test]
        fn round_trip(
            dialect in dialects(),
            rows in prop::collection::vec(row(), 1..6),
        ) {
            let mut text = Vec::new();
            for row in &rows {
                for (index, field) in row.iter().enumerate() {
                    if index != 0 {
                        text.push(dialect.delimiter);
                    }
                    dialect.write(field.as_bytes(), field.is_empty(), &mut text);
                }
                text.push(b'\n');
            }
            prop_assert_eq!(records(&dialect, &text), rows);
        }

        #[test]
        fn any_bytes_are_records(dialect in dialects(), text: Vec<u8>) {
            let bytes: usize = {
                let (mut rest, mut bytes) = (&text[..], 0);
                while !rest.is_empty() {
                    let end = dialect.end(rest, true).expect("a last record ends");
                    prop_assert!(0 < end.bytes_with_end);
                    let mut fields = Fields::default();
                    dialect.fields(&rest[..end.bytes], &mut fields);
                    prop_assert!(0 < fields.count());
                    bytes += end.bytes_with_end;
                    rest = &rest[end.bytes_with_end..];
                }
                bytes
            };
            prop_assert_eq!(bytes, text.len());
        }

        /// *one-scanner*: what comes later does not change where a record ends.
        #[test]
        fn cuts_change_nothing(text in "[a,\"\\\\\r\n]{0,30}", cut in 0usize..30) {
            let (dialect, text) = (copy(), text.as_bytes());
            let whole = dialect.end(text, true);
            if let Some(end) = dialect.end(&text[..cut.min(text.len())], false) {
                prop_assert_eq!(Some(end), whole);
            }
        }
    }
}
