use super::testing::{member, topology};
use super::*;
use crate::rows::testing::rows;

fn found(mutations: &[FrozenMutation]) -> Topology {
    let table = system_tables::table("system", TABLE);
    load(&rows(&table, mutations)).expect("what was stored")
}

#[test]
fn what_is_stored_is_found_again() {
    let place = ("dc1", "rack1");
    let mut second = member(2, ("dc2", "rack9"), &[-5, 7]);
    (second.client_port, second.address) = (None, "[::1]:7000".parse().expect("an address"));
    let before = topology(&[member(1, place, &[1])]);
    let changes = [
        TopologyChange::Set(second),
        TopologyChange::Left(Uuid::from_u128(1)),
        TopologyChange::Balance(false),
    ];
    let after = changes.iter().fold(before.clone(), |topology, change| topology.apply(change));
    assert_eq!((after.version(), after.balances()), (4, false));
    assert_eq!(after.present().count(), 1);
    let stored = [whole(&before, 10), mutation(&after, &changes, 20)];
    assert_eq!(found(&stored), after);
    // In place of another one.
    let other = topology(&[member(3, place, &[9]), member(4, place, &[])]);
    let stored = [&stored[..], &[whole(&other, 30)]].concat();
    assert_eq!(found(&stored), other);
    assert_eq!(found(&[]), Topology::default());
}

/// The streams of the ring come one set after the other, when all nodes know of them.
#[test]
fn streams_are_stored_and_follow_each_other() {
    use crate::streams::{StreamId, StreamSet};
    let node =
        Member { features: [features::CDC.to_owned()].into(), ..member(1, ("dc1", "rack1"), &[1]) };
    let before = topology(&[node]);
    let with = |of: &Topology, since| {
        let stream = StreamId::new(Token(5), 0, 1);
        let set = StreamSet::new(since, vec![(Token(5), vec![stream])]);
        Streams::of_sets(vec![set]).map(|set| {
            assert!(of.streams().is_empty() || of.streams().sets().len() == 1);
            TopologyChange::Streams(Arc::new(set))
        })
    };
    let first = with(&before, 10).expect("streams");
    assert_eq!(before.check(&first), Err("not every node can have streams (CDC)".to_owned()));
    let enabled = before.apply(&TopologyChange::Enable(features::CDC.to_owned()));
    let after = enabled.apply(&first);
    let stored = [whole(&enabled, 10), mutation(&after, &[first], 20)];
    assert_eq!(found(&stored), after);
    // What does not concern them leaves them.
    let balance = [TopologyChange::Balance(false)];
    let later = after.apply(&balance[0]);
    let stored = [&stored[..], &[mutation(&later, &balance, 30)]].concat();
    assert_eq!(found(&stored), later);
    assert_eq!(found(&[whole(&later, 40)]), later);
    let same = with(&after, 10).expect("streams");
    assert!(after.check(&same).is_err_and(|why| why.contains("do not follow")));
    let none = TopologyChange::Streams(Arc::default());
    assert!(after.check(&none).is_err_and(|why| why.contains("without streams")));
    assert_eq!(after.check(&with(&after, 11).expect("streams")), Ok(()));
}

#[test]
fn what_contradicts_is_refused() {
    let place = ("dc1", "rack1");
    let present = topology(&[member(1, place, &[1, 5]), member(2, place, &[2])]);
    let present = present.apply(&TopologyChange::Left(Uuid::from_u128(2)));
    let check = |member: Member, part: &str| {
        let refused = present.check(&TopologyChange::Set(member)).expect_err(part);
        assert!(refused.contains(part), "{refused}");
    };
    check(member(3, place, &[5]), "has token 5, as node");
    check(member(1, place, &[1]), "cannot change its tokens");
    check(member(1, ("dc1", "rack2"), &[1, 5]), "cannot move to dc1, rack2");
    check(member(2, place, &[2]), "has left the cluster");
    let elsewhere = member(1, place, &[1]).address;
    check(Member { address: elsewhere, ..member(3, place, &[3]) }, "where node");
    let fine = Member { shards: 9, ..member(1, place, &[1, 5]) };
    assert_eq!(present.check(&TopologyChange::Set(fine)), Ok(()));
    // What has left has neither a place nor tokens.
    assert_eq!(present.check(&TopologyChange::Set(member(3, place, &[2]))), Ok(()));
    let left = |number| TopologyChange::Left(Uuid::from_u128(number));
    assert!(present.check(&left(2)).is_err() && present.check(&left(9)).is_err());
    assert_eq!(present.check(&left(1)), Ok(()));
}

