use super::heat::HOT_LEAST;
use super::*;
use crate::placement::ring::tests::any_replication;
use crate::placement::tablets::{Resize, TabletStep};
use crate::topology::testing::{member, topology};
use crate::topology::{Member, Stage, TopologyChange};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Tables with their replications.
type Tables = Vec<(TableId, TabletReplicas, Replication)>;

/// Requests of the tablets of each table.
type Heats = [Vec<u64>];

/// What the tablets of each table weigh, and whether it is to be merged.
type Weights = [(Vec<u64>, bool)];

fn placed(tables: &Tables) -> Vec<Placed<'_>> {
    weighed(tables, &[])
}

fn weighed<'t>(tables: &'t Tables, weights: &'t Weights) -> Vec<Placed<'t>> {
    let mut out = Vec::new();
    for (at, (table, replicas, replication)) in tables.iter().enumerate() {
        let (weights, merges) = match weights.get(at) {
            Some((weights, merges)) => (&weights[..], *merges),
            None => (&[][..], false),
        };
        out.push(Placed { table: *table, replicas, replication, weights, heats: &[], merges });
    }
    out
}

/// Makes the moves of plans until there are none; how many there were.
fn settle(topology: &Topology, tables: &mut Tables) -> usize {
    settle_weighed(topology, tables, &[])
}

fn settle_weighed(topology: &Topology, tables: &mut Tables, weights: &Weights) -> usize {
    settle_heated(topology, tables, weights, &[])
}

fn heated<'t>(tables: &'t Tables, weights: &'t Weights, heats: &'t Heats) -> Vec<Placed<'t>> {
    let mut placed = weighed(tables, weights);
    placed.iter_mut().zip(heats).for_each(|(table, heats)| table.heats = heats);
    placed
}

fn settle_heated(
    topology: &Topology,
    tables: &mut Tables,
    weights: &Weights,
    heats: &Heats,
) -> usize {
    let mut count = 0;
    loop {
        let moves = plan(topology, &heated(tables, weights, heats));
        if moves.is_empty() {
            return count;
        }
        assert!(count < 100_000, "it-ends: {} tables, {moves:?}", tables.len());
        count += moves.len();
        let (mut gets, mut gives) = (BTreeMap::<Uuid, u32>::new(), BTreeMap::<Uuid, u32>::new());
        for Move { table, tablet, to } in &moves {
            let (_, replicas, _) =
                tables.iter_mut().find(|(id, ..)| id == table).expect("a known table");
            let of: BTreeSet<Uuid> = replicas.of(*tablet).iter().map(|it| it.0).collect();
            let new: BTreeSet<Uuid> = to.iter().map(|it| it.0).collect();
            new.difference(&of).for_each(|host| *gets.entry(*host).or_default() += 1);
            of.difference(&new).for_each(|host| *gives.entry(*host).or_default() += 1);
            let stages = [Stage::Prepare, Stage::ReadOld, Stage::ReadNew];
            let mut steps = vec![TabletStep::Begin(to.clone())];
            steps.extend(stages[1..].iter().copied().map(TabletStep::Advance));
            steps.push(TabletStep::Arrive);
            for (step, session) in steps.into_iter().zip(1..) {
                assert_eq!(replicas.check(*tablet, &step), Ok(()));
                *replicas = replicas.after(&[(*tablet, step)], session);
            }
        }
        // *bounded*; who gives may be gone.
        let is_there =
            |host: &Uuid| topology.member(*host).is_some_and(|it| it.state == MemberState::Normal);
        assert!(gets.values().all(|count| *count <= AT_ONCE_MAX), "{gets:?}");
        let gives = gives.iter().filter(|(host, _)| is_there(host));
        assert!(gives.clone().all(|(_, count)| *count <= AT_ONCE_MAX), "{gives:?}");
    }
}

