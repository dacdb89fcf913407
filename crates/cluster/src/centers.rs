//! The data centers of a cluster, with the racks that can hold data, what keyspaces with tablets
//! ask of them, and which keyspaces have too few nodes for their copies. Pure.
//!
//! Invariants
//!  - *owners-only*: a rack counts where a node of it owns tokens; a data center counts without.
//!  - *one-each*: a keyspace is at home in its racks where each replica is in a rack of its own,
//!    and either all racks have one, or those that it names, or there is one replica.
//!  - *quorum-is-there*: a keyspace has a quorum where as many nodes own tokens and are not lost.
//!  - *last-stays*: the last node of a rack that a keyspace with tablets lists, or of a data center
//!    that has copies of it, does not go before the keyspace does without.

use crate::node::NodeInfo;
use crate::schema::Schema;
use catalog::{Member, MemberState, Replication, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A data center. Those that join do not own tokens yet, and those that leave do no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataCenter {
    pub name: String,
    /// Those with a node that owns tokens, by name.
    pub racks: Vec<String>,
    /// The nodes that own tokens.
    pub owners: usize,
}

/// Those of all nodes, by name. Where nobody is in the topology yet, `me` is alone.
pub fn data_centers(topology: &Topology, me: &NodeInfo) -> Vec<DataCenter> {
    let mut found = BTreeMap::<&str, (BTreeSet<&str>, usize)>::new();
    found.entry(&me.data_center).or_default();
    let is_new = topology.member(me.host_id).is_none() && !me.tokens.is_empty();
    let own = is_new.then_some((&me.data_center, &me.rack, true));
    let owns = |it: &Member| it.state == MemberState::Normal && !it.tokens.is_empty();
    let members = topology.present();
    let members = members.map(|it| (&it.data_center, &it.rack, owns(it)));
    for (center, rack, owns) in members.chain(own) {
        let (racks, owners) = found.entry(center).or_default();
        if owns {
            racks.insert(rack);
            *owners += 1;
        }
    }
    let centers = found.into_iter().map(|(name, (racks, owners))| DataCenter {
        name: name.to_owned(),
        racks: racks.into_iter().map(str::to_owned).collect(),
        owners,
    });
    let centers: Vec<DataCenter> = centers.collect();
    let fit = centers.iter().all(|center| center.racks.len() <= center.owners);
    assert!(fit, "owners-only: a rack without a node that owns tokens");
    centers
}

/// A keyspace with tablets that is not at home in the racks of a data center.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IllRacked {
    pub keyspace: String,
    pub center: String,
    pub copies: u32,
    pub racks: usize,
}

/// In the words that people look for.
impl fmt::Display for IllRacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IllRacked { keyspace, center, copies, racks } = self;
        write!(
            f,
            "The keyspace '{keyspace}' is required to be RF-rack-valid. That condition is violated \
             for DC '{center}': RF={copies} vs. rack count={racks}."
        )
    }
}

/// The first data center of each keyspace where it is not at home.
pub fn ill_racked(schema: &Schema, centers: &[DataCenter]) -> Vec<IllRacked> {
    let of_keyspace = |entry: &crate::schema::KeyspaceEntry| {
        let Replication::PerDataCenter(factors) = &*entry.replication else { return None };
        let ill = |(center, copies): &(String, u32)| {
            let known = centers.iter().find(|it| it.name == *center);
            let racks = known.map_or(0, |it| it.racks.len());
            let is_listed = factors.of(center).1.is_some();
            let fits = matches!(*copies, 0 | 1) && *copies as usize <= racks
                || *copies as usize == racks
                || is_listed;
            debug_assert!(fits || *copies != 0, "one-each: no replica is one too many");
            let keyspace = entry.keyspace.name.clone();
            (!fits).then(|| IllRacked { keyspace, center: center.clone(), copies: *copies, racks })
        };
        factors.iter().find_map(ill)
    };
    let once = centers.is_sorted_by(|a, b| a.name < b.name);
    assert!(once, "owners-only: a data center is there twice");
    let with_tablets = schema.keyspaces.values().filter(|it| it.keyspace.initial_tablets.is_some());
    with_tablets.filter_map(|entry| of_keyspace(entry)).collect()
}

/// A keyspace whose copies have too few nodes for a quorum, in the whole cluster or a data center.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thin {
    pub keyspace: String,
    pub center: Option<String>,
    pub copies: u32,
    /// Nodes that may have them.
    pub nodes: u32,
}

impl fmt::Display for Thin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Thin { keyspace, center, copies, nodes } = self;
        let quorum = copies / 2 + 1;
        write!(f, "keyspace {keyspace} wants {copies} replicas")?;
        if let Some(center) = center {
            write!(f, " in data center {center}")?;
        }
        write!(
            f,
            ", of which a quorum is {quorum}, and {nodes} nodes can have them: QUORUM, \
             LOCAL_QUORUM and LWT are unavailable. Add nodes, or lower the replication factor"
        )
    }
}

