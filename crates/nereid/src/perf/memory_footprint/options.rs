//! The command line of `memory-footprint`.

use crate::options::Values;
use crate::perf::tool::{Bench, Tool};
use crate::perf::words::Words;
use std::path::PathBuf;

const USAGE: &str = "\
usage: nereid memory-footprint [OPTIONS]
  --column-count N         [5]
  --column-name-size N     letters [2]
  --row-count N            rows of each partition [1]
  --partition-count N      with few of them, what is there once is most of a figure [1]
  --partition-key-size N   bytes [10]
  --clustering-key-size N  bytes [10]
  --data-size N            bytes of each cell [32]
  --json-result FILE       write the result there too
and the options of the server: -m SIZE, --workdir DIR, ...";

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
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] = &[
        ("smp", "1"),
        ("default_log_level", "warn"),
        ("blocked_reactor_notify_ms", "-1"),
        ("unsafe_bypass_fsync", "1"),
    ];

    fn take(words: &mut Words) -> Result<Options, String> {
        let mut number = |name: &str, default: u64, least: u64, most: u64| {
            let given = words.number(name)?.unwrap_or(default);
            match (least..=most).contains(&given) {
                true => Ok(given),
                false => Err(format!("--{name}: {given} is not between {least} and {most}")),
            }
        };
        const KEY_BYTES_MAX: u64 = 60 << 10;
        let options = Options {
            columns: number("column-count", 5, 0, 1000)? as usize,
            column_letters: number("column-name-size", 2, 1, 48)? as usize,
            rows: number("row-count", 1, 1, u64::MAX)?,
            partitions: number("partition-count", 1, 1, u64::MAX)?,
            partition_key_bytes: number("partition-key-size", 10, 1, KEY_BYTES_MAX)? as usize,
            clustering_key_bytes: number("clustering-key-size", 10, 1, KEY_BYTES_MAX)? as usize,
            cell_bytes: number("data-size", 32, 0, 1 << 24)? as usize,
            json_result: words.text("json-result")?.map(PathBuf::from),
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
    use crate::perf::tool::testing::{check_refusals, options};

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
            ("--row-count 0", "--row-count: 0 is not between"),
            ("--clustering-key-size 70000", "--clustering-key-size: 70000 is not between"),
            ("-c 2", "-c 1"),
        ]);
    }
}
