//! What each kind of request does on several nodes, one thing at a time.

use super::world::*;
use mutation::page::{ColumnForm, ReadCommand};
use mutation::{Cell, RowBuilder};
use replication::coordinator::nodes::Planted;
use replication::{BatchEntry, BatchKind, Consistency, ReadError, WriteError, WriteKind};
use runtime::task::join;
use runtime::time::sleep;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use testkit::config::entry;
use testkit::rows;

const QUORUM: Consistency = Consistency::Quorum;
const ONE: Consistency = Consistency::One;
const ALL: Consistency = Consistency::All;

#[test]
fn what_one_node_writes_all_of_them_read() {
    let mut nodes = Nodes::new(1, &[2, 1, 3, 2]);
    nodes.run(0, async {
        for pk in 0..30 {
            put(pk, pk, 1, QUORUM).await.expect("a write");
        }
    });
    for node in 0..nodes.count() {
        nodes.run(node, async {
            for level in [QUORUM, ALL] {
                for pk in 0..30 {
                    assert_eq!(get(pk, level).await, Ok(Some(pk)), "{level:?}");
                }
            }
            assert_eq!(get(30, QUORUM).await, Ok(None));
            assert_eq!(coordinator().background().missed(), 0);
        });
    }
    // Another shard coordinates as well, of keys that others own.
    nodes.run_on((2, 2), async {
        for pk in 0..30 {
            assert_eq!(get(pk, ONE).await, Ok(Some(pk)));
            put(pk, pk + 1, 2, ALL).await.expect("a write");
            assert_eq!(get(pk, ONE).await, Ok(Some(pk + 1)));
        }
    });
}

#[test]
fn levels_count_those_that_are_alive() {
    let mut nodes = Nodes::new(2, &[1, 1, 1]);
    nodes.crash(2);
    nodes.run(0, async {
        assert_eq!(put(1, 1, 1, QUORUM).await, Ok(()));
        let unavailable =
            |required, alive, consistency| WriteError::Unavailable { consistency, required, alive };
        assert_eq!(put(1, 2, 2, ALL).await, Err(unavailable(3, 2, ALL)));
        assert_eq!(
            put(1, 3, 3, Consistency::Three).await,
            Err(unavailable(3, 2, Consistency::Three))
        );
        let read = get(1, ALL).await;
        let missing = ReadError::Unavailable { consistency: ALL, required: 3, alive: 2 };
        assert_eq!(read, Err(missing));
        assert_eq!(get(1, QUORUM).await, Ok(Some(1)));
        let serial = put(1, 4, 4, Consistency::Serial).await;
        assert!(matches!(serial, Err(WriteError::Refused(_))), "{serial:?}");
        let any = get(1, Consistency::Any).await;
        assert!(matches!(any, Err(ReadError::Refused(_))), "{any:?}");
        assert_eq!(put(2, 1, 1, Consistency::Any).await, Ok(()));
    });
}

#[test]
fn a_node_that_does_not_answer_is_a_timeout_and_one_that_resets_is_a_failure() {
    let mut nodes = Nodes::new(3, &[1, 1, 1]);
    nodes.run(0, async { put(1, 1, 1, ALL).await.expect("a write") });
    nodes.set_cut(2, true);
    nodes.run(0, async {
        let late = put(1, 2, 2, ALL).await;
        let (received, required, kind) = (2, 3, WriteKind::Simple);
        let timeout = WriteError::Timeout { consistency: ALL, received, required, kind };
        assert_eq!(late, Err(timeout));
        let late = get(1, ALL).await;
        let is_late = matches!(late, Err(ReadError::Timeout { received: 2, required: 3, .. }));
        assert!(is_late, "{late:?}");
        assert_eq!(put(1, 3, 3, QUORUM).await, Ok(()));
        // A reader that asks the one that is away asks another one soon.
        assert_eq!(get(1, QUORUM).await, Ok(Some(3)));
    });
    nodes.set_cut(2, false);
    nodes.crash(2);
    nodes.known.alive[2].store(true, std::sync::atomic::Ordering::Relaxed);
    nodes.run(0, async {
        let failed = put(1, 4, 4, ALL).await;
        // It fails as soon as it can no longer succeed, whoever has acknowledged it by then.
        let is_failure = matches!(
            failed,
            Err(WriteError::Failure { received: 1 | 2, required: 3, failures: 1, .. })
                | Err(WriteError::Timeout { received: 2, required: 3, .. })
        );
        assert!(is_failure, "{failed:?}");
        assert_eq!(put(1, 5, 5, QUORUM).await, Ok(()));
        assert_eq!(get(1, QUORUM).await, Ok(Some(5)));
    });
}

