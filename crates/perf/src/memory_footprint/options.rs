//! The command line of `memory-footprint`.

use crate::given::{Given, ranged, text};
use crate::tool::{Bench, Tool};
use clap::Arg;
use options::Values;
use std::path::PathBuf;

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) columns: usize,
    pub(super) column_letters: usize,
    pub(super) rows: u64,
    pub(super) partitions: u64,
    pub(super) partition_key_bytes: usize,
    pub(super) clustering_key_bytes: usize,
    pub(super) cell_bytes: usize,
    pub(super) json_result: Option<PathBuf>,
}

impl Tool for Options {
    const NAME: &'static str = "memory-footprint";
    const ABOUT: &'static str = "Measures what rows take in memory and in SSTables";
    const PREFERRED: &'static [(&'static str, &'static str)] = &[
        ("smp", "1"),
        ("default_log_level", "warn"),
        ("blocked_reactor_notify_ms", "-1"),
        ("unsafe_bypass_fsync", "1"),
    ];

    fn args() -> Vec<Arg> {
        const KEY: (u64, u64) = (1, 60 << 10);
        const ANY: (u64, u64) = (1, u64::MAX);
        vec![
            ranged("column-count", "5", (0, 1000), "Columns of a row"),
            ranged("column-name-size", "2", (1, 48), "Letters of a column's name"),
            ranged("row-count", "1", ANY, "Rows of each partition"),
            ranged("partition-count", "1", ANY, "Partitions; with few, fixed costs dominate"),
            ranged("partition-key-size", "10", KEY, "Bytes of a partition key"),
            ranged("clustering-key-size", "10", KEY, "Bytes of a clustering key"),
            ranged("data-size", "32", (0, 1 << 24), "Bytes of each cell"),
            text("json-result", "FILE", "Write the result to this file as well"),
        ]
    }

    fn take(given: &Given) -> Result<Options, String> {
        let options = Options {
            columns: given.count("column-count"),
            column_letters: given.count("column-name-size"),
            rows: given.number("row-count"),
            partitions: given.number("partition-count"),
            partition_key_bytes: given.count("partition-key-size"),
            clustering_key_bytes: given.count("clustering-key-size"),
            cell_bytes: given.count("data-size"),
            json_result: given.path("json-result"),
        };
        let names = 26usize.saturating_pow(options.column_letters as u32);
        if names < options.columns {
            return Err("--column-name-size: as many names of this size there are not".to_string());
        }
        let distinct = |name: &str, bytes: usize, count: u64| match bytes {
            ..8 if 1 << (8 * bytes) < count => {
                Err(format!("--{name}: as many keys of this size there are not"))
            }
            _ => Ok(()),
        };
        distinct("partition-key-size", options.partition_key_bytes, options.partitions)?;
        distinct("clustering-key-size", options.clustering_key_bytes, options.rows)?;
        Ok(options)
    }

    fn adjust(&self, node: &mut Values) -> Result<(), String> {
        match node.integer("smp") {
            1 => Ok(()),
            _ => Err("one memtable and one cache are looked at: -c 1".to_string()),
        }
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        super::measure(self, bench).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{check_refusals, options};

    #[test]
    fn what_is_given_counts() {
        let (given, _) = options::<Options>("");
        assert_eq!((given.columns, given.column_letters, given.cell_bytes), (5, 2, 32));
        assert_eq!((given.rows, given.partitions), (1, 1));
        assert_eq!((given.partition_key_bytes, given.clustering_key_bytes), (10, 10));
        let (given, _) = options::<Options>("--row-count 7 --data_size=0 --column-count 26");
        assert_eq!((given.rows, given.cell_bytes, given.columns), (7, 0, 26));
    }

    #[test]
    fn refusals() {
        check_refusals::<Options>(&[
            ("--column-count 27 --column-name-size 1", "as many names"),
            ("--partition-key-size 1 --partition-count 300", "--partition-key-size: as many keys"),
            ("--row-count 0", "0 is not in 1.."),
            ("--clustering-key-size 70000", "70000 is not in 1..=61440"),
            ("-c 2", "-c 1"),
        ]);
    }
}
