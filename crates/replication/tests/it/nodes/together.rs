//! Requests that travel together: each is answered by itself.

use super::world::*;
use cluster::SchemaChange;
use messaging::Messaging;
use model::{TableSchema, Type, Uuid};
use replication::coordinator::nodes::Planted;
use replication::wire::verb;
use replication::{Consistency, WriteError};
use runtime::task::join_all;
use std::time::Duration;
use storage::Storage;
use testkit::config::{change, entry};
use testkit::rows;

const QUORUM: Consistency = Consistency::Quorum;
const ALL: Consistency = Consistency::All;
const KEYS: i32 = 40;

/// What a node has been asked: writes and digests alone, and messages of several.
fn asked(nodes: &mut Nodes, node: usize) -> [u64; 4] {
    let counts = || async {
        let counters = Messaging::current().expect("messages").counters();
        [verb::MUTATION, verb::READ_DIGEST, verb::MUTATIONS, verb::READ_DIGESTS].map(|verb| {
            let of = counters.verbs.iter().filter(|(one, ..)| *one == verb);
            of.map(|(.., counts)| counts.received).sum::<u64>()
        })
    };
    let counts = nodes.run(node, async move { runtime::on_all_shards(counts).await });
    counts.into_iter().fold([0; 4], |all, of| std::array::from_fn(|at| all[at] + of[at]))
}

async fn put_all(level: Consistency, value: i32) -> Vec<Result<(), WriteError>> {
    join_all((0..KEYS).map(|pk| put(pk, value, value.into(), level))).await
}

async fn found() -> Vec<Option<i32>> {
    let all = join_all((0..KEYS).map(|pk| get(pk, QUORUM))).await;
    all.into_iter().map(|value| value.expect("a read")).collect()
}

#[test]
fn what_begins_in_one_turn_is_one_message() {
    let mut nodes = Nodes::new(71, &[1, 1, 1]);
    nodes.run(0, async {
        // Connections are made.
        put(0, 0, 0, ALL).await.expect("a write");
        assert_eq!(get(0, ALL).await, Ok(Some(0)));
        assert!(put_all(ALL, 1).await.iter().all(Result::is_ok));
        assert_eq!(found().await, [Some(1); KEYS as usize]);
    });
    for node in 1..3 {
        let [writes, digests, all_writes, all_digests] = asked(&mut nodes, node);
        assert_eq!((writes, digests, all_writes), (1, 1, 1), "node {node}");
        assert!(all_digests <= 1, "node {node}: {all_digests}");
    }
    // Where not all nodes know it, and after that.
    nodes.be_of_version(true);
    nodes.run(0, async {
        assert!(put_all(ALL, 2).await.iter().all(Result::is_ok));
        assert_eq!(found().await, [Some(2); KEYS as usize]);
    });
    let [writes, _, all_writes, _] = asked(&mut nodes, 1);
    assert_eq!((writes, all_writes), (KEYS as u64, 0));
}

/// What is not in memory is asked for once more, by itself.
#[test]
fn a_digest_that_takes_longer_is_asked_for_alone() {
    let mut nodes = Nodes::new(72, &[1, 2, 1]);
    nodes.run(0, async { assert!(put_all(ALL, 1).await.iter().all(Result::is_ok)) });
    for node in 0..3 {
        nodes.run(node, async {
            let flush = || async {
                runtime::local::get::<Storage>().flush_all().await.expect("a flush");
            };
            runtime::on_all_shards(flush).await;
        });
        nodes.crash(node);
        nodes.start(node);
    }
    nodes.run(0, async {
        assert!(join_all((0..9).map(|pk| put(pk, 2, 2, ALL))).await.iter().all(Result::is_ok));
        let expected: Vec<_> = (0..KEYS).map(|pk| Some(if pk < 9 { 2 } else { 1 })).collect();
        assert_eq!(found().await, expected);
    });
    let alone: u64 = (1..3).map(|node| asked(&mut nodes, node)[1]).sum();
    assert!(20 < alone, "{alone} were asked for alone");
}

/// A table that only the coordinator knows yet, beside one that all know.
fn with_a_table_of_one(nodes: &mut Nodes) {
    nodes.run(0, async {
        change(|_| {
            let builder = TableSchema::builder("ks", "x", Uuid::from_u128(0x7000));
            let builder = builder.partition_key("pk", Type::Int).regular("v", Type::Int);
            vec![SchemaChange::CreateTable(builder.build().expect("a table"))]
        })
        .await;
    });
}

/// Which writes of every other key, to `x`, and of the keys between, to `t`, are acknowledged.
async fn put_mixed() -> Vec<bool> {
    let one = |pk: i32| async move {
        let table = entry("ks", if pk % 2 == 0 { "x" } else { "t" });
        let mutation = rows::put(&table, pk, 5, 5);
        let options = write_options(QUORUM);
        coordinator().write(&table, rows::token(pk), mutation, &options).await.is_ok()
    };
    join_all((0..KEYS).map(one)).await
}

#[test]
fn one_that_is_refused_takes_no_other_with_it() {
    for planted in [None, Some(Planted::MixesAnswers), Some(Planted::FailsGroups)] {
        let places = [(1, 0), (1, 0), (1, 0)];
        let mut nodes = Nodes::with(73, &places, 3, planted);
        with_a_table_of_one(&mut nodes);
        let done = nodes.run(0, async {
            put(0, 0, 0, ALL).await.expect("a write");
            put_mixed().await
        });
        let expected: Vec<bool> = (0..KEYS).map(|pk| pk % 2 == 1).collect();
        let is_wrong = planted == Some(Planted::MixesAnswers);
        assert_eq!(done != expected, is_wrong, "{planted:?}: {done:?}");
        let [.., all_writes, _] = asked(&mut nodes, 1);
        assert!(0 < all_writes, "{planted:?}: they travelled alone");
    }
}

#[test]
fn each_is_over_when_its_time_is() {
    let mut nodes = Nodes::new(74, &[1, 1, 1]);
    nodes.run(0, async { put(0, 0, 0, ALL).await.expect("a write") });
    nodes.set_cut(2, true);
    let (done, took) = nodes.run(0, async {
        let begun = runtime::time::Instant::now();
        let done = put_all(ALL, 1).await;
        (done, runtime::time::Instant::now() - begun)
    });
    let is_late = |it: &Result<(), WriteError>| {
        matches!(it, Err(WriteError::Timeout { received: 2, required: 3, .. }))
    };
    assert!(done.iter().all(is_late), "{done:?}");
    let time = Duration::from_secs(2);
    assert!(time <= took && took < time + Duration::from_millis(50), "{took:?}");
    let done = nodes.run(0, async { put_all(QUORUM, 2).await });
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert_eq!(nodes.run(0, async { found().await }), [Some(2); KEYS as usize]);
}

/// Requests that are on their way when their shard stops end.
#[test]
fn a_stop_ends_them() {
    let mut nodes = Nodes::new(75, &[1, 1, 1]);
    let done = nodes.run(0, async {
        put(0, 0, 0, ALL).await.expect("a write");
        let (done, ()) =
            runtime::task::join(put_all(ALL, 1), replication::Coordinator::stop()).await;
        done
    });
    assert_eq!(done.len(), KEYS as usize);
}
