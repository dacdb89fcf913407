//! Who should vote: a pure function of who is there.
//!
//! At most five vote. Seats are given one by one: to a node that lives before one that does not,
//! then to the data centre with the fewest seats so far, then to the rack with the fewest; between
//! equals to the leader, then to who votes already, then to the lower number. So a set that is good
//! stays as it is, but for what spreads it better.
//!
//! Invariants
//!  - *few-voters*: no more than five; an odd number, but where there are two nodes both vote, for
//!    one voter's log would be the only copy.
//!  - *no-dc-majority*: where there are three data centres or more, none has a majority.
//!  - *never-empty*: where there are nodes, some vote.

use crate::members::NodeId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The most that vote.
pub const VOTERS_MAX: usize = 5;

const _: () = assert!(VOTERS_MAX % 2 == 1, "few-voters: an even one adds no safety");

/// A node that may vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub node: NodeId,
    pub dc: String,
    pub rack: String,
    pub is_alive: bool,
    pub is_voter: bool,
}

/// Who should vote of these; `leader` leads now.
pub fn choose_voters(nodes: &[Candidate], leader: Option<NodeId>) -> BTreeSet<NodeId> {
    let dcs: BTreeSet<&str> = nodes.iter().map(|node| node.dc.as_str()).collect();
    let chosen = match (nodes.len(), dcs.len()) {
        (few @ 0..=2, _) => seat(nodes, leader, few, few),
        (count, 0..=2) => {
            let seats = odd(count.min(VOTERS_MAX));
            seat(nodes, leader, seats, seats)
        }
        (count, _) => {
            let mut seats = odd(count.min(VOTERS_MAX));
            loop {
                // Fewer than a majority for each; three of three data centres can always be had.
                let chosen = seat(nodes, leader, seats, (seats - 1) / 2);
                if chosen.len() == seats {
                    break chosen;
                }
                assert!(3 < seats, "no-dc-majority: {} seats of {seats}", chosen.len());
                seats -= 2;
            }
        }
    };
    assert!(chosen.len() <= VOTERS_MAX, "few-voters: {}", chosen.len());
    assert!(nodes.is_empty() || !chosen.is_empty(), "never-empty: of {}", nodes.len());
    chosen
}

fn odd(count: usize) -> usize {
    debug_assert!(0 < count, "never-empty: an odd number of none");
    count - (count + 1) % 2
}

