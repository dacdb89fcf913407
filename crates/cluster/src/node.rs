//! This node: its names, addresses and tokens, fixed from boot to stop.
//!
//! Invariants
//!  - *for-life*: host id and tokens, once made, stay with the data directory; a node that the
//!    cluster knows without tokens never gets some.
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
    /// Ascending; none of a node that has no part of the ring and coordinates only.
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
    /// Whether a new node gets tokens at all: without them it coordinates, and keeps nothing.
    pub joins_ring: bool,
}

impl NodeConfig {
    /// The tokens of this start. `is_member`: the cluster knows the node, with those that it
    /// remembers.
    fn tokens(&self, before: &Remembered, is_member: bool) -> Result<Vec<Token>, String> {
        if is_member {
            return match (self.joins_ring, before.tokens.is_empty()) {
                (true, true) => Err("Cannot restart with join_ring=true because the node has \
                                     already joined the cluster as a zero-token node"
                    .to_owned()),
                (false, false) => Err("Cannot restart with join_ring=false because the node \
                                       already owns tokens"
                    .to_owned()),
                _ => Ok(before.tokens.clone()),
            };
        }
        if !self.joins_ring {
            return Ok(Vec::new());
        }
        let mut tokens = match before.tokens.is_empty() {
            true => self.initial_tokens.clone(),
            false => before.tokens.clone(),
        };
        if tokens.is_empty() {
            let random = |_| Token(runtime::random_u64() as i64).max(Token(i64::MIN + 1));
            tokens.extend((0..self.num_tokens.max(1)).map(random));
        }
        tokens.sort();
        tokens.dedup();
        let known = &before.tokens;
        assert!(known.is_empty() || tokens == *known, "for-life: other tokens than before");
        assert!(!tokens.is_empty(), "for-life: a node of the ring without tokens");
        assert!(tokens.is_sorted_by(|a, b| a < b), "for-life: tokens out of order");
        Ok(tokens)
    }

    /// The node, with what it remembers of earlier starts: tokens and host id are for life.
    pub(crate) fn resolve(
        self,
        host_id: Uuid,
        before: &Remembered,
        is_member: bool,
        shards: u16,
    ) -> Result<NodeInfo, String> {
        let tokens = self.tokens(before, is_member)?;
        assert!(!is_member || tokens == before.tokens, "for-life: other tokens than before");
        assert!(!host_id.is_nil(), "for-life: a node without a name");
        assert!(0 < shards, "a node without shards");
        let seconds = runtime::time::wall_micros().div_euclid(1_000_000);
        let generation = i32::try_from(seconds).unwrap_or(i32::MAX);
        let generation = generation.max(before.generation.saturating_add(1));
        let grows = before.generation < generation || generation == i32::MAX;
        assert!(grows, "generation-grows: {generation} after {}", before.generation);
        Ok(NodeInfo {
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
        })
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
            joins_ring: true,
        }
    }

    #[test]
    fn a_token_that_is_given_twice_is_one_token_for_life() {
        runtime::sim::test(1, || async {
            let (given, host_id) = ([30, -7, 30].map(Token), Uuid::from_u128(9));
            let new = Remembered::default();
            let first = config(&given).resolve(host_id, &new, false, 1).expect("a node");
            assert_eq!(first.tokens, [-7, 30].map(Token));
            // The next start reads a set.
            let tokens = first.tokens.clone();
            let remembered =
                Remembered { generation: first.generation, tokens, ..Remembered::default() };
            let second = config(&given).resolve(host_id, &remembered, true, 1).expect("a node");
            assert_eq!(second.tokens, first.tokens);
        });
    }

    #[test]
    fn a_node_that_the_cluster_knows_neither_gets_tokens_nor_loses_them() {
        runtime::sim::test(1, || async {
            let host_id = Uuid::from_u128(9);
            let resolve = |joins_ring, tokens: &[Token], is_member| {
                let before = Remembered { tokens: tokens.to_vec(), ..Remembered::default() };
                let found = NodeConfig { joins_ring, ..config(&[Token(5)]) };
                found.resolve(host_id, &before, is_member, 1).map(|node| node.tokens)
            };
            assert_eq!(resolve(false, &[], false), Ok(Vec::new()));
            assert_eq!(resolve(false, &[], true), Ok(Vec::new()));
            // What was not let in yet may be started otherwise.
            assert_eq!(resolve(false, &[Token(7)], false), Ok(Vec::new()));
            assert_eq!(resolve(true, &[], false), Ok(vec![Token(5)]));
            assert_eq!(resolve(true, &[Token(7)], true), Ok(vec![Token(7)]));
            let refused = |it: Result<Vec<Token>, String>| it.expect_err("refused");
            assert!(refused(resolve(true, &[], true)).contains("join_ring=true"));
            assert!(refused(resolve(false, &[Token(7)], true)).contains("join_ring=false"));
        });
    }
}
