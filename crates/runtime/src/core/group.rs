//! Scheduling groups: plain values. How they share the processor is in `tasks`.
//!
//! Invariants
//!  - *fixed-numbers*: the groups that every node has are numbered from 0 in the order of
//!    [`FIXED`].

/// A scheduling group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) u8);

impl Group {
    /// Its number on every shard of the node, less than [`COUNT_MAX`].
    #[inline]
    pub fn number(self) -> usize {
        self.0.into()
    }

    /// The group of a number; `None`: it is of none.
    pub fn numbered(number: usize) -> Option<Group> {
        let number = u8::try_from(number).ok()?;
        (usize::from(number) < COUNT_MAX).then_some(Group(number))
    }
}

/// Whatever has no other group.
pub const MAIN: Group = Group(0);
/// The statements of clients whose role has no service level.
pub const STATEMENT: Group = Group(1);
/// The commitlog.
pub const COMMITLOG: Group = Group(2);
/// Memtables to SSTables.
pub const FLUSH: Group = Group(3);
/// Compaction.
pub const COMPACTION: Group = Group(4);
/// Streaming and repair.
pub const STREAMING: Group = Group(5);
/// Gossip and Raft: small and urgent.
pub const GOSSIP: Group = Group(6);
/// The same group as [`GOSSIP`].
pub const RAFT: Group = GOSSIP;
/// Background work.
pub const BACKGROUND: Group = Group(7);
/// What an operator asked to be done to files.
pub const MAINTENANCE: Group = Group(8);

/// At most so many groups.
pub const COUNT_MAX: usize = 64;

const _: () = assert!(COUNT_MAX <= u8::MAX as usize + 1, "fixed-numbers: a number is a byte");
const _: () = assert!(FIXED.len() < COUNT_MAX, "fixed-numbers: there is room for others");
const _: () = assert!(MAINTENANCE.0 as usize + 1 == FIXED.len(), "fixed-numbers: one each");

/// The groups that every node has, in the order of their numbers, with their first shares.
pub(crate) const FIXED: [(&str, u32); 9] = [
    ("main", 200),
    ("sl:default", 1000),
    ("commitlog", 1000),
    ("flush", 400),
    ("compaction", 200),
    ("streaming", 200),
    ("gossip", 1000),
    ("background", 50),
    ("maintenance", 200),
];

/// What a group did on this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// Processor time, in nanoseconds.
    pub cpu_ns: u64,
    /// Polls of its tasks.
    pub polls: u64,
    /// Tasks that are ready now.
    pub queue_length: usize,
    /// Its shares.
    pub shares: u32,
}
