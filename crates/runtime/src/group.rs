//! Scheduling groups: how the tasks of a shard share its processor.
//!
//! Each group has shares and a virtual runtime; the reactor runs the group with the least of it.
//!
//! Invariants
//!  - *same-number*: a group has the same number on every shard of a node.
//!  - *no-hoarding*: a group that was idle joins at the least virtual runtime of the others.
//!  - *by-its-turn*: a task that enters a group goes on when that group has its turn.
//!  - *counted-anew*: a group that takes a retired one's number begins with nothing counted.

use crate::core::group::FIXED;
pub use crate::core::group::{
    BACKGROUND, COMMITLOG, COMPACTION, COUNT_MAX, FLUSH, GOSSIP, Group, GroupStats, MAIN,
    MAINTENANCE, RAFT, STATEMENT, STREAMING,
};
use crate::core::{current_group, try_with, with};
use crate::remote::TaskId;
use crate::task::yield_now;
use std::future::Future;

/// The group called `name`, created with `shares` where it did not exist yet. At most 64 groups.
pub fn create(name: &str, shares: u32) -> Group {
    with(|shard| {
        let (group, life) = shard.node.group(name, shares);
        shard.sync_groups();
        let mut tasks = shard.tasks.borrow_mut();
        tasks.adopt(group, life, shares);
        debug_assert!((group.0 as usize) < tasks.group_count(), "same-number: {group:?}");
        group
    })
}

/// Gives up a group that [`create`] made, on all shards: it is no longer shown, and a new one may
/// take its number. What still runs in it goes on with its shares.
pub fn retire(group: Group) {
    assert!(FIXED.len() <= group.0 as usize, "fixed-numbers: a group that every node has stays");
    with(|shard| shard.node.retire(group));
}

/// Sets the shares of a group on this shard (at least 1).
pub fn set_shares(group: Group, shares: u32) {
    with(|shard| {
        shard.sync_groups();
        shard.tasks.borrow_mut().set_shares(group, shares);
    });
}

/// The group of the running task; [`MAIN`] outside of one.
pub fn current() -> Group {
    current_group()
}

/// Runs `future` in `group`, in the same task, which moves there and back; so all of the task waits
/// for it, and what is to go on beside it is another task.
pub async fn with_group<F: Future>(group: Group, future: F) -> F::Output {
    let _back = with(|shard| {
        shard.sync_groups();
        let before = shard.move_to_group(group);
        Back { task: shard.current_task.get(), group: before, from: group }
    });
    // The next poll comes by the new group's turn.
    yield_now().await;
    future.await
}

/// Moves the running task to `group`, where it stays. Costs a comparison where it is there.
pub async fn enter(group: Group) {
    if group == current() {
        return;
    }
    with(|shard| {
        shard.sync_groups();
        shard.move_to_group(group)
    });
    // The next poll comes by the new group's turn.
    yield_now().await;
    debug_assert_eq!(current(), group, "by-its-turn: it goes on in another group");
}

/// Moves the task back when its work in another group ends, or is dropped.
struct Back {
    task: Option<TaskId>,
    group: Group,
    from: Group,
}

impl Drop for Back {
    fn drop(&mut self) {
        try_with(|shard| {
            // Otherwise the task itself is being dropped, perhaps by another one.
            if self.task == shard.current_task.get() {
                let from = shard.move_to_group(self.group);
                debug_assert!(
                    from == self.from,
                    "by-its-turn: two parts of a task moved it, to {:?} and to {from:?}",
                    self.from
                );
            }
        });
    }
}

/// What `group` did on this shard.
pub fn stats(group: Group) -> GroupStats {
    with(|shard| shard.tasks.borrow().stats(group))
}

/// The names and figures of all groups of this shard, without those that are retired.
pub fn all_stats() -> Vec<(String, GroupStats)> {
    with(|shard| {
        shard.sync_groups();
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
