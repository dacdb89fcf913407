use super::*;
use crate::placement::strategy::Factors;
use crate::topology::TopologyChange;
use crate::topology::testing::{member, topology};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Nodes in two data centers of up to three racks, of which some own no tokens and some have left.
pub(crate) fn any_topology() -> impl Strategy<Value = Topology> {
    let tokens = proptest::collection::vec(prop_oneof![any::<i64>(), -9i64..9], 0..4);
    let node = (0usize..2, 0usize..3, tokens, 0u8..8);
    proptest::collection::vec(node, 0..9).prop_map(|nodes| {
        let mut taken = BTreeSet::new();
        let mut members = Vec::new();
        let mut gone = Vec::new();
        for (number, (center, rack, mut tokens, leaves)) in nodes.into_iter().enumerate() {
            tokens.retain(|token| *token != i64::MIN && taken.insert(*token));
            tokens.sort_unstable();
            let place = (["d1", "d2"][center], ["r1", "r2", "r3"][rack]);
            let made = member(number as u8 + 1, place, &tokens);
            if leaves == 0 {
                gone.push(TopologyChange::Left(made.host_id));
            }
            members.push(made);
        }
        gone.iter().fold(topology(&members), |topology, change| topology.apply(change))
    })
}

pub(crate) fn any_replication() -> impl Strategy<Value = Replication> {
    let listed = |racks: &[&str]| {
        let list: Vec<String> = racks.iter().map(|rack| format!("'{rack}'")).collect();
        let one = ("d1".to_owned(), format!("[{}]", list.join(", ")));
        let class = ("class".to_owned(), "NetworkTopologyStrategy".to_owned());
        let parsed = Replication::parse(&[class, one, ("d2".to_owned(), "2".to_owned())]);
        parsed.expect("valid options")
    };
    let counts = (0u32..6, 0u32..6).prop_map(|(one, two)| {
        let counts = vec![("d1".to_owned(), one), ("d2".to_owned(), two), ("d3".to_owned(), 3)];
        Replication::PerDataCenter(Factors::from(counts))
    });
    prop_oneof![
        Just(Replication::Everywhere),
        (0u32..6).prop_map(Replication::Simple),
        counts,
        Just(listed(&["r1", "r3"])),
        Just(listed(&["r2", "r9"])),
    ]
}

/// The nodes as they follow a token on the ring, each once.
fn following(topology: &Topology, token: Token) -> Vec<&Member> {
    let of = |member: &'_ Arc<Member>| {
        let id = member.host_id;
        member.tokens.iter().map(move |token| (*token, id)).collect::<Vec<_>>()
    };
    let mut ring: Vec<(Token, Uuid)> = topology.present().flat_map(of).collect();
    ring.sort();
    let (before, after): (Vec<_>, Vec<_>) = ring.into_iter().partition(|(own, _)| *own < token);
    let mut out: Vec<&Member> = Vec::new();
    for (_, id) in after.into_iter().chain(before) {
        if out.iter().all(|known| known.host_id != id) {
            out.push(topology.member(id).expect("a member"));
        }
    }
    out
}

/// The replicas of a data center: one of each rack in the order of the ring; when all racks have
/// one, those that were passed over, in their order.
fn of_center<'m>(
    nodes: Vec<&'m Member>,
    copies: usize,
    listed: Option<&[String]>,
) -> Vec<&'m Member> {
    let (mut racks, mut first, mut others) = (BTreeSet::new(), Vec::new(), Vec::new());
    for node in nodes {
        match racks.insert(&node.rack) {
            true if listed.is_none_or(|racks| racks.contains(&node.rack)) => first.push(node),
            true => {}
            false => others.push(node),
        }
    }
    if listed.is_none() {
        first.append(&mut others);
    }
    first.truncate(copies);
    first
}

fn naive(topology: &Topology, replication: &Replication, token: Token) -> BTreeSet<Uuid> {
    let all = following(topology, token);
    let chosen = match replication {
        Replication::Local => Vec::new(),
        Replication::Everywhere => all,
        Replication::Simple(copies) => all.into_iter().take(*copies as usize).collect(),
        Replication::PerDataCenter(factors) => {
            let mut chosen = Vec::new();
            for (name, copies) in factors.iter() {
                let nodes = all.iter().copied().filter(|node| node.data_center == *name).collect();
                chosen.extend(of_center(nodes, *copies as usize, factors.of(name).1));
            }
            chosen
        }
    };
    chosen.into_iter().map(|node| node.host_id).collect()
}

proptest! {
    #[test]
    fn replicas_are_those_of_a_walk(
        topology in any_topology(),
        replication in any_replication(),
        tokens in proptest::collection::vec(prop_oneof![any::<i64>(), -9i64..9], 1..8),
    ) {
        let ring = Ring::new(&topology);
        let owners = ring.owners(&replication);
        let edges = ring.points().iter().flat_map(|(token, _)| [token.0, token.0.wrapping_add(1)]);
        let extremes = [i64::MIN, i64::MAX];
        for token in edges.chain(tokens).chain(extremes).map(Token) {
            let found = owners.of(token);
            let ids: BTreeSet<Uuid> =
                found.iter().map(|it| ring.members()[usize::from(*it)].host_id).collect();
            prop_assert_eq!(ids.len(), found.len(), "distinct");
            prop_assert_eq!(ids, naive(&topology, &replication, token));
        }
    }

    #[test]
    fn ranges_cover(topology in any_topology(), replication in any_replication(), token: i64) {
        let ring = Ring::new(&topology);
        let owners = ring.owners(&replication);
        let mut covered = Token::MIN;
        for index in 0..owners.ranges() {
            let (after, last) = owners.range(index);
            prop_assert_eq!(after, covered);
            prop_assert!(after < last);
            covered = last;
        }
        prop_assert_eq!(covered, Token::MAX);
        let (after, last) = owners.range(owners.range_of(Token(token)));
        prop_assert!((after < Token(token) || token == i64::MIN) && Token(token) <= last);
        let mut sets = owners.sets().to_vec();
        sets.sort();
        sets.dedup();
        prop_assert_eq!(sets.len(), owners.sets().len(), "a set is there twice");
    }
}

fn names(ring: &Ring, set: &[u16]) -> Vec<u128> {
    set.iter().map(|place| ring.members()[usize::from(*place)].host_id.as_u128()).collect()
}

#[test]
fn the_order_is_that_of_the_ring() {
    let place = ("d1", "r1");
    let nodes = [(1, &[10, 40][..]), (2, &[20]), (3, &[30])];
    let members: Vec<Member> =
        nodes.iter().map(|(number, tokens)| member(*number, place, tokens)).collect();
    let ring = Ring::new(&topology(&members));
    let check = |replication: &Replication, token: i64, expected: &[u128]| {
        let owners = ring.owners(replication);
        assert_eq!(names(&ring, owners.of(Token(token))), expected, "{token}");
    };
    let two = Replication::Simple(2);
    check(&two, 10, &[1, 2]);
    check(&two, 11, &[2, 3]);
    check(&two, 25, &[3, 1]);
    check(&two, 35, &[1, 2]);
    check(&two, 41, &[1, 2]);
    check(&Replication::Simple(5), 25, &[3, 1, 2]);
    check(&Replication::Local, 25, &[]);
}

#[test]
fn a_ring_of_nobody_has_one_range() {
    let owners = Ring::default().owners(&Replication::Simple(3));
    assert_eq!((owners.ranges(), owners.of(Token(7)).len()), (1, 0));
    assert_eq!(owners.range(0), (Token::MIN, Token::MAX));
}
