//! A keyspace of the ring is given tablets, and in some schedules that is taken back first, while
//! clients write and nodes fail.

use super::*;
use cluster::StorageMode;
use runtime::time::timeout;

type Asked = Result<(), String>;

impl Schedule {
    /// All of it, from the seed.
    fn run_conversion(&mut self) -> Vec<String> {
        self.truncates = false;
        self.run_for(1000);
        if self.prng.below(2) == 0 {
            self.begin_conversion();
            let some = self.prng.below(1 + self.members().len() as u64) as usize;
            for node in self.members().into_iter().take(some) {
                self.change_storage(node, StorageMode::Tablets);
            }
            for node in self.members() {
                self.change_storage(node, StorageMode::Ring);
            }
            self.end_conversion(false);
        }
        self.begin_conversion();
        for node in self.members() {
            self.suffer();
            self.change_storage(node, StorageMode::Tablets);
        }
        self.suffer();
        self.end_conversion(true);
        self.suffer();
        self.finish()
    }

    /// Somebody asks for something again and again, until it is done.
    fn insist<Fut>(&mut self, only: Option<usize>, what: &str, ask: impl Fn() -> Fut)
    where
        Fut: Future<Output = Asked> + 'static,
    {
        for _ in 0..60 {
            let by = only.unwrap_or_else(|| self.node());
            if !self.nodes.serves(by) {
                self.wait(by);
            }
            let asked = ask();
            let asked = self.nodes.run(by, async move { timeout(20 * SECOND, asked).await });
            stdx::trace!("{what} at node {by}: {asked:?}");
            match asked {
                Ok(Ok(())) => return,
                // It was done at an earlier time.
                Ok(Err(why)) if why.contains("does not have a tablet map") => return,
                _ => self.run_for(2000),
            }
        }
        panic!("heals: {what} is refused for ever");
    }

    fn begin_conversion(&mut self) {
        self.insist(None, "start", || async {
            runtime::local::get::<Cluster>().start_conversion(TABLES[0].to_owned()).await
        });
        // No node comes or goes meanwhile.
        let node = self.members()[0];
        if self.nodes.serves(node) {
            let left = self.nodes.run(node, async { moves::leave(false).await });
            assert!(left.is_err(), "nobody-meanwhile: {left:?}");
        }
    }

    /// A node is marked and started again.
    fn change_storage(&mut self, node: usize, mode: StorageMode) {
        self.insist(Some(node), mode.name(), move || async move {
            runtime::local::get::<Cluster>().intend_storage(mode).await
        });
        self.nodes.crash(node);
        self.run_for(1000);
        self.nodes.start(node);
        self.wait(node);
    }

    fn end_conversion(&mut self, has_tablets: bool) {
        self.insist(None, "finalize", || async {
            moves::finalize_conversion(TABLES[0].to_owned()).await
        });
        let node = self.node();
        if !self.nodes.serves(node) {
            self.wait(node);
        }
        let tablets = self.nodes.run(node, async {
            runtime::local::get::<Cluster>().catch_up().await.expect("a majority lives");
            let table = testkit::config::entry(TABLES[0], TABLES[0]);
            assert!(table.intended.is_empty(), "all-or-none: a map is left");
            !table.replicas.is_empty()
        });
        assert_eq!(tablets, has_tablets, "all-or-none");
    }
}

#[test]
fn a_keyspace_of_the_ring_is_given_tablets_while_nodes_fail() {
    for seed in runtime::sim::seeds(4) {
        let mut schedule = Schedule::new(seed, None);
        let wrong = schedule.run_conversion();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        for node in schedule.members() {
            let (count, target) = schedule.nodes.run(node, async {
                let table = testkit::config::entry(TABLES[0], TABLES[0]);
                (table.replicas.count(), table.replicas.target())
            });
            assert!(count.is_power_of_two() && target == 0, "seed {seed}: {count} on {node}");
        }
    }
}
