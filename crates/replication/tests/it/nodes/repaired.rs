//! What is sent before a repair, and what replicas remember of it.

use super::repair::{Repaired, all, contents, found, only, put_all, settle, wanted};
use super::world::*;
use model::Token;
use mutation::MutationBuilder;
use mutation::{Cell, Marker, RowBuilder, Tombstone};
use replication::hints::Hints;
use replication::repair::{How, Wanted, Watch};
use replication::{Consistency, Coordinator};
use runtime::time::wall_micros;
use std::rc::Rc;
use storage::Storage;
use testkit::config::entry;
use testkit::rows;

/// Runs a repair; the moment before which nothing was kept for the replicas, how it ended, and the
/// seconds that it took.
fn repair(
    nodes: &mut Nodes,
    node: usize,
    wanted: impl FnOnce() -> Wanted + 'static,
) -> (Option<i64>, Repaired, i64) {
    nodes.run(node, async move {
        let (watch, began) = (Rc::new(Watch::default()), wall_micros());
        let ended = coordinator().repair(wanted(), watch.clone()).await;
        let took = (wall_micros() - began) / 1_000_000;
        (watch.moment.get(), (watch.figures.get(), ended), took)
    })
}

/// Three nodes that keep hints, slowly sent ones, of which the last was away and is back.
fn with_hints(seed: u64, bytes_per_second: u64) -> Nodes {
    let mut nodes = Plan::new(seed, &[1, 2, 1]).hinting(Hinting::new()).start();
    put_all(&mut nodes, 0..40, 1);
    for node in 0..2 {
        nodes.run(node, async move {
            let slow = move || async move {
                let hints = Hints::of_shard().expect("hints of a shard");
                hints.set(replication::hints::Options { bytes_per_second, ..hints.options() });
            };
            runtime::on_all_shards(slow).await;
        });
    }
    nodes.crash(2);
    put_all(&mut nodes, 0..40, 2);
    nodes.world.run_for(2 * SECOND);
    nodes.start(2);
    nodes
}

fn hints_kept(nodes: &mut Nodes, node: usize) -> u64 {
    nodes.run(node, async { Hints::of_shard().expect("hints of a shard").bytes().1 })
}

#[test]
fn hints_are_sent_before_a_repair_compares() {
    let mut nodes = with_hints(31, 300);
    assert!(0 < hints_kept(&mut nodes, 0));
    let began = nodes.run(1, async { wall_micros() });
    let (moment, (figures, ended), _) = repair(&mut nodes, 1, wanted(&["t"]));
    ended.expect("a repair");
    assert_eq!(hints_kept(&mut nodes, 0), 0);
    // There was nothing left to be sent by the repair.
    assert_eq!((figures.fetched, figures.sent), (0, 0), "{figures:?}");
    assert!(moment.is_some_and(|moment| began - 1_000_000 <= moment), "{moment:?} of {began}");
    assert_eq!(found(&mut nodes, 2, 0..40), [Some(2); 40]);
    // Soon after it they are not sent again, and the moment is the same.
    let (again, (_, ended), _) = repair(&mut nodes, 2, wanted(&["t"]));
    ended.expect("a repair");
    assert_eq!(again, moment);
    nodes.world.run_for(61 * SECOND);
    let (later, (_, ended), _) = repair(&mut nodes, 2, wanted(&["t"]));
    ended.expect("a repair");
    assert!(moment < later, "{moment:?} {later:?}");
}

#[test]
fn a_repair_goes_on_where_not_all_is_sent() {
    let mut nodes = with_hints(32, 1 << 20);
    nodes.run(0, async { Hints::of_shard().expect("hints of a shard").pause(true) });
    let kept = hints_kept(&mut nodes, 0);
    let (moment, (_, ended), took) = repair(&mut nodes, 1, wanted(&["t"]));
    ended.expect("a repair");
    assert_eq!((moment, kept), (None, hints_kept(&mut nodes, 0)));
    assert!((55..70).contains(&took), "{took} s");
    assert_eq!(found(&mut nodes, 2, 0..40), [Some(2); 40]);
    // A node that is down keeps what nobody knows.
    nodes.run(0, async { Hints::of_shard().expect("hints of a shard").pause(false) });
    settle(&mut nodes);
    only(&nodes, &[1, 2]);
    let without = || Wanted { without: [id_of(0)].into(), ..wanted(&["t"])() };
    let (moment, (_, ended), took) = repair(&mut nodes, 1, without);
    ended.expect("a repair of those that are there");
    assert!(moment.is_none() && took < 10, "{moment:?} after {took} s");
}