/// *all-have-it*, *never-less*, *lost-for-good*
#[test]
fn what_all_can_do_is_enabled_for_good_and_who_is_lost_does_not_count() {
    let place = ("dc1", "rack1");
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let with = |number, features| Member {
        features: named(features),
        ..member(number, place, &[number.into()])
    };
    let before = topology(&[with(1, &["A", "B", "C"]), with(2, &["A", "C"]), with(3, &["B", "C"])]);
    assert_eq!(before.to_enable(), named(&["C"]));
    let lost = TopologyChange::Lost(Uuid::from_u128(3));
    let enable = |name: &str| TopologyChange::Enable(name.to_owned());
    assert!(before.check(&enable("A")).is_err() && before.check(&enable("D")).is_err());
    let changes = [lost.clone(), enable("A"), enable("C")];
    let mut after = before.clone();
    for change in &changes {
        assert_eq!(after.check(change), Ok(()));
        after = after.apply(change);
        assert!(after.check(change).is_err(), "twice: {change:?}");
    }
    assert_eq!(
        (after.to_enable(), after.enables("A"), after.enables("B")),
        (named(&[]), true, false)
    );
    assert!(after.is_lost(Uuid::from_u128(3)) && after.present().count() == 3);
    // Neither comes back who was lost, nor comes who lacks something.
    let check = |change: TopologyChange, part: &str| {
        let refused = after.check(&change).expect_err(part);
        assert!(refused.contains(part), "{refused}");
    };
    check(TopologyChange::Set(with(3, &["A", "B", "C"])), "was declared lost");
    check(TopologyChange::Set(with(4, &["B", "C"])), "lacks features that the cluster has: A");
    check(TopologyChange::Set(with(2, &["C"])), "lacks features that the cluster has: A");
    check(TopologyChange::Lost(Uuid::from_u128(9)), "is not known");
    assert_eq!(after.lacks(&named(&["A"])).as_deref(), Some("C"));
    assert_eq!(found(&[whole(&before, 10), mutation(&after, &changes, 20)]), after);
    assert_eq!(found(&[whole(&after, 10)]), after);
    assert_eq!(found(&[whole(&after, 10), whole(&before, 20)]), before);
}

