//! Nodes that start in any order, ask each other in any order, crash and forget: never two groups.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

fn contact(number: usize) -> Contact {
    // Neither the order of addresses nor that of numbers is that of host ids.
    let host_id = Uuid::from_u128((number as u128 * 7) % 11 + 1);
    let address = SocketAddr::from(([127, 0, 0, number as u8 + 1], 7000));
    Contact { host_id, address, is_seed: false }
}

/// A node, while it looks for a group.
struct Node {
    known: Known,
    asked: Option<(Acquaintance, VecDeque<SocketAddr>, Answers)>,
    group: Option<Uuid>,
    is_up: bool,
}

impl Node {
    fn new(number: usize, seeds: &[usize]) -> Node {
        let seeds = seeds.iter().map(|seed| contact(*seed).address).collect();
        let Contact { host_id, address, .. } = contact(number);
        let known = Known::new(host_id, address, seeds);
        Node { known, asked: None, group: None, is_up: false }
    }
}

/// One step of node `number`: it asks one other one, or decides.
fn step(nodes: &mut [Node], number: usize) {
    if nodes[number].group.is_some() || !nodes[number].is_up {
        return;
    }
    let known = &nodes[number].known;
    let begins = || (known.said(), known.to_ask().into(), Answers::new());
    let (said, mut left, mut answers) = nodes[number].asked.take().unwrap_or_else(begins);
    if let Some(address) = left.pop_front() {
        let answer = nodes.iter_mut().enumerate().find_map(|(other, node)| {
            let is_there = node.is_up && contact(other).address == address;
            is_there.then(|| {
                let group = node.group;
                node.known.hear(&said);
                let said = node.known.said();
                (contact(other), Acquaintance { group: group.or(said.group), ..said })
            })
        });
        answers.push((address, answer));
        nodes[number].asked = Some((said, left, answers));
        return;
    }
    let group = Uuid::from_u128(100 + number as u128);
    match nodes[number].known.decide(&said, &answers, group) {
        Step::Join(_, group) => nodes[number].group = Some(group),
        Step::Found => nodes[number].group = Some(group),
        Step::Again(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// *one-founder*
    #[test]
    fn there_is_one_group(
        count in 1usize..6,
        seeds in proptest::collection::btree_set(0usize..6, 1..4),
        steps in proptest::collection::vec((0usize..6, 0u8..20), 0..200),
    ) {
        let mut seeds: Vec<usize> = seeds.into_iter().map(|seed| seed % count).collect();
        seeds.dedup();
        let mut nodes: Vec<Node> = (0..count).map(|number| Node::new(number, &seeds)).collect();
        for (number, what) in steps {
            let number = number % count;
            match what {
                0 | 1 => nodes[number].is_up = true,
                // It crashes, and forgets what was not written down.
                2 if nodes[number].group.is_none() => nodes[number] = Node::new(number, &seeds),
                2 => nodes[number].is_up = false,
                _ => step(&mut nodes, number),
            }
        }
        for round in 0..200 {
            nodes.iter_mut().for_each(|node| node.is_up = true);
            (0..count).for_each(|number| step(&mut nodes, (number + round) % count));
        }
        let groups: Vec<Option<Uuid>> = nodes.iter().map(|node| node.group).collect();
        prop_assert!(groups.iter().all(|group| group.is_some()), "{:?}", groups);
        prop_assert!(groups.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", groups);
    }
}

#[test]
fn a_node_alone_makes_a_group_at_once() {
    let Contact { host_id, address, .. } = contact(0);
    let mut known = Known::new(host_id, address, vec![address]);
    assert!(known.to_ask().is_empty());
    assert_eq!(known.decide(&known.said(), &Vec::new(), Uuid::from_u128(5)), Step::Found);
    assert_eq!(known.said().group, Some(Uuid::from_u128(5)));
}

#[test]
fn who_does_not_answer_is_waited_for() {
    let silent = contact(1).address;
    let Contact { host_id, address, .. } = contact(0);
    let mut known = Known::new(host_id, address, vec![silent]);
    let step = known.decide(&known.said(), &vec![(silent, None)], Uuid::from_u128(5));
    assert_eq!(step, Step::Again(Waits::For(silent)));
}

#[test]
fn two_that_name_each_other_alone_agree() {
    let mut nodes = [Node::new(0, &[1]), Node::new(1, &[0])];
    nodes.iter_mut().for_each(|node| node.is_up = true);
    for _ in 0..20 {
        (0..2).for_each(|number| step(&mut nodes, number));
    }
    assert!(nodes[0].group.is_some() && nodes[0].group == nodes[1].group);
}

#[test]
fn what_others_say_is_bounded() {
    let Contact { host_id, address, .. } = contact(0);
    let mut known = Known::new(host_id, address, vec![address]);
    for round in 0..3u128 {
        let ids = (0..4000).map(|number| Uuid::from_u128(1000 + round * 4000 + number));
        let contacts = ids.map(|host_id| Contact { host_id, address, is_seed: false }).collect();
        known.hear(&Acquaintance { group: None, contacts });
    }
    assert_eq!(known.said().contacts.len(), CONTACTS_MAX + 1);
}
