//! The cases: which shapes of data are merged.

/// Rows of each small partition of the case with a few.
const FEW: u64 = 4;

/// A shape of data.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(super) shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Partitions of so many rows; every second one of a memtable was merged lately.
    Small(u64),
    /// Rows all over a large partition; every second one is new.
    Large,
    /// One range tombstone over all of a large partition.
    Tombstone,
    /// Range tombstones all over a large partition.
    Tombstones,
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "small-partitions",
        about: "Small partitions, no overwrites within a memtable",
        shape: Shape::Small(1),
    },
    Case {
        name: "small-partitions-few-rows",
        about: "Small partitions with a few rows",
        shape: Shape::Small(FEW),
    },
    Case {
        name: "large-partition",
        about: "Large partition, lots of small rows",
        shape: Shape::Large,
    },
    Case {
        name: "range-tombstone",
        about: "Large partition, lots of small rows, all covered by one range tombstone",
        shape: Shape::Tombstone,
    },
    Case {
        name: "range-tombstones",
        about: "Large partition, lots of range tombstones",
        shape: Shape::Tombstones,
    },
];
