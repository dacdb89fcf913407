//! Scheduling groups: how the tasks of a shard share its processor.
//!
//! Each group has shares and a virtual runtime; the reactor runs the group with the least of it.
//!
//! Invariants
//!  - *same-number*: a group has the same number on every shard of a node.
//!  - *no-hoarding*: a group that was idle joins at the least virtual runtime of the others.
//!  - *counted-anew*: a group that takes a retired one's number begins with nothing counted.

use crate::core::waker::TaskId;
use crate::core::{Shard, try_with, with};
use std::future::Future;

/// A scheduling group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) u8);

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
pub(crate) const COUNT_MAX: usize = 64;

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

/// The group called `name`, created with `shares` where it did not exist yet. At most 64 groups.
pub fn create(name: &str, shares: u32) -> Group {
    with(|shard| {
        let (group, life) = shard.node.group(name, shares);
        sync_groups(shard);
        shard.tasks.borrow_mut().adopt(group, life, shares);
        group
    })
}

/// Gives up a group that [`create`] made, on all shards: it is no longer shown, and a new one may
/// take its number. What still runs in it goes on with its shares.
pub fn retire(group: Group) {
    assert!(FIXED.len() <= group.0 as usize, "a group that every node has stays");
    with(|shard| shard.node.retire(group));
}

/// Sets the shares of a group on this shard (at least 1).
pub fn set_shares(group: Group, shares: u32) {
    with(|shard| {
        sync_groups(shard);
        shard.tasks.borrow_mut().set_shares(group, shares);
    });
}

/// The group of the running task; [`MAIN`] outside of one.
pub fn current() -> Group {
    try_with(|shard| Group(shard.current_group.get())).unwrap_or(MAIN)
}

/// Runs `future` in `group`, in the same task, which moves there and back.
pub async fn with_group<F: Future>(group: Group, future: F) -> F::Output {
    let _back = with(|shard| {
        sync_groups(shard);
        Back { task: shard.current_task.get(), group: shard.move_to_group(group) }
    });
    // The next poll comes by the new group's turn.
    crate::task::yield_now().await;
    future.await
}

/// Moves the running task to `group`, where it stays. Costs a comparison where it is there.
pub async fn enter(group: Group) {
    if group == current() {
        return;
    }
    with(|shard| {
        sync_groups(shard);
        shard.move_to_group(group)
    });
    // The next poll comes by the new group's turn.
    crate::task::yield_now().await;
}

/// Moves the task back when its work in another group ends, or is dropped.
struct Back {
    task: Option<TaskId>,
    group: Group,
}

impl Drop for Back {
    fn drop(&mut self) {
        try_with(|shard| {
            // Otherwise the task itself is being dropped, perhaps by another one.
            if self.task == shard.current_task.get() {
                shard.move_to_group(self.group);
            }
        });
    }
}

/// Learns of groups that other shards made.
pub(crate) fn sync_groups(shard: &Shard) {
    let mut tasks = shard.tasks.borrow_mut();
    if tasks.group_count() < shard.node.group_count() {
        for (group, life, shares) in shard.node.groups().into_iter().skip(tasks.group_count()) {
            tasks.adopt(group, life, shares);
        }
    }
}

/// What `group` did on this shard.
pub fn stats(group: Group) -> GroupStats {
    with(|shard| shard.tasks.borrow().stats(group))
}

/// The names and figures of all groups of this shard, without those that are retired.
pub fn all_stats() -> Vec<(String, GroupStats)> {
    with(|shard| {
        sync_groups(shard);
        let tasks = shard.tasks.borrow();
        let names = shard.node.group_names().into_iter().take(tasks.group_count()).enumerate();
        names.filter_map(|(n, name)| Some((name?, tasks.stats(Group(n as u8))))).collect()
    })
}

/// The name of a group; `None`: it is retired.
pub fn name(group: Group) -> Option<String> {
    with(|shard| shard.node.group_names().into_iter().nth(group.0 as usize).flatten())
}

/// What all groups did on this shard, also those that are no more: processor time in nanoseconds,
/// and polls.
pub fn totals() -> (u64, u64) {
    with(|shard| shard.tasks.borrow().totals())
}