/// The first keyspace of users that has enough nodes before, and after that fewer than it wants
/// replicas, for people.
pub fn thinned(schema: &Schema, before: &Topology, after: &Topology) -> Option<String> {
    let owners = |topology: &Topology, center: Option<&str>| {
        let is_one = |it: &&Arc<Member>| {
            it.state == MemberState::Normal
                && !it.tokens.is_empty()
                && center.is_none_or(|center| center == it.data_center)
        };
        topology.present().filter(is_one).count() as u32
    };
    debug_assert!(before.version() <= after.version(), "quorum-is-there: from later to earlier");
    let of_users = schema.keyspaces.values().filter(|it| !Schema::is_system(&it.keyspace.name));
    for entry in of_users {
        let wants: Vec<(Option<&str>, u32)> = match &*entry.replication {
            Replication::Local | Replication::Everywhere => Vec::new(),
            Replication::Simple(copies) => vec![(None, *copies)],
            Replication::PerDataCenter(factors) => {
                factors.iter().map(|(center, copies)| (Some(&center[..]), *copies)).collect()
            }
        };
        for (center, copies) in wants {
            let (had, has) = (owners(before, center), owners(after, center));
            if copies <= had && has < copies {
                let keyspace = &entry.keyspace.name;
                let center = center.map(|it| format!(" in data center {it}")).unwrap_or_default();
                return Some(format!(
                    "not enough nodes would be left for keyspace {keyspace} (RF = {copies}, \
                     nodes = {has}{center})"
                ));
            }
        }
    }
    None
}

/// The first keyspace with tablets that has copies in a rack or data center which loses its last
/// node, for people. *last-stays*
pub fn unracked(schema: &Schema, before: &Topology, after: &Topology) -> Option<String> {
    let owns = |topology: &Topology, center: &str, rack: Option<&str>| {
        topology.present().any(|it| {
            it.state == MemberState::Normal
                && !it.tokens.is_empty()
                && it.data_center == center
                && rack.is_none_or(|rack| rack == it.rack)
        })
    };
    let goes = |center: &str, rack| owns(before, center, rack) && !owns(after, center, rack);
    debug_assert!(before.version() <= after.version(), "last-stays: from later to earlier");
    let with_tablets = schema.keyspaces.values().filter(|it| it.keyspace.initial_tablets.is_some());
    for entry in with_tablets {
        let Replication::PerDataCenter(factors) = &*entry.replication else { continue };
        for (center, _) in factors.iter().filter(|(_, copies)| *copies != 0) {
            let keyspace = &entry.keyspace.name;
            let (count, racks) = factors.of(center);
            assert!(count != 0, "last-stays: no copy of {keyspace} in {center}");
            if goes(center, None) {
                return Some(format!(
                    "it is the last node of data center {center}, where keyspace {keyspace} has \
                     RF = {count}"
                ));
            }
            let mut racks = racks.unwrap_or_default().iter();
            if let Some(rack) = racks.find(|rack| goes(center, Some(rack))) {
                return Some(format!(
                    "it is the last node of rack {rack} in data center {center}, in which keyspace \
                     {keyspace} has a copy"
                ));
            }
        }
    }
    None
}