/// Nodes by rack and shards, all in one data centre.
fn nodes(drawn: &[(usize, u16)]) -> Topology {
    let node = |(number, (rack, shards)): (usize, &(usize, u16))| {
        let place = ("d1", ["r1", "r2", "r3"][*rack]);
        Member { shards: *shards, ..member(number as u8 + 1, place, &[number as i64 * 1000]) }
    };
    topology(&drawn.iter().enumerate().map(node).collect::<Vec<_>>())
}

/// Of each table: so many tablets, on whatever nodes there are.
fn tables(topology: &Topology, drawn: &[(usize, Replication)]) -> Tables {
    let mut out = Tables::new();
    for (number, (count, replication)) in drawn.iter().enumerate() {
        let mut table: Tables =
            vec![(Uuid::from_u128(number as u128), TabletReplicas::default(), replication.clone())];
        // As a table is divided that is new: by the same rules.
        let ring = Ring::settled(topology);
        let keyspace = crate::schema::testing::keyspace("ks", Some(*count as u32));
        let here = Here { host_id: Uuid::from_u128(1), shards: 1 };
        let asked = crate::placement::tablets::Asked {
            keyspace: &keyspace,
            replication,
            hints: &[],
            scale: 1.0,
        };
        let mut load = Load::default();
        out.iter().for_each(|(_, replicas, _)| load.add(replicas));
        let division = crate::placement::tablets::divide(asked, topology, here, &load);
        table[0].1 = division.replicas;
        if ring.members().is_empty() || table[0].1.of(0).is_empty() {
            continue;
        }
        out.extend(table);
    }
    out
}

fn counts(tables: &Tables, table: usize) -> BTreeMap<Uuid, u32> {
    let mut counts = BTreeMap::new();
    for (host, _) in tables[table].1.iter().flatten() {
        *counts.entry(*host).or_default() += 1;
    }
    counts
}

proptest! {
    /// *it-ends*, *no-worse*, *one-a-host*, *on-shards*, *bounded*
    #[test]
    fn whatever_comes_and_goes_tablets_settle(
        drawn in proptest::collection::vec((0usize..3, 1u16..5), 1..8),
        spaces in proptest::collection::vec((1usize..40, any_replication()), 1..4),
        changes in proptest::collection::vec((0u8..4, 0usize..3, 1u16..5), 0..6),
    ) {
        let mut topology = nodes(&drawn);
        let mut tables = tables(&topology, &spaces);
        prop_assume!(!tables.is_empty());
        settle(&topology, &mut tables);
        let mut next = drawn.len() as u8 + 1;
        for (kind, rack, shards) in changes {
            let present: Vec<Uuid> = topology.present().map(|it| it.host_id).collect();
            let chosen = present[usize::from(shards) % present.len()];
            let steps = match kind {
                0 | 1 => {
                    let place = ("d1", ["r1", "r2", "r3"][rack]);
                    let new = member(next, place, &[i64::from(next) * 77]);
                    next += 1;
                    vec![TopologyChange::Set(Member { shards, ..new })]
                }
                2 => vec![TopologyChange::Leave(chosen)],
                _ => vec![TopologyChange::Lost(chosen), TopologyChange::Leave(chosen)],
            };
            if kind == 2 && stuck(&topology, &placed(&tables), chosen).is_some() {
                continue;
            }
            let mut after = topology.clone();
            if steps.iter().any(|step| {
                let fits = after.check(step).is_ok();
                if fits { after = after.apply(step); }
                !fits
            }) {
                continue;
            }
            topology = after;
            settle(&topology, &mut tables);
            if kind == 2 {
                let mut left = tables.iter().flat_map(|it| it.1.iter().flatten());
                prop_assert!(left.all(|(host, _)| *host != chosen), "not drained");
            }
            let mover = topology.movers().next().map(|it| it.host_id);
            if let Some(mover) = mover {
                let stages = [Stage::Prepare, Stage::ReadOld, Stage::ReadNew];
                let steps = stages.into_iter().map(TopologyChange::Advance);
                for step in steps.chain([TopologyChange::Arrive]) {
                    topology = topology.apply(&step);
                }
                settle(&topology, &mut tables);
                let left = tables.iter().flat_map(|it| it.1.iter().flatten());
                let left = left.map(|it| it.0);
                let rest: BTreeSet<Uuid> = left.filter(|host| *host == mover).collect();
                // Of one that was lost with nobody to take its place the tablet says so still.
                prop_assert!(kind == 3 || rest.is_empty(), "{rest:?}");
            }
        }
        check(&topology, &tables)?;
    }
}

