//! Writes to another data centre go to one replica there, which passes them on; whatever becomes of
//! it, answers are counted and hints are kept as if each replica had been told.

use super::world::*;
use cluster::Traffic;
use messaging::Messaging;
use replication::coordinator::nodes::Planted;
use replication::hints::Hints;
use replication::{
    BatchEntry, BatchKind, Consistency, Coordinator, WriteError, WriteKind, WriteOptions,
};

use runtime::task::Scope;
use runtime::time::{sleep, wall_micros};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use testkit::config::entry;
use testkit::rows;

const ALL: Consistency = Consistency::All;
const ONE: Consistency = Consistency::One;
const QUORUM: Consistency = Consistency::Quorum;
const LOCAL_QUORUM: Consistency = Consistency::LocalQuorum;

/// Six nodes with a copy each, of which those with even numbers are in one data centre.
fn six(seed: u64) -> Nodes {
    six_with(seed, None)
}

fn six_with(seed: u64, planted: Option<Planted>) -> Nodes {
    let shards: Vec<_> = (0..6).map(|node| (1 + node % 3, node % 2)).collect();
    Plan::with(seed, &shards, 6, planted).hinting(Hinting::new()).start()
}

/// What all shards of a node have sent of a verb.
async fn sent(verb: &'static str) -> u64 {
    let counts = runtime::on_all_shards(move || async move {
        let counters = Messaging::current().expect("messages").counters();
        let of = counters.verbs.iter().filter(|(it, _, _)| it.name == verb);
        of.map(|(_, _, counts)| counts.sent).sum::<u64>()
    });
    counts.await.into_iter().sum()
}

/// How many relays were told, broke, were passed on, and were not.
async fn counted() -> [u64; 4] {
    let counts = runtime::on_all_shards(|| async {
        let traffic = Traffic::of_shard();
        let it = &traffic.relays;
        [&it.told, &it.broken, &it.forwarded, &it.errors].map(|count| count.get())
    });
    let add = |a: [u64; 4], b: [u64; 4]| std::array::from_fn(|at| a[at] + b[at]);
    counts.await.into_iter().fold([0; 4], add)
}

/// Writes at a level; how many were acknowledged, and how many replicas others heard of.
async fn writes(keys: std::ops::Range<i32>, level: Consistency) -> (u32, Vec<u32>) {
    let (mut acknowledged, mut counts) = (0, Vec::new());
    for pk in keys {
        match put(pk, pk, 1, level).await {
            Ok(()) => acknowledged += 1,
            Err(WriteError::Timeout { received, required: 6, .. })
            | Err(WriteError::Failure { received, required: 6, .. }) => counts.push(received),
            Err(error) => panic!("{error}"),
        }
    }
    (acknowledged, counts)
}

/// All nodes have the rows, without a read that could mend them.
fn check_all(nodes: &mut Nodes, keys: std::ops::Range<i32>) {
    for node in 0..nodes.count() {
        let keys = keys.clone();
        nodes.run(node, async move {
            for pk in keys {
                assert_eq!(get(pk, ONE).await, Ok(Some(pk)), "node {node}");
            }
        });
    }
}

#[test]
fn a_write_goes_to_another_data_centre_once() {
    let mut nodes = six(1);
    nodes.run(0, async {
        assert_eq!(writes(0..40, ALL).await, (40, Vec::new()));
        assert_eq!((sent("RELAY").await, sent("MUTATION").await), (40, 80));
        assert_eq!(counted().await, [40, 0, 0, 0]);
        assert_eq!(coordinator().background().missed(), 0);
    });
    let mut passed_on = 0;
    for node in [1, 3, 5] {
        let [told, broken, forwarded, errors] = nodes.run(node, async { counted().await });
        assert_eq!([told, broken, errors], [0; 3], "node {node}");
        assert!((8..=40).contains(&forwarded), "node {node} has passed on to {forwarded}");
        assert_eq!(nodes.run(node, async { sent("RELAYED").await }), forwarded);
        passed_on += forwarded;
    }
    assert_eq!(passed_on, 80);
    check_all(&mut nodes, 0..40);
    // A batch goes as one, and so does what a round has chosen.
    nodes.run(2, async {
        let table = entry("ks", "t");
        let part = |pk| {
            let mutation = rows::put(&table, pk, pk, wall_micros());
            BatchEntry { table: table.clone(), token: rows::token(pk), mutation }
        };
        let entries: Vec<_> = (100..104).map(part).collect();
        let options = WriteOptions { kind: WriteKind::UnloggedBatch, ..write_options(ALL) };
        let written = coordinator().write_batch(BatchKind::Unlogged, entries, &options).await;
        assert_eq!(written, Ok(()));
        let told = counted().await[0];
        assert!((1..=4).contains(&told), "{told}");
    });
    nodes.run(0, async {
        let levels = (Consistency::LocalSerial, ALL);
        for pk in 200..210 {
            assert_eq!(change_if(pk, None, pk, levels).await, Ok(Changed::Applied));
        }
        sleep(SECOND).await;
        assert_eq!(coordinator().background().missed(), 0);
    });
    check_all(&mut nodes, 100..104);
    check_all(&mut nodes, 200..210);
    let learned: u64 = (0..6).map(|node| nodes.run(node, async { counted().await[0] })).sum();
    assert!(50 < learned, "{learned}");
}

