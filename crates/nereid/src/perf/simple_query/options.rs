//! The command line of `perf-simple-query`: its own options, and those of the node that it runs.

use crate::options::{Invocation, Values, parse_line};
use std::path::{Path, PathBuf};

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
        let mut rest = Words { words: words.to_vec() };
        if rest.flag("help")? {
            return Err(USAGE.to_string());
        }
        let (write, delete) = (rest.flag("write")?, rest.flag("delete")?);
        let counters = rest.flag("counters")?;
        let operation = match (write, delete, counters) {
            (false, true, _) => Operation::Delete,
            (true, false, true) => Operation::CounterUpdate,
            (true, false, false) => Operation::Write,
            (false, false, _) => Operation::Read,
            (true, true, _) => return Err("--write and --delete exclude each other".to_string()),
        };
        let has_tablets = rest.flag("tablets")?;
        let initial_tablets = rest.number("initial-tablets")?.unwrap_or(128);
        let level = rest.text("consistency-level")?.unwrap_or("QUORUM".to_string());
        let level_of = (0..=10).filter_map(replication::Consistency::from_wire);
        let consistency = level_of
            .into_iter()
            .find(|known| known.name() == level)
            .ok_or(format!("--consistency-level: no such level: {level}"))?;
        let options = Options {
            operation,
            counters,
            partitions: rest.number("partitions")?.unwrap_or(10_000).max(1),
            collection: rest.number("collection")?.unwrap_or(0),
            duration: rest.number("duration")?.unwrap_or(5).max(1),
            operations_per_shard: rest.number("operations-per-shard")?,
            concurrency: rest.number("concurrency")?.unwrap_or(100).max(1),
            single_key: rest.flag("query-single-key")?,
            flush: rest.flag("flush")?,
            memtable_partitions: rest.number("memtable-partitions")?.filter(|count| 0 < *count),
            bypass_cache: rest.flag("bypass-cache")?,
            timeout: rest.text("timeout")?.unwrap_or_default(),
            stop_on_error: rest
                .text("stop-on-error")?
                .is_none_or(|text| text != "0" && text != "false"),
            tablets: has_tablets.then_some(initial_tablets),
            consistency,
            json_result: rest.text("json-result")?.map(PathBuf::from),
            common: rest.common()?,
        };
        Ok(options)
    }

    /// Samples to take.
    pub(crate) fn samples(&self) -> u64 {
        self.duration
    }

    /// Keeps the node's data in `folder`.
    pub(crate) fn in_folder(&mut self, folder: &Path) {
        use crate::options::Source;
        for (name, value) in [
            ("workdir", folder.display().to_string()),
            ("unsafe_bypass_fsync", "1".to_string()),
            ("commitlog_sync", "periodic".to_string()),
        ] {
            if self.common.source(name) == Source::Default {
                let set = self.common.set(name, vec![value], Source::File);
                debug_assert!(set.is_ok(), "{name} is an option");
            }
        }
        if self.common.source("smp") == Source::Default {
            let set = self.common.set("smp", vec!["1".to_string()], Source::File);
            debug_assert!(set.is_ok(), "smp is an option");
        }
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

/// Words from which options are taken one by one; what is left belongs to the node.
struct Words {
    words: Vec<String>,
}

impl Words {
    fn flag(&mut self, name: &str) -> Result<bool, String> {
        let long = format!("--{name}");
        let before = self.words.len();
        self.words.retain(|word| *word != long);
        Ok(self.words.len() < before)
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        let (long, equals) = (format!("--{name}"), format!("--{name}="));
        let Some(at) = self.words.iter().position(|w| *w == long || w.starts_with(&equals)) else {
            return Ok(None);
        };
        let word = self.words.remove(at);
        if let Some(value) = word.strip_prefix(&equals) {
            return Ok(Some(value.to_string()));
        }
        if self.words.len() <= at {
            return Err(format!("--{name} needs a value"));
        }
        Ok(Some(self.words.remove(at)))
    }

    fn number(&mut self, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("--{name}: not a number: {text}"))
    }

    fn common(mut self) -> Result<Values, String> {
        // Options of runs that others publish, which change nothing here.
        for name in ["shard-aware", "enable-cache", "enable-index-cache", "sstable-format"] {
            self.text(name)?;
        }
        match parse_line(&self.words) {
            Ok(Invocation::Serve(values)) => Ok(*values),
            Ok(Invocation::Print(text)) => Err(text),
            Err(refused) => Err(refused.to_string()),
        }
    }
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
        check("--nonsense 1", "unknown option --nonsense");
    }
}
