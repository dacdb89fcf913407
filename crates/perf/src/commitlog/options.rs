//! The command line of `perf-commitlog`.

use crate::given::{Given, number, truth};
use crate::load::Plan;
use crate::tool::{Bench, Tool};
use clap::Arg;
use options::Values;
use std::ops::RangeInclusive;

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) entry_bytes_min: usize,
    pub(super) entry_bytes_max: usize,
    pub(super) flush_delay_ms: RangeInclusive<u64>,
    pub(super) plan: Plan,
}

impl Tool for Options {
    const NAME: &'static str = "perf-commitlog";
    const ABOUT: &'static str = "Measures appending to the commitlog";
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("default_log_level", "warn")];

    fn args() -> Vec<Arg> {
        let mut args = vec![
            number("min-data-size", "200", "Bytes of an entry, at least"),
            // With its header, what ScyllaDB takes of a segment of 32 MiB.
            number("max-data-size", "16777184", "Bytes at most; sizes are uniform in between"),
            number("min-flush-delay-in-ms", "10", "Release segments so long after the log asks"),
            number("max-flush-delay-in-ms", "800", "and at most so long after"),
            truth("commitlog-use-o-dsync", "0", "").hide(true),
        ];
        args.extend(Plan::args());
        args.push(Plan::stop_on_error());
        args
    }

    fn take(given: &Given) -> Result<Options, String> {
        if given.truth("commitlog-use-o-dsync") {
            let text = "--commitlog-use-o-dsync: chunks are written and then synced; no file is \
                        opened with O_DSYNC";
            return Err(text.to_string());
        }
        let least = given.number("min-flush-delay-in-ms");
        let most = given.number("max-flush-delay-in-ms");
        let options = Options {
            entry_bytes_min: given.count("min-data-size"),
            entry_bytes_max: given.count("max-data-size"),
            flush_delay_ms: least..=most,
            plan: Plan::take(given, given.truth("stop-on-error")),
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
    use crate::tool::testing::{check_refusals, options};

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
            ("--min-data-size large", "invalid value 'large' for '--min-data-size <N>'"),
        ]);
    }
}