const KEYS: i32 = 12;

/// Writes `v` of rows of `g`, or deletes their partitions, to those who are thought to be alive.
fn change(nodes: &mut Nodes, node: usize, value: Option<i32>) {
    nodes.run(node, async move {
        for pk in 0..KEYS {
            let (table, timestamp) = (entry("ks", "g"), wall_micros());
            let mut builder = MutationBuilder::new(&table.schema, &rows::key(pk));
            match value {
                None => builder.delete_partition(Tombstone::new(timestamp, timestamp / 1_000_000)),
                Some(value) => {
                    let mut row = RowBuilder::new(Vec::new());
                    row.marker(Marker::Live { timestamp });
                    let column = table.schema.column("v").expect("a column").id;
                    row.cell(column, Cell::live(timestamp, &value.to_be_bytes()));
                    builder.row(&[], &row.finish());
                }
            }
            let (token, options) = (rows::token(pk), write_options(Consistency::One));
            let written = coordinator().write(&table, token, builder.freeze(), &options).await;
            written.expect("a write");
        }
    });
    nodes.world.run_for(2 * SECOND);
}

/// All that each node has of `g` is in files, and merged.
fn merge(nodes: &mut Nodes, who: &[usize]) {
    for node in who {
        nodes.run(*node, async {
            let flush = || async {
                let storage = runtime::local::get::<Storage>();
                storage.close_log_segments();
                storage.flush_all().await.expect("a flush");
            };
            runtime::on_all_shards(flush).await;
        });
    }
    // Meanwhile the log lets go of what was flushed.
    nodes.world.run_for(2 * SECOND);
    for node in who {
        nodes.run(*node, async {
            let merge = || async {
                let id = entry("ks", "g").schema.id;
                let storage = runtime::local::get::<Storage>();
                storage.compact_all(id, Default::default()).await.expect("a merge");
            };
            runtime::on_all_shards(merge).await;
        });
    }
}

/// Of how many keys a node has something, deletions too.
fn kept(nodes: &mut Nodes, node: usize) -> usize {
    contents(nodes, node, "g", 0).len()
}

/// Three nodes, of which the first alone has heard that rows are deleted.
fn with_deletions(seed: u64) -> Nodes {
    let mut nodes = Nodes::new(seed, &[2, 1, 2]);
    change(&mut nodes, 0, Some(1));
    only(&nodes, &[0]);
    change(&mut nodes, 0, None);
    settle(&mut nodes);
    nodes
}

fn remembered(nodes: &mut Nodes, node: usize) -> usize {
    nodes.run(node, async {
        let history = cluster_of_node().repair_history().await.expect("the history");
        history.into_iter().filter(|record| record.table == entry("ks", "g").schema.id).count()
    })
}

fn cluster_of_node() -> Rc<cluster::Cluster> {
    runtime::local::get::<cluster::Cluster>()
}