/// Gives up to so many seats, to each data centre no more than `dc_max`.
fn seat(
    nodes: &[Candidate],
    leader: Option<NodeId>,
    seats: usize,
    dc_max: usize,
) -> BTreeSet<NodeId> {
    let mut chosen = BTreeSet::new();
    let mut by_dc: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_rack: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    while chosen.len() < seats {
        let of = |node: &Candidate| {
            let dc = by_dc.get(node.dc.as_str()).copied().unwrap_or(0);
            let rack = by_rack.get(&(node.dc.as_str(), node.rack.as_str()));
            (dc, rack.copied().unwrap_or(0))
        };
        let open = nodes.iter().filter(|node| !chosen.contains(&node.node) && of(node).0 < dc_max);
        let best = open.max_by_key(|node| {
            let (dc, rack) = of(node);
            let leads = leader == Some(node.node);
            let spread = (Reverse(dc), Reverse(rack));
            (node.is_alive, spread, leads, node.is_voter, Reverse(node.node))
        });
        let Some(best) = best else { break };
        *by_dc.entry(&best.dc).or_default() += 1;
        *by_rack.entry((&best.dc, &best.rack)).or_default() += 1;
        chosen.insert(best.node);
    }
    assert!(chosen.len() <= seats, "few-voters: {} of {seats}", chosen.len());
    debug_assert!(by_dc.values().all(|count| *count <= dc_max), "no-dc-majority: {by_dc:?}");
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes as `id:dc/rack` with `+` for a voter, `-` for one that is dead, `*` for the leader.
    fn check(nodes: &str, expected: &str) {
        let mut leader = None;
        let parse = |word: &str| {
            let (id, place) = word.split_once(':').unwrap();
            let (dc, rack) = place.trim_end_matches(['+', '-', '*']).split_once('/').unwrap();
            let node = NodeId(id.parse().unwrap());
            if word.contains('*') {
                leader = Some(node);
            }
            Candidate {
                node,
                dc: dc.into(),
                rack: rack.into(),
                is_alive: !word.contains('-'),
                is_voter: word.contains('+') || word.contains('*'),
            }
        };
        let nodes: Vec<_> = nodes.split_whitespace().map(parse).collect();
        let chosen: Vec<_> =
            choose_voters(&nodes, leader).iter().map(|node| node.0.to_string()).collect();
        assert_eq!(chosen.join(" "), expected);
    }

    #[test]
    fn few_nodes_all_vote_and_an_even_one_does_not() {
        check("", "");
        check("1:a/r", "1");
        check("1:a/r 2:a/r", "1 2");
        check("1:a/r 2:a/r 3:a/r", "1 2 3");
        check("1:a/r 2:a/r 3:a/r 4:a/r", "1 2 3");
        check("1:a/r 2:a/r 3:a/r 4:a/r 5:a/r 6:a/r 7:a/r", "1 2 3 4 5");
    }

    #[test]
    fn racks_and_data_centres_share() {
        check("1:a/r 2:a/r 3:a/r 4:a/s 5:a/t 6:a/t", "1 2 4 5 6");
        check("1:a/r 2:a/r 3:a/r 4:a/r 5:b/r 6:b/r 7:b/r", "1 2 3 5 6");
        check("1:a/r 2:a/r 3:a/r 4:b/r 5:c/r", "1 4 5");
    }

    #[test]
    fn who_lives_leads_or_votes_comes_first() {
        check("1:a/r- 2:a/r 3:a/r 4:a/r", "2 3 4");
        check("1:a/r 2:a/r 3:a/r 4:a/r*", "1 2 4");
        check("1:a/r 2:a/r+ 3:a/r+ 4:a/r+", "2 3 4");
        check("1:a/r 2:a/r+ 3:a/r+ 4:a/r+ 5:a/r 6:a/r* 7:a/r+", "2 3 4 6 7");
    }

    #[test]
    fn no_data_centre_of_three_has_a_majority() {
        let mut prng = stdx::Prng::from_seed(7);
        for _ in 0..3_000 {
            let count = prng.between(1, 12);
            let dcs = prng.between(1, 4);
            let nodes: Vec<_> = (1..=count)
                .map(|id| Candidate {
                    node: NodeId(id),
                    dc: prng.below(dcs).to_string(),
                    rack: prng.below(3).to_string(),
                    is_alive: !prng.one_in(4),
                    is_voter: prng.one_in(2),
                })
                .collect();
            let leader = prng.one_in(2).then(|| NodeId(prng.between(1, count)));
            let chosen = choose_voters(&nodes, leader);
            let mut by_dc: BTreeMap<&str, usize> = BTreeMap::new();
            let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
            for node in &nodes {
                *by_dc.entry(&node.dc).or_default() += chosen.contains(&node.node) as usize;
                *sizes.entry(&node.dc).or_default() += 1;
            }
            assert!(!chosen.is_empty() && chosen.len() <= VOTERS_MAX);
            assert!(chosen.len() % 2 == 1 || count == 2, "{nodes:?}: {chosen:?}");
            if 3 <= by_dc.len() {
                assert!(by_dc.values().all(|votes| 2 * votes < chosen.len()), "{by_dc:?}");
            }
            // Evenly, where all live: nobody has two more than one that could have more.
            if nodes.iter().all(|node| node.is_alive) {
                for (dc, votes) in &by_dc {
                    let could = sizes[dc] > *votes;
                    let most = by_dc.values().max().unwrap();
                    assert!(!could || *most <= votes + 1, "{by_dc:?} of {sizes:?}");
                }
            }
            // Who was chosen stays chosen when nothing else changes.
            let again: Vec<_> = nodes
                .iter()
                .map(|node| Candidate { is_voter: chosen.contains(&node.node), ..node.clone() })
                .collect();
            assert_eq!(choose_voters(&again, leader), chosen, "{nodes:?}");
        }
    }
}
