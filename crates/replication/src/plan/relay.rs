//! Which replica of another data centre passes a write on to the others there. Pure.
//!
//! Invariants
//!  - *one-a-centre*: of each data centre but that of who coordinates one replica that is alive is
//!    told, and passes on to all others there that are alive; where there is one alone it is told
//!    as any.
//!  - *told-once*: who is told by a relay is told by nobody else.

use super::nodes::Candidate;
use smallvec::SmallVec;

/// Replicas are known by their places below this one; those beyond it are told directly.
pub const PLACES_MAX: usize = u64::BITS as usize;

/// A replica that passes a write on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Its place among the replicas.
    pub at: usize,
    /// Those that it tells, by their places: at least one.
    pub others: u64,
}

/// The places of a set.
pub fn places(set: u64) -> impl Iterator<Item = usize> {
    (0..PLACES_MAX).filter(move |at| set & 1 << at != 0)
}

/// The relays of a write: none where no other data centre has several replicas that are alive.
/// `draw` gives a number below another one, so that each replica there relays as many.
pub fn choose(candidates: &[Candidate], mut draw: impl FnMut(u64) -> u64) -> SmallVec<[Relay; 2]> {
    let mut relays = SmallVec::new();
    let mut seen = 0u64;
    for (at, first) in candidates.iter().enumerate().take(PLACES_MAX) {
        if first.is_local_dc || !first.is_alive || seen & 1 << at != 0 {
            continue;
        }
        let is_there = |one: &Candidate| one.is_alive && !one.is_local_dc && one.dc == first.dc;
        let there = candidates.iter().enumerate().take(PLACES_MAX).skip(at);
        let there = there.filter(|(_, one)| is_there(one)).fold(0u64, |set, (at, _)| set | 1 << at);
        seen |= there;
        let count = there.count_ones();
        if count < 2 {
            continue;
        }
        let drawn = draw(u64::from(count)) as usize;
        let relay = places(there).nth(drawn).expect("one-a-centre: a number that is too large");
        relays.push(Relay { at: relay, others: there & !(1 << relay) });
    }
    assert!(2 * relays.len() <= candidates.len(), "one-a-centre: {relays:?}");
    debug_assert!(relays.iter().all(|one: &Relay| one.others & 1 << one.at == 0), "told-once");
    relays
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::placement::Sides;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn candidate(dc: u16, is_alive: bool) -> Candidate {
        Candidate { dc, is_local_dc: dc == 0, is_alive, sides: Sides::Both }
    }

    #[test]
    fn each_replica_of_a_data_centre_relays_as_many() {
        let candidates = [(0, true), (0, true), (1, true), (1, false), (1, true), (1, true)];
        let candidates = candidates.map(|(dc, is_alive)| candidate(dc, is_alive));
        let relay = |drawn| {
            let relays = choose(&candidates, |below| {
                assert_eq!(below, 3);
                drawn
            });
            assert_eq!(relays.len(), 1);
            relays[0].at
        };
        assert_eq!([0, 1, 2].map(relay), [2, 4, 5]);
        let none = |_| -> u64 { unreachable!("nothing to draw from") };
        assert!(choose(&candidates[..4], none).is_empty(), "one alone is told as any");
    }

    proptest! {
        #[test]
        fn relays_are_as_a_naive_model_has_them(
            nodes in proptest::collection::vec((0u16..4, any::<bool>()), 0..80),
            draws: [u64; 3],
        ) {
            let candidates: Vec<Candidate> =
                nodes.iter().map(|(dc, is_alive)| candidate(*dc, *is_alive)).collect();
            let mut draws = draws.into_iter();
            let relays = choose(&candidates, |below| draws.next().expect("three centres") % below);
            let mut centres: BTreeMap<u16, BTreeSet<usize>> = BTreeMap::new();
            for (at, one) in candidates.iter().enumerate().take(PLACES_MAX) {
                if one.is_alive && one.dc != 0 {
                    centres.entry(one.dc).or_default().insert(at);
                }
            }
            centres.retain(|_, there| 1 < there.len());
            prop_assert_eq!(relays.len(), centres.len(), "one-a-centre");
            for Relay { at, others } in relays {
                let told: BTreeSet<usize> = places(others).collect();
                prop_assert!(!told.contains(&at), "told-once");
                let all: BTreeSet<usize> = told.into_iter().chain([at]).collect();
                prop_assert_eq!(centres.remove(&candidates[at].dc), Some(all), "one-a-centre");
            }
        }
    }
}