#[test]
fn what_a_node_has_missed_a_read_brings() {
    let mut nodes = Nodes::new(4, &[1, 2, 1]);
    nodes.run(0, async {
        for pk in 0..10 {
            put(pk, 1, 1, ALL).await.expect("a write");
        }
    });
    nodes.crash(2);
    nodes.run(0, async {
        for pk in 0..10 {
            put(pk, 2, 2, QUORUM).await.expect("a write");
        }
        assert_eq!(coordinator().background().missed(), 10);
    });
    nodes.start(2);
    nodes.run(2, async {
        assert_eq!(get(3, ONE).await, Ok(Some(1)), "nobody has told it");
        for pk in 0..10 {
            assert_eq!(get(pk, QUORUM).await, Ok(Some(2)));
            assert_eq!(get(pk, ONE).await, Ok(Some(2)), "the read has brought it");
        }
        let coordinator = coordinator();
        let background = coordinator.background();
        assert_eq!((background.differing(), background.repairs()), (10, 10));
        assert_eq!(background.lacking(), 10);
    });
}

#[test]
fn a_slow_replica_is_not_waited_for() {
    let mut nodes = Nodes::new(14, &[1, 1, 1]);
    nodes.run(0, async {
        for pk in 0..20 {
            put(pk, pk, 1, ALL).await.expect("a write");
        }
    });
    for other in [0, 1] {
        nodes.set_delay(2, other, SECOND);
    }
    nodes.run(0, async {
        let began = runtime::time::Instant::now();
        for pk in 0..20 {
            assert_eq!(get(pk, QUORUM).await, Ok(Some(pk)));
        }
        let took = began.elapsed();
        // Some ask the slow one first, and another one a while later.
        assert!(took < 3 * SECOND, "{took:?}");
        let read = get(1, ALL).await;
        assert_eq!(read, Ok(Some(1)), "who needs all waits for all");
        assert!(took + SECOND <= began.elapsed(), "nobody is left to ask instead");
    });
}

/// A write that one replica has, and nobody acknowledged: once a read has shown it, all others do.
#[test]
fn what_a_read_has_shown_stays() {
    for planted in [None, Some(Planted::KeepsRepairs)] {
        let mut nodes = Nodes::with(13, &[(1, 0), (1, 0), (1, 0)], 3, planted);
        let expect_only = |nodes: &Nodes, alive: [bool; 3]| {
            for (flag, alive) in nodes.known.alive.iter().zip(alive) {
                flag.store(alive, std::sync::atomic::Ordering::Relaxed);
            }
        };
        nodes.run(0, async { put(1, 1, 1, ALL).await.expect("a write") });
        expect_only(&nodes, [true, false, false]);
        nodes.run(0, async { put(1, 2, 2, ONE).await.expect("a write") });
        expect_only(&nodes, [true, true, false]);
        nodes.run(1, async { assert_eq!(get(1, QUORUM).await, Ok(Some(2))) });
        expect_only(&nodes, [false, true, true]);
        let expected = if planted.is_none() { 2 } else { 1 };
        nodes.run(2, async move { assert_eq!(get(1, QUORUM).await, Ok(Some(expected))) });
    }
}

