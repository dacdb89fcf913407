//! The command line of `perf-cql-raw`.

use crate::given::{Given, number, optional, text, truth, word};
use crate::tool::{Bench, Tool};
use clap::{Arg, value_parser};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is asked of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Read,
    Write,
    /// A hundred rows in order, of partitions of a thousand.
    Slice,
    /// Connections are made, and ended.
    Connect,
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Read => "read",
            Workload::Write => "write",
            Workload::Slice => "slice",
            Workload::Connect => "connect",
        }
    }
}

/// The options, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) workload: Workload,
    pub(crate) partitions: u64,
    pub(crate) tables: u64,
    /// Bytes of each of the five values of a row.
    pub(crate) value_bytes: usize,
    /// Whether the tables are as any other, and not without compression.
    pub(crate) compressed: bool,
    /// Samples of a second.
    pub(crate) duration: u64,
    pub(crate) operations_per_shard: Option<u64>,
    /// Requests that a connection has under way, in a closed loop.
    pub(crate) concurrency: usize,
    pub(crate) connections: usize,
    pub(crate) use_prepared: bool,
    pub(crate) connection_per_request: bool,
    pub(crate) populate: bool,
    /// The code of the level of all requests.
    pub(crate) consistency: u16,
    /// Of the keyspace, where it is made.
    pub(crate) copies: u64,
    /// Requests per second of all shards, in an open loop.
    pub(crate) rate: Option<u64>,
    /// Requests that a connection may have under way, in an open loop.
    pub(crate) streams: usize,
    /// An answer after that is too late to be of use.
    pub(crate) timeout: Duration,
    pub(crate) remote_host: Option<String>,
    pub(crate) remote_port: u16,
    /// The file of who vouches for the node; with it connections are encrypted.
    pub(crate) tls_trust: Option<PathBuf>,
    pub(crate) continue_after_error: bool,
    pub(crate) json_result: Option<PathBuf>,
}

impl Tool for Options {
    const NAME: &'static str = "perf-cql-raw";
    const ABOUT: &'static str = "Measures a node over TCP, in a closed or an open loop";
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("unsafe_bypass_fsync", "1"), ("commitlog_sync", "periodic")];

    fn args() -> Vec<Arg> {
        let port = text("remote-port", "PORT", "Port of that node");
        vec![
            word("workload", "read", ["read", "write", "slice", "connect"], "What is asked"),
            number("partitions", "10000", "Partitions of the data set"),
            number("tables", "1", "Tables that they are in"),
            number("value-bytes", "34", "Bytes of each of the five values of a row"),
            truth("compression", "1", "Compress the tables"),
            number("duration", "5", "Samples of one second"),
            optional("operations-per-shard", "Take samples of so many operations instead"),
            number("connections-per-shard", "100", "Connections of each shard"),
            number("concurrency-per-shard", "10", "Requests in flight of a connection"),
            optional("rate", "Open loop: requests per second, latency from when they fell due"),
            number("streams", "32768", "Most requests in flight of a connection, with --rate"),
            number("timeout-ms", "5000", "Answers after that count as late"),
            truth("use-prepared", "1", "Send EXECUTE; 0: QUERY with the text"),
            truth("connection-per-request", "0", "Make a connection for each request"),
            truth("populate", "1", "Fill the tables first"),
            word("consistency", "one", LEVELS.map(|(name, _)| name), "Level of all requests"),
            number("replication-factor", "1", "Copies of each row, if the keyspace is not there"),
            text("remote-host", "HOST", "A node elsewhere; without it one in this process"),
            port.value_parser(value_parser!(u16)).default_value("9042"),
            text("tls-trust", "FILE", "Use TLS: certificates (PEM) of who vouches for that node"),
            truth("continue-after-error", "0", "Count errors and go on"),
            text("json-result", "FILE", "Write the result to this file as well"),
            text("username", "NAME", "").hide(true),
            text("password", "WORD", "").hide(true),
            truth("create-non-superuser", "0", "").hide(true),
        ]
    }

    fn take(given: &Given) -> Result<Options, String> {
        // Options of runs that others publish.
        for name in ["username", "password"] {
            if given.text(name).is_some() {
                return Err(format!("--{name}: the client does not log in"));
            }
        }
        if given.truth("create-non-superuser") {
            return Err("--create-non-superuser: the client does not log in".to_string());
        }
        let options = Options {
            workload: workload(given.text("workload")),
            partitions: given.number("partitions").max(1),
            tables: given.number("tables").max(1),
            value_bytes: given.count("value-bytes"),
            compressed: given.truth("compression"),
            duration: given.number("duration").max(1),
            operations_per_shard: given.optional("operations-per-shard").filter(|n| 0 < *n),
            concurrency: given.count("concurrency-per-shard").clamp(1, STREAMS_MAX),
            connections: given.count("connections-per-shard").max(1),
            use_prepared: given.truth("use-prepared"),
            connection_per_request: given.truth("connection-per-request"),
            populate: given.truth("populate"),
            consistency: level(given.text("consistency")),
            copies: given.number("replication-factor").max(1),
            rate: given.optional("rate").filter(|rate| 0 < *rate),
            streams: given.count("streams").clamp(1, STREAMS_MAX),
            timeout: Duration::from_millis(given.number("timeout-ms")),
            remote_host: given.text("remote-host").filter(|it| !it.is_empty()).map(str::to_owned),
            remote_port: given.port("remote-port"),
            tls_trust: given.path("tls-trust"),
            continue_after_error: given.truth("continue-after-error"),
            json_result: given.path("json-result"),
        };
        options.check()
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        super::measure(self, bench).await
    }
}