fn check(topology: &Topology, tables: &Tables) -> Result<(), TestCaseError> {
    let ring = Ring::settled(topology);
    for (at, (_, replicas, replication)) in tables.iter().enumerate() {
        let wants = ring.wants(replication);
        for of in replicas.iter() {
            let hosts: BTreeSet<Uuid> = of.iter().map(|it| it.0).collect();
            prop_assert_eq!(hosts.len(), of.len());
            let live: Vec<_> =
                of.iter().filter_map(|(it, shard)| Some((ring.place_of(*it)?, *shard))).collect();
            for (place, shard) in &live {
                prop_assert!(*shard < ring.members()[*place].shards);
            }
            if let Wants::Per(centers) = &wants {
                for (center, want) in centers.iter().enumerate() {
                    let mut racks = BTreeMap::<u16, usize>::new();
                    for (place, _) in &live {
                        let site = ring.site(*place);
                        if usize::from(site.center) == center {
                            *racks.entry(site.rack).or_default() += 1;
                        }
                    }
                    let lost = ring.members().iter().any(|it| topology.is_lost(it.host_id));
                    let sum: usize = racks.values().sum();
                    prop_assert!(sum == want.copies || lost, "{sum} of {}", want.copies);
                }
            }
        }
        // Balanced: no node has two more for a shard than another one, racks permitting.
        if let Wants::Anywhere(_) = wants {
            let counts = counts(tables, at);
            let of =
                |member: &std::sync::Arc<Member>| counts.get(&member.host_id).copied().unwrap_or(0);
            for one in ring.members() {
                for other in ring.members() {
                    let (a, b) = (of(one) as i64, of(other) as i64);
                    let (s, t) = (i64::from(one.shards), i64::from(other.shards));
                    // *worth-it*
                    let is_little = 100 * (a * t - b * s) <= DIFFER_PERCENT as i64 * a * t;
                    let grows = (2 * b + 1) * s - (2 * a - 1) * t;
                    let grows = if is_little { grows.max(0) } else { grows };
                    let all = replicas.iter().filter(|of| {
                        let has = |host: Uuid| of.iter().any(|it| it.0 == host);
                        has(one.host_id) && !has(other.host_id)
                    });
                    prop_assert!(0 <= grows || all.count() == 0, "{a} of {s} shards, {b} of {t}");
                }
            }
        }
    }
    Ok(())
}

/// A new node gets its part, of each table.
#[test]
fn a_node_that_comes_gets_its_part() {
    let mut topology = nodes(&[(0, 2), (0, 2), (0, 2)]);
    let mut tables =
        tables(&topology, &[(64, Replication::Simple(3)), (8, Replication::Simple(2))]);
    assert!(plan(&topology, &placed(&tables)).is_empty());
    let new = member(4, ("d1", "r1"), &[7]);
    topology = topology.apply(&TopologyChange::Set(new.clone()));
    settle(&topology, &mut tables);
    let own = [0, 1].map(|table| counts(&tables, table).get(&new.host_id).copied());
    assert_eq!(own, [Some(48), Some(4)]);
    // On its shards alike.
    let on = |shard: u16| {
        let all = tables.iter().flat_map(|it| it.1.iter().flatten());
        all.filter(|it| **it == (new.host_id, shard)).count()
    };
    assert!(on(0).abs_diff(on(1)) <= 4, "{} and {}", on(0), on(1));
}