/// Two replicas lack a write, and one of them has a full disk, or does not answer any more once it
/// is told what it lacks: a read brings it to the other, and is answered.
#[test]
fn a_replica_that_does_not_take_what_it_lacks_holds_no_read_up() {
    for (seed, is_full) in [(31, true), (32, false)] {
        let mut nodes = Nodes::new(seed, &[1, 1, 1]);
        let expect_alone = |nodes: &Nodes, alone: bool| {
            for (node, flag) in nodes.known.alive.iter().enumerate() {
                flag.store(!alone || node == 0, Relaxed);
            }
        };
        nodes.run(0, async { put(1, 1, 1, ALL).await.expect("a write") });
        expect_alone(&nodes, true);
        nodes.run(0, async { put(1, 2, 2, ONE).await.expect("a write") });
        expect_alone(&nodes, false);
        // Of the two others the read asks the nearer one.
        let nearer = nodes.replicas_of(1).into_iter().find(|node| *node != 0).expect("three");
        match is_full {
            true => nodes.disk(nearer).set_capacity(Some(1)),
            // Its answers to reads come, those to writes wait for its disk.
            false => nodes.disk(nearer).set_slowness(1_000_000),
        }
        nodes.run(0, async move {
            // A node looks at its disk once a second, of simulated time.
            sleep(2 * SECOND).await;
            let repairs = |wanted: u64| {
                let done = coordinator().background().repairs();
                assert_eq!(done, wanted, "replicas were told what they lack");
            };
            assert_eq!(get(1, QUORUM).await, Ok(Some(2)), "full: {is_full}");
            // The nearer one before the other one.
            repairs(2);
            if is_full {
                let all = get(1, ALL).await;
                assert!(matches!(all, Err(ReadError::Failure { .. })), "{all:?}");
            }
        });
    }
}

#[test]
fn what_was_deleted_stays_deleted() {
    let mut nodes = Nodes::new(5, &[1, 1, 1]);
    nodes.run(0, async {
        for ck in 0..20 {
            write_rows(1, rows_of(1, row(ck, ck, 10)), ALL).await.expect("a write");
        }
    });
    nodes.crash(2);
    nodes.run(0, async {
        for ck in 0..15 {
            write_rows(1, rows_of(1, deletion(ck, 20)), QUORUM).await.expect("a deletion");
        }
    });
    nodes.start(2);
    nodes.crash(1);
    // Node 0 has the deletions, node 2 the rows; each is cut at another place.
    for node in [2, 0] {
        nodes.run(node, async {
            for limit in [1, 2, 3, 100] {
                let (found, _) = read_rows(command(Some(1), limit), QUORUM).await.expect("rows");
                let expected: Vec<_> = (15..20).map(|ck| (1, ck, Some(ck))).collect();
                assert_eq!(found, expected, "pages of {limit}");
            }
        });
    }
    nodes.run(2, async {
        let (found, _) = read_rows(command(Some(1), 100), ONE).await.expect("rows");
        assert_eq!(found.len(), 5, "the deletions came to node 2");
    });
}

/// Pages are full although the rows of one replica are dead on another one: it is asked for more.
#[test]
fn short_reads_are_read_on() {
    for (planted, pages_max) in [(None, 4), (Some(Planted::TakesShortReads), 1)] {
        let mut nodes = Nodes::with(6, &[(1, 0), (1, 0), (1, 0)], 3, planted);
        nodes.run(0, async {
            for ck in 0..40 {
                write_rows(1, rows_of(1, row(ck, ck, 10)), ALL).await.expect("a write");
            }
        });
        nodes.crash(2);
        nodes.run(0, async {
            for ck in (0..40).filter(|ck| ck % 4 != 3) {
                write_rows(1, rows_of(1, deletion(ck, 20)), QUORUM).await.expect("a deletion");
            }
        });
        nodes.start(2);
        nodes.crash(1);
        nodes.run(2, async move {
            let read = read_rows(command(Some(1), 4), QUORUM).await;
            let (found, pages) = read.expect("rows");
            let expected: Vec<_> =
                (0..40).filter(|ck| ck % 4 == 3).map(|ck| (1, ck, Some(ck))).collect();
            assert_eq!(found == expected, planted.is_none(), "{planted:?}: {found:?}");
            assert!(pages <= pages_max, "{pages} pages of 4 for {} rows", found.len());
        });
    }
}

