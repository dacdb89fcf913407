//! Scheduling groups: how the tasks of a shard share its processor.
//!
//! Each group has shares and a virtual runtime; the reactor runs the group with the least of it.
//!
//! Invariants
//!  - *same-number*: a group has the same number on every shard of a node.
//!  - *no-hoarding*: a group that was idle joins at the least virtual runtime of the others.

use std::future::Future;

/// A scheduling group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) u8);

/// Whatever has no other group.
pub const MAIN: Group = Group(0);
/// The statements of clients.
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
/// What nobody waits for.
pub const BACKGROUND: Group = Group(7);

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

/// The group called `name`, created with `shares` where it did not exist yet. At most 64 groups.
pub fn create(name: &str, shares: u32) -> Group {
    let _ = (name, shares);
    todo!()
}

/// Sets the shares of a group on this shard (at least 1).
pub fn set_shares(group: Group, shares: u32) {
    let _ = (group, shares);
    todo!()
}

/// The group of the running task; [`MAIN`] outside of one.
pub fn current() -> Group {
    todo!()
}

/// Runs `future` in `group`, in the same task, which moves there and back.
pub async fn with_group<F: Future>(group: Group, future: F) -> F::Output {
    let _ = (group, future);
    todo!()
}

/// What `group` did on this shard.
pub fn stats(group: Group) -> GroupStats {
    let _ = group;
    todo!()
}

/// The names and figures of all groups of this shard.
pub fn all_stats() -> Vec<(String, GroupStats)> {
    todo!()
}