/// What each keyspace of users lacks first.
pub fn thin(schema: &Schema, topology: &Topology, me: &NodeInfo) -> Vec<Thin> {
    let mut nodes = BTreeMap::<&str, u32>::new();
    if topology.member(me.host_id).is_none() && !me.tokens.is_empty() {
        nodes.insert(&me.data_center, 1);
    }
    for member in topology.present() {
        if !member.tokens.is_empty() && !topology.is_lost(member.host_id) {
            *nodes.entry(&member.data_center).or_default() += 1;
        }
    }
    let lacks = |entry: &crate::schema::KeyspaceEntry| {
        let keyspace = &entry.keyspace.name;
        let thin = |center: Option<&str>, copies: u32, nodes: u32| {
            let (keyspace, center) = (keyspace.clone(), center.map(str::to_owned));
            let has_quorum = copies == 0 || copies / 2 < nodes;
            (!has_quorum).then_some(Thin { keyspace, center, copies, nodes })
        };
        match &*entry.replication {
            Replication::Local | Replication::Everywhere => None,
            Replication::Simple(copies) => thin(None, *copies, nodes.values().sum()),
            Replication::PerDataCenter(factors) => factors.iter().find_map(|(center, copies)| {
                let there = nodes.get(&**center).copied().unwrap_or(0);
                thin(Some(center), *copies, there)
            }),
        }
    };
    let of_users = schema.keyspaces.values().filter(|it| !Schema::is_system(&it.keyspace.name));
    let found: Vec<Thin> = of_users.filter_map(|entry| lacks(entry)).collect();
    let all = found.iter().all(|thin| thin.nodes <= thin.copies / 2);
    debug_assert!(all, "quorum-is-there: {found:?}");
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::node;
    use catalog::schema::testing::keyspace;
    use catalog::topology::testing::{member, topology};
    use model::Token;

    #[test]
    fn racks_are_those_of_nodes_with_tokens() {
        let center = |name: &str, racks: &[&str], owners| DataCenter {
            name: name.to_owned(),
            racks: racks.iter().map(|rack| rack.to_string()).collect(),
            owners,
        };
        let mut me = node(vec![Token(1)]);
        let alone = data_centers(&Topology::default(), &me);
        assert_eq!(alone, [center("datacenter1", &["rack1"], 1)]);
        me.data_center = "d1".to_owned();
        me.host_id = model::Uuid::from_u128(1);
        let members = [
            member(1, ("d1", "r1"), &[1]),
            member(2, ("d1", "r1"), &[2]),
            member(3, ("d1", "r0"), &[3]),
            member(4, ("d1", "r9"), &[]),
            member(5, ("d2", "r1"), &[]),
        ];
        let found = data_centers(&topology(&members), &me);
        assert_eq!(found, [center("d1", &["r0", "r1"], 3), center("d2", &[], 0)]);
    }

    fn schema_of(space: model::Keyspace, topology: &Topology, me: &NodeInfo) -> Schema {
        let empty = Schema::of_system(model::Uuid::from_u128(1), me.shards);
        let changes = vec![catalog::SchemaChange::CreateKeyspace(space)];
        let complete = empty.complete(changes, 5, topology, me.here(), 1.0).expect("a keyspace");
        empty.apply(&complete, model::Uuid::from_u128(2))
    }

    #[test]
    fn the_last_of_a_rack_with_copies_is_named() {
        let mut me = node(vec![Token(1)]);
        me.data_center = "d1".to_owned();
        me.host_id = model::Uuid::from_u128(1);
        let members = [
            member(1, ("d1", "r1"), &[1]),
            member(2, ("d1", "r1"), &[2]),
            member(3, ("d1", "r2"), &[3]),
            member(4, ("d2", "r1"), &[4]),
            member(5, ("d2", "r1"), &[]),
        ];
        let topology = topology(&members);
        let check = |tablets: Option<u32>, options: &[(&str, &str)], host, expected: &str| {
            let mut space = keyspace("ks", tablets);
            let class = ("class", "NetworkTopologyStrategy");
            let options = options.iter().chain([&class]);
            let options = options.map(|(name, value)| (name.to_string(), value.to_string()));
            space.replication = options.collect();
            let schema = schema_of(space, &topology, &me);
            let after = topology.as_if_leaving(model::Uuid::from_u128(host));
            let found = unracked(&schema, &topology, &after).unwrap_or_default();
            assert!(found.starts_with(expected), "{found}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
        };
        let racks = [("d1", "['r1', 'r2']"), ("d2", "1")];
        check(Some(0), &racks, 1, "");
        check(Some(0), &racks, 3, "it is the last node of rack r2 in data center d1");
        check(Some(0), &racks, 4, "it is the last node of data center d2");
        check(Some(0), &racks, 5, "");
        check(None, &[("d1", "2"), ("d2", "1")], 4, "");
        check(Some(0), &[("d1", "2"), ("d2", "0")], 4, "");
        check(Some(0), &[("d1", "2")], 3, "");
        check(Some(0), &[("d1", "['r1']")], 3, "");
    }

    #[test]
    fn a_keyspace_without_nodes_for_a_quorum_is_named() {
        let mut me = node(vec![Token(1)]);
        me.data_center = "d1".to_owned();
        me.host_id = model::Uuid::from_u128(1);
        let members = [
            member(1, ("d1", "r1"), &[1]),
            member(2, ("d1", "r1"), &[2]),
            member(3, ("d2", "r1"), &[3]),
            member(4, ("d2", "r1"), &[]),
        ];
        let topology = topology(&members);
        let check = |options: &[(&str, &str)], expected: Option<(Option<&str>, u32, u32)>| {
            let mut space = keyspace("ks", None);
            let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            space.replication = options.collect();
            let schema = schema_of(space, &topology, &me);
            let found = thin(&schema, &topology, &me);
            let told: Vec<_> =
                found.iter().map(|it| (it.center.as_deref(), it.copies, it.nodes)).collect();
            assert_eq!(told, Vec::from_iter(expected));
        };
        let class = ("class", "NetworkTopologyStrategy");
        check(&[class, ("d1", "2"), ("d2", "1")], None);
        check(&[class, ("d1", "3"), ("d2", "1")], None);
        check(&[class, ("d1", "4"), ("d2", "1")], Some((Some("d1"), 4, 2)));
        check(&[class, ("d1", "1"), ("d2", "2")], Some((Some("d2"), 2, 1)));
        check(&[class, ("d9", "1")], Some((Some("d9"), 1, 0)));
        let class = ("class", "SimpleStrategy");
        check(&[class, ("replication_factor", "5")], None);
        check(&[class, ("replication_factor", "6")], Some((None, 6, 3)));
        check(&[("class", "EverywhereStrategy")], None);
    }
}
