//! The command line of `perf-cql-raw`.

use super::wire::VALUE_BYTES;
use crate::perf::tool::{Bench, Tool};
use crate::perf::words::Words;
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

const USAGE: &str = "\
usage: nereid perf-cql-raw [OPTIONS]
  --workload W             read, write, slice or connect [read]
  --partitions N           partitions of the data set [10000]
  --tables N               tables that they are in [1]
  --value-bytes N          bytes of each of the five values of a row [34]
  --compression 0|1        of the tables [1]
  --duration N             samples of one second [5]
  --operations-per-shard N a sample is so many operations instead
  --connections-per-shard N [100]
  --concurrency-per-shard N requests of a connection under way [10]
  --rate N                 open loop: N requests per second, latency from when they fell due
  --streams N              requests of a connection under way at most, with --rate [32768]
  --timeout-ms N           answers after that count as late [5000]
  --use-prepared 0|1       EXECUTE, or QUERY with the text [1]
  --connection-per-request a new connection for each request
  --populate 0|1           fill the tables first [1]
  --remote-host H          a node elsewhere; without it one in this process
  --remote-port N          [9042]
  --tls-trust FILE         over TLS: certificates of who vouches for a node elsewhere (PEM)
  --continue-after-error   count errors and go on
  --json-result FILE       write the result there too
and the options of the server: -c N shards (of the client too), -m SIZE memory, ...";

/// What no node of today asks for.
const UNABLE: [&str; 2] = ["username", "password"];

impl Tool for Options {
    const USAGE: &'static str = USAGE;
    const PREFERRED: &'static [(&'static str, &'static str)] =
        &[("smp", "1"), ("unsafe_bypass_fsync", "1"), ("commitlog_sync", "periodic")];

    fn take(words: &mut Words) -> Result<Options, String> {
        for name in UNABLE {
            if words.text(name)?.is_some() {
                return Err(format!("--{name}: nodes do not authenticate yet"));
            }
        }
        if words.flag("create-non-superuser") {
            return Err("--create-non-superuser: nodes have no roles yet".to_string());
        }
        let options = Options {
            workload: workload(words.text("workload")?.as_deref())?,
            partitions: words.number("partitions")?.unwrap_or(10_000).max(1),
            tables: words.number("tables")?.unwrap_or(1).max(1),
            value_bytes: words.number("value-bytes")?.unwrap_or(VALUE_BYTES),
            compressed: words.truth("compression", true)?,
            duration: words.number("duration")?.unwrap_or(5).max(1),
            operations_per_shard: words.number("operations-per-shard")?.filter(|n| 0 < *n),
            concurrency: words.number("concurrency-per-shard")?.unwrap_or(10).clamp(1, STREAMS_MAX),
            connections: words.number("connections-per-shard")?.unwrap_or(100).max(1),
            use_prepared: words.truth("use-prepared", true)?,
            connection_per_request: words.truth("connection-per-request", false)?,
            populate: words.truth("populate", true)?,
            rate: words.number("rate")?.filter(|rate| 0 < *rate),
            streams: words.number("streams")?.unwrap_or(STREAMS_MAX).clamp(1, STREAMS_MAX),
            timeout: Duration::from_millis(words.number("timeout-ms")?.unwrap_or(5000)),
            remote_host: words.text("remote-host")?.filter(|host| !host.is_empty()),
            remote_port: words.number("remote-port")?.unwrap_or(9042),
            tls_trust: words.text("tls-trust")?.map(PathBuf::from),
            continue_after_error: words.truth("continue-after-error", false)?,
            json_result: words.text("json-result")?.map(PathBuf::from),
        };
        options.check()
    }

    async fn measure(&self, bench: &Bench) -> Result<(), String> {
        super::measure(self, bench).await
    }
}

/// Rows of a partition that slices are read of, and of a slice.
pub(crate) const SLICED_ROWS: u64 = 1000;
pub(crate) const SLICE_ROWS: u64 = 100;

/// Stream numbers of a connection.
const STREAMS_MAX: usize = 1 << 15;

fn workload(name: Option<&str>) -> Result<Workload, String> {
    match name {
        None | Some("read") => Ok(Workload::Read),
        Some("write") => Ok(Workload::Write),
        Some("slice") => Ok(Workload::Slice),
        Some("connect") => Ok(Workload::Connect),
        Some(other) => Err(format!("--workload: not read, write, slice or connect: {other}")),
    }
}

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
    use crate::perf::tool::testing::{check_refusals, options};

    #[test]
    fn options_are_read() {
        let (raw, _) = options::<Options>(
            "--workload write --rate 1000 --connections-per-shard=7 --remote-host 127.0.0.1 -c2",
        );
        assert_eq!((raw.workload, raw.rate, raw.connections), (Workload::Write, Some(1000), 7));
        assert_eq!((raw.remote_host.as_deref(), raw.remote_port), (Some("127.0.0.1"), 9042));
        let (raw, _) = options::<Options>("");
        assert_eq!((raw.workload, raw.rate, raw.concurrency), (Workload::Read, None, 10));
        assert!(raw.use_prepared && raw.populate && !raw.continue_after_error);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        check_refusals::<Options>(&[
            ("--workload scan", "--workload: not read, write, slice or connect: scan"),
            ("--rate 10 --workload connect", "--rate"),
            ("--rate 10 --operations-per-shard 5", "--rate"),
            ("--username x", "--username"),
            ("--tls-trust a.pem", "--tls-trust: needs --remote-host"),
        ]);
    }
}
