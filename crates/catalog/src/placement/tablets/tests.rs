use super::*;
use crate::placement::ring::tests::{any_replication, any_topology};
use crate::topology::Member;
use crate::topology::testing::{member, topology};
use proptest::prelude::*;
use std::collections::BTreeSet;

const HERE: Here = Here { host_id: Uuid::from_u128(1), shards: 3 };

fn keyspace(initial_tablets: Option<u32>) -> Keyspace {
    crate::schema::testing::keyspace("ks", initial_tablets)
}

fn divided(initial: u32, replication: &Replication, topology: &Topology, load: &Load) -> Division {
    let keyspace = &keyspace(Some(initial));
    divide(Asked { keyspace, replication, hints: &[], scale: SCALE }, topology, HERE, load)
}

fn hinted(initial: u32, hints: &[(&str, &str)], topology: &Topology, copies: u32) -> usize {
    let hints: Vec<_> =
        hints.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let (keyspace, replication) = (&keyspace(Some(initial)), &Replication::Simple(copies));
    let asked = Asked { keyspace, replication, hints: &hints, scale: SCALE };
    divide(asked, topology, HERE, &Load::default()).tablets.count()
}

fn nodes(places: &[(&str, &str)]) -> Topology {
    let node = |(number, place): (u8, &(&str, &str))| member(number, *place, &[i64::from(number)]);
    topology(&(1u8..).zip(places).map(node).collect::<Vec<Member>>())
}

#[test]
fn counts_are_powers_of_two_or_the_shards() {
    let check = |initial: Option<u32>, shards: u16, count: usize| {
        let replication = &Replication::Simple(1);
        let asked = Asked { keyspace: &keyspace(initial), replication, hints: &[], scale: SCALE };
        let here = Here { shards, ..HERE };
        let alone = divide(asked, &Topology::default(), here, &Load::default());
        let of_one = topology(&[Member { shards, ..member(1, ("d1", "r1"), &[5]) }]);
        assert_eq!(divide(asked, &of_one, here, &Load::default()), alone);
        assert_eq!(alone.tablets.count(), count);
        match initial {
            None => assert_eq!(alone.tablets, TabletMap::static_map(shards)),
            Some(_) => assert_eq!(alone.tablets, TabletMap::tablets(count as u32, shards)),
        }
    };
    check(None, 3, 3);
    check(Some(0), 3, 4);
    check(Some(1), 3, 1);
    check(Some(5), 3, 8);
}

#[test]
fn there_are_so_many_tablets_for_a_shard_where_nothing_else_is_said() {
    let check = |scale: f64, initial: u32, hints: &[(String, String)], count: usize| {
        let replication = &Replication::Simple(1);
        let asked = Asked { keyspace: &keyspace(Some(initial)), replication, hints, scale };
        let divided = divide(asked, &Topology::default(), HERE, &Load::default());
        assert_eq!(divided.tablets.count(), count, "{scale} {initial} {hints:?}");
    };
    let hint = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
    check(10.0, 0, &[], 32);
    check(0.1, 0, &[], 1);
    check(1e300, 0, &[], TABLETS_MAX as usize);
    check(10.0, 2, &[], 2);
    check(10.0, 0, &hint("min_tablet_count", "4"), 4);
    check(10.0, 0, &hint("max_tablet_count", "4"), 4);
}

#[test]
fn hints_say_how_many_tablets_there_are() {
    let alone = Topology::default();
    let check = |initial, hints: &[(&str, &str)], count| {
        assert_eq!(hinted(initial, hints, &alone, 1), count, "{initial} {hints:?}");
    };
    check(0, &[("min_tablet_count", "2")], 2);
    check(8, &[("min_tablet_count", "2")], 8);
    check(2, &[("min_tablet_count", "9")], 16);
    check(0, &[("expected_data_size_in_gb", "21")], 8);
    check(0, &[("min_per_shard_tablet_count", "2")], 8);
    check(0, &[("min_per_shard_tablet_count", "0.1")], 1);
    check(0, &[("max_tablet_count", "3")], 2);
    check(64, &[("max_tablet_count", "64")], 64);
    check(u32::MAX, &[], TABLETS_MAX as usize);
    check(0, &[("min_tablet_count", "x"), ("max_tablet_count", "-1")], 4);
    // Six nodes of two shards: as many replicas as shards.
    let six = nodes(&[("d1", "r1"); 6]);
    assert_eq!(hinted(0, &[], &six, 3), 4);
    assert_eq!(hinted(0, &[], &six, 1), 16);
    assert_eq!(hinted(0, &[], &six, 0), 16);
    assert_eq!(hinted(0, &[("min_per_shard_tablet_count", "8")], &six, 3), 32);
}

