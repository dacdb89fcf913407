//! The knobs of a group, and mistakes that tests plant.
//!
//! Invariants
//!  - *patient-followers*: a follower waits for more ticks than lie between heartbeats.
//!  - *room-for-one*: the largest command fits the log in memory, and a cut comes before it is
//!    full.

use std::time::Duration;

/// The knobs of a group.
#[derive(Clone, Debug)]
pub struct Options {
    /// The unit of the group's time. A leader sends heartbeats each tick.
    pub tick: Duration,
    /// A leader that hears of no majority for so many ticks steps down, and until then followers
    /// that hear of it elect no other.
    pub election_ticks: usize,
    /// A follower that hears nothing calls an election after more than `election_ticks` and fewer
    /// than so many ticks, drawn anew each time.
    pub election_ticks_end: usize,
    /// The largest command, in bytes.
    pub command_bytes_max: usize,
    /// Above this size of the log in memory nothing is proposed.
    pub log_bytes_max: usize,
    /// The log is cut when it has more bytes, or more entries.
    pub cut_bytes: usize,
    pub cut_entries: u64,
    /// What stays behind a cut for followers that are a little late: so many entries, and no more
    /// than half of `cut_bytes`.
    pub trailing_entries: u64,
    /// The bytes of entries in one message.
    pub batch_bytes: usize,
    /// The most proposals of this node that wait for their outcome at once.
    pub proposals_max: usize,
    /// The most messages of peers that wait at once; further ones are dropped.
    pub inbox_max: usize,
    /// After this long without an answer a proposal, a read or a piece is asked for again.
    pub retry: Duration,
    /// A snapshot that nobody asks the next piece of for so long is given up.
    pub snapshot_idle: Duration,
    /// A mistake that tests want to see caught.
    pub(crate) planted: Option<Planted>,
}

impl Options {
    /// Those of a group of metadata whose commands have at most so many bytes.
    pub fn new(command_bytes_max: usize) -> Options {
        assert!(command_bytes_max < usize::MAX / 3, "room-for-one: {command_bytes_max}");
        let log_bytes_max = 3 * command_bytes_max;
        Options {
            tick: Duration::from_millis(100),
            election_ticks: 10,
            election_ticks_end: 20,
            command_bytes_max,
            log_bytes_max,
            cut_bytes: log_bytes_max / 2,
            cut_entries: 1024,
            trailing_entries: 200,
            batch_bytes: 100_000,
            proposals_max: 1024,
            inbox_max: 4096,
            retry: Duration::from_millis(1000),
            snapshot_idle: Duration::from_secs(5),
            planted: None,
        }
    }

    /// Panics where they contradict each other.
    pub(crate) fn check(&self) {
        let (low, high) = (self.election_ticks, self.election_ticks_end);
        assert!(2 <= low && low + 2 <= high, "patient-followers: {low} to {high} ticks");
        assert!(!self.tick.is_zero(), "patient-followers: a tick takes time");
        assert!(0 < self.command_bytes_max, "room-for-one: commands of no bytes");
        assert!(self.command_bytes_max <= self.log_bytes_max, "room-for-one: of the largest");
        assert!(self.cut_bytes <= self.log_bytes_max, "room-for-one: cut at {}", self.cut_bytes);
        assert!(self.trailing_entries < self.cut_entries, "room-for-one: a cut cuts");
    }
}

/// Mistakes that the simulation's own tests plant, to see them caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests alone plant mistakes"))]
pub(crate) enum Planted {
    /// Term and vote are not written.
    ForgetsVote,
    /// Peers are answered before the log has what the answer promises.
    AnswersBeforeSync,
    /// After a restart the last entry that the machine has is applied to it again.
    AppliesTwice,
    /// A snapshot is said to be of the last committed entry, not of the last applied one.
    MislabelsSnapshot,
    /// A read waits for what this node knows, and asks no majority.
    ReadsWithoutQuorum,
}