#[test]
fn rows_that_are_there_for_other_reasons_are_compared() {
    for planted in [None, Some(Planted::TellsNoLiveness)] {
        let mut nodes = Nodes::with(7, &[(1, 0), (1, 0), (1, 0)], 3, planted);
        let cells = |cells: Vec<(&'static str, Cell<'static>)>| {
            rows_of(1, move |builder, table| {
                let mut row = RowBuilder::new(Vec::new());
                for (name, cell) in cells {
                    row.cell(table.schema.column(name).expect("a column").id, cell);
                }
                builder.row(&clustering(1), &row.finish());
            })
        };
        nodes.run(0, async move {
            let both = vec![("v", Cell::live(10, &[0; 4])), ("w", Cell::live(10, &[0; 4]))];
            write_rows(1, cells(both), ALL).await.expect("a write");
        });
        nodes.crash(2);
        nodes.run(0, async move {
            write_rows(1, cells(vec![("v", Cell::dead(20, 1))]), QUORUM).await.expect("a write");
        });
        nodes.start(2);
        nodes.crash(1);
        nodes.known.alive[0].store(false, std::sync::atomic::Ordering::Relaxed);
        nodes.run(2, async move {
            write_rows(1, cells(vec![("w", Cell::dead(20, 1))]), ONE).await.expect("a write");
        });
        nodes.known.alive[0].store(true, std::sync::atomic::Ordering::Relaxed);
        nodes.run(2, async move {
            let mut keys_alone = command(Some(1), 10);
            keys_alone.columns = Vec::new();
            let (found, _) = read_rows(keys_alone.clone(), QUORUM).await.expect("rows");
            assert_eq!(found.is_empty(), planted.is_none(), "{planted:?}: {found:?}");
            keys_alone
                .columns
                .push((entry("ks", "r").schema.column("v").expect("v").id, ColumnForm::Value));
            let (found, _) = read_rows(keys_alone, QUORUM).await.expect("rows");
            assert!(found.is_empty(), "{found:?}");
        });
    }
}

#[test]
fn a_scan_reads_the_whole_ring_in_order() {
    let mut nodes = Nodes::new(8, &[1, 3, 2, 1]);
    nodes.run(0, async {
        for pk in 0..60 {
            for ck in 0..1 + pk % 3 {
                write_rows(pk, rows_of(pk, row(ck, pk, 10)), QUORUM).await.expect("a write");
            }
        }
    });
    nodes.crash(1);
    nodes.run(0, async {
        for pk in 0..10 {
            write_rows(pk, rows_of(pk, deletion(0, 20)), QUORUM).await.expect("a deletion");
        }
    });
    nodes.start(1);
    for node in 0..nodes.count() {
        nodes.run(node, async {
            // The page may be full at any row, whatever was read ahead.
            let rows = [1, 2, 7, 30, 1000].map(|limit| (limit, 1 << 20));
            let bytes = [1, 50, 100, 200, 500].map(|bytes| (1000, bytes));
            for (limit, bytes) in rows.into_iter().chain(bytes) {
                let wanted = ReadCommand { bytes_max: bytes, ..command(None, limit) };
                let (found, _) = read_rows(wanted, QUORUM).await.expect("rows");
                let mut expected: Vec<_> = (0..60)
                    .flat_map(|pk| (0..1 + pk % 3).map(move |ck| (pk, ck, Some(pk))))
                    .filter(|(pk, ck, _)| 10 <= *pk || *ck != 0)
                    .collect();
                expected.sort_by_key(|(pk, ck, _)| (rows::token(*pk), *ck));
                assert_eq!(found, expected, "pages of {limit} rows, {bytes} bytes");
            }
        });
    }
}

