//! The command line of `perf-row-cache-update`.

use super::cases::{CASES, Case};
use crate::given::{Given, flag, list, number, size, text};
use crate::tool::{Bench, Tool};
use clap::Arg;
use options::Values;
use std::path::PathBuf;

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
    const NAME: &'static str = "perf-row-cache-update";
    const ABOUT: &'static str = "Measures merging memtables into the row cache";
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("default_log_level", "warn"), ("blocked_reactor_notify_ms", "2")];

    fn listing(given: &Given) -> Option<String> {
        let names = || CASES.iter().map(|case| case.name).collect::<Vec<_>>().join("\n");
        given.flag("list-cases").then(names)
    }

    fn args() -> Vec<Arg> {
        vec![
            list("run-cases", "Run these cases only"),
            flag("list-cases", "List the cases"),
            number("rows", "1000000", "Rows of the large partition"),
            number("memtable-rows", "100000", "Rows, or range tombstones, of a memtable"),
            number("value-size", "100", "Bytes of a value"),
            size("cache-size", "256M", 1 << 20, "Size of the row cache"),
            number("iterations", "3", "Memtables that are merged in each case"),
            text("json-result", "FILE", "Write the result to this file as well"),
        ]
    }

    fn take(given: &Given) -> Result<Options, String> {
        let find = |name: &String| {
            let found = CASES.iter().find(|case| case.name == name);
            found.ok_or_else(|| format!("--run-cases: there is no {name}"))
        };
        let cases = match given.list("run-cases") {
            Some(names) => names.iter().map(find).collect::<Result<_, _>>()?,
            None => CASES.iter().collect(),
        };
        Ok(Options {
            cases,
            rows: given.number("rows").max(1),
            memtable_rows: given.number("memtable-rows").max(1),
            value_bytes: given.count("value-size"),
            cache_bytes: given.count("cache-size"),
            iterations: given.number("iterations").max(1),
            json_result: given.path("json-result"),
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
    use crate::tool::Asked;
    use crate::tool::testing::{check_refusals, options, parse_text};

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
