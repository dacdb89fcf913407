//! Tablets that are to become one are brought to the same nodes.
//!
//! Invariants: *it-ends*, *no-worse*, *bounded* of [`super`].

use super::{AT_ONCE_MAX, Placed, Planner};
use crate::placement::Hosts;
use model::Uuid;
use std::collections::BTreeSet;

impl Planner {
    /// Moves one tablet of each pair to where the other one is.
    pub(super) fn bring_together(&mut self, table: &Placed<'_>) {
        if !table.replicas.count().is_multiple_of(2) {
            return;
        }
        let apart: Vec<usize> = table.replicas.apart().collect();
        for first in apart {
            let stays = |tablet: usize| {
                let mut planned = self.moves.iter();
                !table.replicas.moves().contains_key(&tablet)
                    && planned.all(|it| it.table != table.table || it.tablet != tablet)
            };
            if !stays(first) || !stays(first + 1) {
                continue;
            }
            // Who is on more racks stays.
            let racks = [first, first + 1].map(|it| self.racks(table.replicas.of(it)));
            let (goes, to) = match racks[0] < racks[1] {
                true => (first, first + 1),
                false => (first + 1, first),
            };
            let to = joined(table.replicas.of(goes), table.replicas.of(to));
            if self.has_room(table.replicas.of(goes), &to) {
                self.take_down(table, goes, to);
            }
        }
    }

    /// On how many racks replicas are.
    fn racks(&self, of: &[(Uuid, u16)]) -> usize {
        let places = of.iter().filter_map(|(host, _)| self.place_of(*host));
        places.map(|it| (self.nodes[it].center, self.nodes[it].rack)).collect::<BTreeSet<_>>().len()
    }

    /// *bounded*
    fn has_room(&self, of: &[(Uuid, u16)], to: &[(Uuid, u16)]) -> bool {
        let only_in = |one: &[(Uuid, u16)], other: &[(Uuid, u16)]| -> Vec<usize> {
            let only = one.iter().filter(|(host, _)| other.iter().all(|(it, _)| it != host));
            only.filter_map(|(host, _)| self.place_of(*host)).collect()
        };
        let gives = only_in(of, to).into_iter().all(|it| self.nodes[it].gives < AT_ONCE_MAX);
        gives && only_in(to, of).into_iter().all(|it| self.nodes[it].gets < AT_ONCE_MAX)
    }
}

/// The replicas of one tablet on the nodes of another one: on the shards of that one where it is
/// new.
fn joined(of: &[(Uuid, u16)], to: &[(Uuid, u16)]) -> Hosts {
    let known = |host: Uuid| of.iter().find(|(it, _)| *it == host).copied();
    let joined: Hosts = to.iter().map(|other| known(other.0).unwrap_or(*other)).collect();
    debug_assert!(joined.len() == to.len(), "no-worse: a replica is lost: {joined:?}");
    joined
}
