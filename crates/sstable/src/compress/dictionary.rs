//! Shared dictionaries: bytes that chunks of a file are likely to repeat. One stands in
//! CompressionInfo.db as options whose names a user never sees.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;
use zstd::zstd_safe::DDict;

/// How the names of options that hold a dictionary start; the number of the part follows.
const OPTION: &str = ".dictionary.";
/// Bytes of a part at most: its length has 16 bits.
const PART_BYTES_MAX: usize = u16::MAX as usize - 1;
/// What LZ4 can reach back to.
const LZ4_WINDOW_BYTES: usize = 64 << 10;

const _: () = assert!(PART_BYTES_MAX <= u16::MAX as usize);

/// A dictionary; clones share it.
#[derive(Clone)]
pub struct Dictionary {
    inner: Rc<Inner>,
}

struct Inner {
    bytes: Vec<u8>,
    /// Made of the bytes when it is needed first.
    zstd: OnceCell<DDict<'static>>,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} bytes)", self.inner.bytes.len())
    }
}
impl PartialEq for Dictionary {
    fn eq(&self, other: &Dictionary) -> bool {
        self.inner.bytes == other.inner.bytes
    }
}
impl Eq for Dictionary {}

impl Dictionary {
    /// The dictionary of these bytes.
    pub fn new(bytes: Vec<u8>) -> Dictionary {
        Dictionary { inner: Rc::new(Inner { bytes, zstd: OnceCell::new() }) }
    }

    /// A dictionary of at most `bytes_max` bytes made of samples: chunks of the data to come. The
    /// error says what is wrong with the samples. Takes long: not for a task that others wait for.
    pub fn train(samples: &[&[u8]], bytes_max: usize) -> Result<Dictionary, String> {
        let trained = zstd::dict::from_samples(samples, bytes_max);
        let trained = trained.map_err(|error| format!("no dictionary: {error}"))?;
        debug_assert!(trained.len() <= bytes_max, "a dictionary of {} bytes", trained.len());
        Ok(Dictionary::new(trained))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.inner.bytes
    }

    /// What LZ4 uses of it: the end.
    pub(crate) fn lz4_window(&self) -> &[u8] {
        let bytes = self.bytes();
        debug_assert!(!bytes.is_empty(), "a dictionary of no byte");
        &bytes[bytes.len().saturating_sub(LZ4_WINDOW_BYTES)..]
    }

    /// The form that Zstandard uses.
    pub(crate) fn zstd(&self) -> &DDict<'static> {
        self.inner.zstd.get_or_init(|| DDict::create(&self.inner.bytes))
    }

    /// The options that hold it.
    pub(crate) fn options(&self) -> impl Iterator<Item = (String, &[u8])> {
        let parts = self.bytes().chunks(PART_BYTES_MAX).enumerate();
        parts.map(|(number, part)| (format!("{OPTION}{number:08}"), part))
    }

    /// The dictionary that options hold, if they do. The error is the broken rule.
    pub(crate) fn of_options(
        options: &[(&[u8], &[u8])],
    ) -> Result<Option<Dictionary>, &'static str> {
        let mut parts = Vec::new();
        for (name, part) in options {
            let Some(number) = name.strip_prefix(OPTION.as_bytes()) else { continue };
            let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
            parts.push((number.ok_or("dictionary part without a number")?, *part));
        }
        parts.sort_unstable_by_key(|(number, _): &(usize, _)| *number);
        if parts.iter().enumerate().any(|(index, (number, _))| index != *number) {
            return Err("dictionary with a part missing");
        }
        let bytes: Vec<u8> = parts.iter().flat_map(|(_, part)| part.iter().copied()).collect();
        Ok((!bytes.is_empty()).then(|| Dictionary::new(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_round_trip() {
        for length in [1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 3 * PART_BYTES_MAX + 7] {
            let bytes: Vec<u8> = (0..length).map(|index| (index * 7 / 5) as u8).collect();
            let dictionary = Dictionary::new(bytes);
            let named: Vec<(String, &[u8])> = dictionary.options().collect();
            let mut options: Vec<(&[u8], &[u8])> =
                named.iter().map(|(name, part)| (name.as_bytes(), *part)).collect();
            assert_eq!(options[0].0, b".dictionary.00000000");
            options.reverse();
            options.push((b"compression_level", b"3"));
            assert_eq!(Dictionary::of_options(&options), Ok(Some(dictionary.clone())));
            options.retain(|(name, _)| *name != b".dictionary.00000000");
            let without = Dictionary::of_options(&options);
            assert_eq!(without.is_ok(), named.len() == 1);
        }
        assert!(Dictionary::of_options(&[(b".dictionary.x", b"")]).is_err());
        assert_eq!(Dictionary::of_options(&[]), Ok(None));
    }
}
