//! The command line of `perf-alternator`.

use crate::given::{Given, number, ranged, text, truth, word};
use crate::load::Plan;
use crate::tool::{Bench, Tool};
use clap::{Arg, value_parser};
use std::net::SocketAddr;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// GetItem.
    Read,
    /// BatchGetItem; each of its items is an operation.
    BatchRead,
    /// Scan of a random segment, to the end of its first page.
    Scan,
    /// UpdateItem, without reading.
    Write,
    /// The same of a table with a global index, by an attribute that each write changes.
    WriteIndexed,
    /// The same with a condition, which holds.
    WriteConditional,
    /// PutItem of one item after the other.
    Put,
    /// TransactWriteItems of four of these.
    Transact,
}

const WORKLOADS: [(&str, Workload); 8] = [
    ("read", Workload::Read),
    ("batch_read", Workload::BatchRead),
    ("scan", Workload::Scan),
    ("write", Workload::Write),
    ("write_gsi", Workload::WriteIndexed),
    ("write_rmw", Workload::WriteConditional),
    ("put", Workload::Put),
    ("transact", Workload::Transact),
];

impl Workload {
    fn by_name(name: Option<&str>) -> Workload {
        let known = WORKLOADS.iter().find(|(known, _)| Some(*known) == name);
        known.map_or(Workload::Read, |(_, workload)| *workload)
    }

    pub(super) fn name(self) -> &'static str {
        let known = WORKLOADS.iter().find(|(_, workload)| *workload == self);
        known.map_or("", |(name, _)| name)
    }
}

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) workload: Workload,
    pub(super) partitions: u64,
    pub(super) prepopulate: bool,
    /// Whether memtables are flushed before the test, of a node in this process.
    pub(super) flush: bool,
    pub(super) scan_segments: u64,
    /// Items of a BatchGetItem.
    pub(super) batch_size: u64,
    pub(super) remote_host: Option<String>,
    pub(super) remote_port: u16,
    pub(super) plan: Plan,
}

impl Tool for Options {
    const NAME: &'static str = "perf-alternator";
    const ABOUT: &'static str = "Measures the DynamoDB API over HTTP";
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("unsafe_bypass_fsync", "1"), ("commitlog_sync", "periodic")];

    fn args() -> Vec<Arg> {
        let port = text("remote-port", "PORT", "Port of that server");
        let mut args = vec![
            word("workload", "read", WORKLOADS.map(|(name, _)| name), "What is asked"),
            number("partitions", "10000", "Items of the table, each a partition"),
            truth("prepopulate-partitions", "1", "Write all items first"),
            truth("flush", "1", "Flush memtables before the test"),
            ranged("scan-total-segments", "10", (1, 1_000_000), "Segments of scans"),
            ranged("batch-size", "32", (1, 100), "Items of a request of batch_read"),
            text("remote-host", "HOST", "A server elsewhere; without it one in this process"),
            port.value_parser(value_parser!(u16)).default_value("8000"),
            truth("continue-after-error", "0", "Count errors and go on"),
        ];
        args.extend(Plan::args());
        args
    }

    fn take(given: &Given) -> Result<Options, String> {
        let partitions = given.number("partitions").max(1);
        Ok(Options {
            workload: Workload::by_name(given.text("workload")),
            partitions,
            prepopulate: given.truth("prepopulate-partitions"),
            flush: given.truth("flush"),
            scan_segments: given.number("scan-total-segments"),
            // No item is asked for twice.
            batch_size: given.number("batch-size").min(partitions),
            remote_host: given.text("remote-host").filter(|it| !it.is_empty()).map(str::to_owned),
            remote_port: given.port("remote-port"),
            plan: Plan::take(given, !given.truth("continue-after-error")),
        })
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        super::measure(self, bench).await
    }
}

impl Options {
    /// The first line of the output.
    pub(super) fn heading(&self, shards: u16, address: SocketAddr) -> String {
        format!(
            "Running test with config: {{workload={}, partitions={}, concurrency={}, \
             shards={shards}, node={address}}}",
            self.workload.name(),
            self.partitions,
            self.plan.concurrency,
        )
    }

    /// What only this workload is told.
    pub(super) fn of_workload(&self) -> Vec<(&'static str, u64)> {
        match self.workload {
            Workload::BatchRead => vec![("batch_size", self.batch_size)],
            Workload::Scan => vec![("scan_total_segments", self.scan_segments)],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{check_refusals, options};

    #[test]
    fn options_are_read() {
        let line = "--workload batch_read --partitions 20 --continue-after-error --flush 0 -c2 \
                    --remote-host localhost --alternator-write-isolation unsafe";
        let (given, node) = options::<Options>(line);
        assert_eq!((given.workload, given.batch_size), (Workload::BatchRead, 20));
        assert_eq!(given.of_workload(), [("batch_size", 20)]);
        assert!(!given.plan.stop_on_error && !given.flush && given.prepopulate);
        assert_eq!((given.remote_host.as_deref(), given.remote_port), (Some("localhost"), 8000));
        assert_eq!(node.text("alternator_write_isolation"), "unsafe");
        let (given, node) = options::<Options>("");
        assert_eq!((given.workload, given.plan.concurrency), (Workload::Read, 100));
        assert!(given.plan.stop_on_error && given.flush && given.remote_host.is_none());
        assert_eq!((node.text("smp"), given.of_workload().len()), ("1", 0));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        check_refusals::<Options>(&[
            ("--workload delete", "invalid value 'delete' for '--workload <WORD>'"),
            ("--batch-size 101", "101 is not in 1..=100"),
            ("--scan-total-segments 0", "0 is not in 1..=1000000"),
            ("--stop-on-error 1", "unknown option --stop-on-error"),
        ]);
    }
}