#[test]
fn an_increment_that_is_refused_is_not_counted() {
    let mut nodes = Nodes::new(12, &[1, 2, 1]);
    let (mut done, mut unknown, mut refused) = (0, 0, 0);
    for round in 0..150u64 {
        let known = nodes.known.clone();
        let led = nodes.run((round % 3) as usize, async move {
            let (table, options) = (entry("ks", "c"), write_options(QUORUM));
            let add = rows::add(&table, 1, 1);
            let coordinator = coordinator();
            let set_alive = |alive| known.alive.iter().for_each(|it| it.store(alive, Relaxed));
            // The others are seen to be dead: before, or while it is led.
            set_alive(!round.is_multiple_of(5));
            let led = coordinator.increment(&table, rows::token(1), add, &options);
            let dying = async {
                sleep(Duration::from_micros(runtime::random_u64() % 4_000)).await;
                set_alive(false);
            };
            let (led, ()) = join(led, dying).await;
            set_alive(true);
            led
        });
        match led {
            Ok(()) => done += 1,
            Err(WriteError::Unavailable { .. }) => refused += 1,
            Err(_) => unknown += 1,
        }
    }
    assert!(0 < refused && 0 < unknown, "{done} done, {refused} refused, {unknown} unknown");
    nodes.world.run_for(10 * SECOND);
    let counted = nodes.run(1, async { count(1, ALL).await }).expect("a counter").unwrap_or(0);
    let possible = done..=done + unknown;
    assert!(possible.contains(&counted), "{counted} of {possible:?}, {refused} were refused");
}

#[test]
fn counters_are_led_by_one_replica() {
    let mut nodes = Nodes::new(9, &[2, 1, 1, 1]);
    for node in 0..nodes.count() {
        nodes.run(node, async {
            let (table, options) = (entry("ks", "c"), write_options(QUORUM));
            for pk in 0..6 {
                let add = rows::add(&table, pk, 5);
                let led = coordinator().increment(&table, rows::token(pk), add, &options).await;
                led.expect("an increment");
            }
        });
    }
    nodes.crash(3);
    for node in 0..3 {
        nodes.run(node, async {
            for pk in 0..6 {
                assert_eq!(count(pk, QUORUM).await, Ok(Some(20)));
            }
        });
    }
    nodes.run(1, async {
        let (table, options) = (entry("ks", "c"), write_options(ALL));
        let mut ends = Vec::new();
        for pk in 0..6 {
            let add = rows::add(&table, pk, 1);
            ends.push(coordinator().increment(&table, rows::token(pk), add, &options).await);
        }
        let unavailable = WriteError::Unavailable { consistency: ALL, required: 3, alive: 2 };
        assert!(ends.contains(&Err(unavailable)), "{ends:?}");
    });
}

