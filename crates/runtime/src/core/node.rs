//! What the shards of one node share: configuration, group names, wake handles, shutdown.
//!
//! Invariants
//!  - *own-ring*: each pair of shards has a ring of its own.
//!  - *one-name*: of the groups that are not retired no two have the same name.
//!  - *ends-once*: the `main` of a shard ends once.

use super::group::{self, Group};
use super::mesh::Ring;
use crate::config::{Config, ShardId};
use crate::helpers::Helpers;
use crate::remote::Remote;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[allow(clippy::disallowed_types)] // Group names: written at start, off every hot path.
type Mutex<T> = std::sync::Mutex<T>;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) config: Config,
    pub(crate) remotes: Vec<Arc<Remote>>,
    /// From shard `f` to shard `t`: `rings[f * shards + t]`.
    rings: Vec<Ring>,
    groups: Mutex<Vec<Named>>,
    pub(crate) helpers: Arc<Helpers>,
    /// For what computes for long.
    pub(crate) workers: Arc<Helpers>,
    /// Shards whose `main` has not ended.
    running: AtomicUsize,
    stop: AtomicBool,
}

/// A group by its number.
#[derive(Debug)]
struct Named {
    name: String,
    shares: u32,
    /// How often the number was given to a new group.
    life: u32,
    is_retired: bool,
}

impl Named {
    fn new(name: &str, shares: u32) -> Named {
        Named { name: name.to_string(), shares, life: 0, is_retired: false }
    }
}

impl Node {
    pub(crate) fn new(
        config: Config,
        remotes: Vec<Arc<Remote>>,
        helpers: Arc<Helpers>,
    ) -> Arc<Node> {
        let shards = config.shards as usize;
        assert!(0 < shards && shards == remotes.len(), "own-ring: a remote per shard");
        let groups = group::FIXED.iter().map(|(name, shares)| Named::new(name, *shares)).collect();
        Arc::new(Node {
            rings: (0..shards * shards).map(|_| Ring::new()).collect(),
            groups: Mutex::new(groups),
            helpers,
            workers: Helpers::new(1),
            running: AtomicUsize::new(shards),
            stop: AtomicBool::new(false),
            config,
            remotes,
        })
    }

    pub(crate) fn shards(&self) -> u16 {
        self.config.shards
    }

    pub(crate) fn ring(&self, from: ShardId, to: ShardId) -> &Ring {
        let shards = self.config.shards;
        debug_assert!(from < shards && to < shards, "own-ring: from {from} to {to} of {shards}");
        &self.rings[from as usize * self.config.shards as usize + to as usize]
    }

    fn named(&self) -> std::sync::MutexGuard<'_, Vec<Named>> {
        self.groups.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The groups, their lives and their first shares.
    pub(crate) fn groups(&self) -> Vec<(Group, u32, u32)> {
        let groups = self.named();
        let groups = groups.iter().enumerate();
        groups.map(|(n, group)| (Group(n as u8), group.life, group.shares)).collect()
    }

    pub(crate) fn group_count(&self) -> usize {
        self.named().len()
    }

    /// The names of the groups, in the order of their numbers; `None`: it is retired.
    pub(crate) fn group_names(&self) -> Vec<Option<String>> {
        let groups = self.named();
        groups.iter().map(|group| (!group.is_retired).then(|| group.name.clone())).collect()
    }

    /// The group called `name`, made if need be, and its life.
    pub(crate) fn group(&self, name: &str, shares: u32) -> (Group, u32) {
        let mut groups = self.named();
        debug_assert!(
            groups.iter().filter(|it| !it.is_retired && it.name == name).count() <= 1,
            "one-name: {name}"
        );
        let known = groups.iter().position(|it| !it.is_retired && it.name == name);
        if let Some(at) = known {
            return (Group(at as u8), groups[at].life);
        }
        if let Some(at) = groups.iter().position(|it| it.is_retired) {
            let life = groups[at].life + 1;
            groups[at] = Named { life, ..Named::new(name, shares) };
            return (Group(at as u8), life);
        }
        assert!(groups.len() < group::COUNT_MAX, "fixed-numbers: more than 64 scheduling groups");
        debug_assert!(group::FIXED.len() <= groups.len(), "fixed-numbers: they are there first");
        groups.push(Named::new(name, shares));
        (Group((groups.len() - 1) as u8), 0)
    }

    /// The number of a group may be given to a new one.
    pub(crate) fn retire(&self, group: Group) {
        debug_assert!(group::FIXED.len() <= group.0 as usize, "fixed-numbers: {group:?} stays");
        self.named()[group.0 as usize].is_retired = true;
    }

    /// The `main` of a shard has ended; the last one stops all shards.
    pub(crate) fn main_ended(&self) {
        let running = self.running.fetch_sub(1, Ordering::AcqRel);
        assert!(0 < running, "ends-once: more mains ended than shards run");
        if running == 1 {
            self.stop_all();
        }
    }

    /// Whether some `main` is still running.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) != 0
    }

    /// Ends all shards.
    pub(crate) fn stop_all(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for remote in &self.remotes {
            remote.ring();
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
