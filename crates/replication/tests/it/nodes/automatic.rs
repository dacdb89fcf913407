//! Tables that are repaired by themselves, within their goals.

use super::repair::{all, contents, found, now, only, put_all, settle};
use super::world::*;
use cluster::settings::By;
use cluster::{SchemaChange, Settings};
use replication::repair::Automatic;
use std::time::Duration;
use testkit::config::{change, entry};

const GOAL_SECONDS: u32 = 60;
const GOAL: Duration = Duration::from_secs(GOAL_SECONDS as u64);
/// Ranges of all tables, of which each has 64.
const RANGES: u64 = 8 * 64;

/// All nodes repair by themselves.
fn enable(nodes: &mut Nodes) {
    enable_within(nodes, GOAL_SECONDS);
}

fn enable_within(nodes: &mut Nodes, seconds: u32) {
    for node in 0..nodes.count() {
        nodes.run(node, async move {
            let enabled = "auto_repair_enabled_default".to_owned();
            let goal = "auto_repair_threshold_default_in_seconds".to_owned();
            for (name, value) in [(goal, seconds.to_string()), (enabled, "true".to_owned())] {
                assert!(Settings::change(name, value, By::Operator).await.is_ok(), "an option");
            }
        });
    }
}

/// Of all nodes: ranges that were repaired, that could not be, and that are due; and missed rows.
fn counts(nodes: &mut Nodes) -> (u64, u64, u64, u64) {
    let mut all = (0, 0, 0, 0);
    for node in 0..nodes.count() {
        let (repaired, failed, due, rows) = nodes.run(node, async {
            let automatic = Automatic::of_shard();
            let counters = automatic.counters();
            let counts = [&counters.repaired, &counters.failed, &counters.due, &counters.rows];
            counts.map(|it| it.get()).into()
        });
        all = (all.0 + repaired, all.1 + failed, all.2 + due, all.3 + rows);
    }
    all
}

/// The last node misses writes of some keys of `t`.
fn with_a_gap(seed: u64) -> Nodes {
    let mut nodes = Nodes::new(seed, &[1, 2, 1]);
    put_all(&mut nodes, 0..40, 1);
    only(&nodes, &[0, 1]);
    put_all(&mut nodes, 10..30, 2);
    settle(&mut nodes);
    nodes
}

/// How many keys it still misses, of those that one of these nodes sees to.
fn missed(nodes: &mut Nodes, who: &[usize]) -> usize {
    let keys = (10..30).filter(|pk| who.contains(&nodes.replicas_of(*pk)[0])).collect::<Vec<_>>();
    let found = found(nodes, 2, 10..30);
    keys.into_iter().filter(|pk| found[*pk as usize - 10] != Some(2)).count()
}

fn remembered(nodes: &mut Nodes, node: usize) -> usize {
    nodes.run(node, async {
        let cluster = runtime::local::get::<cluster::Cluster>();
        let history = cluster.repair_history().await.expect("the history");
        history.into_iter().filter(|record| record.table == entry("ks", "t").schema.id).count()
    })
}

/// *first-alone*, *oldest-first*, *budgeted*.
#[test]
fn each_range_is_repaired_once_within_its_goal() {
    let mut nodes = with_a_gap(61);
    enable(&mut nodes);
    nodes.world.run_for(GOAL - 10 * SECOND);
    // Nobody knows of these tables when they were made: they are not due before.
    assert_eq!(counts(&mut nodes), (0, 0, 0, 0));
    nodes.world.run_for(GOAL / 4 + 12 * SECOND);
    let (repaired, failed, due, rows) = counts(&mut nodes);
    assert_eq!((repaired, failed, due), (RANGES, 0, 0));
    // As few rows travel as in a repair that somebody has asked for.
    assert!((20..=40).contains(&rows), "{rows} rows");
    assert_eq!(missed(&mut nodes, &[0, 1, 2]), 0);
    let at = now(&mut nodes);
    let first = contents(&mut nodes, 0, "t", at);
    for node in 0..3 {
        assert_eq!(contents(&mut nodes, node, "t", at), first, "node {node}");
        assert_eq!(remembered(&mut nodes, node), 64, "node {node}");
    }
    // None is due again before its goal, and each of them is then.
    nodes.world.run_for(GOAL / 2);
    assert_eq!(counts(&mut nodes).0, RANGES);
    nodes.world.run_for(GOAL * 3 / 4);
    assert_eq!(counts(&mut nodes), (2 * RANGES, 0, 0, rows));
}

