//! Tablets that get fewer replicas. A write that was acknowledged may be on no more replicas than
//! its level wants, and it may be these that go: before they do, those that stay get what they
//! lack.
//!
//! Each of those that stay takes the state of conditional writes from those that go. Then the first
//! of them repairs the tablet among all; of replicas that are known to agree that reads nothing.
//!
//! Invariants
//!  - *rest-has-all*: of a tablet that gets fewer replicas those that stay have all that any of
//!    them had, before the others are read no more; but for what only nodes had that are lost.
//!  - *one-leads*: a tablet is repaired by one of those that stay.

use super::part::Part;
use crate::coordinator::Coordinator;
use crate::repair::{Wanted, Watch};
use cluster::{TableKind, Topology};
use model::{Token, Uuid};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A tablet that gets fewer replicas, of which this node stays one.
pub(super) struct Fewer {
    /// From each node that goes, and lives.
    pub(super) parts: Vec<Part>,
    range: (Token, Token),
    /// Those that cannot take part.
    lost: BTreeSet<Uuid>,
    /// Whether this node has all agree.
    leads: bool,
}

/// Those of a session.
pub(super) fn fewer(coordinator: &Coordinator, session: u64) -> Vec<Fewer> {
    let (topology, me) = (coordinator.cluster.topology(), coordinator.cluster.node().host_id);
    let schema = coordinator.cluster.schema();
    let mut out = Vec::new();
    for table in schema.tables().filter(|table| table.kind == TableKind::Stored) {
        let moves = table.replicas.moves().iter().filter(|(_, it)| it.session == session);
        for (tablet, moving) in moves {
            let hosts = |of: &[(Uuid, u16)]| of.iter().map(|it| it.0).collect::<Vec<_>>();
            let (old, new) = (hosts(table.replicas.of(*tablet)), hosts(&moving.to));
            let Some(leads) = part_of(&topology, (&old, &new), me) else { continue };
            let (after, last) = table.replicas.range(*tablet);
            let (lost, living): (Vec<Uuid>, Vec<Uuid>) =
                old.iter().partition(|host| topology.is_lost(**host));
            let gone = living.iter().filter(|host| !new.contains(host));
            let part = |from: &Uuid| Part {
                table: table.clone(),
                tablet: Some(*tablet),
                after,
                last,
                from: *from,
            };
            let (parts, lost) = (gone.map(part).collect(), lost.into_iter().collect());
            out.push(Fewer { parts, range: (after, last), lost, leads });
        }
    }
    out
}

/// Whether a node leads a tablet that gets fewer replicas; `None`: it is not one that stays, or as
/// many come as go: then these take all.
fn part_of(topology: &Topology, (old, new): (&[Uuid], &[Uuid]), me: Uuid) -> Option<bool> {
    let gone = old.iter().filter(|host| !new.contains(host)).count();
    let come = new.iter().filter(|host| !old.contains(host)).count();
    let mut stay = new.iter().filter(|host| old.contains(host) && !topology.is_lost(**host));
    debug_assert!(gone <= old.len() && come <= new.len(), "rest-has-all: {old:?} and {new:?}");
    let is_one = come < gone && stay.clone().any(|host| *host == me);
    is_one.then(|| stay.next() == Some(&me))
}

impl Fewer {
    /// Has all that take part agree, where that is for this node to do (*one-leads*).
    pub(super) async fn agree(&self, coordinator: &Rc<Coordinator>) -> Result<(), String> {
        let Some(part) = self.parts.first().filter(|_| self.leads) else { return Ok(()) };
        let (after, last) = self.range;
        debug_assert!(after < last, "rest-has-all: nothing lies in {:?}", self.range);
        stdx::probe!("replicas agree before some of them go");
        let wanted = Wanted {
            tables: vec![part.table.schema.id],
            within: vec![(Token(after.0.saturating_add(1)), last)],
            without: self.lost.clone(),
            ..Wanted::default()
        };
        let agreed = coordinator.repair(wanted, Rc::new(Watch::default())).await;
        agreed.map_err(|why| format!("replicas do not agree before some of them go: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// *one-leads*
        #[test]
        fn one_of_those_that_stay_leads(
            old in prop::collection::btree_set(1u128..8, 1..5),
            new in prop::collection::btree_set(1u128..8, 1..5),
        ) {
            let hosts = |of: &BTreeSet<u128>| of.iter().map(|it| Uuid::from_u128(*it)).collect();
            let (all, topology): (Vec<u128>, Topology) = ((1..8).collect(), Topology::default());
            let (before, after): (Vec<Uuid>, Vec<Uuid>) = (hosts(&old), hosts(&new));
            let parts: Vec<(u128, bool)> = all
                .into_iter()
                .filter_map(|me| {
                    let part = part_of(&topology, (&before, &after), Uuid::from_u128(me));
                    part.map(|leads| (me, leads))
                })
                .collect();
            let stay: Vec<u128> = old.intersection(&new).copied().collect();
            let is_fewer = new.difference(&old).count() < old.difference(&new).count();
            let expected = if is_fewer { stay } else { Vec::new() };
            let leaders = parts.iter().filter(|it| it.1).count();
            prop_assert_eq!(leaders, usize::from(!expected.is_empty()));
            let parts: Vec<u128> = parts.into_iter().map(|it| it.0).collect();
            prop_assert_eq!(parts, expected);
        }
    }
}
