//! What a group stands on: a durable log, a machine that commands change, a way to its peers.
//!
//! Invariants (of those who implement these)
//!  - *all-or-nothing*: a crash leaves all of a [`Change`] or nothing of it.
//!  - *durable-on-return*: what [`Log::write`] or [`Restore::finish`] returned from survives every
//!    crash.
//!  - *own-place*: a machine knows up to which entry its durable state goes, and that is changed in
//!    the same step as the state.

use crate::entry::{Cut, Entry};
use crate::members::NodeId;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A future of this shard.
pub type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Why a log or a machine could not do its work. The group stops: it can promise nothing then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Failed {}

/// What a node has promised, apart from entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hard {
    /// The latest term that it knows.
    pub term: u64,
    /// Whom it voted for in that term; 0 for nobody.
    pub vote: u64,
    /// Up to where it knows entries to be committed.
    pub commit: u64,
}

/// What a log is to keep, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// A snapshot of this place is about to replace the machine's state: kept beside the log until
    /// the next change, whatever that is.
    pub staged: Option<Cut>,
    /// The machine has the state of this place: every entry goes.
    pub install: Option<Cut>,
    /// Entries in the order of their indices; they replace what there is from the first of them on.
    pub entries: Vec<Entry>,
    pub hard: Option<Hard>,
    /// Entries up to here go; the log begins after it.
    pub cut: Option<Cut>,
}

impl Change {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        *self == Change::default()
    }
}

/// All that a log has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub hard: Hard,
    /// `None` for a log in which nothing was written yet.
    pub cut: Option<Cut>,
    pub staged: Option<Cut>,
    /// Those after the cut, without a gap.
    pub entries: Vec<Entry>,
}

/// A node's durable part of the group.
pub trait Log {
    /// All that there is.
    fn load(&self) -> Local<'_, Result<Loaded, Failed>>;
    /// Keeps a change. One is written at a time.
    fn write<'a>(&'a self, change: &'a Change) -> Local<'a, Result<(), Failed>>;
}

/// A committed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub index: u64,
    pub bytes: Vec<u8>,
}

/// The replicated state.
pub trait Machine {
    /// Up to which entry its durable state goes; 0 when nothing was ever applied. It must come to
    /// where it is by itself, for what it has not the log keeps, and a full log takes no commands.
    fn durable(&self) -> u64;
    /// Applies commands in order. Then the machine is at entry `applied`, which may be after the
    /// last of them.
    fn apply<'a>(&'a self, commands: &'a [Command], applied: u64) -> Local<'a, Result<(), Failed>>;
    /// The state as it is now, to be read while further commands are applied.
    fn snapshot(&self) -> Local<'_, Result<Box<dyn Pieces>, Failed>>;
    /// Takes the state of another node, aside until it is complete. Dropping it forgets it.
    fn restore(&self) -> Local<'_, Result<Box<dyn Restore>, Failed>>;
}

/// A snapshot that is read.
pub trait Pieces {
    /// The next piece; `None` after the last.
    fn next(&mut self) -> Local<'_, Result<Option<Vec<u8>>, Failed>>;
}

/// A snapshot that is taken over.
pub trait Restore {
    /// The next piece.
    fn piece(&mut self, bytes: Vec<u8>) -> Local<'_, Result<(), Failed>>;
    /// In one durable step: the state is what the pieces said, and its place is `applied`.
    fn finish(self: Box<Self>, applied: u64) -> Local<'static, Result<(), Failed>>;
}

/// How much a message is in a hurry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Must not wait behind others.
    Control,
    /// Pieces of snapshots.
    Bulk,
}

/// The way to the peers. It may lose, delay, repeat and reorder.
pub trait Transport {
    /// Sends, or drops what it cannot send now; does not wait.
    fn send(&self, to: NodeId, class: Class, message: Vec<u8>);
}