#[test]
fn tablets_of_shards_that_are_gone_are_dealt_anew() {
    let replicas = divided(8, &Replication::Simple(1), &Topology::default(), &Load::default());
    let on = |shards| replicas.replicas.shards_on(Here { shards, ..HERE });
    assert_eq!(on(3), [0, 1, 2, 0, 1, 2, 0, 1]);
    assert_eq!(on(4), on(3));
    assert_eq!(on(2), [0, 1, 0, 1, 0, 1, 0, 1]);
    let other = Here { host_id: Uuid::from_u128(2), shards: 4 };
    assert_eq!(replicas.replicas.shards_on(other), [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn tables_of_one_tablet_go_to_shards_in_turn() {
    let two = nodes(&[("d1", "r1"), ("d1", "r2")]);
    let mut load = Load::default();
    let mut order = Vec::new();
    for _ in 0..6 {
        let made = divided(1, &Replication::Simple(1), &two, &load);
        order.extend(made.replicas.of(0).iter().map(|(host, shard)| (host.as_u128(), *shard)));
        load.add(&made.replicas);
    }
    assert_eq!(order, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 0), (2, 0)]);
}

#[test]
fn the_first_replica_is_not_always_the_same_node() {
    let three = nodes(&[("d1", "r1"), ("d1", "r2"), ("d1", "r3")]);
    let made = divided(8, &Replication::Simple(3), &three, &Load::default());
    let first: Vec<u128> = made.replicas.iter().map(|of| of[0].0.as_u128()).collect();
    assert_eq!(first, [1, 2, 3, 1, 2, 3, 1, 2]);
}

#[test]
fn listed_racks_have_one_replica_each() {
    let places = [("d1", "r1"), ("d1", "r1"), ("d1", "r2"), ("d1", "r3"), ("d2", "r1")];
    let options = [("class", "NetworkTopologyStrategy"), ("d1", "['r1', 'r3']"), ("d2", "1")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let replication = Replication::parse(&options).expect("valid options");
    let made = divided(4, &replication, &nodes(&places), &Load::default());
    for of in made.replicas.iter() {
        let hosts: Vec<u128> = of.iter().map(|(host, _)| host.as_u128()).collect();
        assert!(matches!(hosts[..], [1 | 2, 4, 5] | [4, 1 | 2, 5]), "{hosts:?}");
    }
    let of_first = made.replicas.iter().flatten().filter(|it| it.0 == Uuid::from_u128(1)).count();
    assert_eq!(of_first, 2);
}

proptest! {
    #[test]
    fn replicas_are_where_they_may_be(
        topology in any_topology(),
        replication in any_replication(),
        initial in 0u32..40,
        shards in 1u16..5,
        before in 0u32..40,
    ) {
        let mut load = Load::default();
        load.add(&divided(before, &replication, &topology, &load).replicas);
        let keyspace = &keyspace(Some(initial));
        let asked = Asked { keyspace, replication: &replication, hints: &[], scale: SCALE };
        let here = Here { shards, ..HERE };
        let made = divide(asked, &topology, here, &load);
        prop_assert_eq!(&divide(asked, &topology, here, &load), &made, "not a function");
        prop_assert_eq!(made.tablets.count(), made.replicas.count());
        let of_here = |of: &&(Uuid, u16)| of.0 == HERE.host_id;
        let mut own = made.replicas.iter().filter_map(|of| of.iter().find(of_here));
        let held = own.all(|(_, shard)| *shard < shards);
        let at_home = |(index, of): (usize, &[(Uuid, u16)])| {
            let own = of.iter().find(|it| it.0 == HERE.host_id);
            own.is_none_or(|(_, shard)| *shard == made.tablets.shards()[index])
        };
        prop_assert!(!held || made.replicas.iter().enumerate().all(at_home));
        prop_assert!(made.tablets.shards().iter().all(|shard| *shard < shards));
        if topology.present().next().is_none() {
            return Ok(());
        }
        // As many in each data center, and in as many racks, as a ring would have.
        let ring = Ring::new(&topology);
        let owners = ring.owners(&replication);
        let place = |host: Uuid| {
            let member = topology.member(host).expect("a member");
            (member.data_center.clone(), member.rack.clone())
        };
        let on_ring = owners.sets()[0].iter();
        let on_ring: Vec<_> =
            on_ring.map(|it| ring.members()[usize::from(*it)].host_id).map(place).collect();
        let rackless = matches!(replication, Replication::Simple(_));
        for of in made.replicas.iter() {
            let mut hosts = BTreeSet::new();
            for (host, shard) in of {
                prop_assert!(hosts.insert(*host), "one-a-host");
                let member = topology.member(*host).expect("a member");
                prop_assert!(*shard < member.shards && !member.tokens.is_empty(), "on-shards");
            }
            let places: Vec<_> = hosts.into_iter().map(place).collect();
            prop_assert_eq!(places.len(), on_ring.len());
            if rackless {
                continue;
            }
            for center in ["d1", "d2"] {
                let racks = |all: &[(String, String)]| {
                    let racks = all.iter().filter(|(name, _)| name == center);
                    let racks: Vec<_> = racks.map(|(_, rack)| rack.clone()).collect();
                    (racks.len(), racks.into_iter().collect::<BTreeSet<_>>().len())
                };
                prop_assert_eq!(racks(&places), racks(&on_ring), "racks-first");
            }
        }
    }

    /// Where every node may have every tablet, none has more than one more than another.
    #[test]
    fn replicas_are_spread(members in 1usize..7, copies in 1u32..5, initial in 1u32..70) {
        let topology = nodes(&[("d1", "r1"); 6][..members]);
        let made = divided(initial, &Replication::Simple(copies), &topology, &Load::default());
        let mut load = Load::default();
        load.add(&made.replicas);
        let mut of_hosts = BTreeMap::<Uuid, Vec<u32>>::new();
        for member in topology.present() {
            let of = |shard| load.0.get(&(member.host_id, shard)).copied().unwrap_or(0);
            of_hosts.insert(member.host_id, (0..member.shards).map(of).collect());
        }
        let apart = |counts: &[u32]| {
            counts.iter().max().copied().unwrap_or(0) - counts.iter().min().copied().unwrap_or(0)
        };
        prop_assert!(of_hosts.values().all(|counts| apart(counts) <= 1), "{of_hosts:?}");
        let sums: Vec<u32> = of_hosts.values().map(|counts| counts.iter().sum()).collect();
        prop_assert!(apart(&sums) <= 1, "{of_hosts:?}");
    }
}

/// Tablets as a keyspace makes them.
fn equal(count: u32, of: impl Fn(usize) -> Hosts) -> TabletReplicas {
    let last_tokens = TabletMap::tablets(count, 1).last_tokens().to_vec();
    TabletReplicas::new(last_tokens, (0..count as usize).map(of).collect())
}

/// *tokens-stay*
#[test]
fn tablets_split_where_a_table_of_as_many_has_them() {
    let [one, two] = [1, 2].map(Uuid::from_u128);
    let of = |tablet: usize| -> Hosts { Box::from([(one, tablet as u16), (two, 7)]) };
    let mut now = equal(1, of);
    for count in [2, 4, 8, 16] {
        now = now.resized(Resize::Split).expect("halves");
        assert_eq!(now.last_tokens(), TabletMap::tablets(count, 1).last_tokens());
        assert!(now.iter().all(|it| *it == *of(0)));
    }
    for count in [8, 4, 2, 1] {
        now = now.resized(Resize::Merge).expect("pairs");
        assert_eq!(now, equal(count, |_| of(0)));
    }
    assert_eq!(now.resized(Resize::Merge), Err("1 tablets are not pairs".to_owned()));
    let apart = equal(4, |tablet| Box::from([(if tablet < 3 { one } else { two }, 0)]));
    let mates: Vec<_> = apart.apart().map(|mates| (mates.start, mates.end)).collect();
    assert_eq!(mates, [(2, 4)]);
    let refused = apart.resized(Resize::Merge);
    assert_eq!(refused, Err("tablets 2 and 3 are on different nodes".to_owned()));
    // The shards, and the order of nodes, may differ: those of the first hold.
    let turned = equal(2, |tablet| match tablet {
        0 => Box::from([(one, 3), (two, 4)]),
        _ => Box::from([(two, 1), (one, 3)]),
    });
    let merged = turned.resized(Resize::Merge).expect("a pair");
    assert_eq!(merged.of(0), [(one, 3), (two, 4)]);
    let most = equal(TABLETS_MAX, |_| Box::from([(one, 0)]));
    assert!(most.resized(Resize::Split).is_err());
    let thin = vec![Token(4), Token(5), Token::MAX];
    let thin = TabletReplicas::new(thin, vec![of(0); 3]);
    let refused = thin.resized(Resize::Split);
    assert_eq!(refused, Err("tablet 1 has one token: it cannot be halved".to_owned()));
    assert_eq!(thin.resized(Resize::Merge), Err("3 tablets are not pairs".to_owned()));
}

#[test]
fn what_is_on_its_way_is_neither_split_nor_merged() {
    let [one, two] = [1, 2].map(Uuid::from_u128);
    let still = equal(2, |_| Box::from([(one, 0)]));
    let step = TabletStep::Begin(Box::from([(two, 0)]));
    let moving = still.after(&[(1, step)], 5);
    for resize in [Resize::Split, Resize::Merge] {
        let refused = moving.resized(resize).expect_err("it is on its way");
        assert!(refused.contains("tablet 1 is on its way"), "{refused}");
    }
}

proptest! {
    /// *tokens-stay*, of tablets that end anywhere.
    #[test]
    fn each_token_is_on_the_nodes_of_before(
        ends in proptest::collection::btree_set(any::<i64>(), 0..9),
        hosts in proptest::collection::vec(0u128..3, 10),
        tokens: [i64; 9],
    ) {
        let ends: Vec<Token> = ends.into_iter().filter(|it| *it < i64::MAX).map(Token)
            .chain([Token::MAX]).collect();
        let of = |tablet: usize| -> Hosts { Box::from([(Uuid::from_u128(hosts[tablet] + 1), 0)]) };
        let all = (0..ends.len()).map(of).collect();
        let before = TabletReplicas::new(ends, all);
        for resize in [Resize::Split, Resize::Merge] {
            let Ok(after) = before.resized(resize) else { continue };
            let count = match resize {
                Resize::Split => 2 * before.count(),
                Resize::Merge | Resize::Converge => before.count() / 2,
            };
            prop_assert_eq!(after.count(), count);
            for token in tokens.into_iter().map(Token).chain(before.last_tokens().iter().copied()) {
                let (old, new) = (before.tablet_of(token), after.tablet_of(token));
                prop_assert_eq!(before.of(old), after.of(new));
                let (start, last) = after.range(new);
                prop_assert!(token <= last && (start < token || token == Token::MIN));
            }
            if resize == Resize::Split {
                let back = after.resized(Resize::Merge);
                prop_assert_eq!(back.as_ref(), Ok(&before));
            }
        }
    }
}

/// A token was repaired at a time, if at all.
fn repaired(of: &TabletReplicas, token: Token) -> Option<i64> {
    of.repaired().get(&of.tablet_of(token)).copied()
}

proptest! {
    /// *no-later*, beside the time of each of some tokens, the first and the last of tablets among
    /// them.
    #[test]
    fn a_tablet_has_no_later_time_than_its_tokens(
        ends in proptest::collection::btree_set(-40i64..40, 0..9),
        steps in proptest::collection::vec((0u8..4, -45i64..45, 0i64..30, 0i64..9), 1..12),
    ) {
        let ends: Vec<Token> = ends.into_iter().map(Token).chain([Token::MAX]).collect();
        let hosts: Hosts = Box::from([(Uuid::from_u128(1), 0)]);
        let mut now = TabletReplicas::new(ends.clone(), vec![hosts; ends.len()]);
        let tokens = || (-50..50).chain([i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX]);
        let mut model: BTreeMap<i64, Option<i64>> = tokens().map(|it| (it, None)).collect();
        for (kind, first, width, at) in steps {
            match kind {
                0 => now = now.resized(Resize::Split).unwrap_or(now),
                1 => now = now.resized(Resize::Merge).unwrap_or(now),
                _ => {
                    // A whole tablet, or any range.
                    let tablet = now.tablet_of(Token(first));
                    let (after, last) = now.range(tablet);
                    let range = match (kind, tablet) {
                        (2, 0) => (after, last),
                        (2, _) => (Token(after.0 + 1), last),
                        _ => (Token(first), Token(first + width)),
                    };
                    let before = now.clone();
                    now = before.after_repairs(&[(range, at)]);
                    for (token, known) in &mut model {
                        if range.0.0 <= *token && *token <= range.1.0 {
                            *known = (*known).max(Some(at));
                        }
                    }
                    prop_assert!(kind != 2 || Some(at) <= repaired(&now, range.1));
                    let changed = now.differing(&before);
                    let (one, other) = (now.repaired(), before.repaired());
                    let differ = |it: &usize| one.get(it) != other.get(it);
                    let expected: BTreeSet<usize> = (0..now.count()).filter(differ).collect();
                    prop_assert_eq!(changed, expected);
                }
            }
            for (token, at) in &model {
                prop_assert!(repaired(&now, Token(*token)) <= *at, "{token} in {now:?}");
            }
        }
    }
}

#[test]
fn what_was_repaired_stays_so_on_its_way() {
    let [one, two] = [1, 2].map(Uuid::from_u128);
    let whole = (Token::MIN, Token::MAX);
    let still = equal(4, |_| Box::from([(one, 0)])).after_repairs(&[(whole, 7)]);
    assert_eq!(still.repaired(), &(0..4).map(|tablet| (tablet, 7)).collect());
    let mut moving = still.after(&[(1, TabletStep::Begin(Box::from([(two, 0)])))], 5);
    for (step, session) in [
        (TabletStep::Advance(Stage::ReadOld), 6),
        (TabletStep::Advance(Stage::ReadNew), 7),
        (TabletStep::Arrive, 8),
    ] {
        moving = moving.after(&[(1, step)], session);
    }
    assert_eq!((moving.of(1), moving.repaired()), (&[(two, 0)][..], still.repaired()));
}