/// *stage-by-stage*
#[test]
fn nodes_move_stage_by_stage() {
    let place = ("dc1", "rack1");
    let joining = |number, tokens: &[i64]| Member {
        state: MemberState::Joining,
        ..member(number, place, tokens)
    };
    let id = |number: u128| Uuid::from_u128(number);
    let before = topology(&[member(1, place, &[1]), member(2, place, &[2])]);
    let advance = TopologyChange::Advance;
    let refused = |topology: &Topology, change: &TopologyChange, part: &str| {
        let refused = topology.check(change).expect_err(part);
        assert!(refused.contains(part), "{refused}");
    };
    refused(&before, &advance(Stage::Prepare), "no node joins or leaves");
    refused(&before, &TopologyChange::Arrive, "nobody arrives");
    refused(&before, &TopologyChange::TurnBack(id(1)), "is normal");
    let mut now = before.clone();
    let mut all = vec![whole(&before, 10)];
    let mut make = |now: &mut Topology, changes: Vec<TopologyChange>| {
        for change in &changes {
            assert_eq!(now.check(change), Ok(()), "{change:?}");
            *now = now.apply(change);
        }
        all.push(mutation(now, &changes, 10 * (1 + all.len() as i64)));
        assert_eq!(found(&all), *now);
        assert_eq!(found(&[whole(now, 10)]), *now);
    };
    let set = |member: Member| TopologyChange::Set(member);
    make(&mut now, vec![set(joining(3, &[3])), TopologyChange::Leave(id(1))]);
    refused(&now, &TopologyChange::Leave(id(1)), "is decommissioning already");
    refused(&now, &TopologyChange::Leave(id(2)), "the last one that owns tokens");
    refused(&now, &advance(Stage::ReadOld), "does not follow");
    assert_eq!((now.read_side(), now.other_side()), (Side::Old, None));
    make(&mut now, vec![advance(Stage::Prepare)]);
    assert_eq!((now.read_side(), now.other_side()), (Side::Old, None));
    refused(&now, &set(joining(4, &[4])), "wait until others have joined or left");
    refused(&now, &TopologyChange::Leave(id(2)), "wait until others");
    // Who has no tokens has nothing to wait for.
    assert_eq!(now.check(&set(member(5, place, &[]))), Ok(()));
    make(&mut now, vec![advance(Stage::ReadOld)]);
    assert_eq!((now.read_side(), now.other_side()), (Side::Old, Some(Side::New)));
    // Who turns back has others begin anew.
    let mut back = now.clone();
    back = back.apply(&TopologyChange::TurnBack(id(3)));
    assert_eq!((back.stage(), back.movers().count()), (None, 1));
    assert_eq!(back.member(id(3)).map(|it| it.state), Some(MemberState::Left));
    back = back.apply(&TopologyChange::TurnBack(id(1)));
    assert_eq!(back.member(id(1)).map(|it| it.state), Some(MemberState::Normal));
    make(&mut now, vec![advance(Stage::ReadNew)]);
    assert_eq!((now.read_side(), now.other_side()), (Side::New, Some(Side::Old)));
    refused(&now, &TopologyChange::TurnBack(id(3)), "too late");
    make(&mut now, vec![TopologyChange::Arrive]);
    let states = [1, 2, 3].map(|number| now.member(id(number)).map(|it| it.state));
    let (left, normal) = (Some(MemberState::Left), Some(MemberState::Normal));
    assert_eq!((states, now.stage()), ([left, normal, normal], None));
    // A node in the place of one that is lost has its tokens and its address.
    make(&mut now, vec![TopologyChange::Lost(id(2)), TopologyChange::Leave(id(2))]);
    let instead = Member { address: member(2, place, &[]).address, ..joining(6, &[2]) };
    refused(&now, &set(Member { state: MemberState::Normal, ..instead.clone() }), "where node");
    make(&mut now, vec![set(instead)]);
    refused(&now, &TopologyChange::TurnBack(id(2)), "cannot come back");
}

#[test]
fn foreign_rows_are_a_topology_or_damage() {
    let stored = rows(
        &system_tables::table("system", TABLE),
        &[whole(&topology(&[member(1, ("dc1", "rack1"), &[1])]), 10)],
    );
    let [row] = &stored[..] else { panic!("{stored:?}") };
    for name in row.keys() {
        for bytes in [vec![], vec![0xff; 3], vec![0xff; 4]] {
            let mut broken = row.clone();
            broken.insert(name.clone(), bytes);
            let _ = load(&[broken]);
        }
    }
    let missing: Row = row.iter().filter(|(name, _)| *name != "rack").map(own).collect();
    let damaged = load(&[missing]).expect_err("a node without a rack");
    assert!(damaged.to_string().contains("the row of node"), "{damaged}");
}

fn own((name, value): (&String, &Vec<u8>)) -> (String, Vec<u8>) {
    (name.clone(), value.clone())
}