/// What was repaired is known over restarts, and to the other replicas.
#[test]
fn a_node_that_starts_anew_repairs_no_sooner() {
    let mut nodes = with_a_gap(62);
    enable(&mut nodes);
    nodes.world.run_for(GOAL + GOAL / 4 + 2 * SECOND);
    assert_eq!(counts(&mut nodes).0, RANGES);
    for node in 0..3 {
        nodes.crash(node);
        nodes.start(node);
    }
    enable(&mut nodes);
    nodes.world.run_for(GOAL / 2);
    assert_eq!(counts(&mut nodes).0, 0);
    nodes.world.run_for(GOAL * 3 / 4);
    assert_eq!(counts(&mut nodes), (RANGES, 0, 0, 0));
}

/// *all-there*
#[test]
fn nothing_begins_while_a_replica_is_down() {
    let mut nodes = with_a_gap(67);
    enable(&mut nodes);
    nodes.crash(2);
    nodes.world.run_for(GOAL + GOAL / 2);
    assert_eq!(counts_of(&mut nodes, &[0, 1]), (0, 0));
    nodes.start(2);
    enable(&mut nodes);
    nodes.world.run_for(GOAL * 3 / 4);
    // Those of the node that was down are not due yet.
    let (repaired, failed) = counts_of(&mut nodes, &[0, 1]);
    assert_eq!((repaired, failed), (RANGES * 11 / 16, 0));
    nodes.world.run_for(GOAL);
    assert_eq!(missed(&mut nodes, &[0, 1, 2]), 0);
}

fn counts_of(nodes: &mut Nodes, who: &[usize]) -> (u64, u64) {
    let mut all = (0, 0);
    for node in who {
        let (repaired, failed) = nodes.run(*node, async {
            let automatic = Automatic::of_shard();
            (automatic.counters().repaired.get(), automatic.counters().failed.get())
        });
        all = (all.0 + repaired, all.1 + failed);
    }
    all
}

/// A node is down, and nobody takes it for dead. Where what failed counts as a repair, as a mistake
/// that is planted here does, what the node lacks is not looked for any more.
#[test]
fn a_range_that_failed_is_repaired_soon_after() {
    const SECONDS: u32 = 600;
    let goal = SECOND * SECONDS;
    for planted in [false, true] {
        let mut nodes = with_a_gap(64);
        for node in 0..3 {
            nodes.run(node, async move {
                let others = ["c", "r", "l", "s", "b", "g"];
                let drop = |name: &str| SchemaChange::DropTable {
                    keyspace: "ks".to_owned(),
                    name: name.to_owned(),
                };
                change(move |_| others.iter().map(|name| drop(name)).collect()).await;
                if planted {
                    Automatic::of_shard().plant_done();
                }
            });
        }
        enable_within(&mut nodes, SECONDS);
        nodes.crash(2);
        let all_nodes = all(&nodes);
        only(&nodes, &all_nodes);
        // Each is tried for some seconds.
        nodes.world.run_for(goal + 400 * SECOND);
        let (repaired, failed) = counts_of(&mut nodes, &[0, 1]);
        assert_eq!((0 < repaired, 0 < failed), (planted, !planted), "{repaired} {failed}");
        nodes.start(2);
        nodes.world.run_for(goal / 2);
        assert_eq!(0 < missed(&mut nodes, &[0, 1]), planted, "what failed counts as a repair");
    }
}

/// *not-believed*: a clock was a day ahead when a repair was remembered.
#[test]
fn a_repair_of_tomorrow_is_not_believed() {
    let mut nodes = Nodes::new(65, &[1, 2, 1]);
    let day = 86_400_000_000;
    (0..3).for_each(|node| nodes.skew(node, day));
    enable(&mut nodes);
    nodes.world.run_for(GOAL + GOAL / 4 + 2 * SECOND);
    assert_eq!(counts(&mut nodes).0, RANGES);
    for node in 0..3 {
        nodes.skew(node, 0);
        nodes.crash(node);
        nodes.start(node);
    }
    let all_nodes = all(&nodes);
    only(&nodes, &all_nodes);
    enable(&mut nodes);
    nodes.world.run_for(GOAL + GOAL / 2);
    assert_eq!(counts(&mut nodes).0, RANGES);
}
