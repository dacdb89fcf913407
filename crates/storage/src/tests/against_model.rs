//! A table answers as a naive model does, whatever was flushed, restarted or truncated in between.

use super::*;
use mutation::testing;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as RunnerConfig, RngAlgorithm, TestRng, TestRunner};
use reader::testing::{AnswerRow, Model, answer_rows};
use runtime::sim::{NodeId, Options, World};
use stdx::Prng;

/// Values drawn from strategies, all from one seed.
pub(super) struct Draw {
    runner: TestRunner,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        Draw { runner: TestRunner::new_with_rng(RunnerConfig::default(), rng) }
    }
    pub(super) fn one<S: Strategy>(&mut self, strategy: S) -> S::Value {
        strategy.new_tree(&mut self.runner).unwrap().current()
    }
}

pub(super) async fn start() -> Rc<Storage> {
    let storage = Storage::open(config()).await.unwrap();
    let schema = Rc::new(testing::schema());
    storage.add_table(schema, TabletMap::tablets(3, 1), Log::Data).await.unwrap();
    storage.replay(Log::Data).await.unwrap();
    storage
}

/// All pages of a command.
pub(super) async fn read_all(storage: &Storage, command: &ReadCommand) -> Vec<AnswerRow> {
    let mut command = command.clone();
    let mut out = Vec::new();
    loop {
        let page = storage.read(&command).await.unwrap();
        out.extend(answer_rows(&command, &page.bytes));
        let Some(resume) = page.resume else { return out };
        assert_ne!(command.resume.as_ref(), Some(&resume), "a page that makes no progress");
        command.resume = Some(resume);
    }
}

fn check(seed: u64) {
    let mut world = World::new(Options::new(seed));
    let node: NodeId = world.add_node(1);
    // Compactions expire by the wall clock: it stays before every expiry of the generators.
    let epoch = world.block_on(node, 0, async { runtime::time::wall_micros() });
    world.crash(node);
    world.skew_wall_clock(node, -epoch);
    let (mut draw, mut prng) = (Draw::new(seed), Prng::from_seed(seed));
    let mut applied: Vec<FrozenMutation> = Vec::new();
    let table = testing::schema().id;
    let mut up = false;
    for _ in 0..30 {
        if !up {
            world.block_on(node, 0, async { drop(start().await) });
            up = true;
        }
        let storage = || runtime::local::get::<Storage>();
        match prng.below(20) {
            0 => {
                world.crash(node);
                up = false;
            }
            1 => {
                world.block_on(node, 0, async move { storage().stop().await.unwrap() });
                world.crash(node);
                up = false;
            }
            2 => {
                world.block_on(node, 0, async move { storage().truncate(table, 1).await.unwrap() });
                applied.clear();
            }
            3..7 => {
                world.block_on(node, 0, async move { storage().flush(table).await.unwrap() });
            }
            7..11 => {
                let command = draw.one(reader::testing::command());
                let expected = Model::of(&applied).answer(&command);
                let shown = format!("seed {seed}: {command:?}");
                let seen =
                    world.block_on(node, 0, async move { read_all(&storage(), &command).await });
                assert_eq!(seen, expected, "{shown}");
            }
            _ => {
                let some = draw.one(reader::testing::mutations());
                applied.extend(some.iter().cloned());
                world.block_on(node, 0, async move {
                    for one in some {
                        storage().apply(one).await.unwrap();
                    }
                });
            }
        }
    }
}

#[test]
fn a_table_answers_as_the_model_does() {
    let seeds = match std::env::var("NEREID_MODEL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..60,
    };
    seeds.for_each(check);
}
