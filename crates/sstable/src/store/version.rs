//! Versions of the format that are read, and what tells them apart.
//!
//! Invariants
//!  - *asked-not-compared*: nothing compares versions; what differs between them has a predicate
//!    here.

use crate::mx::layout::DeletionForm;

/// A version of the format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Cassandra 3.0.8 and later.
    Mc,
    /// As `mc`; the bounds of clustering keys can be trusted.
    Md,
    /// As `md`, with the id of the writing host.
    Me,
    /// As `me`, with a trie index, whose keys are by column.
    Ms,
    /// As `ms`; the keys of the index are as in Data.db.
    Mt,
    /// Cassandra 4: as `me`, with checksums in Statistics.db.
    Nb,
    /// Cassandra 5, big format: unsigned deletion times, typed clustering bounds.
    Oa,
    /// Cassandra 5, trie format: as `oa`, with a trie index.
    Da,
}

/// The order of bytes in the words of Filter.db.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterForm {
    /// Most significant first.
    BigEndian,
    /// Least significant first: Cassandra 4 and later.
    LittleEndian,
}

impl Version {
    /// All of them.
    pub const ALL: [Version; 8] = [
        Version::Mc,
        Version::Md,
        Version::Me,
        Version::Ms,
        Version::Mt,
        Version::Nb,
        Version::Oa,
        Version::Da,
    ];

    /// Those that are written, older ones first.
    pub const WRITTEN: [Version; 4] = [Version::Md, Version::Me, Version::Ms, Version::Mt];

    /// Whether SSTables of this version are written.
    pub fn is_written(self) -> bool {
        Version::WRITTEN.contains(&self)
    }

    /// Whether it is `target` or came after it, of those that are written: such a file has nothing
    /// to gain from being written anew as `target`.
    pub fn is_at_least(self, target: Version) -> bool {
        debug_assert!(Version::WRITTEN.is_sorted(), "older ones first");
        let place = |version| Version::WRITTEN.iter().position(|one| *one == version);
        place(self).is_some_and(|own| place(target).is_some_and(|other| other <= own))
    }

    /// Its two letters.
    pub fn name(self) -> &'static str {
        match self {
            Version::Mc => "mc",
            Version::Md => "md",
            Version::Me => "me",
            Version::Ms => "ms",
            Version::Mt => "mt",
            Version::Nb => "nb",
            Version::Oa => "oa",
            Version::Da => "da",
        }
    }

    /// The version of two letters.
    pub fn of(name: &str) -> Option<Version> {
        debug_assert!(Version::ALL.iter().all(|one| one.name().len() == 2), "two letters");
        Version::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The word for the format in file names.
    pub fn format_word(self) -> &'static str {
        match self {
            Version::Da => "bti",
            _ => "big",
        }
    }

    /// Whether there are Partitions.db and Rows.db instead of Index.db and Summary.db.
    pub fn has_trie_index(self) -> bool {
        matches!(self, Version::Ms | Version::Mt | Version::Da)
    }

    /// Whether bounds of clustering keys in its statistics can be trusted.
    pub fn has_clustering_bounds(self) -> bool {
        self != Version::Mc
    }

    /// Whether those bounds are a slice with the types of its values, not two lists of values.
    pub fn has_typed_bounds(self) -> bool {
        self.is_cassandra_5()
    }

    /// How deletion times of partitions, and those in the index, are written.
    pub fn deletion_form(self) -> DeletionForm {
        match self.is_cassandra_5() {
            true => DeletionForm::Flagged,
            false => DeletionForm::Plain,
        }
    }

    /// Whether deletion times and expiries are unsigned 32-bit numbers, not signed ones.
    pub fn has_unsigned_times(self) -> bool {
        self.is_cassandra_5()
    }

    /// Whether its statistics have the id of the host that wrote them.
    pub fn has_host_id(self) -> bool {
        !matches!(self, Version::Mc | Version::Md)
    }

    /// Whether parts of Statistics.db have checksums.
    pub fn has_statistics_checksums(self) -> bool {
        self.is_cassandra_4()
    }

    /// Whether its statistics have a repair session and whether the file is transient.
    pub fn has_repair_session(self) -> bool {
        self.is_cassandra_4()
    }

    /// Whether CompressionInfo.db has the length from which on a chunk is not compressed.
    pub fn has_compressed_length_max(self) -> bool {
        self.is_cassandra_4()
    }

    /// The order of bytes in its filter.
    pub fn filter_form(self) -> FilterForm {
        match self.is_cassandra_4() {
            true => FilterForm::LittleEndian,
            false => FilterForm::BigEndian,
        }
    }

    /// Of Cassandra 4 or later.
    fn is_cassandra_4(self) -> bool {
        matches!(self, Version::Nb | Version::Oa | Version::Da)
    }

    /// Of Cassandra 5 or later.
    fn is_cassandra_5(self) -> bool {
        let is_five = matches!(self, Version::Oa | Version::Da);
        debug_assert!(!is_five || self.is_cassandra_4(), "{} is after 4 and 5", self.name());
        is_five
    }
}

const _: () = assert!(Version::WRITTEN.len() < Version::ALL.len());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_versions_gain_nothing() {
        let check = |one: Version, target: Version, expected: bool| {
            assert_eq!(one.is_at_least(target), expected, "{} {}", one.name(), target.name());
        };
        check(Version::Ms, Version::Ms, true);
        check(Version::Mt, Version::Ms, true);
        check(Version::Me, Version::Ms, false);
        check(Version::Mc, Version::Md, false);
        // Files of Cassandra are of another line.
        check(Version::Da, Version::Ms, false);
        assert!(!Version::Mc.is_written() && Version::Md.is_written());
    }
}
