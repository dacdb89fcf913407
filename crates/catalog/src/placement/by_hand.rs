//! One replica of a tablet that an operator wants on another node, or on another shard. Pure.
//!
//! Invariants
//!  - *one-for-one*: the tablet has as many replicas afterwards, on as many nodes, each on a shard
//!    that its node has.
//!  - *racks-no-worse*: unless it is forced, the replica stays in its data centre, and comes to no
//!    rack in which another one is, but its own.

use super::tablets::{Hosts, TabletReplicas};
use crate::topology::{Member, MemberState, Topology};
use model::{TableId, Token, Uuid};
use std::sync::Arc;

/// What an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TabletOrder {
    pub table: TableId,
    /// Some token of the tablet.
    pub token: Token,
    /// The node that has it, and the shard there.
    pub from: (Uuid, u16),
    /// Those that get it.
    pub to: (Uuid, u16),
    /// Whether rules of racks and data centres are passed over.
    pub force: bool,
}

impl TabletOrder {
    /// The tablet, and who has it afterwards; or why that cannot be.
    pub fn hosts(
        &self,
        topology: &Topology,
        replicas: &TabletReplicas,
    ) -> Result<(usize, Hosts), String> {
        if replicas.is_empty() {
            return Err("the table has no tablets".to_owned());
        }
        let tablet = replicas.tablet_of(self.token);
        let (of, (from, to)) = (replicas.of(tablet), (self.from, self.to));
        let Some(place) = of.iter().position(|replica| *replica == from) else {
            let all: Vec<String> =
                of.iter().map(|(host, shard)| format!("{host}:{shard}")).collect();
            let (host, shard) = from;
            let all = all.join(", ");
            return Err(format!("tablet {tablet} is not on {host}:{shard}, but on {all}"));
        };
        if to == from {
            return Err(format!("tablet {tablet} is on {}:{} already", to.0, to.1));
        }
        if of.iter().any(|(host, _)| *host == to.0 && *host != from.0) {
            return Err(format!("Tablet {tablet} has replica on {} already", to.0));
        }
        let getter = member(topology, to.0)?;
        if getter.state != MemberState::Normal || topology.is_lost(to.0) {
            return Err(format!("node {} joins, leaves, or is lost", to.0));
        }
        if getter.shards <= to.1 {
            let (host, shards) = (to.0, getter.shards);
            return Err(format!("node {host} has {shards} shards: there is no shard {}", to.1));
        }
        if !self.force && to.0 != from.0 {
            let others = of.iter().filter(|(host, _)| *host != from.0);
            check_rack(topology, getter, from.0, others.map(|(host, _)| *host))?;
        }
        let mut hosts: Hosts = of.into();
        hosts[place] = to;
        debug_assert!(hosts.len() == of.len(), "one-for-one: {hosts:?} for {of:?}");
        Ok((tablet, hosts))
    }
}

fn member(topology: &Topology, host: Uuid) -> Result<&Arc<Member>, String> {
    topology.member(host).ok_or_else(|| format!("{host} is no node of the cluster"))
}

/// *racks-no-worse*
fn check_rack(
    topology: &Topology,
    getter: &Member,
    from: Uuid,
    mut others: impl Iterator<Item = Uuid>,
) -> Result<(), String> {
    let giver = member(topology, from)?;
    if giver.data_center != getter.data_center {
        return Err(format!(
            "node {} is in data centre {}, and node {from} in {}",
            getter.host_id, getter.data_center, giver.data_center
        ));
    }
    let is_there = |host: Uuid| {
        let other = topology.member(host);
        other.is_some_and(|it| (&it.data_center, &it.rack) == (&getter.data_center, &getter.rack))
    };
    match giver.rack != getter.rack && others.any(is_there) {
        true => Err(format!("rack {} has a replica of the tablet already", getter.rack)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::testing::{member, topology};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn host(number: usize) -> Uuid {
        Uuid::from_u128(number as u128)
    }

    proptest! {
        /// *one-for-one*, *racks-no-worse*
        #[test]
        fn a_replica_goes_elsewhere_or_it_is_said_why_not(
            nodes in prop::collection::vec((0u8..2, 0u8..3, 1u16..4), 2..8),
            has in prop::collection::btree_set(0usize..8, 1..4),
            (from, to, shard) in (0usize..9, 0usize..9, 0u16..4),
            token: i64,
            force: bool,
        ) {
            let named = |(at, (dc, rack, shards)): (usize, &(u8, u8, u16))| Member {
                data_center: format!("dc{dc}"),
                rack: format!("r{rack}"),
                shards: *shards,
                ..member(at as u8 + 1, ("dc", "r"), &[at as i64])
            };
            let members: Vec<Member> = nodes.iter().enumerate().map(named).collect();
            let has: BTreeSet<usize> = has.into_iter().filter(|at| *at < nodes.len()).collect();
            prop_assume!(!has.is_empty());
            let of: Hosts = has.iter().map(|at| (host(at + 1), 0)).collect();
            let ends = vec![Token(0), Token::MAX];
            let replicas = TabletReplicas::new(ends, vec![of.clone(), of.clone()]);
            let all = topology(&members);
            let (from, to) = ((host(from + 1), 0), (host(to + 1), shard));
            let table = TableId::from_u128(1);
            let order = TabletOrder { table, token: Token(token), from, to, force };
            let known = |it: Uuid| members.iter().find(|member| member.host_id == it);
            let is_possible = of.contains(&from)
                && from != to
                && !of.iter().any(|(host, _)| *host == to.0 && *host != from.0)
                && known(to.0).is_some_and(|it| shard < it.shards);
            let place = |it: Uuid| known(it).map(|it| (it.data_center.clone(), it.rack.clone()));
            let is_good = || {
                let (old, new) = (place(from.0), place(to.0));
                if from.0 == to.0 {
                    return true;
                }
                let others = of.iter().filter(|it| **it != from).map(|(host, _)| place(*host));
                let is_near = old.as_ref().map(|it| &it.0) == new.as_ref().map(|it| &it.0);
                is_near && (old == new || others.into_iter().all(|other| other != new))
            };
            match order.hosts(&all, &replicas) {
                Ok((tablet, hosts)) => {
                    prop_assert!(is_possible && (force || is_good()));
                    prop_assert_eq!(tablet, usize::from(0 < token));
                    let gone = of.iter().filter(|it| !hosts.contains(it)).collect::<Vec<_>>();
                    let new = hosts.iter().filter(|it| !of.contains(it)).collect::<Vec<_>>();
                    prop_assert_eq!((gone, new), (vec![&from], vec![&to]));
                }
                Err(why) => prop_assert!(!is_possible || !force && !is_good(), "{}", why),
            }
        }
    }
}