#[test]
fn deletions_of_before_a_repair_are_forgotten_and_none_else() {
    let mut nodes = with_deletions(37);
    merge(&mut nodes, &[0, 1, 2]);
    assert_eq!(kept(&mut nodes, 0), KEYS as usize, "nothing was repaired");
    repair(&mut nodes, 1, wanted(&["g"])).1.1.expect("a repair");
    assert_eq!([0, 1, 2].map(|node| remembered(&mut nodes, node)), [64; 3]);
    // Every node has them by now, and what they cover is nowhere.
    merge(&mut nodes, &[1]);
    assert_eq!([1, 2].map(|node| kept(&mut nodes, node)), [0, 12]);
    // It is remembered over restarts.
    for node in [0, 2] {
        nodes.crash(node);
        nodes.start(node);
    }
    settle(&mut nodes);
    merge(&mut nodes, &[0, 2]);
    assert_eq!([0, 1, 2].map(|node| kept(&mut nodes, node)), [0; 3]);
    // What is deleted after it is not forgotten before the next one, which takes its place.
    change(&mut nodes, 0, Some(2));
    change(&mut nodes, 1, None);
    merge(&mut nodes, &[0, 1, 2]);
    assert_eq!([0, 1, 2].map(|node| kept(&mut nodes, node)), [12; 3]);
    nodes.world.run_for(61 * SECOND);
    repair(&mut nodes, 0, wanted(&["g"])).1.1.expect("a repair");
    assert_eq!([0, 1, 2].map(|node| remembered(&mut nodes, node)), [64; 3]);
    merge(&mut nodes, &[0, 1, 2]);
    assert_eq!([0, 1, 2].map(|node| kept(&mut nodes, node)), [0; 3]);
}

#[test]
fn deletions_are_forgotten_where_their_range_was_repaired() {
    let mut nodes = with_deletions(34);
    let token = rows::token(5);
    let part = move || Wanted { within: vec![(token, Token(token.0 + 9))], ..wanted(&["g"])() };
    repair(&mut nodes, 2, part).1.1.expect("a repair");
    merge(&mut nodes, &[0, 1, 2]);
    for node in 0..3 {
        let left = contents(&mut nodes, node, "g", 0);
        assert_eq!((left.len(), left.contains_key(&5)), (KEYS as usize - 1, false), "node {node}");
    }
    // Where old deletions are not compared nothing is remembered.
    let how = How { forgets: true, ..How::default() };
    let forgetting = move || Wanted { how, ..wanted(&["g"])() };
    repair(&mut nodes, 0, forgetting).1.1.expect("a repair");
    let all: Vec<_> = (0..3).map(|node| contents(&mut nodes, node, "g", 0).remove(&5)).collect();
    assert_eq!(all, [None, None, None]);
    merge(&mut nodes, &[0]);
    let left = contents(&mut nodes, 0, "g", 0);
    assert_eq!((left.len(), left.get(&5)), (KEYS as usize - 1, None));
}

/// A repair without one of the replicas, which has rows that the others have deleted. Where it is
/// remembered all the same, as a mistake that is planted here does, they come back.
#[test]
fn a_repair_without_a_replica_is_not_remembered() {
    for planted in [false, true] {
        let mut nodes = Nodes::new(35, &[1, 2, 1]);
        change(&mut nodes, 0, Some(1));
        only(&nodes, &[0, 1]);
        change(&mut nodes, 0, None);
        settle(&mut nodes);
        if planted {
            for node in 0..2 {
                let plant = async {
                    runtime::on_all_shards(|| async { Coordinator::plant_any_repair() }).await
                };
                nodes.run(node, async { drop(plant.await) });
            }
        }
        let without = || Wanted { without: [id_of(2)].into(), ..wanted(&["g"])() };
        repair(&mut nodes, 0, without).1.1.expect("a repair of two");
        merge(&mut nodes, &[0, 1, 2]);
        let all_nodes = all(&nodes);
        only(&nodes, &all_nodes);
        repair(&mut nodes, 1, wanted(&["g"])).1.1.expect("a repair of all");
        let rows: usize = nodes.run(0, async {
            let table = entry("ks", "g");
            let mut found = 0;
            for pk in 0..KEYS {
                let partitions = mutation::page::Partitions::Key(rows::key(pk).to_vec());
                let command = rows::read_of(&table, partitions, 10);
                let options = replication::ReadOptions::new(Consistency::One, 2 * SECOND);
                let page = coordinator().read(&table, rows::token(pk), &command, &options).await;
                found += page.expect("a read").row_count as usize;
            }
            found
        });
        assert_eq!(0 < rows, planted, "{rows} rows are back");
    }
}
