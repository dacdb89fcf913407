use super::*;
use crate::placement::ring::tests::{any_replication, any_topology};
use crate::topology::{MemberState, Stage, TopologyChange};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Of a topology, some leave, some are lost, and some of those that are there join only now.
fn moving(topology: &Topology, fates: &[u8]) -> Topology {
    let mut out = Topology::default();
    let members: Vec<_> = topology.members().cloned().collect();
    let fate = |at: usize| fates.get(at).copied().unwrap_or(0);
    for (at, member) in members.iter().enumerate() {
        let mut member = (**member).clone();
        if member.state == MemberState::Normal && fate(at) == 1 {
            member.state = MemberState::Joining;
        }
        let (host_id, has_left) = (member.host_id, member.state == MemberState::Left);
        member.state = if has_left { MemberState::Normal } else { member.state };
        out = out.apply(&TopologyChange::Set(member));
        if has_left {
            out = out.apply(&TopologyChange::Left(host_id));
        }
    }
    for (at, member) in members.iter().enumerate() {
        let steps = match fate(at) {
            2 => vec![TopologyChange::Leave(member.host_id)],
            3 => vec![TopologyChange::Lost(member.host_id), TopologyChange::Leave(member.host_id)],
            4 => vec![TopologyChange::Lost(member.host_id)],
            _ => vec![],
        };
        for step in steps {
            if out.check(&step).is_ok() {
                out = out.apply(&step);
            }
        }
    }
    out
}

proptest! {
    /// *covering*, *all-that-went*
    #[test]
    fn who_gets_a_range_takes_all_that_went(
        topology in any_topology(),
        replication in any_replication(),
        fates in proptest::collection::vec(0u8..6, 0..9),
        tokens in proptest::collection::vec(any::<i64>(), 1..9),
    ) {
        let topology = moving(&topology, &fates);
        let all = sides(&topology, &replication);
        prop_assert_eq!(all.first().map(|it| it.after), Some(Token::MIN));
        prop_assert!(all.windows(2).all(|two| two[0].last == two[1].after));
        let owners = |side: Side, token: Token| -> Vec<Uuid> {
            let ring = Ring::of(&topology, side);
            let of = ring.owners(&replication).of(token).to_vec();
            of.iter().map(|place| ring.members()[usize::from(*place)].host_id).collect()
        };
        for token in tokens.into_iter().map(Token) {
            let is_in = |after: Token, last: Token| {
                (after < token || after == Token::MIN) && token <= last
            };
            let side = all.iter().find(|it| is_in(it.after, it.last)).expect("covering");
            let (old, new) = (owners(Side::Old, token), owners(Side::New, token));
            prop_assert_eq!((&side.old, &side.new), (&old, &new));
            for member in topology.members() {
                let me = member.host_id;
                let takes = takes(&topology, &replication, me);
                let take = takes.iter().find(|it| is_in(it.after, it.last));
                prop_assert_eq!(take.is_some(), new.contains(&me) && !old.contains(&me));
                let mut apart = foreign(&topology, &replication, me, Side::New).into_iter();
                prop_assert_eq!(apart.any(|(after, last)| is_in(after, last)), !new.contains(&me));
                let Some(take) = take else { continue };
                let from: BTreeSet<Uuid> = take.from.iter().copied().collect();
                let lives = |host: &Uuid| !topology.is_lost(*host);
                prop_assert!(from.iter().all(|host| lives(host) && old.contains(host)));
                let gave: BTreeSet<Uuid> =
                    old.iter().filter(|host| !new.contains(host)).copied().collect();
                let left: BTreeSet<Uuid> = old.iter().filter(|host| lives(host)).copied().collect();
                prop_assert!(from == left || from == gave, "{from:?}");
                if gave.iter().any(|host| !lives(host)) || gave.is_empty() {
                    prop_assert_eq!(from, left);
                }
            }
        }
    }

    /// *stage-by-stage*: at the end the new side is what there is.
    #[test]
    fn those_that_arrive_own_what_was_the_new_side(
        topology in any_topology(),
        replication in any_replication(),
        fates in proptest::collection::vec(0u8..6, 0..9),
    ) {
        let mut topology = moving(&topology, &fates);
        prop_assume!(topology.movers().next().is_some());
        let new = Ring::of(&topology, Side::New).owners(&replication);
        let members: Vec<Uuid> =
            Ring::of(&topology, Side::New).members().iter().map(|it| it.host_id).collect();
        let steps = [Stage::Prepare, Stage::ReadOld, Stage::ReadNew].map(TopologyChange::Advance);
        for step in steps.into_iter().chain([TopologyChange::Arrive]) {
            prop_assert_eq!(topology.check(&step), Ok(()));
            topology = topology.apply(&step);
        }
        let ring = Ring::new(&topology);
        let after: Vec<Uuid> = ring.members().iter().map(|it| it.host_id).collect();
        prop_assert_eq!((ring.owners(&replication), after), (new, members));
        prop_assert!(topology.movers().next().is_none() && topology.stage().is_none());
    }
}

/// A quorum of the old replicas meets each quorum of the new ones, once what a node gets was taken.
#[test]
fn what_a_quorum_has_a_quorum_will_have() {
    // Replicas 0..n of which some go and others come; a write is on any quorum of the old ones.
    for factor in 1u32..6 {
        for (stay, go, come, lost) in cases(factor) {
            let old: Vec<u32> = (0..stay + go).collect();
            let quorum = factor / 2 + 1;
            for acknowledged in 0u32..1 << old.len() {
                if acknowledged.count_ones() < quorum {
                    continue;
                }
                let has = |node: u32| acknowledged & 1 << node != 0;
                let givers = stay..stay + go;
                let from: Vec<u32> = match come <= go && !lost {
                    true => givers.collect(),
                    // Those that go are lost.
                    false if lost => (0..stay).collect(),
                    false => old.clone(),
                };
                let takes = from.iter().any(|node| has(*node));
                let count = (0..stay).filter(|node| has(*node)).count() as u32
                    + if takes { come } else { 0 };
                let others = stay + come - count;
                assert!(others < quorum, "{factor}: {stay} {go} {come} {lost} {acknowledged:b}");
            }
        }
    }
}

/// How many stay, go and come, and whether those that go are lost.
fn cases(factor: u32) -> Vec<(u32, u32, u32, bool)> {
    let mut out = Vec::new();
    for stay in 0..=factor {
        for go in 0..=factor - stay {
            for come in 0..=factor - stay {
                // What is lost with all who have it is lost.
                let lost = [false, true].into_iter().filter(|lost| !lost || go <= (factor - 1) / 2);
                out.extend(lost.map(|lost| (stay, go, come, lost)));
            }
        }
    }
    out
}
