//! A table answers as a naive model does, whatever was flushed, restarted or truncated in between.

use super::*;
use mutation::testing;
use reader::testing::{AnswerRow, Model, answer_rows};
use stdx::Prng;
use testkit::{Draw, SimNode};

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
    // Compactions expire by the wall clock: it stays before every expiry of the generators.
    let mut node = SimNode::at_epoch(seed, 1);
    let mut prng = Prng::from_seed(seed);
    let mut draw = Draw::of(&mut prng);
    let mut applied: Vec<FrozenMutation> = Vec::new();
    let table = testing::schema().id;
    let mut up = false;
    for _ in 0..30 {
        if !up {
            node.run(async { drop(start().await) });
            up = true;
        }
        let storage = || runtime::local::get::<Storage>();
        match prng.below(20) {
            0 => {
                node.crash();
                up = false;
            }
            1 => {
                node.run(async move { storage().stop().await.unwrap() });
                node.crash();
                up = false;
            }
            2 => {
                node.run(async move { storage().truncate(table, 1).await.unwrap() });
                applied.clear();
            }
            3..7 => {
                node.run(async move { storage().flush(table).await.unwrap() });
            }
            7..11 => {
                let command = draw.one(reader::testing::command());
                let expected = Model::of(&applied).answer(&command);
                let shown = format!("seed {seed}: {command:?}");
                let seen = node.run(async move { read_all(&storage(), &command).await });
                assert_eq!(seen, expected, "{shown}");
            }
            _ => {
                let some = draw.one(reader::testing::mutations());
                applied.extend(some.iter().cloned());
                node.run(async move {
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
