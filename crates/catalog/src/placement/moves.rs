//! What of the ring goes from node to node when some join or leave. Pure.
//!
//! Both sides of a move are rings of their own; where the ranges of either end, so do those here.
//!
//! Invariants
//!  - *covering*: every token is in one range and no other, and each range has one set of replicas
//!    on either side.
//!  - *all-that-went*: who gets a range takes it from everybody who gives it away, so it has all
//!    that these had; where they are fewer than those that get it, or one of them is lost, it is
//!    taken from all that are left. Then what a quorum of the old replicas has a quorum of the new
//!    ones has, too.

use super::Replication;
use super::ring::{Owners, Ring};
use crate::topology::{Member, MemberState, Side, Topology};
use model::{Token, Uuid};

/// A range that a node gets: after the first token, up to and including the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    pub after: Token,
    pub last: Token,
    /// By host id; none where nobody is left who has it.
    pub from: Vec<Uuid>,
}

/// The replicas of a range on both sides, each by its order there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    pub after: Token,
    pub last: Token,
    pub old: Vec<Uuid>,
    pub new: Vec<Uuid>,
}

/// The whole ring of a replication on both sides.
pub fn sides(topology: &Topology, replication: &Replication) -> Vec<Sides> {
    let (old, new) = (Ring::of(topology, Side::Old), Ring::of(topology, Side::New));
    let (old_owners, new_owners) = (old.owners(replication), new.owners(replication));
    let hosts = |ring: &Ring, owners: &Owners, token| -> Vec<Uuid> {
        let of = owners.of(token).iter();
        of.map(|place| ring.members()[usize::from(*place)].host_id).collect()
    };
    let (mut out, mut after) = (Vec::new(), Token::MIN);
    debug_assert!(*replication != Replication::Local, "covering: of each node's own");
    for last in ends(&old_owners, &new_owners) {
        let (old, new) = (hosts(&old, &old_owners, last), hosts(&new, &new_owners, last));
        out.push(Sides { after, last, old, new });
        after = last;
    }
    assert!(after == Token::MAX, "covering: the ring has an open end");
    out
}

/// Where the ranges of either side end, ascending.
pub fn ends(old: &Owners, new: &Owners) -> Vec<Token> {
    let of =
        |owners: &Owners| (0..owners.ranges()).map(|it| owners.range(it).1).collect::<Vec<_>>();
    let mut ends = of(old);
    ends.extend(of(new));
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// What a node gets of tables that are replicated so, once those that move have arrived.
pub fn takes(topology: &Topology, replication: &Replication, me: Uuid) -> Vec<Take> {
    let mut out: Vec<Take> = Vec::new();
    for Sides { after, last, old, new } in sides(topology, replication) {
        if old.contains(&me) || !new.contains(&me) {
            continue;
        }
        let from = sources(topology, &old, &new);
        match out.last_mut() {
            Some(before) if before.last == after && before.from == from => before.last = last,
            _ => out.push(Take { after, last, from }),
        }
    }
    out
}

/// From whom those that get a range take it (*all-that-went*).
pub fn sources(topology: &Topology, old: &[Uuid], new: &[Uuid]) -> Vec<Uuid> {
    let lives = |host: &&Uuid| {
        let is_there = |it: &Member| it.state != MemberState::Left;
        !topology.is_lost(**host) && topology.member(**host).is_some_and(|it| is_there(it))
    };
    let givers = || old.iter().filter(|host| !new.contains(host));
    let getters = new.iter().filter(|host| !old.contains(host)).count();
    let mut from: Vec<Uuid> =
        match getters <= givers().filter(lives).count() && givers().all(|it| lives(&it)) {
            true => givers().copied().collect(),
            false => old.iter().filter(lives).copied().collect(),
        };
    from.sort_unstable();
    debug_assert!(from.windows(2).all(|two| two[0] < two[1]), "all-that-went: twice from {from:?}");
    debug_assert!(from.iter().all(|host| old.contains(host)), "all-that-went: from a stranger");
    from
}

/// What a node does not own on a side, of tables that are replicated so.
pub fn foreign(
    topology: &Topology,
    replication: &Replication,
    me: Uuid,
    side: Side,
) -> Vec<(Token, Token)> {
    let ring = Ring::of(topology, side);
    let owners = ring.owners(replication);
    let mut out: Vec<(Token, Token)> = Vec::new();
    for (after, last) in (0..owners.ranges()).map(|index| owners.range(index)) {
        let of = owners.of(last).iter();
        if of.map(|place| ring.members()[usize::from(*place)].host_id).any(|host| host == me) {
            continue;
        }
        match out.last_mut() {
            Some(before) if before.1 == after => before.1 = last,
            _ => out.push((after, last)),
        }
    }
    debug_assert!(out.is_sorted_by(|a, b| a.1 < b.0), "covering: {out:?} overlap");
    out
}

#[cfg(test)]
mod tests;
