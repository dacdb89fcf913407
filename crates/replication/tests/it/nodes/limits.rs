//! Limits of how often a partition is read and written, over several nodes.

use super::world::*;
use cluster::Traffic;
use model::Token;
use mutation::page::Partitions;
use replication::{BatchEntry, BatchKind, Consistency, Operation, RateLimited, ReadError};
use replication::{ReadOptions, WriteError, WriteKind, WriteOptions};
use runtime::time::{sleep, wall_micros};
use std::sync::atomic::Ordering;
use std::time::Duration;
use testkit::config::entry;
use testkit::rows;

const QUORUM: Consistency = Consistency::Quorum;
const ALL: Consistency = Consistency::All;
const ONE: Consistency = Consistency::One;

/// How a client's request ended: with a value that it read perhaps, or refused.
type Ended = Result<Option<i32>, RateLimited>;

async fn write(pk: i32, value: i32, level: Consistency) -> Ended {
    let (table, token) = (entry("ks", "l"), rows::token(pk));
    let limit = coordinator().admit_request(&table, token, Operation::Write, SECOND).await?;
    let mutation = rows::put(&table, pk, value, wall_micros());
    let options = WriteOptions { limit, ..write_options(level) };
    match coordinator().write(&table, token, mutation, &options).await {
        Ok(()) => Ok(None),
        Err(WriteError::RateLimited(limited)) => Err(limited),
        Err(error) => panic!("{error}"),
    }
}

async fn read(pk: i32, level: Consistency) -> Ended {
    let (table, token) = (entry("ks", "l"), rows::token(pk));
    let limit = coordinator().admit_request(&table, token, Operation::Read, SECOND).await?;
    let command = rows::read_of(&table, Partitions::Key(rows::key(pk).to_vec()), 10);
    let options = ReadOptions { limit, ..ReadOptions::new(level, 2 * SECOND) };
    match coordinator().read(&table, token, &command, &options).await {
        Ok(page) => Ok(rows::pairs(&command, &page)
            .pop()
            .map(|(_, value)| i32::from_be_bytes(value[..].try_into().expect("an int")))),
        Err(ReadError::RateLimited(limited)) => Err(limited),
        Err(error) => panic!("{error}"),
    }
}

/// A row of which a node has no copy, or has one.
fn row_of(nodes: &Nodes, node: usize, has_copy: bool) -> i32 {
    let is_it = |pk: &i32| nodes.replicas_of(*pk).contains(&node) == has_copy;
    (0..).find(is_it).expect("there are such rows")
}

/// How many of a hundred requests a second go on in each, and who has rejected the others.
async fn going_on(pk: i32, operation: Operation) -> (f64, [u32; 2]) {
    let (mut gone_on, mut rejected) = (0, [0, 0]);
    for second in 0..30 {
        for value in 0..100 {
            let ended = match operation {
                Operation::Read => read(pk, QUORUM).await,
                Operation::Write => write(pk, value, QUORUM).await,
            };
            match ended {
                Ok(_) => gone_on += u32::from(10 <= second),
                Err(limited) => {
                    let RateLimited { by_coordinator, table, .. } = limited;
                    assert_eq!((limited.operation, &*table), (operation, "ks.l"));
                    rejected[usize::from(by_coordinator)] += 1;
                }
            }
        }
        let micros = 1_000_000 - wall_micros() % 1_000_000;
        sleep(Duration::from_micros(micros as u64)).await;
    }
    (f64::from(gone_on) / 20.0, rejected)
}

fn rejected_here() -> [u64; 2] {
    Traffic::of_shard().rejected.each_ref().map(|count| count.get())
}

#[test]
fn a_partition_has_one_limit_whoever_coordinates() {
    // The last has two data centres, and what goes to the other one goes by way of a relay.
    for (seed, has_copy, centers, copies) in [(1, false, 1, 3), (2, true, 1, 3), (4, false, 2, 4)] {
        let count = if centers == 1 { 4 } else { 6 };
        let shards: Vec<_> = (0..count).map(|node| (1, node % centers)).collect();
        let mut nodes = Nodes::with(seed, &shards, copies, None);
        let pk = row_of(&nodes, 0, has_copy);
        for operation in [Operation::Write, Operation::Read] {
            let (per_second, [by_replicas, by_coordinator]) =
                nodes.run(0, async move { going_on(pk, operation).await });
            let limit = f64::from(LIMIT);
            let is_about = (0.6 * limit..=1.5 * limit).contains(&per_second);
            assert!(is_about, "{operation:?}: {per_second} a second");
            let (expected, other) = match has_copy {
                true => (by_coordinator, by_replicas),
                false => (by_replicas, by_coordinator),
            };
            assert!(2000 < expected && other == 0, "{by_replicas}, {by_coordinator}");
        }
        for node in 0..nodes.count() {
            let rejected = nodes.run(node, async { rejected_here() });
            let judges = !has_copy && nodes.replicas_of(pk).contains(&node);
            assert_eq!(rejected[1] != 0, judges, "node {node} has rejected {rejected:?}");
        }
    }
}