/// Where nobody could take a tablet, its node cannot leave.
#[test]
fn who_cannot_be_replaced_is_told() {
    let topology = nodes(&[(0, 2), (1, 2), (2, 2)]);
    let tables = tables(&topology, &[(8, Replication::Simple(3))]);
    let host = Uuid::from_u128(1);
    let leaving = topology.apply(&TopologyChange::Leave(host));
    assert_eq!(stuck(&leaving, &placed(&tables), host), Some((tables[0].0, 0)));
    assert!(plan(&leaving, &placed(&tables)).is_empty());
    let more = topology.apply(&TopologyChange::Set(member(4, ("d1", "r1"), &[7])));
    let leaving = more.apply(&TopologyChange::Leave(host));
    assert_eq!(stuck(&leaving, &placed(&tables), host), None);
    // Nor has anybody to take one that is not wanted any more.
    let leaving = topology.apply(&TopologyChange::Leave(host));
    let mut fewer = tables.clone();
    fewer[0].2 = Replication::Simple(2);
    assert_eq!(stuck(&leaving, &placed(&fewer), host), None);
    let gone = plan(&leaving, &placed(&fewer));
    let stays = |next: &Move| next.to.len() == 2 && next.to.iter().all(|(it, _)| *it != host);
    assert!(!gone.is_empty() && gone.iter().all(stays), "{gone:?}");
}

/// Without balance only those go that have to.
#[test]
fn tablets_stay_where_they_are_not_to_be_balanced() {
    let mut topology = nodes(&[(0, 2), (0, 2), (0, 2)]);
    let mut tables = tables(&topology, &[(64, Replication::Simple(2))]);
    let new = member(4, ("d1", "r1"), &[7]);
    for change in [TopologyChange::Balance(false), TopologyChange::Set(new.clone())] {
        topology = topology.apply(&change);
    }
    assert_eq!(settle(&topology, &mut tables), 0);
    let leaves = Uuid::from_u128(1);
    let gone = counts(&tables, 0)[&leaves] as usize;
    let leaving = topology.apply(&TopologyChange::Leave(leaves));
    assert_eq!(settle(&leaving, &mut tables), gone);
    assert!(!counts(&tables, 0).contains_key(&leaves));
    let again = leaving.apply(&TopologyChange::Balance(true));
    assert!(0 < settle(&again, &mut tables) || counts(&tables, 0)[&new.host_id] as usize == gone);
}

/// What each node has of a table, by weight, for each of its shards.
fn bytes_per_shard(topology: &Topology, tables: &Tables, weights: &Weights) -> Vec<f64> {
    let mut of = BTreeMap::<Uuid, u64>::new();
    for ((_, replicas, _), (weights, _)) in tables.iter().zip(weights) {
        for (tablet, of_tablet) in replicas.iter().enumerate() {
            for (host, _) in of_tablet {
                *of.entry(*host).or_default() += weights[tablet];
            }
        }
    }
    let members = topology.present();
    let each = |member: &std::sync::Arc<Member>| {
        of.get(&member.host_id).copied().unwrap_or(0) as f64 / f64::from(member.shards)
    };
    members.map(each).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// *it-ends*, and where tablets are small enough all shards have as much, within 5 %, whatever
    /// each tablet weighs.
    #[test]
    fn sizes_even_out(
        racks in proptest::collection::vec(1u16..5, 2..7),
        sizes in proptest::collection::vec(1u64..1000, 256),
        comes in 1u16..5,
    ) {
        let drawn: Vec<(usize, u16)> = racks.iter().map(|shards| (0, *shards)).collect();
        let mut topology = nodes(&drawn);
        let copies = drawn.len().min(3) as u32 - 1;
        let mut tables = tables(&topology, &[(256, Replication::Simple(copies))]);
        let sizes: Vec<u64> = sizes.iter().map(|size| size << 20).collect();
        let weights = [(sizes, false)];
        settle_weighed(&topology, &mut tables, &weights);
        let new = Member { shards: comes, ..member(77, ("d1", "r1"), &[7]) };
        topology = topology.apply(&TopologyChange::Set(new));
        settle_weighed(&topology, &mut tables, &weights);
        let all = bytes_per_shard(&topology, &tables, &weights);
        let least = all.iter().copied().fold(f64::MAX, f64::min);
        let most = all.iter().copied().fold(0.0, f64::max);
        // One copy less than nodes: a node may have all that there is.
        let shards: Vec<u16> = topology.present().map(|it| it.shards).collect();
        let fair = shards.iter().all(|it| {
            let sum: u32 = shards.iter().map(|it| u32::from(*it)).sum();
            u32::from(*it) * copies < sum
        });
        prop_assert!(!fair || most <= 1.05 * least, "from {least} to {most}: {all:?}");
        // When they change a little, nothing moves.
        let other: Vec<u64> = weights[0].0.iter().map(|it| it + it / 1000).collect();
        let moved = settle_weighed(&topology, &mut tables, &[(other, false)]);
        prop_assert!(moved <= 4, "{moved} tablets move for nothing");
    }

}

