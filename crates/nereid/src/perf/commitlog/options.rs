//! The command line of `perf-commitlog`.

use crate::options::Values;
use crate::perf::load::Plan;
use crate::perf::tool::{Bench, Tool};
use crate::perf::words::Words;
use std::ops::RangeInclusive;

const USAGE: &str = "\
usage: nereid perf-commitlog [OPTIONS]
  --min-data-size N        bytes of an entry, at least [200]
  --max-data-size N        at most; sizes are uniform between [16777184]
  --min-flush-delay-in-ms N, --max-flush-delay-in-ms N
                           what is held is released so long after the log asks for it [10, 800]
  --duration N             samples of one second [5]
  --operations-per-shard N a sample is so many appends instead
  --warm-up N              appends of each shard before the first sample [0]
  --concurrency N          workers per shard [100]
  --stop-on-error 0|1      end at the first error [1]
  --json-result FILE       write the result there too
and the options of the server: --commitlog-sync periodic|batch, --commitlog-sync-period-in-ms,
--commitlog-segment-size-in-mb, --commitlog-total-space-in-mb, -c N shards, ...";

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) entry_bytes_min: usize,
    pub(super) entry_bytes_max: usize,
    pub(super) flush_delay_ms: RangeInclusive<u64>,
    pub(super) plan: Plan,
}

impl Tool for Options {
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("default_log_level", "warn")];

    fn take(words: &mut Words) -> Result<Options, String> {
        if words.truth("commitlog-use-o-dsync", false)? {
            let text = "--commitlog-use-o-dsync: chunks are written and then synced; no file is \
                        opened with O_DSYNC";
            return Err(text.to_string());
        }
        let least = words.number("min-flush-delay-in-ms")?.unwrap_or(10);
        let most = words.number("max-flush-delay-in-ms")?.unwrap_or(800);
        let options = Options {
            entry_bytes_min: words.number("min-data-size")?.unwrap_or(200),
            // With its header, what ScyllaDB takes of a segment of 32 MiB.
            entry_bytes_max: words.number("max-data-size")?.unwrap_or((16 << 20) - 32),
            flush_delay_ms: least..=most,
            plan: Plan::take(words)?,
        };
        if options.entry_bytes_max < options.entry_bytes_min {
            return Err("--max-data-size: below --min-data-size".to_string());
        }
        if most < least {
            return Err("--max-flush-delay-in-ms: below --min-flush-delay-in-ms".to_string());
        }
        Ok(options)
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        super::measure(self, bench).await
    }
}

impl Options {
    /// The first line of the output.
    pub(super) fn heading(&self, node: &Values, shards: u16) -> String {
        format!(
            "Running test with config: {{concurrency={}, data_size={}..{}, commitlog_sync={}, \
             shards={shards}}}",
            self.plan.concurrency,
            self.entry_bytes_min,
            self.entry_bytes_max,
            node.text("commitlog_sync"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::tool::testing::{check_refusals, options};

    #[test]
    fn own_options_and_those_of_the_node() {
        let (given, _) = options::<Options>("");
        assert_eq!((given.entry_bytes_min, given.plan.concurrency), (200, 100));
        assert_eq!(given.flush_delay_ms, 10..=800);
        let (given, node) = options::<Options>(
            "--min-data-size 5 --max-data-size=5 --commitlog-sync batch --commitlog-use-o-dsync 0 \
             --max-flush-delay-in-ms 20 --commitlog-segment-size-in-mb 8",
        );
        assert_eq!((given.entry_bytes_min, given.entry_bytes_max), (5, 5));
        assert_eq!(given.flush_delay_ms, 10..=20);
        assert_eq!(node.text("commitlog_sync"), "batch");
        assert_eq!(node.integer("commitlog_segment_size_in_mb"), 8);
    }

    #[test]
    fn refusals() {
        check_refusals::<Options>(&[
            ("--max-data-size 100", "below --min-data-size"),
            ("--min-flush-delay-in-ms 801", "below --min-flush-delay-in-ms"),
            ("--commitlog-use-o-dsync true", "no file is opened with O_DSYNC"),
            ("--min-data-size large", "not a number: large"),
        ]);
    }
}
