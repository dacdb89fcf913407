//! Conditional writes and serial reads on several nodes, one thing at a time.

use super::world::*;
use mutation::FrozenView;
use mutation::page::{ColumnForm, PageView, Partitions, ReadCommand};
use replication::{Consistency, ReadError, ReadOptions, WriteError};
use runtime::task::Scope;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use testkit::config::entry;
use testkit::rows;

const SERIAL: Consistency = Consistency::Serial;
const LOCAL_SERIAL: Consistency = Consistency::LocalSerial;
const QUORUM: Consistency = Consistency::Quorum;
const LEVELS: (Consistency, Consistency) = (SERIAL, QUORUM);

#[test]
fn what_one_node_changes_all_of_them_see() {
    let mut nodes = Nodes::new(1, &[2, 1, 3, 2]);
    for (turn, node) in [0, 1, 2, 3, 2, 1].into_iter().enumerate() {
        let turn = turn as i32;
        nodes.run(node, async move {
            for pk in 0..10 {
                let from = (0 < turn).then_some(turn);
                let wrong = change_if(pk, Some(100), 200, LEVELS).await;
                assert_eq!(wrong, Ok(Changed::Found(from)), "{pk}");
                assert_eq!(change_if(pk, from, turn + 1, LEVELS).await, Ok(Changed::Applied));
            }
        });
        for node in 0..nodes.count() {
            nodes.run(node, async move {
                for pk in 0..10 {
                    for level in [SERIAL, LOCAL_SERIAL, QUORUM] {
                        assert_eq!(get(pk, level).await, Ok(Some(turn + 1)), "{pk} {level:?}");
                    }
                }
            });
        }
    }
    for node in 0..nodes.count() {
        nodes.run(node, async {
            let cas = &coordinator_traffic().cas;
            assert_eq!((cas.contention.get(), cas.unfinished_commits.get()), (0, 0));
        });
    }
}

fn coordinator_traffic() -> Rc<cluster::Traffic> {
    cluster::Traffic::of_shard()
}

/// What all replicas have learned is not remembered, but for its ballots.
#[test]
fn proposals_are_forgotten_when_all_have_learned_them() {
    let mut nodes = Nodes::new(3, &[1, 1, 1]);
    nodes.run(0, async {
        for pk in 0..5 {
            assert_eq!(change_if(pk, None, 1, LEVELS).await, Ok(Changed::Applied));
        }
    });
    nodes.world.run_for(SECOND);
    for node in 0..nodes.count() {
        nodes.run(node, async {
            assert_eq!(proposals().await, (5, 0));
        });
    }
    nodes.crash(2);
    nodes.run(0, async {
        for pk in 0..3 {
            assert_eq!(change_if(pk, Some(1), 2, LEVELS).await, Ok(Changed::Applied));
        }
    });
    nodes.world.run_for(SECOND);
    nodes.run(1, async {
        assert_eq!(proposals().await, (5, 3), "one has not learned them");
    });
    nodes.start(2);
    nodes.run(2, async {
        // Its own promises are gone from no disk, and its next rounds learn what it has missed.
        assert_eq!(proposals().await, (5, 0));
        for pk in 0..5 {
            let found = if pk < 3 { 2 } else { 1 };
            assert_eq!(get(pk, SERIAL).await, Ok(Some(found)));
        }
    });
}

/// How many rows of rounds this node has, and how many of them have a proposal that changes
/// something: what only ends a read has no rows.
async fn proposals() -> (usize, usize) {
    let table = entry("system", "paxos");
    let column = |name| (table.schema.column(name).expect("a column").id, ColumnForm::Value);
    let ints = rows::read_of(&entry("ks", "t"), rows::whole_ring(), 100);
    let columns = vec![column("promise"), column("proposal")];
    let command = ReadCommand { table: table.schema.id, columns, ..ints };
    let options = ReadOptions::new(Consistency::One, SECOND);
    let page = coordinator().read(&table, model::Token::MIN, &command, &options).await;
    let page = page.expect("rows");
    let view = PageView::parse(&page.bytes, command.layout()).expect("a page");
    let rows = || view.partitions().flat_map(|partition| partition.rows().collect::<Vec<_>>());
    // Before it stands since which one it was made.
    let is_full = |value: &&[u8]| {
        let mutation = &value[if value[0] == 1 { 17 } else { 1 }..];
        !FrozenView::parse(mutation).expect("a mutation").is_empty()
    };
    let values = rows().filter_map(|row| row.columns().nth(1).and_then(|column| column.value));
    (rows().count(), values.filter(is_full).count())
}

