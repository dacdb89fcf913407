use super::*;
use crate::placement::ring::tests::any_topology;
use crate::placement::strategy::Factors;
use crate::placement::{Resize, TabletStep};
use crate::topology::testing::{member, topology};
use crate::topology::{Stage, TopologyChange};
use proptest::prelude::*;

/// With all tablets that are to be one on the same nodes.
fn brought_together(made: &TabletReplicas) -> TabletReplicas {
    let mut together = made.clone();
    for mates in made.apart() {
        let to: Hosts = made.of(mates.start).to_vec().into();
        let steps = [
            TabletStep::Begin(to),
            TabletStep::Advance(Stage::ReadOld),
            TabletStep::Advance(Stage::ReadNew),
            TabletStep::Arrive,
        ];
        for (session, step) in (1..).zip(steps) {
            let all: Vec<_> = mates.clone().skip(1).map(|it| (it, step.clone())).collect();
            together = together.after(&all, session);
        }
    }
    together
}

proptest! {
    /// *as-on-the-ring*, *within-slots*, *slots-together*; and what it comes to.
    #[test]
    fn tablets_are_where_the_ring_is_and_come_to_a_power_of_two(
        topology in any_topology(),
        (one, two) in (0u32..4, 0u32..4),
        tokens: [i64; 9],
    ) {
        let counts = vec![("d1".to_owned(), one), ("d2".to_owned(), two)];
        let replication = Replication::PerDataCenter(Factors::from(counts));
        let ring = Ring::settled(&topology);
        let owners = ring.owners(&replication);
        prop_assume!(!owners.of(Token::MAX).is_empty());
        let made = map(&ring, &replication, &Load::default());
        let made = made.expect("a map");
        let hosts = |of: &[(Uuid, u16)]| of.iter().map(|it| it.0).collect::<Vec<_>>();
        let of_ring = |token| -> Vec<Uuid> {
            let of = owners.of(token).iter();
            of.map(|at| ring.members()[usize::from(*at)].host_id).collect()
        };
        let ends = made.last_tokens().to_vec();
        let inside = tokens.into_iter().map(Token).filter(|it| *it != Token::MIN);
        for token in inside.chain(ends.iter().copied()) {
            prop_assert_eq!(hosts(made.of(made.tablet_of(token))), of_ring(token));
        }
        let target = target_of(owners.ranges()).expect("few");
        prop_assert!(target <= owners.ranges().max(2) as u32);
        prop_assert!((owners.ranges() as u32) < 2 * target || target == 2);
        // No end without a reason.
        for end in &ends {
            let of_slot = slot_range(end.slot_of(target), target).1 == *end;
            let of_range = owners.range(owners.range_of(*end)).1 == *end;
            prop_assert!(of_slot || of_range, "{end:?}");
        }
        let is_there = made.count() == target as usize;
        prop_assert_eq!(made.target(), if is_there { 0 } else { target });
        if is_there {
            return Ok(());
        }
        for (tablet, of) in made.iter().enumerate() {
            for other in tablet + 1..made.count() {
                if ends[tablet].slot_of(target) != ends[other].slot_of(target) {
                    break;
                }
                for (host, shard) in made.of(other) {
                    let same = of.iter().find(|it| it.0 == *host);
                    prop_assert!(same.is_none_or(|it| it.1 == *shard), "one shard of {host}");
                }
            }
        }
        prop_assert!(made.resized(Resize::Split).is_err());
        prop_assert!(made.resized(Resize::Merge).is_err());
        prop_assert!(made.apart().next().is_none() || made.resized(Resize::Converge).is_err());
        let together = brought_together(&made);
        let done = together.resized(Resize::Converge).expect("all are together");
        prop_assert_eq!(done.target(), 0);
        prop_assert_eq!(done.count(), target as usize);
        for slot in 0..target {
            prop_assert_eq!(done.last_tokens()[slot as usize], slot_range(slot, target).1);
        }
    }
}

/// *all-or-none*
#[test]
fn it_ends_when_all_nodes_agree() {
    let nodes = [1, 2].map(|it| member(it, ("dc1", "rack1"), &[i64::from(it)]));
    let mut now = topology(&nodes);
    let feature = crate::features::VNODES_TO_TABLETS.to_owned();
    for node in nodes {
        let features = [feature.clone()].into();
        now = now.apply(&TopologyChange::Set(crate::Member { features, ..node }));
    }
    now = now.apply(&TopologyChange::Enable(feature));
    let [one, two] = [1, 2].map(Uuid::from_u128);
    let (ring, tablets) = (StorageMode::Ring, StorageMode::Tablets);
    let check = |now: &Topology, modes: [Option<StorageMode>; 2], expected: &str| {
        let of = |mode: StorageMode| Modes::from([("t".to_owned(), mode)]);
        let modes = [one, two].into_iter().zip(modes).filter_map(|(it, m)| Some((it, of(m?))));
        let found = match outcome(now, "ks", &modes.collect()) {
            Ok(mode) => mode.name().to_owned(),
            Err(why) => why,
        };
        assert!(found.contains(expected), "{found}");
    };
    let intend = |host, mode| TopologyChange::Intend(host, mode);
    assert!(now.check(&intend(one, tablets)).is_err_and(|it| it.contains("no migration")));
    let convert = |name: &str| TopologyChange::Convert(name.to_owned());
    now = now.apply(&convert("ks"));
    check(&now, [Some(ring), Some(ring)], "vnodes");
    check(&now, [Some(ring), None], "does not say");
    now = now.apply(&intend(one, tablets));
    assert!(now.check(&convert("other")).is_err_and(|it| it.contains("Another migration")));
    check(&now, [Some(ring), Some(ring)], "has not yet migrated table ks.t to tablets");
    check(&now, [Some(tablets), Some(ring)], "has not yet migrated table ks.t to tablets");
    check(&now, [Some(tablets), Some(tablets)], "is to store by vnodes");
    now = now.apply(&intend(two, tablets));
    check(&now, [Some(tablets), Some(tablets)], "tablets");
    now = now.apply(&intend(one, ring)).apply(&intend(two, ring));
    check(&now, [Some(tablets), Some(ring)], "has not yet migrated table ks.t to vnodes");
    // One that died for ever does not stand in the way.
    let lost = now.apply(&TopologyChange::Lost(one));
    check(&lost, [None, Some(ring)], "vnodes");
    // *nobody-meanwhile*
    let third = TopologyChange::Set(member(3, ("dc1", "rack1"), &[3]));
    for change in [third, TopologyChange::Leave(one), TopologyChange::Left(one)] {
        assert!(now.check(&change).is_err(), "{change:?}");
    }
    let converted = now.apply(&TopologyChange::Converted("ks".to_owned()));
    assert!(converted.converting().is_empty() && converted.intended(one) == ring);
    assert_eq!(converted.check(&TopologyChange::Leave(one)), Ok(()));
}
