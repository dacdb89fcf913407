//! Names and values of compaction options, as a table was given them. What makes no sense is taken
//! for what is usual.

use std::str::FromStr;

/// Names and values of options.
pub(super) struct Given<'o>(pub(super) &'o [(String, String)]);

impl Given<'_> {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value of an option if it makes sense, or what is usual.
    pub(super) fn or<T: FromStr + PartialOrd>(&self, name: &str, least: T, usual: T) -> T {
        let parsed = self.text(name).and_then(|value| value.parse::<T>().ok());
        parsed.filter(|value| least <= *value).unwrap_or(usual)
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.text(name)?.to_ascii_lowercase().parse().ok()
    }

    /// The value in MiB, as bytes.
    pub(super) fn mebibytes(&self, name: &str, usual: u64) -> u64 {
        self.or(name, 1, usual).saturating_mul(1 << 20)
    }
}
