//! How a shard speaks with other nodes: plain values.

use crate::names::HostId;
use std::time::Duration;

/// How a shard speaks with other nodes. [`Config::new`] holds the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of the cluster: nodes of another one are refused.
    pub cluster: String,
    /// This node.
    pub host: HostId,
    /// Drawn at each start of this node, the same on all its shards.
    pub life: u64,
    /// What messages of this shard may hold, all classes and both ways together.
    pub memory_bytes: usize,
    /// The longest body that this node takes. At most half of what follows.
    pub message_bytes_max: usize,
    /// Bytes of one connection's requests that may be unanswered.
    pub request_bytes_max: usize,
    /// Requests, messages and streams of one connection that may be unanswered.
    pub requests_max: usize,
    /// Calls that may wait for room, for each connection.
    pub waiting_max: usize,
    /// Bytes of a stream that its receiver takes before it is read.
    pub stream_window_bytes: usize,
    /// Connections of other nodes to this shard.
    pub connections_max: usize,
    /// The time to connect, TLS and greetings included.
    pub connect_max: Duration,
    /// Who has nothing to say for so long says that it is here.
    pub beat_period: Duration,
    /// A connection ends when nothing has come for so long.
    pub silence_max: Duration,
    /// Between two attempts to connect, from and to; it doubles.
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    /// A mistake that tests want to see caught.
    pub(crate) planted: Option<Planted>,
}

/// Mistakes that the simulation's own tests plant, to see them caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests alone plant mistakes"))]
pub(crate) enum Planted {
    /// What was sent when a connection breaks counts as never sent.
    ForgetsSent,
    /// A reply goes to the oldest request.
    AnswersOldest,
    /// What has no answer when a connection breaks is sent again over the next one.
    SendsAgain,
    /// A cancelled request keeps its room.
    KeepsRoom,
    /// Nobody is told that a request was cancelled.
    CancelsAlone,
    /// Requests are sent however many are unanswered.
    IgnoresWindow,
    /// Streams are sent however little was read.
    IgnoresStreamWindow,
    /// All classes go over one connection.
    OneClass,
    /// Connections of a banned node stay.
    KeepsBanned,
    /// After a connection broke no other one is made.
    GivesUp,
}

impl Config {
    /// The defaults of a node.
    pub fn new(cluster: &str, host: HostId, life: u64) -> Config {
        let config = Config {
            cluster: cluster.to_string(),
            host,
            life,
            memory_bytes: 64 << 20,
            message_bytes_max: 32 << 20,
            request_bytes_max: 64 << 20,
            requests_max: 1024,
            waiting_max: 4096,
            stream_window_bytes: 512 << 10,
            connections_max: 4096,
            connect_max: Duration::from_secs(5),
            beat_period: Duration::from_secs(1),
            silence_max: Duration::from_secs(10),
            backoff_min: Duration::from_millis(20),
            backoff_max: Duration::from_secs(5),
            planted: None,
        };
        debug_assert!(config.message_bytes_max < config.request_bytes_max, "defaults fit");
        debug_assert!(config.message_bytes_max <= config.memory_bytes, "defaults fit");
        config
    }

    /// Refuses what cannot work; the error names the value.
    pub fn check(&self) -> Result<(), &'static str> {
        let longest = crate::frame::BODY_BYTES_MAX;
        let rules = [
            (0 < self.message_bytes_max, "message_bytes_max: 0"),
            (self.request_bytes_max <= longest, "request_bytes_max: over 1 GiB"),
            (
                self.message_bytes_max <= self.request_bytes_max / 2,
                "message_bytes_max: more than half of request_bytes_max",
            ),
            ((1..=1 << 20).contains(&self.requests_max), "requests_max: not 1 to 1048576"),
            (
                (1 << 10..=longest).contains(&self.stream_window_bytes),
                "stream_window_bytes: not 1 KiB to 1 GiB",
            ),
            (1 << 16 <= self.memory_bytes, "memory_bytes: under 64 KiB"),
            (self.beat_period < self.silence_max / 2, "silence_max: under two beat_periods"),
            (!self.backoff_min.is_zero(), "backoff_min: 0"),
            (self.backoff_min <= self.backoff_max, "backoff_max: below backoff_min"),
            (
                self.cluster.len() <= crate::hello::CLUSTER_BYTES_MAX
                    && !self.cluster.chars().any(char::is_control),
                "cluster: too long, or with control characters",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_named() {
        let fine = Config::new("one", HostId(1), 1);
        assert_eq!(fine.check(), Ok(()));
        let check = |config: Config, what: &str| {
            let refused = config.check().expect_err(what);
            assert!(refused.starts_with(what), "{refused}");
        };
        check(Config { message_bytes_max: 64 << 20, ..fine.clone() }, "message_bytes_max");
        check(Config { requests_max: 0, ..fine.clone() }, "requests_max");
        check(Config { silence_max: fine.beat_period, ..fine.clone() }, "silence_max");
        check(Config { cluster: "a\nb".into(), ..fine }, "cluster");
    }
}
