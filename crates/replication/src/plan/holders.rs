//! Which other nodes keep a logged batch. Pure.
//!
//! Invariants
//!  - *alive-and-near*: only nodes that are alive, of the data centre of who coordinates the batch,
//!    and not itself.
//!  - *as-many-as-there-are*: two, or one where there is no other.
//!  - *racks-apart*: of two racks where nodes of two are alive; of other racks than that of who
//!    coordinates the batch where there are enough of them.

use model::Uuid;

/// So many nodes keep a batch.
pub const HOLDERS_MAX: usize = 2;

/// Another node of this one's data centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    pub host_id: Uuid,
    pub is_alive: bool,
    /// The same of those that are in one rack.
    pub rack: u16,
    /// Whether that is the rack of this node.
    pub is_own_rack: bool,
}

/// Who keeps a batch: none where nobody is alive. `draw` gives a number below another one.
pub fn choose(neighbors: &[Neighbor], mut draw: impl FnMut(u64) -> u64) -> Vec<Uuid> {
    let mut left: Vec<Neighbor> = neighbors.iter().filter(|one| one.is_alive).copied().collect();
    let mut chosen: Vec<Neighbor> = Vec::with_capacity(HOLDERS_MAX);
    while chosen.len() < HOLDERS_MAX && !left.is_empty() {
        let rack = chosen.first().map(|first| first.rack);
        // The best that there are: elsewhere, in another rack than the first one, any.
        let is_apart = |one: &Neighbor| rack != Some(one.rack);
        let is_best = |one: &Neighbor| is_apart(one) && !one.is_own_rack;
        let mut pool: Vec<usize> = Vec::new();
        for wanted in [&is_best as &dyn Fn(&Neighbor) -> bool, &is_apart, &|_| true] {
            pool.extend((0..left.len()).filter(|at| wanted(&left[*at])));
            if !pool.is_empty() {
                break;
            }
        }
        let drawn = draw(pool.len() as u64) as usize;
        assert!(drawn < pool.len(), "as-many-as-there-are: {drawn} of {}", pool.len());
        chosen.push(left.swap_remove(pool[drawn]));
    }
    debug_assert!(chosen.iter().all(|one| one.is_alive), "alive-and-near: {chosen:?}");
    chosen.into_iter().map(|one| one.host_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn neighbor(host: u128, is_alive: bool, rack: u16) -> Neighbor {
        let host_id = Uuid::from_u128(host);
        Neighbor { host_id, is_alive, rack, is_own_rack: rack == 0 }
    }

    #[test]
    fn nobody_is_there_or_one_is() {
        let none = |_| -> u64 { unreachable!("nothing to draw from") };
        assert!(choose(&[], none).is_empty());
        assert!(choose(&[neighbor(1, false, 1)], none).is_empty());
        let one = [neighbor(1, false, 1), neighbor(2, true, 0)];
        assert_eq!(choose(&one, |_| 0), [Uuid::from_u128(2)]);
    }

    #[test]
    fn other_racks_come_first() {
        let all = [neighbor(1, true, 0), neighbor(2, true, 1), neighbor(3, true, 1)];
        // One elsewhere, and then one of another rack than that one.
        assert_eq!(choose(&all, |_| 0), [Uuid::from_u128(2), Uuid::from_u128(1)]);
        let all = [&all[..], &[neighbor(4, true, 2)]].concat();
        assert!(!choose(&all, |_| 0).contains(&Uuid::from_u128(1)));
    }

    proptest! {
        #[test]
        fn who_keeps_a_batch_is_alive_and_apart(
            nodes in proptest::collection::vec((any::<bool>(), 0u16..4), 0..9),
            draws: [u64; 2],
        ) {
            let neighbors: Vec<Neighbor> = nodes
                .iter()
                .zip(0..)
                .map(|((is_alive, rack), host)| neighbor(host, *is_alive, *rack))
                .collect();
            let mut draws = draws.into_iter();
            let chosen = choose(&neighbors, |below| draws.next().expect("two draws") % below);
            let alive: Vec<&Neighbor> = neighbors.iter().filter(|one| one.is_alive).collect();
            let of = |host: &Uuid| alive.iter().find(|one| one.host_id == *host).copied();
            let found: Vec<&Neighbor> = chosen.iter().filter_map(of).collect();
            prop_assert_eq!(found.len(), chosen.len(), "alive-and-near");
            prop_assert_eq!(chosen.len(), alive.len().min(2), "as-many-as-there-are");
            let hosts: BTreeSet<Uuid> = chosen.iter().copied().collect();
            prop_assert_eq!(hosts.len(), chosen.len(), "as-many-as-there-are");
            let racks = |of: &[&Neighbor]| of.iter().map(|one| one.rack).collect::<BTreeSet<_>>();
            let there = racks(&alive);
            prop_assert_eq!(racks(&found).len(), there.len().min(found.len()), "racks-apart");
            if 2 < there.len() || 2 == there.len() && !there.contains(&0) {
                prop_assert!(found.iter().all(|one| !one.is_own_rack), "racks-apart");
            }
        }
    }
}
