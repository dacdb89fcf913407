//! Tablets that are to become one are brought to the same nodes.
//!
//! Invariants: *it-ends*, *no-worse*, *bounded* of [`super`].

use super::{AT_ONCE_MAX, Placed, Planner};
use crate::placement::Hosts;
use model::Uuid;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

impl Planner {
    /// Moves tablets that are to become one to where one of them is.
    pub(super) fn bring_together(&mut self, table: &Placed<'_>) {
        let replicas = table.replicas;
        if replicas.target() == 0 && !replicas.count().is_multiple_of(2) {
            return;
        }
        let apart: Vec<Range<usize>> = replicas.apart().collect();
        for mates in apart {
            // Who is on more racks stays; among those the widest: it is likely to have most.
            let width = |tablet: usize| {
                let (after, last) = replicas.range(tablet);
                last.biased() - after.biased()
            };
            let key = |it: &usize| (self.racks(replicas.of(*it)), width(*it), Reverse(*it));
            let Some(anchor) = mates.clone().max_by_key(key) else { continue };
            if !self.stays(table, anchor) {
                continue;
            }
            for goes in mates.filter(|it| *it != anchor) {
                let is_there = only_in(replicas.of(goes), replicas.of(anchor)).next().is_none()
                    && only_in(replicas.of(anchor), replicas.of(goes)).next().is_none();
                if is_there || !self.stays(table, goes) {
                    continue;
                }
                let to = joined(replicas.of(goes), replicas.of(anchor));
                if self.has_room(replicas.of(goes), &to) {
                    self.take_down(table, goes, to);
                }
            }
        }
    }

    /// Whether a tablet is not on its way, nor is to be.
    fn stays(&self, table: &Placed<'_>, tablet: usize) -> bool {
        let mut planned = self.moves.iter();
        debug_assert!(tablet < table.replicas.count(), "bounded: no tablet {tablet}");
        !table.replicas.moves().contains_key(&tablet)
            && planned.all(|it| it.table != table.table || it.tablet != tablet)
    }

    /// On how many racks replicas are.
    fn racks(&self, of: &[(Uuid, u16)]) -> usize {
        let places = of.iter().filter_map(|(host, _)| self.place_of(*host));
        places.map(|it| (self.nodes[it].center, self.nodes[it].rack)).collect::<BTreeSet<_>>().len()
    }

    /// *bounded*
    fn has_room(&self, of: &[(Uuid, u16)], to: &[(Uuid, u16)]) -> bool {
        let place = |host: Uuid| self.place_of(host);
        let gives = only_in(of, to).filter_map(place);
        let gets = only_in(to, of).filter_map(place);
        gives.into_iter().all(|it| self.nodes[it].gives < AT_ONCE_MAX)
            && gets.into_iter().all(|it| self.nodes[it].gets < AT_ONCE_MAX)
    }
}

/// The nodes of some replicas that others are not on.
fn only_in(one: &[(Uuid, u16)], other: &[(Uuid, u16)]) -> impl Iterator<Item = Uuid> {
    let only = one.iter().filter(|(host, _)| other.iter().all(|(it, _)| it != host));
    only.map(|(host, _)| *host)
}

/// The replicas of one tablet on the nodes of another one: on the shards of that one where it is
/// new.
fn joined(of: &[(Uuid, u16)], to: &[(Uuid, u16)]) -> Hosts {
    let known = |host: Uuid| of.iter().find(|(it, _)| *it == host).copied();
    let joined: Hosts = to.iter().map(|other| known(other.0).unwrap_or(*other)).collect();
    debug_assert!(joined.len() == to.len(), "no-worse: a replica is lost: {joined:?}");
    joined
}
