//! The command line of `perf-cache-eviction`.

use crate::options::Values;
use crate::perf::tool::{Bench, Tool, prefer};
use crate::perf::words::Words;
use std::time::Duration;

const USAGE: &str = "\
usage: nereid perf-cache-eviction [OPTIONS]
  --seconds N              [60]
  --no-reads               writes alone
  --value-size N           bytes of a row [1024]
  --memtable-rows N        partitions that are merged at once [10000]
  --cache-size SIZE        [256M]
  --trace                  log more of the cache
and the options of the server: --task-quota-ms, --blocked-reactor-notify-ms, ...";

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
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("default_log_level", "warn"), ("blocked_reactor_notify_ms", "2")];

    fn take(words: &mut Words) -> Result<Options, String> {
        Ok(Options {
            span: Duration::from_secs(words.number("seconds")?.unwrap_or(60).max(1)),
            reads: !words.flag("no-reads"),
            value_bytes: words.number("value-size")?.unwrap_or(1024),
            memtable_rows: words.number("memtable-rows")?.unwrap_or(10_000).max(1),
            cache_bytes: words.size("cache-size", 256 << 20, 1 << 20)?,
            trace: words.flag("trace"),
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
    use crate::perf::tool::testing::{check_refusals, options};

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
            ("--seconds soon", "--seconds: not a number: soon"),
            ("--cache-size 1k", "not a size of 1048576 bytes or more"),
            ("-c 2", "exactly one shard"),
        ]);
    }
}