#[test]
fn nodes_that_do_not_relay_are_told_one_by_one() {
    let mut nodes = six(2);
    nodes.known.is_old.store(true, Ordering::Relaxed);
    nodes.run(0, async {
        assert_eq!(writes(0..10, ALL).await, (10, Vec::new()));
        assert_eq!((sent("RELAY").await, sent("MUTATION").await), (0, 50));
    });
}

#[test]
fn one_replica_alone_in_its_data_centre_is_told_as_any() {
    let mut nodes = six(3);
    for node in [1, 3] {
        nodes.crash(node);
    }
    nodes.run(0, async {
        assert_eq!(writes(0..10, QUORUM).await, (10, Vec::new()));
        assert_eq!((sent("RELAY").await, sent("MUTATION").await), (0, 30));
    });
    nodes.start(1);
    nodes.start(3);
    nodes.world.run_for(30 * SECOND);
    check_all(&mut nodes, 0..10);
}

#[test]
fn when_a_relay_has_died_the_others_are_told_at_once() {
    let mut nodes = six(4);
    nodes.crash(3);
    // Nobody knows it yet.
    nodes.known.alive[3].store(true, Ordering::Relaxed);
    nodes.run(0, async {
        let began = runtime::time::Instant::now();
        assert_eq!(writes(0..30, QUORUM).await, (30, Vec::new()));
        let [told, broken, ..] = counted().await;
        assert!(told == 30 && (3..=20).contains(&broken), "{broken} of {told}");
        assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    });
    nodes.start(3);
    nodes.world.run_for(30 * SECOND);
    check_all(&mut nodes, 0..30);
}

#[test]
fn a_relay_that_is_cut_off_is_a_timeout_of_all_that_it_was_to_tell() {
    let mut without = 0;
    // Who of three relays is chance.
    for seed in 5..8 {
        let mut nodes = six(seed);
        nodes.run(0, async { assert_eq!(writes(0..10, ALL).await.0, 10) });
        nodes.set_cut(3, true);
        without += nodes.run(0, async {
            // Until the connection ends for its silence.
            let (acknowledged, received) = writes(10..14, ALL).await;
            assert_eq!(acknowledged, 0);
            // Three of this data centre, and two of the other one if the relay was one of them.
            assert!(received.iter().all(|count| [3, 5].contains(count)), "{received:?}");
            assert_eq!(writes(14..40, LOCAL_QUORUM).await.0, 26);
            received.iter().filter(|count| **count == 3).count()
        });
        nodes.set_cut(3, false);
        nodes.world.run_for(40 * SECOND);
        check_all(&mut nodes, 0..40);
    }
    assert!((1..12).contains(&without), "{without} of 12");
}

#[test]
fn who_is_cut_off_from_the_relay_gets_a_hint() {
    let mut nodes = six(6);
    nodes.run(0, async { assert_eq!(writes(0..10, ALL).await.0, 10) });
    for other in [1, 5] {
        nodes.set_cut_from(other, 3, true);
    }
    nodes.run(0, async {
        let (acknowledged, received) = writes(10..14, ALL).await;
        // It is the relay itself now and then: the two answer the coordinator, until its own
        // connections to them have ended for their silence.
        assert!(acknowledged < 4 && received.contains(&5), "{received:?}");
        assert!(received.iter().all(|count| [4, 5].contains(count)), "{received:?}");
        assert_eq!(writes(14..40, QUORUM).await.0, 26);
        sleep(3 * SECOND).await;
        assert!(10 <= coordinator().background().missed());
    });
    for other in [1, 5] {
        nodes.set_cut_from(other, 3, false);
    }
    nodes.world.run_for(40 * SECOND);
    check_all(&mut nodes, 0..40);
}

