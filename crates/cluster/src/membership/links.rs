//! Which links to other nodes are encrypted and compressed, by where the nodes are.
//!
//! Invariants
//!  - *unknown-is-far*: a node that is not in the topology, as this node knows it, is taken for one
//!    of another data centre. So a node looks for its cluster, and joins it, over encrypted links
//!    wherever any are wanted: what is encrypted is never refused by who has TLS. Who knows the
//!    other one as near dials it plain, and encrypted when it is told to (`Encrypts::IfAsked`), as
//!    happens while that one does not have the same topology yet.
//!  - *never-less*: a link that is to be encrypted is encrypted, or is none.

use crate::peers;
use crate::registry::Cluster;
use catalog::Topology;
use messaging::{
    Algorithms, ClientConfig, Counters, Dialing, Encrypts, HostId, Messaging, PeerState, Policy,
    ServerConfig, ZstdRules,
};
pub use messaging::{Compression, Packed};
use model::Uuid;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// How far another node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    SameRack,
    SameDataCenter,
    Far,
}

/// Links to which nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    #[default]
    None,
    /// To those of other data centres.
    DataCenters,
    /// To those of other racks, and of other data centres.
    Racks,
    All,
}

impl Reach {
    fn covers(self, distance: Distance) -> bool {
        match self {
            Reach::None => false,
            Reach::DataCenters => Distance::SameDataCenter < distance,
            Reach::Racks => Distance::SameRack < distance,
            Reach::All => true,
        }
    }
}

/// How a node speaks with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    pub encrypted: Reach,
    /// While TLS is introduced: encrypted where the other node can, and plain where it cannot.
    pub transitional: bool,
    pub compressed: Reach,
    /// By what, and what is taken of others.
    pub algorithms: Algorithms,
}

/// What Zstandard may be used for, as options say now.
pub type Zstd = Rc<dyn Fn() -> ZstdRules>;

/// What TLS shows and trusts, when this shard dials, and when it is dialed; the newest there is.
#[derive(Clone, Copy)]
pub struct Keys {
    pub client: fn() -> Option<Arc<ClientConfig>>,
    pub server: fn() -> Option<Arc<ServerConfig>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys are secret.
        f.write_str("Keys")
    }
}

/// The decisions about the links of one shard.
pub struct Links {
    wishes: Wishes,
    keys: Keys,
    zstd: Zstd,
    cluster: Rc<Cluster>,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Links({:?})", self.wishes)
    }
}

impl Links {
    /// Of this shard, which has its part of the cluster.
    pub fn new(wishes: Wishes, keys: Keys, zstd: Zstd) -> Links {
        Links { wishes, keys, zstd, cluster: runtime::local::get::<Cluster>() }
    }

    fn distance(&self, host: Option<HostId>) -> Distance {
        let (own, topology) = (self.cluster.node(), self.cluster.topology());
        distance([&own.data_center, &own.rack], &topology, host)
    }

    fn has_tls(&self) -> bool {
        self.wishes.encrypted != Reach::None
    }
}

/// *unknown-is-far*; `own` are data centre and rack.
fn distance(own: [&str; 2], topology: &Topology, host: Option<HostId>) -> Distance {
    let member = host.and_then(|host| topology.member(Uuid::from_u128(host.0)));
    let Some(member) = member else { return Distance::Far };
    debug_assert_eq!(host, Some(peers::host(member.host_id)), "unknown-is-far: another node");
    match [&*member.data_center, &*member.rack] {
        theirs if theirs == own => Distance::SameRack,
        [data_center, _] if data_center == own[0] => Distance::SameDataCenter,
        _ => Distance::Far,
    }
}

impl Policy for Links {
    fn dialing(&self, host: Option<HostId>, address: SocketAddr) -> Dialing {
        let Wishes { encrypted, transitional, compressed, algorithms } = self.wishes;
        if !self.has_tls() && compressed == Reach::None {
            return Dialing::default();
        }
        let distance = self.distance(host);
        let encrypts = match encrypted.covers(distance) {
            _ if transitional => Encrypts::IfAble,
            true => Encrypts::Always,
            false => Encrypts::IfAsked,
        };
        let tls = self.has_tls().then(|| {
            let keys = (self.keys.client)().expect("never-less: keys are there before links");
            (keys, address.ip().to_string())
        });
        let is_compressed = compressed.covers(distance);
        let compression = if is_compressed { algorithms } else { Algorithms::NONE };
        Dialing { tls, encrypts, compression }
    }

    fn needs_tls(&self, host: HostId, _: IpAddr) -> bool {
        let Wishes { encrypted, transitional, .. } = self.wishes;
        self.has_tls() && !transitional && encrypted.covers(self.distance(Some(host)))
    }

    fn takes(&self) -> Algorithms {
        self.wishes.algorithms
    }

    fn zstd(&self) -> ZstdRules {
        (self.zstd)()
    }

    fn server(&self) -> Option<Arc<ServerConfig>> {
        if !self.has_tls() {
            return None;
        }
        let keys = (self.keys.server)();
        debug_assert!(keys.is_some(), "never-less: keys are there before links");
        keys
    }
}

/// The connections of a shard that are up, and what went over them so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many there are, by whether they are encrypted, and how they are compressed.
    pub connections: BTreeMap<(bool, Algorithms), u64>,
    pub counters: Counters,
}

/// What this shard says to other nodes and hears of them; `None`: it belongs to no cluster.
pub fn traffic() -> Option<Traffic> {
    let messaging = Messaging::current()?;
    let mut connections = BTreeMap::new();
    for peer in messaging.peers() {
        if let PeerState::Up { encrypted, compression, .. } = peer.state {
            *connections.entry((encrypted, compression)).or_default() += 1;
        }
    }
    Some(Traffic { connections, counters: messaging.counters() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::topology::testing::{member, topology};

    #[test]
    fn links_are_covered_by_where_the_nodes_are() {
        let places = [("a", "r"), ("a", "r"), ("a", "s"), ("b", "r")];
        let numbered = places.into_iter().zip(1u8..);
        let members: Vec<_> =
            numbered.map(|(place, number)| member(number, place, &[number.into()])).collect();
        let topology = topology(&members);
        let check = |host: Option<u128>, expected: &[Reach]| {
            let far = distance(["a", "r"], &topology, host.map(HostId));
            let all = [Reach::None, Reach::DataCenters, Reach::Racks, Reach::All];
            let covers: Vec<Reach> = all.into_iter().filter(|one| one.covers(far)).collect();
            assert_eq!(covers, expected, "{host:?}");
        };
        check(Some(2), &[Reach::All]);
        check(Some(3), &[Reach::Racks, Reach::All]);
        let far = [Reach::DataCenters, Reach::Racks, Reach::All];
        check(Some(4), &far);
        // *unknown-is-far*
        check(Some(5), &far);
        check(None, &far);
    }
}
