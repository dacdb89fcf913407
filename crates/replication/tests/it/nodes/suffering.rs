//! Nodes that crash, are cut off, are slow and lose their connections, while clients on each of
//! them work.

use super::world::*;
use replication::coordinator::nodes::Planted;
use replication::hints::Hints;
use std::time::Duration;
use stdx::Prng;

/// What each node gets when it starts: its tables, and its clients with a source of chance.
pub(super) trait Begins {
    fn make_tables(&self, nodes: &mut Nodes, node: usize);
    fn start_clients(&self, nodes: &mut Nodes, node: usize, prng: Prng);
}

/// Whether this shard has nothing to tell others any more. A batch that it keeps may still be
/// replayed: who coordinated it may have died before any of it was applied.
pub(super) fn is_quiet_here() -> bool {
    let coordinator = coordinator();
    let outbox = coordinator.outbox();
    let is_shipped = outbox.left() == 0 && outbox.pending().0 == 0;
    let hints = Hints::of_shard().expect("hints");
    is_shipped && hints.hosts().is_empty() && coordinator.held().is_empty()
}

pub(super) struct Suffering<B> {
    pub(super) nodes: Nodes,
    pub(super) shards: Vec<u16>,
    pub(super) prng: Prng,
    begins: B,
}

impl<B: Begins> Suffering<B> {
    /// Two to four nodes with up to three shards and copies.
    pub(super) fn new(seed: u64, planted: Option<Planted>, begins: B) -> Suffering<B> {
        let mut prng = Prng::from_seed(seed);
        let (count, copies) = (prng.between(2, 4), prng.between(1, 3) as u32);
        let shards: Vec<u16> = (0..count).map(|_| prng.between(1, 3) as u16).collect();
        let seats: Vec<(u16, u16)> = shards.iter().map(|shards| (*shards, 0)).collect();
        let copies = copies.min(count as u32);
        let nodes = Plan::with(seed, &seats, copies, planted).hinting(Hinting::new()).start();
        let mut all = Suffering { nodes, shards, prng, begins };
        (0..all.nodes.count()).for_each(|node| all.begins.make_tables(&mut all.nodes, node));
        (0..all.nodes.count()).for_each(|node| all.start_clients(node));
        all
    }

    fn start_clients(&mut self, node: usize) {
        let prng = self.prng.fork();
        self.begins.start_clients(&mut self.nodes, node, prng);
    }

    pub(super) fn run_for(&mut self, millis: u64) {
        let millis = 1 + self.prng.below(millis);
        self.nodes.world.run_for(Duration::from_millis(millis));
    }

    fn revive(&mut self, node: usize) {
        self.nodes.start(node);
        self.begins.make_tables(&mut self.nodes, node);
        self.start_clients(node);
    }

    /// Something goes wrong, for a while.
    pub(super) fn suffer(&mut self) {
        let count = self.nodes.count() as u64;
        let (node, other) = (self.prng.below(count) as usize, self.prng.below(count) as usize);
        match self.prng.below(5) {
            0 | 1 => {
                self.nodes.crash(node);
                self.run_for(800);
                self.revive(node);
            }
            2 => {
                self.nodes.set_cut(node, true);
                self.run_for(3000);
                // It has told nobody, and does not know any more what it had to tell.
                let dies = self.prng.one_in(2);
                if dies {
                    self.nodes.crash(node);
                }
                self.nodes.set_cut(node, false);
                if dies {
                    self.revive(node);
                }
            }
            3 if node != other => self.nodes.reset(node, other),
            _ if node != other => {
                let delay = Duration::from_millis(self.prng.below(300));
                self.nodes.set_delay(node, other, delay);
                self.run_for(800);
                self.nodes.set_delay(node, other, Duration::ZERO);
            }
            _ => {}
        }
        self.run_for(300);
    }

    /// Whether nothing is on its way any more.
    fn is_quiet(&mut self) -> bool {
        let shards = self.shards.clone();
        let mut all =
            (0..).zip(shards).flat_map(|(node, count)| (0..count).map(move |it| (node, it)));
        all.all(|place| self.nodes.run_on(place, async { is_quiet_here() }))
    }

    /// Waits until nothing is on its way any more.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        for _ in 0..120 {
            self.nodes.world.run_for(SECOND);
            if self.is_quiet() {
                return Ok(());
            }
        }
        Err("something is still on its way".to_owned())
    }
}