proptest! {
    /// *it-ends*: all that is to be merged comes together, whatever else is there, and nothing of
    /// it is moved away again.
    #[test]
    fn what_is_to_be_merged_comes_together(
        drawn in proptest::collection::vec((0usize..3, 1u16..5), 2..7),
        spaces in proptest::collection::vec((1usize..40, any_replication(), any::<bool>()), 1..4),
    ) {
        let topology = nodes(&drawn);
        let kinds: Vec<_> =
            spaces.iter().map(|(count, replication, _)| (*count, replication.clone())).collect();
        let mut tables = tables(&topology, &kinds);
        prop_assume!(tables.len() == spaces.len());
        settle(&topology, &mut tables);
        let before = tables.clone();
        let weights: Vec<(Vec<u64>, bool)> =
            spaces.iter().map(|(.., merges)| (Vec::new(), *merges)).collect();
        settle_weighed(&topology, &mut tables, &weights);
        for (at, (_, replicas, _)) in tables.iter().enumerate() {
            if !weights[at].1 || replicas.count() == 1 {
                continue;
            }
            prop_assert_eq!(replicas.apart().count(), 0);
            let after = replicas.resized(Resize::Merge);
            prop_assert_eq!(after.map(|it| it.count()), Ok(replicas.count() / 2));
            // One of each two has stayed.
            let old = &before[at].1;
            let hosts = |of: &[(Uuid, u16)]| of.iter().map(|it| it.0).collect::<BTreeSet<_>>();
            for first in (0..replicas.count()).step_by(2) {
                let stays = |tablet| hosts(old.of(tablet)) == hosts(replicas.of(tablet));
                prop_assert!(stays(first) || stays(first + 1), "both of {first} have moved");
            }
        }
        check(&topology, &tables.into_iter().zip(&weights).filter(|it| !it.1.1)
            .map(|it| it.0).collect())?;
    }
}

/// A large tablet counts for what it has.
#[test]
fn a_large_tablet_is_alone() {
    let topology = nodes(&[(0, 1), (0, 1)]);
    let mut tables = tables(&topology, &[(8, Replication::Simple(1))]);
    let mut sizes = vec![1u64 << 30; 8];
    sizes[0] = 7 << 30;
    let weights = [(sizes, false)];
    assert!(0 < settle_weighed(&topology, &mut tables, &weights));
    assert_eq!(bytes_per_shard(&topology, &tables, &weights), [7.0 * (1u64 << 30) as f64; 2]);
    let host = tables[0].1.of(0)[0].0;
    assert_eq!(counts(&tables, 0)[&host], 1);
    // When each counts for one, there are as many on both again.
    assert_eq!(settle(&topology, &mut tables), 3);
}

