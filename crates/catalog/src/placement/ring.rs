//! The nodes that own tokens, the ring of these, and who has which part of it, by strategy. Pure.
//!
//! The range of a token of the ring is all from the token before it (exclusive) up to itself; what
//! lies after the last token belongs to the first.
//!
//! Invariants
//!  - *covering*: every token is in one range and no other.
//!  - *distinct*: no node is twice among the replicas of a token.
//!  - *racks-first*: a rack of a data center has a second replica only where all of its racks have
//!    one; racks that are listed have exactly one each.
//!  - *as-many-as-there-are*: where nodes are too few for what a keyspace wants, all that fit are
//!    replicas.

use super::Replication;
use crate::topology::{Member, MemberState, Side, Topology};
use model::{Token, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a member is, by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) center: u16,
    /// Among those of its data center.
    pub(crate) rack: u16,
}

/// A data center.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Center {
    name: String,
    /// Ascending.
    racks: Vec<String>,
    members: usize,
}

/// The nodes that own tokens, and their ring.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// By host id.
    members: Vec<Arc<Member>>,
    /// Of each member.
    sites: Vec<Site>,
    /// By name.
    centers: Vec<Center>,
    /// Each token with its owner's place among the members, ascending.
    points: Vec<(Token, u16)>,
}

/// What is wanted of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// So many members, wherever they are.
    Anywhere(usize),
    /// Of each data center.
    Per(Vec<Want>),
}

/// What is wanted of a data center.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// So many replicas more.
    pub(crate) copies: usize,
    /// So many of them may be in a rack that has one.
    repeats: usize,
    /// The racks that may have a first one.
    pub(crate) open: Vec<bool>,
}

impl Want {
    /// Whether a replica in this rack is wanted; if so it is there from now on.
    pub(crate) fn takes(&mut self, rack: u16) -> bool {
        if self.copies == 0 {
            return false;
        }
        let open = &mut self.open[usize::from(rack)];
        if !std::mem::take(open) {
            if self.repeats == 0 {
                return false;
            }
            self.repeats -= 1;
        }
        self.copies -= 1;
        true
    }
}

/// The ranges of the ring, and the replicas of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owners {
    /// Of each range, ascending, up to the greatest token.
    last_tokens: Vec<Token>,
    /// Of each range: which of the sets has it.
    sets_of: Vec<u32>,
    /// Places among the members, in the order in which they follow each other on the ring.
    sets: Vec<Box<[u16]>>,
}

impl Ring {
    /// That of the nodes which own tokens on the side that is read.
    pub fn new(topology: &Topology) -> Ring {
        Ring::of(topology, topology.read_side())
    }

    /// That of the nodes which own tokens on a side.
    pub fn of(topology: &Topology, side: Side) -> Ring {
        Ring::made_of(topology, |state| side.owns(state))
    }

    /// That of the nodes which neither join nor leave: where new tablets may be.
    pub fn settled(topology: &Topology) -> Ring {
        Ring::made_of(topology, |state| state == MemberState::Normal)
    }

    fn made_of(topology: &Topology, owns: impl Fn(MemberState) -> bool) -> Ring {
        let owners = topology.members().filter(|it| owns(it.state) && !it.tokens.is_empty());
        let members: Vec<Arc<Member>> = owners.cloned().collect();
        assert!(members.len() <= usize::from(u16::MAX), "more nodes than numbers");
        let mut named = BTreeMap::<&str, (BTreeMap<&str, u16>, usize)>::new();
        for member in &members {
            let (racks, count) = named.entry(&member.data_center).or_default();
            racks.insert(&member.rack, 0);
            *count += 1;
        }
        for (racks, _) in named.values_mut() {
            racks.values_mut().zip(0..).for_each(|(rack, number)| *rack = number);
        }
        let numbers: BTreeMap<&str, u16> = named.keys().copied().zip(0..).collect();
        let site = |member: &Arc<Member>| Site {
            center: numbers[&*member.data_center],
            rack: named[&*member.data_center].0[&*member.rack],
        };
        let sites = members.iter().map(site).collect();
        let center = |(name, (racks, members)): (&&str, &(BTreeMap<&str, u16>, usize))| Center {
            name: (*name).to_owned(),
            racks: racks.keys().map(|rack| (*rack).to_owned()).collect(),
            members: *members,
        };
        let centers = named.iter().map(center).collect();
        let of = |(member, place): (&Arc<Member>, u16)| {
            member.tokens.iter().map(move |token| (*token, place)).collect::<Vec<_>>()
        };
        let mut points: Vec<(Token, u16)> = members.iter().zip(0..).flat_map(of).collect();
        points.sort_unstable();
        debug_assert!(points.is_sorted_by(|a, b| a.0 < b.0), "one-place: a token of two nodes");
        let ids = |a: &Arc<Member>, b: &Arc<Member>| a.host_id < b.host_id;
        debug_assert!(members.is_sorted_by(ids), "distinct: a node is there twice");
        Ring { members, sites, centers, points }
    }

    /// Its nodes, by host id.
    pub fn members(&self) -> &[Arc<Member>] {
        &self.members
    }

    /// The tokens with the places of their owners among the members, ascending.
    pub fn points(&self) -> &[(Token, u16)] {
        &self.points
    }

    pub(crate) fn site(&self, member: usize) -> Site {
        debug_assert!(self.sites.len() == self.members.len(), "distinct: a node of no place");
        self.sites[member]
    }

