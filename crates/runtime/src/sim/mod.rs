//! Deterministic simulation: many nodes of many shards in one thread, from one seed.
//!
//! A [`World`] has a virtual clock, a simulated disk per node and a simulated network. Its
//! scheduler draws which ready task runs next; time moves a little with every poll, and jumps to
//! the next event when nothing is ready. The same seed gives the same run, which
//! [`World::trace_hash`] proves.
//!
//! Invariants
//!  - *synced-survives*: what a successful fdatasync covered, under a name that a successful
//!    `sync_dir` covered, is there after every crash.
//!  - *unsynced-may-not*: every other write may be kept, lost, or torn at 512-byte sectors; every
//!    other create, rename or unlink may be kept or undone.
//!  - *one-seed*: nothing but the seed and the program decides what happens.

pub(crate) mod port;

use crate::{ShardId, signal::Signal};
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// The knobs of a world.
#[derive(Clone, Debug)]
pub struct Options {
    /// From which everything is drawn.
    pub seed: u64,
    /// Whether `buggify!` points fire.
    pub buggify: bool,
    /// The time a sync of a file takes, at most.
    pub sync_max: Duration,
    /// The time a packet takes, at most (without faults).
    pub latency_max: Duration,
}

impl Options {
    /// The usual world of a seed.
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            buggify: true,
            sync_max: Duration::from_millis(2),
            latency_max: Duration::from_micros(500),
        }
    }
}

/// A node of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// The world.
#[derive(Debug)]
pub struct World {}

impl World {
    /// A world without nodes.
    pub fn new(options: Options) -> World {
        let _ = options;
        todo!()
    }

    /// Adds a node with an empty disk; it does nothing until started.
    pub fn add_node(&mut self, shards: u16) -> NodeId {
        let _ = shards;
        todo!()
    }

    /// The address of a node.
    pub fn ip(&self, node: NodeId) -> IpAddr {
        let _ = node;
        todo!()
    }

    /// Starts a node (again): `main` is called once per shard, on it.
    pub fn start<F, Fut>(&mut self, node: NodeId, main: F)
    where
        F: Fn(ShardId) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let _ = (node, main);
        todo!()
    }

    /// Kills a node: its tasks are gone and its disk keeps what it must and what it likes.
    pub fn crash(&mut self, node: NodeId) {
        let _ = node;
        todo!()
    }

    /// [`World::crash`], then [`World::start`].
    pub fn restart<F, Fut>(&mut self, node: NodeId, main: F)
    where
        F: Fn(ShardId) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.crash(node);
        self.start(node, main);
    }

    /// Whether `main` is still running on some shard of the node.
    pub fn is_running(&self, node: NodeId) -> bool {
        let _ = node;
        todo!()
    }

    /// Runs until `condition` holds: whether it did within `limit` of virtual time.
    pub fn run_until(&mut self, condition: impl FnMut() -> bool, limit: Duration) -> bool {
        let _ = (condition, limit);
        todo!()
    }

    /// Runs for `span` of virtual time.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(|| false, span);
    }

    /// Runs a future on a shard of a node (started if need be) to its end. Panics, with the
    /// seed, when it has not ended after an hour of virtual time.
    pub fn block_on<F: Future + 'static>(
        &mut self,
        node: NodeId,
        shard: ShardId,
        future: F,
    ) -> F::Output
    where
        F::Output: 'static,
    {
        let _ = (node, shard, future);
        todo!()
    }

    /// The disk of a node.
    pub fn disk(&mut self, node: NodeId) -> Disk<'_> {
        let _ = node;
        todo!()
    }

    /// Cuts (or joins) the packets from one node to another, in this direction.
    pub fn set_cut(&mut self, from: NodeId, to: NodeId, cut: bool) {
        let _ = (from, to, cut);
        todo!()
    }

    /// Resets every connection between two nodes.
    pub fn reset_connections(&mut self, a: NodeId, b: NodeId) {
        let _ = (a, b);
        todo!()
    }

    /// Shifts the wall clock of a node.
    pub fn skew_wall_clock(&mut self, node: NodeId, micros: i64) {
        let _ = (node, micros);
        todo!()
    }

    /// Sends a signal to the process of a node.
    pub fn signal(&mut self, node: NodeId, signal: Signal) {
        let _ = (node, signal);
        todo!()
    }

    /// Virtual time since the world began.
    pub fn now(&self) -> Duration {
        todo!()
    }

    /// A number of the world's own sequence, for the test to draw from.
    pub fn random_u64(&mut self) -> u64 {
        todo!()
    }

    /// A hash over every poll and event so far: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        todo!()
    }
}

/// The disk of a node, for the test to look at and to break.
#[derive(Debug)]
pub struct Disk<'a> {
    world: &'a mut World,
}

impl Disk<'_> {
    /// The content of a file, as the node sees it.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let _ = (path.as_ref(), &self.world);
        todo!()
    }

    /// Puts a file there, durably, with the directories above it.
    pub fn write(&mut self, path: impl AsRef<Path>, bytes: &[u8]) {
        let _ = (path.as_ref(), bytes);
        todo!()
    }

    /// The paths of all files, sorted.
    pub fn files(&self) -> Vec<String> {
        todo!()
    }

    /// Flips the bits of `mask` in one byte of a file, durably.
    pub fn corrupt(&mut self, path: impl AsRef<Path>, offset: u64, mask: u8) {
        let _ = (path.as_ref(), offset, mask);
        todo!()
    }

    /// Cuts a file to `len` bytes, durably.
    pub fn truncate(&mut self, path: impl AsRef<Path>, len: u64) {
        let _ = (path.as_ref(), len);
        todo!()
    }

    /// Limits the bytes of all files together; `None` lifts the limit.
    pub fn set_capacity(&mut self, bytes: Option<u64>) {
        let _ = bytes;
        todo!()
    }

    /// Makes every `one_in`-th request (on average) fail with EIO; 0 for none.
    pub fn set_error_rate(&mut self, one_in: u64) {
        let _ = one_in;
        todo!()
    }

    /// Makes every request take `factor` times as long.
    pub fn set_slowness(&mut self, factor: u32) {
        let _ = factor;
        todo!()
    }
}

/// Runs one future on a one-shard node of a world of its own; a panic names the seed.
pub fn test<F, Fut, T>(seed: u64, body: F) -> T
where
    F: FnOnce() -> Fut + 'static,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    let mut world = World::new(Options::new(seed));
    let node = world.add_node(1);
    world.block_on(node, 0, async move { body().await })
}