/// Rows that were acknowledged at ALL, and that a node lacks which no relay has reached.
fn acknowledged_and_lacking(planted: Option<Planted>) -> usize {
    let mut nodes = six_with(10, planted);
    nodes.run(0, async { assert_eq!(writes(0..10, ALL).await.0, 10) });
    nodes.set_cut_from(1, 3, true);
    nodes.set_cut_from(5, 3, true);
    let acknowledged = nodes.run(0, async {
        let mut acknowledged = Vec::new();
        for pk in 10..14 {
            if put(pk, pk, 1, ALL).await.is_ok() {
                acknowledged.push(pk);
            }
        }
        acknowledged
    });
    nodes.run(3, async move {
        let mut lacking = 0;
        for pk in acknowledged {
            lacking += usize::from(get(pk, ONE).await != Ok(Some(pk)));
        }
        lacking
    })
}

#[test]
fn a_relay_whose_word_counts_for_others_is_caught() {
    assert_eq!(acknowledged_and_lacking(None), 0);
    assert!(0 < acknowledged_and_lacking(Some(Planted::TrustsRelays)));
}

#[test]
fn a_word_that_is_lost_is_a_timeout_and_one_that_comes_late_is_nothing() {
    let mut nodes = six(7);
    nodes.run(0, async { assert_eq!(writes(0..10, ALL).await.0, 10) });
    nodes.set_cut_from(3, 0, true);
    nodes.run(0, async {
        let (acknowledged, received) = writes(10..14, ALL).await;
        assert_eq!(acknowledged, 0);
        assert!(received.iter().all(|count| *count == 5), "{received:?}");
    });
    nodes.set_cut_from(3, 0, false);
    nodes.world.run_for(10 * SECOND);
    nodes.set_delay(5, 0, 3 * SECOND);
    nodes.run(0, async {
        let (acknowledged, received) = writes(14..18, ALL).await;
        assert_eq!((acknowledged, received), (0, vec![5; 4]));
        sleep(10 * SECOND).await;
    });
    nodes.set_delay(5, 0, Duration::ZERO);
    nodes.world.run_for(40 * SECOND);
    check_all(&mut nodes, 0..18);
}

#[test]
fn a_link_that_breaks_before_the_relay_has_answered_is_done_without() {
    // One of them is the relay; links to others stay whole.
    let broken = [1, 3, 5].into_iter().filter(|node| breaks_with_link_to(*node)).count();
    assert_eq!(broken, 1, "links to the relay");
}

/// Breaks one link while a write is under way, and whether it was that to the relay.
fn breaks_with_link_to(node: usize) -> bool {
    let mut nodes = six(8);
    nodes.run(0, async { assert_eq!(writes(0..10, ALL).await.0, 10) });
    for node in [1, 3, 5] {
        nodes.set_delay(0, node, SECOND / 4);
    }
    type Ended = Option<(u32, Vec<u32>)>;
    let ended: Rc<RefCell<Ended>> = Rc::default();
    let writing = ended.clone();
    nodes.run(0, async move {
        let scope = Scope::new();
        drop(scope.spawn(async move {
            // The relay itself is a failure, as any replica whose link breaks.
            let written = writes(10..11, QUORUM).await;
            writing.replace(Some(written));
        }));
        runtime::local::set(Rc::new(Writing { _scope: scope }));
        sleep(SECOND / 10).await;
    });
    nodes.reset(0, node);
    nodes.world.run_for(SECOND / 100);
    let is_relay = nodes.run(0, async { counted().await[1] }) == 1;
    for node in [1, 3, 5] {
        nodes.set_delay(0, node, Duration::ZERO);
    }
    nodes.world.run_for(30 * SECOND);
    assert_eq!(ended.take(), Some((1, Vec::new())));
    check_all(&mut nodes, 0..11);
    is_relay
}

/// A write that goes on while the world changes.
struct Writing {
    _scope: Scope,
}

#[test]
fn a_stop_keeps_what_a_relay_was_to_tell() {
    let mut nodes = six(9);
    nodes.run(0, async { assert_eq!(writes(0..10, ALL).await.0, 10) });
    for node in [1, 3, 5] {
        nodes.set_cut(node, true);
    }
    nodes.run(0, async {
        assert_eq!(writes(10..20, LOCAL_QUORUM).await.0, 10);
        Coordinator::stop().await;
        Hints::stop().await;
    });
    nodes.crash(0);
    for node in [1, 3, 5] {
        nodes.set_cut(node, false);
    }
    nodes.start(0);
    nodes.world.run_for(40 * SECOND);
    check_all(&mut nodes, 0..20);
}
