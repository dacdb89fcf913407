//! Options of a read or write: consistency, timeout, kind, memory for the response.
//!
//! Invariants
//!  - *codes-are-places*: a level's code in the native protocol is its place among all of them.

use crate::rate::Limit;
use reader::LocalFuture;
use std::fmt::Debug;
use std::time::Duration;

/// How many copies must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    Any,
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    Serial,
    LocalSerial,
    LocalOne,
}

impl Consistency {
    /// All levels, with their codes in the native protocol and their names in CQL.
    const ALL: [(Consistency, u16, &'static str); 11] = [
        (Consistency::Any, 0, "ANY"),
        (Consistency::One, 1, "ONE"),
        (Consistency::Two, 2, "TWO"),
        (Consistency::Three, 3, "THREE"),
        (Consistency::Quorum, 4, "QUORUM"),
        (Consistency::All, 5, "ALL"),
        (Consistency::LocalQuorum, 6, "LOCAL_QUORUM"),
        (Consistency::EachQuorum, 7, "EACH_QUORUM"),
        (Consistency::Serial, 8, "SERIAL"),
        (Consistency::LocalSerial, 9, "LOCAL_SERIAL"),
        (Consistency::LocalOne, 10, "LOCAL_ONE"),
    ];

    const CODES_ARE_PLACES: () = {
        let mut place = 0;
        while place < Consistency::ALL.len() {
            let (level, code, _) = Consistency::ALL[place];
            assert!(code as usize == place, "codes-are-places: looked up by it");
            assert!(level as usize == place, "codes-are-places: sent as it");
            place += 1;
        }
    };

    /// The level with that protocol code.
    pub fn from_wire(code: u16) -> Option<Consistency> {
        Consistency::ALL.get(code as usize).map(|(level, _, _)| *level)
    }
    /// Its protocol code.
    pub fn to_wire(self) -> u16 {
        let () = Consistency::CODES_ARE_PLACES;
        self as u16
    }
    /// Its name: `LOCAL_QUORUM`.
    pub fn name(self) -> &'static str {
        Consistency::ALL[self as usize].2
    }
    /// Whether it is a level of lightweight transactions.
    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }
}

/// What a write is part of, as timeout errors report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteKind {
    Simple,
    Batch,
    UnloggedBatch,
    /// The remembering of a logged batch: nothing of the batch itself was told to anybody.
    BatchLog,
    Counter,
    Cas,
    View,
}

impl WriteKind {
    /// The name in a write timeout's body.
    pub fn name(self) -> &'static str {
        match self {
            WriteKind::Simple => "SIMPLE",
            WriteKind::Batch => "BATCH",
            WriteKind::UnloggedBatch => "UNLOGGED_BATCH",
            WriteKind::BatchLog => "BATCH_LOG",
            WriteKind::Counter => "COUNTER",
            WriteKind::Cas => "CAS",
            WriteKind::View => "VIEW",
        }
    }
}

/// Whether a batch is all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    Logged,
    Unlogged,
}

/// How a write is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    pub consistency: Consistency,
    pub timeout: Duration,
    pub kind: WriteKind,
    /// What replicas on other nodes are told of limits of the tables written to, which
    /// [`crate::Coordinator::admit_request`] has said; `None`: nothing.
    pub limit: Option<Limit>,
}

/// Memory for the response of a request, while it is read.
///
/// The request reports how much it holds, none at first, and takes room for what it reads next;
/// taking it a second time is the same as once, until it reports again.
pub trait Room: Debug {
    /// Takes room for so many bytes beside those that were reported, if there is some now.
    fn try_take(&self, bytes: usize) -> bool;
    /// The same, once there is some; false: the client no longer waits for the response.
    fn take(&self, bytes: usize) -> LocalFuture<'_, bool>;
    /// Reports how many bytes the response has so far. What was taken beyond them is given back.
    fn report(&self, bytes: usize);
}

/// What a read is to take room for before it waits.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub room: &'a dyn Room,
    pub bytes: usize,
}

impl Wanted<'_> {
    /// Takes the room, once there is some; false: the client no longer waits for the response.
    pub async fn take(&self) -> bool {
        debug_assert!(0 < self.bytes, "room for nothing is asked for");
        self.room.try_take(self.bytes) || self.room.take(self.bytes).await
    }
}

/// How a read is to be made.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions<'a> {
    pub consistency: Consistency,
    pub timeout: Duration,
    /// Where it finds room for what it reads: asked by reads that cannot be answered at once.
    pub wanted: Option<Wanted<'a>>,
    /// As for writes.
    pub limit: Option<Limit>,
}

impl ReadOptions<'_> {
    /// For reads that need not ask for room.
    pub const fn new(consistency: Consistency, timeout: Duration) -> ReadOptions<'static> {
        ReadOptions { consistency, timeout, wanted: None, limit: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_both_ways() {
        for (level, code, name) in Consistency::ALL {
            assert_eq!(Consistency::from_wire(code), Some(level));
            assert_eq!((level.to_wire(), level.name()), (code, name));
        }
        assert_eq!(Consistency::from_wire(11), None);
    }
}
