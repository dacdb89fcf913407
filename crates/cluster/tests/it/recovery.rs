//! A majority that is lost for ever, over a simulated network: the nodes that are left agree on the
//! next generation of their group, while they crash and do not reach each other and the command
//! runs twice at once; and lost nodes that come back are not heard.

use crate::membership::{Nodes, SECOND, Started, make, seeds};
use cluster::Cluster;
use cluster::membership::recovery::recover;
use cluster::membership::recovery::report::Report;
use model::Uuid;
use runtime::task::Scope;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use stdx::prng::Prng;

/// What a test has running on a node besides.
struct Running(Scope);

struct Lost {
    nodes: Nodes,
    /// By number.
    left: Vec<usize>,
    lost: Vec<usize>,
    hosts: Vec<Uuid>,
}

impl Lost {
    /// So many nodes, of which the greater part of the voters are about to be lost.
    fn new(seed: u64, draw: &mut Prng, count: usize) -> Lost {
        let shards: Vec<u16> = (0..count).map(|_| draw.between(1, 2) as u16).collect();
        let mut nodes = Nodes::new(seed, &shards, &[0]);
        let all: Vec<usize> = (0..count).collect();
        all.iter().for_each(|number| nodes.start(*number));
        nodes.wait(&all);
        nodes.agree(&all);
        assert_eq!(nodes.make(0, "first".to_owned()), Ok(()));
        // Who votes is settled.
        nodes.world.run_for(3 * SECOND);
        nodes.agree(&all);
        let host = |nodes: &mut Nodes, number| {
            nodes.run(number, async { runtime::local::get::<Cluster>().node().host_id })
        };
        let hosts: Vec<Uuid> = all.iter().map(|number| host(&mut nodes, *number)).collect();
        let status = nodes.statuses()[0].clone().expect("a group");
        let voters = status.members.voters;
        assert_eq!(voters.len(), count - 1 + count % 2, "{count} nodes");
        let mut votes: Vec<usize> = all
            .iter()
            .copied()
            .filter(|number| voters.iter().any(|it| it.0 == hosts[*number].as_u64_pair().1))
            .collect();
        let needed = votes.len() / 2 + 1;
        let lost: Vec<usize> = (0..needed)
            .map(|_| votes.swap_remove(draw.below(votes.len() as u64) as usize))
            .collect();
        let left = all.into_iter().filter(|number| !lost.contains(number)).collect();
        Lost { nodes, left, lost, hosts }
    }

    fn lost_hosts(&self) -> BTreeSet<Uuid> {
        self.lost.iter().map(|number| self.hosts[*number]).collect()
    }

    fn recover(&mut self, number: usize, executes: bool) -> Result<Report, String> {
        let lost = self.lost_hosts();
        self.nodes.run(number, recover(lost, executes))
    }

    /// The same, not waited for.
    fn recover_beside(&mut self, number: usize) {
        let lost = self.lost_hosts();
        self.nodes.run(number, async move {
            let running = Running(Scope::new());
            running.0.spawn(recover(lost, true));
            runtime::local::set(Rc::new(running));
        });
    }

    fn tables(&mut self, number: usize) -> BTreeSet<String> {
        self.nodes.run(number, async {
            let schema = runtime::local::get::<Cluster>().schema();
            let keyspace = schema.keyspace("ks");
            keyspace.map(|it| it.tables.keys().cloned().collect()).unwrap_or_default()
        })
    }

    fn set_cut(&mut self, one: usize, other: usize, is_cut: bool) {
        let (a, b) = (self.nodes.nodes[one].0, self.nodes.nodes[other].0);
        self.nodes.world.set_cut(a, b, is_cut);
        self.nodes.world.set_cut(b, a, is_cut);
    }

    /// Until a group works, the command is run again, here and there.
    fn recover_at_last(&mut self, seed: u64) {
        let mut told = Vec::new();
        for round in 0..12 {
            let number = self.left[round % self.left.len()];
            let report = self.recover(number, true).expect("a report");
            let works = report.done.is_some()
                || report.refused.as_ref().is_some_and(|why| why.contains("leads the group"));
            told.push((number, report));
            if works && self.nodes.make(number, "after".to_owned()).is_ok() {
                return;
            }
            self.nodes.world.run_for(2 * SECOND);
        }
        panic!("seed {seed}: no group works: {told:#?}, {:#?}", self.nodes.statuses());
    }

    /// Those that are left are one cluster, and the lost are not heard.
    fn check(&mut self, seed: u64, expected: &BTreeSet<String>) {
        let left = self.left.clone();
        self.nodes.agree(&left);
        for number in &left {
            let name = format!("by{number}");
            assert_eq!(self.nodes.make(*number, name), Ok(()), "seed {seed}: node {number}");
        }
        self.nodes.agree(&left);
        let (tables, lost) = (self.tables(left[0]), self.lost_hosts());
        assert!(expected.is_subset(&tables), "seed {seed}: {expected:?} in {tables:?}");
        let told = self
            .nodes
            .run(left[0], async { runtime::local::get::<Cluster>().topology().lost().clone() });
        assert_eq!(told, lost, "seed {seed}");
        for back in self.lost.clone() {
            self.nodes.start(back);
            self.nodes.wait(&[back]);
            let Started::Refused(why) = self.nodes.started(back) else {
                panic!("seed {seed}: node {back} is back");
            };
            assert!(why.contains("no longer one of its cluster"), "seed {seed}: {why}");
            assert!(why.contains("empty data directory"), "seed {seed}: {why}");
        }
        self.nodes.world.run_for(3 * SECOND);
        assert_eq!(self.nodes.make(left[0], "last".to_owned()), Ok(()), "seed {seed}");
        self.nodes.agree(&left);
    }
}