#[test]
fn what_is_rejected_is_rejected_by_all_replicas() {
    let mut nodes = Plan::new(4, &[1, 2, 3, 1]).hinting(Hinting::new()).start();
    let pk = row_of(&nodes, 0, false);
    nodes.run(0, async move {
        let mut last = None;
        for value in 0..200 {
            if write(pk, value, QUORUM).await.is_ok() {
                last = Some(value);
            }
        }
        assert!(last.is_some_and(|last| last < 199), "{last:?}");
        sleep(2 * SECOND).await;
        let background = coordinator().background().missed();
        assert_eq!(background, 0, "what all replicas reject nobody has missed");
        assert_eq!(read(pk, ALL).await, Ok(last));
        assert_eq!(coordinator().background().differing(), 0);
    });
}

#[test]
fn who_coordinates_and_has_a_copy_decides_and_the_others_count() {
    let mut nodes = Nodes::new(5, &[1, 1, 1, 1]);
    let pk = row_of(&nodes, 0, true);
    let other = nodes.replicas_of(pk).into_iter().find(|node| *node != 0).expect("a second");
    nodes.run(0, async move {
        let mut by_coordinator = 0;
        for value in 0..1000 {
            match write(pk, value, ALL).await {
                Ok(_) => {}
                Err(limited) => by_coordinator += u32::from(limited.by_coordinator),
            }
        }
        assert!(900 < by_coordinator, "{by_coordinator}");
    });
    // What went on was counted there.
    nodes.run(other, async move {
        assert_eq!(rejected_here(), [0, 0]);
        let mut refused = 0;
        for value in 0..40 {
            refused += u32::from(write(pk, value, ALL).await.is_err());
        }
        assert!(10 < refused, "{refused} of 40");
    });
}

#[test]
fn a_replica_that_rejects_alone_what_is_acknowledged_gets_a_hint() {
    let mut nodes = Plan::new(7, &[1, 1, 1, 1]).hinting(Hinting::new()).start();
    let pk = row_of(&nodes, 0, false);
    let busy = nodes.replicas_of(pk)[1];
    nodes.set_cut(busy, true);
    // It counts what nobody else does.
    nodes.run(busy, async move {
        let (table, token, it) = (entry("ks", "l"), rows::token(pk), coordinator());
        for _ in 0..100_000 {
            let _ = it.admit_request(&table, token, Operation::Write, SECOND).await;
        }
    });
    nodes.set_cut(busy, false);
    nodes.run(0, async move {
        sleep(SECOND / 10).await;
        assert_eq!(write(pk, 5, QUORUM).await, Ok(None));
        sleep(SECOND / 10).await;
        assert_eq!(coordinator().background().missed(), 1);
        sleep(40 * SECOND).await;
    });
    nodes.run(busy, async move {
        assert_eq!(rejected_here(), [0, 1]);
        assert_eq!(read(pk, ONE).await, Ok(Some(5)), "the hint has come");
    });
}

#[test]
fn a_logged_batch_is_not_rejected_in_part() {
    let mut nodes = Nodes::new(8, &[1, 1, 1, 1]);
    let (a, b) = (row_of(&nodes, 0, false), row_of(&nodes, 1, false));
    nodes.run(0, async move {
        let (table, it) = (entry("ks", "l"), coordinator());
        for value in 0..50 {
            let part = |pk| {
                let mutation = rows::put(&table, pk, value, wall_micros());
                BatchEntry { table: table.clone(), token: rows::token(pk), mutation }
            };
            let token: Token = rows::token(a);
            let limit = it.admit_request(&table, token, Operation::Write, SECOND).await;
            let limit = limit.expect("not this node's to decide");
            assert!(limit.is_some());
            let kind = WriteKind::Batch;
            let options = WriteOptions { limit, kind, ..write_options(QUORUM) };
            let entries = vec![part(a), part(b)];
            let written = it.write_batch(BatchKind::Logged, entries, &options).await;
            assert_eq!(written, Ok(()));
        }
        // They are counted.
        let mut refused = 0;
        for value in 0..40 {
            refused += u32::from(write(a, value, QUORUM).await.is_err());
        }
        assert!(20 < refused, "{refused} of 40");
    });
}

#[test]
fn nodes_that_do_not_know_it_are_not_told() {
    let mut nodes = Nodes::new(10, &[1, 1, 1, 1]);
    nodes.known.is_old.store(true, Ordering::Relaxed);
    let pk = row_of(&nodes, 0, false);
    let (per_second, [by_replicas, by_coordinator]) =
        nodes.run(0, async move { going_on(pk, Operation::Write).await });
    assert!(per_second <= 1.5 * f64::from(LIMIT), "{per_second} a second");
    assert!(by_replicas == 0 && 2000 < by_coordinator, "{by_replicas}, {by_coordinator}");
}