    /// The members of a data center and their shards, together.
    pub(crate) fn shards_in(&self, center: usize) -> u64 {
        let in_it = |site: &Site| usize::from(site.center) == center;
        let members = self.members.iter().zip(&self.sites).filter(|(_, site)| in_it(site));
        members.map(|(member, _)| u64::from(member.shards)).sum()
    }

    /// What a keyspace can have of these nodes.
    pub(crate) fn wants(&self, replication: &Replication) -> Wants {
        let all = self.members.len();
        let factors = match replication {
            // Nothing of a table of each node's own is on the ring.
            Replication::Local => return Wants::Anywhere(0),
            Replication::Everywhere => return Wants::Anywhere(all),
            Replication::Simple(copies) => return Wants::Anywhere(all.min(*copies as usize)),
            Replication::PerDataCenter(factors) => factors,
        };
        let of_center = |center: &Center| {
            let Center { name, racks, members } = center;
            match factors.of(name) {
                (_, Some(listed)) => {
                    let open: Vec<bool> = racks.iter().map(|rack| listed.contains(rack)).collect();
                    let copies = open.iter().filter(|open| **open).count();
                    Want { copies, repeats: 0, open }
                }
                (copies, None) => {
                    let copies = (*members).min(copies as usize);
                    let repeats = copies.saturating_sub(racks.len());
                    Want { copies, repeats, open: vec![true; racks.len()] }
                }
            }
        };
        let wants: Vec<Want> = self.centers.iter().map(of_center).collect();
        let fits = wants.iter().zip(&self.centers).all(|(it, center)| it.copies <= center.members);
        assert!(fits, "as-many-as-there-are: more replicas than nodes");
        Wants::Per(wants)
    }

    /// Who has which part of the ring.
    pub fn owners(&self, replication: &Replication) -> Owners {
        let wants = self.wants(replication);
        let (mut last_tokens, mut sets_of, mut sets) = (Vec::new(), Vec::new(), Vec::new());
        let mut known = BTreeMap::<Box<[u16]>, u32>::new();
        for (at, (token, _)) in self.points.iter().enumerate() {
            let set = self.walk(at, &wants).into_boxed_slice();
            let number = *known.entry(set).or_insert_with_key(|set| {
                sets.push(set.clone());
                sets.len() as u32 - 1
            });
            last_tokens.push(*token);
            sets_of.push(number);
        }
        if sets.is_empty() {
            sets.push(Box::default());
        }
        if last_tokens.last() != Some(&Token::MAX) {
            last_tokens.push(Token::MAX);
            sets_of.push(sets_of.first().copied().unwrap_or(0));
        }
        debug_assert!(last_tokens.is_sorted_by(|a, b| a < b), "covering: ranges overlap");
        assert!(last_tokens.len() == sets_of.len(), "covering: a range without replicas");
        Owners { last_tokens, sets_of, sets }
    }

    /// The replicas of the range that ends at a point.
    fn walk(&self, start: usize, wants: &Wants) -> Vec<u16> {
        let mut wants = wants.clone();
        let mut left = match &wants {
            Wants::Anywhere(copies) => *copies,
            Wants::Per(centers) => centers.iter().map(|center| center.copies).sum(),
        };
        let mut found = Vec::with_capacity(left);
        let round = self.points[start..].iter().chain(&self.points[..start]);
        for (_, member) in round {
            if left == 0 {
                break;
            }
            if found.contains(member) {
                continue;
            }
            let site = self.sites[usize::from(*member)];
            let takes = match &mut wants {
                Wants::Anywhere(_) => true,
                Wants::Per(centers) => centers[usize::from(site.center)].takes(site.rack),
            };
            if takes {
                found.push(*member);
                left -= 1;
            }
        }
        assert!(left == 0, "as-many-as-there-are: {left} replicas are missing");
        let distinct = (1..found.len()).all(|at| !found[..at].contains(&found[at]));
        debug_assert!(distinct, "distinct: {found:?}");
        found
    }

    /// The place of a node among the members, if it owns tokens.
    pub fn place_of(&self, host_id: Uuid) -> Option<usize> {
        self.members.binary_search_by_key(&host_id, |member| member.host_id).ok()
    }
}

impl Owners {
    /// The number of ranges; the last one and the first have the same replicas.
    pub fn ranges(&self) -> usize {
        self.last_tokens.len()
    }

    /// The range that holds a token.
    #[inline]
    pub fn range_of(&self, token: Token) -> usize {
        debug_assert!(self.last_tokens.last() == Some(&Token::MAX), "covering: an open end");
        self.last_tokens.partition_point(|last| *last < token)
    }

    /// A range: after the first token, up to and including the second.
    pub fn range(&self, index: usize) -> (Token, Token) {
        debug_assert!(index < self.ranges(), "covering: range {index} of {}", self.ranges());
        let start = if index == 0 { Token::MIN } else { self.last_tokens[index - 1] };
        (start, self.last_tokens[index])
    }

    /// Which of the sets has a range.
    #[inline]
    pub fn set_of(&self, index: usize) -> usize {
        let set = self.sets_of[index] as usize;
        debug_assert!(set < self.sets.len(), "covering: range {index} has no replicas");
        set
    }

    /// The different sets of replicas: places among the members, in the order of the ring.
    pub fn sets(&self) -> &[Box<[u16]>] {
        &self.sets
    }

    /// The replicas of a token.
    pub fn of(&self, token: Token) -> &[u16] {
        &self.sets[self.set_of(self.range_of(token))]
    }
}

#[cfg(test)]
pub(crate) mod tests;
