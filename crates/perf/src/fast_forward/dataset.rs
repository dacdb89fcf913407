//! The data sets: their tables, keys and rows.

use model::{DecoratedKey, TableSchema};
use mutation::{Cell, ClusteringPosition, FrozenMutation, MutationBuilder, RowBuilder};
use stdx::{Bytes, Prng};

/// The keyspace of all tables.
pub(crate) const KEYSPACE: &str = "ks";

/// The write time of all rows, in microseconds: constant, so that every run writes the same.
const TIMESTAMP: i64 = 1_700_000_000_000_000;

/// How rows are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All in one partition.
    Large,
    /// Each in a partition of its own.
    Small,
}

/// The type of the key columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyType {
    Int,
    Bigint,
}

/// A data set.
#[derive(Debug)]
pub(crate) struct Dataset {
    pub(crate) name: &'static str,
    pub(crate) table: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: bool,
    key: KeyType,
    /// Whether there is a clustering column.
    clustered: bool,
    value_column: &'static str,
}

/// All data sets.
pub(crate) const DATASETS: &[Dataset] = &[
    Dataset {
        name: "large-part-ds1",
        table: "large_part_ds1",
        kind: Kind::Large,
        default: true,
        key: KeyType::Int,
        clustered: true,
        value_column: "value",
    },
    Dataset {
        name: "small-part",
        table: "small_part",
        kind: Kind::Small,
        default: true,
        key: KeyType::Int,
        clustered: false,
        value_column: "value",
    },
    Dataset {
        name: "sb-large-part-ds1",
        table: "sb_large_part_ds1",
        kind: Kind::Large,
        default: false,
        key: KeyType::Bigint,
        clustered: true,
        value_column: "v",
    },
    Dataset {
        name: "sb-small-part",
        table: "sb_small_part",
        kind: Kind::Small,
        default: false,
        key: KeyType::Bigint,
        clustered: true,
        value_column: "v",
    },
];

impl Dataset {
    /// Its CREATE TABLE.
    pub(crate) fn create(&self, compressed: bool) -> String {
        let key = match self.key {
            KeyType::Int => "int",
            KeyType::Bigint => "bigint",
        };
        let (clustering, primary) = match self.clustered {
            true => (format!(", ck {key}"), "pk, ck"),
            false => (String::new(), "pk"),
        };
        let compression = if compressed { "LZ4Compressor" } else { "" };
        format!(
            "CREATE TABLE {KEYSPACE}.{} (pk {key}{clustering}, {} blob, PRIMARY KEY ({primary})) \
             WITH compression = {{'sstable_compression': '{compression}'}} AND compaction = \
             {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}",
            self.table, self.value_column
        )
    }

    /// A key's bytes stand at the end of these: reads that are measured pay for little of it.
    fn number(&self, number: u64) -> ([u8; 8], usize) {
        match self.key {
            KeyType::Int => (u64::from(number as u32).to_be_bytes(), 4),
            KeyType::Bigint => (number.to_be_bytes(), 0),
        }
    }

    /// The partition of a row.
    pub(crate) fn partition_of(&self, row: u64) -> u64 {
        match self.kind {
            Kind::Large => 0,
            Kind::Small => row,
        }
    }

    /// The key of a partition.
    pub(crate) fn partition_key(&self, partition: u64) -> DecoratedKey {
        let (bytes, from) = self.number(partition);
        DecoratedKey::new(Bytes::copy_from(&bytes[from..]))
    }

    /// The clustering key of the row `number` of a partition.
    pub(crate) fn clustering_key(&self, number: u64) -> Bytes {
        if !self.clustered {
            return Bytes::new();
        }
        let (bytes, from) = self.number(number);
        let component = &bytes[from..];
        // A length in 16 bits, then the component.
        let mut key = [0; 10];
        key[1] = component.len() as u8;
        key[2..2 + component.len()].copy_from_slice(component);
        Bytes::copy_from(&key[..2 + component.len()])
    }

    /// The place before row `number` of the large partition.
    pub(crate) fn before(&self, number: u64) -> ClusteringPosition {
        ClusteringPosition::before(self.clustering_key(number))
    }

    /// The place after row `number` of the large partition.
    pub(crate) fn after(&self, number: u64) -> ClusteringPosition {
        ClusteringPosition::after(self.clustering_key(number))
    }

    /// The mutation that writes one row.
    pub(crate) fn mutation(
        &self,
        schema: &TableSchema,
        row: u64,
        value_bytes: usize,
    ) -> FrozenMutation {
        let (bytes, from) = self.number(self.partition_of(row));
        let clustering = match self.kind {
            Kind::Large => self.clustering_key(row),
            Kind::Small => self.clustering_key(0),
        };
        let mut value = vec![0; value_bytes];
        Prng::from_seed(row).fill(&mut value);
        let mut builder = MutationBuilder::new(schema, &bytes[from..]);
        let mut cells = RowBuilder::new(Vec::new());
        let column = schema.column(self.value_column).expect("the table has its value column");
        cells.cell(column.id, Cell::live(TIMESTAMP, &value));
        builder.row(&clustering, &cells.finish());
        builder.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_model() {
        for dataset in DATASETS.iter().filter(|one| one.clustered) {
            for number in [0, 1, 255, 500_000] {
                let component = match dataset.key {
                    KeyType::Int => (number as i32).to_be_bytes().to_vec(),
                    KeyType::Bigint => (number as i64).to_be_bytes().to_vec(),
                };
                let mut key = Vec::new();
                model::key::push_clustering(&component, &mut key);
                assert_eq!(dataset.clustering_key(number)[..], key[..]);
                assert_eq!(dataset.partition_key(number).key[..], component[..]);
            }
        }
    }
}
