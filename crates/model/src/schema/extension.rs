//! Texts by name, as ScyllaDB keeps them in an extension of a table, and its drivers read them.
//! Pure.
//!
//! ```text
//! texts := count:le32 (name:le32_bytes value:le32_bytes)*
//! ```

use stdx::{Cursor, Damaged, Put};

/// The bytes of texts by name.
pub fn write_texts<'t>(texts: impl ExactSizeIterator<Item = (&'t str, &'t str)>) -> Vec<u8> {
    let mut out = Vec::new();
    out.put(&(texts.len() as u32).to_le_bytes());
    for text in texts.flat_map(|(name, value)| [name, value]) {
        out.put(&(text.len() as u32).to_le_bytes());
        out.put(text.as_bytes());
    }
    out
}

/// The texts of some bytes, by name, up to where those are damaged. Allocates nothing.
pub fn read_texts(bytes: &[u8]) -> impl Iterator<Item = Result<(&str, &str), Damaged>> {
    let mut cursor = Cursor::new(bytes);
    let mut left = number(&mut cursor).map_or(0, |count| count as usize);
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let pair = text(&mut cursor).and_then(|name| Ok((name, text(&mut cursor)?)));
        if pair.is_err() {
            left = 0;
        }
        Some(pair)
    })
}

fn text<'b>(cursor: &mut Cursor<'b>) -> Result<&'b str, Damaged> {
    let bytes = number(cursor)? as usize;
    let text = cursor.take(bytes, "a text of an extension")?;
    std::str::from_utf8(text).map_err(|_| Damaged::new("a text of an extension is not UTF-8", 0))
}

fn number(cursor: &mut Cursor<'_>) -> Result<u32, Damaged> {
    Ok(u32::from_le_bytes(cursor.array("a number of an extension")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn written(texts: &BTreeMap<String, String>) -> Vec<u8> {
        write_texts(texts.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }

    #[test]
    fn texts_have_their_lengths_before_them() {
        let bytes = write_texts([("a", "bc"), ("", "")].into_iter());
        assert_eq!(bytes, b"\x02\0\0\0\x01\0\0\0a\x02\0\0\0bc\0\0\0\0\0\0\0\0");
    }

    proptest! {
        #[test]
        fn texts_go_both_ways(texts: BTreeMap<String, String>) {
            let bytes = written(&texts);
            let found: Result<Vec<(&str, &str)>, Damaged> = read_texts(&bytes).collect();
            let expected: Vec<(&str, &str)> =
                texts.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            prop_assert_eq!(found.unwrap(), expected);
        }

        #[test]
        fn foreign_bytes_end(bytes: Vec<u8>) {
            prop_assert!(read_texts(&bytes).count() <= 1 + bytes.len() / 8);
        }
    }
}
