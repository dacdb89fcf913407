//! The command line of `perf-simple-query`: its own options, and those of the node that it runs.

use crate::node;
use crate::options::{Source, Values};
use crate::perf::words::{Words, prefer};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    Delete,
    CounterUpdate,
}

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) operation: Operation,
    pub(crate) counters: bool,
    pub(crate) partitions: u64,
    pub(crate) collection: u64,
    pub(crate) duration: u64,
    pub(crate) operations_per_shard: Option<u64>,
    pub(crate) concurrency: u64,
    pub(crate) single_key: bool,
    /// Each shard takes the keys that it owns.
    pub(crate) shard_aware: bool,
    pub(crate) flush: bool,
    pub(crate) memtable_partitions: Option<u64>,
    pub(crate) bypass_cache: bool,
    pub(crate) timeout: String,
    pub(crate) stop_on_error: bool,
    pub(crate) tablets: Option<u64>,
    pub(crate) consistency: replication::Consistency,
    pub(crate) json_result: Option<PathBuf>,
    /// The node's own options.
    pub(crate) common: Values,
}

const USAGE: &str = "\
usage: nereid perf-simple-query [OPTIONS]
  --partitions N           partitions of the data set [10000]
  --write | --delete | --counters      instead of reads
  --collection N           a map column with N cells per row [0]
  --duration N             samples of one second [5]
  --operations-per-shard N a sample is so many operations instead
  --concurrency N          workers per shard [100]
  --query-single-key       always the first key
  --flush                  flush memtables before the test
  --memtable-partitions N  flush after every N partitions while populating
  --shard-aware 0|1        each shard takes keys of its own [1]
  --enable-index-cache 0|1 [1]
  --enable-cache 0|1       no meaning yet: there is no row cache
  --sstable-format F       me or ms
  --bypass-cache           SELECT .. BYPASS CACHE
  --timeout D              USING TIMEOUT D
  --stop-on-error 0|1      end at the first error [1]
  --tablets                the keyspace has tablets
  --initial-tablets N      so many [128]
  --consistency-level L    [QUORUM]
  --json-result FILE       write the result there too
and the options of the server: -c N shards, -m SIZE memory, --default-log-level, ...";

impl Options {
    /// Reads the words after the tool's name; the error is what to print.
    pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
        let mut rest = Words::new(words);
        if rest.flag("help") {
            return Err(USAGE.to_string());
        }
        refuse_unable(&mut rest)?;
        let counters = rest.flag("counters");
        let has_tablets = rest.flag("tablets");
        let initial_tablets = rest.number("initial-tablets")?.unwrap_or(128);
        let options = Options {
            operation: operation(rest.flag("write"), rest.flag("delete"), counters)?,
            counters,
            partitions: rest.number("partitions")?.unwrap_or(10_000).max(1),
            collection: rest.number("collection")?.unwrap_or(0),
            duration: rest.number("duration")?.unwrap_or(5).max(1),
            operations_per_shard: rest.number("operations-per-shard")?.filter(|n| 0 < *n),
            concurrency: rest.number("concurrency")?.unwrap_or(100).max(1),
            single_key: rest.flag("query-single-key"),
            shard_aware: rest.truth("shard-aware", true)?,
            flush: rest.flag("flush"),
            memtable_partitions: rest.number("memtable-partitions")?.filter(|count| 0 < *count),
            bypass_cache: rest.flag("bypass-cache"),
            timeout: rest.text("timeout")?.unwrap_or_default(),
            stop_on_error: rest.truth("stop-on-error", true)?,
            tablets: has_tablets.then_some(initial_tablets),
            consistency: consistency(&mut rest)?,
            json_result: rest.text("json-result")?.map(PathBuf::from),
            common: common(rest)?,
        };
        Ok(options)
    }

    /// Samples to take.
    pub(crate) fn samples(&self) -> u64 {
        self.duration
    }

    /// Keeps the node's data in `folder`.
    pub(crate) fn in_folder(&mut self, folder: &Path) {
        prefer(&mut self.common, "workdir", &folder.display().to_string());
        prefer(&mut self.common, "unsafe_bypass_fsync", "1");
        prefer(&mut self.common, "commitlog_sync", "periodic");
        prefer(&mut self.common, "smp", "1");
    }

    /// The node that is measured.
    pub(crate) fn node_config(&self, shards: u16) -> Result<node::Config, String> {
        let mut config = node::config(&self.common, shards)?;
        // Population goes as fast as memtables are flushed, on a slow machine too.
        config.boot.storage.write_wait_max = Duration::from_secs(60);
        Ok(config)
    }

    /// `read`, `write`, `delete`, with `_counters` for counters.
    pub(crate) fn kind(&self) -> String {
        let kind = match self.operation {
            Operation::Read => "read",
            Operation::Write | Operation::CounterUpdate => "write",
            Operation::Delete => "delete",
        };
        if self.counters { format!("{kind}_counters") } else { kind.to_string() }
    }

    /// The first line of the output.
    pub(crate) fn heading(&self, shards: u16) -> String {
        format!(
            "Running test with config: {{partitions={}, concurrency={}, mode={}, shards={shards}, \
             query_single_key={}, collection={}}}",
            self.partitions,
            self.concurrency,
            self.kind(),
            self.single_key,
            self.collection,
        )
    }
}

