//! What is sent before a repair, and what replicas remember of it.

use super::repair::{Repaired, found, only, put_all, settle, wanted};
use super::world::*;
use replication::hints::Hints;
use replication::repair::{Wanted, Watch};
use runtime::time::wall_micros;
use std::rc::Rc;

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
    let mut nodes = Nodes::new(seed, &[1, 2, 1]).hinting(Hinting::new());
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
