//! Groups of mutations whose tables share the schema log, on a disk that fails.

use super::*;
use crate::WriteError;
use runtime::task::join;
use runtime::time::timeout;
use std::cell::Cell as StdCell;
use stdx::Prng;
use testkit::SimNode;

const PARTITIONS: u64 = 6;
/// How long a flush is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

fn table(id: u128) -> TableSchema {
    schema(id, &format!("t{id}"))
}

fn storage() -> Rc<Storage> {
    runtime::local::get::<Storage>()
}

/// Opens the tables, and finds what each partition of both has.
async fn reopen() -> Vec<[BTreeMap<u32, (i64, Vec<u8>)>; 2]> {
    let storage = Storage::open(config()).await.unwrap();
    for id in [1, 2] {
        storage.add_table(Rc::new(table(id)), TabletMap::static_map(1), Log::Schema).await.unwrap();
    }
    storage.replay(Log::Schema).await.unwrap();
    let mut found = Vec::new();
    for partition in 0..PARTITIONS {
        let one = rows(&storage, &table(1), partition).await;
        found.push([one, rows(&storage, &table(2), partition).await]);
    }
    found
}

async fn flush_one(id: u128) {
    // One that fails is tried again in the background.
    let _ = timeout(PATIENCE, storage().flush(Uuid::from_u128(id))).await;
}

/// Groups that write the same to both tables, and flushes of one of them, until something cannot
/// be logged; whether that came.
async fn live(mut prng: Prng, clock: Rc<StdCell<i64>>) -> bool {
    for _ in 0..prng.between(5, 40) {
        let partition = prng.below(PARTITIONS);
        clock.set(clock.get() + 1);
        let value = vec![b'.'; prng.below(5_000) as usize];
        let group = [1, 2].map(|id| write(&table(id), partition, 1, clock.get(), &value));
        let id = prng.between(1, 2) as u128;
        let flushes = prng.one_in(4);
        let flushed = async {
            if flushes {
                flush_one(id).await;
            }
        };
        let (written, ()) = join(storage().apply_all(group.to_vec()), flushed).await;
        if let Err(error) = written {
            // A disk that fails for long gives it no segment, either.
            let is_told = matches!(error, WriteError::Log(_) | WriteError::Overloaded(_));
            assert!(is_told, "{error}");
            return true;
        }
    }
    false
}

/// *logged-before-flushed*: after a crash all of a group is there, or nothing, though the log could
/// not be written and one of its tables was flushed.
#[test]
fn a_group_is_whole_or_not_there_whatever_fails() {
    let mut failed = 0;
    for seed in 0..300 {
        let mut prng = Prng::from_seed(seed);
        let mut node = SimNode::new(seed, 1);
        let clock = Rc::new(StdCell::new(0));
        for crash in 0..4 {
            for (partition, [one, other]) in node.run(reopen()).iter().enumerate() {
                assert!(one == other, "seed {seed}, crash {crash}, partition {partition}: half");
            }
            node.disk().set_error_rate(*prng.pick(&[0, 3, 10, 30]).unwrap());
            failed += u32::from(node.run(live(prng.fork(), clock.clone())));
            if prng.one_in(2) {
                node.disk().set_error_rate(0);
            }
            // Somewhere between the flushes that a failure asks for.
            node.run_for(Duration::from_micros(prng.below(4_000)));
            node.disk().set_error_rate(0);
            node.crash();
        }
    }
    assert!(20 < failed, "the log failed {failed} times");
}

/// What could not be logged is tried again: who waited was told, others are refused until it works,
/// and then nothing is missing.
#[test]
fn the_schema_log_goes_on_when_the_disk_does() {
    let mut node = SimNode::new(1, 1);
    node.run(reopen());
    let group = |at: i64| [1, 2].map(|id| write(&table(id), 1, at as u32, at, b"x")).to_vec();
    node.run(async move { storage().apply_all(group(1)).await.unwrap() });
    node.disk().set_error_rate(1);
    node.run(async move {
        for at in 2..4 {
            let error = storage().apply_all(group(at)).await.unwrap_err();
            assert!(matches!(error, WriteError::Log(_)), "{error}");
        }
        flush_one(1).await;
    });
    node.disk().set_error_rate(0);
    node.run(async move {
        let written = async move {
            while storage().apply_all(group(4)).await.is_err() {
                runtime::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, written).await.unwrap();
        storage().flush(Uuid::from_u128(1)).await.unwrap();
    });
    node.crash();
    let [one, other] = node.run(reopen()).swap_remove(1);
    // The second could not be logged at first; the third was refused.
    assert_eq!(one.keys().collect::<Vec<_>>(), [&1, &2, &4]);
    assert!(one == other);
}
