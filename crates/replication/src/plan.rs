//! How many replicas a consistency level requires. Pure.
//!
//! Invariants
//!  - *quorums-meet*: two quorums of the same copies have one in common.
//!  - *part-of-all*: what is required of a data center is no more than of the cluster, and what is
//!    alive no more than there is.
//!
//! In reading order: this, of a cluster of one node; [`nodes`], of several; [`relay`], of several
//! data centers; [`holders`], of logged batches.

pub mod holders;
pub mod nodes;
pub mod relay;

use crate::options::Consistency;
use cluster::Replication;

/// How many answers are needed, and how many copies could give one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub required: u32,
    pub alive: u32,
}

impl Requirement {
    /// Whether enough copies are alive.
    pub fn is_met(self) -> bool {
        self.required <= self.alive
    }
}

/// The requirement of `level` on a cluster of one node, which is in `data_center`: more copies
/// than nodes are wanted but not alive.
pub fn requirement(level: Consistency, copies: &Replication, data_center: &str) -> Requirement {
    let local = copies.in_data_center(data_center);
    let total = copies.total();
    debug_assert!(local <= total, "part-of-all: {local} copies in {data_center}, {total} in all");
    let required = match level {
        Consistency::Any | Consistency::One | Consistency::LocalOne => 1,
        Consistency::Two => 2,
        Consistency::Three => 3,
        Consistency::Quorum | Consistency::Serial => quorum(total),
        Consistency::All => total,
        Consistency::LocalQuorum | Consistency::LocalSerial => quorum(local),
        Consistency::EachQuorum => each_quorum(copies),
    };
    let alive = local.min(1);
    debug_assert!(alive <= total, "part-of-all: {alive} of {total} copies are alive");
    debug_assert!(0 < required || total == 0, "{level:?} requires nothing of {total} copies");
    Requirement { required, alive }
}

/// The least number of copies of which any two sets meet.
#[inline]
pub(crate) fn quorum(copies: u32) -> u32 {
    let quorum = copies / 2 + 1;
    debug_assert!(copies - copies.min(quorum) < quorum, "quorums-meet: {quorum} of {copies}");
    debug_assert!(quorum <= copies.max(1), "quorums-meet: {quorum} of {copies} never meet");
    quorum
}

fn each_quorum(copies: &Replication) -> u32 {
    match copies {
        Replication::PerDataCenter(factors) => {
            let used = factors.iter().filter(|(_, factor)| 0 < *factor);
            used.fold(0, |sum, (_, factor)| sum.saturating_add(quorum(*factor)))
        }
        _ => quorum(copies.total()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(level: Consistency, copies: &Replication, required: u32, alive: u32) {
        assert_eq!(requirement(level, copies, "dc1"), Requirement { required, alive }, "{level:?}");
    }

    #[test]
    fn more_copies_than_nodes_are_not_alive() {
        let three = Replication::Simple(3);
        check(Consistency::Any, &three, 1, 1);
        check(Consistency::One, &three, 1, 1);
        check(Consistency::Quorum, &three, 2, 1);
        check(Consistency::LocalQuorum, &three, 2, 1);
        check(Consistency::All, &three, 3, 1);
        check(Consistency::Serial, &three, 2, 1);
    }

    #[test]
    fn data_centers_count_apart() {
        let two = Replication::PerDataCenter(vec![("dc1".into(), 1), ("dc2".into(), 3)].into());
        check(Consistency::LocalQuorum, &two, 1, 1);
        check(Consistency::Quorum, &two, 3, 1);
        check(Consistency::EachQuorum, &two, 3, 1);
        let elsewhere = Replication::PerDataCenter(vec![("dc2".into(), 1)].into());
        check(Consistency::LocalOne, &elsewhere, 1, 0);
        check(Consistency::One, &Replication::Local, 1, 1);
        check(Consistency::All, &Replication::Local, 1, 1);
    }

    #[test]
    fn copies_of_many_data_centers_do_not_overflow_their_sum() {
        let center = |number: usize| (format!("dc{number}"), i32::MAX as u32);
        let many = Replication::PerDataCenter((1..=4).map(center).collect());
        check(Consistency::EachQuorum, &many, u32::MAX, 1);
        check(Consistency::All, &many, u32::MAX, 1);
        check(Consistency::LocalQuorum, &many, 1 << 30, 1);
    }
}
