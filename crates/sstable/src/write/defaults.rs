//! How SSTables are written where their table does not say.

use crate::statistics::LargeLimits;
use crate::store::Version;
use model::schema::TableOptions;

/// What a node is configured to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterDefaults {
    /// The version.
    pub version: Version,
    /// Bytes of rows after which the index of a partition has a new block.
    pub column_index_bytes: usize,
    /// Bytes of the index of a partition after which its blocks double.
    pub column_index_scale_bytes: usize,
    /// From which on what is written counts as large.
    pub large: LargeLimits,
}

impl Default for WriterDefaults {
    fn default() -> WriterDefaults {
        WriterDefaults {
            version: Version::Me,
            column_index_bytes: 64 << 10,
            column_index_scale_bytes: 10 << 20,
            large: LargeLimits::USUAL,
        }
    }
}

impl WriterDefaults {
    /// The version of that name, if it is one that tables are written in.
    pub fn version_of(name: &str) -> Option<Version> {
        match name {
            "me" => Some(Version::Me),
            "ms" => Some(Version::Ms),
            "mt" => Some(Version::Mt),
            _ => None,
        }
    }

    /// With what a table's own options say. CREATE TABLE lets in no others; what another program
    /// has stored and is none of ours is passed over.
    pub fn of_table(self, options: &TableOptions) -> WriterDefaults {
        let version = options.extension(TableOptions::SSTABLE_FORMAT).and_then(Self::version_of);
        let kib = options.extension(TableOptions::COLUMN_INDEX_KIB);
        let kib = kib.and_then(|kib| kib.parse::<u32>().ok()).filter(|kib| 0 < *kib);
        debug_assert!(self.version.is_written(), "{} is not written", self.version.name());
        WriterDefaults {
            version: version.unwrap_or(self.version),
            column_index_bytes: kib.map_or(self.column_index_bytes, |kib| (kib as usize) << 10),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_more_than_its_node() {
        let check = |kib: Option<&str>, format: Option<&str>, expected: (usize, Version)| {
            let mut options = TableOptions::new();
            options.set_extension(TableOptions::COLUMN_INDEX_KIB, kib);
            options.set_extension(TableOptions::SSTABLE_FORMAT, format);
            let node = WriterDefaults { column_index_bytes: 777, ..WriterDefaults::default() };
            let found = node.of_table(&options);
            assert_eq!((found.column_index_bytes, found.version), expected);
            assert_eq!(found.column_index_scale_bytes, 10 << 20);
        };
        check(None, None, (777, Version::Me));
        check(Some("1"), Some("ms"), (1024, Version::Ms));
        check(None, Some("mt"), (777, Version::Mt));
        check(Some("0"), Some("da"), (777, Version::Me));
        check(Some("x"), Some(""), (777, Version::Me));
    }
}
