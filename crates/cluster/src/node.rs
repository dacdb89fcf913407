//! This node: its names, addresses and tokens, fixed from boot to stop.
//!
//! Invariants
//!  - *for-life*: host id and tokens, once made, stay with the data directory.
//!  - *generation-grows*: each start has a later generation than the one before, whatever the
//!    clock.

use catalog::features;
use catalog::placement::Here;
use model::{Token, Uuid};
use runtime::time::Instant;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// The release that drivers and tools see: the Cassandra version whose DESCRIBE and tables we
/// answer. cqlsh discards what a server below 4 describes; drivers ask servers from 4 on for
/// `system.peers_v2`.
pub const RELEASE_VERSION: &str = "5.0.0";
/// The CQL version in `system.local`.
pub const CQL_VERSION: &str = "3.3.1";
/// The partitioner, by its full class name.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The identity of this node. Plain data: every shard has a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node's name for life.
    pub host_id: Uuid,
    pub cluster_name: String,
    pub data_center: String,
    pub rack: String,
    /// Where other nodes connect to.
    pub listen_address: IpAddr,
    /// The address that other nodes should connect to.
    pub broadcast_address: IpAddr,
    /// The address that clients should connect to.
    pub rpc_address: IpAddr,
    /// Of other nodes.
    pub listen_port: u16,
    /// Of clients; `None`: it is not known before the node listens, or none is open.
    pub rpc_port: Option<u16>,
    /// Ascending.
    pub tokens: Vec<Token>,
    /// Seconds since the epoch of this start.
    pub generation: i32,
    /// When this start began.
    pub started: Instant,
    pub shards: u16,
    pub release_version: &'static str,
    /// What it can do, by name (`catalog::features`).
    pub features: BTreeSet<String>,
}

impl NodeInfo {
    /// How long the node is up: the one truth of all that show it, or count by it.
    pub fn uptime(&self) -> Duration {
        debug_assert!(self.started <= Instant::now(), "started in the future");
        self.started.elapsed()
    }

    /// As the catalog divides tables for it.
    pub fn here(&self) -> Here {
        Here { host_id: self.host_id, shards: self.shards }
    }

    /// Whether the node exchanges gossip with others: there are none.
    pub fn gossips(&self) -> bool {
        false
    }
}

/// What the node remembers of earlier starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) host_id: Option<Uuid>,
    pub(crate) schema_version: Option<Uuid>,
    pub(crate) generation: i32,
    /// Ascending.
    pub(crate) tokens: Vec<Token>,
}

/// What an operator says of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    pub cluster_name: String,
    pub data_center: String,
    pub rack: String,
    pub listen_address: IpAddr,
    pub broadcast_address: IpAddr,
    pub rpc_address: IpAddr,
    pub listen_port: u16,
    pub rpc_port: Option<u16>,
    /// Random tokens of a new node, where none are given.
    pub num_tokens: u32,
    /// The tokens of a new node.
    pub initial_tokens: Vec<Token>,
    /// Features that it is to do without.
    pub withheld_features: BTreeSet<String>,
}

impl NodeConfig {
    /// The node, with what it remembers of earlier starts: tokens and host id are for life.
    pub(crate) fn resolve(self, host_id: Uuid, before: &Remembered, shards: u16) -> NodeInfo {
        let mut tokens = match before.tokens.is_empty() {
            true => self.initial_tokens,
            false => before.tokens.clone(),
        };
        if tokens.is_empty() {
            let random = |_| Token(runtime::random_u64() as i64).max(Token(i64::MIN + 1));
            tokens.extend((0..self.num_tokens.max(1)).map(random));
        }
        tokens.sort();
        tokens.dedup();
        assert!(!tokens.is_empty(), "for-life: a node without tokens");
        let known = &before.tokens;
        assert!(known.is_empty() || tokens == *known, "for-life: other tokens than before");
        assert!(!host_id.is_nil(), "for-life: a node without a name");
        assert!(0 < shards, "a node without shards");
        let seconds = runtime::time::wall_micros().div_euclid(1_000_000);
        let generation = i32::try_from(seconds).unwrap_or(i32::MAX);
        let generation = generation.max(before.generation.saturating_add(1));
        let grows = before.generation < generation || generation == i32::MAX;
        assert!(grows, "generation-grows: {generation} after {}", before.generation);
        NodeInfo {
            host_id,
            cluster_name: self.cluster_name,
            data_center: self.data_center,
            rack: self.rack,
            listen_address: self.listen_address,
            broadcast_address: self.broadcast_address,
            rpc_address: self.rpc_address,
            listen_port: self.listen_port,
            rpc_port: self.rpc_port,
            tokens,
            generation,
            started: Instant::now(),
            shards,
            release_version: RELEASE_VERSION,
            features: features::without(&self.withheld_features),
        }
    }
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
            listen_port: 7000,
            rpc_port: Some(9042),
            tokens,
            generation: 1,
            started: Instant::ZERO,
            shards: 1,
            release_version: RELEASE_VERSION,
            features: BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn config(initial_tokens: &[Token]) -> NodeConfig {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        NodeConfig {
            cluster_name: "test".to_owned(),
            data_center: "datacenter1".to_owned(),
            rack: "rack1".to_owned(),
            listen_address: address,
            broadcast_address: address,
            rpc_address: address,
            listen_port: 7000,
            rpc_port: None,
            num_tokens: 4,
            initial_tokens: initial_tokens.to_vec(),
            withheld_features: BTreeSet::new(),
        }
    }

    #[test]
    fn a_token_that_is_given_twice_is_one_token_for_life() {
        runtime::sim::test(1, || async {
            let (given, host_id) = ([30, -7, 30].map(Token), Uuid::from_u128(9));
            let first = config(&given).resolve(host_id, &Remembered::default(), 1);
            assert_eq!(first.tokens, [-7, 30].map(Token));
            // The next start reads a set.
            let tokens = first.tokens.clone();
            let remembered =
                Remembered { generation: first.generation, tokens, ..Remembered::default() };
            let second = config(&given).resolve(host_id, &remembered, 1);
            assert_eq!(second.tokens, first.tokens);
        });
    }
}
