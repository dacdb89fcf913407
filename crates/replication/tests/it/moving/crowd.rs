//! Many nodes: how long they take to become a cluster, and new ones to join it, in simulated time.
//!
//! `NEREID_SIM_NODES` sets how many there are.

use super::world::{Nodes, SECOND};
use cluster::{Cluster, MemberState};
use std::time::Duration;

/// Nodes of a crowd, where nobody says otherwise; a few machines are its seeds.
const COUNT: usize = 12;
const SEEDS: usize = 3;
/// Those that come all at once.
const TOGETHER: usize = 10;

fn count() -> usize {
    let told = std::env::var("NEREID_SIM_NODES").ok();
    told.map_or(COUNT, |told| told.parse().expect("NEREID_SIM_NODES: a number of nodes"))
}

/// Starts some nodes, and waits until they serve: the time it took.
fn join(nodes: &mut Nodes, new: impl Iterator<Item = usize> + Clone) -> Duration {
    let begun = nodes.world.now();
    new.clone().for_each(|node| nodes.start(node));
    new.for_each(|node| assert!(nodes.wait(node), "node {node} does not join"));
    nodes.world.now() - begun
}

/// The members of the cluster that are as they should be, as a node sees it.
fn members(nodes: &mut Nodes, node: usize) -> usize {
    nodes.run(node, async {
        let topology = runtime::local::get::<Cluster>().topology();
        topology.members().filter(|it| it.state == MemberState::Normal).count()
    })
}

/// Nodes that come one after the other each take a second at most, and many at once not much more:
/// that they are let in is decided one by one.
#[test]
fn a_crowd_is_a_cluster_soon() {
    let (count, last) = (count(), count() + TOGETHER);
    let racks = |at: usize| (format!("rack{}", at % 3), 1);
    let machines: Vec<_> = (0..last).map(racks).collect();
    let mut nodes = Nodes::new(7, &machines, SEEDS, None);
    let seeds = join(&mut nodes, 0..SEEDS);
    let mut longest = Duration::ZERO;
    for node in SEEDS..count {
        longest = longest.max(join(&mut nodes, node..node + 1));
    }
    let together = join(&mut nodes, count..last);
    println!("{SEEDS} seeds at once: {seeds:?}; one of {count} nodes: {longest:?} at most");
    println!("{TOGETHER} more at once: {together:?}");
    assert!(longest <= SECOND, "a node took {longest:?} to join");
    assert!(together <= SECOND * 3 / 2, "{TOGETHER} nodes at once took {together:?}");
    nodes.world.run_for(SECOND);
    for node in 0..last {
        assert_eq!(members(&mut nodes, node), last, "as node {node} sees it");
    }
}
