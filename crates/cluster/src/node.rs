//! This node: its names, addresses and tokens, fixed from boot to stop.

use model::{Token, Uuid};
use std::net::IpAddr;

/// The release that drivers are told: the Cassandra version whose protocol and tables we follow.
pub const RELEASE_VERSION: &str = "3.0.8";
/// The version of CQL, as `system.local` tells it.
pub const CQL_VERSION: &str = "3.3.1";
/// The partitioner, by its full class name.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// Who this node is. Plain data: every shard has a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node's name for life.
    pub host_id: Uuid,
    pub cluster_name: String,
    pub data_center: String,
    pub rack: String,
    /// Where other nodes connect to.
    pub listen_address: IpAddr,
    /// Where other nodes are told to connect to.
    pub broadcast_address: IpAddr,
    /// Where clients are told to connect to.
    pub rpc_address: IpAddr,
    /// Ascending.
    pub tokens: Vec<Token>,
    /// Seconds since the epoch of this start.
    pub generation: i32,
    pub shards: u16,
    pub release_version: &'static str,
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use std::net::Ipv4Addr;

    /// A node for tests.
    pub(crate) fn node(tokens: Vec<Token>) -> NodeInfo {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        NodeInfo {
            host_id: Uuid::from_u128(9),
            cluster_name: "test".to_owned(),
            data_center: "datacenter1".to_owned(),
            rack: "rack1".to_owned(),
            listen_address: address,
            broadcast_address: address,
            rpc_address: address,
            tokens,
            generation: 1,
            shards: 1,
            release_version: RELEASE_VERSION,
        }
    }
}
