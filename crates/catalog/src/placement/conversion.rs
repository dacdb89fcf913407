//! A keyspace of the ring is given tablets, while it is in use. Pure.
//!
//! 1. **Start.** Each of its tables gets a map of tablets that it is to have
//!    ([`crate::schema::TableEntry::intended`]). A tablet has the replicas that its tokens have on
//!    the ring. Nobody goes by the maps yet, neither reads nor writes nor drivers.
//! 2. **Each node for itself.** A node that is marked stores these tables by the tablets of their
//!    maps from its next start on ([`StorageMode`]), or by the ring again. Which of both it does
//!    nobody has to know who asks it for data: the same tokens are there.
//! 3. **End.** When all nodes store by tablets the keyspace is one with tablets, in one step; when
//!    all store by the ring the maps are forgotten.
//! 4. **Afterwards** tablets end at the tokens of nodes, and at those of a power of two of them as
//!    well. Those between two ends of the power of two come to the same nodes and become one
//!    ([`crate::placement::Resize::Converge`]).
//!
//! Invariants
//!  - *as-on-the-ring*: a tablet has just the nodes that each of its tokens has on the ring, as
//!    long as nobody goes by tablets. So the step in which the ways of requests change changes
//!    nobody's data: who still goes by the ring finds the same nodes.
//!  - *nobody-meanwhile*: no node joins or leaves before the end, so the ring stays as it is.
//!  - *all-or-none*: a keyspace has tablets only when all nodes store all of its tables by them,
//!    and nobody stores by the maps when they are forgotten. A node changes how it stores only at
//!    a start, and only to what it is marked for: with the marks of the last look unchanged all is
//!    as it was seen.
//!  - *slots-together*: tablets that will be one are on the same shard of a node.

use super::tablets::{Host, Hosts, Load};
use super::{Owners, Replication, Ring, TABLETS_MAX, TabletReplicas};
use crate::topology::{Member, StorageMode, Topology};
use model::token::slot_range;
use model::{Token, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a node stores each table of a keyspace, by the names of the tables.
pub type Modes = BTreeMap<String, StorageMode>;

/// The tablets that a table of the ring is to have (*as-on-the-ring*), on the shards that have the
/// fewest.
pub fn map(ring: &Ring, replication: &Replication, load: &Load) -> Result<TabletReplicas, String> {
    let owners = ring.owners(replication);
    let target = target_of(owners.ranges())?;
    let mut ends: BTreeSet<Token> = (0..owners.ranges()).map(|at| owners.range(at).1).collect();
    ends.extend((0..target).map(|slot| slot_range(slot, target).1));
    if owners.of(Token::MAX).is_empty() {
        return Err("no node owns the ring: tablets would be nowhere".to_owned());
    }
    let last_tokens: Vec<Token> = ends.into_iter().collect();
    let all = dealt(ring, &owners, &last_tokens, target, load);
    let replicas = TabletReplicas::new(last_tokens, all);
    let is_there = replicas.count() == target as usize;
    debug_assert!(mirrors(&replicas, ring, &owners), "as-on-the-ring: {replicas:?}");
    Ok(replicas.toward(if is_there { 0 } else { target }))
}

/// The power of two that a table with so many ranges of the ring comes to.
fn target_of(ranges: usize) -> Result<u32, String> {
    assert!(0 < ranges, "covering: a ring without ranges");
    let most = TABLETS_MAX as usize / 2;
    if most < ranges {
        return Err(format!("the ring has {ranges} ranges, and a table may have {most} then"));
    }
    // At least two, so that a map never looks like a ring on one shard.
    Ok(1 << (ranges as u32).ilog2().max(1))
}

/// The replicas of each tablet (*slots-together*).
fn dealt(ring: &Ring, owners: &Owners, ends: &[Token], target: u32, load: &Load) -> Vec<Hosts> {
    let members = ring.members().iter();
    let mut hosts: Vec<Host> =
        members.map(|member| Host::new(member.host_id, member.shards, load)).collect();
    let mut of_slot = (0, BTreeMap::<u16, (Uuid, u16)>::new());
    let mut out = Vec::with_capacity(ends.len());
    for end in ends {
        let slot = end.slot_of(target);
        if of_slot.0 != slot {
            of_slot = (slot, BTreeMap::new());
        }
        let known = &mut of_slot.1;
        let mut take =
            |at: &u16| *known.entry(*at).or_insert_with(|| hosts[usize::from(*at)].take());
        out.push(owners.of(*end).iter().map(&mut take).collect::<Hosts>());
    }
    assert!(out.len() == ends.len(), "as-on-the-ring: a tablet without replicas");
    out
}

/// Whether each tablet is where all of its tokens are on a ring (*as-on-the-ring*).
fn mirrors(replicas: &TabletReplicas, ring: &Ring, owners: &Owners) -> bool {
    let same = |tablet: usize, range: usize| {
        let of = replicas.of(tablet).iter().map(|(host, _)| *host);
        of.eq(owners.sets()[owners.set_of(range)].iter().map(|at| {
            let at = usize::from(*at);
            ring.members()[at].host_id
        }))
    };
    (0..replicas.count()).all(|tablet| {
        let (after, last) = replicas.range(tablet);
        let (first, end) = (owners.range_of(Token(after.0 + 1)), owners.range_of(last));
        first == end && same(tablet, end)
    })
}

/// How the migration of a keyspace ends, by how each node stores its tables (*all-or-none*); why it
/// cannot end yet. Nodes that were declared lost come back no more, and are not asked.
pub fn outcome(
    topology: &Topology,
    keyspace: &str,
    modes: &BTreeMap<Uuid, Modes>,
) -> Result<StorageMode, String> {
    let hosts: Vec<Uuid> = asked(topology).map(|member| member.host_id).collect();
    let forward = hosts.iter().any(|host| topology.intended(*host) == StorageMode::Tablets);
    let wanted = if forward { StorageMode::Tablets } else { StorageMode::Ring };
    for host in &hosts {
        let Some(tables) = modes.get(host) else {
            return Err(format!("node {host} does not say how it stores its tables"));
        };
        if let Some((table, _)) = tables.iter().find(|(_, mode)| **mode != wanted) {
            let to = wanted.name();
            return Err(format!(
                "Node {host} has not yet migrated table {keyspace}.{table} to {to}: mark it and \
                 start it again, one node after the other"
            ));
        }
        if topology.intended(*host) != wanted {
            return Err(format!(
                "Node {host} is to store by {} from its next start on: mark it for {}",
                topology.intended(*host).name(),
                wanted.name()
            ));
        }
    }
    Ok(wanted)
}

/// The nodes that have to agree.
pub fn asked(topology: &Topology) -> impl Iterator<Item = &Arc<Member>> {
    topology.present().filter(|member| !topology.is_lost(member.host_id))
}

#[cfg(test)]
mod tests;