/// Schedules that found something: a leader that no longer followed the topology.
const FOUND: [u64; 1] = [23];

/// The state of those that are left is kept, whatever happens meanwhile, and one group works.
#[test]
fn those_that_are_left_agree_on_one_group_whatever_happens() {
    for seed in seeds(4, &FOUND) {
        let mut draw = Prng::from_seed(seed);
        let count = [3, 5, 6][draw.below(3) as usize];
        let mut world = Lost::new(seed, &mut draw, count);
        let left = world.left.clone();
        for number in world.lost.clone() {
            world.nodes.crash(number);
        }
        world.nodes.world.run_for(Duration::from_millis(draw.below(6000)));
        let known: Vec<BTreeSet<String>> = left.iter().map(|it| world.tables(*it)).collect();
        let common = known.iter().skip(1).fold(known[0].clone(), |all, it| &all & it);
        let mut is_up = vec![true; count];
        for _ in 0..draw.below(12) {
            let number = left[draw.below(left.len() as u64) as usize];
            let other = left[draw.below(left.len() as u64) as usize];
            match draw.below(6) {
                0..3 if is_up[number] => world.recover_beside(number),
                3 => {
                    match is_up[number] {
                        true => world.nodes.crash(number),
                        false => world.nodes.start(number),
                    }
                    is_up[number] = !is_up[number];
                }
                4 if number != other => world.set_cut(number, other, true),
                5 if number != other => world.set_cut(number, other, false),
                _ => {}
            }
            world.nodes.world.run_for(Duration::from_millis(draw.below(1500)));
            // A start that is under way is not asked for anything.
            for at in left.iter().filter(|at| is_up[**at]) {
                world.nodes.wait(&[*at]);
                assert_eq!(world.nodes.started(*at), Started::Yes, "seed {seed}: node {at}");
            }
        }
        for one in &left {
            for other in left.iter().filter(|other| *other != one) {
                world.set_cut(*one, *other, false);
            }
        }
        for number in left.iter().filter(|number| !is_up[**number]) {
            world.nodes.start(*number);
        }
        world.nodes.wait(&left);
        world.recover_at_last(seed);
        world.check(seed, &common);
    }
}

/// What only a node has that was not there is lost, and that node goes on with the others.
#[test]
fn a_node_that_missed_the_recovery_takes_over_what_the_others_have() {
    let mut draw = Prng::from_seed(3);
    let mut world = Lost::new(3, &mut draw, 6);
    let (left, late) = (world.left.clone(), world.left[2]);
    let others = [left[0], left[1]];
    for one in others {
        for other in (0..6).filter(|other| !others.contains(other)) {
            world.set_cut(one, other, true);
        }
    }
    assert_eq!(world.nodes.make(late, "alone".to_owned()), Ok(()));
    assert!(world.tables(late).contains("alone"));
    world.nodes.crash(late);
    for number in world.lost.clone() {
        world.nodes.crash(number);
    }
    for one in others {
        world.set_cut(one, late, false);
    }
    world.nodes.world.run_for(5 * SECOND);
    let report = world.recover(others[0], false).expect("a report");
    assert_eq!((report.refused, report.needed), (None, 2));
    assert_eq!(report.silent, [world.hosts[late]]);
    assert!(world.nodes.make(others[0], "not".to_owned()).is_err());
    let report = world.recover(others[0], true).expect("a report");
    assert!(report.done.is_some_and(|done| done.contains("generation 1 works")));
    assert_eq!(world.nodes.make(others[1], "after".to_owned()), Ok(()));
    world.nodes.start(late);
    world.nodes.wait(&[late]);
    let expected: BTreeSet<String> = ["first", "after"].map(str::to_owned).into();
    world.check(3, &expected);
    assert!(!world.tables(late).contains("alone"));
}

/// Nothing is done where nothing is lost, or the wrong ones are named; and once more, later.
#[test]
fn a_majority_that_lives_is_not_replaced_and_one_that_is_lost_again_is() {
    let mut draw = Prng::from_seed(5);
    let mut world = Lost::new(5, &mut draw, 5);
    let refused = |world: &mut Lost, number, part: &str| {
        let why = world.recover(number, true).expect("a report").refused.expect(part);
        assert!(why.contains(part), "{why}");
    };
    let (left, lost) = (world.left.clone(), world.lost.clone());
    refused(&mut world, left[0], "is said to be lost, and answers");
    world.nodes.crash(lost[0]);
    world.nodes.crash(lost[1]);
    world.nodes.world.run_for(5 * SECOND);
    world.lost = lost[..2].to_vec();
    refused(&mut world, left[0], "leads the group");
    world.nodes.crash(lost[2]);
    world.nodes.world.run_for(5 * SECOND);
    refused(&mut world, left[0], "may be a majority");
    world.lost = lost;
    let report = world.recover(left[0], true).expect("a report");
    assert!(report.done.is_some(), "{report:?}");
    let both = left.iter().map(|number| world.tables(*number)).collect::<Vec<_>>();
    assert_eq!(both[0], both[1]);
    // Of two that are left one is lost, too.
    assert_eq!(world.nodes.run(left[1], make("two".to_owned())), Ok(()));
    world.nodes.agree(&left);
    world.nodes.crash(left[0]);
    world.nodes.world.run_for(5 * SECOND);
    world.lost = vec![left[0]];
    world.left = vec![left[1]];
    let report = world.recover(left[1], true).expect("a report");
    assert!(report.done.is_some(), "{report:?}");
    assert_eq!(report.generation, 1);
    world.nodes.crash(left[1]);
    world.nodes.start(left[1]);
    world.nodes.wait(&[left[1]]);
    assert_eq!(world.nodes.make(left[1], "three".to_owned()), Ok(()));
    assert!(world.tables(left[1]).contains("two"));
}