/// Bytes of a value of a single row, unless the options say otherwise.
pub(super) const VALUE_BYTES: usize = 34;

/// Rows of a partition that slices are read of, and of a slice.
pub(crate) const SLICED_ROWS: u64 = 1000;
pub(crate) const SLICE_ROWS: u64 = 100;

/// Stream numbers of a connection.
const STREAMS_MAX: usize = 1 << 15;

/// Levels by their names, with their codes.
const LEVELS: [(&str, u16); 4] = [("one", 1), ("quorum", 4), ("local-quorum", 6), ("all", 5)];

fn level(name: Option<&str>) -> u16 {
    let known = LEVELS.iter().find(|(known, _)| Some(*known) == name);
    known.map_or(1, |(_, code)| *code)
}

fn workload(name: Option<&str>) -> Workload {
    match name {
        Some("write") => Workload::Write,
        Some("slice") => Workload::Slice,
        Some("connect") => Workload::Connect,
        _ => Workload::Read,
    }
}

const _: () = assert!(VALUE_BYTES == 34, "the default of --value-bytes");

impl Options {
    fn check(self) -> Result<Options, String> {
        if self.rate.is_some() && self.connects_each_time() {
            return Err("--rate: not with a connection per request".to_string());
        }
        if self.rate.is_some() && self.operations_per_shard.is_some() {
            return Err("--rate: not with --operations-per-shard".to_string());
        }
        if self.tls_trust.is_some() && self.remote_host.is_none() {
            return Err("--tls-trust: needs --remote-host".to_string());
        }
        Ok(self)
    }

    /// Rows of the data set.
    pub(crate) fn rows(&self) -> u64 {
        match self.workload {
            Workload::Slice => self.partitions * SLICED_ROWS,
            _ => self.partitions,
        }
    }

    /// Whether every operation makes a connection.
    pub(crate) fn connects_each_time(&self) -> bool {
        self.connection_per_request || self.workload == Workload::Connect
    }

    /// The first line of the output.
    pub(crate) fn heading(&self, shards: u16, address: SocketAddr) -> String {
        let way = match self.rate {
            Some(rate) => format!("rate={rate}"),
            None => format!("concurrency_per_connection={}", self.concurrency),
        };
        format!(
            "Running test with config: {{workload={}, partitions={}, tables={}, {way}, \
             connections={}, shards={shards}, use_prepared={}, node={address}}}",
            self.workload.name(),
            self.partitions,
            self.tables,
            self.connections * shards as usize,
            self.use_prepared,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::testing::{check_refusals, options};

    #[test]
    fn options_are_read() {
        let (raw, _) = options::<Options>(
            "--workload write --rate 1000 --connections-per-shard=7 --remote-host 127.0.0.1 -c2",
        );
        assert_eq!((raw.workload, raw.rate, raw.connections), (Workload::Write, Some(1000), 7));
        assert_eq!((raw.remote_host.as_deref(), raw.remote_port), (Some("127.0.0.1"), 9042));
        let (raw, _) = options::<Options>("--consistency quorum --replication-factor 3");
        assert_eq!((raw.consistency, raw.copies), (4, 3));
        let (raw, _) = options::<Options>("");
        assert_eq!((raw.consistency, raw.copies), (1, 1));
        assert_eq!((raw.workload, raw.rate, raw.concurrency), (Workload::Read, None, 10));
        assert!(raw.use_prepared && raw.populate && !raw.continue_after_error);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        check_refusals::<Options>(&[
            ("--workload scan", "invalid value 'scan' for '--workload <WORD>'"),
            ("--rate 10 --workload connect", "--rate"),
            ("--rate 10 --operations-per-shard 5", "--rate"),
            ("--username x", "--username"),
            ("--tls-trust a.pem", "--tls-trust: needs --remote-host"),
        ]);
    }
}
