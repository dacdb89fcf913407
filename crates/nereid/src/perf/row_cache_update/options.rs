//! The command line of `perf-row-cache-update`.

use super::cases::{CASES, Case};
use crate::options::Values;
use crate::perf::tool::{Bench, Tool};
use crate::perf::words::Words;
use std::path::PathBuf;

const USAGE: &str = "\
usage: nereid perf-row-cache-update [OPTIONS]
  --run-cases CASES        some cases [all]
  --list-cases
  --rows N                 rows of the large partition [1000000]
  --memtable-rows N        rows, or range tombstones, of a memtable [100000]
  --value-size N           bytes of a value [100]
  --cache-size SIZE        of the cache, which is full in cases of small partitions [256M]
  --iterations N           memtables that are merged in each case [3]
  --json-result FILE       write the result there too
and the options of the server: --blocked-reactor-notify-ms, --task-quota-ms, ...";

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) cases: Vec<&'static Case>,
    pub(super) rows: u64,
    pub(super) memtable_rows: u64,
    pub(super) value_bytes: usize,
    pub(super) cache_bytes: usize,
    pub(super) iterations: u64,
    pub(super) json_result: Option<PathBuf>,
}

impl Tool for Options {
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("default_log_level", "warn"), ("blocked_reactor_notify_ms", "2")];

    fn listing(words: &mut Words) -> Option<String> {
        let names = || CASES.iter().map(|case| case.name).collect::<Vec<_>>().join("\n");
        words.flag("list-cases").then(names)
    }

    fn take(words: &mut Words) -> Result<Options, String> {
        let find = |name: &String| {
            let found = CASES.iter().find(|case| case.name == name);
            found.ok_or_else(|| format!("--run-cases: there is no {name}"))
        };
        let cases = match words.list("run-cases")? {
            Some(names) => names.iter().map(find).collect::<Result<_, _>>()?,
            None => CASES.iter().collect(),
        };
        Ok(Options {
            cases,
            rows: words.number("rows")?.unwrap_or(1_000_000).max(1),
            memtable_rows: words.number("memtable-rows")?.unwrap_or(100_000).max(1),
            value_bytes: words.number("value-size")?.unwrap_or(100),
            cache_bytes: words.size("cache-size", 256 << 20, 1 << 20)?,
            iterations: words.number("iterations")?.unwrap_or(3).max(1),
            json_result: words.text("json-result")?.map(PathBuf::from),
        })
    }

    fn adjust(&self, node: &mut Values) -> Result<(), String> {
        match node.integer("smp") {
            1 => Ok(()),
            _ => Err("one cache is measured, on exactly one shard: -c 1".to_string()),
        }
    }

    async fn measure(&self, _: &Bench) -> Result<(), String> {
        super::measure(self).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::tool::Asked;
    use crate::perf::tool::testing::{check_refusals, options, parse_text};

    #[test]
    fn what_is_given_counts() {
        let (given, _) = options::<Options>("");
        assert_eq!((given.cases.len(), given.rows), (CASES.len(), 1_000_000));
        let line = "--run-cases range-tombstone --cache-size 8M --iterations 1 --rows=10";
        let (given, _) = options::<Options>(line);
        assert_eq!((given.cases[0].name, given.cache_bytes), ("range-tombstone", 8 << 20));
        let listed = parse_text::<Options>("--list-cases");
        assert!(matches!(listed, Ok(Asked::Print(text)) if text.contains("large-partition")));
    }

    #[test]
    fn refusals() {
        check_refusals::<Options>(&[
            ("--run-cases nothing", "there is no nothing"),
            ("--cache-size little", "not a size"),
            ("--cache-size 1k", "1048576 bytes or more"),
            ("-c 2", "exactly one shard"),
        ]);
    }
}
