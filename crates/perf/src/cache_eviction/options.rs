//! The command line of `perf-cache-eviction`.

use crate::given::{Given, flag, number, size};
use crate::tool::{Bench, Tool, prefer};
use clap::Arg;
use options::Values;
use std::time::Duration;

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) span: Duration,
    pub(super) reads: bool,
    pub(super) value_bytes: usize,
    pub(super) memtable_rows: u64,
    pub(super) cache_bytes: usize,
    trace: bool,
}

impl Tool for Options {
    const NAME: &'static str = "perf-cache-eviction";
    const ABOUT: &'static str = "Measures reads and writes while the row cache evicts";
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("default_log_level", "warn"), ("blocked_reactor_notify_ms", "2")];

    fn args() -> Vec<Arg> {
        vec![
            number("seconds", "60", "How long"),
            flag("no-reads", "Write only"),
            number("value-size", "1024", "Bytes of a row"),
            number("memtable-rows", "10000", "Partitions that are merged at once"),
            size("cache-size", "256M", 1 << 20, "Size of the row cache"),
            flag("trace", "Log what the cache does"),
        ]
    }

    fn take(given: &Given) -> Result<Options, String> {
        Ok(Options {
            span: Duration::from_secs(given.number("seconds").max(1)),
            reads: !given.flag("no-reads"),
            value_bytes: given.count("value-size"),
            memtable_rows: given.number("memtable-rows").max(1),
            cache_bytes: given.count("cache-size"),
            trace: given.flag("trace"),
        })
    }

    fn adjust(&self, node: &mut Values) -> Result<(), String> {
        if self.trace {
            prefer(node, "logger_log_level", "storage=trace");
        }
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
    use crate::tool::testing::{check_refusals, options};

    #[test]
    fn what_is_given_counts() {
        let (given, _) = options::<Options>("");
        assert_eq!((given.span.as_secs(), given.reads, given.cache_bytes), (60, true, 256 << 20));
        let line = "--seconds 3 --no-reads --trace --cache-size=8M";
        let (given, node) = options::<Options>(line);
        assert_eq!((given.span.as_secs(), given.reads, given.cache_bytes), (3, false, 8 << 20));
        assert_eq!(node.list("logger_log_level"), ["storage=trace"]);
    }

    #[test]
    fn refusals() {
        check_refusals::<Options>(&[
            ("--seconds soon", "invalid value 'soon' for '--seconds <N>'"),
            ("--cache-size 1k", "not a size of 1048576 bytes or more"),
            ("-c 2", "exactly one shard"),
        ]);
    }
}
