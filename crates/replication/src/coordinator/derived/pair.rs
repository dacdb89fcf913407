//! Which replicas of a view a replica of its base table sends to. Pure.
//!
//! Replicas of both that are in no doubt are paired: each replica of the view hears of a write from
//! one replica of the base table. Who is both is its own partner; the others are paired by their
//! places in the order that all nodes see alike, within a data center where copies are counted by
//! data center. Nodes may not see the same move at the same time, so wherever one is under way more
//! is sent than would do.
//!
//! Invariants
//!  - *all-hear*: if every replica of the base table that is written sends what this says, each
//!    replica of the view that is written gets it; also where there are more of one kind than of
//!    the other, and where some see a move that others do not see yet.
//!  - *once-at-rest*: while nothing moves and both have as many replicas, each of them gets it
//!    once.

use crate::placement::{Replica, Sides};
use model::Uuid;

/// The replicas of the view that this node sends to, by their places among `view`, ascending.
/// `base`, `view`: those that are written. `by_center`: copies are counted by data center.
pub(crate) fn targets(base: &[Replica], view: &[Replica], by_center: bool) -> Vec<usize> {
    let me = base.iter().find(|replica| replica.is_here);
    let in_reach = |replica: &Replica| !by_center || me.is_none_or(|me| me.dc == replica.dc);
    let partner = Partners::of(base, view, in_reach);
    let gets = |(_, replica): &(usize, &Replica)| match me {
        _ if replica.is_here => true,
        _ if !in_reach(replica) => false,
        // It gets all, from everybody, until it has all.
        _ if !replica.sides.is_read() => true,
        // Whose place this node takes, or who takes its own, is not known to all.
        None | Some(Replica { sides: Sides::Written, .. }) => true,
        Some(me) => partner.gets(me.host_id, replica.host_id),
    };
    let targets: Vec<usize> =
        view.iter().enumerate().filter(gets).map(|(place, _)| place).collect();
    debug_assert!(targets.is_sorted_by(|a, b| a < b), "once-at-rest: {targets:?}");
    targets
}

/// Those of both that are read, but for who is both, in their order.
struct Partners {
    base: Vec<Uuid>,
    view: Vec<Uuid>,
}

impl Partners {
    fn of(base: &[Replica], view: &[Replica], in_reach: impl Fn(&Replica) -> bool) -> Partners {
        let alone = |these: &[Replica], others: &[Replica]| {
            let is_both = |one: &Replica| {
                others.iter().any(|it| it.host_id == one.host_id && it.sides.is_read())
            };
            let alone = these.iter().filter(|one| one.sides.is_read() && in_reach(one));
            let mut alone: Vec<&Replica> = alone.filter(|one| !is_both(one)).collect();
            alone.sort_unstable_by_key(|one| (one.rank, one.host_id));
            alone.into_iter().map(|one| one.host_id).collect::<Vec<Uuid>>()
        };
        let (base, view) = (alone(base, view), alone(view, base));
        debug_assert!(base.iter().all(|one| !view.contains(one)), "once-at-rest: its own partner");
        Partners { base, view }
    }

    /// Whether a replica of the view is the partner of one of the base table, or has none.
    fn gets(&self, from: Uuid, to: Uuid) -> bool {
        let place = |all: &[Uuid], one| all.iter().position(|it| *it == one);
        match place(&self.view, to) {
            // Who is both sends to itself.
            None => false,
            Some(to) if self.base.len() <= to => true,
            Some(to) => place(&self.base, from) == Some(to),
        }
    }
}

#[cfg(test)]
mod tests;