#[test]
fn rounds_need_a_majority() {
    let mut nodes = Nodes::new(4, &[1, 1, 1]);
    nodes.run(0, async {
        assert_eq!(change_if(1, None, 1, LEVELS).await, Ok(Changed::Applied));
    });
    nodes.crash(1);
    nodes.run(0, async {
        assert_eq!(change_if(1, Some(1), 2, LEVELS).await, Ok(Changed::Applied));
        assert_eq!(get(1, SERIAL).await, Ok(Some(2)));
    });
    nodes.crash(2);
    nodes.run(0, async {
        let (consistency, required, alive) = (SERIAL, 2, 1);
        let missing = WriteError::Unavailable { consistency, required, alive };
        assert_eq!(change_if(1, Some(2), 3, LEVELS).await, Err(missing));
        let missing = ReadError::Unavailable { consistency, required, alive };
        assert_eq!(get(1, SERIAL).await, Err(missing));
    });
    nodes.start(1);
    // Whoever asks, the other one leads, or is thought to be dead.
    nodes.run(1, async {
        assert_eq!(get(1, SERIAL).await, Ok(Some(2)));
        let table = entry("ks", "t");
        let command = rows::read_of(&table, rows::whole_ring(), 10);
        let options = ReadOptions::new(SERIAL, SECOND);
        let read = coordinator().read(&table, model::Token::MIN, &command, &options).await;
        assert!(matches!(read, Err(ReadError::Refused(_))), "a range: {read:?}");
        assert!(matches!(command.partitions, Partitions::Range { .. }));
    });
}

/// Rounds of one data centre count its replicas alone, and tell all of them.
#[test]
fn a_data_center_goes_on_alone() {
    let centers = [(1, 0), (2, 0), (1, 0), (1, 1), (1, 1), (2, 1)];
    let mut nodes = Nodes::with(5, &centers, 6, None);
    let local = (LOCAL_SERIAL, Consistency::LocalQuorum);
    nodes.run(0, async move {
        assert_eq!(change_if(1, None, 1, LEVELS).await, Ok(Changed::Applied));
        assert_eq!(change_if(1, Some(1), 2, local).await, Ok(Changed::Applied));
    });
    nodes.world.run_for(SECOND);
    nodes.run(5, async { assert_eq!(get(1, Consistency::LocalQuorum).await, Ok(Some(2))) });
    (3..6).for_each(|node| nodes.crash(node));
    nodes.run(0, async move {
        assert_eq!(change_if(1, Some(2), 3, local).await, Ok(Changed::Applied));
        assert_eq!(get(1, LOCAL_SERIAL).await, Ok(Some(3)));
        let (consistency, required, alive) = (SERIAL, 4, 3);
        let missing = WriteError::Unavailable { consistency, required, alive };
        assert_eq!(change_if(1, Some(3), 4, LEVELS).await, Err(missing));
    });
}

/// Many clients of all nodes add to one row: each addition that was acknowledged is there once.
#[test]
fn contended_additions_are_all_there() {
    let (sum, unknown, again) = contended(false);
    assert_eq!((sum, unknown, again), (120, 0, 0));
}

/// Those in line take part in the next round, and each sees what those before it have added.
#[test]
fn who_waits_in_line_takes_part_in_the_next_round() {
    let mut nodes = Nodes::new(9, &[1, 1, 1]);
    nodes.known.all_lead.store(true, Ordering::Relaxed);
    nodes.run(0, async {
        // The first round asks for promises, and is nobody else's.
        assert_eq!(add(1, 1, LEVELS).await, Ok(Changed::Applied));
        let additions = (0..20).map(|_| add(1, 1, LEVELS));
        let added = runtime::task::join_all(additions).await;
        assert!(added.iter().all(|one| *one == Ok(Changed::Applied)), "{added:?}");
        assert_eq!(get(1, SERIAL).await, Ok(Some(21)));
        // Who came when the first one had read waits for the second round.
        let shared = coordinator_traffic().cas.shared.get();
        assert!((18..=19).contains(&shared), "{shared} have shared a round");
        // At another level, and in a round that is judged anew.
        let levels = [Consistency::Quorum, Consistency::All, Consistency::One];
        let additions = (0..21).map(|at| add(1, 1, (SERIAL, levels[at % 3])));
        let added = runtime::task::join_all(additions).await;
        assert!(added.iter().all(|one| *one == Ok(Changed::Applied)), "{added:?}");
        assert_eq!(get(1, SERIAL).await, Ok(Some(42)));
    });
}