/// Requests of each shard.
fn requests(topology: &Topology, tables: &Tables, heats: &Heats) -> BTreeMap<(Uuid, u16), u64> {
    let shards = topology.present().flat_map(|it| (0..it.shards).map(|shard| (it.host_id, shard)));
    let mut out: BTreeMap<(Uuid, u16), u64> = shards.map(|at| (at, 0)).collect();
    for ((_, replicas, _), heats) in tables.iter().zip(heats) {
        for (of, heat) in replicas.iter().zip(heats) {
            of.iter().for_each(|at| *out.entry(*at).or_default() += heat);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// *it-cools*, *as-even*: exchanges end, sizes stay even, and no shard gets more than twice the
    /// mean where tablets are small enough for that; where nothing is hot nothing moves.
    #[test]
    fn hot_shards_cool(
        racks in proptest::collection::vec(1u16..4, 3..7),
        heats in proptest::collection::vec(0u32..14, 256),
        hot in 0usize..6,
    ) {
        let drawn: Vec<(usize, u16)> = racks.iter().map(|shards| (0, *shards)).collect();
        let topology = nodes(&drawn);
        let mut tables = tables(&topology, &[(256, Replication::Simple(1))]);
        settle(&topology, &mut tables);
        let mut heats = [heats.into_iter().map(|bits| 1u64 << bits).collect::<Vec<u64>>()];
        // One node's share is much hotter than others.
        let host = topology.present().nth(hot % drawn.len()).expect("a node").host_id;
        for (of, heat) in tables[0].1.iter().zip(&mut heats[0]) {
            *heat = if of[0].0 == host { *heat * 8 } else { *heat };
        }
        let weights = [(vec![1 << 20; 256], false)];
        let counted = counts(&tables, 0);
        let before = requests(&topology, &tables, &heats);
        let mean = |of: &BTreeMap<(Uuid, u16), u64>| of.values().sum::<u64>() / of.len() as u64;
        let limit = (2 * mean(&before)).max(HOT_LEAST);
        let moved = settle_heated(&topology, &mut tables, &weights, &heats);
        let after = requests(&topology, &tables, &heats);
        prop_assert_eq!(counts(&tables, 0), counted);
        let was_hot = before.values().any(|has| limit < *has);
        prop_assert_eq!(0 < moved, was_hot, "{:?}", before);
        let largest = heats[0].iter().max().copied().unwrap_or(0);
        if largest <= mean(&before) / 4 {
            prop_assert!(after.values().all(|has| *has <= limit), "{after:?} of {before:?}");
        }
        prop_assert!(after.values().max() <= before.values().max());
        prop_assert_eq!(settle_heated(&topology, &mut tables, &weights, &heats), 0);
    }
}

/// A tablet that makes a shard hot by itself is told, and two that would.
#[test]
fn hot_tablets_are_told() {
    let topology = nodes(&[(0, 2), (0, 2)]);
    let tables = tables(&topology, &[(8, Replication::Simple(1)), (8, Replication::Simple(1))]);
    let told = |heats: &[Vec<u64>]| -> Vec<Heat> {
        let told = heat(&topology, &heated(&tables, &[], heats));
        let of = |table: &(TableId, TabletReplicas, Replication)| told.get(&table.0).copied();
        tables.iter().map(|table| of(table).unwrap_or_default()).collect()
    };
    let even = vec![500; 8];
    assert_eq!(told(&[even.clone(), even.clone()]), [Heat::Cold; 2]);
    let mut uneven = even.clone();
    uneven[3] = 9_000;
    // The mean is 4 125.
    assert_eq!(told(&[even.clone(), uneven.clone()]), [Heat::Cold, Heat::Hot]);
    (uneven[2], uneven[3]) = (4_000, 4_000);
    assert_eq!(told(&[even, uneven]), [Heat::Cold, Heat::Warm]);
    // Little is never hot.
    assert_eq!(told(&[vec![HOT_LEAST, 0, 0, 0, 0, 0, 0, 0], vec![]]), [Heat::Cold; 2]);
    assert_eq!(told(&[]), [Heat::Cold; 2]);
}
