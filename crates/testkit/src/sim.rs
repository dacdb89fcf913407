//! A simulated machine of one node: its shards, its disk and its clock.
//!
//! Invariants
//!  - *replayable*: all of it runs in one `runtime::sim` world, from one seed.
//!  - *same-disk*: a node that starts again finds what a crash has left of its files.

use runtime::sim::{Disk, NodeId, Options, World};
use std::future::Future;
use std::time::Duration;

/// What is wrong with a machine, until [`SimNode::heal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Operations on files take so many times as long.
    SlowDisk(u32),
    /// One operation on files of so many fails.
    DiskErrors(u64),
    /// The files may have so many bytes.
    SmallDisk(u64),
    /// The wall clock is ahead by so many microseconds, or behind.
    Clock(i64),
}

/// A machine with a node.
#[derive(Debug)]
pub struct SimNode {
    world: World,
    id: NodeId,
}

impl SimNode {
    /// With an empty disk.
    pub fn new(seed: u64, shards: u16) -> SimNode {
        SimNode::with(Options::new(seed), shards)
    }

    /// The same in a world of these options.
    pub fn with(options: Options, shards: u16) -> SimNode {
        let mut world = World::new(options);
        let id = world.add_node(shards);
        SimNode { world, id }
    }

    /// The same, and its wall clock begins in 1970: before all times that generators draw.
    pub fn at_epoch(seed: u64, shards: u16) -> SimNode {
        let mut node = SimNode::new(seed, shards);
        let micros = node.run(async { runtime::time::wall_micros() });
        node.crash();
        node.suffer(Fault::Clock(-micros));
        node
    }

    /// Runs `body` on shard 0 of the node, to its end. What it has started goes on.
    pub fn run<F: Future + 'static>(&mut self, body: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.run_on(0, body)
    }

    /// The same on another shard.
    pub fn run_on<F: Future + 'static>(&mut self, shard: u16, body: F) -> F::Output
    where
        F::Output: 'static,
    {
        self.world.block_on(self.id, shard, body)
    }

    /// Starts `main` on each shard; it goes on while the others of this room run.
    pub fn start<F, Fut>(&mut self, main: F)
    where
        F: Fn(u16) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.world.start(self.id, main);
    }

    /// Runs what was started, for so long.
    pub fn run_for(&mut self, span: Duration) {
        self.world.run_for(span);
    }

    /// Runs what was started until `condition`; false: it did not come within `limit`.
    pub fn run_until(&mut self, condition: impl FnMut() -> bool, limit: Duration) -> bool {
        self.world.run_until(condition, limit)
    }

    /// Runs on shard 0 what never ends, for a random time below `most`; then it is dropped,
    /// wherever it is.
    pub fn run_a_while<F: Future + 'static>(&mut self, most: Duration, body: F) {
        let most = most.as_micros().max(1) as u64;
        let span = Duration::from_micros(self.world.random_u64() % most);
        self.run(async move {
            let ended = runtime::time::timeout(span, body).await;
            assert!(ended.is_err(), "it never ends");
        });
    }

    /// Kills the node, which loses what it has not synced, or parts of it.
    pub fn crash(&mut self) {
        self.world.crash(self.id);
    }

    /// The shards that it has from its next start on.
    pub fn set_shards(&mut self, shards: u16) {
        self.world.set_shards(self.id, shards);
    }

    /// Its disk: to look at, and to damage files of.
    pub fn disk(&mut self) -> Disk<'_> {
        self.world.disk(self.id)
    }

    /// The time that has passed since it was made.
    pub fn now(&self) -> Duration {
        self.world.now()
    }

    /// From now on something is wrong.
    pub fn suffer(&mut self, fault: Fault) {
        match fault {
            Fault::SlowDisk(factor) => self.disk().set_slowness(factor),
            Fault::DiskErrors(one_in) => self.disk().set_error_rate(one_in),
            Fault::SmallDisk(bytes) => self.disk().set_capacity(Some(bytes)),
            Fault::Clock(micros) => self.world.skew_wall_clock(self.id, micros),
        }
    }

    /// Nothing is wrong any more.
    pub fn heal(&mut self) {
        self.disk().set_slowness(1);
        self.disk().set_error_rate(0);
        self.disk().set_capacity(None);
        self.world.skew_wall_clock(self.id, 0);
    }

    /// The node in its world.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Its world, for other nodes and for what is not said here.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn write(bytes: usize) -> bool {
        let made = runtime::io::fs::create_dir_all("/d").await.is_ok();
        made && runtime::io::fs::write_file_atomic("/d/file", &vec![7; bytes]).await.is_ok()
    }

    #[test]
    fn faults_come_and_go() {
        let mut node = SimNode::new(1, 1);
        let (small, large) = (100, 1 << 20);
        assert!(node.run(write(large)));
        node.suffer(Fault::SmallDisk(1 << 10));
        assert!(!node.run(write(large)));
        node.heal();
        node.suffer(Fault::DiskErrors(1));
        assert!(!node.run(write(small)));
        node.heal();
        let spans = [1, 1000].map(|factor| {
            node.suffer(Fault::SlowDisk(factor));
            let before = node.now();
            assert!(node.run(write(small)));
            node.now() - before
        });
        assert!(spans[0] * 10 < spans[1], "{spans:?}");
        let clock = || async { runtime::time::wall_micros() };
        let before = node.run(clock());
        node.suffer(Fault::Clock(-3_600_000_000));
        assert!(node.run(clock()) < before);
        node.heal();
        assert!(before <= node.run(clock()));
    }

    #[test]
    fn a_clock_may_begin_at_the_epoch() {
        let now = SimNode::at_epoch(3, 1).run(async { runtime::time::wall_micros() });
        assert!((0..1_000_000).contains(&now), "{now}");
    }

    #[test]
    fn a_crash_keeps_what_was_synced() {
        let mut node = SimNode::new(2, 1);
        assert!(node.run(write(100)));
        node.crash();
        let found = node.run(async { runtime::io::fs::read_file("/d/file").await });
        assert_eq!(found.ok(), Some(vec![7; 100]));
    }

    #[test]
    fn a_seed_gives_the_same_run() {
        let trace = |seed| {
            let mut node = SimNode::new(seed, 2);
            let ticks = async {
                loop {
                    runtime::on_all_shards(|| async { runtime::random_u64() }).await;
                    runtime::time::sleep(Duration::from_micros(50)).await;
                }
            };
            node.run_a_while(Duration::from_millis(20), ticks);
            node.crash();
            node.run(async {});
            node.world().trace_hash()
        };
        assert_eq!(trace(3), trace(3));
        assert_ne!(trace(3), trace(4));
    }
}