/// Each replica leads, and supersedes the others: some do not know what became of their additions,
/// but it goes on.
#[test]
fn additions_that_several_nodes_lead_go_on() {
    let (sum, unknown, again) = contended(true);
    assert!(20 < again, "{again} rounds have begun again");
    assert!(40 < sum, "{sum} additions, and {unknown} of which nobody knows");
}

/// How many of 120 additions were acknowledged, how many ended in a timeout, and how many rounds
/// began again.
fn contended(all_lead: bool) -> (i32, i32, u64) {
    let mut nodes = Nodes::new(6, &[2, 1, 2]);
    nodes.known.all_lead.store(all_lead, Ordering::Relaxed);
    let (sum, unknown, ended) =
        (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut scopes = Vec::new();
    for node in 0..nodes.count() {
        let (sum, unknown, ended) = (sum.clone(), unknown.clone(), ended.clone());
        let scope = nodes.run(node, async move {
            let scope = Scope::new();
            for _ in 0..4 {
                let (sum, unknown, ended) = (sum.clone(), unknown.clone(), ended.clone());
                drop(scope.spawn(async move {
                    for _ in 0..10 {
                        match add(1, 1, LEVELS).await {
                            Ok(changed) => {
                                assert_eq!(changed, Changed::Applied);
                                sum.set(sum.get() + 1);
                            }
                            Err(WriteError::Timeout { .. }) => unknown.set(unknown.get() + 1),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    ended.set(ended.get() + 1);
                }));
            }
            scope
        });
        scopes.push(scope);
    }
    for _ in 0..600 {
        nodes.world.run_for(SECOND);
        if ended.get() == 12 {
            break;
        }
    }
    assert_eq!(ended.get(), 12, "{} additions", sum.get());
    let (sum, unknown) = (sum.get(), unknown.get());
    nodes.run(1, async move {
        let found = get(1, SERIAL).await.expect("a read").unwrap_or(0);
        assert!((sum..=sum + unknown).contains(&found), "{found} after {sum} and {unknown}");
    });
    drop(scopes);
    let (mut all, mut uncertain_sum) = (0, 0);
    for node in 0..nodes.count() {
        let counted = nodes.run(node, async {
            let counts = runtime::on_all_shards(|| async {
                let traffic = coordinator_traffic();
                let cas = &traffic.cas;
                let times = cas.contended_writes.times() + cas.contended_reads.times();
                assert_eq!(cas.contention.get(), times, "what ended is counted once");
                (times, cas.uncertain.get())
            });
            counts.await
        });
        all += counted.iter().map(|(times, _)| times).sum::<u64>();
        uncertain_sum += counted.iter().map(|(_, uncertain)| uncertain).sum::<u64>();
    }
    assert!(uncertain_sum <= unknown as u64, "{uncertain_sum} of {unknown}");
    (sum, unknown, all)
}

/// A proposal that only its leader has accepted, which died then.
fn left_unfinished(seed: u64) -> Nodes {
    let mut nodes = Nodes::new(seed, &[1, 1, 1]);
    nodes.known.all_lead.store(true, Ordering::Relaxed);
    // There are connections.
    nodes.run(0, async { assert_eq!(put(2, 1, 1, Consistency::All).await, Ok(())) });
    for other in [1, 2] {
        nodes.set_delay(0, other, SECOND / 10);
    }
    nodes.run(0, async {
        let scope = Scope::new();
        drop(scope.spawn(async {
            let _ = change_if(1, None, 7, LEVELS).await;
        }));
        // Promised, read, and proposed: not yet heard of.
        runtime::time::sleep(SECOND / 4).await;
        drop(scope);
    });
    nodes.crash(0);
    for other in [1, 2] {
        nodes.set_delay(0, other, Duration::ZERO);
    }
    nodes.start(0);
    // So that it is one of every majority.
    nodes.crash(2);
    nodes
}

#[test]
fn who_completes_what_was_left_is_counted() {
    for is_read in [true, false] {
        let mut nodes = left_unfinished(8);
        nodes.run(0, async move {
            match is_read {
                true => assert_eq!(get(1, SERIAL).await, Ok(Some(7))),
                false => {
                    assert_eq!(change_if(1, Some(7), 8, LEVELS).await, Ok(Changed::Applied));
                }
            }
            let traffic = coordinator_traffic();
            let completed = [&traffic.cas.unfinished_by_reads, &traffic.cas.unfinished_commits];
            let expected = if is_read { [1, 0] } else { [0, 1] };
            assert_eq!(completed.map(|count| count.get()), expected);
        });
    }
}