#[test]
fn batches_go_to_all_replicas_of_all_their_parts() {
    let mut nodes = Nodes::new(10, &[2, 1, 1, 1]);
    nodes.run(0, async {
        let table = entry("ks", "t");
        for (number, kind) in [BatchKind::Unlogged, BatchKind::Logged].into_iter().enumerate() {
            let entry = |pk: i32| BatchEntry {
                table: table.clone(),
                token: rows::token(pk),
                mutation: rows::put(&table, pk, number as i32, 1 + number as i64),
            };
            let entries = (0..20).map(entry).collect();
            let written = coordinator().write_batch(kind, entries, &write_options(QUORUM)).await;
            assert_eq!(written, Ok(()));
            for pk in 0..20 {
                assert_eq!(get(pk, QUORUM).await, Ok(Some(number as i32)));
            }
        }
    });
    // One of which a part has too few replicas is not begun.
    nodes.crash(1);
    nodes.crash(2);
    nodes.run(0, async {
        for kind in [BatchKind::Unlogged, BatchKind::Logged] {
            let written = batch(0..20, 9, kind).await;
            assert!(matches!(written, Err(WriteError::Unavailable { .. })), "{written:?}");
        }
    });
    nodes.start(1);
    nodes.start(2);
    nodes.world.run_for(10 * SECOND);
    nodes.run(3, async {
        for pk in 0..20 {
            assert_eq!(get(pk, ALL).await, Ok(Some(1)), "the batch was refused");
        }
    });
    // One that was begun is tried again until all of it is written.
    nodes.set_cut_from(0, 1, true);
    nodes.set_cut_from(0, 2, true);
    let written = nodes.run(0, batch(0..20, 9, BatchKind::Logged));
    let timed_out =
        |kind| matches!(&written, Err(WriteError::Timeout { kind: it, .. }) if *it == kind);
    let was_kept = timed_out(WriteKind::Batch);
    assert!(was_kept || timed_out(WriteKind::BatchLog), "{written:?}");
    nodes.set_cut_from(0, 1, false);
    nodes.set_cut_from(0, 2, false);
    nodes.world.run_for(20 * SECOND);
    nodes.run(3, async move {
        let first = get(0, QUORUM).await.expect("a read");
        assert!(first == Some(9) || !was_kept, "it was kept");
        for pk in 0..20 {
            assert_eq!(get(pk, QUORUM).await, Ok(first), "the batch is whole");
        }
    });
}

/// A batch that sets some keys to one value, which is its timestamp too.
async fn batch(keys: std::ops::Range<i32>, value: i32, kind: BatchKind) -> Result<(), WriteError> {
    let table = entry("ks", "t");
    let entry = |pk: i32| BatchEntry {
        table: table.clone(),
        token: rows::token(pk),
        mutation: rows::put(&table, pk, value, value.into()),
    };
    coordinator().write_batch(kind, keys.map(entry).collect(), &write_options(QUORUM)).await
}

#[test]
fn a_truncation_needs_all_nodes() {
    let mut nodes = Nodes::new(11, &[1, 2, 1]);
    nodes.run(0, async {
        for pk in 0..10 {
            put(pk, pk, 1, ALL).await.expect("a write");
        }
    });
    nodes.crash(2);
    let truncate = || async {
        let table = entry("ks", "t").schema.id;
        coordinator().truncate(table, 20 * SECOND).await
    };
    let refused = nodes.run(0, truncate());
    let Err(WriteError::Refused(text)) = refused else { panic!("{refused:?}") };
    let away = id_of(2).to_string();
    assert!(text.contains(&format!("down: {away}; start them")), "{text}");
    nodes.start(2);
    assert_eq!(nodes.run(0, truncate()), Ok(()));
    for node in 0..3 {
        nodes.run(node, async {
            for pk in 0..10 {
                assert_eq!(get(pk, ONE).await, Ok(None));
            }
        });
    }
}

#[test]
fn data_centers_count_apart() {
    let four = [(1, 0), (1, 1), (1, 0), (1, 1)];
    let mut nodes = Nodes::with(12, &four, 4, None);
    nodes.run(0, async {
        put(1, 1, 1, ALL).await.expect("a write");
        put(1, 2, 2, Consistency::EachQuorum).await.expect("a write");
        assert_eq!(get(1, Consistency::EachQuorum).await, Ok(Some(2)));
        assert_eq!(get(1, Consistency::LocalQuorum).await, Ok(Some(2)));
    });
    nodes.crash(1);
    nodes.crash(3);
    nodes.run(0, async {
        assert_eq!(get(1, Consistency::LocalOne).await, Ok(Some(2)));
        assert!(matches!(put(1, 3, 3, QUORUM).await, Err(WriteError::Unavailable { .. })));
    });
}