fn operation(write: bool, delete: bool, counters: bool) -> Result<Operation, String> {
    match (write, delete, counters) {
        (false, true, _) => Ok(Operation::Delete),
        (true, false, true) => Ok(Operation::CounterUpdate),
        (true, false, false) => Ok(Operation::Write),
        (false, false, _) => Ok(Operation::Read),
        (true, true, _) => Err("--write and --delete exclude each other".to_string()),
    }
}

fn consistency(words: &mut Words) -> Result<replication::Consistency, String> {
    let level = words.text("consistency-level")?.unwrap_or("QUORUM".to_string());
    let all = (0..=10).filter_map(replication::Consistency::from_wire);
    let found = all.into_iter().find(|known| known.name() == level);
    found.ok_or(format!("--consistency-level: no such level: {level}"))
}

/// Refuses options of runs that others publish whose measurement would not be the one asked for.
fn refuse_unable(words: &mut Words) -> Result<(), String> {
    if words.truth("strongly-consistent-tables", false)? {
        return Err("--strongly-consistent-tables: there are no such tables yet".to_string());
    }
    if words.text("sstable-summary-ratio")?.is_some() {
        return Err("--sstable-summary-ratio: the ratio is fixed".to_string());
    }
    for name in ["audit", "audit-keyspaces", "audit-tables", "audit-categories"] {
        if words.text(name)?.is_some_and(|value| !value.is_empty() && value != "none") {
            return Err(format!("--{name}: there is no audit yet"));
        }
    }
    Ok(())
}

/// What is left: options of the node, and those that stand for one.
fn common(mut words: Words) -> Result<Values, String> {
    // There is no row cache yet: with it or without it is the same.
    words.truth("enable-cache", true)?;
    let index_cache = words.truth("enable-index-cache", true)?;
    let format = words.text("sstable-format")?;
    let mut values = words.rest()?;
    if !index_cache {
        set(&mut values, "cache_index_pages", "0")?;
        set(&mut values, "index_cache_fraction", "0")?;
    }
    if let Some(format) = format {
        crate::perf::writable(&format)?;
        set(&mut values, "sstable_format", &format)?;
    }
    Ok(values)
}

fn set(values: &mut Values, name: &str, value: &str) -> Result<(), String> {
    let set = values.set(name, vec![value.to_string()], Source::CommandLine);
    set.map_err(|refused| refused.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn own_options_and_those_of_the_node() {
        let options =
            parse("-c1 -m2G --write --collection=16 --partitions 5 --timeout 1s").unwrap();
        assert_eq!(options.operation, Operation::Write);
        assert_eq!((options.collection, options.partitions), (16, 5));
        assert_eq!(options.common.text("smp"), "1");
        assert_eq!(options.common.text("memory"), "2G");
        assert_eq!(options.kind(), "write");
        assert_eq!(parse("--write --counters").unwrap().kind(), "write_counters");
        assert_eq!(parse("").unwrap().operation, Operation::Read);
    }

    #[test]
    fn refusals() {
        let check = |line: &str, expected: &str| {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("--partitions many", "--partitions: not a number: many");
        check("--write --delete", "exclude each other");
        check("--consistency-level SOME", "no such level: SOME");
        check("--strongly-consistent-tables", "no such tables");
        check("--sstable-format ka", "cannot be written");
        check("--nonsense 1", "unknown option --nonsense");
    }
}
